"""Values that go round under one name: where a value may be written straight into the variable of the next iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from mdf_loop.ir import Node
from mdf_loop.registry import operator


def renamed(
    nodes: Sequence[Node], rounds: Mapping[str, str], variables: Mapping[str, str], kept: Collection[str]
) -> dict[str, str]:
    """For values that feed the next iteration: the variable that they may be written into at once.

    Nobody may want the value of the iteration before any more: no later node, no other value that goes round,
    nor anybody after the iteration (``kept``).
    """
    writer = {name: k for k, node in enumerate(nodes) for name in node.outputs if name}
    last_read = {name: k for k, node in enumerate(nodes) for name in node.reads}
    feeds = Counter(rounds.values())

    def is_free(name: str, place: int) -> bool:
        return all(last_read.get(same, -1) <= place and same not in feeds and same not in kept for same in _same_as(name, nodes))

    return {
        output: variables[name]
        for name, output in rounds.items()
        if output in writer and feeds[output] == 1 and is_free(name, writer[output])
    }


def _same_as(name: str, nodes: Sequence[Node]) -> set[str]:
    """A value and all its other names."""
    names = {name}
    for node in nodes:
        if operator(node) == "Identity" and node.inputs[0] in names:
            names.update(node.outputs)
    return names


def read_once(nodes: Sequence[Node], kept: Collection[str], renames: Mapping[str, str]) -> set[str]:
    """Values that one node reads, once and not from inside a body of its own: they may stay expressions.

    An expression must not be carried over the place where a variable is written that it may mention.
    """
    counts = Counter(name for node in nodes for name in node.inputs if name)
    captured = {name for node in nodes for name in node.captures}
    aliases = {node.inputs[0] for node in nodes if operator(node) == "Identity"}
    single = {name for name, count in counts.items() if count == 1} - captured - aliases - set(kept)
    writer = {name: k for k, node in enumerate(nodes) for name in node.outputs if name}
    reader = {name: k for k, node in enumerate(nodes) for name in node.inputs if name in single}
    places = [writer[name] for name in renames]
    return {name for name in single if not any(writer.get(name, -1) < place < reader[name] for place in places)}
