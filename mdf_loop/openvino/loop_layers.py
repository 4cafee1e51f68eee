"""Loop, TensorIterator and If as records and branches; ReadValue and Assign, values that a model keeps from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody
from mdf_loop.ir import Body, Carried, Collected, Loop, Scanned, ValueType
from mdf_loop.ir.well_formed import check_body
from mdf_loop.openvino.ir import add_layers, parameter_kind
from mdf_loop.openvino.layer_nodes import MANY, Nodes, Values, converts
from mdf_loop.openvino.port_maps import PortMap, Slices, read_ports
from mdf_loop.openvino.xml import Layer, Net, declared_shape, read_net
from mdf_loop.types.elements import CODES, DTYPES, kind_of


@converts("Loop", takes=(2, MANY))
def loop(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The trip count and the condition are the first two inputs; all else is in the port map."""
    net = read_net(_inside(layer, "body"), layer.name, (*layer.path, layer.name))
    ports = read_ports(layer, net)
    if ports.condition is None:
        raise layer.wrong("no entry of the port map has purpose 'execution_condition'; a Loop needs one")
    if ports.index is None:
        ports.index = _unmapped_index(net, ports)
    return _loop(layer, nodes, inputs, net, ports, inputs[0], inputs[1])


@converts("TensorIterator", takes=(0, MANY))
def tensor_iterator(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """As often as its sliced inputs have parts; without any, as its outputs say."""
    net = read_net(_inside(layer, "body"), layer.name, (*layer.path, layer.name))
    ports = read_ports(layer, net)
    if ports.index is not None or ports.condition is not None:
        raise layer.wrong("a TensorIterator has no iteration number and no condition; a Loop has")
    trip_count = "" if ports.sliced else nodes.constant(_count_of_outputs(layer, ports), np.int64)
    return _loop(layer, nodes, inputs, net, ports, trip_count, "")


def _inside(layer: Layer, tag: str) -> Any:
    element = layer.element.find(tag)
    if element is None:
        raise layer.wrong(f"it has no <{tag}>")
    return element


def _unmapped_index(net: Net, ports: PortMap) -> int | None:
    """The one parameter that no entry leads to is the iteration number, where the port map does not say."""
    left = [p for p in net.of_type("Parameter") if p.id not in ports.invariant and p.id not in ports.sliced]
    if len(left) == 1:
        kind = parameter_kind(left[0])
        if kind.dtype is not None and kind_of(kind.dtype) == "integer" and kind.shape in ((), (1,)):
            return left[0].id
    return None


def _count_of_outputs(layer: Layer, ports: PortMap) -> int:
    for _, _, slices in ports.joined:
        if slices.start >= 0 or slices.end >= 0:
            return abs(slices.end - slices.start) // slices.part
    raise layer.wrong("neither a sliced input nor an output gives the number of iterations")


@dataclass(frozen=True)
class _Inside:
    """What the body became: its record, and what feeds it from outside, each in the order of the record."""

    record: Loop
    carried: Sequence[int]
    invariant: Sequence[int]
    last: Sequence[tuple[int, int]]


def _loop(
    layer: Layer, nodes: Nodes, inputs: Sequence[str], net: Net, ports: PortMap, trip_count: str, condition: str
) -> tuple[str, ...]:
    """The node that holds the record; returns the layer's outputs in their order."""
    inside = _read_inside(layer, nodes, net, ports)
    nodes.begin(layer)
    outer = [inputs[ports.invariant[parameter]] for parameter in inside.carried]
    outer += [_span(nodes, inputs[place], slices) for place, slices in ports.sliced.values()]
    outer += [inputs[ports.invariant[parameter]] for parameter in inside.invariant]
    places = _places(ports, list(ports.back.values()), inside.last)
    read = {k for k, port in enumerate(layer.outputs) if port.is_read}
    made = nodes.node(
        "Loop",
        trip_count,
        condition,
        *outer,
        outputs=len(places),
        wanted=lambda k: places[k] in read,
        loop=inside.record,
    )
    return tuple(made[places.index(k)] for k in range(len(layer.outputs)))


def _read_inside(layer: Layer, nodes: Nodes, net: Net, ports: PortMap) -> _Inside:
    """The body and its port map as a record."""
    inner = Nodes(nodes.weights, net.path)
    names = {parameter.id: _enter(layer, inner, parameter, ports) for parameter in net.of_type("Parameter")}
    index, given = _index(inner, net, ports, names)
    values = add_layers(net, inner, given)
    results = {result.id: values[result.sources[0]] for result in net.of_type("Result")}
    last = [(place, result) for place, result in ports.last if result not in ports.back.values()]
    joined = [(_whole_part(layer, inner, net, result, results, slices), slices) for _, result, slices in ports.joined]
    invariant = [parameter for parameter in ports.invariant if parameter not in ports.back]
    keep_going = None if ports.condition is None else results[ports.condition]
    record = Loop(
        _body(inner, [index, *names.values()], [keep_going, *results.values(), *(name for name, _ in joined)]),
        carried=tuple(Carried(names[parameter], results[source]) for parameter, source in ports.back.items()),
        scanned=tuple(
            Scanned(names[p], s.axis, stride=s.part, part=s.part, reverse=s.backwards) for p, (_, s) in ports.sliced.items()
        ),
        collected=tuple(Collected(name, s.axis, stack=False, reverse=s.backwards) for name, s in joined),
        last=tuple(results[result] for _, result in last),
        invariant=tuple(names[parameter] for parameter in invariant),
        index=index or None,
        keep_going=keep_going,
        name=f"{layer.type} {layer.name!r}",
        unlimited=True,
    )
    return _Inside(record, list(ports.back), invariant, last)


def _places(ports: PortMap, sources: list[int], last: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each output of the record (carried, last, collected) the output of the layer that it is."""
    carried: list[int | None] = [None] * len(sources)
    for place, result in ports.last:
        if result in sources:
            carried[sources.index(result)] = place
    return [*carried, *(place for place, _ in last), *(place for place, *_ in ports.joined)]


def _enter(layer: Layer, inner: Nodes, parameter: Layer, ports: PortMap) -> str:
    """Take the name of a parameter of the body, and see that something leads to it."""
    if parameter.id not in ports.invariant and parameter.id not in ports.sliced and parameter.id != ports.index:
        raise layer.wrong(f"no entry of the port map leads to parameter {parameter.name!r}")
    name = inner.name(parameter.name)
    kind = parameter_kind(parameter)
    if parameter.id in ports.sliced:
        _, slices = ports.sliced[parameter.id]
        size = _part_of(layer, parameter.name, kind, slices)
        if size is not None and size != slices.part:
            raise _other_part(layer, parameter.name, kind, slices)
    inner.kinds[name] = kind
    return name


def _index(inner: Nodes, net: Net, ports: PortMap, names: dict[int, str]) -> tuple[str, dict[int, str]]:
    """The body input for the iteration number, which is int64, and what the layers read in its place."""
    if ports.index is None:
        return "", names
    parameter = names.pop(ports.index)
    kind = inner.kinds[parameter]
    if kind.shape not in ((), (1,)) or kind.dtype is None or kind_of(kind.dtype) != "integer":
        raise net.layers[ports.index].wrong(f"the iteration number is an integer of shape [] or [1]; it is declared as {kind}")
    if kind.dtype == np.int64:
        return parameter, {**names, ports.index: parameter}
    index = inner.typed(inner.name(f"{parameter}/int64"), np.dtype(np.int64), kind.shape)
    number = inner.typed(inner.node("Cast", index, to=CODES[kind.dtype]), kind.dtype, kind.shape)
    return index, {**names, ports.index: number}


def _whole_part(layer: Layer, inner: Nodes, net: Net, result: int, results: dict[int, str], slices: Slices) -> str:
    """What is put together along an axis: a scalar becomes one element.

    A value may be longer than its part_size, which for a Loop is always 1: it is put there whole, as OpenVINO's own shapes of a
    Loop say.
    """
    if not slices.is_whole and (slices.backwards or slices.start != 0 or slices.end < 0):
        raise layer.wrong(
            f"an output is put together from start {slices.start} to end {slices.end}; "
            "it must be from 0 to -1, or back from -1 to 0"
        )
    name = results[result]
    inner.begin(net.layers[result])
    kind = inner.kind(name)
    if not kind.shape:
        return inner.typed(inner.node("numpy.atleast_1d", name, domain="mdf"), kind.dtype)
    title = net.layers[result].name
    size = _part_of(layer, title, kind, slices)
    if size is not None and size < slices.part:
        raise _other_part(layer, title, kind, slices)
    return name


def _part_of(layer: Layer, name: str, kind: ValueType, slices: Slices) -> int | None:
    """How long a value is along the axis that it is cut or put together on, if that is declared."""
    if kind.shape is None:
        return None
    rank = len(kind.shape)
    if not -rank <= slices.axis < rank:
        raise layer.wrong(f"{name!r} has no axis {slices.axis}; it is declared as {kind}")
    size = kind.shape[slices.axis]
    return size if isinstance(size, int) else None


def _other_part(layer: Layer, name: str, kind: ValueType, slices: Slices) -> MalformedBody:
    return layer.wrong(f"{name!r} is declared as {kind}; along axis {slices.axis} its part_size is {slices.part}")


def _span(nodes: Nodes, name: str, slices: Slices) -> str:
    """The rows of a sliced input that take part; nothing to do where these are all, one by one."""
    if slices.is_whole and slices.part == 1:
        return name
    bounds = {"start": slices.start, "end": slices.end, "part": slices.part, "backwards": int(slices.backwards)}
    return nodes.own("Span", name, axis=slices.axis, **bounds)


def _body(inner: Nodes, inputs: Sequence[str | None], outputs: Sequence[str | None]) -> Body:
    ins, outs = ([name for name in names if name] for names in (inputs, outputs))
    return check_body(inner.body(ins, list(dict.fromkeys(outs))), inner.path)


@converts("If", takes=(1, MANY))
def if_(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Two bodies without inputs, which read what is outside."""
    then_branch, else_branch = (_branch(layer, nodes, inputs, which) for which in ("then", "else"))
    captures = dict.fromkeys((*then_branch.captures, *else_branch.captures))
    branches: dict[str, Any] = {"then_branch": then_branch, "else_branch": else_branch}
    return nodes.node("If", inputs[0], outputs=max(len(layer.outputs), 1), captures=captures, **branches)


def _branch(layer: Layer, nodes: Nodes, inputs: Sequence[str], which: str) -> Body:
    name = f"{layer.name}.{which}"
    net = read_net(_inside(layer, f"{which}_body"), name, (*layer.path, name))
    ports = read_ports(layer, net, f"{which}_port_map")
    if ports.sliced or ports.joined or ports.index is not None or ports.condition is not None:
        raise layer.wrong("the port map of an If has no axis and no purpose")
    inner = Nodes(nodes.weights, net.path, outer=nodes)
    for parameter in net.of_type("Parameter"):
        if parameter.id not in ports.invariant:
            raise layer.wrong(f"no entry of {which}_port_map leads to parameter {parameter.name!r}")
    values = add_layers(net, inner, {parameter: inputs[place] for parameter, place in ports.invariant.items()})
    outputs = []
    for _, result in sorted(ports.last):
        value = values[net.layers[result].sources[0]]
        inner.begin(net.layers[result])
        outputs.append(inner.typed(inner.node("Identity", value), inner.dtype(value), inner.kind(value).shape))
    if not outputs and not layer.outputs:
        outputs.append(inner.constant(0))
    return check_body(inner.body([], outputs), net.path)


LARGEST = 1 << 28
"""So many elements may a variable have that starts as zeros."""


@converts("ReadValue", takes=(0, 1))
def read_value(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """What was kept; in the first run the input, or zeros of the declared shape where there is none."""
    if len(nodes.path) > 1:
        raise layer.unsupported("a variable inside a body is not supported")
    id = layer.text("variable_id")
    dims = declared_shape(layer.text("variable_shape", "..."), layer)
    said = layer.text("variable_type", "dynamic")
    dtype = layer.outputs[0].kind.dtype if said == "dynamic" and layer.outputs else None
    dtype = layer.element_type("variable_type", "f32") if said != "dynamic" else dtype or DTYPES[1]
    shape = tuple(dim if isinstance(dim, int) else 0 for dim in dims or ())
    if prod(shape) > LARGEST:
        raise layer.wrong(f"the variable has shape {list(shape)}, which is more than {LARGEST} elements")
    if id not in nodes.variables:
        nodes.variables[id] = nodes.name(f"variable {id}")
    attrs: dict[str, Any] = {} if inputs else {"shape": shape, "dtype": CODES[dtype]}
    return nodes.typed(nodes.own("ReadValue", nodes.variables[id], *inputs, **attrs), dtype)


@converts("Assign")
def assign(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Keep a value for the next run."""
    if len(nodes.path) > 1:
        raise layer.unsupported("a variable inside a body is not supported")
    id = layer.text("variable_id")
    if id in nodes.assigned:
        raise layer.wrong(f"the variable {id!r} is assigned twice")
    nodes.assigned[id] = inputs[0]
    return inputs[0]
