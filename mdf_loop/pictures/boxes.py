"""What is drawn: boxes, boxes around them, and arrows.  No writer knows what a model is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mdf_loop.calls.explain import COLOURS as WAYS_COLOURS

INPUT, OUTPUT, CONDITION, PLAIN, VALUES = "input", "output", "condition", "plain", "values"
"""What a box may be besides the ways in which a plan runs a node (:data:`mdf_loop.calls.explain.WAYS`)."""

COLOURS = {
    **WAYS_COLOURS,
    INPUT: "#ffffff",
    OUTPUT: "#ffffff",
    CONDITION: "#fff3b0",
    PLAIN: "#f4f4f4",
    VALUES: "#ffffff",
}
"""A light colour for each kind of box; the text on it is dark, in a dark notebook too."""

LEGEND = {
    "alias": "alias: a second name for a value",
    "hoisted": "hoisted: runs once",
    "batched": "batched: many iterations at once",
    "recurrent": "recurrent: at once although each needs the one before",
    "stepped": "stepped: compiled, one iteration after the other",
    "interpreted": "interpreted: node by node",
}


@dataclass(frozen=True)
class Box:
    """A node, a value that goes in or out, or a condition.

    Attributes
    ----------
    key : str
        What arrows call it; unique in the picture.
    lines : tuple of str
        Its text.
    kind : str
        One of the keys of :data:`COLOURS`.
    tip : str
        What there is to say besides.
    """

    key: str
    lines: tuple[str, ...]
    kind: str = PLAIN
    tip: str = ""


@dataclass
class Cluster:
    """A box around others: a graph, a node of MDF that holds a loop, or a body."""

    key: str
    title: str
    boxes: list[Box] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)

    def all_boxes(self) -> Iterator[Box]:
        """Every box in it, at any depth."""
        yield from self.boxes
        for inner in self.clusters:
            yield from inner.all_boxes()

    def all_clusters(self) -> Iterator[Cluster]:
        """It and every cluster in it, at any depth."""
        yield self
        for inner in self.clusters:
            yield from inner.all_clusters()


@dataclass(frozen=True)
class Arrow:
    """From one box to another; ``is_back`` for what the next iteration gets."""

    tail: str
    head: str
    label: str = ""
    is_back: bool = False


@dataclass
class Picture:
    """A model as it is drawn."""

    top: Cluster
    arrows: list[Arrow] = field(default_factory=list)

    def kinds(self) -> list[str]:
        """The ways of running that occur in it, in the order of the legend."""
        found = {box.kind for box in self.top.all_boxes()}
        return [kind for kind in LEGEND if kind in found]
