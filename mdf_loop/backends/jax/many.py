"""Many runs of a function of JAX in one call."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mdf_loop.backends.jax.function import JaxFunction
from mdf_loop.backends.jax.jnp_templates import canonical


class FailsOnDevice(Exception):
    """A run is an error: JAX knows that it is, and another engine which."""


def traced(value: Any) -> Any:
    """A number or an array as one of JAX, so that each value has the same program; anything else as it is."""
    is_number = (
        isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf" and canonical(value.dtype) == value.dtype
    )
    return jnp.asarray(value) if is_number else value


def bytes_of_a_run(function: JaxFunction, inputs: Mapping[str, Any]) -> int:
    """How much room the outputs of a run take; nothing is computed."""
    found, _ = jax.eval_shape(lambda: function.together.rows(inputs, 0))
    return sum(output.size * output.dtype.itemsize for output in jax.tree.leaves(found))


def vmapped(
    function: JaxFunction,
    inputs: Mapping[str, Any],
    columns: Mapping[str, np.ndarray],
    seed: int,
    places: tuple[np.ndarray, np.ndarray],
) -> dict[str, Any]:
    """The outputs of many runs, a row for each, as :meth:`JaxFunction.rows` gives them.

    Parameters
    ----------
    function : JaxFunction
    inputs : mapping
        What is the same in all of them.
    columns : mapping of str to array
        What differs, a row for each run.
    seed : int
        The key that those of the runs are made of.
    places : tuple of two arrays of int
        The number of the point, and the trial, of each run.

    Raises
    ------
    FailsOnDevice
        A run is an error, which another engine raises.
    """
    key = jax.random.key(seed)

    def one(columns: Mapping[str, Any], words: Any) -> tuple[dict[str, Any], Any]:
        return function.together.rows({**inputs, **columns}, functools.reduce(jax.random.fold_in, words, key))

    points, trials = places
    words = [np.asarray(numbers, np.uint32) for numbers in (points & 0xFFFFFFFF, points >> 32, trials)]  # as much as a key takes
    found, failed = jax.vmap(one)({name: jnp.asarray(column) for name, column in columns.items()}, words)
    return unfailed(found, failed)


def run_alone(function: JaxFunction, key: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a run.

    Raises
    ------
    FailsOnDevice
        It is an error, which another engine raises.
    """
    return unfailed(*function.watched.rows(inputs, key))


def unfailed(found: dict[str, Any], failed: Any) -> dict[str, Any]:
    """Outputs, if nothing has failed."""
    if failed is not None and failed.any():
        raise FailsOnDevice
    return found
