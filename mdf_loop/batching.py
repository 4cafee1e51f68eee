"""Batch rules for your own operators: the values of ``batch`` in ``mdf_loop.kernel(batch=...)``.

:mod:`mdf_loop.ops.batching` describes how rules are called, and the law that they obey.
"""

from mdf_loop.ops.batching import along, by_step, elementwise, matmul, of_shape, reducing

__all__ = ["along", "by_step", "elementwise", "matmul", "of_shape", "reducing"]
