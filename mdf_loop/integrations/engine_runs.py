"""MDF graphs run by MDF's engine, or as what they are made into, with inputs and outputs by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from mdf_loop.calls.calling import run_by
from mdf_loop.calls.prepared import PreparedLoop
from mdf_loop.convert.inner_values import NOTHING
from mdf_loop.convert.naming import input_ids, names_of
from mdf_loop.convert.scheduled.conditions import INSIDE, Key
from mdf_loop.convert.scheduled.idle_evaluations import idle_in_words
from mdf_loop.convert.scheduled.lowered_runs import stacked
from mdf_loop.errors import (
    KindError,
    LoopError,
    MalformedBody,
    PartialResults,
    Together,
    UnsupportedOp,
)
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.partial_results import keeping
from mdf_loop.integrations.engine_patches import Places, quiet_mdf, values_of
from mdf_loop.integrations.graph_conditions import wrong_conditions
from mdf_loop.integrations.input_places import refuse_options, with_inputs
from mdf_loop.integrations.no_eval import engine_at_work, refuse_graph
from mdf_loop.integrations.registration import register
from mdf_loop.options import Run, part_of, start_run
from mdf_loop.readers.mdf.names import unknown_names
from mdf_loop.readers.mdf.signature import output_ports, said_names
from mdf_loop.readers.mdf.typed import has_conditions


def refuse_nothing(inputs: Mapping[str, Any]) -> None:
    """See that each input has a value: only ONNX has empty optionals."""
    for name, value in inputs.items():
        if value is None:
            raise KindError(f"input {name!r} must be numbers, booleans or strings; got None")


def needs_no_scheduler(graph: Any) -> bool:
    """Whether a graph with metadata types is run as the ONNX graph it is."""
    return not has_conditions(graph) and not _is_fed(graph)


def _is_fed(graph: Any) -> bool:
    """Whether an edge from a node of one's own feeds an input of a converted graph."""
    fed = {edge.receiver_port for edge in graph.edges}
    return any(name in fed for name in said_names(graph, "inputs") or ())


def run_typed_in_mdf(graph: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a graph with metadata types in MDF's engine; names are those of ONNX."""
    names = names_of(graph)
    ids = input_ids(graph)
    used = {port.id for node in graph.nodes for port in node.input_ports}
    given = {ids.get(name, name): value for name, value in inputs.items() if name not in ids or ids[name] in used}
    ports = {port.id: node.id for node in graph.nodes for port in node.output_ports}
    said = said_names(graph, "outputs") or ()
    if (lost := next((id for id in said if id not in ports), None)) is not None:
        raise MalformedBody(f"metadata outputs: no node has an output port {lost!r}", (graph.id,))
    refuse_options(inputs, {*ids, *(said_names(graph, "inputs") or ())})
    return run_in_mdf(with_inputs(graph, given), places={names.get(id, id): (ports[id], id) for id in said})


def raise_plainly(error: BaseException, graph: Any) -> NoReturn:
    """Raise what is wrong with the names of a graph, and what came of it as the cause; without that, the error itself.

    Where a node failed only its names can be the cause: conditions are made before the first node is evaluated.  An error that
    keeps results stays, and says the names first.
    """
    found, failed = Together(), getattr(error, "mdf_node", "")
    for unknown in unknown_names(graph):
        is_told = isinstance(error, UnsupportedOp) and str(error).startswith(f"{'/'.join(unknown.place)}:")
        if not is_told and failed in ("", unknown.place[1]):  # what cannot run at all needs no other arguments
            found.add(MalformedBody(unknown.said, unknown.place))
    for wrong in wrong_conditions(graph) if not failed else ():
        found.add(wrong)
    if found.found and isinstance(error, PartialResults) and error.partial is not None:
        error.args = (f"{found.found[0]}; {error}",)
    elif found.found:
        try:
            found.settle()
        except LoopError as first:
            raise first from error
    raise error


def run_in_mdf(
    graph: Any, steps: int = 1, time_increment: float | None = None, collect: bool = False, places: Places | None = None
) -> dict[str, Any]:
    """Evaluate a graph so many times, the first time without a time increment.

    ``places`` are the outputs by name; the default is the output ports that no edge reads.

    Raises
    ------
    CollectedError
        An output is no tensor, or changes its shape.
    """
    return run_recorded_in_mdf(graph, steps, time_increment, collect, (), places=places)[0]


def run_recorded_in_mdf(
    graph: Any,
    steps: int,
    time_increment: float | None,
    collect: bool,
    keys: Sequence[Key],
    loops: Watched = MappingProxyType({}),
    places: Places | None = None,
) -> tuple[dict[str, Any], list[list[Any]]]:
    """The same, and the values of ports and parameters after each pass; None before their node has run.

    Parameters
    ----------
    graph, steps, time_increment, collect, places
        As :func:`run_in_mdf`.
    keys : sequence of Key
        What is recorded: ``"input"``, ``"parameter"``, ``"function"`` and ``"output"`` of nodes, and what is inside their loops.
    loops : mapping of (node, id) to LoopOfNode
        What runs the loops that something is recorded in.
    """
    from modeci_mdf.execution_engine import EvaluableGraph

    register()
    places = output_ports(graph) if places is None else places
    rows: dict[str, list[Any]] = {name: [] for name in places} if collect else {}
    run = start_run()
    try:
        with quiet_mdf(), engine_at_work(graph):
            refuse_graph(graph)
            evaluable = EvaluableGraph(graph, verbose=False)
            taken, recorded = _Steps(evaluable, steps, places, rows), _RecordedPasses(evaluable, keys, loops)
            return keeping(run, lambda: taken.run(run, time_increment), taken.known), recorded.rows
    except LoopError as error:
        raise_plainly(error, graph)


LoopOfNode = Callable[[dict[Any, Any], PreparedLoop, Arguments, Run], Any]
"""Runs the loop that a parameter or function of a node is, and puts what is recorded inside it into a dict, by name."""

Watched = Mapping[tuple[str, ...], LoopOfNode]
"""What runs the loops that something is recorded in, by node and id."""


class _RecordedPasses:
    """Values of nodes after each pass of graph-scheduler."""

    def __init__(self, evaluable: Any, keys: Sequence[Key], loops: Watched) -> None:
        self.rows: list[list[Any]] = [[] for _ in keys]
        self._evaluable, self._keys, self._ran = evaluable, keys, set[str]()
        self._latest = dict[Any, Any]()
        for (node, id), loop in loops.items():
            things = {**evaluable.enodes[node].evaluable_parameters, **evaluable.enodes[node].evaluable_functions}
            _around(things[id], partial(self._run_by, loop))
        for key in keys:
            if key[0] == "input":  # a port forgets its value when it is read
                port = evaluable.enodes[key[1]].evaluable_inputs[key[2]]
                _around(port, partial(self._noted, key))
        if keys:
            self._run, evaluable.scheduler.run = evaluable.scheduler.run, self._passes

    def _noted(self, key: Key, evaluate: Callable[[], Any]) -> Any:
        """The value of an input port, which is remembered."""
        self._latest[key] = value = evaluate()
        return value

    def _run_by(self, loop: LoopOfNode, evaluate: Callable[[], Any]) -> Any:
        """The value of a loop that something else runs."""
        with run_by(partial(loop, self._latest)):
            return evaluate()

    def _passes(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """``Scheduler.run``: whenever a pass is over, the values of it are kept."""
        clock, before = self._evaluable.scheduler.get_clock, None
        for nodes in self._run(*args, **kwargs):
            now = clock(None).time.pass_
            if before is not None and now != before:
                self._keep()
            before = now
            yield nodes
            self._ran.update(node.id for node in nodes)
        if before is not None:
            self._keep()

    def _keep(self) -> None:
        for row, key in zip(self.rows, self._keys, strict=True):
            row.append(kept(self._value(key)))

    def _value(self, key: Key) -> Any:
        """What there is of a value after a pass."""
        kind, name, id, *_ = key
        if kind == INSIDE:
            return self._latest.pop(key[3], NOTHING)
        if kind == "input" or name not in self._ran:
            return self._latest.get(key)
        node = self._evaluable.enodes[name]
        things = {"parameter": node.evaluable_parameters, "function": node.evaluable_functions, "output": node.evaluable_outputs}
        return things[kind][id].curr_value


def _around(thing: Any, call: Callable[[Callable[[], Any]], Any]) -> None:
    """Have something called around ``evaluate`` of a thing of MDF's engine."""
    original = thing.evaluate
    thing.evaluate = lambda *args, **kwargs: call(partial(original, *args, **kwargs))


class _Steps:
    """Evaluations of a graph in MDF's engine, one after the other.

    ``moment`` is how many are complete, and the values after them: replaced in one assignment, so that whatever strikes
    finds the one before or the next.
    """

    def __init__(self, evaluable: Any, count: int, places: Places, rows: Mapping[str, list[Any]]) -> None:
        self.evaluable, self.count, self.places, self.rows = evaluable, count, places, rows
        self.moment: tuple[int, dict[str, Any]] = 0, {}

    def run(self, run: Run, time_increment: float | None) -> dict[str, Any]:
        """Run them all."""
        evaluable, steps, ran = self.evaluable, self.count, self.count
        if run.watch is not None and (run.enclosing is None or run.enclosing.position() is None):
            run.watch.position = lambda: ("steps", self.moment[0], steps)
        with part_of(run):
            for step in range(steps):
                before = len(evaluable.order_of_execution)
                evaluable.evaluate(**({} if step == 0 or time_increment is None else {"time_increment": time_increment}))
                ran = ran if len(evaluable.order_of_execution) > before else min(ran, step)
                evaluable.order_of_execution[:] = dict.fromkeys(evaluable.order_of_execution)  # MDF never shortens it
                values = values_of(evaluable, self.places)
                for name, row in self.rows.items():
                    row.append(kept(values[name]))
                self.moment = step + 1, values
                if run.watch is not None:
                    run.watch.passed()
        if ran < steps:
            said = f"{evaluable.graph.id}: {idle_in_words(ran, steps, '')}"
            (run.enclosing or run).warn_once((id(evaluable.graph), "idle"), said)
        return {name: stacked(name, row) for name, row in self.rows.items()} if self.rows else self.moment[1]

    def known(self, error: PartialResults) -> dict[str, Any]:
        """The outputs after the last step that was completed; they are the partial results as well.

        Of a single step they are what its nodes had computed.
        """
        done, values = self.moment
        if self.count == 1 and not self.rows:
            return {name: value for name, value in values_of(self.evaluable, self.places).items() if value is not None}
        error.within(f"step {done}")
        if self.rows:
            values = {name: stacked(name, row[:done]) for name, row in self.rows.items()}
        error.iteration, error.partial = done, tuple(values.values())
        return {name: value for name, value in values.items() if value is not None}


def kept(value: Any) -> Any:
    """A value that stays as it is: MDF changes arrays in place where several edges end in a port, and users change theirs."""
    return value.copy() if isinstance(value, np.ndarray) else value
