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
    blocks : tuple of (index, shape)
        Samples and groups to be taken together, and the shape of their matrices.
    product : tuple of int
        Shape in which the products are written: samples, groups, filters, places and what is left out.
    used : tuple of slice
        The places in it.
    wide : tuple of int
        The same as an image.
    out : tuple of slice
        What of that is the output.
    """

    image: tuple[int, ...]
    inside: Index
    view: tuple[int, ...]
    strides: tuple[int, ...]
    blocks: tuple[tuple[Index, tuple[int, ...]], ...]
    product: tuple[int, ...]
    used: Index
    wide: tuple[int, ...]
    out: Index

    def products(self, x: np.ndarray, filters: np.ndarray) -> np.ndarray:
        """Filters of shape (groups, filters of each, elements of each) times the windows: (N, M, ...)."""
        image = self._padded(x)
        view = np.ndarray(self.view, image.dtype, image, 0, self.strides)
        y = np.empty(self.product, x.dtype if x.dtype == filters.dtype else np.result_type(x, filters))
        used = y[self.used]
        for where, shape in self.blocks:
            np.matmul(filters[where[1]], view[where].reshape(shape), used[where])
        return y.reshape(self.wide)[self.out]

    def _padded(self, x: np.ndarray) -> np.ndarray:
        if x.shape == self.image:
            return np.ascontiguousarray(x)
        image = np.zeros(self.image, x.dtype)
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
    seen, size = channels // group, math.prod(sizes)
    return Columns(
        image=(n, channels, *sizes),
        inside=(..., *(slice(begin, begin + length) for length, (begin, _) in zip(spatial, where.pads, strict=True))),
        view=(n, group, seen, *where.kernel, *places),
        strides=tuple(itemsize * step for step in (channels * size, seen * size, size, *taps, *moves)),
        blocks=tuple(_blocks(n, group, (seen * math.prod(where.kernel), math.prod(places)), itemsize)),
        product=(n, group, filters, math.prod(wide)),
        used=(..., slice(math.prod(places))),
        wide=(n, group * filters, *wide),
        out=(..., *map(slice, where.out)),
    )


def _blocks(samples: int, groups: int, matrix: tuple[int, int], itemsize: int) -> Iterator[tuple[Index, tuple[int, ...]]]:
    """As many groups as go into a block; where all do, as many samples."""
    size = math.prod(matrix) * itemsize
    some_samples, some_groups = max(BLOCK // (size * groups), 1), max(BLOCK // size, 1)
    for sample, group in itertools.product(range(0, samples, some_samples), range(0, groups, some_groups)):
        ends = min(sample + some_samples, samples), min(group + some_groups, groups)
        yield (slice(sample, ends[0]), slice(group, ends[1])), (ends[0] - sample, ends[1] - group, *matrix)
