"""Scheduled graphs that have become loops, and how these run: the outputs by name, of the last evaluation or of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import Key
from mdf_loop.convert.scheduled.run_order import RunPlan
from mdf_loop.errors import CollectedError, PartialResults
from mdf_loop.execute.collect import Gathering
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.partial_results import keeping, limit_reached
from mdf_loop.ir import Collected, Loop, record
from mdf_loop.options import Run, start_run


@dataclass
class LoopBehind:
    """The loop behind the first passes, and what its hidden values are by their names in the body."""

    loop: Loop
    keys: dict[str, Key]

    @cached_property
    def execute(self) -> NumpyLoop:
        """What runs it, for all that share it."""
        return NumpyLoop(self.loop)


@record
class Lowered:
    """A scheduled graph as a loop.

    Attributes
    ----------
    plan : RunPlan
    first : tuple
        The outputs after the passes that were run one by one: the result, if there is no loop.
    rows : tuple of tuple
        What the plan records of each of these passes; None where a node had not run.
    ends : tuple of bool
        Whether an evaluation was over after each.
    behind : LoopBehind or None
        The loop, which others may share; None if no pass is left to it.
    hidden : tuple or None
        What the hidden values of the loop begin with, where that may be something else than ``loop.body.state`` says.
    known : mapping
        What was known after the passes that were run one by one.
    noted : tuple of str
        What to say of what was run in them.
    is_cut : bool
        Whether ``options(max_iterations=)`` stops it behind these passes, and further ones are left.
    """

    plan: RunPlan
    first: tuple[Any, ...]
    rows: tuple[tuple[Any, ...], ...]
    ends: tuple[bool, ...]
    behind: LoopBehind | None = None
    hidden: tuple[Any, ...] | None = None
    known: Mapping[Key, Any] = field(default_factory=dict)
    noted: tuple[str, ...] = ()
    is_cut: bool = False

    @property
    def loop(self) -> Loop | None:
        """The loop, if there is one.

        Its ``last`` values are the outputs, in the order of ``names``; what is carried is hidden (``loop.body.state``), with its
        initial values.  It carries nothing else and captures nothing.  It collects whether each pass was the last one of its
        evaluation, if the plan asks for that, and what the plan records.
        """
        return None if self.behind is None else self.behind.loop

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs: every output port that no edge reads."""
        return tuple(self.plan.outputs)

    @property
    def trip_count(self) -> int | None:
        """How many iterations; None where ``loop.keep_going`` alone ends it."""
        passes = self.plan.schedule.passes
        return 0 if self.loop is None else None if passes is None else passes * self.plan.steps - len(self.rows)

    @property
    def recorded(self) -> list[list[Any]]:
        """What was recorded of the passes that were run one by one, without collected outputs: rows of each."""
        n = len(self.names) if self.plan.collect else 0
        return [[row[k] for row in self.rows] for k in range(n, len(self.plan.record))]

    @property
    def execute(self) -> NumpyLoop:
        """What runs the loop."""
        assert self.behind is not None
        return self.behind.execute

    def passes(self, run: Run) -> int:
        """How many passes there were, after the loop ran as the outermost one of a run."""
        has_run = self.loop is not None and run.outermost is not None
        return len(self.rows) + (run.outermost.moment.iteration if has_run else 0)

    def known_after(self, run: Run) -> Mapping[Key, Any]:
        """What is known after the run: of what the loop changes, the values that it carries."""
        if self.behind is None or run.outermost is None:
            return self.known
        names = [state.input for state in run.outermost.owner.loop.body.state]
        ends = zip(names, run.outermost.moment.hidden, strict=True)
        return {**self.known, **{self.behind.keys[name]: value for name, value in ends}}


Runner = Callable[[Arguments, Run], Sequence[Any]]
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
    if lowered.loop is None and not lowered.is_cut:
        return _outputs(lowered, lowered.first, lowered.plan.steps)
    run, given, steps = (
        run or start_run(),
        Arguments(lowered.trip_count, hidden=lowered.hidden, before=len(lowered.rows)),
        lowered.plan.steps,
    )
    call = _stopped if lowered.is_cut else call or lowered.execute.results
    return keeping(run, lambda: _outputs(lowered, call(given, run), steps), lambda error: _known(lowered, error))


def _stopped(given: Arguments, run: Run) -> Sequence[Any]:
    raise limit_reached(run.options.max_iterations)


def _outputs(lowered: Lowered, results: Sequence[Any], steps: int, collects: bool = True) -> dict[str, Any]:
    """Results of the loop by name; the values of so many evaluations, if they are collected."""
    count = len(lowered.names)
    if not (lowered.plan.collect and collects):
        return dict(zip(lowered.names, results[:count], strict=True))
    collected = [*results[count:]]
    over = np.asarray(collected.pop(0), bool) if collected and lowered.plan.tells_ends else None
    return {name: _rows(lowered, k, collected[k] if collected else None, over, steps) for k, name in enumerate(lowered.names)}


def _known(lowered: Lowered, error: PartialResults) -> dict[str, Any]:
    """The outputs of a loop that ended early; they are the partial results as well."""
    done, results = 0 if lowered.is_cut else error.iteration or 0, error.partial  # of a cut one they are a node's loop's
    if not done or results is None:
        results = lowered.first
    try:
        if any(value is None for value in results[len(lowered.names) :]):
            raise MemoryError
        outputs = _outputs(lowered, results, 0)
    except (CollectedError, MemoryError):  # rather the last values than nothing
        outputs = _outputs(lowered, results, 0, collects=False)
    error.path = error.path[1:]
    error.within(f"pass {len(lowered.rows) + done} of {lowered.plan.graph.id}")
    error.iteration, error.partial = len(lowered.rows) + done, tuple(outputs.values())
    return {name: value for name, value in outputs.items() if value is not None}


def _rows(lowered: Lowered, place: int, collected: np.ndarray | None, over: np.ndarray | None, steps: int) -> np.ndarray:
    """One output of every evaluation: those that were over before the loop, those in it, and those without a pass."""
    rows = [row[place] for row, ended in zip(lowered.rows, lowered.ends, strict=True) if ended]
    found = collected if over is None or collected is None else collected[over]
    if found is None or any(row is None for row in rows):
        rows += [] if found is None else [*found]
        last = rows[-1:] or [lowered.first[place]]
        return stacked(lowered.names[place], [*rows, *last * (steps - len(rows))])
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
