"""Scheduled graphs that have become loops, and how these run: the outputs by name, of the last evaluation or of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mdf_loop.convert.scheduled.conditions import Key
from mdf_loop.errors import CollectedError, PartialResults
from mdf_loop.execute.collect import Gathering
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.partial_results import keeping
from mdf_loop.ir import Collected, Loop, record
from mdf_loop.options import Run, start_run

T = TypeVar("T")


@dataclass
class LoopBehind:
    """The loop behind the first passes, what its hidden values are by their names in the body, and what runs it."""

    loop: Loop
    keys: dict[str, Key]
    made: Any = None


@record
class Lowered:
    """A scheduled graph as a loop.

    Attributes
    ----------
    loop : Loop or None
        The loop; None if no pass is left to it.  Its ``last`` values are the outputs, in the order of ``names``; what
        is carried is hidden (``loop.body.state``), with its initial values.  It carries nothing else and captures nothing.
    trip_count : int or None
        How many iterations; None where ``loop.keep_going`` alone ends it.
    names : tuple of str
        The outputs: every output port that no edge reads.
    first : tuple
        The outputs after the passes that were run one by one: the result, if the loop has no iteration.
    evaluations : tuple of tuple
        The outputs after each evaluation of the graph that was over by then; None where a node had not run.
    steps : int
        How many evaluations of the graph this is.
    is_collecting : bool
        Whether the loop collects the outputs of each pass; and behind them, unless each pass is an evaluation, whether
        the pass was the last one of its evaluation.
    before : int
        How many passes were run one by one.
    rows : tuple of tuple
        What was recorded of the passes that were run one by one.
    hidden : tuple or None
        What the hidden values of the loop begin with, where that may be something else than ``loop.body.state`` says.
    behind : LoopBehind or None
        Where the loop comes from, which others may share.
    """

    loop: Loop | None
    trip_count: int | None
    names: tuple[str, ...]
    first: tuple[Any, ...]
    evaluations: tuple[tuple[Any, ...], ...]
    steps: int
    is_collecting: bool = False
    before: int = 0
    rows: tuple[tuple[Any, ...], ...] = ()
    hidden: tuple[Any, ...] | None = None
    behind: LoopBehind | None = None

    def passes(self, run: Run) -> int:
        """How many passes there were, after the loop ran as the outermost one of a run."""
        has_run = self.loop is not None and self.trip_count != 0 and run.outermost is not None
        return self.before + (run.outermost.moment.iteration if has_run else 0)

    def made_of(self, make: Callable[[Loop], T]) -> T:
        """What is made of the loop: once for all that share it."""
        assert self.loop is not None
        behind = self.behind
        if behind is None or behind.loop is not self.loop:
            return make(self.loop)
        if behind.made is None:
            behind.made = make(self.loop)
        made: T = behind.made
        return made


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
