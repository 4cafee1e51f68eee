"""A loop or a whole graph run many times by machine code: one run after the other, each as engine ``jit`` runs it alone.

The program is the one of a single run, but for collected values that are not asked for; many runs of it are one call, without
anything of Python's in between, and without Python's lock.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.programs import program_values
from mdf_loop.execute.specialised import Specialised
from mdf_loop.ir import Loop
from mdf_loop.options import Options, Run
from mdf_loop.settings.engines import can_compile
from mdf_loop.step.failing import FallBack, TooLong
from mdf_loop.step.structure import gives_same_bits
from mdf_loop.sweeps.seeds import Seeds
from mdf_loop.sweeps.vectors import Vectors
from mdf_loop.sweeps.workers import current_crew

WORTH, UNKNOWN, AROUND = 1 << 16, 1 << 8, 1 << 6
"""Iterations of all runs from which on engine ``auto`` compiles; those of a run that are expected where nothing is said; those
that take as long as what stands around the loop, where each run is run by itself."""


class NotTogether(Exception):
    """Something that each run does by itself; says what."""


def may_be_compiled(options: Options) -> bool:
    """Whether runs may be one call of machine code: nothing bounds or watches them one by one."""
    how = options.how
    if options.max_iterations is not None or options.trusted:
        return False
    return (how.compiles or how.compiles_what_pays) and can_compile()


def pays(options: Options, runs: int, iterations: int | None = None) -> bool:
    """Whether so many runs, of so many iterations if that is known, last longer than compiling; in engine ``jit`` always."""
    return options.how.compiles or runs * ((iterations or UNKNOWN) + AROUND) >= WORTH


def refuse_other(request: Any, prepared: Any, run: Run) -> None:
    """See that a request is one that runs can have in common."""
    given, record = request.arguments, prepared.record
    if request.prepared is not prepared:
        raise NotTogether("the loops of two runs have other forms")
    prepared.endless.refuse(given, run)
    obeyed = given.go is not None or run.options.obey_body_condition
    is_ignored = record.keep_going and not obeyed and not prepared.endless.goes_on(given, run)
    if given.go is False or (given.trip_count is not None and given.trip_count < 1) or is_ignored:
        raise NotTogether("a loop has no iteration, or ignores its condition")


@dataclass
class Columns:
    """What a loop gave in all runs.

    Attributes
    ----------
    values : list of array
        Carried, then last values, one row a run.
    collected : list of array or None
        Collected values: runs, iterations, then the value's own axes; None where they are not asked for.
    lengths : array
        How many iterations each run had.
    """

    values: list[np.ndarray]
    collected: list[np.ndarray | None]
    lengths: np.ndarray

    def results(self, run: int) -> list[Any]:
        """The results of one run, as the loop itself gives them."""
        length = self.lengths[run]
        rows = [None if column is None else column[run, :length].copy() for column in self.collected]
        return [*(column[run, ...].copy() for column in self.values), *rows]


class MachineLoop:
    """A loop made ready for many runs.

    Parameters
    ----------
    loop : Loop
    wanted : sequence of bool
        Which results are wanted: carried, last, then collected ones.
    """

    def __init__(self, loop: Loop, wanted: Sequence[bool]) -> None:
        self.first = len(loop.carried) + len(loop.last)
        keeps = list(wanted[self.first :])
        kept = tuple(c for c, keep in zip(loop.collected, keeps, strict=True) if keep)
        self.execute = NumpyLoop(replace(loop, collected=kept))
        self.vectors = Vectors()
        self.places = [self.first + sum(keeps[:k]) if keep else None for k, keep in enumerate(keeps)]

    def run(
        self,
        given: Arguments,
        columns: Mapping[int, np.ndarray],
        which: np.ndarray,
        seeds: Seeds | None,
        run: Run,
        seconds: float = math.inf,
    ) -> Columns:
        """Do all runs of the loop, or the first ones.

        Parameters
        ----------
        given : Arguments
            Those of the first run.
        columns : mapping of int to array
            What differs of what the program is given, by its place: a row for each of several runs.
        which : array of int
            For each run, which row is its; runs with the same row come one after the other.
        seeds : Seeds, optional
            Of the random stream of each run, if the loop draws.
        run : Run
        seconds : float
            After which no further run is begun.

        Raises
        ------
        NotTogether
            There is no machine code, or a run came upon something that only running it alone finds out.
        LoopTimeout
        """
        made = self.program(given, run.options)
        if made is None:
            raise NotTogether("there is no machine code for a loop")
        return self._as_columns(many(made, self.vectors, program_values(given), columns, which, seeds, run, seconds))

    def program(self, given: Arguments, options: Options) -> Specialised | None:
        """The machine code of all runs, if there is some; as :func:`for_many`."""
        return for_many(self.execute.machine_code(given, options), options)

    def _as_columns(self, results: Sequence[Any]) -> Columns:
        """Results of all runs, each an array, or a list of them as far as each run goes."""
        *found, lengths = results
        count, longest = len(lengths), int(lengths.max(initial=0))
        carried = [np.stack(column) if isinstance(column, list) else column for column in found[: self.first]]
        collected: list[np.ndarray | None] = []
        for place in self.places:
            column = None if place is None else found[place]
            collected.append(_stacked(column, count, longest) if isinstance(column, list) else column)
        return Columns(carried, collected, lengths)


def for_many(made: Specialised | None, options: Options) -> Specialised | None:
    """A program, if a run needs nothing of Python's and, in engine ``auto``, gets the bits that it has in each engine."""
    from mdf_loop.backends.llvm.many_runs import can_run_many

    if made is None or not can_run_many(made.call):
        return None
    return made if options.how.compiles or are_the_same_bits(made) else None


@functools.lru_cache(64)
def are_the_same_bits(made: Specialised) -> bool:
    """Whether a program gives the same bits as all engines; asked for each chunk, and for each call of ``run(trials=)``."""
    return gives_same_bits(made.step)


def many(
    made: Specialised,
    vectors: Vectors,
    values: Sequence[Any],
    columns: Mapping[int, np.ndarray],
    which: np.ndarray,
    seeds: Seeds | None,
    run: Run,
    seconds: float = math.inf,
) -> Sequence[Any]:
    """The results of a program (:func:`for_many`), each with a row for each run.

    ``values`` are those of the first run, ``columns`` the rows of those that differ, by their places.

    Raises
    ------
    NotTogether
        A run came upon something that only running it alone finds out.
    LoopTimeout
    """
    from mdf_loop.backends.llvm.many_runs import RunColumns, streams_of

    call: Any = made.call
    share = functools.partial(current_crew().share, seconds=seconds)
    with _left_to_others(), np.errstate(all="ignore"):
        if seeds is None:
            found = vectors.run(made, values, [columns.get(k) for k in range(len(values))], which, run, share)
            if found is not None:
                return found
        program = RunColumns(call, values, [[k] for k in columns], range(len(call.results)), np.bincount(which))
        return program.run([*columns.values()], None if seeds is None else streams_of(seeds), run.pause, share)


@contextlib.contextmanager
def _left_to_others() -> Iterator[None]:
    """What machine code leaves to others is run by itself."""
    try:
        yield
    except (FallBack, TooLong) as error:
        raise NotTogether("machine code leaves something to others") from error


def _stacked(rows: Sequence[np.ndarray], count: int, longest: int) -> np.ndarray:
    """Collected values of all runs, as far as each goes."""
    if len({(row.dtype, row.shape[1:]) for row in rows}) > 1:
        raise NotTogether("a value changes its type or shape")
    found = np.empty((count, longest, *rows[0].shape[1:]), rows[0].dtype)
    for k, row in enumerate(rows):
        found[k, : len(row)] = row
    return found


def columns_of(values: Sequence[Sequence[Any]]) -> dict[int, np.ndarray]:
    """What differs of the values of many runs, by its place: a row for each run.

    Raises
    ------
    NotTogether
        Values of one place are no numbers or arrays, or have other types or shapes.
    """
    columns = {k: column_of_values(column) for k, column in enumerate(zip(*values, strict=True))}
    return {k: column for k, column in columns.items() if column is not None}


def column_of_values(values: Sequence[Any]) -> np.ndarray | None:
    """One value of many runs, a row for each; None where it is always the same.

    Raises
    ------
    NotTogether
    """
    first = values[0]
    if all(x is first for x in values):
        return None
    if not isinstance(first, bool | int | float | np.ndarray | np.generic) or len(set(map(_kind_of, values))) > 1:
        raise NotTogether("a value is of another kind in some runs")
    rows = np.array(values)
    if rows.dtype.hasobject:
        raise NotTogether("a number is too large for machine code")
    bits = rows.view(np.uint8).reshape(len(rows), -1)
    return None if (bits == bits[:1]).all() else rows


def _kind_of(value: Any) -> Any:
    return (value.dtype, value.shape) if isinstance(value, np.ndarray | np.generic) else type(value)
