"""Pooling, NonMaxSuppression and RoiAlign next to their definitions, one window, box or region at a time."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from node_cases import assert_same

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup

load_kernels()

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in less_equal:RuntimeWarning")  # nan among scores


def layouts(rng):
    """Attributes of a pooling operator over two axes."""
    kernel = rng.integers(1, 5, 2)
    pads = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
    attrs = {"kernel_shape": tuple(kernel.tolist()), "pads": tuple(pads), "strides": tuple(rng.integers(1, 4, 2).tolist())}
    return attrs | {"dilations": tuple(rng.integers(1, 3, 2).tolist()), "ceil_mode": int(rng.integers(2))}


def window(x, attrs, place):
    """The elements of a window in the order of the text, and their places; None for those of the padding."""
    taps = []
    for offset in itertools.product(*map(range, attrs["kernel_shape"])):
        at = [
            p * s + o * d - begin
            for p, s, o, d, begin in zip(place, attrs["strides"], offset, attrs["dilations"], attrs["pads"], strict=False)
        ]
        taps.append(tuple(at) if all(0 <= a < n for a, n in zip(at, x.shape, strict=True)) else None)
    return taps


def first_largest(x, taps):
    """The largest element and the first place that has it; nothing is larger than nan."""
    best = None
    for tap in taps:
        if tap is not None and (best is None or x[tap] > x[best] or (np.isnan(x[tap]) and not np.isnan(x[best]))):
            best = tap
    return best


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8])
def test_max_pool(seed, dtype):
    rng = np.random.default_rng(seed)
    attrs = layouts(rng)
    x = rng.integers(0, 4, (2, 3, *rng.integers(8, 12, 2))).astype(dtype)
    if np.dtype(dtype).kind not in "iu":
        x[rng.random(x.shape) < 0.3] = [-np.inf, -0.0, np.nan, -3.5][seed % 4]
    run = lookup("MaxPool", 12).run
    y, places = run(x, **attrs, n_outputs=2)
    alone, wanted = run(x, **attrs), y.copy()
    for n, c, *place in itertools.product(*map(range, y.shape)):
        best = first_largest(x[n, c], window(x[n, c], attrs, place))
        if best is not None:
            assert places[(n, c, *place)] == np.ravel_multi_index((n, c, *best), x.shape)
            wanted[(n, c, *place)] = x[(n, c, *best)]
    assert_same(y, wanted, 0, 0)
    assert_same(alone, wanted, 0, 0)


@pytest.mark.parametrize("with_padding", [0, 1])
@pytest.mark.parametrize("seed", range(20))
def test_average_and_norm_of_windows(seed, with_padding):
    rng = np.random.default_rng(seed)
    attrs = layouts(rng) | {"ceil_mode": 0}
    x = rng.normal(size=(1, 2, 11, 9))
    mean = lookup("AveragePool", 19).run(x, **attrs, count_include_pad=with_padding)
    norm = lookup("LpPool", 18).run(x, **attrs, p=3)
    for c, *place in itertools.product(*map(range, mean.shape[1:])):
        taps = window(x[0, c], attrs, place)
        seen = np.array([x[(0, c, *tap)] for tap in taps if tap is not None])
        assert mean[(0, c, *place)] == pytest.approx(seen.sum() / (len(taps) if with_padding else len(seen)))
        assert norm[(0, c, *place)] == pytest.approx((np.abs(seen) ** 3).sum() ** (1 / 3))


def overlap_of(one, other):
    """Intersection over union of two boxes given by any two corners."""
    low = [np.minimum(b[:2], b[2:]) for b in (one, other)]
    high = [np.maximum(b[:2], b[2:]) for b in (one, other)]
    shared = np.maximum(np.minimum(*high) - np.maximum(*low), 0).prod()
    union = sum((h - l).prod() for l, h in zip(low, high, strict=True)) - shared
    return shared / union if union > 0 else 0


def kept_one_by_one(boxes, scores, limit, threshold, lowest):
    """Boxes from the best to the worst, each if it does not overlap one kept before."""
    kept = []
    for place in sorted(range(len(scores)), key=lambda k: -scores[k]):
        if len(kept) < limit and scores[place] >= lowest and all(overlap_of(boxes[place], boxes[k]) <= threshold for k in kept):
            kept.append(place)
    return kept


@pytest.mark.parametrize("seed", range(15))
def test_non_max_suppression(seed):
    rng = np.random.default_rng(seed)
    count = [0, 1, 5, 60, 150][seed % 5]
    boxes = rng.uniform(-20, 20, (2, count, 4))
    boxes = np.round(boxes / 5) * 5 if seed % 2 else boxes  # many the same, and some without an area
    scores = np.round(rng.random((2, 3, count)), 1 if seed % 3 else 9)
    limit, threshold, lowest = [3, 40, 1000][seed % 3], [0.0, 0.3, 0.8][seed % 3], [0.0, 0.5][seed % 2]
    steering = [np.array(limit), np.array(threshold), np.array(lowest)]
    found = lookup("NonMaxSuppression", 11).run(boxes, scores, *steering)
    wanted = [
        (n, c, k)
        for n, c in itertools.product(range(2), range(3))
        for k in kept_one_by_one(boxes[n], scores[n, c], limit, threshold, lowest)
    ]
    assert_same(found, np.array(wanted, np.int64).reshape(-1, 3), 0, 0)


@pytest.mark.parametrize("seed", range(24))
def test_roi_align_gives_what_onnx_reference_gives(seed):
    from onnx.reference.ops.op_roi_align import RoiAlign

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 3, *rng.integers(1, 9, 2))).astype(np.float32)
    rois, samples = rng.uniform(-3, 10, (4, 4)).astype(np.float32), rng.integers(0, 2, 4)
    attrs = {"output_height": 1 + seed % 3, "output_width": 1 + seed % 2, "sampling_ratio": seed % 4, "spatial_scale": 0.5}
    mode, half = ["avg", "max"][seed % 2], ["half_pixel", "output_half_pixel"][seed // 2 % 2]
    shape = (4, 3, attrs["output_height"], attrs["output_width"])
    wanted = np.zeros(shape, np.float32).reshape(-1)
    given = (shape, x.ravel(), 0.5, *x.shape[2:], attrs["sampling_ratio"], rois.ravel(), 4, wanted, mode, half == "half_pixel")
    RoiAlign.roi_align_forward(*given, samples)
    found = lookup("RoiAlign", 16).run(x, rois, samples, mode=mode, coordinate_transformation_mode=half, **attrs)
    assert_same(found, wanted.reshape(shape), 1e-4, 1e-5)


def test_an_infinite_element_spoils_only_what_looks_at_it():
    x = np.ones((1, 1, 6, 6), np.float32)
    x[..., 5, 5] = np.inf
    rois = np.array([[0, 0, 5, 5]], np.float32)
    found = lookup("RoiAlign", 16).run(x, rois, np.array([0]), output_height=2, output_width=2, sampling_ratio=2)
    assert_same(found[..., 0, :], np.ones((1, 1, 2), np.float32), 1e-6, 0)
