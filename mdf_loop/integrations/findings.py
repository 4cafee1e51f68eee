"""What a look at a model has found: its kind, what is said, and the names that lead to it."""

from __future__ import annotations

from typing import NamedTuple

ERROR, WARNING, NOTE = "error", "warning", "note"


class Finding(NamedTuple):
    """Something that is wrong, or cannot be looked at; ``names`` are those of a graph, a node, and what is in it."""

    kind: str
    message: str
    names: tuple[str, ...]
