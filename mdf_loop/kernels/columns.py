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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.kernels.windows import Windows

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
    view : tuple of int
        Shape of all columns: samples, groups, channels, the axes of a filter, places.
    strides : tuple of int
        Their strides, in elements of the padded input.
    blocks : tuple of (slice, slice)
        Samples and groups to be taken together.
    matrix : (int, int)
        Rows and columns of each matrix.
    wide : tuple of int
        Shape in which the products are written.
    out : tuple of slice
        What of that is the output.
    """

    image: tuple[int, ...]
    inside: tuple[slice, ...]
    view: tuple[int, ...]
    strides: tuple[int, ...]
    blocks: tuple[tuple[slice, slice], ...]
    matrix: tuple[int, int]
    wide: tuple[int, ...]
    out: tuple[slice, ...]

    def products(self, x: np.ndarray, filters: np.ndarray) -> np.ndarray:
        """Filters of shape (groups, filters of each, elements of each) times the windows: (N, M, ...)."""
        image = self._padded(x)
        strides = [image.itemsize * step for step in self.strides]
        view = np.ndarray(self.view, image.dtype, image, 0, strides)
        n, groups, each = self.view[0], *filters.shape[:2]
        y = np.empty((n, groups, each, math.prod(self.wide)), np.result_type(x, filters))
        used = y[..., : self.matrix[1]]
        for samples, some in self.blocks:
            part = view[samples, some]
            np.matmul(filters[some], part.reshape(*part.shape[:2], *self.matrix), used[samples, some])
        return y.reshape(n, groups * each, *self.wide)[self.out]

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
    matrix = (channels // group * math.prod(where.kernel), math.prod(places))
    size = math.prod(sizes)
    return Columns(
        image=(n, channels, *sizes),
        inside=(..., *(slice(begin, begin + length) for length, (begin, _) in zip(spatial, where.pads, strict=True))),
        view=(n, group, channels // group, *where.kernel, *places),
        strides=(channels * size, channels // group * size, size, *taps, *moves),
        blocks=tuple(_blocks(n, group, math.prod(matrix) * itemsize)),
        matrix=matrix,
        wide=wide,
        out=(..., *map(slice, where.out)),
    )


def _blocks(samples: int, groups: int, size: int) -> Sequence[tuple[slice, slice]]:
    """As many groups as go into a block; where all do, as many samples."""
    of_groups = min(groups, max(BLOCK // size, 1))
    of_samples = max(BLOCK // (size * groups), 1)
    return list(itertools.product(_cut(samples, of_samples), _cut(groups, of_groups)))


def _cut(length: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, length)) for first in range(0, length, size)]
