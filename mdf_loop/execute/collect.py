"""Collected values: one list for each while the loop runs, one array at its end."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.errors import CollectedError
from mdf_loop.execute.program import describe_value
from mdf_loop.ir import Collected


class Gathering:
    """What one collected output was in each iteration so far."""

    def __init__(self, what: Collected) -> None:
        self.what = what
        self.values: list[Any] = []
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype | None = None

    def check(self, value: Any) -> None:
        """See that this iteration's value can be kept.

        Raises
        ------
        CollectedError
            It is not a tensor, or its shape or type is not that of the first iteration's.
        """
        value = self._tensor(value)
        if self._shape is not None and (value.shape != self._shape or value.dtype != self._dtype):
            raise CollectedError(
                f"collected output {self.what.output!r} was {describe_value(self.values[0])} in the first iteration "
                f"and is {describe_value(value)} now; ONNX wants one shape and type in all iterations "
                "(carry it as a sequence if it must change)"
            )

    def add(self, value: Any) -> None:
        """Keep this iteration's value, which was checked."""
        value = self._tensor(value)
        if self._shape is None:
            self._shape, self._dtype = value.shape, value.dtype
        self.values.append(value)

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            return value
        if isinstance(value, bool | int | float | complex):
            return np.asarray(value)
        if isinstance(value, str):
            return np.array(value, object)
        raise CollectedError(f"collected output {self.what.output!r} is {describe_value(value)}; only tensors can be collected")

    def array(self) -> np.ndarray | None:
        """All values put together, or None if there was no iteration."""
        if not self.values:
            return None
        values = self.values[::-1] if self.what.reverse else self.values
        if not self.what.stack:
            return np.concatenate(values, axis=self.what.axis)
        if self._shape == () and self._dtype is not None and self._dtype.kind != "O":
            return np.array(values, self._dtype)
        return np.stack(values, axis=self.what.axis)
