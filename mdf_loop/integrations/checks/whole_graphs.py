"""What is wrong with a graph of a model, besides its structure."""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.integrations.checks.exported import unread_things
from mdf_loop.integrations.checks.findings import ERROR, NOTE, WARNING, Finding, Salvaged
from mdf_loop.integrations.checks.loop_bodies import wrong_with_bodies
from mdf_loop.integrations.checks.node_values import wrong_with_conditions, wrong_with_texts, wrong_with_values
from mdf_loop.integrations.typed_graph import graph_signature
from mdf_loop.readers.expressions.derivatives import STEP
from mdf_loop.readers.expressions.equation_texts import DERIVATIVES
from mdf_loop.readers.mdf.by_place import node_by_place
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.names import unknown_names
from mdf_loop.readers.mdf.node import CONTROL
from mdf_loop.readers.mdf.typed import is_typed


def wrong_with_graph(graph: Any, rest: Salvaged, is_repaired: bool) -> Iterator[Finding]:
    """What is wrong with a graph.

    Parameters
    ----------
    graph : modeci_mdf.mdf.Graph
    rest : Salvaged
        What was left out of the model: what may follow from that is not reported.
    is_repaired : bool
        Whether the model was read as models are; otherwise only bodies are looked at.
    """
    id, said = str(graph.id), _conditions(graph)
    graph, unnamed = _by_place(graph)
    open_nodes = {node.id for node in graph.nodes if rest.in_node(id, node.id)} | {found.names[1] for found in unnamed}
    unknown = [*unknown_names(graph)] if is_repaired else []
    for node in graph.nodes:
        bodies = [
            each
            for thing in (*node.functions, *node.parameters)
            if thing.function in CONTROL
            for each in wrong_with_bodies(graph, node, thing, rest.in_node(id, node.id))
        ]
        yield from bodies
        said_before = {each.message for each in bodies}
        yield from (each for each in unnamed if each.names[1] == node.id and each.message not in said_before)
        if node.id in open_nodes:
            message = "its names and types are checked when the errors in it are corrected"
            yield Finding(NOTE, f"{id}/{node.id}: {message}", (id, node.id))
        elif is_repaired:
            yield from wrong_with_values(graph, node)
            texts = [*wrong_with_texts(graph, node)]
            are_broken = any(each.kind == ERROR for each in bodies) or any(each.place[1] == node.id for each in unknown)
            yield from _causes(texts, node, are_broken)
            yield from _unread(graph, node, said) if not rest.in_graph(id) else ()
    if not is_repaired:
        return
    yield from _of_signature(graph)
    yield from (Finding(ERROR, str(each), each.place) for each in unknown if each.place[1] not in open_nodes)
    broken = ["/".join(map(str, gap.place)) for gap in rest.in_graph(id)]  # a condition of which something was left out
    yield from (each for each in wrong_with_conditions(graph) if not any("/".join(each.names[1:]) in place for place in broken))
    if rest.in_graph(id):
        yield Finding(NOTE, f"{id}: which nodes are reached is checked when the errors in the graph are corrected", (id,))
    else:
        yield from _unreached(graph)


def _causes(texts: list[Finding], node: Any, are_broken: bool) -> Iterator[Finding]:
    """What is wrong with texts, without results by name (``run.x``) of a loop that cannot be read: those only follow."""
    calls = [re.escape(thing.id) for thing in (*node.parameters, *node.functions) if thing.function is not None]
    by_name = re.compile(rf"\b({'|'.join(calls) or '$.'})\s*\.")
    names = {port.id for port in node.output_ports if by_name.search(str(port.value))}
    follow = [each for each in texts if each.names[-1] in names]
    yield from (each for each in texts if each not in follow or (len(follow) == len(texts) and not are_broken))


def _by_place(graph: Any) -> tuple[Any, list[Finding]]:
    """A graph whose loops match values by place, and which names they do not have."""
    nodes, found = [], []
    for node in graph.nodes:
        place = (str(graph.id), node.id)
        try:
            nodes.append(node_by_place(node, read_once, place[:1]))
        except LoopError as error:
            nodes.append(node)
            found.append(Finding(ERROR, str(error), (*place, *_things_in(error, place))))
    graph = copy.copy(graph)
    graph.nodes = nodes
    return graph, found


def _things_in(error: LoopError, place: tuple[str, ...]) -> tuple[str, ...]:
    """The parameter, function or port of a node that an error is about."""
    said = str(error).removeprefix(f"{'/'.join(place)}/")
    return (said.partition(":")[0],) if said != str(error) else ()


def _of_signature(graph: Any) -> Iterator[Finding]:
    """Inputs and outputs of a converted graph that are none of its ports."""
    if not is_typed(graph):
        return
    try:
        graph_signature(graph)
    except MalformedBody as error:
        yield Finding(ERROR, str(error), (str(graph.id),))


def _unread(graph: Any, node: Any, said: set[str]) -> Iterator[Finding]:
    """Parameters and functions that nothing in a node reads, nor a condition (``said`` are the names in those)."""
    things = (*node.functions, *node.parameters)
    words = [(thing, {name for part in _texts(thing) for name in _words(part)}) for thing in (*things, *node.output_ports)]
    known_by_name = {"body", "then_branch", "else_branch", *(port.id for port in node.output_ports)}
    unread = list[str]()
    for thing in things:
        others = {name for other, names in words if other is not thing for name in names}
        if thing.id not in others | said | known_by_name:
            unread.append(thing.id)
    place = (str(graph.id), node.id)
    yield from unread_things(node, unread, place)


def _conditions(graph: Any) -> set[str]:
    """Every word in the conditions of a graph."""
    todo, words = [graph.conditions], set[str]()
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            words |= _words(value)
        elif isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            todo += value
        elif (value is not None and hasattr(value, "__dict__")) or hasattr(value, "__slots__"):
            todo += [getattr(value, name, None) for name in ("node_specific", "termination", "kwargs")]
    return words


def _texts(thing: Any) -> Iterator[Any]:
    for attribute in ("value", "default_initial_value", "time_derivative", "args"):
        value = getattr(thing, attribute, None)
        if not isinstance(value, dict):
            yield value
            continue
        lets = value.get("let")
        own = {*(lets if isinstance(lets, dict) else ()), *([STEP] if STEP in value else ())}
        yield _words(value) - own  # a let hides what the node calls so
        if DERIVATIVES in value and STEP not in value:
            yield STEP  # which a body of derivatives reads without saying it
    for condition in getattr(thing, "conditions", None) or ():
        is_dict = isinstance(condition, dict)  # as MDF's engine reads them as well
        yield from (condition.get(key) if is_dict else getattr(condition, key) for key in ("test", "value"))


def _words(value: Any) -> set[str]:
    """Every name in a value and what is inside it."""
    return set(re.findall(r"[^\W\d]\w*", str(value)))


def _unreached(graph: Any) -> Iterator[Finding]:
    """Nodes that no other is joined to, in a graph whose other nodes are."""
    joined = {end for edge in graph.edges for end in (edge.sender, edge.receiver)}
    for node in graph.nodes:
        if joined and node.id not in joined:
            yield Finding(WARNING, f"{graph.id}/{node.id}: no edge leads to this node or away from it", (str(graph.id), node.id))
    yield from _starved(graph)


def _starved(graph: Any) -> Iterator[Finding]:
    """Nodes that nothing reaches: they wait for each other."""
    following: dict[str, list[str]] = {}
    for edge in graph.edges:
        following.setdefault(edge.sender, []).append(edge.receiver)
    receivers = {edge.receiver for edge in graph.edges}
    todo = deque(
        node.id
        for node in graph.nodes
        if node.id not in receivers or any(default_value_of(p) is not None for p in node.input_ports)
    )
    reached = set(todo)
    while todo:
        for receiver in following.get(todo.popleft(), ()):
            if receiver not in reached:
                reached.add(receiver)
                todo.append(receiver)
    for node in graph.nodes:
        if node.id not in reached:
            said = f"{graph.id}/{node.id}: it waits for a node that waits for it, and neither has a first value"
            yield Finding(ERROR, said, (str(graph.id), node.id))
