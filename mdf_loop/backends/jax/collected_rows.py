"""The values of an output in all evaluations of a scheduled graph, from those of its passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from jax import lax

from mdf_loop.backends.jax.walked import Padded
from mdf_loop.errors import UnsupportedOp


class PassRows(Protocol):
    """How the values of passes make up those of evaluations.

    Attributes
    ----------
    steps : int
        How many evaluations there are.
    alone : int
        How many values of an output stand in front of those that a loop has stacked.
    width : int
        How many there are with these.
    tells_ends : bool
        Whether it is said after which passes an evaluation was over; if not, after each.
    """

    steps: int
    alone: int
    width: int
    tells_ends: bool


def rows_of_evaluations(run: PassRows, names: Sequence[str], found: Sequence[Any]) -> dict[str, Any]:
    """Outputs by name, a row for each evaluation; an evaluation without a pass has the row of the one before.

    Parameters
    ----------
    run : PassRows
    names : sequence of str
        The outputs that are wanted.
    found : sequence of array
        What the graph gives in the places that these are made of.

    Raises
    ------
    UnsupportedOp
        An output changes its shape.
    """
    w, behind = run.width, len(names) * run.width
    at = _last_passes(_rows("", found[behind:], run), run.steps) if run.tells_ends else None
    columns = {name: _rows(name, found[k * w : (k + 1) * w], run) for k, name in enumerate(names)}
    if at is None:
        return {name: _lasting(rows, run.steps) for name, rows in columns.items()}
    return {name: jnp.take(rows, jnp.where(at < 0, len(rows), at), axis=0, mode="fill") for name, rows in columns.items()}


def _rows(name: str, parts: Sequence[Any], run: PassRows) -> Any:
    """Values of passes in one array, in the type that holds them all."""
    rows = [jnp.asarray(part)[None] for part in parts[: run.alone]]
    rows += [jnp.asarray(part.array if isinstance(part, Padded) else part) for part in parts[run.alone :]]
    if len({row.shape[1:] for row in rows}) > 1:
        raise UnsupportedOp(f"output {name!r} changes its shape, from {list(rows[0].shape[1:])} to {list(rows[-1].shape[1:])}")
    dtype = np.result_type(*(row.dtype for row in rows))
    return jnp.concatenate([row.astype(dtype) for row in rows])


def _lasting(rows: Any, steps: int) -> Any:
    """Rows of which the last one lasts until there are enough."""
    return jnp.concatenate([rows, jnp.broadcast_to(rows[-1:], (steps - len(rows), *rows.shape[1:]))])


def _last_passes(ends: Any, steps: int) -> Any:
    """The passes with which evaluations end, the last one as often as there are more evaluations; -1 where none ends."""
    return lax.cummax(jnp.nonzero(ends, size=steps, fill_value=-1)[0])
