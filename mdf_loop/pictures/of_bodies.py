"""Bodies as pictures: one box for each node, its colour how the plan runs it, and a back edge for what is carried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.calls.explain import first_output, ways
from mdf_loop.errors import LoopError
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.pictures.boxes import CONDITION, INPUT, OUTPUT, PLAIN, Arrow, Box, Cluster, Picture
from mdf_loop.plan.schedule import make_plan

NO_BOUND = 2**31 - 1
"""A trip count from which on a loop has none: exporters write the largest integer of 32 or 64 bits."""

MOST_NODES = 400
"""A body of more nodes is drawn as one box: it cannot be read, and Graphviz takes minutes."""

Scope = Mapping[str, str]
"""Where the values that can be read come from: the key of a box for each name."""


class BodyDrawer:
    """Adds bodies to a picture, of MDF at one of two levels: its equations, or the operators that they become."""

    def __init__(self, picture: Picture, of_operators: bool = False) -> None:
        self.picture, self.of_operators = picture, of_operators
        self.count = 0
        self.numbers: dict[str, Any] = {}  # of the model, by their names
        self._seen: set[Arrow] = set()
        self._called: dict[str, tuple[str, ...]] = {}

    def key(self) -> str:
        """A key that no other box has."""
        self.count += 1
        return f"b{self.count}"

    def arrow(self, tail: str | None, head: str, label: str = "", is_back: bool = False) -> None:
        """Add an arrow, once; there is none from what is not drawn."""
        made = Arrow(tail or "", head, "" if label in self._called.get(tail or "", ()) else label, is_back)
        if tail and head and made not in self._seen:
            self._seen.add(made)
            self.picture.arrows.append(made)

    def box(self, cluster: Cluster, *lines: str, kind: str = PLAIN, tip: str = "") -> str:
        """Add a box; returns its key."""
        key = self.key()
        self._called[key] = lines
        cluster.boxes.append(Box(key, tuple(line for line in lines if line), kind, tip))
        return key

    def cluster(self, around: Cluster, title: str) -> Cluster:
        """Add a cluster inside another one."""
        made = Cluster(self.key(), title)
        around.clusters.append(made)
        return made

    def graph(
        self, body: Body, cluster: Cluster, outer: Scope, ways_of: Mapping[str, tuple[str, str]] | None = None
    ) -> dict[str, str]:
        """Draw the nodes of a body into a cluster; returns where each value comes from, "" for constants."""
        read = {name for node in body.nodes for name in node.reads} | ({*body.outputs} if ways_of is None else set())
        scope = dict.fromkeys(body.constants, "") | {name: key for name, key in outer.items() if name in body.captures}
        for name in body.inputs:
            if name in outer or name in read:
                scope[name] = outer.get(name) or self.box(cluster, name, kind=INPUT, tip=str(body.type_of(name)))
        around = self.numbers
        own = {name: np.asarray(value).item() for name, value in body.constants.items() if is_integer(value)}
        self.numbers = {name: value for name, value in around.items() if name not in body.inputs} | own
        if len(body.nodes) > MOST_NODES:
            whole = self.box(cluster, f"{len(body.nodes)} nodes", "too many to draw")
            for name in sorted(read & set(scope)):
                self.arrow(scope[name], whole, name)
            self.numbers = around
            return {**scope, **{name: whole for node in body.nodes for name in node.outputs}}
        for node in body.nodes:
            self._node(node, cluster, scope, ways_of or {})
        self.numbers = around
        return scope

    def _node(self, node: Node, cluster: Cluster, scope: dict[str, str], ways_of: Mapping[str, tuple[str, str]]) -> None:
        if node.bodies:
            scope.update(self.control(node, cluster, scope))
            return
        kind, why = ways_of.get(first_output(node), (PLAIN, ""))
        key = self.box(cluster, node.op, first_output(node), kind=kind, tip=f"{node}{f' ({why})' if why else ''}")
        for name in node.reads:
            self.arrow(scope.get(name), key, name)
        scope.update({name: key for name in node.outputs if name})

    def control(self, node: Node, cluster: Cluster, scope: Scope) -> dict[str, str]:
        """Draw a Loop, Scan or If with its bodies inside; returns where its outputs come from."""
        around = self.cluster(cluster, f"{node.called} {node.name}".strip())
        if (loop := node.loop) is not None:
            count, going, *given, _ = loop.split(node.inputs)
            self.trips(around, count or "", [count or ""], scope, bool(_condition_of(loop)))
            self.begins_if(around, going or "", [going or ""], scope)
            within = [loop.condition or "", *(c.input for c in loop.carried), *(s.input for s in loop.scanned), *loop.invariant]
            outer = [scope.get(name) for names in ([going], *given) for name in names]
            return self.loop(loop, around, scope, dict(zip(within, outer, strict=True)), node.outputs)
        found: dict[str, str] = {}
        for key, body in node.bodies:
            branch = self.cluster(around, key.replace("_branch", "").replace("_", " "))
            inner = self.graph(body, branch, scope)
            for name, wanted in zip(node.outputs, body.outputs, strict=False):
                out = found.get(name) or self.box(around, name, kind=OUTPUT)
                found[name] = out
                self.arrow(inner.get(wanted), out)
        if node.inputs and node.op == "If" and node.inputs[0] in scope:
            choice = self.box(around, "if", node.inputs[0], kind=CONDITION)
            self.arrow(scope[node.inputs[0]], choice)
            for inner_cluster in around.clusters:
                first = next(inner_cluster.all_boxes(), None)
                self.arrow(choice, first.key if first else "", inner_cluster.title)
        return found

    def trips(self, cluster: Cluster, count: str, names: Iterable[str], scope: Scope, may_end: bool) -> None:
        """A box for the trip count of a loop, to which the values in it lead; at most, where a condition may end the loop.

        The largest integers mean that it has none.
        """
        value = self.numbers.get(count, int(count) if count.isdecimal() else None)
        said = "at most" if may_end else "", f"{count if value is None or scope.get(count) else value} times"
        if value is not None and value >= NO_BOUND:
            said = "no bound:", f"M is {value}"
        self._bound(cluster, [*filter(None, said)] if count else (), names, scope)

    def begins_if(self, cluster: Cluster, condition: str, names: Iterable[str], scope: Scope) -> None:
        """A box for the first condition of a loop, if it is no constant."""
        names = [name for name in names if scope.get(name)]
        self._bound(cluster, ("begins if", condition) if names else (), names, scope)

    def _bound(self, cluster: Cluster, said: Sequence[str], names: Iterable[str], scope: Scope) -> None:
        key = self.box(cluster, *said, kind=CONDITION) if said else ""
        for name in names:
            self.arrow(scope.get(name), key)

    def loop(
        self, loop: Loop, cluster: Cluster, outer: Scope, given: Mapping[str, str | None], outputs: tuple[str, ...]
    ) -> dict[str, str]:
        """Draw the body of a loop with what is given, carried and returned; returns where its outputs come from."""
        scope = self._going_in(loop, cluster, outer, given)
        each = self.cluster(cluster, f"each iteration: {loop.body.name}")
        seen = (*loop.body.captures, *(state.input for state in loop.body.state))
        scope |= self.graph(replace(loop.body, captures=seen), each, scope, planned(loop))
        if scope.get(going := _condition_of(loop)):
            self.arrow(scope[going], self.box(cluster, "while", going, kind=CONDITION))
        for name, output in loop.all_carried.items():
            self.arrow(scope.get(output), scope.get(name, ""), "next iteration", is_back=True)
        return self._coming_out(loop, cluster, scope, outputs)

    def _going_in(self, loop: Loop, cluster: Cluster, outer: Scope, given: Mapping[str, str | None]) -> dict[str, str]:
        """Boxes for what a body gets; what it captures may stand outside."""
        body = loop.body
        scope = {name: outer[name] for name in body.captures if name in outer}
        for name in body.captures:
            if name not in scope:
                scope[name] = self.box(cluster, name, "captured", kind=INPUT)
        for name, what in _roles(loop).items():
            scope[name] = self.box(cluster, name, what, kind=INPUT, tip=str(body.type_of(name)))
            self.arrow(given.get(name), scope[name])
        for state in body.state:
            scope[state.input] = self.box(cluster, state.input, "state", kind=INPUT)
        return scope

    def _coming_out(self, loop: Loop, cluster: Cluster, scope: Scope, outputs: tuple[str, ...]) -> dict[str, str]:
        """Boxes for what a loop gives, by the names of its node's outputs."""
        last = [*(c.output for c in loop.carried), *loop.last]
        made = [*((name, "last") for name in last), *((c.output, "of all iterations") for c in loop.collected)]
        found = {}
        for name, (output, word) in zip(outputs, made, strict=False):
            if name:
                found[name] = self.box(cluster, name, word, kind=OUTPUT)
                self.arrow(scope.get(output), found[name], output)
        return found


def is_integer(value: Any) -> bool:
    """Whether a constant is one integer."""
    found = np.asarray(value)
    return found.size == 1 and found.dtype.kind in "iu"


def _condition_of(loop: Loop) -> str:
    """The condition that the body of a loop computes; empty where it computes none."""
    return loop.keep_going if loop.keep_going and loop.keep_going != loop.condition else ""


def planned(loop: Loop) -> dict[str, tuple[str, str]]:
    """How a plan runs each node of a loop, by its first output, and why."""
    try:
        return {first_output(node): (how, why) for node, how, why in ways(make_plan(loop))}
    except LoopError:  # an operator there is no kernel for: drawn all the same
        return {}


def _roles(loop: Loop) -> dict[str, str]:
    """What each input of a body is."""
    roles = dict.fromkeys(loop.body.inputs, "")
    roles |= {c.input: "carried" for c in loop.carried} | {s.input: "scanned" for s in loop.scanned}
    roles |= dict.fromkeys(loop.invariant, "given")
    roles |= {name: what for name, what in ((loop.index, "iteration"), (loop.condition, "condition")) if name}
    read = {name for node in loop.body.nodes for name in node.reads} | {*loop.body.outputs, *loop.last}
    return {name: what for name, what in roles.items() if name in read and not (what == "condition" and name == loop.keep_going)}
