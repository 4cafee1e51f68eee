"""First-order recursive filters: scipy's lfilter, or products with powers of the coefficient."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.ops.registry import facts
from mdf_loop.plan.idioms.record import Block, DoesNotFit, Idiom
from mdf_loop.plan.invariants import Invariants

WIDEST = 16
"""Elements of a row up to which a filter is run by lfilter (4.4 ns each), to the last bit."""

TOGETHER = 16
"""Iterations of a filter of wider rows that are one product of matrices (1 to 4 ns an element)."""


@dataclass(frozen=True)
class Filter(Idiom):
    """``y = y * coefficient + value``."""

    product: Node | None = None
    coefficient: str = ""
    needed: bool = True

    @classmethod
    def recognise(
        cls, name: str, nodes: Sequence[Node], output: str, same: Invariants, read_often: Collection[str]
    ) -> Filter | None:
        """A product with something that never changes, then a sum."""
        if len(nodes) != 2 or any(node.attrs or len(node.inputs) != 2 for node in nodes) or nodes[1].outputs[0] != output:
            return None
        product, total = nodes
        scaled = product.outputs[0]
        if (facts(product).accumulates, facts(total).accumulates) != ("multiply", "add"):
            return None
        if product.inputs.count(name) != 1 or total.inputs.count(scaled) != 1 or name in total.inputs:
            return None
        coefficient = product.inputs[1 - product.inputs.index(name)]
        if coefficient not in same:
            return None
        value = total.inputs[1 - total.inputs.index(scaled)]
        return cls(name, total, value, product, coefficient, scaled in read_often)

    @property
    def nodes_between(self) -> tuple[Node, ...]:
        """The product, if anything else reads it."""
        return (self.product,) if self.product is not None and self.needed else ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The product and the sum."""
        return (self.product, self.node) if self.product is not None else (self.node,)

    @property
    def words(self) -> str:
        """The two ways to run it."""
        return f"with {self.product}: scipy.signal.lfilter, or products with powers of {self.coefficient} for wide rows"

    def run(self, block: Block, start: Any) -> None:
        """All steps at once, or some at a time."""
        rows = self._incoming(block, start, "f")
        factor = block.single(self.coefficient)
        if not isinstance(factor, np.ndarray | np.generic) or factor.dtype != start.dtype:
            raise DoesNotFit
        if factor.size != 1 or factor.ndim > start.ndim:
            raise DoesNotFit
        steps = np.empty((block.length + 1, *start.shape), start.dtype)
        steps[0] = start
        if start.size > WIDEST:
            _by_products(steps, np.broadcast_to(rows, (block.length, *start.shape)), factor.item())
        else:
            _by_lfilter(steps, rows, factor)
        self._put(block, steps)


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
