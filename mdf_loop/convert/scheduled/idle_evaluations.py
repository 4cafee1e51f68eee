"""Evaluations of a scheduled graph that are over before their first pass, and what to say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import COMPARISONS, UPDATES, Key, Threshold, parts_of
from mdf_loop.convert.scheduled.lowered_runs import Lowered
from mdf_loop.convert.scheduled.slots import GivenInput
from mdf_loop.options import Run

CURE = "to run further, change that condition, or end an evaluation by a count of passes (AfterNPasses)"


def said_of_idle(lowered: Lowered, run: Run) -> str:
    """What to say of evaluations that ran no pass; empty where there are none.

    The first such evaluation changes nothing, so all evaluations after it run no pass either.
    """
    plan = lowered.plan
    if plan.schedule.passes is not None:
        return ""
    known = lowered.known_after(run)
    ran = int(known.get(UPDATES, 0)) if plan.steps > 1 else min(lowered.passes(run), 1)
    return idle_in_words(ran, plan.steps, " and ".join(_reached(lowered, known))) if ran < plan.steps else ""


def idle_in_words(ran: int, steps: int, why: str) -> str:
    """What to say where only the first of some evaluations ran a pass; ``why`` is what holds already."""
    why = why or "the condition of termination"
    held = f"{why} {'hold' if ' and ' in why else 'holds'} before"
    if not ran:
        return f"no pass ran{f' in steps={steps}' * (steps > 1)}, and no output has a value: {held} the first one; {CURE}"
    idle = f"evaluation {steps}" if ran + 1 == steps else f"evaluations {ran + 1} to {steps}"
    return f"{idle} of steps={steps} ran no pass, and the outputs are those of evaluation {ran}: {held} their first one; {CURE}"


def _reached(lowered: Lowered, known: Mapping[Key, Any]) -> Iterator[str]:
    """The thresholds that hold, each with the value that reaches it."""
    for part in parts_of(lowered.plan.schedule.termination):
        if isinstance(part, Threshold):
            value = _value(part, lowered, known)
            if value is None:
                yield str(part)
            elif np.all(COMPARISONS[part.comparison](value, part.threshold)):
                yield f"{part} ({str(part).partition(' ')[0]} is {value:.6g})" if value.ndim == 0 else str(part)


def _value(part: Threshold, lowered: Lowered, known: Mapping[Key, Any]) -> np.ndarray | None:
    """The value that a threshold looks at; None where it is not known."""
    thing = next((each for each in getattr(lowered.plan.nodes[part.node], part.kind) if each.id == part.name), None)
    kind = "output" if part.kind == "output_ports" else "parameter"
    value = known.get((kind, part.node, part.name), getattr(thing, "default_initial_value", None))
    value = known.get(value.key) if isinstance(value, GivenInput) else value
    try:
        for index in part.indices:
            value = np.asarray(value)[index]
        found = np.asarray(value)
    except (IndexError, TypeError, ValueError):
        return None
    return found if found.dtype.kind in "biuf" else None
