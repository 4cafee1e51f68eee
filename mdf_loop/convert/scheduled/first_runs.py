"""Runs of nodes whose values are all known: what a node computes is read once for each kind of values, and run with any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import Key
from mdf_loop.convert.scheduled.slots import GivenInput, Reading, Store
from mdf_loop.errors import LoopError
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.ir import Body, record
from mdf_loop.options import start_run
from mdf_loop.readers.expressions.values import BodyBuilder, NotCompiled, Unavailable, Value
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET

RunNode = Callable[[str, Body, int], Sequence[Any]]
"""Runs a node whose values are all known: its id, what it computes, and how many passes there were before."""

VALUES = ("parameter", "output", "input", "function", "given")
"""Kinds of values that a node computes with; others say whether and when it runs."""

NUMBERS = (bool, int, float, np.ndarray, np.generic)


def interpreted(node: str, body: Body, passes: int) -> Sequence[Any]:
    """The results of a run of a node."""
    return InterpretedBody(body)((), (), start_run())


class Slots(Store):
    """Values that are known, and all the same read as if they were not: as inputs of what a node computes."""

    def __init__(self, known: dict[Key, Any], body: BodyBuilder, reading: Reading) -> None:
        super().__init__(known, None, reading)
        self.body, self.inputs, self.read = body, dict[Key, str](), dict[Key, Any]()

    def peek(self, key: Key, default: Any = None) -> Value | Unavailable:
        """A value, as an input where it is a number or an array."""
        is_new = not any(key in layer for layer in self._layers)
        found = self.known.get(key, default)
        if is_new:
            self.read.setdefault(key, self.known.get(key))
        if not is_new or key[0] not in VALUES or not isinstance(found, NUMBERS):
            return super().peek(key, default)
        self._layers[0][key] = value = self.body.hidden(key, ".".join(key[1:]), found)
        self.body.goes_on(key, value)
        self.inputs[key] = value.name
        return value

    def given(self, given: GivenInput) -> Value:
        """What a run is given, which no pass changes."""
        value = self.get(given.key)
        assert isinstance(value, Value)
        return replace(value, varies=False)


@record
class NodeRun:
    """What a node computes for values of some kinds.

    Attributes
    ----------
    kinds : mapping of Key to kind
        All that was looked at.
    execute : InterpretedBody
    inputs : tuple of Key
    results : tuple of Key
    others : mapping of Key to value
        What is the same whatever the values are.
    """

    kinds: Mapping[Key, Any]
    execute: InterpretedBody
    inputs: tuple[Key, ...]
    results: tuple[Key, ...]
    others: Mapping[Key, Any]

    def fits(self, known: Mapping[Key, Any]) -> bool:
        """Whether it is what the node computes of these values."""
        return all(kind_of(key, known.get(key)) == kind for key, kind in self.kinds.items())

    def __call__(self, known: Mapping[Key, Any]) -> dict[Key, Any]:
        """What the node makes of values."""
        found = self.execute([known[key] for key in self.inputs], (), start_run())
        return {**self.others, **dict(zip(self.results, found, strict=True))}


def kind_of(key: Key, value: Any) -> Any:
    """What reading a node depends on: a type, or the value itself where that is no number to compute with."""
    if isinstance(value, Unavailable):
        return value.reason
    return type(value) if key[0] in VALUES else (type(value), value)


def read_run(
    known: dict[Key, Any], evaluate: Callable[[Slots, BodyBuilder], dict[Key, Any]], name: str, opsets: Any
) -> NodeRun | None:
    """What a node computes; None where that depends on the values.

    ``evaluate`` makes a run of the node in a store, and gives what changes.
    """
    reading = Reading()
    while True:
        reading.changed, builder = False, BodyBuilder(reading, (), (), DEFAULT_OPSET)
        store = Slots(known, builder, reading)
        try:
            changed = evaluate(store, builder)
        except (NotCompiled, LoopError):  # said where the values are known
            return None
        if not reading.changed:
            break
    if not all(_is_plain(key, value) for key, value in store.read.items()):
        return None
    values = {key: value for key, value in changed.items() if isinstance(value, Value)}
    body = builder.finish(name, [*values.values()], opsets)
    names = {state.input for state in body.state}
    inputs = tuple(key for key, input in store.inputs.items() if input in names)
    body = replace(body, inputs=tuple(store.inputs[key] for key in inputs), state=())
    others = {key: value for key, value in changed.items() if key not in values}
    kinds = {key: kind_of(key, value) for key, value in store.read.items()}
    return NodeRun(kinds, InterpretedBody(body), inputs, tuple(values), others)


def _is_plain(key: Key, value: Any) -> bool:
    """Whether the kind of a value says all that reading a node may depend on."""
    if isinstance(value, NUMBERS):
        return key[0] in VALUES or not isinstance(value, np.ndarray)
    return value is None or isinstance(value, Unavailable)
