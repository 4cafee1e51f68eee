"""A kernel is its definition: a function of numpy, called once with values that carry types, gives its Step.

numpy's protocols (NEP 13 and 18) ask such a value what is done to it; what a function of numpy means in primitives stands in
:mod:`mdf_loop.kernels.definitions`.  Whatever the types do not decide - a branch on a value, a function without a
definition - ends the tracing, and the kernel is called as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mdf_loop.errors import let_through
from mdf_loop.ir import Node
from mdf_loop.kernels.arrays.axes import places
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.closed_kernels import is_closed
from mdf_loop.ops.registry import KERNELS, Kernel
from mdf_loop.ops.rows import FUNCTIONS, Bound, Call
from mdf_loop.readers.expressions.values import DOMAIN
from mdf_loop.readers.python.tracing import IN_PLACE, Trace, Traced, TracedBranch
from mdf_loop.step.build import FEW, MOST_FOLDED, Builder, CannotLower
from mdf_loop.step.primitives import PRIMITIVES, REDUCTIONS
from mdf_loop.step.records import Type, Value
from mdf_loop.types.elements import read_only

OF_FUNCTIONS = {
    call: name
    for name, row in PRIMITIVES.items()
    if row.is_python or row.ufunc is not None
    for call in (row.ufunc, row.call, None if row.is_apart or row.is_python else row.bounded)
    if call is not None
}
"""The primitive that a function is."""

MOST = 500
"""Calls of numpy's functions up to which a kernel is traced: a loop of Python's is written out."""


def meaning_of(node: Node, entry: Kernel, bound: Bound, exact: bool = False) -> Call | None:
    """What makes the Step of a node's operator, ``make(b, *args)``: its definition, or its kernel, traced; None if neither is."""
    define = definition_of(entry)
    if define is not None:
        return functools.partial(define, **node.attrs)
    if is_traced(entry) or is_closed(entry, bound.keywords):
        keywords = {**bound.keywords, "rng": None} if "rng" in entry.parameters else bound.keywords
        return lambda b, *args: traced(entry.run, b, args, keywords, exact and not entry.built_in)
    return None


def definition_of(entry: Kernel) -> Call | None:
    """What is written beside a kernel, or what the function of numpy is that it calls: a primitive, or several."""
    of_numpy = FUNCTIONS.get(entry.op) if entry.built_in and entry.domain == DOMAIN else None
    return entry.define or of_numpy or primitive_of(entry)


def primitive_of(entry: Kernel) -> Call | None:
    """What makes the Step of an operator whose kernel is a primitive's own function; None for other kernels."""
    name = OF_FUNCTIONS.get(entry.run) if entry.built_in else None
    if name is None:
        return None
    return lambda b, *inputs: (b.of_math if PRIMITIVES[name].is_python else b.element)(name, *inputs)


def is_traced(entry: Kernel) -> bool:
    """Whether a kernel of ours is its own definition: element-wise ones of arrays, and those of which it is said."""
    return entry.built_in and (entry.facts.traced or (entry.domain != DOMAIN and entry.batch is elementwise))


def traced(
    run: Call, b: Builder, args: Sequence[Value | None], keywords: Mapping[str, Any], exact: bool = False
) -> tuple[Value, ...]:
    """The results of a kernel, computed by what its function does to values of the arguments' types.

    ``exact`` says that an array without dimensions is something else than a number of numpy's.

    Raises
    ------
    CannotLower
        Types alone do not say what it does.
    """
    for x in args:
        if x is not None and (x.type.dtype is None or x.type.weak or x.type.dtype.kind not in "biufV"):
            raise CannotLower("a kernel of other things than arrays of real numbers")
    trace = KernelTrace(b, getattr(run, "__code__", traced.__code__), exact=exact)
    b.traces = True
    try:
        with np.errstate(all="ignore"):
            # what a kernel counts in cannot be traced
            given = [None if x is None else read_only(x.attr) if _is_known(x) else TracedArray(x, trace) for x in args]
            found = run(*given, **{name: read_only(x) for name, x in keywords.items()})
        return tuple([trace.result(x) for x in (found if type(found) is tuple else (found,))])
    except (CannotLower, TracedBranch) as error:  # which the trace has raised
        raise CannotLower(f"the kernel cannot be traced: {error}") from error
    except Exception as error:
        let_through(error)
        raise CannotLower(f"the kernel cannot be traced: {error}") from error
    finally:
        b.traces = False


def _is_known(x: Value) -> bool:
    """Whether a kernel gets a value itself: a constant."""
    return x.op == "const" and isinstance(x.attr, np.ndarray | np.generic) and x.attr.size <= MOST_FOLDED


_KINDS = {ufunc: kind for kind, ufunc in REDUCTIONS.items()}

_ARRAYS = {"numpy.where", "numpy.squeeze", "numpy.reshape"}
"""Functions that give arrays without dimensions, where others give numbers."""

_NEW_ONES = "all any dot full_like matmul max mean min ones_like prod std sum take var zeros_like"
_NEW = {*_NEW_ONES.split()}
"""Functions of numpy that give memory of which there is no view."""


@dataclass
class KernelTrace(Trace):
    """A kernel on its way into a Step; what it was refused, ``why``, holds even if it catches the error."""

    builder: Any
    exact: bool = False
    why: str = ""
    operations: int = 0

    def value(self, given: Any) -> Any:
        """Anything as a value of the Step."""
        if isinstance(given, TracedArray) and given.trace is self:
            return given.value
        if isinstance(given, tuple | list) and not any(isinstance(part, Traced) for part in given):
            given = np.array(given)
        if isinstance(given, bool | int | float) or (isinstance(given, np.ndarray | np.generic) and given.dtype.kind in "biufV"):
            return _constant(self.builder, given.copy() if isinstance(given, np.ndarray) else given)
        raise self.refused(f"computes with a {type(given).__name__}")

    def primitive(self, name: str, inputs: Sequence[Any]) -> Any:
        """The result of a universal function that is a primitive."""
        return self.made(name, lambda: self.builder.element(name, *map(self.value, inputs)))

    def made(self, what: str, make: Callable[[], Value]) -> Any:
        """What a part of the Step gives to the kernel."""
        self.operations += 1
        if self.operations > MOST:
            raise self.refused("does too much")
        try:
            return self.wrap(make())
        except (CannotLower, ValueError) as error:
            raise self.refused(f"calls {what}: {error}") from error

    def add(self, op: str, inputs: Sequence[Any], **attrs: Any) -> Any:
        """The result of a function of numpy, by its definition."""
        define = FUNCTIONS.get(op) or definition_of(KERNELS[DOMAIN, op][-1])
        if define is None:
            raise self.refused(f"calls {op}, which has no definition")
        is_ufunc = isinstance(getattr(np, op.removeprefix("numpy."), None), np.ufunc)

        def make() -> Value:
            values = [None if x is None else self.value(x) for x in inputs]
            return define(self.builder, *values, **attrs)

        found = self.made(op, make)
        is_new = is_ufunc or op.removeprefix("numpy.") in _NEW
        for x in inputs:
            if isinstance(x, TracedArray) and not is_new:
                x.is_fresh = False  # there may be views of it from now on
        if isinstance(found, TracedArray):
            found.is_array = op in _ARRAYS and found.value.type.shape == ()
            found.is_fresh = is_new
        return found

    def wrap(self, value: Any) -> Any:
        """A value as the kernel gets it; of one that is known already, what it is."""
        if value.type.weak and value.op == "const":
            return value.attr
        if value.type.weak or value.type.dtype is None:
            raise self.refused("makes a number of Python's")
        return TracedArray(value, self)

    def refused(self, what: str, line: int = 0) -> TracedBranch:
        """The error for what cannot be traced; where it was is of no use: the kernel is called as a whole."""
        self.why = what
        return TracedBranch(what)

    def result(self, given: Any) -> Value:
        """What the kernel returned, as a value of the Step."""
        if self.why:
            raise CannotLower(self.why)
        if not isinstance(given, Traced | np.generic) and not (isinstance(given, np.ndarray) and (given.ndim or not self.exact)):
            raise CannotLower(f"it returns a {type(given).__name__}")
        value = self.value(given)
        is_array = isinstance(given, TracedArray) and given.is_array and self.exact and not value.type.is_array
        return self.builder.as_array(value) if is_array else value


def _constant(b: Builder, given: Any) -> Value:
    """What is known, as a value; an array that has one number everywhere is known by it."""
    if np.size(given) > FEW and given.tobytes() == (first := given.flat[0]).tobytes() * given.size:
        return b.broadcast(b.const(first), given.shape)
    return b.const(given)


def _one(x: Value) -> Value:
    """The number that is everywhere in an array, if there is one; else the array."""
    return x.args[0] if x.op == "broadcast" and x.args[0].type.shape == () else x


def _as_product(b: Builder, x: Value) -> Value | None:
    """The sum of all products of two arrays of floats as their product; None for another sum."""
    if x.op != "mul" or x.args[0].type != x.args[1].type or not (x.type.is_static and x.type.kind == "f" and x.type.shape):
        return None
    flat = [b.reshape(v, (x.type.size,)) for v in x.args]
    return b.put_in("dot", flat, Type(x.type.dtype, ()))


class TracedArray(Traced):
    """An array, or a number of numpy's, of which a kernel sees the type.

    ``is_fresh`` while there is no view of it, ``is_array`` if it is an array without dimensions.
    """

    trace: KernelTrace

    def __init__(self, value: Value, trace: KernelTrace, is_fresh: bool = False) -> None:
        self.value, self.trace = value, trace
        self.is_fresh, self.is_array = is_fresh, value.type.is_array

    @property
    def here(self) -> Trace:
        """The kernel's own trace: a kernel is traced while nothing else is."""
        return self.trace

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.value.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths, if they are known."""
        if not self.value.type.is_static:
            raise self._refused("asks for a length that is open")
        return self.value.type.shape

    ndim = property(lambda self: len(self.value.type.shape or self.shape), doc="The number of axes.")
    size = property(lambda self: self.value.type.size if self.shape else 1, doc="The number of elements.")
    itemsize = property(lambda self: self.dtype.itemsize, doc="The bytes of an element.")

    def astype(self, dtype: Any, order: str = "K", *, copy: bool = True) -> Any:
        """The same in another element type."""
        if np.dtype(dtype) == bool:
            return self.trace.add("numpy.bool_", [self])
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        found = self.trace.wrap(self.trace.builder.cast(self.value, np.dtype(dtype)))
        found.is_array, found.is_fresh = self.is_array, not self.is_array
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and not index and self.value.type.shape == ():
            return TracedArray(self.value, self.trace)
        return super().__getitem__(index)

    def __setitem__(self, *_: Any) -> None:
        raise self._refused("changes an element")

    def __len__(self) -> int:
        if not self.shape:
            raise self._refused("asks for the length of a number")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __round__(self, digits: int = 0) -> Any:
        raise self._refused("rounds to a number of Python's")

    def scanned(self, step: Callable[..., Sequence[Any]], states: Sequence[Any], backwards: bool) -> tuple[Any, ...]:
        """All first states, and the last ones, of a loop over the rows, ``step(row, states) -> states``, where it is compiled."""
        trace, b = self.trace, self.trace.builder
        if not b.guesses:
            raise self._refused("loops over time")
        turned = [slice(None, None, -1) if backwards else slice(None), *[slice(None)] * (self.ndim - 1)]

        def once(row: Value, *now: Value) -> list[Value]:
            return [trace.value(x) for x in step(trace.wrap(row), tuple(map(trace.wrap, now)))]

        *last, outputs = b.scan(b.slice(self.value, turned), [*map(trace.value, states)], once)
        return trace.wrap(b.slice(outputs, turned)), *map(trace.wrap, last)

    def copy(self, order: str = "C") -> Any:
        """An array of its own."""
        found = TracedArray(self.value, self.trace, is_fresh=not self.is_array)
        found.is_array = self.is_array
        return found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """What a ufunc does; ``x += 1`` makes a new number, and changes an array that nothing else looks at."""
        where = named.pop("where", True)
        kind = _KINDS.get(ufunc) if method == "reduce" else None
        name = OF_FUNCTIONS.get(ufunc) if method == "__call__" and not named else None
        if name is not None and not (PRIMITIVES[name].is_apart or f"numpy.{ufunc.__name__}" in FUNCTIONS):
            found = self.trace.primitive(name, inputs)
        elif kind in ("max", "min") or (kind is not None and (named.get("dtype") is not None or "initial" in named)):
            found = self.trace.made(f"np.{ufunc.__name__}.reduce", functools.partial(self._reduced, ufunc, **named))
        else:
            found = super().__array_ufunc__(
                ufunc, method, *inputs, **{k: v for k, v in named.items() if k != "dtype" or v is not None}
            )
        if out is None:
            if where is not True:
                raise self._refused("leaves elements as they are in memory that is new")
            found.is_fresh = True
            return found
        (target,) = out
        if not isinstance(target, TracedArray):
            raise self._refused("writes into an array from outside")
        if target.value.type.shape == () and not target.is_array and where is True:
            return found
        if not (target.is_fresh and found.shape == target.shape and np.can_cast(found.dtype, target.dtype, "same_kind")):
            raise self._refused("writes into an array that may be seen elsewhere")
        found = self.trace.builder.cast(found.value, target.dtype)
        target.value = found if where is True else self.trace.builder.select(self.trace.value(where), found, _one(target.value))
        return target

    def _reduced(self, ufunc: np.ufunc, axis: Any = 0, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Value:
        """The reduction by a ufunc in a type that is said, or from a first value on."""
        b, kind = self.trace.builder, _KINDS[ufunc]
        x = self.value if dtype is None else b.cast(self.value, np.dtype(dtype))
        axes = places(axis if axis is None or isinstance(axis, tuple) else (axis,), self.ndim)
        x.type.count_along(axes)
        if (kind in ("sum", "prod") and (initial is not None or x.type.dtype.itemsize < 4)) or x.type.kind not in "iufV":
            raise ValueError("a way of numpy's own")
        found = _as_product(b, x) if kind == "sum" and not keepdims and len(axes) == self.ndim else None
        found = b.reduce(x, kind, axes, bool(keepdims)) if found is None else found
        if initial is not None and not (x.type.kind == "f" and initial == (-np.inf if kind == "max" else np.inf)):
            found = b.element(kind, found, b.number(initial, found))
        return found

    def __repr__(self) -> str:
        return f"<traced {self.value.type}>"


for _name in IN_PLACE:  # an array of a kernel is changed in place, as numpy's is
    setattr(TracedArray, _name, vars(NDArrayOperatorsMixin)[_name])
