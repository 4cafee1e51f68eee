"""What a run of a model would refuse, found by evaluating it with all its loops cut short; the results are thrown away.

Everything is computed as in a run, so that a check reports what a run does.  Behind a loop that was cut short values are not
those of a run, but their kinds are: of what goes wrong there only that counts which does not depend on numbers.
"""

from __future__ import annotations

import contextlib
import copy
import math
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.calls.calling import alone_or_all, results_of, run_by
from mdf_loop.calls.prepared import PreparedLoop, read_once
from mdf_loop.checks.findings import ERROR, NOTE, WARNING, Finding
from mdf_loop.checks.long_steps import too_long_steps
from mdf_loop.checks.loop_bodies import values_of
from mdf_loop.convert.scheduled.run_order import thresholds
from mdf_loop.errors import (
    IterationLimit,
    LoopError,
    LoopTimeout,
    LoopWarning,
    MalformedBody,
    NotLowered,
    PartialResults,
    UnsupportedOp,
)
from mdf_loop.execute.endless import computed, computing
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.warnings.inverted_conditions import INVERTED
from mdf_loop.execute.warnings.zero_divisors import unguarded_divisors
from mdf_loop.integrations.engine_runs import needs_no_scheduler, run_in_mdf
from mdf_loop.integrations.evaluator import OF_PYTHON
from mdf_loop.integrations.input_places import InputPlaces, with_inputs
from mdf_loop.integrations.input_warnings import by_matrix
from mdf_loop.integrations.required_inputs import missing_values, required_ports
from mdf_loop.integrations.typed_graph import prepare_typed
from mdf_loop.ir import Body
from mdf_loop.models.mdf import MdfModel, never_run
from mdf_loop.models.model import PLAIN
from mdf_loop.models.once import Request, part_of_model
from mdf_loop.models.results import of_outermost
from mdf_loop.options import Run, options, start_run
from mdf_loop.readers.expressions.derivatives import STEP, wrong_with_step
from mdf_loop.readers.expressions.equations import reads_step
from mdf_loop.readers.expressions.expression_text import excerpt, number_in
from mdf_loop.readers.mdf.by_place import LOOPS, equations_of, graph_by_place, signature_of, source_of
from mdf_loop.readers.mdf.engine_body import reached_from
from mdf_loop.readers.mdf.node import CONTROL
from mdf_loop.readers.mdf.typed import has_conditions, is_typed
from mdf_loop.settings.engines import DEFINITION

MOST, SECONDS = 1000, 2.0
"""Iterations after which a loop is cut short, and how long all may take: less than people wait for."""


_RANKS = re.compile("invalid index to scalar|too many indices")
"""What numpy says of an index that is wrong whatever the lengths are."""

_ODD = re.compile("nan|infinite|is declared .*, and gets|so only the first .* are read")
"""What a run warns of that its loops compute, and that more iterations may change."""

_TYPES = re.compile(
    "has shape .* at first|begins as a boolean|s truth values|whole numbers, which cuts it off|"
    "gives one number, which all|which counts from the end|: it runs before|compares complex numbers|"
    f"one number is drawn for all|{OF_PYTHON}"
)
"""What it warns of whatever the numbers are, or however many iterations there are."""


def wrong_with_inputs(graph: Any, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Input ports that have no value: of which a run would be an error, and of which MDF takes 0 for it."""
    if is_typed(graph):
        return  # whose inputs are those of an ONNX model
    for _, place, said, is_needed in missing_values(graph, given):
        yield Finding(ERROR if is_needed else WARNING, f"{'/'.join(place)}: {said}", place)


def wrong_when_run(graph: Any, given: Mapping[str, Any]) -> Iterator[Finding | LoopError]:
    """The error that a run would end with, as far as it is found, and those of nodes that wait for no node that failed.

    A note where inputs are missing.
    """
    if is_typed(graph):
        yield from _of_typed(graph)
        return
    known = {name.rpartition(".")[2] for name in given}
    if any(port.id not in known for _, port in required_ports(graph)):
        message = "types and shapes are checked when its inputs have values; give them with --set"
        yield Finding(NOTE, f"{graph.id}: {message}", (str(graph.id),))
        return
    constants = [*wrong_with_constants(graph, given)]
    yield from constants
    end, trial = time.monotonic() + SECONDS, Trial(graph, given)
    while trial.error is not None:
        yield trial.error
        failed = getattr(trial.error, "mdf_node", "")
        if not failed or has_conditions(graph):
            return
        graph, given = without([failed], graph, given)
        if not graph.nodes or time.monotonic() > end:
            break
        trial = Trial(graph, given, trial.told)
    loops = [(node, each) for node in graph.nodes for each in (*node.parameters, *node.functions) if each.function in LOOPS]
    yield from trial.odd
    named = {f" '{node.id}.{each.id}'": (str(graph.id), node.id, each.id) for node, each in loops}
    nodes = {f"node {node.id!r}: ": (str(graph.id), node.id) for node in graph.nodes}
    yield from _placed([] if constants else trial.told, named, nodes, str(graph.id))
    for node, thing in loops:
        if thing.function == "onnx::Loop" and (count := trial.iterations.get(f"{node.id}.{thing.id}", MOST)) <= 1:
            is_inverted = any(f"'{node.id}.{thing.id}'" in said for said in trial.inverted)
            values = values_of(graph, node, given)
            yield from _ended_at_once(node, thing, values, count, is_inverted, (str(graph.id), node.id, thing.id))
        if (name := f"{node.id}.{thing.id}") in trial.at_m and trial.iterations[name] > 1:
            said = f"in the run that check tries, its condition was true after all {trial.iterations[name]} iterations, M"
            place = (str(graph.id), node.id, thing.id)
            yield Finding(NOTE, f"{'/'.join(place)}: {said}: it ended at M, and a larger M lets it go on", place)


Places = Mapping[str, tuple[str, ...]]
"""Places in a model by what warnings call them."""


def _placed(texts: Iterable[str], loops: Places, nodes: Places, graph: str) -> Iterator[Finding]:
    """What a run warns of, each with the place of the node or loop that it names, or of the only loop."""
    only = next(iter(loops)) if len(loops) == 1 else ""
    for text in texts:
        name = next((name for name in nodes if text.startswith(name)), "") or next((name for name in loops if name in text), only)
        port = re.match(r"(\w+)\.(\w+) is declared ", text)
        place = {**nodes, **loops}.get(name, (graph,)) if port is None else (graph, *port.groups())
        yield Finding(WARNING, f"{'/'.join(place)}: {text.replace(name, '', 1)}", place)


class Trial:
    """One evaluation of a graph with its loops cut short.

    Attributes
    ----------
    iterations : dict of str to int
        How many iterations loops had, by their places; of a graph that MDF's engine runs they are not known.
    error : LoopError or None
        What it ended with, but for what may follow from loops that were cut.
    told : list of str
        What loops warn of; of nan and infinity where no loop was cut.
    inverted : list of str
        What they warn of conditions that are false at the beginning.
    at_m : set of str
        The loops, by their places, that a condition could have ended, and that ended at M.
    odd : list of Finding
        Parameters that are computed and not finite, with which MDF's engine does not go on.
    """

    def __init__(self, graph: Any, given: Mapping[str, Any], told: Iterable[str] = ()) -> None:
        self.iterations, self.told, self._is_cut = dict[str, int](), [*told], False
        self.error: LoopError | None = None
        self.inverted, self.odd, self.at_m = list[str](), list[Finding](), set[str]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", LoopWarning)
            warnings.showwarning = self._note  # type: ignore[assignment]
            try:
                with options(engine=DEFINITION, max_iterations=MOST, timeout=SECONDS, progress=None):
                    self._run(MdfModel(graph), given)
            except (IterationLimit, LoopTimeout) as limit:
                self.odd += [_without_end(graph, limit)] if has_conditions(graph) else []
            except LoopError as error:
                self.error = error if not self._is_cut or _is_of_kinds(error) else None

    def _run(self, model: MdfModel, given: Mapping[str, Any]) -> None:
        def call(request: Request, run: Run) -> Any:
            inner, was_cut = part_of_model(run), self._is_cut
            self._is_cut = False
            results = self._shortened(request.prepared, request.arguments, inner)
            self.iterations[request.place], stop = of_outermost(inner)
            if stop == "trip count" and not self._is_cut and request.may_decide(run):
                self.at_m.add(request.place)
            self._is_cut |= was_cut
            return results

        computed = {
            ("parameter", node.id, each.id): each.value
            for node in model.graph.nodes
            for each in node.parameters
            if isinstance(each.value, str) and number_in(each.value) is None
        }
        weighted = {f"edge {edge.id}": ("output", edge.sender, edge.sender_port) for edge, _ in _by_matrices(model.graph)}
        record = {"/".join(key[1:]): key for key in computed} | weighted
        found = model.evaluated_once(given, start_run(), call, record)
        if found is None:
            self._run_in_passes(model, given)
            return
        self.odd += _of_matrices(model.graph, found.recorded, self.told) if not self._is_cut else ()
        for key, value in zip(computed, found.recorded.values(), strict=False):
            if isinstance(value, float) and not math.isfinite(value):
                place, odd = (str(model.graph.id), *key[1:]), "nan" if math.isnan(value) else "infinity"
                self.odd.append(Finding(WARNING, f"{'/'.join(place)}: {excerpt(computed[key])} is {odd}", place))

    def _run_in_passes(self, model: MdfModel, given: Mapping[str, Any]) -> None:
        """Run what is not evaluated once: in the engine of MDF where loops are to be cut, or to find out where it fails."""
        things = [each for node in model.graph.nodes for each in (*node.parameters, *node.functions)]
        if has_conditions(model.graph) and not any(each.function in LOOPS for each in things):
            try:
                found = model.in_other_ways(given, start_run(), PLAIN)
                id = str(model.graph.id)
                never = never_run(model.graph, found.outputs, found.iterations, " of the run that check tries")
                self.odd += [Finding(NOTE, f"{id}/{node}: {said}", (id, node)) for node, said in never.items()]
                return
            except LoopError as error:
                if isinstance(error, IterationLimit | LoopTimeout):
                    raise
        with run_by(self._shortened):
            run_in_mdf(with_inputs(model.graph, given))

    def _shortened(self, prepared: PreparedLoop, arguments: Arguments, run: Run) -> Any:
        """The results of a loop, or what it has after so many iterations."""
        try:
            return results_of(prepared, arguments, run)
        except IterationLimit as limit:
            if limit.partial is None:
                raise
            self._is_cut = True
            return alone_or_all([*limit.partial])

    def _note(self, message: Warning | str, *_: Any) -> None:
        said = str(message)
        if INVERTED in said:
            self.inverted.append(said)
        elif said not in self.told and (_TYPES.search(said) or (_ODD.search(said) and not self._is_cut)):
            self.told.append(said)


def _without_end(graph: Any, limit: PartialResults) -> Finding:
    """That an evaluation in passes did not end in the run that check tries."""
    lasted = f"{MOST} passes" if isinstance(limit, IterationLimit) else f"{SECONDS:g} s"
    said = f"in the run that check tries, the conditions of termination do not hold after {lasted}, and check waits no longer"
    waits = list[str]()
    with contextlib.suppress(NotLowered):  # conditions on time and chance
        waits = thresholds(graph)
    reaches = f"whether it reaches {', '.join(waits)}" if waits else "at them"
    cure = f"a run goes on until they hold: look {reaches}, and give inputs that are not 0"
    return Finding(NOTE, f"{graph.id}: {said}; {cure}", (str(graph.id), "conditions", "termination"))


def _by_matrices(graph: Any) -> list[tuple[Any, tuple[int, ...]]]:
    """The edges whose weight is a matrix, each with its shape."""
    weights = [(edge, np.shape((edge.parameters or {}).get("weight", 1))) for edge in graph.edges]
    return [(edge, shape) for edge, shape in weights if len(shape) == 2]


def _of_matrices(graph: Any, recorded: Mapping[str, Any], told: Sequence[str]) -> Iterator[Finding]:
    """Weights that could be meant as those of a product of matrices, of which no warning tells."""
    for edge, shape in _by_matrices(graph):
        value, place = np.shape(recorded[f"edge {edge.id}"]), (str(graph.id), edge.receiver, edge.receiver_port)
        said = by_matrix(edge, shape)
        if value and value[0] == value[-1] == shape[1] and not any(said in each for each in told):
            yield Finding(NOTE, f"{'/'.join(place)}: {said}", place)


def _ended_at_once(
    node: Any, thing: Any, values: Mapping[str, Any], count: int, is_inverted: bool, place: tuple[str, ...]
) -> Iterator[Finding]:
    """A loop that ends before or after its first iteration, though M lets it go on."""
    most = (thing.args or {}).get("M")
    most, said = _number(values.get(most, most) if isinstance(most, str) else most), equations_of(node, thing)
    if most is not None and np.any(most <= 1):
        return
    if count == 0:
        yield Finding(WARNING, f"{'/'.join(place)}: no iteration runs: cond, the condition to go on, is false", place)
    elif is_inverted and said is not None and said.going:
        yield Finding(WARNING, f"{'/'.join(place)}: while {INVERTED}write while: not ({said.going})", place)


def without(failed: Iterable[str], graph: Any, given: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """A graph without some nodes, and without all that they send something to, however far; and what is given to the others."""
    gone = reached_from(graph, failed)
    rest = copy.copy(graph)
    rest.nodes = [node for node in graph.nodes if node.id not in gone]
    rest.edges = [edge for edge in graph.edges if edge.sender not in gone and edge.receiver not in gone]
    ports = [(node, port.id) for node in graph.nodes if node.id in gone for port in node.output_ports]
    lost = {name for node, port in ports for name in (port, f"{node.id}.{port}")}
    if isinstance(said := (graph.metadata or {}).get("outputs"), list):  # of a graph that says types
        rest.metadata = {**graph.metadata, "outputs": [name for name in said if not isinstance(name, str) or name not in lost]}
    known = InputPlaces(rest).named if gone else given
    return rest, {name: value for name, value in given.items() if name in known}


def _of_typed(graph: Any) -> Iterator[LoopError]:
    """What is wrong with a graph that is one of ONNX, which is planned; its inputs are known in a run."""
    if not needs_no_scheduler(graph):
        return
    try:
        prepare_typed(graph)
    except LoopError as error:
        yield error


def _is_of_kinds(error: BaseException | None) -> bool:
    """Whether an error follows from types, names or structure, whatever the numbers are."""
    while error is not None:
        if isinstance(error, TypeError | MalformedBody | UnsupportedOp | NameError):
            return True
        if isinstance(error, IndexError) and _RANKS.search(str(error)):
            return True
        error = error.__cause__
    return False


def wrong_with_constants(graph: Any, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Divisors that are 0, and values of ``dt`` that are not positive, as far as the model or ``given`` says the values."""
    for node in graph_by_place(graph, read_once).nodes:
        values = values_of(graph, node, given)
        for thing in (*node.functions, *node.parameters):
            if thing.function not in CONTROL:
                continue
            place, args = (str(graph.id), node.id), {**(thing.args or {})}
            known = values | {key: values.get(value, value) if isinstance(value, str) else value for key, value in args.items()}
            count = _number(known.get("M"))
            if thing.function == "onnx::Loop" and count is not None and np.any(count <= 0):
                where = (*place, thing.id)
                yield Finding(WARNING, f"{'/'.join(where)}: the trip count M is {count}, so no iteration runs", where)
            for key in ("then_branch", "else_branch") if signature_of(thing.function, args)[1] == "branch" else ("body",):
                source = known.get(key)
                if isinstance(source, dict):
                    yield from _of_divisors(read_once(source, *signature_of(thing.function, args)), known, place, values)
            said = equations_of(node, thing)
            if said is not None and said.derivatives:
                numbers = {name: value for name, each in known.items() if (value := _number(each)) is not None}
                where = (*place, STEP if STEP in values else "body" if "body" in values else thing.id)
                yield from too_long_steps(source_of(node, thing), said.derivatives, numbers, where)
            if said is not None and STEP not in values and reads_step(said):
                yield from _of_step(said.let.get(STEP, known.get(STEP)), (*place, "body" if "body" in values else thing.id))
        yield from _of_step(values.get(STEP), (str(graph.id), node.id, STEP))


def _of_divisors(body: Body, known: Mapping[str, Any], place: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[Finding]:
    numbers = {name: value for name in body.captures if (value := _number(known.get(name))) is not None}
    for divisor, read in unguarded_divisors(body, numbers.keys()):
        if not _has_zero(body, divisor, numbers):
            continue
        names = ", ".join(read)
        said = f"{names} is 0" if divisor in numbers else f"what is computed of {names} is 0"
        where = (*place, read[0]) if read and read[0] in values else place
        said = f"{said}, and the body divides by it" if read else "the body divides by 0"
        yield Finding(WARNING, f"{'/'.join(where)}: {said}", where)


def _has_zero(body: Body, divisor: str, numbers: Mapping[str, Any]) -> bool:
    """Whether a divisor that is computed from known numbers is 0, or has a 0 in it."""
    found = computed(computing(body, [divisor], numbers), numbers, start_run())
    return found is not None and bool((np.asarray(found[0]) == 0).any())


def _of_step(value: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    step = _number(value)
    if step is not None and (said := wrong_with_step(step)):
        yield Finding(WARNING, f"{'/'.join(place)}: {said}", place)


def _number(value: Any) -> Any:
    """A number or an array that is written in a model; None for anything else."""
    array = np.asarray(number_in(value) if isinstance(value, str) else value)
    return array if array.dtype.kind in "biuf" else None
