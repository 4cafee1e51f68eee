"""Stepped loops as a model says them: an ``onnx::Loop`` of an MDF node that runs some iterations each time its node runs.

A loop is stepped if the metadata of its node, or of the parameter or function itself, say so::

    metadata: {loop: {iterations_per_execution: 10}}
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.errors import LoopError, MalformedBody, in_words
from mdf_loop.ir import record
from mdf_loop.readers.expressions.expression_text import parse

STEPPED, ITERATIONS = "loop", "iterations_per_execution"


@record
class Steps:
    """The stepped loop of a node.

    Attributes
    ----------
    id : str
        Of its parameter or function.
    iterations : int
        How many an execution of the node runs.
    """

    id: str
    iterations: int

    @property
    def published(self) -> tuple[str, str]:
        """The names under which the node knows the number of complete iterations, and whether the loop has ended."""
        return f"{self.id}_iteration", f"{self.id}_finished"


def stepped_loop(node: Any) -> Steps | None:
    """The stepped loop of a node, if it has one.

    Raises
    ------
    MalformedBody
        The metadata are not what they must be, or names clash.
    """
    found = [Steps(thing.id, count) for thing in _loops(node) if (count := _iterations(node, thing)) is not None]
    if len(found) > 1:
        names = " and ".join(repr(steps.id) for steps in found)
        raise MalformedBody(f"loops {names} are both stepped; a node has one stepped loop", (node.id,))
    ids = {thing.id for thing in (*node.input_ports, *node.parameters, *node.functions)}
    for steps in found:
        if clash := ids.intersection(steps.published):
            name = sorted(clash)[0]
            raise MalformedBody(
                f"{name!r} is what the stepped loop {steps.id!r} publishes; call the other thing otherwise", (node.id,)
            )
    return found[0] if found else None


def is_stepped(node: Any, loop: Any) -> bool:
    """Whether a loop of a node has metadata of a stepped one, right or wrong."""
    return STEPPED in {**(node.metadata or {}), **(loop.metadata or {})}


def has_stepped_loops(graph: Any) -> bool:
    """Whether a node of a graph has a stepped loop."""
    return any(is_stepped(node, loop) for node in graph.nodes for loop in _loops(node))


def _loops(node: Any) -> Iterator[Any]:
    for parameter in node.parameters:
        if parameter.function == "onnx::Loop" and parameter.value is None:
            yield parameter
    for function in node.functions:
        if function.function == "onnx::Loop":
            yield function


def _iterations(node: Any, thing: Any) -> int | None:
    """How many iterations an execution runs, as the metadata of a loop say, or those of its node."""
    for owner, path in ((thing, (node.id, thing.id)), (node, (node.id,))):
        said = (owner.metadata or {}).get(STEPPED)
        if said is None:
            continue
        if not isinstance(said, Mapping) or set(said) != {ITERATIONS}:
            raise MalformedBody(f"metadata {STEPPED} must be {{{ITERATIONS}: <whole number>}}; got {said!r}", path)
        count = said[ITERATIONS]
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise MalformedBody(f"metadata {STEPPED}: {ITERATIONS} must be a whole number from 1 on; got {in_words(count)}", path)
        return count
    return None


def reads_output(node: Any, id: str, place: int) -> bool:
    """Whether an expression of a node may read this output of a function with several."""
    return any(found in (place, None) for text in _texts(node) for found in _outputs_read(text, id))


def _texts(node: Any) -> Iterator[str]:
    sources = [each.value for each in (*node.parameters, *node.functions, *node.output_ports)]
    sources += [value for each in (*node.parameters, *node.functions) for value in (each.args or {}).values()]
    for condition in (condition for parameter in node.parameters for condition in parameter.conditions):
        sources += [condition[key] if isinstance(condition, dict) else getattr(condition, key) for key in ("test", "value")]
    return (source for source in sources if isinstance(source, str))


def _outputs_read(text: str, id: str) -> Iterator[int | None]:
    """The outputs of a function that an expression reads; None is one that is not known."""
    try:
        tree = parse(text)
    except LoopError:  # said where the expression is read
        return
    indexed: dict[ast.expr, ast.expr] = {each.value: each.slice for each in ast.walk(tree) if isinstance(each, ast.Subscript)}
    for name in ast.walk(tree):
        if isinstance(name, ast.Name) and name.id == id:
            index = indexed.get(name)
            yield index.value if isinstance(index, ast.Constant) and type(index.value) is int else None
