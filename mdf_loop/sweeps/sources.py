"""What is run side by side: a model as one program of many runs.

A model is one of MDF, or a graph of operators: of ONNX, of OpenVINO, or of MDF that came from ONNX.  Where all engines give the
same bits of it, a sweep may change over to machine code when that pays.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mdf_loop.backend import LoopRep
from mdf_loop.convert.inner_values import Branch, Way, is_ragged
from mdf_loop.convert.naming import input_ids, names_of
from mdf_loop.convert.scheduled.conditions import INSIDE, way_inside
from mdf_loop.convert.scheduled.loops import Stepping
from mdf_loop.convert.scheduled.open_start import open_run
from mdf_loop.errors import ArgumentError, LoopError, let_through
from mdf_loop.execute.endless import Endless
from mdf_loop.integrations.input_places import Given
from mdf_loop.integrations.scheduled_loops import Shared
from mdf_loop.ir import Body
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model, Wish
from mdf_loop.models.network import NetworkModel
from mdf_loop.models.once import NotOnce, OnceEvaluation, OnceGraph
from mdf_loop.models.recordings.recorded_names import found_in
from mdf_loop.models.recordings.recording import rep_with
from mdf_loop.ops.registry import changes
from mdf_loop.options import Run, current_options
from mdf_loop.plan.invariants import draws
from mdf_loop.readers.expressions.values import literal
from mdf_loop.settings.engines import ENGINES, settled_engine
from mdf_loop.settings.random_streams import RandomStream
from mdf_loop.step.build import type_of_value
from mdf_loop.sweeps.graph_programs import GraphOfRuns, Kinds, PassesOfRuns, WholeGraph, counted
from mdf_loop.sweeps.machine_runs import NotTogether, refuse_other
from mdf_loop.system.threads import Recent

log = logging.getLogger(__name__)

MOST = 64
"""Types of inputs for which it is kept whether a model gives the same bits in all engines."""


def source_of(model: Model, recorded: Mapping[str, str] = MappingProxyType({}), how: Stepping | None = None) -> Evaluated | None:
    """How the runs of a model are evaluated; None if each has to be left to the model.

    ``recorded`` are values that are outputs as well: what they are called then, and the names that :func:`mdf_loop.run` takes.
    ``how`` says in which steps it is evaluated, if it is in steps.
    """
    kept = model.made_for("evaluated", MOST)
    found: Evaluated | None = kept.of((tuple(recorded.items()), how), lambda: _made(model, recorded, how))
    return found


def stepping(wish: Wish) -> Stepping | None:
    """In which steps runs are evaluated; None if they are not."""
    return None if wish.steps is None else Stepping(wish.steps, wish.time_increment, wish.collect)


def _made(model: Model, recorded: Mapping[str, str], how: Stepping | None) -> Evaluated | None:
    try:
        if how is not None:
            return OfPasses(model, how) if isinstance(model, MdfModel) and model.typed is None and not recorded else None
        if isinstance(model, NetworkModel):
            return None if model.prepared.keeps else OfOperators(*_with(model.prepared, recorded), {}, tuple(model.outputs))
        if not isinstance(model, MdfModel):
            return None
        if model.typed is not None:
            names = names_of(model.graph)
            outputs = tuple(names.get(id, id) for id in model.typed.body.outputs)
            more = _with(model.typed, recorded, {name: id for id, name in names.items()})
            return OfOperators(*more, input_ids(model.graph), outputs)
        found = None if model.once is None else OfNodes(model, model.once, recorded)
        return found if found is not None and found.loops else None
    except (NotTogether, NotOnce, LoopError) as reason:  # each run alone says what is wrong
        log.debug("%s: runs are run one by one: %s", model.name, reason)
        return None


def _with(rep: LoopRep, recorded: Mapping[str, str], ids: Mapping[str, str] = MappingProxyType({})) -> tuple[LoopRep, Ways]:
    """A graph of operators that gives what is recorded as well, and where it has that."""
    if not recorded:
        return rep, {}
    rep, ways = rep_with(rep, tuple(recorded.values()), "the model", ids)
    _refuse_ragged(ways)
    return rep, dict(zip(recorded, ways, strict=True))


def may_decide(model: Model, wish: Wish) -> bool:
    """Whether the condition of the only loop of a model may end it before its trip count."""
    source = source_of(model) if wish.steps is None else None
    loops = [] if source is None else [(node, node.loop) for node in source.body.nodes if node.loop is not None]
    if len(loops) != 1:
        return False
    node, record = loops[0]
    obeyed = record.obeys or node.inputs[1] or current_options().obey_body_condition
    return bool(obeyed) and not Endless(record).may_be_sure


Ways = Mapping[str, Way]
"""The way to each value that is recorded, by what it is called here."""


def _refuse_ragged(ways: Sequence[Way]) -> None:
    """See that what is recorded is an output of a loop of the graph, or one of its values: such have columns."""
    if any(isinstance(way[0], Branch) or is_ragged(way[1:]) for way in ways):
        raise NotTogether("a value is recorded in a branch, or in a loop in a loop")


class Evaluated(ABC):
    """A model whose runs may be one program.

    Attributes
    ----------
    body : Body
        The graph; of one in steps, the first of what may be made of it.
    outputs : tuple
        What its outputs are called, in their order.
    singles : set of str
        What is recorded and no value of a loop: one row of a recording.
    """

    body: Body
    outputs: tuple[Any, ...]
    singles: frozenset[str] = frozenset()
    typed = False

    def __init__(self) -> None:
        self._whole = Recent[GraphOfRuns](MOST)

    @property
    def loops(self) -> int:
        """How many loops it has."""
        return sum(node.loop is not None for node in self.body.nodes)

    @property
    def draws(self) -> bool:
        """Whether anything in it draws random numbers."""
        return any(map(draws, self.body.nodes))

    def whole(self, inputs: Mapping[str, Any], names: Sequence[str], run: Run) -> tuple[GraphOfRuns, list[Any]]:
        """The graph with its loops inside that gives some outputs, and what it is run with.

        Raises
        ------
        NotTogether
        """
        part = Run(run.options, RandomStream(0), deadline=run.deadline, enclosing=run)
        key, values, make = self._ready(inputs)
        key = *key, tuple(names), run.options.engine, tuple([type_of_value(x, not self.typed) for x in values])
        return self._whole.of(key, lambda: make([*map(self.outputs.index, names)], part)), values

    @abstractmethod
    def _ready(self, inputs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[list[int], Run], GraphOfRuns]]:
        """What decides the graph beside the types of values; the values; and what makes the graph with some of the outputs."""

    @abstractmethod
    def places(self, swept: Sequence[str], graph: Any) -> list[list[int]]:
        """Where inputs stand among what the graph is run with."""

    @abstractmethod
    def values(self, inputs: Mapping[str, Any], graph: Any) -> list[Any]:
        """What the graph is run with.

        Raises
        ------
        NotTogether
            It is a graph for values of other kinds.
        """


class OfMdf(Evaluated):
    """A model of MDF whose inputs are values of places in its graph."""

    def __init__(self, model: MdfModel) -> None:
        super().__init__()
        self.model = model

    def places(self, swept: Sequence[str], graph: Any) -> list[list[int]]:
        """Where inputs stand among what the graph is run with."""
        read = [{each.place for each in self.model.places.of(name)} for name in swept]
        return [[k for k, place in enumerate(graph.places) if place in places] for places in read]

    def _at_places(self, inputs: Mapping[str, Any]) -> Given:
        """Values by node and id."""
        try:
            given = self.model.places.given(inputs)
        except ArgumentError as reason:
            raise NotTogether(str(reason)) from reason
        if dict in map(type, given.values()):
            raise NotTogether("the body of a loop is given")
        return given


class OfNodes(OfMdf):
    """A model of MDF, which operators evaluate."""

    def __init__(self, model: MdfModel, once: OnceGraph, recorded: Mapping[str, str]) -> None:
        super().__init__(model)
        self.once = once
        found = found_in(model.graph, tuple(recorded.values()))
        keys = {label: found[name] for label, name in recorded.items()}
        _refuse_ragged([way_inside(key) for key in keys.values() if key[0] == INSIDE])
        self.singles = frozenset(label for label, key in keys.items() if key[0] != INSIDE)
        self.outputs, self._more = (*once.places, *keys), tuple(keys.values())
        self.body = once.of_types({}, self._more).body

    def _ready(self, inputs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[list[int], Run], GraphOfRuns]]:
        given, evaluation = self._given(inputs)
        return (id(evaluation),), evaluation.values(given), lambda wanted, run: WholeGraph(evaluation, wanted, given, run)

    def values(self, inputs: Mapping[str, Any], graph: Any) -> list[Any]:
        """What the graph is run with."""
        given, evaluation = self._given(inputs)
        if evaluation is not graph.evaluation:
            raise NotTogether("points have values of several kinds")
        return evaluation.values(given)

    def _given(self, inputs: Mapping[str, Any]) -> tuple[Given, OnceEvaluation]:
        """Values by node and id, and what is computed of them."""
        given = self._at_places(inputs)
        try:
            return given, self.once.made(given, self._more)
        except (NotOnce, ArgumentError) as reason:
            raise NotTogether(str(reason)) from reason


class OfPasses(OfMdf):
    """A model of MDF in steps: its first passes and the loop behind them, in which what runs are given is open."""

    def __init__(self, model: MdfModel, how: Stepping) -> None:
        super().__init__(model)
        self.how, self.outputs = how, tuple(model.outputs)

    def _ready(self, inputs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[list[int], Run], GraphOfRuns]]:
        self.model.refuse_missing(inputs)
        given = self._at_places(inputs)
        kinds = self._kinds(given)
        return kinds, [*given.values()], lambda wanted, _: self._of_runs(kinds, wanted)

    def _of_runs(self, kinds: Kinds, wanted: Sequence[int]) -> GraphOfRuns:
        shared = Shared(self.model.graph, [place for place, _ in kinds], self.how)
        run = open_run(shared.lowering, [replace(shared.places[place], number=number) for place, number in kinds])
        return PassesOfRuns(run, wanted, kinds)

    def values(self, inputs: Mapping[str, Any], graph: Any) -> list[Any]:
        """What the graph is run with."""
        given = self._at_places(inputs)
        if self._kinds(given) != graph.kinds:
            raise NotTogether("points have values of several kinds")
        return [*given.values()]

    @staticmethod
    def _kinds(given: Given) -> Kinds:
        return tuple((place, literal(value).number) for place, value in given.items())


class OfOperators(Evaluated):
    """A graph of operators.

    Parameters
    ----------
    rep : LoopRep
    recorded : Ways
        What its last outputs are.
    ids : mapping of str to str
        What inputs are called in its body, where a model calls them otherwise.
    outputs : sequence of str
        What the model calls its other outputs.
    """

    def __init__(self, rep: LoopRep, recorded: Ways, ids: Mapping[str, str], outputs: Sequence[str]) -> None:
        self.rep, self.ids, self.outputs, self.body = rep, ids, (*outputs, *recorded), rep.body
        self.typed = rep.body.typed
        self.singles = frozenset(label for label, way in recorded.items() if len(way) == 1)
        super().__init__()

    def _ready(self, inputs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[list[int], Run], GraphOfRuns]]:
        values = self.values(inputs)
        return (changes(),), values, lambda wanted, run: self._of_runs(values, wanted, run)

    def _of_runs(self, values: Sequence[Any], wanted: Sequence[int], run: Run) -> GraphOfRuns:
        body = replace(self.body, outputs=tuple([self.body.outputs[k] for k in wanted]))
        if self.loops != 1:
            return GraphOfRuns(body, None)
        program, env = self.rep.graph.program, self.rep.graph.begin(values, (), run)
        for step in program.steps:
            if step.bound.loop is not None:
                break
            program.keep(env, step, step.call(*step.given(env)))
        loop: Any = step.bound.call
        arguments = loop.arguments(*step.given(env))
        refuse_other(loop.endless, arguments, run)
        return GraphOfRuns(counted(body), arguments.trip_count, step.node.inputs[0])

    def places(self, swept: Sequence[str], _graph: Any) -> list[list[int]]:
        """Where inputs stand among what the graph is run with."""
        return [[self.body.inputs.index(self.ids.get(name, name))] for name in swept]

    def values(self, inputs: Mapping[str, Any], _graph: Any = None) -> list[Any]:
        """What the graph is run with."""
        return self.rep.values({self.ids.get(name, name): value for name, value in inputs.items()})


def engine_of(chosen: str, model: Model, inputs: Mapping[str, Any], names: Sequence[str], how: Stepping | None = None) -> str:
    """The engine in which all runs of a sweep run: what was chosen, unless engines differ in the last place.

    Parameters
    ----------
    chosen : str
        The one that ``options()`` says.
    model : Model
    inputs : mapping
        What one of the runs is given.
    names : sequence of str
        The outputs that are wanted.
    how : Stepping, optional
        In which steps each is evaluated.
    """
    if not ENGINES[chosen].compiles_what_pays:
        return chosen
    source, is_exact = source_of(model, how=how), False
    if source is not None:
        try:
            graph, values = source.whole(inputs, names, Run(current_options(), RandomStream(0)))
            is_exact = graph.is_exact(values)
        except Exception as error:  # each run alone says what is wrong
            let_through(error)
    return chosen if is_exact else settled_engine(compiles=True)
