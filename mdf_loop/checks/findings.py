"""What a check finds, and what of a model file it can look at although something else in it is wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mdf_loop.readers.mdf.file_structure import Misplaced, Place, wrong_with_model

ERROR, WARNING, NOTE = "error", "warning", "note"


class Finding(NamedTuple):
    """Something that is wrong, or cannot be looked at; ``names`` are those of a graph, a node, and what is in it."""

    kind: str
    message: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Gap:
    """Something that was left out of a model, as it is wrong.

    Attributes
    ----------
    graph, node, kind, thing : str
        Where: a graph, a node in it, what of that (``"parameters"``), and which; empty from where on it is the whole.
    place : tuple
        The keys that lead to it.
    """

    graph: str
    node: str
    kind: str
    thing: str
    place: Place


@dataclass(frozen=True)
class Salvaged:
    """A model without what is wrong with its structure."""

    content: Any
    gaps: Sequence[Gap] = ()

    def in_graph(self, graph: str) -> list[Gap]:
        """What is missing among the edges and conditions of a graph, or from all its nodes."""
        return [gap for gap in self.gaps if gap.graph in ("", graph) and not (gap.node and gap.kind)]

    def in_node(self, graph: str, node: str) -> list[Gap]:
        """What is missing in a node."""
        return [gap for gap in self.gaps if (gap.graph, gap.node) == (graph, node)]


def salvaged(content: Any, wrong: Sequence[Misplaced]) -> Salvaged | None:
    """A copy of a model in which misspelt keys are what was meant, and what is wrong otherwise is left out.

    None where nothing is left.
    """
    content, gaps = copy.deepcopy(content), list[Gap]()
    while wrong:
        for error in _from_the_inside(wrong):
            if not error.place or not _put_right(content, error):
                return None
            if not error.meant:
                gaps.append(_gap(error.place, "id" in content))
        wrong = [*wrong_with_model(content)]
    return Salvaged(content, gaps)


def _from_the_inside(wrong: Iterable[Misplaced]) -> list[Misplaced]:
    """In an order in which no place is changed by what is done at one before; of several errors in one place the first."""
    first = {error.place: error for error in reversed([*wrong])}.values()
    return sorted(
        first, key=lambda error: [len(error.place), *(k if isinstance(k, int) else 0 for k in error.place)], reverse=True
    )


def _put_right(content: Any, error: Misplaced) -> bool:
    """Rename the key to what was meant, or take the thing away; False where it cannot be found."""
    *outer, last = error.place
    try:
        for key in outer:
            content = content[key]
        value = content.pop(last)
    except (KeyError, IndexError, TypeError):
        return False
    if error.meant:
        content[error.meant] = value
    return True


def _gap(place: Place, has_id: bool) -> Gap:
    _, graph, part, node, kind, thing, *_ = (*map(str, place if has_id else place[1:]), *[""] * 6)
    return Gap(graph, node, kind, thing, place) if part == "nodes" else Gap(graph, "", "", "", place)
