"""Engine ``jax``: what JAX runs of a model or a loop, and a warning where another engine has to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mdf_loop.calls.callables import Called, name_of
from mdf_loop.errors import MalformedBody, NotLowered, UnsupportedOp, warn_user
from mdf_loop.execute.interpret import Arguments
from mdf_loop.options import Run
from mdf_loop.settings.random_streams import Seed
from mdf_loop.system.threads import Recent

if TYPE_CHECKING:
    from mdf_loop.backends.jax.function import JaxFunction
    from mdf_loop.calls.prepared import PreparedLoop

T = TypeVar("T")

MOST = 64
"""Functions that are kept, kinds of calls that JAX has no form for, and reasons that were said once."""


class OnDevice:
    """What JAX runs of a model or a loop.

    Parameters
    ----------
    name : str
        What warnings call it.
    make : callable
        ``make(**wanted)`` is the function for what is wanted: outputs, and in which steps.
    """

    def __init__(self, name: str, make: Callable[..., JaxFunction]) -> None:
        self.name, self._make = name, make
        self._functions = Recent["JaxFunction"](MOST)
        self._refused, self._warned = Recent[str](MOST), Recent[bool](MOST)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without what was compiled."""
        return type(self), (self.name, self._make)

    def found(self, inputs: Mapping[str, Any], call: Callable[[JaxFunction], T], **wanted: Hashable) -> T | None:
        """What a call of the function gives; None, with a warning, if it has no form in JAX; None as well if the run is an error.

        Raises
        ------
        ArgumentError
            The call is wrong, or JAX has 32 bits where the model needs 64.
        """
        from mdf_loop.backends.jax.function import FailsOnDevice

        key = tuple(wanted.items())
        kind = (key, *((name, *_kind_of(value)) for name, value in inputs.items()))
        if (known := self._refused.get(kind)) is not None:
            self.left(known)
            return None
        try:
            return call(self._functions.of(key, lambda: self._make(**wanted)))
        except FailsOnDevice:
            return None
        except (UnsupportedOp, NotLowered, MalformedBody) as reason:
            said = str(reason)
            self.left(self._refused.of(kind, lambda: said))
            return None

    def is_left(self, run: Run) -> bool:
        """Whether options ask for what JAX cannot do, whatever it runs; warns if so."""
        ends = {
            "options(max_iterations=)": run.options.max_iterations is not None,
            "options(timeout=)": run.deadline is not None,
            "options(progress=)": run.watch is not None,
        }
        asked = [name for name, is_asked in ends.items() if is_asked]
        if asked:
            self.left(f"{' and '.join(asked)} needs a look at the loop while it runs, and JAX runs it as a whole")
        return bool(asked)

    def left(self, reason: str) -> None:
        """Say, once, that engine ``numpy`` runs it, and why."""
        if self._warned.get(reason) is None:
            self._warned.of(reason, lambda: True)
            warn_user(f"{self.name} runs in engine 'numpy', not by JAX: {reason}")


def _kind_of(value: Any) -> tuple[Any, ...]:
    """What decides whether there is a form for an input: its type, and the value of a whole number."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", ())
    is_whole = isinstance(value, int) or (dtype is not None and shape == () and dtype.kind in "biu")
    return type(value), str(dtype), shape, int(value) if is_whole else None


def loop_by_jax(prepared: PreparedLoop, arguments: Arguments, run: Run) -> list[Any] | None:
    """The results of a loop that was called by itself; None, with a warning, if it has no form in JAX."""
    record, device = prepared.record, prepared.on_device
    if called := next((value.function for value in arguments.captured if isinstance(value, Called)), None):
        device.left(f"{name_of(called)!r} is called in each iteration; @mdf_loop.body makes it a body that JAX can run")
        return None
    named = [*prepared.names, *record.body.captures]
    if not {"M", "cond"}.isdisjoint(named):
        device.left("a value of its body is called M or cond, as the trip count and the condition are")
        return None
    if device.is_left(run):
        return None
    from mdf_loop.backends.jax.function import run_alone, traced

    limits = {} if record.scanned else {"M": arguments.trip_count, "cond": arguments.go}
    values = [*map(traced, [*arguments.carried, *arguments.scanned]), *arguments.captured]
    inputs = {**limits, **dict(zip(named, values, strict=True))}
    key = key_of(run.stream.seed)
    found = device.found(inputs, lambda function: run_alone(function, key, inputs))
    return None if found is None else [row for row, _ in in_rows(found, ()).values()]


def key_of(seed: Seed) -> int:
    """A number that begins a key of JAX, from a seed of ours."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(int(seed))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def in_rows(found: Mapping[str, Any], lead: tuple[int, ...]) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """What :meth:`JaxFunction.rows` gives as numpy's arrays, each with the lengths of its rows; of one run cut to its length."""
    made: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for name, value in found.items():
        array, lengths = value if isinstance(value, tuple) else (value, None)
        array = np.asarray(array)
        if not lead:
            made[name] = (array if lengths is None else array[: int(lengths)])[()], None
        elif array.ndim > len(lead):
            made[name] = array, np.full(lead, array.shape[1]) if lengths is None else np.asarray(lengths)
        else:
            made[name] = array, None
    return made
