"""A picture on axes of matplotlib: what Graphviz does where it is installed, for those who want axes."""

from __future__ import annotations

from typing import Any

from mdf_loop.pictures.bends import CURVED, STRAIGHT_FIRST, bend
from mdf_loop.pictures.boxes import COLOURS, LEGEND, Arrow, Box, Cluster, Picture
from mdf_loop.pictures.layout import LETTER, LINE, MARGIN, PADDING, Place, laid_out
from mdf_loop.plots.on_matplotlib import new_axes

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
            bends = CURVED if arrow.is_back else STRAIGHT_FIRST
            _arrow(arrow, places, ax, patches, bend(places[arrow.tail], places[arrow.head], others, whole, bends))
    _legend(kinds, whole.height + PADDING, ax)
    return ax


def _cluster(cluster: Cluster, places: dict[str, Place], ax: Any, patches: dict[str, Any], depth: int) -> None:
    """A frame with a title and all that is inside."""
    place = places[cluster.key]
    patches[cluster.key] = _frame(place, ax, facecolor="#fafafa" if depth % 2 else "#ffffff", edgecolor=FRAME, zorder=depth)
    ax.text(place.x + PADDING, place.y + MARGIN, cluster.title, fontsize=8, color=TEXT, va="center", weight="bold", zorder=50)
    for box in cluster.boxes:
        _box(box, places[box.key], ax, patches)
    for inner in cluster.clusters:
        _cluster(inner, places, ax, patches, depth + 1)


def _box(box: Box, place: Place, ax: Any, patches: dict[str, Any]) -> None:
    patches[box.key] = _frame(place, ax, facecolor=COLOURS[box.kind], edgecolor=LINES, zorder=40)
    text = "\n".join(box.lines).replace("$", r"\$")
    ax.text(*place.middle, text, fontsize=7.5, color=TEXT, ha="center", va="center", zorder=50)


def _frame(place: Place, ax: Any, **style: Any) -> Any:
    from matplotlib.patches import FancyBboxPatch

    corner = place.x + 0.03, place.y + 0.03
    patch = FancyBboxPatch(corner, place.width - 0.06, place.height - 0.06, "round,pad=0.02", linewidth=0.8, **style)
    return ax.add_patch(patch)


def _arrow(arrow: Arrow, places: dict[str, Place], ax: Any, patches: dict[str, Any], radius: float) -> None:
    """An arrow from box to box; what the next iteration gets is dashed and curved."""
    from matplotlib.patches import FancyArrowPatch

    style = "dashed" if arrow.is_back else "solid"
    ax.add_patch(
        FancyArrowPatch(
            places[arrow.tail].middle,
            places[arrow.head].middle,
            patchA=patches[arrow.tail],
            patchB=patches[arrow.head],
            arrowstyle="-|>",
            mutation_scale=8,
            linewidth=0.8,
            linestyle=style,
            color="#b03060" if arrow.is_back else LINES,
            connectionstyle=f"arc3,rad={radius}",
            zorder=45 if arrow.is_back else 39,
        )
    )


def _legend(kinds: list[str], top: float, ax: Any) -> None:
    """What the colours mean, of those that occur: a line for each below the picture."""
    for place, kind in enumerate(kinds):
        down = top + place * (LINE + PADDING)
        _frame(Place(PADDING, down, SAMPLE - 2 * PADDING, LINE), ax, facecolor=COLOURS[kind], edgecolor=LINES)
        ax.text(SAMPLE, down + LINE / 2, LEGEND[kind], fontsize=7.5, color=TEXT, va="center")
