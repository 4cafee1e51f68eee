"""Random loop bodies in which what is carried becomes something else: drawn by hypothesis, written as ONNX text.

All shapes broadcast with each other, so that any value may take the place of any other: a carried value gets another shape
or rank once, in some iteration, now and then, or each time.  All numbers are whole and small, so that every order of adding
them up gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from mdf_bodies import graph, node
from modeci_mdf.mdf import Parameter

from mdf_loop.ir import Body
from mdf_loop.readers import read as read_mdf_graph

SHAPES = [(), (1,), (3,), (2, 3), (1, 3), (2, 1)]
ROWS = 40
BINARY = ("Add", "Sub", "Mul", "Min", "Max")
CONSTANTS = (
    "int64 k0 = {0}, int64 k1 = {1}, int64 k2 = {2}, int64 k7 = {7}, int64 k31 = {31}, bool yes = {1}, double seven = {7}, "
    "double half = {0.5}, int64[1] last = {-1}, int64[1] front = {0}, int64[1] front_end = {1}, double[1] row = {0}, "
    "double[3] three = {1, -2, 3}"
)


@dataclass
class Changing:
    """A body as text, and several calls of it: carried values each, of other shapes in each call."""

    text: str
    calls: list[list[np.ndarray]]
    captured: dict[str, np.ndarray]
    trip_count: int


@dataclass
class _Writer:
    """Statements that have been drawn; ``names`` are the values that the next one may read."""

    draw: st.DrawFn
    prefix: str
    names: list[str]
    index: str = "i"
    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        return f"{self.prefix}{len(self.lines)}"

    def small(self, name: str) -> str:
        """A value brought into a range where nothing is rounded."""
        return self.line(f"Mod <fmod = 1> ({name}, seven)")

    def total(self, name: str) -> str:
        """The sum of a value's elements, which says how many there are."""
        return self.line(f"ReduceSum <keepdims = 0> ({self.line(f'Add ({name}, half)')})")

    def one(self) -> str:
        """A value there is, as often as not one of the latest."""
        return self.draw(st.sampled_from(self.names[-3:] if self.draw(st.booleans()) else self.names))

    def line(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def statement(self) -> None:
        kinds = ["binary"] * 6 + ["relu", "relu", "sum", "largest", "wider", "first", "row", "where"]
        kind = self.draw(st.sampled_from([*kinds, *(["if", "loop", "scan"] if self.depth < 2 else [])]))
        self.names.append(getattr(self, f"_{kind}")())

    def _binary(self) -> str:
        return self.line(f"{self.draw(st.sampled_from(BINARY))} ({self.one()}, {self.one()})")

    def _relu(self) -> str:
        return self.line(f"{self.draw(st.sampled_from(['Relu', 'Neg', 'Identity']))} ({self.one()})")

    def _sum(self) -> str:
        return self.total(self.one())

    def _largest(self) -> str:
        return self.line(f"ReduceMax <keepdims = {self.draw(st.integers(0, 1))}> ({self.one()})")

    def _wider(self) -> str:
        return self.line(f"Unsqueeze ({self._largest()}, front)")

    def _first(self) -> str:
        """The first column: of a row of three, an array of one element is left."""
        return self.line(f"Slice ({self.line(f'Add ({self.one()}, row)')}, front, front_end, last)")

    def other(self, carried: list[str]) -> str:
        """A value that does not come from the iteration before: a row of a table, what is captured, what was carried."""
        name = self.draw(st.sampled_from(["row", "cap", *carried]))
        return self._row() if name == "row" else name

    def _row(self) -> str:
        return self.line(f"Gather (table, {self.index})")

    def condition(self) -> str:
        k = self.draw(st.sampled_from(["k0", "k1", "k2", "k7", "k31"]))
        comparison = self.draw(st.sampled_from(["Less", "Equal", "Greater"]))
        return f"{comparison} ({self.index}, {k})"

    def _where(self) -> str:
        return self.line(f"Where ({self.line(self.condition())}, {self.one()}, {self.one()})")

    def inner(self, prefix: str, *names: str) -> _Writer:
        """A body inside this one, whose values may have the names of others outside that it does not read."""
        known = self.names
        if self.draw(st.booleans()):
            prefix, known = self.prefix, [name for name in known if not name.startswith(self.prefix)]
        return _Writer(self.draw, prefix, [*known, *names], self.index, self.depth + 1)

    def branch(self, name: str) -> str:
        inner = self.inner(f"{self.fresh()}{name[0]}")
        for _ in range(self.draw(st.integers(0, 2))):
            inner.statement()
        out = f"{inner.prefix}out"
        return f"{name} () => ({out}) {{ {' '.join(inner.lines)} {out} = Identity ({inner.one()}) }}"

    def _if(self) -> str:
        condition = self.line(self.condition())
        branches = f"then_branch = {self.branch('then')}, else_branch = {self.branch('other')}"
        return self.line(f"If <{branches}> ({condition})")

    def _loop(self) -> str:
        """An inner loop: its first carried value, or what it collects of it."""
        own = self.fresh()
        inner = self.inner(f"{own}l", f"{own}u", f"{own}v")
        for _ in range(self.draw(st.integers(0, 3))):
            inner.statement()
        outputs = [inner.small(inner.one()), inner.small(inner.one()), inner.total(inner.one())]
        body = (
            f"inner (int64 {own}i, bool {own}go, double[n] {own}u, double[n] {own}v) => "
            f"(bool {own}go_out, {', '.join(outputs)}) {{ {own}go_out = Identity ({own}go) {' '.join(inner.lines)} }}"
        )
        count = self.draw(st.sampled_from(["k1", "k2", "k7", "i"]))
        first, second, rest = f"{own}a", f"{own}b", f"{own}c"
        start = f"Identity ({self.one()})"
        self.lines.append(f"{own}s = {start}")
        self.lines.append(f"{first}, {second}, {rest} = Loop <body = {body}> ({count}, yes, {own}s, {self.one()})")
        return self.draw(st.sampled_from([first, second]))

    def _scan(self) -> str:
        """A Scan over three numbers: its carried value."""
        own = self.fresh()
        inner = self.inner(f"{own}l", f"{own}u", f"{own}x")
        for _ in range(self.draw(st.integers(0, 3))):
            inner.statement()
        outputs = [inner.small(inner.one()), inner.total(inner.one())]
        body = f"over (double[n] {own}u, double {own}x) => ({', '.join(outputs)}) {{ {' '.join(inner.lines)} }}"
        self.lines.append(f"{own}a, {own}b = Scan <num_scan_inputs = 1, body = {body}> ({self.one()}, three)")
        return f"{own}a"


def arrays(draw: st.DrawFn) -> np.ndarray:
    """A value of some shape."""
    shape, start = draw(st.sampled_from(SHAPES)), draw(st.integers(-3, 3))
    return (np.arange(float(np.prod(shape))) + start).reshape(shape)


@st.composite
def changing(draw: st.DrawFn) -> Changing:
    """A body whose carried values change their kinds, with the values for some calls; one of them is a number all the time."""
    carried = [*(f"x{k}" for k in range(draw(st.integers(1, 3)))), "number"]
    captured = {
        "cap": arrays(draw),
        "table": np.array(draw(st.integers(1, 3))) + np.zeros((ROWS, *draw(st.sampled_from(SHAPES)))),
    }
    writer = _Writer(draw, "t", ["cap", *carried])
    for _ in range(draw(st.integers(0, 4))):
        writer.statement()
    writer.names.append(writer.line(f"{draw(st.sampled_from(BINARY))} (x0, number)"))
    for _ in range(draw(st.integers(0, 3))):
        writer.statement()
    outputs = []
    for k, name in enumerate(carried):
        if name == "number":
            source = writer.small(writer.total(writer.one()))
        elif k == 0 or draw(st.booleans()):
            source = writer.other(carried[1:-1])
        else:
            source = writer.small(writer.one())
        writer.lines.append(f"{name}_out = Identity ({source})")
        outputs.append(f"double[n] {name}_out")
    for _ in range(draw(st.integers(0, 2))):
        outputs.append(writer.total(writer.one()) if draw(st.integers(0, 3)) else writer.line(f"Identity ({writer.one()})"))
    ends = draw(
        st.sampled_from(["Identity (go)", "Identity (go)", "Less (i, k31)", f"Less ({writer.total(writer.one())}, seven)"])
    )
    inputs = ", ".join(["int64 i, bool go", *(f"double[n] {name}" for name in carried)])
    lines = f"{' '.join(writer.lines)} go_out = {ends}"
    text = f"changing ({inputs}) => (bool go_out, {', '.join(outputs)}) <{CONSTANTS}> {{ {lines} }}"
    calls = [[*(arrays(draw) for _ in carried[1:]), np.array(1.0)] for _ in range(draw(st.integers(1, 3)))]
    return Changing(text, calls, captured, draw(st.sampled_from([ROWS, ROWS, ROWS, 5, 2])))


# MDF bodies, whose numbers have no types but those that they come with

STARTS = [
    *(1, 2, -3, 2**40, 2**70, 0.5, 2.0, True, False, np.int64(3), np.float64(1.5), np.bool_(True), np.float32(0.5), np.int32(7)),
    *(np.array(2), np.array(0.5), np.array(True), np.array(0.25, np.float32), np.array([1, 2]), np.array([0.5, 1.5])),
    *(np.array([[1.0], [2.0]]), np.array([1, 2], np.int8)),
]
EXPRESSIONS = [
    *("{a}", "{a} + {b}", "{a} - {b}", "({a} * {b}) % 2305843009213693951", "-{a}", "{a} * 0.5", "3 * {a} + 1", "{a} + 1"),
    *("{a} > {b}", "({a} > 1) + {b}", "{a} == {b}", "{a} // 2", "{a} % 3", "({a} * {a} * 3) % 2305843009213693951"),
    *("({a} % 4294967291) * ({b} % 4294967291) * 0.5 + {a}", "({a} % 4294967291) * ({a} % 4294967291) * 5 + 0.5"),
    *("abs({a})", "numpy.abs({a})", "float({a})", "int({a})", "min({a}, {b})", "max({a}, 3)", "{a} if {b} > 1 else {b}"),
    *("numpy.where({a} > {b}, {a}, {b})", "numpy.where({a} > 1, {a} * 0.5, {b} + 1)", "numpy.minimum({a}, {b})"),
    *("numpy.maximum({a}, {b})", "numpy.sum({a})", "numpy.array({a})", "numpy.floor({a})", "numpy.logical_not({a})"),
]


@dataclass
class Untyped:
    """The expressions of a body, and several calls of it: carried values each, of other types in each call."""

    parameters: list[str]
    outputs: list[str]
    calls: list[list[Any]]
    captured: Any

    def body(self) -> Body:
        """The body, read."""
        carried = [f"x{k}" for k in range(len(self.calls[0]))]
        captured = ["cap"] if any("cap" in text for text in (*self.parameters, *self.outputs)) else []
        parameters = [Parameter(id=f"p{k}", value=text) for k, text in enumerate(self.parameters)]
        outputs = {f"o{k}": text for k, text in enumerate(self.outputs)}
        source = graph(
            node("A", [*carried, *captured], outputs, parameters), inputs=("i", "go", *carried), outputs=("go", *outputs)
        )
        return read_mdf_graph(source, len(carried))


@st.composite
def untyped(draw: st.DrawFn) -> Untyped:
    """An MDF body whose carried values change their types, with the values for some calls."""
    carried = [f"x{k}" for k in range(draw(st.integers(1, 4)))]
    names = ["cap", *carried]

    def one() -> str:
        pair = {"a": draw(st.sampled_from(names)), "b": draw(st.sampled_from(names))}
        return draw(st.sampled_from(EXPRESSIONS)).format(**pair)

    parameters = []
    for k in range(draw(st.integers(0, 3))):
        parameters.append(one())
        names.append(f"p{k}")
    outputs = [draw(st.sampled_from(names)) if draw(st.booleans()) else one() for _ in carried]
    seen = [f"({one()}) > 1" for _ in range(draw(st.integers(0, 2)))]
    calls = [[draw(st.sampled_from(STARTS)) for _ in carried] for _ in range(draw(st.integers(1, 3)))]
    return Untyped(parameters, [*outputs, *seen], calls, draw(st.sampled_from(STARTS)))
