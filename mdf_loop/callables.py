"""Python functions as bodies: ``(i, cond, *carried) -> (cond, *carried, *collected)``.

How many values a function collects is known only once it has run.  So they travel as one hidden carried
value, the list of what was gathered, and are put together when the loop has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.execute.collect import Gathering
from mdf_loop.ir import Body, Collected, Node
from mdf_loop.registry import kernel

DOMAIN = "python"

Function = Callable[..., Any]


def loop_body(function: Function, n_carried: int, captures: Sequence[str]) -> Body:
    """The body of a Loop: the function takes (iteration number, condition, carried values)."""
    carried = _numbered("carried", n_carried)
    inputs = ("iteration", "condition", *carried)
    outputs = ("condition_out", *(f"{name}_out" for name in carried))
    return _calling(function, (*inputs, "gathered"), inputs, outputs, captures)


def scan_body(function: Function, n_carried: int, n_scanned: int, captures: Sequence[str]) -> Body:
    """The body of a Scan: the function takes (carried values, parts of the scanned inputs)."""
    carried, parts = _numbered("carried", n_carried), _numbered("part", n_scanned)
    outputs = tuple(f"{name}_out" for name in carried)
    return _calling(function, (*carried, "gathered", *parts), (*carried, *parts), outputs, captures)


def branch_body(function: Function, captures: Sequence[str]) -> Body:
    """A branch of an If: the function takes captured values only; all it returns is one tuple here."""
    attrs = {"function": function, "names": tuple(captures)}
    node = Node("Return", (), ("returned",), attrs, _name(function), 1, DOMAIN, tuple(captures))
    return Body(_name(function), (), ("returned",), (node,), captures=tuple(captures), typed=False)


def _calling(
    function: Function, inputs: tuple[str, ...], arguments: tuple[str, ...], outputs: tuple[str, ...], captures: Sequence[str]
) -> Body:
    attrs = {"function": function, "names": tuple(captures), "n_values": len(outputs)}
    name, outs = _name(function), (*outputs, "gathered_out")
    node = Node("Call", ("gathered", *arguments), outs, attrs, name, 1, DOMAIN, tuple(captures))
    return Body(name, inputs, outs, (node,), captures=tuple(captures), typed=False)


def _numbered(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"{word}_{k}" for k in range(count))


def _name(function: Function) -> str:
    return getattr(function, "__name__", type(function).__name__)


@kernel("Call", domain=DOMAIN, pure=False)
def call(gathered, *values, function, names, n_values):
    """Call a Python body; its collected values are added to what was gathered, in place."""
    positional, named = _split(values, names)
    returned = function(*positional, **named)
    results = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    if len(results) < n_values:
        raise ArgumentError(
            f"the Python body {_name(function)!r} returned {len(results)} value{'s' * (len(results) != 1)}; it must return at "
            f"least {n_values}: the condition (in a loop), the carried values, then any collected ones"
        )
    _gather(gathered, results[n_values:])
    return (*results[:n_values], gathered)


@kernel("Return", domain=DOMAIN, pure=False)
def call_branch(*values, function, names):
    """Call a Python branch; what it returns stays one value here."""
    positional, named = _split(values, names)
    returned = function(*positional, **named)
    return [*returned] if isinstance(returned, tuple | list) else [returned]


def _split(values: tuple[Any, ...], names: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments: captures come last."""
    cut = len(values) - len(names)
    return values[:cut], dict(zip(names, values[cut:], strict=True))


def _gather(gathered: list[Gathering], collected: Sequence[Any]) -> None:
    if not gathered:
        gathered += [Gathering(Collected(f"collected value {k}")) for k in range(len(collected))]
    if len(collected) != len(gathered):
        raise ArgumentError(f"the Python body collected {len(gathered)} values in the first iteration and {len(collected)} now")
    values = [value if isinstance(value, np.ndarray | np.generic) else np.asarray(value) for value in collected]
    for gathering, value in zip(gathered, values, strict=True):
        gathering.check(value)
    for gathering, value in zip(gathered, values, strict=True):
        gathering.add(value)


def put_together(results: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    """Results of a loop over a Python body: the gathered list at ``place`` becomes stacked arrays at the end.

    With no iteration there is nothing to say how many values would have been collected: there are none.
    """
    gathered = results[place]
    return (*results[:place], *results[place + 1 :], *(g.array() for g in gathered))
