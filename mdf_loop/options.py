"""The ``options()`` context: how loops run, without touching the model.

Options live in a :mod:`contextvars` variable, so threads and asyncio tasks do not see each other's.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError

ENGINES = ("auto", "interpret", "numpy")


@dataclasses.dataclass(frozen=True)
class Options:
    """What ``options()`` sets; see there."""

    engine: str = "auto"
    max_iterations: int | None = None
    seed: int | None = None
    obey_body_condition: bool = False
    block_bytes: int = 1 << 22
    trusted: bool = False

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ArgumentError(f"engine must be one of {', '.join(ENGINES)}; got {self.engine!r}")
        for name in ("max_iterations", "seed"):
            if getattr(self, name) is not None and not _is_count(getattr(self, name), 0):
                raise ArgumentError(f"{name} must be None or a whole number from 0 on; got {getattr(self, name)!r}")
        if not _is_count(self.block_bytes, 1):
            raise ArgumentError(f"block_bytes must be a whole number from 1 on; got {self.block_bytes!r}")
        for name in ("obey_body_condition", "trusted"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentError(f"{name} must be True or False; got {getattr(self, name)!r}")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


OPTIONS = frozenset(field.name for field in dataclasses.fields(Options))
"""The names of all options."""

_DEFAULT = Options()
_current: contextvars.ContextVar[Options] = contextvars.ContextVar("mdf_loop_options", default=_DEFAULT)
_stream: contextvars.ContextVar[RandomStream | None] = contextvars.ContextVar("mdf_loop_stream", default=None)


def current_options() -> Options:
    """The options in force in this thread or task."""
    return _current.get()


@contextlib.contextmanager
def options(**changes: object) -> Iterator[Options]:
    """Set how loops run inside a ``with`` block; blocks nest, inner ones win.

    Parameters
    ----------
    engine : {"auto", "interpret", "numpy"}
        Which executor runs the loop.  ``interpret`` is node by node, the definition of what is right; ``numpy``
        plans the loop and runs many iterations at once; ``auto`` takes the faster one.
    max_iterations : int or None
        Stop with :class:`~mdf_loop.errors.IterationLimit` (partial results kept) when a loop wants to
        run more iterations than this.
    seed : int or None
        Seed of the random stream of each run.  One stream feeds every random operator of a run in
        order, so iterations differ and a run can be repeated.
    obey_body_condition : bool
        The ONNX text ignores the body's condition where the Loop's own was omitted.  True follows
        onnxruntime's reading instead: it ends the loop.
    block_bytes : int
        About how many bytes the values of one block of iterations may take in engine ``numpy``.
    trusted : bool
        False holds a model to what no model can do harm with: MDF's own engine, which hands the texts of a model to
        Python's ``eval``, has those of a model that :func:`mdf_loop.run` runs evaluated by a list of what expressions
        may say instead.  True lets MDF do as it does, for models that one trusts as one trusts a program, and lets
        expressions make arrays of more than 2 ** 26 elements.

    Raises
    ------
    ArgumentError
        An unknown option, or a value of the wrong kind.

    Examples
    --------
    >>> import mdf_loop
    >>> with mdf_loop.options(max_iterations=1000, seed=7) as chosen:
    ...     chosen.seed
    7
    """
    if unknown := sorted(set(changes) - OPTIONS):
        raise ArgumentError(f"unknown option {', '.join(unknown)}; there are {', '.join(sorted(OPTIONS))}")
    chosen = dataclasses.replace(_current.get(), **changes)  # type: ignore[arg-type]
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


class RandomStream:
    """The random numbers of one run: one numpy Generator, made when first asked for.

    A node with a ``seed`` attribute has a generator of its own, as the ONNX text asks.
    """

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self._shared: np.random.Generator | None = None
        self._own: dict[object, np.random.Generator] = {}

    def shared(self) -> np.random.Generator:
        """The generator of all nodes without a seed of their own."""
        if self._shared is None:
            self._shared = np.random.default_rng(self.seed)
        return self._shared

    def own(self, node: object, seed: float) -> np.random.Generator:
        """The generator of one node that states its seed, kept through the run."""
        if node not in self._own:
            self._own[node] = np.random.default_rng(np.float64(seed).view(np.uint64))
        return self._own[node]

    def save(self) -> object:
        """How far every generator has come; ``restore`` goes back there."""
        shared = None if self._shared is None else self._shared.bit_generator.state
        return shared, {node: rng.bit_generator.state for node, rng in self._own.items()}

    def restore(self, saved: Any) -> None:
        """Go back to where ``save`` was called, as if nothing had been drawn since."""
        shared, own = saved
        if shared is None:
            self._shared = None
        else:
            self.shared().bit_generator.state = shared
        self._own = {node: rng for node, rng in self._own.items() if node in own}
        for node, state in own.items():
            self._own[node].bit_generator.state = state


@dataclasses.dataclass
class Run:
    """What all loops of one run share: the options, the random stream, and which loops have warned."""

    options: Options
    stream: RandomStream
    warned: set[object] = dataclasses.field(default_factory=set)


def start_run() -> Run:
    """A run under the current options, inside the stream of an enclosing :func:`random_stream`."""
    chosen = _current.get()
    return Run(chosen, _stream.get() or RandomStream(chosen.seed))


@contextlib.contextmanager
def random_stream(stream: RandomStream | None = None) -> Iterator[RandomStream]:
    """Let every loop in a ``with`` block draw from one stream: a run made of several loops."""
    stream = stream or _stream.get() or RandomStream(_current.get().seed)
    token = _stream.set(stream)
    try:
        yield stream
    finally:
        _stream.reset(token)
