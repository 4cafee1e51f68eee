"""``record``: values of a run beside its outputs, kept once an iteration, pass or step.

What is asked for is found in the model by name, and the loops it is in give it as one more collected value.  A model that
is not asked to record anything runs as it always does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdf_loop.backend import LoopRep
from mdf_loop.calls.prepared import read_once
from mdf_loop.convert.restoring import names_of
from mdf_loop.convert.scheduled.loops import execute
from mdf_loop.errors import ArgumentError, malformed
from mdf_loop.integrations.scheduled import run_recorded_in_mdf
from mdf_loop.integrations.scheduled_loops import Stepping
from mdf_loop.models.direct import DirectGraph
from mdf_loop.models.mdf import MdfModel, of_outermost
from mdf_loop.models.model import Found, Wish, unknown_name
from mdf_loop.models.network import NetworkModel
from mdf_loop.models.node_loops import NodeLoop, Request, part_of_model
from mdf_loop.models.recorded_body import with_outputs
from mdf_loop.models.recorded_run import LoopRecording, Recorder, filled
from mdf_loop.models.recorded_traces import rows_of
from mdf_loop.models.recorded_ways import Way, fitting, is_conditional, only_one, ways_in
from mdf_loop.options import Run, part_of, random_stream

Key = tuple[str, str, str]
"""A port or parameter: ``"input"``, ``"parameter"``, ``"function"`` or ``"output"``, its node and its id."""


def recorded_run(model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
    """A run of an MDF model that records.

    Raises
    ------
    ArgumentError
        There is nothing of a name.
    """
    if model.typed is not None:
        return _recorded_rep(model.typed, model, inputs, run, wish)
    recorder = Recorder(wish.every, wish.record_to)
    direct = model.direct if wish.steps is None and not run.options.trusted else None
    if direct is None:
        return _recorded_passes(model, inputs, run, wish, recorder)
    keys, loops = _found_in(model, direct, wish.record)
    recordings: dict[tuple[str, int], LoopRecording] = {}

    def call(request: Request, run: Run) -> Any:
        if request.place not in loops:
            return request.run(run)
        at = request.place, id(request.prepared)
        if at not in recordings:
            recordings[at] = LoopRecording.of(request.prepared.record, loops[request.place])
        return recordings[at].run(request.arguments, part_of_model(run), recorder)

    scopes: dict[Any, Any] = {}
    found = model.directly(direct, inputs, run, call, scopes)
    if found is None:
        model.in_other_ways(inputs, run, wish)  # which says what is wrong
        if loops:
            names = ", ".join(map(repr, wish.record))
            raise ArgumentError(f"{names} cannot be recorded: with these inputs the model runs in MDF's engine")
        return _recorded_passes(model, inputs, run, wish, recorder)
    for name, (kind, node, own) in keys.items():
        recorder.keep(name, filled([scopes[node, own] if kind == "output" else scopes[node][own]], name))
    found.recorded = {name: recorder.found.get(name) for name in wish.record}
    return found


def _found_in(model: MdfModel, direct: DirectGraph, names: Sequence[str]) -> tuple[dict[str, Key], dict[str, dict[str, Way]]]:
    """What names mean: ports and parameters, and by the place of a loop the ways to values inside it."""
    keys, loops = dict[str, Key](), dict[str, dict[str, Way]]()
    known = {f"{node}.{id}": (kind, node, id) for kind, node, id in keys_of(model.graph)}
    for name in names:
        if name in known:
            keys[name] = known[name]
            continue
        place, way = _in_loop(model, direct, name, known)
        loops.setdefault(place, {})[name] = way
    return keys, loops


def _in_loop(model: MdfModel, direct: DirectGraph, name: str, known: Mapping[str, Key]) -> tuple[str, Way]:
    """The loop that a name leads into, and the way inside it: ``node.value``, ``node.loop.value`` and so on."""
    node, _, rest = name.partition(".")
    here = next((each for each in direct.nodes if each.id == node), None)
    loops = here.loops if here is not None else {}
    head, _, tail = rest.partition(".")
    chosen = {head: loops[head]} if head in loops and tail else loops
    within = tail if head in loops and tail else rest
    found = [(loop, ways) for loop in chosen.values() if (ways := fitting(body_of(loop), within))]
    if len(found) > 1:
        places = " or ".join(f"{loop.place}.{within}" for loop, _ in found)
        raise ArgumentError(f"{name!r} is in several loops; say which: {places}")
    if found:
        return found[0][0].place, only_one(found[0][1], name, f"{node}.")
    raise unknown_name("there is nothing to be recorded called", name, [*known, *_inside(direct)])


def _inside(direct: DirectGraph) -> Iterator[str]:
    """The names of all values inside loops."""
    for node in direct.nodes:
        for loop in node.loops.values():
            for way in ways_in(body_of(loop)):
                yield f"{node.id if len(node.loops) == 1 else loop.place}.{'.'.join(way)}"


def body_of(loop: NodeLoop) -> Any:
    """The body of a loop in a node, before it ran."""
    return read_once(loop.source, loop.n_carried, "scan" if loop.is_scan else "loop")


def keys_of(graph: Any) -> Iterator[Key]:
    """All ports, parameters and functions of a graph; where two have one name the output port is meant."""
    for node in graph.nodes:
        for kind, things in (
            ("input", node.input_ports),
            ("parameter", node.parameters),
            ("function", node.functions),
            ("output", node.output_ports),
        ):
            for thing in things:
                yield kind, node.id, thing.id


def _recorded_passes(model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish, recorder: Recorder) -> Found:
    """A scheduled model: its values after each pass."""
    known = {f"{node}.{id}": (kind, node, id) for kind, node, id in keys_of(model.graph)}
    for name in wish.record:
        if name not in known:
            raise unknown_name("there is nothing to be recorded called", name, known)
    keys, steps = tuple(known[name] for name in wish.record), 1 if wish.steps is None else wish.steps
    how = Stepping(steps, wish.time_increment, wish.collect, keys)
    with part_of(run), random_stream(run.stream), malformed("this graph cannot be run", (model.graph.id,)):
        loop = model.scheduled.find(inputs, how)
        lowered = loop.lowered(run)
        if lowered is None:
            outputs, rows = run_recorded_in_mdf(loop.graph, *loop.how)
            for name, row in zip(wish.record, rows, strict=True):
                recorder.keep(name, filled(row, name))
            return Found(outputs, len(rows[0]), "trip count" if wish.steps else "condition", dict(recorder.found))
        recorder.before = {name: [row[k] for row in lowered.rows] for k, name in enumerate(wish.record)}

        def call(record: Any, given: Any, run: Run) -> Any:
            made = loop.made_of(record, lambda record: LoopRecording(record, wish.record))
            return made.results_of(given, run, recorder)

        outputs = execute(lowered, run, call)
        if not recorder.found:
            for name in wish.record:
                recorder.keep(name, None)
    passes = lowered.before + (of_outermost(run)[0] or 0)
    return Found(outputs, passes, "trip count" if wish.steps else "condition", dict(recorder.found))


def recorded_network(model: NetworkModel, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
    """A run of a model of ONNX or OpenVINO that records: values of its graph, or of loops in it."""
    return _recorded_rep(model.prepared, model, inputs, run, wish)


def _recorded_rep(prepared: LoopRep, model: Any, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
    ids = {name: id for id, name in names_of(model.graph).items()} if isinstance(model, MdfModel) else {}
    ways = [_way_to(prepared.body, ids.get(name, name), f"the model {model.name!r}") for name in wish.record]
    body, names = with_outputs(prepared.body, ways, f"the model {model.name!r}")
    count = len(body.outputs)
    rep = LoopRep(replace(body, outputs=(*body.outputs, *names)))
    given = {ids.get(name, name): value for name, value in inputs.items()}
    with part_of(run), random_stream(run.stream):
        results = rep.run(prepared.fit(given))
    recorder = Recorder(wish.every, wish.record_to)
    for name, way, value in zip(wish.record, ways, results[count:], strict=True):
        if is_conditional(way):
            value = rows_of(value, way, has_rows=False)
        recorder.keep(name, value if len(way) > 1 else filled([value], name))
    outputs = dict(zip(model.outputs, results[:count], strict=False))
    return Found(outputs, *of_outermost(run), recorded=dict(recorder.found))


def _way_to(body: Any, name: str, where: str) -> Way:
    found = fitting(body, name)
    if not found:
        raise unknown_name(f"{where} has nothing to be recorded called", name, [".".join(way) for way in ways_in(body)])
    return only_one(found, name)
