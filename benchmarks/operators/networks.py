"""Whole layers of networks: recurrent ones, attention, normalisation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from operators.record import Case


def cases() -> Iterator[Case]:
    """The rows."""
    rng = np.random.default_rng(3)
    for steps, batch, size, hidden in ((50, 1, 64, 64), (100, 8, 128, 128), (20, 32, 256, 256)):
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            yield _recurrent(rng, op, gates, steps, batch, size, hidden)
    for batch, heads, length, size in ((1, 4, 16, 32), (1, 8, 128, 64), (2, 12, 384, 64)):
        q, k, v = (rng.standard_normal((batch, heads, length, size)).astype(np.float32) for _ in range(3))
        name = f"Attention {batch}x{heads}x{length}x{size}"
        yield Case(name, "Attention", (q, k, v), opset=23, atol=1e-4)
        yield Case(f"{name} causal", "Attention", (q, k, v), {"is_causal": 1}, opset=23, atol=1e-4)
    for rows, width in ((16, 256), (512, 768)):
        x = rng.standard_normal((rows, width)).astype(np.float32)
        scale, bias = (rng.standard_normal(width).astype(np.float32) for _ in range(2))
        yield Case(f"LayerNormalization {rows}x{width}", "LayerNormalization", (x, scale, bias), constants=(1, 2))


def _recurrent(rng: np.random.Generator, op: str, gates: int, steps: int, batch: int, size: int, hidden: int) -> Case:
    x = rng.standard_normal((steps, batch, size)).astype(np.float32)
    w, r = (rng.standard_normal((1, gates * hidden, n)).astype(np.float32) / n**0.5 for n in (size, hidden))
    b = rng.standard_normal((1, 2 * gates * hidden)).astype(np.float32) / 10
    name = f"{op} {steps}x{batch}x{size}x{hidden}"
    return Case(name, op, (x, w, r, b), {"hidden_size": hidden}, opset=14, constants=(1, 2, 3), atol=1e-3)
