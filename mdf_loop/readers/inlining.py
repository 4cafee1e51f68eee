"""Model-local functions, written out where they are called.

``onnx.inliner`` does the work.  It loses outputs that no node of their own graph writes (inputs, initializers,
captured values) and outputs that are named twice, so those are made the output of an Identity first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx
from onnx import helper

from mdf_loop.errors import MalformedBody

SOME_BYTES, PER_BYTE, PER_NODE = 1 << 24, 16, 64
"""Written out, a model may take so many bytes whatever its size, and so many more for each byte of it; a node counts for so many
more than it has."""

Key = tuple[str, str, str]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without functions of its own.

    Raises
    ------
    MalformedBody
        A function calls itself, or the functions, written out, are many times larger than the model.
    """
    from onnx import inliner

    _refuse_explosion(model)
    spelt_out = onnx.ModelProto()
    spelt_out.CopyFrom(model)
    for function in spelt_out.functions:
        function.output[:] = _written_by_nodes(function.node, function.output)
    try:
        return inliner.inline_local_functions(spelt_out)
    except Exception as error:  # its own, which derive from nothing else
        told = " ".join(str(error).split())
        raise MalformedBody(f"the functions of the model cannot be written out: {told}", (model.graph.name,)) from error


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


def _refuse_explosion(model: onnx.ModelProto) -> None:
    """See how large a model gets before functions that call functions are written out."""
    functions: dict[Key, onnx.FunctionProto] = {_key(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[Key, int] = {}
    most = SOME_BYTES + PER_BYTE * model.ByteSize()
    for key in _called_first(functions):
        sizes[key] = _written_out(functions[key].node, sizes)
    if (size := _written_out(model.graph.node, sizes)) > most:
        raise MalformedBody(
            f"the functions of the model, written out where they are called, take about {size} bytes; {most} are the most for a "
            f"model of {model.ByteSize()}",
            (model.graph.name,),
        )


def _key(domain: str, name: str, overload: str) -> Key:
    return "" if domain == "ai.onnx" else domain, name, overload


def _called_first(functions: dict[Key, onnx.FunctionProto]) -> list[Key]:
    """The functions, each behind those that it calls."""
    calls = {
        key: {called for node in _all_nodes(f.node) if (called := _key(node.domain, node.op_type, node.overload)) in functions}
        for key, f in functions.items()
    }
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        names = " -> ".join("::".join(filter(None, key)) for key in error.args[1])
        raise MalformedBody(f"a function of the model calls itself: {names}") from error


def _written_out(nodes: Any, sizes: Mapping[Key, int]) -> int:
    """About how many bytes nodes take once functions of known sizes stand where they are called."""
    return sum(PER_NODE + node.ByteSize() for node in nodes) + sum(
        sizes.get(_key(node.domain, node.op_type, node.overload), 0) for node in _all_nodes(nodes)
    )


def _all_nodes(nodes: Any) -> Iterator[onnx.NodeProto]:
    """Nodes, and those in the graphs of their attributes."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                todo += graph.node
