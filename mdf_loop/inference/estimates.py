"""A fit: parameters for which simulated outputs are closest to observed ones.  What is hard is scipy's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, LoopError, let_through
from mdf_loop.inference.distances import Distance, Objective, OfFunction, OfOutput
from mdf_loop.inference.simulators import Simulator
from mdf_loop.models.model import unknown_name
from mdf_loop.models.opening import prepare
from mdf_loop.settings.counts import counted
from mdf_loop.settings.engines import needed
from mdf_loop.sweeps.sources import source_of
from mdf_loop.types.fitting import as_array

POPULATION, GENERATIONS = 10, 60
"""For each parameter so many candidates at once, and how often they are improved at most."""

STEP = 0.03
"""Of the range of a parameter: how far errors look around the estimates."""


class Estimates(Mapping[str, float]):
    """Estimated parameters by name: the result of :func:`mdf_loop.fit`.

    Attributes
    ----------
    errors : dict of str to float
        Standard errors; nan if the loss is your own function.
    loss : float
        The loss at the estimates.
    trace : dict of str to array
        All parameters that were tried, in order, and the ``loss`` of each.
    data : dict of str to array
    simulator : Simulator
    """

    def __init__(self, values: Mapping[str, float], errors: Mapping[str, float], loss: float, search: Search) -> None:
        self._values, self.errors, self.loss = dict(values), dict(errors), loss
        self.trace, self.data, self.simulator = search.trace(), search.data, search.simulator

    def __getitem__(self, name: str) -> float:
        if name not in self._values:
            raise KeyError(f"{name!r}; there are {', '.join(self._values)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        lines = [f"{name} = {value:.4g} +- {self.errors[name]:.2g}" for name, value in self._values.items()]
        return "\n".join([*lines, f"loss {self.loss:.4g} after {len(self.trace['loss'])} simulations"])

    def simulated(self) -> dict[str, np.ndarray]:
        """Outputs with the estimates, by name: an axis of trials first."""
        found = self.simulator.by_name(np.array([[*self._values.values()]]), 0)
        return {name: rows[0] for name, rows in found.items()}

    def plot(self, name: str | None = None, ax: Any = None) -> Any:
        """Draw observed values, and values that are simulated with the estimates.

        Parameters
        ----------
        name : str, optional
            An output; the first one of the data if it is not given.
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ArgumentError
            There are no observations of it.
        LoopError
            matplotlib is not installed.
        """
        from mdf_loop.plots.on_matplotlib import new_axes

        if not self.data or (name is not None and name not in self.data):
            raise unknown_name("there are no observations of", name or "any output", self.data)
        name = name or next(iter(self.data))
        observed, simulated, ax = self.data[name], self.simulated()[name], new_axes() if ax is None else ax
        if observed.ndim == simulated.ndim == 1:
            bins = np.histogram_bin_edges(np.concatenate([observed, simulated]), 30)
            ax.hist(observed, bins, density=True, alpha=0.5, label="observed")
            ax.hist(simulated, bins, density=True, histtype="step", label="simulated")
            ax.set_xlabel(name)
            ax.set_ylabel("density")
        else:
            mean = observed if observed.ndim < simulated.ndim else observed.mean(axis=0)
            ax.plot(np.ravel(mean), ".", label="observed")
            ax.plot(np.ravel(simulated.mean(axis=0)), label="simulated")
            ax.set_ylabel(name)
        ax.legend()
        return ax


class Search:
    """The search for parameters.

    Every candidate is simulated with the same noise, so that its loss depends on the parameters alone.
    """

    def __init__(self, model: Any, data: Any, over: Any, loss: Any, trials: Any, seed: Any, inputs: Mapping[str, Any]) -> None:
        model = prepare(model)
        self.bounds, self.data = _bounds(over), _observed(data, loss)
        if isinstance(loss, str) and loss not in model.outputs:
            raise unknown_name(
                "loss is a function of (simulated, data), or the name of an output; there is none called", loss, model.outputs
            )
        counted("trials", trials, "the runs for each candidate")
        source = source_of(model)
        if source is not None and not source.draws:
            trials = 1
        outputs = [loss] if isinstance(loss, str) else [*self.data]
        self.simulator = Simulator(model, [*self.bounds], outputs or None, trials, None, seed, None, inputs)
        self.low, self.high = np.array([*self.bounds.values()]).T
        self.objective = self._objective(loss)
        self._failure: Exception | None = None
        self._tried: list[tuple[np.ndarray, np.ndarray]] = []

    def _objective(self, loss: Any) -> Objective:
        if isinstance(loss, str):
            return OfOutput(loss)
        if callable(loss):
            return OfFunction(loss, self.data, self.simulator.outputs)
        if loss is not None:
            raise KindError(f"loss is a function of (simulated, data), or the name of an output; got {loss!r:.80}")
        middle = self.simulator.by_name(np.array([(self.low + self.high) / 2]), 0)
        return Distance(self.data, {name: rows.shape[2:] for name, rows in middle.items()})

    def losses(self, theta: np.ndarray) -> np.ndarray:
        """The loss of each row; infinite where runs fail."""
        try:
            found = self.objective(self.simulator.by_name(theta, 0))
        except Exception as error:
            self._failure = error
            raise
        found = np.where(np.isnan(found), np.inf, found)
        self._tried.append((np.array(theta), found))
        return found

    def run(self) -> Estimates:
        """Search everywhere first, then around the best."""
        optimize = needed("scipy.optimize", "a fit needs scipy", "fit")
        bounds = [*self.bounds.values()]
        how = {"popsize": POPULATION, "maxiter": GENERATIONS, "tol": 0.02, "polish": False, "updating": "deferred", "rng": 0}
        try:
            found = optimize.differential_evolution(lambda x: self.losses(x.T), bounds, vectorized=True, init="sobol", **how)
        except (RuntimeError, TypeError) as error:  # scipy's, around what went wrong
            let_through(error)
            if self._failure is None:
                raise
            raise self._failure from None
        if not np.isfinite(found.fun):
            raise LoopError("no parameters within the bounds have a finite loss: runs fail, or the loss is nan for all of them")
        width = self.high - self.low
        corners = np.clip(found.x + np.vstack([np.zeros(len(width)), np.diag(STEP * width)]), self.low, self.high)
        near = {"initial_simplex": corners, "xatol": 1e-4 * width.max(), "fatol": 1e-7, "maxfev": 60 * len(width)}
        best = optimize.minimize(lambda x: self.losses(x[None])[0], found.x, method="Nelder-Mead", bounds=bounds, options=near)
        x, least = (best.x, best.fun) if best.fun <= found.fun else (found.x, found.fun)
        values = dict(zip(self.bounds, map(float, x), strict=True))
        errors = dict(zip(self.bounds, map(float, self._errors(x)), strict=True))
        return Estimates(values, errors, float(least), self)

    def _errors(self, x: np.ndarray) -> np.ndarray:
        """Standard errors: of a likelihood by its curvature, of a distance by how its summaries vary and change."""
        steps = STEP * (self.high - self.low)
        centre = np.clip(x, self.low + steps, self.high - steps)
        if isinstance(self.objective, OfOutput):
            covariance = np.linalg.pinv(self._curvature(centre, steps))
        elif isinstance(self.objective, Distance):
            theta = np.vstack([centre + np.diag(steps), centre - np.diag(steps), x])
            *around, fitted = self.objective.rows(self.simulator.by_name(theta, 0))
            up, down = np.array(around).reshape(2, len(x), -1)
            slopes = np.linalg.pinv(((up - down) / (2 * steps[:, None])).T)
            covariance = slopes @ self.objective.covariance(fitted, self.simulator.trials or 1) @ slopes.T
        else:
            return np.full(len(x), np.nan)
        with np.errstate(invalid="ignore"):
            errors: np.ndarray = np.sqrt(np.diag(covariance))
        return errors

    def _curvature(self, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Second derivatives of the loss, by differences."""
        offsets, count = np.diag(steps), len(x)
        pairs = [(i, j) for i in range(count) for j in range(count)]
        signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        theta = np.array([x + (a * offsets[i] + b * offsets[j]) / 2 for i, j in pairs for a, b in signs])
        found = self.objective(self.simulator.by_name(theta, 0)).reshape(count, count, 4)
        second: np.ndarray = (found @ np.array([1.0, -1.0, -1.0, 1.0])) / (steps[:, None] * steps)
        return second

    def trace(self) -> dict[str, np.ndarray]:
        """All that was tried."""
        theta, losses = (np.concatenate(part) for part in zip(*self._tried, strict=True))
        return {**dict(zip(self.bounds, theta.T, strict=True)), "loss": losses}


def _bounds(over: Any) -> dict[str, tuple[float, float]]:
    """Bounds of each parameter."""
    if not isinstance(over, Mapping) or not over:
        raise KindError(f"over is a mapping of parameters to bounds, such as {{'drift': (0.2, 3.0)}}; got {over!r:.80}")
    found = {}
    for name, bounds in over.items():
        try:
            low, high = (float(bound) for bound in bounds if not isinstance(bound, str))
        except (TypeError, ValueError):
            raise KindError(f"over[{name!r}] is a pair of bounds, such as (0.2, 3.0); got {bounds!r:.80}") from None
        if not np.isfinite([low, high]).all():
            raise ArgumentError(f"over[{name!r}] must have finite bounds; got {bounds}")
        if low >= high:
            hint = f"the lower bound comes first: write ({high:g}, {low:g})" if low > high else "both bounds are the same"
            raise ArgumentError(f"over[{name!r}] = {bounds}: {hint}")
        found[str(name)] = low, high
    return found


def _observed(data: Any, loss: Any) -> dict[str, np.ndarray]:
    """Observations as arrays of numbers."""
    if data is None or (isinstance(data, Mapping) and not data):
        if loss is None:
            raise ArgumentError("there is nothing to fit: give data={'output': observations}, or a loss")
        return {}
    if not isinstance(data, Mapping):
        raise KindError(f"data is a mapping of outputs to observations; got {type(data).__name__}")
    found = {}
    for name, values in data.items():
        array = as_array(values, f"data[{name!r}]")
        if array.dtype.kind not in "biuf":
            raise KindError(f"data[{name!r}] must be numbers; got {'texts' if array.dtype.kind == 'U' else array.dtype}")
        if not array.size:
            raise ArgumentError(f"data[{name!r}] is empty")
        if missing := int((~np.isfinite(array.astype(np.float64))).sum()):
            raise ArgumentError(f"data[{name!r}] has {missing} of {array.size} values that are nan or infinite; leave them out")
        found[str(name)] = array
    return found
