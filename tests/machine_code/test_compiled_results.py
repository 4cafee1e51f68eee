"""What loops in machine code collect stands where it stays from the beginning on: no second copy, and nothing else changes."""

import tracemalloc

import numpy as np
import onnx.parser
import pytest

pytest.importorskip("llvmlite")

import mdf_loop
from mdf_loop import backend, options

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
model (int64 n, double[3] x, double z) => ({outputs}) <bool yes = {{1}}, double half = {{0.5}}>
{{
  last, rows, numbers = Loop (n, yes, x) <body = body (int64 i, bool go, double[3] a)
    => (bool on, double[3] b, double[3] r, double s) {{
    on = Identity (go)
    b = Mul (a, half)
    r = Add (b, z)
    {guard}
  }}>
  {behind}
}}
"""
SUM = "s = ReduceSum <keepdims = 0> (r)"

CASES = {
    "two": ("double[3] last, double[k, 3] rows, double[k] numbers", SUM, ""),
    "the same twice": ("double[k, 3] one, double[k, 3] rows", SUM, "one = Identity (rows)"),
    "also read behind": ("double[k, 3] rows, double[3] total", SUM, "total = ReduceSum <keepdims = 0> (rows, zero)"),
    "only read behind": ("double[3] total", SUM, "total = ReduceSum <keepdims = 0> (rows, zero)"),
    "turned": ("double[3, k] turned, double[k, 3] rows", SUM, "turned = Transpose (rows)"),
    "guarded": ("double[k, 3] rows, double[k] numbers", "s = Gather (r, i)", ""),
}


def model(name):
    outputs, guard, behind = CASES[name]
    text = MODEL.format(outputs=outputs, guard=guard, behind=behind)
    if "zero" in behind:
        text = text.replace("double half = {0.5}", "double half = {0.5}, int64[1] zero = {0}")
    return backend.prepare(onnx.parser.parse_model(text))


@pytest.mark.parametrize("count", [1, 3, 500])
@pytest.mark.parametrize("name", CASES)
def test_collected_rows_are_those_of_the_interpreter(name, count):
    prepared, given = model(name), {"n": np.array(count), "x": np.array([1.0, -2.0, 3.0]), "z": np.array(0.25)}

    def found(engine):
        with options(engine=engine):
            try:
                return prepared.run(given)
            except mdf_loop.errors.IterationError as error:  # Gather beyond the end, where the interpreter says what is wrong
                return [str(error), *error.partial]

    expected, first, second = found("interpret"), found("jit"), found("jit")
    for each in (first, second):
        assert len(each) == len(expected)
        for x, y in zip(each, expected, strict=True):
            np.testing.assert_array_equal(x, y)
    arrays = [x for x in (*first, *second) if isinstance(x, np.ndarray)]
    assert not any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


BODY = """
body (int64 i, bool go, double x) => (bool go, double next, double y) {
  k = Constant <value_float = 0.999> ()
  factor = CastLike (k, x)
  next = Mul (x, factor)
  y = Add (next, factor)
}
"""


def test_results_take_their_own_memory_and_no_more():
    run = mdf_loop.compile(BODY)
    with options(engine="jit"):
        run(1000, True, np.float64(1.0))
        tracemalloc.start()
        try:
            _, rows = run(1_000_000, True, np.float64(1.0))
            assert tracemalloc.get_traced_memory()[1] < 1.1 * rows.nbytes
        finally:
            tracemalloc.stop()
    assert "one program in machine code" in run.explain()
