"""Where things stand in a picture: boxes in rows, each below what leads to it, and clusters around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mdf_loop.pictures.boxes import Box, Cluster, Picture

LETTER, LINE, PADDING = 0.075, 0.135, 0.09
"""Inches: a letter of text, a line of it, and what is left free inside a box."""

GAP, MARGIN, TITLE = 0.28, 0.14, 0.2
"""Inches: between boxes, inside a cluster, and for its title."""

WIDEST = 9.0
"""Inches of a row: one that is wider is several rows, as a page shows no wider picture without making it smaller."""


@dataclass(frozen=True)
class Spot:
    """The rectangle of a box or cluster: its left upper corner and its size, in inches, downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """The point in its middle."""
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """Left, upper, right and lower edge."""
        return self.x, self.y, self.x + self.width, self.y + self.height


def laid_out(picture: Picture) -> dict[str, Spot]:
    """A place for each box and cluster, by its key."""
    arrows = [(arrow.tail, arrow.head) for arrow in picture.arrows if not arrow.is_back]
    rows: dict[str, list[list[Box | Cluster]]] = {}
    sizes: dict[str, tuple[float, float]] = {}
    _measure(picture.top, arrows, rows, sizes)
    places: dict[str, Spot] = {}
    _put(picture.top, 0.0, 0.0, rows, sizes, places)
    return places


def _measure(
    cluster: Cluster,
    arrows: list[tuple[str, str]],
    rows: dict[str, list[list[Box | Cluster]]],
    sizes: dict[str, tuple[float, float]],
) -> None:
    """The rows of a cluster and of those in it, and the sizes of everything."""
    for inner in cluster.clusters:
        _measure(inner, arrows, rows, sizes)
    for box in cluster.boxes:
        sizes[box.key] = max(map(len, box.lines)) * LETTER + 2 * PADDING, len(box.lines) * LINE + 2 * PADDING
    rows_of_depths = _rows([*cluster.boxes, *cluster.clusters], arrows)
    found = rows[cluster.key] = [part for row in rows_of_depths for part in _wrapped(row, sizes)]
    across = [_across(row, sizes) for row in found]
    down = [max(sizes[item.key][1] for item in row) for row in found]
    width = max([*across, len(cluster.title) * LETTER]) + 2 * MARGIN
    sizes[cluster.key] = width, sum(down) + GAP * max(len(down) - 1, 0) + 2 * MARGIN + TITLE


def _across(row: Iterable[Box | Cluster], sizes: Mapping[str, tuple[float, float]]) -> float:
    widths = [sizes[item.key][0] for item in row]
    return sum(widths) + GAP * (len(widths) - 1)


def _wrapped(row: list[Box | Cluster], sizes: Mapping[str, tuple[float, float]]) -> list[list[Box | Cluster]]:
    """A row, or several that are about as wide as each other if it is too wide."""
    whole = _across(row, sizes) + GAP
    parts = -(-whole // WIDEST)
    found, right = [list[Box | Cluster]()], 0.0
    for item in row:
        width = sizes[item.key][0] + GAP
        if found[-1] and right + width / 2 > whole / parts * len(found):
            found.append([])
        found[-1].append(item)
        right += width
    return found


def _rows(items: list[Box | Cluster], arrows: list[tuple[str, str]]) -> list[list[Box | Cluster]]:
    """Items in rows, each below those that lead to it; in a row they stand in the order of those."""
    holder = {key: item.key for item in items for key in _keys(item)}
    lifted = {(holder[tail], holder[head]) for tail, head in arrows if tail in holder and head in holder}
    before: dict[str, list[str]] = {item.key: [] for item in items}
    for tail, head in sorted(lifted):
        if tail != head:
            before[head].append(tail)
    depth: dict[str, int] = {}
    for key in before:
        _depth(key, before, depth, set())
    found: list[list[Box | Cluster]] = []
    place: dict[str, float] = {}
    for level in sorted(set(depth.values())):
        row = [item for item in items if depth[item.key] == level]
        row.sort(key=lambda item: _mean([place[key] for key in before[item.key] if key in place]))
        place.update({item.key: k / len(row) for k, item in enumerate(row)})
        found.append(row)
    return found


def _keys(item: Box | Cluster) -> set[str]:
    """The keys of an item and of all that is inside."""
    return {item.key} if isinstance(item, Box) else {item.key, *(box.key for box in item.all_boxes())}


def _depth(key: str, before: Mapping[str, list[str]], depth: dict[str, int], seen: set[str]) -> int:
    """The row of an item; what leads back to itself counts for nothing."""
    todo = [key]
    while todo:
        at = todo[-1]
        waiting = [other for other in before[at] if other not in depth and other not in seen]
        if waiting and at not in depth:
            seen.add(at)
            todo.append(waiting[0])
            continue
        depth.setdefault(at, 1 + max((depth[other] for other in before[at] if other in depth), default=-1))
        todo.pop()
    return depth[key]


def _mean(places: list[float]) -> float:
    return sum(places) / len(places) if places else 0.5


def _put(
    cluster: Cluster,
    x: float,
    y: float,
    rows: Mapping[str, list[list[Box | Cluster]]],
    sizes: Mapping[str, tuple[float, float]],
    places: dict[str, Spot],
) -> None:
    """Give a cluster and all that is inside their places; rows stand in its middle."""
    width, height = sizes[cluster.key]
    places[cluster.key] = Spot(x, y, width, height)
    down = y + MARGIN + TITLE
    for row in rows[cluster.key]:
        right = x + (width - _across(row, sizes)) / 2
        for item in row:
            if isinstance(item, Cluster):
                _put(item, right, down, rows, sizes, places)
            else:
                places[item.key] = Spot(right, down, *sizes[item.key])
            right += sizes[item.key][0] + GAP
        down += max(sizes[item.key][1] for item in row) + GAP
