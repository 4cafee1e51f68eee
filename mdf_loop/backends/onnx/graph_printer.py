"""A region printed as the nodes of an ONNX graph.

A value of a known element type is a tensor of exactly that type; Python's own numbers are int64, float64 and bool, and those of
which only the run can tell whether they are an int or a float are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.emission import Emission
from mdf_loop.backends.onnx.templates import TEMPLATES, Formulas
from mdf_loop.backends.static_lowering import computed_in, dtype_of
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Node, ValueType
from mdf_loop.step.primitives import BOOL, INT64, PRIMITIVES
from mdf_loop.step.records import Apply, Region, Shape, Type, Value
from mdf_loop.types.elements import CODES

FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


STRUCTURE: dict[str, Callable[[GraphPrinter, Value], Any]] = {}
"""By structural operation: what prints it, and gives the name of the value, or the names of several results."""


def declared(type: Type) -> ValueType:
    """What a graph declares of a value."""
    dtype = dtype_of(type)
    return ValueType() if dtype is None else ValueType(dtype, None if type.shape is None else (None,) * len(type.shape))


class GraphPrinter:
    """One graph.

    Parameters
    ----------
    emission : Emission
    called : mapping of Value to str
        What values are called.
    origins : mapping of Value to Node
        The nodes that values come from.
    outer : GraphPrinter, optional
        That of the graph around it.
    """

    def __init__(
        self, emission: Emission, called: Mapping[Value, str], origins: Mapping[Value, Node], outer: GraphPrinter | None = None
    ) -> None:
        self.e, self.called, self.origins, self.outer = emission, called, origins, outer
        self.names: dict[Value, Any] = {}

    def inside(self, *path: str) -> GraphPrinter:
        """The printer of a graph in this one."""
        return GraphPrinter(Emission(self.e.opset, self.e, (*self.e.path, *path)), self.called, self.origins, self)

    def param(self, value: Value, base: str, kind: ValueType) -> str:
        """The name of a parameter, which is declared as an input."""
        self.names[value] = name = self.e.fresh(self.called.get(value, base))
        self.e.types[name] = kind
        return name

    def region(self, region: Region) -> list[str]:
        """Print the values of a region; the names of its results."""
        for value in region.values:
            self._print(value)
        return [self.of(value) for value in region.results]

    def _print(self, value: Value) -> None:
        wanted = self.called.get(value, "")
        self.e.where = wanted or self.origin(value)
        with np.errstate(all="ignore"):
            found = self._written(value)
        self.names[value] = self.e.call(found, wanted) if wanted and isinstance(found, str) else found

    def name_of_node(self, value: Value) -> str:
        """The name that the node of a loop or branch has already; "" where an operator is defined as one."""
        node = self.origins.get(value)
        return node.name if node is not None and node.bodies else ""

    def origin(self, value: Value) -> str:
        """What the node is called that a value comes from."""
        node = self.origins.get(value)
        return "" if node is None else node.name or next(iter(node.outputs), "")

    def _written(self, value: Value) -> Any:
        if value.op in PRIMITIVES:
            return self._primitive(value)
        if value.op not in STRUCTURE:
            raise self.refusal(value, f"{value.op} has no ONNX operator")
        return STRUCTURE[value.op](self, value)

    def refusal(self, value: Value, why: str) -> UnsupportedOp:
        """The error that a value cannot be written."""
        return UnsupportedOp(f"{'/'.join((*self.e.path, self.origin(value) or self.called.get(value) or self.e.where))}: {why}")

    def found(self, value: Value) -> Any:
        """What a value, or the several results of one, are called."""
        printer: GraphPrinter | None = self
        while printer is not None:
            if value in printer.names:
                return printer.names[value]
            printer = printer.outer
        raise self.refusal(value, f"reads {value!r}, which is written nowhere")

    def of(self, value: Value, dtype: np.dtype | None = None) -> str:
        """The name of a value, in another element type if one is given; "" for None."""
        have = dtype_of(value.type)
        if value.op == "const":
            return self._constant(value, have if dtype is None else dtype)
        name: str = self.found(value)
        return name if dtype is None or dtype == have else self.e.op("Cast", name, to=self.code(value, dtype))

    def code(self, value: Value, dtype: np.dtype | None) -> int:
        if dtype not in CODES:
            raise self.refusal(value, f"ONNX has no element type {dtype}")
        return CODES[dtype]

    def _constant(self, value: Value, dtype: np.dtype | None) -> str:
        if value.attr is None:
            return ""
        name = self.called.get(value, "")
        if dtype is None and isinstance(value.attr, np.ndarray | str):
            return self.e.constant(np.asarray(value.attr, object), name)
        if dtype is None:
            raise self.refusal(value, f"{value.attr!r} is no tensor")
        self.code(value, dtype)
        try:
            array = np.asarray(value.attr).astype(dtype)
        except OverflowError as error:
            raise self.refusal(value, f"a whole number is too large for {dtype}, and others ONNX has not") from error
        return self.e.constant(array, name if array.ndim else "")

    # Elements

    def _primitive(self, value: Value) -> str:
        name = value.op.partition(".")[2] or value.op
        if name not in TEMPLATES:
            node = self.origins.get(value)
            raise self.refusal(value, f"{name if node is None else node.op} has no ONNX operator")
        (dtype, *others), result = computed_in(value), dtype_of(value.type)
        assert result is not None
        dtype = INT64 if dtype == BOOL and name in ("lt", "le", "gt", "ge") else dtype if {dtype}.issuperset(others) else result
        formulas = Formulas(self.e, dtype)
        if name == "round":
            x, *digits = value.args
            made = TEMPLATES[name](formulas, self.of(x, dtype), *(x.attr for x in digits))
        else:
            made = TEMPLATES[name](formulas, *(self.of(x, dtype) for x in value.args))
        given = BOOL if PRIMITIVES[value.op].is_question or name in ("isnan", "isinf", "isfinite") else dtype
        return made if given == result else self.e.op("Cast", made, to=self.code(value, result))

    # Shapes

    def shape(self, value: Value) -> str | np.ndarray:
        """The shape of a ``reshape`` or ``broadcast``: a constant, or put together of its lengths."""
        assert isinstance(value.attr, Shape)
        if all(isinstance(n, int) for n in value.type.shape or ()):
            return np.array(value.type.shape, np.int64)
        lengths = iter(value.args[1:])
        parts = [np.array([n], np.int64) if n is not None else self.row(next(lengths)) for n in value.attr.lengths]
        return self.joined([part if isinstance(part, str) else self.e.constant(part) for part in parts])

    def row(self, number: Value, dtype: np.dtype | None = INT64) -> str:
        """A number as an array of one element."""
        if number.op == "const":
            return self.e.constant(np.array([number.attr], dtype))
        return self.e.op("Unsqueeze", self.of(number, dtype), np.array([0]))

    def joined(self, rows: Sequence[str]) -> str:
        """Arrays of one axis, one behind the other."""
        return rows[0] if len(rows) == 1 else self.e.op("Concat", *rows, axis=0)

    def inlined(self, value: Value, apply: Apply) -> list[str]:
        """The results of an operator that says in primitives what it is."""
        region = apply.definition
        assert region is not None
        for param, x in zip(region.params, value.args, strict=False):
            self.names[param] = self.of(x, dtype_of(param.type))
        return self.region(region)
