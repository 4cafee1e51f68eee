"""Convolutions inside an emitted function: the windows are laid out in memory that is used again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.arrays import fits_a_buffer
from mdf_loop.execute.kinds import ARRAY, Kind
from mdf_loop.execute.reductions import Written
from mdf_loop.execute.scalars import Operand
from mdf_loop.ir import Node
from mdf_loop.kernels.columns import Columns, columns
from mdf_loop.kernels.windows import windows

LAYOUT = ("auto_pad", "dilations", "pads", "strides")


class Convolving:
    """Convolves one image after the other, of one shape.

    Parameters
    ----------
    layout : Columns
        Of one sample and one group, in one block.
    dtype : numpy.dtype
    """

    def __init__(self, layout: Columns, dtype: np.dtype) -> None:
        image, products = np.zeros(layout.image, dtype), np.zeros(layout.product, dtype)
        self.inside = image[layout.inside]
        self.windows = np.ndarray(layout.view[2:], dtype, image, 0, layout.strides[2:])
        self.columns = np.empty(self.windows.shape, dtype)
        self.matrix = self.columns.reshape(layout.seen, -1)
        self.products = products[0, 0, :, : self.matrix.shape[1]]
        self.output = products.reshape(layout.wide)[layout.out]

    def __call__(self, x: np.ndarray, filters: np.ndarray, out: np.ndarray) -> None:
        """Write the products of filters, the rows of a matrix, with the windows of an image."""
        self.inside[...] = x
        self.columns[...] = self.windows
        np.matmul(filters, self.matrix, self.products)
        out[...] = self.output


def write_convolution(node: Node, args: Sequence[Operand], result: Kind) -> Written | None:
    """The lines of a convolution of one small image; None where the kernel does as well."""
    x, w, *bias = args
    if not fits_a_buffer(result) or any(arg.kind.dtype != result.dtype or arg.kind.form != ARRAY for arg in args):
        return None
    if result.dtype not in (np.float32, np.float64) or x.kind.shape is None or w.kind.shape is None:
        return None
    layout = _layout(node.attrs, x.kind.shape, w.kind.shape, result.dtype)
    if layout is None:
        return None
    prologue = {"{convolve}": "Convolving({layout}, {dtype})"}
    lines = [f"{{convolve}}({x.text}, {w.text}.reshape({(w.kind.shape[0], layout.seen)!r}), {{out}})"]
    if bias:
        lines.append(f"add({{out}}, {bias[0].text}.reshape({(-1, *(1,) * (len(x.kind.shape) - 2))!r}), {{out}})")
    return Written(lines, "", {"Convolving": Convolving, "add": np.add}, prologue, {"{layout}": layout})


def _layout(attrs: Any, shape: tuple[int, ...], weights: tuple[int, ...], dtype: Any) -> Columns | None:
    """How the windows of one image are laid out, if they are one block."""
    if shape[0] != 1 or attrs.get("group", 1) != 1 or weights[1:2] != shape[1:2] or len(weights) != len(shape) or len(shape) < 3:
        return None
    if 0 in shape or 0 in weights or tuple(attrs.get("kernel_shape", weights[2:])) != weights[2:]:
        return None
    where = windows(shape[2:], weights[2:], **{name: attrs[name] for name in LAYOUT if name in attrs})
    if 0 in where.out:
        return None
    layout = columns(where, shape, 1, weights[0], dtype.itemsize)
    return layout if all(len(parts) == 1 for parts in layout.blocks) else None
