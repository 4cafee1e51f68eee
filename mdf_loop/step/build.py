"""The builder: typed values, one after the other, into the region that is open.

Its methods are the primitives (``b.add(x, y)``, see :mod:`mdf_loop.step.primitives`), which broadcast, and the structural
operations, and take numbers for values.  Constants are computed at once, and what is the value itself is returned as it is.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Collected, Scanned
from mdf_loop.step.failing import current_guesses
from mdf_loop.step.primitives import (
    BOOL,
    INT64,
    PRIMITIVES,
    broadcast_shape,
    dtype_of_result,
    either_kind,
    joined_shape,
    type_of_result,
)
from mdf_loop.step.python_values import OfLists, OfWeak, number_text
from mdf_loop.step.records import UNKNOWN, Apply, Length, LoopRegion, Reduction, Region, Scope, Shape, Size, Type, Value

MOST_FOLDED = 1 << 16
"""Elements up to which a constant result is computed while building; larger ones are left to the run."""

FEW = 16
"""Numbers of a vector up to which they are known one by one."""

NUMBERS = frozenset(map(np.dtype, (np.float64, np.int64, np.bool_)))
"""Element types of which one number is worked on faster than an array that holds it."""

_STAYS = {"loop", "branch", "item"}
"""Operations that stay where they are made: what their regions read is not among their arguments."""

Given = Value | bool | int | float | complex | np.generic | None


class CannotLower(Exception):
    """Something that has no form in a Step; says what."""


def type_of_value(value: Any, exact: bool = False) -> Type:
    """The type of a value that is there; ``exact`` tells an array without dimensions from a number."""
    if isinstance(value, (np.ndarray, np.generic)) and (dtype := value.dtype).kind in "fiubcV":
        return Type(dtype, value.shape, is_array=exact and isinstance(value, np.ndarray) and not value.ndim)
    if type(value) in (bool, int, float, complex):
        return Type(np.dtype(type(value)), (), weak=True)
    return UNKNOWN


class Builder(OfLists, OfWeak):
    """Makes the values of a Step.

    Attributes
    ----------
    guesses, traces, takes_open : bool
        Whether it may say what the program has to look at, see :func:`guessing`; whether a kernel is being traced; whether
        definitions of numpy's functions take open lengths, and leave it to the run whether there are elements at all.
    """

    def __init__(self) -> None:
        self.guesses, self.traces, self.takes_open = current_guesses(), False, False
        self._scopes = [Scope()]
        self._depths, self._known = dict[Value, int](), dict[Hashable, Value]()  # what is known is of the regions that are open

    def param(self, type: Type, number: int = 0) -> Value:
        """A parameter of the region that is open."""
        value = Value("param", (), type, number)
        self._scopes[-1].params.append(value)
        self._depths[value] = len(self._scopes) - 1
        return value

    @contextlib.contextmanager
    def region(self, is_loop: bool = False) -> Iterator[Callable[[Sequence[Value]], Region]]:
        """Open a region inside; what is given closes it with its results."""
        scope = Scope(is_loop=is_loop)
        self._scopes.append(scope)
        try:
            yield scope.closed
        finally:
            self._forget(self._scopes.pop(), 0)

    def _forget(self, scope: Scope, length: int) -> None:
        """Know the values of a region no more, but for so many of the first ones."""
        for key in filter(None, scope.keys[length:]):
            del self._known[key]
        del scope.keys[length:]

    def inline(self, region: Region) -> None:
        """Put the values of a region that was closed into the one that is open, each where it belongs."""
        for value in region.values:
            self._put(value, self._key(value))

    def mark(self) -> list[int]:
        """Where every open region stands."""
        return [len(scope.values) for scope in self._scopes]

    def since(self, mark: Sequence[int]) -> list[Value]:
        """What was made since, in the regions that were open then."""
        return [value for scope, length in zip(self._scopes, mark, strict=True) for value in scope.values[length:]]

    def rewind(self, mark: Sequence[int]) -> None:
        """Forget what was made since, in the regions that were open then."""
        for scope, length in zip(self._scopes, mark, strict=True):
            self._forget(scope, length)
            del scope.values[length:]

    def closed(self, results: Sequence[Value]) -> Region:
        """The outermost region."""
        return self._scopes[0].closed(results)

    def put_in(self, op: str, args: Sequence[Value], type: Type, attr: Any = None) -> Value:
        """A value, as it is said: a new one, or one that is there already and was computed in the same way."""
        value = Value(op, tuple(args), type, attr)
        key = self._key(value)
        if key is not None and (found := self._known.get(key)) is not None:
            return found
        self._put(value, key)
        return value

    @staticmethod
    def _key(value: Value) -> Hashable | None:
        """What is the same for values that are computed in the same way, as constant numbers are; None for a value of its own."""
        if value.op in _STAYS or value.op == "apply":
            return None
        args = [(x.type, number_text(x)) if x.op == "const" and x.type.is_number else x for x in value.args]
        type, attr, lengths = value.type, value.attr, value.type.shape
        if lengths and not type.is_static:  # a window's are nowhere else
            lengths = tuple([n for n in lengths if isinstance(n, int)])
        return value.op, *args, attr if attr is None else repr(attr), type.dtype, lengths, type.weak, type.is_array

    def _put(self, value: Value, key: Hashable | None) -> None:
        """A value that does not change from iteration to iteration belongs in front of the loop."""
        if value.type.shape and not value.type.has_room:
            raise CannotLower(f"a value of type {value.type}, for which there is no memory")
        depth = len(self._scopes) - 1
        if depth and value.op not in _STAYS and not (value.op == "apply" and value.attr.needs_run):
            needed = max([self._depths.get(x, 0) for x in value.args], default=0)
            while depth > needed and self._scopes[depth].is_loop:
                depth -= 1
        self._depths[value] = depth
        self._scopes[depth].values.append(value)
        self._scopes[depth].keys.append(key if key is not None and self._known.setdefault(key, value) is value else None)

    def is_outside(self, value: Value) -> bool:
        """Whether a value is computed before the region that is open."""
        return value.op == "const" or self._depths[value] < len(self._scopes) - 1

    # Constants and numbers

    def const(self, value: Any, exact: bool = False) -> Value:
        """A constant: an array, a number of numpy's, or a weak one of Python's."""
        if exact:
            return Value("const", (), type_of_value(value, exact), value)
        if isinstance(value, np.ndarray) and value.ndim == 0 and not value.dtype.hasobject:
            value = value[()]
        return Value("const", (), type_of_value(value), value)

    def number(self, value: Given, like: Value) -> Value:
        """A number in the element type of another value; a value is itself."""
        if isinstance(value, Value):
            return value
        if value is None:
            raise CannotLower("an input that is not there")
        if like.type.dtype is None or like.type.weak or isinstance(value, np.generic):
            return self.const(value)
        with np.errstate(all="ignore"):
            return self.const(like.type.dtype.type(value))

    # Elements

    def type_by(self, ufunc: np.ufunc, *args: Value) -> np.dtype | None:
        """The element type that a universal function gives; None if it takes no such values."""
        return dtype_of_result(ufunc, [x.type for x in args])

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name not in PRIMITIVES:
            raise AttributeError(name)
        return functools.partial(self.element, name)

    def element(self, name: str, *given: Given) -> Value:
        """A primitive of some values; numbers among them take the element type of the first value."""
        like = given[0] if isinstance(given[0], Value) else next(x for x in given if isinstance(x, Value))
        args: Sequence[Value] = [x if isinstance(x, Value) else self.number(x, like) for x in given]
        found = type_of_result(name, [x.type for x in args])
        if found.dtype is None:
            raise CannotLower(f"{name} of {', '.join(str(x.type) for x in args)}")
        args = self.taken(name, args, found)
        ops = {x.op for x in args}
        shorter = self._one_by_one if "pack" in ops else self._folded if ops == {"const"} else None
        return (shorter and shorter(name, args, found)) or self.put_in(name, args, found)

    def _one_by_one(self, name: str, args: Sequence[Value], type: Type) -> Value | None:
        """A short vector of numbers that are known one by one, as such a vector."""
        if type.shape is None or len(type.shape) != 1 or not type.is_static:
            return None
        columns = [(x,) * type.shape[0] if x.type.shape == () else self._repeated(x, type.shape[0]) for x in args]  # type: ignore[index, operator]
        if any(column is None for column in columns):
            return None
        return self.pack([self.element(name, *row) for row in zip(*columns, strict=True)])  # type: ignore[arg-type]

    def _repeated(self, x: Value, length: Length) -> tuple[Value, ...] | None:
        numbers = self.unpacked(x)
        if numbers is None or not isinstance(length, int):
            return None
        return numbers * length if len(numbers) == 1 else numbers

    def _folded(self, name: str, args: Sequence[Value], type: Type) -> Value | None:
        """The constant that a primitive of constants is."""
        if not type.is_static or type.size > MOST_FOLDED:
            return None
        if type.weak and PRIMITIVES[name].bounded:
            return None  # the run looks at their size
        try:
            with np.errstate(all="ignore"):
                found = PRIMITIVES[name].call(*[x.attr for x in args])
        except (ArithmeticError, ValueError):
            return None  # what Python refuses, it refuses in the run
        return self.const(found) if type_of_value(found) == type else None

    def cast(self, x: Value, dtype: np.dtype) -> Value:
        """A value in another element type, as ``astype`` converts it."""
        dtype = np.dtype(dtype)
        if x.type.dtype is None:
            raise CannotLower("a conversion of a value of unknown type")
        if x.type.dtype == dtype and not x.type.weak and not x.type.is_array:
            return x
        if x.op == "const" and np.size(x.attr) <= MOST_FOLDED and type(x.attr) is not int:
            with np.errstate(all="ignore"):
                return self.const(np.asarray(x.attr).astype(dtype))
        if x.op == "const" and type(x.attr) is int and abs(x.attr) < 1 << 31 and dtype.itemsize >= 4 and dtype.kind in "if":
            return self.const(dtype.type(x.attr))
        if x.op == "pack":
            return self.pack([self.cast(number, dtype) for number in x.args])
        x = self.as_float(x) if dtype == np.float64 else x
        return self.put_in("cast", (x,), Type(dtype, x.type.shape))

    def python(self, x: Value, kind: type) -> Value:
        """A number as one of Python's own: ``float``, ``int`` or ``bool``."""
        type = Type(np.dtype(kind), (), weak=True)
        if x.op == "const" and x.type.dtype == type.dtype and x.type.shape == ():
            return self.const(np.asarray(x.attr).item())
        return x if x.type == type else self.put_in("cast", (x,), type)

    def as_array(self, x: Value) -> Value:
        """A number as an array without dimensions."""
        return self.put_in("as_array", (x,), Type(x.type.dtype, (), is_array=True))

    def select(self, condition: Value, x: Given, y: Given) -> Value:
        """x where the condition is true, y elsewhere."""
        like = x if isinstance(x, Value) else y
        if not isinstance(like, Value):
            raise TypeError("one of the two must be a value")
        x, y = self.number(x, like), self.number(y, like)
        if condition.op == "const" and condition.type.shape == () and x.type == y.type and x.type.shape is not None:
            return x if condition.attr else y  # two unknown shapes may be two shapes
        if any(a.type.dtype is None for a in (condition, x, y)):  # to numpy None is float64 as well
            raise CannotLower("select of values of unknown types")
        x, y = self.common(x, y)
        if all(a.op == "const" and not a.type.weak and np.size(a.attr) <= FEW for a in (condition, x, y)):
            return self.const(np.where(condition.attr, x.attr, y.attr).astype(x.type.dtype)[()])
        shape = broadcast_shape([condition.type.shape, x.type.shape, y.type.shape])
        if len(shape or ()) == 1 and "pack" in (condition.op, x.op, y.op):
            columns = [self._repeated(a, shape[0]) if a.type.shape else (a,) * shape[0] for a in (condition, x, y)]  # type: ignore[index, operator]
            if all(column is not None for column in columns):
                return self.pack([self.select(*row) for row in zip(*columns, strict=True)])  # type: ignore[arg-type]
        weak = x.type.weak and y.type.weak
        found = either_kind(x.type, y.type).dtype if weak and x.type.dtype != y.type.dtype else x.type.dtype
        if found is None or x.type.weak != y.type.weak:
            raise CannotLower("select of two numbers of two types")
        return self.put_in("select", (condition, x, y), Type(found, shape, weak))

    # Shapes

    def length(self, x: Value, axis: int) -> Value:
        """How long an axis is, as a number of int64."""
        if x.type.shape is not None and isinstance(known := x.type.shape[axis], int):
            return self.const(np.int64(known))
        return self.put_in("length", (x,), Type(INT64, ()), axis)

    def pack(self, numbers: Sequence[Value]) -> Value:
        """A vector of numbers of one type."""
        if all(x.op == "const" for x in numbers):
            return self.const(np.array([x.attr for x in numbers], numbers[0].type.dtype))
        return self.put_in("pack", numbers, Type(numbers[0].type.dtype, (len(numbers),)))

    def unpacked(self, x: Value) -> tuple[Value, ...] | None:
        """The numbers of a vector that is short and of which they are known one by one."""
        if x.op == "pack":
            return x.args
        if x.op == "const" and x.type.rank == 1 and len(x.attr) <= FEW:
            return tuple(self.const(number) for number in x.attr)
        return None

    def reshape(self, x: Value, shape: Sequence[Length], lengths: Sequence[Value] = ()) -> Value:
        """A value in another shape; open lengths of it are those of the value itself, or given as numbers of int64, in order."""
        shape = tuple(shape)
        if x.type.shape == shape:
            return x
        if x.op == "const" and all(isinstance(n, int) for n in shape):
            return self.const(np.asarray(x.attr).reshape(shape))
        if x.type.shape == () and shape == (1,):
            return self.pack((x,))
        if x.op == "pack" and shape == () and len(x.args) == 1:
            return x.args[0]
        if x.op == "reshape" and all(isinstance(n, int) for n in shape) and len(x.args) == 1:
            return self.reshape(x.args[0], shape)
        known = Shape(tuple(n if isinstance(n, int) else None for n in shape))
        return self.put_in("reshape", (x, *self._lengths(x, shape, lengths)), Type(x.type.dtype, shape), known)

    def merged(self, x: Value, axis: int) -> Value:
        """A value with an axis and the one behind it as one."""
        shape = x.type.shape
        if shape is None:
            raise CannotLower("axes of a value of unknown rank")
        one, other = shape[axis], shape[axis + 1]
        length = one * other if isinstance(one, int) and isinstance(other, int) else Size()
        lengths = [self.length(x, k) for k, n in enumerate(shape) if k not in (axis, axis + 1) and isinstance(n, Size)]
        if isinstance(length, Size):
            before = sum(isinstance(n, Size) for n in shape[:axis])
            lengths.insert(before, self.element("mul", self.length(x, axis), self.length(x, axis + 1)))
        return self.reshape(x, (*shape[:axis], length, *shape[axis + 2 :]), lengths)

    def broadcast(self, x: Value, shape: Sequence[Length], lengths: Sequence[Value] = ()) -> Value:
        """A value repeated along axes of length 1 and new axes in front."""
        shape = tuple(shape)
        if x.type.shape == shape:
            return x
        if x.type.shape in ((), (1,)) and len(shape) == 1 and isinstance(shape[0], int) and 0 < shape[0] <= FEW:
            numbers = (x,) if x.type.shape == () else self.unpacked(x)
            if numbers is not None:
                return self.pack(numbers * shape[0])
        known = Shape(tuple(n if isinstance(n, int) else None for n in shape))
        return self.put_in("broadcast", (x, *self._lengths(x, shape, lengths)), Type(x.type.dtype, shape), known)

    def _lengths(self, x: Value, shape: Sequence[Length], given: Sequence[Value]) -> Sequence[Value]:
        """A number for each open length of a shape: as given, or what the value itself has that length at."""
        wanted = [n for n in shape if isinstance(n, Size)]
        own = x.type.shape or ()
        if len(given) == len(wanted):
            return given
        if given or any(n not in own for n in wanted):
            raise CannotLower("a shape with a length that is not known")
        return [self.length(x, own.index(n)) for n in wanted]

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """A value with its axes in another order."""
        permutation = tuple(permutation)
        if x.type.shape is None or sorted(permutation) != list(range(len(x.type.shape))):
            raise CannotLower("transpose of a value of unknown or another rank")
        if permutation == tuple(range(len(permutation))):
            return x
        return self.put_in("transpose", (x,), Type(x.type.dtype, tuple(x.type.shape[k] for k in permutation)), permutation)

    def slice(self, x: Value, slices: Sequence[slice]) -> Value:
        """``x[slices]`` with slices that are known."""
        if x.type.shape is None:
            raise CannotLower("slice of a value of unknown rank")
        slices = tuple(slices)
        if x.op == "const":
            return self.const(np.asarray(x.attr)[slices].copy())
        shape = tuple(
            len(range(*s.indices(n))) if isinstance(n, int) else n if s == slice(None) else Size()
            for n, s in zip(x.type.shape, slices, strict=True)
        )
        pairs = zip(slices, shape, x.type.shape, strict=True)
        if all(s == slice(None) or (length == n and (s.step or 1) == 1) for s, length, n in pairs):
            return x
        if shape == (1,) and x.type.dtype in NUMBERS and isinstance(x.type.shape[0], int):
            first = self.const(np.int64(range(x.type.shape[0])[slices[0]][0]))
            return self.pack((self.put_in("place", (x, first), Type(x.type.dtype, ())),))
        if x.op == "pack":
            return self.pack(x.args[slices[0]]) if shape[0] else self.put_in("slice", (x,), Type(x.type.dtype, shape), slices)
        return self.put_in("slice", (x,), Type(x.type.dtype, shape), slices)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Arrays of one element type, one behind the other."""
        if len({x.type.dtype for x in parts}) > 1:
            raise CannotLower("arrays of several types in one")
        parts = [x for x in parts if x.type.shape is None or x.type.shape[axis] != 0] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        if all(x.op == "const" for x in parts):
            return self.const(np.concatenate([x.attr for x in parts], axis))
        unpacked = [self.unpacked(x) for x in parts]
        if all(numbers is not None for numbers in unpacked) and parts[0].type.rank == 1:
            return self.pack([x for numbers in unpacked for x in numbers or ()])
        return self.put_in("concat", parts, Type(parts[0].type.dtype, joined_shape([x.type.shape for x in parts], axis)), axis)

    def scan(self, rows: Value, initial: Sequence[Value], step: Callable[..., Sequence[Value]]) -> tuple[Value, ...]:
        """A loop over the rows of an array, ``step(row, *states) -> states``: the last states, and all first ones."""
        dtype, shape = rows.type.dtype, rows.type.shape
        if shape is None:
            raise CannotLower("rows of a value of unknown rank")
        with self.region(is_loop=True) as close:
            self.param(Type(INT64, ()), 0)
            self.param(Type(BOOL, ()), 1)
            states = [self.param(x.type, 2 + k) for k, x in enumerate(initial)]
            new = step(self.param(Type(dtype, shape[1:]), 2 + len(states)), *states)
            body = close([self.const(np.True_), *new, new[0]])
        attr = LoopRegion(body, len(states), (Scanned("row"),), 0, (Collected("state"),), has_count=False)
        value = self.put_in("loop", (self.const(None), self.const(None), *initial, rows), UNKNOWN, attr)
        collected = Type(new[0].type.dtype, (shape[0], *(new[0].type.shape or ())))
        return self.items(value, [*(x.type for x in initial), collected, Type(INT64, ()), Type(BOOL, ())])[: 1 + len(states)]

    def reduce(self, x: Value, kind: str, axes: Sequence[int], keep: bool = False) -> Value:
        """A reduction along some axes."""
        if x.type.shape is None:
            raise CannotLower("reduction of a value of unknown rank")
        axes = tuple(sorted(axis % len(x.type.shape) for axis in axes)) if x.type.shape else ()
        if not axes:
            return x
        kept = ((k, 1 if k in axes else n) for k, n in enumerate(x.type.shape))
        shape = tuple(n for k, n in kept if keep or k not in axes)
        dtype = INT64 if kind.startswith("arg") else BOOL if kind in ("any", "all") else x.type.dtype
        return self.put_in("reduce", (x,), Type(dtype, shape), Reduction(kind, axes, keep))

    def apply(self, operator: Apply, args: Sequence[Value], types: Sequence[Type]) -> tuple[Value, ...]:
        """An operator as a whole; as many values as it gives."""
        if operator.results == 1:
            return (self.put_in("apply", args, types[0], operator),)
        return self.items(self.put_in("apply", args, UNKNOWN, operator), types)

    def onnx(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        """What an operator of ONNX gives, where a back end writes those; elsewhere the kernel is called as a whole."""
        raise CannotLower("lengths, or values, that only the run knows")

    def items(self, whole: Value, types: Sequence[Type]) -> tuple[Value, ...]:
        """The results of a value that has several."""
        return tuple(self.put_in("item", (whole,), type, k) for k, type in enumerate(types))
