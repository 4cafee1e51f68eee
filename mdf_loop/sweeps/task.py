"""The work of a sweep, cut into runs that are numbered: what is needed to run some of them, here or elsewhere."""

from __future__ import annotations

import contextlib
import logging
import math
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from mdf_loop.calls.calling import results_of, run_by
from mdf_loop.calls.prepared import PreparedLoop
from mdf_loop.errors import LoopError, LoopTimeout, LoopWarning, let_through, warn_user
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.warnings.shared_draws import SHARED
from mdf_loop.execute.warnings.unread_rows import key_of_rows, readings_in, unread_rows
from mdf_loop.execute.warnings.wrapped_indices import FROM_END
from mdf_loop.models.ended_runs import ended_at_m
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.options import OPTIONS, Run, current_options, options, part_of, random_stream, start_run
from mdf_loop.plan.invariants import is_repeatable
from mdf_loop.progress import Tally
from mdf_loop.settings.engines import DEFAULT, ENGINES
from mdf_loop.settings.random_streams import RandomStream, Seed
from mdf_loop.sweeps.grid import Grid
from mdf_loop.sweeps.machine_runs import NotTogether
from mdf_loop.sweeps.pieces import Pieces, Uncut
from mdf_loop.sweeps.rows.merging import Merging, table_of
from mdf_loop.sweeps.rows.reducing import Reduce
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Filled, Ran, Span, Table, column_of, fill, first_odd
from mdf_loop.sweeps.seeds import seed_of, streams_of
from mdf_loop.sweeps.side_by_side import run_together
from mdf_loop.sweeps.sources import engine_of, stepping
from mdf_loop.sweeps.vmapped import runs_at_once, runs_on_device
from mdf_loop.sweeps.workers import here, in_parts
from mdf_loop.types.fitting import refuse_unit

log = logging.getLogger(__name__)


def _chosen_now() -> dict[str, Any]:
    """The options in force, without those that concern a whole sweep."""
    chosen = current_options()
    return {name: getattr(chosen, name) for name in sorted(OPTIONS - OF_THE_SWEEP)}


OF_THE_SWEEP = {"seed", "timeout", "progress"}

AGAIN = 10.0
"""Seconds for runs that are run again to learn what they warn of."""

FIRST_PASSES = 20
"""Passes in which nearly all nodes of a model run for the first time."""

BEGUN = 2
"""Iterations that show what a loop warns of: of one it is not known what the next makes of it."""


def _begun(told: list[str], prepared: PreparedLoop, arguments: Arguments, run: Run) -> Any:
    """The first iterations of a loop, with what it warns of in them; rows are unread that all its iterations leave."""
    count, loop = arguments.trip_count, prepared.record
    if not unread_rows(loop, readings_in(loop, run), arguments):
        run.warned.add(key_of_rows(loop))
    with _warnings() as found:
        results = results_of(prepared, replace(arguments, trip_count=BEGUN if count is None else min(count, BEGUN)), run)
    told += found
    return results


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    """What is warned of inside a ``with`` block, which is not shown; known when it is over."""
    found = list[str]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LoopWarning)
        yield found
    found += [str(each.message) for each in caught if issubclass(each.category, LoopWarning)]


@dataclass(frozen=True)
class Task:
    """All runs of a sweep: trial by trial, point by point.

    Attributes
    ----------
    model : Model
    inputs : mapping
        What every run is given.
    grid : Grid
    trials : int
        How many runs there are at each point.
    seed : int or SeedSequence
    wish : Wish
        How each is run; its ``outputs`` are those that are kept.
    common_noise : bool
    reduce : Reduce or None
        What is made of the trials of a point.
    fill : number
    stops : bool
        Whether a run that fails ends everything.
    numbers : array of int, optional
        For each point the number that its streams follow from; they count from 0 otherwise.
    options : mapping
        What the caller of the sweep chose with ``options()``, as far as it concerns each run.
    """

    model: Model
    inputs: Mapping[str, Any]
    grid: Grid = field(default_factory=Grid)
    trials: int = 1
    seed: Seed = 0
    wish: Wish = field(default_factory=Wish)
    common_noise: bool = False
    reduce: Reduce | None = None
    fill: Any = np.nan
    stops: bool = False
    numbers: np.ndarray | None = None
    options: Mapping[str, Any] = field(default_factory=_chosen_now)

    def __post_init__(self) -> None:
        for name, values in (*self.inputs.items(), *((name, values) for name, (_, values) in self.grid.axes)):
            refuse_unit(values, f"input {name!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs that are kept."""
        return tuple(name for name in self.model.outputs if self.wish.outputs is None or name in self.wish.outputs)

    @cached_property
    def recorded(self) -> Mapping[str, str]:
        """What is recorded, by what it is called beside the outputs."""
        prefix = "recorded "
        while any(name.startswith(prefix) for name in self.model.outputs):
            prefix = f"~{prefix}"
        return {prefix + name: name for name in self.wish.record}

    @property
    def columns(self) -> tuple[str, ...]:
        """The outputs that are kept, and what is recorded."""
        return (*self.names, *self.recorded)

    @property
    def size(self) -> int:
        """How many runs there are."""
        return self.grid.size * self.trials

    @cached_property
    def merging(self) -> Merging | None:
        """How the trials of a point are reduced, if they are."""
        return None if self.reduce is None else Merging(self.reduce, self.trials)

    def table(self, runs: int | None = None) -> Table:
        """What the results of so many runs, or of all, are filled in."""
        return table_of(self.merging, self.size if runs is None else runs, self.fill)

    def fitted(self, start: int, stop: int) -> int:
        """Where a piece ends that shall end at ``stop`` or shortly before."""
        return stop if self.merging is None else self.merging.fitted(start, stop)

    def length(self, given: int | None = None) -> int | None:
        """How many runs a piece has: what the caller says, all that JAX runs at once, or None where the clock decides."""
        if given is not None or self.recorded or not ENGINES[self.engine].device:
            return given
        with self.chosen():
            return runs_at_once(self, start_run())

    def run_all(self, table: Filled, run: Run) -> None:
        """Run everything here, in pieces, and fill it in; ``run`` is what all of it is a part of."""
        told = run.options.progress
        pieces = Pieces(Uncut(self.size, self.fitted), self.length(), self.trials, bool(told))
        fill(table, here(self, pieces), run, Tally(told or None, self.model.name, self.size))

    def rows_in(self, start: int, stop: int) -> int:
        """How many rows the chunk of some runs has."""
        return stop - start if self.merging is None else self.merging.rows_in(start, stop)

    @property
    def padding(self) -> Any:
        """What fills up rows: what counts in a mean is never it."""
        return self.fill if self.merging is None else np.nan

    def place(self, k: int) -> tuple[int, int]:
        """Point and trial of a run."""
        return divmod(k, self.trials)

    def seed_of(self, k: int) -> np.random.SeedSequence:
        """The seed of a run."""
        point, trial = self.place(k)
        number = point if self.numbers is None else int(self.numbers[point])
        return seed_of(self.seed, number, trial, self.common_noise)

    def streams(self, start: int, stop: int) -> np.ndarray:
        """The beginnings of the random streams of some runs."""
        points, trials = np.divmod(np.arange(start, stop), self.trials)
        return streams_of(self.seed, points if self.numbers is None else self.numbers[points], trials, self.common_noise)

    def inputs_of(self, point: int) -> dict[str, Any]:
        """What the runs at a point are given."""
        return {**self.inputs, **self.grid.inputs(point)}

    def run(self, start: int, stop: int, seconds: float = math.inf) -> Ran:
        """Run some of the runs: those that are begun within some seconds, at least one.

        Raises
        ------
        LoopTimeout, LoopInterrupted
            Nothing of these runs is kept.
        LoopError
            A run failed, and that ends everything.
        """
        begun = time.perf_counter()
        with self.chosen():
            chunk, count = self._run(start, stop, start_run(), seconds)
        size = sum(rows.nbytes for rows, _ in chunk.columns.values())
        span = start, start + count
        return Ran(span, list(self._reduced(span, chunk)), time.perf_counter() - begun, size)

    def _reduced(self, span: Span, chunk: Chunk) -> Iterator[tuple[Span, Chunk]]:
        """The chunk, or what is made of its trials; trials of a group that is not whole stay as they are."""
        start = span[0]
        for first, behind in [span] if self.merging is None else self.merging.split(span):
            part = chunk if (first, behind) == span else chunk.part(first - start, behind - start)
            part.at_m = None if part.stops is None else ended_at_m(part.stops)
            if self.merging is not None and self.merging.is_whole(first, behind):
                there = np.ones(behind - first, bool)
                there[list(part.errors)] = False
                part = self.merging.reduced(first, part, there)
            yield (first, behind), part

    def _run(self, start: int, stop: int, run: Run, seconds: float) -> tuple[Chunk, int]:
        """What some runs gave, and how many of them are done."""
        if run.options.how.device and not self.recorded:  # devices do not record, which each run says
            on_device = runs_on_device(self, start, stop, run)
            if on_device is not None:
                return self._watched(on_device, start, stop)
        try:
            return self._watched(run_together(self, start, stop, run, seconds), start, stop)
        except Exception as reason:  # each run alone says what is wrong, if anything is
            let_through(reason)
            log.debug("%s: runs are run one by one: %r", self.model.name, reason, exc_info=not isinstance(reason, NotTogether))
        runs, warned = self._one_by_one(start, stop, run, seconds)
        chunk, count = self._watched(self._chunk_of(start, runs), start, start + len(runs))
        chunk.suspects = {**chunk.suspects, "warned": min(warned)} if warned else chunk.suspects
        return chunk, count

    def _watched(self, chunk: Chunk, start: int, stop: int) -> tuple[Chunk, int]:
        """A chunk of runs that were run together, with those that have nan in their results or inputs; and how many are done."""
        stop = min((start + len(rows) for rows, _ in chunk.columns.values()), default=stop)
        found = {**chunk.suspects, **first_odd({name: rows for name, (rows, more) in chunk.columns.items() if more is None})}
        points = np.arange(start, stop) // self.trials
        swept = self.grid.columns(np.arange(points[0], points[-1] + 1)) or {}
        for name, point in first_odd(swept).items():
            found[f"swept {name}"] = int(np.searchsorted(points, points[0] + point))
        numbers = float, np.ndarray, np.generic
        given = {name: np.asarray(value)[None] for name, value in self.inputs.items() if isinstance(value, numbers)}
        found |= {f"given {name}": row for name, row in first_odd(given).items()}
        chunk.suspects = {reason: start + row for reason, row in found.items()}
        return chunk, stop - start

    def warn_of_loops(self) -> None:
        """Say of the first or the last run what it says of its first iterations and its draws: many runs together are silent.

        Nothing runs for this that does more than compute, and of a model in passes the first of these.  Loops inside loops may
        take long, so that the engine is one that compiles them.
        """
        once, has_passes = getattr(self.model, "once", None), hasattr(type(self.model), "scheduled")
        if not has_passes or (once is not None and not self._may_warn(once.anything)):
            return
        most = {} if once is not None and self.wish.steps is None else {"max_iterations": FIRST_PASSES}
        begun, told = replace(self, stops=False), list[str]()
        try:
            may_delay = any(np.asarray(values).dtype.kind in "iu" for _, (_, values) in self.grid.axes)
            for number in sorted({0, self.size - 1} if may_delay else {0}):
                with self.chosen(), options(engine=DEFAULT, **most), run_by(partial(_begun, told)):
                    told += [text for text in begun._warnings_of(number, start_run()) if SHARED in text]
                told = [text for text in told if not number or FROM_END in text]  # a sweep over a delay begins with 0
                if told:
                    break
        except Exception as reason:  # the runs say what is wrong
            let_through(reason)
            return
        if told:
            self.warn_of({"loops": number})

    def _may_warn(self, graph: Any) -> bool:
        """Whether a graph only computes, and has something to warn of: bodies that say all types mean what they say."""
        nodes = graph.body.nodes
        is_open = self.wish.steps is not None or graph.draws or any(not body.typed for node in nodes for _, body in node.bodies)
        return is_open and all(map(is_repeatable, nodes))

    def warn_of(self, suspects: Mapping[str, int]) -> None:
        """Say what the first run warns of that warns: JAX, and machine code of many runs, are silent."""
        number, found = self._first_warnings(suspects)
        for text in dict.fromkeys(text for text in found if text not in self._said):
            warn_user(f"{self.described(number)}, and perhaps other runs: {text}")
        self._said.update(found)

    @cached_property
    def _said(self) -> set[str]:
        """What was warned of already."""
        return set()

    def _first_warnings(self, suspects: Mapping[str, int]) -> tuple[int, list[str]]:
        """Run suspects again, one by one, until one warns, for at most :data:`AGAIN` seconds."""
        engine = DEFAULT if ENGINES[self.engine].device else self.engine
        alone = replace(self, options={**self.options, "engine": engine}, stops=False)
        try:
            with alone.chosen(), options(timeout=AGAIN):
                again = start_run()
                for number in sorted(set(suspects.values())):
                    if found := alone._warnings_of(number, again):
                        return number, found
        except LoopTimeout:
            if "warned" in suspects:
                return suspects["warned"], ["it has a warning; run it by itself to see which"]
        return 0, []

    def _warnings_of(self, number: int, run: Run) -> list[str]:
        with _warnings() as found:
            self._alone(number, run)
        return found

    def _chunk_of(self, start: int, runs: list[Found | str]) -> Chunk:
        errors = {k: f"{self.described(start + k)}: {found}" for k, found in enumerate(runs) if isinstance(found, str)}
        rows = {name: [None if isinstance(found, str) else found.outputs.get(name) for found in runs] for name in self.names}
        for label, name in self.recorded.items():
            rows[label] = [None if isinstance(found, str) else found.recorded[name] for found in runs]
        known = {name: column for name, column in rows.items() if any(row is not None for row in column)}
        columns = {name: column_of(column, self.padding) for name, column in known.items()}
        iterations = [None if isinstance(found, str) else found.iterations for found in runs]
        if not all(isinstance(count, int) for count in iterations):
            return Chunk(columns, errors)
        stops = np.array([found.stop for found in runs if not isinstance(found, str)])
        return Chunk(columns, errors, np.array(iterations), stops)

    def _one_by_one(self, start: int, stop: int, run: Run, seconds: float) -> tuple[list[Found | str], list[int]]:
        """What runs gave, and which of them have something to warn of."""
        found: list[Any] = [None] * (stop - start)
        warned = list[int]()

        def some(first: int, behind: int) -> None:
            for k in range(first, behind):
                found[k] = self._alone(start + k, run, warned)

        return found[: in_parts(len(found), some, seconds)], warned

    def _alone(self, k: int, run: Run, warned: list[int] | None = None) -> Found | str:
        """What one run gave, or what went wrong; where there is a list for its number, it shows no warning itself."""
        part = Run(run.options, RandomStream(self.seed_of(k)), deadline=run.deadline, enclosing=run, tells=warned is None)
        with part_of(run):
            try:
                return self.model.found_by(self.inputs_of(self.place(k)[0]), part, self.wish)
            except LoopError as error:
                let_through(error)
                if self.stops:
                    error.add_note(f"in {self.described(k)}")
                    raise
                return " ".join(str(error).split())
            finally:
                if part.warned and warned is not None:
                    warned.append(k)

    def described(self, k: int) -> str:
        """A run in words."""
        point, trial = self.place(k)
        values = ", ".join(f"{name}={value}" for name, value in self.grid.inputs(point).items())
        return f"point {point} ({values}), trial {trial}" if values else f"trial {trial}"

    @cached_property
    def engine(self) -> str:
        """The engine of all runs."""
        return engine_of(self.options["engine"], self.model, self.inputs_of(0), self.names, stepping(self.wish))

    @contextlib.contextmanager
    def chosen(self) -> Iterator[None]:
        """The options of the caller of the sweep; streams come from the seeds of the runs alone."""
        with options(**{**self.options, "seed": None, "progress": None, "engine": self.engine}), random_stream(RandomStream(0)):
            yield
