"""What numpy would change in an array when a traced function changes a part of it, which is a copy here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.readers.expressions.values import Value

IN_A_COPY = (
    "changes an array in place that has another name or is a part of another array, which is read later. Here it is a copy, so "
    "the other one would stay as it was; write x[i] += 1 for q = x[i]; q += 1, or q = q + 1 if only q is meant"
)

OF_BEFORE = (
    "reads a part of an array whose elements were set later: numpy has the new ones in it, and here it has those of before; "
    "write np.copy(x[i]) before they are set, or x[i] again"
)


@dataclass
class Altered:
    """An operator in place: the value before, whose it is, the line, the new value, and whether it is surely an array."""

    old: Value
    trace: Any
    line: int
    new: Any
    is_array: bool


class PartOfArray:
    """The side of a traced value that knows which arrays numpy may have it as a view of.

    Numbers do not change in place, neither here nor in numpy.  Where it is not known whether a part is one, the body notes that
    it must be, and a run sees whether it is.
    """

    trace: Any
    here: Any
    whole: Any
    part_of: Any
    index: Any
    changes: int
    lost: int
    altered: list[Altered]
    sets: list[tuple[Any, ...]]
    seen: int
    _value: Value

    @property
    def _is_from_outside(self) -> bool:
        """Whether it is a captured value, as it was given."""
        return self._value.name in self.trace.builder.captures and not self.changes

    def _around(self) -> Iterator[Any]:
        """The arrays that numpy may have this as a view of."""
        is_copy = any(isinstance(each, np.ndarray | list) for each in self._indices)  # which numpy makes there
        around = None if is_copy else self.whole if self.whole is not None else self.part_of
        while around is not None:
            yield around
            around = around.part_of if around.whole is None else around.whole

    def _refuse_old(self) -> None:
        """See that a part of an array that was changed later is a number, which stays as it is."""
        if self._value.name and not self._value.number and self._is_old():
            self.trace.builder.numbers[self._value.name] = f"{self.here.place(self.here.line())} {OF_BEFORE}"

    def _is_old(self) -> bool:
        """Whether numpy, if it has this as a view, has new elements in it; not where that is not known, as with masks."""
        around = self.part_of if self.whole is None else None
        if around is None or around.whole is not None or not all(type(each) is int for each in self._indices):
            return False
        is_changed = any(altered.old is around._value for altered in around.altered)
        return is_changed or any(_meet(self._indices, places) for places in around.sets[self.seen :]) or around._is_old()

    @property
    def _indices(self) -> tuple[Any, ...]:
        return self.index if isinstance(self.index, tuple) else (self.index,)

    def _lose(self, line: int) -> None:
        """Note in the arrays around this that they do not get what was set here."""
        for around in self._around():
            around.lost = around.lost or line

    def _alter(self, new: Any) -> None:
        """Note that numpy would change this, and the arrays around it, where an operator in place makes a new value."""
        is_array = self.part_of is not None and any(isinstance(each, slice) for each in self._indices)
        altered = Altered(self._value, self.trace, self.here.line(), new, is_array)
        for each in (self, *self._around()):
            each.altered.append(altered)
            if each._is_from_outside or each.trace is not self.here:  # other iterations read it
                each._refuse_altered()

    def _get_back(self, new: Any) -> None:
        """Note that ``x[i] += 1`` sets the new value in the array that it is a part of."""
        for each in (self, *self._around()):
            each.altered = [altered for altered in each.altered if altered.new is not new]

    def _refuse_altered(self) -> None:
        """See that what was changed in place is a number: now, or when the body runs."""
        for found in self.altered:
            if found.is_array:
                raise self.here.refused(IN_A_COPY, found.line)
            if not found.old.number and found.old.name:
                found.trace.builder.numbers[found.old.name] = f"{self.here.place(found.line)} {IN_A_COPY}"
                found.new.trace.builder.kept.add(found.new._value.name)  # and so what it reads, which the caller gives


def _meet(part: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether elements that were set are surely in a part."""
    for place, other in zip(part, others, strict=False):
        if other is Ellipsis:
            return True
        if other != slice(None) if isinstance(other, slice) else type(other) is not int or other != place:
            return False
    return True
