"""How far a run has come, reported while it runs: to a function, to a bar in a terminal or notebook, or to the log.

Nothing here is done in an iteration but counting down; the clock is looked at some twenty times in a second.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mdf_loop.errors import OF_CALLBACK, LoopStopped

log = logging.getLogger("mdf_loop.progress")

INTERVAL = 0.1
"""Seconds from one report to the next."""

LOOKS = 2
"""How often the clock is looked at in that time, about."""

ENDLESS = 1 << 53
"""A trip count from here on is a way to say that there is none."""


@dataclass(frozen=True)
class Report:
    """The progress of a run, a sweep or a fit.

    Attributes
    ----------
    name : str
        The outermost loop, as in messages; or the model of a sweep.
    iteration : int
        The number of complete iterations of this loop, or of complete runs of the sweep.
    total : int or None
        The maximum number; None if it is not known.
    seconds : float
        The time since the run began.
    unit : str
        The unit of the count: ``"iterations"``, ``"runs"``, or ``"simulations"`` of a fit.
    before : int
        The number of them that an earlier call completed (from a checkpoint).
    """

    name: str
    iteration: int
    total: int | None
    seconds: float
    unit: str = "iterations"
    before: int = 0

    @property
    def rate(self) -> float:
        """Iterations, or runs, in a second."""
        return (self.iteration - self.before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float | None:
        """About how many seconds are left, at most; None where it is not known."""
        return (self.total - self.iteration) / self.rate if self.total is not None and self.rate else None

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        rate = f"{self.rate:,.0f}" if self.rate >= 1000 else f"{self.rate:.4g}"
        left = "" if self.left is None else f", {_time(self.left)} left"
        return f"{self.name}: {self.iteration}{of} {self.unit}, {rate} a second{left}"


class Listener(Protocol):
    """Called with reports; one that answers False stops the run."""

    def __call__(self, report: Report, /) -> Any:
        """Take a report."""


class Watch:
    """Counts what passes and reports now and then.

    Parameters
    ----------
    listener : callable
    position : callable
        Gives the name, the iteration and the total of what runs; None where nothing does yet.
    """

    def __init__(self, listener: Listener, position: Callable[[], tuple[str, int, int | None] | None]) -> None:
        self.listener, self.position = listener, position
        self.started = self.looked = time.monotonic()
        self.reported = self.started
        self.countdown = self.skip = 1

    def passed(self) -> None:
        """Something has passed: an iteration, a block of them, a step.

        Raises
        ------
        LoopStopped
            The listener wants that.
        """
        self.countdown -= 1
        if self.countdown <= 0:
            self.look()

    def look(self) -> None:
        """Look at the clock, report if it is time, and say how much may pass until the next look.

        Raises
        ------
        LoopStopped
            The listener wants that.
        """
        now = time.monotonic()
        often = INTERVAL / LOOKS / max(now - self.looked, 1e-9)
        self.skip = max(1, int(min(self.skip * often, 2 * self.skip)))
        self.countdown, self.looked = self.skip, now
        self.report_if_due()

    def report_if_due(self) -> None:
        """Report if it is time: also after a block of iterations, in whose time those between two looks say nothing.

        Raises
        ------
        LoopStopped
            The listener wants that.
        """
        now = time.monotonic()
        if now - self.reported >= INTERVAL:
            self.reported = now
            self._report(now)

    def _report(self, now: float) -> None:
        found = self.position()
        if found is None:
            return
        name, iteration, total = found
        total = None if total is None or total >= ENDLESS else total
        _tell(self.listener, Report(name, iteration, total, now - self.started))


class Tally:
    """Counts the runs of a sweep that are done, and reports each time.

    Parameters
    ----------
    listener : callable or None
    name : str
    total : int
    before : int
        How many runs another call has done.
    unit : str
        What is counted.
    """

    def __init__(self, listener: Listener | None, name: str, total: int, before: int = 0, unit: str = "runs") -> None:
        self._listener, self._name, self._total, self._unit = listener, name, total, unit
        self._done = self._before = before
        self._started = time.monotonic()
        if isinstance(listener, Bar):
            self(0)  # the bar is there before the first run is done

    def __call__(self, more: int) -> None:
        """So many more runs are done.

        Raises
        ------
        LoopStopped
            The listener wants that.
        """
        self._done += more
        if self._listener is not None:
            seconds = time.monotonic() - self._started
            _tell(self._listener, Report(self._name, self._done, self._total, seconds, self._unit, self._before))


def _tell(listener: Listener, report: Report) -> None:
    try:
        answer = listener(report)
    except Exception as error:
        setattr(error, OF_CALLBACK, True)
        raise
    if answer is False:
        raise LoopStopped("the function of options(progress=...) stops it here")


class Bar:
    """A bar in a terminal (by rich) or in a notebook (by tqdm; a line without it); lines in the log anywhere else.

    Parameters
    ----------
    after : float
        Seconds before which there is none.
    """

    def __init__(self, after: float = 0.0) -> None:
        self.after = after
        self._show: Callable[[Report], None] | None = None
        self._stop: Callable[[], None] = lambda: None

    def __call__(self, report: Report) -> None:
        """Show a report."""
        if report.seconds < self.after:
            return
        if self._show is None:
            self._show, self._stop = _display(report)
        self._show(report)

    def close(self) -> None:
        """Take the bar away."""
        self._stop()
        self._show, self._stop = None, lambda: None


def _display(report: Report) -> tuple[Callable[[Report], None], Callable[[], None]]:
    if is_notebook():
        try:
            return _in_notebook(report)
        except ImportError:
            return _in_cell()
    return _in_terminal(report) if sys.stderr is not None and sys.stderr.isatty() else _in_log(report)


def is_notebook() -> bool:
    """Whether a kernel runs this: IPython is there, and its shell has one.  To have imported ipykernel is not enough."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask is not None and hasattr(ask(), "kernel")


def _in_terminal(report: Report) -> tuple[Callable[[Report], None], Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    shown = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    task = shown.add_task(report.name, total=report.total, said="")
    shown.start()

    def show(report: Report) -> None:
        shown.update(
            task,
            description=report.name,
            completed=report.iteration,
            total=report.total,
            said=str(report).partition(": ")[2],
            refresh=True,
        )

    return show, shown.stop


def _in_notebook(report: Report) -> tuple[Callable[[Report], None], Callable[[], None]]:
    with warnings.catch_warnings():  # where ipywidgets is not installed it draws with letters, and says so each time
        from tqdm import TqdmWarning  # type: ignore[import-untyped]

        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

    bar = tqdm(total=report.total, desc=report.name, unit=f" {report.unit}", initial=report.before, leave=False)

    def show(report: Report) -> None:
        bar.total = report.total
        bar.update(report.iteration - bar.n)

    return show, bar.close


def _in_cell() -> tuple[Callable[[Report], None], Callable[[], None]]:
    """A line of text below the cell of a notebook."""
    from IPython.display import display  # type: ignore[import-not-found]

    line, shown = display({"text/plain": ""}, raw=True, display_id=True), -INTERVAL

    def show(report: Report) -> None:
        nonlocal shown
        if report.seconds - shown >= INTERVAL:
            shown = report.seconds
            line.update({"text/plain": str(report)}, raw=True)

    return show, lambda: line.update({"text/plain": ""}, raw=True)


def _in_log(_: Report) -> tuple[Callable[[Report], None], Callable[[], None]]:
    return lambda report: log.info("%s", report), lambda: None


def _time(seconds: float) -> str:
    """A time in words: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
