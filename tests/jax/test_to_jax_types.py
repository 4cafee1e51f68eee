"""``to_jax``: whole numbers of 64 bits, numbers that become arrays, models of OpenVINO."""

import numpy as np
import onnx.parser
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError, LoopWarning, UnsupportedOp

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')

pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


def test_whole_numbers_of_64_bits_are_not_cut_in_silence():
    body = "b (int64 i, bool c, int64 n) => (bool c, int64 m) { m = Add (n, k) }"
    jax.config.update("jax_enable_x64", False)
    try:
        add = mdf_loop.to_jax(body)
        for n, k in ((1 << 31, 1), (0, -(1 << 31) - 1)):
            with pytest.raises(ArgumentError, match=r"has the whole number .*jax_enable_x64"):
                add(M=3, cond=True, n=np.array([n, 0]), k=np.array([k, 0]))
        assert np.asarray(add(M=3, cond=True, n=np.array([5, 1]), k=np.array([7, -(1 << 30)]))["m"])[0] == 26
    finally:
        jax.config.update("jax_enable_x64", True)


def test_a_model_of_openvino_gives_what_it_gives_interpreted(rng):
    path = "tests/models/ov_loop.xml"
    given = {
        name: rng.normal(size=port.type.shape).astype(port.type.dtype) for name, port in mdf_loop.prepare(path).inputs.items()
    }
    want, found = mdf_loop.run(path, **given), mdf_loop.to_jax(path)(**given)
    for name in want:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-5)


GROWS_IN_SCAN = """<ir_version: 8, opset_import: ["": 18]>
g (float s, float[n, 3] rows) => (float[m] t) {
  t = Scan <num_scan_inputs = 1, body = b (float a, float[3] row) => (float[3] c) { c = Add (a, row) }> (s, rows) }"""


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_number_that_a_scan_without_rows_leaves_is_no_array(count):
    model, given = onnx.parser.parse_model(GROWS_IN_SCAN), {"s": np.float32(1), "rows": np.ones((count, 3), np.float32)}
    expected = mdf_loop.run(model, **given)["t"]
    if count:
        np.testing.assert_array_equal(mdf_loop.to_jax(model)(**given)["t"], expected)
        return
    with pytest.raises(UnsupportedOp, match="a number becomes an array if there is an iteration"):
        mdf_loop.to_jax(model)(**given)
    with mdf_loop.options(engine="jax"), pytest.warns(LoopWarning, match="not by JAX"):
        assert np.shape(mdf_loop.run(model, **given)["t"]) == np.shape(expected) == ()


SHRINKS = """<ir_version: 8, opset_import: ["": 18]>
g (float[n] x) => (float[m] y) <int64 no_limit = {9223372036854775807}, bool true = {1}> {
  y = Loop <body = b (int64 i, bool c, float[p] x) => (bool go, float[q] y)
    <int64 two = {2}, int64[1] none = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64[1] no_end = {9223372036854775807}> {
    front = Slice (x, none, last, none)
    back = Slice (x, one, no_end, none)
    y = Add (front, back)
    size = Size (y)
    go = Greater (size, two)
  }> (no_limit, true, x) }"""


def test_an_open_end_of_a_slice_needs_no_64_bits():
    """As PyTorch exports ``x[1:]``: a loop that JAX has no form for said to turn on 64 bits, and had no form then either."""
    jax.config.update("jax_enable_x64", False)
    try:
        with mdf_loop.options(engine="jax"), pytest.warns(LoopWarning, match="not by JAX: .*lengths that stay the same"):
            found = mdf_loop.run(onnx.parser.parse_model(SHRINKS), x=np.arange(6, dtype=np.float32))["y"]
    finally:
        jax.config.update("jax_enable_x64", True)
    np.testing.assert_array_equal(found, [32.0, 48.0])
