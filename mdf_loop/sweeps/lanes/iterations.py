"""One iteration of all lanes as one function: the calls that make it, without a look at what they are in between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from mdf_loop.backends.python.source import Source
from mdf_loop.sweeps.lanes.lane_nodes import Step

Iteration = Callable[[dict[str, Any]], None]
"""Reads values by their names in the model, and writes those that somebody looks at behind it."""


def iteration_of(steps: Sequence[Step], seen: Collection[str]) -> Iteration:
    """The function of some calls.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    seen : collection of str
        The results that somebody looks at when the iteration is over.
    """
    source = Source()
    local = dict[str, str]()

    def value(name: str) -> str:
        """The local name of a value, read where it is not there yet."""
        if name not in local:
            local[name] = source.fresh("v")
            source.line(f"{local[name]} = env[{source.use(name)}]")
        return local[name]

    for call, names, keywords, output in steps:
        given = [value(name) for name in names]
        given += [f"**{source.use(keywords)}"] if keywords else []
        found = source.fresh("v")
        source.line(f"{found} = {source.use(call)}({', '.join(given)})")
        local[output] = found
        if output in seen:
            source.line(f"env[{source.use(output)}] = {found}")
    if not source.lines:
        source.line("pass")
    return source.compiled("env")
