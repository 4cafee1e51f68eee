"""A picture on axes of matplotlib: what Graphviz does where it is installed, for those who want axes."""

from __future__ import annotations

from typing import Any

from mdf_loop.pictures.layout import MARGIN, PADDING, Place, laid_out
from mdf_loop.pictures.records import COLOURS, LEGEND, Arrow, Box, Cluster, Picture
from mdf_loop.plots.axes import new_axes

TEXT, LINES, FRAME = "#1a1a1a", "#666666", "#999999"
"""Colours of texts, arrows and frames."""


def on_axes(picture: Picture, ax: Any = None) -> Any:
    """Draw a picture; without axes into a figure of its own, as large as it needs.

    Raises
    ------
    LoopError
        matplotlib is not installed.
    """
    places = laid_out(picture)
    whole = places[picture.top.key]
    if ax is None:
        ax = new_axes((whole.width, whole.height))
        ax.figure.set_facecolor("white")
    ax.set(xlim=(0, whole.width), ylim=(whole.height, 0), aspect="equal")
    ax.axis("off")
    patches: dict[str, Any] = {}
    _cluster(picture.top, places, ax, patches, 0)
    for arrow in picture.arrows:
        if arrow.tail in patches and arrow.head in patches:
            _arrow(arrow, places, ax, patches)
    _legend(picture, ax)
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


def _arrow(arrow: Arrow, places: dict[str, Place], ax: Any, patches: dict[str, Any]) -> None:
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
            connectionstyle="arc3,rad=0.25" if arrow.is_back else "arc3,rad=0",
            zorder=45 if arrow.is_back else 39,
        )
    )


def _legend(picture: Picture, ax: Any) -> None:
    """What the colours mean, of those that occur."""
    from matplotlib.patches import Patch

    kinds = picture.kinds()
    if kinds:
        handles = [Patch(facecolor=COLOURS[kind], edgecolor=LINES, label=LEGEND[kind]) for kind in kinds]
        ax.legend(handles=handles, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False, ncols=2)
