"""What loops collect: one list for each value while a loop runs, one array at its end; and its type where no iteration ran."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import CollectedError, let_through
from mdf_loop.execute.iteration_columns import History
from mdf_loop.execute.program import Hidden, describe_value
from mdf_loop.ir import Body, Collected, Loop, ValueType
from mdf_loop.kernels.arrays.bounds import most_bytes
from mdf_loop.plan.empty import infer_types
from mdf_loop.step.build import type_of_value
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.records import UNKNOWN, Size, Type

NUMBERS = (bool, int, float, complex)
"""Python's numbers, which bodies that are MDF graphs may give: weak, they take the type of the others."""


WIDENED = "biufc"
"""Kinds of numpy's numbers that have a common type."""


def is_number(value: Any) -> bool:
    """Whether a value is one number, as an array without dimensions too, or none at all."""
    return not isinstance(value, list) and getattr(value, "ndim", 0) == 0


def shape_of(value: Any) -> Any:
    """The shape of a number or an array; None for anything else."""
    return value.shape if isinstance(value, np.ndarray | np.generic) else () if isinstance(value, int | float) else None


def array_of_numbers(values: list[Any], dtype: np.dtype) -> np.ndarray:
    """Numbers as an array; whole ones that have more than 64 bits stay Python's, as they do where they are carried."""
    try:
        return np.array(values, dtype)
    except OverflowError:
        return np.array(values, object)


AT_ONCE = 1 << 28
"""Bytes of results up to which room is made for all of them when the first come."""


class Growing:
    """An array that grows along its first axis.

    Where the number of rows is known there is room for all of them at once, if that is not too much: memory that is
    never touched costs nothing.  Otherwise room is doubled, so that each row is copied about once.
    """

    def __init__(self, rows: np.ndarray) -> None:
        self._array, self.length = rows, len(rows)

    @property
    def dtype(self) -> np.dtype:
        """The type of the rows."""
        return self._array.dtype

    def extend(self, rows: np.ndarray, most: int | None) -> None:
        """Put rows behind those there are; there will be ``most`` at the most, if that is known."""
        needed = self.length + len(rows)
        dtype = np.result_type(self._array, rows) if self._array.dtype != rows.dtype else rows.dtype
        self._make_room(needed, dtype, most)
        self._array[self.length : needed] = rows
        self.length = needed

    def _make_room(self, needed: int, dtype: np.dtype, most: int | None) -> None:
        room = len(self._array)
        if needed <= room and dtype == self._array.dtype:
            return
        room, each = max(needed, 2 * room), math.prod(self._array.shape[1:]) * dtype.itemsize
        if most is not None:
            room = max(most if most * each <= AT_ONCE else min(room, most), needed)
        if needed * each > most_bytes():  # a loop without end would use up the memory, and the system end the process
            raise MemoryError(f"what is collected is larger than {most_bytes()} bytes, half of the memory")
        larger = np.empty((room, *self._array.shape[1:]), dtype)
        larger[: self.length] = self._array[: self.length]
        self._array = larger

    def cut(self, length: int) -> None:
        """Forget all rows behind the first ones."""
        self.length = min(self.length, length)

    def rows(self) -> np.ndarray:
        """What there is; memory that is left over is released."""
        if len(self._array) == self.length:
            return self._array
        try:
            return self._array[: self.length].copy()
        except MemoryError:
            return self._array[: self.length]


class Gathering:
    """What one collected output was in each iteration so far.

    Values are put behind those there are and nothing else is changed, so that the first ones stay what they are
    whatever happens meanwhile; who knows how many of them count says so.
    """

    def __init__(self, what: Collected, place: str = "", name: str = "") -> None:
        self.what, self.place = what, place  # where it is written, for the beginning of a message
        self.name = name or what.output.partition("~")[0]  # behind it is what we made of a name of the user's
        self.values: list[Any] = []
        self._blocks: Growing | None = None
        self._example: Any = None
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype | None = None
        self._has_numbers = False

    def check(self, value: Any) -> None:
        """See that this iteration's value can be kept.

        Raises
        ------
        CollectedError
            It is not a tensor, or its shape or type is not that of the first iteration's.
        """
        value = self._tensor(value)
        if self._shape is None:
            self._check_axis(value)
        elif np.shape(value) != self._shape or not self._takes(value):
            raise CollectedError(
                f"{self.place}collected output {self.name!r} was {describe_value(self._example)} in the first iteration "
                f"and is {describe_value(value)} now; ONNX wants one shape and type in all iterations "
                f"(carry it as a sequence if it must change){self._meant(value)}"
            )

    def _meant(self, value: Any) -> str:
        kinds = getattr(self._dtype, "kind", ""), getattr(getattr(value, "dtype", None), "kind", "")
        meant = {("i", "f"): "; begin with a fraction: 1.0 for 1", ("f", "i"): "; write whole numbers as fractions: 0.0 for 0"}
        return meant.get(kinds, "") if self.place else ""

    def _takes(self, value: Any) -> bool:
        """Whether the type of a value goes with that of the others."""
        if self._dtype is None or type(value) in NUMBERS or value.dtype == self._dtype:
            return True
        return self.what.widens and self._dtype.kind in WIDENED and value.dtype.kind in WIDENED

    def _check_axis(self, value: Any) -> None:
        rank = np.ndim(value) + self.what.stack
        if not -rank <= self.what.axis < rank:
            raise CollectedError(
                f"{self.place}collected output {self.name!r} is {describe_value(value)}; it has no axis {self.what.axis} "
                "to put iterations along"
            )

    def add(self, value: Any) -> None:
        """Keep this iteration's value, which was checked."""
        value = self._tensor(value)
        self._note(value)
        self.values.append(value)

    def _note(self, value: Any) -> None:
        """Remember what the values look like."""
        if self._example is None:
            self._example = value
        if type(value) in NUMBERS:
            self._shape = ()
            self._has_numbers = True
        elif self._dtype is None:
            self._shape, self._dtype = value.shape, value.dtype
        elif self.what.widens and value.dtype != self._dtype:
            self._dtype = np.result_type(self._dtype, value.dtype)

    def check_block(self, values: History | Any, length: int) -> None:
        """See that the values of a block of iterations can be kept; a value that is no history is the same in all."""
        if isinstance(values, History) and (values.type.weak or values.type.dtype is None):
            for value in values.values():
                self.check(value)
        elif length:
            self.check(values.stacked()[0] if isinstance(values, History) else values)

    def add_block(self, values: History | Any, length: int, most: int | None = None) -> None:
        """Keep the values of a block of iterations, which were checked; there will be ``most`` values, if that is known."""
        if not isinstance(values, History):
            value = self._tensor(values)
            if type(value) in NUMBERS or value.dtype.hasobject:
                for _ in range(length):
                    self.add(value)
                return
            rows = np.broadcast_to(value, (length, *value.shape))
            first = value
        elif values.type.weak or values.type.dtype is None:
            for value in values.values():
                self.add(value)
            return
        else:
            rows = values.stacked()
            first = rows[0]
        self._note(first)
        self._settle()
        if self._blocks is None:
            self._blocks = Growing(np.empty((0, *rows.shape[1:]), rows.dtype))
        self._blocks.extend(rows, most)

    def _settle(self) -> None:
        """Put the values kept one by one behind the blocks: there first, so that none is missing in between."""
        if self.values:
            rows = self._stacked(self.values)
            if self._blocks is None:
                self._blocks = Growing(rows)
            else:
                self._blocks.extend(rows, None)
            self.values = []

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OUS":
            return value
        if isinstance(value, np.ndarray) and all(isinstance(item, str | bytes) for item in value.flat):
            return value if value.dtype == object else value.astype(object)
        if type(value) in NUMBERS:
            return value
        if isinstance(value, str):
            return np.array(value, object)
        raise CollectedError(f"collected output {self.name!r} is {describe_value(value)}; only tensors can be collected")

    def cut(self, iterations: int) -> None:
        """Forget the values behind those of so many iterations."""
        in_blocks = 0
        if self._blocks is not None:
            self._blocks.cut(iterations)
            in_blocks = self._blocks.length
        del self.values[iterations - in_blocks :]

    def kept(self, iterations: int) -> np.ndarray | None:
        """:meth:`array` for partial results: None as well if there is not enough memory."""
        try:
            return self.array(iterations)
        except MemoryError:
            return None

    def array(self, iterations: int | None = None) -> np.ndarray | None:
        """The values of so many iterations (all, if not said) put together, or None if there was none.

        What there is of later ones is forgotten.
        """
        if iterations is not None:
            self.cut(iterations)
        if self._blocks is None:
            if not self.values:
                return None
            if not self.what.stack:
                return np.concatenate(self.values[::-1] if self.what.reverse else self.values, axis=self.what.axis)
            rows = self._stacked(self.values)
        else:
            self._settle()
            rows = self._blocks.rows()
            if not len(rows):
                return None
        if self.what.reverse:
            rows = rows[::-1]
        if self.what.stack:
            return np.moveaxis(rows, 0, self.what.axis) if self.what.axis else np.ascontiguousarray(rows)
        axis = self.what.axis % (rows.ndim - 1)
        moved = np.moveaxis(rows, 0, axis)
        return moved.reshape(*moved.shape[:axis], moved.shape[axis] * moved.shape[axis + 1], *moved.shape[axis + 2 :])

    def _stacked(self, values: list[Any]) -> np.ndarray:
        """Values of single iterations, stacked on axis 0."""
        if self._has_numbers:
            examples = {type(value): value for value in values}
            types = [] if self._blocks is None else [self._blocks.dtype]
            types += [value if kind in NUMBERS else value.dtype for kind, value in examples.items()]
            return array_of_numbers(values, np.result_type(*types))
        if self._shape == () and self._dtype is not None and self._dtype.kind != "O":
            return np.array(values, self._dtype)
        return np.stack(values)


class RaggedGathering(Gathering):
    """The same of values that may differ in shape, or are no tensors: a list."""

    def check(self, value: Any) -> None:
        """Any value can be kept."""

    def add(self, value: Any) -> None:
        """Keep this iteration's value."""
        self.values.append(value)

    def check_block(self, values: History | Any, length: int) -> None:
        """Any values can be kept."""

    def add_block(self, values: History | Any, length: int, most: int | None = None) -> None:
        """Keep the values of a block of iterations."""
        self.values += values.values() if isinstance(values, History) else [values] * length

    def array(self, iterations: int | None = None) -> Any:
        """The values of so many iterations."""
        if iterations is not None:
            self.cut(iterations)
        return [*self.values]


def gathering_of(what: Collected, place: str = "", name: str = "") -> Gathering:
    """What keeps the values of one collected output; messages begin with the ``place`` where it is written, and call it so."""
    return (RaggedGathering if what.ragged else Gathering)(what, place, name)


def named_for_people(loop: Loop) -> list[tuple[Collected, str, str]]:
    """What a loop collects, each with its place and name in messages: that of a carried value which is collected as well."""
    names = {} if loop.body.typed else {c.output: c.input for c in loop.carried}
    return [(c, loop.body.at(c.output), names.get(c.output, "")) for c in loop.collected]


class Gathered(list[Gathering], Hidden):
    """What each collected value of a Python body was so far: how many it has is known once it has run.

    ``first`` are the shapes of its other results in the first iteration, its carried values last.
    """

    first: Sequence[tuple[int, ...] | None] | None = None


class Types:
    """Infers the types of the values of a loop's body when its inputs have the types given, and keeps the latest."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._latest: tuple[Mapping[str, ValueType], dict[str, ValueType]] | None = None

    def __call__(self, body: Body, given: Mapping[str, ValueType]) -> dict[str, ValueType]:
        """What ONNX's inference finds, and of an untyped body what the rules of a Step find."""
        latest = self._latest
        if latest is None or latest[0] != given:
            found = infer_types(body, given)
            found |= {} if body.typed else self._by_rules({name: _as_type(kind) for name, kind in given.items()})
            latest = self._latest = given, found
        return latest[1]

    def _by_rules(self, given: Mapping[str, Type]) -> dict[str, ValueType]:
        body = self._loop.with_state_carried().body
        known = {**{s.input: type_of_value(s.initial) for s in self._loop.body.state}, **given}
        names = (*body.inputs, *body.captures)
        try:
            region = lower_graph(body, [known.get(name, UNKNOWN) for name in names], opens=False)
        except Exception as error:  # inference is a help: what it cannot do stays open
            let_through(error)
            return {}
        results: list[tuple[str, Any]] = [*zip(body.outputs, region.results, strict=True)]
        return {name: _as_declared(value.type) for name, value in results if value.type.dtype is not None}


def _as_type(kind: ValueType) -> Type:
    shape = kind.shape
    return Type(kind.dtype, None if shape is None else tuple(n if isinstance(n, int) else Size() for n in shape))


def _as_declared(type: Type) -> ValueType:
    return ValueType(type.dtype, None if type.shape is None else tuple(n if isinstance(n, int) else None for n in type.shape))
