"""Recurrences that numpy or scipy runs in one call, one class each, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mdf_loop.plan.dependence import Component
from mdf_loop.plan.idioms.accumulating import Accumulate, Building
from mdf_loop.plan.idioms.filtering import Filter
from mdf_loop.plan.idioms.record import Idiom
from mdf_loop.plan.invariants import Invariants

IDIOMS: list[type[Idiom]] = [Accumulate, Building, Filter]


def find_idiom(component: Component, moving: Mapping[str, str], same: Invariants, read_often: Collection[str]) -> Idiom | None:
    """The idiom of a recurrence, if it is one; ``read_often`` are values with more than one reader."""
    if len(component.carried) != 1:
        return None
    (name,) = component.carried
    tried = (idiom.recognise(name, component.nodes, moving[name], same, read_often) for idiom in IDIOMS)
    return next((found for found in tried if found is not None), None)
