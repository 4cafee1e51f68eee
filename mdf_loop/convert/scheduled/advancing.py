"""A stepped loop in one run of its node: a Loop of some iterations, whose values live from run to run.

What the loop is given counts when it begins, in the first run of its node in an evaluation of the graph.  Later its condition
alone does, and ends it when it is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.calls.control_flow import condition, trip_count
from mdf_loop.convert.scheduled.conditions import UPDATE, Key
from mdf_loop.convert.scheduled.slots import (
    TRUE,
    PassBuilder,
    Store,
)
from mdf_loop.errors import LoopError
from mdf_loop.ir import Body, Carried, Loop, Node, ValueType
from mdf_loop.ir.fresh_names import FreshNames, rename_captures
from mdf_loop.options import current_options
from mdf_loop.readers.expressions.values import NotCompiled, Number, Value, available, literal
from mdf_loop.readers.mdf.control_functions import asked_of, fit_to_body, local_names, outer_name
from mdf_loop.readers.mdf.node_functions import outputs_read
from mdf_loop.readers.mdf.stepped_loops import Steps
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET
from mdf_loop.readers.onnx.loop_records import loop_record


@dataclass
class SteppedRun:
    """One run of the node of a stepped loop.

    Attributes
    ----------
    node : modeci_mdf.mdf.Node
    steps : Steps
    builder : PassBuilder
    store : Store
        Where its values live from run to run.
    begun : Value
        Whether the loop began in an earlier run.
    published : dict of str to Value
        What the node knows of the loop afterwards: the number of complete iterations, and whether it has ended.
    """

    node: Any
    steps: Steps
    builder: PassBuilder
    store: Store
    begun: Value
    published: dict[str, Value] = field(default_factory=dict)

    def advanced(self, inputs: Sequence[Value | None], body: Body, captured: Callable[[str], Value]) -> Value:
        """The value of the loop after the iterations of this run, or a display of several.

        Parameters
        ----------
        inputs : sequence of Value or None
            Trip count, condition and carried values, as ONNX has them.
        body : Body
        captured : callable
            The value of each name that the body captures.
        """
        builder, base = self.builder, self.base
        values = [*inputs[2:], *map(captured, body.captures)]
        named = zip((*body.inputs[2:], *body.captures), values, strict=True)
        given = {name: self._as_begun(value, "given", name) for name, value in named if value is not None}
        fitted = fit_to_body(builder, base, asked_of("Loop", body, {}), given)
        outer = {name: outer_name(builder, body, fitted[name], base) for name in body.captures}
        part = LoopPart(loop_record(rename_captures(body, outer), len(inputs) - 2, base), inputs[1] is not None)
        limit, iteration = self._limit(inputs[0]), self._count("iterations")
        going = self._going(inputs[1], limit, iteration)
        first = self._first(part, going, iteration) | {
            name: self._before(fitted[name], "carried", name) for name in body.inputs[2:]
        }
        found = self._run(part, limit, iteration, going, first)
        ends = dict(zip(first, found, strict=False))
        for name, value in ends.items():
            self.store.set(self._key("carried", name), value)
        number = builder.node("builtins.int", [self._alone(part, part.index, ends)], base, number=Number.INT)
        made = self._alone(part, part.condition, ends) if part.condition else going
        self._end(limit, number, made if part.is_obeyed else TRUE)
        collected = self._collected(found[len(first) :], len(inputs) - 2, self._compared("not_equal", iteration, number))
        results = (*(ends[name] for name in body.inputs[2:]), *collected)
        return results[0] if len(results) == 1 else Value(items=results, display="outputs")

    @property
    def base(self) -> str:
        """What its values are called in the body of the scheduled graph."""
        return f"{self.node.id}.{self.steps.id}"

    def _key(self, *name: str) -> Key:
        return ("stepped", self.node.id, self.steps.id, *name)

    def _count(self, kind: str) -> Value:
        return available(self.store.get((kind, self.node.id, UPDATE), 0))

    def _before(self, otherwise: Value, *key: str) -> Value:
        """What a value was after the run before; in the first run it is another one."""
        if self.begun.is_known and not self.begun.literal:
            return otherwise
        return self.builder.chosen(self.begun, available(self.store.get(self._key(*key))), otherwise, self.base)

    def _as_begun(self, value: Value, *key: str) -> Value:
        """What the loop was given when it began."""
        if not value.varies and not self.store.is_known:
            return value
        value = self._before(self.builder.array(value, self.base), *key)
        self.store.set(self._key(*key), value)
        return value

    def _limit(self, m: Value | None) -> Value | None:
        """The trip count.

        Raises
        ------
        NotCompiled
            It is computed, and perhaps no whole number.
        """
        if m is None:
            return None
        m = self.builder.array(m, self.base)
        m = self._checked(trip_count, m)
        if m.number not in (Number.BOOL, Number.INT):
            raise NotCompiled(f"the trip count M of the stepped loop {self.base} is computed, and perhaps no whole number")
        return self._as_begun(m, "trip count")

    def _checked(self, check: Callable[[Any], Any], value: Value) -> Value:
        """A trip count or condition that is what it must be, where it is known; else who runs the node says what is wrong."""
        try:
            return literal(check(value.literal)) if value.is_known else value
        except LoopError as reason:
            raise NotCompiled(f"{self.base}: {reason}") from reason

    def _going(self, cond: Value | None, limit: Value | None, iteration: Value) -> Value:
        """Whether it goes on in this run: it has not ended yet, and its condition holds."""
        builder, cond = self.builder, TRUE if cond is None else self.builder.array(cond, self.base)
        going = builder.compared("equal", self._count("ended"), 0)
        going = builder.both(going, self._checked(condition, cond))
        if limit is None:
            return going
        return builder.both(going, literal(limit.literal > 0) if limit.is_known else self._compared("less", iteration, limit))

    def _first(self, part: LoopPart, going: Value, iteration: Value) -> dict[str, Value]:
        """The iteration number and the condition with which the body begins in this run, by its inputs."""
        first = {part.index: part.shaped(part.index, iteration)}
        if part.condition and part.is_obeyed:  # it is true where there is an iteration
            goes_on = self.builder.node("builtins.bool", [going], self.base, number=Number.BOOL)
            first[part.condition] = part.shaped(part.condition, goes_on)
        elif part.condition:
            always = self.builder.array(part.shaped(part.condition, TRUE), self.base)
            first[part.condition] = self._before(always, "carried", part.condition)
        return first

    def _run(
        self, part: LoopPart, limit: Value | None, iteration: Value, going: Value, first: Mapping[str, Value]
    ) -> tuple[Value, ...]:
        """What the Loop of this run gives."""
        builder, count = self.builder, literal(self.steps.iterations)
        goes_on: Value | None = going
        if not part.is_obeyed:  # its own condition is left out, as in the model, and says nothing
            if limit is not None:
                left = builder.node("subtract", [limit, iteration], self.base, number=Number.INT)
                count = builder.chosen(self._compared("less", left, count), left, count, self.base)
            goes_on = limit = None
        if limit is not None and limit.is_known and limit.literal % self.steps.iterations == 0:
            limit = None  # it falls between two runs
        limit_name = "" if limit is None else builder.name(builder.tensor(limit, self.base))
        loop = part.loop(list(first), limit_name)
        given = [count, goes_on, *first.values()]
        names = tuple("" if value is None else builder.name(builder.tensor(value, self.base)) for value in given)
        outputs = tuple(builder.fresh(self.base) for _ in loop.results)
        return builder.add(Node("Loop", names, outputs, {"loop": loop}, self.base, builder.opset, "", loop.body.captures), True)

    def _end(self, limit: Value | None, number: Value, going: Value) -> None:
        """Keep how far it has come, and whether it has ended."""
        over = self.builder.contrary(going)
        if limit is not None:
            over = self.builder.either_of(over, self.builder.contrary(self._compared("less", number, limit)))
        ended = self.builder.chosen(over, literal(1), literal(0), self.base)
        for kind, count in (("begun", literal(1)), ("ended", ended), ("iterations", number)):
            self.store.set((kind, self.node.id, UPDATE), count)
        finished = self.builder.compared("equal", ended, 1)
        self.published = dict(zip(self.steps.published, (number, finished), strict=True))

    def _collected(self, new: Sequence[Value], first: int, has_advanced: Value) -> list[Value]:
        """What was collected since the loop began, of each output; of those that nothing reads what was collected now."""
        read = {*outputs_read(self.node, self.steps.id)}
        are_read = [None in read or first + k in read for k in range(len(new))]
        return [self._joined(rows, k, has_advanced) if are_read[k] else rows for k, rows in enumerate(new)]

    def _joined(self, rows: Value, place: int, has_advanced: Value) -> Value:
        before = self._before(rows, "collected", str(place))
        has_more = self.builder.both(self.begun, has_advanced)
        joined = self.builder.computed(
            has_more,
            lambda: self.builder.node("numpy.concatenate", [before, rows], self.base, axis=0),
            lambda: before,
            self.base,
        )
        self.store.set(self._key("collected", str(place)), joined)
        return joined

    def _compared(self, op: str, left: Value, right: Value) -> Value:
        return self.builder.node(op, [left, right], self.base, number=Number.BOOL)

    def _alone(self, part: LoopPart, name: str, ends: Mapping[str, Value]) -> Value:
        """A carried number, or truth value, without dimensions."""
        value = ends[name]
        for _ in range(part.rank(name)):
            value = self.builder.node("index", [value], self.base, index=0)
        return value


class LoopPart:
    """A loop of which some iterations run: they go on with the iteration number, and with the condition that the body made last.

    Attributes
    ----------
    is_obeyed : bool
        Whether the condition that the body makes ends the loop.
    index : str
        The body's input for the iteration number.
    condition : str
        Its input for the condition; "" where that is always true.

    Parameters
    ----------
    whole : Loop
        The loop that runs at once.
    has_condition : bool
        Whether it is given a condition.
    """

    def __init__(self, whole: Loop, has_condition: bool) -> None:
        assert whole.index is not None
        assert whole.condition is not None
        self.whole, self.index = whole, whole.index
        self.condition = "" if whole.keep_going == whole.condition else whole.condition
        obeys = has_condition or whole.obeys or current_options().obey_body_condition
        self.is_obeyed = bool(obeys or not self.condition)

    def rank(self, name: str) -> int:
        """The number of dimensions of an input for a number or truth value."""
        return len(self.whole.body.type_of(name).shape or ())

    def shaped(self, name: str, value: Value) -> Value:
        """A number or truth value as this input takes it."""
        for _ in range(self.rank(name)):
            value = Value(items=(value,), display="list")
        return value

    def loop(self, carried: Sequence[str], limit: str) -> Loop:
        """The loop, which carries these inputs of the body; ``limit`` is a captured number at which it ends, if it has a name."""
        whole, body = self.whole, self.whole.body
        free = FreshNames((*local_names(body), *body.captures, limit))
        one, number, is_left, goes_on = map(free.fresh, ("one", "next iteration", "is left", "goes on"))
        opset, nodes = body.opsets.get("", DEFAULT_OPSET), [*body.nodes]

        def add(op: str, inputs: Sequence[str], output: str) -> str:
            nodes.append(Node(op, tuple(inputs), (output,), {}, whole.name, opset))
            return output

        keep_going = whole.keep_going or ""
        added = [add("Add", (self.index, one), number)]
        if limit:
            keep_going = add("Less", (number, limit), is_left)
            keep_going = add("And", (whole.keep_going or "", is_left), goes_on) if self.condition else is_left
            added.append(keep_going)
        types = dict.fromkeys(added[1:], ValueType(np.dtype(bool), body.type_of(self.index).shape))
        body = replace(
            body,
            outputs=(*body.outputs, *added),
            nodes=tuple(nodes),
            constants={**body.constants, one: np.array(1)},
            captures=(*body.captures, *([limit] if limit else [])),
            types={**body.types, number: body.type_of(self.index), **types},
        )
        ends = {self.index: number, self.condition: whole.keep_going or "", **{c.input: c.output for c in whole.carried}}
        return replace(
            whole,
            body=body,
            carried=tuple(Carried(name, ends[name]) for name in carried),
            index=None,
            condition=None if self.condition else whole.condition,
            keep_going=keep_going,
        )
