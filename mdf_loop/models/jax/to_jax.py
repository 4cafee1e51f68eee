"""``to_jax``: a model or a body as a function that JAX differentiates, vectorises and compiles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdf_loop.calls.compiled import Compiled
from mdf_loop.calls.compiled import compile as compile_body
from mdf_loop.errors import ArgumentError
from mdf_loop.models.jax.jax_sources import source_of
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare
from mdf_loop.options import public
from mdf_loop.settings.counts import counted
from mdf_loop.settings.engines import needed

if TYPE_CHECKING:
    from mdf_loop.backends.jax.function import JaxFunction

FILES = (".json", ".yaml", ".yml", ".onnx", ".xml")


@public
def to_jax(
    model: Any,
    /,
    *,
    outputs: Sequence[str] | None = None,
    max_steps: int | None = None,
    checkpoint: int = 0,
    checks: bool = False,
    steps: int | None = None,
    time_increment: float | None = None,
    collect: bool | None = None,
) -> JaxFunction:
    """Turn a model, or the body of a loop, into a JAX function.

    ``jax.jit``, ``jax.grad``, ``jax.vmap``, ``jax.hessian`` and all other functions of JAX accept it.

    Parameters
    ----------
    model : str, path-like, MDF Model or Graph, onnx.ModelProto, result of :func:`mdf_loop.prepare` or :func:`mdf_loop.compile`
        A body of a loop can have any form that :func:`mdf_loop.compile` accepts.
    outputs : sequence of str, optional
        The outputs to compute.  The default is all outputs.
    max_steps : int, optional
        The maximum number of iterations of a loop without a trip count.  A loop that can end early needs a maximum to collect
        values, and for a gradient in reverse mode: its trip count, or this.  If a loop needs more, a call raises IterationLimit;
        inside ``jax.jit`` and ``jax.vmap`` results are nan, and integers the lowest of their type.
    checkpoint : int
        For gradients, store one state in so many iterations, and compute the others again.  0 stores all states.
    checks : bool
        Whether ``jax.experimental.checkify`` finds errors of a run: an index outside its array, Python's division by 0, more
        than ``max_steps`` iterations.  Each call then takes about 50 microseconds longer.
    steps, time_increment, collect : optional
        As in :func:`mdf_loop.run`.  A model with conditions of graph-scheduler is evaluated once by default; one iteration is
        one pass of the scheduler.

    Returns
    -------
    JaxFunction
        ``f(**inputs, key=None, noise=None)`` returns a dict of arrays by the names of outputs.  ``f.inputs``, ``f.outputs`` and
        ``f.draws`` describe it, ``f.explain()`` shows how it runs.

    Raises
    ------
    UnsupportedOp
        JAX cannot run a node: lists, strings, arrays that grow.  The message names the node.
    NotLowered
        Part of a scheduled model cannot become part of a loop.  The message names it.
    ArgumentError
        jax is not installed, or an output does not exist.

    Notes
    -----
    MDF models compute in float64; turn this on with ``jax.config.update("jax_enable_x64", True)``.  Random numbers are JAX's:
    other numbers than those of :func:`mdf_loop.run`, with the same distributions.

    Examples
    --------
    >>> import mdf_loop
    >>> f = mdf_loop.to_jax("examples/gallery/fitzhugh_nagumo.yaml")
    >>> list(f.outputs)
    ['voltage', 'recovery']
    """
    needed("jax", "to_jax needs jax, which is not installed", "jax", ArgumentError)
    from mdf_loop.backends.jax.function import JaxFunction

    if max_steps is not None:
        counted("max_steps", max_steps, "the most iterations of a loop")
    said = {"steps": steps, "time_increment": time_increment, "collect": collect}
    source = source_of(_made_ready(model), {name: value for name, value in said.items() if value is not None})
    return JaxFunction(source, outputs, max_steps=max_steps, checkpoint=checkpoint, checks=checks)


def _made_ready(model: Any) -> Model | Compiled:
    """What is to become a function: a model, or a loop over a body."""
    if isinstance(model, Model | Compiled):
        return model
    if isinstance(model, str | os.PathLike) and Path(model).suffix.lower() in FILES and "\n" not in str(model):
        return prepare(model)
    is_model = (
        hasattr(model, "graphs") or hasattr(model, "conditions") or (hasattr(model, "graph") and hasattr(model, "opset_import"))
    )
    return prepare(model) if is_model else compile_body(model)
