"""The sine by the tangent of half the angle, next to one of more digits."""

import numpy as np
import pytest

from mdf_loop.kernels.numbers import transcendental as module
from mdf_loop.kernels.numbers.transcendental import LEAST, by_tangent, sine, sine_into

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.pi, -np.pi / 2, 1e308, -1e-308, 1e22])


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e-3, 1.0, 30.0, 3e4, 1e9, 1e300])
def test_sine_is_right_within_two_and_a_half_units_in_the_last_place(scale, rng):
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        pytest.skip("long double has no more digits than float64 here")
    x = rng.standard_normal(10000) * scale
    right = np.sin(x.astype(np.longdouble))
    for found in (by_tangent(x, np.empty_like(x)), sine(x)):
        units = np.abs(found - right) / np.spacing(np.abs(right.astype(np.float64)))
        assert units.max() < 2.5


def test_special_values_are_those_of_numpy():
    x = np.resize(SPECIAL, 1000)
    with np.errstate(invalid="ignore"):
        found, right = by_tangent(x, np.empty_like(x)), np.sin(x)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(right))
    np.testing.assert_allclose(found, right, rtol=1e-15, atol=0)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("shape", [(), (3,), (0, 5), (LEAST,), (40, 30)])
def test_both_ways_keep_shape_type_and_what_they_are_given(fast, dtype, shape, monkeypatch, rng):
    monkeypatch.setattr(module, "FAST", fast)
    x = np.asarray(rng.standard_normal(shape), dtype)
    before, found = x.copy(), sine(x)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    np.testing.assert_allclose(found, np.sin(x), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(x, before)
    if shape:
        sine_into(x, x)
        np.testing.assert_array_equal(x, found)


def test_sine_of_a_transposed_array_and_of_a_slice(rng):
    x = rng.standard_normal((60, 80))
    np.testing.assert_allclose(sine(x.T), np.sin(x.T), rtol=1e-15)
    np.testing.assert_allclose(sine(x[::2, 1:]), np.sin(x[::2, 1:]), rtol=1e-15)
