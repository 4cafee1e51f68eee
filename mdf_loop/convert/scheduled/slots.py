"""Values while passes are built: what lives from pass to pass, arithmetic on what is known, one of two values.

The same code makes each pass: with values that are known, which is run at once; with values that are open until a graph runs,
which is written in front of the loop; and with values that are carried, which becomes the body of the loop.  What a node computes
of values that are known is read once for each kind of values, and run with any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import COMPARISONS, UPDATES, Key
from mdf_loop.errors import LoopError
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.execute.warnings.shared_draws import shared_in_graph
from mdf_loop.ir import Body, record
from mdf_loop.options import start_run
from mdf_loop.plan.invariants import draws
from mdf_loop.readers.expressions.expression import harmless
from mdf_loop.readers.expressions.values import (
    BodyBuilder,
    Findings,
    NotCompiled,
    Number,
    Part,
    Unavailable,
    Value,
    available,
    literal,
)
from mdf_loop.readers.mdf.input_ports import GivenInput
from mdf_loop.readers.onnx.graph import DEFAULT_OPSET

TRUE, FALSE = literal(True), literal(False)

_OF_A_KIND: dict[Number, Any] = {Number.BOOL: False, Number.INT: 0, Number.FLOAT: 0.0, Number.COMPLEX: 0j}


def might_be(value: Value) -> Any:
    """What an open value might be, for code that asks of which kind it is: a number of Python, else an array."""
    return _OF_A_KIND.get(value.number, np.zeros(()))


@dataclass
class Reading(Findings):
    """Findings, and which values some later pass reads: only those are kept where a node did not run."""

    live: set[Key] = field(default_factory=set)


class Store:
    """The values that live from pass to pass.

    Attributes
    ----------
    calls_loops : bool
        Whether loops of nodes are called one by one, as ``mdf_loop.loop`` is.
    noted : dict of str to None
        What to say of what was run: ports that were read too early, and draws that elements share.

    Parameters
    ----------
    known : dict of key to value
        What they are before the pass.
    builder : PassBuilder or None
        Where they are carried; None where they are known.
    reading : Reading
    named : dict of key to Value, optional
        Those that are open until a graph runs, by what they are called in it: ``known`` has others of their kinds.  None where
        all are known, and what draws random numbers draws them at once.
    """

    calls_loops = False

    def __init__(
        self, known: dict[Key, Any], builder: PassBuilder | None, reading: Reading, named: dict[Key, Value] | None = None
    ) -> None:
        self.known, self.builder, self.reading, self.named = known, builder, reading, named
        self.carried: dict[Key, Value] = {}
        self.recorded: frozenset[Key] = frozenset()
        self.noted: dict[str, None] = {}
        self._layers: list[dict[Key, Value | Unavailable]] = [{}]

    @property
    def is_known(self) -> bool:
        """Whether what nodes compute is known, so that each is run at once."""
        return self.builder is None

    def get(self, key: Key, default: Any = None) -> Value | Unavailable:
        """A value, as far as the pass has come; ``default`` is what it starts with where nothing is known."""
        if key not in self.reading.live:
            self.reading.live.add(key)
            self.reading.changed = True
        return self.peek(key, default)

    def peek(self, key: Key, default: Any = None) -> Value | Unavailable:
        """A value that is only passed on."""
        for layer in reversed(self._layers):
            if key in layer:
                return layer[key]
        if self.named and key in self.named:
            return self.named[key]
        known = self.known.get(key, default)
        if isinstance(known, Unavailable):
            return known
        if self.builder is None:
            return Value(number=literal(known).number, literal=known)
        base = ".".join(key[1:]) if key[0] in ("parameter", "output", "given", "stepped") else " ".join(key)
        self.carried[key] = self._layers[0][key] = value = self.builder.hidden(key, base, known)
        return value

    def given(self, given: GivenInput) -> Value:
        """What a run is given, which no pass changes."""
        return replace(available(self.get(given.key)), varies=False)

    def set(self, key: Key, value: Value | Unavailable) -> None:
        """What a value is from now on."""
        if self.is_known and len(self._layers) == 1 and isinstance(value, Value) and value.is_known:
            self.keep({key: value})
            self._layers[0].pop(key, None)
        else:
            self._layers[-1][key] = value

    def keep(self, changed: Mapping[Key, Any]) -> None:
        """Know what changed, or what it is called: the one of the next pass may be another, whatever it is computed from."""
        for key, value in changed.items():
            if self.named is not None and isinstance(value, Value) and not value.is_known:
                self.named[key] = replace(value, varies=True)
                if key != UPDATES:  # of which it is sure that they have not become fewer
                    self.known[key] = might_be(value)
                continue
            self.known[key] = value.literal if isinstance(value, Value) else value
            if self.named:
                self.named.pop(key, None)

    @contextlib.contextmanager
    def aside(self) -> Iterator[dict[Key, Value | Unavailable]]:
        """Values set meanwhile are kept aside, in the dict this gives."""
        changed: dict[Key, Value | Unavailable] = {}
        self._layers.append(changed)
        try:
            yield changed
        finally:
            self._layers.pop()

    def now(self) -> dict[Key, Value | Unavailable]:
        """All values that were set or read, as far as the pass has come."""
        return dict(self._layers[0])


class PassBuilder(BodyBuilder):
    """A body under construction in which conditions and counts may be known: what follows from these is known at once.

    Parameters
    ----------
    reading : Reading, optional
    inputs : sequence of str
    """

    def __init__(self, reading: Reading | None = None, inputs: Sequence[str] = ()) -> None:
        super().__init__(reading or Reading(), inputs, (), DEFAULT_OPSET)

    def compared(self, comparison: str, left: Value, right: Any) -> Value:
        """A count or number compared with a number: Python's bool."""
        if left.is_known:
            return literal(bool(COMPARISONS[comparison](left.literal, right)))
        return self.node(comparison, [left, literal(right)], "condition", number=Number.BOOL)

    def divides(self, count: Value, n: Any) -> Value:
        """Whether ``count`` is a multiple of ``n``."""
        if count.is_known:
            return literal(count.literal % n == 0)
        rest = self.node("remainder", [count, literal(n)], "condition", number=max(Number.INT, literal(n).number))
        return self.compared("equal", rest, 0)

    def added(self, left: Value, right: Value, base: str) -> Value:
        """The sum of two counts."""
        if left.is_known and right.is_known:
            return literal(left.literal + right.literal)
        if left.literal == 0 and left.is_known:
            return right
        return self.node("add", [left, right], base, number=Number.INT)

    def both(self, left: Value, right: Value) -> Value:
        """``left and right`` of two conditions."""
        if left.is_known:
            return right if left.literal else FALSE
        if right.is_known:
            return left if right.literal else FALSE
        return self.node("choose", [left, right, FALSE], "condition", number=Number.BOOL)

    def either_of(self, left: Value, right: Value) -> Value:
        """``left or right`` of two conditions."""
        if left.is_known:
            return TRUE if left.literal else right
        if right.is_known:
            return TRUE if right.literal else left
        return self.node("choose", [left, TRUE, right], "condition", number=Number.BOOL)

    def contrary(self, value: Value) -> Value:
        """``not value`` of a condition."""
        if value.is_known:
            return literal(not value.literal)
        return self.node("not", [value], "condition", number=Number.BOOL)

    def chosen(self, condition: Value, then: Value, otherwise: Value, base: str) -> Value:
        """One of two values that are there already."""
        if condition.is_known:
            return then if condition.literal else otherwise
        return self.node("choose", [condition, then, otherwise], base, number=max(then.number, otherwise.number))

    def computed(
        self, condition: Value, then: Callable[[], Value], otherwise: Callable[[], Value], base: str, apart: bool = False
    ) -> Value:
        """One of two values that are still to be computed; ``apart``: the first must not be computed where it is not chosen."""
        if condition.is_known:
            return then() if condition.literal else otherwise()
        with self.branch() as first:
            value = then()
        with self.branch() as second:
            other = otherwise()
        return self.selected(condition, (first, [value]), (second, [other]), base, apart and bool(first))[0]

    def selected(self, condition: Value, then: Part, otherwise: Part, base: str, apart: bool = False) -> list[Value]:
        """The values of one of two branches: both computed where that can do no harm, else (or if ``apart``) an If."""
        (then_nodes, then_values), (else_nodes, else_values) = then, otherwise
        if condition.is_known:
            self.nodes += then_nodes if condition.literal else else_nodes
            return [*(then_values if condition.literal else else_values)]
        pairs = list(zip(then_values, else_values, strict=True))
        if not apart and harmless(self, [*then_nodes, *else_nodes]):
            self.nodes += [*then_nodes, *else_nodes]
            return [a if a is b else self.chosen(condition, a, b, base) for a, b in pairs]
        outputs = [self.fresh(value.name or base) for value in then_values]
        made = self.one_of(condition, then, otherwise, outputs, base)
        return [Value(new.name, max(a.number, b.number)) for new, (a, b) in zip(made, pairs, strict=True)]


VALUES = ("parameter", "output", "input", "function", "given", "stepped", "iterations", "iterations since")
"""Kinds of values that a node computes with; others say whether and when it runs."""

NUMBERS = (bool, int, float, np.ndarray, np.generic)


class Slots(Store):
    """Values that are known, and all the same read as if they were not: as inputs of what a node computes."""

    def __init__(self, known: dict[Key, Any], body: PassBuilder, reading: Reading) -> None:
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

    def finished(self, name: str, results: Sequence[Value]) -> tuple[Body, tuple[Key, ...]]:
        """The body with these results, and the values that it takes: those that it reads."""
        body = self.body.finish(name, results)
        read = {state.input for state in body.state}
        inputs = {key: input for key, input in self.inputs.items() if input in read}
        return replace(body, inputs=tuple(inputs.values()), state=()), tuple(inputs)


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

    def __call__(self, store: Store) -> dict[Key, Any]:
        """What the node makes of the values in a store, where it notes draws that all elements of an array share."""
        env = self.execute.begin([store.known[key] for key in self.inputs], (), start_run())
        found = self.execute.finish(env)
        if any(map(draws, self.execute.body.nodes)):
            store.noted |= dict.fromkeys(shared_in_graph(self.execute, env))
        return {**self.others, **dict(zip(self.results, found, strict=True))}


def kind_of(key: Key, value: Any) -> Any:
    """What reading a node depends on: a type, or the value itself where that is no number to compute with."""
    if isinstance(value, Unavailable):
        return value.reason
    return type(value) if key[0] in VALUES else (type(value), value)


def read_run(known: dict[Key, Any], evaluate: Callable[[Slots, PassBuilder], dict[Key, Any]], name: str) -> NodeRun | None:
    """What a node computes; None where that depends on the values.

    ``evaluate`` makes a run of the node in a store, and gives what changes.
    """
    reading = Reading()

    def read() -> tuple[Slots, dict[Key, Any]]:
        store = Slots(known, PassBuilder(reading), reading)
        return store, evaluate(store, store.body)

    try:
        store, changed = reading.settled(read)
    except (NotCompiled, LoopError):  # said where the values are known
        return None
    if not all(_is_plain(key, value) for key, value in store.read.items()):
        return None
    values = {key: value for key, value in changed.items() if isinstance(value, Value)}
    body, inputs = store.finished(name, [*values.values()])
    others = {key: value for key, value in changed.items() if key not in values}
    kinds = {key: kind_of(key, value) for key, value in store.read.items()}
    return NodeRun(kinds, InterpretedBody(body), inputs, tuple(values), others)


def _is_plain(key: Key, value: Any) -> bool:
    """Whether the kind of a value says all that reading a node may depend on."""
    if isinstance(value, NUMBERS):
        return key[0] in VALUES or not isinstance(value, np.ndarray)
    return value is None or isinstance(value, Unavailable)
