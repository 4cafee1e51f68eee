"""Stepped loops as a model says them: an ``onnx::Loop`` of an MDF node that runs some iterations each time its node runs.

A loop is stepped if the metadata of its node, or of the parameter or function itself, say so::

    metadata: {loop: {iterations_per_execution: 10}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdf_loop.errors import MalformedBody, in_words
from mdf_loop.ir import record

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


def not_stepped(kind: str, name: str) -> str:
    """What is wrong with a condition on the loop of a node that has no stepped one."""
    return (
        f"{kind} depends on {name!r}, which is not a node with a stepped loop: an onnx::Loop in a graph that "
        f"MDF's engine evaluates, with metadata {{{STEPPED}: {{{ITERATIONS}: <n>}}}}"
    )


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
