"""Element-wise numbers."""

import numpy as np

from mdf_loop.batching import elementwise
from mdf_loop.registry import kernel


@kernel("Add", since=7, batch=elementwise)
def add(a, b):
    """a + b, broadcast."""
    return np.add(a, b)


@kernel("Identity", batch=elementwise)
def identity(x):
    """The value itself."""
    return x
