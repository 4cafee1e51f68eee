"""Steps of differential equations that are so long that the method makes a difference larger which the equation makes smaller.

A body is computed at its initial values, and once more with one of them moved a little: what becomes of that difference is what
a step multiplies it by.  With ``dv/dt = (current - v) / tau`` and the method of Euler that is ``1 - dt / tau``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.calls.prepared import read_once
from mdf_loop.checks.findings import WARNING, Finding
from mdf_loop.execute.endless import computed, computing
from mdf_loop.ir import Body
from mdf_loop.options import options, start_run
from mdf_loop.readers.expressions.derivatives import STEP

SHORT, LITTLE = 1e-3, 1e-4
"""A step that is short enough, as a part of the one that is used; and how far a value is moved, as a part of it."""

ROUNDING = 1e-6
"""How far from 1 the factor of a value is that the equation does not make smaller: the difference of two computed values."""


def too_long_steps(
    source: Mapping[str, Any], slopes: Mapping[str, str], known: Mapping[str, np.ndarray], place: tuple[str, ...]
) -> Iterator[Finding]:
    """Values of which a step makes differences larger, and a short step makes them smaller.

    Parameters
    ----------
    source : mapping
        Equations with derivatives, which are ``slopes``.
    known : mapping of str to array
        Initial values, and what the body captures, as far as the model says them.
    place : tuple of str
    """
    body, short = (read_once(each, None, "loop") for each in (source, _in_short_steps(source)))
    known = {**known, body.inputs[0]: np.asarray(0)}
    shorter = {**known, STEP: known[STEP] * SHORT} if STEP in known else known
    for name, output, of_short in zip(body.inputs[2:], body.outputs[1:], short.outputs[1:], strict=False):
        if name not in slopes or name not in known:
            continue
        factor, other = _factor(body, output, name, known), _factor(short, of_short, name, shorter)
        if factor is not None and other is not None and bool(((np.abs(factor) > 1 + ROUNDING) & (other < 1 - ROUNDING)).any()):
            largest = factor.flat[np.abs(factor).argmax()]
            said = f"{STEP} is too long: a step multiplies changes of {name} by {largest:.3g}, and short ones make them smaller"
            yield Finding(WARNING, f"{'/'.join(place)}: {said}; make {STEP} shorter than the time constant of {name}", place)


def _in_short_steps(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same equations with a short step, if they say its length themselves."""
    let = source.get("let") or {}
    if STEP in let:
        return {**source, "let": {**let, STEP: f"({let[STEP]}) * {SHORT}"}}
    return {**source, STEP: f"({source[STEP]}) * {SHORT}"} if STEP in source else source


def _factor(body: Body, output: str, name: str, known: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """What a step multiplies a small difference of a value by; None if it cannot be computed."""
    part = computing(body, [output], known)
    if name not in part.body.inputs:
        return None
    value = known[name].astype(np.float64)
    by = LITTLE * (1 + np.abs(value).max(initial=0.0))
    with np.errstate(all="ignore"), options(seed=0):  # the same random numbers both times
        before, after = (computed(part, {**known, name: each}, start_run()) for each in (value, value + by))
        return None if before is None or after is None else (np.asarray(after[0]) - np.asarray(before[0])) / by
