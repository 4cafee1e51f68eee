"""A carried value that silently gets another shape is warned of; values that are meant to grow are not."""

import contextlib
import json
import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError, LoopWarning

F = 0.9 * np.eye(2)

ODD = {
    "an outer product": ("m: F * m", {"m": np.ones(2), "F": F}, "line 1: m has shape [2] at first and becomes [2, 2]"),
    "a sum": ("k: k + 1\nm: m + k * w", {"k": 0, "m": np.ones(1), "w": np.ones(3)}, "line 2: m has shape [1] at first"),
    "noise": ("m: 0.5 * m + noise(w)", {"m": np.ones(1), "w": np.ones(3)}, "m has shape [1] at first and becomes [3]"),
    "a number": ("m: m @ w * w[0]", {"m": np.ones(2), "w": np.ones(2)}, "m has shape [2] at first and becomes []"),
    "rows": ("m: m * w", {"m": np.ones((1, 2)), "w": np.ones((4, 2))}, "m has shape [1, 2] at first and becomes [4, 2]"),
}  # fmt: skip

MEANT = {
    "a product": ("m: F @ m", {"m": np.ones(2), "F": F}),
    "a list": ("m: concatenate([m, [1.0]])", {"m": np.ones(1)}),
    "a window": ("m: concatenate([m, [1.0]])[-3:]", {"m": np.ones(1)}),
    "a number that becomes an array": ("m: m + w", {"m": 0.0, "w": np.ones(3)}),
    "a list that began empty": ("m: concatenate([m, [1.0]])", {"m": np.zeros(0)}),
}


def run_by(engine, body, n, **values):
    """What a loop warns of, whatever becomes of it."""
    with warnings.catch_warnings(record=True) as told, mdf_loop.options(engine=engine, seed=1):
        warnings.simplefilter("always")
        with contextlib.suppress(LoopError):
            mdf_loop.loop(n, True, body=body, **values)
    return [str(each.message) for each in told if "at first" in str(each.message)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("n", [1, 2, 500])
def test_another_shape_is_warned_of_once_with_its_equation(engine, name, n):
    body, values, message = ODD[name]
    (told,) = run_by(engine, body, n, **values)
    assert told.startswith("iteration 0 of Loop: equations/line ")
    assert message in told
    assert "@ (the product of matrices)" in told


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MEANT)
@pytest.mark.parametrize("n", [1, 2, 500])
def test_values_that_are_meant_to_grow_are_not(engine, name, n):
    body, values = MEANT[name]
    assert run_by(engine, body, n, **values) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("body", ["x: x + s", "x: 0.9 * x + 0.1 * s", "let d: s - x\nx: x + d * w"])
@pytest.mark.parametrize("n", [2, 500])
def test_a_number_that_gets_all_elements_of_a_series_is_warned_of(engine, body, n):
    (told,) = run_by(engine, body, n, x=0.0, s=np.ones(n), **({"w": 0.5} if "w" in body else {}))
    assert f"x has shape [] at first and becomes [{n}]; s has as many elements as there are iterations" in told
    assert told.endswith("for the one of an iteration write s[i]")
    assert run_by(engine, body.replace("s", "s[i]"), n, x=0.0, s=np.ones(n), **({"w": 0.5} if "w" in body else {})) == []


GROWING = {
    "a pair": ("m: [m, m]", {"m": 1.0}, "m has shape [] at first, then [2] and [2, 2, 2]"),
    "a list of a number": ("m: concatenate([ravel(m), [1.0]])", {"m": 1.0}, "m has shape [] at first, then [2] and [4]"),
    "twice as many": ("m: concatenate([m, m])", {"m": np.ones(2)}, "m has shape [2] at first, then [4] and [16]"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GROWING)
def test_a_value_that_grows_by_more_than_a_list_does_is_warned_of(engine, name):
    body, values, message = GROWING[name]
    (told,) = run_by(engine, body, 3, **values)
    assert told.startswith(f"iterations 0 to 2 of Loop: equations/line 1: {message}; most carried values keep their shape")
    assert "kept by collecting it" in told


FUNCTIONS = {
    "a pair": (lambda i, go, x: (True, np.stack([x, x])), 1.0, "x has shape [] at first, then [2] and [2, 2, 2]"),
    "a list": (lambda i, go, x: (True, np.append(x, i)), 1.0, "x has shape [] at first, then [2] and [4]"),
    "axes": (lambda i, go, x: (True, F * x), np.ones(2), "iteration 0 of Loop: x has shape [2] at first and becomes [2, 2]"),
    "rows": (
        lambda i, go, x: (True, np.ones(3) * x),
        np.ones(1),
        "iteration 0 of Loop: x has shape [1] at first and becomes [3]",
    ),
    "in the place of an array": (
        lambda i, go, x: (True, [x[0], x[1]]),
        np.ones(2),
        "x begins as an array and becomes a list of 2",
    ),
    "in the place of a number": (lambda i, go, x: (True, [x, x]), 1.0, "x begins as an array and becomes a list of 2"),
}
GROW_AS_MEANT = {
    "a list": (lambda i, go, x: (True, np.append(x, i)), np.ones(1)),
    "a list that began empty": (lambda i, go, x: (True, np.append(x, i)), []),
    "arrays in a list": (lambda i, go, x: (True, [*x, np.ones(i)]), [np.ones(2)]),
    "a number that becomes an array": (lambda i, go, x: (True, x + np.ones(3)), 1.0),
    "a queue": (lambda i, go, x: (True, x[1:]), np.ones(9)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_called_are_looked_at_too(name):
    body, x, message = FUNCTIONS[name]
    with pytest.warns(LoopWarning) as told:
        mdf_loop.loop(3, True, x, body=body)
    assert [message in str(each.message) for each in told] == [True]


@pytest.mark.parametrize("name", GROW_AS_MEANT)
def test_functions_whose_values_are_meant_to_grow_are_not(name):
    body, x = GROW_AS_MEANT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mdf_loop.loop(3, True, x, body=body)


def test_bodies_of_onnx_declare_what_they_mean():
    text = "b (int64 i, bool go, double[n] x) => (bool go, double[n] y) { y = Add (x, w) }"
    assert run_by("interpret", text, 3, x=np.ones(1), w=np.ones(3)) == []


def test_a_function_is_named_with_its_line():
    @mdf_loop.body
    def steps(i, go, m, *, F):
        return go, F * m

    with pytest.warns(LoopWarning, match=r"test_new_shapes.*m has shape \[2\] at first and becomes \[2, 2\]"):
        mdf_loop.loop(3, True, np.ones(2), body=steps, F=F)


def test_a_loop_that_fails_of_it_says_so_first():
    with pytest.warns(LoopWarning, match=r"m has shape \[2\] at first and becomes \[2, 2\]"), pytest.raises(LoopError):
        mdf_loop.loop(3, True, body="m: F * m\nx: x + m[i]", m=np.ones(2), x=np.ones(2), F=F)


@pytest.mark.parametrize("count", [3, 100_000])
def test_check_warns_of_it(tmp_path, count):
    node = {"parameters": {"body": {"value": {"carried": {"m": "F * m"}}}, "F": {"value": F.tolist()}}}
    node["parameters"]["run"] = {"function": "onnx::Loop", "args": {"M": count, "m": [1.0, 2.0], "body": "body"}}
    node["output_ports"] = {"o": {"value": "run"}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}))
    (finding,) = check(path)
    assert "m has shape [2] at first and becomes [2, 2]" in str(finding)
    node["parameters"]["body"]["value"]["carried"]["m"] = "0 * F[0, 0] + concatenate([m, m])"
    node["parameters"]["run"]["args"]["M"] = 3
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}))
    (finding,) = check(path)
    assert "m has shape [2] at first, then [4] and [16]" in str(finding)
