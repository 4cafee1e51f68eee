"""OpenVINO models as ONNX: records become Loop, our own kernels become operators of ONNX.

A sliced input is read from outside by the iteration number, an invariant one by its name.  Outputs that are put
together are collected and brought into shape behind the loop; a last value is carried without being read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Collected, Loop, Node, Scanned
from mdf_loop.openvino.ir import OpenvinoModel, read_openvino
from mdf_loop.openvino.layer_nodes import DOMAIN, OPSET, Nodes
from mdf_loop.openvino.weight_file import Weights
from mdf_loop.readers.onnx.loop_records import loop_record
from mdf_loop.writers.onnx_graph import write_model

FAR = np.iinfo(np.int64).max
"""Beyond the end of any axis, and more iterations than any loop has."""


def openvino_to_onnx(model: OpenvinoModel | str | os.PathLike) -> onnx.ModelProto:
    """An OpenVINO model as an ONNX model that gives the same outputs.

    Parameters
    ----------
    model : str, path-like or OpenvinoModel
        The path of an ``.xml`` file, or a model that :func:`~mdf_loop.openvino.ir.read_openvino` read.

    Returns
    -------
    onnx.ModelProto
        With opset 21; inputs are called as the layers are, outputs as :func:`mdf_loop.run` calls them.

    Raises
    ------
    MalformedBody
        A file is missing or broken.
    UnsupportedOp
        The model has variables, or an operation that ONNX has no operators for; names its layer.
    """
    if isinstance(model, str | os.PathLike):
        model = read_openvino(model)
    if model.variables:
        names = ", ".join(variable.id for variable in model.variables)
        raise UnsupportedOp(f"{model.body.name}: the model keeps values from run to run ({names}), which ONNX models cannot")
    nodes = _new((model.body.name,), set(model.outputs))
    outputs = _add_body(model.body, nodes, {}, {name: nodes.name(name) for name in model.body.inputs})
    for name in model.body.inputs:
        nodes.kinds[name] = model.body.type_of(name)
    inputs = list(model.body.inputs)
    for place, (name, wanted) in enumerate(zip(outputs, model.outputs, strict=True)):
        public = wanted if wanted not in inputs else nodes.name(f"{wanted}.{place}")
        nodes.nodes.append(Node("Identity", (name,), (public,), {}, public, OPSET))
        nodes.kinds[public] = nodes.kind(name)
        outputs[place] = public
    written = write_model(replace(nodes.body(inputs, outputs), opsets={"": OPSET}))
    written.ir_version = 10
    return onnx.shape_inference.infer_shapes(written)


def _new(path: tuple[str, ...], taken: set[str]) -> Nodes:
    """A body under the making whose names are not used in any other one."""
    nodes = Nodes(Weights(None), path)
    nodes.taken = taken
    return nodes


def _add_body(body: Body, nodes: Nodes, outside: Mapping[str, str], inputs: Mapping[str, str]) -> list[str]:
    """Add everything of a body under new names; returns those of its outputs."""
    names = {**outside, **inputs}
    for old, new in inputs.items():
        nodes.kinds.setdefault(new, body.type_of(old))
    for name, value in body.constants.items():
        names[name] = nodes.hold(nodes.name(name), value)
    for node in body.nodes:
        made = _add_node(node, nodes, names)
        names |= {old: new for old, new in zip(node.outputs, made, strict=False) if old}
        for old, new in zip(node.outputs, made, strict=False):
            if old and new not in nodes.kinds and old in body.types:
                nodes.kinds[new] = body.types[old]
    return [names[name] for name in body.outputs]


def _add_node(node: Node, nodes: Nodes, names: Mapping[str, str]) -> tuple[str, ...]:
    nodes.named(node.name or node.op)
    inputs = [names[name] if name else "" for name in node.inputs]
    if node.loop is not None:
        return _loop(node, node.loop, nodes, names, inputs)
    if node.domain == DOMAIN:
        if node.op not in _LOWERED:
            raise UnsupportedOp(f"layer {node.name!r}: ONNX has no operators for OpenVINO's {node.op} as it is used here")
        return (_LOWERED[node.op](nodes, inputs, node.attrs),)
    branches = {key: _branch(inner, nodes, names, key) for key, inner in node.bodies}
    captures = dict.fromkeys(name for inner in branches.values() for name in inner.captures)
    made: tuple[str, ...] = nodes.node(
        node.op,
        *inputs,
        outputs=len(node.outputs),
        wanted=lambda k: bool(node.outputs[k]),
        captures=captures,
        opset=node.opset,
        **node.with_bodies(branches).attrs,
    )
    return made


def _branch(body: Body, nodes: Nodes, names: Mapping[str, str], key: str) -> Body:
    inner = _new((*nodes.path, key), nodes.taken)
    inner.outer_kinds = {**nodes.outer_kinds, **nodes.kinds}
    outputs = _add_body(body, inner, {name: names[name] for name in body.captures}, {})
    return inner.body([], _fresh(inner, outputs))


def _fresh(nodes: Nodes, outputs: Sequence[str]) -> list[str]:
    """Outputs that are written by a node of their own: others cannot be outputs everywhere."""
    fresh = []
    for name in outputs:
        kind = nodes.kind(name)
        fresh.append(nodes.typed(nodes.node("Identity", name), kind.dtype, kind.shape))
    return fresh


def _loop(node: Node, record: Loop, nodes: Nodes, names: Mapping[str, str], inputs: Sequence[str]) -> tuple[str, ...]:
    """A loop as ONNX's Loop."""
    body = record.body
    limit, before_all, carried, scanned, invariant, _ = record.split(inputs)
    sliced = [_facing_forwards(nodes, part, name) for part, name in zip(record.scanned, scanned, strict=True)]
    count, go = _count(nodes, record, limit, scanned), _condition(nodes, before_all)
    inner = _new((*nodes.path, node.name), nodes.taken)
    inner.outer_kinds = {**nodes.outer_kinds, **nodes.kinds}
    inner.named(node.name)
    number = inner.typed(inner.name("iteration"), np.dtype(np.int64), ())
    before = inner.typed(inner.name("condition"), np.dtype(bool), ())
    given = {c.input: inner.name(c.input) for c in record.carried}
    unread = [inner.typed(inner.name(name), *_start_type(record, name)) for name in record.last]
    around = dict(zip(record.invariant, invariant, strict=True))
    for part, name in zip(record.scanned, sliced, strict=True):
        around[part.input] = _rows(inner, part, name, number)
    if record.index:
        is_vector = body.type_of(record.index).shape == (1,)
        around[record.index] = inner.node("Reshape", number, inner.constant([1], np.int64)) if is_vector else number
    outputs = dict(zip(body.outputs, _add_body(body, inner, around, given), strict=True))
    wanted = [*(c.output for c in record.carried), *record.last]
    stays = inner.node("Identity", before) if record.keep_going is None else _condition(inner, outputs[record.keep_going])
    rows = [_row(inner, body, what, outputs[what.output]) for what in record.collected]
    finished = inner.body(
        [number, before, *given.values(), *unread],
        [inner.typed(stays, np.dtype(bool), ()), *_fresh(inner, [*(outputs[name] for name in wanted), *rows])],
    )
    starts = [_start(nodes, record, name) for name in record.last]
    made = nodes.node(
        "Loop",
        count,
        go,
        *carried,
        *starts,
        outputs=len(wanted) + len(rows),
        captures=finished.captures,
        loop=loop_record(finished, len(wanted), record.name),
    )
    together = [_together(nodes, body, what, name) for what, name in zip(record.collected, made[len(wanted) :], strict=True)]
    return (*made[: len(wanted)], *together)


def _count(nodes: Nodes, record: Loop, name: str, scanned: Sequence[str]) -> str:
    """The trip count as ONNX has it: what is omitted in the record comes from the slices, -1 is no limit."""
    if not name:
        part, value = record.scanned[0], scanned[0]
        rows = nodes.node("Gather", nodes.node("Shape", value), nodes.constant(part.axis, np.int64), axis=0)
        return nodes.node("Div", rows, nodes.constant(part.part or 1, np.int64))
    known = nodes.integers(name)
    if known is not None:
        return "" if known[0] == -1 else nodes.constant(known[0], np.int64)
    count = nodes.node("Squeeze", nodes.node("Cast", name, to=7))
    return nodes.node("Where", nodes.node("Equal", count, nodes.constant(-1, np.int64)), nodes.constant(FAR, np.int64), count)


def _condition(nodes: Nodes, name: str) -> str:
    """A condition as a scalar; "" stays omitted."""
    return nodes.node("Squeeze", name) if name else ""


def _facing_forwards(nodes: Nodes, part: Scanned, name: str) -> str:
    """A sliced input whose first part is its first rows; within a part they then stand the other way round."""
    if not part.reverse:
        return name
    bounds = (nodes.constant([value], np.int64) for value in (-1, -FAR, part.axis, -1))
    return nodes.node("Slice", name, *bounds)


def _rows(inner: Nodes, part: Scanned, name: str, number: str) -> str:
    """The rows of an iteration.  Gather refuses those that are not there, which Slice would not."""
    size = part.part or 1
    order = np.arange(size)[:: -1 if part.reverse else 1]
    first = inner.node("Mul", number, inner.constant(size, np.int64)) if size > 1 else number
    return inner.node("Gather", name, inner.node("Add", first, inner.constant(order, np.int64)), axis=part.axis)


def _start_type(record: Loop, name: str) -> tuple[np.dtype, tuple[None, ...]]:
    """The type of a last value; its dimensions may be others than at the start."""
    kind = record.body.type_of(name)
    if kind.dtype is None or kind.shape is None:
        raise UnsupportedOp(f"{record.name}: the type of {name!r}, of which the last value is an output, must be declared")
    return kind.dtype, tuple(None for _ in kind.shape)


def _start(nodes: Nodes, record: Loop, name: str) -> str:
    """What stands in the place of a last value before the first iteration."""
    dtype, dims = _start_type(record, name)
    declared = record.body.type_of(name).shape or ()
    shape = [dim if isinstance(dim, int) else 0 for dim in declared[: len(dims)]]
    value = nodes.constant(np.zeros(1), dtype)
    return nodes.node("Expand", value, nodes.constant(shape, np.int64)) if shape else nodes.constant(0, dtype)


def _rank(body: Body, what: Collected) -> int:
    shape = body.type_of(what.output).shape
    if shape is not None:
        return len(shape)
    if any(node.op == "AtLeast1D" and what.output in node.outputs for node in body.nodes):
        return 1
    raise UnsupportedOp(f"{body.name}: the rank of {what.output!r}, which is put together, must be declared")


def _is_single(body: Body, what: Collected) -> bool:
    """Whether each iteration gives one row, as far as is declared."""
    shape = body.type_of(what.output).shape
    return shape is not None and shape[what.axis] == 1


def _row(inner: Nodes, body: Body, what: Collected, name: str) -> str:
    """What is collected of an iteration: a single row without its axis."""
    if not _is_single(body, what):
        return name
    return inner.node("Squeeze", name, inner.constant([what.axis], np.int64))


def _together(nodes: Nodes, body: Body, what: Collected, name: str) -> str:
    """Collected rows, which ONNX stacks in front, along their axis."""
    rank = _rank(body, what)
    axis = what.axis % rank
    if what.reverse:
        name = nodes.node("Slice", name, *(nodes.constant([value], np.int64) for value in (-1, -FAR, 0, -1)))
    single = _is_single(body, what)
    stacked = rank if single else rank + 1
    if axis:
        name = nodes.node("Transpose", name, perm=(*range(1, axis + 1), 0, *range(axis + 1, stacked)))
    if single:
        return name
    dims = nodes.node("Shape", name)
    pieces = [nodes.node("Slice", dims, *(nodes.constant([v], np.int64) for v in (0, axis)))] if axis else []
    both = nodes.node("Slice", dims, *(nodes.constant([v], np.int64) for v in (axis, axis + 2)))
    pieces.append(nodes.node("ReduceProd", both, keepdims=1))
    pieces.append(nodes.node("Slice", dims, *(nodes.constant([v], np.int64) for v in (axis + 2, FAR))))
    return nodes.node("Reshape", name, nodes.node("Concat", *pieces, axis=0), allowzero=1)


Lowered = Callable[[Nodes, Sequence[str], Mapping[str, Any]], str]


def _at_least_1d(nodes: Nodes, inputs: Sequence[str], attrs: Mapping[str, Any]) -> str:
    return nodes.node("Reshape", inputs[0], nodes.constant([-1], np.int64))


def _span(nodes: Nodes, inputs: Sequence[str], attrs: Mapping[str, Any]) -> str:
    low, high = (attrs["end"], attrs["start"]) if attrs["backwards"] else (attrs["start"], attrs["end"])
    bounds = (low, FAR if high == -1 else high + 1, attrs["axis"])
    return nodes.node("Slice", inputs[0], *(nodes.constant([value], np.int64) for value in bounds))


def _divide(nodes: Nodes, inputs: Sequence[str], attrs: Mapping[str, Any]) -> str:
    """Whole numbers rounded down: without the remainder the quotient is exact."""
    exact = nodes.node("Sub", inputs[0], nodes.node("Mod", *inputs))
    return nodes.node("Div", exact, inputs[1])


def _floor_mod(nodes: Nodes, inputs: Sequence[str], attrs: Mapping[str, Any]) -> str:
    """The remainder with the sign of the dividend, moved on by the divisor where theirs differ."""
    a, b = inputs
    rest, zero = nodes.node("Mod", a, b, fmod=1), nodes.node("CastLike", nodes.constant(0, np.float32), b)
    signs = (nodes.node("Less", rest, zero), nodes.node("Less", b, zero))
    there = nodes.node("Not", nodes.node("Equal", rest, zero))
    return nodes.node("Where", nodes.node("And", there, nodes.node("Xor", *signs)), nodes.node("Add", rest, b), rest)


def _round_away(nodes: Nodes, inputs: Sequence[str], attrs: Mapping[str, Any]) -> str:
    (x,) = inputs
    size = nodes.node("Abs", x)
    half, one = (nodes.node("CastLike", nodes.constant(value, np.float32), x) for value in (0.5, 1))
    below = nodes.node("Floor", size)
    up = nodes.node("GreaterOrEqual", nodes.node("Sub", size, below), half)
    return nodes.node("Mul", nodes.node("Sign", x), nodes.node("Where", up, nodes.node("Add", below, one), below))


def _one_hot(nodes: Nodes, inputs: Sequence[str], attrs: Mapping[str, Any]) -> str:
    """ONNX counts negative indices from the end; here they are nowhere, as those beyond the end are."""
    indices, depth, on, off = inputs
    values = nodes.node("Concat", *(nodes.node("Reshape", v, nodes.constant([1], np.int64)) for v in (off, on)), axis=0)
    places = nodes.node("Cast", indices, to=7)
    count = nodes.node("Cast", depth, to=7)
    if not attrs["normalize"]:
        places = nodes.node("Where", nodes.node("Less", places, nodes.constant(0, np.int64)), count, places)
    return nodes.node("OneHot", places, count, values, axis=attrs["axis"])


def _fake_quantize(nodes: Nodes, inputs: Sequence[str], attrs: Mapping[str, Any]) -> str:
    x, in_low, in_high, out_low, out_high = inputs
    steps = nodes.node("CastLike", nodes.constant(attrs["levels"] - 1, np.float32), x)
    part = nodes.node("Div", nodes.node("Sub", x, in_low), nodes.node("Sub", in_high, in_low))
    level = nodes.node("Div", nodes.node("Round", nodes.node("Mul", part, steps)), steps)
    inside = nodes.node("Add", nodes.node("Mul", level, nodes.node("Sub", out_high, out_low)), out_low)
    low, high = nodes.node("Min", in_low, in_high), nodes.node("Max", in_low, in_high)
    below = nodes.node("Where", nodes.node("Greater", x, high), out_high, inside)
    return nodes.node("Where", nodes.node("LessOrEqual", x, low), out_low, below)


_LOWERED: dict[str, Lowered] = {
    "AtLeast1D": _at_least_1d,
    "Broadcast": lambda nodes, inputs, attrs: nodes.node("Expand", *inputs),
    "Divide": _divide,
    "FakeQuantize": _fake_quantize,
    "FloorMod": _floor_mod,
    "OneHot": _one_hot,
    "RoundAway": _round_away,
    "Span": _span,
}
"""How kernels of the domain ``openvino`` are put together from operators of ONNX."""
