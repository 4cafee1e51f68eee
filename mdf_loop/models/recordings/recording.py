"""``record``: values of a run beside its outputs, kept once an iteration, pass or step.

What is asked for is found in the model by name, and the loops it is in give it as one more collected value.  A model that
is not asked to record anything runs as it always does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mdf_loop.backend import LoopRep
from mdf_loop.convert.restoring import names_of
from mdf_loop.models.between_loops import Request, part_of_model
from mdf_loop.models.mdf import MdfModel, of_outermost
from mdf_loop.models.model import Found, Wish, unknown_name
from mdf_loop.models.network import NetworkModel
from mdf_loop.models.recordings.more_outputs import recorded_value, with_outputs
from mdf_loop.models.recordings.recorded_names import found_in
from mdf_loop.models.recordings.recorded_run import LoopRecording, Recorder, filled
from mdf_loop.models.recordings.scheduled_passes import gives_body, recorded_passes
from mdf_loop.models.recordings.ways import Way, fitting, only_one, ways_in
from mdf_loop.options import Run, part_of, random_stream


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
    is_once = wish.steps is None and not run.options.trusted and not gives_body(inputs) and model.once is not None
    found = _recorded_once(model, inputs, run, wish, recorder) if is_once else None
    return recorded_passes(model, inputs, run, wish, recorder) if found is None else found


def _recorded_once(model: MdfModel, inputs: Mapping[str, Any], run: Run, wish: Wish, recorder: Recorder) -> Found | None:
    """The same by operators, with ports and parameters as further outputs; None if it is left to others."""
    keys, loops = found_in(model.graph, wish.record)
    recordings: dict[int, LoopRecording] = {}

    def call(request: Request, run: Run) -> Any:
        if request.place not in loops:
            return request.run(run)
        if request.step not in recordings:
            recordings[request.step] = LoopRecording.of(request.prepared.record, loops[request.place])
        return recordings[request.step].run(request.arguments, part_of_model(run), recorder)

    found = model.evaluated_once(inputs, run, call, keys)
    if found is not None:
        for name, value in found.recorded.items():
            recorder.keep(name, filled([value], name))
        found.recorded = {name: recorder.found.get(name) for name in wish.record}
    return found


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
        recorder.keep(name, recorded_value(value, way) if len(way) > 1 else filled([value], name))
    outputs = dict(zip(model.outputs, results[:count], strict=False))
    return Found(outputs, *of_outermost(run), recorded=dict(recorder.found))


def _way_to(body: Any, name: str, where: str) -> Way:
    found = fitting(body, name)
    if not found:
        raise unknown_name(f"{where} has nothing to be recorded called", name, [".".join(way) for way in ways_in(body)])
    return only_one(found, name)
