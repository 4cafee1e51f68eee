"""Repairing models that MDF's ONNX importer wrote.

``onnx_to_mdf`` writes models that MDF cannot run where they have loops, and others with names as exporters give them.
:func:`repaired` puts right what can be put right:

* ids that are no Python names (``x.3``, ``/A/Add``), which MDF's expressions cannot read
  (:mod:`mdf_loop.convert.identifiers`);
* output ports that are all bound to the whole value of a function with several results: they become ``f[0]``, ``f[1]``;
* shapes that are null or have names for dimensions (:mod:`mdf_loop.convert.importer`);
* branches without a signature that have one output port which no edge leaves: it is their output;
* values that a body captures and its node does not have: they become input ports, with an edge from their source.

What is lost cannot be put right.  The importer keeps the nodes of a body, and neither its inputs nor its outputs: a body
of a Loop or Scan is refused, unless its metadata names them.  The importer also drops the values of initializers, so a
model reads names that nothing gives a value.  Inputs of the model look just the same in the file: both become input ports
marked as ``required`` in their metadata, and running the model without a value for one of them is an error that says so.

A model that is fine comes back equal, and one whose graphs say types, which :func:`mdf_loop.convert` wrote, is fine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import onnx

from mdf_loop.convert.identifiers import rename
from mdf_loop.convert.importer import (
    CONTROL,
    bodies_of,
    check_imported,
    graphs_in,
    is_imported,
    open_bodies,
    repair_shapes,
)
from mdf_loop.errors import LoopError, MalformedBody, UnsupportedOp, malformed
from mdf_loop.readers import read
from mdf_loop.readers.mdf.graph_objects import check_structure
from mdf_loop.readers.mdf.signature import ports_of, said_names
from mdf_loop.readers.mdf.typed import function_of, is_typed
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET
from mdf_loop.types.schemas import schema_of, version_in

REQUIRED = "required"
"""In the metadata of an input port: the model cannot run without a value for it."""

MANY = 1 << 31
"""Results of a function that may have as many as one likes."""

MODEL = "ONNX Model"
"""What the importer calls every model."""

ATTRIBUTES = ("num_scan_inputs", "scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")


def repaired(model: Any, where: str) -> Any:
    """A model that MDF's importer wrote, so that it runs; the one given is not changed.

    Parameters
    ----------
    model : modeci_mdf.mdf.Model
    where : str
        The file it comes from, for messages.

    Raises
    ------
    MalformedBody
        Information that a loop needs was lost when the model was written; says what, and what to do.
    UnsupportedOp
        MDF's engine cannot run a function of it.
    """
    with malformed("this model cannot be read", (where,)):
        check_structure(model, (where,))
        return model if model.graphs and all(map(is_typed, model.graphs)) else _repaired_copy(copy.deepcopy(model), where)


def _repaired_copy(model: Any, where: str) -> Any:
    """The same model, repaired."""
    opened = [body for graph in model.graphs for body in open_bodies(graph)]
    graphs = [inner for graph in model.graphs for inner in graphs_in(graph)]
    opset = _opset(model, [graph for graph in graphs if graph not in model.graphs])
    for graph in model.graphs:
        _repair_graph(graph, (where, graph.id), opset)
        if is_imported(graph) and (model.id == MODEL or any("types" in (inner.metadata or {}) for inner in graphs_in(graph))):
            _check_engine(graph, (where, graph.id))
            _require(graph)
    for graph in graphs:
        repair_shapes(graph)
    rename(graphs, any(map(is_imported, model.graphs)))
    for body in reversed(opened):
        body.close()
    return model


def _repair_graph(graph: Any, path: tuple[str, ...], opset: int) -> None:
    """Repair a graph and the bodies in it."""
    imported = is_imported(graph)
    if imported:
        check_imported(graph, path)
        for node in graph.nodes:
            _bind_outputs(node)
    for node in graph.nodes:
        for key, body in bodies_of(node):
            where = (*path, node.id, key)
            _repair_graph(body, where, opset)
            if is_imported(body) and not is_signed(body):
                _sign(node, body, opset, where)
            said = body.metadata or {}
            if imported and "outputs" in said and ("inputs" in said or _kind(node) == "branch"):
                _connect(graph, node, body)
        if imported:
            _bind_one_output(node)


def _kind(node: Any) -> str:
    return {"onnx::Loop": "loop", "onnx::Scan": "scan"}.get(function_of(node).function, "branch")


def _bind_outputs(node: Any) -> None:
    """Several output ports bound to the whole value of one function with several results: to one result each."""
    function = function_of(node)
    is_whole = all(port.value == function.id for port in node.output_ports)
    if len(node.output_ports) > 1 and is_whole and _most_results(node) > 1:
        for k, port in enumerate(node.output_ports):
            port.value = f"{function.id}[{k}]"


def _bind_one_output(node: Any) -> None:
    """One output port bound to the whole value of a loop with several results: to the first."""
    function = function_of(node)
    is_whole = len(node.output_ports) == 1 and node.output_ports[0].value == function.id
    if function.function in CONTROL and is_whole and 1 < _most_results(node) < MANY:
        node.output_ports[0].value = f"{function.id}[0]"


def _most_results(node: Any) -> int:
    """How many results a function may have; as many as one likes where a body does not say it."""
    function = function_of(node)
    op = function.function.removeprefix("onnx::")
    if function.function not in CONTROL:
        return onnx.defs.get_schema(op).max_output if onnx.defs.has(op) else 1
    sources = [p.value for p in node.parameters if p.id in CONTROL[function.function]]
    sources += [source for source in (function.args or {}).values() if isinstance(source, dict)]
    if any(not is_signed(body) for _, body in bodies_of(node)):
        return MANY
    try:
        counts = [len(read(source, len(_inputs(node)) - _scanned(node), _kind(node)).outputs) for source in sources]
    except LoopError:  # said when the loop runs
        return MANY
    return min(counts, default=MANY) - (_kind(node) == "loop")


def _inputs(node: Any) -> dict[str, Any]:
    """The arguments of a loop's node that are carried or scanned."""
    function = function_of(node)
    others = {"M", "cond", *CONTROL[function.function], *ATTRIBUTES}
    return {key: source for key, source in (function.args or {}).items() if key not in others}


def _scanned(node: Any) -> int:
    count = _parameter(node, "num_scan_inputs") if _kind(node) == "scan" else 0
    return count if isinstance(count, int) else 0


def _parameter(node: Any, name: str) -> Any:
    return next((p.value for p in node.parameters if p.id == name), None)


def is_signed(graph: Any) -> bool:
    """Whether a graph says something of its signature."""
    return any(key in (graph.metadata or {}) for key in ("inputs", "outputs"))


def _sign(node: Any, body: Any, opset: int, path: tuple[str, ...]) -> None:
    """Name the output of a branch in its metadata, where there can be only one.

    Raises
    ------
    MalformedBody
        The file does not say which ports are the inputs and outputs of the body.
    """
    ports, kind = ports_of(body), _kind(node)
    ends = [port for _, port in ports.ends]
    if kind != "branch" or len(ends) != 1 or len(node.output_ports) != 1:
        raise MalformedBody(_lost(kind, list(dict.fromkeys(port for _, port in ports.needy)), ends, opset), path)
    body.metadata = {**(body.metadata or {}), "outputs": ends, "opset": opset, "types": {}}


def _lost(kind: str, needy: list[str], ends: list[str], opset: int) -> str:
    """What to do about a body whose signature was lost, with the graph's own names."""
    inputs = {"loop": ["iteration", "condition", *needy], "scan": needy}.get(kind)
    outputs = ["condition", *ends] if kind == "loop" else ends
    first = "" if inputs is None else f"inputs: {_yaml(inputs)}, "
    return (
        "MDF's importer did not write which ports of this graph are the inputs and outputs of the body. Convert the .onnx file "
        'itself: mdf_loop.convert("model.onnx", "model.yaml"); or run it: mdf_loop.run("model.onnx"). Without that file, name '
        f"the ports in the graph, in their order: metadata: {{{first}outputs: {_yaml(outputs)}, opset: {opset}, types: {{}}}}, "
        "without those that the body reads from around it"
    )


def _yaml(names: list[str]) -> str:
    import yaml

    return yaml.safe_dump(names, default_flow_style=True, allow_unicode=True, width=1 << 20).strip()


def _connect(graph: Any, node: Any, body: Any) -> None:
    """Give a node the values that its body captures: an input port each, with an edge where another node gives it."""
    from modeci_mdf.mdf import Edge, InputPort

    said = set(said_names(body, "inputs") or ())
    for owner, name in ports_of(body).needy:
        if name in said or any(port.id == name for port in node.input_ports):
            continue
        inner = next(port for other in body.nodes if other.id == owner for port in other.input_ports if port.id == name)
        added = InputPort(id=name, shape=inner.shape, type=inner.type, metadata=copy.deepcopy(inner.metadata))
        node.input_ports.append(added)
        for sender, port in _sources(graph, name):
            edge = f"{sender}.{port}_{node.id}.{name}"
            graph.edges.append(Edge(id=edge, sender=sender, sender_port=port, receiver=node.id, receiver_port=name))


def _sources(graph: Any, name: str) -> Iterator[tuple[str, str]]:
    return ((node.id, port.id) for node in graph.nodes for port in node.output_ports if port.id == name)


def _check_engine(graph: Any, path: tuple[str, ...]) -> None:
    """See that MDF's engine can give the results of each function that it runs."""
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    for node in graph.nodes:
        name = function_of(node).function
        if name in CONTROL or len(node.output_ports) < 2:
            continue
        op = name.removeprefix("onnx::")
        if onnx.defs.has(op) and onnx.defs.get_schema(op).outputs[-1].option == variadic:
            raise UnsupportedOp(
                f"{'/'.join((*path, node.id))}: MDF's engine runs {name} with a single output; run the .onnx file itself with "
                "mdf_loop.run"
            )


def _require(graph: Any) -> None:
    """Mark the input ports that nothing gives a value: MDF would take zeros for them."""
    needy = set(ports_of(graph).needy)
    for node in graph.nodes:
        for port in node.input_ports:
            if (node.id, port.id) in needy:
                port.metadata = {**(port.metadata or {}), REQUIRED: True}


def _opset(model: Any, bodies: list[Any]) -> int:
    """The version of ONNX that all operators in bodies are written for; the usual one where it may be that."""
    written, newest = model.onnx_opset_version, onnx.defs.onnx_opset_version()
    said = version_in(int(written) if isinstance(written, str) and written.isdecimal() else written)
    versions = [*([] if said is None else [said]), DEFAULT_OPSET, *range(DEFAULT_OPSET + 1, newest + 1)]
    versions += range(DEFAULT_OPSET - 1, 0, -1)
    nodes = [node for body in bodies for node in body.nodes if function_of(node) is not None]
    return next((version for version in versions if all(_fits(node, version) for node in nodes)), DEFAULT_OPSET)


def _fits(node: Any, opset: int) -> bool:
    """Whether a node is written for a version of ONNX: it has these attributes, and so many inputs."""
    function = function_of(node)
    schema = schema_of(function.function.removeprefix("onnx::"), opset)
    if schema is None:
        return False
    if function.function in CONTROL:
        return True
    used = {source for source in (function.args or {}).values() if isinstance(source, str)}
    attributes = {p.id for p in node.parameters if p is not function and p.id not in used}
    count = len([key for key in function.args or {} if key not in attributes])
    return attributes <= set(schema.attributes) and count <= schema.max_input and len(node.output_ports) <= schema.max_output
