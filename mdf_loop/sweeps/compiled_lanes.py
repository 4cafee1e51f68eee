"""A loop or a whole graph run for many lanes by machine code: one lane after the other, each as engine ``jit`` runs it alone.

The program is the one of a single run, but for collected values that are not asked for; many runs of it are one call, without
anything of Python's in between, and without Python's lock where nothing outside of the program is called.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.execute.graphs import Graph
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.programs import program_values
from mdf_loop.execute.specialised import Specialised
from mdf_loop.ir import Loop
from mdf_loop.options import Run
from mdf_loop.settings.engines import can_compile
from mdf_loop.settings.random_streams import RandomStream, begun
from mdf_loop.step.failing import FallBack, TooLong
from mdf_loop.step.structure import gives_same_bits
from mdf_loop.sweeps.lanes.lane_values import Columns, NotBatched
from mdf_loop.sweeps.machine_runs import columns_of, run_many
from mdf_loop.sweeps.seeds import Seeds
from mdf_loop.sweeps.vectors import Vectors, column_of_values
from mdf_loop.sweeps.workers import current_crew

WORTH, UNKNOWN = 1 << 17, 1 << 8
"""Iterations of all lanes from which on engine ``auto`` compiles, and those of a lane that are expected where nothing is said."""


class CompiledLoop:
    """A loop made ready for many lanes.

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
        self, given: Sequence[Arguments], which: np.ndarray, seeds: Seeds | None, run: Run, seconds: float = math.inf
    ) -> Columns | None:
        """Run the loop in all lanes, or in the first ones; None if engine ``auto`` or ``jit`` has another way to take.

        Parameters
        ----------
        given : sequence of Arguments
        which : array of int
            For each lane, which of them are its.
        seeds : Seeds, optional
            Of the random stream of each lane, if the loop draws.
        run : Run
        seconds : float
            After which no further lane is begun.

        Raises
        ------
        NotBatched
            A lane came upon something that only running it alone finds out.
        LoopTimeout
        """
        values = [program_values(each) for each in given]
        made = self._program(given, values, len(which), run)
        if made is None:
            return None
        results, rows = many(made, self.vectors, values, which, seeds, run, seconds)
        if results is None:
            return self._of_rows(rows)
        return self._as_columns(results)

    def run_columns(
        self,
        given: Arguments,
        columns: Mapping[int, np.ndarray],
        which: np.ndarray,
        seeds: Seeds | None,
        run: Run,
        seconds: float = math.inf,
    ) -> Columns | None:
        """The same, of arguments that are those of one lane but for some of the program's, which come as columns."""
        values = program_values(given)
        made = self._program([given], [values], len(which), run)
        if made is None:
            return None
        rows = [columns.get(k) for k in range(len(values))]
        share = partial(current_crew().share, seconds=seconds)
        with _left_to_others(), np.errstate(all="ignore"):
            results = self.vectors.run(made, values, rows, which, run, share) if seeds is None else None
            words = None if seeds is None else seeds.words
            if results is None and (seeds is None or words is not None):
                each = {k: column[which] for k, column in columns.items()}
                program = columns_of(made.call, values, [[k] for k in each], range(len(made.step.results)), 1, are_known=False)
                streams = None if words is None else begun(words)
                results = program and program.run(list(each.values()), streams, lambda: _pause(run), share)
        return None if results is None else self._as_columns(results)

    def _as_columns(self, results: Sequence[Any]) -> Columns:
        """Results of all lanes, each an array, or a list of them as far as each lane goes."""
        *found, lengths = results
        count, longest = len(lengths), int(lengths.max(initial=0))
        carried = [np.stack(column) if isinstance(column, list) else column for column in found[: self.first]]
        collected: list[np.ndarray | None] = []
        for place in self.places:
            column = None if place is None else found[place]
            collected.append(_stacked(column, count, longest) if isinstance(column, list) else column)
        return Columns(carried, collected, lengths)

    def _program(self, given: Sequence[Arguments], values: Sequence[Sequence[Any]], lanes: int, run: Run) -> Specialised | None:
        """The machine code of all lanes, if there is some and it shall be used."""
        options, first = run.options, given[0]
        how = options.how
        if not (how.compiles or how.compiles_what_pays) or options.max_iterations is not None or not can_compile():
            return None
        if how.compiles_what_pays and not self._is_worth_it(given, lanes):
            return None
        forms = {(each.trip_count is None, each.go is None) for each in given}
        made = self.execute.machine_code(first, options) if len(forms) == 1 and _are_of_one_kind(values) else None
        if made is None or how.compiles:
            return made
        return made if gives_same_bits(made.step) else None

    def _is_worth_it(self, given: Sequence[Arguments], lanes: int) -> bool:
        """Whether there is much to do, of values that have types."""
        count = max(each.trip_count or UNKNOWN for each in given)
        return lanes * count >= WORTH and self.execute.loop.body.typed

    def _of_rows(self, rows: Sequence[Sequence[Any]]) -> Columns:
        """What lanes gave that were called one by one."""
        *columns, lengths = map(list, zip(*rows, strict=True))
        return self._as_columns([*columns, np.array(lengths)])


class CompiledGraph:
    """A whole graph made ready for many lanes: one program with its loops inside.

    Parameters
    ----------
    graph : Graph
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.vectors = graph, Vectors()

    def run(
        self,
        given: Sequence[Sequence[Any]],
        which: np.ndarray,
        seeds: Seeds | None,
        run: Run,
        seconds: float = math.inf,
    ) -> list[Any] | None:
        """Each output in all lanes, or in the first ones, as far as it goes; None if there is another way to take.

        Parameters
        ----------
        given : sequence of sequences
            Inputs of the graph.
        which : array of int
            For each lane, which of them are its.
        seeds : Seeds, optional
            Of the random stream of each lane, if the graph draws.
        run : Run
        seconds : float
            After which no further lane is begun.

        Raises
        ------
        NotBatched, LoopTimeout
            As those of :class:`CompiledLoop`.
        """
        how = run.options.how
        pays = how.compiles_what_pays and len(which) * UNKNOWN >= WORTH
        if not (how.compiles or pays) or not can_compile() or not _are_of_one_kind(given):
            return None
        made = self.graph.machine_code(given[0], run.options)
        if made is None or (pays and not gives_same_bits(made.step)):
            return None
        results, rows = many(made, self.vectors, given, which, seeds, run, seconds)
        return list(zip(*rows, strict=True)) if results is None else list(results)


def many(
    made: Specialised,
    vectors: Vectors,
    values: Sequence[Sequence[Any]],
    which: np.ndarray,
    seeds: Seeds | None,
    run: Run,
    seconds: float,
) -> tuple[Sequence[Any] | None, Sequence[Any]]:
    """The results of a program in all lanes, each with a row for each; or None and those of each lane, called one by one.

    Raises
    ------
    NotBatched
        A lane came upon something that only running it alone finds out.
    LoopTimeout
    """
    share = partial(current_crew().share, seconds=seconds)
    with _left_to_others(), np.errstate(all="ignore"):
        found = None
        if seeds is None:
            columns = [column_of_values(column) for column in zip(*values, strict=True)]
            found = vectors.run(made, values[0], columns, which, run, share)
        if found is None:
            found = run_many(made.call, values, which, seeds, lambda: _pause(run), share)
        if found is not None:
            return found, ()
        generators = seeds.generators() if seeds is not None else []
        return None, _one_by_one(made.call, [values[k] for k in which], generators, run, share)


@contextlib.contextmanager
def _left_to_others() -> Iterator[None]:
    """What machine code leaves to others is run lane by lane."""
    try:
        yield
    except (FallBack, TooLong) as error:
        raise NotBatched("machine code leaves something to others") from error


def _one_by_one(
    call: Callable[..., Any],
    values: Sequence[Sequence[Any]],
    generators: Sequence[np.random.Generator],
    run: Run,
    share: Callable[[int, Callable[[int, int], None]], int],
) -> list[Any]:
    """Lanes that call something outside."""
    rows: list[Any] = [None] * len(values)

    def some(start: int, stop: int) -> None:
        for k in range(start, stop):
            _pause(run)
            part = Run(run.options, RandomStream.over(generators[k]) if generators else RandomStream(0))
            rows[k] = call(part, *values[k])

    return rows[: share(len(values), some)]


def _stacked(rows: Sequence[np.ndarray], count: int, longest: int) -> np.ndarray:
    """Collected values of all lanes, as far as each goes."""
    if len({(row.dtype, row.shape[1:]) for row in rows}) > 1:
        raise NotBatched("a value changes its type or shape")
    found = np.empty((count, longest, *rows[0].shape[1:]), rows[0].dtype)
    for k, row in enumerate(rows):
        found[k, : len(row)] = row
    return found


def _are_of_one_kind(values: Sequence[Sequence[Any]]) -> bool:
    """Whether the values of all lanes have the same types and shapes."""
    return all(len(set(map(_kind_of, column))) == 1 for column in zip(*values, strict=True))


def _kind_of(value: Any) -> Any:
    return (value.dtype, value.shape) if isinstance(value, np.ndarray | np.generic) else type(value)


def _pause(run: Run) -> None:
    if run.deadline is not None:
        run.deadline.check()
