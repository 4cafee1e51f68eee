"""Values of Python's own in a Step: what a builder makes of weak numbers and of lists, for all definitions and back ends.

Weak numbers among themselves stay Python's.  Beside values of numpy's each is brought to the type in which numpy's function
takes it, so that no operation has both.  Where types cannot tell the exact type or value, ValueError is raised and the
kernel is called as a whole: rather that than another number.

A list all of whose elements have one type and one shape is an array with one axis more, as long as the list.  It stays an
array wherever it goes, in loops and branches as well; ``rows`` is that list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.step.primitives import PRIMITIVES, dtypes_of, promoted
from mdf_loop.step.records import UNKNOWN, Length, Size, Type, Value

NATIVE = {np.dtype(kind) for kind in (np.bool_, np.int32, np.int64, np.float64)}
"""Element types of numbers that are Python's own inside a program: they are brought to one type before they meet."""


class OfWeak:
    """The part of a builder that is about weak numbers."""

    cast: Callable[..., Value]
    python: Callable[..., Value]
    element: Callable[..., Value]

    def strong(self, x: Value, dtype: np.dtype | None = None) -> Value:
        """A value with an element type of numpy's: that which it has, if no other one is said."""
        found = x.type.dtype if dtype is None else dtype
        if found is None or found.kind == "O":
            raise ValueError("an int or a float")
        return self.cast(x, found)

    def common_type(self, *inputs: Value, as_numpys: bool = False) -> np.dtype:
        """The common element type of values; Python's numbers take that of the others, or count ``as_numpys`` in an array."""
        types = [x.type for x in inputs]
        if as_numpys:
            types = [Type(t.dtype, t.shape) if t.weak and t.kind != "O" else t for t in types]
        found = promoted(types)
        if found is None:
            raise ValueError("an int or a float")
        return found

    def common(self, *given: Value) -> list[Value]:
        """Values brought to their common element type, as numpy promotes them."""
        dtype = promoted([x.type for x in given])
        if dtype is None or all(x.type.weak for x in given):
            return list(given)
        return [self.cast(x, dtype) for x in given]

    def fitted(self, inputs: Sequence[Value], dtypes: Sequence[np.dtype]) -> list[Value]:
        """Values in these element types; weak whole numbers have to be some of numpy's first, where only they become floats."""
        meets_floats = any(x.type.kind == "f" and not x.type.weak for x in inputs)
        pairs = zip(inputs, dtypes, strict=True)
        return [self.cast(x if meets_floats or x.type.kind + t.kind != "if" else self.strong(x), t) for x, t in pairs]

    def taken(self, name: str, args: Sequence[Value], found: Type) -> Sequence[Value]:
        """The arguments of a primitive as numpy's function takes them, where some are weak, or all are numbers."""
        if "python.whole" in [x.op for x in args]:
            args = self.as_floats(name, args, found)
        ufunc = PRIMITIVES[name].ufunc
        if found.weak or ufunc is None:
            return args
        types = [x.type for x in args]
        is_weak = True in [t.weak for t in types]
        if not (is_weak or (found.shape == () and _are_mixed(types, found))):
            return args
        if PRIMITIVES[name].bounded and any(t.shape or t.is_array for t in types) and any(map(self.has_no_end, args)):
            raise ValueError("a whole number without end beside an array: the kernel sees that it is not too long")
        dtypes = dtypes_of(ufunc, types)[:-1]
        if not is_weak and not (NATIVE.issuperset(dtypes) and all(t.kind not in "uc" for t in types)):
            return args
        if any(dtype is None for dtype in dtypes):  # to numpy None is float64 as well
            raise ValueError("an int or a float")
        return self.fitted(args, dtypes)  # type: ignore[arg-type]

    def has_no_end(self, x: Value) -> bool:
        """Whether a whole number of Python's may have more than 64 bits."""
        return x.type.weak and x.type.kind in "iO" and (x.op != "const" or bool(abs(x.attr) >> 63))

    def as_floats(self, name: str, args: Sequence[Value], found: Type) -> Sequence[Value]:
        """What may be a whole number as a float, where a primitive takes it as one: beside floats, or compared with numbers."""
        is_bool = found.kind == "b"
        if name not in _ALIKE or not (is_bool or found.dtype == np.float64):
            return args
        if not all(x.op == "python.whole" or x.type.dtype == np.float64 or (is_bool and x.op == "const") for x in args):
            return args
        return [*map(self.as_float, args)]

    def as_float(self, x: Value) -> Value:
        """What ``python.whole`` makes of a float, as a float: -0.0 became 0, and nothing else changes."""
        return self.element("add", x.args[0], 0.0) if x.op == "python.whole" and x.args[0].type.kind == "f" else x

    def of_math(self, name: str, *inputs: Value | None) -> Value:
        """A function of Python's math."""
        given = [x for x in inputs if x is not None and x.type.shape == () and x.type.kind in "bifO"]
        if len(given) < len(inputs):
            raise ValueError("a function of numbers")
        if name == "math.trunc" and not given[0].type.weak and (given[0].type.dtype != np.float64 or given[0].type.is_array):
            raise ValueError("Python does not know it")
        if name == "math.ldexp" and not given[-1].type.weak:
            raise ValueError("Python does not take it")
        return self.element(name, *[self._pythons(x, name in ("math.gcd", "math.lcm")) for x in given])

    def _pythons(self, x: Value, whole: bool) -> Value:
        """A number as Python's math takes it: numpy's are floats for it, where it does not ask for whole ones."""
        if x.type.weak:
            return x
        if whole and x.type.kind != "i":
            raise ValueError("no whole number")
        return self.python(x, int if whole else float)


_ALIKE = {"add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne"}
"""Primitives that take a whole number beside a float as a float of the same value."""


def number_text(x: Value) -> str | bytes:
    """What is the same for constant numbers of one type that are the same."""
    return repr(x.attr) if x.type.weak else x.attr.tobytes()


def _are_mixed(types: Sequence[Type], found: Type) -> bool:
    """Whether numbers are not all of one type, or numpy computes in another one."""
    dtypes = [t.dtype for t in types]
    return dtypes.count(dtypes[0]) < len(dtypes) or (found.dtype != dtypes[0] and found.kind != "b")


@dataclass(eq=False, repr=False)
class Filling:
    """What is put into a carried list that began empty, seen while its loop is looked at for the first time.

    Attributes
    ----------
    type : Type or None
        The type of the elements; ``UNKNOWN`` where they have several.
    """

    type: Type | None = None

    def note(self, type: Type) -> None:
        """An element of this type was put in."""
        self.type = type if self.type in (None, type) else UNKNOWN


class OfLists:
    """The part of a builder that makes lists."""

    put_in: Callable[..., Value]
    const: Callable[..., Value]

    def rows(self, array: Value | None = None, filling: Filling | None = None) -> Value:
        """The list of an array's rows, or one without elements of which nothing is known but what is put in."""
        return self.put_in("rows", () if array is None else (array,), UNKNOWN, filling)

    def no_rows(self, row: Type) -> Value:
        """The array of a list without elements, of which the type is known."""
        return self.const(np.empty((0, *(n for n in row.shape or () if isinstance(n, int))), row.dtype))

    def insert(self, array: Value, row: Value, place: Value) -> Value:
        """An array with one row more, in front of the one at a place that is in range."""
        return self.put_in("insert", (array, row, place), _of_length(array.type, 1))

    def erase(self, array: Value, place: Value) -> Value:
        """An array without the row at a place that is in range."""
        return self.put_in("erase", (array, place), _of_length(array.type, -1))


def _of_length(type: Type, change: int) -> Type:
    """A type with more rows, or fewer."""
    count, *others = type.shape or ()
    length: Length = count + change if isinstance(count, int) else Size()
    return Type(type.dtype, (length, *others))


def row_of(type: Type) -> Type:
    """The type of a row of an array."""
    return Type(type.dtype, (type.shape or ())[1:])


def row_type(array: Value) -> Type | None:
    """The same, if all is known of it."""
    found = row_of(array.type)
    return found if array.type.shape and found.is_static else None


def is_empty(value: Any) -> bool:
    """Whether a value is a list without elements, of which nothing else is known."""
    return value.op == "rows" and not value.args
