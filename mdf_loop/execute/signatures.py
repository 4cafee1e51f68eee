"""Which values one program is for: those of the same types and lengths, and of any lengths along axes that keep changing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.step.build import type_of_value
from mdf_loop.step.records import Size, Type

MANY_LENGTHS = 6
"""Combinations of lengths from which on programs are for any length along the axes that change."""

MOST_KNOWN = 1 << 12
"""Combinations of lengths that are looked up rather than worked out again."""

Signature = tuple[Any, ...]
"""For each value of numpy's its element type, its shape, and whether it is an array; for any other its type.

Lengths below 0 are open, and equal ones the same.
"""


class Signatures:
    """The signatures of all values that one graph or loop was given."""

    def __init__(self) -> None:
        self._known: dict[Signature, Signature] = {}
        self._labels: dict[Hashable, tuple[int, list[Hashable]]] = {}
        self._refused: set[Signature] = set()

    def of(self, values: Sequence[Any]) -> Signature:
        """The signature of the program that is for these values."""
        exact = exact_signature(values)
        found = self._known.get(exact)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[exact] = self._of_new(exact)
        return found

    def refuse(self, signature: Signature) -> None:
        """There is no program with such open lengths: from now on each combination has its own."""
        if _is_open(signature):
            self._refused.add(signature)
            self._known.clear()

    def _of_new(self, exact: Signature) -> Signature:
        lengths = [n for key in exact if type(key) is tuple for n in key[1]]
        if 0 in lengths:  # without elements everything is different
            return exact
        kind = tuple((key[0], len(key[1]), key[2]) if type(key) is tuple else key for key in exact)
        count, labels = self._labels.get(kind, (0, [*lengths]))
        labels = _refined(labels, lengths)
        self._labels[kind] = count + 1, labels
        if count < MANY_LENGTHS:
            return exact
        opened = _with_labels(exact, labels)
        return exact if opened in self._refused else opened


def exact_signature(values: Sequence[Any]) -> Signature:
    """The signature of values with all their lengths."""
    return tuple(map(_exact, values))


def types_of(values: Sequence[Any], signature: Signature, exact: bool) -> list[Type]:
    """The types of values, with open lengths where the signature has them; ``exact`` as in :func:`type_of_value`."""
    sizes: dict[int, Size] = {}

    def opened(type: Type, key: Any) -> Type:
        if not _is_open((key,)):
            return type
        return replace(type, shape=tuple(n if n >= 0 else sizes.setdefault(n, Size()) for n in key[1]))

    return [opened(type_of_value(value, exact), key) for value, key in zip(values, signature, strict=True)]


def _exact(value: Any) -> Any:
    """What a program depends on of a value: ``==`` tells it from that of any other kind.

    An element type by itself would not do: to numpy, that of int64 is ``==`` to ``int``, and to itself with a shape of ``()``.
    """
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, True
    return (value.dtype, (), False) if isinstance(value, np.generic) else type(value)


def _is_open(signature: Signature) -> bool:
    return any(type(key) is tuple and any(n < 0 for n in key[1]) for key in signature)


def _refined(labels: Sequence[Hashable], lengths: Sequence[int]) -> list[Hashable]:
    """A label for each axis: its length while that never changes, else the same for all that were as long as it each time."""
    lasting = Counter(label for label, _ in {*zip(labels, lengths, strict=True)})
    return [
        label if label == n or (type(label) is tuple and lasting[label] == 1) else (label, n)
        for label, n in zip(labels, lengths, strict=True)
    ]


def _with_labels(exact: Signature, labels: Sequence[Hashable]) -> Signature:
    """A signature with a number below 0 for each label that is no length, in the order in which they come."""
    numbers: dict[Hashable, int] = {}
    found = iter([x if type(x) is int else numbers.setdefault(x, -1 - len(numbers)) for x in labels])
    return tuple((key[0], tuple(next(found) for _ in key[1]), key[2]) if type(key) is tuple else key for key in exact)
