"""Random MDF bodies whose numbers have no types but those that they come with, which change from call to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from mdf_bodies import graph, node
from modeci_mdf.mdf import Parameter

from mdf_loop.ir import Body
from mdf_loop.readers import read as read_mdf_graph

ROWS = 40
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
