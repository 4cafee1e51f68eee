"""Batch rules for operators of one's own: what ``mdf_loop.kernel(batch=...)`` may be given.

How rules are called, and the law that they keep, stands in :mod:`mdf_loop.ops.batching`.
"""

from mdf_loop.ops.batching import along, by_step, elementwise, matmul, of_shape, reducing

__all__ = ["along", "by_step", "elementwise", "matmul", "of_shape", "reducing"]
