"""Results with labels: an ``xarray.Dataset`` with named dimensions."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.models.results import About, Results, times
from mdf_loop.models.written import holding, widened
from mdf_loop.settings.engines import needed
from mdf_loop.version import __version__


def xarray() -> Any:
    """The package xarray.

    Raises
    ------
    LoopError
        It is not installed.
    """
    return needed("xarray", "labelled results need xarray", "sweep")


def new_dataset(variables: Mapping[str, Any], coordinates: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    """A Dataset."""
    xarray()
    from mdf_loop.models.datasets import Dataset

    return Dataset(variables, coordinates, attrs)


def dataset(results: Results) -> Any:
    """The outputs and what was recorded, with their dimensions."""
    about, variables = results.about, dict[str, Any]()
    lead = () if about.trials is None else ("trial",)
    parts = {"recorded": about.recorded, "outputs": results}
    labels = labels_of(parts)
    found = {(part, name): rectangular(value) for part, values in parts.items() for name, value in values.items()}
    axes = Axes(lead, [array.shape for (part, _), (array, _) in found.items() if part == "recorded"], about.every)
    for (part, name), (array, lengths) in found.items():
        label, is_recorded = labels[part, name], part == "recorded"
        is_at_start = is_recorded and name in about.at_start
        has_rows, step = is_recorded or name in about.collected, about.steps.get(name)
        dims = axes.of(label, array.shape, has_rows, is_recorded, is_at_start=is_at_start, step=step)
        variables[label] = dims, array
        lengths = about.lengths.get(name, lengths) if is_recorded is (name in about.recorded) else lengths
        if lengths is not None:
            variables[length_label(label, labels.values())] = dims[: np.ndim(lengths)], lengths
    coordinates = axes.coordinates if about.trials is None else axes.coordinates | {"trial": np.arange(about.trials)}
    made = new_dataset(variables, axes.times(variables) | coordinates, attributes(about))
    for name, time in axes.said_times().items():
        made[name].attrs["time"] = time
    return with_words(made, about.units, about.row)


def named_arrays(results: Results) -> dict[str, np.ndarray]:
    """The outputs and what was recorded as the arrays of a Dataset, by the names of its variables."""
    parts = {"recorded": results.about.recorded, "outputs": results}
    return {label: rectangular(parts[part][name])[0] for (part, name), label in labels_of(parts).items()}


def with_words(made: Any, units: Mapping[str, str], row: str) -> Any:
    """A Dataset whose variables have the attribute ``units`` where the model says units; rows of passes say what they are."""
    for dim in made.dims if row != "iteration" else ():
        if dim in made.coords and str(dim).endswith("iteration"):
            made[dim].attrs["long_name"] = row
    for name in map(str, made.variables if units else ()):
        is_time = name in made.coords and any(name in _time_names(str(dim)) for dim in made[name].dims)
        unit = units.get(name.removeprefix("output "), units.get("dt") if is_time else None)
        if unit is not None:
            made[name].attrs["units"] = unit
    return made


def labels_of(parts: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], str]:
    """The variables of a Dataset, by part (``"recorded"`` or ``"outputs"``) and name: no two are called the same."""
    found = {("recorded", name): name for name in parts["recorded"]}
    taken = {*DIMENSIONS, *found.values()}
    return found | {("outputs", name): f"output {name}" if name in taken else name for name in parts["outputs"]}


def length_label(label: str, taken: Iterable[str]) -> str:
    """The variable that says how long the rows of another one are: none that an output is called."""
    return f"{label}_length" if f"{label}_length" not in taken else f"length of {label}"


DIMENSIONS = ("trial", "iteration", "point")
"""Dimensions that a variable is not called by."""


class Axes:
    """Names for the axes of values: ``iteration`` for those that have a row for each, and one of its own for each further one.

    Values of loops that ran for different numbers of iterations, or whose iterations last for different times, cannot share an
    axis: it is that of the longest recording, or of the first value, and others have ``<name>_iteration``.

    Parameters
    ----------
    lead : tuple of str
        What all values have: trials, what is swept.
    recorded : sequence of shape
        Those of what was recorded.
    every : int
        From how many iterations one was recorded.
    """

    def __init__(self, lead: tuple[str, ...] = (), recorded: Sequence[tuple[int, ...]] = (), every: int = 1) -> None:
        self.lead, self.every, self.coordinates = lead, every, dict[str, np.ndarray]()
        self._moments = dict[str, dict[bool, list[str]]]()
        self._steps = dict[str, float | None]()
        lengths = [shape[len(lead)] for shape in recorded if len(shape) > len(lead)]
        self.length: int | None = max(lengths, default=None)
        self.step = every if lengths else 1

    def of(
        self,
        name: str,
        shape: tuple[int, ...],
        has_rows: bool,
        is_recorded: bool = False,
        more: tuple[str, ...] = (),
        is_at_start: bool = False,
        step: float | None = None,
    ) -> tuple[str, ...]:
        """The dimensions of a value.

        ``has_rows`` says whether there is one for each iteration, ``more`` lead as well, ``is_at_start`` says whether a row
        belongs to the start of its iteration, ``step`` how long that takes in the time of the model.
        """
        dims = (*self.lead, *more)
        rest = shape[len(dims) :]
        if has_rows and rest:
            dims = (*dims, dim := self._rows(name, rest[0], self.every if is_recorded else 1, step))
            self._moments.setdefault(dim, {}).setdefault(is_at_start, []).append(name)
        return (*dims[: len(shape)], *(f"{name}_{k}" for k in range(len(shape) - len(dims))))

    def times(self, taken: Container[str]) -> dict[str, Any]:
        """The coordinate ``time`` beside ``iteration``; ``start_time`` and ``end_time`` where values belong to both."""
        found = dict[str, Any]()
        for dim, moments in self._moments.items():
            step = self._steps[dim]
            for is_at_start in moments:
                name = _time_name(dim, is_at_start, len(moments) > 1)
                if step is not None and name not in taken:
                    found[name] = dim, times(self.coordinates[dim], step, is_at_start)
        return found

    def said_times(self) -> dict[str, str]:
        """The coordinate that has the times of a value, where there are two of them; without ``dt`` it is only a name."""
        both = [(dim, moments) for dim, moments in self._moments.items() if len(moments) > 1]
        return {
            name: _time_name(dim, is_at_start, True)
            for dim, moments in both
            for is_at_start, names in moments.items()
            for name in names
        }

    def along(self, dim: str, values: Sequence[Any], name: str) -> str:
        """A dimension with such coordinates: one of the value's own where something else is called that already."""
        found = np.asarray(values)
        if dim in self.lead or not np.array_equal(self.coordinates.get(dim, found), found):
            dim = f"{name}_{dim}"
        self.coordinates[dim] = found
        return dim

    def _rows(self, name: str, length: int, every: int, step: float | None) -> str:
        if self.length is None:
            self.length = length
        is_shared = (length, every) == (self.length, self.step) and self._steps.setdefault("iteration", step) == step
        dim = "iteration" if is_shared else f"{name}_iteration"
        self.coordinates[dim], self._steps[dim] = every * np.arange(length), step
        return dim


def _time_name(dim: str, is_at_start: bool, has_both: bool) -> str:
    """The coordinate of times beside a dimension of iterations."""
    word = ("start_" if is_at_start else "end_") if has_both else ""
    return f"{dim.removesuffix('iteration')}{word}time"


def _time_names(dim: str) -> set[str]:
    """All that such a coordinate may be called."""
    both = (False, True)
    return {_time_name(dim, start, has_both) for start in both for has_both in both} if dim.endswith("iteration") else set()


def attributes(about: About, **more: Any) -> dict[str, Any]:
    """What is known of a run, as files can hold it."""
    known: dict[str, Any] = {"model": about.model, "mdf_loop": __version__, "seed": seed_text(about.seed), "every": about.every}
    known |= {} if about.dt is None else {"dt": about.dt}
    said = {"options": about.options, "inputs": about.inputs, "iterations": about.iterations, "stop": about.stop, **more}
    return known | {name: _as_text(value) for name, value in said.items()}


def seed_text(seed: Any) -> str:
    """A seed in words: a number, or entropy and spawn key of a SeedSequence."""
    if isinstance(seed, np.random.SeedSequence):
        return f"SeedSequence({seed.entropy}, spawn_key={seed.spawn_key})"
    return str(seed)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """A value that JSON does not have."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.size <= MOST_SAID else f"{value.dtype}{list(value.shape)}"
    return dict(value) if hasattr(value, "items") else str(value)


MOST_SAID = 100
"""Elements of an input that is said in full in the attributes."""


def rectangular(value: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """A value as an array; rows that differ in length are padded, and their lengths given as well."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return widened(np.asarray(value)), None
    if isinstance(value, list | tuple | np.ndarray) and len(value) and not isinstance(value[0], str):
        rows = [rectangular(row)[0] if isinstance(row, list) else np.asarray(np.nan if row is None else row) for row in value]
        if len({row.shape for row in rows}) > 1:
            return padded(rows, np.nan)
        return widened(np.stack(rows)), None
    return widened(np.asarray(value)), None


def padded(rows: Sequence[np.ndarray], fill: Any) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of several shapes as one, filled up, and their lengths along the first axis.

    Numbers that cannot be the filling become floats.
    """
    rank = max(row.ndim for row in rows)
    rows = [row.reshape(row.shape + (1,) * (rank - row.ndim)) if row.ndim < rank else row for row in rows]
    shape = tuple(max(row.shape[k] for row in rows) for k in range(rank))
    dtype = holding(np.result_type(*[widened(row).dtype for row in rows]), fill)
    out = np.full((len(rows), *shape), fill, dtype)
    for k, row in enumerate(rows):
        place: Any = (k, *map(slice, row.shape))
        out[place] = row
    return out, np.array([row.shape[0] if row.ndim else 1 for row in rows])
