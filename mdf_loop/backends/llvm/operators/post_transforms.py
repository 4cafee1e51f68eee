"""What ai.onnx.ml does to scores: rows of them, as the kernels transform them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elementwise import computed
from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes import Lanes
from mdf_loop.backends.llvm.reductions import reduced


class Numbers:
    """Arithmetic with lanes of one type of floats."""

    def __init__(self, lanes: Lanes, dtype: np.dtype) -> None:
        self.lanes, self.dtype = lanes, dtype

    def k(self, value: float) -> str:
        """A constant."""
        return self.lanes.number(self.dtype, value)

    def do(self, name: str, *args: str) -> str:
        """A primitive."""
        return written(self.lanes, name, self.dtype, args)


def transformed(e: Emitter, scores: Array, name: str, target: np.dtype) -> Array:
    """Scores in memory after one of the transformations, computed in their type and rounded to another."""
    found = _TRANSFORMS[name](e, scores)
    return computed(e, target, [found], lambda lanes, x: converted(lanes, x, found.dtype, target))


def _of_each(compute: Callable[[Numbers, str], str]) -> Callable[[Emitter, Array], Array]:
    """A function of each score alone."""

    def write(e: Emitter, x: Array) -> Array:
        return computed(e, x.dtype, [x], lambda lanes, value: compute(Numbers(lanes, x.dtype), value))

    return write


def _logistic(f: Numbers, x: str) -> str:
    return f.do("div", f.k(1), f.do("add", f.k(1), f.do("exp", f.do("neg", x))))


def _probit(f: Numbers, x: str) -> str:
    log = f.do("log", f.do("mul", f.do("mul", f.k(4), x), f.do("sub", f.k(1), x)))
    half = f.do("add", f.k(2 / (math.pi * 0.147)), f.do("mul", f.k(0.5), log))
    root = f.do("sqrt", f.do("sub", f.do("mul", half, half), f.do("div", log, f.k(0.147))))
    size = f.do("sqrt", f.do("mul", f.k(2), f.do("sub", root, half)))
    return f.do("copysign", size, f.do("sub", x, f.k(0.5)))


def _power(f: Numbers, x: str, largest: str) -> str:
    return f.do("exp", f.do("sub", x, largest))


def _power_unless_zero(f: Numbers, x: str, largest: str) -> str:
    is_score = f.do("gt", f.do("abs", x), f.k(1e-7))
    return f.lanes.select(f.dtype, is_score, _power(f, x, largest), f.do("mul", x, f.do("exp", f.do("neg", largest))))


def _softmax(power: Callable[[Numbers, str, str], str]) -> Callable[[Emitter, Array], Array]:
    """Powers of the scores of a row, divided by their sum."""

    def write(e: Emitter, x: Array) -> Array:
        dtype = x.dtype
        largest = reduced(e, x, "max", dtype, (1,))
        powers = e.materialised(computed(e, dtype, [x, largest], lambda lanes, a, b: power(Numbers(lanes, dtype), a, b)))
        total = reduced(e, powers, "sum", dtype, (1,))
        return computed(e, dtype, [powers, total], lambda lanes, a, b: written(lanes, "div", dtype, [a, b]))

    return write


_TRANSFORMS: dict[str, Callable[[Emitter, Array], Array]] = {
    "NONE": lambda e, x: x,
    "LOGISTIC": _of_each(_logistic),
    "PROBIT": _of_each(_probit),
    "SOFTMAX": _softmax(_power),
    "SOFTMAX_ZERO": _softmax(_power_unless_zero),
}
