"""Machine code for products and convolutions of bytes, and for boxes that overlap: bit for bit what the kernels give."""

import itertools

import numpy as np
import onnx
import pytest

pytest.importorskip("llvmlite")

import mdf_loop
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.machine import Machine
from mdf_loop.backends.llvm.text import Text

U8, I8 = np.uint8, np.int8
PROCESSORS = [(None, True), (64, False), (32, False), (16, False), (16, None)]
"""Bytes of a register (None: what there is), and whether there are products of bytes by fours; None: not even by pairs."""


def model_of(op, inputs, constants, attrs, opset):
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    infos = [
        onnx.helper.make_tensor_value_info(names[k], onnx.helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
        for k, x in enumerate(inputs)
        if x is not None and k not in constants
    ]
    given = [onnx.numpy_helper.from_array(inputs[k], names[k]) for k in constants if inputs[k] is not None]
    result = [onnx.helper.make_value_info("y", onnx.TypeProto())]
    graph = onnx.helper.make_graph([onnx.helper.make_node(op, names, ["y"], **attrs)], op, infos, result, given)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)


def check(op, inputs, constants, attrs=None, opset=21, is_alone=True, ulps=0):
    """Both engines give the same bits, or nearly (last places of the largest), and the machine code calls no kernel."""
    inputs = [x if x is None else np.asarray(x) for x in inputs]
    prepared = mdf_loop.backend.prepare(model_of(op, inputs, constants, attrs or {}, opset))
    feeds = {f"x{k}": x for k, x in enumerate(inputs) if x is not None and k not in constants}
    with mdf_loop.options(engine="interpret"):
        (wanted,) = prepared.run(feeds)
    with mdf_loop.options(engine="jit"):
        (found,) = prepared.run(feeds)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if ulps:
        bound = ulps * np.spacing(np.abs(wanted).max(initial=0, where=np.isfinite(wanted)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
    else:
        np.testing.assert_array_equal(found, wanted)
    latest = prepared._execute._programs.latest
    assert is_alone is None or (latest is not None and latest.is_alone) == is_alone


@pytest.fixture
def processor(request, monkeypatch):
    """A processor that has less than this one."""
    size, has_dots = request.param
    if size is not None:
        if size > mdf_loop.backends.llvm.machine.machine().register_bytes:
            pytest.skip("registers are shorter here")
        monkeypatch.setattr(Machine, "register_bytes", size)
        monkeypatch.setattr(Machine, "has_dots", False)
    if has_dots is None:
        monkeypatch.setattr(Machine, "has_pairs", False)
    return size


def bytes_of(rng, dtype, *shape):
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    if rng.random() < 0.3:  # the ends of the range
        found[...] = np.where(rng.random(shape) < 0.5, limits.min, limits.max)
    return found


def zero_of(rng, dtype, *shape):
    return None if rng.random() < 0.2 else np.asarray(bytes_of(rng, dtype, *shape))


LAYOUTS = [
    {},
    {"pads": [1, 1, 1, 1]},
    {"strides": [2, 3], "pads": [2, 0, 1, 4]},
    {"dilations": [2, 2], "auto_pad": "SAME_UPPER"},
    {"dilations": [1, 3], "strides": [1, 2], "pads": [0, 3, 0, 3]},
]
SIZES = [  # channels of a group, groups, filters of a group, height, width, window
    (1, 5, 1, 9, 20, (3, 3)), (3, 1, 9, 8, 37, (3, 3)), (4, 1, 7, 7, 7, (3, 2)), (6, 2, 10, 6, 70, (2, 3)),
    (17, 1, 3, 5, 5, (1, 1)), (2, 2, 2, 9, 18, (1, 5)), (5, 1, 4, 8, 8, (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("processor", PROCESSORS, indirect=True, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_convolutions_of_bytes(size, processor):
    channels, group, each, height, width, window = size
    for seed, layout in enumerate(LAYOUTS):
        if processor and seed % 3 != 2 - processor // 64:
            continue
        rng = np.random.default_rng(seed)
        types = [U8, I8][seed % 2], [I8, U8][seed // 2 % 2]
        x = bytes_of(rng, types[0], 1 + seed % 2, channels * group, height, width)
        w = bytes_of(rng, types[1], each * group, channels, *window)
        attrs = {**layout, "group": group}
        zeros = zero_of(rng, types[0]), zero_of(rng, types[1], *[len(w)][: seed % 2])
        check("ConvInteger", [x, w, *zeros], (1, 3), attrs, 10)
        zeros = [np.zeros((), t) if z is None else z for z, t in zip(zeros, types, strict=True)]
        scales = rng.uniform(1e-4, 1e-2, [(), (len(w),)][seed % 2]).astype(np.float32)
        bias = rng.integers(-9999, 9999, len(w)).astype(np.int32) if seed % 3 else None
        given = [x, np.float32(0.03), zeros[0], w, scales, zeros[1], np.float32(0.7), bytes_of(rng, types[0]), bias]
        check("QLinearConv", given, range(1, 9), attrs, 10)


def test_images_of_one_and_three_axes():
    rng = np.random.default_rng(0)
    for shape, window, attrs in (((2, 4, 30), (3,), {"pads": [1, 2]}), ((1, 2, 5, 6, 7), (2, 2, 3), {"strides": [1, 2, 2]})):
        x, w = bytes_of(rng, U8, *shape), bytes_of(rng, I8, 3, shape[1], *window)
        check("ConvInteger", [x, w, np.uint8(9), np.int8(-3)], (1, 2, 3), attrs, 10)


def test_a_shape_that_inference_says_otherwise_is_the_kernels():
    """With both auto_pad and pads, ONNX's inference adds up the pads; the kernel heeds auto_pad."""
    rng = np.random.default_rng(0)
    attrs = {"auto_pad": "SAME_LOWER", "pads": [2, 0, 1, 2], "strides": [3, 1]}
    x, w = bytes_of(rng, U8, 2, 1, 5, 17), bytes_of(rng, I8, 5, 1, 2, 2)
    check("ConvInteger", [x, w, np.uint8(9), np.int8(-3)], (1, 2, 3), attrs, 10, is_alone=None)
    x, w = (rng.normal(size=y.shape).round(1).astype(np.float32) for y in (x, w))
    check("Conv", [x, w], (1,), attrs, 11, is_alone=None, ulps=8)


PRODUCTS = [(1, 7, 5), (4, 16, 64), (7, 33, 37), (2, 3, 130), (13, 64, 16), (1, 260, 300), (5, 6, 1)]


@pytest.mark.parametrize("processor", PROCESSORS, indirect=True, ids=str)
@pytest.mark.parametrize("size", PRODUCTS, ids=str)
def test_products_of_bytes(size, processor):
    m, k, n = size
    for seed in range(4) if processor is None else (1, 2):
        rng = np.random.default_rng(seed)
        types = [U8, I8][seed % 2], [I8, U8][seed // 2 % 2]
        a, b = bytes_of(rng, types[0], *[[m], [2, m]][seed % 2], k), bytes_of(rng, types[1], k, n)
        zeros = zero_of(rng, types[0]), zero_of(rng, types[1], *[n][: seed % 2])
        check("MatMulInteger", [a, b, *zeros], (1, 3) if seed % 2 else (1, 2, 3), opset=10)
        zeros = [np.zeros((), t) if z is None else z for z, t in zip(zeros, types, strict=True)]
        scales = rng.uniform(1e-4, 1e-2, [(), (n,)][seed % 2]).astype(np.float32)
        given = [a, np.float32(0.03), zeros[0], b, scales, zeros[1], np.float32(0.7), bytes_of(rng, types[0])]
        check("QLinearMatMul", given, range(1, 8), opset=10)


def test_one_lane_of_several_is_written_without_a_mask():
    """LLVM 22 writes four bytes where one lane of 32 bits becomes one byte behind a mask."""
    text = Text()
    Lanes(text, 4, 1, "<i1 true, i1 false, i1 false, i1 false>").store(np.dtype(U8), "%x", "%p", Place("3", 1))
    assert "masked" not in " ".join([*text.declarations, *text.lines])
    assert "store i8 " in text.lines[-1]


def test_halves_are_rounded_to_even_and_ends_are_kept():
    a, b = np.arange(-128, 128).astype(I8)[:, None], np.array([[1, -1, 127]], I8)
    one = np.float32(1)
    for scale, zero in ((0.5, 0), (0.25, 3), (100.0, -128), (1e-30, 127)):
        given = [a, np.float32(scale), np.int8(0), b, one, np.int8(0), one, np.int8(zero)]
        check("QLinearMatMul", given, range(1, 8))


def test_what_has_no_form_of_its_own_is_the_kernels():
    rng = np.random.default_rng(0)
    a, b = bytes_of(rng, U8, 3, 4), bytes_of(rng, I8, 4, 5)
    rows = np.array([1, 2, 3], U8)
    check("MatMulInteger", [a, b, rows, np.int8(2)], (1, 2, 3))
    check("MatMulInteger", [a, b, np.uint8(3), np.int8(2)], (2, 3))  # nothing is known of the second matrix
    one = np.float32(1)
    given = [a, one, rows[0], b, one, np.int8(0), one, np.uint8(0)]
    check("QLinearMatMul", given, (1, 2, 4, 5, 6, 7))
    check("QLinearMatMul", given, ())
    check("QLinearMatMul", given, (3, 5))
    check("QLinearMatMul", [*given[:4], np.full(5, one), *given[5:]], (), is_alone=False)
    check("QLinearMatMul", [a, np.full(3, one), *given[2:]], range(1, 8), is_alone=False)
    x, w = bytes_of(rng, U8, 1, 2, 5, 5), bytes_of(rng, I8, 3, 2, 2, 2)
    check("ConvInteger", [x, w, rows[0], None], (2,), is_alone=False)


@pytest.mark.parametrize("seed", range(24))
def test_boxes_that_overlap(seed):
    rng = np.random.default_rng(seed)
    count = [1, 2, 17, 60, 333][seed % 5]
    boxes = rng.uniform(-20, 20, (2, count, 4)).astype(np.float32)
    boxes = np.round(boxes / 5) * 5 if seed % 2 else boxes  # many the same, and some without an area
    scores = np.round(rng.random((2, 3, count)), 1 if seed % 3 else 9).astype(np.float32) - np.float32(0.2)
    scores[rng.random(scores.shape) < 0.05] = [np.nan, -0.0, np.inf, -np.inf][seed % 4]
    boxes[rng.random(boxes.shape) < 0.02] = [np.nan, 0, np.inf][seed % 3]
    limit, overlap, lowest = [3, 40, 1 << 40, 0, -1][seed % 5], [0.0, 0.3, 0.8][seed % 3], [0.0, 0.5, -1.0][seed % 3]
    steering = [np.array(limit), np.array([overlap], np.float32), np.float32(lowest)]
    steering = steering[: 1 + seed % 3] + [None] * 0
    constants = (2, 3, 4)[: len(steering)] if seed % 4 else ()
    attrs = {"center_point_box": seed // 2 % 2}
    check("NonMaxSuppression", [boxes, scores, *steering], constants, attrs, 11)


def test_boxes_without_limits_or_boxes():
    boxes, scores = np.zeros((1, 4, 4), np.float32), np.zeros((1, 2, 4), np.float32)
    check("NonMaxSuppression", [boxes, scores], (), opset=11)
    check("NonMaxSuppression", [boxes, scores, None, np.float32(0.5)], (3,), opset=11)
    for shape in itertools.product((0, 1), (0, 2), (0, 3)):
        given = np.zeros((shape[0], shape[2], 4), np.float32), np.zeros(shape, np.float32)
        check("NonMaxSuppression", [*given, np.array(5)], (2,), opset=11)
