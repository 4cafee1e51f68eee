"""Runs that all do the same to other numbers, several at once: programs whose vectors are one value in each of them.

The program of a single run gets a leading axis (:mod:`mdf_loop.step.vmap`), so that a register, or an array of numpy's, holds
a value of several runs.  Each has the bits that it has alone; runs that draw, that end by what they compute, or that add up
many numbers stay one after the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.python import printer
from mdf_loop.execute.specialised import Specialised, in_machine_code
from mdf_loop.options import Run
from mdf_loop.settings.random_streams import RandomStream
from mdf_loop.step.build import CannotLower
from mdf_loop.step.memory import size_of
from mdf_loop.step.records import Region
from mdf_loop.step.structure import adds_up_little, computed_from
from mdf_loop.step.vmap import vmap
from mdf_loop.system.threads import Recent

LANES = 64
"""Runs at once: enough for the widest registers several times over, few enough to stay in the processor's cache."""

FEW, MANY = LANES // 2, 1 << 11
"""Runs from which on that is done, and those at once in numpy at most, where their arrays have room in a block."""

KEPT = 32
"""How many times as long as other arrays results may be, which are kept anyway."""

ENDLESS = 1 << 62
"""Iterations that a program in numpy may have: the clock alone ends it."""

MOST = 16
"""Programs in numpy that are kept."""

WORTH = 1.0
"""Compilations of the program of one run that all runs, one after the other, have to last for these."""

Share = Callable[[int, Callable[[int, int], None]], int]
"""Has so many pieces of work done, some at a time; returns how many of the first ones are."""

Made = tuple[Callable[..., Any], tuple[bool, ...]]
"""A program for several runs, and which of its results have a row for each."""


class Vectors:
    """The programs for several runs at once, by the program of one and by what differs from run to run."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[bool, ...]], tuple[Specialised, Made | None]] = {}
        self._spent: dict[tuple[int, tuple[bool, ...]], float] = {}
        self._in_numpy = Recent[Made](MOST)

    def run(
        self,
        made: Specialised,
        values: Sequence[Any],
        columns: Sequence[np.ndarray | None],
        which: np.ndarray,
        run: Run,
        share: Share,
    ) -> list[np.ndarray] | None:
        """The results of all runs, or of the first that are done, each with a row a run; None if there is no such program.

        Parameters
        ----------
        made : Specialised
            The program of one run.
        values : sequence
            What the first run is given.
        columns : sequence of array or None
            What all may be given, a row for each; None where that is always the same.
        which : array of int
            For each run, which rows are its.
        run : Run
        share : Share
        """
        if len(which) < FEW or not made.is_alone:
            return None
        found = self._made(made, tuple(x is not None for x in columns), values, len(which), run)
        return None if found is None else _in_blocks(found, LANES, values, columns, which, run, share)

    def run_in_numpy(
        self,
        step: Region,
        values: Sequence[Any],
        columns: Sequence[np.ndarray | None],
        which: np.ndarray,
        run: Run,
        share: Share,
    ) -> list[np.ndarray]:
        """The same by numpy, of the Step of one run.

        Raises
        ------
        CannotLower
            It has no form for several runs.
        """
        differs = tuple(x is not None for x in columns)
        stacked = {param for param, is_stacked in zip(step.params, differs, strict=True) if is_stacked}
        computed_from(step, stacked)
        largest = max([1, *(size_of(x.type) // (KEPT if x in step.results else 1) for x in stacked)])
        room = max(1, run.options.block_bytes // largest)
        lanes = min(MANY, 1 << (len(which) - 1).bit_length(), 1 << (room.bit_length() - 1))

        def made() -> Made:
            many, flags = vmap(step, differs, lanes)
            return printer.program(many, most=ENDLESS)[0], flags

        return _in_blocks(self._in_numpy.of((differs, lanes), made), lanes, values, columns, which, run, share)

    def _made(self, made: Specialised, differs: tuple[bool, ...], values: Sequence[Any], runs: int, run: Run) -> Made | None:
        """The program for several runs; None if there is none, or if compiling it takes longer than all runs so far did."""
        key = id(made), differs
        if key not in self._known:
            begun = time.perf_counter()
            made.call(_part(run), *values)
            self._spent[key] = self._spent.get(key, 0.0) + (time.perf_counter() - begun) * runs
            if self._spent[key] < WORTH * made.seconds:
                return None
            self._known[key] = made, _vectorised(made, differs)
        return self._known[key][1]


def _vectorised(made: Specialised, differs: tuple[bool, ...]) -> Made | None:
    if not any(differs) or not adds_up_little(made.step):
        return None
    try:
        step, flags = vmap(made.step, differs, LANES)
    except CannotLower:
        return None
    found = in_machine_code(step)
    return None if isinstance(found, str) or not found.is_alone else (found.call, flags)


def _in_blocks(
    made: Made,
    lanes: int,
    values: Sequence[Any],
    columns: Sequence[np.ndarray | None],
    which: np.ndarray,
    run: Run,
    share: Share,
) -> list[np.ndarray]:
    """The results of all runs, or of the first that are done, so many at once."""
    program, flags = made
    blocks = np.append(which, which[-1:].repeat(-len(which) % lanes)).reshape(-1, lanes)

    def call(k: int) -> Sequence[Any]:
        run.pause()
        given = (first if x is None else x[blocks[k]] for x, first in zip(columns, values, strict=True))
        results: Sequence[Any] = program(_part(run), *given)
        return results

    first = [*map(np.asarray, call(0))]
    out = [np.empty((blocks.size, *x.shape[flag:]), x.dtype) for x, flag in zip(first, flags, strict=True)]

    def some(start: int, stop: int) -> None:
        for k in range(start, stop):
            for column, result in zip(out, call(k) if k else first, strict=True):
                column[lanes * k : lanes * (k + 1)] = result

    done = min(lanes * share(len(blocks), some), len(which))
    return [column[:done] for column in out]


def _part(run: Run) -> Run:
    """What a program is run by that draws nothing."""
    longest = math.inf if run.deadline is None else run.deadline.end - time.monotonic()
    return Run(run.options, RandomStream(0), longest=longest)
