"""The one adapter to ``onnx.reference``: it runs the operators that have no kernel of our own.

A node becomes a model of that one node, in the version the node has, with one ``ReferenceEvaluator`` for
all its calls.  Kernels of our own go first: :func:`register_reference_kernels` runs after every other
module and leaves out what they cover.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import UnsupportedOp, let_through
from mdf_loop.ir import Node
from mdf_loop.ops.registry import KERNELS, Kernel, register
from mdf_loop.ops.rows import Bound

SERVED: dict[str, dict[str, int]] = {
    "": {
        "BlackmanWindow": 17,
        "CausalConvWithState": 27,
        "DeformConv": 19,
        "HammingWindow": 17,
        "HannWindow": 17,
        "ImageDecoder": 20,
        "LinearAttention": 27,
        "MelWeightMatrix": 17,
        "RotaryEmbedding": 23,
    },
    "ai.onnx.preview": {"FlexAttention": 1},
    "ai.onnx.preview.training": {"Adagrad": 1, "Adam": 1, "Momentum": 1},
}
"""Every operator served, by domain, with the first version that is: it and all later ones.

``Gradient`` (ai.onnx.preview.training) is not among them: onnx.reference cannot run it, since it
differentiates the graph around it rather than computing something from its inputs.
"""


def refusal(node: Node) -> str | None:
    """Why a node is not handed to onnx.reference, where that would fail late or answer wrongly without a word."""
    if node.captures:
        return f"it runs sub-graphs without the values around them ({', '.join(node.captures)})"
    return None


def register_reference_kernels() -> None:
    """Fill the table of kernels with what is served, save what our own kernels cover."""
    for domain, operators in SERVED.items():
        for op, since in operators.items():
            ours = [entry.since for entry in KERNELS.get((domain, op), ()) if entry.native]
            if not any(first <= since for first in ours):
                register(Kernel(op, since, _not_called, domain=domain, bind=bind, native=False, built_in=True))


def bind(node: Node) -> Bound:
    """The evaluator of a node, made ready once."""
    from onnx.reference import ReferenceEvaluator

    if reason := refusal(node):
        raise UnsupportedOp(f"onnx.reference cannot run this {node.op}: {reason}")
    try:
        evaluator = ReferenceEvaluator(one_node_model(node))
    except Exception as error:
        let_through(error)
        raise UnsupportedOp(f"onnx.reference cannot run {node.op} (version {node.opset}): {error}") from error
    names = _input_names(node)
    places = [k for k, name in enumerate(node.outputs) if name]
    as_declared = _declared_types(node)

    def call(*values: Any) -> tuple[Any, ...]:
        given = {name: as_array(v) for name, v in zip(names, values, strict=True) if name}
        results: list[Any] = [None] * len(node.outputs)
        for place, result in zip(places, evaluator.run(None, given), strict=True):
            results[place] = as_declared(place, as_value(result), values)
        return tuple(results)

    return Bound(call)


def one_node_model(node: Node) -> Any:
    """A model of the node alone."""
    import onnx
    from onnx import helper

    from mdf_loop.writers.onnx_graph import write_node

    inputs, outputs = _input_names(node), _output_names(node)
    proto = write_node(dataclasses.replace(node, inputs=inputs, outputs=outputs))
    untyped = onnx.TypeProto()
    graph = helper.make_graph(
        [proto],
        node.op,
        [helper.make_value_info(name, untyped) for name in inputs if name],
        [helper.make_value_info(name, untyped) for name in outputs if name],
    )
    versions = {"": onnx.defs.onnx_opset_version()}
    for _, body in node.bodies:
        versions.update(body.opsets)
    versions[node.domain] = node.opset
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, v) for domain, v in versions.items()])


def _input_names(node: Node) -> tuple[str, ...]:
    """Names of our own: a node may read one value twice."""
    return tuple(f"input {k}" if name else "" for k, name in enumerate(node.inputs))


def _output_names(node: Node) -> tuple[str, ...]:
    return tuple(f"output {k}" if name else "" for k, name in enumerate(node.outputs))


def as_array(value: Any) -> Any:
    """A value as onnx.reference wants it: arrays in place of numpy's scalars."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def as_value(result: Any) -> Any:
    """A result as the executor wants it: arrays, strings as objects, lists for sequences."""
    if isinstance(result, list):
        return [as_value(r) for r in result]
    if result is None or isinstance(result, dict):
        return result
    array = np.asarray(result)
    return array.astype(object) if array.dtype.kind in "US" else array


def _declared_types(node: Node) -> Any:
    """A function that gives an output the type its schema declares, where onnx.reference is looser."""

    from mdf_loop.types.elements import NAMES, kind_of
    from mdf_loop.types.schemas import schema_of

    schema = schema_of(node.op, node.opset, node.domain)
    if schema is None:
        return lambda place, result, values: result
    first_input = {formal.type_str: k for k, formal in reversed(list(enumerate(schema.inputs)))}

    def declared(place: int, values: Sequence[Any]) -> np.dtype | None:
        kind = schema.outputs[min(place, len(schema.outputs) - 1)].type_str
        if kind.startswith("tensor("):
            return NAMES[kind[len("tensor(") : -1]]
        source = first_input.get(kind)
        value = values[source] if source is not None and source < len(values) else None
        return value.dtype if isinstance(value, np.ndarray | np.generic) else None

    def as_declared(place: int, result: Any, values: Sequence[Any]) -> Any:
        wanted = declared(place, values)
        if wanted is None or not isinstance(result, np.ndarray) or result.dtype == wanted:
            return result
        if "string" in (kind_of(wanted), kind_of(result.dtype)):
            return result
        return result.astype(wanted)

    return as_declared


def _not_called(*_: Any) -> Any:
    raise AssertionError("kernels of onnx.reference run through their bind function")
