"""From a body to a Step whose operators are ONNX's, and on to a body in operators of ONNX alone.

Nodes that are ONNX already stay as they are.  What MDF's expressions compute becomes what it is defined as: in primitives, and
where only the run knows lengths, or a value that says how to arrange, in operators of ONNX (``b.onnx`` of the builder).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.backends.onnx import structural  # noqa: F401  (it fills a table)
from mdf_loop.backends.onnx.emission import Emission
from mdf_loop.backends.onnx.graph_printer import GraphPrinter, declared
from mdf_loop.backends.onnx.whole_operators import OnnxBuilder, kept
from mdf_loop.backends.static_lowering import StaticLowering
from mdf_loop.errors import malformed
from mdf_loop.ir import Body, Loop, Node, ValueType
from mdf_loop.ops.registry import INTERNAL_DOMAINS, Kernel
from mdf_loop.ops.rows import Bound, Call
from mdf_loop.step.build import CannotLower
from mdf_loop.step.check import checked
from mdf_loop.step.loop_types import NO_LIMIT
from mdf_loop.step.lower import Names
from mdf_loop.step.primitives import INT64
from mdf_loop.step.records import Size, Type, Value

LEAST_OPSET = 18
"""Version of ONNX that the operators written here are of; a model may say a later one."""


def lower(body: Body, inputs: Mapping[str, tuple[Any, ValueType]]) -> Body:
    """A body in operators of ONNX alone.

    Parameters
    ----------
    body : Body
        As it was read; what it captures becomes inputs.
    inputs : mapping of str to (sample, ValueType)
        For each input a value that it might have, or None, and what is declared of it.

    Raises
    ------
    UnsupportedOp
        ONNX cannot say something; names it.
    MalformedBody
        The body is broken.
    """
    with malformed("this graph cannot be written in operators of ONNX", (body.name,)):
        lowering = OnnxLowering(max(LEAST_OPSET, _newest(body)), (body.name,))
        params = {}
        for k, (name, (sample, kind)) in enumerate(inputs.items()):
            params[name] = lowering.b.param(_type_of_input(sample, kind), k)
        lowering.b.numbers = {params[name]: sample for name, (sample, _) in inputs.items() if params[name].type.weak}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outputs = lowering.body(body, params)
        region = checked(lowering.b.closed(outputs))
        printer = GraphPrinter(Emission(lowering.opset, path=(body.name,)), lowering.called, lowering.origins)
        for name, param in params.items():
            printer.names[param] = printer.e.fresh(name)
        names = [printer.e.call(made, name) for made, name in zip(printer.region(region), body.outputs, strict=True)]
        written = printer.e.body(body.name, tuple(inputs), names)
    types = {name: declared(x.type) for name, x in zip(written.outputs, outputs, strict=True)}
    return replace(written, types={**types, **{name: kind for name, (_, kind) in inputs.items()}})


def _type_of_input(sample: Any, kind: ValueType) -> Type:
    """The type of an input: a number of Python's stays one; lengths that are not declared may be others than its default has."""
    shape = None if sample is None else np.shape(sample)
    if kind.shape is not None and (shape is None or len(kind.shape) == len(shape)):
        shape = tuple(n if isinstance(n, int) else Size() for n in kind.shape)
    return Type(kind.dtype if sample is None else np.asarray(sample).dtype, shape, weak=type(sample) in (bool, int, float))


def _newest(body: Body) -> int:
    """The newest version of ONNX in a body and those in it."""
    versions = [node.opset for node in body.nodes if node.domain == ""]
    return max([*versions, *(_newest(inner) for node in body.nodes for _, inner in node.bodies)], default=0)


class OnnxLowering(StaticLowering):
    """One graph on its way into a Step whose operators are ONNX's.

    Attributes
    ----------
    called : dict of Value to str
        What values are called in the bodies that they come from.
    first_refused : str
        Why the last node of whose inputs all is known cannot be written: nodes behind it know nothing of theirs.
    """

    b: OnnxBuilder

    def __init__(self, opset: int, path: tuple[str, ...]) -> None:
        super().__init__(path)
        self.b, self.opset = OnnxBuilder(opset), opset
        self.called: dict[Value, str] = {}
        self.first_refused = ""

    def body(self, body: Body, scope: Mapping[str, Value]) -> list[Value]:
        """The values of a body's outputs."""
        for name in (*body.inputs, *body.captures):
            self.called.setdefault(scope[name], name)
        return super().body(body, scope)

    def node(self, node: Node, names: Names) -> Sequence[Value]:
        """The values of a node's outputs."""
        found = super().node(node, names)
        for name, value in zip(node.outputs, found, strict=False):
            if name:
                self.called.setdefault(value, name)
        return found

    def node_of_loop(self, node: Node, bound: Bound, record: Loop, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        """A loop; where only the run knows whether its trip count is a limit, -1 is one that no loop reaches."""
        count, *others = args
        if record.unlimited and count is not None and count.op != "const":
            number = self.b.cast(self.b.reshape(count, ()), INT64)
            count, record = self.b.select(self.b.eq(number, -1), NO_LIMIT, number), replace(record, unlimited=False)
        return super().node_of_loop(node, bound, record, [count, *others], names)

    # Operators

    def _defined(
        self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], make: Call, mark: Sequence[int]
    ) -> Sequence[Value]:
        """What MDF's expressions compute in primitives; an operator of ONNX stays one."""
        if node.domain not in INTERNAL_DOMAINS:
            raise CannotLower("stays an operator")
        found = make(self.b, *args)
        return found if isinstance(found, tuple) else (found,)

    def _folded(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None]) -> Sequence[Value] | None:
        return super()._folded(node, bound, entry, args) if node.domain in INTERNAL_DOMAINS else None

    def _kept(self, node: Node, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        try:
            return kept(self.b, node, args, [names[name] for name in node.captures])
        except CannotLower as error:
            raise self.refusal(node, error) from error

    def _applied(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        if node.domain not in INTERNAL_DOMAINS:
            return self._kept(node, args, names)
        return super()._applied(node, bound, entry, args, names)

    def as_a_whole(self, node: Node, bound: Bound, entry: Kernel, args: Sequence[Value | None], names: Names) -> Sequence[Value]:
        """An operator that has no form."""
        because = f": {self.refused}" if self.refused else ""
        why = node.attrs.get("reason", f"{node.op} has no ONNX operator{because}")
        is_known = all(x is None or x.type.dtype is not None for x in args)
        self.first_refused = why if is_known else self.first_refused or why
        return self.b.unwritten(node, self.first_refused, [x for x in args if x is not None])

    def number_for_now(self, x: Value, type: Type) -> Value:
        """A number that later iterations make an array of, with the type of that array."""
        return self.b.number_for_now(x, type.rank or 0)
