"""Inverses, determinants and linear equations: machine code gives what LAPACK gives, and the same errors."""

import itertools
import json
import re

import numpy as np
import pytest
from converting import by_onnxruntime
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import LoopError, UnsupportedOp
from mdf_loop.execute.programs import watched_programs
from mdf_loop.kernels.definitions import mdf_matrices
from mdf_loop.ops.rows import FUNCTIONS

RNG = np.random.default_rng(7)

TEXTS = {"inv": "inv(A[i])", "det": "det(A[i])", "solve": "solve(A[i], v)", "solve of columns": "solve(A[i], B)"}
"""Each function by an expression."""


def drawn(n, dtype, count=12):
    """Matrices that are regular, some of which need other rows first."""
    found = (RNG.normal(size=(count, n, n)) + 3 * np.eye(n)[RNG.permutation(n)]) * (1 if np.dtype(dtype).kind == "f" else 1e4)
    return found.astype(dtype)


def looped(text, engine, count, **values):
    """What an expression gives in each iteration, and whether all of it was machine code."""
    read = {name: value for name, value in values.items() if re.search(rf"\b{name}\b", text)}
    with mdf_loop.options(engine=engine), watched_programs() as programs:
        found = mdf_loop.loop(count, True, 0.0, body=f"x: x + 1\ncollect y: {text}", **read)[1]
    return found, bool(programs) and all(each.latest is not None and each.latest.is_alone for each in programs)


def test_every_definition_is_tried():
    ours = {op for op, made in FUNCTIONS.items() if made.__module__ == mdf_matrices.__name__}
    assert ours == {f"numpy.linalg.{name.partition(' ')[0]}" for name in TEXTS}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_machine_code_gives_what_lapack_gives(name, dtype):
    pytest.importorskip("llvmlite")
    for n in (1, 2, 3, 5, 17, mdf_matrices.LARGEST):
        A = drawn(n, dtype)
        values = {"A": A, "v": RNG.normal(size=n).astype(dtype), "B": RNG.normal(size=(n, 3)).astype(dtype)}
        expected, _ = looped(TEXTS[name], "interpret", len(A), **values)
        found, is_compiled = looped(TEXTS[name], "jit", len(A), **values)
        assert is_compiled
        assert found.dtype == expected.dtype
        far = np.finfo(found.dtype).eps * 10 * n * np.linalg.cond(A.astype(float)).max()
        np.testing.assert_allclose(found, expected, rtol=far, atol=far * abs(expected).max())


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_exchanged_as_often_as_it_takes(engine):
    A = np.array([np.eye(4)[list(order)] * [1, 2, 4, 8] for order in itertools.permutations(range(4))])
    np.testing.assert_allclose(looped("det(A[i])", engine, len(A), A=A)[0], np.linalg.det(A), rtol=1e-14)
    np.testing.assert_array_equal(looped("inv(A[i])", engine, len(A), A=A)[0], np.linalg.inv(A))


SINGULAR = {
    "zero": np.zeros((2, 2)),
    "multiples": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "a column of zeros": np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 1.0], [1.0, 0.0, 1.0]]),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SINGULAR)
def test_a_singular_matrix_is_an_error_with_its_iteration(engine, name):
    bad = SINGULAR[name]
    A = np.array([np.eye(len(bad)) * (k + 1) for k in range(60)])
    A[37] = bad
    for text in ("inv(A[i])", "solve(A[i], A[0])"):
        with pytest.raises(LoopError, match=re.compile("iteration 37.*Singular matrix", re.DOTALL)) as found:
            looped(text, engine, 60, A=A)
        assert f"numpy.linalg.{text.partition('(')[0]}" in str(found.value)
    assert looped("det(A[i])", engine, 60, A=A)[0][37] == 0


NEARLY = {
    "rounding": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
    "tenths": np.array([[0.1, 0.2], [0.3, 0.6]]),
    "nan": np.array([[np.nan, 1.0], [2.0, 3.0]]),
    "infinity": np.array([[np.inf, 1.0], [2.0, 3.0]]),
}


@pytest.mark.parametrize("name", NEARLY)
@pytest.mark.parametrize("text", ["inv(A)", "det(A)", "solve(A, A[0])"])
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_clearly_regular_is_lapacks(name, text):
    found = []
    for engine in ENGINES:
        try:
            found.append(looped(text, engine, 60, A=NEARLY[name])[0])
        except LoopError as error:
            found.append(str(error))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_columns_of_very_different_sizes_are_regular(engine):
    A = np.diag([1e200, 1e-250, 1e200, 1e-100, 1.0])[None]
    np.testing.assert_allclose(looped("det(A[i])", engine, 1, A=A)[0], 1e50, rtol=1e-12)
    np.testing.assert_allclose(looped("inv(A[i])", engine, 1, A=A)[0], np.linalg.inv(A), rtol=1e-14)


@pytest.mark.parametrize("engine", ENGINES)
def test_other_types_are_the_kernels(engine):
    stack, large = drawn(3, float, 4)[None], drawn(mdf_matrices.LARGEST + 1, float, 1)
    np.testing.assert_array_equal(looped("inv(A[i])", engine, 1, A=stack)[0], np.linalg.inv(stack))
    np.testing.assert_array_equal(looped("inv(A[i])", engine, 1, A=large)[0], np.linalg.inv(large))
    for A, said in ((drawn(2, np.float16), "float16 is unsupported in linalg"), (np.ones((1, 2, 3)), "must be square")):
        with pytest.raises(LoopError, match=said):
            looped("inv(A[i])", engine, 1, A=A)


def test_a_kernel_of_the_user_that_inverts_is_machine_code():
    pytest.importorskip("llvmlite")
    from mdf_loop.ops.registry import KERNELS

    @mdf_loop.kernel("Whitened", domain="my.matrices")
    def whitened(x, A):
        return 1 + np.linalg.solve(A, x) / np.sqrt(np.linalg.det(A))

    head = '<ir_version: 10, opset_import: ["": 18, "my.matrices": 1]>'
    text = f"{head} b (int64 i, bool go, double[3] x, double[3,3] A) => (bool go, double[3] y, double[3,3] A)"
    text = f"{text} {{ y = my.matrices.Whitened (x, A) }}"
    A, found = 4 * np.eye(3) + np.ones((3, 3)), {}
    try:
        for engine in ("interpret", "jit"):
            with mdf_loop.options(engine=engine), watched_programs() as programs:
                found[engine] = mdf_loop.loop(60, True, np.arange(3.0), A, body=text)[0]
    finally:
        del KERNELS["my.matrices", "Whitened"]
    assert [p.latest.is_alone for p in programs] == [True]
    np.testing.assert_allclose(found["jit"], found["interpret"], rtol=1e-12)


def written(folder, A, carried, **args):
    """A model with a matrix of declared shape as its input, and what it is in ONNX."""
    matrix = {"type": "float", "default_value": A.tolist(), "shape": list(A.shape)}
    node = {"input_ports": {"A": matrix}, "output_ports": {"o": {"value": "run.x"}}}
    node["parameters"] = {"body": {"value": {"carried": carried}}}
    node["parameters"]["run"] = {"function": "onnx::Loop", "args": {"M": 3, **args, "body": "body"}}
    path = folder / "m.json"
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}))
    return path, mdf_loop.to_onnx(path)


def test_matrices_of_known_size_are_written_to_onnx_and_others_are_named(tmp_path):
    A, P = drawn(3, float, 2)
    carried = {"x": "inv(A + P) @ x + det(P) + solve(P, x)", "P": "P + A @ P.T"}
    path, model = written(tmp_path, A, carried, x=[1.0, 2.0, 3.0], P=P.tolist())
    (found,) = by_onnxruntime(model, {"A": A}).values()
    np.testing.assert_allclose(found, mdf_loop.run(path)["o"], rtol=1e-9)
    large = np.eye(mdf_matrices.LARGEST + 1)
    with pytest.raises(UnsupportedOp, match=r"g/n\.run/P_next: numpy\.linalg\.inv has no ONNX operator: not one square matrix"):
        written(tmp_path, large, {"x": "x + 1", "P": "P @ inv(A + P) @ P.T"}, x=0.0, P=large.tolist())


@pytest.mark.usefixtures("in_64_bits")
def test_jax_inverts_by_its_own_function():
    A = drawn(3, float, 1)[0]
    body = "x: inv(A) @ x * 0.5 + det(A) * 0.01 + solve(A, x)"
    with mdf_loop.options(engine="interpret"):
        expected = mdf_loop.loop(5, True, np.ones(3), body=body, A=A)
    with mdf_loop.options(engine="jax"):
        found = mdf_loop.loop(5, True, np.ones(3), body=body, A=A)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_what_keeps_a_matrix_from_machine_code_is_said():
    pytest.importorskip("llvmlite")
    loop = mdf_loop.compile("x: 0.5 * x + inv(A + x)[0, 0, 0]")
    with mdf_loop.options(engine="jit"):
        loop(60, True, x=0.1, A=drawn(3, float, 4))
    assert re.search(r"numpy\.linalg\.inv \(.*: not one square matrix of known size, up to 32 x 32", loop.explain())
