"""Engine ``jax``: runs of a model by JAX, one or many at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from mdf_loop.calls.on_device import OnDevice, in_rows, key_of
from mdf_loop.models.jax.to_jax import to_jax
from mdf_loop.models.model import Found, Model, Wish
from mdf_loop.options import Run

if TYPE_CHECKING:
    from mdf_loop.backends.jax.function import JaxFunction

T = TypeVar("T")


def device_of(model: Model) -> OnDevice:
    """What JAX runs of a model; it is kept with the model."""
    made: OnDevice = vars(model).setdefault("_on_device", OnDevice(model.name, lambda **wanted: to_jax(model, **wanted)))
    return made


def run_by_jax(model: Model, inputs: Mapping[str, Any], run: Run, wish: Wish) -> Found | None:
    """What a run gives; None, with a warning, if the model has no form in JAX or is to be recorded."""
    from mdf_loop.backends.jax.function import run_alone

    key = key_of(run.stream.seed)
    found = found_by_jax(model, inputs, run, wish, lambda function: run_alone(function, key, inputs), wish.outputs)
    return None if found is None else Found({name: row for name, (row, _) in in_rows(found, ()).items()})


def found_by_jax(
    model: Model,
    inputs: Mapping[str, Any],
    run: Run,
    wish: Wish,
    call: Callable[[JaxFunction], T],
    outputs: Collection[str] | None,
) -> T | None:
    """What a call of the model as a function gives; None, with a warning, if what is asked for has none."""
    device = device_of(model)
    if wish.record:
        device.left("what is recorded is kept iteration by iteration")
        return None
    if device.is_left(run):
        return None
    names = None if outputs is None else tuple(sorted(outputs))
    in_steps = {} if wish.steps is None else {"steps": wish.steps, "time_increment": wish.time_increment, "collect": wish.collect}
    return device.found(inputs, call, outputs=names, **in_steps)
