"""Which values share axes: those of one unit or scale, over the time of the model where it is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.plots.series import ITERATION, TIME, TRIAL, Series, chosen, is_run, series_of

TIMES = re.compile(r"(.*\.)?(t|ts|time|times)", re.IGNORECASE)
"""Names of values that are the time, where they grow from iteration to iteration."""

ONE_SCALE = 5.0
"""How many times as far as the flattest line axes may reach without a unit that says that lines belong together."""


@dataclass(frozen=True)
class Panel:
    """What shares axes.

    Attributes
    ----------
    series : list of Series
    x : Series or None
        What they are drawn against; None for their own first axis.
    """

    series: list[Series]
    x: Series | None = None

    def is_like(self, other: Panel) -> bool:
        """Whether both have lines along one axis, or are the same."""
        first, here = other.series[0], self.series[0]
        return self is other or (first.dims == here.dims and first.over_trials()[0].values.ndim == 1)

    def is_along(self, other: Panel) -> bool:
        """Whether both have lines over the same iterations or times."""
        first, here = other.series[0], self.series[0]
        labels = {series.label(dim) for series in (first, here) for dim in series.dims if dim != TRIAL}
        return self.x is other.x is None and self.is_like(other) and len(labels) == 1


def panels(source: Any, names: Sequence[str] = ()) -> list[Panel]:
    """What is drawn: one value; the others against the first; without names all that can be drawn, lines of one kind first.

    Parameters
    ----------
    source : Results or xarray.Dataset
    names : sequence of str

    Raises
    ------
    ArgumentError
        There is nothing of a name, or nothing that can be drawn.
    """
    known, about = series_of(source), getattr(source, "about", None)
    recorded = {} if about is None else about.recorded
    if names:
        x, *others = chosen(known, names)
        alike = [
            _with_axes(known, name) for name in known if TIMES.fullmatch(name) and (name in recorded) is (x.name in recorded)
        ]
        return [Panel(lines, x) for lines in of_one_scale(others)] or [Panel([_timed(x, _times(filter(None, alike)))])]
    found = _all_with_axes(known, recorded, about is None)
    found = [series for series in found if not any(_is_next(series, other) for other in found)]
    kept = [series for series in found if series.name in recorded] or found
    kept = [series for series in kept if ITERATION in series.dims and about is not None] or kept
    lines = [series for series in kept if series.over_trials()[0].values.ndim == 1]
    first = of_one_scale(series for series in lines if series.dims == lines[0].dims) or [
        [each for each in kept if _is_flat(each)][:1] or kept[:1]
    ]
    together = {series.name for each in first for series in each}
    return [*map(Panel, first), *(Panel([each]) for each in found if each.name not in together and _is_flat(each))]


def _is_next(series: Series, other: Series) -> bool:
    """Whether values at the end of iterations are those that another one has at their start: one curve."""
    if not other.is_at_start or series.is_at_start or series.dims != other.dims or series.values.shape != other.values.shape:
        return False
    axis = series.dims.index(ITERATION)
    count = series.values.shape[axis]
    ends, starts = series.values.take(range(count - 1), axis), other.values.take(range(1, count), axis)
    return count > 1 and np.array_equal(ends, starts, equal_nan=True)


def _all_with_axes(known: Mapping[str, Callable[[], Series]], recorded: Collection[str], is_dataset: bool) -> list[Series]:
    """What is no single number, recorded values first, over the time of the model."""
    lengths = _lengths_in(known) if is_dataset else ()
    shown = [name for name in dict.fromkeys([*recorded, *known]) if name not in lengths]
    found = [series for name in shown if (series := _with_axes(known, name)) is not None]
    if not found:
        raise ArgumentError(
            f"there are only single numbers here ({', '.join(known) or 'none'}); record=, trials= or a sweep give more"
        )
    parts = ([each for each in found if (each.name in recorded) is is_recorded] for is_recorded in (True, False))
    return [series for part in parts for series in over_time(part)]


def over_time(found: Sequence[Series]) -> list[Series]:
    """Series with the time of the model along their first axis, and without it; all as they are where nothing is along it."""
    times = _times(found)
    others = [series for series in found if series not in times]
    timed = [_timed(series, times) for series in others]
    return timed if timed != others else [*found]


def _times(found: Iterable[Series]) -> list[Series]:
    return [series for series in found if _is_time(series)]


def _is_time(series: Series) -> bool:
    """Whether a value is the time: by its name, because it grows, and is the same in all trials."""
    line, spread = series.over_trials()
    if not TIMES.fullmatch(series.name) or line.values.ndim != 1 or len(line.values) < 2 or not is_run(line, line.dims[0]):
        return False
    is_one = spread is None or np.nanmax(spread) <= 1e-9 * np.nanmax(np.abs(line.values))
    return bool(is_one and np.all(np.diff(line.values) > 0))


def _timed(series: Series, times: Sequence[Series]) -> Series:
    """A series with the first of the times that has as many values along the first axis that is not that of trials."""
    sizes = [(dim, size) for dim, size in zip(series.dims, series.values.shape, strict=True) if dim != TRIAL]
    for dim, size in sizes[:1]:
        for time in times if is_run(series, dim) else ():
            if (
                time.is_at_start is series.is_at_start
                and time.name != series.name
                and len(along := time.over_trials()[0].values) == size
            ):
                is_same = series.label(dim).startswith(TIME) and np.allclose(series.along(dim), along)
                labels = series.labels if is_same else {**series.labels, dim: time.label(time.name)}
                return replace(series, coordinates={**series.coordinates, dim: along}, labels=labels)
    return series


def of_one_scale(lines: Iterable[Series]) -> list[list[Series]]:
    """Lines in groups: those with one unit; and without one those which reach about as far."""
    found: list[list[Series]] = []
    for series in lines:
        group = next((each for each in found if _belong_together([*each, series])), None)
        if group is None:
            found.append([series])
        else:
            group.append(series)
    return found


def _belong_together(lines: Sequence[Series]) -> bool:
    if len({series.label(ITERATION) for series in lines}) > 1:  # the time of one loop, the iterations of another
        return False
    units = {series.unit for series in lines}
    if units != {None}:
        return len(units) == 1
    reach = [series.values[np.isfinite(series.values)] for series in lines]
    ends = [(float(values.min()), float(values.max())) for values in reach if values.size]
    spans = [high - low for low, high in ends if high > low]
    whole = max(high for _, high in ends) - min(low for low, _ in ends) if ends else 0.0
    return not spans or whole <= ONE_SCALE * min(spans)


def _lengths_in(known: Collection[str]) -> set[str]:
    """The variables of a Dataset that say how long the rows of others are."""
    said = {name: f"length of {name}" for name in known}
    return {said[name] if said[name] in known else f"{name}_length" for name in known}


def _with_axes(known: Mapping[str, Callable[[], Series]], name: str) -> Series | None:
    """What has axes with more than one place: neither a single number nor text."""
    try:
        series = known[name]()
    except LoopError:
        return None
    return series if series.values.size > 1 or TRIAL in series.dims else None


def _is_flat(series: Series) -> bool:
    """Whether a picture can show it as a whole."""
    return series.dims == (TRIAL,) or series.over_trials()[0].values.ndim in (1, 2)
