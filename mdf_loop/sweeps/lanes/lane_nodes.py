"""One node for many lanes: by the rule of its kernel, and once that is known by the call that the rule makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.python.source import Source
from mdf_loop.errors import let_through
from mdf_loop.ir import Node
from mdf_loop.ops.registry import bind, lookup
from mdf_loop.sweeps.lanes.exact import DRAWS, SHARED, NotBatched
from mdf_loop.sweeps.lanes.lane_values import LaneTable
from mdf_loop.sweeps.lanes.weak import casting, divided, type_beside

Step = tuple[Callable[..., Any], tuple[str, ...], dict[str, Any], str]
"""A call, the names of its inputs, its keywords, and the name of its result."""


class Planned:
    """A node, its kernel and its rule."""

    def __init__(self, node: Node) -> None:
        self.node, self.is_draw = node, (node.domain, node.op) in DRAWS
        entry = lookup(node.op, node.opset, node.domain)
        self.call, self.rule, self.keywords = entry.run, entry.batch, dict(bind(node).keywords)

    def run(self, lanes: LaneTable, fixed: Container[str], is_noted: bool = False) -> list[Step] | None:
        """Run the node for all lanes; ``fixed`` are names whose values never change.

        If ``is_noted``, what does the same in the next iteration: the only call that the rule makes, if what it gets are the
        values themselves, or rows with another number of axes.
        """
        node, call, is_weak = self.node, self.call, False
        names, casts = list(node.inputs), list[Step]()
        if not lanes.weak.isdisjoint(names):
            dtype, is_weak = type_beside(node, lanes)
            call = divided if is_weak and node.op == "divide" else call
            names, casts = self._cast(names, lanes, dtype)
        args, flags = [lanes.env[name] for name in names], [name in lanes.stacked for name in node.inputs]
        calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = []
        if any(flags):
            if (node.domain, node.op) in SHARED:
                raise NotBatched(f"{node} may differ in the last place for many lanes at once")
            results, are_stacked = self._by_rule(call, args, flags, calls)
        else:
            result: Any = call(*args, **self.keywords)
            results, are_stacked = (result if type(result) is tuple else (result,)), (False,) * len(node.outputs)
            calls.append((tuple(args), self.keywords, result))
        if (node.domain, node.op) == ("", "ReduceSum") and any(flags):
            _refuse_long_sums(args[0], results[0])
        for name, value, is_stacked in zip(node.outputs, results, are_stacked, strict=False):
            if name:
                lanes.set(name, value, is_stacked, is_weak and is_stacked)
        steps = self._as_steps(call, names, lanes, args, flags, calls, results, fixed) if is_noted else None
        return None if steps is None else [*casts, *steps]

    def _cast(self, names: list[str], lanes: LaneTable, dtype: np.dtype) -> tuple[list[str], list[Step]]:
        """Names of the inputs, rows of Python's numbers in another type where that is needed, and what makes them."""
        steps: list[Step] = []
        for k, name in enumerate(names):
            rows, cast = lanes.env[name], casting(dtype)
            if name in lanes.weak and (typed := cast(rows)) is not rows:
                names[k] = f"{self.node.outputs[0]} input {k} as {dtype}"
                lanes.env[names[k]] = typed
                steps.append((cast, (name,), {}, names[k]))
        return names, steps

    def _by_rule(
        self, call: Callable[..., Any], args: list[Any], flags: list[bool], calls: list[Any]
    ) -> tuple[tuple[Any, ...], tuple[bool, ...]]:
        def watched(*given: Any, **keywords: Any) -> Any:
            result = call(*given, **keywords)
            calls.append((given, keywords, result))
            return result

        assert self.rule is not None
        try:
            found = self.rule(watched, args, flags, self.keywords)
        except Exception as error:  # of one lane; each alone says which
            let_through(error)
            raise NotBatched(f"{self.node}: {error}") from error
        if found is None:
            raise NotBatched(f"no rule runs {self.node} for many lanes at once")
        return found

    def _as_steps(
        self,
        call: Callable[..., Any],
        inputs: list[str],
        lanes: LaneTable,
        args: list[Any],
        flags: list[bool],
        calls: list[Any],
        results: Any,
        fixed: Container[str],
    ) -> list[Step] | None:
        """The call, if there was one, and all that went in and out went as it is."""
        outputs = self.node.outputs
        handed_on = [name for name, arg in zip(inputs, args, strict=True) if not calls and arg is results[0]]
        if handed_on and len(outputs) == len(results) == 1:
            return [(_itself, (handed_on[0],), {}, outputs[0])]
        if len(calls) != 1 or len(outputs) != 1 or len(results) != 1 or results[0] is not calls[0][2]:
            return None
        names, steps = list[str](), list[Step]()
        given, keywords, _ = calls[0]
        for k, value in enumerate(given):
            same = {name for name, arg in zip(inputs, args, strict=True) if arg is value}
            rows = {name for name, arg, flag in zip(inputs, args, flags, strict=True) if flag and _are_rows_of(value, arg)}
            if len(same) == 1:
                names.append(same.pop())
                continue
            names.append(f"{outputs[0]} input {k}")
            if not same and len(rows) == 1:
                steps.append((_reshaping(value.shape[1:]), (rows.pop(),), {}, names[-1]))
            elif not same and not rows and all(name in fixed or flag for name, flag in zip(inputs, flags, strict=True)):
                lanes.env[names[-1]] = value
            else:
                return None
        return [*steps, (call, tuple(names), keywords, outputs[0])]


FEW = 7
"""Terms of a sum up to which they are added up one after the other, however it is done."""


def _refuse_long_sums(x: np.ndarray, sums: np.ndarray) -> None:
    """See that one lane alone adds up its numbers in the same order."""
    if x.dtype.kind == "f" and (x.size > FEW * sums.size or sums.size > len(sums)):
        raise NotBatched("a sum of many terms may differ in the last place")


def _are_rows_of(value: Any, arg: Any) -> bool:
    """Whether an array may be another form of the rows of one: of all of them, not of the first alone."""
    return (
        isinstance(value, np.ndarray)
        and value.shape[:1] == arg.shape[:1]
        and value.size == arg.size
        and np.may_share_memory(value, arg)
    )


def _itself(value: Any) -> Any:
    return value


def _reshaping(shape: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: rows.reshape(len(rows), *shape)


Iteration = Callable[[dict[str, Any]], None]
"""Reads values by their names in the model, and writes those that are read behind it."""


def iteration_of(steps: Sequence[Step], seen: Collection[str]) -> Iteration:
    """The function of some calls.

    Parameters
    ----------
    steps : sequence of Step
        In order.
    seen : collection of str
        The results that are read when the iteration is over.
    """
    source = Source()
    local = dict[str, str]()

    def value(name: str) -> str:
        """The local name of a value, read where it is not there yet."""
        if name not in local:
            local[name] = source.fresh("v")
            source.line(f"{local[name]} = env[{source.use(name)}]")
        return local[name]

    for call, names, keywords, output in steps:
        given = [value(name) for name in names]
        given += [f"**{source.use(keywords)}"] if keywords else []
        found = source.fresh("v")
        source.line(f"{found} = {source.use(call)}({', '.join(given)})")
        local[output] = found
        if output in seen:
            source.line(f"env[{source.use(output)}] = {found}")
    if not source.lines:
        source.line("pass")
    return source.compiled("env")
