"""How far simulated outputs are from observed ones: distances of quantiles, or of values where there is one observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mdf_loop.errors import ArgumentError, KindError

LEVELS = np.linspace(0.05, 0.95, 19)
"""The quantiles that are compared."""

RESAMPLED = 200
"""How often observations are drawn again to find how much their quantiles vary."""

Simulated = Mapping[str, np.ndarray]
"""For each output an array of rows, trials, and the output's own axes."""


class Objective(Protocol):
    """What is made small."""

    @property
    def outputs(self) -> Sequence[str]:
        """The outputs that are looked at."""

    def __call__(self, simulated: Simulated) -> np.ndarray:
        """A number for each row."""


class Distance:
    """The mean squared difference of what data and simulations are summed up as, each in units of the data's spread.

    Observations of trials are summed up as quantiles, those of two values as their mean.  An observation that has the shape of
    one run is compared with the mean of the runs.

    Parameters
    ----------
    data : mapping of str to array
    shapes : mapping of str to tuple of int
        The shapes of the outputs of one run.
    """

    def __init__(self, data: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.data = data
        self.outputs: Sequence[str] = tuple(data)
        self.is_single = {name: _is_single(name, values, shapes[name]) for name, values in data.items()}
        self.is_mean = {name: self.is_single[name] or len(np.unique(values)) <= 2 for name, values in data.items()}
        self.scale = {name: _spread(values) for name, values in data.items()}
        parts = self._parts(self._drawn({}))
        self.observed = np.concatenate(parts)
        self.is_of_single = np.repeat([*self.is_single.values()], [len(part) for part in parts])

    def _drawn(self, which: Mapping[int, np.ndarray]) -> dict[str, np.ndarray]:
        """The data as trials; of those of a length some, where that is asked for."""
        return {n: x[None] if self.is_single[n] else x[which.get(len(x), slice(None))] for n, x in self.data.items()}

    def summed_up(self, trials: Mapping[str, np.ndarray]) -> np.ndarray:
        """Some trials in one row of numbers."""
        return np.concatenate(self._parts(trials))

    def _parts(self, trials: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The same, output by output."""
        parts = []
        for name in self.outputs:
            values = np.asarray(trials[name], np.float64)
            part = values.mean(axis=0) if self.is_mean[name] else np.quantile(values, LEVELS, axis=0)
            parts.append(np.ravel(part) / self.scale[name])
        return parts

    def rows(self, simulated: Simulated) -> np.ndarray:
        """Each row of simulations in one row of numbers."""
        count = len(simulated[self.outputs[0]])
        return np.stack([self.summed_up({name: simulated[name][row] for name in self.outputs}) for row in range(count)])

    def __call__(self, simulated: Simulated) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            found: np.ndarray = ((self.rows(simulated) - self.observed) ** 2).mean(axis=1)
        return found

    def covariance(self, fitted: np.ndarray, trials: int) -> np.ndarray:
        """How the numbers that data are summed up as would vary with other data: by drawing the observations again.

        Of a single observation what is left over says how much it varies.

        Parameters
        ----------
        fitted : array
            The summary of simulations with the estimates.
        trials : int
            How many these are, which vary as well.
        """
        rng, counts = np.random.default_rng(0), {len(x) for n, x in self.data.items() if not self.is_single[n]}
        again = ({count: rng.integers(count, size=count) for count in sorted(counts)} for _ in range(RESAMPLED))
        rows = np.array([self.summed_up(self._drawn(which)) for which in again])
        varying = np.atleast_2d(np.cov(rows, rowvar=False)) * (1 + max(counts, default=0) / trials)
        left = (fitted - self.observed)[self.is_of_single]
        varying[np.diag_indices(len(fitted))] += self.is_of_single * (left**2).sum() / max(len(left), 1)
        return varying


class OfOutput:
    """The mean of an output, such as a negative log likelihood."""

    def __init__(self, name: str) -> None:
        self.outputs: Sequence[str] = (name,)

    def __call__(self, simulated: Simulated) -> np.ndarray:
        values = simulated[self.outputs[0]]
        if values.ndim != 2:
            raise ArgumentError(f"loss={self.outputs[0]!r} must be an output that is one number; it has {values.ndim - 2} axes")
        return values.mean(axis=1)


class OfFunction:
    """What a function of the caller's gives for simulated and observed values."""

    def __init__(self, function: Any, data: Mapping[str, np.ndarray], outputs: Sequence[str]) -> None:
        self.function, self.data = function, data
        self.outputs: Sequence[str] = tuple(outputs)

    def __call__(self, simulated: Simulated) -> np.ndarray:
        count, found = len(simulated[self.outputs[0]]), []
        for row in range(count):
            loss = self.function({name: simulated[name][row] for name in self.outputs}, self.data)
            if np.ndim(loss) or np.asarray(loss).dtype.kind not in "biuf":
                raise KindError(f"loss(simulated, data) must give a number; got {loss!r:.80}")
            found.append(float(loss))
        return np.array(found)


def _is_single(name: str, values: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether an observation is one run's."""
    if values.shape == shape:
        return True
    if values.ndim == len(shape) + 1 and values.shape[1:] == shape:
        return False
    wanted = f"the shape {shape} of one run, or an axis of trials before it" if shape else "a number for each trial"
    raise ArgumentError(f"data[{name!r}] must have {wanted}; got the shape {values.shape}")


def _spread(values: np.ndarray) -> float:
    """The unit in which differences count."""
    return float(np.std(values)) or float(np.abs(values).max()) or 1.0
