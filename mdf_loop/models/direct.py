"""An MDF graph evaluated once, without MDF's engine and graph-scheduler around it: they cost more than many a loop.

What is evaluated, and in which order, is what MDF does.  A graph that has more to it - conditions, values that live from
evaluation to evaluation, random numbers in expressions - is left to MDF's engine, and so is a call in which anything goes
wrong that is no error of a loop: the engine finds out what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import cached_property
from typing import Any

from mdf_loop.convert.scheduled.run_order import output_ports
from mdf_loop.errors import LoopError, PartialResults, keeps_results, let_through
from mdf_loop.execute.partial_results import keeping
from mdf_loop.integrations.patches.no_eval import engine_at_work, refuse_graph
from mdf_loop.integrations.patches.stdout import quiet_mdf
from mdf_loop.integrations.registration import register
from mdf_loop.integrations.required_inputs import required_ports
from mdf_loop.kernels.mdf.expression_operators import leaving
from mdf_loop.models.direct_node import Ask, DirectNode, Outputs
from mdf_loop.models.node_loops import NodeLoop, Request
from mdf_loop.models.texts import NotDirect
from mdf_loop.options import Run, check_time, options
from mdf_loop.readers.mdf.control_functions import STEPPED
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.typed import is_typed

Given = Mapping[str, Mapping[str, Any]]
"""Values for ports and parameters, by node and id."""

Evaluation = Generator[Request, Any, dict[str, Any]]
"""An evaluation under way: yields loops to be run, is sent their results, and returns the outputs by name."""

Runner = Callable[[Request, Run], Any]


class DirectGraph:
    """A graph made ready.

    Attributes
    ----------
    nodes : list of DirectNode
        In an order in which they can run.
    places : mapping of str to (node, port)
        The outputs.

    Raises
    ------
    NotDirect
        The graph is left to MDF's engine; says why.
    """

    def __init__(self, graph: Any) -> None:
        if is_typed(graph) or _has_conditions(graph):
            raise NotDirect("it has conditions" if not is_typed(graph) else "it is an ONNX graph")
        if STEPPED in (graph.metadata or {}):
            raise NotDirect("it has loops that run in steps")
        edges = _edges(graph)
        register()
        try:
            with options(trusted=False), quiet_mdf(), engine_at_work(graph):
                refuse_graph(graph)
                self.nodes = [DirectNode(node, _evaluable(node), edges.get(node.id, {})) for node in _in_order(graph)]
        except LoopError as error:
            raise NotDirect(str(error)) from error
        self.id, self.places = graph.id, output_ports(graph)
        self.required = [(node, port.id) for node, port in required_ports(graph)]
        if any(place not in _ports(graph) for place in self.places.values()):
            raise NotDirect("an output is not there")

    @cached_property
    def collected(self) -> tuple[str, ...]:
        """The outputs that are what a loop collected."""
        nodes = {node.id: node for node in self.nodes}
        return tuple(name for name, (node, port) in self.places.items() if nodes[node].is_collected(port))

    def steps(
        self, given: Given, run: Run, sent: Outputs, scopes: dict[Any, Any] | None = None, ask: Ask = NodeLoop.request
    ) -> Evaluation:
        """Evaluate the graph; ``sent`` gets the values at output ports, ``scopes`` the same, and all others by node.

        ``ask`` makes of a loop and the values of its node what is yielded.

        Raises
        ------
        NotDirect, Exception
            Whatever is wrong.
        """
        nothing: dict[str, Any] = {}
        for node, port in self.required:
            if port not in given.get(node, nothing):
                raise NotDirect("a required input is missing")
        for each in self.nodes:
            if run.deadline is not None:
                check_time()
                run.deadline.check()
            scope = yield from each.evaluate(sent, given.get(each.id, nothing), run, ask)
            if scopes is not None:
                scopes[each.id] = scope
        if scopes is not None:
            scopes.update(sent)
        return {name: leaving(sent[place]) for name, place in self.places.items()}

    def evaluate(
        self, given: Given, run: Run, call: Runner = Request.run, scopes: dict[Any, Any] | None = None
    ) -> dict[str, Any]:
        """The outputs by name; ``call`` runs the loops, ``scopes`` gets the values of each node.

        Raises
        ------
        PartialResults
            A loop ended early: ``.outputs`` are the outputs as far as they are known.
        Exception
            Something else is wrong, which MDF's engine tells better.
        """
        sent: Outputs = {}

        def known(error: PartialResults) -> dict[str, Any]:
            return {name: leaving(sent[place]) for name, place in self.places.items() if sent.get(place) is not None}

        return keeping(run, lambda: finished(self.steps(given, run, sent, scopes), run, call), known)


def finished(steps: Evaluation, run: Run, call: Runner) -> dict[str, Any]:
    """Run an evaluation to its end."""
    try:
        request = next(steps)
        while True:
            try:
                results = call(request, run)
            except BaseException as error:
                if not keeps_results(error):
                    raise
                request = steps.throw(error)
            else:
                request = steps.send(results)
    except StopIteration as end:
        return end.value


def _evaluable(node: Any) -> Any:
    from modeci_mdf.execution_engine import EvaluableNode

    try:
        return EvaluableNode(node)
    except LoopError:
        raise
    except Exception as error:
        let_through(error)
        raise NotDirect(f"node {node.id!r}: {error}") from error


def _has_conditions(graph: Any) -> bool:
    conditions = graph.conditions
    return conditions is not None and bool(conditions.node_specific or conditions.termination)


def _ports(graph: Any) -> set[tuple[str, str]]:
    return {(node.id, port.id) for node in graph.nodes for port in node.output_ports}


def _edges(graph: Any) -> dict[str, dict[str, Any]]:
    """The edge into each port, by node and port."""
    inputs = {(node.id, port.id): port for node in graph.nodes for port in node.input_ports}
    outputs, found = _ports(graph), dict[str, dict[str, Any]]()
    for edge in graph.edges:
        here = found.setdefault(edge.receiver, {})
        if edge.receiver_port in here or edge.sender == edge.receiver:
            raise NotDirect(f"several edges end in port {edge.receiver}.{edge.receiver_port}, or one in its own node")
        if (edge.receiver, edge.receiver_port) not in inputs or (edge.sender, edge.sender_port) not in outputs:
            raise NotDirect(f"edge {edge.id!r} joins what is not there")
        if default_value_of(inputs[edge.receiver, edge.receiver_port]) is not None:
            raise NotDirect(f"edge {edge.id!r} ends in a port with a default, whose node does not wait for it")
        here[edge.receiver_port] = edge
    return found


def _in_order(graph: Any) -> list[Any]:
    """The nodes, each behind those that send it something, otherwise as they stand."""
    waiting, order, done = list(graph.nodes), [], set[str]()
    needs = {node.id: {edge.sender for edge in graph.edges if edge.receiver == node.id} for node in waiting}
    while waiting:
        ready = next((node for node in waiting if needs[node.id] <= done), None)
        if ready is None:
            raise NotDirect("its edges form a cycle")
        waiting.remove(ready)
        order.append(ready)
        done.add(ready.id)
    return order
