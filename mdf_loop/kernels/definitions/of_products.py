"""Products of matrices, Einstein sums as such products, and convolutions, whose windows lie in memory that is used again."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.linear import explicit_terms
from mdf_loop.kernels.definitions.of_shapes import rank_of
from mdf_loop.kernels.networks.sliding_windows import Windows, windows
from mdf_loop.ops.registry import definition, routine
from mdf_loop.types.elements import kind_of

MOST_PRODUCTS = 1 << 16
"""Products of whole numbers up to which they are added up one by one."""


def product(b: Any, x: Any, y: Any) -> Any:
    """The product of two matrices or vectors, or of two stacks of matrices, whose lengths go together.

    Whole numbers are added up one by one: their sum is the same in any order.

    Raises
    ------
    ValueError
        It is rounded otherwise, or there are too many whole numbers for all their products.
    """
    left, right = x.type.shape, y.type.shape
    is_stack = len(left) > 2
    is_static, is_whole = x.type.is_static and y.type.is_static, x.type.kind in "iu"
    is_open = b.takes_open and (x.type.kind == "f" or (is_whole and not is_static))
    if (x.type.kind == "f" and x.type.dtype.itemsize >= 4) or is_open:
        return b.put_in("dot", (x, y), x.type.__class__(x.type.dtype, left[:-1] + right[1 + is_stack :]))
    if not is_whole or x.type.dtype != y.type.dtype or not is_static:
        raise ValueError("numbers that are rounded otherwise")
    columns = right[1 + is_stack :]
    if not 0 < x.type.size * math.prod(columns) <= MOST_PRODUCTS:
        raise ValueError("too many products")
    y = b.reshape(y, (right[0], 1, *right[1:])) if is_stack else y
    terms = b.mul(b.reshape(x, (*left, *(1 for _ in columns))), y)
    return b.reduce(terms, "sum", (len(left) - 1,))


LARGEST_BETWEEN = 1 << 20
"""Elements of what two operands give, up to which any order of several of them will do."""


@definition("Einsum", since=12, why="speed")
def einsum(b, *operands, equation):
    """Two operands after the other, each time summed over what is not needed later; half precision in float32."""
    dtype = operands[0].type.dtype
    is_whole = dtype.kind in "iu"
    if not (is_whole or kind_of(dtype) == "float") or any(x.type.dtype != dtype or not x.type.is_static for x in operands):
        raise ValueError("not numbers of known shapes")
    terms, result = _named(equation, [rank_of(x) for x in operands])
    lengths: dict[str, int] = {}
    for x, term in zip(operands, terms, strict=True):
        for letter, n in zip(term, x.type.shape, strict=True):
            if lengths.setdefault(letter, n) != n:
                raise ValueError("lengths that differ")
    if not set(result) <= lengths.keys() or any(len(set(term)) < len(term) for term in (*terms, result)):
        raise ValueError("a diagonal, or a letter from nowhere")
    wide = [x if is_whole or dtype.itemsize >= 4 else b.cast(x, np.dtype(np.float32)) for x in operands]
    x, term = wide[0], terms[0]
    for k in range(1, len(wide)):
        needed = set(result).union(*terms[k + 1 :])
        x, term = _product(b, (x, term), (wide[k], terms[k]), needed)
        if len(wide) > 2 and x.type.size > LARGEST_BETWEEN:
            raise ValueError("an order of operands that is worth a search")
    x, term = _summed(b, x, term, set(result))
    return b.cast(_ordered(b, x, term, result), dtype)


def _named(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; those of "..." are letters that the equation does not have."""
    terms, result = explicit_terms(equation)
    if len(terms) != len(ranks):
        raise ValueError("another number of operands")
    spare = [letter for letter in string.ascii_letters if letter not in equation]
    longest = max((rank - len(term) + 3 for term, rank in zip(terms, ranks, strict=True) if "..." in term), default=0)
    if not 0 <= longest <= len(spare):
        raise ValueError("too many axes, or too few")
    rest = "".join(spare[:longest])
    found = []
    for term, rank in zip(terms, ranks, strict=True):
        count = rank - len(term) + 3
        term = term.replace("...", rest[longest - count :] if count > 0 else "") if "..." in term else term
        if len(term) != rank:
            raise ValueError("another number of axes")
        found.append(term)
    return found, result.replace("...", rest)


def _summed(b: Any, x: Any, term: str, needed: set[str]) -> tuple[Any, str]:
    """Without the axes that are not needed."""
    gone = [k for k, letter in enumerate(term) if letter not in needed]
    if not gone:
        return x, term
    if not all(x.type.shape):
        raise ValueError("nothing to add up")
    return b.reduce(x, "sum", gone, False), "".join(letter for letter in term if letter in needed)


def _ordered(b: Any, x: Any, term: str, wanted: str) -> Any:
    """Axes in the order of some letters, which are the same."""
    return x if term == wanted else b.transpose(x, [term.index(letter) for letter in wanted])


def _product(b: Any, one: tuple[Any, str], other: tuple[Any, str], needed: set[str]) -> tuple[Any, str]:
    """The product of two operands, summed over what both have and the result does not."""
    x, ours = _summed(b, *one, needed | set(other[1]))
    y, theirs = _summed(b, *other, needed | set(one[1]))
    if not all((*x.type.shape, *y.type.shape)):
        raise ValueError("nothing to add up")
    both = [letter for letter in ours if letter in theirs]
    batch, summed = "".join(c for c in both if c in needed), "".join(c for c in both if c not in needed)
    left, right = "".join(c for c in ours if c not in both), "".join(c for c in theirs if c not in both)
    if not summed:
        return _spread(b, x, ours, batch + left + right, y, theirs), batch + left + right
    lengths = dict(zip(ours + theirs, (*x.type.shape, *y.type.shape), strict=True))
    sizes = {part: math.prod(lengths[c] for c in part) for part in (batch, left, right, summed)}
    x = b.reshape(_ordered(b, x, ours, batch + left + summed), [sizes[p] for p in (batch, left, summed) if p])
    y = b.reshape(_ordered(b, y, theirs, batch + summed + right), [sizes[p] for p in (batch, summed, right) if p])
    if batch:  # a stack has matrices only
        x = x if left else b.reshape(x, (sizes[batch], 1, sizes[summed]))
        y = y if right else b.reshape(y, (sizes[batch], sizes[summed], 1))
    found = product(b, x, y)
    return b.reshape(found, [lengths[c] for c in batch + left + right]), batch + left + right


def _spread(b: Any, x: Any, ours: str, wanted: str, y: Any, theirs: str) -> Any:
    """Every element of one with every element of the other that belongs to it."""
    both = []
    for v, term in ((x, ours), (y, theirs)):
        present = "".join(c for c in wanted if c in term)
        rest = iter(_ordered(b, v, term, present).type.shape)
        both.append(b.reshape(_ordered(b, v, term, present), [next(rest) if c in term else 1 for c in wanted]))
    return b.mul(*both)


SMALL = 1 << 18
"""Bytes of a result up to which laying out its windows again would take most of the time."""


class WindowLayout:
    """Where the windows of one image lie in memory, and where their products go.

    Parameters
    ----------
    where : Windows
    shape : tuple of int
        Of the image, with one sample in front.
    filters, itemsize : int
    """

    def __init__(self, where: Windows, shape: tuple[int, ...], filters: int, itemsize: int) -> None:
        self.image = (shape[1], *(n + sum(pair) for n, pair in zip(shape[2:], where.pads, strict=True)))
        self.inside = (..., *(slice(begin, begin + n) for n, (begin, _) in zip(shape[2:], where.pads, strict=True)))
        steps = [itemsize * math.prod(self.image[k + 1 :]) for k in range(len(self.image))]
        places = wide = where.out
        moves = [n * s for n, s in zip(steps[1:], where.strides, strict=True)]
        if set(where.strides) == {1}:  # as they lie, with some behind each row that are left out in the end
            last = sum((o - 1) * n for o, n in zip(where.out, steps[1:], strict=True))
            places, wide, moves = (1 + last // itemsize,), (where.out[0], *self.image[2:]), [itemsize]
        taps = [n * d for n, d in zip(steps[1:], where.dilations, strict=True)]
        self.seen, self.strides = (shape[1], *where.kernel, *places), (steps[0], *taps, *moves)
        self.matrix = shape[1] * math.prod(where.kernel), math.prod(places)
        self.products, self.wide = (filters, math.prod(wide)), (1, filters, *wide)
        self.out = (..., *map(slice, where.out))


class Convolving:
    """Convolves one image after the other, of one layout."""

    def __init__(self, layout: WindowLayout, dtype: np.dtype) -> None:
        image, products = np.zeros(layout.image, dtype), np.empty(layout.products, dtype)
        self.inside = image[layout.inside]
        self.windows = np.ndarray(layout.seen, dtype, image, 0, layout.strides)
        self.columns = np.empty(layout.seen, dtype)
        self.matrix = self.columns.reshape(layout.matrix)
        self.products = products[:, : layout.matrix[1]]
        self.output = products.reshape(layout.wide)[layout.out]

    def __call__(self, x: np.ndarray, w: np.ndarray, *bias_and_out: np.ndarray) -> None:
        """Write the products of filters with the windows of an image, plus the filters' bias."""
        *bias, out = bias_and_out
        self.inside[...] = x[0]
        self.columns[...] = self.windows
        np.matmul(w.reshape(len(w), -1), self.matrix, self.products)
        if bias:
            np.add(self.output, bias[0].reshape(-1, *(1,) * (x.ndim - 2)), out)
        else:
            out[...] = self.output


@routine("Conv")
def convolving(types: Sequence[Any], result: Any, **attrs: Any) -> Callable[[], Convolving] | None:
    """Of one image whose result is small."""
    if result.dtype not in (np.float32, np.float64) or result.size * result.dtype.itemsize > SMALL:
        return None
    if any(t is None or t.dtype != result.dtype for t in types):
        return None
    shape, weights = types[0].shape, types[1].shape
    if shape[0] != 1 or attrs.get("group", 1) != 1 or weights[1:2] != shape[1:2] or len(weights) != len(shape) or len(shape) < 3:
        return None
    if 0 in shape or 0 in weights or tuple(attrs.get("kernel_shape") or weights[2:]) != weights[2:]:
        return None
    named = {name: attrs.get(name) for name in ("dilations", "pads", "strides")}
    where = windows(shape[2:], weights[2:], **named, auto_pad=attrs.get("auto_pad", "NOTSET"))
    if 0 in where.out:
        return None
    return functools.partial(Convolving, WindowLayout(where, shape, weights[0], result.dtype.itemsize), result.dtype)
