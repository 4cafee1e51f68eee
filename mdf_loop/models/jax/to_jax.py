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
    """A model, or the body of a loop, as a function of JAX.

    ``jax.jit``, ``jax.grad``, ``jax.vmap``, ``jax.hessian`` and all else of JAX take it as any function of theirs.

    Parameters
    ----------
    model : str, path-like, MDF Model or Graph, onnx.ModelProto, or what :func:`mdf_loop.prepare` or :func:`mdf_loop.compile` gave
        A body of a loop may be given as :func:`mdf_loop.compile` takes it.
    outputs : sequence of str, optional
        The outputs that are wanted; JAX computes nothing for the others.
    max_steps : int, optional
        The most iterations of a loop that says no number itself.  A loop that may end early has a gradient in reverse mode, and
        collects values, up to a number that is known: its trip count, or this.  More are an IterationLimit when the function is
        called, and nan (of whole numbers the lowest of their type) inside of ``jax.jit`` and ``jax.vmap``.
    checkpoint : int
        For gradients keep one state in so many iterations, and compute the others again; 0 keeps all.
    checks : bool
        Whether ``jax.experimental.checkify`` finds what is an error of a run: an index outside of its array, a division of
        Python's by 0, more than ``max_steps`` iterations.  JAX takes about 50 microseconds longer for each call then.
    steps, time_increment, collect : optional
        As in :func:`mdf_loop.run`: how many times a model of MDF is evaluated, and whether its outputs of all steps are returned.
        A model with conditions of graph-scheduler is evaluated once if nothing is said; one iteration is one pass of it.

    Returns
    -------
    JaxFunction
        ``f(**inputs, key=None, noise=None)`` gives a dict of arrays by the names of outputs.  ``f.inputs``, ``f.outputs`` and
        ``f.draws`` say what there is, ``f.explain()`` how it runs.

    Raises
    ------
    UnsupportedOp
        Something has no form in JAX: lists, texts, arrays that grow; names the node.
    NotLowered
        A condition, or something else in a scheduled model, has no counterpart in a loop; names it.
    ArgumentError
        jax is not installed; there is no such output.

    Notes
    -----
    Models of MDF compute in float64, which JAX does after ``jax.config.update("jax_enable_x64", True)``.  Random numbers are
    those of JAX: the same distributions, other numbers than :func:`mdf_loop.run` draws.

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
