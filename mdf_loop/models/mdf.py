"""MDF models made ready: evaluated by operators where they can be, else by MDF's engine or as one loop over steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from mdf_loop.backend import LoopRep
from mdf_loop.calls.prepared import read_once
from mdf_loop.convert.naming import input_ids, names_of
from mdf_loop.convert.scheduled.conditions import Key
from mdf_loop.convert.scheduled.loops import Lowered, Stepping
from mdf_loop.errors import ArgumentError, IterationError, malformed, unknown_name, warn_user
from mdf_loop.integrations.engine_patches import said_of_seeds
from mdf_loop.integrations.engine_runs import (
    needs_no_scheduler,
    refuse_nothing,
    run_in_mdf,
    run_typed_in_mdf,
)
from mdf_loop.integrations.input_places import InputPlaces, refuse_options, with_inputs
from mdf_loop.integrations.input_warnings import InputWarnings
from mdf_loop.integrations.model_constants import constants, told_apart, with_constants
from mdf_loop.integrations.required_inputs import (
    open_ports,
    refuse_without_value,
    required_ports,
    warn_of_zeros,
)
from mdf_loop.integrations.scheduled_loops import ScheduledLoops
from mdf_loop.integrations.typed_graph import prepare_typed, run_typed
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.models.once import NotOnce, OnceGraph, Request, Runner
from mdf_loop.models.recordings.recorded_names import at_start_in_body, at_start_in_graph
from mdf_loop.models.recordings.recording import recorded_run
from mdf_loop.models.recordings.steps_of_rows import Step, has_passes, steps_in_body, steps_of_rows
from mdf_loop.models.results import iterations_of, of_outermost, stop_of, summed_up
from mdf_loop.options import OPTIONS, Run, part_of, random_stream
from mdf_loop.readers.expressions.derivatives import STEP, wrong_with_step
from mdf_loop.readers.expressions.equation_texts import is_equations
from mdf_loop.readers.mdf.by_place import LOOPS, graph_by_place, node_by_name
from mdf_loop.readers.mdf.input_ports import with_values
from mdf_loop.readers.mdf.node import is_stateful
from mdf_loop.readers.mdf.signature import output_ports, said_names
from mdf_loop.readers.mdf.stepped_loops import has_stepped_loops
from mdf_loop.readers.mdf.typed import has_conditions, is_typed
from mdf_loop.types.fitting import as_array
from mdf_loop.types.ports import Input, Output, Ports, declared, inputs_of_graph, type_of


class MdfModel(Model):
    """A model that is one MDF graph.

    Parameters
    ----------
    graph : modeci_mdf Graph
        It belongs to this model from now on.
    name, source : str
    """

    def __init__(self, graph: Any, name: str = "", source: str = "") -> None:
        self.graph, self.name, self.source = graph_by_place(graph, read_once), name or str(graph.id), source

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its graph; it is planned again when it is unpickled."""
        return type(self), (self.graph, self.name, self.source)

    @cached_property
    def said_of_seeds(self) -> str:
        """What who runs the model has to know of its seeds."""
        return said_of_seeds(self.graph)

    @cached_property
    def once(self) -> OnceGraph | None:
        """The graph as operators evaluate it once; None if that is left to MDF's engine."""
        try:
            return OnceGraph(self.graph)
        except NotOnce as reason:
            self.left_to_mdf = str(reason)
            return None

    left_to_mdf = ""

    @cached_property
    def typed(self) -> LoopRep | None:
        """A graph that says types, as the ONNX graph it is; None for any other."""
        return prepare_typed(self.graph) if is_typed(self.graph) and needs_no_scheduler(self.graph) else None

    @cached_property
    def places(self) -> InputPlaces:
        """What its inputs may set."""
        return InputPlaces(self.graph)

    @cached_property
    def scheduled(self) -> ScheduledLoops:
        """Its loops over steps."""
        return ScheduledLoops(self.graph, self.places)

    @cached_property
    def inputs(self) -> Mapping[str, Input]:  # type: ignore[override]
        """What it takes: ports without an edge, and parameters; those of ONNX in a converted model."""
        if self.typed is not None:
            body, names = self.typed.body, names_of(self.graph)
            named = [(names.get(id, id), id) for id in body.inputs]
            return inputs_of_graph(body, named)
        found, places = dict[str, Input](), self.places.free
        needed = {(node, port.id) for node, port in required_ports(self.graph)}
        ids = Counter(each.id for each in places)
        for node, id, owner, attribute in places:
            name = id if ids[id] == 1 else f"{node}.{id}"
            default, kind = getattr(owner, attribute, None), "input port" if attribute == "default_value" else "parameter"
            said = declared(getattr(owner, "type", None), getattr(owner, "shape", None))
            text = isinstance(default, str)
            known = said if default is None or text else type_of(default)
            found[name] = Input(name, known, default, f"node {node}, {kind} {id}", (node, id) in needed)
        return Ports(found)

    @cached_property
    def outputs(self) -> Mapping[str, Output]:  # type: ignore[override]
        """What it gives: output ports that no edge reads, and the outputs that a converted graph says it has."""
        names = names_of(self.graph) if is_typed(self.graph) else {}
        ports = {(node.id, port.id): port for node in self.graph.nodes for port in node.output_ports}
        places = output_ports(self.graph)
        if self.typed is not None:
            said = {id: (node, id) for node, id in ports}
            places = {id: said[id] for id in said_names(self.graph, "outputs") or () if id in said}
        found = {
            names.get(name, name): Output(
                names.get(name, name),
                declared(ports[place].type, ports[place].shape or None) if self.typed is None else self.typed.body.type_of(name),
                f"node {place[0]}, output port {place[1]}",
            )
            for name, place in places.items()
        }
        return Ports(found)

    @cached_property
    def constants(self) -> Mapping[str, Input]:
        """Numbers in it that have a name and are no inputs, in the bodies of loops too: they can be set like inputs."""
        found = list(constants(self.graph))
        last = [constant.place[-1] for constant in found]
        named = [(c.place[-1] if last.count(c.place[-1]) == 1 else c.name, c) for c in found]
        return Ports({n: Input(n, c.type, c.value, f"constant {c.name}") for n, c in named if n not in self._known})

    @cached_property
    def _known(self) -> set[str]:
        """Every name of an input."""
        if not is_typed(self.graph):
            return {*self.inputs, *self.places.named}
        ids = input_ids(self.graph)
        free = {name for name, places in self.places.named.items() if any(each.is_port for each in places)}
        return {*self.inputs, *ids, *ids.values(), *(free if self.typed is None else ())}

    def takes(self, name: str) -> bool:
        """Whether a name is that of an input or of a constant.

        Raises
        ------
        ArgumentError
            It is close to that of a constant.
        """
        return name in self._known or bool(self.told_apart({name: None})[1])

    def refuse_twice(self, names: Iterable[str]) -> None:
        """See that no input is given under two names, such as ``name`` and ``node.name``.

        Raises
        ------
        ArgumentError
        """
        self.places.at(name for name in names if name in self.places.named)

    def refuse_missing(self, names: Collection[str]) -> None:
        """See that each input that has no value is among those that are given, and tell of zeros that MDF takes for others.

        Raises
        ------
        ArgumentError, MalformedBody
        """
        if self.typed is None and self._open:
            refuse_without_value(self.graph, names)
            warn_of_zeros(self.graph, names)

    @cached_property
    def _open(self) -> bool:
        """Whether there are inputs without a value."""
        return bool(open_ports(self.graph))

    def with_constants(self, values: Mapping[str, Any]) -> MdfModel:
        """The same model with other values of constants; the last one that was asked for is kept.

        Raises
        ------
        ArgumentError, KindError
            A name is not unique; a value has another shape or kind.
        """
        key = repr([(name, as_array(value, f"constant {name!r}").tolist()) for name, value in values.items()])
        kept = self._changed
        if kept is None or kept[0] != key:
            kept = self._changed = key, MdfModel(with_constants(self.graph, values), self.name, self.source)
        return kept[1]

    _changed: tuple[str, MdfModel] | None = None

    def told_apart(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is given, as inputs and as values of constants; a name that is unknown stays among the inputs.

        Raises
        ------
        ArgumentError
            It is close to that of a constant: who runs the model knows its inputs alone.
        """
        given, inside = told_apart(self.graph, inputs, self._known)
        for name in given:
            if name not in self._known and name not in OPTIONS and get_close_matches(name, self.constants):
                raise unknown_name("the model has no input and no constant called", name, [*self.inputs, *self.constants])
        return given, inside

    def row(self, wish: Wish) -> str:
        """What a row of what a run collects or records is."""
        return "pass" if self._has_passes else "iteration" if wish.steps is None else "step"

    @cached_property
    def _has_passes(self) -> bool:
        """Whether a row is a pass, in which some nodes may not run."""
        return self.typed is None and has_passes(self.graph)

    def steps_of_rows(self, record: tuple[str, ...]) -> Mapping[str, Step]:
        """The outputs and recorded values that have a time, and how long an iteration takes."""
        if self.typed is not None:
            ids = {name: id for id, name in names_of(self.graph).items()}
            in_graph, port = {name: ids.get(name, name) for name in record}, self.inputs.get(STEP)
            return steps_in_body(self.typed.body, in_graph, ids.get(STEP, STEP), None if port is None else port.default)
        collected = {} if self.once is None else self.once.anything.collected
        return steps_of_rows(self.graph, self.places, collected, record)

    @cached_property
    def _warnings(self) -> InputWarnings:
        """What its runs say of inputs."""
        return InputWarnings(self.places)

    @cached_property
    def units(self) -> Mapping[str, str]:  # type: ignore[override]
        """The units that the metadata of ports and parameters say: by the names of inputs and outputs, and as ``node.id``.

        The parameter of a body says those of values inside it, by their names; output ports that are such values have the same.
        """
        found = dict[tuple[str, str], str]()
        for node in self.graph.nodes:
            for part in (*node.parameters, *node.input_ports, *node.output_ports):
                said = (part.metadata or {}).get("units")
                units = {part.id: said} if isinstance(said, str) else said if isinstance(said, Mapping) else {}
                found |= {(node.id, id): unit for id, unit in units.items() if isinstance(unit, str)}
            found = {(node.id, id): unit for id, unit in _units_of_results(node).items()} | found
        named = {name: places[0].place for name, places in self.places.named.items()} | output_ports(self.graph)
        return {f"{node}.{id}": unit for (node, id), unit in found.items()} | {
            name: found[place] for name, place in named.items() if place in found
        }

    @cached_property
    def sent(self) -> Sequence[str]:  # type: ignore[override]
        """The output ports that edges read."""
        return tuple(dict.fromkeys(f"{edge.sender}.{edge.sender_port}" for edge in self.graph.edges))

    @property
    def drawn(self) -> Any:  # type: ignore[override]
        """The graph."""
        return self.graph

    def _names_of_its_own(self) -> Iterable[str]:
        return self.inputs if self.typed is not None else ()

    def refuse_how(self, how: Mapping[str, Any]) -> None:
        super().refuse_how(how)
        for name in how:
            if name != "seed" and (full := self.full_name(name)) != name:
                warn_user(f"{name}= is an argument of the call here; the model has a value of that name: give it as {full!r}")
        without = [name for name in ("time_increment", "collect") if name in how]
        if without and "steps" not in how:
            raise ArgumentError(f"{' and '.join(without)} without steps; steps is the number of evaluations of the model")
        if said := wrong_with_step(how.get("time_increment"), "time_increment"):
            warn_user(said)
        if "steps" in how and "time_increment" not in how and (names := self._integrated):
            warn_user(f"no time passes for {', '.join(names)}: steps have no length; give time_increment=, the time between two")
        if how.get("time_increment") is not None and not self._integrated:
            warn_user("nothing reads time_increment: no parameter of the model has a time_derivative")

    @cached_property
    def _integrated(self) -> list[str]:
        """Parameters with a ``time_derivative``."""
        return [
            f"{node.id}.{each.id}" for node in self.graph.nodes for each in node.parameters if each.time_derivative is not None
        ]

    @cached_property
    def goes_on(self) -> bool:
        """Whether a second evaluation would not be the first one again."""
        parameters = [parameter for node in self.graph.nodes for parameter in node.parameters]
        return self.once is None or any(is_stateful(each) or each.time_derivative is not None for each in parameters)

    def _warn_of_steps(self, steps: int, collect: bool) -> None:
        """Say that steps are no iterations of a loop, where each is the first one again and only the last is seen."""
        if steps > 1 and not collect and not self.goes_on and _has_loop(self.graph):
            warn_user(
                f"steps={steps} evaluates the model so many times, each time from its beginning, and the outputs are those "
                "of the last; the iterations of a loop are its argument M, and trials= repeats a run"
            )

    def collected(self, wish: Wish) -> tuple[str, ...]:
        """The outputs that have a row for each iteration of a loop, or for each step."""
        if wish.steps is not None:
            return tuple(self.outputs) if wish.collect else ()
        return () if self.once is None else tuple(self.once.anything.collected)

    def at_start(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those names of what is recorded that mean values at the start of an iteration."""
        if self.typed is not None:
            ids = {name: id for id, name in names_of(self.graph).items()}
            return at_start_in_body(self.typed.body, {name: ids.get(name, name) for name in names})
        return () if self._has_passes else at_start_in_graph(self.graph, names)

    def found_by(self, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
        """What a run gives."""
        inputs, inside = self.told_apart(inputs)
        if inside:
            return self.with_constants(inside).found_by(inputs, run, wish)
        if not is_typed(self.graph):
            refuse_nothing(inputs)
            self.refuse_missing(inputs)
            self._warnings.warn(inputs, run)
        if (found := self.on_device(inputs, run, wish)) is not None:
            return found
        if wish.record:
            return recorded_run(self, inputs, run, wish)
        try:
            found = self.evaluated_once(inputs, run) if wish.steps is None else None
            return found or self.in_other_ways(inputs, run, wish)
        except IterationError as error:
            self._hint_at_arrays(error, inputs)
            raise

    def _hint_at_arrays(self, error: IterationError, inputs: Mapping[str, Any]) -> None:
        """Say which input is an array where the model has a number: values of a sweep, perhaps."""
        for name, value in inputs.items():
            port = self.inputs.get(name)
            if port is not None and isinstance(port.default, int | float) and np.ndim(value):
                said = f"{name} is a number in the model; values to sweep go into mdf_loop.sweep(model, over={{{name!r}: [...]}})"
                error.args = (f"{error}; {said}", *error.args[1:])
                return

    def evaluated_once(
        self, inputs: Mapping[str, Any], run: Run, call: Runner = Request.run, record: Mapping[str, Key] = MappingProxyType({})
    ) -> Found | None:
        """What an evaluation by operators gives; None if the graph is left to others."""
        if run.options.trusted or self.once is None:
            return None
        given = self.places.given(inputs)
        if dict in map(type, given.values()):  # bodies of loops
            return MdfModel(with_values(self.graph, given), self.name, self.source).evaluated_once({}, run, call, record)
        try:
            evaluation = self.once.made(given, (*record.values(), *(sent := self._warnings.sent)))
        except NotOnce:
            if not sent:
                return None
            self._warnings.sent = {}  # perhaps it cannot be recorded, but passed on
            return self.evaluated_once(inputs, run, call, record)
        ended: list[tuple[str, int, str]] = []
        may_decide: list[bool] = []

        def noting(request: Request, run: Run) -> Any:
            results = call(request, run)
            done = iterations_of(run)
            ended.append((request.place, done, stop_of(done, request.arguments.trip_count)))
            may_decide.append(request.may_decide(run))
            return results

        with malformed("this graph cannot be run", (self.graph.id,)):
            outputs, recorded = evaluation.evaluate(given, run, noting)
        self._warnings.warn_of_sent(sent, recorded[len(record) :], run)
        return Found(outputs, *summed_up(ended), dict(zip(record, recorded, strict=False)), may_decide == [True])

    def full_name(self, name: str) -> str:
        """An input, or a constant of ONNX, with its node, where a name means one."""
        if self.typed is None:
            found = [".".join(each.place) for each in self.places.of(name)]
        else:
            found = [each.name for each in constants(self.graph) if each.is_called(name)]
        return found[0] if len(found) == 1 else name

    def in_other_ways(self, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
        """What the loop over steps gives, or MDF's engine."""
        graph, steps = self.graph, wish.steps
        with part_of(run), random_stream(run.stream), malformed("this graph cannot be run", (graph.id,)):
            if self.typed is not None:
                refuse_options(inputs, self._known)
                return Found(run_typed(graph, inputs, self.typed), *of_outermost(run))
            if steps is None and is_typed(graph):
                return Found(run_typed_in_mdf(graph, inputs), *of_outermost(run))
            if steps is None and (run.options.trusted or not has_conditions(graph) or has_stepped_loops(graph)):
                return Found(run_in_mdf(with_inputs(graph, inputs)), *of_outermost(run))
            how = Stepping(1 if steps is None else steps, wish.time_increment, wish.collect)
            outputs, passes, _ = self.scheduled.run(
                inputs, how, run, steps is None, lambda lowered: self.warn_of_sent(lowered, run)
            )
            for node, said in never_run(graph, outputs, passes).items() if steps is None and passes else ():
                run.warn_once((id(graph), node), f"{graph.id}/{node}: {said}")
            if steps is None:
                return Found(outputs, passes, "condition")
            self._warn_of_steps(steps, wish.collect)
        return Found(outputs, passes, "trip count")

    def warn_of_sent(self, lowered: Lowered, run: Run) -> None:
        """Say what edges bring in the first passes that is not what their ports declare."""
        sent = self._warnings.sent
        self._warnings.warn_of_sent(sent, [lowered.known.get(key) for key in sent], run)


def _has_loop(graph: Any) -> bool:
    """Whether a node of a graph is a loop."""
    return any(thing.function in LOOPS for node in graph.nodes for thing in (*node.parameters, *node.functions))


def never_run(graph: Any, outputs: Mapping[str, Any], passes: int, of_what: str = "") -> dict[str, str]:
    """By their ids, the nodes with a condition whose outputs have no value after so many passes, and what to say of that."""
    if all(value is not None for value in outputs.values()):
        return {}
    of_node = "its condition, or that of a node before it, was never true"
    why = of_node if passes else "the model ends before its first pass"
    missing = [node for name, (node, _) in output_ports(graph).items() if outputs.get(name, 0) is None]
    return dict.fromkeys(missing, f"it did not run in the {passes} passes{of_what}, and its outputs are None; {why}")


def _units_of_results(node: Any) -> dict[str, str]:
    """The units of output ports that are a value of a loop, or what is collected of one: those that its body says."""
    units, collected = dict[str, Any](), dict[str, str]()
    for part in node.parameters:
        said = (part.metadata or {}).get("units")
        if isinstance(said, Mapping) and isinstance(part.value, Mapping) and is_equations(part.value):
            units |= said
            collected |= {name: str(text) for name, text in (part.value.get("collected") or {}).items()}
    values = {port.id: str(port.value).partition(".") for port in node_by_name(node).output_ports} if units else {}
    names = {id: name for id, (loop, _, name) in values.items() if loop.isidentifier()}
    found = {id: units.get(name, units.get(collected.get(name, ""))) for id, name in names.items()}
    return {id: unit for id, unit in found.items() if isinstance(unit, str)}
