"""Numbers of MDF's expressions put into arrays and taken out of them."""

from __future__ import annotations

from typing import Any

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.kernels.definitions.mdf_operators import FLOAT64, of_python
from mdf_loop.kernels.definitions.of_places import entry, from_front
from mdf_loop.kernels.definitions.of_shapes import is_number


@of_python("array")
def array(b, *elements, shape):
    """Numbers in a row, put into a shape."""
    if not elements or not all(x is not None and is_number(x) for x in elements):
        raise ValueError("no row of numbers")
    dtype = b.common_type(*elements, as_numpys=True)
    row = b.pack([b.cast(b.strong(x), dtype) for x in elements])
    return b.reshape(row, shape)


@of_python("listed")
def listed(b, *elements, place):
    """An element of a list, in the type of them all if they have one shape."""
    if not all(x.type.is_static for x in elements) or not -len(elements) <= place < len(elements):
        raise ValueError("shapes that only the run knows")
    if len({x.type.shape for x in elements}) > 1:
        return elements[place]
    if any(x.type.weak and x.type.kind == "i" and (x.op != "const" or abs(x.attr) >> 63) for x in elements):
        raise ValueError("a whole number without end")
    return b.cast(b.strong(elements[place]), b.common_type(*elements, as_numpys=True))


@of_python("tensor")
def tensor(b, x, *like, floating=False, vector=False):
    """A number of Python's as an array."""
    if not x.type.weak:
        return x
    if any(y is not None and not y.type.weak for y in like):
        raise ValueError("an element type to be found")
    found = b.strong(x, FLOAT64 if floating and x.type.kind == "i" else None)
    return b.pack([found]) if vector else b.as_array(found)


@of_python("dimension")
def dimension(b, x, *, axis):
    """The length of an axis, as a whole number of Python's."""
    if x.type.shape is None or not -len(x.type.shape) <= axis < len(x.type.shape):
        raise ValueError("no such axis")
    return b.python(b.length(x, axis % len(x.type.shape)), int)


@of_python("builtins.len")
def len_(b, x):
    """How many rows there are."""
    if not x.type.shape:
        raise ValueError("a number has no length")
    return dimension(b, x, axis=0)


@of_python("index")
def index(b, x, *, index):
    """``x[index]`` with whole numbers and slices that are known."""
    parts = index if type(index) is tuple else (index,)
    shape = x.type.shape
    if not shape or not x.type.is_static or len(parts) > len(shape) or any(type(p) not in (int, slice) for p in parts):
        raise ValueError("an index of other things")
    if all(type(p) is int for p in parts):
        return _entry_of(b, x, [b.const(p) for p in parts])
    slices = [slice(None)] * len(shape)
    for k, part in enumerate(parts):
        slices[k] = part if type(part) is slice else slice(place(part, shape[k]), place(part, shape[k]) + 1)
    found = b.slice(x, slices)
    gone = {k for k, part in enumerate(parts) if type(part) is int}
    return b.reshape(found, [n for k, n in enumerate(found.type.shape) if k not in gone])


@of_python("getitem")
def getitem(b, x, *values, index):
    """``x[i]`` and ``x[i, j]`` with whole numbers that only the run knows."""
    template = index[1:] if index[0] == "tuple" else (index,)
    parts = [values[part[1]] if type(part) is tuple and part[0] == "value" else part for part in template]
    parts = [b.const(part) if type(part) is int else part for part in parts]
    if not x.type.shape or not x.type.is_static or len(parts) > len(x.type.shape):
        raise ValueError("lengths that are not known")
    if any(type(part) is slice or not hasattr(part, "type") or not _is_place(part) for part in parts):
        raise ValueError("an index of other things")
    return _entry_of(b, x, parts)


def _is_place(x: Any) -> bool:
    return is_number(x) and x.type.kind in "iu"


def _entry_of(b: Any, x: Any, parts: list[Any]) -> Any:
    """One entry of the leading axes."""
    for part in parts:
        x = entry(b, x, from_front(b, part, x.type.shape[0]))
    return x
