"""Choosing, counting and moving elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from operators.record import Case


def cases() -> Iterator[Case]:
    """The rows."""
    rng = np.random.default_rng(2)
    for count, classes in ((100, 1), (1000, 1), (1000, 20), (5000, 1), (2000, 80)):
        yield from _suppression(rng, count, classes)
    for shape in ((1000,), (32, 1000), (100_000,), (64, 64, 64)):
        yield from _along_axes(rng, rng.standard_normal(shape).astype(np.float32))
    yield from _scattering(rng)
    for size in (1000, 100_000):
        yield Case(f"NonZero {size}", "NonZero", (rng.integers(0, 2, (size // 10, 10)).astype(np.float32),))
        yield Case(f"Unique {size}", "Unique", (rng.integers(0, 500, size),), outputs=4)
        given = rng.integers(0, 100, size // 10), np.array(100), np.array([0, 1], np.float32)
        yield Case(f"OneHot {size // 10} of 100", "OneHot", given, constants=(1, 2))


def _suppression(rng: np.random.Generator, count: int, classes: int) -> Iterator[Case]:
    corner = rng.uniform(0, 600, (1, count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 120, (1, count, 2))], 2).astype(np.float32)
    scores = rng.uniform(0, 1, (1, classes, count)).astype(np.float32)
    for what, threshold in (("", 0.0), (" above 0.9", 0.9)):
        steering = np.array(200), np.array(0.5, np.float32), np.array(threshold, np.float32)
        name = f"NonMaxSuppression {count}x{classes}{what}"
        yield Case(name, "NonMaxSuppression", (boxes, scores, *steering), opset=11, constants=(2, 3, 4))


def _along_axes(rng: np.random.Generator, x: np.ndarray) -> Iterator[Case]:
    size = "x".join(map(str, x.shape))
    yield Case(f"TopK 5 {size}", "TopK", (x, np.array([5])), outputs=2, constants=(1,))
    yield Case(f"TopK 50 {size}", "TopK", (x, np.array([50])), outputs=2, constants=(1,))
    yield Case(f"CumSum {size}", "CumSum", (x, np.array(x.ndim - 1)), constants=(1,), atol=1e-2)
    yield Case(f"CumSum first {size}", "CumSum", (x, np.array(0)), constants=(1,), atol=1e-2)
    yield Case(f"ArgMax {size}", "ArgMax", (x,), {"axis": -1})
    yield Case(f"Softmax {size}", "Softmax", (x,))
    if x.size >= 10_000:
        half = x.astype(np.float16)
        for op in ("Add", "Mul"):
            yield Case(f"{op} float16 {size}", op, (half, half), rtol=2e-3)
        for op in ("Sigmoid", "Relu", "Tanh", "Exp", "Erf"):
            yield Case(f"{op} float16 {size}", op, (half,), rtol=1e-2, atol=1e-3)
        for op in ("Sigmoid", "Tanh", "Exp", "Erf", "Relu", "Gelu"):
            yield Case(f"{op} {size}", op, (x,))
        yield Case(f"Pow 0.5 {size}", "Pow", (np.abs(x), np.array(0.5, np.float32)), constants=(1,))
        yield Case(f"Pow 2 {size}", "Pow", (x, np.array(2, np.float32)), constants=(1,))
        yield Case(f"Pow 3 {size}", "Pow", (x, np.array(3, np.float32)), constants=(1,))
    scale, zero = np.array(0.02, np.float32), np.array(128, np.uint8)
    q = rng.integers(0, 256, x.shape, np.uint8)
    yield Case(f"QuantizeLinear {size}", "QuantizeLinear", (x, scale, zero), constants=(1, 2))
    yield Case(f"DequantizeLinear {size}", "DequantizeLinear", (q, scale, zero), constants=(1, 2))
    yield Case(f"DynamicQuantizeLinear {size}", "DynamicQuantizeLinear", (x,), outputs=3)


def _scattering(rng: np.random.Generator) -> Iterator[Case]:
    for rows, width, count in ((1000, 16, 200), (10_000, 64, 5000)):
        data, size = rng.standard_normal((rows, width)).astype(np.float32), f"{count} of {rows}x{width}"
        at = rng.permutation(rows)[:count, None]
        rows_of = rng.standard_normal((count, width)).astype(np.float32)
        yield Case(f"ScatterND {size}", "ScatterND", (data, at, rows_of))
        yield Case(f"ScatterND add {size}", "ScatterND", (data, at, rows_of), {"reduction": "add"})
        yield Case(f"GatherND {size}", "GatherND", (data, at))
        yield Case(f"Gather {size}", "Gather", (data, at[:, 0]))
        wide = np.broadcast_to(at, (count, width)).copy()
        yield Case(f"GatherElements {size}", "GatherElements", (data, wide))
        yield Case(f"ScatterElements {size}", "ScatterElements", (data, wide, rows_of))
        yield Case(f"ScatterElements add {size}", "ScatterElements", (data, wide, rows_of), {"reduction": "add"}, opset=18)
