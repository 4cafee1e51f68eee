"""Engine ``jax``: runs of a model by JAX, one or many at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.errors import MalformedBody, NotLowered, UnsupportedOp
from mdf_loop.models.jax.to_jax import to_jax
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.options import Run, Seed

if TYPE_CHECKING:
    from mdf_loop.backends.jax.function import JaxFunction

log = logging.getLogger(__name__)


def run_by_jax(model: Model, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found | None:
    """What a run gives; None if the model has no form in JAX, or is to be recorded or watched."""
    function = function_of(model, None if wish.outputs is None else tuple(wish.outputs), run, wish)
    if function is None:
        return None
    found = tried(model, partial(function, key=key_of(run.stream.seed), **inputs))
    return None if found is None else Found({name: row for name, (row, _) in in_rows(found, ()).items()})


def function_of(model: Model, outputs: Sequence[str] | None, run: Run, wish: Wish) -> JaxFunction | None:
    """The model as a function; None if what is asked for has none.  The last ones are kept with the model."""
    if wish.record or wish.steps is not None or run.options.max_iterations is not None or not run.is_free:
        return None
    kept = vars(model).setdefault("_by_jax", {})
    key = None if outputs is None else tuple(outputs)
    if key not in kept:
        kept[key] = tried(model, lambda: to_jax(model, outputs=outputs))
    return kept[key]


def tried(model: Model, call: Any) -> Any:
    """What a call gives; None if the model has no form in JAX, or is wrong: other engines say what is wrong then.

    Raises
    ------
    ArgumentError
        The call is wrong, or JAX has 32 bits where the model needs 64.
    """
    try:
        return call()
    except (UnsupportedOp, NotLowered, MalformedBody) as reason:
        log.info("%s: not by JAX: %s", model.name, reason)
        return None


def key_of(seed: Seed) -> int:
    """A number that begins a key of JAX, from a seed of ours."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(int(seed))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def in_rows(found: Mapping[str, Any], lead: tuple[int, ...]) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Outputs as numpy's arrays, each with the lengths of its rows; one that stands alone is cut to its length."""
    made: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for name, value in found.items():
        if name.removesuffix("_length") in found and name.endswith("_length"):
            continue
        array, lengths = np.asarray(value), found.get(f"{name}_length")
        if not lead:
            made[name] = (array if lengths is None else array[: int(lengths)])[()], None
        elif array.ndim > len(lead):
            made[name] = array, np.full(lead, array.shape[1]) if lengths is None else np.asarray(lengths)
        else:
            made[name] = array, None
    return made
