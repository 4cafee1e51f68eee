"""``record``: values of a run beside its outputs, kept once an iteration, pass or step.

What is asked for is found in the model by name, and the loops it is in give it as one more collected value.  A model that
is not asked to record anything runs as it always does.

The loop of a node is a loop inside the loop over passes of a scheduled model, so what is inside it is recorded as of any loop in
a loop: a row for each pass has the values of all iterations that the node's loop ran in it; of a pass in which the node did not
run, none.  Of a graph that is evaluated once, in one pass, iterations are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mdf_loop.backend import LoopRep
from mdf_loop.calls.prepared import PreparedLoop
from mdf_loop.convert.naming import names_of
from mdf_loop.convert.scheduled.loops import Lowered, execute
from mdf_loop.convert.scheduled.slots import interpreted
from mdf_loop.errors import ArgumentError, keeps_results, malformed
from mdf_loop.execute.interpret import Arguments
from mdf_loop.integrations.engine_runs import run_recorded_in_mdf
from mdf_loop.integrations.input_places import with_inputs
from mdf_loop.integrations.scheduled_loops import ScheduledLoop, Stepping
from mdf_loop.ir import Body, Loop
from mdf_loop.models.model import Found, Model, Wish, unknown_name
from mdf_loop.models.once import Request, part_of_model
from mdf_loop.models.recordings.more_outputs import NOTHING, recorded_value, with_outputs
from mdf_loop.models.recordings.recorded_run import LoopRecording, Recorder, filled
from mdf_loop.models.recordings.ways import Branch, Key, Way, fitting, found_in, only_one, ways_in
from mdf_loop.models.results import of_outermost
from mdf_loop.options import Run, part_of, random_stream
from mdf_loop.readers.mdf.stepped_loops import is_stepped
from mdf_loop.readers.mdf.typed import has_conditions
from mdf_loop.system.threads import Recent

if TYPE_CHECKING:
    from mdf_loop.models.mdf import MdfModel

MOST = 8
"""For how many recordings it is kept what was made for them."""


def recorded_run(model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
    """A run of an MDF model that records.

    Raises
    ------
    ArgumentError
        There is nothing of a name.
    """
    if model.typed is not None:
        ids = {name: id for id, name in names_of(model.graph).items()}
        return recorded_rep(model.typed, model, inputs, run, wish, ids)
    recorder = Recorder(wish.every, wish.record_to)
    is_once = wish.steps is None and not run.options.trusted and not gives_body(inputs) and model.once is not None
    found = _recorded_once(model, inputs, run, wish, recorder) if is_once else None
    return recorded_passes(model, inputs, run, wish, recorder) if found is None else found


def _recorded_once(model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish, recorder: Recorder) -> Found | None:
    """The same by operators, with ports and parameters as further outputs; None if it is left to others."""
    keys, loops, made = model.made_for("recordings", MOST).of(
        wish.record, lambda: (*found_in(model.graph, wish.record), Recent(MOST))
    )

    def call(request: Request, run: Run) -> Any:
        if request.place not in loops:
            return request.run(run)
        prepared = request.prepared  # kept beside its recording, so that its place stays taken
        _, recording = made.of(id(prepared), lambda: (prepared, LoopRecording(prepared.record, loops[request.place])))
        return recording.run(request.arguments, part_of_model(run), recorder)

    found = model.evaluated_once(inputs, run, call, keys)
    if found is not None:
        for name, value in found.recorded.items():
            recorder.keep(name, filled([value], name))
        found.recorded = {name: recorder.found.get(name) for name in wish.record}
    return found


def recorded_at_start(model: Model, wish: Wish, find: Callable[[Sequence[str]], tuple[str, ...]]) -> tuple[str, ...]:
    """What is recorded and belongs to the start of an iteration, as a function finds it; nothing where a name means nothing."""
    if not wish.record or wish.steps is not None:
        return ()
    try:
        found: tuple[str, ...] = model.made_for("recorded_at_start", MOST).of(wish.record, lambda: find(wish.record))
    except ArgumentError:  # the run says it
        return ()
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
        recorder.keep(name, recorded_value(value, way) if len(way) > 1 else filled([value], name))
    outputs = dict(zip(model.outputs, results[:count], strict=False))
    return Found(outputs, *of_outermost(run), recorded=dict(recorder.found))


def rep_with(prepared: LoopRep, names: Sequence[str], where: str, ids: Mapping[str, str]) -> tuple[LoopRep, list[Way]]:
    """A graph of operators that gives some values more, as its last outputs, and the ways to them.

    Raises
    ------
    ArgumentError
        There is no such value, or there are several.
    """
    ways = [_way_to(prepared.body, ids.get(name, name), where) for name in names]
    body, outputs = with_outputs(prepared.body, ways, where)
    return LoopRep(replace(body, outputs=(*body.outputs, *outputs))), ways


def _way_to(body: Any, name: str, where: str) -> Way:
    found = fitting(body, name)
    if not found:
        raise unknown_name(f"{where} has nothing to be recorded called", name, [".".join(way) for way in ways_in(body)])
    return only_one(found, name)


Inside = Mapping[str, tuple[str, Way]]
"""What is recorded inside loops, by the names that were asked for: the place of the loop, and the way inside it."""


def recorded_passes(model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish, recorder: Recorder) -> Found:
    """A run of a scheduled model that records.

    Raises
    ------
    ArgumentError
        There is nothing of a name, or what it means cannot be recorded.
    """
    keys, loops = found_in(with_inputs(model.graph, inputs) if gives_body(inputs) else model.graph, wish.record)
    inside = {name: (place, way) for place, ways in loops.items() for name, way in ways.items()}
    steps = 1 if wish.steps is None else wish.steps
    how = Stepping(steps, wish.time_increment, wish.collect, tuple(keys.values()), tuple(inside))
    stop = "trip count" if wish.steps else "condition"
    is_once = wish.steps is None and not has_conditions(model.graph)
    with part_of(run), random_stream(run.stream), malformed("this graph cannot be run", (model.graph.id,)):
        loop, first = model.scheduled.find(inputs, how), FirstPasses(inside)
        lowered = loop.lowered(run, first.run if inside else None)
        if lowered is None:
            outputs, passes = _passes_in_mdf(loop, keys, loops, recorder, is_once)
            return Found(outputs, passes, stop, {name: recorder.found[name] for name in wish.record})
        recorder.before = {name: [row[k] for row in lowered.rows] for k, name in enumerate(keys)}
        rows = {name: first.rows_of(name, lowered.before) for name in inside}
        if lowered.loop is not None:
            recorder.before |= rows

        def call(lowered: Lowered, given: Arguments, run: Run) -> Any:
            made = lowered.made_of(lambda record: _recording(record, tuple(keys), inside))
            return made.results_of(given, run, recorder)

        try:
            outputs = execute(lowered, run, call)
        except BaseException as error:
            if not keeps_results(error):
                raise
            error.recorded = dict(recorder.found)
            raise
        if not recorder.found:
            _keep(recorder, rows, is_once)
            for name in keys:
                recorder.keep(name, None)
    return Found(outputs, lowered.passes(run), stop, {name: recorder.found[name] for name in wish.record})


def gives_body(inputs: Mapping[str, Any]) -> bool:
    """Whether inputs may say what is inside a loop."""
    return any(isinstance(value, dict) for value in inputs.values())


def _passes_in_mdf(
    loop: ScheduledLoop, keys: Mapping[str, Key], loops: Mapping[str, Mapping[str, Way]], recorder: Recorder, is_once: bool
) -> tuple[dict[str, Any], int]:
    """The outputs of a model that MDF's engine runs, and the number of passes; what is recorded goes to the recorder."""
    inside = {place: RecordedLoop(ways) for place, ways in loops.items()}
    watched: dict[tuple[str, str], Any] = {}
    for place, each in inside.items():
        node, _, id = place.rpartition(".")
        _refuse_stepped(loop.graph, node, id)
        watched[node, id] = each
    outputs, rows = run_recorded_in_mdf(loop.graph, *loop.how[:3], tuple(keys.values()), watched)
    for name, row in zip(keys, rows, strict=True):
        recorder.keep(name, filled(row, name))
    found = {name: row for each in inside.values() for name, row in each.rows.items()}
    _keep(recorder, found, is_once)
    return outputs, len([*rows, *found.values()][0])


def _keep(recorder: Recorder, rows: Mapping[str, list[Any]], is_once: bool) -> None:
    """Keep what was recorded inside loops: a row for each pass, or for each iteration of one pass that is all."""
    for name, found in rows.items():
        recorder.keep(name, found[0] if is_once and len(found) == 1 else found)


class RecordedLoop:
    """A loop of a node that MDF's engine runs, with what is recorded inside it: a row for each pass."""

    def __init__(self, ways: Mapping[str, Way]) -> None:
        self.ways = ways
        self.rows: dict[str, list[Any]] = {name: [] for name in ways}
        self._latest: Mapping[str, Any] = {}

    def run(self, prepared: PreparedLoop, arguments: Arguments, run: Run) -> Any:
        """The results of the loop."""
        recorder = Recorder()
        results = LoopRecording(prepared.record, self.ways).run(arguments, run, recorder)
        self._latest = recorder.found
        return results

    def passed(self) -> None:
        """A pass is over."""
        for name, rows in self.rows.items():
            rows.append(self._latest.get(name, NOTHING))
        self._latest = {}


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


def _recording(loop: Loop, names: tuple[str, ...], inside: Inside) -> LoopRecording:
    """The loop over passes, which collects the values of ports and parameters, with what is recorded inside loops as well."""
    return LoopRecording(loop, {name: _way(loop.body, *where, name) for name, where in inside.items()}, names)


def _way(body: Body, place: str, way: Way, name: str) -> Way:
    """The way to a value inside the loop of a node, in a pass: the node may stand in branches, where it need not run.

    Raises
    ------
    ArgumentError
        The node never runs.
    """
    found = [each for each in ways_in(body) if _trimmed(each) == (place, *way)]
    if not found:
        raise ArgumentError(f"{name!r} cannot be recorded: its node never runs")
    return found[0]


def _trimmed(way: Way) -> Way:
    """A way without the branches that it begins with."""
    first = next((k for k, part in enumerate(way) if not isinstance(part, Branch)), len(way))
    return way[first:]


class FirstPasses:
    """What is recorded inside loops in the passes that are run one by one."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self._rows: dict[str, dict[int, Any]] = {name: {} for name in inside}

    def run(self, node: str, body: Body, done: int) -> Sequence[Any]:
        """The results of a run of a node, in the pass behind so many."""
        ways = {name: _way(body, *where, name) for name, where in self.inside.items() if where[0].rpartition(".")[0] == node}
        more, taken = with_outputs(body, [*ways.values()], f"node {node!r}")
        count = len(body.outputs)
        results = interpreted(node, replace(more, outputs=(*more.outputs, *taken)), done)
        for (name, way), value in zip(ways.items(), results[count:], strict=True):
            self._rows[name][done] = recorded_value(value, way)
        return results[:count]

    def rows_of(self, name: str, passes: int) -> list[Any]:
        """A row for each of so many passes."""
        rows = self._rows[name]
        return [rows.get(k, NOTHING) for k in range(passes)]
