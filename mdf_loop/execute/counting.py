"""Counters inside an emitted function: ``t = Add (t, Cast (flags))`` where nobody reads t before the loop ends.

The flags are added up as bytes, an eighth of the memory that they take as int64, and go to the counter before a byte could
run over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.registry import operator

MOST = 255
"""What a byte can count."""


def counters(nodes: Sequence[Node], rounds: Mapping[str, str], held: Collection[str]) -> dict[str, list[Node]]:
    """For flags that a Cast makes whole numbers of: the sums that count them, if nobody needs the numbers themselves.

    ``held`` are values that are wanted besides those that nodes read.  A ReduceMax over all axes, which asks whether there
    is any flag, does not need them either.
    """
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(node)
    fed = {output: name for name, output in rounds.items()}

    def counts(node: Node, flags: str) -> bool:
        total = fed.get(node.outputs[0], "")
        is_sum = operator(node) == "Add" and not node.attrs and set(node.inputs) == {total, flags}
        return is_sum and len(readers.get(total, ())) == 1 and node.outputs[0] not in readers and node.outputs[0] not in held

    found = {}
    for node in nodes:
        flags = node.outputs[0] if node.outputs else ""
        if operator(node) != "Cast" or flags in held or flags in fed:
            continue
        sums = [reader for reader in readers.get(flags, ()) if counts(reader, flags)]
        others = [reader for reader in readers.get(flags, ()) if reader not in sums]
        if sums and all(map(_is_largest_of_all, others)):
            found[flags] = sums
    return found


def _is_largest_of_all(node: Node) -> bool:
    return (
        operator(node) == "ReduceMax"
        and len(node.inputs) == 1
        and not node.attrs.get("axes")
        and not node.attrs.get("keepdims", 1)
    )


def count_up(total: np.ndarray, counted: np.ndarray) -> int:
    """Put what was counted to the total, and begin again; how many times flags can be added until the next time."""
    np.add(total, counted, out=total, casting="unsafe")
    counted[...] = 0
    return MOST
