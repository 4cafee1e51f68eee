"""``s[i - 1]`` is the last element in iteration 0: a run says so where nothing sees to the first iteration."""

import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning


@mdf_loop.body
def before(i, go, x, *, s):
    return go, x + s[i - 1]


WRAPPED = {
    "an equation": ("x: x + s[i - 1]", 1),
    "more before": ("x: x + s[i] - s[i - 2]", 2),
    "a let": ("let k: i - 1\nx: x + s[k]", 1),
    "another name": ("index: n\nx: x + s[n - 1]", 1),
    "a function": (before, 1),
}


@mdf_loop.body
def delayed(i, go, x, *, s, d):
    return go, x + s[i - d]


DELAYED = {
    "an equation": ("x: x + s[i - d]", 2, "i - d", -2),
    "a let": ("let k: i - d\nx: x + s[k]", 2, "i - d", -2),
    "several": ("x: x + sum(s[i - d])", np.array([1, 0, 3]), "i - d", -3),
    "more": ("x: x + s[i - 2 * d + 1]", 2, "i - 3", -3),
    "two constants": ("x: x + s[i - 5 + d]", 3, "i - 2", -2),
    "constants alone": ("x: x + s[i - 5 + 3] + 0 * d", 3, "i - 2", -2),
    "a function": (delayed, 2, "i - d", -2),
}


def said(body, engine="auto", **given):
    with mdf_loop.options(engine=engine), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mdf_loop.loop(4, True, x=0.0, body=body, **given)
    return [str(each.message) for each in caught if each.category is LoopWarning]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", WRAPPED)
def test_an_index_before_the_first_element_is_said(case, engine):
    body, back = WRAPPED[case]
    for _ in range(3):
        (message,) = said(body, engine, s=np.arange(5.0))
        number = "n" if "n - 1" in str(body) else "i"
        assert f"in iteration 0 the index {number} - {back} of s is -{back}, which counts from the end" in message
        assert f"write maximum({number} - {back}, 0) there, or where({number} >= {back}, ..., ...)" in message


def test_an_index_of_a_column_is_said_too():
    (message,) = said("x: x + s[0, i - 1]", s=np.ones((2, 5)))
    assert "the index i - 1 of s is -1" in message


@pytest.mark.parametrize(
    "body",
    [
        "x: x + s[-1 - i]",
        "x: x + s[i]",
        "x: x + s[i + 1]",
        "x: x + s[(i - 1) % 5]",
        "x: x + s[maximum(i - 1, 0)]",
        "x: x + where(i > 0, s[i - 1], 0.0)",
        "x: x + where(i, s[i - 1], 0.0)",
        "x: x + (i > 0) * s[i - 1]",
        "x: x + sum(s[i - 1:i + 1])",
        "x: x + s[-1]",
        "x: x + sum(s[i - numpy.array([0, 0])])",
        "x: x + s[poisson(i) % 5]",
        "x: x + s[5 // (i + 1) - 2]",
    ],
)
def test_what_sees_to_the_first_iteration_or_is_meant_is_not(body):
    assert not [each for each in said(body, s=np.arange(5.0)) if "counts from the end" in each]


MODEL = """
m:
  graphs:
    g:
      nodes:
        a:
          input_ports: {s: {default_value: [1.0, 2.0, 3.0]}}
          parameters:
            run: {function: "onnx::Loop", args: {M: 3, x: 0.0, body: b}}
            b: {value: {carried: {x: "x + s[i - 1]"}}}
          output_ports: {o: {value: run.x}}
"""


@pytest.mark.parametrize("index", ["i - 1", "i"])
@pytest.mark.parametrize("times", [2, 40])
def test_trials_sweeps_and_fits_say_it_once_each(tmp_path, index, times):
    path = tmp_path / "m.yaml"
    path.write_text(
        MODEL.replace("i - 1", index)
        .replace("x: 0.0, body", "x: w, body")
        .replace("b: {value", "w: {value: 1.0}\n            b: {value")
    )
    calls = {
        "trials": lambda: mdf_loop.run(path, trials=times),
        "sweep": lambda: mdf_loop.sweep(path, {"w": [0.5, 1.0]}, trials=times),
        "store": lambda: mdf_loop.sweep(path, {"w": [0.5, 1.0]}, trials=times, store=tmp_path / "s.zarr"),
        "fit": lambda: mdf_loop.fit(path, {"o": np.full(30, 7.0)}, {"w": (0.0, 2.0)}, seed=1),
    }
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LoopWarning)
            call()
        found = [text for each in caught if "counts from the end" in (text := str(each.message))]
        assert len(found) == (index == "i - 1"), (name, found)
        assert all("the index i - 1 of s is -1" in text for text in found)


def test_check_says_it_too(tmp_path):
    (tmp_path / "m.yaml").write_text(MODEL)
    (found,) = check(tmp_path / "m.yaml")
    assert (found.kind, found.line) == ("warning", 9)
    assert "the index i - 1 of s is -1" in found.message


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", DELAYED)
def test_a_delay_is_what_the_run_is_given(case, engine):
    body, d, index, first = DELAYED[case]
    for _ in range(2):
        (message,) = said(body, engine, s=np.arange(8.0), d=d)
        assert f"the index {index} of s" in message
        assert f" is {first}, which counts from the end" in message
        assert f"write maximum({index}, 0)" in message
        enough = {"two constants": 5}.get(case, 0)
        if case != "constants alone":
            assert said(body, engine, s=np.arange(8.0), d=enough * np.ones_like(d)) == []


def test_the_cure_of_a_delay_is_silent():
    s, d = np.arange(8.0), 2
    for body in ("x: x + s[maximum(i - d, 0)]", "x: x + where(i >= d, s[i - d], 0.0)", "x: x + s[(i - d) % len(s)]"):
        assert said(body, s=s, d=d) == []
