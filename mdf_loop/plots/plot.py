"""``plot``: results of a run or a sweep as a picture, and as figures for files and pages, which open no window."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from typing import Any

from mdf_loop.errors import ArgumentError, warn_user
from mdf_loop.options import public
from mdf_loop.plots.on_matplotlib import axes_or_new, legend, literal, plot_one, plot_phase, pyplot
from mdf_loop.plots.panels import Panel, panels


@public
def plot(source: Any, /, *names: str, ax: Any = None, **style: Any) -> Any:
    """Plot results: trajectories, histograms of trials, phase planes, curves and heat maps of sweeps.

    The results decide the kind of plot.  A value of each iteration is a line, with one line for each of a few elements, or a
    heat map for many.  Lines share axes if they have one unit, or no units and one scale; others have axes of their own.  The
    time of the model, a value called ``t`` or ``time`` that grows, is on the x axis.  A number of each trial is a histogram.
    With other axes, trials are a mean and a band of one standard deviation, as long as at least half of them run.  A sweep
    over one input is a curve, a sweep over two inputs a heat map.  Two outputs of a sweep are points, joined along one input,
    with a line for each value of the other.  A title says how many runs ended at M, if their condition could have ended them
    earlier.

    Parameters
    ----------
    source : Results or xarray.Dataset
        The result of :func:`mdf_loop.run`, :func:`mdf_loop.sweep` or :meth:`Results.to_xarray`.
    *names : str
        One output or recorded value; or several, to draw the others against the first (a phase plane).  Without names, all
        lines are drawn: those of the recorded values, if there are any.
    ax : matplotlib Axes, optional
        The axes for all lines; the default is a new figure.
    **style
        Passed to matplotlib's ``plot``, ``hist`` or ``pcolormesh``.

    Returns
    -------
    matplotlib.axes.Axes
        The first ones, if lines of several scales have axes of their own: ``.figure.axes`` has all.

    Raises
    ------
    KindError
        ``source`` or ``ax`` has another type, or a value has no numbers.
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
    shown = panels(source, names)
    if not names:
        left = [panel for panel in shown if not panel.is_like(shown[0])]
        shown = [panel for panel in shown if panel.is_like(shown[0])]
        rest = [series.name for panel in left for series in panel.series]
        _warn_of_recorded(source, rest)
    if ax is not None:
        shown = [Panel([series for panel in shown for series in panel.series], shown[0].x)]
    axes = (
        stacked(pyplot().figure(figsize=_size(len(shown)) if shown[1:] else None, layout="constrained"), shown)
        if ax is None
        else [axes_or_new(ax)]
    )
    try:
        for panel, each in zip(shown, axes, strict=True):
            drawn(panel, each, **style)
        is_left = not names and rest and not _recorded(source)
        _entitle(axes[0], source, f"not drawn: {', '.join(rest)}; plot({rest[0]!r}) draws it" if is_left else "")
        return axes[0]
    except (AttributeError, TypeError) as error:
        if not style:
            raise
        wrong = str(error)
    raise ArgumentError(f"matplotlib does not take {', '.join(style)} here: {wrong}")


def _entitle(ax: Any, source: Any, more: str = "") -> None:
    """Say above the first axes how many runs ended at M, and what else is to be known."""
    about = getattr(source, "about", None)
    ended = source.attrs.get("ended", "") if about is None else about.ended
    said = "\n".join(filter(None, (ended, more)))
    if said and not ax.get_title():
        ax.set_title(literal(said), fontsize="small")


def _warn_of_recorded(source: Any, left: Sequence[str]) -> None:
    """Say which values were recorded and are not drawn: those of several elements have a picture of their own."""
    if names := [name for name in left if name in _recorded(source)]:
        warn_user(f"the plot shows values of one kind, and not {', '.join(names)}; draw each by its name: plot({names[0]!r})")


def _recorded(source: Any) -> Collection[str]:
    """The values that a run was asked to record: what is drawn without names, if there are any."""
    return getattr(getattr(source, "about", None), "recorded", ())


def drawn(panel: Panel, ax: Any, **style: Any) -> None:
    """What a panel has, on axes."""
    notes = dict[str, str]()
    for series in panel.series:
        if panel.x is None:
            notes[series.name] = plot_one(series, ax, **style)
        else:
            word = f"{series.name}, " if len(panel.series) > 1 else ""
            notes[series.name] = plot_phase(panel.x, series, ax, word, **{"label": literal(series.name), **style})
    if len(panel.series) > 1:
        ax.set_ylabel("")
    is_one = len({*notes.values()}) == 1
    legend(ax, notes.values() if is_one else [f"{name}: {note}" for name, note in notes.items() if note])


MOST, WIDTH, HEIGHT = 6, 7.0, 3.0
"""Axes in a figure, and the size of each in inches."""

KINDS = ("png", "svg", "pdf")
"""What a figure can be written as."""


def figure(source: Any, names: Sequence[str] = ()) -> Any:
    """A figure of all that can be drawn; or of some names, as :func:`plot` draws them.

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
    shown = panels(source, names)[:MOST]
    pyplot()
    from matplotlib.figure import Figure

    made = Figure(figsize=_size(len(shown)), layout="constrained")
    for panel, ax in zip(shown, stacked(made, shown), strict=True):
        drawn(panel, ax)
    _entitle(made.axes[0], source)
    return made


def _size(count: int) -> tuple[float, float]:
    return WIDTH, HEIGHT * count


def stacked(made: Any, shown: Sequence[Panel]) -> list[Any]:
    """Axes in a figure, one below the other; lines along the same iterations or times are above each other."""
    axes = list[Any]()
    for k, panel in enumerate(shown):
        above = next((ax for ax, other in zip(axes, shown, strict=False) if panel.is_along(other)), None)
        axes.append(made.add_subplot(len(shown), 1, k + 1, sharex=above))
    return axes


def written(made: Any, kind: str = "png", dpi: int = 100) -> bytes:
    """A figure as the content of a file."""
    out = io.BytesIO()
    with pyplot().rc_context({"svg.hashsalt": "mdf_loop"}):
        made.savefig(out, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()
