"""Python functions as bodies: ``(i, cond, *carried) -> (cond, *carried, *collected)``.

How many values a function collects is known only once it has run.  So they travel as one hidden carried
value, the list of what was gathered, whose arrays become the last results when the loop has ended.  The function itself is
a hidden captured value: a body is the same for all functions of one name and signature, and keeps none of them alive.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.execute.collect import Gathered, Gathering, shape_of
from mdf_loop.execute.program import Hidden
from mdf_loop.ir import Body, Collected, Node
from mdf_loop.ops.registry import kernel
from mdf_loop.readers.arguments import warn_of_order

DOMAIN = "python"

BODY, BRANCH = "Python body", "Python branch"
"""The operators that call a function."""

Function = Callable[..., Any]


FUNCTION = "the function"
"""What a body captures the function as; it is no name that a value of a user has."""


@dataclass(frozen=True, eq=False)
class Called(Hidden):
    """A function on its way to the node that calls it."""

    function: Function


def loop_body(name: str, names: Sequence[str], captures: Sequence[str]) -> Body:
    """The body of a Loop: the function takes (iteration number, condition, carried values), which it calls so."""
    warn_of_order(name, names)
    outputs = ("condition_out", *(f"{value}_out" for value in names[2:]))
    return _calling(name, (*names, "gathered"), (*names,), outputs, captures)


def scan_body(name: str, names: Sequence[str], n_scanned: int, captures: Sequence[str]) -> Body:
    """The body of a Scan: the function takes (carried values, parts of the scanned inputs), which it calls so."""
    carried, parts = names[: len(names) - n_scanned], names[len(names) - n_scanned :]
    outputs = tuple(f"{value}_out" for value in carried)
    return _calling(name, (*carried, "gathered", *parts), (*names,), outputs, captures)


def loop_names(function: Function, n_carried: int, captures: Iterable[str]) -> tuple[str, ...]:
    """What the body of a Loop calls the values that its function is given in order."""
    return _names_of(function, ("iteration", "condition", *_numbered("carried", n_carried)), captures)


def scan_names(function: Function, n_carried: int, n_scanned: int, captures: Iterable[str]) -> tuple[str, ...]:
    """The same of a Scan."""
    return _names_of(function, (*_numbered("carried", n_carried), *_numbered("part", n_scanned)), captures)


def _names_of(function: Function, others: tuple[str, ...], captures: Iterable[str]) -> tuple[str, ...]:
    """The names of a function's parameters; the ``others`` if they are not known, or cannot be names of a body."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[inspect.ismethod(function) : code.co_argcount][: len(others)] if code is not None else ()
    taken = {"gathered", "gathered_out", FUNCTION, "condition_out", *captures, *(f"{name}_out" for name in names)}
    return names if len(names) == len(others) and taken.isdisjoint(names) else others


def _numbered(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"{word}_{k}" for k in range(count))


def branch_body(name: str, captures: Sequence[str], function: str = FUNCTION) -> Body:
    """A branch of an If: the function takes captured values only; all it returns is one tuple here.

    ``function`` is what it is captured as: the two branches of an If have two.
    """
    captured = (*captures, function)
    node = Node(BRANCH, (), ("returned",), {"names": tuple(captures)}, name, 1, DOMAIN, captured)
    return Body(name, (), ("returned",), (node,), captures=captured, typed=False)


def _calling(
    name: str, inputs: tuple[str, ...], arguments: tuple[str, ...], outputs: tuple[str, ...], captures: Sequence[str]
) -> Body:
    attrs = {"names": tuple(captures), "n_values": len(outputs)}
    captured, outs = (*captures, FUNCTION), (*outputs, "gathered_out")
    node = Node(BODY, ("gathered", *arguments), outs, attrs, name, 1, DOMAIN, captured)
    return Body(name, inputs, outs, (node,), captures=captured, typed=False)


def name_of(function: Function) -> str:
    """What messages call a function."""
    return getattr(function, "__name__", type(function).__name__)


@kernel(BODY, domain=DOMAIN, pure=False)
def call_body(gathered, *values, names, n_values):
    """Call a Python body, which is the last value; its collected values are added to what was gathered, in place.

    A function may change arrays in place, those that it is given and those that it returned.  So it is given copies and
    copies are kept: what was carried stays what it was if the iteration does not come to its end.
    """
    function, positional, named = _split(values, names)
    try:
        returned = function(*map(_own, positional), **named)
    except TypeError as error:
        _refuse_signature(function, positional, named, error)
        raise
    results = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    if len(results) < n_values:
        is_other = returned is None or isinstance(returned, dict | str | set)
        count = f"{len(results)} value{'s' * (len(results) != 1)}"
        got = count if not is_other else "None" if returned is None else f"a {type(returned).__name__}"
        raise ArgumentError(
            f"the Python body {name_of(function)!r} returned {got}; it must return at "
            f"least {n_values}: the condition (in a loop), the carried values, then any collected ones"
        )
    _gather(gathered, results[n_values:])
    if gathered.first is None:
        gathered.first = [*map(shape_of, results[:n_values])]
    return (*map(_own, results[:n_values]), gathered)


def _refuse_signature(function: Function, positional: Sequence[Any], named: Mapping[str, Any], error: TypeError) -> None:
    """Say what a loop hands to a function, where that does not take it.

    Raises
    ------
    ArgumentError
    """
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError as reason:
        given = " and ".join([f"{len(positional)} values in order", *map(repr, named)])
        raise ArgumentError(
            f"it cannot be called with {given} ({reason}); a body is a function (i, cond, *carried, **captured) in a Loop, "
            "(*carried, *parts, **captured) in a Scan"
        ) from error
    except ValueError:  # a function that does not say what it takes
        return


@kernel(BRANCH, domain=DOMAIN, pure=False)
def call_branch(*values, names):
    """Call a Python branch, which is the last value; what it returns stays one value here."""
    function, positional, named = _split(values, names)
    returned = function(*positional, **named)
    return [*returned] if isinstance(returned, tuple | list) else [returned]


def _split(values: tuple[Any, ...], names: tuple[str, ...]) -> tuple[Function, tuple[Any, ...], dict[str, Any]]:
    """The function, its positional and its keyword arguments: captures come last, and the function behind them."""
    cut = len(values) - len(names) - 1
    return values[-1].function, values[:cut], dict(zip(names, values[cut:-1], strict=True))


def _gather(gathered: Gathered, collected: Sequence[Any]) -> None:
    """Keep the values of one iteration: copies, for the function may go on to change its arrays in place."""
    if not gathered:
        gathered += [Gathering(Collected(f"collected value {k}")) for k in range(len(collected))]
    if len(collected) != len(gathered):
        first = f"{len(gathered)} value{'s' * (len(gathered) != 1)}"
        raise ArgumentError(f"the Python body collected {first} in the first iteration and {len(collected)} now")
    values = [value if value is None or isinstance(value, str) else np.array(value) for value in collected]
    for gathering, value in zip(gathered, values, strict=True):
        gathering.check(value)
    for gathering, value in zip(gathered, values, strict=True):
        gathering.add(value)


def _own(value: Any) -> Any:
    """A value that shares no memory with another one."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_own(item) for item in value] if type(value) is list else value
