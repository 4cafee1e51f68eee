"""A graph being drawn: every node is tried on the values of a first iteration, and stays if it can be computed there."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TypeProto, defs, helper, numpy_helper

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.types.elements import CODES

from . import contents

OPSET = 21
IMPORTS = (("", OPSET), ("ai.onnx.ml", 4))
MOST_ELEMENTS = 96
"""Of a value in the first iteration."""


@dataclass(frozen=True, eq=False)
class Value:
    """A value in scope: its name, what it is in the first iteration, and what is known of it.

    ``exact``: every engine gives its bits.  ``roots``: the names of the carried values it depends on.
    """

    name: str
    sample: Any
    exact: bool = True
    roots: frozenset[str] = frozenset()

    @property
    def dtype(self) -> np.dtype | None:
        """The element type; None for a sequence."""
        return None if isinstance(self.sample, list) else self.sample.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the first iteration; that of a sequence is its length."""
        return (len(self.sample),) if isinstance(self.sample, list) else self.sample.shape


class Drawing:
    """Nodes and what is in scope; captured values are made on the way, for all levels."""

    def __init__(self, choose: random.Random, exact: bool, count: int, special: float) -> None:
        self.choose, self.exact, self.count, self.special = choose, exact, count, special
        self.names = iter(f"v{k}" for k in range(1 << 30))
        self.scope: list[Value] = []
        self.nodes: list[NodeProto] = []
        self.outer: dict[str, Any] = {}
        self.captured: dict[str, Any] = {}
        self.index: Value = Value("", np.int64(0))
        self.depth = 0
        self.types = [contents.element_type(choose) for _ in range(choose.choice([1, 2, 2, 3]))]
        self.shapes = choose.choice(contents.FAMILIES)

    def inner(self) -> Drawing:
        """A graph inside this one, which sees what is in scope."""
        other = Drawing(self.choose, self.exact, self.count, self.special)
        other.names, other.captured, other.index = self.names, self.captured, self.index
        other.scope, other.depth = list(self.scope), self.depth + 1
        other.types, other.shapes = self.types, self.shapes
        other.outer = {value.name: value.sample for value in self.scope}
        return other

    # What there is

    def any(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """A value in scope that fits, more often one that is carried and a late one; None if there is none."""
        found = [value for value in self.scope if fits(value)]
        rounds = [value for value in found if value.roots]
        found = rounds if rounds and self.choose.random() < 0.6 else found
        if not found:
            return None
        return found[max(self.choose.randrange(len(found)), self.choose.randrange(len(found)))]

    def tensor(self, *kinds: str, ranks: Sequence[int] | None = None, exact: bool = False) -> Value | None:
        """A tensor in scope whose element type is of one of the kinds (numpy's letters) and whose rank fits."""

        def fits(value: Value) -> bool:
            if value.dtype is None or (exact and not value.exact):
                return False
            kind = "f" if value.dtype.kind == "V" else value.dtype.kind
            return (not kinds or kind in kinds) and (ranks is None or len(value.shape) in ranks)

        return self.any(fits)

    def like(self, value: Value, same_shape: bool = False) -> Value:
        """A value in scope of the same element type; the value itself if there is no other."""
        found = self.any(lambda v: v.dtype == value.dtype and (not same_shape or v.shape == value.shape))
        return found or value

    def capture(self, value: Any) -> Value:
        """A new captured value; not in scope."""
        name = f"t{len(self.captured)}"
        self.captured[name] = value
        return Value(name, value)

    def constant(self, value: Any, dtype: Any = np.int64) -> Value:
        """A constant; not in scope."""
        made = Value(next(self.names), np.asarray(value, dtype))
        self.nodes.append(helper.make_node("Constant", [], [made.name], value=numpy_helper.from_array(made.sample)))
        return made

    def by_table(self, rows: Sequence[Any], dtype: Any = np.int64) -> Value | None:
        """The row of a captured table that belongs to the iteration: a number, or a vector of numbers."""
        table = self.capture(np.array([*rows, *rows[-1:]], dtype))
        place = self.index
        if self.choose.random() < 0.5:  # never past its end
            place = self.add("Min", [self.index, self.constant(len(rows))]) or self.index
        return self.add("Gather", [table, place])

    # Adding

    def add(self, op: str, inputs: Sequence[Value | None], exact: bool = True, n_outputs: int = 1, **attrs: Any) -> Value | None:
        """A node, if it can be computed; its first output."""
        node = helper.make_node(op, [v.name if v else "" for v in inputs], [next(self.names) for _ in range(n_outputs)], **attrs)
        return self.add_node(node, [v for v in inputs if v], exact)

    def add_node(self, node: NodeProto, inputs: Sequence[Value], exact: bool = True) -> Value | None:
        """The same for a node that was made already; all of its outputs come into scope."""
        if not _allowed(node.op_type, [v.sample for v in inputs]):
            return None
        known = {**self.outer, **self.captured, **{v.name: v.sample for v in [*self.scope, *inputs]}}
        try:
            results = computed(node, known)
        except (LoopError, RecursionError):
            return None
        if any(np.size(result) > MOST_ELEMENTS for result in results if not isinstance(result, list)):
            return None
        is_exact = exact and all(v.exact for v in inputs)
        roots = frozenset().union(*(v.roots for v in inputs), *(v.roots for v in self._read_inside(node)))
        made = [Value(name, r, is_exact or not _rounds(r), roots) for name, r in zip(node.output, results, strict=True) if name]
        self.nodes.append(node)
        self.scope += made
        return made[0]

    def _read_inside(self, node: NodeProto) -> list[Value]:
        read = {name for graph in graphs_of(node) for name in read_names(graph)}
        return [value for value in self.scope if value.name in read]

    def finished(self, name: str, inputs: Sequence[Value], outputs: Sequence[Value], typed: bool = True) -> GraphProto:
        """The graph."""
        told = [helper.make_value_info(v.name, declared(v.sample) if typed else TypeProto()) for v in inputs]
        results = [helper.make_value_info(v.name, TypeProto()) for v in outputs]
        return helper.make_graph(self.nodes, name, told, results)


def declared(sample: Any, shape: Any = None) -> TypeProto:
    """The type of a value, without its shape."""
    if isinstance(sample, list):
        return helper.make_sequence_type_proto(declared(sample[0]) if sample else helper.make_tensor_type_proto(1, None))
    return helper.make_tensor_type_proto(CODES[sample.dtype], shape)


def _rounds(result: Any) -> bool:
    return isinstance(result, list) or result.dtype.kind in "fcV"


def computed(node: NodeProto, known: dict[str, Any]) -> tuple[Any, ...]:
    """What a node gives, run alone by the interpreter."""
    graph = helper.make_graph([node], "alone", [], [helper.make_value_info(name, TypeProto()) for name in node.output if name])
    model = in_model(graph)
    given = {name: known[name] for name in read_names(graph) if name in known}
    with warnings.catch_warnings(), mdf_loop.options(engine="interpret", seed=1, max_iterations=50):
        warnings.simplefilter("ignore")
        results = mdf_loop.if_(True, then_branch=model, else_branch=model, **given)
    return results if isinstance(results, tuple) else (results,)


def in_model(graph: GraphProto, imports: Sequence[tuple[str, int]] = IMPORTS) -> Any:
    """A model that says of which version the operators of a body are."""
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in imports], ir_version=10)


def read_names(graph: GraphProto) -> list[str]:
    """The outer values that a graph reads, in the order in which it does."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    found: list[str] = []
    for node in graph.node:
        inner = [name for g in graphs_of(node) for name in read_names(g)]
        found += [name for name in [*node.input, *inner] if name and name not in own]
        own |= set(node.output)
    found += [value.name for value in graph.output if value.name not in own]
    return list(dict.fromkeys(found))


def graphs_of(node: NodeProto) -> list[GraphProto]:
    """The graphs in a node's attributes."""
    return [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]


@functools.cache
def _types(op: str) -> list[frozenset[str]]:
    """The types that each input of an operator may have; the last one is that of all further ones."""
    schema = defs.get_schema(op, OPSET)
    return [frozenset(formal.types) for formal in schema.inputs]


def _allowed(op: str, samples: Sequence[Any]) -> bool:
    """Whether the schema takes these types."""
    formal = _types(op)
    if op in ("If", "Loop", "Scan") or not formal:
        return True
    return all(_type_text(sample) in formal[min(k, len(formal) - 1)] for k, sample in enumerate(samples))


def _type_text(sample: Any) -> str:
    if isinstance(sample, list):
        return f"seq({_type_text(sample[0])})" if sample else "seq(tensor(float))"
    name = sample.dtype.name
    return f"tensor({ {'float32': 'float', 'float64': 'double', 'object': 'string'}.get(name, name) })"


def fresh(d: Drawing, shape: tuple[int, ...] | None = None, dtype: np.dtype | None = None) -> np.ndarray:
    """New contents; of a type and shape of this drawing, most of the time, if none is said."""
    if dtype is None:
        dtype = d.choose.choice(d.types) if d.choose.random() < 0.85 else contents.element_type(d.choose)
    if shape is None:
        shape = d.choose.choice(d.shapes if d.choose.random() < 0.8 else contents.SHAPES)
    return contents.array(d.choose, dtype, shape, d.special)
