"""Which functions there are, and how a program calls them: ours for all lanes at once, C's for one number after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import ELEMENTS, FLOAT32, FLOAT64
from mdf_loop.backends.llvm.lanes.instructions import Text
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes
from mdf_loop.backends.llvm.mathematics.elementary import (
    Real,
    by_double,
    cos,
    erf,
    exp,
    expm1,
    log,
    log1p,
    power,
    power_by_logarithm,
    sin,
    tanh,
)

FUNCTIONS: dict[str, tuple[Callable[..., str], Callable[..., str]]] = {
    "exp": (exp, exp),
    "expm1": (expm1, expm1),
    "tanh": (tanh, tanh),
    "log": (log, log),
    "log1p": (log1p, by_double(log1p)),
    "sin": (sin, by_double(sin)),
    "cos": (cos, by_double(cos)),
    "erf": (erf, erf),
    "pow": (power, by_double(power_by_logarithm)),
}
"""Our own functions by primitive, for float64 and for float32."""

FOREIGN = (
    *("exp2", "log2", "log10", "cbrt", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "atan2"),
    *("hypot", "fmod"),
)
"""Primitives that are C's functions of their names."""

ONLY_DOUBLE = ("hypot",)
"""Functions that are called for float64 alone: Windows exports no ``hypotf``."""

LARGEST = {"sin": 1e9, "cos": 1e9}
"""Up to which size our functions are right."""

PREFIX = "mdf_"


def called(lanes: Lanes, name: str, dtype: np.dtype, args: Sequence[str]) -> str:
    """A call of one of our functions, or of C's where there is none."""
    if name not in FUNCTIONS:
        return one_by_one(lanes, name, dtype, args)
    type = lanes.register(dtype)
    call = lanes.text.declare(f"{PREFIX}{name}_{ELEMENTS[dtype].suffix}_{lanes.width}", type, *[type] * len(args))
    return lanes.text.new(f"{call}({', '.join(f'{type} {x}' for x in args)})")


def one_by_one(lanes: Lanes, name: str, dtype: np.dtype, args: Sequence[str]) -> str:
    """Calls of one of C's functions."""
    type, own, new = ELEMENTS[dtype].register, FLOAT64 if name in ONLY_DOUBLE else dtype, lanes.text.new
    wide = ELEMENTS[own].register
    call = lanes.text.declare(name + ("f" if own == FLOAT32 else ""), wide, *[wide] * len(args))
    found = []
    for k in range(lanes.width if lanes.active is None else lanes.active):
        given = [lanes.lane(type, x, k) for x in args]
        if wide == type:
            found.append(new(f"{call}({', '.join(f'{type} {x}' for x in given)})"))
            continue
        given = [new(f"fpext {type} {x} to {wide}") for x in given]
        result = new(f"{call}({', '.join(f'{wide} {x}' for x in given)})")
        found.append(new(f"fptrunc {wide} {result} to {type}"))
    return lanes.together(type, found)


def _return_large(lanes: Lanes, name: str, dtype: np.dtype, result: str) -> None:
    """Where numbers are larger than our function is right for, those are what C's gives."""
    text, real = lanes.text, Real(lanes, dtype)
    is_large = real.is_("oge", real.call("fabs", "%x"), real.k(LARGEST[name]))
    far, near = text.label(), text.label()
    text.fork(lanes.any(is_large), far, near)
    text.start(far)
    found = one_by_one(lanes, name, dtype, ["%x"])
    text.line(f"ret {real.type} {real.select(is_large, found, result)}")
    text.start(near)


@functools.cache
def text_of(symbol: str) -> str:
    """The text of the function that a symbol such as ``mdf_exp_f32_8`` names."""
    name, suffix, width = symbol.removeprefix(PREFIX).split("_")
    dtype = next(dtype for dtype, row in ELEMENTS.items() if row.suffix == suffix)
    text = Text()
    lanes = Lanes(text, int(width))
    function = FUNCTIONS[name][dtype == FLOAT32]
    names = ["%x", "%y"][: 2 if name == "pow" else 1]
    type = lanes.register(dtype)
    result = function(Real(lanes, dtype), *names)
    if name in LARGEST:
        _return_large(lanes, name, dtype, result)
    start = [] if text.block == "entry" else ["entry:"]
    head = f"define {type} @{symbol}({', '.join(f'{type} {x}' for x in names)}) nounwind {{"
    return "\n".join([*text.declarations.values(), head, *start, *text.lines, f"  ret {type} {result}", "}"]) + "\n"
