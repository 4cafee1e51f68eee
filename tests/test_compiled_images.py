"""Machine code for places between elements, elements that are resized, and graphs that kernels do as well."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from test_compiled_bytes import check, model_of

import mdf_loop
from mdf_loop.kernels.resize import Axis, terms_of, weights
from mdf_loop.ops.registry import lookup

SINGLES = np.float32, np.float64


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("spatial", [(7,), (5, 6), (1, 4), (3, 4, 2)], ids=str)
def test_places_between_elements(spatial, padding, mode):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1 + seed % 2, [3, 9][seed // 2], *spatial)).astype(SINGLES[seed % 2])
        grid = rng.uniform(-1.6, 1.6, (len(x), *[3, 1, 5][: len(spatial)], len(spatial))).astype(SINGLES[seed // 2 % 2])
        grid[rng.random(grid.shape) < 0.1] = [np.nan, np.inf, -np.inf, 1][seed]
        attrs = {"mode": mode, "padding_mode": padding, "align_corners": seed % 2}
        check("GridSample", [x, grid], (), attrs, 20)


def test_rare_ways_to_look_up_are_the_kernels():
    rng = np.random.default_rng(0)
    x, grid = rng.normal(size=(1, 2, 4, 5)).astype(np.float32), rng.uniform(-2, 2, (1, 3, 3, 2)).astype(np.float32)
    for attrs in ({"mode": "bicubic"}, {"padding_mode": "reflection"}):
        check("GridSample", [x, grid], (), attrs, 16, is_alone=False)
    check("GridSample", [x, grid], (), {}, 16)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("seed", range(8))
def test_regions_brought_to_one_size(seed, mode):
    """The largest of exact products are the same; sums are added up in another order."""
    rng = np.random.default_rng(seed)
    dtype = SINGLES[seed % 2]
    x = rng.normal(size=(2, [1, 3][seed % 2], *rng.integers(1, 20, 2))).astype(dtype)
    if seed == 5:
        x[0, 0, 0, 0] = np.inf
    rois, samples = rng.uniform(-5, 22, (5, 4)).astype(dtype), rng.integers(-2, 2, 5)
    attrs = {
        "mode": mode,
        "sampling_ratio": 1 + seed % 3,
        "output_height": 1 + seed % 4,
        "output_width": [1, 2, 7, 19][seed // 2],
    }
    attrs |= {"spatial_scale": [1.0, 0.3][seed % 2]}
    if seed % 3:
        attrs["coordinate_transformation_mode"] = ["half_pixel", "output_half_pixel"][seed // 3 % 2]
    check("RoiAlign", [x, rois, samples], (), attrs, 16, ulps=8 if mode == "avg" else 0)
    attrs.pop("coordinate_transformation_mode", None)
    check("RoiAlign", [x, rois, samples], (), attrs, 10, ulps=8 if mode == "avg" else 0)


def test_regions_with_as_many_places_as_it_takes_are_the_kernels():
    x, rois = np.ones((1, 1, 4, 4), np.float32), np.array([[0, 0, 3, 3]], np.float32)
    check("RoiAlign", [x, rois, np.array([0])], (), {"output_height": 2}, 16, is_alone=False)


@pytest.mark.parametrize("seed", range(12))
def test_what_counts_is_what_the_matrix_says(seed):
    rng = np.random.default_rng(seed)
    before, after = (int(n) for n in rng.integers(1, 12, 2))
    axis = Axis(1, before, after, after / before, float(after))
    where = rng.uniform(-1, before, after)
    matrix = weights(where, axis, ["linear", "cubic"][seed % 2], -0.75, seed // 2 % 2, seed // 4 % 2)
    found = terms_of(matrix)
    assert (found is None) == ((matrix != 0).sum(1).max() > 8)
    if found is not None:
        again = np.zeros_like(matrix)
        for places, shares in found:
            np.add.at(again, (np.arange(after), places), shares)
        np.testing.assert_array_equal(again, matrix)


@pytest.mark.parametrize("attrs", [{"mode": "linear"}, {"mode": "cubic"}, {"mode": "linear", "antialias": 1}], ids=str)
def test_resized(attrs):
    x = np.random.default_rng(0).normal(size=(1, 3, 9, 7)).astype(np.float32)
    for scales in ((1, 1, 2, 2), (1, 1, 0.7, 1.4), (1, 2, 1, 3)):
        check("Resize", [x, None, np.array(scales, np.float32)], (2,), attrs, 18)


def test_one_element_infinite_leaves_the_others_alone():
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    x[0, 0, 0, 0] = np.inf
    found = lookup("Resize", 18).run(x, None, np.array([1, 1, 2, 2], np.float32), mode="linear")
    assert np.isfinite(found[..., 3:, 3:]).all()


@pytest.mark.parametrize("seed", range(24))
def test_windows_that_are_spread_one_element_at_a_time(seed):
    rng = np.random.default_rng(seed)
    group, each, filters = [1, 2][seed % 2], 1 + seed % 3, 2
    kernel_shape, strides = rng.integers(1, 4, 2), rng.integers(1, 4, 2)
    dilations = rng.integers(1, 3, 2)
    x = rng.integers(-9, 9, (2, group * each, 4, 3)).astype(np.float64)
    w = rng.integers(-9, 9, (group * each, filters, *kernel_shape)).astype(np.float64)
    attrs = {"strides": strides.tolist(), "dilations": dilations.tolist(), "group": group}
    size = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(x.shape[2:], strides, kernel_shape, dilations, strict=True)]
    wanted = np.zeros((2, group * filters, *size))
    for n, c, i, j in np.ndindex(x.shape):
        for f, p, q in np.ndindex(w.shape[1:]):
            place = i * strides[0] + p * dilations[0], j * strides[1] + q * dilations[1]
            wanted[(n, c // each * filters + f, *place)] += x[n, c, i, j] * w[c, f, p, q]
    np.testing.assert_array_equal(lookup("ConvTranspose", 11).run(x, w, **attrs), wanted)


def test_what_kernels_do_as_well_is_left_to_them():
    """Machine code that does nothing but call kernels is not kept: it would copy what they give."""
    from mdf_loop.execute.specialised import in_machine_code
    from mdf_loop.step.build import type_of_value
    from mdf_loop.step.lower import lower_graph

    x = np.ones((1, 1, 3, 3), np.float32)
    for op, is_idle in (("ConvTranspose", True), ("Conv", False)):
        graph = mdf_loop.backend.prepare(model_of(op, [x, x], (1,), {}, 11))._execute
        made = in_machine_code(lower_graph(graph.body, [type_of_value(x)], True, True, graph._calls().bound))
        assert made.is_idle == is_idle
