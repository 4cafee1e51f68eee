"""Models as pictures: the nodes and edges of an MDF graph, with the loops in its nodes drawn inside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.models.explaining import condition_text, node_lines, short
from mdf_loop.pictures.boxes import CONDITION, INPUT, OUTPUT, VALUES, Cluster, Picture
from mdf_loop.pictures.of_bodies import BodyDrawer
from mdf_loop.pictures.of_equations import EquationDrawer, broken, equations_of, iteration_of, names_in, names_read
from mdf_loop.readers.expressions.equation_texts import NUMBERS, Equations, texts_of
from mdf_loop.readers.expressions.equations import EQUATIONS
from mdf_loop.readers.mdf.by_place import NO_VALUES, named_results, node_by_name, signature_of
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.node import CONTROL
from mdf_loop.readers.mdf.stepped_loops import stepped_loop
from mdf_loop.readers.onnx.loop_records import as_loop

MOST_GROUPS = 8
"""Boxes of parameters side by side."""


def picture_of_graph(graph: Any, of_operators: bool = False) -> Picture:
    """An MDF graph: its equations, or the operators that they become."""
    picture = Picture(Cluster("top", str(graph.id)))
    drawer = BodyDrawer(picture, of_operators)
    senders: dict[tuple[str, str], str] = {}
    receivers: dict[tuple[str, str], str] = {}
    for node in graph.nodes:
        _node(drawer, node, picture.top, _when(graph, node.id), senders, receivers)
    for what, condition in (getattr(graph.conditions, "termination", None) or {}).items():
        drawer.box(picture.top, f"{what.replace('_', ' ')} ends", *broken(f"when {condition_text(condition)}"), kind=CONDITION)
    for edge in graph.edges:
        tail, head = senders.get((edge.sender, edge.sender_port)), receivers.get((edge.receiver, edge.receiver_port))
        if head:
            drawer.arrow(tail, head, edge.sender_port)
    return picture


def picture_of_equations(said: Equations) -> Picture:
    """The equations of a loop by themselves."""
    picture = Picture(Cluster("top", EQUATIONS))
    drawer = BodyDrawer(picture)
    each = drawer.cluster(picture.top, iteration_of(said))
    known = {*said.names, *said.let, said.index}
    captured = [name for name in dict.fromkeys(names_in(said)) if name not in known and name not in NUMBERS]
    scope = {name: drawer.box(picture.top, name, "captured", kind=INPUT) for name in (*captured, *said.captured)}
    names = (*said.carried, *said.collected)
    for name, tail in zip(names, EquationDrawer(drawer, each, said).loop(scope, {}), strict=True):
        drawer.arrow(tail, drawer.box(picture.top, name, "last" if name in said.carried else "of all iterations", kind=OUTPUT))
    return picture


def picture_of_body(body: Body) -> Picture:
    """A graph of operators: an ONNX or OpenVINO model."""
    picture = Picture(Cluster("top", body.name))
    drawer = BodyDrawer(picture)
    scope = drawer.graph(body, picture.top, {})
    for name in body.outputs:
        if scope.get(name) or not body.nodes:  # a constant has no box that leads to it
            drawer.arrow(scope.get(name), drawer.box(picture.top, name, kind=OUTPUT))
    return picture


def picture_of_loop(loop: Loop) -> Picture:
    """A loop by itself."""
    picture = Picture(Cluster("top", loop.name or "Loop"))
    outputs = [c.output for c in loop.carried] + [*loop.last] + [c.output for c in loop.collected]
    BodyDrawer(picture).loop(loop, picture.top, {}, {}, tuple(outputs))
    return picture


def _node(
    drawer: BodyDrawer,
    node: Any,
    top: Cluster,
    when: str,
    senders: dict[tuple[str, str], str],
    receivers: dict[tuple[str, str], str],
) -> None:
    """A node of MDF: one box, or a cluster around the loops in it."""
    node = node_by_name(node)
    loops = [thing for thing in (*node.functions, *node.parameters) if thing.function in CONTROL]
    if not loops:
        said = _functions(node) if drawer.of_operators else [part for line in node_lines(node) for part in broken(line)]
        key = drawer.box(top, node.id, *said, *broken(when), tip=", ".join(f"{p.id}: {p.value}" for p in node.output_ports))
        senders |= {(node.id, port.id): key for port in node.output_ports}
        receivers |= {(node.id, port.id): key for port in node.input_ports}
        return
    how = "; ".join(filter(None, (when, _in_each_pass(node))))
    around = drawer.cluster(top, f"{node.id} ({how})" if how else node.id)
    scope = {port.id: drawer.box(around, port.id, _default(port), kind=INPUT, tip=port.type or "") for port in node.input_ports}
    receivers |= {(node.id, name): key for name, key in scope.items()}
    held = {parameter.id: parameter for parameter in node.parameters if parameter not in loops}
    drawer.numbers |= {name: held[name].value for name in held if isinstance(held[name].value, int)}
    values = {name: short(parameter.value) for name, parameter in held.items() if not isinstance(parameter.value, dict)}
    known = {*scope, *values, *(thing.id for thing in loops)}
    computed = {name: text for name, text in values.items() if (known - {name}).intersection(re.findall(r"\w+", text))}
    scope |= _parameters(drawer, {name: text for name, text in values.items() if name not in computed}, around, node, loops, held)
    scope |= {name: drawer.box(around, name, *broken(f"= {text}"), tip=text) for name, text in computed.items()}
    names, found = named_results(node), dict[str, dict[str, str]]()
    for thing in loops:
        found[thing.id] = _control(drawer, thing, around, scope, held, names.get(thing.id, ()))
    results = {name: tail for outputs in found.values() for name, tail in outputs.items()}
    for name, text in computed.items():
        _arrows(drawer, text, {key: tail for key, tail in scope.items() if key != name}, results, scope[name])
    whole = {id: next(iter(outputs.values())) for id, outputs in found.items() if outputs} | results
    for port in node.output_ports:
        senders[node.id, port.id] = _port(drawer, port, around, scope, whole, results)


def _in_each_pass(node: Any) -> str:
    """How many iterations of its stepped loop a node runs in a pass."""
    try:
        steps = stepped_loop(node)
    except MalformedBody:  # running the model raises it
        return ""
    return "" if steps is None else f"iterations of {steps.id} in each pass: {steps.iterations}"


def _parameters(
    drawer: BodyDrawer, values: Mapping[str, str], around: Cluster, node: Any, loops: Sequence[Any], held: Mapping[str, Any]
) -> dict[str, str]:
    """Boxes of parameters that are numbers, arrays or texts."""
    if drawer.of_operators or any(equations_of(_source((thing.args or {}).get("body"), held)) is None for thing in loops):
        return {name: drawer.box(around, name, *broken(text), kind=INPUT) for name, text in values.items()}
    scope: dict[str, str] = {}
    for group in _read_together(values, node, loops, held):
        lines = [line for name in group for line in broken(f"{name} = {values[name]}")]
        scope |= dict.fromkeys(group, drawer.box(around, *lines, kind=VALUES))
    return scope


def _read_together(names: Iterable[str], node: Any, loops: Sequence[Any], held: Mapping[str, Any]) -> list[list[str]]:
    """Parameters in groups that the same equations read; all of them are one group if there are too many groups."""
    texts = [str(port.value) for port in node.output_ports]
    for thing in loops:
        said = equations_of(_source((thing.args or {}).get("body"), held))
        texts += [str(value) for name, value in (thing.args or {}).items() if name != "body"]
        texts += [text for _, _, text in texts_of(said)] if said else []
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        groups.setdefault(tuple(k for k, text in enumerate(texts) if word.search(text)), []).append(name)
    found = [*groups.values()]
    return found if len(found) <= MOST_GROUPS else [[name for group in found for name in group]]


def _default(port: Any) -> str:
    value = default_value_of(port)
    return "" if value is None else f"default {short(value)}"


def _port(
    drawer: BodyDrawer, port: Any, around: Cluster, scope: Mapping[str, str], whole: Mapping[str, str], results: Mapping[str, str]
) -> str:
    """An output port: the output of a loop, or a parameter, under its name; or a box for an expression."""
    text = str(port.value)
    if (tail := whole.get(text) or scope.get(text)) is not None:
        drawer.arrow(tail, key := drawer.box(around, port.id, kind=OUTPUT))
        return key
    key = drawer.box(around, port.id, *broken(f"= {text}"), kind=OUTPUT)
    _arrows(drawer, text, scope, results, key)
    return key


def _arrows(drawer: BodyDrawer, text: str, scope: Mapping[str, str], results: Mapping[str, str], key: str) -> None:
    """An arrow from each value that an expression reads."""
    known = [*results.items(), *scope.items()]
    for tail in dict.fromkeys(tail for name, tail in known if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)):
        drawer.arrow(tail, key)


def _control(
    drawer: BodyDrawer,
    thing: Any,
    around: Cluster,
    scope: Mapping[str, str],
    held: Mapping[str, Any],
    names: Sequence[str],
) -> dict[str, str]:
    """A Loop, Scan or If of MDF; returns where its outputs come from, as its node reads them: run.x, or run[0] without names."""
    args = thing.args or {}
    said = None if drawer.of_operators else equations_of(_source(args.get("body"), held))
    if said is not None:
        title = f"{thing.function.partition('::')[2]} {thing.id}"
        return _equations(drawer, thing, drawer.cluster(around, title), scope, said, names)
    try:
        node = _as_node(thing, args, held, names)
    except LoopError as error:  # running the model raises it
        key = drawer.box(around, thing.id, thing.function, kind=CONDITION, tip=str(error))
        for name in args.values():
            drawer.arrow(scope.get(name) if isinstance(name, str) else None, key)
        return dict.fromkeys([f"{thing.id}[{k}]" for k in range(9)], key)
    return drawer.control(node, around, scope)


def _read_as(id: str, names: Sequence[str], count: int) -> list[str]:
    """How a node reads the results of a loop: by the names that equations give them, or by their places."""
    return [f"{id}.{name}" for name in names] if len(names) == count else [f"{id}[{k}]" for k in range(count)]


def _equations(
    drawer: BodyDrawer, thing: Any, around: Cluster, scope: Mapping[str, str], said: Equations, names: Sequence[str]
) -> dict[str, str]:
    """A Loop or Scan over equations; returns where its outputs come from."""
    args = thing.args
    most, first = ("" if value is None else short(value) for value in (args.get("M"), args.get("cond")))
    drawer.trips(around, most, names_read(most), scope, said.going is not None)
    drawer.begins_if(around, first, names_read(first), scope)
    given = {name: value for name, value in args.items() if name not in NO_VALUES and not name.startswith("scan_")}
    if not set(said.names) & set(given):
        given = dict(zip(said.names, given.values(), strict=False))
    found = EquationDrawer(drawer, drawer.cluster(around, iteration_of(said)), said).loop(scope, given)
    return dict(zip(_read_as(thing.id, names, len(found)), found, strict=True))


def _as_node(thing: Any, args: Mapping[str, Any], held: Mapping[str, Any], labels: Sequence[str]) -> Node:
    """The operator that a function of MDF is."""
    n_carried, kind = signature_of(thing.function, args)
    keys = ("then_branch", "else_branch") if kind == "branch" else ("body",)
    bodies = {key: read_once(_source(args.get(key, key), held), n_carried, kind) for key in keys}
    body = bodies[keys[0]]
    values = [key for key in args if key not in ("M", "cond", *keys, "num_scan_inputs") and not key.startswith("scan_")]
    names = [args[key] if isinstance(args[key], str) else "" for key in values]
    first = {"loop": [str(args.get("M", "")), str(args.get("cond", ""))], "branch": [str(args.get("cond", ""))], "scan": []}[kind]
    count = len(body.outputs) - (kind == "loop")
    captures = tuple(dict.fromkeys(name for inner in bodies.values() for name in inner.captures))
    attrs: dict[str, Any] = dict(bodies)
    if kind == "scan":
        attrs["num_scan_inputs"] = args.get("num_scan_inputs", 1)
    outputs = tuple(_read_as(thing.id, labels, count))
    made = Node(thing.function.partition("::")[2], (*first, *names), outputs, attrs, thing.id, 18, "", captures)
    return as_loop(made, thing.id)


def _source(value: Any, held: Mapping[str, Any]) -> Any:
    return held[value].value if isinstance(value, str) and value in held else value


def _functions(node: Any) -> list[str]:
    """What a node computes, in a few words."""
    called = [thing.function for thing in (*node.functions, *node.parameters) if thing.function]
    return called[:3]


def _when(graph: Any, node: str) -> str:
    """The condition of a node, as graph-scheduler calls it."""
    conditions = getattr(graph.conditions, "node_specific", None) or {}
    return f"when {condition_text(conditions[node])}" if node in conditions else ""
