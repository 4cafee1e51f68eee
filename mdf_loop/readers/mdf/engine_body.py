"""MDF graphs that stay what they are: one node, which MDF's engine runs.

MDF's engine evaluates texts where it finds them; when it works for us that is done by the list of
:mod:`mdf_loop.readers.expressions.expression_text` (see :mod:`mdf_loop.integrations.no_eval`).  Here each
expression is looked at before anything runs, so that what is not on the list is refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mdf_loop.errors import LoopError, MalformedBody, UnsupportedOp
from mdf_loop.ir import Body, Node, State
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.ir.well_formed import reached
from mdf_loop.readers.expressions.expression_text import is_python, number_in, parse, refuse_texts_in_list
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.node import CONTROL, default_of
from mdf_loop.readers.mdf.node_functions import standard_expression, texts
from mdf_loop.readers.mdf.signature import Port, Signature, ports_of

OP, DOMAIN = "Graph", "mdf.engine"


def engine_body(graph: Any, signature: Signature, reason: str) -> Body:
    """The body that runs a graph through MDF's engine.

    Parameters
    ----------
    graph : modeci_mdf.mdf.Graph
    signature : Signature
    reason : str
        Why operators cannot express it; the node keeps it.

    Raises
    ------
    MalformedBody, UnsupportedOp
        The graph is broken as well.
    """
    check_expressions(graph)
    refuse_hanging(graph)
    fed: dict[str, list[Port]] = {}
    for place, name in signature.fed.items():
        fed.setdefault(name, []).append(place)
    captured: dict[str, list[Port]] = {}
    for place in ports_of(graph).needy:
        if place not in signature.fed:
            captured.setdefault(place[1], []).append(place)
    inputs = [*fed, *captured]
    ports = tuple(tuple(places) for places in (*fed.values(), *captured.values()))
    wanted = tuple(dict.fromkeys(out for out in signature.outputs if isinstance(out, tuple)))
    free = FreshNames((*signature.inputs, *captured))
    names = {out: free.fresh(f"{out[0]}.{out[1]}") for out in wanted}
    engine, engine_out = map(free.fresh, ("engine", "engine after"))
    attrs = {"graph": graph, "inputs": ports, "outputs": wanted, "reason": reason}
    node = Node(OP, (engine, *inputs), (engine_out, *names.values()), attrs, graph.id, 1, DOMAIN)
    outputs = tuple(out if isinstance(out, str) else names[out] for out in signature.outputs)
    return Body(
        graph.id,
        signature.inputs,
        outputs,
        (node,),
        captures=tuple(captured),
        opsets={"": signature.opset, DOMAIN: 1},
        typed=False,
        state=(State(engine, engine_out, None),),
    )


def check_expressions(graph: Any) -> None:
    """Look at every expression of a graph that MDF's engine is to evaluate.

    Raises
    ------
    MalformedBody, UnsupportedOp
        It says something that is not on the list, or calls a function there is none of.
    """
    for node in graph.nodes:
        path = (graph.id, node.id)
        values = ids_of(node)
        for name, source in texts(node):
            if isinstance(source, str) and source not in values and number_in(source) is None and source:
                refuse_text(source, (*path, name))
        for port in node.input_ports:
            if default_value_of(port) is not None:
                default_of(port, path)
        for thing in (*node.parameters, *node.functions):
            _check_function(thing, (*path, thing.id))
    for edge in graph.edges:
        if isinstance((edge.parameters or {}).get("weight"), str):
            raise MalformedBody(f"the weight of edge {edge.id!r} must be a number or an array", (graph.id,))


def refuse_unlisted(graph: Any) -> None:
    """See that no text of a graph says something to Python that is not on the list; what Python cannot read is a text.

    That is less than :func:`check_expressions` asks of a body: a whole model may hold texts that are none of our business.

    Raises
    ------
    MalformedBody, UnsupportedOp
    """
    for node in graph.nodes:
        for _, error in refused_texts(graph, node):
            raise error


def refused_texts(graph: Any, node: Any) -> Iterator[tuple[str, LoopError]]:
    """What is refused in the texts of a node, each with the id of what it belongs to."""
    known, ports = ids_of(node), {port.id for port in node.input_ports}
    for name, source in texts(node):
        default = "; a default is numbers alone: compute it in a parameter" if name in ports else ""
        yield from _refused(name, refuse_texts_in_list, source, known, (graph.id, node.id, name), default)
    for name, source in texts_for_python(node):
        yield from _refused(name, refuse_text, source, (graph.id, node.id, name))


def _refused(name: str, refuse: Callable[..., None], *given: Any) -> Iterator[tuple[str, LoopError]]:
    try:
        refuse(*given)
    except LoopError as error:
        yield name, error


def ids_of(node: Any) -> set[str]:
    """The names that the expressions of a node may read."""
    return {thing.id for thing in (*node.input_ports, *node.parameters, *node.functions)}


def texts_for_python(node: Any) -> Iterator[tuple[str, str]]:
    """The texts of a node that Python can read, with the id of what each belongs to; any other one is a text, no expression."""
    functions = ((thing.id, thing.function) for thing in (*node.parameters, *node.functions))
    for name, source in (*texts(node), *functions):
        if isinstance(source, str) and is_python(source) and standard_expression(source) is None:
            yield name, source


def refuse_text(source: str, path: tuple[str, ...]) -> None:
    """See that a text says nothing to Python that is not on the list.

    Raises
    ------
    MalformedBody, UnsupportedOp
    """
    called = source.split("(")[0]
    if called.startswith(("onnx_ops.", "actr.", "ddm.")) and called.replace(".", "").isidentifier():
        arguments = source[len(called) :]
        source = f"abs{arguments}" if arguments else "0"  # MDF takes the name alone out of such a text
    parse(source, path)


def _check_function(thing: Any, path: tuple[str, ...]) -> None:
    name = thing.function
    if not name or name in CONTROL or standard_expression(name) is not None:
        return
    if name.isidentifier() or "::" in name:
        raise UnsupportedOp(f"{'/'.join(path)}: MDF's engine has no function {name!r}")
    parse(name, path)


def refuse_unimplemented(graph: Any) -> None:
    """See that the graph has no function that MDF names and does not run.

    Raises
    ------
    UnsupportedOp
    """
    for node in graph.nodes:
        for thing in (*node.functions, *node.parameters):
            expression = standard_expression(thing.function) if isinstance(thing.function, str) else None
            if expression is not None and expression.startswith("ddm."):
                raise UnsupportedOp(
                    f"{graph.id}/{node.id}/{thing.id}: {thing.function} is a Python function that MDF's engine does not run; "
                    "write what it does as a loop, as examples/drift_diffusion.yaml does"
                )


def reached_from(graph: Any, begun: Iterable[str]) -> set[str]:
    """Nodes, and all that they send something to, however far."""
    following: dict[str, list[str]] = {}
    for edge in graph.edges:
        following.setdefault(edge.sender, []).append(edge.receiver)
    return reached(begun, lambda name: following.get(name, ()))


def refuse_hanging(graph: Any) -> None:
    """See that MDF's engine can find an order for the edges: it never returns from a graph in which a cycle has no beginning.

    Raises
    ------
    MalformedBody
    """
    receivers = {edge.receiver for edge in graph.edges}
    begun = [node.id for node in graph.nodes if node.id not in receivers]
    if not begun:
        begun = [node.id for node in graph.nodes if any(default_value_of(port) is not None for port in node.input_ports)]
    begins, nodes = reached_from(graph, begun), {node.id for node in graph.nodes}
    for edge in graph.edges:
        if edge.sender not in nodes:
            raise MalformedBody(f"edge {edge.id!r} names node {edge.sender!r}, which is not there", (graph.id,))
        if edge.sender not in begins:
            raise MalformedBody(
                f"node {edge.sender!r} is part of a cycle that has no beginning; MDF's engine would never end", (graph.id,)
            )
