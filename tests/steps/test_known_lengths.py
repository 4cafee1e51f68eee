"""What is known of a loop before it runs is used by what stands behind it: how many rows it collects, and what constants give."""

import numpy as np
import pytest
from engines import ENGINES
from onnx import parser

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.backends.python import printer
from mdf_loop.options import start_run
from mdf_loop.readers.onnx.graph import read_model
from mdf_loop.step.build import type_of_value
from mdf_loop.step.lower import lower_graph

ROWS = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
SCAN = """h, ys = Scan <num_scan_inputs = 1, scan_output_axes = [{axis}],
    body = b (float[3] h, float[3] r) => (float[3] h2, float[3] o) {{ h2 = Add (h, r) o = Tanh (h2) }}> (start, x)"""
LOOP = """h, ys = Loop ({count}, {go}, start)
    <body = b (int64 i, bool c, float[3] h) => (bool {keeps}, float[3] h2, float[3] o)
    {{ r = Gather (x, i) h2 = Add (h, r) o = Tanh (h2) top = ReduceMax <keepdims = 0> (h2) small = Less (top, bound) }}>"""


def model(loop, behind, outputs):
    constants = "float[3] start = {0, 0, 0}, int64 five = {5}, bool yes = {1}, float bound = {9}, int64[2] places = {4, 1}"
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[5,3] x, bool given) => ({outputs}) <{constants}> {{ {loop} {behind} }}'
    )


def assert_as_interpreted(whole, **inputs):
    def found(engine):
        with options(engine=engine):
            prepared = backend.prepare(whole)
            return [prepared.run(inputs) for _ in range(2)]

    expected = found("interpret")[0]
    for engine in ENGINES:
        for results in found(engine):
            for a, b in zip(results, expected, strict=True):
                assert (a.dtype, np.shape(a)) == (b.dtype, np.shape(b)), engine
                np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=engine)


def lowered(whole, *values):
    return lower_graph(read_model(whole), [type_of_value(x) for x in values])


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_lengths_behind_a_scan_are_those_of_the_axis_that_rows_are_put_together_along(axis):
    behind = "s = Shape (ys) f = Softmax <axis = 1> (ys) t = Transpose <perm = [1, 0]> (ys)"
    whole = model(SCAN.format(axis=axis), behind, "int64[2] s, float[n, m] f, float[k, l] t")
    assert_as_interpreted(whole, x=ROWS, given=np.True_)
    shape, *_ = lowered(whole, ROWS, np.True_).results
    assert shape.op == "const"
    assert list(shape.attr) == ([5, 3] if axis in (0, -2) else [3, 5])


@pytest.mark.parametrize("go", ["yes", "given"])
@pytest.mark.parametrize("keeps", ["c", "small"])
def test_rows_are_counted_ahead_only_where_nothing_ends_the_loop(keeps, go):
    whole = model(LOOP.format(count="five", go=go, keeps=keeps), "f = Flatten <axis = 0> (ys)", "float[1, n] f")
    for bound in (np.True_, np.False_) if go == "given" else (np.True_,):
        assert_as_interpreted(whole, x=ROWS, given=bound)
        assert_as_interpreted(whole, x=ROWS + 4, given=bound)  # the third sum is above the bound
    (flat,) = lowered(whole, ROWS, np.True_).results
    assert flat.type.is_static == (keeps == "c")


def test_constants_that_are_added_or_multiplied_up_are_constants():
    """JAX's exporter computes shapes so."""
    behind = "s = Shape (x) n = ReduceProd <keepdims = 1> (s) m = ReduceSum <keepdims = 1> (s) z = Concat <axis = 0> (n, m)"
    whole = model("", f"{behind} f = Reshape (x, n)", "int64[2] z, float[15] f")
    assert_as_interpreted(whole, x=ROWS, given=np.True_)
    numbers, flat = lowered(whole, ROWS, np.True_).results
    assert numbers.op == "const"
    assert list(numbers.attr) == [15, 8]
    assert flat.op == "reshape"
    assert flat.type.shape == (15,)


def test_inner_loop_whose_condition_is_false_at_once_is_part_of_a_program():
    """It has had no iteration, and not too many of them."""
    inner = """k (int64 j, bool c, float[3] a) => (bool d, float[3] b)
        { b = Mul (a, a) m = ReduceMax <keepdims = 0> (b) d = Less (one, m) }"""
    outer = f"""h = Loop (five, yes, x) <body = b (int64 i, bool c, float[3] h) => (bool c, float[3] o)
        {{ m = ReduceMax <keepdims = 0> (h) big = Less (one, m) q = Loop (, big, h) <body = {inner}> o = Mul (q, half) }}>"""
    whole = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[3] x) => (float[3] h) '
        f"<int64 five = {{5}}, bool yes = {{1}}, float one = {{1}}, float half = {{0.5}}> {{ {outer} }}"
    )
    x = np.float32([0.9, 0.5, 0.1])
    assert_as_interpreted(whole, x=x)
    call, _ = printer.program(lowered(whole, x))
    np.testing.assert_array_equal(call(start_run(), x)[0], x * np.float32(0.5**5))


@pytest.mark.parametrize("engine", ENGINES)
def test_constants_that_make_a_list_stay_what_they_are(engine):
    """A list has no type of numbers: nothing is made of it before the loop runs, of rows of several lengths least of all."""
    body = """
    <ir_version: 8, opset_import: ["": 21]>
    b (int64 i, bool go, double[2] x) => (bool on, double[2] x2, double[k] y)
    <double[2] long = {1, 2}, double[1] short = {3}, int64 two = {2}> {
      on = Identity (go)  x2 = Add (x, long)
      list = SequenceConstruct (long, short)  place = Mod (i, two)  part = SequenceAt (list, place)
      one = ReduceSum <keepdims = 1> (part)  y = Add (one, short)
    }"""
    with options(engine=engine):
        for _ in range(3):
            x, y = mdf_loop.loop(40, True, np.zeros(2), body=parser.parse_model(body))
    np.testing.assert_array_equal(x, [40.0, 80.0])
    np.testing.assert_array_equal(y.ravel(), [6.0] * 40)
