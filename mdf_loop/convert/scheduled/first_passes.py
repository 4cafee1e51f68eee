"""The passes in front of the loop, one by one, until every node has run: at once, or written where their values are open.

MDF's engine evaluates a node's first run differently, and the loop that follows need not know of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.convert.scheduled.conditions import INSIDE, UPDATES, Key
from mdf_loop.convert.scheduled.passes import DependsOnValues, Pass
from mdf_loop.convert.scheduled.run_order import RunPlan
from mdf_loop.convert.scheduled.slots import TRUE, PassBuilder, Reading, Store
from mdf_loop.readers.expressions.values import NotCompiled, Value

MOST_FIRST_PASSES = 20
"""How many passes are run one by one at most: a node that has not run by then has its first run inside the loop."""

MOST_PASSES_WITHOUT_VALUE = 1000
"""The same where outputs are collected and one has no value yet: a loop collects values alone."""


class FirstPasses:
    """The passes that are run one by one.

    Attributes
    ----------
    known : dict of Key to value
        What is known after them; of what is open a value of its kind.
    named : dict of Key to Value, or None
        What is open, by what it is called in the graph that is written; None where all is run at once.
    builder : PassBuilder
        The graph.
    rows : list of tuple
        What was recorded of each pass: values or, of what is open, names; None before a node has run.
    ends : list of Value
        Whether an evaluation was over after each.
    going : Value
        Whether there is a further pass.
    noted : dict of str to None
        What to say of what was run: ports that were read too early, and draws that elements share.

    Parameters
    ----------
    plan : RunPlan
    known : mapping of Key to value
    """

    named: dict[Key, Value] | None = None

    def __init__(self, plan: RunPlan, known: Mapping[Key, Any]) -> None:
        self.plan, self.known, self.builder = plan, {**known}, PassBuilder()
        self.noted = dict[str, None]()
        self.rows, self.ends, self.going = list[tuple[Any, ...]](), list[Value](), TRUE

    def run(self, most: int | None = None) -> bool:
        """Run passes until every node has run, or open values decide; everything, if that is all there is to do.

        Whether something is left to a loop, or to no one: there are at ``most`` so many passes, and at least one.
        """
        is_short = most is not None and most <= MOST_FIRST_PASSES  # for which no loop is read
        while not self._is_over():
            if most is not None and self.rows and len(self.rows) >= most:
                return True
            if not self.going.is_known or (not is_short and self._is_settled()) or not self._run_pass():
                return True
        return False

    def value(self, key: Key) -> Any:
        """What there is of a value after a pass, or why that cannot be expressed; None before its node has run."""
        if key[0] != INSIDE and not self.known.get(("ran", key[1])):
            return None
        return self.named[key] if self.named and key in self.named else self.known.get(key)

    @property
    def outputs(self) -> list[Any]:
        """The outputs of the graph."""
        return [self.value(("output", *place)) for place in self.plan.outputs.values()]

    def _is_over(self) -> bool:
        """Whether it is sure that there is no further pass; where open values decide, ``going`` says it."""
        over = self._pass().is_over()
        self.going = self.builder.contrary(over)
        return over.is_known and bool(over.literal)

    def _is_settled(self) -> bool:
        """Whether the loop can take over."""
        plan, known, passes = self.plan, self.known, len(self.rows)
        waiting = [key[1] for key in plan.record if key[0] != INSIDE and not known.get(("ran", key[1]))]
        if waiting and passes >= MOST_PASSES_WITHOUT_VALUE:
            raise NotCompiled(f"node {waiting[0]!r} has not run in {passes} passes, and a loop collects values alone")
        if passes >= MOST_FIRST_PASSES and not waiting:
            return True
        if not passes or not all(known.get(("ran", node.id)) for node in plan.graph.nodes):
            return False
        return not plan.time_goes_on or plan.schedule.passes != 1 or known.get(UPDATES, 0) > 1

    def _run_pass(self) -> bool:
        """Run a pass; whether no open value decides if there is a next one, or what runs in this one."""
        made, mark = self._pass(), len(self.builder.nodes)
        try:
            made.run()
        except DependsOnValues:  # whether a node ran is carried by the loop
            del self.builder.nodes[mark:]
            return False
        ended = made.ended()
        self._keep(made)
        self.rows.append(tuple(map(self.value, self.plan.record)))
        self.ends.append(ended)
        if not ended.is_known or ended.literal:
            made.next_evaluation(ended)
            if not ended.is_known:
                self.going = made.goes_on(ended)
            self._keep(made)
        return ended.is_known

    def _pass(self) -> Pass:
        """The next pass; of one that is given up nothing stays."""
        named = None if self.named is None else {**self.named}
        return Pass(self.plan, Store({**self.known}, None, Reading(), named), self.builder)

    def _keep(self, made: Pass) -> None:
        """Go on with what a pass changed."""
        made.store.keep(made.store.now())
        self.noted |= made.store.noted
        self.known, self.named = made.store.known, made.store.named
