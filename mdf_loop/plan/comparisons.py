"""What the condition of a loop is computed of."""

from __future__ import annotations

from collections.abc import Container, Iterable

from mdf_loop.ir import Body, Loop, Node
from mdf_loop.ops.registry import facts


def part_computing(body: Body, outputs: Iterable[str], known: Container[str] = ()) -> Body:
    """The nodes that compute some values, as a body whose inputs are what it reads from outside, or is known."""
    needed, nodes = set(outputs), list[Node]()
    for node in reversed(body.nodes):
        if any(output in needed and output not in known for output in node.outputs):
            nodes.append(node)
            needed.update(node.reads)
    made = {output for node in nodes for output in node.outputs if output not in known}
    inputs = tuple(sorted(needed - made - body.constants.keys() - {""}))
    constants = {name: value for name, value in body.constants.items() if name in needed}
    return Body(body.name, inputs, tuple(outputs), tuple(nodes[::-1]), constants, opsets=body.opsets, typed=body.typed)


def compared(loop: Loop) -> tuple[set[str], set[str]]:
    """What comparisons behind the condition compare, and all that this is computed of: back to what is carried or captured."""
    joined, compared, read = {loop.keep_going or ""}, set[str](), set[str]()
    known = {c.output for c in loop.carried}
    for node in reversed(loop.body.nodes):
        if joined.intersection(node.outputs):
            compares = facts(node).compares
            compared.update(node.reads if compares else ())
            joined.update(() if compares else node.reads)
        if read.intersection(node.outputs) - known or compared.intersection(node.outputs) - known:
            read.update(node.reads)
    return compared, read | compared
