"""Standard errors of estimates: of a likelihood by its curvature, of a distance by how its summaries vary and change."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mdf_loop.errors import warn_user
from mdf_loop.inference.distances import MANY, Distance, Objective
from mdf_loop.inference.simulators import Simulator

STEP = 0.03
"""Of the range of a parameter: how far errors look around the estimates at first."""

PRECISE = 10
"""How many times the trials of a candidate there are where a slope is found."""

TINY = 1e-3
"""Of the range of a parameter: a change within which a model without noise gives another output, unless it changes in jumps."""

SMOOTH = 5.0
"""How many times as much, or as little, as expected the misfit may grow one standard error away from the estimates."""


class StandardErrors:
    """What is known of estimates.

    Parameters
    ----------
    objective : Objective
    simulator : Simulator
    low, high : array
        The bounds of the parameters.
    """

    def __init__(self, objective: Objective, simulator: Simulator, low: np.ndarray, high: np.ndarray) -> None:
        self.objective, self.simulator, self.low, self.high = objective, simulator, low, high

    def at(self, x: np.ndarray) -> np.ndarray:
        """The standard errors of estimates: infinite where the data do not decide, nan where nothing is known.

        They are found once more with steps as large as the errors found first: smaller ones see noise, larger ones a curve.
        """
        width = self.high - self.low
        steps = STEP * width
        for _ in range(2):
            covariance, unseen = self._in_steps(np.clip(x, self.low + steps, self.high - steps), steps, x)
            covariance = covariance * np.outer(steps, steps)
            with np.errstate(invalid="ignore"):
                found = np.where(unseen, np.inf, np.sqrt(np.diag(covariance)))
            steps = np.clip(np.nan_to_num(found), STEP / 5 * width, STEP * 5 * width)
        return self._checked(x, covariance, found)

    def _checked(self, x: np.ndarray, covariance: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Errors without those that cannot be right."""
        if isinstance(self.objective, Distance):
            if self.simulator.trials == 1:
                found = np.where(self._stays(x), np.inf, found)
            if few := self.objective.too_few(len(x)):
                warn_user(f"there are too few data for standard errors: {few}")
                return np.where(np.isinf(found), np.inf, np.nan)
            if rough := self.objective.rough(len(x)):
                warn_user(
                    f"{rough} are few: estimates and standard errors are rough; {MANY} or more for each parameter are better"
                )
        if self.simulator.trials != 1 or not np.isfinite(found).all() or self._is_smooth(x, covariance):
            return found
        warn_user(
            "the standard errors are unknown: the loss is not smooth here, since a small change of a parameter makes the outputs "
            "jump; found.trace has the loss of all parameters that were tried"
        )
        return np.full(len(x), np.nan)

    def _stays(self, x: np.ndarray) -> np.ndarray:
        """For each parameter whether nothing that is compared changes with a tiny change of it."""
        tiny = np.diag(TINY * (self.high - self.low))
        rows = self._rows(np.clip(np.vstack([x, x + tiny, x - tiny]), self.low, self.high))
        is_same: np.ndarray = (rows[1:] == rows[0]).all(axis=1).reshape(2, -1)
        return np.logical_and(*is_same)

    def _is_smooth(self, x: np.ndarray, covariance: np.ndarray) -> bool:
        """Whether the misfit grows by one unit of chi-square, one standard error away along each axis of the covariance."""
        sizes, axes = np.linalg.eigh(covariance)
        moves = (axes * np.sqrt(np.maximum(sizes, 0))).T
        theta = np.vstack([x, x + moves, x - moves])
        if not ((theta >= self.low) & (theta <= self.high)).all():
            return True  # nothing is known beyond the bounds
        misfit = self._misfit(theta)
        if misfit is None:
            return True
        rise = misfit[1:].reshape(2, -1).mean(axis=0) - misfit[0]
        return bool(((rise > 1 / SMOOTH) & (rise < SMOOTH)).all())

    def _misfit(self, theta: np.ndarray) -> np.ndarray | None:
        """In units of chi-square; None if it has no such unit."""
        if not isinstance(self.objective, Distance):
            return 2 * self.objective(self.simulator.by_name(theta, 0))
        return self.objective.chi_square(self._rows(theta))

    def _rows(self, theta: np.ndarray) -> np.ndarray:
        assert isinstance(self.objective, Distance)
        return self.objective.rows(self.simulator.by_name(theta, 0))

    def _in_steps(self, centre: np.ndarray, steps: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The covariance in units of the steps, and the parameters of which nothing is seen."""
        slopes = self._slopes(centre, steps)
        if not np.isfinite(slopes).all():
            return np.full((len(x), len(x)), np.nan), np.zeros(len(x), bool)
        covariance = inverse = np.linalg.pinv(slopes)
        if isinstance(self.objective, Distance):
            simulated = self.simulator.by_name(x[None], 0)
            covariance = self.objective.propagated(inverse, self.objective.rows(simulated)[0], simulated)
        _, sizes, directions = np.linalg.svd(slopes, full_matrices=len(slopes) < len(x))
        unseen = directions[(sizes > 1e-9 * sizes.max()).sum() :]
        return covariance, (np.abs(unseen) > 1e-6).any(axis=0)

    def _slopes(self, centre: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """How the slope of a likelihood, or each number that a distance compares, changes with each parameter."""
        if not isinstance(self.objective, Distance):
            return self._curvature(centre, steps)
        theta = np.vstack([centre + np.diag(steps), centre - np.diag(steps)])
        up, down = self.objective.rows(self._precise.by_name(theta, 0)).reshape(2, len(steps), -1)
        slopes: np.ndarray = ((up - down) / 2).T
        return slopes

    @cached_property
    def _precise(self) -> Simulator:
        """A simulator with more trials: noise in slopes would look like knowledge of the parameters."""
        f = self.simulator
        times = 1 if f.trials == 1 else PRECISE * (f.trials or 1)
        return f.with_trials(times)

    def _curvature(self, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Second derivatives of the loss in units of the steps, by differences."""
        offsets, count = np.diag(steps), len(x)
        pairs = [(i, j) for i in range(count) for j in range(count)]
        signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        theta = np.array([x + (a * offsets[i] + b * offsets[j]) / 2 for i, j in pairs for a, b in signs])
        found = self.objective(self.simulator.by_name(theta, 0)).reshape(count, count, 4)
        second: np.ndarray = found @ np.array([1.0, -1.0, -1.0, 1.0])
        return second
