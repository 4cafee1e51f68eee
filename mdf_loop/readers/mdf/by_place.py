"""Initial values and results of loops by name, in the nodes of MDF, made into those by place that all else goes on with.

``args: {t: 0.0, v: v_rest}`` over ``carried: {v: ..., t: ...}`` becomes ``{v: v_rest, t: 0.0}``, ``run.t`` becomes ``run[1]``,
and equations in a node that has a ``tau`` say that they capture it.  A graph in which names and places agree stays as it is.
"""

from __future__ import annotations

import ast
import copy
import functools
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.errors import ArgumentError, LoopError, MalformedBody, UnsupportedOp
from mdf_loop.ir import Body, record
from mdf_loop.options import current_options
from mdf_loop.readers.arguments import by_stems, meant, of_let, unmatched
from mdf_loop.readers.expressions.equation_texts import (
    AMBIENT,
    Equations,
    equations_in,
    is_equations,
    refuse_of_other_kinds,
    within,
)
from mdf_loop.readers.expressions.expression_text import (
    DEEPEST,
    LONGEST,
    as_name,
    parse,
    refuse_decimal_comma,
    refuse_depth,
    tree_if_any,
    tree_of,
    variables,
)
from mdf_loop.readers.expressions.values import NotCompiled
from mdf_loop.readers.mdf.graph_objects import as_graph
from mdf_loop.readers.onnx.loop_records import SCAN_ATTRIBUTES

LOOPS = {"onnx::Loop": "loop", "onnx::Scan": "scan"}
"""Functions whose values and results have names, and what their bodies are for."""

NO_VALUES = {"M", "cond", "body", "num_scan_inputs", *SCAN_ATTRIBUTES}
"""Arguments of a loop that are no values of its body."""

Read = Callable[[Any, int, str], Body]


@record
class NamedResults:
    """The results of a loop over equations: names in their order, those of carried values first."""

    names: tuple[str, ...]
    n_carried: int
    let: Collection[str] = ()

    def place(self, name: str) -> int:
        """The place of a result.

        Raises
        ------
        MalformedBody
            There is none of that name, or two are.
        """
        places = [k for k, other in enumerate(self.names) if other == name]
        if len(places) != 1:
            said = f"is no result of the equations{of_let(name, self.let) or meant(name, self.names)}"
            if places:
                said = f"is carried (result [{places[0]}]) and collected ([{places[-1]}]): write the number, or rename one"
            raise MalformedBody(f"{name!r} {said}; the results are {', '.join(self.names)}, from [0] on")
        return places[0]

    def contradicts(self, name: str, place: int) -> bool:
        """Whether another result of the same part has the name: sorting a file would exchange the two."""
        if self.names.count(name) != 1 or place >= len(self.names):
            return False
        there = self.names.index(name)
        return there != place and (there < self.n_carried) == (place < self.n_carried)


def graph_by_place(graph: Any, read: Read, around: Iterable[str] = ()) -> Any:
    """A graph whose loops match values by place; itself if they do.

    Parameters
    ----------
    graph : modeci_mdf.mdf.Graph
    read : callable
        Reads a body: ``read(source, n_carried, kind)``.
    around : iterable of str
        Names of values around the graph that its bodies may read.

    Raises
    ------
    ArgumentError, MalformedBody
        A loop is given a value by a name that its equations do not have, or a result is read that they do not have.
    """
    nodes = [node_by_place(node, read, (str(graph.id),), around) for node in graph.nodes]
    if all(made is node for made, node in zip(nodes, graph.nodes, strict=True)):
        return graph
    graph = copy.copy(graph)
    graph.nodes = nodes
    return graph


def node_by_place(node: Any, read: Read, path: tuple[str, ...] = (), around: Iterable[str] = ()) -> Any:
    """A node of a graph, likewise."""
    here, results = (*path, node.id), dict[str, NamedResults]()
    ids = (thing.id for thing in (*node.input_ports, *node.parameters, *node.functions))
    names = AMBIENT.intersection((*around, *ids))

    def inside(thing: Any) -> Any:
        args = _changed(thing.args, lambda source: _inside(source, read, names))
        return _with(thing, value=_inside(thing.value, read, names), args=args)

    def arranged(thing: Any) -> Any:
        thing, found = _arranged(node, thing, read, (*here, thing.id))
        results.update({} if found is None else {thing.id: found})
        return thing

    node = _with_things(node, inside) if names else node
    node = _with_things(node, arranged)
    if results:
        node = _rewritten(node, here, _ByPlace(results).text, lambda at, port: _of_port(at, port, results))
    return _with(node, parameters=_in_order(node.parameters))


def _in_order(parameters: Sequence[Any]) -> Sequence[Any]:
    """Parameters, each behind those that its first value reads: MDF takes them as they stand, and has none of a later one."""
    ordered: dict[str, Any] = {}
    named = {parameter.id: parameter for parameter in parameters}

    def add(parameter: Any, waiting: tuple[str, ...]) -> None:
        initial = parameter.default_initial_value
        reads = _reads(parameter.value if initial is None else initial)
        for name in () if parameter.id in reads else reads:
            if name in named and name not in (*ordered, *waiting) and len(waiting) < DEEPEST:
                add(named[name], (*waiting, name))
        ordered[parameter.id] = parameter

    for parameter in parameters:
        if parameter.id not in ordered:
            add(parameter, (parameter.id,))
    is_same = len(ordered) < len(parameters) or all(map(operator.is_, ordered.values(), parameters))
    return parameters if is_same else [*ordered.values()]


def signature_of(function: str, args: Mapping[str, Any]) -> tuple[int, str]:
    """How many values a function's body carries, and what the body is for, from the arguments as they are written."""
    given = sum(_count(value) for key, value in args.items() if key not in NO_VALUES)
    if function == "onnx::Scan":
        scanned = args.get("num_scan_inputs")
        return (given - scanned if isinstance(scanned, int) else 0), "scan"
    return (0, "branch") if function == "onnx::If" else (given, "loop")


def _count(value: Any) -> int:
    """How many values an argument is: as many as a tuple has, or one."""
    written = tree_if_any(value) if isinstance(value, str) else None
    return len(written.elts) if isinstance(written, ast.Tuple) else 1


def _reads(text: Any) -> list[str]:
    if not isinstance(text, str) or len(text) > LONGEST:
        return []
    tree = tree_if_any(text)
    return [] if tree is None else variables(tree)


def source_of(node: Any, thing: Any, key: str = "body") -> Any:
    """What a body is written as: the argument itself, or the value of the parameter that it names, or that has its name."""
    source = (thing.args or {}).get(key, key)
    held = {parameter.id: parameter.value for parameter in node.parameters}
    return held.get(source) if isinstance(source, str) else source


def equations_of(node: Any, thing: Any) -> Equations | None:
    """The equations of a loop; None if its body is none, or cannot be read."""
    source = source_of(node, thing) if thing.function in LOOPS else None
    try:
        return equations_in(source) if isinstance(source, Mapping) and is_equations(source) else None
    except MalformedBody:  # reading it raises the error
        return None


def equations_in_nodes(graph: Any) -> Iterator[tuple[Any, Any, Equations]]:
    """The parameters of a graph's nodes that are equations: node, parameter and what they say."""
    for node in graph.nodes:
        for parameter in node.parameters:
            if isinstance(parameter.value, Mapping) and is_equations(parameter.value):
                yield node, parameter, equations_in(parameter.value)


TEXTS = ("value", "default_initial_value", "time_derivative")
"""What a parameter, function or port says in a text; ``args`` and ``conditions`` hold more."""


def _with(thing: Any, **changes: Any) -> Any:
    """A node, or a part of it, with other values; itself if they are the same."""
    changes = {slot: new for slot, new in changes.items() if new is not getattr(thing, slot, None)}
    made = copy.copy(thing) if changes else thing
    for slot, new in changes.items():
        setattr(made, slot, new)
    return made


def _each(things: Sequence[Any], change: Callable[[Any], Any]) -> Sequence[Any]:
    """Parts that change; the list itself if none does."""
    made = [change(thing) for thing in things]
    return things if all(map(operator.is_, made, things)) else made


def _with_things(node: Any, change: Callable[[Any], Any]) -> Any:
    """A node whose parameters and functions change."""
    return _with(node, parameters=_each(node.parameters, change), functions=_each(node.functions, change))


def _changed(held: Any, change: Callable[[Any], Any]) -> Any:
    """A mapping with changed values; itself if none changes."""
    made = {key: change(value) for key, value in held.items()} if held else held
    return held if not held or all(made[key] is held[key] for key in held) else made


def _inside(source: Any, read: Read, names: Iterable[str]) -> Any:
    """A body in which names of values around it win; any other value as it is."""
    if not isinstance(source, Mapping) or is_equations(source):
        return within(source, frozenset(names)) if isinstance(source, Mapping) else source
    if len(source) != 1 or not str(key := next(iter(source))).startswith("graph_"):
        return source
    try:
        graph = as_graph(source)
        made = graph_by_place(graph, read, names)
    except LoopError:  # reading it raises the error
        return source
    return source if made is graph else {key: made}


def _arranged(node: Any, thing: Any, read: Read, path: tuple[str, ...]) -> tuple[Any, NamedResults | None]:
    """A loop with its values in the order of its body, and what its results are called, if its body says that."""
    kind = LOOPS.get(thing.function or "") if thing.value is None else None
    args = thing.args or {}
    source = source_of(node, thing)
    keys = [key for key in args if key not in NO_VALUES]
    if kind is None or not isinstance(source, Mapping):
        return thing, None
    if not is_equations(source):
        names = _names_in(node, thing, kind, read, path)
        order, results = names if set(names) == set(keys) else (), None
    else:
        try:
            said = equations_in(source)
            refuse_of_other_kinds(said, kind)
        except MalformedBody as error:
            _refuse_if_named(node, thing, error, path)
            return thing, None
        spelt = {as_name(key): key for key in keys}
        for key in keys:
            refuse_decimal_comma(args[key], path)
        count = sum(_count(args[key]) for key in keys)
        in_order = count > len(keys) and count == len(said.names)  # a tuple is several values
        order = [] if in_order else [spelt[name] for name in _by_name(said.carried, said.scanned, [*spelt], path)]
        if count > len(keys) and not in_order:
            names = ", ".join(said.names)
            raise ArgumentError(f"{'/'.join(path)}: the equations carry {names}; args give {count} values, as a tuple is several")
        results = NamedResults((*said.carried, *said.collected), len(said.carried), said.let)
    if order and [*order] != keys:
        first = {key: value for key, value in args.items() if key in NO_VALUES}
        thing = _with(thing, args=first | {name: args[name] for name in order})
    return thing, results


def _refuse_if_named(node: Any, thing: Any, error: Exception, path: tuple[str, ...]) -> None:
    """Raise what is wrong with a body where its results are read by name, which is an error as well; else reading it does.

    Raises
    ------
    MalformedBody
    """
    name = (thing.args or {}).get("body", "body")
    if any(re.match(rf"\s*{re.escape(thing.id)}\s*\.", str(port.value)) for port in node.output_ports):
        said = MalformedBody(str(error), (*path[:-1], name if isinstance(name, str) else thing.id))
        said.path, said.others = (*said.path, *getattr(error, "path", ())), getattr(error, "others", ())
        raise said from error


def _names_in(node: Any, thing: Any, kind: str, read: Read, path: tuple[str, ...]) -> Sequence[str]:
    """The names that a body other than equations gives its values; none if it cannot be read."""
    count, scanned = len({*(thing.args or ())} - NO_VALUES), (thing.args or {}).get("num_scan_inputs")
    try:
        inputs = read(source_of(node, thing), count - scanned if isinstance(scanned, int) else count, kind).inputs
    except (LoopError, NotCompiled) as error:
        _refuse_if_named(node, thing, error, path)
        return ()
    return inputs[2:] if kind == "loop" else inputs


def _by_name(carried: Iterable[str], scanned: Iterable[str], keys: Sequence[str], path: tuple[str, ...]) -> Sequence[str]:
    """The arguments in the order of the values that equations name; none where no name has one of theirs.

    What is scanned is often called otherwise than its parts: those of other names go on by place.

    Raises
    ------
    ArgumentError
        Some names are those of the equations, others are not, or there are more or fewer.
    """
    names = (*carried, *scanned)
    if not set(names) & set(keys) and len(names) == len(keys):
        return by_stems(names, keys, "/".join(path))
    unknown, missing = unmatched(names, keys)
    if len(unknown) == len(missing) and set(missing) <= set(scanned):
        parts = dict(zip(missing, unknown, strict=True))
        return [parts.get(name, name) for name in names]
    said = [f"the equations have no {key!r}{meant(key, [*missing, *NO_VALUES], missing)}" for key in unknown]
    said += [f"{', '.join(map(repr, missing))} {'has' if len(missing) == 1 else 'have'} no initial value"] if missing else []
    raise ArgumentError(f"{'/'.join(path)}: {'; '.join(said)}; args give values by name: {', '.join(names) or 'none'}")


def node_by_name(node: Any) -> Any:
    """The way back, for people: a node whose texts read results by the names that equations give them."""
    results = named_results(node)
    if not results:
        return node
    said = _ByName(results)
    return _rewritten(node, (node.id,), said.text, lambda at, port: said.text(at, port.value))


def named_results(node: Any) -> dict[str, tuple[str, ...]]:
    """What equations call the results of the loops in a node, in their order, by the id of each loop; names that differ."""
    said = {thing.id: equations_of(node, thing) for thing in (*node.parameters, *node.functions)}
    found = {id: (*each.carried, *each.collected) for id, each in said.items() if each is not None}
    return {id: names for id, names in found.items() if len({*names}) == len(names)}


Change = Callable[[tuple[str, ...], Any], Any]
"""What becomes, at a place in the model, of a text or of a port."""


def _rewritten(node: Any, path: tuple[str, ...], change: Change, of_port: Change) -> Any:
    """A node in every text of which results are read in another way."""

    def of_condition(condition: Any, here: Callable[[Any], Any]) -> Any:
        return _with(condition, **{slot: here(getattr(condition, slot, None)) for slot in ("test", "value")})

    def of_thing(thing: Any) -> Any:
        here = functools.partial(change, (*path, thing.id))
        changes = {slot: here(getattr(thing, slot)) for slot in TEXTS if hasattr(thing, slot)}
        if conditions := getattr(thing, "conditions", None):
            changes["conditions"] = _each(conditions, lambda condition: of_condition(condition, here))
        return _with(thing, args=_changed(thing.args, here), **changes)

    node = _with_things(node, of_thing)
    return _with(node, output_ports=_each(node.output_ports, lambda port: _with(port, value=of_port((*path, port.id), port))))


def _of_port(path: tuple[str, ...], port: Any, results: Mapping[str, NamedResults]) -> Any:
    """The value of an output port; one called as a result gives that, whatever place of its part was counted."""
    text, name = port.value, as_name(port.id)
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"\s*(\w+)\s*\[\s*(\d+)\s*\]\s*", text)
    if found and (named := results.get(found[1])) is not None:
        there = named.contradicts(name, int(found[2]))
        return f"{found[1]}[{named.place(name)}]" if there else text
    placed = _ByPlace(results).text(path, text)
    found = re.fullmatch(r"(\w+)\[(\d+)\]", placed) if placed is not text else None
    if found and results[found[1]].contradicts(name, int(found[2])):
        return f"({placed})"  # by its name: no place that was counted
    return placed


class _ChangedReads(ast.NodeTransformer):
    """Another way to read the results of loops.

    Attributes
    ----------
    sign : str
        What is in each text that changes.
    is_read : bool
        Whether texts are read after that, and stay as they are written where that is an error.
    found : bool
        Whether the last text read a result.
    """

    sign, is_read = "", False

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results, self.found = results, False

    def text(self, path: tuple[str, ...], text: Any) -> Any:
        """A text that reads results so; any other value as it is."""
        is_text = isinstance(text, str) and self.sign in text and len(text) <= LONGEST
        if not is_text or not any(name in text for name in self.results):
            return text
        try:
            tree = tree_of(text)
            refuse_depth(tree, text, path)
            self.found = False
            made = ast.unparse(self.visit(tree))
            if self.found and self.is_read and not current_options().trusted:
                parse(made, path)
        except (SyntaxError, ValueError, MemoryError, RecursionError, UnsupportedOp) as error:
            if isinstance(error, MalformedBody) and not error.path:
                raise MalformedBody(str(error), path) from None
            return text  # no expression, or one with an error: reading it raises that, with the text as it is written
        return made if self.found else text


class _ByPlace(_ChangedReads):
    """``run.v`` as ``run[0]``, or as ``run`` where that is the only result."""

    sign, is_read = ".", True
    results: Mapping[str, NamedResults]

    def visit_Attribute(self, tree: ast.Attribute) -> ast.AST:
        """A result by its name."""
        loop = tree.value.id if isinstance(tree.value, ast.Name) else ""
        if loop not in self.results:
            return self.generic_visit(tree)
        self.found, place = True, self.results[loop].place(tree.attr)
        if len(self.results[loop].names) == 1:
            return tree.value
        return ast.Subscript(tree.value, ast.Constant(place), ast.Load())


class _ByName(_ChangedReads):
    """``run[0]`` as ``run.v``, and so is ``run`` where that is the only result."""

    results: Mapping[str, tuple[str, ...]]

    def visit_Subscript(self, tree: ast.Subscript) -> ast.AST:
        """A result by its place."""
        names = self.results.get(tree.value.id, ()) if isinstance(tree.value, ast.Name) else ()
        place = tree.slice.value if isinstance(tree.slice, ast.Constant) else None
        if len(names) > 1 and isinstance(place, int) and place < len(names):
            self.found = True
            return ast.Attribute(tree.value, names[place], ast.Load())
        return self.generic_visit(tree)

    def visit_Name(self, tree: ast.Name) -> ast.AST:
        """The only result."""
        names = self.results.get(tree.id, ())
        if len(names) != 1:
            return tree
        self.found = True
        return ast.Attribute(tree, names[0], ast.Load())
