"""``onnx::Loop``, ``onnx::Scan`` and ``onnx::If`` in an MDF graph that is itself a body."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mdf_loop.errors import MalformedBody
from mdf_loop.ir import Body, Node, record
from mdf_loop.ir.fresh_names import rename_captures
from mdf_loop.readers.arguments import is_read
from mdf_loop.readers.expressions.expression_text import refuse_onnx_text
from mdf_loop.readers.expressions.values import DOMAIN, UNKNOWN, BodyBuilder, NotCompiled, Number, Value, known, read
from mdf_loop.readers.mdf.stepped_loops import stepped_loop
from mdf_loop.readers.onnx.loop_records import SCAN_ATTRIBUTES, as_loop
from mdf_loop.types.required import asked_types

if TYPE_CHECKING:
    from mdf_loop.readers.mdf.node import NodeReader

BODIES = {"Loop": ("body",), "Scan": ("body",), "If": ("then_branch", "else_branch"), "SequenceMap": ("body",)}
"""The operators with bodies, and the attributes that hold them."""


class Asks(dict[str, Any]):
    """What a body asks of values, by name; prints as their types."""

    def __repr__(self) -> str:
        return ", ".join(f"{name} {'?' if asked.dtype is None else asked.dtype.name}" for name, asked in self.items())


@record
class Control:
    """A Loop, Scan or If under way.

    Attributes
    ----------
    op : {"Loop", "Scan", "If"}
    base : str
        What its outputs are called.
    inputs : sequence of Value or None
        In ONNX's order.
    bodies : mapping of str to Body
        By attribute.
    attrs : mapping
        The other attributes.
    where : str
        The graph, for messages.
    """

    op: str
    base: str
    inputs: Sequence[Value | None]
    bodies: Mapping[str, Body]
    attrs: Mapping[str, Any]
    where: str

    def outputs(self, builder: BodyBuilder) -> tuple[str, ...]:
        """Names for its results."""
        count = min(len(body.outputs) for body in self.bodies.values()) - (self.op == "Loop")
        return tuple(builder.fresh(self.base if count == 1 else f"{self.base}[{k}]") for k in range(count))


def control(reader: NodeReader, thing: Any, path: tuple[str, ...], op: str, args: Mapping[str, Any]) -> Value:
    """The node of a Loop, Scan or If.

    The arguments are as in every MDF node (see the documentation of loops in MDF models): bodies and the attributes
    of a Scan by name, M and cond by name, all others inputs in order.
    """
    values = {key: _argument(reader, thing, source) for key, source in args.items() if key not in BODIES[op]}
    base, where = reader.base(thing), reader.path[0]
    if op == "If":
        condition, others = values.pop("cond", None), {key: value for key, value in values.items() if value is not None}
        bodies = {key: _body(reader, args, key, path, 0, "branch").taking(0) for key in BODIES[op]}
        return _add(reader, Control(op, base, [condition], bodies, {}, where), others)
    first: list[Value | None] = []
    attrs: dict[str, Any] = {}
    if op == "Loop":
        first = [values.pop("M", None), values.pop("cond", None)]
    elif op == "Scan":
        attrs = {
            key: value for key in ("num_scan_inputs", *SCAN_ATTRIBUTES) if (value := _known(reader, values, key)) is not None
        }
    inputs = _in_order(values, path)
    n_carried = len(inputs) - attrs.get("num_scan_inputs", 0)
    body = _body(reader, args, "body", path, n_carried, op.lower()).taking(len(first) + len(inputs))
    if op == "Loop" and (steps := stepped_loop(reader.node)) is not None and steps.id == thing.id:
        return reader.stepped(steps, thing, [*first, *inputs], body.closed({*reader.scope, *reader.builder.inputs}))
    return _add(reader, Control(op, base, [*first, *inputs], {"body": body}, attrs, where), {})


def _argument(reader: NodeReader, thing: Any, source: Any) -> Value | None:
    """An argument's value; None for an omitted one."""
    if source is None or (isinstance(source, str) and source == ""):
        return None
    value = reader.value(source, thing)
    return None if value.literal is None else value


def _in_order(values: Mapping[str, Value | None], path: tuple[str, ...]) -> list[Value]:
    """The inputs; a tuple is several."""
    inputs: list[Value] = []
    for key, value in values.items():
        if value is None:
            raise MalformedBody(f"argument {key} has no value", path)
        inputs += value.items if value.display == "tuple" and value.items is not None else [value]
    return inputs


def _known(reader: NodeReader, values: dict[str, Value | None], key: str) -> Any:
    """An attribute among the arguments or the node's values."""
    value = values.pop(key, None)
    if value is None and key in reader.scope:
        value = read(reader.scope, key)
    if value is None or value.literal is None:
        return None
    given = known(value)
    if given is UNKNOWN:
        raise NotCompiled(f"{key} of onnx::Scan is computed")
    return int(given) if key == "num_scan_inputs" else tuple(int(axis) for axis in given)


def _body(reader: NodeReader, args: Mapping[str, Any], key: str, path: tuple[str, ...], n_carried: int, kind: str) -> Body:
    """A body: itself among the arguments, or the value that an argument or the attribute's own name names."""
    source = args.get(key, key)
    refuse_onnx_text(source, path)
    if isinstance(source, str):
        source = read(reader.scope, source).literal if source in reader.scope else None
    if source is None or source is UNKNOWN:
        raise MalformedBody(f"{key} is missing: a parameter or argument that holds a graph, such as {{onnx: text}}", path)
    if callable(source) and not is_read(source):
        raise NotCompiled(f"{key} of {'/'.join(path)} is a Python function")
    return reader.read_body(source, n_carried, kind)


def _add(reader: NodeReader, made: Control, others: Mapping[str, Value]) -> Value:
    """Add the node, whose bodies capture values of the node of MDF."""
    known = {*reader.scope, *others, *reader.builder.inputs}
    made = replace(made, bodies={key: body.closed(known) for key, body in made.bodies.items()})
    given = functools.partial(captured_by, reader, others=others)
    if made.op != "If" and reader.calls_loops:
        return _add_called(reader.builder, made, given)
    value = add_control(reader.builder, made, given)
    if value.items is None:
        return reader.control_result(value, made.base)
    return replace(value, items=tuple(reader.control_result(item, made.base) for item in value.items))


def _add_called(builder: BodyBuilder, made: Control, captured: Callable[[str], Value]) -> Value:
    """Add a loop that is called with values as they are; what its body captures has the names in it that it has in the model."""
    base, body = made.base, made.bodies["body"]
    names = tuple("" if value is None else builder.name(builder.array(value, base)) for value in made.inputs)
    captures = tuple(builder.name(builder.array(captured(name), base)) for name in body.captures)
    outputs = made.outputs(builder)
    added = as_loop(Node(made.op, names, outputs, {**made.attrs, "body": body}, base, builder.opset, "", captures), made.where)
    values = builder.add(replace(added, domain=DOMAIN, opset=1), True)
    return values[0] if len(outputs) == 1 else Value(items=values, display="outputs")


def add_control(builder: BodyBuilder, made: Control, captured: Callable[[str], Value]) -> Value:
    """Add a node with bodies: its inputs and what they capture become tensors of the types the bodies ask for.

    Parameters
    ----------
    builder : BodyBuilder
        The body that the node is added to.
    made : Control
    captured : callable
        The value of each name that a body captures.

    Returns
    -------
    Value
        The output, or a display of several.
    """
    base, inputs, attrs, captures = made.base, made.inputs, {**made.attrs}, list[str]()
    varies = any(v.varies for v in inputs if v is not None)
    for key, body in made.bodies.items():
        given = {name: captured(name) for name in body.captures}
        n_first = {"Loop": 2, "Scan": 0}.get(made.op, len(inputs))
        carried = {name: v for name, v in zip(body.inputs[n_first:], inputs[n_first:], strict=False) if v is not None}
        varies = varies or any(v.varies for v in given.values())
        fitted = fit_to_body(builder, base, asked_of(made.op, body, attrs), {**carried, **given})
        inputs = [*inputs[:n_first], *(fitted[name] for name in carried), *inputs[n_first + len(carried) :]]
        outer = {name: outer_name(builder, body, fitted[name], base) for name in given}
        attrs[key] = rename_captures(body, outer)
        captures += [name for name in outer.values() if name not in captures]
    tensors = [None if v is None else builder.tensor(v, base) for v in inputs]
    names = tuple("" if v is None else builder.name(v) for v in tensors)
    outputs = made.outputs(builder)
    added = Node(made.op, names, outputs, attrs, base, builder.opset, "", tuple(captures))
    values = builder.add(as_loop(added, made.where), varies)
    return values[0] if len(outputs) == 1 else Value(varies=values[0].varies, items=values, display="outputs")


def captured_by(reader: NodeReader, name: str, others: Mapping[str, Value] = MappingProxyType({})) -> Value:
    """What a body captures: a value of the node, an input of the graph around it, or a value from outside that."""
    if name in reader.scope:
        return read(reader.scope, name)
    if name in others:
        return others[name]
    if name in reader.builder.inputs:
        return Value(name)
    return reader.builder.capture(name)


def asked_of(op: str, body: Body, attrs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a typed body asks of its inputs; None for a body that asks for nothing."""
    if not body.typed:
        return None
    if op == "Loop":
        pairs = zip(body.inputs[2:], body.outputs[1:], strict=False)
    else:
        n_carried = len(body.inputs) - attrs.get("num_scan_inputs", len(body.inputs))
        pairs = zip(body.inputs[:n_carried], body.outputs, strict=False)
    return asked_types(body, pairs)


def fit_to_body(
    builder: BodyBuilder, base: str, asked: Mapping[str, Any] | None, values: Mapping[str, Value]
) -> dict[str, Value]:
    """Values as tensors; for a typed body with the types it asks for."""
    arrays = {name: builder.array(value, base) for name, value in values.items()}
    if asked is None or not arrays:
        return {name: builder.tensor(value, base, floating=value.number >= Number.FLOAT) for name, value in arrays.items()}
    outputs = tuple(builder.fresh(f"{base} {name}") for name in arrays)
    attrs = {"names": tuple(arrays), "asked": Asks((name, asked[name]) for name in arrays)}
    added = Node("fit", tuple(map(builder.name, arrays.values())), outputs, attrs, base, 1, DOMAIN)
    return dict(zip(arrays, builder.add(added, any(v.varies for v in arrays.values()), untouched=True), strict=True))


def outer_name(builder: BodyBuilder, body: Body, value: Value, base: str) -> str:
    """A name for a captured value that no value inside the body has."""
    name = builder.name(value)
    taken = local_names(body)
    if name not in taken:
        return name
    while (alias := builder.fresh(base)) in taken:
        continue
    builder.add(Node("Identity", (name,), (alias,), {}, base, builder.opset), value.varies)
    return alias


def local_names(body: Body) -> set[str]:
    """Every name of a body and the bodies in it that is not captured from outside."""
    names = {*body.inputs, *body.constants, *(s.input for s in body.state)}
    for node in body.nodes:
        names.update(node.outputs)
        for _, inner in node.bodies:
            names |= local_names(inner)
    return names
