"""numpy's functions that make, join and repeat arrays, as MDF expressions call them: ``numpy.ones`` and its kin.

Their results are as large as a value says, so that is looked at first: see :mod:`mdf_loop.kernels.arrays.bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.bounds import elements_of, refuse_elements, refuse_shape
from mdf_loop.kernels.mdf.expression_functions import own_functions, size_of
from mdf_loop.kernels.mdf.expression_operators import DOMAIN, operation
from mdf_loop.ops.batching import Result, all_stacked, by_step, elementwise, of_shape
from mdf_loop.ops.registry import kernel, say

Attributes = Mapping[str, Any]


def bounded(shape: Any, what: str) -> Any:
    """A shape of something that is made, which is not too large."""
    lengths = size_of(shape)
    refuse_shape(lengths, what)
    return lengths


@kernel("numpy.repeat", domain=DOMAIN, batch=by_step)
def repeat(a, repeats, *, axis=None):
    """Each element several times."""
    refuse_elements(np.size(a) * int(np.max(repeats, initial=0)), "numpy.repeat")
    return np.repeat(a, repeats, axis)


@kernel("numpy.tile", domain=DOMAIN)
def tile(A, reps):
    """The whole array several times."""
    lengths = size_of(reps)
    refuse_elements(np.size(A) * elements_of(lengths if isinstance(lengths, tuple) else (lengths,)), "numpy.tile")
    return np.tile(A, lengths)


@kernel("numpy.take", domain=DOMAIN, batch=by_step)
def take(a, indices, *, axis=None):
    """Elements at these indices."""
    if axis is not None and np.size(a):
        refuse_elements(np.size(indices) * (np.size(a) // np.shape(a)[axis]), "numpy.take")
    return np.take(a, indices, axis)


def diagonals(name: str) -> None:
    """numpy's ``tril`` and ``triu``: on the last two axes."""
    function = getattr(np, name)

    @kernel(
        f"numpy.{name}",
        domain=DOMAIN,
        batch=lambda run, args, s, attrs: all_stacked(run(*args, **attrs)) if args[0].ndim > 2 else None,
    )
    def triangle(m, *, k=0):
        """What is below or above a diagonal, zeros elsewhere."""
        refuse_elements(np.size(m) ** 2 if np.ndim(m) == 1 else np.size(m), f"numpy.{name}")
        return function(m, k)


for _name in ("tril", "triu"):
    diagonals(_name)


@kernel("numpy.diag", domain=DOMAIN)
def diag(v, *, k=0):
    """The diagonal of a matrix, or the matrix with this diagonal."""
    refuse_elements((np.size(v) + abs(k)) ** 2 if np.ndim(v) == 1 else 0, "numpy.diag")
    return np.diag(v, k)


@kernel("numpy.concatenate", domain=DOMAIN, batch=by_step)
def concatenate(*arrays, axis=0):
    """Arrays joined along an axis they have."""
    refuse_elements(sum(map(np.size, arrays)), "numpy.concatenate")
    return np.concatenate(arrays, axis)


@kernel("numpy.stack", domain=DOMAIN, batch=by_step)
def stack(*arrays, axis=0):
    """Arrays put together along a new axis."""
    refuse_elements(sum(map(np.size, arrays)), "numpy.stack")
    return np.stack(arrays, axis)


@kernel("numpy.hstack", domain=DOMAIN)
def hstack(*arrays):
    """Arrays side by side."""
    refuse_elements(sum(map(np.size, arrays)), "numpy.hstack")
    return np.hstack(arrays)


@kernel("numpy.vstack", domain=DOMAIN)
def vstack(*arrays):
    """Arrays one above the other."""
    refuse_elements(sum(map(np.size, arrays)), "numpy.vstack")
    return np.vstack(arrays)


def _made(name: str) -> None:
    """numpy's ``array`` and ``asarray``."""

    @kernel(f"numpy.{name}", domain=DOMAIN, batch=elementwise)
    def make(object, *, dtype=None):
        """The value as an array."""
        return np.asarray(object, dtype)


for _name in ("array", "asarray"):
    _made(_name)


def filled(name: str) -> None:
    """numpy's ``zeros`` and ``ones``."""
    function = getattr(np, name)

    @kernel(f"numpy.{name}", domain=DOMAIN)
    def fill(shape, *, dtype=float):
        """An array of this shape."""
        return function(bounded(shape, f"numpy.{name}"), dtype)

    @kernel(f"numpy.{name}_like", domain=DOMAIN, batch=of_shape)
    def fill_like(a, *, dtype=None):
        """An array of the same shape and type."""
        return getattr(np, f"{name}_like")(a, dtype)


for _name in ("zeros", "ones"):
    filled(_name)


@kernel("numpy.full", domain=DOMAIN)
def full(shape, fill_value, *, dtype=None):
    """An array of this shape, one value in all places."""
    return np.full(bounded(shape, "numpy.full"), fill_value, dtype)


@kernel("numpy.eye", domain=DOMAIN)
def eye(N, M=None, *, k=0, dtype=float):
    """Ones on a diagonal."""
    rows, columns = bounded((N, N if M is None else M), "numpy.eye")
    return np.eye(int(rows), int(columns), k, dtype)


@kernel("numpy.identity", domain=DOMAIN)
def identity(n, *, dtype=float):
    """The square matrix with ones on its diagonal."""
    refuse_shape((n, n), "numpy.identity")
    return np.identity(int(n), dtype)


@kernel("numpy.arange", domain=DOMAIN)
def arange(start, stop=None, step=None, *, dtype=None):
    """Equally spaced numbers, from their distance."""
    first, end = (0, start) if stop is None else (start, stop)
    refuse_elements(abs((end - first) / (1 if step is None else step)) if step != 0 else 0, "numpy.arange")
    return np.arange(start, stop, step, dtype) if stop is not None else np.arange(start, dtype=dtype)


@kernel("numpy.linspace", domain=DOMAIN)
def linspace(start, stop, *, num=50, endpoint=True):
    """Equally spaced numbers, from their count."""
    refuse_elements(num * max(np.size(start), np.size(stop)), "numpy.linspace")
    return np.linspace(start, stop, num, endpoint)


operation("numpy.ndim", np.ndim, None)


def _of_matrices(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    return all_stacked(run(*args, **attrs)) if args[0].ndim > 2 else None


own_functions(_of_matrices, {"linalg.inv": lambda a: np.linalg.inv(a), "linalg.det": lambda a: np.linalg.det(a)})
own_functions(
    None,
    {
        "linalg.solve": lambda a, b: np.linalg.solve(a, b),
        "atleast_1d": lambda x: np.atleast_1d(x),
        "full_like": lambda a, fill_value, *, dtype=None: np.full_like(a, fill_value, dtype),
        "shape": lambda a: np.array(np.shape(a), np.int64),
        "size": lambda a: int(np.size(a)),
    },
)
for _name in ("inv", "det", "solve"):
    say(f"numpy.linalg.{_name}", domain=DOMAIN, factorises=True)
