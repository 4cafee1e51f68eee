"""Bodies with more outputs: what is recorded becomes a further collected value, so every engine that runs loops runs it.

A value is named by the way to it: the names of the loops that it is inside of, then its own.  A loop is called by the
name of its node or by one of its outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mdf_loop.errors import ArgumentError
from mdf_loop.ir import Body, Collected, Loop, Node, State
from mdf_loop.models.model import unknown_name

Way = tuple[str, ...]

LOOPS = {("", "Loop"), ("", "Scan"), ("record", "RecordedLoop")}


def ways_in(body: Body, before: Way = ()) -> Iterator[Way]:
    """The ways to all values of a body that can be recorded."""
    for name in values_of(body):
        yield (*before, name)
    for node in body.nodes:
        if (node.domain, node.op) in LOOPS:
            yield from ways_in(_body(node), (*before, called(node)))


def values_of(body: Body) -> list[str]:
    """The values that a body has in each iteration."""
    made = [name for node in body.nodes for name in node.outputs if name]
    states = [state.input for state in body.state]
    return list(dict.fromkeys((*body.inputs, *states, *made, *body.constants, *body.captures)))


def called(node: Node) -> str:
    """What a loop inside a body is called: the name of its node, or its first output."""
    return node.name or next(filter(None, node.outputs), node.op)


def with_outputs(body: Body, ways: Sequence[Way], where: str) -> tuple[Body, list[str]]:
    """A body in which each of some values can be taken as an output, and the names they have in it.

    Raises
    ------
    ArgumentError
        There is no such value; names those that are close.
    """
    names: list[str] = []
    for way in ways:
        if len(way) == 1:
            if way[0] not in values_of(body):
                raise unknown_name(f"{where} has no value", way[0], _listed(body))
            names.append(way[0])
        else:
            body, name = _with_inner(body, way, where)
            names.append(name)
    return body, names


def _with_inner(body: Body, way: Way, where: str) -> tuple[Body, str]:
    """The same for a value inside a loop of the body."""
    place = next((k for k, node in enumerate(body.nodes) if _is_called(node, way[0])), None)
    if place is None:
        raise unknown_name(f"{where} has no value", ".".join(way), _listed(body))
    node = body.nodes[place]
    inner, (name,) = with_outputs(_body(node), [way[1:]], f"{where}, loop {way[0]!r}")
    taken = set(values_of(body))
    out = next(text for k in range(len(taken) + 2) if (text := f"{'.'.join(way)}{'~' * k}") not in taken)
    nodes = (*body.nodes[:place], _with_output(node, inner, name, out), *body.nodes[place + 1 :])
    return replace(body, nodes=nodes), out


def _with_output(node: Node, inner: Body, name: str, out: str) -> Node:
    """A loop that collects one value more, as its last output."""
    if node.domain == "record":
        record: Loop = node.attrs["record"]
        record = replace(record, body=inner, collected=(*record.collected, Collected(name)))
        given = len(record.carried) + len(record.last) + len(record.collected) - 1
        return replace(node, attrs={"record": record, "body": inner}, outputs=(*_padded(node.outputs, given), out))
    inner = replace(inner, outputs=(*inner.outputs, name))
    attrs = {**node.attrs, "body": inner}
    for key in ("scan_output_axes", "scan_output_directions"):
        if attrs.get(key):
            attrs[key] = (*attrs[key], 0)
    given = len(inner.outputs) - (2 if node.op == "Loop" else 1)
    return replace(node, attrs=attrs, outputs=(*_padded(node.outputs, given), out))


def _padded(names: Sequence[str], length: int) -> tuple[str, ...]:
    return (*names, *[""] * (length - len(names)))


def _body(node: Node) -> Body:
    return node.attrs["record"].body if node.domain == "record" else node.attrs["body"]


def _is_called(node: Node, name: str) -> bool:
    return (node.domain, node.op) in LOOPS and (node.name == name or name in node.outputs)


def _listed(body: Body) -> list[str]:
    return [".".join(way) for way in ways_in(body)]


def recorded_loop(loop: Loop, ways: Sequence[Way]) -> tuple[Loop, list[str], list[str]]:
    """A loop that collects some values more, and the names that they have in its body.

    Those of its own body are its last collected ones.  A value inside a loop inside it may differ in length from
    iteration to iteration, so it is put into a sequence that goes round hidden, and is one of the last values.

    Returns
    -------
    loop : Loop
    flat, nested : list of str
        The values that are collected, and the inputs of the sequences, each in the order of ``ways``.
    """
    where = f"the loop {loop.name or loop.body.name!r}"
    body, names = with_outputs(loop.body, ways, where)
    flat = [name for name, way in zip(names, ways, strict=True) if len(way) == 1]
    nested = [name for name, way in zip(names, ways, strict=True) if len(way) > 1]
    body = _with_sequences(body, nested)
    collected = (*loop.collected, *map(Collected, flat))
    return replace(loop, body=body, collected=collected, last=(*loop.last, *(f"{name} so far" for name in nested))), flat, nested


def _with_sequences(body: Body, names: Iterable[str]) -> Body:
    nodes, states = list[Node](), list[State]()
    for name in names:
        before, after = f"{name} before", f"{name} so far"
        nodes.append(Node("SequenceInsert", (before, name), (after,), name=after, opset=max(body.opsets.get("", 0), 18)))
        states.append(State(before, after, []))
    return replace(body, nodes=(*body.nodes, *nodes), state=(*body.state, *states))


def refuse_branches(body: Body, way: Way) -> None:
    """Say of a value in a branch of an If that it is not there in each iteration.

    Raises
    ------
    ArgumentError
    """
    for node in body.nodes:
        if (node.domain, node.op) == ("", "If"):
            for _, branch in node.bodies:
                if way[0] in values_of(branch):
                    raise ArgumentError(
                        f"{way[0]!r} is inside a branch of {called(node)}, which need not run; record what the branch gives: "
                        f"{', '.join(filter(None, node.outputs))}"
                    )


def names_by_way(names: Mapping[str, Way]) -> list[tuple[str, Way]]:
    """What is recorded: values of the loop's own body first, as they stand among the results of a recorded loop."""
    return [pair for pair in names.items() if len(pair[1]) > 1] + [pair for pair in names.items() if len(pair[1]) == 1]
