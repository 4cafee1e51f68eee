"""Conditions of a graph: those of graph-scheduler, with what they take."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.convert.scheduled.conditions import OF_ALL, ON_LOOPS, SYMBOLS, name_of
from mdf_loop.errors import MalformedBody, did_you_mean, malformed
from mdf_loop.integrations.condition_arguments import EXAMPLES, refuse_argument
from mdf_loop.readers.expressions.other_notations import meant_by_condition
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
                if kind == "termination":
                    _refuse_of_nodes(condition, path)
            except MalformedBody as error:
                yield error


def counts_of_zero(graph: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Conditions that count to 0, so that they are always true or never, each with its place."""
    for kind in ("node_specific", "termination"):
        for name, condition in (getattr(graph.conditions, kind, None) or {}).items():
            for inner, given in _conditions_in(condition):
                is_true = inner.startswith(("AfterN", "EveryNCalls"))  # EveryNPasses is refused
                value = "never" if inner.startswith("Before") else "always" if is_true else ""
                if value and given.get("n") == 0:
                    said = f"n of {inner} is 0, so it is {value} true; a count begins with 1"
                    yield (str(graph.id), "conditions", kind, str(name)), said


def _conditions_in(condition: Any, at_first: bool = False) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The types of a condition and of those inside it, and what they are given; ``at_first`` those that are looked at first.

    Of All the further ones are looked at where the first one is true.
    """
    if isinstance(condition, list | tuple):
        for part in condition:
            yield from _conditions_in(part, at_first)
        return
    kind, given = _read(condition, "type"), _read(condition, "kwargs")
    if isinstance(kind, str) and isinstance(given, Mapping):
        yield kind, given
        for part in given.values():
            is_first = at_first and kind in OF_ALL and isinstance(part, list | tuple)
            yield from _conditions_in(part[:1] if is_first else part, at_first)


def _refuse_of_nodes(condition: Any, path: tuple[str, ...]) -> None:
    """See that what ends an evaluation needs neither a node that has it nor one that ran before."""
    found = [(kind, given) for kind, given in _conditions_in(condition, at_first=True) if kind == "JustRan"]
    found += [(kind, given) for kind, given in _conditions_in(condition) if kind == "EveryNCalls"]
    for kind, given in found:
        what = "is asked for before any node ran" if kind == "JustRan" else "counts since its own node ran"
        node = given.get("dependency", given.get("dependencies"))
        cure = meant_by_condition({"type": "AfterNCalls", "dependency": getattr(node, "id", node), "n": given.get("n", 1)})
        raise MalformedBody(f"{kind} {what}, so it is no condition of termination{cure}", path)


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
    function = next((name for name in ("func", "process_graph_function") if name in inspect.signature(found).parameters), "")
    if function and not callable(given.get(function)):
        what = f"{kind} calls a function in Python, of which a file has the name alone; got {given.get(function)!r}"
        raise MalformedBody(f"{what}; write a condition that compares, such as Threshold", path)
    _refuse_keywords(kind, found, given, path, nodes)
    of_conditions = issubclass(found, known["CompositeCondition"]) and "args" in inspect.signature(found).parameters
    for key, value in given.items():
        place = (*path, "kwargs", key)
        if isinstance(value, list | tuple) if of_conditions else _read(value, "type") is not None:
            _refuse_condition(value, place, nodes)
        else:
            refuse_argument(value, kind, _taken_as(key, found), place, of_conditions)
    if kind == "Threshold":
        _refuse_parameter(given, path, nodes)
    elif not issubclass(found, known["CompositeCondition"]):
        _refuse_construction(found, given, path)
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


def _refuse_keywords(kind: str, found: Any, given: Mapping[str, Any], path: tuple[str, ...], nodes: Mapping[str, Any]) -> None:
    """See that a condition is given what it needs, and nothing else."""
    taken = inspect.signature(found).parameters.values()
    names, said = [parameter.name for parameter in taken], {_taken_as(name, found): value for name, value in given.items()}
    unknown = [name for name in said if name not in names]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        takes, meant = ", ".join(names) or "nothing", did_you_mean(unknown[0], names)
        raise MalformedBody(f"{kind} takes {takes}; unknown: {', '.join(unknown)}{meant}", path)
    needed = [p.name for p in taken if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    needed += [p.name for p in taken if (p.name, p.default) == ("n", None)]  # which graph-scheduler refuses without it
    if missing := [name for name in needed if name not in said]:
        node = next(iter(nodes), "node")
        example = meant_by_condition({"type": kind, **{name: EXAMPLES.get(name, node) for name in needed}, **said})
        raise MalformedBody(f"{kind} takes {', '.join(names)}; missing: {', '.join(missing)}{example}", path)


def _taken_as(name: str, found: Any) -> str:
    """The argument that MDF hands on under a name: ``dependencies`` is its own name of ``dependency``."""
    parameters = inspect.signature(found).parameters
    return "dependency" if name == "dependencies" and name not in parameters and "dependency" in parameters else name


def _refuse_construction(found: Any, given: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """See that graph-scheduler makes a condition of what it is given, as MDF hands it on."""
    taken = {parameter.kind: parameter.name for parameter in inspect.signature(found).parameters.values()}
    by_place = "" if inspect.Parameter.VAR_KEYWORD in taken else taken.get(inspect.Parameter.VAR_POSITIONAL, "")
    named = {_taken_as(name, found): value for name, value in given.items() if name != by_place}
    with malformed(f"graph-scheduler refuses {found.__name__}", path):
        found(*given.get(by_place, ()), **named)


def _conditions() -> dict[str, Any]:
    """The conditions that graph-scheduler has, by their names."""
    from graph_scheduler import condition

    named = vars(condition).items()
    return {name: found for name, found in named if isinstance(found, type) and issubclass(found, condition.ConditionBase)}


def _read(condition: Any, name: str) -> Any:
    """The type of a condition, or what it is given; None of anything else."""
    return condition.get(name) if isinstance(condition, Mapping) else getattr(condition, name, None)
