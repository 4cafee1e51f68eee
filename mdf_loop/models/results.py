"""What a run gives: its outputs by name, and what is worth knowing beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.errors import (
    ArgumentError,
    LoopInterrupted,
    LoopStopped,
    LoopTimeout,
    MissingOutput,
    did_you_mean,
    is_from_outside,
    there_are,
)
from mdf_loop.errors import IterationLimit as Limit
from mdf_loop.models.attributes import missing_in_results
from mdf_loop.models.ended_runs import cut_off
from mdf_loop.models.html_tables import results_html, results_text
from mdf_loop.options import Run, public
from mdf_loop.settings.random_streams import Seed


@dataclass
class About:
    """A description of a run.

    Attributes
    ----------
    model : str
        The name of the model.
    iterations : int, array, dict or None
        The number of iterations of the loop: by place if there are several loops, for each trial if there are several
        trials.  For a scheduled model the number of passes.  None if there was no loop.
    stop : str, array, dict or None
        Why it ended: ``"condition"``, ``"trip count"``, ``"max_iterations"``, ``"timeout"``, ``"interrupted"``,
        ``"callback"`` or ``"error"``.
    seed : int or SeedSequence
        The seed that repeats the run.
    inputs : mapping
        The given inputs.
    recorded : mapping of str to array
        The recorded values, with iterations as the first axis.
    every : int
        One of so many iterations was recorded.
    engine : str
    options : mapping
        The options that differ from their defaults.
    trials : int or None
        The number of trials.
    lengths : mapping
        For outputs and recorded values whose length differs between trials: the length of each without padding.  If an
        output and a recorded value have the same name, the length of the recorded value.
    collected : sequence of str
        The outputs that have a value for each iteration of a loop, or for each step.
    steps : mapping of str to float
        The time of an iteration in the model, for the outputs and recorded values that have a row for each iteration of a
        loop through time.
    at_start : sequence of str
        The recorded values that belong to the time at which an iteration starts, ``k * dt``; see :func:`times`.
    row : str
        What a row is: ``"iteration"`` of a loop, ``"pass"`` of a scheduled model, or ``"step"``, one of its evaluations.
    units : mapping of str to str
        Units by name, if the model has them.  The unit of ``dt`` is the unit of time.
    may_decide : bool
        Whether the condition of the only loop may end it before its trip count, as far as is known.
    sent : sequence of str
        The output ports that are no outputs, since edges read them: ``node.port``.
    """

    model: str = ""
    iterations: Any = None
    stop: Any = None
    seed: Seed | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    recorded: Mapping[str, Any] = field(default_factory=dict)
    every: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None
    lengths: Mapping[str, Any] = field(default_factory=dict)
    collected: Sequence[str] = ()
    steps: Mapping[str, float] = field(default_factory=dict)
    row: str = "iteration"
    units: Mapping[str, str] = field(default_factory=dict)
    at_start: Sequence[str] = ()
    may_decide: bool = False
    sent: Sequence[str] = ()

    def times(self, name: str, iterations: np.ndarray, is_at_start: bool) -> np.ndarray | None:
        """The times to which values of some iterations belong; None where they have none."""
        step = self.steps.get(name)
        return None if step is None else times(iterations, step, is_at_start)

    @property
    def ended(self) -> str:
        """How many trials, or whether the run, ended at M where the condition could have ended them; empty if none did."""
        return cut_off(self).removeprefix(", ")

    @property
    def dt(self) -> float | None:
        """The time of an iteration, if it is one for all values that have it."""
        found = {*self.steps.values()}
        return found.pop() if len(found) == 1 else None


def read_by_edge(name: str, sent: Sequence[str], sweeps: bool = False) -> str:
    """What to do about an output port that is no output since an edge reads it; empty for other names."""
    found = next((each for each in sent if name in (each, each.rpartition(".")[2])), "")
    cure = f"give record=[{found!r}], and it is in .recorded"
    cure = "give its node another output port of the same value, which no edge reads" if sweeps else cure
    return f"; an edge reads {found}, so it is no output: {cure}" if found else ""


def times(iterations: np.ndarray, dt: float, is_at_start: bool) -> np.ndarray:
    """The times in a model to which values of some iterations belong.

    A carried value that iteration k finds is that of the time ``k * dt``.  What the iteration makes of it, and what it
    collects, is there at its end: ``(k + 1) * dt``.
    """
    return dt * (iterations if is_at_start else iterations + 1)


class Results(dict[str, Any]):
    """The outputs of a run by name: a dict, with what else is known of the run as attributes, see :class:`About`.

    It is printed as a summary, with means and standard deviations over trials; ``dict(results)`` prints all values.

    Examples
    --------
    >>> import mdf_loop
    >>> mdf_loop.run("examples/drift_diffusion.yaml", trials=1000, seed=1)["reaction_time"].mean().round(2)
    np.float64(1.2)
    >>> mdf_loop.run("examples/accumulate.yaml", x=[10, 20], y=0)
    results of accumulate
      total  float32[]   30
      sums   float32[2]  [10, 30]
    """

    def __init__(self, outputs: Mapping[str, Any] | None = None, about: About | None = None) -> None:
        super().__init__(outputs or {})
        self.about = about or About()

    @public
    def __missing__(self, name: Any) -> Any:
        meant = read_by_edge(name, self.about.sent) or there_are(name, self)
        meant = f"; it is recorded: results.recorded[{name!r}]" if name in self.about.recorded else meant
        if self and not isinstance(name, str):
            meant = f": outputs have names, {', '.join(self)}; trials and iterations are axes: results[{next(iter(self))!r}][k]"
        raise MissingOutput(f"the results have no output called {name!r}{meant}")

    def __getattr__(self, name: str) -> Any:
        raise missing_in_results(name, self)

    @property
    def iterations(self) -> Any:
        """How many iterations the loop of the model ran."""
        return self.about.iterations

    @property
    def stop(self) -> Any:
        """Why it ended."""
        return self.about.stop

    @property
    def seed(self) -> Seed | None:
        """The seed under which the run can be repeated."""
        return self.about.seed

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What the run was given."""
        return self.about.inputs

    @property
    def recorded(self) -> Mapping[str, Any]:
        """What was recorded, by the names that were asked for."""
        return Recorded(self.about.recorded)

    @public
    def to_xarray(self) -> Any:
        """Return the outputs and recorded values as an ``xarray.Dataset``.

        Dimensions are ``trial``, ``iteration``, and ``<name>_0``, ``<name>_1``, ... for other axes.  Values of a loop with
        another number of iterations have the dimension ``<name>_iteration``.  Rows of a loop whose body reads a step ``dt``
        have a coordinate ``time``; if some values belong to the start of an iteration and others to its end, there are
        ``start_time`` and ``end_time``, and the attribute ``time`` of a value names its own.  Attributes have the model, the
        version of mdf_loop, the seed and the options.

        Returns
        -------
        xarray.Dataset

        Raises
        ------
        LoopError
            xarray is not installed.
        """
        from mdf_loop.models.labelled import dataset

        return dataset(self)

    @public
    def save(self, path: Any) -> None:
        """Write the results to a file that :func:`mdf_loop.open` reads: ``.npz``, or ``.nc`` or ``.zarr`` through xarray.

        All have an array for each output and recorded value, by its name: ``numpy.load("r.npz")["x"]``.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        LoopError
            The file has another ending, a value cannot be written, or a package is missing.
        """
        from mdf_loop.models.saving import save

        save(self, path)

    @public
    def plot(self, *names: str, ax: Any = None, **style: Any) -> Any:
        """Plot the results of the run, see :func:`mdf_loop.plot`.

        Parameters
        ----------
        *names : str
            One output or recorded value; two or more for a phase plane; none for all lines.
        ax : matplotlib Axes, optional
            The axes; the default is a new figure.
        **style
            Passed to matplotlib.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        LoopError
            The value does not exist or cannot be plotted, or matplotlib is not installed.
        """
        from mdf_loop.plots.plot import plot

        return plot(self, *names, ax=ax, **style)

    def __repr__(self) -> str:
        return results_text(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: outputs, what was recorded, and how the run was, in tables that fold.  Nothing is read."""
        return results_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it holds."""
        return type(self), (dict(self), self.about)


def _plot_is_called(*_: Any, **__: Any) -> Any:
    raise ArgumentError("plot is called itself, and the results decide the kind of plot: results.plot('x')")


for _kind in ("line", "hist", "scatter", "bar"):  # which xarray and pandas have
    setattr(Results.plot, _kind, _plot_is_called)


class Recorded(dict[str, Any]):
    """What was recorded, by the names that were asked for."""

    @public
    def __missing__(self, name: Any) -> Any:
        meant = did_you_mean(name, self) or f"; there are {', '.join(self) or 'none: name them with record='}"
        raise MissingOutput(f"nothing was recorded as {name!r}{meant}")


def stop_of(iterations: int, trip_count: int | None) -> str:
    """Why a loop ended that was not broken off."""
    return "trip count" if trip_count is not None and iterations >= trip_count else "condition"


def stops_of(iterations: np.ndarray, trip_counts: Any) -> np.ndarray:
    """The same for many loops."""
    is_limited = iterations >= (np.inf if trip_counts is None else trip_counts)
    return np.where(is_limited, stop_of(1, 1), stop_of(0, 1))


def iterations_of(run: Run) -> int:
    """How many iterations the loop of a run completed that ran last."""
    progress = run.outermost
    return progress.moment.iteration if progress is not None else 0


def of_outermost(run: Run) -> tuple[Any, Any]:
    """Iterations and stop of the loop that ran last, as far as they are known."""
    progress = run.outermost
    if progress is None:
        return None, None
    return progress.moment.iteration, "trip count" if progress.moment.going else "condition"


def summed_up(ended: Iterable[tuple[str, int, str]]) -> tuple[Any, Any]:
    """Iterations and stops of the loops that ran: of one alone, or by place."""
    loops = list(ended)
    if not loops:
        return None, None
    if len(loops) == 1:
        return loops[0][1], loops[0][2]
    return {place: done for place, done, _ in loops}, {place: stop for place, _, stop in loops}


STOPS = ((LoopTimeout, "timeout"), (Limit, "max_iterations"), (LoopStopped, "callback"), (LoopInterrupted, "interrupted"))
"""What ``stop`` is of a run that an error ended."""


def stopped_by(error: BaseException) -> str:
    """What ``stop`` is of a run that was broken off."""
    return next((stop for kind, stop in STOPS if isinstance(error, kind)), "interrupted" if is_from_outside(error) else "error")
