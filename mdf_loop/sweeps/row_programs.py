"""Machine code for runs that differ in some inputs alone, which it takes as columns: no Python for each run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.options import Run
from mdf_loop.sweeps.machine_runs import NotTogether, may_be_compiled
from mdf_loop.sweeps.sources import Evaluated

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
        graph, values = source.whole(inputs, names, run)
        places = source.places(swept, graph)
        if not are_taken(values, places, [inputs[name] for name in swept]):
            raise NotTogether("a value is not taken as it is")
        made: Any = graph.machine_code(values, [k for at in places for k in at], run.options).call
    except Exception as reason:  # each run alone says what is wrong, if anything is
        let_through(reason)
        log.debug("rows are no columns: %r", reason, exc_info=True)
        return None
    from mdf_loop.backends.llvm.many_runs import RunColumns

    is_static = all(x.is_static for x in made.results)
    return RunColumns(made, values, places, range(len(names)), times) if is_static else None


def are_taken(values: Sequence[Any], places: Sequence[Sequence[int]], given: Sequence[Any]) -> bool:
    """Whether a program gets values as they are: then it gets others of their types so as well."""
    for at, value in zip(places, given, strict=True):
        plain = np.asarray(value)
        for fitted in (np.asarray(values[k]) for k in at):
            if (fitted.dtype, fitted.shape) != (plain.dtype, plain.shape) or fitted.tobytes() != plain.tobytes():
                return False
    return True
