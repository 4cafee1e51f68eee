"""Machine code for runs that differ in some inputs alone, which it takes as columns: no Python for each run.

An input goes to machine code as a column where nothing computes with it before.  That is found out by evaluating the model up to
its loop with a :class:`Mark` in the place of each such input, with which nothing can compute.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from mdf_loop.errors import LoopError, let_through
from mdf_loop.execute.machine_runs import columns_of
from mdf_loop.execute.numpy_engine import program_values
from mdf_loop.execute.specialised import Specialised
from mdf_loop.models.node_loops import GatheredArguments, NodeLoop, Request
from mdf_loop.options import Run
from mdf_loop.settings.engines import can_compile
from mdf_loop.step.structure import gives_same_bits
from mdf_loop.sweeps.compiled_lanes import CompiledLoop
from mdf_loop.sweeps.lanes.lane_values import NotBatched
from mdf_loop.sweeps.sources import Evaluated, OfNodes, OfOperators, Unread, results_in

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.many_runs import RunColumns

log = logging.getLogger(__name__)


class Mark:
    """In the place of an input: whatever asks for its value is refused, so that it is where it comes out or nowhere.

    Parameters
    ----------
    name : str
    """

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, name: str) -> None:
        self.name = name

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotBatched(f"input {self.name} is computed with before the loop")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = __iter__ = __getitem__ = _refuse  # type: ignore[assignment]
    __array__ = __float__ = __int__ = __index__ = __complex__ = __contains__ = _refuse  # type: ignore[assignment]


def row_program(
    source: Evaluated, inputs: Mapping[str, Any], swept: Sequence[str], names: Sequence[str], times: int, run: Run
) -> RunColumns | None:
    """The program of all runs whose inputs differ in some alone; None if there is none.

    Parameters
    ----------
    source : Evaluated
    inputs : mapping
        Those of one of the runs.
    swept : sequence of str
        Which may differ; in all runs they have the types and shapes that they have here.
    names : sequence of str
        The outputs that are wanted.
    times : int
        How many runs, one after the other, have the same inputs.
    run : Run
        Whose options say how everything is run.
    """
    options = run.options
    pays = options.how.compiles_what_pays
    if not (options.how.compiles or pays) or options.max_iterations is not None or options.trusted or not can_compile():
        return None
    try:
        found = _of_operators(source, inputs, swept, names, run) if isinstance(source, OfOperators) else None
        if isinstance(source, OfNodes):
            found = _of_nodes(source, inputs, swept, names, run)
    except (NotBatched, LoopError) as reason:
        log.debug("rows are no columns: %s", reason)
        return None
    except Exception as error:  # each run alone says what is wrong
        let_through(error)
        log.debug("rows are no columns: %r", error, exc_info=True)
        return None
    if found is None or (pays and not gives_same_bits(found[0].step)):
        return None
    made, values, places, results = found
    return columns_of(made.call, values, places, results, times)


Found = tuple[Specialised, Sequence[Any], list[list[int]], list[int]]
"""A program, what it is given, where each input stands among that, and the outputs among its results."""


def _of_nodes(source: OfNodes, inputs: Mapping[str, Any], swept: Sequence[str], names: Sequence[str], run: Run) -> Found | None:
    """The loop of a model whose outputs are results of its only loop."""
    if source.loops != 1:
        return None
    request, places = marked_request(source, inputs, swept, run)
    taken = source.taken(names, request)
    if taken is None:
        return None
    count = results_in(request.prepared.record)
    machine = CompiledLoop(request.prepared.record, [k in taken.values() for k in range(count)])
    made = machine.execute.machine_code(request.arguments, run.options)
    if made is None or any(place >= machine.first for place in taken.values()):
        return None
    values = program_values(request.arguments)
    return made, values, places, [taken[name] for name in names]


def marked_request(source: OfNodes, inputs: Mapping[str, Any], swept: Sequence[str], run: Run) -> tuple[Request, list[list[int]]]:
    """What the loop of a model is run with, and where each input that is swept stands among what its program is given.

    Raises
    ------
    NotBatched
        Something is computed with such an input before the loop, or it is not taken as it is.
    """
    gathered, marks = _gathered(source, inputs, swept, run)
    request = _unmarked(gathered, inputs).request()
    refuse_other(request, request.prepared, run)
    known = [gathered.named.get(name) for name in gathered.prepared.record.body.captures]
    stand_in = [None, *gathered.inputs, *known]
    places = [[k for k, x in enumerate(stand_in) if x is mark] for mark in marks]
    _refuse_changed(program_values(request.arguments), places, [inputs[name] for name in swept])
    return request, places


def refuse_other(request: Request, prepared: Any, run: Run) -> None:
    """See that a request is one that lanes can have in common."""
    given, record = request.arguments, prepared.record
    if request.prepared is not prepared:
        raise NotBatched("the loops of two runs have other forms")
    prepared.endless.refuse(given, run)
    obeyed = given.go is not None or run.options.obey_body_condition
    if given.go is False or given.trip_count == 0 or (record.keep_going and not obeyed):
        raise NotBatched("a loop has no iteration, or ignores its condition")


def _gathered(source: OfNodes, inputs: Mapping[str, Any], swept: Sequence[str], run: Run) -> tuple[GatheredArguments, list[Mark]]:
    """What the loop is given, with marks in the place of inputs that differ."""
    found, marks = source.model.places_given(inputs), [Mark(name) for name in swept]
    if found is None:
        raise NotBatched("an input is not that of one place")
    given = {node: dict(values) for node, values in found.items()}
    for mark in marks:
        for node, id, _ in source.model.places_of(mark.name):
            given[node][id] = mark
    outside = Run(run.options, Unread(0), deadline=run.deadline, enclosing=run)
    asked: Any = next(source.direct.steps(given, outside, {}, ask=NodeLoop.gathered))
    return asked, marks


def _unmarked(gathered: GatheredArguments, inputs: Mapping[str, Any]) -> GatheredArguments:
    """The same with values in the place of marks."""

    def value(x: Any) -> Any:
        return inputs[x.name] if isinstance(x, Mark) else x

    named = {name: value(x) for name, x in gathered.named.items()}
    return replace(gathered, inputs=[*map(value, gathered.inputs)], named=named)


def _of_operators(
    source: OfOperators, inputs: Mapping[str, Any], swept: Sequence[str], names: Sequence[str], run: Run
) -> Found | None:
    """A whole graph of operators: its inputs are arguments of its program."""
    ids, body = source.ids, source.rep.body
    values = source.values(inputs)
    made = source.rep.graph.machine_code(values, run.options)
    if made is None:
        return None
    places = [[body.inputs.index(ids.get(name, name))] for name in swept]
    _refuse_changed(values, places, [inputs[name] for name in swept])
    return made, values, places, [list(source.outputs).index(name) for name in names]


def _refuse_changed(values: Sequence[Any], places: Sequence[Sequence[int]], given: Sequence[Any]) -> None:
    """See that values went to the program as they are: others of their types do as well."""
    for at, value in zip(places, given, strict=True):
        plain = np.asarray(value)
        for fitted in (np.asarray(values[k]) for k in at):
            if (fitted.dtype, fitted.shape) != (plain.dtype, plain.shape) or fitted.tobytes() != plain.tobytes():
                raise NotBatched("a value is not taken as it is")
