"""A fit: parameters for which simulated outputs are closest to observed ones.  What is hard is scipy's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, LoopError, let_through, shortened, unknown_name, warn_user
from mdf_loop.inference.distances import Distance, Objective, mean_of, of_function
from mdf_loop.inference.simulators import Simulator, inputs_of
from mdf_loop.inference.standard_errors import StandardErrors
from mdf_loop.inference.summaries import MOST_CODES
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare
from mdf_loop.ops.registry import KERNELS
from mdf_loop.options import current_options, options, part_of, start_run
from mdf_loop.progress import Tally
from mdf_loop.readers.arguments import is_called, names_in
from mdf_loop.readers.expressions.derivatives import RANDOM
from mdf_loop.settings.counts import counted
from mdf_loop.settings.engines import needed
from mdf_loop.sweeps.rows.rows_of_runs import keeping
from mdf_loop.sweeps.sources import source_of
from mdf_loop.types.fitting import as_array

POPULATION, GENERATIONS = 10, 60
"""For each parameter so many candidates at once, and how often they are improved at most."""

ROUGH, FEWEST_RUNS, FEW_GENERATIONS = 3, 100, 20
"""Where distributions are compared: the part of the trials that the search everywhere has, how many these are at least, and how
often its candidates are improved: least squares come behind it."""

SQUARES, SLOPE, FAR = 12, 0.02, 1e3
"""How often least squares improve the best candidate at most, the part of the range of a parameter for their slopes, and how far
from the data runs that fail are."""

MISFIT = 0.5
"""Standard deviations of an observation by which the best simulations may be away from the data without a warning."""

CORNER = 0.03
"""Of the range of a parameter: how far from the best candidate the search near it begins."""

REFINED = 60
"""For each parameter so many candidates near the best one at most."""


class Estimates(dict[str, float]):
    """Estimated parameters by name: the result of :func:`mdf_loop.fit`.

    Attributes
    ----------
    errors : dict of str to float
        Standard errors; nan if the loss is your own function.
    loss : float
        The loss at the estimates.
    trace : dict of str to array
        All parameters that were tried, in order, the ``loss`` of each, and the number of ``trials`` that it was found with.
    data : dict of str to array
    simulator : Simulator
    """

    def __init__(self, values: Mapping[str, float], errors: Mapping[str, float], loss: float, search: Search) -> None:
        super().__init__(values)
        self.errors, self.loss = dict(errors), loss
        self.trace, self.data, self.simulator = search.trace(), search.data, search.simulator

    def __missing__(self, name: str) -> float:
        raise KeyError(f"{name!r}; there are {', '.join(self)}")

    def __repr__(self) -> str:
        lines = [f"{name} = {value:.4g} +- {self.errors[name]:.2g}" for name, value in self.items()]
        return "\n".join([*lines, f"loss {self.loss:.4g} after {len(self.trace['loss'])} simulations"])

    def simulated(self) -> dict[str, np.ndarray]:
        """Outputs with the estimates, by name: an axis of trials first."""
        found = self.simulator.by_name(np.array([[*self.values()]]), 0)
        return {name: rows[0] for name, rows in found.items()}

    def plot(self, name: str | None = None, ax: Any = None) -> Any:
        """Draw observed values, and values that are simulated with the estimates.

        Parameters
        ----------
        name : str, optional
            An output; if it is not given, that with most different values: times rather than choices.
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
        from mdf_loop.plots.on_matplotlib import axes_or_new, bin_edges

        if not self.data or (name is not None and name not in self.data):
            raise unknown_name("there are no observations of", name or "any output", self.data)
        others = [] if name else [*self.data]
        name = name or max(self.data, key=lambda each: len(np.unique(self.data[each])))  # times rather than choices
        observed, simulated = self.data[name].astype(np.float64), self.simulated()[name].astype(np.float64)
        ax = axes_or_new(ax)
        if len(others) > 1:
            others.remove(name)
            ax.set_title(f"not drawn: {', '.join(others)}; plot({others[0]!r}) draws it", fontsize="small")
        if observed.ndim == simulated.ndim == 1:
            bins = bin_edges(np.concatenate([observed, simulated]), 30)
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
        if isinstance(over, Mapping) and over:
            inputs_of(model, over, inputs)
        self.bounds, self.data = _bounds(over, inputs), _observed(data, loss)
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
        self._failure: BaseException | None = None
        self._tried: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._is_own = callable(loss)
        with options(progress=None):
            self.objective = self._objective(loss)
        self._has_squares = isinstance(self.objective, Distance) and trials > 1
        self._sequences = self.objective.sequences if isinstance(self.objective, Distance) and trials > 1 else []
        self._warn_of_sequences()
        self._generations = FEW_GENERATIONS if self._has_squares else GENERATIONS
        squares = SQUARES * (len(self.bounds) + 2) * self._has_squares
        most = population * (self._generations + 1) + squares + REFINED * len(self.bounds)
        self._tally = Tally(current_options().progress or None, model.name, most, unit="simulations")

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

    def losses(self, theta: np.ndarray, simulator: Simulator | None = None) -> np.ndarray:
        """The loss of each row; infinite where runs fail."""
        f = simulator or self.simulator
        try:
            return self._noted(theta, self.objective(f.by_name(theta, 0)), f)
        except BaseException as error:
            self._failure = error
            raise

    def _noted(self, theta: np.ndarray, losses: np.ndarray, f: Simulator) -> np.ndarray:
        """The losses of some parameters, which are kept with them."""
        losses = np.where(np.isnan(losses), np.inf, losses)
        self._tried.append((np.array(theta), losses, np.full(len(losses), f.trials)))
        self._tally(len(theta))
        return losses

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
        at = int(np.lexsort((trace["loss"], -trace["trials"]))[0])  # more trials know better
        values = {name: float(trace[name][at]) for name in self.bounds}
        return Estimates(values, dict.fromkeys(values, float("nan")), float(trace["loss"][at]), self)

    def _found(self) -> Estimates:
        """Search everywhere first, then around the best."""
        optimize = needed("scipy.optimize", "a fit needs scipy", "fit")
        bounds, width = [*self.bounds.values()], self.high - self.low
        how = {"popsize": POPULATION, "maxiter": self._generations, "tol": 0.02, "init": "sobol", "rng": 0}
        how |= {"polish": False, "updating": "deferred", "vectorized": True}
        with self._plainly():
            everywhere = lambda x: self.losses(x.T, self._rough)  # noqa: E731
            found = optimize.differential_evolution(everywhere, bounds, **how)
        if not np.isfinite(found.fun):
            raise LoopError(f"no parameters within the bounds have a finite loss: {self._why_not(found.x)}")
        best = self._by_squares(optimize, self.objective, found.x) if self._has_squares else found.x
        corners = np.clip(best + np.vstack([np.zeros(len(width)), np.diag(CORNER * width)]), self.low, self.high)
        near = {"initial_simplex": corners, "xatol": 1e-4 * width.max(), "fatol": 1e-7, "maxfev": REFINED * len(width)}
        found = optimize.minimize(lambda x: self.losses(x[None])[0], best, method="Nelder-Mead", bounds=bounds, options=near)
        x, least = found.x, found.fun
        values = dict(zip(self.bounds, map(float, x), strict=True))
        if said := self._unseen(x):
            self._warn_of(values, dict.fromkeys(values, 0.0))  # bounds that leave the true values out may be why
            warn_user(f"the estimates and their errors mean nothing: {said}")
            return Estimates(values, dict.fromkeys(values, float("nan")), float(least), self)
        errors = dict(zip(self.bounds, map(float, self._errors(x)), strict=True))
        self._warn_of(values, errors)
        self._warn_of_misfit(x)
        return Estimates(values, errors, float(least), self)

    def _by_squares(self, optimize: Any, distance: Any, x: np.ndarray) -> np.ndarray:
        """The best parameters that least squares find from some on; all slopes are one call."""

        def misfits(u: np.ndarray) -> np.ndarray:
            theta = self.low + np.atleast_2d(u) * (self.high - self.low)
            rows = distance.rows(self.simulator.by_name(theta, 0))
            self._noted(theta, distance.of_rows(rows), self.simulator)
            return np.nan_to_num(rows - distance.observed, nan=FAR)

        def slopes(u: np.ndarray) -> np.ndarray:
            steps = np.where(u > 0.5, -SLOPE, SLOPE)
            here, *others = misfits(np.vstack([u, u + np.diag(steps)]))
            return ((np.array(others) - here) / steps[:, None]).T

        begin = np.clip((x - self.low) / (self.high - self.low), 1e-6, 1 - 1e-6)
        optimize.least_squares(lambda u: misfits(u)[0], begin, slopes, bounds=(0, 1), max_nfev=SQUARES, xtol=1e-4)
        return np.array([*self.best().values()])  # type: ignore[union-attr]

    @cached_property
    def _rough(self) -> Simulator:
        """What searches everywhere."""
        f, trials = self.simulator, self.simulator.trials or 1
        few = min(max(trials // ROUGH, FEWEST_RUNS), trials) if self._has_squares else trials
        return f.with_trials(few)

    @contextlib.contextmanager
    def _plainly(self) -> Iterator[None]:
        """What goes wrong while scipy searches, without scipy's words around it."""
        try:
            yield
        except (RuntimeError, TypeError) as error:
            let_through(error)
            if self._failure is None:
                raise
            raise self._failure from None

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
                why = "the compared numbers do not change with it, change only in jumps, or change as with another parameter"
                warn_user(f"the data do not decide {name}: {why}")
            elif min(value - low, high - value) <= 1e-3 * (high - low):
                bounds = f"over[{name!r}] = ({low:g}, {high:g})"
                warn_user(f"the estimate of {name}, {value:.4g}, is at its bound: {bounds} may be too narrow")

    def _unseen(self, x: np.ndarray) -> str:
        """What the data have and the model does not, whatever the parameters; empty for nothing."""
        if not isinstance(self.objective, Distance) or not self._has_squares:
            return ""
        return self.objective.unseen.said(self.simulator.by_name(np.array([x, (self.low + self.high) / 2]), 0))

    def _warn_of_misfit(self, x: np.ndarray) -> None:
        """Say that even the best simulations are unlike the data."""
        if not isinstance(self.objective, Distance) or self.objective.too_few(len(x)):
            return
        name, far = self.objective.farthest(self.simulator.by_name(x[None], 0))
        if far > MISFIT:
            warn_user(
                f"the best simulations differ from the data by {far:.2g} standard deviations of an observation in {name}: are "
                "the units and the codes of the data those of the model?"
            )

    def _warn_of_sequences(self) -> None:
        """Say how choices of one subject are fitted: each depends on those before it, which simulations do not know."""
        for name in self._sequences[:1]:
            call = f"fit(model, over={self.bounds}, loss='surprise', {name}=...)"
            warn_user(
                f"data[{name!r}] is one sequence of {self.data[name].size} choices. fit compares them with the mean of "
                "simulations, which made other choices before: the estimates are poor, and their errors unknown. Use the "
                f"probability of each choice after those observed before: let the model take {name} as an input, sum up "
                f"-log(probability of what was chosen) as an output surprise, and write {call}; the documentation of fit has an "
                "example"
            )

    def _errors(self, x: np.ndarray) -> np.ndarray:
        """Standard errors, unless the loss is the caller's, or simulations know nothing of what was observed before."""
        if self._is_own or self._sequences:
            return np.full(len(x), np.nan)
        return StandardErrors(self.objective, self.simulator, self.low, self.high).at(x)

    def trace(self) -> dict[str, np.ndarray]:
        """All that was tried."""
        theta, losses, trials = (np.concatenate(part) for part in zip(*self._tried, strict=True))
        return {**dict(zip(self.bounds, theta.T, strict=True)), "loss": losses, "trials": trials}


def _may_draw(model: Model) -> bool:
    """Whether a model may draw random numbers; one that is left to MDF's engine is searched for names of what draws."""
    source = source_of(model)
    if source is not None:
        return source.draws
    drawing = {op.lower() for (_, op), rows in KERNELS.items() if any("rng" in row.parameters for row in rows)}
    text = repr(getattr(model, "graph", "random")).lower()
    return any(name in text for name in drawing | RANDOM)


def _as_numbers(what: str, values: Any) -> np.ndarray:
    """Observations as numbers, also where a table has them as texts or objects.

    Raises
    ------
    KindError
        Some are no numbers; of choices it says how they become those of the model.
    """
    array = as_array(values, what)
    if array.dtype.kind in "biuf":
        return array
    with contextlib.suppress(TypeError, ValueError):
        if array.dtype.kind in "OUS":
            return array.astype(np.float64)
    texts = sorted({str(each) for each in array.flat})
    codes = {text: code for code, text in enumerate(texts)}
    how = f", such as [{codes}[each] for each in {what}]" if len(texts) <= MOST_CODES else ""
    said = shortened(", ".join(texts), 60)
    raise KindError(f"{what} must be numbers; got {said}: give each choice the number that the model has for it{how}")


def _bounds(over: Any, inputs: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Bounds of each parameter; ``inputs`` may be what was meant as such."""
    if not isinstance(over, Mapping) or not over:
        called = [value for name, value in inputs.items() if is_called(name, "over")] or [inputs or None]
        meant = called[0] if over is None else over
        written = f"over={{{names_in(meant, '{!r}: (low, high)')}}}"
        raise KindError(f"over is a mapping of parameters to bounds; got {over!r:.80}; write {written}")
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
    if not isinstance(data, Mapping) and not (hasattr(data, "columns") and hasattr(data, "items")):
        how = "a function is given as loss=" if callable(data) else "write data={'name of an output': values}"
        how = f"read the file: pandas.read_csv({data!r:.80})" if isinstance(data, str | os.PathLike) and "." in str(data) else how
        raise KindError(f"data is a mapping of outputs to observations; got {type(data).__name__}; {how}")
    found = {}
    for name, values in data.items():
        array = _as_numbers(f"data[{name!r}]", values)
        if not array.size:
            raise ArgumentError(f"data[{name!r}] is empty")
        if np.isinf(array).any() or np.isnan(array).all():
            raise ArgumentError(f"data[{name!r}] has values that are infinite, or nan alone")
        found[str(name)] = array
    if not found and loss is None:
        raise ArgumentError("there is nothing to fit: give data={'output': observations}, or a loss")
    return found
