"""Products of small numbers: exact for whole ones, added up in float32 for half precision."""

import ml_dtypes
import numpy as np
import pytest
from node_cases import assert_same

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup

load_kernels()


def whole(rng, shape, dtype, most):
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -most), min(limits.max, most), shape, dtype, endpoint=True)


def python_product(a, b):
    """The product of matrices in Python's own numbers."""
    return np.array(a.astype(object) @ b.astype(object))


def wrapped(values, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    return np.array([[int(v) & (2**bits - 1) for v in row] for row in values], np.uint64).astype(dtype)


@pytest.mark.parametrize("most", [9, 1 << 10, 1 << 20, 1 << 31, 1 << 62])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_whole_numbers_wrap_around_and_lose_nothing(dtype, most):
    rng = np.random.default_rng(most % 997)
    a, b = whole(rng, (20, 300), dtype, most), whole(rng, (300, 10), dtype, most)
    a[0, :3], b[:2, 0] = np.iinfo(dtype).max, np.iinfo(dtype).min
    for left in (a, a[:2]):
        np.testing.assert_array_equal(lookup("MatMul", 13).run(left, b), wrapped(python_product(left, b), dtype))
        np.testing.assert_array_equal(lookup("Gemm", 13).run(left, b), wrapped(python_product(left, b), dtype))


@pytest.mark.parametrize("terms", [1, 257, 259, 1030, 3000])
@pytest.mark.parametrize("zeros", [(0, -128), (255, 127), (120, 3), (None, None), ("rows", "columns")])
def test_sums_of_bytes_are_exact(terms, zeros):
    a, b = np.full((3, terms), 255, np.uint8), np.full((terms, 2), 127, np.int8)
    a[1], b[:, 1] = np.arange(terms) % 256, -128
    if zeros[0] == "rows":
        given = [np.array([0, 255, 7], np.uint8), np.array([-128, 127], np.int8)]
    else:
        given = [None if z is None else np.array(z, t) for z, t in zip(zeros, (np.uint8, np.int8), strict=True)]
    left = a.astype(object) - (0 if given[0] is None else given[0].astype(object).reshape(-1, 1))
    right = b.astype(object) - (0 if given[1] is None else given[1].astype(object))
    found = lookup("MatMulInteger", 10).run(a, b, *given)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, (left @ right).astype(np.int64))


@pytest.mark.parametrize("channels", [1, 40, 200])
@pytest.mark.parametrize("group", [1, 2])
def test_convolutions_of_bytes_are_exact(channels, group):
    x, w = np.full((2, channels * group, 5, 4), 255, np.uint8), np.full((2, channels, 3, 2), -128, np.int8)
    x[0, ::3, 1], w[1, :, 0] = 7, 127
    attrs = {"group": group, "pads": (1, 0, 1, 1)}
    found = lookup("ConvInteger", 10).run(x, w, np.array(3, np.uint8), np.array(2, np.int8), **attrs)
    wide = lookup("Conv", 11).run(x.astype(np.float64) - 3, w.astype(np.float64) - 2, **attrs)
    np.testing.assert_array_equal(found, wide.astype(np.int64))
    one, zero = np.float32(1), np.uint8(0)
    given = [x, one, np.uint8(3), w, one, np.int8(2), np.float32(1000), zero, np.array([5, -7], np.int32)]
    found = lookup("QLinearConv", 10).run(*map(np.asarray, given), **attrs)
    wanted = np.clip(np.rint((wide + np.array([[[5]], [[-7]]])) / 1000), 0, 255)
    assert np.abs(found.astype(float) - wanted).max() <= 1
    assert (found == wanted).mean() > 0.99


def test_a_filter_with_more_elements_than_float32_adds_up_exactly():
    x, w = np.full((1, 2, 30, 31), 255, np.uint8), np.full((3, 2, 29, 30), 255, np.uint8)
    x[0, 0, ::2], w[1, :, :, ::3] = 254, 253
    found = lookup("ConvInteger", 10).run(x, w)
    np.testing.assert_array_equal(found, lookup("Conv", 11).run(x.astype(np.float64), w.astype(np.float64)).astype(np.int64))


def test_large_results_are_quantised_row_by_row():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 255, (700, 30), np.uint8), rng.integers(-128, 127, (30, 500), np.int8)
    scale, zeros = rng.uniform(0.01, 0.02, 700).astype(np.float32), rng.integers(0, 255, 700, np.uint8)
    given = [a, scale, zeros, b, np.float32(0.5), np.int8(3), np.float32(2), np.uint8(100)]
    found = lookup("QLinearMatMul", 10).run(*map(np.asarray, given))
    product = (a.astype(np.int64) - zeros[:, None]) @ (b.astype(np.int64) - 3)
    ratio = scale[:, None] * np.float32(0.5) / np.float32(2)
    np.testing.assert_array_equal(found, np.clip(np.rint(product * ratio.astype(float)) + 100, 0, 255))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Einsum"])
def test_half_precision_is_added_up_in_float32(op, dtype):
    terms = 5000  # far more than either type can count to
    a, b = np.ones((2, terms), dtype), np.full((terms, 3), 0.5, dtype)
    attrs = {"equation": "ij,jk->ik"} if op == "Einsum" else {}
    found = lookup(op, 13).run(a, b, **attrs)
    assert_same(found, np.full((2, 3), terms / 2).astype(dtype), 0, 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gemm_in_half_precision_is_rounded_once(dtype):
    a, b = np.array([[200.0, 300.0]], dtype), np.array([[300.0], [200.0]], dtype)
    found = lookup("Gemm", 13).run(a, b, np.array([-100.0], dtype), alpha=0.5, beta=2.0)  # 120000 does not fit into float16
    assert_same(found, np.array([[200 * 300 - 200]]).astype(dtype), 0, 0)
