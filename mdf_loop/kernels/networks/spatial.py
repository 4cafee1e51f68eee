"""Rearranging images: DepthToSpace, SpaceToDepth, Col2Im, and AffineGrid, which says where to look for pixels."""

from __future__ import annotations

import itertools
import math

import numpy as np

from mdf_loop.kernels.arrays.axes import numbers, zero
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.ops.batching import by_step, folding
from mdf_loop.ops.registry import kernel, say


@kernel("DepthToSpace", since=11, batch=by_step)
def depth_to_space(input, *, blocksize, mode="DCR"):
    """Channels spread out into blocks of pixels; the block is the slow (DCR) or the fast (CRD) part of the channels."""
    n, c, h, w = input.shape
    depth, rest = divmod(c, blocksize * blocksize)
    if rest:
        raise ValueError(f"{c} channels cannot be spread over blocks of {blocksize} by {blocksize} pixels")
    if _block_first(mode):
        blocks = input.reshape(n, blocksize, blocksize, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = input.reshape(n, depth, blocksize, blocksize, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, depth, h * blocksize, w * blocksize)


@kernel("DepthToSpace", since=1, batch=by_step)
def depth_to_space_1(input, *, blocksize):
    """Channels spread out into blocks of pixels."""
    return depth_to_space(input, blocksize=blocksize)


@kernel("SpaceToDepth", since=28, batch=by_step)
def space_to_depth(input, *, blocksize, mode="DCR"):
    """Blocks of pixels gathered into channels; the block is the slow (DCR) or the fast (CRD) part of the channels."""
    n, c, h, w = input.shape
    if h % blocksize or w % blocksize:
        raise ValueError(f"an image of {h} by {w} pixels has no whole blocks of {blocksize} by {blocksize}")
    blocks = input.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if _block_first(mode) else (0, 1, 3, 5, 2, 4)
    return blocks.transpose(order).reshape(n, c * blocksize * blocksize, h // blocksize, w // blocksize)


@kernel("SpaceToDepth", since=1, batch=by_step)
def space_to_depth_1(input, *, blocksize):
    """Blocks of pixels gathered into channels."""
    return space_to_depth(input, blocksize=blocksize)


for _op in ("DepthToSpace", "SpaceToDepth"):
    say(_op, traced=True)


def _block_first(mode: str) -> bool:
    if mode not in ("DCR", "CRD"):
        raise ValueError(f"mode must be DCR or CRD; got {mode!r}")
    return mode == "DCR"


@kernel("Col2Im", since=18, batch=folding())
def col2im(input, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    """An image put together from columns that are its blocks; where blocks overlap, their elements are added."""
    image, block = numbers(image_shape), numbers(block_shape)
    rank = len(image)
    dilations, strides, pads = dilations or (1,) * rank, strides or (1,) * rank, pads or (0,) * 2 * rank
    if not len(block) == len(dilations) == len(strides) == len(pads) // 2 == rank:
        raise ValueError(f"image_shape, block_shape, dilations, strides and pads must all be for {rank} axes")
    padded = [n + before + after for n, before, after in zip(image, pads, pads[rank:], strict=False)]
    counts = [(n - d * (b - 1) - 1) // s + 1 for n, d, b, s in zip(padded, dilations, block, strides, strict=True)]
    if min(counts) < 1:
        raise ValueError(
            f"blocks of {block} do not fit into an image of {image} with pads {list(pads)} and dilations {list(dilations)}"
        )
    samples, rows, columns = input.shape
    channels, rest = divmod(rows, math.prod(block))
    if rest or columns != math.prod(counts):
        raise ValueError(f"input must be [N, C * {math.prod(block)}, {math.prod(counts)}]; got {list(input.shape)}")
    parts = input.reshape(samples, channels, *block, *counts)
    out = np.full_like(input, zero(input.dtype), order="C", shape=shape_for((samples, channels, *padded), input.itemsize))
    for offset in itertools.product(*map(range, block)):
        starts = [o * d for o, d in zip(offset, dilations, strict=True)]
        where = tuple(slice(a, a + s * (n - 1) + 1, s) for a, s, n in zip(starts, strides, counts, strict=True))
        out[(..., *where)] += parts[(slice(None), slice(None), *offset)]
    return out[(..., *(slice(before, before + n) for before, n in zip(pads, image, strict=False)))]


@kernel("AffineGrid", since=20)
def affine_grid(theta, size, *, align_corners=0):
    """For each pixel of an image the place that an affine map sends it to, in coordinates from -1 to 1."""
    samples, _, *lengths = shape_for(numbers(size), theta.itemsize)
    if theta.shape != (samples, len(lengths), len(lengths) + 1):
        expected = [samples, len(lengths), len(lengths) + 1]
        raise ValueError(f"for {len(lengths)} axes and {samples} samples, theta must be {expected}; got {list(theta.shape)}")
    if theta.itemsize < 4:
        return affine_grid(theta.astype(np.float32), size, align_corners=align_corners).astype(theta.dtype)
    axes = [_centres(n, align_corners).astype(theta.dtype) for n in lengths]
    # x is the last axis of the image and comes first in the matrices; behind all comes the 1 of the shift.
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(lengths, theta.dtype)], -1)
    grid = places.reshape(-1, len(lengths) + 1) @ theta.mT
    return grid.reshape(samples, *lengths, len(lengths))


def _centres(count: int, align_corners: int) -> np.ndarray:
    """Where the centres of so many pixels lie if their outer centres, or their outer edges, are -1 and 1."""
    if not align_corners:
        return (2 * np.arange(count) + 1) / count - 1
    return np.linspace(-1, 1, count) if count > 1 else np.zeros(count)
