"""Results with labels: an ``xarray.Dataset`` with named dimensions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.models.results import About, Results
from mdf_loop.models.written import widened
from mdf_loop.version import __version__


def xarray() -> Any:
    """The package xarray.

    Raises
    ------
    LoopError
        It is not installed.
    """
    try:
        import xarray
    except ImportError as error:
        raise LoopError('labelled results need xarray: pip install "mdf-loop[sweep]"') from error
    return xarray


def dataset(results: Results) -> Any:
    """The outputs and what was recorded, with their dimensions."""
    about, variables, lengths = results.about, dict[str, Any](), set[int]()
    lead = ("trial",) if about.trials is not None else ()
    coordinates: dict[str, Any] = {"trial": np.arange(about.trials)} if about.trials is not None else {}
    for name, value in about.recorded.items():
        array, more = rectangular(value)
        lengths.add(array.shape[len(lead)] if array.ndim > len(lead) else 0)
        variables[name] = (*lead, "iteration"), array
        if more is not None:
            variables[f"{name}_length"] = (*lead, "iteration"), more
    if lengths:
        coordinates["iteration"] = about.every * np.arange(max(lengths))
    for name, value in results.items():
        array, more = rectangular(value)
        first = "iteration" if name in about.collected and not lead else ""
        if first and lengths and (about.every != 1 or {array.shape[0]} != lengths):
            first = f"{name}_iteration"
        variables[name if name not in variables else f"output {name}"] = (*lead, *((first,) if first else ())), array
        more = about.lengths.get(name, more)
        if more is not None:
            variables[f"{name}_length"] = lead, more
    filled = {name: (_filled(name, dims, np.ndim(array)), array) for name, (dims, array) in variables.items()}
    return xarray().Dataset(filled, coordinates, attributes(about))


def _filled(name: str, dims: tuple[str, ...], rank: int) -> tuple[str, ...]:
    """Dimensions of an array: those that are known, and one of its own for each further axis."""
    return (*dims[:rank], *(f"{name}_{k}" for k in range(rank - len(dims))))


def attributes(about: About, **more: Any) -> dict[str, Any]:
    """What is known of a run, as files can hold it."""
    known = {"model": about.model, "mdf_loop": __version__, "seed": seed_text(about.seed), "every": about.every}
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
        rows = [np.asarray(np.nan if row is None else row) for row in value]
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
    dtype = np.result_type(*[widened(row).dtype for row in rows])
    if dtype.kind in "biu" and not _fits(fill, dtype):
        dtype = np.result_type(dtype, np.float64)
    out = np.full((len(rows), *shape), fill, dtype)
    for k, row in enumerate(rows):
        place: Any = (k, *map(slice, row.shape))
        out[place] = row
    return out, np.array([row.shape[0] if row.ndim else 1 for row in rows])


def _fits(fill: Any, dtype: np.dtype) -> bool:
    return bool(np.isfinite(fill)) and np.array(fill).astype(dtype) == fill
