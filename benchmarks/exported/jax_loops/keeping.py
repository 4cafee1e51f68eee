"""How a loop is kept: a function of arrays with its inputs, by name; and what all loops are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)


class Exported(NamedTuple):
    """One loop: the function, and its inputs."""

    function: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]

    def results(self) -> tuple[np.ndarray, ...]:
        """What JAX itself gives, compiled."""
        return tuple(map(np.asarray, jax.tree.leaves(jax.jit(self.function)(*self.inputs))))


LOOPS: dict[str, Exported] = {}

R = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    """Normally distributed numbers."""
    return R.standard_normal(shape).astype(np.float32)


def exported(*inputs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function and its inputs under its name."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        LOOPS[f"jax_{function.__name__}"] = Exported(function, tuple(map(np.asarray, inputs)))
        return function

    return keep


def repeated(count: int, step: Callable[[Any], Any], state: Any) -> Any:
    """A ``fori_loop`` whose body may use arrays from outside, which jax2onnx cannot export of a ``fori_loop``."""
    return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, step(s[0], s[1])), (jnp.int32(0), state))[1]
