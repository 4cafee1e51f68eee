"""Numbers of Python's own: floats as numpy's, whole numbers as long as 64 bits hold them.

Python raises errors where numpy gives infinities and nan, and its whole numbers have no end: where it may be so, the program
leaves the work to the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, writes
from mdf_loop.backends.llvm.lanes import arithmetic, casts
from mdf_loop.backends.llvm.lanes.element_types import BOOL, FLOAT64, INT64, CannotCompile
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, number
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes
from mdf_loop.kernels.numbers.wide import EXACT64
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Value

_WHOLE = {"math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc", "python.round": "rint"}


def is_weak(v: Value) -> bool:
    """Whether an operation is one of Python's, on numbers of its own."""
    return v.op.startswith(("math.", "python.")) or all(x.type.weak for x in v.args)


def computed(e: Emitter, v: Value) -> Array:
    """The value of an operation.

    Raises
    ------
    CannotCompile
        There is no template for it.
    """
    dtype = v.type.dtype
    if dtype not in (BOOL, INT64, FLOAT64) or not all(x.type.dtype in (BOOL, INT64, FLOAT64) for x in v.args):
        raise CannotCompile(f"{v.op} of Python's own numbers has no compiled form")
    write = _Weak(e, v, dtype)
    return number(dtype, write.written())


class _Weak:
    """One operation."""

    def __init__(self, e: Emitter, v: Value, dtype: np.dtype) -> None:
        self.e, self.v, self.dtype, self.lanes, self.new = e, v, dtype, Lanes(e.text), e.text.new
        self.kinds = {x.type.kind for x in v.args}

    def written(self) -> str:
        """The number."""
        name = self.v.op
        if name in _WHOLE and len(self.v.args) == 1:
            return self._whole(_WHOLE[name])
        if name.startswith("math."):
            return self._function("abs" if name == "math.fabs" else name.removeprefix("math."))
        if self.dtype == BOOL:
            return self._question()
        if self.dtype == INT64:
            return self._integer()
        return self._real()

    def _args(self, dtype: np.dtype) -> list[str]:
        found = []
        for x in self.v.args:
            value = self.e.number_of(x, x.type.dtype)
            if x.type.kind == "i" and dtype == FLOAT64:
                self._leave_where_inexact(value)
            found.append(casts.converted(self.lanes, value, x.type.dtype, dtype))  # type: ignore[arg-type]
        return found

    def _leave_where_inexact(self, value: str) -> None:
        """Python compares and divides whole numbers exactly, floats do not hold large ones."""
        if value.lstrip("-").isdigit() and abs(int(value)) <= EXACT64:
            return
        shifted = self.new(f"add i64 {value}, {EXACT64}")
        self.e.leave_if(self.new(f"icmp ugt i64 {shifted}, {2 * EXACT64}"))

    def _plain(self, name: str, args: Sequence[str], dtype: np.dtype) -> str:
        return arithmetic.written(self.lanes, name, dtype, args)

    def _leave_where_zero(self, value: str, dtype: np.dtype) -> None:
        self.e.leave_if(self._plain("eq", [value, self.lanes.number(dtype, 0)], dtype))

    def _leave_where_not_finite(self, value: str) -> None:
        size = self.lanes.call("fabs", FLOAT64, value)
        self.e.leave_if(self.new(f"fcmp uge double {size}, {self.lanes.number(FLOAT64, np.inf)}"))

    def _question(self) -> str:
        if PRIMITIVES[self.v.op].refuses:
            raise CannotCompile(f"{self.v.op} of Python's own numbers has no compiled form")
        working = FLOAT64 if "f" in self.kinds else INT64 if "i" in self.kinds else BOOL
        return self._plain(self.v.op, self._args(working), working)

    def _integer(self) -> str:
        args = self._args(INT64)
        name = self.v.op
        if name == "neg":
            name, args = "sub", ["0", *args]
        if name == "pow" and self.v.args[1].op == "const" and self.v.args[1].attr == 2:
            name, args = "mul", [args[0], args[0]]
        if PRIMITIVES[name].wraps:
            return self.e.exact(f"s{name}", *args)
        if PRIMITIVES[name].divides:
            self._leave_where_zero(args[1], INT64)
            if name == "floordiv":
                self._leave_where_lowest(args[0])
            return self._plain(name, args, INT64)
        if name == "abs":
            self._leave_where_lowest(args[0])
        if PRIMITIVES[name].refuses:
            raise CannotCompile(f"{name} of Python's own numbers has no compiled form")
        return self._plain(name, args, INT64)

    def _leave_where_lowest(self, value: str) -> None:
        """The lowest number has no opposite in 64 bits."""
        self.e.leave_if(self.new(f"icmp eq i64 {value}, {-1 << 63}"))

    def _real(self) -> str:
        args, name = self._args(FLOAT64), self.v.op
        if PRIMITIVES[name].divides:
            self._leave_where_zero(args[1], FLOAT64)
        elif name == "pow":
            return self._power(args)
        elif PRIMITIVES[name].refuses:
            raise CannotCompile(f"{name} of Python's own numbers has no compiled form")
        return self._plain(name, args, FLOAT64)

    def _power(self, args: Sequence[str]) -> str:
        """A power that is a float: roots of negative numbers are complex."""
        found = self._plain("pow", args, FLOAT64)
        self._leave_where_not_finite(found)
        return found

    def _function(self, name: str) -> str:
        if self.dtype != FLOAT64 or (name, "f") not in arithmetic.WRITERS:
            raise CannotCompile(f"{name} of Python's own numbers has no compiled form")
        found = self._plain(name, self._args(FLOAT64), FLOAT64)
        self._leave_where_not_finite(found)
        return found

    def _whole(self, name: str) -> str:
        if self.dtype != INT64:
            raise CannotCompile(f"{name} of Python's own numbers has no compiled form")
        if "f" not in self.kinds:
            return self._args(INT64)[0]
        rounded = self._plain(name, self._args(FLOAT64), FLOAT64)
        return whole_of(self.e, rounded)


def leave_where_too_large(e: Emitter, x: Value, dtype: np.dtype) -> None:
    """A whole number of Python's own beside values of a type that cannot hold it: numpy refuses it.

    Raises
    ------
    CannotCompile
        It is a constant.
    """
    if not x.type.weak or x.type.kind != "i" or dtype.kind not in "iu":
        return
    limits = np.iinfo(dtype)
    if x.op == "const":
        if not limits.min <= x.attr <= limits.max:
            raise CannotCompile(f"{x.attr} beside values of {dtype.name} has no compiled form")
    elif dtype != INT64:
        value = e.number_of(x, INT64)
        low, high = max(limits.min, -1 << 63), min(limits.max, (1 << 63) - 1)
        e.leave_if(e.text.new(f"icmp slt i64 {value}, {low}"))
        e.leave_if(e.text.new(f"icmp sgt i64 {value}, {high}"))


def fitted(e: Emitter, x: Value, dtype: np.dtype) -> Array:
    """A number of Python's own that is about to become one of numpy's: it has to fit.

    Raises
    ------
    CannotCompile
        It is a constant that does not, or becomes a whole number of few bits.
    """
    leave_where_too_large(e, x, dtype)
    found = e.of(x)
    if x.type.kind != "f" or dtype.kind not in "iu":
        return found
    if dtype != INT64:
        raise CannotCompile(f"a float of Python's own as {dtype.name} has no compiled form")
    return number(INT64, whole_of(e, arithmetic.written(Lanes(e.text), "trunc", FLOAT64, [e.number_of(found)])))


@writes("fraction")
def fraction(e: Emitter, v: Value) -> Array:
    """A float as it is, where it has a fraction: one without is a whole number of Python's from here on."""
    value = e.number_of(v.args[0], FLOAT64)
    e.leave_if(e.text.new(f"fcmp oeq double {value}, {Lanes(e.text).call('trunc', FLOAT64, value)}"))
    return number(FLOAT64, value)


def whole_of(e: Emitter, value: str) -> str:
    """A float that is a whole number as one, if 64 bits hold it."""
    lanes = Lanes(e.text)
    size = lanes.call("fabs", FLOAT64, value)
    e.leave_if(e.text.new(f"fcmp uge double {size}, {lanes.number(FLOAT64, 2.0**63)}"))
    return casts.converted(lanes, value, FLOAT64, INT64)


def converted(e: Emitter, x: Array, dtype: np.dtype) -> Array:
    """A number as one of Python's own, as its types convert it."""
    if x.dtype not in (BOOL, INT64, FLOAT64) or dtype not in (BOOL, INT64, FLOAT64):
        raise CannotCompile(f"{x.dtype.name} as one of Python's own numbers has no compiled form")
    value = e.number_of(x)
    if x.dtype == FLOAT64 and dtype == INT64:
        return number(dtype, whole_of(e, value))
    return number(dtype, casts.converted(Lanes(e.text), value, x.dtype, dtype))
