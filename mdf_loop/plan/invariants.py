"""What is the same in every iteration.

A carried value whose body output is that carried value again never changes.  One whose body output is the same
in every iteration changes once, after the first: whoever starts at the second iteration may take it as the same
too.  That is what ``late`` is for: the condition that most bodies set to true is one of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mdf_loop.ir import Loop, Node
from mdf_loop.plan.purity import is_pure


@dataclass(frozen=True)
class Invariants:
    """Names of values that are the same in every iteration, and of those that are from the second one on."""

    always: frozenset[str]
    late: frozenset[str]

    def __contains__(self, name: str) -> bool:
        return name in self.always or name in self.late


def rounds(loop: Loop) -> dict[str, str]:
    """Body inputs that go round, hidden ones and the condition among them, with the value that feeds each."""
    found = dict(loop.goes_round)
    if loop.condition and loop.keep_going:
        found[loop.condition] = loop.keep_going
    return found


def invariants(loop: Loop) -> Invariants:
    """Follow constants, captures and carried values that never change through all pure nodes."""
    body, round_trips = loop.body, rounds(loop)
    same = {*body.constants, *body.captures, *loop.invariant} | {name for name, output in round_trips.items() if name == output}
    if loop.condition and not loop.keep_going:
        same.add(loop.condition)
    always = _closed(body.nodes, same)
    settled = {name for name, output in round_trips.items() if output in always}
    return Invariants(frozenset(always), frozenset(_closed(body.nodes, always | settled) - always))


def lasting(loop: Loop) -> set[str]:
    """What is the same in every iteration as long as each one gives a true condition."""
    body = loop.body
    unchanged = {name for name, output in loop.goes_round.items() if name == output}
    return _closed(body.nodes, {*body.constants, *body.captures, *loop.invariant, *unchanged, loop.condition or ""})


def _closed(nodes: Iterable[Node], same: set[str]) -> set[str]:
    """With the outputs of pure nodes that read nothing else."""
    same = set(same)
    for node in nodes:
        if all(name in same for name in node.reads) and is_pure(node):
            same.update(filter(None, node.outputs))
    return same
