"""What is made of the trials of a point: a mean, quantiles, or what a function says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.models.model import unknown_name
from mdf_loop.sweeps.table import Chunk, column_of

Reduce = Callable[[np.ndarray], Any] | Mapping[str, Callable[[np.ndarray], Any]]
"""A function of an array whose first axis are trials, for all outputs or by name."""

KNOWN: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": partial(np.nanmean, axis=0),
    "median": partial(np.nanmedian, axis=0),
    "std": partial(np.nanstd, axis=0),
    "var": partial(np.nanvar, axis=0),
    "min": partial(np.nanmin, axis=0),
    "max": partial(np.nanmax, axis=0),
    "sum": partial(np.nansum, axis=0),
}
"""Reductions by name; values that are not there do not count."""


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
        return {name: _one(value) for name, value in said.items()}
    return _one(said)


def reduce_in_words(reduce: Reduce | None) -> Any:
    """A reduction as it was asked for: functions of :data:`KNOWN` by their names."""
    if isinstance(reduce, Mapping):
        return {name: reduce_in_words(function) for name, function in reduce.items()}
    return next((name for name, function in KNOWN.items() if function is reduce), reduce)


QUANTILE = "quantile"
"""The dimension of quantiles."""


def keeps_rows(reduce: Reduce | None, name: str) -> bool:
    """Whether what is made of an output has its axes but for that of the trials: nobody knows what a function makes."""
    function = _for(reduce, name)
    return function is None or function in KNOWN.values() or isinstance(function, Quantiles)


def levels_of(reduce: Reduce | None, name: str) -> tuple[float, ...] | None:
    """The levels of the quantiles that are made of an output; None if it is something else."""
    function = _for(reduce, name)
    return function.levels if isinstance(function, Quantiles) else None


def _for(reduce: Reduce | None, name: str) -> Callable[[np.ndarray], Any] | None:
    return reduce.get(name) if isinstance(reduce, Mapping) else reduce


def _one(said: Any) -> Callable[[np.ndarray], Any]:
    if callable(said):
        return said
    if isinstance(said, str) and said in KNOWN:
        return KNOWN[said]
    if isinstance(said, Sequence | np.ndarray) and not isinstance(said, str):
        levels = np.asarray(said)
        if levels.ndim == 1 and levels.size and levels.dtype.kind in "iuf" and ((levels >= 0) & (levels <= 1)).all():
            return Quantiles(tuple(levels.tolist()))
    raise ArgumentError(f"reduce is {', '.join(KNOWN)}, quantiles from 0 to 1, or a function of an array; got {said!r}")


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of some levels, along a first axis."""

    levels: tuple[float, ...]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return np.nanquantile(values, self.levels, axis=0)


def reduced(reduce: Reduce, columns: Mapping[str, Any], errors: Mapping[int, str], trials: int) -> Chunk:
    """A chunk of whole points, a row for each."""
    found: dict[str, Any] = {}
    failed = np.array(sorted(errors), np.intp)
    for name, (rows, _) in columns.items():
        function = _for(reduce, name)
        if function is None:
            continue
        points = rows.reshape(len(rows) // trials, trials, *rows.shape[1:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # points without a single value
            made = [_made(function, point, failed[failed // trials == k] % trials) for k, point in enumerate(points)]
        found[name] = column_of(made)
    by_point: dict[int, str] = {}
    for k in sorted(errors):
        by_point.setdefault(k // trials, f"trial {k % trials}: {errors[k]}")
    return Chunk(found, by_point)


def _made(function: Callable[[np.ndarray], Any], values: np.ndarray, failed: np.ndarray) -> Any:
    """What a function makes of the trials of a point that did not fail."""
    left = np.delete(values, failed, axis=0) if len(failed) else values
    return np.asarray(function(left)) if len(left) else None
