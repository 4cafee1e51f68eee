"""What a simulator is called with: a row of parameters for each point, and conditions beside them, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, in_words, unknown_name
from mdf_loop.models.model import Model
from mdf_loop.sweeps.grid import Grid, plain
from mdf_loop.types.fitting import as_array


@dataclass
class RunBatch:
    """Rows, and whether they are one that came without an axis of rows.

    Attributes
    ----------
    count : int
        How many rows there are.
    columns : dict of str to array
        The inputs that differ: a row of each for each row.
    is_one : bool
    """

    count: int
    columns: dict[str, np.ndarray]
    is_one: bool = False

    @property
    def kind(self) -> tuple[Any, ...]:
        """What all batches have in common for which the same machine code is made."""
        return tuple([(name, column.dtype, column.shape[1:]) for name, column in self.columns.items()])

    def inputs(self, row: int) -> dict[str, Any]:
        """What a run at a row is given: numbers as Python's own, as in a sweep."""
        return {name: plain(column[row]) for name, column in self.columns.items()}

    def grid(self) -> Grid:
        """The rows as the points of a sweep."""
        axes = tuple((name, ("point", tuple(map(plain, column)))) for name, column in self.columns.items())
        return Grid(("point",), (self.count,), axes)


class Batches:
    """Makes batches of what callers give.

    Parameters
    ----------
    model : Model
    names : sequence of str
        The columns of theta.
    """

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        self.model, self.names = model, names
        declared = {name: model.inputs[name].type.dtype for name in names if name in model.inputs and _says_types(model)}
        self._dtypes = [declared.get(name) or np.dtype(np.float64) for name in names]
        self._are_plain = all(dtype == np.float64 for dtype in self._dtypes)

    def of(self, theta: Any, conditions: Mapping[str, Any]) -> RunBatch:
        """A batch of an array, whose columns are the parameters; whole numbers stay whole, as trip counts must be.

        Raises
        ------
        KindError, ArgumentError
            It is no array of numbers of this width; a condition is not an input, or not as long.
        """
        given = as_array(theta, "theta")
        try:
            table = given.astype(np.int64 if given.dtype.kind in "iu" else np.float64, copy=False)
        except (TypeError, ValueError) as error:
            raise KindError(
                f"theta must be an array of numbers, a column for each of {', '.join(self.names)}: {error}"
            ) from error
        if table.ndim not in (1, 2) or table.shape[-1] != len(self.names):
            raise ArgumentError(
                f"theta has a row for each simulation and {len(self.names)} columns ({', '.join(self.names)}); "
                f"got the shape {table.shape}"
            )
        is_one = table.ndim == 1
        rows = table[None] if is_one else table
        return self._batch(list(rows.T), conditions, len(rows), is_one)

    def _batch(self, table: Sequence[np.ndarray], conditions: Mapping[str, Any], count: int, is_one: bool) -> RunBatch:
        columns = dict(zip(self.names, table, strict=True)) if self._are_plain else self._typed(table)
        for name, value in conditions.items():
            columns[name] = self._condition(name, value, count, is_one)
        return RunBatch(count, columns, is_one)

    def of_names(self, values: Mapping[str, Any]) -> RunBatch:
        """A batch of values by name, each a column or a single number; other inputs are conditions.

        Raises
        ------
        KindError, ArgumentError
        """
        if not isinstance(values, Mapping):
            raise KindError(f"values are a mapping, such as {{{self.names[0]!r}: 1.0}}; got {type(values).__name__}")
        if missing := [name for name in self.names if name not in values]:
            raise ArgumentError(f"the simulator takes {', '.join(self.names)}; missing: {', '.join(missing)}; given: {[*values]}")
        columns = [_column(name, values[name]) for name in self.names]
        count = max((len(column) for column in columns if column.ndim), default=None)
        for name, column in zip(self.names, columns, strict=True):
            if column.ndim and len(column) != count:
                raise ArgumentError(f"{name} has {len(column)} values and others {count}; give as many for each")
        table = [np.broadcast_to(column, (1 if count is None else count,)) for column in columns]
        conditions = {name: value for name, value in values.items() if name not in self.names}
        return self._batch(table, conditions, len(table[0]), count is None)

    def _typed(self, table: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Columns in the types that a model of ONNX declares."""
        found = {}
        for name, dtype, column in zip(self.names, self._dtypes, table, strict=True):
            found[name] = column.astype(dtype)
            if dtype.kind in "iub" and not np.array_equal(found[name], column):
                raise ArgumentError(f"{name} takes whole numbers ({dtype}); got {in_words(column[found[name] != column][0])}")
        return found

    def _condition(self, name: str, value: Any, count: int, is_one: bool) -> np.ndarray:
        if name in self.names:
            raise ArgumentError(f"{name} is already a column of theta")
        if not self.model.takes(name):
            raise unknown_name("the model has no input called", name, self.model.inputs)
        found = as_array(value, f"condition {name}")
        if found.dtype.kind not in "biuf":
            raise KindError(f"condition {name} must be an array of numbers; got {found.dtype}")
        found = found[None] if is_one else found
        if not found.ndim or len(found) != count:
            raise ArgumentError(f"condition {name} has a value for each of {count} rows; got the shape {found.shape}")
        return np.ascontiguousarray(found)


def _column(name: str, value: Any) -> np.ndarray:
    """Numbers of one parameter: an axis of length 1 behind the first, as BayesFlow has it, does not count."""
    found = as_array(value, name)
    found = found.astype(np.int64 if found.dtype.kind in "iu" else np.float64, copy=False)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def _says_types(model: Model) -> bool:
    """Whether its inputs have types of their own: those of MDF take the type of what they are given."""
    return getattr(model, "typed", model) is not None
