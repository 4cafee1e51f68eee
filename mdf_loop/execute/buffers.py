"""Which values of a stepped part may live in memory that is written over, and where.

A value computed by one ufunc call can be put into a buffer.  One that goes round needs two, used in turns: the
iteration before must stay readable.  One whose history is wanted gets the iteration's row of the block's array.
A value that somebody may keep a view of (a reshaped one that goes round, say) gets fresh memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mdf_loop.execute.arrays import MDF_UFUNCS, REDUCTIONS, SPECIAL, UFUNCS
from mdf_loop.execute.kinds import ARRAY, Kind
from mdf_loop.execute.updates import SCATTERS, in_place
from mdf_loop.ir import Node

_OTHERS = (
    "Div",
    "Relu",
    "ReduceMean",
    "ReduceL2",
    "ReduceLogSumExp",
    "TopK",
    "ArgMax",
    "ArgMin",
    "Softmax",
    "Conv",
    "Pow",
    *SCATTERS,
)

FRESH = {("", op) for op in (*UFUNCS, *SPECIAL, *REDUCTIONS, *_OTHERS)} | {("mdf", op) for op in MDF_UFUNCS}
"""Operators whose result shares no memory with what they read."""


IN_PLACE = {*UFUNCS, "Div", "Relu", "Sigmoid", "Sin"}
"""Operators that may write over an operand of theirs."""


@dataclass
class Buffers:
    """Names of buffers for values: rows of the block, one of two, or one that is written over each time."""

    rows: dict[str, str] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)
    local: dict[str, str] = field(default_factory=dict)

    @property
    def targets(self) -> Mapping[str, str]:
        """All of them."""
        return {**self.local, **self.turns, **self.rows}


def assign(nodes: Sequence[Node], rounds: Mapping[str, str], recorded: Collection[str], kinds: Mapping[str, Kind]) -> Buffers:
    """Choose a buffer for each output of the nodes that can have one."""
    recorded_arrays = [name for name in recorded if name not in kinds or kinds[name].shape != ()]
    kept, buffers = kept_elsewhere(nodes, rounds, recorded_arrays), Buffers()
    for node in nodes:
        name = node.outputs[0] if node.outputs else ""
        kind = kinds.get(name)
        if not name or name in kept or kind is None or kind.form != ARRAY or kind.shape is None or int(np.prod(kind.shape)) < 2:
            continue
        if name in recorded:
            buffers.rows[name] = f"r{len(buffers.rows)}"
        elif name in rounds.values():
            buffers.turns[name] = f"y{len(buffers.turns)}"
        else:
            buffers.local[name] = f"h{len(buffers.local)}"
    _share(nodes, buffers, kinds)
    return buffers


def written_over(nodes: Sequence[Node], rounds: Mapping[str, str], recorded: Collection[str]) -> dict[str, str]:
    """Results of scatters that may be written into the value of the iteration before."""
    return in_place(nodes, rounds, {*recorded, *kept_elsewhere(nodes, rounds, recorded)}, _is_fresh)


def _share(nodes: Sequence[Node], buffers: Buffers, kinds: Mapping[str, Kind]) -> None:
    """Let an operator write over the operand that nobody else reads: less memory to go through."""
    reads = Counter(name for node in nodes for name in node.reads)
    for node in reversed(nodes):
        target = buffers.targets.get(node.outputs[0]) if node.outputs else None
        if target is None or node.op not in IN_PLACE:
            continue
        for name in node.inputs:
            if name in buffers.local and reads[name] == 1 and kinds[name] == kinds[node.outputs[0]]:
                buffers.local[name] = target
                break


def kept_elsewhere(nodes: Sequence[Node], rounds: Mapping[str, str], recorded: Collection[str]) -> set[str]:
    """Values that somebody may hold a view of when the iteration is over."""
    kept: set[str] = set()
    while True:
        before = len(kept)
        for node in reversed(nodes):
            if not _is_fresh(node) and any(_escapes(name, rounds, recorded, kept) for name in node.outputs):
                kept.update(node.reads)
        for name, output in rounds.items():
            if name in kept or name in rounds.values() or name in recorded:
                kept.add(output)
        if len(kept) == before:
            return kept


def _escapes(name: str, rounds: Mapping[str, str], recorded: Collection[str], kept: Collection[str]) -> bool:
    return name in kept or name in recorded or name in rounds.values()


def _is_fresh(node: Node) -> bool:
    return ("" if node.domain == "ai.onnx" else node.domain, node.op) in FRESH
