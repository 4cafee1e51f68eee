"""A model made ready: called like a function, as often as needed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mdf_loop.convert.locating import note_place
from mdf_loop.errors import ArgumentError, KindError, LoopError, in_words, keeps_results
from mdf_loop.ir import record
from mdf_loop.models.attributes import missing_in_model
from mdf_loop.models.html_tables import model_html
from mdf_loop.models.results import About, Results, stopped_by
from mdf_loop.options import Run, in_force, public, start_run
from mdf_loop.readers.arguments import how_to_give, suggest_argument
from mdf_loop.settings.counts import check_chosen, is_count
from mdf_loop.settings.random_streams import Seed
from mdf_loop.system.threads import Recent
from mdf_loop.types.fitting import handed_out
from mdf_loop.types.ports import Input, Output

if TYPE_CHECKING:
    from mdf_loop.pictures.drawing import Drawing

T = TypeVar("T")

MOST = 8
"""For how many recordings it is kept what was made for them."""

HOW = {"steps": None, "time_increment": None, "collect": False, "trials": None, "record": None, "every": 1, "record_to": None}
"""The arguments of a call that are no inputs, and what they are by themselves."""

ARGUMENTS = frozenset({*HOW, "seed"})
"""All of them."""


@record
class Wish:
    """How a model is to be run.

    Attributes
    ----------
    steps, time_increment, collect
        As :func:`mdf_loop.run` takes them.
    record : tuple of str
        What is recorded.
    every : int
        From how many iterations one is recorded.
    record_to : path, Folder or None
        Where it is written meanwhile: a path until the run begins.
    outputs : tuple of str or None
        The outputs that are wanted; None for all.
    """

    steps: int | None = None
    time_increment: float | None = None
    collect: bool = False
    record: tuple[str, ...] = ()
    every: int = 1
    record_to: Any = None
    outputs: tuple[str, ...] | None = None


@dataclass
class Found:
    """What one run gave."""

    outputs: dict[str, Any]
    iterations: Any = None
    stop: Any = None
    recorded: dict[str, Any] = field(default_factory=dict)
    may_decide: bool = False


class Model:
    """A model that was read, repaired and planned: the result of :func:`mdf_loop.prepare`.

    Call it like :func:`mdf_loop.run`, without the model.

    Attributes
    ----------
    name : str
        The id of an MDF model or graph, or the name of an ONNX graph.
    source : str
        The path of the file; empty for an object.
    """

    name: str = ""
    source: str = ""

    @property
    def inputs(self) -> Mapping[str, Input]:
        """What it takes, by name."""
        raise NotImplementedError

    @property
    def outputs(self) -> Mapping[str, Output]:
        """What it gives, by name."""
        raise NotImplementedError

    def takes(self, name: str) -> bool:
        """Whether a name is that of an input; its last part is enough where the others say where it is."""
        return name.rpartition(".")[2] in {known.rpartition(".")[2] for known in self.inputs}

    def __getattr__(self, name: str) -> Any:
        raise missing_in_model(name, self)

    def __setattr__(self, name: str, value: Any) -> None:
        if "source" in vars(self) and not hasattr(type(self), name) and self.takes(name):
            raise ArgumentError(f"{name} is an input, and no attribute: a run takes it, model({name}=...)")
        super().__setattr__(name, value)

    def refuse_twice(self, names: Iterable[str]) -> None:
        """See that no input is given under two names.

        Raises
        ------
        ArgumentError
        """

    def refuse_missing(self, names: Collection[str]) -> None:
        """See that each input that is required is among those that are given.

        Raises
        ------
        ArgumentError
        """
        if missing := [name for name, port in self.inputs.items() if port.required and name not in names]:
            said = f"the model takes inputs ({', '.join(self.inputs)}); missing: {', '.join(missing)}"
            raise ArgumentError(f"{said}. {how_to_give(missing)}")

    @public
    def __call__(self, /, **arguments: Any) -> Results:
        """Run the model: ``model(...)`` is ``mdf_loop.run(..., ...)`` and takes what that takes.

        Returns
        -------
        Results

        Raises
        ------
        LoopError
            As :func:`mdf_loop.run`.
        """
        if ARGUMENTS.isdisjoint(arguments):
            return self.run_once(arguments)
        how, inputs = self._told_apart(arguments)
        seed, trials = how.pop("seed", None), how.pop("trials", None)
        wish = self._wish(how)
        if trials is not None:
            from mdf_loop.sweeps.trials import run_trials

            return run_trials(self, trials, seed, wish, inputs)
        return self.run_once(inputs, seed, wish)

    def run_once(self, inputs: Mapping[str, Any], seed: Seed | None = None, wish: Wish | None = None) -> Results:
        """One run.

        Parameters
        ----------
        inputs : mapping
        seed : int or SeedSequence, optional
        wish : Wish, optional
        """
        if seed is not None:
            with in_force(seed=seed):
                return self.run_once(inputs, None, wish)
        run, wish = start_run(), wish or PLAIN
        if wish.record_to is not None:
            from mdf_loop.models.recordings.zarr_folder import Folder

            wish = replace(wish, record_to=Folder(wish.record_to, self.about(Found({}), inputs, run, wish), wish.record))
        try:
            found = self.found_by(inputs, run, wish)
        except BaseException as error:
            if not isinstance(error, LoopError) and not keeps_results(error):
                raise
            note_place(self.source, error)
            if isinstance(error, ArgumentError):
                for name in [name for name in inputs if name not in self.inputs]:
                    suggest_argument(error, name, [*HOW, "seed"])
            if keeps_results(error):
                partly = Found(error.outputs or {}, error.iteration, stopped_by(error), error.recorded or {})
                error.results = _finished(Results(partly.outputs, self.about(partly, inputs, run, wish)), wish)
            raise
        outputs = handed_out(found.outputs, as_arrays=False) if self.shares else found.outputs
        return _finished(Results(outputs, self.about(found, inputs, run, wish)), wish)

    shares = True
    """Whether outputs of a run may be shared with what the model holds."""

    def about(self, found: Found, inputs: Mapping[str, Any], run: Run, wish: Wish) -> About:
        """What is known of a run."""
        ended, chosen = (found.iterations, found.stop, run.stream.seed), dict(run.options.chosen)
        steps = self.lengths_of_steps(inputs, wish)
        inputs = {name: copy.copy(value) if isinstance(value, np.ndarray | list) else value for name, value in inputs.items()}
        about = About(self.name, *ended, inputs, found.recorded, wish.every, chosen, collected=self.collected(wish), steps=steps)
        about.units, about.at_start, about.row = self.units, self._at_start(wish), self.row(wish)
        about.may_decide, about.sent = found.may_decide, self.sent
        return about

    @property
    def units(self) -> Mapping[str, str]:
        """The units of inputs and outputs, where they are said."""
        return {}

    @property
    def sent(self) -> Sequence[str]:
        """The output ports that edges read, so that they are no outputs: ``node.port``."""
        return ()

    def lengths_of_steps(self, inputs: Mapping[str, Any], wish: Wish) -> dict[str, float]:
        """How long an iteration takes, for the outputs and recorded values that have a row for each of a loop through time."""
        if wish.steps is not None or dict in map(type, inputs.values()):  # another body, which may have another step
            return {}
        known = self._of_record("steps_of_recorded", wish.record, self.steps_of_rows) or {}
        found = {
            name: next((inputs[given] for given in names if given in inputs), default) for name, (names, default) in known.items()
        }
        numbers = {name: float(step) for name, step in found.items() if isinstance(step, int | float | np.number)}
        return {name: step for name, step in numbers.items() if np.isfinite(step)}

    def steps_of_rows(self, record: tuple[str, ...]) -> Mapping[str, Any]:
        """The outputs and recorded values that have a time; which inputs say how long an iteration takes, or what it is."""
        return {}

    def found_by(self, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found:
        """What a run gives; the run has begun."""
        raise NotImplementedError

    def on_device(self, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found | None:
        """What a run on a device gives; None if that is not asked for, or has no form there."""
        if not run.options.how.device:
            return None
        from mdf_loop.models.to_jax import run_on_device

        return run_on_device(self, inputs, run, wish)

    def collected(self, wish: Wish) -> tuple[str, ...]:
        """The outputs that have a row for each iteration of a loop, or for each step, as far as is known after a run."""
        return ()

    def row(self, wish: Wish) -> str:
        """What a row of what a run collects or records is."""
        return "iteration"

    def _at_start(self, wish: Wish) -> tuple[str, ...]:
        """What is recorded and belongs to the start of an iteration; nothing where a name means nothing."""
        if not wish.record or wish.steps is not None:
            return ()
        return self._of_record("recorded_at_start", wish.record, self.at_start) or ()

    def _of_record(self, use: str, record: tuple[str, ...], made: Callable[[tuple[str, ...]], T]) -> T | None:
        """What is known of values to record; None where a name means nothing."""
        try:
            found: T = self.made_for(use, MOST).of(record, lambda: made(record))
        except ArgumentError:  # the run says it
            return None
        return found

    def at_start(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those names of what is recorded that mean values at the start of an iteration."""
        return ()

    @public
    def explain(self, /, source: Any = False, show_steps: Any = False, operators: Any = False, **inputs: Any) -> str:
        """Show how the loops of the model run.  For this, the model is run once.

        Equations, and the nodes of a scheduled model, are shown as they are written.  A model that goes on from step to
        step runs 100 steps, if ``steps=`` does not say how many.

        Parameters
        ----------
        source : bool
            Also show the Python source of programs.
        show_steps : bool
            Also show the Steps that programs are made from.  (``steps`` is the number of evaluations of a model.)
        operators : bool
            Show each operator of the plan instead of the equations and nodes that they come from.
        **inputs : array_like
            As in a call.  Missing inputs are drawn at random.

        Returns
        -------
        str
            A notebook shows it as tables that you can expand.
        """
        from mdf_loop.calls.explain import Explanations
        from mdf_loop.models.explaining import explain_model

        asked = {"source": source, "show_steps": show_steps, "operators": operators}
        inputs |= {name: value for name, value in asked.items() if not isinstance(value, bool)}  # which is an input of that name
        return Explanations.of(explain_model(self, inputs, source is True, show_steps is True, operators is True))

    drawn: Any
    """What a picture of it shows: an MDF graph, or the graph of operators."""

    @public
    def plot(
        self, ax: Any = None, *, steps: int | None = None, time_increment: float | None = None, level: str = "equations"
    ) -> Any:
        """Draw the model on axes of matplotlib, like :func:`mdf_loop.draw`, without running it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes; the default is a new figure, as large as the picture needs.
        steps, time_increment, level
            As in :func:`mdf_loop.draw`.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        LoopError
            matplotlib is not installed.
        """
        return self.draw(steps=steps, time_increment=time_increment, level=level).plot(ax)

    @public
    def draw(self, *, steps: int | None = None, time_increment: float | None = None, level: str = "equations") -> Drawing:
        """Draw the model, see :func:`mdf_loop.draw`.  Nothing is run.

        Parameters
        ----------
        steps, time_increment, level
            As in :func:`mdf_loop.draw`.

        Returns
        -------
        Drawing
            A notebook shows it; ``save(path)`` writes it to a file.

        Raises
        ------
        LoopError
            As :func:`mdf_loop.draw`.
        """
        from mdf_loop.pictures.drawing import draw

        return draw(self, steps=steps, time_increment=time_increment, level=level)

    @public
    def explore(self, /, *names: str, **over: Any) -> Any:
        """Show the model with sliders, see :func:`mdf_loop.explore`.

        Parameters
        ----------
        *names : str
            The outputs or recorded values to draw.
        **over : (low, high) or array_like
            Ranges of sliders, and values; ``trials``, ``record``, ``steps`` and ``seed`` as in :func:`mdf_loop.explore`.

        Returns
        -------
        Explorer
            A notebook shows it; ``show()`` serves it to the browser.

        Raises
        ------
        LoopError
            As :func:`mdf_loop.explore`.
        """
        from mdf_loop.pages.explore import explore

        return explore(self, *names, **over)

    def _repr_html_(self) -> str:
        """What a notebook shows: its inputs and outputs, in tables that fold.  Nothing is run."""
        return model_html(self)

    def __repr__(self) -> str:
        def listed(ports: Iterable[str]) -> str:
            return ", ".join(ports) or "none"

        where = f" from {self.source}" if self.source else ""
        inputs = [name for name, port in self.inputs.items() if not isinstance(port.default, Mapping)]  # a body is none to give
        return f"<model {self.name!r}{where}: inputs {listed(inputs)}; outputs {listed(self.outputs)}>"

    def made_for(self, use: str, most: int) -> Recent[Any]:
        """What was made of the model for a use of it, by what it was made for; at most so much is kept."""
        known: Recent[Any] = vars(self).setdefault(use, Recent(most))
        return known

    # What a call says

    def _told_apart(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is said of how to run, and the inputs; a model of ONNX may have inputs of such names."""
        known = self._names_of_its_own()
        how, inputs = dict[str, Any](), dict[str, Any]()
        for name, value in arguments.items():
            if name in ARGUMENTS and name not in known:
                if value is not None and value is not HOW.get(name):
                    how[name] = value
            else:
                inputs[name] = value
        self.refuse_how(how)
        return how, inputs

    def full_name(self, name: str) -> str:
        """An input as nothing else is called: of MDF with its node."""
        return name

    def _names_of_its_own(self) -> Iterable[str]:
        """Inputs that may be called like an argument: those of ONNX, which have no other name."""
        return ()

    def refuse_how(self, how: Mapping[str, Any]) -> None:
        """See that what is asked for can be had of this model.

        Raises
        ------
        ArgumentError
        """
        for name in how:
            if name in self._names_of_its_own():
                raise ArgumentError(f"{name} is an argument of sweep; give the input of that name in over={{{name!r}: [...]}}")

    @staticmethod
    def _wish(how: Mapping[str, Any]) -> Wish:
        if not how:
            return PLAIN
        said = dict(how)
        check_chosen("collect", said.get("collect", False))
        record, every = said.pop("record", ()), said.get("every", 1)
        if isinstance(record, str):
            record = (record,)
        if not isinstance(record, Sequence) or not all(isinstance(name, str) for name in record):
            raise KindError(f"record must be a list of names of values; got {record!r}")
        if not is_count(every, 1):
            raise ArgumentError(f"every must be a whole number from 1 on; got {in_words(every)}")
        if not record and (more := sorted(said.keys() & {"every", "record_to"})):
            raise ArgumentError(f"{' and '.join(more)} without record; record lists the values to record")
        return Wish(record=tuple(record), **said)


def _finished(results: Results, wish: Wish) -> Results:
    """Results of a run that is over, written to the folder that it was recorded to."""
    if wish.record_to is not None:
        wish.record_to.finish(results)
    return results


PLAIN = Wish()
