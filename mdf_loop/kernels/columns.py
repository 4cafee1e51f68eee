"""Windows as the columns of matrices, so that a convolution is a few matrix products.

A column holds what one window sees; the columns stand in the order of the output, and a product with the
filters as rows is the output as it is needed.  Rows of such a matrix are copied in long runs: those of
the output, or, where the windows lie side by side, the whole image at once.  Then the padding between
two lines of the image gives columns too, which are left out at the end.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.kernels.windows import Windows

Index = tuple[Any, ...]

BLOCK = 1 << 19
"""Bytes of columns made at a time: they should still be in the cache when they are multiplied."""

FEW_FILTERS = 32
"""Up to so many filters a product takes less time than making the columns, and a few more of them do not matter."""


@dataclass(frozen=True)
class Columns:
    """Where the columns of one layout come from, and where the products go.

    Attributes
    ----------
    image : tuple of int
        Shape of the padded input.
    inside : tuple of slice
        Where the input lies in it.
    view, strides : tuple of int
        All columns as a view of it: samples, groups, channels, the axes of a filter, places.
    seen : int
        What one window sees: rows of each matrix.
    blocks : (tuple of slice, tuple of slice, tuple of (index, slice))
        What is taken together: samples, groups, and places, which are an index into what the view has for a sample and
        group, and a slice of the products.
    product : tuple of int
        Shape in which the products are written: samples, groups, filters, places and what is left out.
    wide : tuple of int
        The same as an image.
    out : tuple of slice
        What of that is the output.
    """

    image: tuple[int, ...]
    inside: Index
    view: tuple[int, ...]
    strides: tuple[int, ...]
    seen: int
    blocks: tuple[tuple[slice, ...], tuple[slice, ...], tuple[tuple[Index, slice], ...]]
    product: tuple[int, ...]
    wide: tuple[int, ...]
    out: Index

    def products(self, x: np.ndarray, filters: np.ndarray) -> np.ndarray:
        """Filters of shape (groups, filters of each, elements of each) times the windows: (N, M, ...)."""
        image = self._padded(x)
        view = np.ndarray(self.view, image.dtype, image, 0, self.strides)
        y = np.empty_like(x, x.dtype if x.dtype == filters.dtype else np.result_type(x, filters), shape=self.product)
        for samples, groups, (places, products) in itertools.product(*self.blocks):
            part = view[(samples, groups, *places)]
            matrices = part.reshape(*part.shape[:2], self.seen, -1)
            np.matmul(filters[groups], matrices, y[samples, groups, :, products])
        return y.reshape(self.wide)[self.out]

    def _padded(self, x: np.ndarray) -> np.ndarray:
        if x.shape == self.image:
            return np.ascontiguousarray(x)
        image = np.zeros_like(x, shape=self.image)
        image[self.inside] = x
        return image


@functools.lru_cache(maxsize=256)
def columns(where: Windows, shape: tuple[int, ...], group: int, filters: int, itemsize: int) -> Columns:
    """Lay out the columns of an input of a shape (N, C, ...), for some filters in each group.

    There must be at least one sample, channel and window.
    """
    n, channels, spatial = shape[0], shape[1], shape[2:]
    sizes = [size + begin + end for size, (begin, end) in zip(spatial, where.pads, strict=True)]
    steps = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    taps = [step * d for step, d in zip(steps, where.dilations, strict=True)]
    if filters <= FEW_FILTERS and set(where.strides) == {1}:
        wide = (where.out[0], *sizes[1:])
        places, moves = (1 + sum((o - 1) * step for o, step in zip(where.out, steps, strict=True)),), [1]
    else:
        wide = places = where.out
        moves = [step * s for step, s in zip(steps, where.strides, strict=True)]
    channels, size = channels // group, math.prod(sizes)  # of each group
    seen, each = channels * math.prod(where.kernel), math.prod(places[1:])
    # A product with many filters takes so long that the columns need not be in the cache.
    some_places = _fitting(seen * each * itemsize, places[0]) if filters <= FEW_FILTERS else places[0]
    some_groups = _fitting(seen * each * some_places * itemsize, group)
    some_samples = _fitting(seen * each * some_places * some_groups * itemsize, n)
    front = (slice(None),) * (1 + len(sizes))
    return Columns(
        image=(n, channels * group, *sizes),
        inside=(..., *(slice(begin, begin + length) for length, (begin, _) in zip(spatial, where.pads, strict=True))),
        view=(n, group, channels, *where.kernel, *places),
        strides=tuple(itemsize * step for step in (channels * group * size, channels * size, size, *taps, *moves)),
        seen=seen,
        blocks=(
            tuple(_cut(n, some_samples)),
            tuple(_cut(group, some_groups)),
            tuple(((*front, cut), slice(cut.start * each, cut.stop * each)) for cut in _cut(places[0], some_places)),
        ),
        product=(n, group, filters, math.prod(wide)),
        wide=(n, group * filters, *wide),
        out=(..., *map(slice, where.out)),
    )


def _fitting(size: int, most: int) -> int:
    """How many things of a size go into a block; at least one."""
    return min(max(BLOCK // size, 1), most)


def _cut(length: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, length)) for first in range(0, length, size))
