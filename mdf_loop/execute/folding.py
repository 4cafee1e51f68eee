"""What is hoisted out of a loop and depends on constants alone, known before the loop runs: exporters write shapes that way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.calls import Calls
from mdf_loop.ir import Node

LARGEST = 1 << 12
"""Elements of a value up to which it is kept for programs."""


def folded(nodes: Sequence[Node], constants: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
    """Constants, and what nodes make of them; where one fails, the run will say what is wrong."""
    found = dict(constants)
    for node in nodes if not calls.exact else ():
        bound, entry, _ = calls(node)
        if bound.needs_run or node.captures or not (entry.pure and entry.built_in) or not _are_known(node, found):
            continue
        try:
            with np.errstate(all="ignore"):
                result = bound.call(*[found[name] if name else None for name in node.inputs])
        except Exception:
            continue
        results = result if type(result) is tuple else (result,)
        found.update((name, x) for name, x in zip(node.outputs, results, strict=False) if name and _is_small(x))
    return found


def _are_known(node: Node, found: Mapping[str, Any]) -> bool:
    return all(name in found and _is_small(found[name]) for name in node.reads)


def _is_small(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype != object and value.size <= LARGEST
