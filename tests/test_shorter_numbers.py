"""Half precision by way of float32, and the error function of float32: to the bit, and within two or three units."""

import math

import ml_dtypes
import numpy as np
import pytest

from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.numbers import wide
from mdf_loop.kernels.numbers.transcendental import BLOCK, error_function
from mdf_loop.kernels.numbers.wide import narrowed, widened
from mdf_loop.ops.registry import lookup

HALF = np.dtype(np.float16)
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def cases():
    """Every half, what lies between each two and beside that, numbers of all sizes, and infinity and nan among others."""
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(np.float32))
    middles = (finite[1:] + finite[:-1]) / 2
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 300_000, dtype=np.uint32).view(np.float32)
    sizes = (rng.standard_normal((40, 1000)) * 10.0 ** rng.integers(-9, 6, (40, 1))).astype(np.float32)
    yield from (
        finite,
        middles,
        np.nextafter(middles, np.float32(np.inf)),
        np.nextafter(middles, np.float32(-np.inf)),
        bits,
        sizes,
    )
    yield from (np.clip(sizes, -65519, 65519), np.zeros((20, 30), np.float32), sizes.T[::3, ::-1], -np.zeros(999, np.float32))


@pytest.mark.parametrize("part", [1 << 10, wide.PART])
def test_float32_is_rounded_to_half_precision_as_numpy_does(part, monkeypatch):
    monkeypatch.setattr(wide, "PART", part)
    for x in cases():
        with np.errstate(all="ignore"):
            expected, actual = x.astype(HALF), narrowed(x, HALF)
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
        kept = ~np.isnan(expected)
        np.testing.assert_array_equal(actual[kept].view(np.uint16), expected[kept].view(np.uint16))
        assert actual.shape == x.shape


def test_there_and_back_nothing_changes():
    finite = HALVES[~np.isnan(HALVES)]
    np.testing.assert_array_equal(narrowed(widened(finite), HALF).view(np.uint16), finite.view(np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_other_types_are_left_to_numpy(dtype):
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    np.testing.assert_array_equal(narrowed(x, np.dtype(dtype)), x.astype(dtype))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, BLOCK - 1, BLOCK, BLOCK + 1])
def test_the_error_function_is_right_within_a_few_units(count):
    x = np.concatenate([np.linspace(-4.5, 4.5, count, dtype=np.float32), np.logspace(-38, 38, count, dtype=np.float32)])
    actual, exact = error_function(x), np.array([math.erf(value) for value in x.tolist()])
    assert actual.dtype == np.float32
    assert np.all(np.abs(actual - exact) <= 2.5 * np.spacing(np.abs(exact).astype(np.float32)))
    assert np.all(np.abs(actual) <= 1)


def test_the_error_function_where_numbers_end():
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45] * 10, np.float32)
    with np.errstate(all="ignore"):
        found = error_function(ends.reshape(8, 10)).reshape(-1)
    np.testing.assert_array_equal(found[:7], np.array([0.0, -0.0, 1, -1, np.nan, 1, -1], np.float32))
    assert math.copysign(1, found[1]) == -1


@pytest.mark.parametrize("op", ["Erf", "Gelu"])
def test_other_layouts_give_the_same(op):
    x = np.linspace(-6, 6, 60_000, dtype=np.float32).reshape(200, 300)
    load_kernels()
    run = lookup(op, 22).run
    np.testing.assert_array_equal(run(x.T), run(np.ascontiguousarray(x.T)))
    np.testing.assert_array_equal(run(x[::-2, 3:-5]), run(x)[::-2, 3:-5])


def test_without_scipy_it_is_the_error_function_of_math(monkeypatch):
    import sys

    from mdf_loop.kernels.numbers.transcendental import exact_error_function

    monkeypatch.setitem(sys.modules, "scipy.special", None)
    exact_error_function.cache_clear()
    try:
        assert error_function(np.array([0.5, -1.0])).tolist() == [math.erf(0.5), math.erf(-1.0)]
    finally:
        exact_error_function.cache_clear()
