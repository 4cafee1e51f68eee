"""Scheduled graphs that have become loops, run: the outputs by name, of the last evaluation or of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.plan import Lowered
from mdf_loop.errors import CollectedError, PartialResults
from mdf_loop.execute.collect import Gathering
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.partial_results import keeping
from mdf_loop.ir import Collected
from mdf_loop.options import Run, start_run

Runner = Callable[[Lowered, Arguments, Run], Sequence[Any]]
"""Runs the loop of a graph, and gives its results without what is recorded."""


def execute(lowered: Lowered, run: Run | None = None, call: Runner | None = None) -> dict[str, Any]:
    """Run a loop that :func:`lower` made: the last outputs by name, or those of every evaluation, stacked.

    Parameters
    ----------
    lowered : Lowered
    run : Run, optional
        What the loop runs in.
    call : callable, optional
        What runs the loop, if something is recorded.

    Raises
    ------
    CollectedError
        An output changes its shape.
    IterationError, IterationLimit, LoopTimeout, LoopInterrupted
        ``.iteration`` is the number of passes that were completed, ``.outputs`` and ``.partial`` are the outputs after
        them, or those of the evaluations that were over.
    """
    if lowered.loop is None or lowered.trip_count == 0:
        return _outputs(lowered, lowered.first, lowered.steps)
    run, given = run or start_run(), Arguments(lowered.trip_count, hidden=lowered.hidden)
    return keeping(
        run,
        lambda: _outputs(lowered, call(lowered, given, run) if call else lowered.made_of(NumpyLoop)(given, run), lowered.steps),
        lambda error: _known(lowered, error),
    )


def _outputs(lowered: Lowered, results: Sequence[Any], steps: int) -> dict[str, Any]:
    """Results of the loop by name; the values of so many evaluations, if they are collected."""
    count = len(lowered.names)
    if not lowered.is_collecting:
        return dict(zip(lowered.names, results[:count], strict=True))
    over = None
    if len(results) > 2 * count:
        over = np.asarray(results[-1], bool)
    return {
        name: _rows(lowered, k, results[count + k] if results[count:] else None, over, steps)
        for k, name in enumerate(lowered.names)
    }


def _known(lowered: Lowered, error: PartialResults) -> dict[str, Any]:
    """The outputs of a loop that ended early; they are the partial results as well."""
    assert lowered.loop is not None
    done, results = error.iteration or 0, error.partial
    if not done or results is None:
        results = lowered.first
    try:
        if any(value is None for value in results[len(lowered.names) :]):
            raise MemoryError
        outputs = _outputs(lowered, results, 0)
    except (CollectedError, MemoryError):  # rather the last values than nothing
        outputs = _outputs(replace(lowered, is_collecting=False), results, 0)
    error.path = error.path[1:]
    error.within(f"pass {lowered.before + done} of {lowered.loop.body.name}")
    error.iteration, error.partial = lowered.before + done, tuple(outputs.values())
    return {name: value for name, value in outputs.items() if value is not None}


def _rows(lowered: Lowered, place: int, collected: np.ndarray | None, over: np.ndarray | None, steps: int) -> np.ndarray:
    """One output of every evaluation: those that were over before the loop, those in it, and those without a pass."""
    rows = [row[place] for row in lowered.evaluations]
    found = collected if over is None or collected is None else collected[over]
    if found is None or any(row is None for row in rows):
        rows += [] if found is None else [*found]
        return stacked(lowered.names[place], [*rows, *rows[-1:] * (steps - len(rows))])
    if rows:
        before = stacked(lowered.names[place], rows)
        if before.shape[1:] != found.shape[1:]:
            return stacked(lowered.names[place], [*rows, *found])  # says which shape changed
        found = np.concatenate([before, found])
    missing = steps - len(found)
    return np.concatenate([found, np.repeat(found[-1:], missing, axis=0)]) if missing > 0 else found


def stacked(name: str, rows: Sequence[Any]) -> np.ndarray:
    """The values of an output in all evaluations, along a new first axis.

    Where there was none yet, since its node had not run, it is None: in an array of objects, one for each evaluation, the
    others of which are of one type.

    Raises
    ------
    CollectedError
        A value is no tensor, or has another shape or type than those before it.
    """
    if any(row is None for row in rows):
        made = np.empty(len(rows), object)
        there = [k for k, row in enumerate(rows) if row is not None]
        for k, row in zip(there, stacked(name, [rows[k] for k in there]), strict=True):
            made[k] = row
        return made
    parts = Gathering(Collected(name, widens=True))
    for row in rows:
        parts.check(row)
        parts.add(row)
    found = parts.array()
    return np.empty(0) if found is None else found
