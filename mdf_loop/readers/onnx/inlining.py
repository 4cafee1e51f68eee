"""Model-local functions, written out where they are called.

``onnx.inliner`` does the work.  It loses outputs that no node of their own graph writes (inputs, initializers,
captured values) and outputs that are named twice, so those are made the output of an Identity first.  It reads no
defaults of attributes, so calls are given them.  It wants nodes in an order in which they can run, and leaves functions
alone that import other versions than the model: so the nodes are sorted, and the domains of those nodes say their version
while it works (see :mod:`mdf_loop.readers.onnx.opsets`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx
from onnx import helper
from onnx.defs import onnx_opset_version

from mdf_loop.errors import MalformedBody, let_through
from mdf_loop.ir import Node, ValueType
from mdf_loop.ir.well_formed import in_order
from mdf_loop.readers.onnx.opsets import every_node, graphs_of, imported, marked, own_domain
from mdf_loop.types.schemas import schema_of
from mdf_loop.writers.onnx_graph import write_node, write_type

SOME_BYTES, PER_BYTE, PER_NODE = 1 << 24, 16, 64
"""Written out, a model may take so many bytes whatever its size, and so many more for each byte of it; a node counts for so many
more than it has."""

Key = tuple[str, str, str]


def inline_functions(model: onnx.ModelProto, opsets: Mapping[str, int]) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A model without functions of its own, and the versions of the domains that its nodes use.

    Raises
    ------
    MalformedBody
        Functions call each other in a circle, are many times larger than the model once they are written out, or cannot be
        written out for another reason.
    """
    path = (model.graph.name or "model",)
    _refuse_explosion(model)
    spelt_out = _copy(model, path)
    local = {(own_domain(function.domain), function.name) for function in model.functions}
    versions, marks = dict(opsets), set[tuple[str, int]]()
    for function in spelt_out.functions:
        where = (*path, function.name)
        own = imported(function.opset_import, where)
        for domain, version in own.items():
            versions.setdefault(domain, version)
        marks |= _marked(function, {domain: version for domain, version in own.items() if versions[domain] != version}, local)
        _sort(function.node, where)
        function.output[:] = _written_by_nodes(function.node, function.output)
    _sort(spelt_out.graph.node, path)
    everywhere = {**versions, **{marked(*mark): mark[1] for mark in marks}, **{domain: 1 for domain, _ in local}}
    for holder in (spelt_out, *spelt_out.functions):
        del holder.opset_import[:]
        holder.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in everywhere.items())
    return _inlined(spelt_out, path), versions


def _copy(model: onnx.ModelProto, path: tuple[str, ...]) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    try:
        copied.CopyFrom(model)
    except Exception as error:  # protobuf's own, for what is nested too deep
        let_through(error)
        raise MalformedBody(f"the model cannot be copied: {error}", path) from error
    return copied


def _give_defaults(model: onnx.ModelProto) -> bool:
    """Write the attributes that calls leave out, where functions have defaults for them; whether some can be known only later.

    A call in a function may pass on an attribute that the function itself is not given, and has no default for.
    """
    defaults = {_key(f.domain, f.name, f.overload): f.attribute_proto for f in model.functions if f.attribute_proto}
    are_open = False
    for holder in (model.graph, *model.functions) if defaults else ():
        for node in every_node(holder.node):
            left_out = {x.name: x for x in defaults.get(_key(node.domain, node.op_type, node.overload), ())}
            passed_on = [x.ref_attr_name for x in node.attribute if left_out.pop(x.name, None) is not None]
            node.attribute.extend(left_out.values())
            are_open |= holder is not model.graph and not set(passed_on).isdisjoint(holder.attribute)
    return are_open


def _inlined(model: onnx.ModelProto, path: tuple[str, ...]) -> onnx.ModelProto:
    from onnx import inliner

    try:
        while _give_defaults(model) and (outer := _called_by_none(model.functions)):
            model = inliner.inline_selected_functions(model, outer)
        return inliner.inline_local_functions(model)
    except Exception as error:  # its own, which derive from nothing else
        let_through(error)
        found = " ".join(str(error).split())
        raise MalformedBody(f"the functions of the model cannot be inlined: {found}", path) from error


def _called_by_none(functions: Sequence[onnx.FunctionProto]) -> list[tuple[str, str]]:
    """The functions that no other function calls."""
    called = {(own_domain(node.domain), node.op_type) for f in functions for node in every_node(f.node)}
    return [(f.domain, f.name) for f in functions if (own_domain(f.domain), f.name) not in called]


def _marked(function: Any, others: Mapping[str, int], local: set[tuple[str, str]]) -> set[tuple[str, int]]:
    """Let the nodes of a function say their versions where these are not the model's."""
    marks = set()
    for node in every_node(function.node):
        domain = own_domain(node.domain)
        if domain in others and (domain, node.op_type) not in local:
            node.domain = marked(domain, others[domain])
            marks.add((domain, others[domain]))
    return marks


def _sort(nodes: Any, path: tuple[str, ...]) -> None:
    """Bring the nodes of a graph, and of all graphs in it, into an order in which they can run."""
    for node in nodes:
        for graph in graphs_of(node):
            _sort(graph.node, (*path, node.name or node.op_type))
    ordered = in_order(nodes, _reads, lambda node: node.output, lambda node: node.name or node.op_type, path)
    if ordered is not nodes:
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in ordered]
        del nodes[:]
        nodes.extend(copies)


def _reads(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, and those that graphs in it read and do not write."""
    names = set(node.input)
    for graph in graphs_of(node):
        local = {value.name for value in (*graph.input, *graph.initializer)}
        local |= {name for other in graph.node for name in other.output}
        names |= {value.name for value in graph.output}.union(*map(_reads, graph.node)) - local
    return names


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
            f"the inlined functions of the model take about {size} bytes; {most} are the most for a model of {model.ByteSize()}",
            (model.graph.name,),
        )


def _key(domain: str, name: str, overload: str) -> Key:
    return own_domain(domain), name, overload


def _called_first(functions: dict[Key, onnx.FunctionProto]) -> list[Key]:
    """The functions, each behind those that it calls."""
    calls = {
        key: {called for node in every_node(f.node) if (called := _key(node.domain, node.op_type, node.overload)) in functions}
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
        sizes.get(_key(node.domain, node.op_type, node.overload), 0) for node in every_node(nodes)
    )


def written_out(node: Node, types: Sequence[ValueType | None]) -> onnx.ModelProto | None:
    """An operator of ONNX as a model of other operators, as its schema says it for inputs of these types; None if it does not.

    An input that is left out has no type, and is no input of the model.
    """
    schema = schema_of(node.op, node.opset, node.domain)
    if schema is None or not schema.has_context_dependent_function:
        return None
    said = [onnx.TypeProto() if kind is None else write_type(kind) for kind in types]
    text = schema.get_context_dependent_function(write_node(node).SerializeToString(), [x.SerializeToString() for x in said])
    function = onnx.FunctionProto.FromString(text)
    for inner in every_node(function.node):
        inner.domain = own_domain(inner.domain)
    versions = {"": onnx_opset_version(), **{own_domain(entry.domain): entry.version for entry in function.opset_import}}
    inputs = [name for name, kind in zip(function.input, types, strict=False) if kind is not None]
    untyped = [[helper.make_value_info(x, onnx.TypeProto()) for x in names] for names in (inputs, function.output)]
    graph = helper.make_graph(function.node, node.op, untyped[0], untyped[1][: len(node.outputs)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in versions.items()])
