"""The points of a sweep: an outer product of values, or a list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.kernels.numbers.wide import EXACT64
from mdf_loop.readers.arguments import names_in


@dataclass(frozen=True)
class Grid:
    """Points, numbered in C order.

    Attributes
    ----------
    dims : tuple of str
        The dimensions: a name for each value that is swept, or ``point``.
    shape : tuple of int
    axes : mapping of str to (dim, values)
        The values of each input, along one of the dimensions.
    """

    dims: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    axes: tuple[tuple[str, tuple[str, tuple[Any, ...]]], ...] = ()

    @property
    def size(self) -> int:
        """How many points there are."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    def inputs(self, point: int) -> dict[str, Any]:
        """The inputs at a point."""
        place = dict(zip(self.dims, np.unravel_index(point, self.shape), strict=True)) if self.shape else {}
        return {name: values[place[dim]] for name, (dim, values) in self.axes}

    @cached_property
    def _numbers(self) -> dict[str, np.ndarray] | None:
        """The values of each input as one array; None where they are not numbers of one shape."""
        try:
            found = {name: np.array(values) for name, (_, values) in self.axes}
        except ValueError:  # lists of several lengths
            return None
        return found if all(x.dtype.kind in "biuf" for x in found.values()) else None

    @cached_property
    def _has_one_type(self) -> bool:
        return all(len(set(map(type, values))) == 1 for _, (_, values) in self.axes)

    def columns(self, points: np.ndarray, mixed: bool = False) -> dict[str, np.ndarray] | None:
        """The inputs at some points, of each a row for every point; None where they are not numbers of one shape.

        Numbers of one input have one type too, unless they may be ``mixed``.
        """
        numbers = self._numbers if mixed or self._has_one_type else None
        places = dict(zip(self.dims, np.unravel_index(points, self.shape), strict=True)) if self.shape else {}
        return None if numbers is None else {name: numbers[name][places[dim]] for name, (dim, _) in self.axes}

    def coordinates(self) -> dict[str, Any]:
        """What labels the dimensions, as xarray takes it: vectors are numbered, and lie beside in ``<name>_values``."""
        found: dict[str, Any] = {}
        names = FreshNames(_label(name) for name, _ in self.axes)
        for name, (dim, values) in self.axes:
            try:
                array = np.asarray(values)
            except ValueError:
                continue
            labels = array if array.ndim == 1 and array.dtype != object else np.arange(len(values))
            found[label := _label(name)] = (dim, labels)
            if array.ndim > 1 and array.dtype != object:
                inner = [names.fresh(f"{label}_{k}") for k in range(array.ndim - 1)]
                found[names.fresh(f"{label}_values")] = ((dim, *inner), array)
        return found


def grid_of(over: Any) -> Grid:
    """The grid that ``over`` says.

    Parameters
    ----------
    over : mapping, list of mappings or pandas.DataFrame, or None

    Raises
    ------
    KindError, ArgumentError
        It is something else, or empty, or its points do not have the same names.
    """
    if over is None:
        return Grid()
    if hasattr(over, "to_dict") and hasattr(over, "columns"):
        over = over.to_dict("records")
    if isinstance(over, Mapping):
        axes = tuple((str(name), (_label(str(name)), _listed(name, values))) for name, values in over.items())
        return Grid(tuple(dim for _, (dim, _) in axes), tuple(len(values) for _, (_, values) in axes), axes)
    if isinstance(over, Sequence) and not isinstance(over, str) and all(issubclass(kind, Mapping) for kind in {*map(type, over)}):
        return _of_points(list(over))
    wanted, written = "a mapping of names to values, a list of mappings or a table of pandas", names_in(over, "{!r}: [...]")
    raise KindError(f"over is {wanted}; got {type(over).__name__}; write over={{{written}}}")


def _label(name: str) -> str:
    """What an input is called in a Dataset: not like a dimension that it has anyway."""
    return f"input {name}" if name in ("trial", "iteration") else name


def _of_points(points: list[Mapping[str, Any]]) -> Grid:
    if not points:
        raise ArgumentError("over is an empty list: there is no point")
    names = list(points[0])
    for k, point in enumerate(points):
        if point.keys() != points[0].keys():
            raise ArgumentError(f"all points have the same names; point {k} has {', '.join(point)}, point 0 {', '.join(names)}")
    axes = tuple((str(name), ("point", _alike([plain(point[name]) for point in points]))) for name in names)
    return Grid(("point",), (len(points),), axes)


def _listed(name: Any, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str | Mapping) or not hasattr(values, "__len__") or not len(values):
        raise ArgumentError(f"over[{name!r}] is a list of values, with at least one; got {values!r}")
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.type in PLAIN:
        return tuple(values.tolist())
    return _alike([*map(plain, values)])


def _alike(values: list[Any]) -> tuple[Any, ...]:
    """Values of one input: whole numbers among fractions are fractions, as in an array of them."""
    if {*map(type, values)} == {int, float} and all(abs(value) <= EXACT64 for value in values if type(value) is int):
        return tuple(map(float, values))
    return tuple(values)


PLAIN = np.float64, np.int64, np.bool_
"""Numbers of numpy that Python has as well."""


def plain(value: Any) -> Any:
    """A number of numpy as Python's, where that is the same."""
    return value.item() if isinstance(value, PLAIN) else value
