"""What the nodes behind the only loop of a model compute, for all runs at once: they are a program of machine code as well."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.execute.graphs import Graph
from mdf_loop.ir import Body
from mdf_loop.options import Run
from mdf_loop.plan.invariants import draws
from mdf_loop.sweeps.machine_runs import Columns, NotTogether, are_the_same_bits, column_of_values, for_many, many
from mdf_loop.sweeps.vectors import Vectors

log = logging.getLogger(__name__)

Values = dict[str, Any]


class BehindLoop:
    """The nodes of a graph behind its only loop.

    Parameters
    ----------
    body : Body
        The whole graph.

    Attributes
    ----------
    before : list of str
        What they read of what is known before the loop.
    wanted : set of int
        The results of the loop that they read.
    is_left : bool
        They have no machine code, or draw random numbers: each run computes them by itself.
    """

    def __init__(self, body: Body) -> None:
        at = next(k for k, node in enumerate(body.nodes) if node.loop is not None)
        nodes = body.nodes[at + 1 :]
        known = {"", *body.constants, *(name for node in nodes for name in node.outputs)}
        read = (*(name for node in nodes for name in node.reads), *body.outputs)
        self._reads = tuple(dict.fromkeys(name for name in read if name not in known))
        self._results = {name: place for place, name in enumerate(body.nodes[at].outputs) if name in self._reads}
        self.before, self.wanted = [name for name in self._reads if name not in self._results], set(self._results.values())
        self.is_left = not self.wanted or any(map(draws, nodes))
        self._graph = Graph(replace(body, inputs=self._reads, captures=(), nodes=nodes))
        self._vectors = Vectors()

    def run(self, points: Sequence[Values], columns: Columns, which: np.ndarray, run: Run) -> Sequence[Any] | None:
        """The outputs of the graph, each with a row for each run; None if each run has to compute them by itself.

        Parameters
        ----------
        points : sequence of mapping
            Of each point, what is known before the loop, of what is read.
        columns : Columns
            What the loop gave in each run.
        which : array of int
            For each run, which point it is of.
        run : Run
        """
        try:
            return self._run(points, columns, which, run)
        except NotTogether as reason:
            log.debug("behind the loop: %s", reason)
            self.is_left = True
            return None

    def _run(self, points: Sequence[Values], columns: Columns, which: np.ndarray, run: Run) -> Sequence[Any] | None:
        first, rows = {**points[0], **self._first(columns)}, dict[int, np.ndarray]()
        for k, name in enumerate(self._reads):
            column = self._rows_of(name, columns) if name in self._results else column_of_values([each[name] for each in points])
            if column is not None:
                rows[k] = column if name in self._results else column[which]
        values = [first[name] for name in self._reads]
        made = for_many(self._graph.machine_code(values, run.options), run.options)
        if made is None or not are_the_same_bits(made):  # a run alone computes them node by node, in every engine
            raise NotTogether("what is computed behind the loop has no machine code of the same bits")
        return many(made, self._vectors, values, rows, np.arange(len(columns.lengths)), None, run)

    def _first(self, columns: Columns) -> Values:
        """What the loop gave in the first run."""
        results = columns.results(0)
        return {name: results[place] for name, place in self._results.items()}

    def _rows_of(self, name: str, columns: Columns) -> np.ndarray:
        """A result of the loop in all runs."""
        place = self._results[name] - len(columns.values)
        if place < 0:
            return columns.values[place]
        found, length = columns.collected[place], columns.lengths[0]
        if found is None or (columns.lengths != length).any():
            raise NotTogether("what is computed with collected values differs in length from run to run")
        return found[:, :length]
