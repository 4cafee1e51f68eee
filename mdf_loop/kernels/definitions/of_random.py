"""What is drawn number by number: by which method of numpy's generator, and what becomes of standard numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.random import floating
from mdf_loop.kernels.mdf.expression_arrays import bounded
from mdf_loop.kernels.mdf.expression_operators import DOMAIN
from mdf_loop.ops.registry import say
from mdf_loop.ops.rows import Drawing
from mdf_loop.step.build import Builder, CannotLower
from mdf_loop.step.primitives import FLOAT64
from mdf_loop.step.records import Value

Moved = Callable[[Value], tuple[Value, Value | None]]
"""The result, of standard numbers, and what is true where numpy refuses the parameters."""


def _of_onnx(method: str, **defaults: float) -> Callable[..., Drawing]:
    """Numbers that are drawn with parameters that are attributes."""

    def drawing(b: Builder, x: Value | None = None, *, dtype: int | None = None, **attrs: Any) -> Drawing:
        parameters = tuple(float(attrs.get(name, default)) for name, default in defaults.items())
        if x is None:
            return Drawing(method, parameters, tuple(attrs["shape"]), floating(1 if dtype is None else dtype))
        return Drawing(method, parameters, x.type.shape, floating(dtype, x.type))

    return drawing


for _op in ("RandomNormal", "RandomNormalLike"):
    say(_op, drawing=_of_onnx("normal", mean=0.0, scale=1.0))
for _op in ("RandomUniform", "RandomUniformLike"):
    say(_op, drawing=_of_onnx("uniform", low=0.0, high=1.0))


def _normal(b: Builder, loc: Value | None = None, scale: Value | None = None, size: Value | None = None) -> Drawing:
    mean, width = _as_float(b, loc), _as_float(b, scale)

    def moved(standard: Value) -> tuple[Value, Value | None]:
        spread = standard if width is None else b.mul(width, standard)
        found = b.add(spread, 0.0) if mean is None else b.add(mean, spread)
        return found, None if width is None else b.and_(b.signbit(width), b.eq(width, width))

    return _moved("standard_normal", (mean, width), size, moved)


def _uniform(b: Builder, low: Value | None = None, high: Value | None = None, size: Value | None = None) -> Drawing:
    first, last = (b.const(np.float64(default)) if x is None else _as_float(b, x) for x, default in ((low, 0.0), (high, 1.0)))

    def moved(standard: Value) -> tuple[Value, Value | None]:
        width = b.sub(last, first)
        return b.add(first, b.mul(width, standard)), b.ne(b.sub(width, width), 0.0)  # it has to be finite

    return _moved("random", (first, last), size, moved)


def _standard(method: str) -> Callable[..., Drawing]:
    def drawing(b: Builder, *lengths: Value) -> Drawing:
        shape = bounded(tuple(map(_known, lengths)), "random numbers") if lengths else ()
        return Drawing(method, (), tuple(shape), FLOAT64, is_weak=not lengths)

    return drawing


say("numpy.random.normal", domain=DOMAIN, drawing=_normal)
say("numpy.random.uniform", domain=DOMAIN, drawing=_uniform)
say("numpy.random.randn", domain=DOMAIN, drawing=_standard("standard_normal"))
say("numpy.random.rand", domain=DOMAIN, drawing=_standard("random"))


def _as_float(b: Builder, x: Value | None) -> Value | None:
    """A parameter as numpy's functions take it."""
    if x is None:
        return None
    if x.type.kind not in "biuf":
        raise CannotLower("random numbers with other parameters than real numbers")
    return b.cast(x, FLOAT64)


def _moved(method: str, parameters: Sequence[Value | None], size: Value | None, moved: Moved) -> Drawing:
    """Numbers in the common shape of their parameters, or in one that is said; a single one is Python's."""
    shapes = [x.type.shape for x in parameters if x is not None]
    if any(shape is None or not all(isinstance(n, int) for n in shape) for shape in shapes):
        raise CannotLower("random numbers with parameters of unknown shape")
    shape = np.broadcast_shapes(*shapes)  # type: ignore[arg-type]
    if size is None:
        return Drawing(method, (), shape, FLOAT64, is_weak=shape == (), moved=moved)
    wanted = tuple(np.atleast_1d(bounded(_known(size), "random numbers")).tolist())
    if np.broadcast_shapes(shape, wanted) != wanted:
        raise CannotLower("random numbers with parameters of another shape")
    return Drawing(method, (), wanted, FLOAT64, moved=moved)


def _known(x: Value) -> Any:
    if x.op != "const":
        raise CannotLower("as many random numbers as only the run can tell")
    return x.attr
