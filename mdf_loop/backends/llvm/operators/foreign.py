"""Operators that run outside: a program hands their inputs to the kernel, and reads what it gives.

Inputs are constants, arguments of the program, or stand in memory of the program's own, of which there are views beforehand: a
call costs a few microseconds beside the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.backends.llvm.arrays import Array, in_memory
from mdf_loop.backends.llvm.elements import CannotCompile
from mdf_loop.backends.llvm.sweeps import store_all
from mdf_loop.step.records import Apply, Type, Value

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.emitter import Emitter


@dataclass(frozen=True)
class Area:
    """An array in the program's own memory: where, of which type and shape."""

    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]

    def view(self, memory: np.ndarray) -> np.ndarray:
        """The array, in the memory of one table."""
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        return memory[self.offset : self.offset + size].view(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Outside:
    """One operator that runs outside: what it is given, and where its results go."""

    operator: Apply
    inputs: tuple[Any, ...]
    results: tuple[Area | None, ...]

    def prepared(self, memory: np.ndarray) -> Callable[[Sequence[Any], Any], bool]:
        """What a table calls: ``call(arguments of the program, run)``; gives whether all is well."""
        views = [x.view(memory) if isinstance(x, Area) else x for x in self.inputs]
        rooms = [None if x is None else x.view(memory) for x in self.results]
        operator = self.operator

        def call(given: Sequence[Any], run: Any) -> bool:
            values = [given[x.number] if isinstance(x, Argument) else x[()] if _is_number(x) else x for x in views]
            found = operator.call(run, *values) if operator.needs_run else operator.call(*values)
            found = found if type(found) is tuple else (found,)
            for room, x in zip(rooms, found, strict=False):
                if room is None:
                    continue
                if not isinstance(x, np.ndarray | np.generic) or x.dtype != room.dtype or x.shape != room.shape:
                    return False
                room[...] = x
            return True

        return call


@dataclass(frozen=True)
class Argument:
    """An argument of the program."""

    number: int


def _is_number(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.ndim == 0


def run_outside(e: Emitter, v: Value) -> Array:
    """The results of an operator that has no compiled form but known types.

    Raises
    ------
    CannotCompile
        The types are not known.
    """
    attr: Apply = v.attr
    items = dict(e.items_of(v)) if attr.results > 1 else {0: v}
    results = [_room(e, attr, items[k].type) if k in items else None for k in range(attr.results)]
    inputs = tuple(_input(e, attr, x) for x in v.args)
    e.outside.append(Outside(attr, inputs, tuple(None if x is None else x[0] for x in results)))
    failed = e.text.new(f"call i32 %outside(i64 {len(e.outside) - 1})")
    e.leave_if(e.text.new(f"icmp ne i32 {failed}, 0"))
    for k, item in items.items():
        found = results[k]
        assert found is not None
        e.known[item] = e.settled(in_memory(found[0].dtype, found[0].shape, found[1]))
    return e.known[v] if attr.results == 1 else next(iter(e.known[item] for item in items.values()))


def _room(e: Emitter, attr: Apply, type: Type) -> tuple[Area, str]:
    if type.dtype is None or not type.is_static or type.weak:
        raise CannotCompile(f"{attr.node.op} has no compiled form")
    e.element(type.dtype)
    shape = tuple(n for n in type.shape or () if isinstance(n, int))
    offset, pointer = e.own_room(type.dtype, shape)
    return Area(offset, type.dtype, shape), pointer


def _input(e: Emitter, attr: Apply, x: Value) -> Any:
    """What a kernel is given."""
    if x.op == "const":
        return x.attr
    if x.op == "param" and x in e.arguments:
        return Argument(e.arguments[x])
    found = e.of(x)
    if not found.is_static:
        raise CannotCompile(f"{attr.node.op} of open lengths has no compiled form")
    shape = tuple(n for n in found.shape if isinstance(n, int))
    offset, pointer = e.own_room(found.dtype, shape)
    store_all(e, [(found, [pointer])])
    return Area(offset, found.dtype, shape)
