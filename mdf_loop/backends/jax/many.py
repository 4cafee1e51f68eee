"""Many runs of a function of JAX in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mdf_loop.backends.jax.function import JaxFunction


def vmapped(
    function: JaxFunction,
    inputs: Mapping[str, Any],
    columns: Mapping[str, np.ndarray],
    seed: int,
    places: tuple[np.ndarray, np.ndarray],
) -> dict[str, Any]:
    """The outputs of many runs, a row for each.

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
        The point and the trial of each run.
    """
    key = jax.random.key(seed)

    def one(columns: Mapping[str, Any], point: Any, trial: Any) -> dict[str, Any]:
        return function(key=jax.random.fold_in(jax.random.fold_in(key, point), trial), **inputs, **columns)

    return jax.vmap(one)({name: jnp.asarray(column) for name, column in columns.items()}, *map(jnp.asarray, places))
