"""An MDF graph evaluated once: the body of its one pass, without MDF's engine and graph-scheduler.

What is computed, and in which order, is what MDF does.  A graph with conditions is left to the loop over its passes, and one that
operators cannot express, such as one with functions of MDF in Python, to MDF's engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mdf_loop.calls.calling import results_of
from mdf_loop.calls.prepared import PreparedLoop
from mdf_loop.convert.scheduled.conditions import Key
from mdf_loop.convert.scheduled.passes import Pass
from mdf_loop.convert.scheduled.run_order import RunPlan, read_schedule
from mdf_loop.convert.scheduled.slots import GivenInput, PassBuilder, Reading, Slots
from mdf_loop.errors import LoopError, PartialResults, in_node, keeps_results, let_through, malformed
from mdf_loop.execute.interpret import Arguments, InterpretedBody
from mdf_loop.execute.partial_results import keeping
from mdf_loop.execute.program import OMITTED, Step, failure
from mdf_loop.execute.warnings.shared_draws import shared_in_graph
from mdf_loop.integrations.graph_conditions import refuse_conditions
from mdf_loop.integrations.input_places import Given, Place, free_places
from mdf_loop.integrations.required_inputs import required_ports
from mdf_loop.ir import Body, Node
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.mdf.expression_operators import leaving
from mdf_loop.ops.registry import facts
from mdf_loop.options import Run, check_time
from mdf_loop.plan.invariants import draws
from mdf_loop.readers.expressions.values import NotCompiled, Unavailable, Value, available
from mdf_loop.readers.mdf.body import check_graph
from mdf_loop.readers.mdf.input_ports import with_values
from mdf_loop.readers.mdf.signature import output_ports
from mdf_loop.readers.mdf.stepped_loops import has_stepped_loops
from mdf_loop.readers.mdf.typed import is_typed
from mdf_loop.system.threads import Recent


class Request(NamedTuple):
    """A loop that an evaluation has come to.

    Attributes
    ----------
    node : Node
    prepared : PreparedLoop
    values : sequence
        What the node reads.
    arguments : Arguments
    """

    node: Node
    prepared: PreparedLoop
    values: Sequence[Any]
    arguments: Arguments

    @property
    def place(self) -> str:
        """What the loop is called: ``node.parameter`` in a graph of MDF."""
        return self.node.name

    def run(self, run: Run) -> Any:
        """Run it as a part of a run of the whole model."""
        return results_of(self.prepared, self.arguments, part_of_model(run))

    def may_decide(self, run: Run) -> bool:
        """Whether the condition may end it before its trip count."""
        is_obeyed = self.arguments.go is not None or run.options.obey_body_condition
        return is_obeyed and not self.prepared.endless.may_be_sure


def part_of_model(run: Run) -> Run:
    """A run of a loop inside the run of a model: the same options, stream and time."""
    return Run(run.options, run.stream, run.warned, deadline=run.deadline, enclosing=run, watch=run.watch, tells=run.tells)


def request_at(step: Step, env: list[Any]) -> Request:
    """What the loop of a node is asked for; of what it needs to run only once."""
    loop: Any = step.bound.call
    run, *values = step.given(env)
    return Request(step.node, loop.prepared, values, loop.arguments(run, *values))


def result_in(body: Body, name: str) -> tuple[int, int] | None:
    """The node and the place among its results that a value of a graph is, as it is, if it comes out of a loop."""
    makers = {out: (k, place) for k, node in enumerate(body.nodes) for place, out in enumerate(node.outputs) if out}
    while name in makers:
        k, place = makers[name]
        node = body.nodes[k]
        if node.loop is not None:
            return k, place
        if not is_passed_on(node):
            return None
        name = node.inputs[0]
    return None


def is_passed_on(node: Node) -> bool:
    """Whether a node gives the very value that it is given: an array of numbers as an array."""
    rule = facts(node).alias
    return (node.domain, node.op) == ("mdf", "numpy.array") or (rule is not None and rule(*[None] * len(node.inputs)))


Runner = Callable[[Request, Run], Any]

MOST = 8
"""For how many kinds of values the bodies of a graph are kept."""


class NotOnce(Exception):
    """A graph, or a call of it, that is left to MDF's engine; says why."""


class OnceGraph:
    """A graph made ready.

    Attributes
    ----------
    anything : OnceEvaluation
        What is computed where no other values are given than those that stand in it.

    Raises
    ------
    NotOnce
        The graph is left to MDF's engine; says why.
    """

    def __init__(self, graph: Any) -> None:
        if is_typed(graph):
            raise NotOnce("it is an ONNX graph")
        if has_stepped_loops(graph):
            raise NotOnce("it has loops that run in steps")
        load_kernels()
        self.graph, self.places = graph, output_ports(graph)
        self.required = [(node, port.id) for node, port in required_ports(graph)]
        self._made = Recent[OnceEvaluation](MOST)
        with _left_to_mdf(graph):
            check_graph(graph)
            refuse_conditions(graph)
            values = {each.place: getattr(each.owner, each.attribute, None) for each in free_places(graph)}
        self._numbers = {place: value for place, value in values.items() if type(value) in (int, float)}
        try:
            self.anything = self.of_types({})
        except NotOnce:  # some number decides what is computed
            self._numbers = {}
            self.anything = self.of_types({})

    def made(self, given: Given, record: tuple[Key, ...] = ()) -> OnceEvaluation:
        """What is computed of values of these types; ``record`` are values that are outputs as well.

        Raises
        ------
        NotOnce
            Operators cannot express it; or a value that has to be given is not.
        """
        if self.required and not given.keys() >= {*self.required}:
            raise NotOnce("a required input is missing")
        return self.of_types(given, record)

    def of_types(self, given: Given, record: tuple[Key, ...] = ()) -> OnceEvaluation:
        """The same where values that have to be given may be left out."""
        numbers = self._numbers
        kinds = [(place, type(value)) for place, value in given.items() if type(value) is not type(numbers.get(place))]

        def made() -> OnceEvaluation:
            with _left_to_mdf(self.graph):
                body, places = once_body(self.graph, {**numbers, **given}, record)
                return OnceEvaluation(self, body, places, numbers)

        return self._made.of((record, frozenset(kinds)), made)


class OnceEvaluation(InterpretedBody):
    """A graph made ready for values of some types.

    Attributes
    ----------
    once : OnceGraph
    body : Body
        Its outputs are those of the graph, then what is recorded.
    inputs : tuple of Place
        The places in the graph that its inputs are the values of.
    collected : dict of str to str
        The outputs of the graph that a loop collected, and ``node.id`` of the loop.
    """

    def __init__(self, once: OnceGraph, body: Body, inputs: Sequence[Place], defaults: Given) -> None:
        super().__init__(body)
        self.once, self.inputs, self._defaults = once, inputs, defaults
        self._has_more = any(node.loop is None for node in body.nodes)
        self.draws = any(draws(node) for node in body.nodes if node.loop is None)
        self._shared = Recent[list[str]](MOST)
        loops = {name: self._collected_by(output) for name, output in zip(once.places, body.outputs, strict=False)}
        self.collected = {name: loop for name, loop in loops.items() if loop}

    def _collected_by(self, output: str) -> str:
        """The loop that collected an output of the body, if one did."""
        k, place = result_in(self.body, output) or (None, 0)
        record = None if k is None else self.body.nodes[k].loop
        return "" if k is None or record is None or place < len(record.carried) + len(record.last) else self.body.nodes[k].name

    def values(self, given: Given) -> list[Any]:
        """What the body is run with."""
        return [given[each] if each in given else self._defaults[each] for each in self.inputs]

    def evaluate(self, given: Given, run: Run, call: Runner = Request.run) -> tuple[dict[str, Any], list[Any]]:
        """The outputs by name, and what is recorded; ``call`` runs the loops.

        Raises
        ------
        PartialResults
            A loop ended early: ``.outputs`` are the outputs as far as they are known.
        LoopError
            Something else is wrong.
        """
        inputs = self.values(given)
        env = self.begin(inputs, (), run)

        def known(error: PartialResults) -> dict[str, Any]:
            found = zip(self.once.places, self.program.outputs, strict=False)
            return {name: leaving(env[slot]) for name, slot in found if env[slot] is not None}

        def finished() -> list[Any]:
            if not self._has_more:  # loops see to it themselves
                return self._finished(env, run, call)
            with np.errstate(all="ignore"):
                return self._finished(env, run, call)

        results = keeping(run, finished, known)
        if self.draws and run.tells:
            arrays = tuple([np.size(value) > 1 for value in inputs])
            for said in self._shared.of(arrays, lambda: shared_in_graph(self, env)):
                run.warn_once((id(self.once.graph), said), said)
        named = {name: leaving(value) for name, value in zip(self.once.places, results, strict=False)}
        return named, results[len(named) :]

    def _finished(self, env: list[Any], run: Run, call: Runner) -> list[Any]:
        program = self.program
        for k, step in enumerate(program.steps):
            try:
                if run.deadline is not None:
                    check_time()
                    run.deadline.check()
                is_loop = step.bound.loop is not None
                program.keep(env, step, call(request_at(step, env), run) if is_loop else step.call(*step.given(env)))
            except BaseException as error:
                self._see_error(error, k, env)
                raise
        return [env[slot] for slot in program.outputs]

    def _see_error(self, error: BaseException, k: int, env: list[Any]) -> None:
        """Say where an error came up, and what the node was given; keep what is known of the results of a loop."""
        step = self.program.steps[k]
        place = step.node.name or step.node.outputs[0]
        if isinstance(error, Exception) and not isinstance(error, LoopError) and step.bound.loop is None:
            let_through(error)
            failed = failure(self.body, step, env, error, self._of_one_result(step))
            self._say_where(failed, place)
            raise failed from error
        node = self._say_where(error, place)
        if keeps_results(error) and error.partial is not None:  # its node may make something of it
            self._go_on(env, k, error.partial, f"{node}.")

    def _of_one_result(self, step: Step) -> str:
        """A hint where what a node takes an element of is the only result of a loop."""
        name = step.node.inputs[0] if step.node.inputs else ""
        is_result = result_in(self.body, name) is not None
        return f"; a loop with one result is that result: write {name.rpartition('.')[2]}" if is_result else ""

    def _go_on(self, env: list[Any], behind: int, results: Sequence[Any], wanted: str) -> None:
        """Keep what is known of the results of a loop, and what later nodes whose names begin so make of it, where they can."""
        program = self.program
        program.keep(env, program.steps[behind], tuple(results))
        for step in program.steps[behind + 1 :]:
            is_known = all(env[slot] is not None for slot in step.reads if slot != OMITTED)
            if step.bound.loop is None and step.node.name.startswith(wanted) and is_known:
                try:
                    program.keep(env, step, step.call(*step.given(env)))
                except Exception as error:  # nothing had been computed that it could be made of
                    let_through(error)

    def _say_where(self, error: BaseException, place: str) -> str:
        """Say in which parameter, function or port, and in which node of MDF, an error came up; the node's id."""
        for node in self.once.graph.nodes:
            for thing in (*node.parameters, *node.functions, *node.output_ports):
                if f"{node.id}.{thing.id}" == place:
                    function = getattr(thing, "function", None)
                    what = "output port" if thing in node.output_ports else "MDF parameter or function"
                    error.add_note(f"in {what} {thing.id!r}" + (f" ({function})" if function else ""))
                    in_node(error, node.id)
                    return node.id
        return ""


@contextlib.contextmanager
def _left_to_mdf(graph: Any) -> Iterator[None]:
    """What stands against an evaluation by operators."""
    try:
        with malformed("this graph cannot be read", (str(graph.id),), let=(NotCompiled,)):
            yield
    except (NotCompiled, LoopError) as reason:
        raise NotOnce(str(reason)) from reason


class OnceValues(Slots):
    """Values of the pass: inputs where they are given, operators where nodes have run."""

    is_known, calls_loops = False, True

    def get(self, key: Key, default: Any = None) -> Value | Unavailable:
        """A value; there is no later pass that may read it."""
        return self.peek(key, default)


def once_body(graph: Any, given: Given, record: Sequence[Key] = ()) -> tuple[Body, tuple[Place, ...]]:
    """What one evaluation of a graph computes whose nodes all run once, and the places that its inputs are the values of.

    Its outputs are those of the graph, then what is recorded.  Its loops are called as ``mdf_loop.loop`` is: what they
    capture has other names inside.

    Parameters
    ----------
    graph : modeci_mdf Graph
    given : mapping of Place to value
        Values for places of the graph; the body depends on their types alone.
    record : sequence of Key
        Values that become outputs as well.

    Raises
    ------
    NotCompiled, LoopError
        It has conditions, operators cannot express it, or it is broken; says which.
    """
    inputs = {place: GivenInput(*place) for place in given}
    graph = with_values(graph, inputs)
    plan = RunPlan(graph, read_schedule(graph), 1, None, tuple(record))
    if plan.schedule.passes != 1:
        raise NotCompiled("it has conditions")
    reading, known = Reading(), {inputs[place].key: value for place, value in given.items()}

    def read() -> tuple[OnceValues, list[Value]]:
        store = OnceValues(dict(known), PassBuilder(reading), reading)
        Pass(plan, store, store.body).run()
        keys = (*(("output", *place) for place in plan.outputs.values()), *record)
        return store, [available(store.get(key), f"{key[1]}.{key[2]}") for key in keys]

    store, results = reading.settled(read)
    loops = [Value(name) for node in store.body.nodes if node.loop is not None for name in node.outputs[:1]]
    body, keys = store.finished(graph.id, [*results, *loops])  # MDF runs a loop that nothing reads as well
    if body.captures:  # of a loop whose body reads what nothing gives, which MDF's engine is told by the function
        raise NotCompiled(f"there is no value {body.captures[0]!r}")
    body = replace(body, outputs=body.outputs[: len(results)])
    return check_body(body, (graph.id,)), tuple((node, id) for _, node, id in keys)
