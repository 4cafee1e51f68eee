"""Recurrences with an idiom, run for a block of iterations in one call of numpy or scipy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from mdf_loop.analysis.idioms import Accumulate, Building, Filter, Idiom
from mdf_loop.execute.block import Batch
from mdf_loop.execute.histories import History

WIDEST = 16
"""Elements of a row up to which a filter is run by lfilter (4.4 ns each), to the last bit."""

TOGETHER = 16
"""Iterations of a filter of wider rows that are one product of matrices (1 to 4 ns an element)."""

NARROW = 100
"""Elements of a row up to which accumulate (3 ns each) is faster than one call of the ufunc."""


class DoesNotFit(Exception):
    """The values are not what the idiom is for; the recurrence has to be stepped."""


def run_idiom(idiom: Idiom, batch: Batch, start: Any) -> None:
    """Put the history of a recurrence into the batch, or for a growing sequence what it is built from.

    Raises
    ------
    DoesNotFit
        Nothing was changed.
    """
    if isinstance(idiom, Accumulate):
        _accumulate(idiom, batch, start)
    elif isinstance(idiom, Filter):
        _filter(idiom, batch, start)
    elif isinstance(idiom, Building):
        _check_building(idiom, batch, start)


def _values(idiom: Idiom, batch: Batch, start: Any, kinds: str) -> np.ndarray:
    """What comes in, stacked, in a shape that broadcasts to that of the recurrence."""
    if not isinstance(start, np.ndarray | np.generic) or start.dtype.kind not in kinds or start.dtype.itemsize == 2:
        raise DoesNotFit
    if batch.calls.type(start).is_array:
        raise DoesNotFit  # what comes out are scalars
    if batch.is_stacked(idiom.value):
        history = batch.histories[idiom.value]
        if history.type.shape is None or history.type.dtype != start.dtype or history.type.weak:
            raise DoesNotFit
        rows = history.stacked()
        shape = rows.shape[1:]
        rows = rows.reshape(len(rows), *(1,) * (start.ndim - len(shape)), *shape)
    else:
        rows = batch.single(idiom.value)
        shape = np.shape(rows)
        if not isinstance(rows, np.ndarray | np.generic) or rows.dtype != start.dtype:
            raise DoesNotFit
    if np.broadcast_shapes(shape, start.shape) != start.shape:
        raise DoesNotFit
    return rows


def _accumulate(idiom: Accumulate, batch: Batch, start: Any) -> None:
    rows = _values(idiom, batch, start, "b" if idiom.ufunc.startswith("logical") else "fiu")
    steps = np.empty((batch.length + 1, *start.shape), start.dtype)
    steps[0] = start
    ufunc = getattr(np, idiom.ufunc)
    if start.size < NARROW:
        steps[1:] = rows
        steps = ufunc.accumulate(steps, axis=0, dtype=steps.dtype)
    else:
        _row_by_row(ufunc, list(steps), list(rows) if batch.is_stacked(idiom.value) else itertools.repeat(rows))
    _put(idiom, batch, steps)


def _row_by_row(ufunc: np.ufunc, steps: list[np.ndarray], rows: Iterable[Any]) -> None:
    """What accumulate does, which goes down wide rows column by column and takes long."""
    for before, value, row in zip(steps, rows, steps[1:], strict=False):
        ufunc(before, value, out=row)


def _filter(idiom: Filter, batch: Batch, start: Any) -> None:
    rows = _values(idiom, batch, start, "f")
    factor = batch.single(idiom.coefficient)
    if not isinstance(factor, np.ndarray | np.generic) or factor.dtype != start.dtype:
        raise DoesNotFit
    if factor.size != 1 or factor.ndim > start.ndim:
        raise DoesNotFit
    steps = np.empty((batch.length + 1, *start.shape), start.dtype)
    steps[0] = start
    if start.size > WIDEST:
        _by_products(steps, np.broadcast_to(rows, (batch.length, *start.shape)), factor.item())
    else:
        _by_lfilter(steps, rows, factor)
    _put(idiom, batch, steps)


def _by_products(steps: np.ndarray, rows: np.ndarray, factor: float) -> None:
    """Some iterations at a time: each value is a sum of powers of the factor times what came in since the last ones.

    With a factor of at most 1 in size no term weighs more than in the loop, so the error is within some times that of the
    loop.  Beyond it terms grow that cancel out in the loop, and every digit may be lost.

    A value that is not finite would reach the iterations before it too, but it also stays to the end, and is seen there.
    """
    if not abs(factor) <= 1:
        raise DoesNotFit
    powers = lower_powers(factor, steps.dtype)
    buffer = np.empty((TOGETHER + 1, *steps.shape[1:]), steps.dtype)
    for first in range(0, len(rows), TOGETHER):
        n = min(TOGETHER, len(rows) - first)
        buffer[0], buffer[1 : n + 1] = steps[first], rows[first : first + n]
        given, out = buffer[: n + 1].reshape(n + 1, -1), steps[first + 1 : first + n + 1].reshape(n, -1)
        powers[:n, : n + 1].dot(given, out)
    if not (np.isfinite(steps[-1]).all() and np.isfinite(powers).all()):
        raise DoesNotFit


@functools.lru_cache(64)
def lower_powers(factor: float, dtype: np.dtype) -> np.ndarray:
    """The matrix that makes the values of some iterations out of the one before them and what comes in.

    >>> lower_powers(0.5, np.dtype(float))[:3, :4]
    array([[0.5  , 1.   , 0.   , 0.   ],
           [0.25 , 0.5  , 1.   , 0.   ],
           [0.125, 0.25 , 0.5  , 1.   ]])
    """
    back = np.arange(1, TOGETHER + 1)[:, None] - np.arange(TOGETHER + 1)
    with np.errstate(all="ignore"):
        return np.tril(np.float64(factor) ** np.maximum(back, 0), 1).astype(dtype)


def _by_lfilter(steps: np.ndarray, rows: Any, factor: Any) -> None:
    """All iterations in one call of scipy, which takes the same steps in the same order."""
    if not np.all(factor > 0) or not filters_exactly(steps.dtype.char):
        raise DoesNotFit
    steps[1:] = rows
    if not np.isfinite(steps).all() or not np.isfinite(factor).all() or (np.signbit(steps) & (steps == 0)).any():
        raise DoesNotFit  # lfilter also adds 0 * x, which makes NaN of infinity and 0 of -0
    from scipy.signal import lfilter

    steps[1:], _ = lfilter([1.0], [1.0, -factor.item()], steps[1:], axis=0, zi=(steps[:1] * factor).astype(steps.dtype))


def _put(idiom: Idiom, batch: Batch, steps: np.ndarray) -> None:
    batch.histories[idiom.name] = History.of_array(steps[:-1])
    batch.histories[idiom.output] = History.of_array(steps[1:])


def _check_building(idiom: Building, batch: Batch, start: Any) -> None:
    if not isinstance(start, list) or not batch.is_stacked(idiom.value):
        raise DoesNotFit
    type = batch.histories[idiom.value].type
    if type.dtype is None or type.weak or any(getattr(item, "dtype", None) != type.dtype for item in start[:1]):
        raise DoesNotFit


def built(idiom: Building, batch: Batch, start: Any) -> list[Any]:
    """A growing sequence after the last iteration of the batch."""
    rows = batch.histories[idiom.value].stacked().copy()  # nobody else's memory
    return [*start, *rows]


@functools.cache
def filters_exactly(char: str) -> bool:
    """Whether scipy is there, and its filter takes the same steps in the same order as ``y * a + x``.

    A build of scipy that fuses the multiplication with the addition would round differently.
    """
    try:
        from scipy.signal import lfilter
    except ImportError:
        return False
    rng = np.random.default_rng(0)
    dtype = np.dtype(char)
    x, factor, y = rng.standard_normal(999).astype(dtype), dtype.type(0.7310585786300049), dtype.type(0.1)
    found, _ = lfilter([1.0], [1.0, -factor.item()], x, zi=np.array([y * factor], dtype))
    for value, filtered in zip(x, found, strict=True):
        y = y * factor + value
        if y != filtered:
            return False
    return found.dtype == dtype
