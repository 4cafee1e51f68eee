"""A fit: parameters for which simulated outputs are closest to observed ones.  What is hard is scipy's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, LoopError, let_through, warn_user
from mdf_loop.inference.distances import Distance, Objective, mean_of, of_function
from mdf_loop.inference.simulators import Simulator
from mdf_loop.models.model import Model, unknown_name
from mdf_loop.models.opening import prepare
from mdf_loop.ops.registry import KERNELS
from mdf_loop.options import current_options, options, part_of, start_run
from mdf_loop.progress import Tally
from mdf_loop.readers.expressions.derivatives import RANDOM
from mdf_loop.settings.counts import counted
from mdf_loop.settings.engines import needed
from mdf_loop.sweeps.rows.rows_of_runs import keeping
from mdf_loop.sweeps.sources import source_of
from mdf_loop.types.fitting import as_array

POPULATION, GENERATIONS = 10, 60
"""For each parameter so many candidates at once, and how often they are improved at most."""

MISFIT = 0.5
"""Standard deviations of an observation by which the best simulations may be away from the data without a warning."""

STEP = 0.03
"""Of the range of a parameter: how far errors look around the estimates at first."""

PRECISE = 10
"""How many times the trials of a candidate there are where a slope is found."""


REFINED = 60
"""For each parameter so many candidates near the best one at most."""


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
        self._refuse_inputs(model, loss)
        counted("trials", trials, "the runs for each candidate")
        outputs = [loss] if isinstance(loss, str) else [*self.data]
        trials = trials if _may_draw(model) else 1
        self.simulator = Simulator(model, [*self.bounds], outputs or None, trials, None, seed, None, inputs)
        self.low, self.high = np.array([*self.bounds.values()]).T
        population = 1 << (POPULATION * len(self.bounds) - 1).bit_length()  # Sobol sequences are balanced at powers of 2
        self._most = population * (GENERATIONS + 1) + REFINED * len(self.bounds)
        self._tally = Tally(current_options().progress or None, model.name, self._most, unit="simulations")
        self._failure: BaseException | None = None
        self._tried: list[tuple[np.ndarray, np.ndarray]] = []
        self._is_own = callable(loss)
        with options(progress=None):
            self.objective = self._objective(loss)

    def _refuse_inputs(self, model: Model, loss: Any) -> None:
        """See that data are observations of outputs, which something compares."""
        for name in self.data:
            if name not in model.outputs and model.takes(name):
                raise ArgumentError(f"data are outputs, and {name!r} is an input of the model: fit(model, ..., {name}=...)")
        if isinstance(loss, str) and self.data:
            raise ArgumentError(f"loss={loss!r} is an output of the model, which is not compared with data; leave data out")

    def _objective(self, loss: Any) -> Objective:
        if isinstance(loss, str):
            return mean_of(loss)
        if callable(loss):
            return of_function(loss, self.data)
        if loss is not None:
            raise KindError(f"loss is a function of (simulated, data), or the name of an output; got {loss!r:.80}")
        middle = self.simulator.by_name(np.array([(self.low + self.high) / 2]), 0)
        return Distance(self.data, {name: rows.shape[2:] for name, rows in middle.items()})

    def losses(self, theta: np.ndarray) -> np.ndarray:
        """The loss of each row; infinite where runs fail."""
        try:
            found = self.objective(self.simulator.by_name(theta, 0))
            found = np.where(np.isnan(found), np.inf, found)
            self._tried.append((np.array(theta), found))
            self._tally(len(theta))
        except BaseException as error:
            self._failure = error
            raise
        return found

    def run(self) -> Estimates:
        """Search, and keep the best so far for an error that ends the search early."""
        run = start_run()
        run.watch = None  # candidates are counted, not the iterations in them
        with keeping(self.best), options(progress=None), part_of(run):
            return self._found()

    def best(self) -> Estimates | None:
        """The best parameters that were tried so far, without errors."""
        if not self._tried:
            return None
        trace = self.trace()
        at = int(trace["loss"].argmin())
        values = {name: float(trace[name][at]) for name in self.bounds}
        return Estimates(values, dict.fromkeys(values, float("nan")), float(trace["loss"][at]), self)

    def _found(self) -> Estimates:
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
            raise LoopError(f"no parameters within the bounds have a finite loss: {self._why_not(found.x)}")
        width = self.high - self.low
        corners = np.clip(found.x + np.vstack([np.zeros(len(width)), np.diag(STEP * width)]), self.low, self.high)
        near = {"initial_simplex": corners, "xatol": 1e-4 * width.max(), "fatol": 1e-7, "maxfev": REFINED * len(width)}
        best = optimize.minimize(lambda x: self.losses(x[None])[0], found.x, method="Nelder-Mead", bounds=bounds, options=near)
        x, least = (best.x, best.fun) if best.fun <= found.fun else (found.x, found.fun)
        values = dict(zip(self.bounds, map(float, x), strict=True))
        errors = dict(zip(self.bounds, map(float, self._errors(x)), strict=True))
        self._warn_of(values, errors)
        self._warn_of_misfit(x)
        return Estimates(values, errors, float(least), self)

    def _why_not(self, x: np.ndarray) -> str:
        """What goes wrong with some parameters."""
        values = dict(zip(self.bounds, map(float, x), strict=True))
        where = ", ".join(f"{name} = {value:.4g}" for name, value in values.items())
        try:
            self.simulator.model(**self.simulator.inputs, **values)
        except LoopError as error:
            return f"with {where}, {error}"
        return f"runs fail, or the loss is nan, for all of them, such as {where}"

    def _warn_of(self, values: Mapping[str, float], errors: Mapping[str, float]) -> None:
        """Say which estimates the data do not decide."""
        for name, value in values.items():
            low, high = self.bounds[name]
            if np.isinf(errors[name]):
                warn_user(f"the data do not decide {name}: what is compared does not change with it, or as others do")
            elif min(value - low, high - value) <= 1e-3 * (high - low):
                bounds = f"over[{name!r}] = ({low:g}, {high:g})"
                warn_user(f"the estimate of {name}, {value:.4g}, is at its bound: {bounds} may be too narrow")

    def _warn_of_misfit(self, x: np.ndarray) -> None:
        """Say that even the best simulations are unlike the data."""
        if not isinstance(self.objective, Distance):
            return
        name, far = self.objective.farthest(self.objective.rows(self.simulator.by_name(x[None], 0))[0])
        if far > MISFIT:
            warn_user(
                f"the best simulations differ from the data by {far:.2g} standard deviations of an observation in {name}: are "
                "the units and the codes of the data those of the model?"
            )

    def _errors(self, x: np.ndarray) -> np.ndarray:
        """Standard errors: of a likelihood by its curvature, of a distance by how its summaries vary and change.

        They are found once more with steps as large as the errors found first: smaller ones see noise, larger ones a curve.
        """
        if self._is_own:
            return np.full(len(x), np.nan)
        width = self.high - self.low
        steps = STEP * width
        for _ in range(2):
            found = steps * self._errors_in_steps(np.clip(x, self.low + steps, self.high - steps), steps, x)
            steps = np.clip(np.nan_to_num(found), STEP / 5 * width, STEP * 5 * width)
        return found

    def _errors_in_steps(self, centre: np.ndarray, steps: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The same in units of the steps; infinite where a step changes nothing."""
        slopes = self._slopes(centre, steps)
        if not np.isfinite(slopes).all():
            return np.full(len(x), np.nan)
        covariance = inverse = np.linalg.pinv(slopes)
        if isinstance(self.objective, Distance):
            fitted = self.objective.rows(self.simulator.by_name(x[None], 0))[0]
            covariance = inverse @ self.objective.covariance(fitted, self.simulator.trials or 1) @ inverse.T
        _, sizes, directions = np.linalg.svd(slopes)
        unseen = directions[(sizes > 1e-9 * sizes.max()).sum() :]
        with np.errstate(invalid="ignore"):
            return np.where((np.abs(unseen) > 1e-6).any(axis=0), np.inf, np.sqrt(np.diag(covariance)))

    def _slopes(self, centre: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """How the slope of a likelihood, or each number that a distance compares, changes with each parameter."""
        if not isinstance(self.objective, Distance):
            return self._curvature(centre, steps)
        theta = np.vstack([centre + np.diag(steps), centre - np.diag(steps)])
        up, down = self.objective.rows(self._precise.by_name(theta, 0)).reshape(2, len(steps), -1)
        slopes: np.ndarray = ((up - down) / 2).T
        return slopes

    @property
    def _precise(self) -> Simulator:
        """A simulator with more trials: noise in slopes would look like knowledge of the parameters."""
        f = self.simulator
        times = 1 if f.trials == 1 else PRECISE * (f.trials or 1)
        return Simulator(f.model, f.names, f.outputs, times, None, f.seed, None, f.inputs)

    def _curvature(self, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Second derivatives of the loss in units of the steps, by differences."""
        offsets, count = np.diag(steps), len(x)
        pairs = [(i, j) for i in range(count) for j in range(count)]
        signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        theta = np.array([x + (a * offsets[i] + b * offsets[j]) / 2 for i, j in pairs for a, b in signs])
        found = self.objective(self.simulator.by_name(theta, 0)).reshape(count, count, 4)
        second: np.ndarray = found @ np.array([1.0, -1.0, -1.0, 1.0])
        return second

    def trace(self) -> dict[str, np.ndarray]:
        """All that was tried."""
        theta, losses = (np.concatenate(part) for part in zip(*self._tried, strict=True))
        return {**dict(zip(self.bounds, theta.T, strict=True)), "loss": losses}


def _may_draw(model: Model) -> bool:
    """Whether a model may draw random numbers; one that is left to MDF's engine is searched for names of what draws."""
    source = source_of(model)
    if source is not None:
        return source.draws
    drawing = {op.lower() for (_, op), rows in KERNELS.items() if any("rng" in row.parameters for row in rows)}
    text = repr(getattr(model, "graph", "random")).lower()
    return any(name in text for name in drawing | RANDOM)


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
    data = {} if data is None else data
    if not hasattr(data, "items"):
        raise KindError(f"data is a mapping of outputs to observations; got {type(data).__name__}")
    found = {}
    for name, values in data.items():
        array = as_array(values, f"data[{name!r}]")
        if array.dtype.kind not in "biuf":
            raise KindError(f"data[{name!r}] must be numbers; got {'texts' if array.dtype.kind == 'U' else array.dtype}")
        if not array.size:
            raise ArgumentError(f"data[{name!r}] is empty")
        if np.isinf(array).any() or np.isnan(array).all():
            raise ArgumentError(f"data[{name!r}] has values that are infinite, or nan alone")
        found[str(name)] = array
    if not found and loss is None:
        raise ArgumentError("there is nothing to fit: give data={'output': observations}, or a loss")
    return found
