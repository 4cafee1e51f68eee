"""What is wrong with a model file, found without running it: everything at once, with lines and suggestions."""

from __future__ import annotations

import copy
import difflib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.calls.prepared import prepare_branch, prepare_loop, prepare_scan, read_once
from mdf_loop.convert.file_text import line_of, parse
from mdf_loop.convert.files import load
from mdf_loop.convert.locating import line_in_text, line_of_error, line_of_names
from mdf_loop.convert.weights import SUFFIXES
from mdf_loop.errors import LoopError
from mdf_loop.integrations.mdf import signature_of
from mdf_loop.readers.mdf.names import unknown_names
from mdf_loop.readers.mdf.node import CONTROL
from mdf_loop.readers.mdf.structure import Misplaced, check_model
from mdf_loop.readers.opening import read_bytes
from mdf_loop.types.required import contradictions

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Problem:
    """Something that is wrong.

    Attributes
    ----------
    kind : {"error", "warning"}
        Whether the model cannot run, or probably does something else than was meant.
    message : str
    line : int or None
        Where in the file.
    """

    kind: str
    message: str
    line: int | None = None


def check(path: Path) -> list[Problem]:
    """Look at a model file without running it.

    Parameters
    ----------
    path : Path
        A model file.  Of an MDF file the keys, names, functions, bodies, and declared types are looked at, and which nodes
        nothing reads; of others whether they can be read.

    Returns
    -------
    list of Problem
        In the order of the file; empty if nothing is wrong.
    """
    if path.suffix.lower() not in SUFFIXES:
        return _readable(path)
    try:
        text = read_bytes(path, "a model").decode("utf-8-sig")
        content = parse(text, path.suffix.lower())
    except (LoopError, ValueError) as error:
        found = re.search(r"line (\d+)", str(error))
        return [Problem(ERROR, str(error), int(found.group(1)) if found else None)]
    problems = [Problem(ERROR, str(error), line_of(text, path.suffix.lower(), error.place)) for error in _structural(content)]
    if not problems:
        problems = _readable(path)
    if not problems:
        problems = [
            Problem(kind, said, line_in_text(path, said) or line_of_names(path, names))
            for kind, said, names in _of_model(load(path), path)
        ]
    return sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 0)


MOST = 100
"""How many keys that are wrong are told."""


def _structural(content: Any) -> list[Misplaced]:
    """Everything that is wrong with the keys of a model: an unknown one is left out, and the rest looked at again."""
    found: list[Misplaced] = []
    content = copy.deepcopy(content)
    while len(found) < MOST:
        try:
            check_model(content)
            break
        except Misplaced as error:
            found.append(error)
            if not (error.place and " has no " in str(error) and _leave_out(content, error.place)):
                break  # what follows may follow from it
    return found


def _leave_out(content: Any, place: tuple[Any, ...]) -> bool:
    for key in place[:-1]:
        content = content[key]
    return isinstance(content, dict) and content.pop(place[-1], None) is not None


def _readable(path: Path) -> list[Problem]:
    try:
        load(path)
    except LoopError as error:
        return [Problem(ERROR, str(error), line_of_error(path, error))]
    return []


Found = tuple[str, str, tuple[str, ...]]
"""What kind of problem, what it is, and the names that lead to it."""


def _of_model(model: Any, path: Path) -> Iterator[Found]:
    for graph in model.graphs:
        said = _conditions(graph)
        for unknown in unknown_names(graph):
            yield ERROR, str(unknown), unknown.place[:3]
        for node in graph.nodes:
            for thing in (*node.functions, *node.parameters):
                if thing.function in CONTROL:
                    yield from _of_body(graph, node, thing)
            yield from _of_types(graph, node)
            yield from _unread(graph, node, said)
        yield from _unreached(graph)


def _of_body(graph: Any, node: Any, thing: Any) -> Iterator[Found]:
    """What is wrong with the bodies of a loop: they are read and planned, and what they capture has to be there."""
    args = {**(thing.args or {})}
    held = {parameter.id: parameter.value for parameter in node.parameters}
    place = (str(graph.id), node.id, thing.id)
    kind = signature_of(thing.function, args)[1]
    known = {port.id for port in node.input_ports} | set(held) | {function.id for function in node.functions} | set(args)
    for key in ("then_branch", "else_branch") if kind == "branch" else ("body",):
        source = args.get(key, key)
        name = source if isinstance(source, str) else key
        source = held.get(source) if isinstance(source, str) else source
        if not isinstance(source, dict):
            yield ERROR, f"{'/'.join(place)}: {key} is no body: {{onnx: text}}, {{carried: ...}} or {{graph_<id>: ...}}", place
            continue
        try:
            body = read_once(source, *signature_of(thing.function, args))
            _prepare(body, thing.function, args)
        except LoopError as error:
            yield ERROR, f"{'/'.join((*place[:2], name))}: {error}", (*place[:2], name, *_line_names(error))
            continue
        for value, declared, other in _contradictions(body, thing.function, args):
            said = (
                f"{'/'.join((*place[:2], name))}: {value!r} is {declared} by one declaration or operator and {other} by another"
            )
            yield WARNING, said, (*place[:2], name)
        yield from _of_results(node, thing, len(body.outputs) - (kind == "loop"), place[:2])
        for captured in body.captures:
            if captured not in known:
                close = difflib.get_close_matches(captured, known, 1)
                meant = f"; did you mean {close[0]!r}?" if close else ""
                said = f"{'/'.join((*place[:2], name))}: the body reads {captured!r}, which the node does not have{meant}"
                yield ERROR, said, (*place[:2], name)


def _of_results(node: Any, thing: Any, results: int, place: tuple[str, ...]) -> Iterator[Found]:
    """Ports that take a result of a loop which it does not have, or an element of its only one as if there were several."""
    for port in node.output_ports:
        taken = re.fullmatch(rf"\s*{re.escape(thing.id)}\s*\[\s*(\d+)\s*\]\s*", str(port.value), re.ASCII)
        where = "/".join((*place, port.id))
        if taken and results == 1 and taken[1] == "0":
            said = f"{where}: {thing.id} has one result, which it is itself; {port.value} is an element"
            yield WARNING, said, (*place, port.id)
        elif taken and 1 < results <= int(taken[1]):
            yield ERROR, f"{where}: {port.value} is not there; {thing.id} has {results} results, from 0 on", (*place, port.id)


def _contradictions(body: Any, function: str, args: Any) -> list[tuple[str, np.dtype, np.dtype]]:
    """Element types that do not go together; only bodies of ONNX have any."""
    if not body.typed:
        return []
    n_carried, kind = signature_of(function, args)
    first = {"loop": 2, "scan": 0, "branch": 0}[kind]
    pairs = zip(body.inputs[first : first + n_carried], body.outputs[first // 2 :], strict=False)
    return contradictions(body, pairs)


def _line_names(error: LoopError) -> tuple[str, ...]:
    """The names on the way to an error inside a body of equations."""
    path = getattr(error, "path", ()) or str(error).partition(": ")[0].split("/")
    return tuple(name for name in path if " " not in name and name != "equations")


def _prepare(body: Any, function: str, args: Any) -> None:
    n_carried, kind = signature_of(function, args)
    if kind == "loop":
        prepare_loop(body, n_carried)
    elif kind == "scan":
        prepare_scan(body, len(body.inputs) - n_carried, {})
    else:
        prepare_branch(body, "a branch")


def _of_types(graph: Any, node: Any) -> Iterator[Found]:
    """Values that are not what their ports declare."""
    for port in node.input_ports:
        if port.default_value is None or isinstance(port.default_value, str | dict):
            continue
        value, place = np.asarray(port.default_value), (str(graph.id), node.id, port.id)
        shape = tuple(port.shape or ())
        if shape and all(isinstance(n, int) for n in shape) and value.shape != shape:
            said = f"{'/'.join(place)}: its default has shape {list(value.shape)}, declared is {list(shape)}"
            yield ERROR, said, place
        if port.type and not _fits(value, port.type):
            yield ERROR, f"{'/'.join(place)}: its default is {value.dtype}, declared is {port.type}", place


def _fits(value: np.ndarray, declared: str) -> bool:
    """Whether a number of a file can be of a declared type; what numpy does not know says nothing."""
    try:
        dtype = np.dtype(declared)
    except TypeError:
        return True
    return np.can_cast(value.dtype, dtype, "same_kind")


def _unread(graph: Any, node: Any, said: set[str]) -> Iterator[Found]:
    """Parameters and functions that nothing in a node reads, nor a condition (``said`` are the names in those)."""
    things = (*node.functions, *node.parameters)
    words = [(thing, {name for part in _texts(thing) for name in _words(part)}) for thing in (*things, *node.output_ports)]
    known_by_name = {"body", "then_branch", "else_branch", *(port.id for port in node.output_ports)}
    for thing in things:
        others = {name for other, names in words if other is not thing for name in names}
        if thing.id not in others | said | known_by_name:
            place = (str(graph.id), node.id, thing.id)
            yield WARNING, f"{'/'.join(place)}: nothing reads it", place


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
        yield getattr(thing, attribute, None)
    for condition in getattr(thing, "conditions", None) or ():
        yield from (condition.test, condition.value)


def _words(value: Any) -> set[str]:
    """Every name in a value and what is inside it."""
    return set(re.findall(r"[A-Za-z_]\w*", str(value)))


def _unreached(graph: Any) -> Iterator[Found]:
    """Nodes that no other is joined to, in a graph whose other nodes are."""
    joined = {end for edge in graph.edges for end in (edge.sender, edge.receiver)}
    for node in graph.nodes:
        if joined and node.id not in joined:
            yield WARNING, f"{graph.id}/{node.id}: no edge leads to this node or away from it", (str(graph.id), node.id)
    yield from _starved(graph)


def _starved(graph: Any) -> Iterator[Found]:
    """Nodes that nothing reaches: they wait for each other."""
    following: dict[str, list[str]] = {}
    for edge in graph.edges:
        following.setdefault(edge.sender, []).append(edge.receiver)
    receivers = {edge.receiver for edge in graph.edges}
    todo = deque(
        node.id for node in graph.nodes if node.id not in receivers or any(p.default_value is not None for p in node.input_ports)
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
            yield ERROR, said, (str(graph.id), node.id)
