"""Collected values: one list for each while the loop runs, one array at its end."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.errors import CollectedError
from mdf_loop.execute.program import describe_value
from mdf_loop.ir import Collected

NUMBERS = (bool, int, float, complex)
"""Python's numbers, which bodies that are MDF graphs may give: weak, they take the type of the others."""


class Gathering:
    """What one collected output was in each iteration so far."""

    def __init__(self, what: Collected) -> None:
        self.what = what
        self.values: list[Any] = []
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype | None = None
        self._numbers: dict[type, Any] = {}

    def check(self, value: Any) -> None:
        """See that this iteration's value can be kept.

        Raises
        ------
        CollectedError
            It is not a tensor, or its shape or type is not that of the first iteration's.
        """
        value = self._tensor(value)
        if self._shape is None:
            self._check_axis(value)
        elif np.shape(value) != self._shape or not (self._dtype is None or type(value) in NUMBERS or value.dtype == self._dtype):
            raise CollectedError(
                f"collected output {self.what.output!r} was {describe_value(self.values[0])} in the first iteration "
                f"and is {describe_value(value)} now; ONNX wants one shape and type in all iterations "
                "(carry it as a sequence if it must change)"
            )

    def _check_axis(self, value: Any) -> None:
        rank = np.ndim(value) + self.what.stack
        if not -rank <= self.what.axis < rank:
            raise CollectedError(
                f"collected output {self.what.output!r} is {describe_value(value)}; it has no axis {self.what.axis} "
                "to put iterations along"
            )

    def add(self, value: Any) -> None:
        """Keep this iteration's value, which was checked."""
        value = self._tensor(value)
        if type(value) in NUMBERS:
            self._shape = ()
            self._numbers[type(value)] = value
        elif self._dtype is None:
            self._shape, self._dtype = value.shape, value.dtype
        self.values.append(value)

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OUS":
            return value
        if isinstance(value, np.ndarray) and all(isinstance(item, str | bytes) for item in value.flat):
            return value if value.dtype == object else value.astype(object)
        if type(value) in NUMBERS:
            return value
        if isinstance(value, str):
            return np.array(value, object)
        raise CollectedError(f"collected output {self.what.output!r} is {describe_value(value)}; only tensors can be collected")

    def array(self, iterations: int | None = None) -> np.ndarray | None:
        """The values of so many iterations (all, if not said) put together, or None if there was none."""
        values = self.values[:iterations]
        if not values:
            return None
        if self.what.reverse:
            values.reverse()
        if not self.what.stack:
            return np.concatenate(values, axis=self.what.axis)
        if self._numbers:
            types = [] if self._dtype is None else [self._dtype]
            return np.array(values, np.result_type(*types, *self._numbers.values()))
        if self._shape == () and self._dtype is not None and self._dtype.kind != "O":
            return np.array(values, self._dtype)
        return np.stack(values, axis=self.what.axis)
