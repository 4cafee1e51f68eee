"""TopK against its definition, a stable sort of everything by Python."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup

load_kernels()


def defined(x, k, axis, largest):
    """The first k of a stable sort of each lane; NaN is the largest of all, as numpy sorts it."""
    sign = -1 if largest else 1
    lanes = np.moveaxis(x, axis, -1)

    def best(lane):
        return sorted(range(len(lane)), key=lambda n: (sign * (lane[n] != lane[n]), sign * lane[n] if lane[n] == lane[n] else 0))

    places = [best(lane.tolist())[:k] for lane in lanes.reshape(-1, x.shape[axis])]
    where = np.moveaxis(np.array(places, np.int64).reshape(*lanes.shape[:-1], k), -1, axis)
    return np.take_along_axis(x, where, axis), where


def assert_best(x, k, axis, largest):
    values, places = lookup("TopK", 11).run(x, np.array([k], np.int64), axis=axis, largest=largest)
    expected_values, expected_places = defined(x, k, axis, largest)
    np.testing.assert_array_equal(places, expected_places)
    assert places.dtype == np.int64
    assert places.flags.c_contiguous
    assert values.flags.c_contiguous
    assert values.dtype == x.dtype
    assert values.shape == expected_values.shape
    assert values.tobytes() == np.ascontiguousarray(expected_values).tobytes()  # the same zero, the same NaN


@st.composite
def problems(draw):
    """An input with few or many ties and now and then zeros of both signs, infinities and NaN; k, axis, largest."""
    length = draw(st.sampled_from([1, 7, 100, 300]))
    others = draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    axis = draw(st.integers(0, len(others)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.integers(-draw(st.sampled_from([2, 100, 10**9])), 100, (*others[:axis], length, *others[axis:]))
    with np.errstate(over="ignore"):
        x = x.astype(draw(st.sampled_from(["f8", "f4", "f2", "i8", "i1", "u4", ml_dtypes.bfloat16])))
    if x.dtype.kind == "f":
        specials = draw(st.lists(st.sampled_from([-0.0, np.nan, np.inf, -np.inf]), max_size=4))
        x[rng.random(x.shape) < draw(st.sampled_from([0, 0.01, 0.5]))] = rng.choice([0.0, *specials])
        for special in specials:
            x.flat[draw(st.integers(0, x.size - 1))] = special
    return x, draw(st.integers(0, min(length, draw(st.sampled_from([3, length // 4, length]))))), axis, draw(st.integers(0, 1))


@settings(deadline=None, max_examples=200)
@given(problems())
def test_top_k_is_the_beginning_of_a_stable_sort(problem):
    with np.errstate(all="ignore"):
        assert_best(*problem)


@pytest.mark.parametrize("largest", [0, 1])
def test_lanes_with_ties(largest):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 256))
    x[1] = 0  # nothing but ties
    x[2, ::3] = np.nan
    x[3] = np.nan
    assert_best(x, 5, 1, largest)
    assert_best(x[:2], 5, 1, largest)
    assert_best(np.ascontiguousarray(x.T), 5, 0, largest)
