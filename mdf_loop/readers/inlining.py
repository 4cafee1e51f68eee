"""Model-local functions, written out where they are called.

``onnx.inliner`` does the work.  It loses outputs that no node of their own graph writes (inputs, initializers,
captured values) and outputs that are named twice, so those are made the output of an Identity first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import helper


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without functions of its own."""
    from onnx import inliner

    spelt_out = onnx.ModelProto()
    spelt_out.CopyFrom(model)
    for function in spelt_out.functions:
        function.output[:] = _written_by_nodes(function.node, function.output)
    return inliner.inline_local_functions(spelt_out)


def _written_by_nodes(nodes: Any, outputs: Sequence[str]) -> list[str]:
    """Names for these outputs that are each written by one node; adds the nodes that are missing, inner graphs first."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                names = _written_by_nodes(graph.node, [value.name for value in graph.output])
                for value, name in zip(graph.output, names, strict=True):
                    value.name = name
    written = {name for node in nodes for name in node.output}
    names = []
    for k, name in enumerate(outputs):
        if name not in written or name in names:
            nodes.append(helper.make_node("Identity", [name], [f"{name} as output {k}"]))
            name = f"{name} as output {k}"
        names.append(name)
    return names
