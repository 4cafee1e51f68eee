"""One node of a scheduled graph, as MDF's engine evaluates it when graph-scheduler says it runs.

What differs from a node of a body that runs in each iteration (:mod:`mdf_loop.readers.mdf.node`): parameters keep
their values while the node waits, a parameter with a ``time_derivative`` is integrated, and a node's first run is
distinguished from the later ones.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.calls.prepared import read_once
from mdf_loop.convert.scheduled.advancing import SteppedRun
from mdf_loop.convert.scheduled.slots import GivenInput, PassBuilder, Store
from mdf_loop.ir import Body, record
from mdf_loop.readers.expressions.values import (
    NotCompiled,
    Unavailable,
    Value,
    arithmetic,
    available,
    literal,
)
from mdf_loop.readers.mdf.control_functions import captured_by
from mdf_loop.readers.mdf.input_ports import REDUCTIONS, default_value_of, is_plain, reduce_of, weighted
from mdf_loop.readers.mdf.node import START, NodeReader, default_of, is_stateful
from mdf_loop.readers.mdf.stepped_loops import Steps


@record
class PassMoment:
    """What a run of a node knows of the time.

    Attributes
    ----------
    ran : Value
        Whether the node ran before.
    begun : Value
        Whether its stepped loop has begun in this evaluation of the graph.
    later : Value
        Whether this is a later evaluation of the graph than the first, so that time goes on.
    time_increment : float or None
        By how much.
    """

    ran: Value
    begun: Value
    later: Value
    time_increment: Any


class ScheduledNode(NodeReader):
    """Makes operators of one run of a node.

    Parameters
    ----------
    node : modeci_mdf.mdf.Node
    ports : mapping of str to Value
    builder : PassBuilder
    path : tuple of str
    store : Store
        Where its values live from run to run.
    moment : PassMoment
    """

    builder: PassBuilder

    def __init__(
        self, node: Any, ports: Mapping[str, Value], builder: PassBuilder, path: tuple[str, ...], store: Store, moment: PassMoment
    ) -> None:
        super().__init__(node, ports, builder, read_once, path)
        self.store, self.moment, self.calls_loops = store, moment, store.calls_loops

    def given(self, given: GivenInput) -> Value:
        """What each run is given, which is in the store."""
        return self.store.given(given)

    def run(self) -> None:
        """Evaluate the node; its parameters and output ports are in the store then."""
        for port, value in self.read().items():
            self.store.set(("output", self.node.id, port), self._kept(value, port))
        for parameter in self.parameters:
            self.store.set(self._key(parameter), self._kept(self.scope[parameter.id], parameter.id))
        for kind, things in (("function", self.node.functions), ("input", self.node.input_ports)):
            for thing in things:
                key = (kind, self.node.id, thing.id)
                if key in self.store.recorded:
                    self.store.set(key, self._kept(self.scope[thing.id], thing.id))

    def _kept(self, value: Value | Unavailable, name: str) -> Value | Unavailable:
        if isinstance(value, Unavailable):
            return value
        if value.items is None and isinstance(value.literal, str | dict):
            return Unavailable(f"{self.node.id}.{name} is not a number or array")
        if value.display == "outputs":
            return Unavailable(f"{self.node.id}.{name} is several values")
        return self.builder.array(value, f"{self.node.id}.{name}")

    def _key(self, parameter: Any) -> tuple[str, ...]:
        return ("parameter", self.node.id, parameter.id)

    @property
    def onnx_opset(self) -> int:
        """The version of ONNX that MDF's engine runs operators in."""
        return ONNX_OF_MDF

    def onnx_input(self, schema: Any, place: int, inputs: Sequence[Value | None], base: str) -> Value:
        """An input as MDF's engine hands it to an operator."""
        value = inputs[place]
        assert value is not None
        if schema.name == "Reshape" and place == 1:
            value = self.builder.node("flattened", [value], base)
        return self.builder.node("to_onnx", [value], base)

    def onnx_result(self, value: Value, base: str) -> Value:
        """A result as MDF's engine hands it on."""
        return self.builder.node("from_onnx", [value], base)

    def control_result(self, value: Value, base: str) -> Value:
        """A result of a loop or branch, which is an array, without dimensions as well."""
        return self.builder.node("numpy.array", [value], base)

    def stepped(self, steps: Steps, thing: Any, inputs: Sequence[Value | None], body: Body) -> Value:
        """The value of a stepped loop after the iterations of this run, which changes what is counted of it."""
        if self.calls_loops:
            return super().stepped(steps, thing, inputs, body)
        run = SteppedRun(self.node, steps, self.builder, self.store, self.moment.begun)
        value = run.advanced(inputs, body, functools.partial(captured_by, self))
        self.scope.update(run.published)
        items = (value,) if value.items is None else value.items
        items = tuple(self.control_result(item, self.base(thing)) for item in items)
        return items[0] if value.items is None else replace(value, items=items)

    def _previous(self, parameter: Any) -> Value | Unavailable:
        if parameter.time_derivative is None:
            return super()._previous(parameter)
        if parameter.value is not None or parameter.function:
            raise NotCompiled(f"parameter {self.base(parameter)} has a time_derivative, and a value or function that MDF prefers")
        if parameter.default_initial_value is None:
            raise NotCompiled(
                f"parameter {self.base(parameter)} has a time_derivative and no default_initial_value to start from"
            )
        return self._stored(parameter)

    def _state(self, parameter: Any) -> Value:
        return available(self._stored(parameter))

    def _stale(self, parameter: Any) -> Value | Unavailable:  # type: ignore[override]
        return self._stored(parameter)

    def _stored(self, parameter: Any) -> Value | Unavailable:
        """A parameter after the node's last run; before its first run what MDF starts it with."""
        if self.moment.ran.is_known:
            return self.store.get(self._key(parameter)) if self.moment.ran.literal else self._first(parameter)
        stored = self.store.get(self._key(parameter))
        with self.builder.branch() as nodes:
            first = self._first(parameter)
        if isinstance(stored, Unavailable) or isinstance(first, Unavailable):
            return first if isinstance(first, Unavailable) else stored
        first = self.builder.array(first, self.base(parameter))
        return self.builder.selected(self.moment.ran, ([], [stored]), (nodes, [first]), self.base(parameter))[0]

    def _first(self, parameter: Any) -> Value | Unavailable:
        """What MDF takes a parameter for before it was ever evaluated; it may be known, and will not stay as it is."""
        if parameter.default_initial_value is not None:
            return replace(self._initial(parameter), varies=True)
        if is_stateful(parameter):
            return replace(literal(START), varies=True)
        if parameter.value is not None:
            try:
                return replace(self.value(parameter.value, parameter), varies=True)
            except NotCompiled as reason:  # it computes with what a function gives
                return Unavailable(str(reason))
        return Unavailable(f"parameter {self.base(parameter)} is read before it has a value")

    def _goes_on(self, parameter: Any, value: Value) -> None:
        """The store has it."""

    def _so_far(self, parameter: Any) -> Value:
        """The value that conditions change: the last one, 0.0 before there was one."""
        if self.moment.ran.is_known and not self.moment.ran.literal:
            return literal(START)
        stored = available(self.store.get(self._key(parameter)))
        return self.builder.chosen(self.moment.ran, stored, literal(START), self.base(parameter))

    def _integrated(self, parameter: Any) -> Value:
        """A parameter with a time_derivative: its initial value, and in later evaluations a step of Euler's method."""
        later, ran, base = self.moment.later, self.moment.ran, self.base(parameter)
        if not (later.is_known and not later.literal) and not (ran.is_known and ran.literal):
            raise NotCompiled(f"parameter {base} has a time_derivative, and its node may not run in the first evaluation")
        return self.builder.computed(later, lambda: self._step(parameter), lambda: self._restarted(parameter), base)

    def _restarted(self, parameter: Any) -> Value:
        return self.builder.array(self.value(parameter.default_initial_value, parameter), self.base(parameter))

    def _step(self, parameter: Any) -> Value:
        base, current = self.base(parameter), available(self.store.get(self._key(parameter)))
        slope = self.builder.array(self.value(parameter.time_derivative, parameter), base)
        increment = literal(self.moment.time_increment)
        change = self.builder.node("multiply", [slope, increment], base, number=arithmetic("multiply", slope, increment))
        if current.number and change.number:  # MDF adds by numpy.add, which makes numpy's numbers of Python's
            current = self.builder.tensor(current, base)
        return self.builder.node("add", [current, change], base)


ONNX_OF_MDF = 15
"""``modeci_mdf.functions.onnx.onnx_opset_version``."""


@record
class Sent:
    """What one edge brings: the value at its sender's port, whether the sender ran, whether the value is an array."""

    edge: Any
    value: Value | Unavailable
    came: Value
    is_array: bool


def port_value(
    store: Store, builder: PassBuilder, node: Any, port: Any, sent: Sequence[Sent], ran: Value, path: tuple[str, ...]
) -> Value:
    """The value of an input port in one run of its node; ``ran`` says whether the node ran before."""
    base = f"{node.id}.{port.id}"
    reduce = reduce_of(port)
    if reduce not in REDUCTIONS:
        raise NotCompiled(f"port {base} has reduce {reduce!r}")
    sent = [part for part in sent if not (part.came.is_known and not part.came.literal)]
    if len(sent) > (1 if reduce == "overwrite" else 2):
        raise NotCompiled(f"{len(sent)} edges end in port {base}, and MDF takes them in no particular order")

    def brought(part: Sent) -> Value:
        return weighted(builder, base, part.edge, available(part.value), part.is_array, path)

    if len(sent) == 2:
        return _reduced(builder, base, reduce, [*map(brought, sent)], sent)
    if not sent:
        return _default(store, builder, port, ran, path)
    return builder.computed(
        sent[0].came,
        lambda: brought(sent[0]),
        lambda: builder.array(_default(store, builder, port, ran, path), base),
        base,
        apart=True,  # what has not come has no value to weigh
    )


def _reduced(builder: PassBuilder, base: str, reduce: str, values: Sequence[Value], sent: Sequence[Sent]) -> Value:
    if not all(part.came.is_known for part in sent):
        raise NotCompiled(f"two edges end in port {base}, and not both of their senders have surely run")
    if any(part.is_array and is_plain(part.edge) for part in sent):
        raise NotCompiled(
            f"port {base} has reduce {reduce!r}: MDF changes an array that is sent there in place, whichever comes first"
        )
    op = REDUCTIONS[reduce]
    return builder.node(op, [*values], base, number=arithmetic(op, *values))


def _default(store: Store, builder: PassBuilder, port: Any, ran: Value, path: tuple[str, ...]) -> Value:
    """What MDF takes where no edge brings a value."""
    if isinstance(default_value_of(port), GivenInput):
        return store.given(default_value_of(port))
    if default_value_of(port) is not None:
        if isinstance(default_value_of(port), str):
            raise NotCompiled(f"port {port.id} has the text {default_value_of(port)!r} for a default_value")
        return default_of(port, path)
    shape = tuple(port.shape or ())
    if not all(isinstance(n, int) for n in shape) or int(np.prod(shape)) > 10**7:
        raise NotCompiled(f"port {port.id} has the shape {shape}, which is not all numbers or too large")
    zeros = literal(np.full(shape, 0.0))
    if reduce_of(port) != "overwrite" or (port.type and "float" in port.type):
        return zeros
    return builder.chosen(ran, zeros, literal(np.full(shape, 0)), port.id)
