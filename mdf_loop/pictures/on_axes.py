"""A picture on axes of matplotlib, which needs no Graphviz."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mdf_loop.pictures.boxes import COLOURS, LEGEND, Arrow, Box, Cluster, Picture
from mdf_loop.pictures.layout import LETTER, LINE, MARGIN, PADDING, Spot, laid_out
from mdf_loop.pictures.routes import around
from mdf_loop.plots.on_matplotlib import axes_or_new, literal

STRAIGHT_FIRST = (0.0, 0.12, -0.12, 0.24, -0.24, 0.4, -0.4, 0.55, -0.55, 0.8, -0.8)
"""Bends to try, the sooner the better; a positive one leads a downward arrow past the left."""

CURVED = (0.3, -0.3, 0.18, -0.18, 0.48, -0.48, 0.7, -0.7, 1.0, -1.0)
"""Those for an arrow that leads back: never straight, and never the line of an arrow that leads there."""

BESIDE = 0.03
"""Inches that an arrow stays away from other boxes."""

ALONG = np.linspace(0.0, 1.0, 101)[:, None]


def bend(tail: Spot, head: Spot, others: Sequence[Spot], whole: Spot, bends: Iterable[float]) -> float | None:
    """The first of some bends with which an arrow crosses no other box, and stays in the picture; None if there is none.

    Parameters
    ----------
    tail, head : Spot
        Where it begins and ends; not among the others.
    others : sequence of Spot
        What it should pass.
    whole : Spot
        What it should stay in.
    bends : iterable of float
    """
    corners = np.array([place.corners for place in others]).reshape(-1, 4) + BESIDE * np.array([-1, -1, 1, 1])
    ends, edges = (np.array(tail.middle), np.array(head.middle)), np.array(whole.corners)

    def is_clear(each: float) -> bool:
        curve = _curve(*ends, each)
        is_in = (edges[:2] <= curve).all() and (curve <= edges[2:]).all()
        return bool(is_in) and not _crossed(curve, corners)

    return next(filter(is_clear, bends), None)


def _curve(start: np.ndarray, end: np.ndarray, each: float) -> np.ndarray:
    """Points of matplotlib's ``arc3``: a quadratic curve whose control point stands beside the middle."""
    across = end - start
    control = (start + end) / 2 + each * np.array([-across[1], across[0]])  # y counts downwards
    return (1 - ALONG) ** 2 * start + 2 * ALONG * (1 - ALONG) * control + ALONG**2 * end


def _crossed(curve: np.ndarray, corners: np.ndarray) -> int:
    """How many boxes have a point of a curve inside."""
    x, y = curve[:, :1], curve[:, 1:]
    inside = (corners[:, 0] < x) & (x < corners[:, 2]) & (corners[:, 1] < y) & (y < corners[:, 3])
    return int(inside.any(axis=0).sum())


MOST_ROUTED = 150
"""Boxes of a picture in which arrows look for ways around: of more, this takes minutes."""

MOST_CENTRED = 8
"""Lines of a text that are centred; longer ones are a list, which begins at the left."""

TEXT, LINES, FRAME = "#1a1a1a", "#666666", "#999999"
"""Colours of texts, arrows and frames."""

SAMPLE = 0.55
"""Inches: from the edge to the words of the legend, before which a box shows the colour."""


def on_axes(picture: Picture, ax: Any = None) -> Any:
    """Draw a picture; without axes into a figure of its own, as large as it needs.

    Raises
    ------
    LoopError
        matplotlib is not installed.
    """
    places = laid_out(picture)
    whole, kinds = places[picture.top.key], picture.kinds()
    width = max([whole.width, *(SAMPLE + len(LEGEND[kind]) * LETTER for kind in kinds)]) + PADDING
    height = whole.height + len(kinds) * (LINE + PADDING) + PADDING
    is_own, ax = ax is None, axes_or_new(ax, (width, height))
    if is_own:
        ax.figure.set_facecolor("white")
        ax.figure.set_layout_engine("none")  # an inch of the picture is one of the figure: texts fit their boxes
        ax.set_position((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.axis("off")
    patches: dict[str, Any] = {}
    _cluster(picture.top, places, ax, patches, 0)
    boxes, routed = [box.key for box in picture.top.all_boxes()], list[np.ndarray]()
    headings = [_heading(cluster, places[cluster.key]) for cluster in picture.top.all_clusters()]
    for arrow in picture.arrows:
        if arrow.tail in patches and arrow.head in patches:
            others = [places[key] for key in boxes if key not in (arrow.tail, arrow.head)]
            for passed in ([*others, *headings], others):  # a line through a heading is better than one through a box
                way = places[arrow.tail], places[arrow.head], passed, whole
                radius = bend(*way, CURVED if arrow.is_back else STRAIGHT_FIRST)
                corners = around(*way, arrow.is_back, routed) if radius is None and len(boxes) <= MOST_ROUTED else None
                if radius is not None or corners is not None:
                    break
            routed += [] if corners is None else [corners]
            _arrow(arrow, places, ax, patches, radius or 0.0, corners)
    _legend(kinds, whole.height + PADDING, ax)
    return ax


def written(picture: Picture, kind: str) -> bytes:
    """A picture as the bytes of a file: svg, png or pdf.

    Raises
    ------
    LoopError
        matplotlib is not installed.
    """
    figure = on_axes(picture).figure
    from matplotlib import pyplot

    file = io.BytesIO()
    try:
        figure.savefig(file, format=kind, dpi=150)
    finally:
        pyplot.close(figure)
    return file.getvalue()


def _cluster(cluster: Cluster, places: dict[str, Spot], ax: Any, patches: dict[str, Any], depth: int) -> None:
    """A frame with a title and all that is inside."""
    place = places[cluster.key]
    patches[cluster.key] = _frame(place, ax, facecolor="#fafafa" if depth % 2 else "#ffffff", edgecolor=FRAME, zorder=depth)
    title, style = literal(cluster.title), {"fontsize": 8, "color": TEXT, "va": "center", "weight": "bold", "zorder": 50}
    ax.text(place.x + PADDING, place.y + MARGIN, title, **style)
    for box in cluster.boxes:
        _box(box, places[box.key], ax, patches)
    for inner in cluster.clusters:
        _cluster(inner, places, ax, patches, depth + 1)


def _heading(cluster: Cluster, place: Spot) -> Spot:
    """Where the title of a frame is written."""
    return Spot(place.x + PADDING, place.y + MARGIN - LINE / 2, len(cluster.title) * LETTER, LINE)


def _box(box: Box, place: Spot, ax: Any, patches: dict[str, Any]) -> None:
    patches[box.key] = _frame(place, ax, facecolor=COLOURS[box.kind], edgecolor=LINES, zorder=40)
    text, is_list = literal("\n".join(box.lines)), len(box.lines) > MOST_CENTRED
    x, align = (place.x + PADDING, "left") if is_list else (place.middle[0], "center")
    ax.text(x, place.middle[1], text, fontsize=7.5, color=TEXT, ha=align, va="center", zorder=50)


def _frame(place: Spot, ax: Any, **style: Any) -> Any:
    from matplotlib.patches import FancyBboxPatch

    corner = place.x + 0.03, place.y + 0.03
    patch = FancyBboxPatch(corner, place.width - 0.06, place.height - 0.06, "round,pad=0.02", linewidth=0.8, **style)
    return ax.add_patch(patch)


def _arrow(
    arrow: Arrow, places: dict[str, Spot], ax: Any, patches: dict[str, Any], radius: float, corners: np.ndarray | None
) -> None:
    """An arrow from box to box, curved or along corners; what the next iteration gets is dashed."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 8, "linewidth": 0.8, "zorder": 39}
    style |= {"linestyle": "dashed" if arrow.is_back else "solid", "color": "#b03060" if arrow.is_back else LINES}
    if corners is not None:
        ax.add_patch(FancyArrowPatch(path=Path(corners), **style))
        return
    style |= {"posA": places[arrow.tail].middle, "posB": places[arrow.head].middle}
    style |= {"patchA": patches[arrow.tail], "patchB": patches[arrow.head], "connectionstyle": f"arc3,rad={radius}"}
    ax.add_patch(FancyArrowPatch(**style))


def _legend(kinds: list[str], top: float, ax: Any) -> None:
    """What the colours mean, of those that occur: a line for each below the picture."""
    for place, kind in enumerate(kinds):
        down = top + place * (LINE + PADDING)
        _frame(Spot(PADDING, down, SAMPLE - 2 * PADDING, LINE), ax, facecolor=COLOURS[kind], edgecolor=LINES)
        ax.text(SAMPLE, down + LINE / 2, LEGEND[kind], fontsize=7.5, color=TEXT, va="center")
