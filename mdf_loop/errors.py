"""Every error and warning that mdf_loop raises on purpose.

Each class also derives from the standard exception it is, so ``except ValueError`` keeps working for
people who do not know this package.  A message says what was expected, what came, where, and what to do.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import itertools
import re
import sys
import traceback
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, Self, TypeGuard

from mdf_loop.system.html import error_box

_LIBRARIES = ("mdf_loop", "modeci_mdf", "modelspec", "graph_scheduler", "contextlib", "dataclasses", "functools")


def did_you_mean(name: Any, known: Iterable[str], most: int = 1) -> str:
    """``; did you mean 'x'?`` for the end of a message: what there is that is much like a name; nothing where nothing is."""
    known = [*known]
    close = [*filter(None, [_looks_the_same(name, known)])] or [*map(repr, close_to(name, known, most))]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def there_are(name: Any, known: Collection[str], most: int = 1) -> str:
    """The same, or all that there is where nothing is much like a name."""
    return did_you_mean(name, known, most) or f"; there are {', '.join(known) or 'none'}"


def _looks_the_same(name: Any, known: Sequence[str]) -> str:
    """The name that is there with the letters that Python reads, as of the micro sign, which keyboards have; empty if none is."""
    read = unicodedata.normalize("NFKC", str(name))
    if read == name or read not in known:
        return ""
    codes = [f"U+{ord(letter):04X}" for letter in str(name) if unicodedata.normalize("NFKC", letter) != letter]
    return f"{read!r} (without {', '.join(codes)}, which looks the same)"


def close_to(name: Any, known: Iterable[str], most: int = 1) -> list[str]:
    """What there is that is much like a name."""
    names, said = [each for each in dict.fromkeys(known) if each != name], str(name)
    longer = [each for each in names if len(said) > 2 and each.startswith(said)]  # the beginning of a name
    longer += [each for each in names if each.lower() == said.lower() or each.endswith(f"_{said}")]
    place, dot, end = said.rpartition(".")
    beside = {each.removeprefix(place + dot): each for each in names if dot and each.startswith(place + dot)}
    near = [beside[each] for each in difflib.get_close_matches(end, beside, most)]  # all of them are like the name in their place
    far = [each for each in names if each not in beside.values()]
    alike = difflib.get_close_matches(said, far, most, MORE_THAN_3_OF_5)
    return [*dict.fromkeys([*longer, *near, *alike])][:most]


MORE_THAN_3_OF_5 = 0.61
"""How much of two names is the same: two words of five letters with three in common are not meant for each other."""


def in_words(value: Any) -> str:
    """A value in a message; Python writes no whole number of more than 4,300 digits out."""
    try:
        return repr(value)
    except ValueError:
        return f"a whole number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"


def shortened(text: str, most: int) -> str:
    """A text, or the beginning of one with more characters than that, which ends with a whole word or number."""
    return text if len(text) <= most else re.sub(r"(?<=[\s,])[^\s,]{1,24}$", "", text[: most - 3]) + "..."


class LoopError(Exception):
    """Base of every error that mdf_loop raises on purpose.

    Attributes
    ----------
    others : tuple of LoopError
        Other errors in the same source.
    results : Results, Dataset or None
        The complete runs, if the error ended trials or a sweep.
    """

    others: tuple[LoopError, ...] = ()
    results: Any = None

    def with_notes_of(self, error: BaseException) -> Self:
        """The same error, with the notes of the one that it takes the place of."""
        for note in getattr(error, "__notes__", ()):
            self.add_note(note)
        return self

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        return error_box(type(self).__name__, str(self), getattr(self, "__notes__", ()))


class ArgumentError(LoopError, ValueError):
    """A value handed to a loop is not what the loop can take."""


def unknown_name(what: str, name: str, names: Iterable[str]) -> ArgumentError:
    """The error for a name that is not there, with those that are close."""
    names = list(dict.fromkeys(names))
    last, ends = name.rpartition(".")[2], [full.rpartition(".")[2] for full in names]
    close = close_to(name, [*names, *ends], 3)
    near = [last, *(end for end in ends if end.lower() == last.lower()), *close]
    meant = dict.fromkeys(full for each in near for full, end in zip(names, ends, strict=True) if each in (end, full))
    asked = _looks_the_same(name, [*names, *ends]) or " or ".join(map(repr, [*meant][:3]))
    said = f"did you mean {asked}?" if asked else f"there are {', '.join(names) or 'none'}"
    return ArgumentError(f"{what} {name!r}; {said}")


class KindError(ArgumentError, TypeError):
    """A value has the wrong kind: text for a number, a float for a trip count."""


class MissingCapture(ArgumentError, NameError):
    """The body reads an outer name that was not given a value.

    Attributes
    ----------
    missing : tuple of str
        Those names.
    """

    missing: tuple[str, ...] = ()


class MissingOutput(LoopError, KeyError):
    """Results have no output of that name."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # a KeyError shows its text in quotation marks


class MalformedBody(LoopError, ValueError):
    """A body, model or file that cannot be read as a graph.

    Parameters
    ----------
    message : str
        What is wrong.
    path : tuple of str
        Names from the outermost graph down to the place, such as ``("main", "Loop_3", "body", "Add_1")``.
    """

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        self.path = tuple(name for name in path if name)
        super().__init__(f"{'/'.join(self.path)}: {message}" if self.path else message)


class FileError(LoopError, OSError):
    """A file that cannot be written.  An existing file is unchanged."""


class MissingFile(MalformedBody, FileError, FileNotFoundError):
    """A file that is to be read and is not there."""


@contextlib.contextmanager
def malformed(what: str, path: tuple[str, ...] = (), let: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Take whatever goes wrong while something is read for a sign that it is malformed.

    Parameters
    ----------
    what : str
        What was attempted, in words.
    path : tuple of str
        Names from the outermost graph down to what is read.
    let : tuple of exception classes
        What is let through; each :class:`LoopError` is.
    """
    passing: tuple[type[Exception], ...] = (LoopError, *let)
    try:
        yield
    except passing:
        raise
    except Exception as error:
        let_through(error)
        text = " ".join(str(error).split())
        raise MalformedBody(f"{what}: {type(error).__name__}: {shortened(text, LONGEST)}", path) from error


LONGEST = 400
"""Characters of another library's message that are repeated."""


def in_node(error: BaseException, node: str) -> None:
    """Say in which node of an MDF graph an error came up; ``error.mdf_node`` is that of the outermost graph."""
    error.mdf_node = node  # type: ignore[attr-defined]
    error.add_note(f"in MDF node {node!r}")


def hints_of(error: BaseException) -> list[str]:
    """What the notes of an error and its causes say besides where it came up."""
    hints = list[str]()
    while True:
        hints += [note for note in getattr(error, "__notes__", ()) if not note.startswith("in ")]
        if not isinstance(error.__cause__, LoopError):
            return list(dict.fromkeys(hints))
        error = error.__cause__


class Together:
    """Errors in parts of one thing: each part is looked at before the first error is raised, with the others in it."""

    def __init__(self) -> None:
        self.found: list[LoopError] = []

    def add(self, error: LoopError) -> None:
        """Take an error, and what came together with it."""
        self.found += [error, *error.others]

    def settle(self) -> None:
        """Raise the first error, if there is one.

        Raises
        ------
        LoopError
        """
        if self.found:
            first, *others = self.found
            first.others = tuple(others)
            raise first


class NotLowered(LoopError, NotImplementedError):
    """A scheduled MDF graph that cannot become a loop; the message names the node or condition, and the reason.

    Parameters
    ----------
    message : str
        Why.
    path : tuple of str
        The graph, and the node.
    """

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        self.path = tuple(name for name in path if name)
        super().__init__(f"{'/'.join(self.path)}: {message}" if self.path else message)


class UnknownNode(NotLowered, ValueError):
    """A condition names a node that the scheduled MDF graph does not have."""


class NeverEnds(MalformedBody):
    """Nodes of a scheduled MDF graph wait for each other, and its end for them."""


class UnsupportedOp(LoopError, NotImplementedError):
    """An operator, version or attribute that mdf_loop has no kernel for."""


class PartialResults(BaseException):
    """The results of a loop that ended early: a base class of the errors that end one.

    Attributes
    ----------
    iteration : int or None
        The number of complete iterations of the outermost loop.
    partial : tuple or None
        Its carried values after these iterations, then its collected values so far (stacked).  A value is None if there was
        not enough memory for it.
    outputs : dict or None
        The known outputs of a model by name; from :func:`mdf_loop.run` and the backends.
    results : Results or None
        The same as :class:`mdf_loop.models.results.Results`, with recorded values; from :func:`mdf_loop.run`.
    recorded : dict or None
        The recorded values so far.
    """

    iteration: int | None = None
    partial: tuple[Any, ...] | None = None
    outputs: dict[str, Any] | None = None
    results: Any = None
    recorded: dict[str, Any] | None = None

    def __init__(self, what: str) -> None:
        self.what = what
        self.path: tuple[str, ...] = ()
        self.progress: Any = None
        super().__init__(what)

    def within(self, place: str) -> None:
        """Put an enclosing place, such as "iteration 3 of Loop 'outer'", in front of the message."""
        self.path = (place, *self.path)
        self.args = (f"{', '.join(self.path)}: {self.what}",)

    def give_to(self, error: BaseException) -> None:
        """Make what is kept part of an exception from outside, which leaves as itself."""
        with contextlib.suppress(AttributeError, TypeError):  # it may have no room for attributes
            error.partial, error.iteration, error.outputs = self.partial, self.iteration, self.outputs  # type: ignore[attr-defined]
            error.results, error.recorded = self.results, self.recorded  # type: ignore[attr-defined]

    def passes(self, progress: Any) -> None:
        """Leave a loop, whose results so far become the partial ones unless another loop is around it."""
        self.within(progress.place())
        self.progress = progress


class IterationError(PartialResults, LoopError, RuntimeError):
    """Something failed while a body ran; the original error is its ``__cause__``.

    The results of the iterations before it are kept in ``.partial``.
    """


class CollectedError(IterationError, ValueError):
    """A collected value changed its shape or type between two iterations (ONNX forbids it)."""


class IterationLimit(PartialResults, LoopError, RuntimeError):
    """A loop did not end within ``options(max_iterations=...)`` iterations."""


class LoopTimeout(PartialResults, LoopError, TimeoutError):
    """A run did not end within ``options(timeout=...)`` seconds."""


class LoopStopped(PartialResults, LoopError, RuntimeError):
    """The function of ``options(progress=...)`` returned False."""


class LoopInterrupted(PartialResults, KeyboardInterrupt):
    """Ctrl-C while a loop ran.  It is a KeyboardInterrupt, so ``except Exception`` does not catch it."""


def let_through(error: BaseException) -> None:
    """Raise an exception again that is no failure of the work that it ended: the first line of each ``except Exception``.

    That is Ctrl-C, whatever else is no ``Exception``, the end that the user's options set, a warning that the user's filters
    make an error, and what a handler of a signal raised.  All of it leaves a run as itself, whatever was under way.
    """
    if is_from_outside(error) or isinstance(error, LoopTimeout | LoopStopped | LoopInterrupted | LoopWarning):
        raise error


def is_from_outside(error: BaseException) -> bool:
    """Whether an exception came from outside of the work that it struck.

    Python calls a handler with the number of the signal and the frame that it interrupts, which calls it, or calls the compiled
    code that does.  So an exception is a handler's if its traceback has a frame that was given these.  What a handler in C
    raises, and what ``PyThreadState_SetAsyncExc`` does, has no such frame: it is a failure of the work, unless it is no
    ``Exception``.  What the function of ``options(progress=...)`` raises is as little a failure of the work.
    """
    if isinstance(error, PartialResults):
        return False
    return not isinstance(error, Exception) or getattr(error, OF_CALLBACK, False) or _is_of_handler(error)


OF_CALLBACK = "_mdf_loop_of_callback"
"""Marks what a function of the user raised that is called from time to time while something runs."""


def keeps_results(error: BaseException) -> TypeGuard[PartialResults]:
    """Whether an exception has the attributes of :class:`PartialResults`: one from outside gets them on its way."""
    return isinstance(error, PartialResults) or (hasattr(error, "partial") and is_from_outside(error))


def _is_of_handler(error: BaseException) -> bool:
    callers: list[FrameType] = []
    here = error.__traceback__
    while here is not None:
        if _was_given(here.tb_frame, callers):
            return True
        callers.append(here.tb_frame)
        here = here.tb_next
    return False


def _was_given(frame: FrameType, callers: Sequence[FrameType]) -> bool:
    """Whether a function has a number and the frame of one of its callers among its arguments, as a handler of signals has."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)]
    given: list[Any] = []
    for name in names:
        value = frame.f_locals.get(name)
        given += value if type(value) is tuple else [value]
    pairs = itertools.pairwise(given)
    return any(isinstance(a, int) and isinstance(b, FrameType) and any(b is caller for caller in callers) for a, b in pairs)


class LoopWarning(UserWarning):
    """Category of every warning from mdf_loop."""


def warn_user(message: str) -> None:
    """Warn with :class:`LoopWarning`, pointing at the user's line rather than at library code."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, LoopWarning, stacklevel=level)


def hide_library(error: BaseException) -> None:
    """Leave the lines of the caller's code in the traceback of an error, and of its causes: those of the libraries are gone."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if found.__traceback__ is not None and _is_library(found.__traceback__):  # others were caught in the caller's code
            found.__traceback__ = _of_callers(found.__traceback__)
        found = found.__cause__ or found.__context__


@contextlib.contextmanager
def calling_callers() -> Iterator[None]:
    """Call a function of the caller's: what it raises shows their lines alone."""
    try:
        yield
    except Exception as error:
        error._mdf_loop_of_callers = True  # type: ignore[attr-defined]
        raise


def is_of_callers(error: BaseException) -> bool:
    """Whether a function of the caller's raised an exception, and not this package where that function called it."""
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    return hasattr(error, "_mdf_loop_of_callers") and _module(last) not in _LIBRARIES


def _of_callers(entry: TracebackType | None) -> TracebackType | None:
    """The entries of a traceback that are not of a library."""
    entries = list[TracebackType]()
    while entry is not None:
        entries += [] if _is_library(entry) else [entry]
        entry = entry.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_library(entry: TracebackType) -> bool:
    """Whether a line is of a library."""
    return _module(entry.tb_frame) in (*_LIBRARIES, "numpy", "scipy")


def _module(frame: FrameType) -> str:
    """The package that a line is of; those of programs that we write have no module."""
    name: str = frame.f_globals.get("__name__", "mdf_loop")
    return name.partition(".")[0]
