"""Conditions of a graph: those of graph-scheduler, with what they take."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.convert.scheduled.conditions import ON_LOOPS, SYMBOLS, name_of
from mdf_loop.errors import MalformedBody, did_you_mean
from mdf_loop.integrations.condition_arguments import refuse_argument
from mdf_loop.readers.mdf.stepped_loops import not_stepped, stepped_loop


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
    kind, given = _read(condition, "type"), _read(condition, "kwargs")
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
        for k, part in enumerate(condition):
            _refuse_condition(part, (*path, str(k)), nodes)
        return
    kind, given = _read(condition, "type"), _read(condition, "kwargs")
    if kind is None:
        refuse_argument(condition, "", "condition", path)
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
    _refuse_keywords(kind, found, given, path)
    of_conditions = issubclass(found, known["CompositeCondition"]) and "args" in inspect.signature(found).parameters
    for key, value in given.items():
        place = (*path, "kwargs", key)
        if _read(value, "type") is not None or (of_conditions and isinstance(value, list | tuple)):
            _refuse_condition(value, place, nodes)
        else:
            refuse_argument(value, kind, key, place, of_conditions)
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


def _read(condition: Any, name: str) -> Any:
    """The type of a condition, or what it is given; None of anything else."""
    return condition.get(name) if isinstance(condition, Mapping) else getattr(condition, name, None)
