"""What is wrong with the bodies of the loops of a model, and with what a node hands to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.calls.control_flow import condition, trip_count
from mdf_loop.calls.prepared import named_in, prepare_branch, prepare_loop, prepare_scan, read_once
from mdf_loop.checks.findings import ERROR, NOTE, WARNING, Finding, Gap
from mdf_loop.convert.locating import names_in_equations, place_of_reading
from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.execute.interpret import Arguments
from mdf_loop.ir import Body
from mdf_loop.options import start_run
from mdf_loop.readers.arguments import by_stems
from mdf_loop.readers.expressions.equation_texts import Equations, equations_in, is_equations, names_of, within
from mdf_loop.readers.expressions.equations import TAU, reads_tau
from mdf_loop.readers.expressions.expression_text import as_name, tree_of, variables
from mdf_loop.readers.mdf.by_place import NO_VALUES, NamedResults, equations_of, signature_of
from mdf_loop.readers.mdf.file_structure import called
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.names import not_in_node
from mdf_loop.readers.mdf.stepped_loops import is_stepped
from mdf_loop.readers.mdf.typed import is_typed
from mdf_loop.types.required import contradictions

KINDS = ("", "parameters", "functions")
"""Where bodies and loops are in a node; the node itself as well."""


def wrong_with_bodies(graph: Any, node: Any, thing: Any, gaps: Sequence[Gap]) -> Iterator[Finding]:
    """What is wrong with the bodies of a loop: they are read and planned, and what they capture has to be there.

    Parameters
    ----------
    thing : modeci_mdf.mdf.Function or Parameter
        The loop.
    gaps : sequence of Gap
        What was left out of its node.  Then it is not known what the node has, and only what a body says itself is looked at.
    """
    args, held = {**(thing.args or {})}, {parameter.id: parameter.value for parameter in node.parameters}
    known = {port.id for port in node.input_ports} | set(held) | {function.id for function in node.functions} | set(args)
    kind = signature_of(thing.function, args)[1]
    for key in ("then_branch", "else_branch") if kind == "branch" else ("body",):
        source = args.get(key, key)
        name = source if isinstance(source, str) else key
        is_there, source = (source in held, held.get(source)) if isinstance(source, str) else (True, source)
        place = (str(graph.id), node.id, name)
        if any(gap.kind in KINDS and gap.thing in ("", name, thing.id) for gap in gaps):
            where = (*place[:2], thing.id)
            yield Finding(NOTE, f"{'/'.join(where)}: its body is checked when the errors around it are corrected", where)
        elif not is_there and not gaps:
            continue  # reported with the other names that are not there
        elif not isinstance(source, dict):
            where = place if is_there and name != key else (*place[:2], thing.id)
            got = f"got {called(source)}" if is_there else f"the node has no parameter {name!r}"
            forms = "{carried: ...}, {onnx: text}, {onnx_file: name} or {graph_<id>: ...}"
            yield Finding(ERROR, f"{'/'.join(where)}: a body is a mapping, {forms}; {got}", where)
        else:
            body, found = _read(source, thing, place)
            yield from found
            if body is not None and not gaps:
                yield from _of_results(graph, node, thing, len(body.outputs) - (kind == "loop"))
                yield from _of_captures(body, source, known, place, thing.id)
                yield from _of_tau(within(source, known), place)
                yield from _of_late_lets(source, place)
                yield from _of_end(graph, node, thing, body) if kind == "loop" else ()
                yield from () if kind == "branch" or is_typed(graph) else _of_order(body, thing, source, (*place[:2], thing.id))


def _read(source: Any, thing: Any, place: tuple[str, ...]) -> tuple[Body | None, list[Finding]]:
    """A body, and what is wrong with what it says itself; None where it cannot be read."""
    args = {**(thing.args or {})}
    try:
        body = read_once(source, *signature_of(thing.function, args))
        if not is_equations(source) or signature_of(thing.function, args)[0] == len(body.inputs) - 2:  # args are compared by name
            _prepare(body, thing.function, args)
    except LoopError as error:
        return None, [
            Finding(ERROR, f"{'/'.join(place)}: {_said(each)}", (*place, *_line_names(each))) for each in (error, *error.others)
        ]
    return body, [
        Finding(
            WARNING, f"{'/'.join(place)}: {value!r} is {declared} by one declaration or operator and {other} by another", place
        )
        for value, declared, other in _contradictions(body, thing.function, args)
    ]


def _said(error: LoopError) -> str:
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def _of_order(body: Body, thing: Any, source: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    """Initial values whose names are no values of the body, so that their order counts."""
    names = body.inputs[0 if thing.function == "onnx::Scan" else 2 :]
    keys = [as_name(key) for key, value in (thing.args or {}).items() if key not in NO_VALUES]
    taken = {key: name for key, name in zip(keys, names, strict=False) if key != name}
    if len(names) != len(keys) or len(keys) == 1 or not taken:
        return
    pairs = ", ".join(f"{key} for {name}" for key, name in taken.items())
    said = f"{'/'.join(place)}: args have other names than the values of the body, so their order counts: {pairs}"
    folded = {name.lower() for name in names}
    crossed = [key for key, name in taken.items() if key in names or (key.lower() != name.lower() and key.lower() in folded)]
    if crossed:
        yield Finding(WARNING, f"{said}; the body has {crossed[0]!r} in another place", place)
    elif is_equations(source) and len(taken) == len(keys) and not by_stems(names, keys, "/".join(place)):
        yield Finding(NOTE, f"{said}; write args: {{{', '.join(f'{name}: ...' for name in names)}}}", place)


def _of_captures(body: Body, source: Any, known: set[str], place: tuple[str, ...], loop: str) -> Iterator[Finding]:
    for captured in body.captures:
        if captured == loop:
            said = (
                f"the body reads {loop!r}, the loop itself, whose results are not there inside of it; write names of its values"
            )
            yield Finding(ERROR, f"{'/'.join(place)}: {said}", (*place, *map(str, place_of_reading(source, captured))))
        if captured not in known and captured not in body.defaults:
            said = not_in_node(captured, [*known, *names_of(source), *named_in(body)], source)
            yield Finding(ERROR, f"{'/'.join(place)}: {said}", (*place, *map(str, place_of_reading(source, captured))))


def _of_tau(source: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    """A time constant that is 2 pi, since the node has no value of that name."""
    if is_equations(source) and reads_tau(equations_in(source)):
        yield Finding(WARNING, f"{'/'.join(place)}: {TAU}", place)


def _of_late_lets(source: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    """A condition that compares a new carried value with what was computed from the ones before."""
    said = equations_in(source) if is_equations(source) else Equations()
    reads = {name: {*variables(tree_of(text))} for name, text in {**said.let, "while": said.going or "0"}.items()}
    late = {name for name in said.let if not reads[name].isdisjoint(said.carried)}
    while more := {name for name in said.let if name not in late and not reads[name].isdisjoint(late)}:
        late |= more
    late &= reads["while"]
    if late and not reads["while"].isdisjoint(said.carried):
        names = " and ".join(map(repr, sorted(late)))
        said_of = f"while has the carried values after the step, and {names} of let from those before it"
        message = f"{'/'.join(place)}: {said_of}; if both belong to one time, write the formula in while"
        yield Finding(NOTE, message, (*place, "while"))


def _of_results(graph: Any, node: Any, thing: Any, results: int) -> Iterator[Finding]:
    """Ports that take a result of a loop which it does not have, or an element of its only one as if there were several."""
    place, are_counted = (str(graph.id), node.id), is_typed(graph)  # converted ones are written ``run[0]``, also a single one
    for port in node.output_ports:
        taken = re.fullmatch(rf"\s*{re.escape(thing.id)}\s*\[\s*(\d+)\s*\]\s*", str(port.value), re.ASCII)
        where = "/".join((*place, port.id))
        if taken and results == 1 and taken[1] == "0" and not are_counted:
            said = f"{where}: {thing.id} has one result, which it is itself; {port.value} is an element"
            yield Finding(WARNING, said, (*place, port.id))
        elif taken and 1 < results <= int(taken[1]):
            yield Finding(
                ERROR, f"{where}: {port.value} is not there; {thing.id} has {results} results, from 0 on", (*place, port.id)
            )


def counted_results(graph: Any) -> Iterator[Finding]:
    """Ports that take one of several results of equations by its place, which is another one when the file is sorted.

    ``graph`` is as it is written: names are places once it is loaded.
    """
    for node in graph.nodes:
        for thing in (*node.parameters, *node.functions):
            if (said := equations_of(node, thing)) is not None:
                yield from _of_places(said, node, thing, (str(graph.id), node.id))


def _of_places(said: Equations, node: Any, thing: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    results = NamedResults((*said.carried, *said.collected), len(said.carried), said.let)
    for port in node.output_ports:
        taken = re.fullmatch(rf"\s*{re.escape(thing.id)}\s*\[\s*(\d+)\s*\]\s*", str(port.value), re.ASCII)
        if taken is None or int(taken[1]) >= len(results.names):
            continue
        count, name = int(taken[1]), results.names[int(taken[1])]
        part = said.carried if count < results.n_carried else said.collected
        if len(part) > 1 and port.id != name and not results.contradicts(port.id, count):
            message = f"{port.value} is {name!r} in this order, and another result in another order; write {thing.id}.{name}"
            yield Finding(WARNING, f"{'/'.join((*place, port.id))}: {message}", (*place, port.id))


def values_of(graph: Any, node: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ports and parameters of a node that no edge brings and nothing computes: those given, or of the model."""
    fed = {edge.receiver_port for edge in graph.edges if edge.receiver == node.id}
    values = {port.id: default_value_of(port) for port in node.input_ports if port.id not in fed}
    values |= {each.id: each.value for each in node.parameters if each.function is None}
    values |= {name: given.get(f"{node.id}.{name}", given.get(name, value)) for name, value in values.items()}
    return {name: value for name, value in values.items() if value is not None}


def _of_end(graph: Any, node: Any, thing: Any, body: Body) -> Iterator[Finding]:
    """A loop that nothing ends, with the values that the model says; one that runs in steps may be one."""
    if is_stepped(node, thing):
        return
    known = values_of(graph, node, {})
    args = {key: known.get(value, value) if isinstance(value, str) else value for key, value in (thing.args or {}).items()}
    count, go = (None if args.get(key) == "" else args.get(key) for key in ("M", "cond"))
    if any(isinstance(value, str) for value in (count, go)):
        return
    carried = [_number(value) for key, value in args.items() if key not in NO_VALUES]
    try:
        prepared = prepare_loop(body, len(carried))
        goes = True if go is None and prepared.record.obeys else condition(go)
        given = Arguments(trip_count(count), goes, carried, captured=[_number(known.get(name)) for name in body.captures])
    except (LoopError, ValueError, TypeError):
        return  # reported with the values
    try:
        prepared.endless.refuse(given, start_run())
    except ArgumentError as error:
        place = (str(graph.id), node.id, thing.id)
        yield Finding(ERROR, f"{'/'.join(place)}: {error}", place)


def _number(value: Any) -> Any:
    """A value that the model says; None for what is computed."""
    return np.asarray(value) if isinstance(value, bool | int | float | np.ndarray) else None


def _contradictions(body: Any, function: str, args: Any) -> list[tuple[str, np.dtype, np.dtype]]:
    """Element types that do not go together; only bodies of ONNX have any."""
    if not body.typed:
        return []
    n_carried, kind = signature_of(function, args)
    first = {"loop": 2, "scan": 0, "branch": 0}[kind]
    pairs = zip(body.inputs[first : first + n_carried], body.outputs[first // 2 :], strict=False)
    return contradictions(body, pairs)


def _line_names(error: LoopError) -> tuple[str, ...]:
    """The names on the way to an error inside a body."""
    path = getattr(error, "path", ()) or str(error).partition(": ")[0].split("/")
    return names_in_equations(error) or tuple(name for name in path if " " not in name and name != "equations")


def _prepare(body: Any, function: str, args: Any) -> None:
    n_carried, kind = signature_of(function, args)
    if kind == "loop":
        prepare_loop(body, n_carried)
    elif kind == "scan":
        prepare_scan(body, len(body.inputs) - n_carried, {})
    else:
        prepare_branch(body, "a branch")
