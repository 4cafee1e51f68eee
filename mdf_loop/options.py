"""The ``options()`` context: how loops run, without touching the model.

Options live in a :mod:`contextvars` variable, so threads and asyncio tasks do not see each other's.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mdf_loop.errors import (
    ArgumentError,
    KindError,
    LoopError,
    LoopTimeout,
    PartialResults,
    did_you_mean,
    hide_library,
    in_words,
    is_from_outside,
    is_of_callers,
    warn_user,
)
from mdf_loop.progress import Bar, Watch
from mdf_loop.settings.contexts import OfWith
from mdf_loop.settings.counts import LARGEST, check_chosen, is_count, is_whole
from mdf_loop.settings.engines import DEFAULT, ENGINES, Engine, available_engines, install_line
from mdf_loop.settings.random_streams import RandomStream, Seed
from mdf_loop.system.threads import holding

T = TypeVar("T")
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Options:
    """What ``options()`` sets; see there."""

    engine: str = DEFAULT
    max_iterations: int | None = None
    seed: Seed | None = None
    obey_body_condition: bool = False
    block_bytes: int = 1 << 22
    timeout: float | None = None
    trusted: bool = False
    progress: Any = None
    traceback: bool = False

    @functools.cached_property
    def how(self) -> Engine:
        """How the chosen engine runs things."""
        return ENGINES[self.engine]

    @functools.cached_property
    def chosen(self) -> dict[str, Any]:
        """Those that are not what they are by themselves; not the seed, nor what changes no result."""
        names = sorted(OPTIONS - {"seed", "progress", "traceback"})
        return {name: value for name in names if (value := getattr(self, name)) != getattr(PLAIN, name)}

    def __post_init__(self) -> None:
        if not isinstance(self.engine, str) or self.engine not in ENGINES:
            raise ArgumentError(f"engine must be one of {', '.join(ENGINES)}; got {self.engine!r}")
        if self.engine not in available_engines():
            name, needs = self.engine, ENGINES[self.engine].needs
            raise ArgumentError(f"engine {name!r} runs with {needs}, which is not installed: {install_line(name)}")
        if self.max_iterations is not None and not is_count(self.max_iterations, 0):
            raise ArgumentError(f"max_iterations must be None or a whole number from 0 on; got {in_words(self.max_iterations)}")
        if not (self.seed is None or isinstance(self.seed, np.random.SeedSequence) or _is_seed(self.seed)):
            raise ArgumentError(f"seed must be None or a whole number from 0 on; got {in_words(self.seed)}")
        if not is_count(self.block_bytes, 1):
            raise ArgumentError(f"block_bytes must be a whole number from 1 on; got {in_words(self.block_bytes)}")
        if self.timeout is not None and not _is_duration(self.timeout):
            raise ArgumentError(f"timeout must be None or a number of seconds above 0; got {in_words(self.timeout)}")
        if self.progress is not None and not isinstance(self.progress, bool) and not callable(self.progress):
            raise ArgumentError(f"progress must be True, False, None or a function; got {in_words(self.progress)}")
        for name in ("obey_body_condition", "trusted", "traceback"):
            check_chosen(name, getattr(self, name))


SEED_BITS = 4096
"""Seeds of numpy may have any size; one of more bits than this is a mistake."""


def _is_seed(value: Any) -> bool:
    return is_whole(value) and value >= 0 and int(value).bit_length() <= SEED_BITS


def _is_duration(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(0 < value <= LARGEST or value == np.inf)


OPTIONS = frozenset(field.name for field in dataclasses.fields(Options))
"""The names of all options."""

PLAIN = Options()
"""The options in force where none were chosen."""

_current: contextvars.ContextVar[Options] = contextvars.ContextVar("mdf_loop_options", default=PLAIN)
_stream: contextvars.ContextVar[RandomStream | None] = contextvars.ContextVar("mdf_loop_stream", default=None)
_enclosing: contextvars.ContextVar[Run | None] = contextvars.ContextVar("mdf_loop_enclosing", default=None)


def current_options() -> Options:
    """The options in force in this thread or task."""
    return _current.get()


def public(function: Callable[P, T]) -> Callable[P, T]:
    """A function that users call: a ``bool`` is one; errors have lines of their code only, unless ``options(traceback=True)``."""
    flags = {name for name, kind in function.__annotations__.items() if kind == "bool" and name != "return"}

    @functools.wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> T:
        try:
            try:
                for name in flags and flags & named.keys():
                    check_chosen(name, named[name])
                return function(*args, **named)
            except TypeError as error:
                if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # the call itself
                    refuse_call(function, args, named)
                raise
        except (Exception, PartialResults) as error:
            is_ours = isinstance(error, LoopError | PartialResults) or is_of_callers(error)
            if is_ours and not _current.get().traceback and not is_from_outside(error):
                hide_library(error)
            raise  # which adds no entry for this line

    return called


def refuse_call(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Say what is wrong with a call that Python refused.

    Raises
    ------
    KindError
        The function does not take these arguments.
    """
    signature, name = inspect.signature(function), function.__name__
    owner = function.__qualname__.rpartition(".")[0]  # of what is called as a function
    known = {key: each for key, each in signature.parameters.items() if key != "self"}
    is_open = any(each.kind is each.VAR_KEYWORD for each in known.values())  # any name is an input then
    unknown = [] if is_open else [each for each in named if each not in known]
    said = f"no argument {unknown[0]!r}{did_you_mean(unknown[0], known)}" if unknown else ""
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        wrong = said or _of_positions(signature, len(args)) or str(error)
    else:
        return
    takes = ", ".join(f"{key} by name" if each.kind is each.VAR_KEYWORD else key for key, each in known.items())
    raise KindError(f"{owner if name == '__call__' else name}: {wrong}; it takes {takes}") from None


def _of_positions(signature: inspect.Signature, given: int) -> str:
    """What is wrong with more values without a name than a function takes; empty if there are not more."""
    of_self = "self" in signature.parameters
    takes = [key for key, each in signature.parameters.items() if each.kind <= each.POSITIONAL_OR_KEYWORD][of_self:]
    count = given - of_self
    if count <= len(takes):
        return ""
    some = f"only {', '.join(takes)} may be given without a name" if takes else "all values are given by name"
    return f"{some}; {count} {'is' if count == 1 else 'are'} given without one: write name=value"


@public
def options(**changes: Any) -> contextlib.AbstractContextManager[Options]:
    """Set how loops run inside a ``with`` block.  In nested blocks, the inner values count.

    Parameters
    ----------
    engine : {"auto", "interpret", "numpy", "jit", "jax"}
        The engine that runs loops.  ``interpret`` runs node by node; it is the definition of what is right.  ``numpy`` plans
        the loop and runs many iterations at once.  ``jit`` compiles it to machine code (with llvmlite, the extra ``jit``);
        engine ``numpy`` runs what cannot be compiled.  ``auto`` chooses between these three.  ``jax`` runs models, loops and
        all points of a sweep with JAX (the extra ``jax``), on the device that JAX finds, with JAX's random numbers; engine
        ``numpy`` runs what JAX cannot, with a warning that names the reason.
    max_iterations : int or None
        Stop a loop after so many iterations, with :class:`~mdf_loop.errors.IterationLimit`.  The error keeps the partial
        results.
    seed : int, numpy.random.SeedSequence or None
        Seed of the random stream of each run.  All random operators of a run draw from this stream in order, so
        iterations differ, and a run can be repeated.
    obey_body_condition : bool
        If a Loop has no condition, the ONNX standard ignores the body's condition.  True makes the body's condition end
        such a loop, as in onnxruntime.
    block_bytes : int
        The approximate size of the values of one block of iterations in engine ``numpy``, in bytes, and of an array of the
        runs of a sweep that numpy computes at once.
    timeout : float or None
        Stop a run after so many seconds, with :class:`~mdf_loop.errors.LoopTimeout`.  The error keeps the partial results.
        The clock is read before each node and between blocks of iterations, which take a small part of a second.  A single
        call of a kernel or of a Python body is never interrupted.
    progress : bool, callable or None
        True shows the progress of a run: a bar in a terminal or a notebook, otherwise lines in the log (INFO,
        ``mdf_loop.progress``).  A function is called about ten times per second with a :class:`~mdf_loop.progress.Report`.
        If it returns False, the run stops with :class:`~mdf_loop.errors.LoopStopped`, which keeps the partial results.
    trusted : bool
        With False a model cannot run Python code: MDF's own engine passes the texts of a model to Python's ``eval``, but
        for models that :func:`mdf_loop.run` runs, mdf_loop evaluates these texts with a list of allowed operations.  True
        lets MDF use ``eval``, and lets expressions make arrays of more than 2 ** 26 elements: use it only for models that you
        trust like a program.
    traceback : bool
        With False the traceback of an error has only the lines of your code.  True keeps the lines inside the library, for
        a debugger or a bug report.

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
        meant = did_you_mean(unknown[0], OPTIONS)
        raise ArgumentError(f"unknown option {', '.join(unknown)}{meant}; there are {', '.join(sorted(OPTIONS))}")
    dataclasses.replace(PLAIN, **changes)  # which refuses values, where the caller says them
    return OfWith(in_force.__wrapped__, (), changes)  # type: ignore[attr-defined]


@contextlib.contextmanager
def in_force(**changes: Any) -> Iterator[Options]:
    """As :func:`options`, for names that are known to be options."""
    if changes.get("progress") is True:
        changes["progress"] = Bar()
    chosen = dataclasses.replace(_current.get(), **changes)  # type: ignore[arg-type]
    try:
        with holding(_current, chosen):
            yield chosen
    finally:
        if isinstance(changes.get("progress"), Bar):
            changes["progress"].close()


class Deadline:
    """When the time of a run is over."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.end = seconds, time.monotonic() + seconds

    def check(self) -> None:
        """See that there is time left.

        Raises
        ------
        LoopTimeout
        """
        if time.monotonic() >= self.end:
            raise LoopTimeout(f"the time limit is reached; options(timeout={self.seconds:g}) stops it here")


Finish = Callable[[list[Any]], Sequence[Any]]


def _as_they_are(results: list[Any]) -> Sequence[Any]:
    return results


@dataclasses.dataclass(slots=True)
class Run:
    """What all loops of one run share.

    Attributes
    ----------
    options, stream
        How loops run, and the random stream.
    warned : set
        Which loops have warned.
    tells : bool
        Whether warnings are shown; a sweep shows those of one run.
    deadline : Deadline or None
        When the run has to end.
    enclosing : Run or None
        The run that this one is a part of.
    watch : Watch or None
        What counts the iterations that have passed, and reports them.
    outermost : object or None
        How far its outermost loop has come (:class:`~mdf_loop.execute.interpret.Progress`), for partial results: the
        last one, if there were several.
    finish : callable
        What is done to partial results before they leave.
    is_interrupted : bool
        Whether the next loop ends before its first iteration: Ctrl-C struck where a program ran it.
    ahead : bool
        Whether iterations are being computed which may never run, so that nothing may be said of them yet.
    longest : float
        Seconds that a program of Python may take for loops, which nothing watches meanwhile.
    """

    options: Options
    stream: RandomStream
    warned: set[object] = dataclasses.field(default_factory=set)
    tells: bool = dataclasses.field(default=True, kw_only=True)
    deadline: Deadline | None = None
    enclosing: Run | None = None
    outermost: Any = None
    finish: Finish = _as_they_are
    is_interrupted: bool = False
    ahead: bool = False
    watch: Watch | None = None
    longest: float = 0.1

    @property
    def is_free(self) -> bool:
        """Whether it has no watcher and no timeout, and may take what time it takes."""
        return self.deadline is None and self.watch is None

    def pause(self) -> None:
        """Between two pieces of work: say how far it has come, and see whether there is time for another.

        Raises
        ------
        LoopTimeout
        """
        if self.deadline is not None:
            self.deadline.check()
        if self.watch is not None:
            self.watch.report_if_due()

    def enter(self, progress: Any) -> None:
        """A loop begins: it is the outermost one unless it runs inside another."""
        if self.outermost is None or self.outermost.is_over:
            self.outermost = progress
            if self.enclosing is not None:
                self.enclosing.enter(progress)

    def position(self) -> tuple[str, int, int | None] | None:
        """Where the outermost loop stands: its name, its iterations and how many there will be at most."""
        found = self.outermost
        return None if found is None or found.is_over else (found.name, found.moment.iteration, found.total)

    def warn_once(self, key: object, message: str) -> None:
        """Warn, the first time in this run that it is about ``key``, which must live as long as the run.

        Raises
        ------
        TooEarly
            It is not known yet whether the iteration runs: code that computes ahead gives it to the interpreter.
        """
        if key in self.warned:
            return
        if self.ahead:
            raise TooEarly(message)
        self.warned.add(key)
        if self.tells:
            warn_user(message)

    @contextlib.contextmanager
    def computing_ahead(self) -> Iterator[None]:
        """Inside, iterations are computed of which it is not known yet whether they run."""
        before, self.ahead = self.ahead, True
        try:
            yield
        finally:
            self.ahead = before


class TooEarly(Exception):
    """Something is to be said of an iteration that may never run."""


def start_run(seed: Seed | None = None) -> Run:
    """A run under the current options; inside :func:`random_stream` and :func:`part_of` with what it shares there.

    ``seed`` is that of this run, if it has one of its own.
    """
    if seed is not None:
        with in_force(seed=seed):
            return start_run()
    chosen, enclosing = _current.get(), _enclosing.get()
    deadline = None
    if chosen.timeout is not None or enclosing is not None:
        deadline = _earliest(chosen, enclosing)
    run = Run(chosen, _stream.get() or RandomStream(chosen.seed), deadline=deadline, enclosing=enclosing)
    if enclosing is not None and enclosing.watch is not None:
        run.watch = enclosing.watch
    elif callable(chosen.progress):
        run.watch = Watch(chosen.progress, run.position)
    return run


def _earliest(chosen: Options, enclosing: Run | None) -> Deadline | None:
    """When a run has to end: by its own options, or because the one around it has to."""
    deadlines = [] if chosen.timeout is None else [Deadline(float(chosen.timeout))]
    if enclosing is not None and enclosing.deadline is not None:
        deadlines.append(enclosing.deadline)
    return min(deadlines, key=lambda each: each.end, default=None)


@contextlib.contextmanager
def part_of(run: Run) -> Iterator[Run]:
    """Let every run in a ``with`` block be a part of another one: it ends when that one has to."""
    with holding(_enclosing, run):
        yield run


def in_run(run: Run, call: Callable[..., T], *args: Any) -> T:
    """What a function gives that is a part of a run and draws from its stream.

    As ``with part_of(run), random_stream(run.stream)``, in a tenth of the time: a short run is over before those have begun.
    """
    enclosing, stream = _enclosing.get(), _stream.get()
    try:
        _enclosing.set(run)
        _stream.set(run.stream)
        return call(*args)
    finally:
        _enclosing.set(enclosing)
        _stream.set(stream)


def check_time() -> None:
    """See that there is time left for the run that everything here is a part of.

    Raises
    ------
    LoopTimeout
    """
    enclosing = _enclosing.get()
    if enclosing is not None and enclosing.deadline is not None:
        enclosing.deadline.check()


def current_stream() -> RandomStream | None:
    """The stream that every loop draws from here; None where each has its own."""
    return _stream.get()


@contextlib.contextmanager
def random_stream(stream: RandomStream | None = None) -> Iterator[RandomStream]:
    """Let every loop in a ``with`` block draw from one stream: a run made of several loops."""
    stream = stream or _stream.get() or RandomStream(_current.get().seed)
    with holding(_stream, stream):
        yield stream
