"""Runs that all do the same to other numbers, several at once: machine code whose vectors are one value in each of them.

The program of a single run gets a leading axis (:mod:`mdf_loop.step.vmap`), so that a register holds a value of several runs.
Machine code gives each the bits that it has alone; runs that draw, that end by what they compute, or that add up many
numbers stay one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.specialised import Specialised, in_machine_code
from mdf_loop.options import Run
from mdf_loop.settings.random_streams import RandomStream
from mdf_loop.step.build import CannotLower
from mdf_loop.step.structure import adds_up_little
from mdf_loop.step.vmap import vmap

LANES = 64
"""Runs at once: enough for the widest registers several times over, few enough to stay in the processor's cache."""

WORTH = 1.0
"""Compilations of the program of one run that all runs, one after the other, have to last for these."""

Made = tuple[Specialised, tuple[bool, ...]]
"""A program for several runs, and which of its results have a row for each."""


class Vectors:
    """The programs for several runs at once, by the program of one and by what differs from run to run."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[bool, ...]], tuple[Specialised, Made | None]] = {}
        self._spent: dict[tuple[int, tuple[bool, ...]], float] = {}

    def run(
        self,
        made: Specialised,
        values: Sequence[Any],
        columns: Sequence[np.ndarray | None],
        which: np.ndarray,
        run: Run,
        share: Callable[[int, Callable[[int, int], None]], int],
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
        share : callable
            Has so many pieces of work done, some at a time; returns how many of the first ones are.
        """
        if len(which) < LANES // 2 or not made.is_alone:
            return None
        found = self._made(made, tuple(x is not None for x in columns), values, len(which), run)
        if found is None:
            return None
        program, flags = found
        blocks = np.append(which, which[-1:].repeat(-len(which) % LANES)).reshape(-1, LANES)

        def call(k: int) -> Sequence[Any]:
            run.pause()
            given = (first if x is None else x[blocks[k]] for x, first in zip(columns, values, strict=True))
            results: Sequence[Any] = program.call(_part(run), *given)
            return results

        first = [*map(np.asarray, call(0))]
        out = [np.empty((blocks.size, *x.shape[flag:]), x.dtype) for x, flag in zip(first, flags, strict=True)]

        def some(start: int, stop: int) -> None:
            for k in range(start, stop):
                for column, result in zip(out, call(k) if k else first, strict=True):
                    column[LANES * k : LANES * (k + 1)] = result

        done = min(LANES * share(len(blocks), some), len(which))
        return [column[:done] for column in out]

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
    return None if isinstance(found, str) or not found.is_alone else (found, flags)


def _part(run: Run) -> Run:
    """What a program is run by that draws nothing."""
    return Run(run.options, RandomStream(0))
