"""Kernels that take a shorter way for some inputs: it gives what the long way, or numpy's definition, gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.numbers.arithmetic_operators import LONG
from mdf_loop.ops.registry import lookup

load_kernels()

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@st.composite
def divisions(draw):
    """Numbers of the whole range of a type, and divisors of a shape that broadcasts with them."""
    dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from([(LONG,), (3, LONG), (1, LONG), (LONG, 3), (2, 2, LONG // 2), (LONG - 1,)]))
    a = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    a.flat[:4] = limits.min, limits.max, 0, 1
    fitting = {(LONG, 3): [(3,), (LONG, 1)], (3, LONG): [(3, 1)], (2, 2, LONG // 2): [(2, 1), (2, 2, 1)]}.get(shape, [(5, 1)])
    divisors = draw(st.sampled_from([(), (1,), (1, 1), (1, 1, 1, 1), shape, shape[-1:], *fitting]))
    small = rng.integers(max(limits.min, -3), 4, divisors, dtype)
    b = draw(st.sampled_from([small, rng.integers(limits.min, limits.max, divisors, dtype, endpoint=True), small | 1]))
    b = np.asarray(b, dtype)
    if draw(st.booleans()):
        b.flat[draw(st.integers(0, b.size - 1))] = draw(st.sampled_from([0, limits.min, limits.max, max(limits.min, -1)]))
    return a, b


@settings(deadline=None, max_examples=400)
@given(divisions())
def test_mod_is_numpys_remainder_over_the_whole_range(division):
    a, b = division
    with np.errstate(all="ignore"):
        same(lookup("Mod", 13).run(a, b), np.remainder(a, b))
        same(lookup("Mod", 13).run(a.T, b.reshape(-1)[:1]), np.remainder(a.T, b.reshape(-1)[:1]))


def test_mod_of_shapes_that_do_not_fit_is_refused_as_by_numpy():
    with pytest.raises(ValueError, match="broadcast"):
        lookup("Mod", 13).run(np.zeros((3, LONG), np.int64), np.ones((2, 1), np.int64))


@settings(deadline=None)
@given(
    st.lists(st.integers(-7, 7), max_size=12),
    st.integers(1, 6),
    st.sampled_from([np.array([0, 1], np.float32), np.array([-0.0, np.nan]), np.array(["off", "on"], object)]),
    st.sampled_from([9, 11]),
    st.sampled_from([-1, 0, 1]),
)
def test_one_hot_marks_each_place_as_its_definition_says(indices, depth, values, opset, axis):
    indices = np.array(indices, np.int64)
    found = lookup("OneHot", opset).run(indices, np.array(depth), values, axis=axis)
    expected = np.empty((len(indices), depth), values.dtype)
    for row, index in zip(expected, indices.tolist(), strict=True):
        for place in range(depth):
            row[place] = values[int(place == index or (opset >= 11 and index < 0 and place == index + depth))]
    same(found, expected.T if axis == 0 else expected)


@pytest.mark.parametrize("peak", [0.0, 1e200, -1e200, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_log_sum_exp_of_any_peak(peak, keepdims):
    x = np.array([[0.5, peak, -1.0], [peak, peak, peak], [0.1, 0.2, 0.3]])
    with np.errstate(all="ignore"):
        found = lookup("ReduceLogSumExp", 18).run(x, np.array([1]), keepdims=keepdims)
        expected = np.logaddexp.reduce(x, 1, keepdims=bool(keepdims))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("special", [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 2, 130])
def test_softmax_of_one_row_is_that_of_the_row_among_others(special, dtype, length):
    row = np.linspace(-3, 3, length, dtype=dtype)
    row[-1] = special
    run = lookup("Softmax", 13).run
    with np.errstate(all="ignore"):
        among = run(np.stack([row, row]))
        for shape in ((length,), (1, length), (1, 1, length)):
            found = run(row.reshape(shape))
            assert found.shape == shape
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.ravel(), among[0])


def test_softmax_of_nothing_is_nothing_and_a_scalar_is_refused():
    assert lookup("Softmax", 13).run(np.zeros((1, 0), np.float32)).shape == (1, 0)
    with pytest.raises(TypeError):
        lookup("Softmax", 13).run(np.array(1.0, np.float32))


@pytest.mark.parametrize("index", [(-1,), (2,), (1, 3), (-2, 0, 1)])
def test_scatter_nd_at_one_place_is_numpys_assignment(index):
    data = np.arange(24).reshape(4, 6) if len(index) < 3 else np.arange(24).reshape(2, 4, 3)
    updates = -np.ones(data.shape[len(index) :], data.dtype)
    expected = data.copy()
    expected[index] = updates
    for shape in ((len(index),), (1, len(index)), (1, 1, len(index))):
        found = lookup("ScatterND", 18).run(data, np.array(index).reshape(shape), updates.reshape(shape[:-1] + updates.shape))
        same(found, expected)
    with pytest.raises(IndexError, match="out of bounds"):
        lookup("ScatterND", 18).run(data, np.array([[99]]), data[:1])


@given(st.integers(0, 4), st.integers(-6, 6) | st.just(-(2**63)), st.integers(-6, 6) | st.just(2**63 - 1))
def test_slice_of_a_vector_is_pythons(length, start, end):
    x = np.arange(length)
    same(lookup("Slice", 13).run(x, np.array([start]), np.array([end])), x[start:end])


@settings(deadline=None)
@given(
    st.sampled_from([(8, 2048), (2, 16, 600), (3, 32, 2, 128), (4, 64, 64)]),
    st.integers(-4, 3),
    st.sampled_from(["f4", "f8", "f2", "i1", "u8"]),
    st.sampled_from([2, 100]),
    st.sampled_from([(), (np.nan,), (np.inf, -np.inf), (-0.0,)]),
    st.booleans(),
)
def test_arg_max_across_long_rows_is_numpys(shape, axis, dtype, different, specials, keepdims):
    rng = np.random.default_rng(different)
    x = rng.integers(0, different, shape).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[rng.integers(0, x.size, 9)] = rng.choice([0.0, *specials], 9)
    for op, definition in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        run = lookup(op, 13).run
        if -x.ndim <= axis < x.ndim:
            same(run(x, axis=axis, keepdims=int(keepdims)), definition(x, axis, keepdims=keepdims))
        else:
            with pytest.raises(np.exceptions.AxisError):
                run(x, axis=axis)
