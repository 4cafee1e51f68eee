"""Random loop bodies that ``generated.py`` leaves out: floats and what is not exact, tables read by the iteration number,
random numbers, sequences, growing values, Scan.

There is no second way to run them here; they are for comparing engines.  A case is ``exact`` if every engine
has to give the same bits.  Others are kept from blowing small differences up: they run a few iterations only, or
what is carried is halved each time, and nothing is compared with anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from generated import BOOL, INT, Value
from generated_nodes import (
    BYTE,
    DOUBLE,
    EXACT,
    MANY,
    SHAPES,
    SHORT,
    SINGLE,
    SMOOTH,
    Case,
    Drawing,
    branched,
    contents,
    finished,
    joined,
    looped,
    moved,
    random_numbers,
    steps,
)
from hypothesis import strategies as st
from onnx import GraphProto, helper


@st.composite
def loops(draw: Any) -> Case:
    """A Loop: exact and of any length, or smooth and either short or contracting."""
    exact = draw(st.booleans())
    count = draw(st.sampled_from([0, 1, 2, 7, 33, MANY]))
    d = Drawing(draw, exact, count)
    carried = [
        Value(d.names.new(), draw(st.sampled_from([DOUBLE, DOUBLE, INT, BOOL, SINGLE, SHORT, BYTE])), shape)
        for shape in draw(shapes(3))
    ]
    d.index, go = Value(d.names.new(), INT, ()), Value(d.names.new(), BOOL, ())
    inputs = [d.index, go, *carried]
    contracting = not exact and count > 7
    d.scope = [d.index, go, *([] if contracting else carried)]
    steps(d, 14)
    round_trip = [fed(d, value, contracting) for value in carried]
    condition = ended(d, go)
    collected = [draw(st.sampled_from([v for v in d.scope if v is not go])) for _ in range(draw(st.integers(0, 3)))]
    graph = finished(d, "body", inputs, [condition, *round_trip, *collected])
    given = [start(draw, value) for value in carried]
    if draw(st.sampled_from([False] * 3 + [True])):
        given.append(grown(d, graph, len(carried)))
    cond = draw(st.sampled_from([True] * 6 + [None] * 2 + [False]))
    size = draw(st.sampled_from([1, 1000, 1 << 19]))
    return Case(graph, exact, count, cond, given, block_bytes=size, captured=used(graph, d.captured))


@st.composite
def scans(draw: Any) -> Case:
    """A Scan, along any axis and in either direction."""
    exact, count = draw(st.booleans()), draw(st.sampled_from([0, 1, 2, 7, 7, MANY]))
    contracting = not exact and count > 7
    d = Drawing(draw, exact, count)
    carried = [Value(d.names.new(), draw(st.sampled_from([DOUBLE, INT])), shape) for shape in draw(shapes(2))]
    scanned = [Value(d.names.new(), draw(st.sampled_from([DOUBLE, INT])), shape) for shape in draw(shapes(2, 1))]
    d.scope = [*scanned, *([] if contracting else carried)]
    table = [op for op in (EXACT if exact else SMOOTH) if op not in (looped, branched)] + [joined, moved, random_numbers]
    for _ in range(draw(st.integers(0, 6))):
        draw(st.sampled_from(table))(d)
    d.scope = [v for v in d.scope if np.prod(v.shape) <= 60]
    round_trip = [fed(d, value, contracting) for value in carried]
    collected = [draw(st.sampled_from(d.scope)) for _ in range(draw(st.integers(0 if carried else 1, 2)))]
    graph = finished(d, "body", [*carried, *scanned], [*round_trip, *collected])
    axes = [draw(st.integers(0, len(v.shape))) for v in scanned]
    attrs = {"scan_input_axes": axes, "scan_input_directions": [draw(st.integers(0, 1)) for _ in scanned]}
    if collected and draw(st.booleans()):
        attrs["scan_output_axes"] = [draw(st.integers(0, len(v.shape))) for v in collected]
        attrs["scan_output_directions"] = [draw(st.integers(0, 1)) for _ in collected]
    rng = np.random.default_rng(draw(st.integers(0, 3)))
    arrays = [
        np.moveaxis((rng.integers(-8, 9, (count, *v.shape)) / 4).astype(v.dtype), 0, axis)
        for v, axis in zip(scanned, axes, strict=True)
    ]
    given = [start(draw, value) for value in carried]
    return Case(graph, exact, None, None, given, arrays, attrs, captured=used(graph, d.captured))


@st.composite
def shapes(draw: Any, most: int, least: int = 0) -> list[tuple[int, ...]]:
    """Shapes of some values."""
    return [draw(st.sampled_from(SHAPES)) for _ in range(draw(st.integers(least, most)))]


def fed(d: Drawing, value: Value, contracting: bool) -> Value:
    """What feeds a carried value: something of its type and shape, or half of itself and something bounded."""
    same = [v for v in [*d.scope, value] if (v.dtype, v.shape) == (value.dtype, value.shape)]
    if not contracting:
        return d.draw(st.sampled_from(same))
    other = d.draw(st.sampled_from(same))
    if value.dtype != DOUBLE or other is value:
        return value
    half = d.add("Mul", [value.name, d.constant(0.5, DOUBLE)], DOUBLE, value.shape)
    return d.add("Add", [half.name, d.add("Tanh", [other.name], DOUBLE, other.shape).name], DOUBLE, value.shape)


def ended(d: Drawing, go: Value) -> Value:
    """A condition: the one that came in, one of the iteration number or of a table, or anything boolean."""
    kind = d.draw(st.sampled_from(["same", "number", "table", "any"]))
    if kind == "number":
        return d.add("Less", [d.index.name, d.constant(d.draw(st.sampled_from([0, 1, 5, 40, 299])))], BOOL, ())
    if kind == "table":
        table = d.table((max(d.count, 1),), DOUBLE)
        d.captured[table] = np.arange(max(d.count, 1)) / 8
        row = d.add("Gather", [table, d.index.name], DOUBLE, ())
        return d.add("Less", [row.name, d.constant(d.draw(st.sampled_from([0.0, 0.5, 4.5, 100.0])), DOUBLE)], BOOL, ())
    return (d.one_of(BOOL, shapes=[()]) or go) if kind == "any" and d.exact else go


def grown(d: Drawing, graph: GraphProto, n_carried: int) -> Any:
    """One more carried value: a vector that grows, or a sequence.  Returns what it starts with."""
    name, out = d.names.new(), d.names.new()
    scalars = [v for v in d.scope if v.dtype == DOUBLE and v.shape == ()]
    added = d.draw(st.sampled_from(scalars)).name if scalars else None
    nodes = []
    if added is None:
        added = d.names.new()
        nodes.append(helper.make_node("Cast", [d.index.name], [added], to=11))
    if d.draw(st.booleans()):
        row, axis = d.names.new(), d.names.new()
        nodes.append(helper.make_node("Constant", [], [axis], value_ints=[0]))
        nodes.append(helper.make_node("Unsqueeze", [added, axis], [row]))
        nodes.append(helper.make_node("Concat", [name, row], [out], axis=0))
        kind, given = helper.make_tensor_type_proto(11, ["k"]), np.array([0.5, 1.0])
    else:
        nodes.append(helper.make_node("SequenceInsert", [name, added], [out]))
        kind, given = helper.make_sequence_type_proto(helper.make_tensor_type_proto(11, [])), [np.array(1.5)]
    graph.node.extend(nodes)
    graph.input.append(helper.make_value_info(name, kind))
    graph.output.insert(1 + n_carried, helper.make_value_info(out, kind))
    return given


def start(draw: Any, value: Value) -> np.ndarray:
    """Initial contents of a carried value."""
    return contents(draw(st.integers(0, 3)), value.shape, value.dtype)


def used(graph: GraphProto, captured: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The captures that a graph or one inside it reads."""
    names = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= set(used(attribute.g, captured))
    return {name: value for name, value in captured.items() if name in names}
