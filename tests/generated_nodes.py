"""Random nodes of the operators that have a fast form: what may be drawn, given what a body holds so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from generated import BOOL, INT, Names, Value
from hypothesis import strategies as st
from onnx import GraphProto, NodeProto, helper

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
SHORT, BYTE = np.dtype(np.int32), np.dtype(np.uint8)
CODES = {DOUBLE: 11, INT: 7, BOOL: 9, SINGLE: 1, SHORT: 6, BYTE: 2}
NUMBERS = (DOUBLE, SINGLE, INT, SHORT, BYTE)
SHAPES = [(), (), (3,), (2, 3), (3, 3), (1,)]
MANY = 300


@dataclass
class Case:
    """A loop with everything it is given; a Scan if there is a scanned value."""

    graph: GraphProto
    exact: bool
    trip_count: int | None
    cond: bool | None
    carried: list[Any]
    scanned: list[np.ndarray] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    block_bytes: int = 1 << 19
    captured: dict[str, np.ndarray] = field(default_factory=dict)


def contents(seed: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Small numbers; quarters where there are fractions."""
    numbers = np.random.default_rng(seed).integers(-8, 9, shape)
    if dtype == BOOL:
        return np.asarray(numbers > 0)
    return np.asarray(numbers / 4 if dtype.kind == "f" else np.abs(numbers) if dtype.kind == "u" else numbers, dtype)


class Drawing:
    """A graph being drawn: its nodes and what is in scope.  Captures are made on the way, for all levels."""

    def __init__(self, draw: Any, exact: bool, count: int) -> None:
        self.draw, self.exact, self.count = draw, exact, count
        self.names = Names()
        self.scope: list[Value] = []
        self.nodes: list[NodeProto] = []
        self.captured: dict[str, np.ndarray] = {}
        self.index: Value | None = None

    def inner(self) -> Drawing:
        """A graph inside this one, which sees what is in scope."""
        other = Drawing(self.draw, self.exact, self.count)
        other.names, other.captured, other.index = self.names, self.captured, self.index
        other.scope = list(self.scope)
        return other

    def add(self, op: str, inputs: list[str], kind: np.dtype, size: tuple[int, ...], **attrs: Any) -> Value:
        """A node and its output."""
        output = Value(self.names.new(), kind, size)
        self.nodes.append(helper.make_node(op, inputs, [output.name], **attrs))
        self.scope.append(output)
        return output

    def constant(self, value: Any, dtype: np.dtype = INT) -> str:
        """A constant, which does not come into scope."""
        name, array = self.names.new(), np.asarray(value, dtype)
        tensor = helper.make_tensor(name, CODES[dtype], array.shape, array.ravel().tolist())
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def table(self, shape: tuple[int, ...], dtype: np.dtype = DOUBLE) -> str:
        """A captured array of numbers."""
        name = f"t{len(self.captured)}"
        seed = self.draw(st.integers(0, 5))
        self.captured[name] = contents(seed, shape, dtype)
        return name

    def one_of(self, *dtypes: np.dtype, shapes: Any = None) -> Value | None:
        """A value in scope of one of these types, or None."""
        found = [v for v in self.scope if v.dtype in dtypes and (shapes is None or v.shape in shapes)]
        return self.draw(st.sampled_from(found)) if found else None

    def pair(self, *dtypes: np.dtype) -> tuple[Value, Value, tuple[int, ...]] | None:
        """Two values of one type that can be broadcast, and the shape they give."""
        first = self.one_of(*dtypes)
        second = self.one_of(first.dtype) if first else None
        if first is None or second is None:
            return None
        try:
            return first, second, np.broadcast_shapes(first.shape, second.shape)
        except ValueError:
            return None


# One operator each: a function that adds a node if something in scope fits it


def unary(*ops: str, dtypes: tuple[np.dtype, ...] = (DOUBLE,)) -> Callable[[Drawing], None]:
    """Operators of one value that keep its type and shape."""

    def add(d: Drawing) -> None:
        if x := d.one_of(*dtypes):
            d.add(d.draw(st.sampled_from(ops)), [x.name], x.dtype, x.shape)

    return add


def binary(*ops: str, dtypes: tuple[np.dtype, ...] = (DOUBLE,), result: np.dtype | None = None) -> Callable[[Drawing], None]:
    """Operators of two values, with broadcasting."""

    def add(d: Drawing) -> None:
        if found := d.pair(*dtypes):
            a, b, shape = found
            d.add(d.draw(st.sampled_from(ops)), [a.name, b.name], result or a.dtype, shape)

    return add


def where(d: Drawing) -> None:
    """Where of a flag and two floats of its shape or a scalar's."""
    flag, found = d.one_of(BOOL), d.pair(*NUMBERS)
    if flag and found:
        try:
            shape = np.broadcast_shapes(flag.shape, found[2])
        except ValueError:
            return
        d.add("Where", [flag.name, found[0].name, found[1].name], found[0].dtype, shape)


def clip(d: Drawing) -> None:
    """Clip between constants, one of which may be left out."""
    if x := d.one_of(DOUBLE):
        low = d.constant(-1.5, DOUBLE) if d.draw(st.booleans()) else ""
        d.add("Clip", [x.name, low, d.constant(2.0, DOUBLE)], DOUBLE, x.shape)


def reduced(*ops: str) -> Callable[[Drawing], None]:
    """A reduction over some axes, kept or not."""

    def add(d: Drawing) -> None:
        x = d.one_of(DOUBLE)
        if x is None or 0 in x.shape:
            return
        axes = d.draw(st.lists(st.sampled_from(range(len(x.shape))), unique=True)) if x.shape else []
        keep = d.draw(st.booleans())
        gone = set(axes or range(len(x.shape)))
        shape = tuple(1 if k in gone else n for k, n in enumerate(x.shape) if keep or k not in gone)
        names = [x.name, d.constant(axes)] if axes else [x.name]
        d.add(d.draw(st.sampled_from(ops)), names, DOUBLE, shape, keepdims=int(keep))

    return add


def arg_max(d: Drawing) -> None:
    """The place of the largest."""
    if x := d.one_of(DOUBLE, shapes=[s for s in SHAPES if s]):
        d.add("ArgMax", [x.name], INT, x.shape[1:], axis=0, keepdims=0)


def by_number(d: Drawing) -> None:
    """A row of a captured table; now and then it is too short, or read from its end."""
    shape = d.draw(st.sampled_from(SHAPES))
    dtype = d.draw(st.sampled_from([DOUBLE, DOUBLE, INT, BOOL, SINGLE, SHORT, BYTE]))
    missing = d.draw(st.sampled_from([0] * 9 + [1]))
    length = max(d.count - missing, 1)
    if len(shape) == 1 and d.draw(st.booleans()):
        d.add("Gather", [d.table((*shape, length), dtype), d.index.name], dtype, shape, axis=1)
    else:
        d.add("Gather", [d.table((length, *shape), dtype), d.index.name], dtype, shape)


def window(d: Drawing) -> None:
    """A slice of a captured table that moves with the iteration number."""
    start, one = d.add("Unsqueeze", [d.index.name, d.constant([0])], INT, (1,)), d.constant([1])
    end = d.add("Add", [start.name, one], INT, (1,))
    width = d.draw(st.sampled_from([(), (3,)]))
    d.add("Slice", [d.table((d.count + 1, *width)), start.name, end.name], DOUBLE, (1, *width))


def prefix(d: Drawing) -> None:
    """The sum of the first numbers of a table: a slice whose length is the iteration number."""
    end = d.add("Unsqueeze", [d.index.name, d.constant([0])], INT, (1,))
    part, total = d.names.new(), Value(d.names.new(), INT, ())
    d.nodes.append(helper.make_node("Slice", [d.table((d.count + 1,), INT), d.constant([0]), end.name], [part]))
    d.nodes.append(helper.make_node("ReduceSum", [part], [total.name], keepdims=0))
    d.scope.append(total)


def number_as_float(d: Drawing) -> None:
    """The iteration number, or another whole number, as another type."""
    if x := d.one_of(INT, SHORT, BYTE):
        dtype = d.draw(st.sampled_from(NUMBERS))
        d.add("Cast", [x.name], dtype, x.shape, to=CODES[dtype])


def flag_as_number(d: Drawing) -> None:
    """True and false as 1 and 0."""
    if x := d.one_of(BOOL):
        dtype = d.draw(st.sampled_from([DOUBLE, INT, SINGLE, SHORT, BYTE]))
        d.add("Cast", [x.name], dtype, x.shape, to=CODES[dtype])


def joined(d: Drawing) -> None:
    """Concat of a value with itself or another of its shape."""
    first = d.one_of(*NUMBERS, shapes=[s for s in SHAPES if s])
    if first:
        second = d.one_of(first.dtype, shapes=[first.shape])
        d.add("Concat", [first.name, second.name], first.dtype, (2 * first.shape[0], *first.shape[1:]), axis=0)


def moved(d: Drawing) -> None:
    """Transpose, Unsqueeze, or Reshape to one axis."""
    if x := d.one_of(*NUMBERS, BOOL):
        how = d.draw(st.sampled_from(["Transpose", "Unsqueeze", "Reshape"]))
        if how == "Transpose":
            d.add(how, [x.name], x.dtype, x.shape[::-1])
        elif how == "Unsqueeze":
            d.add(how, [x.name, d.constant([0])], x.dtype, (1, *x.shape))
        else:
            d.add(how, [x.name, d.constant([-1])], x.dtype, (int(np.prod(x.shape)),))


def first_row(d: Drawing) -> None:
    """An element or row by a constant number, and written back into the first place."""
    if x := d.one_of(DOUBLE, INT, shapes=[s for s in SHAPES if s]):
        row = d.add("Gather", [x.name, d.constant(-1)], x.dtype, x.shape[1:])
        if d.draw(st.booleans()):
            update = d.add("Unsqueeze", [row.name, d.constant([0])], x.dtype, (1, *x.shape[1:]))
            d.add("ScatterND", [x.name, d.constant([[0]]), update.name], x.dtype, x.shape)


def by_place(d: Drawing) -> None:
    """An entry at a place that moves with the iteration number, or that is carried; perhaps written at another place."""
    x = d.one_of(*NUMBERS, shapes=[s for s in SHAPES if s])
    number = d.one_of(INT, shapes=[()])
    if x is None:
        return
    at = d.add("Mod", [(number or d.index).name, d.constant(x.shape[0])], INT, ())
    where = d.add("Unsqueeze", [at.name, d.constant([0])], INT, (1,))
    row = d.add("Gather", [x.name, where.name], x.dtype, (1, *x.shape[1:]))
    if d.draw(st.booleans()):
        new = d.one_of(x.dtype, shapes=[row.shape]) or row
        to = d.constant([[d.draw(st.integers(-x.shape[0], x.shape[0] - 1))]])
        if d.draw(st.booleans()):
            to = d.add("Unsqueeze", [where.name, d.constant([0])], INT, (1, 1)).name
        d.add("ScatterND", [x.name, to, new.name], x.dtype, x.shape)
    elif len(x.shape) == 1 and d.draw(st.booleans()):
        d.add("ScatterElements", [x.name, where.name, row.name], x.dtype, x.shape)


def piece(d: Drawing) -> None:
    """A slice, forwards or backwards."""
    if x := d.one_of(*NUMBERS, BOOL, shapes=[s for s in SHAPES if s]):
        start, end, step = d.draw(st.sampled_from([(0, 9, 1), (1, 9, 1), (-1, 9, 1), (-1, -9, -1), (0, -1, 1), (0, 9, 2)]))
        length = len(range(x.shape[0])[slice(start, end if step > 0 or end > -9 else None, step)])
        d.add("Slice", [x.name, *(d.constant([v]) for v in (start, end, 0, step))], x.dtype, (length, *x.shape[1:]))


def random_numbers(d: Drawing) -> None:
    """Numbers of the run's stream, or of a seed of its own."""
    attrs = {"seed": 3.0} if d.draw(st.sampled_from([False] * 4 + [True])) else {}
    x = d.one_of(DOUBLE)
    if x and d.draw(st.booleans()):
        d.add(d.draw(st.sampled_from(["RandomNormalLike", "RandomUniformLike"])), [x.name], DOUBLE, x.shape, **attrs)
    else:
        d.add(d.draw(st.sampled_from(["RandomNormal", "RandomUniform"])), [], DOUBLE, (3,), shape=[3], dtype=11, **attrs)


def product(d: Drawing) -> None:
    """MatMul with a captured 3 x 3 table or a value of that shape."""
    x, y = d.one_of(DOUBLE, shapes=[(3,), (2, 3), (3, 3)]), d.one_of(DOUBLE, shapes=[(3, 3), (3,)])
    if x is None:
        return
    name, shape = (y.name, y.shape) if y and d.draw(st.booleans()) else (d.table((3, 3)), (3, 3))
    d.add("MatMul", [x.name, name], DOUBLE, x.shape[:-1] + shape[1:])


def summed(d: Drawing) -> None:
    """Softmax or CumSum along the last axis."""
    if x := d.one_of(DOUBLE, shapes=[s for s in SHAPES if s]):
        if d.draw(st.booleans()):
            d.add("Softmax", [x.name], DOUBLE, x.shape, axis=-1)
        else:
            d.add("CumSum", [x.name, d.constant(len(x.shape) - 1)], DOUBLE, x.shape)


def branched(d: Drawing) -> None:
    """An If with a step or two in each branch."""
    flag = d.one_of(BOOL, shapes=[()])
    wanted = d.one_of(*NUMBERS, BOOL)
    if flag is None or wanted is None:
        return
    graphs = []
    for name in ("then", "else"):
        inner = d.inner()
        steps(inner, 3, nested=False)
        result = inner.one_of(wanted.dtype, shapes=[wanted.shape])
        graphs.append(finished(inner, f"{name}_{d.names.new()}", [], [result]))
    d.add("If", [flag.name], wanted.dtype, wanted.shape, then_branch=graphs[0], else_branch=graphs[1])


def looped(d: Drawing) -> None:
    """A Loop of a few iterations that carries one value and collects another."""
    start = d.one_of(*NUMBERS)
    if start is None:
        return
    inner = d.inner()
    number, go, carried = (Value(d.names.new(), *kind) for kind in ((INT, ()), (BOOL, ()), (start.dtype, start.shape)))
    inner.scope += [number, go, carried]
    steps(inner, 3, nested=False)
    out, row = inner.one_of(start.dtype, shapes=[start.shape]), inner.one_of(*NUMBERS, BOOL)
    count = d.draw(st.integers(0, 3))
    graph = finished(inner, f"inner_{d.names.new()}", [number, go, carried], [go, out, row])
    last, rows = Value(d.names.new(), start.dtype, start.shape), Value(d.names.new(), row.dtype, (count, *row.shape))
    d.nodes.append(helper.make_node("Loop", [d.constant(count), "", start.name], [last.name, rows.name], body=graph))
    d.scope += [last] + [rows] * (count > 0)


EXACT = [
    unary("Neg", "Abs", "Sqrt", "Floor", "Ceil", "Round", "Relu", "Sign", "Reciprocal", dtypes=(DOUBLE, SINGLE)),
    unary("Neg", "Abs", "Sign", dtypes=(INT, SHORT)),
    unary("Not", dtypes=(BOOL,)),
    binary("Add", "Sub", "Mul", "Div", "Max", "Min", dtypes=NUMBERS),
    binary("Add", "Sub", "Mul", "Div", dtypes=NUMBERS),
    binary("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual", dtypes=NUMBERS, result=BOOL),
    binary("And", "Or", "Xor", dtypes=(BOOL,)),
    where,
    clip,
    reduced("ReduceMax", "ReduceMin"),
    arg_max,
    branched,
    looped,
]
SMOOTH = [
    unary("Sin", "Cos", "Tanh", "Sigmoid", "Erf", "Softplus", "Neg", "Atan"),
    unary("Sin", "Tanh"),
    binary("Add", "Sub", "Mul"),
    reduced("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceLogSumExp"),
    product,
    summed,
    looped,
]
EITHER = [
    by_number,
    by_number,
    by_place,
    by_place,
    piece,
    by_number,
    window,
    prefix,
    number_as_float,
    flag_as_number,
    joined,
    moved,
    first_row,
    random_numbers,
]


def steps(d: Drawing, most: int, nested: bool = True) -> None:
    """So many nodes at most, about; an operator that nothing fits is left out."""
    table = 2 * (EXACT if d.exact else SMOOTH) + EITHER
    table = [op for op in table if nested or op not in (branched, looped)]
    wanted = len(d.nodes) + d.draw(st.integers(most // 3, most))
    for _ in range(3 * most):
        d.draw(st.sampled_from(table))(d)
        if np.prod(d.scope[-1].shape) > 60:
            d.scope.pop()
        if len(d.nodes) >= wanted:
            break


def finished(d: Drawing, name: str, inputs: list[Value], outputs: list[Value]) -> GraphProto:
    """The graph, its inputs and outputs declared."""
    told = [[helper.make_tensor_value_info(v.name, CODES[v.dtype], v.shape) for v in values] for values in (inputs, outputs)]
    return helper.make_graph(d.nodes, name, *told)
