"""What a run of a model would refuse, found by evaluating it with all its loops cut short; the results are thrown away.

Everything is computed as in a run, so that a check reports what a run does.  Behind a loop that was cut short values are not
those of a run, but their kinds are: of what goes wrong there only that counts which does not depend on numbers.
"""

from __future__ import annotations

import copy
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.calls.calling import run_loop
from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import IterationLimit, LoopError, LoopTimeout, LoopWarning, MalformedBody, UnsupportedOp
from mdf_loop.execute.endless import computing
from mdf_loop.execute.warnings.inverted_conditions import INVERTED
from mdf_loop.integrations.checks.findings import ERROR, NOTE, WARNING, Finding
from mdf_loop.integrations.checks.loop_bodies import values_of
from mdf_loop.integrations.engine_runs import free_places, needs_no_scheduler, run_in_mdf, run_recorded_in_mdf, with_inputs
from mdf_loop.integrations.input_warnings import sent_to_declared, wrong_when_sent
from mdf_loop.integrations.required_inputs import is_required, missing_values, required_ports
from mdf_loop.integrations.taken_over import cutting_loops
from mdf_loop.integrations.typed_graph import prepare_typed
from mdf_loop.ir import Body
from mdf_loop.ops.registry import facts
from mdf_loop.options import options, start_run
from mdf_loop.readers.expressions.derivatives import STEP, wrong_with_step
from mdf_loop.readers.expressions.equation_texts import Equations
from mdf_loop.readers.expressions.expression_text import number_in
from mdf_loop.readers.mdf.by_place import LOOPS, equations_of, graph_by_place, signature_of
from mdf_loop.readers.mdf.node import CONTROL
from mdf_loop.readers.mdf.stepped_loops import is_stepped
from mdf_loop.readers.mdf.typed import has_conditions, is_typed

MOST, SECONDS = 1000, 2.0
"""Iterations after which a loop is cut short, and how long all may take: less than people wait for."""


Told = dict[str, tuple[str, tuple[str, ...]]]
"""What is to be reported: its kind, and a place in the graph, empty where it is not known."""

_RANKS = re.compile("invalid index to scalar|too many indices")
"""What numpy says of an index that is wrong whatever the lengths are."""

_ODD = re.compile("nan|infinite")
"""What a run warns of that its loops compute, and that more iterations may change."""

_TYPES = re.compile(
    "has shape .* at first and becomes|begins as a boolean|whole numbers, which cuts it off|gives one number, which is added"
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
    end, told = time.monotonic() + SECONDS, Told()
    while graph.nodes and time.monotonic() < end and (error := _evaluated(graph, given, told)) is not None:
        yield error
        failed = getattr(error, "mdf_node", "")
        if not failed or has_conditions(graph):
            return
        graph, given = without([failed], graph, given)
    loops = [(node.id, each.id) for node in graph.nodes for each in (*node.parameters, *node.functions) if each.function in LOOPS]
    for text, (kind, place) in told.items() if not constants else ():
        place = (str(graph.id), *(place or (loops[0] if len(loops) == 1 else ())))
        yield Finding(kind, f"{'/'.join(place)}: {text}", place)
    if not has_conditions(graph):
        yield from _ended_at_once(graph, given)


def _ended_at_once(graph: Any, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Loops that end before or after their first iteration, though M lets them go on."""
    loops = [
        (node, each) for node in graph.nodes for each in (*node.parameters, *node.functions) if each.function == "onnx::Loop"
    ]
    none, one = (_cut_at(graph, given, most) for most in (0, 1)) if loops else ((), ())
    for node, thing in loops:
        values, args = values_of(graph, node, given), {**(thing.args or {})}
        known = values | {key: values.get(value, value) if isinstance(value, str) else value for key, value in args.items()}
        count, said, place = _number(known.get("M")), equations_of(node, thing), (str(graph.id), node.id, thing.id)
        if is_stepped(node, thing) or (count is not None and np.any(count <= 1)):
            continue
        if none is not None and thing.id not in none:
            yield Finding(WARNING, f"{'/'.join(place)}: no iteration runs: cond, the condition to go on, is false", place)
        elif one is not None and thing.id not in one and said is not None and said.going and not _goes_on(said, known):
            yield Finding(WARNING, f"{'/'.join(place)}: while {INVERTED}write while: not ({said.going})", place)


def _goes_on(said: Equations, known: Mapping[str, Any]) -> bool:
    """Whether ``while`` is true of the initial values, as far as the model says these."""
    body = {"carried": {name: name for name in said.carried}, "let": {**said.let}, "while": said.going}
    carried = [known.get(name) for name in said.carried]
    try:
        captured = {name: known[name] for name in read_once(body, len(carried), "loop").captures if name in known}
        with warnings.catch_warnings(), options(engine="interpret", max_iterations=1):
            warnings.simplefilter("ignore")  # this is about the same
            run_loop(None, True, carried, body, captured)
    except LoopError as error:
        return isinstance(error, IterationLimit)
    return False


def _cut_at(graph: Any, given: Mapping[str, Any], most: int) -> list[str] | None:
    """The loops that go on behind so many iterations; None where that is not known."""
    with warnings.catch_warnings(), cutting_loops() as cut:
        warnings.simplefilter("ignore")
        try:
            with options(engine="interpret", max_iterations=most, timeout=SECONDS, progress=None):
                run_in_mdf(with_inputs(graph_by_place(graph, read_once), given))
        except LoopError:
            return None
    return cut


def _evaluated(graph: Any, given: Mapping[str, Any], told: Told) -> LoopError | None:
    """What one evaluation ends with, loops cut short; what it warns of is noted, each with its place where that is known.

    nan and infinity of loops, and the shapes that edges bring, are those of a run where none was cut.
    """

    def note(message: Warning | str, *_: Any) -> None:
        is_odd = _TYPES.search(str(message)) or (_ODD.search(str(message)) and not cut)
        if is_odd:
            told[str(message)] = WARNING, ()

    with warnings.catch_warnings(), cutting_loops() as cut:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LoopWarning)
        warnings.showwarning = note  # type: ignore[assignment]
        try:
            with options(engine="interpret", max_iterations=MOST, timeout=SECONDS, progress=None):
                keys = list(dict.fromkeys([*sent_to_declared(graph), *_by_matrices(graph)]))
                _, rows = run_recorded_in_mdf(with_inputs(graph_by_place(graph, read_once), given), 1, None, False, keys)
            told |= _of_edges(graph, {key: row[-1] for key, row in zip(keys, rows, strict=True)}) if not cut else {}
        except (IterationLimit, LoopTimeout):
            return None
        except LoopError as error:
            return error if not cut or _is_of_kinds(error) else None
    return None


def _by_matrices(graph: Any) -> dict[tuple[str, str, str], tuple[Any, tuple[int, ...]]]:
    """Output ports, as keys of what is recorded, with an edge away from them whose weight is a matrix, and its shape."""
    weights = [(edge, np.shape((edge.parameters or {}).get("weight", 1))) for edge in graph.edges]
    return {("output", edge.sender, edge.sender_port): (edge, shape) for edge, shape in weights if len(shape) == 2}


def _of_edges(graph: Any, sent: Mapping[tuple[str, str, str], Any]) -> Told:
    """What edges bring that is not what their ports declare, and weights that could be meant as those of a matrix product."""
    found = Told()
    for key, ports in sent_to_declared(graph).items():
        wrong = {name: wrong_when_sent(name, sent[key], port) for name, port in ports.items()}
        found |= {said: (WARNING, tuple(name.split("."))) for name, said in wrong.items() if said}
    for key, (edge, shape) in _by_matrices(graph).items():
        value = np.shape(sent[key])
        if value and value[0] == value[-1] == shape[1]:
            said = (
                f"edge {edge.id!r} multiplies what it brings, an array of shape {[*value]}, element by element by its weight of "
            )
            said += f"shape {[*shape]}, as MDF does; for a product of matrices compute w @ x in a node, with the parameter w"
            found[said] = NOTE, (edge.receiver, edge.receiver_port)
    return found


def without(failed: Iterable[str], graph: Any, given: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """A graph without some nodes, and without all that they send something to, however far; and what is given to the others."""
    gone = {*failed}
    while more := {edge.receiver for edge in graph.edges if edge.sender in gone} - gone:
        gone |= more
    rest = copy.copy(graph)
    rest.nodes = [node for node in graph.nodes if node.id not in gone]
    rest.edges = [edge for edge in graph.edges if edge.sender not in gone and edge.receiver not in gone]
    ports = [(node, port.id) for node in graph.nodes if node.id in gone for port in node.output_ports]
    lost = {name for node, port in ports for name in (port, f"{node.id}.{port}")}
    if isinstance(said := (graph.metadata or {}).get("outputs"), list):  # of a graph that says types
        rest.metadata = {**graph.metadata, "outputs": [name for name in said if not isinstance(name, str) or name not in lost]}
    return rest, {name: value for name, value in given.items() if not gone or _is_in(rest, name)}


def _is_in(graph: Any, name: str) -> bool:
    """Whether an input, which may be called ``node.id``, is one of a graph."""
    return any(name in (id, f"{node}.{id}") for node, id, *_ in free_places(graph))


def _of_typed(graph: Any) -> Iterator[LoopError]:
    """What is wrong with a graph that is one of ONNX, which is planned; it has inputs that only a run knows."""
    if not needs_no_scheduler(graph) or any(is_required(p) for node in graph.nodes for p in node.input_ports):
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
            if said is not None and said.derivatives and STEP not in values:
                yield from _of_step(said.let.get(STEP, known.get(STEP)), (*place, "body" if "body" in values else thing.id))
        yield from _of_step(values.get(STEP), (str(graph.id), node.id, STEP))


def _of_divisors(body: Body, known: Mapping[str, Any], place: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[Finding]:
    numbers = {name: value for name in body.captures if (value := _number(known.get(name))) is not None}
    chosen = [node.inputs[0] for node in body.nodes if facts(node).selects]
    guards = {name for condition in chosen for name in (condition, *computing(body, [condition], numbers).body.inputs)}
    for divisor in dict.fromkeys(node.inputs[1] for node in body.nodes if facts(node).divides):
        part = computing(body, [divisor], numbers).body
        read = [divisor] if divisor in numbers else [*part.inputs]
        if not set(read) <= numbers.keys() or not _has_zero(body, divisor, numbers):
            continue
        if guards.intersection(read):
            continue  # a where leaves out what the division by 0 gives
        names = ", ".join(read)
        said = f"{names} is 0" if divisor in numbers else f"what is computed of {names} is 0"
        where = (*place, read[0]) if read and read[0] in values else place
        said = f"{said}, and the body divides by it" if read else "the body divides by 0"
        yield Finding(WARNING, f"{'/'.join(where)}: {said}", where)


def _has_zero(body: Body, divisor: str, numbers: Mapping[str, Any]) -> bool:
    """Whether a divisor that is computed from known numbers is 0, or has a 0 in it."""
    try:
        with np.errstate(all="ignore"):
            part = computing(body, [divisor], numbers)
            made = (
                numbers[divisor] if divisor in numbers else part([numbers[name] for name in part.body.inputs], (), start_run())[0]
            )
            return bool((np.asarray(made) == 0).any())
    except (LoopError, ValueError, TypeError, ArithmeticError, IndexError):
        return False  # a run says it


def _of_step(value: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    step = _number(value)
    if step is not None and (said := wrong_with_step(step)):
        yield Finding(WARNING, f"{'/'.join(place)}: {said}", place)


def _number(value: Any) -> Any:
    """A number or an array that is written in a model; None for anything else."""
    array = np.asarray(number_in(value) if isinstance(value, str) else value)
    return array if array.dtype.kind in "biuf" else None
