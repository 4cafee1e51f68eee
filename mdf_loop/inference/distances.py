"""What a fit makes small: a distance between simulated and observed outputs, an output, or a function of the caller's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, calling_callers, warn_user
from mdf_loop.inference.summaries import Summary, Unseen, has_few, spread

Simulated = Mapping[str, np.ndarray]
"""For each output an array of rows, trials, and the output's own axes."""


FEWEST, SHORT = 5, 20
"""So many observed trials at least for standard errors; fewer values of a time course are looked at one by one."""

MANY = 10
"""So many observed trials for each parameter, where there are several: fewer say little of all of them together."""

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

    Attributes
    ----------
    observed : array
        What the data are summed up as.
    unseen : Unseen
        What the data have, and no simulation so far.
    sequences : list of str
        Outputs that were observed as one sequence of choices.
    """

    def __init__(self, data: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
        data = {name: values.astype(np.float64) for name, values in data.items()}
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
        if len(lengths) > 1:
            said = ", ".join(f"{name} has {n}" for n, names in lengths.items() for name in names)
            warn_user(f"data of different numbers of trials are compared separately, not trial by trial: {said}")
        self.sequences = [name for name, known in self._singles.items() if known.size >= SHORT and has_few(data[name][known])]
        self._scales = {name: spread(data[name][known]) for name, known in self._singles.items()}
        self.summaries = [Summary({name: data[name] for name in names}) for names in lengths.values()]
        self.unseen = Unseen({name: values for name, values in data.items() if name not in self._singles})
        self.observed = self._row({name: data[name][None] if name in self._singles else data[name] for name in data})

    def _row(self, trials: Mapping[str, np.ndarray]) -> np.ndarray:
        single = [trials[name].mean(axis=0)[known] / self._scales[name] for name, known in self._singles.items()]
        return np.concatenate([*single, *(summary(trials) for summary in self.summaries)])

    def _deviations(self, simulated: Simulated) -> np.ndarray:
        """How far each simulated run is from the mean of all, in the numbers of single observations."""
        runs = [
            np.asarray(simulated[name][0], np.float64)[:, known] / self._scales[name] for name, known in self._singles.items()
        ]
        joined = np.concatenate([np.zeros((len(simulated[self.outputs[0]][0]), 0)), *runs], axis=1)
        return joined - joined.mean(axis=0)

    def rows(self, simulated: Simulated) -> np.ndarray:
        """Each row of simulations in one row of numbers."""
        values = {name: np.asarray(simulated[name], np.float64) for name in self.outputs}
        count = len(values[self.outputs[0]])
        self.unseen.look_at(values)
        with np.errstate(invalid="ignore"):
            return np.stack([self._row({name: rows[k] for name, rows in values.items()}) for k in range(count)])

    def of_rows(self, rows: np.ndarray) -> np.ndarray:
        """The distance of each row of numbers from the data."""
        found: np.ndarray = ((rows - self.observed) ** 2).mean(axis=1)
        return found

    def __call__(self, simulated: Simulated) -> np.ndarray:
        return self.of_rows(self.rows(simulated))

    def farthest(self, simulated: Simulated) -> tuple[str, float]:
        """The output in which simulations and data differ most, and by how many standard deviations of an observation.

        A single observation is not far if a simulated run is as far from the mean of all.
        """
        left, at, found = self.rows(simulated)[0] - self.observed, 0, list[tuple[float, str]]()
        for name, known in self._singles.items():
            part = np.full(known.shape, np.nan)
            part[known], at = left[at : at + known.sum()], at + int(known.sum())
            runs = np.asarray(simulated[name][0], np.float64) / self._scales[name]
            far = _unlike(part)
            is_usual = any(_unlike(np.where(known, run, np.nan)) >= far for run in runs - runs.mean(axis=0))
            found.append((0.0 if is_usual else far, name))
        labels = [label for summary in self.summaries for label in summary.labels()]
        far, name = max([*found, *zip(np.abs(left[at:]).tolist(), labels, strict=True)])
        return name, far

    def too_few(self, free: int) -> str:
        """What there is too little of for standard errors of so many parameters; empty if there is enough."""
        counts = [summary.count for summary in self.summaries]
        if not counts and self.observed.size <= free:
            return f"{self.observed.size} observed value{'s' * (self.observed.size > 1)} for {free} parameter{'s' * (free > 1)}"
        return f"{min(counts)} observations" if counts and min(counts) < FEWEST else ""

    def rough(self, free: int) -> str:
        """What is enough for standard errors of so many parameters, and too little for precise ones; empty if there is more."""
        few = min((summary.count for summary in self.summaries), default=0)
        return f"{few} observations for {free} parameters" if 0 < few < MANY * free and free > 1 else ""

    def chi_square(self, rows: np.ndarray) -> np.ndarray | None:
        """The misfit of each row in units of that of the first; None if that fits exactly, or observations are of trials."""
        misfit: np.ndarray = ((rows - self.observed) ** 2).sum(axis=1)
        return None if self.summaries or not misfit[0] else misfit / misfit[0] * self.observed.size

    def propagated(self, inverse: np.ndarray, fitted: np.ndarray, simulated: Simulated) -> np.ndarray:
        """The covariance of parameters, of how the numbers that data are summed up as would vary with other data.

        A single observation varies as simulated runs do, whose values depend on each other.  What is left over is noise.

        Parameters
        ----------
        inverse : array
            How each parameter changes with each number.
        fitted : array
            The summary of simulations with the estimates.
        simulated : mapping of str to array
            These simulations: one row, whose trials vary as well.
        """
        runs = self._deviations(simulated)
        trials, at = runs.shape
        single, moves = inverse[:, :at], runs @ inverse[:, :at].T
        noise = max(((fitted - self.observed)[:at] ** 2).sum() - (runs**2).sum() / trials, 0.0) / max(at, 1)
        found: np.ndarray = single @ single.T * noise + moves.T @ moves / trials
        for summary in self.summaries:
            part = inverse[:, at : at + len(summary.covariance)]
            found += part @ summary.covariance @ part.T * (1 + summary.count / trials)
            at += len(summary.covariance)
        return found


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
    try:
        inspect.signature(function).bind({}, data)
    except TypeError as error:
        raise KindError(
            f"loss is called with two mappings, loss(simulated, data), which this function does not take: {error}"
        ) from None
    except ValueError:  # some functions in C say nothing
        pass

    def loss(simulated: Simulated) -> np.ndarray:
        with calling_callers():
            found = [function(dict(zip(simulated, row, strict=True)), data) for row in zip(*simulated.values(), strict=True)]
        for value in found:
            if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
                raise KindError(f"loss(simulated, data) must give a number; got {value!r:.80}")
        return np.array([float(value) for value in found])

    return loss


def _unlike(left: np.ndarray) -> float:
    """How far what is left over is from noise: the part of it that neighbours along the first axis share."""
    if not left.ndim or len(left) < SHORT:
        return float(np.nanmax(np.abs(left)))
    pairs = left[1:] * left[:-1]
    return float(np.sqrt(max(np.nanmean(pairs), 0.0))) if np.isfinite(pairs).any() else 0.0


def _is_single(name: str, values: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether an observation is one run's."""
    if values.shape == shape:
        return True
    if values.ndim == len(shape) + 1 and values.shape[1:] == shape:
        return False
    wanted = f"the shape {shape} of one run, or an axis of trials before it" if shape else "a number for each trial"
    raise ArgumentError(f"data[{name!r}] must have {wanted}; got the shape {values.shape}")
