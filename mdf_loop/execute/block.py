"""One block of iterations: every part of the plan run for all of them, nothing is committed before all is done."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.execute.calls import Calls, ManyInputs
from mdf_loop.execute.interpret import truth
from mdf_loop.execute.iteration_columns import History, NotStackable
from mdf_loop.ir import Body, Node
from mdf_loop.ops.batching import by_step, elementwise, is_settled
from mdf_loop.options import Run
from mdf_loop.step.records import Type


class Batch:
    """Values of a number of iterations, and the nodes that are run on them.

    Parameters
    ----------
    length : int
    same : mapping
        Values that are the same in every iteration.
    run : Run
        What inner loops share with this one.
    index : numpy.ndarray or None
        The iteration numbers, for views in place of copies.

    Attributes
    ----------
    overran : bool
        Whether something was stepped beyond the end that was found afterwards.
    """

    def __init__(self, length: int, same: Mapping[str, Any], calls: Calls, run: Run, index: np.ndarray | None = None) -> None:
        self.length, self.same, self.calls, self.run, self.index = length, same, calls, run, index
        self.histories: dict[str, History] = {}
        self.fixed: dict[str, Any] = {}
        self.overran = False

    def is_stacked(self, name: str) -> bool:
        """Whether a value may differ from iteration to iteration."""
        return name in self.histories

    def single(self, name: str) -> Any:
        """A value that is the same in every iteration of this block."""
        return self.fixed[name] if name in self.fixed else self.same[name]

    def history(self, name: str) -> History:
        """A value in each iteration."""
        if name in self.histories:
            return self.histories[name]
        return History.of_values([self.single(name)] * self.length, self.calls.exact)

    def is_array(self, value: Any) -> bool:
        """Whether a value without dimensions is an array, and not a number."""
        return self.calls.type(value).is_array

    def keep(self, name: str, rows: np.ndarray) -> None:
        """Take what a value is in each iteration, stacked on axis 0."""
        self.histories[name] = History.of_array(rows)

    def run_node(self, node: Node) -> None:
        """Run a node for all iterations."""
        flags = [bool(name) and name in self.histories for name in node.inputs]
        captured = any(name in self.histories for name in node.captures)
        if not any(flags) and not captured:
            self._once(node, [self.single(name) if name else None for name in (*node.inputs, *node.captures)])
        elif (branches := self.calls.bound(node).branches) is not None:
            self._branch(node, branches)
        elif not self._by_rule(node, flags):
            self._one_by_one(node)

    def _once(self, node: Node, values: Sequence[Any]) -> None:
        result = self._kernel(node)(*values)
        results = result if type(result) is tuple else (result,)
        self.fixed.update((name, value) for name, value in zip(node.outputs, results, strict=False) if name)

    def _by_rule(self, node: Node, flags: list[bool]) -> bool:
        bound, entry, _ = self.calls(node)
        picks = entry.facts.picks_rows
        if picks is not None and picks(**node.attrs) and self._is_row(node):
            return True
        if entry.batch is None or node.captures:
            return False
        try:
            args: list[Any] = [
                self.histories[name].stacked() if flag else self.single(name) if name else None
                for name, flag in zip(node.inputs, flags, strict=True)
            ]
        except NotStackable:
            return False
        for k, name in enumerate(node.inputs):
            if flags[k] and entry.batch is not elementwise and is_settled(args[k]):
                args[k], flags[k] = self._value(name), False
        if not any(flags):
            self._once(node, args)
            return True
        result = None if entry.batch is by_step else entry.batch(entry.run, args, flags, bound.keywords)
        if result is None:
            return self._by_step(node, args, flags)
        types = self._types_of_rows(node) if self.calls.exact else [None] * len(result[0])
        self._keep_all(node, *result, types)
        return True

    def _by_step(self, node: Node, args: Sequence[Any], flags: Sequence[bool]) -> bool:
        """Run a node by its Step, with a leading axis."""
        bound, entry, _ = self.calls(node)
        types = [self._type(name) for name in node.inputs]
        found = self.calls.many(node, bound, entry, ManyInputs(args, types, flags), self.run)
        if found is None:
            return False
        results, many = found
        self._keep_all(node, results, many.flags, many.types)
        return True

    def _type(self, name: str) -> Type | None:
        """The type of an input in one iteration; None where it is omitted."""
        if not name or (name not in self.histories and self.single(name) is None):
            return None
        return self.histories[name].type if name in self.histories else self.calls.type(self.single(name))

    def _keep_all(self, node: Node, values: Sequence[Any], flags: Sequence[bool], types: Sequence[Type | None]) -> None:
        """Take what a node gave for all iterations, with a row for each as the flags say."""
        for name, value, is_stacked, type in zip(node.outputs, values, flags, types, strict=False):
            if name and is_stacked:
                self.histories[name] = History.of_array(value, type=type if value.ndim == 1 else None)
            elif name:
                self.fixed[name] = value

    def _types_of_rows(self, node: Node) -> list[Type]:
        """What a node's kernel gives in one iteration, where a stack of numbers does not say whether they are arrays."""
        last = [self._value(name) for name in node.inputs]
        result = self._kernel(node)(*last)
        return [self.calls.type(value) for value in (result if type(result) is tuple else (result,))]

    def _value(self, name: str) -> Any:
        if not name:
            return None
        return self.histories[name].last() if name in self.histories else self.single(name)

    def _is_row(self, node: Node) -> bool:
        """``data[i]`` by the iteration number: a part of the data as it is."""
        data, indices = node.inputs
        if (
            self.index is None
            or data in self.histories
            or indices not in self.histories
            or self.histories[indices]._array is not self.index
        ):
            return False
        rows = self.single(data)
        first = int(self.index.flat[0])
        if self.index.ndim != 1 or rows.ndim < 1 + self.calls.exact or first + self.length > len(rows):
            return False
        self.histories[node.outputs[0]] = History.of_array(rows[first : first + self.length], is_borrowed=True)
        return True

    def _one_by_one(self, node: Node) -> None:
        call = self._kernel(node)
        columns = [self._column(name) for name in (*node.inputs, *node.captures)]
        results = [call(*row) for row in zip(*columns, strict=True)]
        outputs = list(zip(*[r if type(r) is tuple else (r,) for r in results], strict=True))
        for name, values in zip(node.outputs, outputs, strict=False):
            if name:
                self.histories[name] = History.of_values(list(values), self.calls.exact)

    def _kernel(self, node: Node) -> Callable[..., Any]:
        bound = self.calls(node)[0]
        return functools.partial(bound.call, self.run) if bound.needs_run else bound.call

    def _column(self, name: str) -> Sequence[Any]:
        if not name:
            return [None] * self.length
        return self.histories[name].values() if name in self.histories else [self.single(name)] * self.length

    def head(self, length: int) -> None:
        """Forget all iterations behind the first ones."""
        if length < self.length:
            self.length = length
            self.histories = {name: history.head(length) for name, history in self.histories.items()}
            self.index = None if self.index is None else self.index[:length]

    # If, on a condition that differs from iteration to iteration: each branch for the iterations that take it

    def _branch(self, node: Node, branches: tuple[Body, Body]) -> None:
        chosen = self._choices(node.inputs[0])
        takers = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        sides = [self._side(body, places) for body, places in zip(branches, takers, strict=True)]
        for k, name in enumerate(node.outputs):
            if name:
                self.histories[name] = self._merged(chosen, *[side[k] if side else None for side in sides])

    def _choices(self, name: str) -> np.ndarray:
        if name not in self.histories:
            return np.full(self.length, truth(self.single(name), "the condition of an If"))
        history = self.histories[name]
        if history.type.is_number and history.type.dtype == np.bool_:
            return np.array(history.rows(), np.bool_)
        return np.array([truth(value, "the condition of an If") for value in history.values()])

    def _side(self, body: Body, places: np.ndarray) -> list[History] | None:
        if not len(places):
            return None
        known = {name: self.single(name) for name in body.captures if name not in self.histories}
        inner = Batch(len(places), {**body.constants, **known}, self.calls, self.run)
        for name in body.captures:
            if name in self.histories:
                inner.histories[name] = taken(self.histories[name], places, self.calls.exact)
        for node in body.nodes:
            inner.run_node(node)
        return [inner.history(name) for name in body.outputs]

    def _merged(self, chosen: np.ndarray, one: History | None, other: History | None) -> History:
        if one is None or other is None:
            found = one if other is None else other
            assert found is not None
            return found
        if one.type == other.type and one.type.is_static and not one.type.weak:
            first = one.stacked()
            out = np.empty((len(chosen), *first.shape[1:]), first.dtype)
            out[chosen], out[~chosen] = first, other.stacked()
            return History.of_array(out, type=one.type)
        rows, ends = [None] * len(chosen), (iter(other.values()), iter(one.values()))
        for k, way in enumerate(chosen):
            rows[k] = next(ends[bool(way)])
        return History.of_values(rows, self.calls.exact)


def taken(history: History, places: np.ndarray, exact: bool) -> History:
    """Some iterations of a history; ``exact`` as in ``History.of_values``."""
    if len(places) == history.length:
        return history
    try:
        return History.of_array(history.stacked()[places], type=history.type if history.type.shape is not None else None)
    except NotStackable:
        values = history.values()
        return History.of_values([values[k] for k in places], exact)
