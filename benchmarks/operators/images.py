"""Convolution, pooling, resizing and what else works on images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from operators.record import Case

HALF = {"rtol": 2e-2, "atol": 2e-2}
IMAGES = ((1, 3, 224, 224), (1, 64, 56, 56), (1, 256, 14, 14), (8, 16, 28, 28))


def cases() -> Iterator[Case]:
    """The rows."""
    rng = np.random.default_rng(1)
    for shape in IMAGES:
        x = rng.standard_normal(shape).astype(np.float32)
        yield from _pooling(x)
        yield from _convolutions(rng, x)
        yield from _quantized(rng, shape)
        yield from _resizing(rng, x)
        yield from _normalization(rng, x)


def _name(x: np.ndarray) -> str:
    return "x".join(map(str, x.shape))


def _pooling(x: np.ndarray) -> Iterator[Case]:
    two = {"kernel_shape": [2, 2], "strides": [2, 2]}
    three = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    size = _name(x)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield Case(f"{op} 2 {size}", op, (x,), two)
        yield Case(f"{op} 3 {size}", op, (x,), three)
    yield Case(f"MaxPool 3 indices {size}", "MaxPool", (x,), three, outputs=2)
    yield Case(f"MaxPool 3 uint8 {size}", "MaxPool", ((40 * x + 128).clip(0, 255).astype(np.uint8),), three)
    yield Case(f"MaxPool 5 {size}", "MaxPool", (x,), {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]})
    yield Case(f"MaxPool 2 float16 {size}", "MaxPool", (x.astype(np.float16),), two)
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield Case(f"{op} {size}", op, (x,))


def _convolutions(rng: np.random.Generator, x: np.ndarray) -> Iterator[Case]:
    channels, size = x.shape[1], _name(x)
    w = rng.standard_normal((32, channels, 3, 3)).astype(np.float32) / channels**0.5
    pads = {"pads": [1, 1, 1, 1]}
    yield Case(f"Conv {size}", "Conv", (x, w), pads, constants=(1,), atol=1e-3)
    depth = rng.standard_normal((channels, 1, 3, 3)).astype(np.float32)
    yield Case(f"Conv by channel {size}", "Conv", (x, depth), {**pads, "group": channels}, constants=(1,), atol=1e-3)
    up = rng.standard_normal((channels, 16, 2, 2)).astype(np.float32) / channels**0.5
    yield Case(f"ConvTranspose {size}", "ConvTranspose", (x, up), {"strides": [2, 2]}, constants=(1,), atol=1e-3)
    half = [v.astype(np.float16) for v in (x, w)]
    yield Case(f"Conv float16 {size}", "Conv", half, pads, constants=(1,), **HALF)


def _quantized(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[Case]:
    x = rng.integers(0, 256, shape, np.uint8)
    size, pads = _name(x), {"pads": [1, 1, 1, 1]}
    for what, w, more in (
        ("", rng.integers(-127, 128, (32, shape[1], 3, 3), np.int8), {}),
        (" 1", rng.integers(-127, 128, (64, shape[1], 1, 1), np.int8), {"pads": [0, 0, 0, 0]}),
        (" by channel", rng.integers(-127, 128, (shape[1], 1, 3, 3), np.int8), {"group": shape[1]}),
    ):
        scales = rng.uniform(0.001, 0.01, len(w)).astype(np.float32)
        given = [x, np.float32(0.02), np.uint8(128), w, scales, np.zeros(len(w), np.int8), np.float32(0.1), np.uint8(100)]
        bias = rng.integers(-500, 500, len(w)).astype(np.int32)
        given = [np.asarray(v) for v in (*given, bias)]
        yield Case(f"QLinearConv{what} {size}", "QLinearConv", given, {**pads, **more}, constants=range(1, 9), off_by=1)
        if what != " by channel":
            unsigned = (w.astype(np.int16) + 128).astype(np.uint8)
            zeros = np.array(128, np.uint8), np.array(125, np.uint8)
            yield Case(f"ConvInteger{what} {size}", "ConvInteger", (x, unsigned, *zeros), {**pads, **more}, constants=(1, 2, 3))


def _resizing(rng: np.random.Generator, x: np.ndarray) -> Iterator[Case]:
    scales, size = np.array([1, 1, 2, 2], np.float32), _name(x)
    for mode in ("nearest", "linear", "cubic"):
        yield Case(f"Resize {mode} {size}", "Resize", (x, None, scales), {"mode": mode}, constants=(2,), rtol=1e-3, atol=1e-3)
    grid = rng.uniform(-1, 1, (x.shape[0], *x.shape[2:], 2)).astype(np.float32)
    yield Case(f"GridSample {size}", "GridSample", (x, grid), opset=20, atol=1e-3)
    side = x.shape[2]
    corner = rng.uniform(0, side / 2, (20, 2))
    rois = np.concatenate([corner, corner + rng.uniform(1, side / 2, (20, 2))], 1).astype(np.float32)
    samples = rng.integers(0, len(x), 20)
    attrs = {"output_height": 7, "output_width": 7, "sampling_ratio": 2}
    yield Case(f"RoiAlign {size}", "RoiAlign", (x, rois, samples), attrs, opset=16, atol=1e-3)


def _normalization(rng: np.random.Generator, x: np.ndarray) -> Iterator[Case]:
    size, channels = _name(x), x.shape[1]
    scale, bias = (rng.standard_normal(channels).astype(np.float32) for _ in range(2))
    yield Case(f"LRN {size}", "LRN", (x,), {"size": 5})
    yield Case(f"InstanceNormalization {size}", "InstanceNormalization", (x, scale, bias), constants=(1, 2))
    mean, var = scale, np.abs(bias) + np.float32(0.5)
    yield Case(f"BatchNormalization {size}", "BatchNormalization", (x, scale, bias, mean, var), constants=(1, 2, 3, 4))
