"""Which runs of a sweep come next: pieces that take about a second, or are as long as the caller says.

A piece that is done is kept, whatever happens next.  How long the next one is follows from the pace of the last one; runs that
are calls of machine code or of a model end by the clock as well, so that a piece may end before its last run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mdf_loop.sweeps.rows.rows_of_runs import Ran, Span

Asked = tuple[int, int] | tuple[int, int, float]
"""A piece to be run: its first run, the one after its last, and how long it may take if the clock decides."""

FIRST = 1024
"""Runs in a piece before anything is known of their pace: vectorised, they take hardly longer than one."""

SMALL = 1 << 16
"""Runs that are probably over in about a second: to cut them costs more than it gives, if nothing is reported meanwhile."""

SOON, LONG, SHORT = 0.1, 1.0, 0.01
"""Seconds of the first piece of what is watched, of the others, and of the shortest ones that threads get when little is left."""

FOR_EACH = 0.002
"""Seconds of a piece for each worker, where that is longer: a scheduler of a thousand has time for 500 pieces a second."""

FAR_AWAY = 0.5
"""Seconds of the shortest pieces where each costs a scheduler milliseconds."""

MORE, FAR = 32, 4
"""How many times as long as the last piece the next one may be; the same where that follows from two pieces."""

LARGEST = 1 << 20, 1 << 27
"""Runs of a piece at most, and bytes of what they give."""


class RunSource(Protocol):
    """The runs that are left: of a checkpoint that several jobs share, or of :class:`Uncut`."""

    @property
    def left(self) -> int:
        """How many they are."""

    def take(self, most: int, /) -> Span | None:
        """Some of them, in a row; None if there are no more."""

    def give_back(self, start: int, stop: int, /) -> None:
        """Some that were taken are left after all: the last of their piece."""


class Uncut:
    """Runs one after the other.

    Parameters
    ----------
    size : int
    fitted : callable, optional
        ``fitted(start, stop)`` is where a piece ends that shall end there or shortly before.
    start : int
        The first one.
    """

    def __init__(self, size: int, fitted: Callable[[int, int], int] = lambda _, stop: stop, start: int = 0) -> None:
        self.left, self._fitted = size, fitted
        self._spans = [(start, start + size)]

    def take(self, most: int) -> Span | None:
        """The next ones."""
        if not self._spans:
            return None
        start, stop = self._spans.pop()
        end = stop if stop - start <= most else self._fitted(start, start + most)
        self.left -= end - start
        if end < stop:
            self._spans.append((end, stop))
        return start, end

    def give_back(self, start: int, stop: int) -> None:
        """They come next."""
        self.left += stop - start
        if self._spans and self._spans[-1][0] == stop:
            stop = self._spans.pop()[1]
        self._spans.append((start, stop))


class Pieces:
    """Pieces of the runs that are left.

    Parameters
    ----------
    source : RunSource
    length : int, optional
        How many runs a piece has; the clock decides otherwise.
    trials : int
        How many runs one point has, which cost less to begin than points do.
    is_watched : bool
        Whether the first piece shall end soon however few runs there are.
    """

    def __init__(self, source: RunSource, length: int | None = None, trials: int = 1, is_watched: bool = True) -> None:
        self._source, self._given = source, length
        is_short = not is_watched and source.left <= SMALL
        self._length, self._first = (FIRST * min(trials, MORE), LONG) if is_short else (FIRST, SOON)
        self._count, self._seconds, self._long, self._most = 0, 0.0, LONG, self._length

    @property
    def is_paced(self) -> bool:
        """Whether it is known how many runs take long enough for a worker of a cluster."""
        return self._given is not None or self._seconds >= FAR_AWAY or min(self._length, self._most) <= self._count

    @property
    def seconds_left(self) -> float:
        """About how long one worker takes for the rest."""
        return self._source.left * self._seconds / max(self._count, 1)

    def take(self, workers: int = 1, shortest: float = SHORT) -> Asked | None:
        """The next piece for one of some workers, which takes so many seconds at least; None if there are no more."""
        self._long = max(LONG, FOR_EACH * workers)
        span = self._source.take(self._given or self._by_the_clock(workers, shortest))
        if span is None or self._given:
            return span
        return (*span, self._long if self._count else self._first)

    def took(self, asked: Asked | Span, ran: Ran) -> None:
        """Learn from a piece how long the next ones may be."""
        start, stop = ran.span
        if stop < asked[1]:
            self._source.give_back(stop, asked[1])
        if not ran.seconds:
            return  # what was there already says nothing of the pace
        count = stop - start
        self._most = max(min(MORE * count, LARGEST[0], LARGEST[1] * count // max(ran.bytes, 1)), 1)
        self._length = self._fitting(count, ran.seconds)
        self._count, self._seconds = count, ran.seconds

    def _fitting(self, count: int, seconds: float) -> int:
        """How many runs take about a second, or as long as many workers need.

        Runs that are vectorised have a time that any number of them takes.  Where that is long, a piece takes twice as long.
        """
        if seconds > 1.2 * self._long and self._count not in (0, count):
            each = (seconds - self._seconds) / (count - self._count)
            fixed = seconds - each * count
            if each <= 0 or fixed > self._long / 2:
                return int(min(fixed / max(each, 1e-9), FAR * max(count, self._count)))
        return int(self._long * count / max(seconds, 1e-9))

    def _by_the_clock(self, workers: int, seconds: float) -> int:
        """How many runs a worker takes: less towards the end, so that all end together."""
        length = max(min(self._length, self._most), 1)
        if workers == 1:
            return length
        part, shortest = -(-self._source.left // (2 * workers)), int(self._count * seconds / max(self._seconds, 1e-9))
        return max(min(length, max(part, shortest)), 1)
