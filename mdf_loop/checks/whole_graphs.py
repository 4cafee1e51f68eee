"""What is wrong with a graph of a model, besides its structure."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from modeci_mdf.functions.standard import mdf_functions

from mdf_loop.calls.prepared import read_once
from mdf_loop.checks.findings import ERROR, NOTE, WARNING, Finding, Salvaged
from mdf_loop.checks.loop_bodies import wrong_with_bodies
from mdf_loop.convert.loading import UNUSABLE_SHAPE
from mdf_loop.convert.scheduled.run_order import left_open, refuse_without_end
from mdf_loop.errors import LoopError, MalformedBody, NeverEnds, did_you_mean
from mdf_loop.functions.psyneulink_losses import LOST_PARAMETERS, losses, mechanism_of
from mdf_loop.integrations.graph_conditions import wrong_conditions
from mdf_loop.integrations.input_warnings import powers_in, wrong_default
from mdf_loop.integrations.no_eval import TEXTS
from mdf_loop.integrations.typed_graph import graph_signature
from mdf_loop.integrations.unread import OF_STATE, overlooked, unread_in, words_of_conditions
from mdf_loop.kernels import load_kernels
from mdf_loop.readers.expressions.equation_texts import names_of
from mdf_loop.readers.expressions.expression_text import excerpt, number_in, refuse_decimal_comma
from mdf_loop.readers.mdf.by_place import node_by_place
from mdf_loop.readers.mdf.engine_body import reached_from, refused_texts
from mdf_loop.readers.mdf.input_ports import default_value_of, ports_of_many
from mdf_loop.readers.mdf.names import needed_arguments, unknown_names
from mdf_loop.readers.mdf.node import CONTROL, names_read
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
    id, said = str(graph.id), words_of_conditions(graph)
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
            message = "correct the errors in it first; then check looks at its names and types"
            yield Finding(NOTE, f"{id}/{node.id}: {message}", (id, node.id))
        elif is_repaired:
            yield from wrong_with_values(graph, node)
            texts = [*wrong_with_texts(graph, node)]
            are_broken = any(each.kind == ERROR for each in bodies) or any(each.place[1] == node.id for each in unknown)
            yield from _causes(texts, node, are_broken)
            taken = {name for each in (*node.functions, *node.parameters) for name in _taken(each.function)}
            yield from unread_things(node, unread_in(node, said | taken), (id, node.id)) if not rest.in_graph(id) else ()
    if not is_repaired:
        return
    yield from _of_signature(graph)
    yield from (Finding(ERROR, str(each), each.place) for each in unknown if not rest.in_node(id, each.place[1]))
    broken = ["/".join(map(str, gap.place)) for gap in rest.in_graph(id)]  # a condition of which something was left out
    yield from (each for each in wrong_with_conditions(graph) if not any("/".join(each.names[1:4]) in place for place in broken))
    if rest.in_graph(id):
        yield Finding(NOTE, f"{id}: which nodes are reached is checked when the errors in the graph are corrected", (id,))
    else:
        yield from _unreached(graph)
        yield from _of_edges(graph)
        yield from (Finding(WARNING, said, place) for place, said in overlooked(graph) if place[1] not in open_nodes)


def _of_edges(graph: Any) -> Iterator[Finding]:
    """Edges of which MDF leaves open what they bring, or that say something at which it does not look; what an export lost."""
    id = str(graph.id)
    with contextlib.suppress(LoopError):  # which is said elsewhere
        for edge, said in left_open(graph):
            yield Finding(WARNING, f"{id}: {said}", (id, edge.receiver, edge.receiver_port))
    for place, said in ports_of_many(graph):
        yield Finding(WARNING, f"{id}: {said}", (id, *place))
    for names, said in losses(graph):
        yield Finding(WARNING, f"{'/'.join((id, *names))}: {said}", (id, *names))


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


def _taken(function: Any) -> Sequence[str]:
    """What a function takes, by its name where it is not given."""
    return needed_arguments(function, mdf_functions) if function in mdf_functions else ()


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


def _unreached(graph: Any) -> Iterator[Finding]:
    """Nodes that no other is joined to, in a graph whose other nodes are."""
    joined = {end for edge in graph.edges for end in (edge.sender, edge.receiver)}
    for node in graph.nodes:
        if joined and node.id not in joined:
            yield Finding(WARNING, f"{graph.id}/{node.id}: no edge leads to this node or away from it", (str(graph.id), node.id))
    yield from _starved(graph)


def _starved(graph: Any) -> Iterator[Finding]:
    """Nodes that nothing reaches: they wait for each other."""
    receivers = {edge.receiver for edge in graph.edges}
    begun = [n.id for n in graph.nodes if n.id not in receivers or any(default_value_of(p) is not None for p in n.input_ports)]
    reached = reached_from(graph, begun)
    for node in graph.nodes:
        if node.id not in reached:
            said = f"{graph.id}/{node.id}: it waits for a node that waits for it, and neither has a first value"
            yield Finding(ERROR, said, (str(graph.id), node.id))


def wrong_with_values(graph: Any, node: Any) -> Iterator[Finding]:
    """Defaults and values that are not what their ports declare, or no numbers."""
    for port in node.input_ports:
        place = (str(graph.id), node.id, port.id)
        if (shape := (port.metadata or {}).get(UNUSABLE_SHAPE)) is not None and not is_typed(graph):
            said = f"its shape is {shape!r}, at which nothing looks; a shape is a list of whole numbers, such as [3, 2]"
            yield Finding(WARNING, f"{'/'.join(place)}: {said}", place)
        if default_value_of(port) is not None and not isinstance(default_value_of(port), dict):
            yield from (Finding(kind, f"{'/'.join(place)}: {said}", place) for kind, said in _of_default(port))
            if said := wrong_default(port.id, port):
                yield Finding(ERROR if is_typed(graph) else WARNING, f"{graph.id}/{node.id}: {said}", place)
    yield from _of_powers(graph, node)
    for parameter in node.parameters:
        place = (str(graph.id), node.id, parameter.id)
        for value in (parameter.value, parameter.default_initial_value):
            if isinstance(value, list) and (said := _of_list(value)):
                yield Finding(ERROR, f"{'/'.join(place)}: {said}", place)
        if parameter.default_initial_value is None and parameter.id in names_read(parameter.value) and not mechanism_of(node):
            said = "its value reads itself, and begins at 0, as in MDF's engine"
            yield Finding(NOTE, f"{'/'.join(place)}: {said}; write default_initial_value: ..., which may be 0", place)
        yield from _of_trip_count(parameter, node, place)
        yield from _of_units(parameter, node, place)
        try:
            refuse_decimal_comma(parameter.value, place)
        except MalformedBody as error:
            yield Finding(ERROR, str(error), place)
    for port in node.output_ports:
        if port.value is None:
            place = (str(graph.id), node.id, port.id)
            yield Finding(WARNING, f"{'/'.join(place)}: it has no value, so it is not an output; write value: ...", place)


def _of_default(port: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with the default of a port: its kind, its shape, its type."""
    default, declared = default_value_of(port), port.type or ""
    if isinstance(default, str):
        if number_in(default) is None and declared.lower() not in TEXTS:
            wanted = f"declared is {declared}" if declared else "if it is meant as a text, declare type: string"
            yield (ERROR if declared else WARNING), f"its default is the text {excerpt(default)}, not a number; {wanted}"
        return
    if isinstance(default, list) and (said := _of_list(default)):
        yield ERROR, said
        return
    value = np.asarray(default)
    if declared and not _fits(value, declared):
        yield ERROR, f"its default is {value.dtype}, declared is {declared}"


def _of_list(value: list[Any]) -> str:
    """What is wrong with a list that is meant as an array; empty if nothing is."""
    try:
        np.array(value)
    except ValueError:
        return "its rows differ in length; an array has rows of one length"
    return ""


def _fits(value: np.ndarray, declared: str) -> bool:
    """Whether a number of a file can be of a declared type; what numpy does not know says nothing."""
    try:
        dtype = np.dtype(declared)
    except TypeError:
        return True
    return np.can_cast(value.dtype, dtype, "same_kind")


def _of_powers(graph: Any, node: Any) -> Iterator[Finding]:
    for name, said in powers_in(node):
        yield Finding(WARNING, f"{graph.id}/{node.id}/{name}: {said}", (str(graph.id), node.id, name))


def _of_units(parameter: Any, node: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    """Units that the parameter of a body says of a name that neither the body nor the node has."""
    units, names = (parameter.metadata or {}).get("units"), names_of(parameter.value)
    known = [*names, *(part.id for part in (*node.parameters, *node.input_ports, *node.output_ports))]
    for name in units if names and isinstance(units, dict) else ():
        if name not in known:
            said = f"its units are those of {name!r}, which the body does not have{did_you_mean(name, known)}"
            yield Finding(WARNING, f"{'/'.join(place)}: {said}", place)


def _of_trip_count(parameter: Any, node: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    """A trip count that is written down and is no whole number."""
    if parameter.function != "onnx::Loop":
        return
    count = (parameter.args or {}).get("M")
    held = {other.id: other.value for other in node.parameters if other.function is None}
    count = held.get(count, count) if isinstance(count, str) else count
    if isinstance(count, str) and number_in(count) is not None:
        count = number_in(count)
    is_list = isinstance(count, list) and [*map(type, count)] != [int]
    if is_list or isinstance(count, bool | float):
        meant = f"; write {int(count)}" if isinstance(count, float) and count.is_integer() else ""
        yield Finding(ERROR, f"{'/'.join(place)}: the trip count M is a whole number; got {count!r}{meant}", place)


def wrong_with_texts(graph: Any, node: Any) -> Iterator[Finding]:
    """Expressions that are refused when the model runs."""
    load_kernels()
    for name, error in refused_texts(graph, node):
        yield Finding(ERROR, str(error), (str(graph.id), node.id, name))


def wrong_with_conditions(graph: Any) -> Iterator[Finding]:
    """Conditions that graph-scheduler does not have, or that are given what they do not take."""
    wrong = [*wrong_conditions(graph)]
    for error in wrong:
        yield Finding(ERROR, str(error), error.path)
    try:
        if not wrong:
            refuse_without_end(graph)
    except NeverEnds as error:
        yield Finding(ERROR, str(error), error.path)
    except LoopError:
        return  # what a run says of it


def unread_things(node: Any, unread: Mapping[str, str], place: tuple[str, ...]) -> Iterator[Finding]:
    """What to report of the parameters and functions of a node that nothing reads.

    Parameters
    ----------
    node : modeci_mdf.mdf.Node
    unread : mapping of str to str
        Their names, with what to report of each.
    place : tuple of str
        The graph and the node.
    """
    known = OF_STATE | LOST_PARAMETERS if mechanism_of(node) else ()
    for name, said in unread.items():
        if name not in known:
            yield Finding(WARNING, f"{'/'.join((*place, name))}: {said}", (*place, name))
