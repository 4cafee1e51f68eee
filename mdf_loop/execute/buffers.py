"""Which values of a stepped part may live in memory that is written over, and where.

A value computed by one ufunc call can be put into a buffer.  One that goes round is written over itself if nobody reads
the one before any more; else it needs two, used in turns.  One whose history is wanted gets the iteration's row of the
block's array.  A value that somebody may keep a view of (a reshaped one that goes round, say) gets fresh memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mdf_loop.execute import reductions
from mdf_loop.execute.arrays import MDF_UFUNCS, SPECIAL, UFUNCS
from mdf_loop.execute.kinds import ARRAY, Kind
from mdf_loop.execute.updates import SCATTERS, is_scatter, last_look, successors, views_of
from mdf_loop.ir import Node
from mdf_loop.registry import known_as, operator

_OTHERS = (
    "Div",
    "Relu",
    "ReduceL2",
    "ReduceLogSumExp",
    "LogSoftmax",
    "TopK",
    "ArgMax",
    "ArgMin",
    "Softmax",
    "Conv",
    "Pow",
    *SCATTERS,
)

FRESH = {("", op) for op in (*UFUNCS, *SPECIAL, *reductions.UFUNCS, *_OTHERS)} | {("mdf", op) for op in MDF_UFUNCS}
"""Operators whose result shares no memory with what they read, but for those of ``_is_fresh``."""


IN_PLACE = {*UFUNCS, "Div", "Relu", "Sigmoid", "Sin"}
"""Operators that may write over an operand of theirs."""


@dataclass
class Buffers:
    """Names of buffers for values: rows of the block, that of the iteration before, one of two, or one of the iteration's."""

    rows: dict[str, str] = field(default_factory=dict)
    over: dict[str, str] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)
    local: dict[str, str] = field(default_factory=dict)

    @property
    def targets(self) -> Mapping[str, str]:
        """All of them."""
        return {**self.local, **self.turns, **self.over, **self.rows}


def assign(nodes: Sequence[Node], rounds: Mapping[str, str], recorded: Collection[str], kinds: Mapping[str, Kind]) -> Buffers:
    """Choose a buffer for each output of the nodes that can have one."""
    recorded_arrays = {name for name in recorded if name not in kinds or kinds[name].shape != ()}
    copied = {name: node.inputs[0] for node in nodes if operator(node) == "Identity" for name in node.outputs}
    rows = recorded_arrays | {copied[name] for name in recorded_arrays if name in copied}
    kept, buffers = kept_elsewhere(nodes, rounds, recorded_arrays), Buffers()
    free = successors(nodes, rounds, {*kept, *recorded}, _is_fresh)
    variables = {name: f"x{k}" for k, name in enumerate(rounds)}
    before = {variable: name for name, variable in variables.items()}
    for node in nodes:
        name = node.outputs[0] if node.outputs else ""
        kind = kinds.get(name)
        if (
            not name
            or (name in kept and name not in rows)
            or kind is None
            or kind.form != ARRAY
            or kind.shape is None
            or int(np.prod(kind.shape)) < 2
        ):
            continue
        if name in rows:
            buffers.rows[name] = f"r{len(buffers.rows)}"
        elif name in free and kinds.get(free[name]) == kind and _writes_over(node, free[name], nodes):
            buffers.over[name] = variables[free[name]]
        elif name in rounds.values():
            buffers.turns[name] = f"y{len(buffers.turns)}"
        else:
            buffers.local[name] = f"h{len(buffers.local)}"
    _share(nodes, buffers, kinds, before)
    return buffers


def _writes_over(node: Node, before: str, nodes: Sequence[Node]) -> bool:
    """Whether a node's result may be written into the memory of a value that it may read itself.

    One that looks at the value in another way, turned over for instance, would read elements that it wrote already.
    """
    if is_scatter(node):
        return node.inputs[0] == before
    looked_at = views_of(before, nodes, _is_fresh).intersection(node.reads)
    return not looked_at or (looked_at == {before} and operator(node) in IN_PLACE)


def _share(nodes: Sequence[Node], buffers: Buffers, kinds: Mapping[str, Kind], before: Mapping[str, str]) -> None:
    """Let an operator write over the operand that nobody reads after it: less memory to go through.

    ``before`` says what is in a buffer at first; nothing is written there before it was last read.
    """
    places = {name: place for place, node in enumerate(nodes) for name in node.outputs if name}
    for place, node in reversed(list(enumerate(nodes))):
        output = node.outputs[0] if node.outputs else ""
        target = buffers.targets.get(output)
        if target is None or operator(node) not in IN_PLACE:
            continue
        for name in node.inputs:
            if name not in buffers.local or last_look(name, nodes, _is_fresh) != place or kinds[name] != kinds[output]:
                continue
            first, writer = before.get(target, ""), nodes[places[name]]
            if not first or (last_look(first, nodes, _is_fresh) <= places[name] and _writes_over(writer, first, nodes)):
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
    if node.op == "Cast" or (node.op in ("Max", "Min") and len(node.inputs) == 1):
        return False  # what has that type, or is alone, is given back as it is
    return known_as(node) in FRESH
