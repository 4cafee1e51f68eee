"""Conditions of a graph: those of graph-scheduler, with what they take."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import ON_LOOPS, SYMBOLS, name_of
from mdf_loop.errors import MalformedBody, did_you_mean, in_words
from mdf_loop.readers.mdf.stepped_loops import not_stepped, stepped_loop

_TIME = re.compile(r"\s*[-+]?[\d.]+([eE][-+]?\d{1,3})?\s*\w*\s*")


def refuse_conditions(graph: Any) -> None:
    """See that the conditions of a graph are conditions of graph-scheduler; MDF calls whatever has their name.

    Raises
    ------
    MalformedBody
        One is not, or is given what it does not take.
    """
    for error in wrong_conditions(graph):
        raise error


def wrong_conditions(graph: Any) -> Iterator[MalformedBody]:
    """What is wrong with the conditions of a graph: of each the first error."""
    nodes = {node.id: node for node in graph.nodes}
    for kind in ("node_specific", "termination"):
        for name, condition in (getattr(graph.conditions, kind, None) or {}).items():
            path = (str(graph.id), "conditions", kind, str(name))
            try:
                if kind == "termination":
                    _refuse_scale(name, path)
                _refuse_condition(condition, path, nodes)
            except MalformedBody as error:
                yield error


def counts_of_zero(graph: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Conditions that count to 0, so that they are always true or never, each with its place."""
    for kind in ("node_specific", "termination"):
        for name, condition in (getattr(graph.conditions, kind, None) or {}).items():
            for inner, given in _conditions_in(condition):
                value = "never" if inner.startswith("Before") else "always" if inner.startswith(("AfterN", "Every")) else ""
                if value and given.get("n") == 0:
                    said = f"n of {inner} is 0, so it is {value} true; a count begins with 1"
                    yield (str(graph.id), "conditions", kind, str(name)), said


def _conditions_in(condition: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The types of a condition and of those inside it, and what they are given."""
    if isinstance(condition, list | tuple):
        for part in condition:
            yield from _conditions_in(part)
        return
    read = condition.get if isinstance(condition, Mapping) else lambda name: getattr(condition, name, None)
    kind, given = read("type"), read("kwargs")
    if isinstance(kind, str) and isinstance(given, Mapping):
        yield kind, given
        for part in given.values():
            yield from _conditions_in(part)


def _refuse_scale(key: Any, path: tuple[str, ...]) -> None:
    """See that a condition of termination says what ends: one evaluation of the graph, or all of them."""
    from graph_scheduler.time import TimeScale

    name = str(getattr(key, "name", key)).rpartition(".")[2]
    if name.upper() not in TimeScale.__members__:
        known = ("environment_state_update", "environment_sequence")
        meant = {"trial": f"; did you mean {known[0]!r}?", "run": f"; did you mean {known[1]!r}?"}
        meant_by = meant.get(name.lower()) or did_you_mean(name.lower(), known)
        raise MalformedBody(f"termination has the keys {' and '.join(known)}; got {name!r}{meant_by}", path)


def _refuse_condition(condition: Any, path: tuple[str, ...], nodes: Mapping[str, Any]) -> None:
    """See that a condition is right, and all those inside it."""
    if isinstance(condition, list | tuple):
        for part in condition:
            _refuse_condition(part, path, nodes)
        return
    if isinstance(condition, Mapping):
        kind, given = condition.get("type"), condition.get("kwargs")
    else:
        kind, given = getattr(condition, "type", None), getattr(condition, "kwargs", None)
    if kind is None:
        return
    known = _conditions()
    found = known.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise MalformedBody(f"graph-scheduler has no condition {kind!r}{did_you_mean(kind, known)}", path)
    if not isinstance(given, Mapping):
        return
    if isinstance(given.get("func"), str):
        what = f"{kind} calls a function in Python, of which a file has the name alone ({given['func']!r})"
        raise MalformedBody(f"{what}; write a condition that compares, such as Threshold", path)
    for key, value in given.items():
        least = int(kind == "EveryNPasses")  # which divides by it
        if key == "n" and not (_is_count(value) and value >= least):
            raise MalformedBody(f"n of {kind} must be a whole number from {least} on; got {in_words(value)}", path)
        if isinstance(value, str):
            _refuse_text(value, kind, key, path)
        else:
            _refuse_condition(value, path, nodes)
    _refuse_keywords(kind, found, given, path)
    if kind == "Threshold":
        _refuse_parameter(given, path, nodes)
    node = _node_of(given, nodes) if kind in ON_LOOPS else None
    if node is not None and stepped_loop(node) is None:
        raise MalformedBody(not_stepped(kind, node.id), path)


def _node_of(given: Mapping[str, Any], nodes: Mapping[str, Any]) -> Any:
    """The node that a condition depends on; None where there is no such node."""
    dependency = given.get("dependency", given.get("dependencies"))
    return nodes.get(str(getattr(dependency, "id", dependency)))


def _refuse_parameter(given: Mapping[str, Any], path: tuple[str, ...], nodes: Mapping[str, Any]) -> None:
    """See that a Threshold compares in a way that there is, and something that its node has."""
    symbol = given.get("comparator")
    if isinstance(symbol, str) and symbol not in SYMBOLS:
        meant = {"=": "==", "<>": "!="}.get(symbol) or next((each for each in SYMBOLS if sorted(each) == sorted(symbol)), "")
        near = f"; did you mean {meant!r}?" if meant else ""
        raise MalformedBody(f"comparator of Threshold must be one of {', '.join(SYMBOLS)}; got {symbol!r}{near}", path)
    node, name = _node_of(given, nodes), given.get("parameter")
    kinds = ("input_ports", "parameters", "functions", "output_ports")
    names = [thing.id for kind in kinds for thing in getattr(node, kind, ())]
    if node is not None and name_of(node, name) not in names:
        has = ", ".join(dict.fromkeys(names)) or "nothing"
        raise MalformedBody(
            f"parameter of Threshold is {name!r}, which node {node.id!r} does not have; it has {has}{did_you_mean(name, names)}",
            path,
        )


def _is_count(value: Any) -> bool:
    """Whether a value is a whole number from 0 on, as int or as float."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_number and bool(value >= 0 and value % 1 == 0)


def _refuse_keywords(kind: str, found: Any, given: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """See that a condition is given what it takes, and nothing else."""
    taken = inspect.signature(found).parameters.values()
    names = [parameter.name for parameter in taken]  # MDF hands a list to *args, too
    known = {*names, *("dependencies" for name in names if name == "dependency")}  # MDF's preferred name of it
    unknown = [name for name in given if name not in known]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        takes, meant = ", ".join(names) or "nothing", did_you_mean(unknown[0], names)
        raise MalformedBody(f"{kind} takes {takes}; unknown: {', '.join(unknown)}{meant}", path)
    said = {*given, *("dependency" for name in given if name == "dependencies")}
    needed = [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    if missing := [name for name in needed if name not in said]:
        raise MalformedBody(f"{kind} takes {', '.join(names)}; missing: {', '.join(missing)}", path)


def _conditions() -> dict[str, Any]:
    """The conditions that graph-scheduler has, by their names."""
    from graph_scheduler import condition

    named = vars(condition).items()
    return {name: found for name, found in named if isinstance(found, type) and issubclass(found, condition.ConditionBase)}


def _refuse_text(text: str, kind: str, key: str, path: tuple[str, ...]) -> None:
    from graph_scheduler.time import TimeScale
    from modeci_mdf.execution_engine import time_scale_str_regex

    scale = re.match(time_scale_str_regex, text)
    if scale is not None and hasattr(TimeScale, scale[2]) and scale[2] not in TimeScale.__members__:
        raise MalformedBody(
            f"{key} of {kind}: there is no time scale {text!r}; there are {', '.join(TimeScale.__members__)}", path
        )
    if kind.startswith("Time") and key != "unit" and not _TIME.fullmatch(text):
        raise MalformedBody(f"{key} of {kind} must be a time such as '10 ms'; got {text[:60]!r}", path)
