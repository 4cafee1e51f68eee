"""``record``: values of a run beside its outputs, kept once an iteration, pass or step.

What is asked for is found in the model by name, and the graph, or the loop over its passes, gives it as further outputs; loops
inside give it as one more collected value.  A model that is not asked to record anything runs as it always does.

The loop of a node is a loop inside the loop over passes of a scheduled model, so what is inside it is recorded as of any loop in
a loop: a row for each pass has the values of all iterations that the node's loop ran in it; of a pass in which the node did not
run, none.  Of a graph that is evaluated once, in one pass, iterations are rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mdf_loop.backend import LoopRep
from mdf_loop.calls.prepared import PreparedLoop
from mdf_loop.convert.inner_values import Way, collecting, fitting, loops_on, only_one, rows_of, ways_in, with_value
from mdf_loop.convert.naming import names_of
from mdf_loop.convert.scheduled.conditions import INSIDE, Key, way_inside
from mdf_loop.convert.scheduled.loops import Stepping
from mdf_loop.convert.scheduled.lowered_runs import Lowered, Runner
from mdf_loop.errors import ArgumentError, malformed, unknown_name
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.integrations.engine_runs import Watched
from mdf_loop.integrations.input_places import with_inputs
from mdf_loop.models.model import MOST, Found, Model, Wish
from mdf_loop.models.once import Request, part_of_model
from mdf_loop.models.recordings.recorded_names import found_in
from mdf_loop.models.recordings.recorded_rows import LoopRecording, Recorder, filled
from mdf_loop.models.results import of_outermost
from mdf_loop.options import Run, part_of, random_stream
from mdf_loop.readers.mdf.stepped_loops import is_stepped
from mdf_loop.readers.mdf.typed import has_conditions

if TYPE_CHECKING:
    from mdf_loop.models.mdf import MdfModel


def recorded_run(model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
    """A run of an MDF model that records.

    Raises
    ------
    ArgumentError
        There is nothing of a name, or what it means cannot be recorded.
    """
    if model.typed is not None:
        ids = {name: id for id, name in names_of(model.graph).items()}
        return recorded_rep(model.typed, model, inputs, run, wish, ids)
    if any(isinstance(value, dict) for value in inputs.values()):  # which may be the body of a loop
        return recorded_run(type(model)(with_inputs(model.graph, inputs), model.name, model.source), {}, run, wish)
    keys = model.made_for("recordings", MOST).of(wish.record, lambda: found_in(model.graph, wish.record))
    recorder, found = Recorder(wish.every, wish.record_to), None
    if wish.steps is None and not run.options.trusted and model.once is not None:
        found = _recorded_once(model, inputs, run, keys, recorder)
    found = found or _recorded_passes(model, inputs, run, wish, keys, recorder)
    found.recorded = {name: recorder.found[name] for name in wish.record}
    return found


def _recorded_once(
    model: MdfModel, inputs: Mapping[str, Any], run: Run, keys: Mapping[str, Key], recorder: Recorder
) -> Found | None:
    """What an evaluation by operators gives, with what is recorded as further outputs; None if it is left to others."""

    def call(request: Request, run: Run) -> Any:
        ways = {name: way for name, way in inside.items() if way[0] == request.place}
        if not ways:
            return request.run(run)
        return LoopRecording(request.prepared.execute, ways, recorder).run(request.arguments, part_of_model(run))

    inside = {name: way_inside(key) for name, key in keys.items() if key[0] == INSIDE}
    found = model.evaluated_once(inputs, run, call, keys)
    if found is not None:
        for name, value in found.recorded.items():
            if name not in inside:
                recorder.keep(name, filled([value], name))
    return found


def recorded_rep(
    prepared: LoopRep,
    model: Model,
    inputs: Mapping[str, Any],
    run: Run,
    wish: Wish,
    ids: Mapping[str, str] = MappingProxyType({}),
) -> Found:
    """A run of a graph of operators that records: values of it, or of loops in it; ``ids`` are what it calls things by itself."""
    rep, ways = model.made_for("recordings", MOST).of(
        wish.record, lambda: rep_with(prepared, wish.record, f"the model {model.name!r}", ids)
    )
    count = len(prepared.body.outputs)
    given = {ids.get(name, name): value for name, value in inputs.items()}
    with part_of(run), random_stream(run.stream):
        results = rep.run(given)
    recorder = Recorder(wish.every, wish.record_to)
    for name, way, value in zip(wish.record, ways, results[count:], strict=True):
        rows = rows_of(value, loops_on(way))
        recorder.keep(name, rows if loops_on(way) else filled([rows], name))
    outputs = dict(zip(model.outputs, results[:count], strict=False))
    return Found(outputs, *of_outermost(run), recorded=dict(recorder.found))


def rep_with(prepared: LoopRep, names: Sequence[str], where: str, ids: Mapping[str, str]) -> tuple[LoopRep, list[Way]]:
    """A graph of operators that gives some values more, as its last outputs, and the ways to them.

    Raises
    ------
    ArgumentError
        There is no such value, or there are several.
    """
    body, ways = prepared.body, list[Way]()
    for name in names:
        found = fitting(prepared.body, ids.get(name, name))
        if not found:
            known = [".".join(way) for way in ways_in(prepared.body)]
            raise unknown_name(f"{where} has nothing to be recorded called", ids.get(name, name), known)
        ways.append(only_one(found, ids.get(name, name)))
        body, output = with_value(body, ways[-1], where)
        body = replace(body, outputs=(*body.outputs, output))
    return LoopRep(body), ways


def _recorded_passes(
    model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish, keys: Mapping[str, Key], recorder: Recorder
) -> Found:
    """A run of a scheduled model: what is recorded is more that the loop over its passes collects."""
    steps = 1 if wish.steps is None else wish.steps
    how = Stepping(steps, wish.time_increment, wish.collect, tuple(keys.values()))
    ways = {name: ("", *(way_inside(key) if key[0] == INSIDE else key[2:])) for name, key in keys.items()}

    def begin(lowered: Lowered) -> Runner | None:
        model.warn_of_sent(lowered, run)
        rows = [rows_of(column, loops_on(way)) for column, way in zip(lowered.recorded, ways.values(), strict=True)]
        recorder.before = dict(zip(keys, rows, strict=True))
        return None if lowered.loop is None else LoopRecording(lowered.execute, ways, recorder).results

    with part_of(run), random_stream(run.stream), malformed("this graph cannot be run", (model.graph.id,)), recorder.keeping():
        is_once = wish.steps is None
        outputs, passes, rows = model.scheduled.run(inputs, how, run, is_once, begin, lambda graph: _watched(graph, keys))
        if not recorder.found:  # there was no loop
            recorder.before, is_alone = {}, is_once and not has_conditions(model.graph) and passes == 1
            for (name, way), found in zip(ways.items(), rows, strict=True):
                values = rows_of(found, loops_on(way))
                is_port = keys[name][0] != INSIDE
                recorder.keep(name, filled(values, name) if is_port else values[0] if is_alone else values)
    return Found(outputs, passes, "trip count" if wish.steps else "condition")


def _watched(graph: Any, keys: Mapping[str, Key]) -> Watched:
    """What runs loops of nodes in MDF's engine, where values inside them are recorded."""
    ways = dict[tuple[str, ...], dict[str, Way]]()
    for name, key in keys.items():
        if key[0] == INSIDE:
            _refuse_stepped(graph, *key[1:3])
            ways.setdefault(key[1:3], {})[name] = way_inside(key)
    return {place: partial(_run_watched, here) for place, here in ways.items()}


def _run_watched(ways: Mapping[str, Way], found: dict[str, Any], prepared: PreparedLoop, arguments: Arguments, run: Run) -> Any:
    """The results of a loop that MDF's engine runs; what is recorded inside it becomes known in ``found``."""
    record = prepared.record
    for way in ways.values():
        record = collecting(record, way[1:], f"the loop {record.name or record.body.name!r}")
    recorder = Recorder(found=found)
    return LoopRecording(NumpyLoop(record), ways, recorder).run(arguments, run)


def _refuse_stepped(graph: Any, node: str, id: str) -> None:
    """See that a loop is run at once.

    Raises
    ------
    ArgumentError
    """
    owner = next(each for each in graph.nodes if each.id == node)
    thing = next(each for each in (*owner.parameters, *owner.functions) if each.id == id)
    if is_stepped(owner, thing):
        raise ArgumentError(
            f"values inside {node}.{id} cannot be recorded: it runs some iterations in each pass; "
            "collect them in the loop, and record its output port"
        )
