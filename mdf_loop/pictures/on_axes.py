"""A picture on axes of matplotlib, which needs no Graphviz."""

from __future__ import annotations

import heapq
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mdf_loop.pictures.boxes import COLOURS, LEGEND, Arrow, Box, Cluster, Picture
from mdf_loop.pictures.layout import LETTER, LINE, MARGIN, PADDING, Spot, laid_out
from mdf_loop.plots.on_matplotlib import literal, new_axes

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
    if ax is None:
        ax = new_axes((width, height))
        ax.figure.set_facecolor("white")
        ax.figure.set_layout_engine("none")  # an inch of the picture is one of the figure: texts fit their boxes
        ax.set_position((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.axis("off")
    patches: dict[str, Any] = {}
    _cluster(picture.top, places, ax, patches, 0)
    boxes = [box.key for box in picture.top.all_boxes()]
    for arrow in picture.arrows:
        if arrow.tail in patches and arrow.head in patches:
            others = [places[key] for key in boxes if key not in (arrow.tail, arrow.head)]
            way = places[arrow.tail], places[arrow.head], others, whole
            radius = bend(*way, CURVED if arrow.is_back else STRAIGHT_FIRST)
            corners = around(*way, arrow.is_back) if radius is None and len(boxes) <= MOST_ROUTED else None
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


CELL, CLEAR, CLEAR_BACK = 0.06, 0.05, 0.1
"""Inches: a square of the grid, and how far an arrow stays away from other boxes; one that leads back takes another way."""

STEPS = [(x, y, float(np.hypot(x, y))) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]


def around(tail: Spot, head: Spot, others: Sequence[Spot], whole: Spot, is_back: bool = False) -> np.ndarray | None:
    """The corners of a path from box to box that crosses no other one; None if there is no path.

    Parameters
    ----------
    tail, head : Spot
        Where it begins and ends; not among the others.
    others : sequence of Spot
        What it must pass.
    whole : Spot
        What it must stay in.
    is_back : bool
        Whether it is for the next iteration.
    """
    boxes = np.array([place.corners for place in others]).reshape(-1, 4)
    ways = (_path(tail, head, boxes + clear * np.array([-1, -1, 1, 1]), whole) for clear in (CLEAR_BACK, CLEAR)[not is_back :])
    return next((way for way in ways if way is not None), None)


def _path(tail: Spot, head: Spot, corners: np.ndarray, whole: Spot) -> np.ndarray | None:
    x, y = (CELL * (np.arange(int(size / CELL)) + 0.5) for size in (whole.width, whole.height))
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    found = _shortest(~_inside(points, corners), *(_cell(place.middle, points.shape[:2]) for place in (tail, head)))
    if found is None:
        return None
    path = [np.array(tail.middle), *(points[cell] for cell in found[1:-1]), np.array(head.middle)]
    return _to_edge(_straightened(path, corners), head)


def _inside(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Which points are in any box."""
    x, y = points[..., :1], points[..., 1:]
    found = (corners[:, 0] < x) & (x < corners[:, 2]) & (corners[:, 1] < y) & (y < corners[:, 3])
    return np.asarray(found.any(axis=-1))


def _cell(point: tuple[float, float], shape: Sequence[int]) -> tuple[int, int]:
    x, y = (min(int(at / CELL), size - 1) for at, size in zip(point, shape, strict=True))
    return x, y


def _shortest(is_free: np.ndarray, start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]] | None:
    """A shortest path over free cells (Dijkstra, A*)."""
    came, cost = {start: start}, {start: 0.0}
    todo = [(0.0, start)]
    while todo:
        _, at = heapq.heappop(todo)
        if at == end:
            path = [at]
            while path[-1] != start:
                path.append(came[path[-1]])
            return path[::-1]
        for x, y, length in STEPS:
            there = at[0] + x, at[1] + y
            if not (0 <= there[0] < is_free.shape[0] and 0 <= there[1] < is_free.shape[1]) or not is_free[there]:
                continue
            if (known := cost[at] + length) < cost.get(there, np.inf):
                came[there], cost[there] = at, known
                heapq.heappush(todo, (known + float(np.hypot(there[0] - end[0], there[1] - end[1])), there))
    return None


def _straightened(path: Sequence[np.ndarray], corners: np.ndarray) -> list[np.ndarray]:
    """The same path with as few corners as it needs."""
    found, at = [path[0]], 0
    while at < len(path) - 1:
        nexts = range(len(path) - 1, at, -1)
        at = next((k for k in nexts if k == at + 1 or not _inside(_between(path[at], path[k]), corners).any()), at + 1)
        found.append(path[at])
    return found


def _between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    along = np.linspace(0, 1, 2 + int(np.hypot(*(end - start)) / 0.02))[:, None]
    points: np.ndarray = start + along * (end - start)
    return points


def _to_edge(path: list[np.ndarray], head: Spot) -> np.ndarray:
    """The path up to the edge of the box where it ends."""
    box = np.array([head.corners])
    while len(path) > 2 and _inside(path[-2], box):
        path.pop()
    last = _between(path[-2], path[-1])
    outside = last[~_inside(last, box)]
    return np.array([*path[:-1], outside[-1] if len(outside) else path[-1]])
