"""What a run of a model would refuse, found by evaluating it with all its loops cut short; the results are thrown away.

Everything is computed as in a run, so that a check reports what a run does.  Behind a loop that was cut short values are not
those of a run, but their kinds are: of what goes wrong there only that counts which does not depend on numbers.
"""

from __future__ import annotations

import copy
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import IterationLimit, LoopError, LoopTimeout, LoopWarning, MalformedBody, UnsupportedOp
from mdf_loop.integrations.checks.constants import wrong_with_constants
from mdf_loop.integrations.checks.findings import ERROR, NOTE, WARNING, Finding
from mdf_loop.integrations.engine_runs import free_places, needs_no_scheduler, run_graph
from mdf_loop.integrations.registration import cutting_loops
from mdf_loop.integrations.required_inputs import is_required, missing_values, required_ports
from mdf_loop.integrations.typed_graph import prepare_typed
from mdf_loop.options import options
from mdf_loop.readers.mdf.by_place import LOOPS, graph_by_place
from mdf_loop.readers.mdf.typed import has_conditions, is_typed

MOST, SECONDS = 1000, 2.0
"""Iterations after which a loop is cut short, and how long all may take: less than people wait for."""


_RANKS = re.compile("invalid index to scalar|too many indices")
"""What numpy says of an index that is wrong whatever the lengths are."""


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
    end, told = time.monotonic() + SECONDS, list[str]()
    while graph.nodes and time.monotonic() < end and (error := _evaluated(graph, given, told)) is not None:
        yield error
        failed = getattr(error, "mdf_node", "")
        if not failed or has_conditions(graph):
            return
        graph = _without(graph, failed)
        given = {name: value for name, value in given.items() if _is_in(graph, name)}
    loops = [(node.id, each.id) for node in graph.nodes for each in (*node.parameters, *node.functions) if each.function in LOOPS]
    place = (str(graph.id), *(loops[0] if len(loops) == 1 else ()))
    yield from (Finding(WARNING, f"{'/'.join(place)}: {text}", place) for text in told if not constants)


def _evaluated(graph: Any, given: Mapping[str, Any], told: list[str]) -> LoopError | None:
    """What one evaluation ends with, loops cut short; what it says of nan in a loop whose values are those of a run is noted."""

    def note(message: Warning | str, *_: Any) -> None:
        if "nan" in str(message) and not cut and str(message) not in told:
            told.append(str(message))

    with warnings.catch_warnings(), cutting_loops() as cut:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LoopWarning)
        warnings.showwarning = note  # type: ignore[assignment]
        try:
            with options(engine="interpret", max_iterations=MOST, timeout=SECONDS, progress=None):
                run_graph(graph_by_place(graph, read_once), given)
        except (IterationLimit, LoopTimeout):
            return None
        except LoopError as error:
            return error if not cut or _is_of_kinds(error) else None
    return None


def _without(graph: Any, failed: str) -> Any:
    """A graph without a node, and without all that it sends something to, however far."""
    gone = {failed}
    while more := {edge.receiver for edge in graph.edges if edge.sender in gone} - gone:
        gone |= more
    rest = copy.copy(graph)
    rest.nodes = [node for node in graph.nodes if node.id not in gone]
    rest.edges = [edge for edge in graph.edges if edge.sender not in gone and edge.receiver not in gone]
    return rest


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
