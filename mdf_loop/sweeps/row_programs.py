"""Machine code for runs that differ in some inputs alone, which it takes as columns: no Python for each run.

An input goes to machine code as a column where nothing computes with it before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.execute.programs import program_values
from mdf_loop.execute.specialised import Specialised
from mdf_loop.ir import Body, Node
from mdf_loop.models.once import Request, is_passed_on
from mdf_loop.options import Run
from mdf_loop.sweeps.machine_runs import MachineLoop, NotTogether, for_many, may_be_compiled, refuse_other
from mdf_loop.sweeps.sources import Evaluated, OfNodes, OfOperators, Unread, results_in

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.many_runs import RunColumns

log = logging.getLogger(__name__)


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
    if not may_be_compiled(run.options):
        return None
    try:
        if isinstance(source, OfOperators):
            found = _of_operators(source, inputs, swept, names, run)
        else:
            found = _of_nodes(source, inputs, swept, names, run) or _of_graph(source, inputs, swept, names, run)
    except Exception as reason:  # each run alone says what is wrong, if anything is
        let_through(reason)
        log.debug("rows are no columns: %r", reason, exc_info=True)
        return None
    if found is None or for_many(found[0], run.options) is None:
        return None
    from mdf_loop.backends.llvm.many_runs import RunColumns

    made, values, places, results = found
    call: Any = made.call
    return RunColumns(call, values, places, results, times) if all(x.is_static for x in call.results) else None


Found = tuple[Specialised, Sequence[Any], list[list[int]], list[int]]
"""A program, what it is given, where each input stands among that, and the outputs among its results."""


def _of_nodes(source: OfNodes, inputs: Mapping[str, Any], swept: Sequence[str], names: Sequence[str], run: Run) -> Found | None:
    """The loop of a model whose outputs are results of its only loop, which takes what is swept as it is."""
    taken = source.taken(names) if source.loops == 1 else None
    if taken is None:
        return None
    try:
        request, places = request_of_columns(source, inputs, swept, run)
    except NotTogether:
        return None
    count = results_in(request.prepared.record)
    machine = MachineLoop(request.prepared.record, [k in taken.values() for k in range(count)])
    made = machine.execute.machine_code(request.arguments, run.options)
    if made is None or any(place >= machine.first for place in taken.values()):
        return None
    values = program_values(request.arguments)
    return made, values, places, [taken[name] for name in names]


def _of_graph(source: OfNodes, inputs: Mapping[str, Any], swept: Sequence[str], names: Sequence[str], run: Run) -> Found:
    """A whole graph with its loops inside."""
    graph, values = source.whole(inputs, names, run)
    places = source.places(swept, graph)
    _refuse_changed(values, places, [inputs[name] for name in swept])
    return graph.machine_code(values, [k for at in places for k in at], run.options), values, places, [*range(len(names))]


def request_of_columns(
    source: OfNodes, inputs: Mapping[str, Any], swept: Sequence[str], run: Run
) -> tuple[Request, list[list[int]]]:
    """What the loop of a model is run with, and where each input that is swept stands among what its program is given.

    Raises
    ------
    NotTogether
        Something is computed with such an input before the loop, or it is not taken as it is.
    """
    given, evaluation = source.given(inputs)
    outside = Run(run.options, Unread(0), deadline=run.deadline, enclosing=run)
    request = next(evaluation.steps(evaluation.begin(given, outside)))
    refuse_other(request, request.prepared, run)
    names = dict(zip(evaluation.read.inputs, evaluation.body.inputs, strict=True))
    places = []
    for name in swept:
        read = [names[place] for node, id, _ in source.model.places_of(name) if (place := (node, id)) in names]
        places.append([k for value in read for k in _reached(evaluation.body, value, request.node)])
    _refuse_changed(program_values(request.arguments), places, [inputs[name] for name in swept])
    return request, places


def _reached(body: Body, value: str, loop: Node) -> list[int]:
    """Where a value stands, as it is, among what the program of a loop is given."""
    found = list[int]()
    for node in body.nodes:
        if value in node.reads:
            read = [k for k, name in enumerate((*node.inputs, *node.captures)) if name == value]
            if node is loop:
                found += [k - 1 for k in read]  # the condition is none of what it is given, and 0 is the trip count
            elif is_passed_on(node) or (node.domain, node.op) in FITTED:
                found += [place for k in read for place in _reached(body, node.outputs[k], loop)]
            else:
                raise NotTogether(f"{node.name or node.op} computes with an input before the loop")
    if any(k < 1 for k in found):
        raise NotTogether("the trip count or the condition is swept")
    return found


FITTED = (("mdf", "fit"), ("mdf", "tensor"))
"""Nodes that make values what a loop asks for: those that they give stand where those stand that they are given."""


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
                raise NotTogether("a value is not taken as it is")
