"""Figures of all that a run or a sweep gave, for files and pages: they open no window."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from mdf_loop.plots.on_matplotlib import pyplot
from mdf_loop.plots.plot import drawn, groups

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
