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
) -> list[np.ndarray] | None:
    """The results of many runs of a program, each as one array; None if each has to be called by itself.

    See :func:`mdf_loop.backends.llvm.many_runs.run_many`.
    """
    from mdf_loop.backends.llvm import many_runs

    return many_runs.run_many(call, given, which, seeds, pause, share) if many_runs.can_run_many(call) else None


def columns_of(
    call: Callable[..., Any], values: Sequence[Any], places: Sequence[Sequence[int]], wanted: Sequence[int], times: int
) -> Any:
    """A program whose arguments come as columns; None if each run has to be called by itself, or has no stream of our own.

    See :class:`mdf_loop.backends.llvm.many_runs.RunColumns`.
    """
    from mdf_loop.backends.llvm import many_runs

    return many_runs.RunColumns(call, values, places, wanted, times) if many_runs.can_run_many(call) else None
