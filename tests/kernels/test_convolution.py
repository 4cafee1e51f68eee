"""Convolution against its definition, one output element at a time, whatever the layout."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup

load_kernels()


def defined(x, w, group, pads, strides, dilations):
    """Each output element as the sum of products of one window with one filter; what a window does not see is not multiplied."""
    n, rank, filters = len(x), w.ndim - 2, len(w)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    out = [(size - e) // s + 1 for size, e, s in zip(padded.shape[2:], extents, strides, strict=True)]
    y = np.zeros((n, filters, *out), x.dtype)
    channels, each = w.shape[1], filters // group
    for sample, m, *place in itertools.product(range(n), range(filters), *map(range, out)):
        first = m // each * channels
        seen = tuple(slice(o * s, o * s + e, d) for o, s, e, d in zip(place, strides, extents, dilations, strict=True))
        y[(sample, m, *place)] = np.sum(padded[(sample, slice(first, first + channels), *seen)] * w[m])
    return y


@st.composite
def layouts(draw):
    """Inputs, some of them with infinities and NaN, and attributes of a convolution."""
    rank = draw(st.integers(1, 3))
    axes = st.lists(st.integers(1, 2), min_size=rank, max_size=rank)
    group = draw(st.integers(1, 3))
    kernel = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    dilations, strides = draw(axes), draw(axes)
    pads = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    spatial = [(k - 1) * d + 1 + draw(st.integers(0, 3)) for k, d in zip(kernel, dilations, strict=True)]
    channels, each, n = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 40])), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.integers(-4, 5, (n, group * channels, *spatial)).astype(draw(st.sampled_from([np.float32, np.float64])))
    w = rng.integers(-2, 3, (group * each, channels, *kernel)).astype(x.dtype)
    for special in draw(st.lists(st.sampled_from([np.inf, -np.inf, np.nan]), max_size=2)):
        x.flat[draw(st.integers(0, x.size - 1))] = special
    return x, w, group, pads, strides, dilations


@settings(deadline=None, max_examples=300)
@given(layouts())
def test_every_layout_is_the_sum_of_products_of_windows_and_filters(layout):
    x, w, group, pads, strides, dilations = layout
    with np.errstate(all="ignore"):
        expected = defined(*layout)
        y = lookup("Conv", 11).run(x, w, group=group, pads=pads, strides=strides, dilations=dilations)
    assert y.dtype == x.dtype
    assert y.flags.c_contiguous
    np.testing.assert_array_equal(y, expected)  # whole numbers: no order of adding up rounds


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("shape", "filters", "group"),
    [
        ((3, 8, 40, 40), (8, 8, 3, 3), 1),
        ((3, 96, 16, 16), (96, 1, 3, 3), 96),
        ((2, 64, 60, 60), (64, 8, 3, 3), 8),
        ((1, 1, 400, 300), (1, 1, 5, 5), 1),
        ((1, 20, 100, 100), (40, 20, 3, 3), 1),
    ],
)
def test_an_input_of_many_blocks_is_the_sum_of_shifted_products(shape, filters, group, stride):
    rng = np.random.default_rng(0)
    x, w = rng.integers(-4, 5, shape).astype(np.float32), rng.integers(-2, 3, filters).astype(np.float32)
    y = lookup("Conv", 11).run(x, w, group=group, strides=(stride, stride))
    each, rows, columns = len(w) // group, shape[2] - filters[2] + 1, shape[3] - filters[3] + 1
    expected = np.zeros_like(y)
    for m, channel, i, j in itertools.product(*map(range, filters)):
        seen = x[:, m // each * filters[1] + channel, i : i + rows : stride, j : j + columns : stride]
        expected[:, m] += seen * w[m, channel, i, j]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("shape", "filters", "out"), [((0, 2, 4), (3, 2, 2), (0, 3, 3)), ((2, 0, 4), (3, 0, 2), (2, 3, 3))])
def test_without_samples_or_channels_there_is_nothing_to_add_up(shape, filters, out):
    y = lookup("Conv", 11).run(np.zeros(shape, np.float32), np.zeros(filters, np.float32))
    np.testing.assert_array_equal(y, np.zeros(out, np.float32))
