"""What is plotted: arrays with named dimensions, out of the results of a run or an ``xarray.Dataset``."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, there_are

TRIAL, ITERATION, TIME = "trial", "iteration", "time"

CODES = re.compile(
    r"(?i)(\b|_)(choice|chosen|response|winner|decision|action|category|class|label|code|index|arg(max|min))s?\d*$"
)
"""Names of values that are labels where they are whole numbers."""


@dataclass(frozen=True, eq=False)
class Series:
    """Values with names for their axes.

    Attributes
    ----------
    name : str
    dims : tuple of str
        A name for each axis.
    values : array
        Numbers.
    coordinates : mapping of str to array
        What stands along an axis; 0, 1, 2, ... where nothing is said.
    labels : mapping of str to str
        What to write at an axis, or for the values, if it is not the name: a name with its unit.
    unit : str or None
        Of the values.
    is_at_start : bool
        Whether values along iterations belong to the start of each.
    note : str
        What they are of trials, such as their mean.
    is_logical : bool
        Whether values are true and false, as 1 and 0.
    is_share : bool
        Whether values are means of trials that have 0 or 1, which lie between these.
    """

    name: str
    dims: tuple[str, ...]
    values: np.ndarray
    coordinates: Mapping[str, np.ndarray] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    is_at_start: bool = False
    note: str = ""
    is_logical: bool = False
    is_share: bool = False

    def label(self, name: str) -> str:
        """What to write at the axis of a dimension, or for the values."""
        return self.labels.get(name, name)

    def part(self, dims: tuple[str, ...], values: np.ndarray) -> Series:
        """Values made of these, along some of their axes."""
        return replace(self, dims=dims, values=values)

    def without(self, dim: str, place: int) -> Series:
        """Values without those at a place of an axis."""
        coordinates = {dim: np.delete(self.along(dim), place)}
        values = np.delete(self.values, place, self.dims.index(dim))
        return replace(self, values=values, coordinates={**self.coordinates, **coordinates})

    def along(self, dim: str) -> np.ndarray:
        """What stands along an axis."""
        known = self.coordinates.get(dim)
        return np.arange(self.values.shape[self.dims.index(dim)]) if known is None else known

    @property
    def are_codes(self) -> bool:
        """Whether values are labels, of which a mean says nothing."""
        return are_codes(self.name, self.values)

    def _trials(self) -> np.ndarray:
        """How many trials each point has: one of an interrupted sweep has fewer, or none."""
        left = np.isfinite(self.values).sum(self.dims.index(TRIAL), keepdims=True)
        return left.max(tuple(k for k, dim in enumerate(self.dims) if is_run(self, dim)), keepdims=True, initial=0)

    def _most_frequent(self) -> Series:
        """The value that most trials have, the smallest one of several; nan where no trial has one."""
        axis = self.dims.index(TRIAL)
        codes = np.unique(self.values[np.isfinite(self.values)])
        counts = np.stack([(self.values == code).sum(axis) for code in codes])
        values = np.where(counts.any(0), codes[counts.argmax(0)], np.nan)
        dims = tuple(dim for dim in self.dims if dim != TRIAL)
        return replace(self.part(dims, values), note=f"most frequent {_in_words(self._trials())}")

    def over_trials(self) -> tuple[Series, np.ndarray | None]:
        """The mean of all trials, and how far they are spread; of codes what is most frequent; itself where there are no trials.

        Along iterations it ends where fewer than half of the trials are left: the others have ended, and are unlike these.
        """
        if TRIAL not in self.dims:
            return self, None
        if self.are_codes:
            return self._most_frequent(), None
        axis = self.dims.index(TRIAL)
        there = np.isfinite(self.values)
        left = there.sum(axis, keepdims=True)
        count = np.maximum(left, 1)
        mean = np.where(there, self.values, 0).sum(axis, keepdims=True) / count
        spread = np.sqrt((np.where(there, self.values - mean, 0) ** 2).sum(axis) / count.squeeze(axis))
        dims = tuple(dim for dim in self.dims if dim != TRIAL)
        whole, is_along = self._trials(), any(dim.endswith(ITERATION) for dim in dims)
        is_shown = (left >= (np.maximum(whole / 2, 1) if is_along else 1)).squeeze(axis)
        is_cut = is_along and not (is_shown | (whole == 0).squeeze(axis)).all()
        note = "mean " + _in_words(whole) + (", while half of them run" if is_cut else "")
        values, is_share = np.where(is_shown, mean.squeeze(axis), np.nan), bool(np.isin(self.values[there], (0, 1)).all())
        return replace(self.part(dims, values), note=note, is_share=is_share), spread


def are_codes(name: str, values: np.ndarray, least: int = 3) -> bool:
    """Whether values are labels: whole numbers under the name of a choice, at least so many: the mean of two is a share."""
    if not CODES.search(name):
        return False
    known = values[np.isfinite(values)]
    return bool((known == np.rint(known)).all()) and len(np.unique(known)) >= least


def _in_words(trials: np.ndarray) -> str:
    """How many trials points have, but for those that have none."""
    most = int(trials.max())
    least = int(trials[trials > 0].min(initial=most))
    return f"of {most:,} trials" if least == most else f"of {least:,} to {most:,} trials"


def series_of(source: Any) -> dict[str, Callable[[], Series]]:
    """What can be plotted, by name: each a function that makes the :class:`Series`, so that only what is drawn is read.

    Parameters
    ----------
    source : Results or xarray.Dataset

    Raises
    ------
    KindError
        It is neither.
    """
    if hasattr(source, "about") and isinstance(source, Mapping):
        return _of_results(source)
    if hasattr(source, "data_vars"):
        return {str(name): partial(_of_variable, source[name]) for name in source.data_vars}
    raise KindError(f"plot takes the Results of a run, or the Dataset of a sweep; got {type(source).__name__}")


def _of_results(results: Any) -> dict[str, Callable[[], Series]]:
    about = results.about
    lead = (TRIAL,) if about.trials is not None else ()
    found: dict[str, Callable[[], Series]] = {
        name: partial(_labelled, name, value, (*lead, ITERATION), about, about.every) for name, value in about.recorded.items()
    }
    for name, value in results.items():
        dims = (*lead, ITERATION) if name in about.collected else lead
        found.setdefault(name, partial(_labelled, name, value, dims, about, 1))
    return found


def _labelled(name: str, value: Any, dims: tuple[str, ...], about: Any, every: int) -> Series:
    """A value of a run; along its iterations are their numbers, or their times."""
    values = _numbers(name, value)
    dims = (*dims[: values.ndim], *(f"{name}_{k}" for k in range(values.ndim - len(dims))))
    dims, values = _without_single(dims, values)
    unit = about.units.get(name)
    own = [dim for dim in dims if dim not in (TRIAL, ITERATION)]
    labels = {name: with_unit(name, unit), **({own[0]: f"element of {name}"} if len(own) == 1 else {})}
    if ITERATION not in dims:
        return Series(name, dims, values, {}, labels, unit, is_logical=_is_logical(value))
    labels[ITERATION] = about.row
    along = every * np.arange(values.shape[dims.index(ITERATION)])
    is_at_start = name in about.at_start and name in about.recorded
    if (times := about.times(name, along, is_at_start)) is not None:
        along, labels[ITERATION] = times, with_unit(TIME, about.units.get("dt"))
    return Series(name, dims, values, {ITERATION: along}, labels, unit, is_at_start, is_logical=_is_logical(value))


def _without_single(dims: tuple[str, ...], values: np.ndarray, known: Container[str] = ()) -> tuple[tuple[str, ...], np.ndarray]:
    """Values without the axes of one element of which nothing is known: a matrix of one number is drawn as that number is."""
    sizes = zip(dims, values.shape, strict=True)
    kept = [k for k, (dim, size) in enumerate(sizes) if size != 1 or dim == TRIAL or dim.endswith(ITERATION) or dim in known]
    return tuple(dims[k] for k in kept), values.reshape([values.shape[k] for k in kept])


def is_run(series: Series, dim: str) -> bool:
    """Whether an axis of a series may be that of iterations: by its name, or because nothing is known of it."""
    return dim.endswith(ITERATION) or (dim != TRIAL and dim not in series.coordinates)


def with_unit(name: str, unit: str | None) -> str:
    """A name with its unit, if it has one."""
    return f"{name} ({unit})" if unit else name


def _of_variable(variable: Any) -> Series:
    """A variable of xarray."""
    name = str(variable.name)
    dims = tuple(map(str, variable.dims))
    dims, values = _without_single(dims, _numbers(name, variable.values), variable.coords)
    named = {dim: _time_along(variable, dim) for dim in dims} | {name: name}
    coordinates = {dim: np.asarray(variable.coords[named[dim]].values) for dim in dims if named[dim] in variable.coords}
    units = {key: variable.coords[at].attrs.get("units") for key, at in named.items() if at in variable.coords}
    units[name] = variable.attrs.get("units")
    own = str(variable.attrs.get(TIME, ""))
    words = {at: variable.coords[at].attrs.get("long_name", at) for at in named.values() if at in variable.coords}
    labels = {key: with_unit(TIME if at == own else words.get(at, at), units.get(key)) for key, at in named.items()}
    made = Series(name, dims, values, coordinates, labels, units[name], own.endswith("start_time"))
    return replace(made, is_logical=_is_logical(variable.values))


def _time_along(variable: Any, dim: str) -> str:
    """The coordinate that is written along a dimension: of iterations their time, where it is known."""
    time = variable.attrs.get(TIME, dim.removesuffix(ITERATION) + TIME)
    is_there = dim.endswith(ITERATION) and time in variable.coords and variable.coords[time].dims == (dim,)
    return time if is_there else dim


def _numbers(name: str, value: Any) -> np.ndarray:
    """A value as an array of floats."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise KindError(f"{name!r} holds no numbers of one shape, so it cannot be plotted ({type(value).__name__})") from error


def _is_logical(value: Any) -> bool:
    return bool(np.asarray(value).dtype == bool)


def chosen(known: Mapping[str, Any], names: Iterable[str]) -> list[Series]:
    """The series of these names.

    Raises
    ------
    ArgumentError
        There is none of such a name.
    """
    found = []
    for name in names:
        if not isinstance(name, str):
            raise KindError(f"names of values to plot are texts, plot('x') or plot('x', 'y'); got {name!r}")
        if name not in known:
            cure = f"record=[{name!r}] keeps a value of a loop, and an output port makes it an output"
            raise ArgumentError(f"there is nothing to plot called {name!r}{there_are(name, known, 3)}; {cure}")
        found.append(known[name]())
    return found
