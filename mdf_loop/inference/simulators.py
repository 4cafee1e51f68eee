"""Simulators: columns of parameters go to machine code where that is possible, and to a sweep otherwise."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, LoopError, in_words, unknown_name
from mdf_loop.inference.batches import Batches, RunBatch
from mdf_loop.inference.row_numbers import RowNumbers
from mdf_loop.models.model import Model, Wish
from mdf_loop.models.opening import prepare
from mdf_loop.ops.registry import changes
from mdf_loop.options import Run, current_options, public, start_run
from mdf_loop.plan.comparisons import has_nan
from mdf_loop.readers.arguments import suggest_argument
from mdf_loop.settings.counts import counted
from mdf_loop.step.failing import FallBack
from mdf_loop.sweeps.chunked_run import outputs_of, warn_of_runs
from mdf_loop.sweeps.rows.merging import Merged, Merging
from mdf_loop.sweeps.rows.reducing import Reduce, reduce_of
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Table, first_odd, whole_column
from mdf_loop.sweeps.side_by_side import row_program
from mdf_loop.sweeps.sources import engine_of, source_of
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import in_parts

if TYPE_CHECKING:
    from mdf_loop.backends.llvm.many_runs import RunColumns

Named: TypeAlias = "dict[str, Any]"
Programs: TypeAlias = "dict[Any, RunColumns | None]"

FEW = 64
"""Runs that are not shared: asking the clock takes longer."""


class Simulator:
    """A model as a function of an array of parameters: the result of :func:`mdf_loop.simulator`.

    It can be pickled, and called from several threads and processes.  Each copy counts rows from its own random number, so
    batches that run in parallel never have the same noise.

    Attributes
    ----------
    names, outputs : tuple of str
        Columns of theta, and the simulated outputs.
    seed : int or SeedSequence
        The seed of all random streams.
    seeds : array of int
        The numbers of the rows in the last call.  Give them as ``seed`` to repeat it.
    """

    def __init__(
        self, model: Any, names: Any, outputs: Any, trials: Any, reduce: Any, seed: Any, dtype: Any, inputs: Mapping[str, Any]
    ) -> None:
        self.model: Model = prepare(model)
        self.names = inputs_of(self.model, names, inputs)
        self.outputs = _outputs_of(self.model, outputs, reduce)
        self.trials = None if trials is None else counted("trials", trials)
        self.reduce: Reduce | None = reduce_of(reduce, self.outputs)
        if reduce is not None and trials is None:
            raise ArgumentError("reduce= needs trials=, the number of trials of each row")
        self.dtype = None if dtype is None else _type_of(dtype)
        self.inputs = dict(inputs)
        self.rows = RowNumbers(current_options().seed if seed is None else seed, self.trials or 1)
        self.seeds = np.zeros(0, np.int64)
        self._batches = Batches(self.model, self.names)
        self._programs: Programs = {}
        self._looked_at = set[str]()  # outputs of which it is known what a run warns of; "" for the first iterations

    def __getstate__(self) -> Named:
        """Without what is made when it is asked for."""
        return {name: value for name, value in vars(self).items() if name != "_programs"}

    def __setstate__(self, state: Named) -> None:
        vars(self).update(state, _programs={})

    def __repr__(self) -> str:
        trials = "" if self.trials is None else f", {self.trials} trials"
        return f"<simulator of {self.model.name!r}: {', '.join(self.names)} -> {', '.join(self.outputs)}{trials}>"

    @property
    def seed(self) -> Any:
        """What all random streams follow from."""
        return self.rows.seed

    def with_trials(self, trials: int) -> Simulator:
        """The same simulator with another number of trials, which does not warn again of what this one has."""
        made = Simulator(self.model, self.names, self.outputs, trials, None, self.seed, None, self.inputs)
        made._looked_at = self._looked_at
        return made

    # The forms of it

    @public
    def __call__(self, theta: Any, seed: Any = None, **conditions: Any) -> np.ndarray:
        """Simulate.

        Parameters
        ----------
        theta : array_like, of shape (n, k)
            A row for each simulation, a column for each name: numpy's, torch's or anything that becomes an array.  Of shape
            (k,) it is one row, and the result has no axis of rows.
        seed : int or array of int of shape (n,), optional
            The number of each row, from which its random streams follow; a single number gives all rows the same noise.
            Without it rows count on from call to call.
        **conditions : array_like
            Further inputs: a value for each row.

        Returns
        -------
        array
            Of shape (n, trials, m), or (n, m) without trials or with ``reduce``.  Rows that fail are nan, and a
            :class:`~mdf_loop.errors.LoopWarning` says why.

        Raises
        ------
        ArgumentError, KindError
            Something is not what it must be.
        LoopError
            Outputs differ in length from run to run.
        """
        batch = self._batches.of(theta, conditions)
        found = self._simulated(batch, seed)
        joined = self._joined(batch, found)
        return joined[0] if batch.is_one else joined

    def by_name(self, theta: Any, seed: Any = None, **conditions: Any) -> Named:
        """The same, but a mapping of each output to an array, which keeps the output's own axes."""
        batch = self._batches.of(theta, conditions)
        return dict(zip(self.outputs, self._simulated(batch, seed), strict=True))

    def torch(self, theta: Any, seed: Any = None, **conditions: Any) -> Any:
        """The same for tensors: what sbi's ``simulate_for_sbi`` takes.  Results have the element type of theta."""
        import torch

        tensor = torch.as_tensor(theta)
        found = self(tensor.detach().cpu().numpy(), seed, **conditions)
        dtype = tensor.dtype if tensor.is_floating_point() else torch.get_default_dtype()
        return torch.as_tensor(found, dtype=dtype, device=tensor.device)

    @property
    def dict(self) -> Callable[..., Named]:
        """The same function with names, for BayesFlow's ``make_simulator``.

        ``f.dict(drift=..., bound=...)`` takes numbers, or a column for each name, and other inputs of the model.  It returns a
        mapping of outputs to arrays.  The first argument, BayesFlow's ``batch_shape``, is ignored.
        """

        def simulate(batch_shape: Any = None, /, **values: Any) -> Named:
            return self.one(values)

        others = [name for name in self.model.inputs if name not in self.names and name.isidentifier()]
        parameters = [inspect.Parameter("batch_shape", inspect.Parameter.POSITIONAL_ONLY, default=None)]
        parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.names]
        parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in others]
        simulate.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return simulate

    def one(self, values: Mapping[str, Any], /) -> Named:
        """A mapping of names to numbers as a mapping of outputs: what pyABC takes."""
        batch = self._batches.of_names(values)
        found = self._simulated(batch, None)
        return {name: rows[0] if batch.is_one else rows for name, rows in zip(self.outputs, found, strict=True)}

    # How it is done

    def _simulated(self, batch: RunBatch, seed: Any) -> list[np.ndarray]:
        """For each output an array with a row for each row."""
        if not batch.count:
            raise ArgumentError("theta has no row")
        numbers, streams = self._streams(batch.count, seed)
        self.seeds, run = numbers, start_run()
        is_left = run.watch is not None or run.options.how.device or any(map(has_nan, batch.columns.values()))  # a sweep warns
        if "" not in self._looked_at:
            self._looked_at.add("")
            self._task(batch, numbers).warn_of_loops()
        program = None if is_left else self._program(batch, run)
        if program is not None:
            found = self._by_columns(program, batch, numbers, streams, run)
            if found is not None:
                return found
        return self._by_sweep(self._task(batch, numbers), run)

    def _task(self, batch: RunBatch, numbers: np.ndarray) -> Task:
        """The runs of some rows as a sweep."""
        wish, times = Wish(outputs=tuple(self.outputs)), self.trials or 1
        return Task(self.model, self.inputs, batch.grid(), times, self.seed, wish, reduce=self.reduce, numbers=numbers)

    def _warn_of_odd(self, rows: Sequence[np.ndarray], batch: RunBatch, numbers: np.ndarray) -> None:
        """Say what the first run that looks odd warns of, which machine code does not: once for each output.

        Of a single run its caller sees the numbers, and it is over in the time of a look.
        """
        columns = zip(self.outputs, rows, strict=True) if len(rows[0]) > 1 else ()
        if odd := first_odd({name: column for name, column in columns if name not in self._looked_at}):
            self._looked_at.update(odd)
            self._task(batch, numbers).warn_of(odd)

    def _streams(self, count: int, seed: Any) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the rows, and their streams."""
        if seed is None:
            return self.rows.take(count)
        numbers = RowNumbers.given(seed, count)
        return numbers, self.rows.streams(numbers)

    def _program(self, batch: RunBatch, run: Run) -> RunColumns | None:
        """Machine code for such columns, made once."""
        chosen = run.options
        key = (batch.kind, chosen.engine, chosen.max_iterations, chosen.trusted, chosen.obey_body_condition, changes())
        if key not in self._programs:
            source = source_of(self.model)
            inputs = {**self.inputs, **batch.inputs(0)}
            settled = dataclasses.replace(chosen, engine=engine_of(chosen.engine, self.model, inputs, self.outputs))
            part = Run(settled, run.stream, deadline=run.deadline)
            times = self.trials or 1
            made = source and row_program(source, inputs, list(batch.columns), self.outputs, times, part)
            self._programs[key] = made or None
        return self._programs[key]

    def _by_columns(
        self, program: RunColumns, batch: RunBatch, numbers: np.ndarray, streams: Any, run: Run
    ) -> list[np.ndarray] | None:
        """What machine code gives; None if a run comes upon something that it leaves to others."""
        times = self.trials or 1
        count = batch.count * times
        share = _at_once if count <= FEW else in_parts
        pause = _nothing if run.deadline is None else run.deadline.check
        try:
            found = program.run([*batch.columns.values()], streams, pause, share)
        except FallBack:
            return None
        self._warn_of_odd(found, batch, numbers)
        if self.trials is None:
            return found
        if self.reduce is None:
            return [rows.reshape(batch.count, times, *rows.shape[1:]) for rows in found]
        merging = Merging(self.reduce, times)
        chunk = Chunk(dict(zip(self.outputs, map(whole_column, found), strict=True)))
        merged = Merged(merging, batch.count)
        merged.add(0, merging.reduced(0, chunk, np.ones(count, bool)), count)
        return self._finished(merged)

    def _by_sweep(self, task: Task, run: Run) -> list[np.ndarray]:
        """What a sweep over the rows gives."""
        table = task.table()
        task.run_all(table, run)
        warn_of_runs(task, table)
        found = self._finished(table)
        if self.trials is None or self.reduce is not None:
            return found
        return [rows.reshape(-1, self.trials, *rows.shape[1:]) for rows in found]

    def _finished(self, table: Table) -> list[np.ndarray]:
        arrays, ragged = table.finish()
        for name in self.outputs:
            if name in ragged and self.reduce is None:
                few, many = ragged[name].min(), ragged[name].max()
                raise LoopError(
                    f"output {name!r} has {few} values in some runs and {many} in others, which is not an array: leave it out of "
                    "the outputs or the data, or reduce it with reduce="
                )
        missing = np.full(table.count, np.nan)
        return [arrays.get(name, missing) for name in self.outputs]

    def _joined(self, batch: RunBatch, found: Sequence[np.ndarray]) -> np.ndarray:
        """All outputs side by side along the last axis."""
        shape = (batch.count,) if self.trials is None or self.reduce is not None else (batch.count, self.trials)
        columns = [rows.reshape(*shape, -1) for rows in found]
        joined = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=-1)
        return joined if self.dtype is None else joined.astype(self.dtype)


def _at_once(count: int, runs: Any) -> int:
    runs(0, count)
    return count


def _type_of(dtype: Any) -> np.dtype:
    """The element type of results."""
    try:
        return np.dtype(dtype)
    except TypeError:
        raise KindError(f"dtype is a type of numpy, such as 'float32'; got {in_words(dtype)}") from None


def _nothing() -> None:
    """No time has been set."""


def inputs_of(model: Model, names: Any, inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of theta, which the model has to take."""
    known = (names,) if isinstance(names, str) else tuple(names)
    if not known or not all(isinstance(name, str) for name in known):
        raise KindError(f"names is a list of inputs of the model, one for each column of theta; got {names!r}")
    for name in (*known, *inputs):
        if not model.takes(name):
            error = unknown_name("the model has no input called", name, model.inputs)
            suggest_argument(error, name, ["outputs", "trials", "seed", "loss"], "")
            raise error
    model.refuse_twice((*known, *inputs))
    if twice := {name for name in known if known.count(name) > 1 or name in inputs}:
        raise ArgumentError(
            f"{', '.join(sorted(twice))} is given twice; what varies has no value of its own, and each name is there once"
        )
    return known


def _outputs_of(model: Model, outputs: Any, reduce: Any) -> tuple[str, ...]:
    """What is simulated."""
    names = outputs_of(model, outputs)
    if names is None:
        return tuple(reduce) if isinstance(reduce, Mapping) else tuple(model.outputs)
    if not names:
        raise ArgumentError("outputs is empty: there is nothing to simulate")
    return names
