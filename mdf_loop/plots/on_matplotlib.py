"""Series on axes of matplotlib: lines, histograms, phase planes, heat maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, warn_user
from mdf_loop.plots.series import TRIAL, Series
from mdf_loop.settings.engines import needed

MOST_LINES = 12
"""Lines that a reader can tell apart; more of them are a heat map."""


def pyplot() -> Any:
    """The module ``matplotlib.pyplot``.

    Raises
    ------
    LoopError
        matplotlib is not installed.
    """
    return needed("matplotlib.pyplot", "plots need matplotlib", "plot")


def literal(text: str) -> str:
    """A text that matplotlib takes for no formula, whatever a model calls its values."""
    return text.replace("$", r"\$")


def axes_or_new(ax: Any = None, size: tuple[float, float] | None = None) -> Any:
    """The axes that are given, or some in a figure of their own.

    Raises
    ------
    LoopError
        matplotlib is not installed, or what is given are no axes.
    """
    if ax is None:
        return pyplot().subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, pyplot().Axes):
        several = "; of several axes give one, such as ax=axes[0]" if np.size(ax) > 1 else ""
        raise KindError(f"ax must be axes of matplotlib, such as those of plt.subplots(); got {type(ax).__name__}{several}")
    return ax


def plot_one(series: Series, ax: Any, **style: Any) -> str:
    """A histogram of trials, lines along one axis, or a heat map of two; returns what a legend says of lines.

    Raises
    ------
    ArgumentError
        It is a single number, or has too many axes.
    """
    if series.dims == (TRIAL,):
        plot_histogram(series, ax, **style)
        return ""
    mean, spread = series.over_trials()
    if mean.values.ndim == 1:
        _line(mean, spread, ax, **style)
    elif mean.values.ndim == 2:
        _lines_or_map(mean, spread, ax, **style)
    else:
        raise _no_picture(mean)
    return mean.note if spread is None else mean.note.replace("mean", "mean ± SD", 1)


def _no_picture(series: Series) -> ArgumentError:
    if not series.dims:
        return ArgumentError(
            f"{series.name!r} is a single number, {series.values:g}; a picture needs trials, iterations or a sweep"
        )
    return ArgumentError(
        f"{series.name!r} has {len(series.dims)} axes ({', '.join(series.dims)}); a picture shows two: take a part or a mean "
        "of it first, as xarray's .sel() and .mean() do"
    )


def plot_histogram(series: Series, ax: Any, **style: Any) -> None:
    """How often values occur in trials: a bar for each of a few numbers on a grid, and for a number that all have."""
    values = series.values[np.isfinite(series.values)]
    style = {"label": literal(series.label(series.name)), **style}
    is_one, step, edges = values.size > 0 and np.ptp(values) == 0, _step_of(values), bin_edges(values)
    is_apart = step == edges[1] - edges[0] == 1.0 and "bins" not in style
    ax.hist(values, **{"bins": edges, "rwidth": 0.8 if is_apart else None, **style})
    if step == 1.0 and "bins" not in style:
        _ticks(ax.xaxis, np.arange(2))
    _ticks(ax.yaxis, np.arange(2))
    if series.is_logical:
        ax.set_xticks([0, 1], ["false", "true"])
        ax.set_xlim(-0.6, 1.6)
    elif is_one:
        ax.set_xticks(values[:1], [f"{values[0]:g}"])
        ax.margins(x=1)
    _said(ax, series.label(series.name), "trials")


MOST_BARS = 30
"""Places of a grid that have a bar each, where the values reach no farther."""


def _step_of(values: np.ndarray) -> float | None:
    """The distance of values on a grid: whole numbers, and multiples of a step as response times are; None for others."""
    if not values.size or np.ptp(values) == 0 or (values == np.rint(values)).all():
        return 1.0 if values.size else None
    apart, whole = np.diff(np.unique(values)), np.ptp(values)
    step = whole / np.rint(whole / apart[apart > 1e-6 * whole].min())  # what rounding has made different is one value
    places = (values - values.min()) / step
    return float(step) if len(apart) > 2 and np.abs(places - np.rint(places)).max() < 0.01 else None


def bin_edges(values: np.ndarray, rule: str | int = "auto") -> np.ndarray:
    """Edges of bars; between the places of a grid, with as many of these in each, for values on one."""
    if (step := _step_of(values)) is None:
        return np.histogram_bin_edges(values, rule)
    places = np.rint((values - values.min()) / step)
    count = places.max() + 1
    width = 1.0 if count <= MOST_BARS else np.ceil(np.diff(np.histogram_bin_edges(places, rule)[:2])[0])
    return np.asarray(values.min() + step * (width * np.arange(count // width + 1 + (count % width > 0)) - 0.5))


def plot_phase(x: Series, y: Series, ax: Any, word: str = "", **style: Any) -> str:
    """One value over another: a trajectory in the plane, or a point for each trial; returns what a legend says of it.

    Raises
    ------
    ArgumentError
        They differ in their dimensions, or have more than two.
    """
    _said(ax, x.label(x.name), y.label(y.name))
    if x.dims == y.dims == (TRIAL,):
        ax.plot(x.values, y.values, **{"linestyle": "", "marker": ".", **style})
        return ""
    (x, _), (y, _) = x.over_trials(), y.over_trials()
    if x.values.shape != y.values.shape:
        raise ArgumentError(f"{x.name!r} has axes {_shape(x)} and {y.name!r} {_shape(y)}; a phase plane needs the same for both")
    if x.values.ndim not in (1, 2):
        raise _no_picture(x)
    x, y = _at_the_same_moments(x, y)
    if x.values.ndim == 1:
        _joined(x, y, ax, **style)
        return y.note
    swept = [dim for dim in x.dims if dim in x.coordinates and not _is_run(dim)]
    axis = x.dims.index(swept[0] if len(swept) == 1 else _shorter(x))
    each, word = y.dims[axis], word if swept else ""  # elements have the name in their own
    for (at, one), (_, other) in zip(_places_of(y, each), _places_of(x, x.dims[axis]), strict=True):
        _joined(other, one, ax, **{**style, "label": literal(word + _labelled(y, each, at))})
    return y.note


def _at_the_same_moments(x: Series, y: Series) -> tuple[Series, Series]:
    """Values at the start of iterations with those at the end of the iterations before; a warning where these are not there."""
    runs = [next((dim for dim in series.dims if _is_run(dim)), None) for series in (x, y)]
    if x.is_at_start is y.is_at_start or None in runs:
        return x, y
    if x.is_at_start:
        return _at_the_same_moments(y, x)[::-1]
    ends, starts = x.along(str(runs[0])), y.along(str(runs[1]))
    ends = ends + 1 if np.array_equal(ends, starts) else ends  # numbers of iterations, not times
    if len(ends) < 2 or not np.allclose(ends[:-1], starts[1:]):
        warn_user(f"{y.name} is at the start of iterations, and {x.name} at their end: they are one step apart; record both")
        return x, y
    return x.without(str(runs[0]), -1), y.without(str(runs[1]), 0)


def _joined(x: Series, y: Series, ax: Any, **style: Any) -> None:
    """A line through points; those of a swept input are marked, and joined in its order."""
    (dim,) = x.dims
    if dim not in x.coordinates or _is_run(dim):
        ax.plot(x.values, y.values, **style)
        return
    order = np.argsort(x.coordinates[dim], kind="stable")
    ax.plot(x.values[order], y.values[order], **{"marker": "o", **style})


def _places_of(series: Series, each: str) -> Iterable[tuple[Any, Series]]:
    """What stands at each place of an axis."""
    rest, axis = tuple(dim for dim in series.dims if dim != each), series.dims.index(each)
    return [(at, series.part(rest, series.values.take(k, axis))) for k, at in enumerate(series.along(each))]


def _labelled(series: Series, each: str, at: Any) -> str:
    """What a legend says of one place of an axis."""
    shown = f"{at:g}" if isinstance(at, int | float | np.number) else str(at)
    return f"{each}={shown}" if each in series.coordinates else f"{series.name}[{shown}]"


def _shape(series: Series) -> str:
    return ", ".join(f"{dim} ({n})" for dim, n in zip(series.dims, series.values.shape, strict=True)) or "none"


def _line(series: Series, spread: np.ndarray | None, ax: Any, label: str | None = None, **style: Any) -> None:
    """A line along the axis there is, and a band of one standard deviation where it is a mean of trials.

    A few elements are points with bars: there is nothing between them.  So is a place between gaps, of which no line is seen.
    """
    along, dim = series.along(series.dims[0]), series.dims[0]
    is_vector = dim not in series.coordinates and not _is_run(dim) and len(along) <= MOST_LINES
    points = np.arange(len(along)) if is_vector else _between_gaps(series.values)
    form = {"marker": "o", "markevery": points.tolist(), **({"linestyle": ""} if is_vector else {})} if points.size else {}
    (line,) = ax.plot(_places(along), series.values, **{"label": literal(label or series.label(series.name)), **form, **style})
    if spread is not None:
        ends = np.array([series.values - spread, series.values + spread])
        low, high = ends.clip(0, 1) if series.is_share else ends
        if points.size:
            reach = np.array([series.values - low, high - series.values])[:, points]
            at = _places(along)[points], series.values[points]
            ax.errorbar(*at, reach, linestyle="", color=line.get_color(), capsize=3)
        if not is_vector:
            ax.fill_between(_places(along), low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    _ticks(ax.xaxis, along)
    _said(ax, series.label(series.dims[0]), series.label(series.name))


def _between_gaps(values: np.ndarray) -> np.ndarray:
    """The places of numbers that have none beside them."""
    there = np.isfinite(np.pad(values, 1, constant_values=np.nan))
    return np.flatnonzero(there[1:-1] & ~there[:-2] & ~there[2:])


def _lines_or_map(series: Series, spread: np.ndarray | None, ax: Any, **style: Any) -> None:
    """Of two axes: a line for each place of the shorter one that is not that of iterations, or a heat map of both.

    A small matrix is a heat map: neither of its axes is one along which something changes.
    """
    is_known = any(dim in series.coordinates or _is_run(dim) for dim in series.dims)
    is_matrix = not is_known and max(series.values.shape) <= MOST_LINES
    swept = [dim for dim in series.dims if dim in series.coordinates and not _is_run(dim)]
    each = _shorter(series)
    if is_matrix or len(swept) == 2 or series.values.shape[series.dims.index(each)] > MOST_LINES:
        _heat_map(series, ax, **style)
        return
    for k, (at, rest) in enumerate(_places_of(series, each)):
        band = None if spread is None else spread.take(k, series.dims.index(each))
        _line(rest, band, ax, label=_labelled(series, each, at), **style)


def _is_run(dim: str) -> bool:
    return dim == "iteration" or dim.endswith("_iteration")


def _shorter(series: Series) -> str:
    """The axis that gives lines: never that of iterations."""
    sizes = dict(zip(series.dims, series.values.shape, strict=True))
    return min([dim for dim in sizes if not _is_run(dim)] or sizes, key=lambda dim: sizes[dim])


def _heat_map(series: Series, ax: Any, **style: Any) -> None:
    """The first axis from left to right, the second one upwards."""
    said = ": ".join(filter(None, (series.label(series.name), series.note)))
    right, up = (series.along(dim) for dim in series.dims)
    image = ax.pcolormesh(_places(right), _places(up), series.values.T, **{"shading": "nearest", **style})
    _ticks(ax.xaxis, right)
    _ticks(ax.yaxis, up)
    codes = np.unique(series.values[np.isfinite(series.values)]) if series.are_codes else None
    ax.figure.colorbar(image, ax=ax, label=literal(said), ticks=codes)
    _said(ax, *map(series.label, series.dims))


def _places(along: np.ndarray) -> np.ndarray:
    """Where values stand: their own numbers, or places in a row for what is no number."""
    return along if along.dtype.kind in "iuf" else np.arange(len(along))


def _ticks(axis: Any, along: np.ndarray) -> None:
    """Whole numbers for what is counted, and words for what is no number."""
    from matplotlib.ticker import MaxNLocator

    if along.dtype.kind in "iu" and isinstance(locator := axis.get_major_locator(), MaxNLocator):
        locator.set_params(integer=True, min_n_ticks=1)
    if along.dtype.kind not in "iuf":
        axis.set_ticks(np.arange(len(along)), [literal(str(at)) for at in along])


def _said(ax: Any, x: str, y: str) -> None:
    """Name the axes, where they have no names."""
    ax.set_xlabel(ax.get_xlabel() or literal(x))
    ax.set_ylabel(ax.get_ylabel() or literal(y))


MOST_INSIDE = 6
"""Lines of text in a legend that has room in the axes; one with more is outside of them, where the figure makes room for it."""


def legend(ax: Any, notes: Iterable[str] = ()) -> None:
    """A legend where there is more than one thing to tell apart, or something to say of lines."""
    labels: Sequence[str] = ax.get_legend_handles_labels()[1]
    said = literal("\n".join(dict.fromkeys(filter(None, notes))).replace(", ", ",\n"))
    is_outside = len(labels) + len(said.splitlines()) > MOST_INSIDE and ax.figure.get_layout_engine() is not None
    place = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if is_outside else {}
    if len(labels) > 1 or (labels and said):
        ax.legend(title=said or None, title_fontsize="small", fontsize="small", **place)
