"""Many runs of one program, where it is machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def run_many(
    call: Callable[..., Any],
    given: Sequence[Sequence[Any]],
    which: np.ndarray,
    seeds: Any,
    pause: Callable[[], None],
    share: Callable[[int, Callable[[int, int], None]], int],
) -> list[Any] | None:
    """The results of many runs of a program, each with a row for each; None if each has to be called by itself.

    See :func:`mdf_loop.backends.llvm.many_runs.run_many`.
    """
    from mdf_loop.backends.llvm import many_runs

    return many_runs.run_many(call, given, which, seeds, pause, share) if many_runs.can_run_many(call) else None


def columns_of(
    call: Callable[..., Any],
    values: Sequence[Any],
    places: Sequence[Sequence[int]],
    wanted: Sequence[int],
    times: int,
    are_known: bool = True,
) -> Any:
    """A program whose arguments come as columns; None if each run has to be called by itself, or has no stream of our own.

    With ``are_known`` the lengths of its results are known before it runs, or there is none.

    See :class:`mdf_loop.backends.llvm.many_runs.RunColumns`.
    """
    from mdf_loop.backends.llvm import many_runs

    if not many_runs.can_run_many(call, are_known):
        return None
    return many_runs.RunColumns(call, values, places, wanted, times)
