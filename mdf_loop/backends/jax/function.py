"""A model as a function of JAX, and many runs of it: inputs are sorted into what is known while JAX traces and what is traced."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mdf_loop.backends.jax.drawn import Draws, GivenNoise, Keys, NoisePlace, named_draws
from mdf_loop.backends.jax.jnp_templates import canonical, no_number
from mdf_loop.backends.jax.static_step import TURN_ON, WIDE, JaxStep, long_number, lowered
from mdf_loop.backends.jax.traced_loops import loops_in
from mdf_loop.backends.jax.walked import Padded
from mdf_loop.errors import ArgumentError, IterationLimit, KindError, MalformedBody, did_you_mean, in_words, let_through
from mdf_loop.options import current_options, public
from mdf_loop.step.records import Type
from mdf_loop.types.ports import numbered

MOST_KEPT = 32
"""Combinations of types for which a Step is kept."""

SHORT = 16
"""Elements of a vector of whole numbers up to which it is known while JAX traces: shapes, axes and trip counts."""

COUNTS = ("iterations of the loop", "limit of the loop")
"""What many runs at once give beside their outputs, where a model has one loop with a trip count."""

PYTHON = {"b": bool, "i": int, "f": float}


class JaxSource(Protocol):
    """A model that becomes a function.

    Attributes
    ----------
    name : str
    inputs, outputs : mapping
        Its ports by name.
    """

    name: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    def opened(self, known: Mapping[str, Any], traced: Mapping[str, Type]) -> Any:
        """The graph for inputs that are known and types of others: ``body``, ``outputs``, ``inputs``, ``history``."""

    def fitted(self, name: str, value: Any) -> Any:
        """A value as the model takes it."""

    def located(self, error: Exception) -> Exception:
        """An error with the line of the file that it is about."""


@dataclass(frozen=True)
class Made:
    """The Step for some types, and the function of its inputs that JAX compiles; it says as well whether something failed."""

    step: JaxStep
    run: Callable[..., tuple[dict[str, Any], Any]]


class JaxFunction:
    """A model as a JAX function: the result of :func:`mdf_loop.to_jax`.

    Call it with inputs by name.  ``key`` is a key of :mod:`jax.random` or an integer.  ``noise`` has the random numbers
    themselves, by the names in ``draws``.  The result is a dict of JAX arrays.

    Attributes
    ----------
    inputs, outputs : mapping of str to Input and Output
        As in :func:`mdf_loop.prepare`.
    """

    def __init__(self, source: JaxSource, outputs: Sequence[str] | None = None, **how: Any) -> None:
        self._source, self._how = source, how
        self.inputs, self.outputs = source.inputs, source.outputs
        self._wanted = None if outputs is None else tuple(outputs)
        for name in self._wanted or ():
            if name not in self.outputs:
                meant = did_you_mean(name, self.outputs) or f"; there are {', '.join(self.outputs) or 'none'}"
                raise ArgumentError(f"the model has no output {name!r}{meant}")
        self._kept: OrderedDict[Hashable, Made] = OrderedDict()
        self._last: JaxStep | None = None
        self.__name__ = source.name

    @public
    def __call__(self, /, *, key: Any = None, noise: Mapping[str, Any] | None = None, **inputs: Any) -> dict[str, Any]:
        """The outputs by name, as arrays of JAX.

        Parameters
        ----------
        key : key of jax.random or int, optional
            For models that draw random numbers.
        noise : mapping of str to array, optional
            The numbers that are drawn, by the names in ``draws``.
        **inputs : array_like
            Arrays of JAX and floats are traced.  Whole numbers and short vectors of them that are Python's or numpy's are known
            while JAX traces, such as a trip count.

        Returns
        -------
        dict of str to jax.Array
            A loop that may end early collects as many rows as there may be, the rest zeros; ``<name>_length`` says how many
            (``<name>_length_2`` where an output is called that).

        Raises
        ------
        IterationLimit
            A loop wants more than ``max_steps`` iterations.  Inside of ``jax.jit`` and ``jax.vmap``, where JAX has no errors, all
            fractions of the result and their gradients are nan then, and whole numbers the lowest of their type.
        """
        if key is not None and "key" in self.inputs:
            raise ArgumentError(
                "the model has an input called 'key', as the key of random numbers is: give the input another name"
            )
        if noise is not None and not isinstance(noise, Mapping):
            if "noise" not in self.inputs:
                raise KindError(f"noise must be a mapping of names in draws to numbers; got {in_words(noise)}")
            inputs, noise = {**inputs, "noise": noise}, None  # the model has an input of this name
        found, failed = self.rows(inputs, key, noise)
        if not (failed is None or isinstance(failed, jax.core.Tracer)) and failed:
            raise IterationLimit(f"{self._source.name}: a loop wants more than max_steps={self._how['max_steps']} iterations")
        some = {name: value for name, value in found.items() if isinstance(value, Padded)}
        named = numbered([*found, *(f"{name}_length" for name in some)])[len(found) :]
        lengths = {name: value.length for name, value in zip(named, some.values(), strict=True)}
        return {**found, **{name: value.array for name, value in some.items()}, **lengths}

    def rows(self, inputs: Mapping[str, Any], key: Any, noise: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
        """The same for inputs of any name, and whether something has failed, or None where nothing can.

        What a loop collected that may end early is :class:`Padded`.
        """
        known, traced = self._sorted(inputs)
        made = self._made(known, traced)
        key = jax.random.key(key) if isinstance(key, int | np.integer) else key
        arrays = {name: jnp.asarray(value) for name, value in traced.items()}
        numbers = None if noise is None else {name: jnp.asarray(value) for name, value in noise.items()}
        found, failed = made.run(arrays, key, numbers)
        return {name: found[name] for name in (*self.outputs, *COUNTS) if name in found}, failed

    @property
    def draws(self) -> dict[str, NoisePlace]:
        """The places that draw random numbers, by their names in ``noise=``, for the last call or the default inputs."""
        return {name: draw for name, (_, draw) in named_draws(self._step().region).items()}

    @cached_property
    def watched(self) -> JaxFunction:
        """The same, whose :meth:`rows` knows of all that is an error of a run."""
        return JaxFunction(self._source, self._wanted, **{**self._how, "flags": True})

    @cached_property
    def together(self) -> JaxFunction:
        """The same for many runs at once, which end at different times: for ``jax.vmap``."""
        return JaxFunction(self._source, self._wanted, **{**self._how, "flags": True, "together": True})

    def explain(self) -> str:
        """Show how it runs: its loops, and the random numbers it draws, for the last call or the default inputs."""
        step, lines = self._step(), [f"{self._source.name} as a function of JAX"]
        for value, depth in loops_in(step.region):
            name = value.attr.name or "loop"
            lines.append(f"{'  ' * (depth + 1)}{name}: {step.how(**self._how).way_of(value)}")
        lines += [f"  draws {name}: {draw}" for name, draw in self.draws.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<function of JAX {self._source.name!r}: inputs {', '.join(self.inputs) or 'none'}>"

    # What it is made of

    def _step(self) -> JaxStep:
        """That of the last call, or of a call without inputs."""
        if self._last is None:
            if needed := [name for name, port in self.inputs.items() if getattr(port, "required", False)]:
                raise ArgumentError(f"call it once before: it depends on the types of {', '.join(needed)}")
            self._made({}, {})
        assert self._last is not None
        return self._last

    def _sorted(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Inputs that are known, and those that are traced."""
        known, traced = dict[str, Any](), dict[str, Any]()
        for name, value in inputs.items():
            (known if _is_known(value) else traced)[name] = value
        fitted = {name: self._source.fitted(name, value) for name, value in traced.items()}
        for name, value in fitted.items():
            if (wide := getattr(value, "dtype", None)) is not None and wide in WIDE and canonical(wide) != wide:
                raise ArgumentError(f"{name!r} is {wide}, and {TURN_ON}")
            if wide in (np.int64, np.uint64) and canonical(wide) != wide and (long := long_number(value)) is not None:
                raise ArgumentError(f"{name!r} has the whole number {long}, and {TURN_ON}")
        return known, fitted

    def _made(self, known: Mapping[str, Any], traced: Mapping[str, Any]) -> Made:
        types = {name: _type_of(value, self.inputs.get(name)) for name, value in traced.items()}
        key = (
            tuple((name, repr(np.asarray(value).dtype), np.shape(value), repr(value)) for name, value in sorted(known.items())),
            tuple(sorted(types.items(), key=lambda pair: pair[0])),
            current_options().obey_body_condition,
        )
        made = self._kept.pop(key, None) or self._make(known, types)
        self._kept[key], self._last = made, made.step
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return made

    def _make(self, known: Mapping[str, Any], types: Mapping[str, Type]) -> Made:
        try:
            graph = self._source.opened(known, types)
            if missing := [name for name in graph.body.captures if name not in graph.inputs]:
                raise MalformedBody(
                    f"reads {', '.join(map(repr, missing))}, which nothing in the model provides", (graph.body.name,)
                )
            params = [graph.inputs[name] for name in (*graph.body.inputs, *graph.body.captures)]
            wanted = [k for k, name in enumerate(graph.outputs) if self._wanted is None or name in self._wanted]
            places = wanted if graph.history is None else graph.history.places(wanted)
            step = lowered(graph.body, [types[name] for name in params], current_options().obey_body_condition).giving(places)
            named = [graph.outputs[k] for k in wanted]
            if self._how.get("together") and graph.history is None and (counting := step.counting) is not step:
                step, named = counting, [*named, *COUNTS]
        except Exception as error:
            let_through(error)
            raise self._source.located(error) from error.__cause__

        def run(arrays: Mapping[str, Any], key: Any, noise: Any) -> tuple[dict[str, Any], Any]:
            draws: Draws = Keys(key) if noise is None else _given(step, noise)
            try:
                found, failed = step.computed([arrays[name] for name in params], draws, **self._how)
                if graph.history is not None and graph.history.width:
                    found = graph.history.evaluations(named, [x.array if isinstance(x, Padded) else x for x in found], jnp)
                results = dict(zip(named, map(_array, found), strict=True))
            except NotImplementedError as error:
                raise self._source.located(error) from error.__cause__
            is_safe = failed is None or self._how.get("flags")  # what has failed is not looked at then
            return results if is_safe else jax.tree.map(lambda x: _unless(failed, x), results), failed

        return Made(step, jax.jit(run))


def _array(value: Any) -> Any:
    """A result as JAX's; what counts rows stays beside them."""
    return value if isinstance(value, Padded) else jnp.asarray(value)


def _unless(failed: Any, x: Any) -> Any:
    """A result, or no number where something failed; the gradients of nan are nan."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x * jnp.where(failed, jnp.nan, 1).astype(x.dtype)
    return x if x.dtype == bool else jnp.where(failed, no_number(x.dtype), x)


def _given(step: JaxStep, noise: Mapping[str, Any]) -> GivenNoise:
    """The random numbers of a call."""
    known = named_draws(step.region)
    if missing := [name for name in known if name not in noise]:
        raise ArgumentError(f"noise= has no numbers for {', '.join(map(repr, missing))}; give all of {', '.join(known)}")
    if unknown := [name for name in noise if name not in known]:
        raise ArgumentError(f"nothing draws {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    return GivenNoise({value: noise[name] for name, (value, _) in known.items()})


def _is_known(value: Any) -> bool:
    """Whether a value is known while JAX traces."""
    if isinstance(value, jax.Array) or (isinstance(value, float) and not isinstance(value, np.generic)):
        return False
    if isinstance(value, str | Mapping) or value is None:
        return True
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise KindError(f"an input must be a number or an array; got {in_words(value)}") from error
    return array.dtype.kind in "OUS" or (array.dtype.kind in "biu" and array.ndim < 2 and array.size <= SHORT)


def _type_of(value: Any, port: Any) -> Type:
    """The type that a value has in the Step: one number for one of Python's in the model is one of Python's."""
    array, default = jnp.asarray(value), getattr(port, "default", None)
    is_number = type(default) in (bool, int, float) or (default is None and type(value) is float)
    if array.ndim == 0 and array.dtype.kind in PYTHON and is_number:
        return Type(np.dtype(PYTHON[array.dtype.kind]), (), weak=True)
    return Type(np.dtype(array.dtype), array.shape)


Function = JaxFunction
"""What the table of engines knows it by."""


class FailsOnDevice(Exception):
    """A run is an error: JAX knows that it is, and another engine which."""


def traced(value: Any) -> Any:
    """A number or an array as one of JAX, so that each value has the same program; anything else as it is."""
    is_number = (
        isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf" and canonical(value.dtype) == value.dtype
    )
    return jnp.asarray(value) if is_number else value


def bytes_of_a_run(function: JaxFunction, inputs: Mapping[str, Any]) -> int:
    """How much room the outputs of a run take; nothing is computed."""
    found, _ = jax.eval_shape(lambda: function.together.rows(inputs, 0))
    return sum(output.size * output.dtype.itemsize for output in jax.tree.leaves(found))


def vmapped(
    function: JaxFunction,
    inputs: Mapping[str, Any],
    columns: Mapping[str, np.ndarray],
    seed: int,
    places: tuple[np.ndarray, np.ndarray],
) -> dict[str, Any]:
    """The outputs of many runs, a row for each, as :meth:`JaxFunction.rows` gives them.

    Parameters
    ----------
    function : JaxFunction
    inputs : mapping
        What is the same in all of them.
    columns : mapping of str to array
        What differs, a row for each run.
    seed : int
        The key that those of the runs are made of.
    places : tuple of two arrays of int
        The number of the point, and the trial, of each run.

    Raises
    ------
    FailsOnDevice
        A run is an error, which another engine raises.
    """
    key = jax.random.key(seed)

    def one(columns: Mapping[str, Any], words: Any) -> tuple[dict[str, Any], Any]:
        return function.together.rows({**inputs, **columns}, functools.reduce(jax.random.fold_in, words, key))

    points, trials = places
    words = [np.asarray(numbers, np.uint32) for numbers in (points & 0xFFFFFFFF, points >> 32, trials)]  # as much as a key takes
    found, failed = jax.vmap(one)({name: jnp.asarray(column) for name, column in columns.items()}, words)
    return unfailed(found, failed)


def run_alone(function: JaxFunction, key: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a run.

    Raises
    ------
    FailsOnDevice
        It is an error, which another engine raises.
    """
    return unfailed(*function.watched.rows(inputs, key))


def unfailed(found: dict[str, Any], failed: Any) -> dict[str, Any]:
    """Outputs, if nothing has failed."""
    if failed is not None and failed.any():
        raise FailsOnDevice
    return found
