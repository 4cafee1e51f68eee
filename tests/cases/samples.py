"""Operators with inputs: ONNX's own node cases, and ours for what has none: (op or domain::op, opset, inputs, attributes)."""

from collections.abc import Iterator
from typing import Any

from node_cases import single_node_cases
from samples_arithmetic import SAMPLES as ARITHMETIC
from samples_expression import SAMPLES as EXPRESSION
from samples_linear import SAMPLES as LINEAR
from samples_openvino import SAMPLES as OPENVINO
from samples_shaping import SAMPLES as SHAPING

from mdf_loop.ir import Node
from mdf_loop.readers.onnx.graph import read_model

SAMPLES = [*ARITHMETIC, *SHAPING, *LINEAR, *EXPRESSION, *OPENVINO]


def single_nodes() -> Iterator[tuple[str, Node, list[Any]]]:
    """(name, node, inputs) of each case."""
    for name, case in single_node_cases().items():
        body = read_model(case.model)
        if body.nodes:
            (node,) = body.nodes
            given = dict(zip(body.inputs, case.data_sets[0][0], strict=False))
            yield name, node, [given.get(n, body.constants.get(n)) if n else None for n in node.inputs]
    for k, (name, opset, values, attrs) in enumerate(SAMPLES):
        domain, _, op = name.rpartition("::")
        names = tuple("" if v is None else f"x{i}" for i, v in enumerate(values))
        yield f"sample_{k}_{op}", Node(op, names, ("y",), attrs, opset=opset, domain=domain), list(values)
