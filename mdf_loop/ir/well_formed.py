"""What a well-formed body is.  Every reader ends here."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mdf_loop.errors import MalformedBody, Together
from mdf_loop.ir import Body

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def check_body(body: Body, path: tuple[str, ...] = ()) -> Body:
    """Return ``body`` if it is well-formed, with its nodes in an order in which they can run.

    Every name is written once, no input is a constant, every value a node reads is an input, a constant, a capture or the output
    of another node, no node needs what it writes itself, and every output of the body is one of those values.

    Raises
    ------
    MalformedBody
        Names the node, the value and the path down to it; ``others`` are the same for what else is wrong.
    """
    known, given = set(body.captures) | set(body.constants), set()
    for name in body.inputs:
        if not name:
            raise MalformedBody("an input has no name", path)
        if name in given:
            raise MalformedBody(f"two inputs are called {name!r}", path)
        given.add(name)
    known |= given
    if clash := sorted(given & set(body.constants)):
        raise MalformedBody(f"{clash[0]!r} is an input and a constant; a value that an input has by itself is a default", path)
    if unknown := sorted(set(body.defaults) - given - set(body.captures)):
        raise MalformedBody(f"{unknown[0]!r} has a default, but is not an input, and is not captured", path)
    hidden = {state.input for state in body.state}
    if clash := sorted(hidden & known):
        raise MalformedBody(f"{clash[0]!r} is hidden state and something else as well", path)
    known |= hidden
    is_plain, together = _is_plain(body, known), Together()
    for error in () if is_plain else _wrong_with_nodes(body, known, given | hidden, path):
        together.add(error)
    for name in body.outputs:
        if name and name not in known:
            together.add(MalformedBody(f"output {name!r} is not produced by any node, input, constant or capture", path))
    together.settle()
    nodes = body.nodes
    if not is_plain:
        nodes = tuple(in_order(nodes, lambda node: node.reads, lambda node: node.outputs, title, path))
    for state in body.state:
        if state.output not in known:
            raise MalformedBody(f"hidden state {state.input!r} continues as {state.output!r}, which no node computes", path)
    for name in body.outputs:
        if not name:
            raise MalformedBody("an output has no name", path)
    return body if nodes is body.nodes else replace(body, nodes=nodes)


def _is_plain(body: Body, known: set[str]) -> bool:
    """Whether each node reads what is known by then and writes new names, which become known: then all is well with the nodes."""
    for node in body.nodes:
        if not known.issuperset(node.reads):
            return False
        for name in node.outputs:
            if name:
                if name in known:
                    return False
                known.add(name)
    return True


def _wrong_with_nodes(body: Body, known: set[str], written: set[str], path: tuple[str, ...]) -> Iterator[MalformedBody]:
    """Names that are written twice, and values that nodes read and that are not there; what they write becomes known."""
    for node in body.nodes:
        for name in filter(None, node.outputs):
            if name in written or name in body.constants:
                yield MalformedBody(f"writes {name!r}, which is already written; each name is written once", (*path, title(node)))
            written.add(name)
            known.add(name)
    for node in body.nodes:
        for name in node.reads:
            if name not in known:
                yield MalformedBody(f"reads {name!r}, which no node, input or constant provides", (*path, title(node)))


def title(node: Any) -> str:
    """What messages call a node: its name, or its operator and what it writes."""
    if node.name:
        return str(node.name)
    return f"{node.called} -> {', '.join(name for name in node.outputs if name)}"


def in_order(
    items: Sequence[Item],
    reads: Callable[[Item], Iterable[str]],
    writes: Callable[[Item], Iterable[str]],
    called: Callable[[Item], str],
    path: tuple[str, ...],
) -> Sequence[Item]:
    """Nodes in an order in which they can run: that in which they stand, as far as possible.

    Parameters
    ----------
    items : sequence
        Nodes of any kind; ``reads`` and ``writes`` give the names of a node's values, ``called`` what messages call it.

    Returns
    -------
    sequence
        The same object where nothing had to move.

    Raises
    ------
    MalformedBody
        Some of them wait for each other; names them.
    """
    if _are_in_order(items, reads, writes):
        return items
    writers = {name: k for k, item in reversed([*enumerate(items)]) for name in writes(item) if name}
    needs = [{writers[name] for name in reads(item) if name in writers} for item in items]
    order = _order(needs)
    if len(order) < len(items):
        row = [called(items[k]) for k in _cycle(needs, set(order))]
        shown = " -> ".join([*row[:8], "..."] if len(row) > 8 else [*row, row[0]])
        raise MalformedBody(f"nodes {shown} make a cycle; from one iteration to the next only carried values lead", path)
    return [items[k] for k in order]


def reached(first: Iterable[Key], following: Callable[[Key], Iterable[Key]]) -> set[Key]:
    """Things, and all that they lead to, however far."""
    todo, found = [*first], set[Key]()
    while todo:
        if (each := todo.pop()) not in found:
            found.add(each)
            todo += following(each)
    return found


def _are_in_order(items: Sequence[Item], reads: Callable[[Item], Iterable[str]], writes: Callable[[Item], Iterable[str]]) -> bool:
    """Whether no node reads what it, or one behind it, writes."""
    later: set[str] = set()
    for item in reversed(items):
        later.update(filter(None, writes(item)))
        if not later.isdisjoint(reads(item)):
            return False
    return True


def _order(needs: Sequence[set[int]]) -> list[int]:
    """Places in an order in which each stands behind those it needs, the first one first; without those in a cycle."""
    readers: list[list[int]] = [[] for _ in needs]
    for k, needed in enumerate(needs):
        for other in needed:
            readers[other].append(k)
    waits = [len(needed) for needed in needs]
    ready = [k for k, count in enumerate(waits) if not count]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for k in readers[order[-1]]:
            waits[k] -= 1
            if not waits[k]:
                heapq.heappush(ready, k)
    return order


def _cycle(needs: Sequence[set[int]], done: set[int]) -> list[int]:
    """Nodes in a circle, each before one that reads it, among those that could not be brought into an order."""
    k = next(k for k in range(len(needs)) if k not in done)
    row: dict[int, None] = {}
    while k not in row:
        row[k] = None
        k = next(other for other in sorted(needs[k]) if other not in done)
    steps = list(row)
    return steps[steps.index(k) :][::-1]
