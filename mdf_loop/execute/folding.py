"""What is hoisted out of a loop and depends on constants alone, known before the loop runs: exporters write shapes that way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mdf_loop.execute.calls import Calls
from mdf_loop.ir import Node
from mdf_loop.step.constants import of_constants

LARGEST = 1 << 12
"""Elements up to which what an operator makes of constants is kept for programs."""


def folded(nodes: Sequence[Node], constants: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
    """Constants, and what nodes make of them."""
    found = dict(constants)
    for node in nodes if not calls.exact else ():
        if all(name in found for name in node.reads):
            bound, entry, _ = calls(node)
            given = [found[name] if name else None for name in node.inputs]
            found.update(zip(node.outputs, of_constants(node, bound, entry, given, LARGEST) or (), strict=False))
    return found
