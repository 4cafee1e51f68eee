"""What a fit makes small: a distance between simulated and observed outputs, an output, or a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError
from mdf_loop.inference.summaries import Summary, spread

Simulated = Mapping[str, np.ndarray]
"""For each output an array of rows, trials, and the output's own axes."""


Objective = Callable[[Simulated], np.ndarray]
"""What is made small: a number for each row."""


class Distance:
    """The squared difference of what data and simulations are summed up as.

    Observations of trials are summed up as a :class:`~mdf_loop.inference.summaries.Summary`.  An observation that has the shape
    of one run is compared with the mean of the runs, in units of the standard deviation of its values; nan is left out.

    Parameters
    ----------
    data : mapping of str to array
    shapes : mapping of str to tuple of int
        The shapes of the outputs of one run.
    """

    def __init__(self, data: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.outputs: Sequence[str] = tuple(data)
        lengths: dict[int, list[str]] = {}
        for name, values in data.items():
            is_single = _is_single(name, values, shapes[name])
            if not is_single and (missing := int(np.isnan(values).sum())):
                raise ArgumentError(
                    f"data[{name!r}] has {missing} of {values.size} values that are nan; leave these trials out, of all outputs"
                )
            lengths.setdefault(0 if is_single else len(values), []).append(name)
        self._singles = {name: ~np.isnan(data[name]) for name in lengths.pop(0, [])}
        self._scales = {name: spread(data[name][known]) for name, known in self._singles.items()}
        self._summaries = [Summary({name: data[name] for name in names}) for names in lengths.values()]
        self.observed = self._row({name: data[name][None] if name in self._singles else data[name] for name in data})

    def _row(self, trials: Mapping[str, np.ndarray]) -> np.ndarray:
        single = [trials[name].mean(axis=0)[known] / self._scales[name] for name, known in self._singles.items()]
        return np.concatenate([*single, *(summary(trials) for summary in self._summaries)])

    def rows(self, simulated: Simulated) -> np.ndarray:
        """Each row of simulations in one row of numbers."""
        values = {name: np.asarray(simulated[name], np.float64) for name in self.outputs}
        count = len(values[self.outputs[0]])
        return np.stack([self._row({name: rows[k] for name, rows in values.items()}) for k in range(count)])

    def __call__(self, simulated: Simulated) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            found: np.ndarray = ((self.rows(simulated) - self.observed) ** 2).mean(axis=1)
        return found

    def farthest(self, fitted: np.ndarray) -> tuple[str, float]:
        """The output in which simulations and data differ most, and by how many standard deviations of an observation."""
        single = [name for name, known in self._singles.items() for _ in range(int(known.sum()))]
        labels = [*single, *(label for summary in self._summaries for label in summary.labels())]
        at = int(np.abs(fitted - self.observed).argmax())
        return labels[at], float(abs(fitted - self.observed)[at])

    def covariance(self, fitted: np.ndarray, trials: int) -> np.ndarray:
        """How the numbers that data are summed up as would vary with other data.

        Of a single observation what is left over says how much it varies.

        Parameters
        ----------
        fitted : array
            The summary of simulations with the estimates.
        trials : int
            How many these are, which vary as well.
        """
        at = sum(int(known.sum()) for known in self._singles.values())
        varying = np.zeros((len(fitted), len(fitted)))
        varying[range(at), range(at)] = ((fitted - self.observed)[:at] ** 2).sum() / max(at, 1)
        for summary in self._summaries:
            part = slice(at, at + len(summary.covariance))
            varying[part, part], at = summary.covariance * (1 + summary.count / trials), part.stop
        return varying


def mean_of(name: str) -> Objective:
    """The mean of an output, such as a negative log likelihood."""

    def loss(simulated: Simulated) -> np.ndarray:
        values = simulated[name]
        if values.ndim != 2:
            raise ArgumentError(f"loss={name!r} must be an output that is one number; it has {values.ndim - 2} axes")
        return values.mean(axis=1)

    return loss


def of_function(function: Any, data: Mapping[str, np.ndarray]) -> Objective:
    """What a function of the caller's gives for simulated and observed values."""

    def loss(simulated: Simulated) -> np.ndarray:
        found = [function(dict(zip(simulated, row, strict=True)), data) for row in zip(*simulated.values(), strict=True)]
        for value in found:
            if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
                raise KindError(f"loss(simulated, data) must give a number; got {value!r:.80}")
        return np.array([float(value) for value in found])

    return loss


def _is_single(name: str, values: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether an observation is one run's."""
    if values.shape == shape:
        return True
    if values.ndim == len(shape) + 1 and values.shape[1:] == shape:
        return False
    wanted = f"the shape {shape} of one run, or an axis of trials before it" if shape else "a number for each trial"
    raise ArgumentError(f"data[{name!r}] must have {wanted}; got the shape {values.shape}")
