"""A graph with its loops run many times by machine code: one run after the other, each as engine ``jit`` runs it alone.

Many runs of a program are one call, without anything of Python's in between, and without Python's lock.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.endless import Endless
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.specialised import Specialised
from mdf_loop.options import Options, Run
from mdf_loop.settings.engines import can_compile
from mdf_loop.sweeps.vectors import Vectors
from mdf_loop.sweeps.workers import in_parts

WORTH, UNKNOWN, AROUND = 1 << 16, 1 << 8, 1 << 6
"""Iterations of all runs from which on engine ``auto`` compiles; those of a run that are expected where nothing is said; those
that take as long as what stands around the loop, where each run is run by itself."""


class NotTogether(Exception):
    """Something that each run does by itself; says what."""


def may_be_together(options: Options) -> bool:
    """Whether runs may be one call: nothing bounds or watches them one by one."""
    return options.how.plans and options.max_iterations is None and not options.trusted


def may_be_compiled(options: Options) -> bool:
    """Whether that may be machine code."""
    how = options.how
    return may_be_together(options) and (how.compiles or how.compiles_what_pays) and can_compile()


def pays(options: Options, runs: int, iterations: int | None = None) -> bool:
    """Whether so many runs, of so many iterations if that is known, last longer than compiling; in engine ``jit`` always."""
    return options.how.compiles or runs * ((iterations or UNKNOWN) + AROUND) >= WORTH


def refuse_other(endless: Endless, given: Arguments, run: Run) -> None:
    """See that the arguments of a loop are some that runs can have in common."""
    endless.refuse(given, run)
    obeyed = given.go is not None or run.options.obey_body_condition
    is_ignored = endless.loop.keep_going and not obeyed and not endless.goes_on(given, run)
    if given.go is False or (given.trip_count is not None and given.trip_count < 1) or is_ignored:
        raise NotTogether("a loop has no iteration, or ignores its condition")


def many(
    made: Specialised,
    vectors: Vectors,
    values: Sequence[Any],
    columns: Mapping[int, np.ndarray],
    which: np.ndarray,
    streams: np.ndarray | None,
    run: Run,
    seconds: float,
) -> Sequence[Any]:
    """The results of a program that needs nothing of Python's, each with a row for each run.

    ``values`` are those of the first run, ``columns`` the rows of those that differ, by their
    places; ``streams`` the beginnings of random streams, if it draws.

    Raises
    ------
    FallBack
        Machine code leaves something to others: a run came upon something that only running it alone finds out.
    LoopTimeout
    """
    from mdf_loop.backends.llvm.many_runs import RunColumns

    call: Any = made.call
    share = functools.partial(in_parts, seconds=seconds)
    with np.errstate(all="ignore"):
        if streams is None:
            found = vectors.run(made, values, [columns.get(k) for k in range(len(values))], which, run, share)
            if found is not None:
                return found
        program = RunColumns(call, values, [[k] for k in columns], range(len(call.results)), np.bincount(which))
        return program.run([*columns.values()], streams, run.pause, share)


def columns_of(values: Sequence[Sequence[Any]]) -> dict[int, np.ndarray]:
    """What differs of the values of many runs, by its place: a row for each run.

    Raises
    ------
    NotTogether
        Values of one place are no numbers or arrays, or have other types or shapes.
    """
    columns = dict[int, np.ndarray]()
    for k, column in enumerate(zip(*values, strict=True)):
        if all(x is column[0] for x in column):
            continue
        if not isinstance(column[0], bool | int | float | np.ndarray | np.generic) or len(set(map(_kind_of, column))) > 1:
            raise NotTogether("a value is of another kind in some runs")
        rows = np.array(column)
        if rows.dtype.hasobject:
            raise NotTogether("a number is too large for machine code")
        bits = rows.view(np.uint8).reshape(len(rows), -1)
        if not (bits == bits[:1]).all():
            columns[k] = rows
    return columns


def _kind_of(value: Any) -> Any:
    return (value.dtype, value.shape) if isinstance(value, np.ndarray | np.generic) else type(value)
