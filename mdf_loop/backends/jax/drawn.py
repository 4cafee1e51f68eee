"""Random numbers of a Step: by a key of JAX, or as arrays that the caller gives.

A draw is numbered by its place in its region, and a loop folds in the number of the iteration: one key gives the same numbers
whether a loop is a scan or ends early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mdf_loop.backends.jax.jnp_templates import canonical, jax_dtype
from mdf_loop.errors import ArgumentError
from mdf_loop.step.records import LoopRegion, Region, Value
from mdf_loop.step.structure import regions_of, values_in

NORMAL, UNIFORM = "standard normal", "uniform from 0 to 1"


def _normal(attrs: Mapping[str, Any], z: Any, *_: Any) -> Any:
    return attrs.get("mean", 0.0) + attrs.get("scale", 1.0) * z


def _uniform(attrs: Mapping[str, Any], u: Any, *_: Any) -> Any:
    low, high = attrs.get("low", 0.0), attrs.get("high", 1.0)
    return low + (high - low) * u


OPERATORS: dict[str, tuple[str, Callable[..., Any]]] = {
    "RandomNormal": (NORMAL, _normal),
    "RandomNormalLike": (NORMAL, _normal),
    "RandomUniform": (UNIFORM, _uniform),
    "RandomUniformLike": (UNIFORM, _uniform),
    "Bernoulli": (UNIFORM, lambda attrs, u, x: u < x),
}
"""By operator: what is drawn, and what is made of it, ``made(attributes, drawn, *inputs)``."""


def is_draw(value: Value) -> bool:
    """Whether an operation draws random numbers in a way that is known here."""
    return value.op == "apply" and value.attr.needs_run and value.attr.node.op in OPERATORS


@dataclass(frozen=True)
class NoisePlace:
    """One place of a Step where random numbers are drawn.

    Attributes
    ----------
    kind : str
        The distribution of the numbers that ``noise=`` takes: standard normal, or uniform from 0 to 1.
    shape : tuple of (int or None)
        Of what is drawn at once, behind the lengths of the loops around it; None where only a call says how long one is.
    """

    kind: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.kind}, [{', '.join('?' if n is None else str(n) for n in self.shape)}]"


def draws_in(region: Region, lengths: tuple[int | None, ...] = ()) -> list[tuple[Value, NoisePlace]]:
    """The draws of a region and of those inside it, in the order in which they stand."""
    found: list[tuple[Value, NoisePlace]] = []
    for value in region.values:
        if is_draw(value):
            shape = tuple(n if isinstance(n, int) else None for n in value.type.shape or ())
            found.append((value, NoisePlace(OPERATORS[value.attr.node.op][0], (*lengths, *shape))))
        inside = (*lengths, _trip_count(value)) if isinstance(value.attr, LoopRegion) else lengths
        for inner in regions_of(value):
            found += draws_in(inner, inside)
    return found


def _trip_count(loop: Value) -> int | None:
    count = loop.args[0]
    return int(np.asarray(count.attr).item()) if loop.attr.has_count and count.op == "const" else None


def named_draws(region: Region) -> dict[str, tuple[Value, NoisePlace]]:
    """The same by names: what the node calls its output; later ones of a name have a number."""
    seen, found = Counter[str](), {}
    for value, draw in draws_in(region):
        name, _, more = value.attr.node.outputs[0].partition("~")
        name = name.removesuffix("_next") if more else name  # part of the equation of a carried value
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name}_{seen[name]}"] = value, draw
    return found


class Draws(Protocol):
    """Where random numbers come from."""

    def draw(self, value: Value, shape: Sequence[int]) -> Any:
        """The numbers of one draw."""

    def of_loop(self, loop: Value) -> LoopDraws:
        """Those of a loop."""


@dataclass(frozen=True)
class LoopDraws:
    """What the iterations of a loop draw from: ``shared`` by all, ``rows`` one for each; ``at(i, shared, row)`` is for one."""

    shared: Any
    rows: Any
    at: Callable[[Any, Any, Any], Draws]


class Keys:
    """Numbers by a key; None where there is none."""

    def __init__(self, key: Any) -> None:
        self.key, self.count = key, 0

    def _next(self) -> Any:
        if self.key is None:
            raise ArgumentError("the model draws random numbers: give key=jax.random.key(0), or the numbers themselves as noise=")
        self.count += 1
        return jax.random.fold_in(self.key, self.count)

    def draw(self, value: Value, shape: Sequence[int]) -> Any:
        """Numbers of the widest type that is on."""
        draw = jax.random.normal if OPERATORS[value.attr.node.op][0] == NORMAL else jax.random.uniform
        return draw(self._next(), tuple(shape), canonical(np.float64))

    def of_loop(self, loop: Value) -> LoopDraws:
        """Each iteration has a key of its own."""
        shared = self._next() if any(map(is_draw, values_in(loop.attr.body))) else None
        return LoopDraws(shared, (), lambda i, key, _: Keys(None if key is None else jax.random.fold_in(key, i)))


class GivenNoise:
    """Numbers that were given, by their draws."""

    def __init__(self, arrays: Mapping[Value, Any]) -> None:
        self.arrays = arrays

    def draw(self, value: Value, shape: Sequence[int]) -> Any:
        """The array; it has the shape of the draw."""
        found = self.arrays[value]
        if tuple(found.shape) != tuple(shape):
            raise ArgumentError(
                f"noise for {value.attr.node.outputs[0]!r} has {list(found.shape)} where {list(shape)} is drawn: its first axes "
                "are those of the loops around it"
            )
        return found

    def of_loop(self, loop: Value) -> LoopDraws:
        """Each iteration has its row."""
        inside = [x for x in values_in(loop.attr.body) if is_draw(x)]
        return LoopDraws(
            (), tuple(self.arrays[x] for x in inside), lambda i, _, row: GivenNoise(dict(zip(inside, row, strict=True)))
        )


def numbers_of(value: Value, draws: Draws, args: Sequence[Any]) -> Any:
    """What an operator that draws gives."""
    node = value.attr.node
    made = OPERATORS[node.op][1]
    shape = args[0].shape if args else tuple(node.attrs["shape"])
    return jnp.asarray(made(node.attrs, draws.draw(value, shape), *args)).astype(jax_dtype(value.type))
