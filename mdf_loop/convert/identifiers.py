"""Ids that are no Python names: MDF reads expressions over the ids of ports, parameters and functions with Python.

Every id in a file is renamed in the same way wherever it stands: two values that had one name have one name, and no two
get the same.  The ids that were are kept in the metadata as ``original_id``.  Ids are data throughout: no text of a
model is evaluated.
"""

from __future__ import annotations

import itertools
import keyword
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.readers.expressions.expression_text import names_in, tree_if_any
from mdf_loop.readers.mdf.typed import function_of

Names = Mapping[str, str]

ORIGINAL = "original_id"


def is_name(text: Any) -> bool:
    """Whether Python reads a text as one name, as it is written."""
    return (
        isinstance(text, str)
        and text.isidentifier()
        and not keyword.iskeyword(text)
        and unicodedata.normalize("NFKC", text) == text
    )


def rename(graphs: Sequence[Any], is_imported: bool) -> None:
    """Rename what is no name in graphs and the bodies in them (all of which are given).

    Nothing is renamed in a model whose ports, parameters and functions all have names; unless it is one that the importer
    wrote, ids of nodes are no names then and need not be.
    """
    values, others = _ids(graphs)
    variables = {id for graph in graphs for node in graph.nodes for id in _variables(node)}
    twins = {id for graph in graphs for node in graph.nodes for id in _twins(node)} if is_imported else set()
    odd = [id for id in dict.fromkeys([*values, *others]) if not is_name(id)]
    if not twins and not (odd and (is_imported or not all(map(is_name, variables)))):
        return
    taken = {*values, *others}
    names = {id: _readable(id, taken) for id in odd}
    values_names = {**names, **{id: _readable(id, taken) for id in sorted(twins)}}
    for graph in graphs:
        _Renaming(names, values_names).graph(graph)


def _ids(graphs: Sequence[Any]) -> tuple[list[str], list[str]]:
    """The ids of values (ports), and all others: nodes, parameters, functions, arguments."""
    values, others = [], []
    for graph in graphs:
        for node in graph.nodes:
            values += [port.id for port in (*node.input_ports, *node.output_ports)]
            others += [node.id, *_variables(node, ports=False)]
            others += [key for thing in (*node.parameters, *node.functions) for key in thing.args or {}]
    return [id for id in values if isinstance(id, str)], [id for id in others if isinstance(id, str)]


def _variables(node: Any, ports: bool = True) -> Iterator[str]:
    """The names that expressions of a node can read."""
    yield from (thing.id for thing in (*node.parameters, *node.functions))
    if ports:
        yield from (port.id for port in node.input_ports)


def _twins(node: Any) -> Iterator[str]:
    """Input ports that MDF would take for something else of the same name.

    The importer names a constant after the operator's input, and arguments are evaluated in order, each seeing those
    before it: a value that is called A, or B, hides behind them.
    """
    function = function_of(node)
    args = (function.args or {}) if function is not None else {}
    for port in node.input_ports:
        is_other = any(port.id == thing.id for thing in (*node.parameters, *node.functions))
        if is_other or (port.id in args and args[port.id] != port.id):
            yield port.id


def _readable(id: str, taken: set[str]) -> str:
    """A name like an id, that is not taken yet; it is taken from now on."""
    name = re.sub(r"_*\W+_*", "_", unicodedata.normalize("NFKC", id)).strip("_") or "value"
    if not name.isidentifier():
        name = f"_{name}"
    if not is_name(name):
        name = f"{name}_"
    for text in itertools.chain([name], (f"{name.rstrip('_')}_{k}" for k in itertools.count(2))):
        if text not in taken and is_name(text):
            taken.add(text)
            return text
    raise AssertionError("there is always another number")


class _Renaming:
    """Renames in graphs: ``values`` are the names of ports, ``others`` those of everything else."""

    def __init__(self, others: Names, values: Names) -> None:
        self.others, self.values = others, values

    def graph(self, graph: Any) -> None:
        """Rename what stands in a graph; the bodies in it are graphs of their own."""
        if graph.metadata:
            graph.metadata = self._metadata(graph)
        for edge in graph.edges:
            self._edge(edge)
        if graph.conditions is not None:
            self._conditions(graph.conditions)
        for node in graph.nodes:
            self._node(node)

    def _metadata(self, graph: Any) -> dict[str, Any]:
        """The names in a signature: of a port, or of a node and a port with a dot between."""
        full = {f"{node.id}.{port.id}": self._full(node, port) for node in graph.nodes for port in _ports(node)}

        def renamed(name: Any) -> Any:
            return full.get(name) or self.values.get(name, name) if isinstance(name, str) else name

        changed = dict(graph.metadata)
        for key in ("inputs", "outputs"):
            if isinstance(changed.get(key), list | tuple):
                changed[key] = [renamed(name) for name in changed[key]]
        if isinstance(changed.get("types"), dict):
            changed["types"] = {renamed(name): kind for name, kind in changed["types"].items()}
        return changed

    def _full(self, node: Any, port: Any) -> str:
        return f"{self.others.get(node.id, node.id)}.{self.values.get(port.id, port.id)}"

    def _edge(self, edge: Any) -> None:
        before = _edge_id(edge)
        for end in ("sender", "receiver"):
            setattr(edge, end, self.others.get(getattr(edge, end), getattr(edge, end)))
            port = f"{end}_port"
            setattr(edge, port, self.values.get(getattr(edge, port), getattr(edge, port)))
        if edge.id == before:
            edge.id = _edge_id(edge)

    def _conditions(self, conditions: Any) -> None:
        if conditions.node_specific:
            conditions.node_specific = {self.others.get(k, k): self._condition(c) for k, c in conditions.node_specific.items()}
        if conditions.termination:
            conditions.termination = {scale: self._condition(c) for scale, c in conditions.termination.items()}

    def _condition(self, condition: Any) -> Any:
        """A condition, or what stands in one: nodes, parameters and ports are named by their ids."""
        if hasattr(condition, "kwargs"):
            condition.kwargs = self._condition(condition.kwargs)
            return condition
        if isinstance(condition, dict):
            return {key: self._condition(value) for key, value in condition.items()}
        if isinstance(condition, list | tuple):
            return type(condition)(map(self._condition, condition))
        if isinstance(condition, str):
            return self.others.get(condition, self.values.get(condition, condition))
        return condition

    def _node(self, node: Any) -> None:
        scope = _Scope(node, self.values, self.others)
        for thing in (*node.parameters, *node.functions):
            for key in ("value", "default_initial_value", "time_derivative"):
                if isinstance(text := getattr(thing, key, None), str):
                    setattr(thing, key, scope.renamed(text))
            if thing.args:
                thing.args = {self.others.get(key, key): scope.argument(key, text) for key, text in thing.args.items()}
            for condition in getattr(thing, "conditions", None) or ():
                _rename_test(condition, scope)
        for port in node.output_ports:
            port.value = scope.renamed(port.value) if isinstance(port.value, str) else port.value
        for port in _ports(node):
            _call(port, self.values)
        for thing in (*node.parameters, *node.functions, node):
            _call(thing, self.others)


def _ports(node: Any) -> list[Any]:
    return [*node.input_ports, *node.output_ports]


def _edge_id(edge: Any) -> str:
    """What the importer calls an edge."""
    return f"{edge.sender}.{edge.sender_port}_{edge.receiver}.{edge.receiver_port}"


def _call(thing: Any, names: Names) -> None:
    """Give something its new id, and keep the one it had."""
    if thing.id in names:
        thing.metadata = {**(thing.metadata or {}), ORIGINAL: thing.id}
        thing.id = names[thing.id]


def _rename_test(condition: Any, scope: _Scope) -> None:
    """Rename in the condition of a parameter, which is a dict where it comes from a file."""
    for key in ("test", "value"):
        text = condition.get(key) if isinstance(condition, dict) else getattr(condition, key)
        if isinstance(text, str) and isinstance(condition, dict):
            condition[key] = scope.renamed(text)
        elif isinstance(text, str):
            setattr(condition, key, scope.renamed(text))


class _Scope:
    """The names that the expressions of one node read."""

    def __init__(self, node: Any, values: Names, others: Names) -> None:
        function = function_of(node)
        things = (*node.parameters, *node.functions)
        self.constants = {thing.id for thing in things if thing is not function}
        self.ports = {port.id: values.get(port.id, port.id) for port in node.input_ports}
        self.things = {thing.id: others.get(thing.id, thing.id) for thing in things}
        self.names = {**self.ports, **self.things}

    def argument(self, key: str, text: Any) -> Any:
        """An argument: where a port and a constant have one name, the constant is the argument of that name."""
        if not isinstance(text, str):
            return text
        if text in self.ports and not (text in self.constants and key == text):
            return self.ports[text]
        return self.renamed(text)

    def renamed(self, text: str) -> str:
        """An expression with the new names."""
        if text in self.names:
            return self.names[text]
        changing = {id: name for id, name in self.names.items() if id and id != name and id in text}
        reads = _read(text)
        if not changing or (reads is not None and reads <= self.names.keys() - changing.keys()):
            return text
        pattern = "|".join(map(re.escape, sorted(changing, key=len, reverse=True)))
        changed = re.sub(rf"(?<![\w.])(?:{pattern})(?!\w)", lambda found: changing[found[0]], text)
        return text if _read(changed) is None else changed


def _read(text: str) -> set[str] | None:
    """The names in an expression; None if Python cannot read it."""
    tree = tree_if_any(text)
    return None if tree is None else set(names_in(tree))
