"""The names of what a sweep gives: its dimensions and their coordinates, and the Dataset that they make of a table of rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.models.ended_runs import at_m_in_words
from mdf_loop.models.labelled import DIMENSIONS, Axes, attributes, length_label, new_dataset, with_words
from mdf_loop.models.results import About
from mdf_loop.options import Run
from mdf_loop.sweeps.rows.merging import Merging, table_of
from mdf_loop.sweeps.rows.reducing import QUANTILE, keeps_rows, made_of, one_of
from mdf_loop.sweeps.rows.rows_of_runs import Table
from mdf_loop.sweeps.sources import may_decide
from mdf_loop.sweeps.task import Task


@dataclass(frozen=True)
class Labels:
    """What is known of the results of a sweep before it runs; all of it can stand in a file.

    Attributes
    ----------
    dims : sequence of str
        One for each value that is swept, or ``point``; then ``trial`` where each trial has a row.
    shape : sequence of int
    coordinates : mapping of str to (dim or dims, values)
    names : sequence of str
        The outputs.
    by_iteration : sequence of str
        Those whose first axis is that of iterations, or steps.
    trials : int
        Runs at each point.
    attrs : mapping
        Attributes of the Dataset.
    fill : float
        What stands where there is no value.
    reduces : mapping of str to (str, list of float or None)
        What is made of the trials of a point, output by output: None for a function of the caller's.
    may_decide : bool
        Whether the condition of the only loop may end it before its trip count.
    steps : mapping of str to float
        How long an iteration takes, for the outputs that have a time.
    row : str
        What a row of them is, as in ``About``.
    """

    dims: Sequence[str]
    shape: Sequence[int]
    coordinates: Mapping[str, tuple[str | Sequence[str], Any]]
    names: Sequence[str]
    by_iteration: Sequence[str]
    trials: int
    attrs: Mapping[str, Any] = field(default_factory=dict)
    fill: float = np.nan
    reduces: Mapping[str, Any] = field(default_factory=dict)
    may_decide: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    row: str = "iteration"

    def label(self, name: str) -> str:
        """What an output is called in a Dataset."""
        inner = (dim for dims, _ in self.coordinates.values() if not isinstance(dims, str) for dim in dims)
        return f"output {name}" if name in {*self.coordinates, *inner, *DIMENSIONS, QUANTILE} else name

    def length_label(self, name: str) -> str:
        """What is called that says how long the rows of an output are."""
        return length_label(self.label(name), map(self.label, self.names))

    @property
    def points(self) -> int:
        """How many points there are."""
        return math.prod(size for dim, size in zip(self.dims, self.shape, strict=True) if dim != "trial")

    @property
    def merging(self) -> Merging | None:
        """How the trials of a point are reduced, if they are."""
        known = {name: lost if said is None else one_of(said) for name, said in self.reduces.items()}
        return Merging(known, self.trials) if known else None

    @property
    def rows(self) -> int:
        """How many rows the results have."""
        return self.points if self.reduces else self.points * self.trials

    def table(self) -> Table:
        """What the results are filled in."""
        return table_of(self.merging, self.points * self.trials, self.fill)

    def failed(self, errors: Mapping[int, str]) -> list[str]:
        """What went wrong; of trials that are reduced the first at each point."""
        first = {run // self.trials if self.reduces else run: run for run in sorted(errors, reverse=True)}
        return [errors[run] for run in sorted(first.values())]

    def other_points(self, here: Labels) -> str:
        """What is other in the points of a sweep here, in words: how many there are, and the first value that differs."""
        there, now = self._axes, here._axes
        name = next((name for name in [*there, *now] if there.get(name) != now.get(name)), "")
        was, given = there.get(name, []), now.get(name, [])
        k = next((k for k, (one, other) in enumerate(zip(was, given, strict=False)) if one != other), None)
        first = f": {name}[{k}] is {was[k]}, here it is {given[k]}" if k is not None else ""
        lengths = f": {name} has {len(was)} value{'s' * (len(was) != 1)}, here {len(given)}" if len(was) != len(given) else first
        return f"its grid has {self.points} points, here it has {here.points}{lengths if name else ', of other values'}"

    @property
    def _axes(self) -> dict[str, list[str]]:
        named = self.coordinates.items()
        return {name: [*map(str, np.asarray(values).tolist())] for name, (_, values) in named if name != "trial"}


def labels_of_sweep(task: Task, run: Run, has_trials: bool, numbers_trials: bool = True) -> Labels:
    """The labels of what a task gives.

    ``has_trials`` says whether trials are a dimension of their own, ``numbers_trials`` whether that has coordinates.
    """
    grid, reduce = task.grid, task.reduce
    dims, shape, coordinates = grid.dims, grid.shape, grid.coordinates()
    if has_trials and reduce is None:
        dims, shape = (*dims, "trial"), (*shape, task.trials)
    if "trial" in dims and numbers_trials:
        coordinates["trial"] = ("trial", np.arange(task.trials))
    collected = task.model.collected(task.wish)
    names = [name for name in task.wish.outputs or task.names if reduce is None or name in reduce]
    reduces = {} if reduce is None else {name: made_of(reduce[name]) for name in names}
    is_timed = all(name.rpartition(".")[2] != "dt" for name, _ in grid.axes)
    steps = task.model.lengths_of_steps(task.inputs, task.wish) if is_timed else {}
    about = About(task.model.name, seed=task.seed, inputs=task.inputs, options=dict(run.options.chosen), steps=steps)
    attrs = {**attributes(about), "common_noise": int(task.common_noise), "engine": task.engine}
    for name in ("iterations", "stop", "every"):
        attrs.pop(name)
    rows = [name for name in names if name in collected and (reduce is None or keeps_rows(reduce[name]))]
    attrs |= {"units": json.dumps(units)} if (units := task.model.units) else {}
    decides = may_decide(task.model, task.wish)
    given = dims, shape, coordinates, names, rows, task.trials, attrs, float(task.fill)
    return Labels(*given, reduces, decides, steps, task.model.row(task.wish))


def lost(_: np.ndarray) -> Any:
    """A function of the caller's, of which the labels do not say what it makes."""
    raise LoopError("what a function makes of trials is not known without it")


def labelled(labels: Labels, table: Table, errors: Sequence[str]) -> Any:
    """The rows of a table as a Dataset."""
    arrays, ragged = table.finish()
    lead, shape = tuple(labels.dims), tuple(labels.shape)
    variables: dict[str, Any] = {}
    axes = Axes(lead)
    for name in labels.names:
        rows = arrays.get(name)
        if rows is None:
            rows = np.full(table.count, labels.fill)
        label = labels.label(name)
        rows = rows.reshape((*shape, *rows.shape[1:]))
        levels = labels.reduces.get(name)
        more = () if not isinstance(levels, list) or rows.ndim == len(shape) else (axes.along(QUANTILE, levels, label),)
        variables[label] = axes.of(label, rows.shape, name in labels.by_iteration, more=more, step=labels.steps.get(name)), rows
        if name in ragged:
            variables[labels.length_label(name)] = lead, ragged[name].reshape(shape)
    units = json.loads(labels.attrs.get("units", "{}"))
    attrs = {**labels.attrs, "errors": list(errors), "failed": table.failed, "complete": table.complete}
    if labels.may_decide and table.at_m:
        attrs["ended"] = at_m_in_words(table.at_m, f"{table.complete:,} runs")
    times = axes.times({*variables, *labels.coordinates})
    attrs.pop("units", None)
    return with_words(new_dataset(variables, times | axes.coordinates | dict(labels.coordinates), attrs), units, labels.row)
