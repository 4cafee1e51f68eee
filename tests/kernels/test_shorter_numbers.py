"""The error function of float32, within two or three units."""

import math

import numpy as np
import pytest

from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.numbers.transcendental import BLOCK, error_function
from mdf_loop.ops.registry import lookup

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # numbers of 16 bits


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
