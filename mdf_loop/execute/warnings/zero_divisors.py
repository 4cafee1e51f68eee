"""Values from outside that are 0 and that a body divides by: ``where`` may hide what that gives."""

from __future__ import annotations

from collections.abc import Iterator, Set

from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.ir import Body
from mdf_loop.ops.registry import facts
from mdf_loop.plan.comparisons import MOST, part_computing


def unguarded_divisors(body: Body, known: Set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Divisors that are computed of known values alone, and these values.

    One is left out where the condition of a ``where`` reads such a value.  A comparison of the quotient itself is no such
    condition: it is wrong already.
    """
    chosen = [node.inputs[0] for node in body.nodes if facts(node).selects]
    for divisor in dict.fromkeys(node.inputs[1] for node in body.nodes if facts(node).divides):
        read = part_computing(body, [divisor], known).inputs
        if not {*read} <= known:
            continue
        quotients = {node.outputs[0] for node in body.nodes if facts(node).divides and node.inputs[1] == divisor}
        late = {node.outputs[0] for node in body.nodes if facts(node).compares and _reads(body, node.outputs[0], quotients)}
        guards = {name for condition in chosen for name in (condition, *part_computing(body, [condition], known | late).inputs)}
        if guards.isdisjoint(read):
            yield divisor, read


def _reads(body: Body, name: str, quotients: Set[str]) -> bool:
    return not quotients.isdisjoint(part_computing(body, [name], quotients).inputs)


def warn_of_zero_divisors(ended: EndedLoop) -> None:
    """Say that a captured value is 0 and divided by, unless something was said of nan or infinity."""
    if ended.is_inner or (id(ended.loop.body), "nan") in ended.run.warned:
        return
    for k, name in ended.once(_captured_divisors):
        value = ended.given.captured[k]
        if not value if getattr(value, "size", 1) == 1 else value.size <= MOST and not value.all():
            ended.say(f"{ended.name}: {name} is 0, and the body divides by it", "nan")


def _captured_divisors(ended: EndedLoop) -> list[tuple[int, str]]:
    """Captured values that the body divides by, and their places."""
    body = ended.loop.body
    names = {name for name, _ in unguarded_divisors(body, {*body.captures})}
    return [(k, name) for k, name in enumerate(body.captures) if name in names]
