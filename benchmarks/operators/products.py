"""Matrix products, of every kind of number, and Einstein sums."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from operators.record import Case

HALF = {"rtol": 2e-2, "atol": 2e-2}
SIZES = ((1, 256, 256), (64, 64, 64), (128, 768, 768), (512, 512, 512))


def cases() -> Iterator[Case]:
    """The rows."""
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        size = f"{m}x{k}x{n}"
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n)) / k**0.5
        for dtype in (np.float16, np.float32):
            limits = HALF if dtype == np.float16 else {}
            name = f"{np.dtype(dtype).name} {size}"
            yield Case(f"MatMul {name}", "MatMul", (a.astype(dtype), b.astype(dtype)), constants=(1,), **limits)
        yield Case(f"MatMul int32 {size}", "MatMul", [(9 * x).astype(np.int32) for x in (a, b)])
        yield Case(f"MatMul int64 {size}", "MatMul", [(9 * x).astype(np.int64) for x in (a, b)])
        yield from _quantized(rng, m, k, n, size)
    a, b = rng.standard_normal((8, 12, 64, 64)), rng.standard_normal((8, 12, 64, 64)) / 8
    yield Case("MatMul float16 8x12 of 64", "MatMul", [x.astype(np.float16) for x in (a, b)], **HALF)
    yield Case("MatMul bfloat16 64", "MatMul", [x[0, 0].astype(ml_dtypes.bfloat16) for x in (a, b)], rtol=0.05, atol=0.05)
    c = rng.standard_normal(512).astype(np.float16)
    for m in (1, 64, 512):
        given = [x.astype(np.float16) for x in (rng.standard_normal((m, 512)), rng.standard_normal((512, 512)) / 23)]
        yield Case(f"Gemm float16 {m}x512x512", "Gemm", (*given, c), {"transB": 1}, constants=(1, 2), **HALF)
    for equation, *shapes in (
        ("bij,bjk->bik", (8, 64, 64), (8, 64, 64)),
        ("bhid,bhjd->bhij", (2, 8, 128, 64), (2, 8, 128, 64)),
        ("ij->ji", (512, 512)),
        ("i,j->ij", (512,), (512,)),
        ("bij,bj->bi", (8, 64, 64), (8, 64)),
    ):
        given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        yield Case(f"Einsum {equation} {shapes[0][-1]}", "Einsum", given, {"equation": equation})


def _quantized(rng: np.random.Generator, m: int, k: int, n: int, size: str) -> Iterator[Case]:
    a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
    za, zb, zy = np.uint8(120), np.int8(3), np.uint8(128)
    per_column = rng.integers(-5, 5, n).astype(np.int8)
    yield Case(f"MatMulInteger {size}", "MatMulInteger", (a, b, np.array(za), np.array(zb)), constants=(1, 2, 3))
    yield Case(f"MatMulInteger by column {size}", "MatMulInteger", (a, b, np.array(za), per_column), constants=(1, 2, 3))
    scale = [np.float32(s) for s in (0.02, 0.01, 0.5)]
    given = [a, scale[0], za, b, scale[1], zb, scale[2], zy]
    yield Case(f"QLinearMatMul {size}", "QLinearMatMul", [np.asarray(x) for x in given], constants=range(1, 8), off_by=1)
