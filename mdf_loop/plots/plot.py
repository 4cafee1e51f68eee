"""``plot``: results of a run or a sweep as a picture, and as figures for files and pages, which open no window."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.options import public
from mdf_loop.plots.on_matplotlib import legend, new_axes, plot_one, plot_phase, pyplot
from mdf_loop.plots.series import ITERATION, TRIAL, Series, chosen, series_of


@public
def plot(source: Any, /, *names: str, ax: Any = None, **style: Any) -> Any:
    """Plot results: trajectories, histograms of trials, phase planes, curves and heat maps of sweeps.

    The results decide the kind of plot.  A value of each iteration is a line, with one line for each of a few elements, or a
    heat map for many.  A number of each trial is a histogram.  With other axes, trials are a mean and a band of one standard
    deviation.  A sweep over one input is a curve, a sweep over two inputs a heat map.

    Parameters
    ----------
    source : Results or xarray.Dataset
        The result of :func:`mdf_loop.run`, :func:`mdf_loop.sweep` or :meth:`Results.to_xarray`.
    *names : str
        One output or recorded value; or two, to draw the second against the first (a phase plane).  Without names, all lines
        are drawn in one picture: those of the recorded values, if there are any.
    ax : matplotlib Axes, optional
        The axes; the default is a new figure.
    **style
        Passed to matplotlib's ``plot``, ``hist`` or ``pcolormesh``.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    KindError
        ``source`` has another type, or a value has no numbers.
    ArgumentError
        A value does not exist, or cannot be drawn; or matplotlib does not know a style.
    LoopError
        matplotlib is not installed.

    Examples
    --------
    >>> import mdf_loop
    >>> r = mdf_loop.run("examples/accumulate.yaml", x=[10, 20, 5], y=0)
    >>> mdf_loop.plot(r, "sums").get_xlabel()                            # doctest: +SKIP
    'iteration'
    """
    if len(names) > 2:
        raise ArgumentError(f"plot takes one name, or two for a phase plane; got {len(names)}")
    shown = groups(source, names)
    ax = new_axes() if ax is None else ax
    try:
        if len(names) < 2:
            return drawn(shown[0], ax, **style)
        (x,), (y,) = shown
        plot_phase(x, y, ax, **style)
        return ax
    except (AttributeError, TypeError) as error:
        if not style:
            raise
        wrong = str(error)
    raise ArgumentError(f"matplotlib does not take {', '.join(style)} here: {wrong}")


def drawn(shown: Sequence[Series], ax: Any, **style: Any) -> Any:
    """Some series on the same axes."""
    for series in shown:
        plot_one(series, ax, **style)
    if len(shown) > 1:
        ax.set_ylabel("")
    legend(ax)
    return ax


def groups(source: Any, names: Sequence[str] = ()) -> list[list[Series]]:
    """What belongs on axes of its own: each name; or without names all lines of one kind, and all else that can be drawn.

    Raises
    ------
    ArgumentError
        There is nothing of a name, or nothing that can be drawn.
    """
    known = series_of(source)
    if names:
        return [[series] for series in chosen(known, names)]
    about = getattr(source, "about", None)
    recorded = {} if about is None else about.recorded
    lengths = _lengths_in(known) if about is None else ()
    shown = [name for name in dict.fromkeys([*recorded, *known]) if name not in lengths]
    found = [series for name in shown if (series := _with_axes(known, name)) is not None]
    if not found:
        raise ArgumentError(
            f"there are only single numbers here ({', '.join(known) or 'none'}); record=, trials= or a sweep give more"
        )
    kept = [series for series in found if series.name in recorded] or found
    moving = [series for series in kept if ITERATION in series.dims and about is not None] or kept
    lines = [series for series in moving if series.over_trials()[0].values.ndim == 1]
    alike = [series for series in lines if series.dims == lines[0].dims]
    first = alike or [series for series in moving if _is_flat(series)][:1] or moving[:1]
    together = {series.name for series in first}
    return [first, *([series] for series in found if series.name not in together and _is_flat(series))]


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


MOST, WIDTH, HEIGHT = 6, 7.0, 3.0
"""Axes in a figure, and the size of each in inches."""

KINDS = ("png", "svg", "pdf")
"""What a figure can be written as."""


def figure(source: Any, names: Sequence[str] = ()) -> Any:
    """A figure of results: axes for each name; or without names for all that can be drawn, lines of one kind together.

    Parameters
    ----------
    source : Results or xarray.Dataset
    names : sequence of str

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ArgumentError
        There is nothing of a name, or nothing that can be drawn.
    LoopError
        matplotlib is not installed.
    """
    shown = groups(source, names)[:MOST]
    pyplot()
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH, HEIGHT * len(shown)), layout="constrained")
    for k, series in enumerate(shown):
        drawn(series, made.add_subplot(len(shown), 1, k + 1))
    return made


def written(made: Any, kind: str = "png", dpi: int = 100) -> bytes:
    """A figure as the content of a file."""
    out = io.BytesIO()
    with pyplot().rc_context({"svg.hashsalt": "mdf_loop"}):
        made.savefig(out, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()
