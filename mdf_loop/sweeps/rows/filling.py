"""The results of a sweep filled in as they come, told, and kept when something ends the sweep early."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

from mdf_loop.errors import LoopInterrupted, PartialResults
from mdf_loop.options import Run, part_of
from mdf_loop.progress import Tally
from mdf_loop.sweeps.rows.rows_of_runs import Span


@contextlib.contextmanager
def keeping(results: Callable[[], Any]) -> Iterator[None]:
    """Give what is complete to the error that ends it early, as ``.results``."""
    try:
        yield
    except BaseException as error:  # a signal handler may raise anything
        is_plain = isinstance(error, KeyboardInterrupt) and not isinstance(error, PartialResults)
        ended = LoopInterrupted("interrupted") if is_plain else error
        with contextlib.suppress(AttributeError):
            ended.results = results()  # type: ignore[attr-defined]
        if ended is not error:
            raise ended from error
        raise


class Filled(Protocol):
    """What takes the runs that are done."""

    def add(self, start: int, chunk: Any, count: int, /) -> None:
        """Take some of them, from one on."""


def fill(table: Filled, found: Generator[tuple[Span, Any]], run: Run, tally: Tally | None = None) -> int:
    """Fill in chunks as they come, and tell how many runs are done.

    Parameters
    ----------
    table : Filled
    found : generator
        Closed in the end, however it ends.
    run : Run
        Which everything is a part of.
    tally : Tally, optional
        Who is told.

    Returns
    -------
    int
        How many runs came.
    """
    run.watch, done = None, 0  # runs are counted, not the iterations in them
    with contextlib.closing(found), part_of(run):
        for (start, stop), chunk in found:
            table.add(start, chunk, stop - start)
            done += stop - start
            if tally is not None:
                tally(stop - start)
    return done
