"""What is made of the trials of a point: a mean, quantiles, or what a function makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.models.model import unknown_name
from mdf_loop.sweeps.rows.moments import MOMENTS, Moments

Function = Callable[[np.ndarray], Any]
"""Makes something of an array whose first axis are the trials of a point."""

One: TypeAlias = "Moments | Function"
Reduce: TypeAlias = "One | Mapping[str, One]"
"""For all outputs, or by name."""

MEDIAN = partial(np.nanmedian, axis=0)
KNOWN: dict[str, One] = {"mean": MOMENTS["mean"], "median": MEDIAN, **MOMENTS}
"""Reductions by name; values that are not there do not count."""

QUANTILE = "quantile"
"""The dimension of quantiles."""


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of some levels, along a first axis."""

    levels: tuple[float, ...]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return np.nanquantile(values, self.levels, axis=0)

    def of_points(self, values: np.ndarray) -> np.ndarray:
        """The same of many points at once, none of whose values is nan: the second axis are trials."""
        return np.moveaxis(np.quantile(values, self.levels, axis=1), 0, 1)


def reduce_of(said: Any, outputs: Iterable[str]) -> Reduce | None:
    """The reduction that ``reduce`` says.

    Parameters
    ----------
    said : str, sequence of float, callable, mapping of output to one of these, or None
        A name of :data:`KNOWN`; quantiles; or a function of an array, whose first axis are trials.
    outputs : iterable of str
        Those that there are.

    Raises
    ------
    ArgumentError
        It is something else, or for an output that is not there.
    """
    if said is None or callable(said):
        return said
    if isinstance(said, Mapping):
        known = list(outputs)
        for name in said:
            if name not in known:
                raise unknown_name("reduce is for outputs that are kept; there is none called", str(name), known)
        return {name: one_of(value) for name, value in said.items()}
    return one_of(said)


def reduce_in_words(reduce: Reduce | None) -> Any:
    """A reduction as it was asked for: functions of :data:`KNOWN` by their names."""
    if isinstance(reduce, Mapping):
        return {name: reduce_in_words(function) for name, function in reduce.items()}
    return next((name for name, function in KNOWN.items() if function is reduce), reduce)


def made_of(one: One | None) -> str | list[float] | None:
    """What can stand in a file of what is made of an output: a name, levels of quantiles, or None for a caller's function."""
    if isinstance(one, Quantiles):
        return list(one.levels)
    said = reduce_in_words(one)
    return said if isinstance(said, str) else None


def reduction_of(reduce: Reduce | None, name: str) -> One | None:
    """What is made of an output; None for nothing."""
    return reduce.get(name) if isinstance(reduce, Mapping) else reduce


def needs_all(reduce: Reduce) -> bool:
    """Whether something is made of all trials of a point at once, which moments are not."""
    return any(not isinstance(each, Moments) for each in _each(reduce))


def keeps_rows(reduce: Reduce | None, name: str) -> bool:
    """Whether what is made of an output has its axes but for that of the trials: what a function makes is not known."""
    found = reduction_of(reduce, name)
    return found is None or found is MEDIAN or isinstance(found, Moments | Quantiles)


def _each(reduce: Reduce) -> Iterator[One]:
    yield from reduce.values() if isinstance(reduce, Mapping) else (reduce,)


def one_of(said: Any) -> One:
    """What ``reduce`` says of one output; see :func:`reduce_of`."""
    if callable(said):
        return said
    if isinstance(said, str) and said in KNOWN:
        return KNOWN[said]
    if isinstance(said, Sequence | np.ndarray) and not isinstance(said, str):
        levels = np.asarray(said)
        if levels.ndim == 1 and levels.size and levels.dtype.kind in "iuf" and ((levels >= 0) & (levels <= 1)).all():
            return Quantiles(tuple(levels.tolist()))
    raise ArgumentError(f"reduce is {', '.join(KNOWN)}, quantiles from 0 to 1, or a function of an array; got {said!r}")
