"""How each structural operation of a Step is written in operators of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.graph_printer import FIRST, LAST, STRUCTURE, GraphPrinter, declared
from mdf_loop.backends.onnx.whole_operators import Unwritten
from mdf_loop.backends.static_lowering import dtype_of
from mdf_loop.ir import Body, Carried, Collected, Loop, Node, Scanned, ValueType
from mdf_loop.ir.fresh_names import rename_captures
from mdf_loop.step.primitives import BOOL, INT64
from mdf_loop.step.records import Apply, BranchRegion, LoopRegion, Reduction, Region, Size, Type, Value
from mdf_loop.step.structure import read_in, why_no_condition


def _cast(p: GraphPrinter, v: Value) -> str:
    return p.of(v.args[0], dtype_of(v.type))


def _select(p: GraphPrinter, v: Value) -> str:
    dtype = dtype_of(v.type)
    test, x, y = p.of(v.args[0], BOOL), p.of(v.args[1], dtype), p.of(v.args[2], dtype)
    if dtype != BOOL:
        return p.e.op("Where", test, x, y)
    return p.e.op("Or", p.e.op("And", test, x), p.e.op("And", p.e.op("Not", test), y))  # onnxruntime has no Where for booleans


def _reshape(p: GraphPrinter, v: Value) -> str:
    return p.e.op("Reshape", p.of(v.args[0]), p.shape(v), **({"allowzero": 1} if 0 in (v.type.shape or ()) else {}))


def _slice(p: GraphPrinter, v: Value) -> str:
    cut = [(axis, part) for axis, part in enumerate(v.attr) if part != slice(None)]
    steps = [part.step or 1 for _, part in cut]
    starts = [(0 if step > 0 else LAST) if part.start is None else part.start for (_, part), step in zip(cut, steps, strict=True)]
    ends = [(LAST if step > 0 else FIRST) if part.stop is None else part.stop for (_, part), step in zip(cut, steps, strict=True)]
    return p.e.op("Slice", p.of(v.args[0]), *(np.array(row, np.int64) for row in (starts, ends, [k for k, _ in cut], steps)))


def _place(p: GraphPrinter, v: Value) -> str:
    x, *at = v.args
    if len(at) == 1:
        return p.e.op("Gather", p.of(x), p.of(at[0], INT64), axis=0)
    return p.e.op("GatherND", p.of(x), p.joined([p.row(index) for index in at]))


def _put(p: GraphPrinter, v: Value) -> str:
    x, update, *at = v.args
    where = p.e.op("Unsqueeze", p.joined([p.row(index) for index in at]), np.array([0]))
    return p.e.op("ScatterND", p.of(x), where, p.e.op("Unsqueeze", p.of(update), np.array([0])))


def _place_in(p: GraphPrinter, v: Value) -> str:
    index, length = (p.of(x, INT64) for x in v.args)
    return p.e.op("Where", p.e.op("Less", index, np.array(0)), p.e.op("Add", index, length), index)


def _window(p: GraphPrinter, v: Value) -> str:
    x, *begins = v.args
    starts = p.joined([p.row(begin) for begin in begins])
    lengths = np.array(v.type.shape, np.int64)
    return p.e.op("Slice", p.of(x), starts, p.e.op("Add", starts, lengths), np.arange(len(begins)))


def _length(p: GraphPrinter, v: Value) -> str:
    shape = p.e.op("Shape", p.of(v.args[0]))
    return p.e.op("Gather", shape, np.array(v.attr), axis=0)


_REDUCTIONS = {
    "sum": "ReduceSum",
    "prod": "ReduceProd",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "any": "ReduceMax",
    "all": "ReduceMin",
}


def _reduce(p: GraphPrinter, v: Value) -> str:
    how: Reduction = v.attr
    (x,) = v.args
    if how.kind in ("argmax", "argmin"):
        return p.e.op(how.kind.replace("arg", "Arg").replace("m", "M", 1), p.of(x), axis=how.axes[0], keepdims=int(how.keep))
    axes, is_truth = np.array(how.axes, np.int64), how.kind in ("any", "all")
    given = p.of(x, INT64) if is_truth else p.of(x)
    made = p.e.op(_REDUCTIONS[how.kind], given, axes, keepdims=int(how.keep))
    return p.e.op("Cast", made, to=p.code(v, BOOL)) if is_truth else made


def _apply(p: GraphPrinter, v: Value) -> Any:
    apply: Apply = v.attr
    if apply.definition is not None:
        found = p.inlined(v, apply)
        return found[0] if apply.results == 1 else found
    if isinstance(apply, Unwritten):
        raise p.refusal(v, apply.why)
    node, names = apply.node, tuple(p.of(x) for x in v.args)
    inputs, captured = names[: len(node.inputs)], dict(zip(node.captures, names[len(node.inputs) :], strict=True))
    node = node.with_bodies({key: rename_captures(body, captured) for key, body in node.bodies})
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    if apply.results == 1:
        wanted: tuple[str, ...] = (p.called.get(v, f"{p.e.where or 'value'}/{node.op}"),)
        outputs = tuple(map(p.e.fresh, wanted))
    else:
        outputs = tuple(p.e.fresh(name) if name else "" for name in node.outputs)
    p.e.nodes.append(replace(node, inputs=inputs, outputs=outputs, captures=tuple(captured.values())))
    return outputs[0] if apply.results == 1 else list(outputs)


def _item(p: GraphPrinter, v: Value) -> str:
    """One of several results; how often a loop ran, and its last condition, are none of ONNX's: nothing reads them."""
    names = p.found(v.args[0])
    return names[v.attr] if v.attr < len(names) else ""


NUMBER, TRUTH = ValueType(INT64, ()), ValueType(BOOL, ())


def _outputs(p: GraphPrinter, count: int) -> tuple[str, ...]:
    return tuple(p.e.fresh("unused") for _ in range(count))  # onnxruntime stumbles over outputs without names


def _single(p: GraphPrinter, x: Value, dtype: np.dtype) -> str:
    """A trip count or a condition: one number without axes."""
    if dtype == BOOL and (why := why_no_condition(x.type)):
        raise p.refusal(x, why)
    name = p.of(x, dtype)
    return p.e.op("Reshape", name, np.array([], np.int64)) if x.type.shape else name


def written_branch(p: GraphPrinter, v: Value) -> list[str]:
    """An If; results have one element type in both of its graphs."""
    branch: BranchRegion = v.attr
    graphs = {}
    for key, region in (("then_branch", branch.then), ("else_branch", branch.other)):
        inner = p.inside(key)
        graphs[key] = inner.e.body(key, (), inner.region(region))
    captures = tuple(dict.fromkeys(name for body in graphs.values() for name in body.captures))
    outputs = _outputs(p, len(branch.then.results))
    p.e.nodes.append(Node("If", (_single(p, v.args[0], BOOL),), outputs, graphs, p.name_of_node(v), p.e.opset, "", captures))
    return list(outputs)


def written_loop(p: GraphPrinter, v: Value) -> list[str]:
    """A Loop, or a Scan where nothing but the rows of arrays says how often it goes on."""
    loop: LoopRegion = v.attr
    count, condition, carried, scanned, _ = loop.split(v.args)
    inner = p.inside(p.origin(v))
    is_scan = bool(scanned) and not (loop.has_count or loop.has_condition) and _always_goes_on(loop)
    is_scan = is_scan and loop.index not in set(read_in(loop.body))
    record = _scan(inner, loop) if is_scan else _loop(p, inner, loop, scanned)
    initial = [p.of(x, dtype_of(state.type)) for x, state in zip(carried, loop.states, strict=True)]
    initial += [p.e.constant(_nothing(x.type)) for x in loop.last]
    if is_scan:
        given = ["", "", *initial, *map(p.of, scanned)]
    else:
        given = [_trip_count(p, loop, count, scanned), _condition(p, loop, condition), *initial]
    outputs = _outputs(p, len(record.results))
    p.e.nodes.append(
        Node("Loop", tuple(given), outputs, {"loop": record}, p.name_of_node(v), p.e.opset, "", record.body.captures)
    )
    if is_scan:
        return list(outputs)
    first = loop.n_carried + loop.n_last
    rows = zip(outputs[first:], loop.collected, loop.rows, strict=True)
    return [*outputs[:first], *(_arranged(p, name, what, row.type.rank or 0) for name, what, row in rows)]


def _arranged(p: GraphPrinter, name: str, what: Collected, rank: int) -> str:
    """Rows that a Loop of ONNX stacks in front, forwards, along their axis."""
    if what.reverse:
        name = p.e.op("Slice", name, *(np.array([bound]) for bound in (-1, FIRST, 0, -1)))
    axis = what.axis % (rank + 1)
    return p.e.op("Transpose", name, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]) if axis else name


def _always_goes_on(loop: LoopRegion) -> bool:
    return not loop.obeyed or loop.stays is loop.going or (loop.stays.op == "const" and bool(loop.stays.attr))


def _nothing(type: Type) -> np.ndarray:
    """What a value whose last one is asked for is before the first iteration; no node reads it."""
    return np.zeros([0 if isinstance(n, Size) else n for n in type.shape or ()], dtype_of(type))


def _trip_count(p: GraphPrinter, loop: LoopRegion, count: Value, scanned: Sequence[Value]) -> str:
    if loop.has_count:
        return _single(p, count, INT64)
    if not scanned:
        return ""
    return p.e.op("Gather", p.e.op("Shape", p.of(scanned[0])), np.array(loop.scanned[0].axis), axis=0)


def _condition(p: GraphPrinter, loop: LoopRegion, condition: Value) -> str:
    """The condition before the first iteration: where it is omitted, a Loop of ONNX does not obey that of its body."""
    if loop.has_condition:
        return _single(p, condition, BOOL)
    return p.e.constant(np.array(True)) if loop.obeyed and not _always_goes_on(loop) else ""


def _states(inner: GraphPrinter, loop: LoopRegion) -> list[str]:
    names = [inner.param(state, f"carried_{k}", ValueType(dtype_of(state.type))) for k, state in enumerate(loop.states)]
    for k, last in enumerate(loop.last):
        names.append(inner.e.fresh(f"last_{k}"))
        inner.e.types[names[-1]] = ValueType(dtype_of(last.type))
    return names


def _ends(inner: GraphPrinter, loop: LoopRegion) -> list[str]:
    """Carried values in the types that they have in every iteration, last values and what is collected."""
    ends = [inner.of(end, dtype_of(state.type)) for end, state in zip(loop.ends, loop.states, strict=True)]
    return [*ends, *map(inner.of, loop.last), *map(inner.of, loop.rows)]


def _record(loop: LoopRegion, body: Body, states: Sequence[str], outputs: Sequence[str], **others: Any) -> Loop:
    carried = tuple(map(Carried, states, outputs))
    rows = outputs[len(states) :]
    return Loop(body, carried, collected=tuple(map(Collected, rows)), name=loop.name, **others)


def _scan(inner: GraphPrinter, loop: LoopRegion) -> Loop:
    states = _states(inner, loop)
    parts = [inner.param(part, f"part_{k}", declared(part.type)) for k, part in enumerate(loop.parts)]
    _print_body(inner, loop)
    body = inner.e.body(loop.name or "body", [*states, *parts], _ends(inner, loop))
    inner.e.types |= {name: declared(x.type) for name, x in zip(body.outputs, loop.body.results[1:], strict=True)}
    scanned = tuple(Scanned(name, what.axis, reverse=what.reverse) for name, what in zip(parts, loop.scanned, strict=True))
    record = _record(loop, body, states, body.outputs, scanned=scanned)
    whats = zip(record.collected, loop.collected, strict=True)
    return replace(record, collected=tuple(replace(what, output=row.output) for row, what in whats))


def _loop(p: GraphPrinter, inner: GraphPrinter, loop: LoopRegion, scanned: Sequence[Value]) -> Loop:
    index, going = inner.param(loop.index, "iteration", NUMBER), inner.param(loop.going, "condition", declared(loop.going.type))
    inner.e.types[going] = TRUTH
    states = _states(inner, loop)
    for part, what, x in zip(loop.parts, loop.scanned, scanned, strict=True):
        inner.names[part] = _part(inner, p.of(x), index, what)
    _print_body(inner, loop)
    stays = _single(inner, loop.stays, BOOL) if loop.obeyed else inner.e.constant(np.array(True))
    body = inner.e.body(loop.name or "body", [index, going, *states], [stays, *_ends(inner, loop)])
    return _record(loop, body, states, body.outputs[1:], index=index, condition=going, keep_going=body.outputs[0])


def _part(inner: GraphPrinter, x: str, index: str, what: Scanned) -> str:
    """The row of an array that belongs to an iteration."""
    at = inner.e.op("Sub", np.array(-1), index) if what.reverse else index
    return inner.e.op("Gather", x, at, axis=what.axis)


def _print_body(inner: GraphPrinter, loop: LoopRegion) -> None:
    """Print what the body computes."""
    inner.region(Region(loop.body.params, loop.body.values, ()))


STRUCTURE |= {
    "cast": _cast,
    "as_array": lambda p, v: p.of(v.args[0]),
    "select": _select,
    "reshape": _reshape,
    "broadcast": lambda p, v: p.e.op("Expand", p.of(v.args[0]), p.shape(v)),
    "transpose": lambda p, v: p.e.op("Transpose", p.of(v.args[0]), perm=tuple(v.attr)),
    "slice": _slice,
    "window": _window,
    "pack": lambda p, v: p.joined([p.row(x, dtype_of(v.type)) for x in v.args]),
    "concat": lambda p, v: p.e.op("Concat", *map(p.of, v.args), axis=v.attr),
    "gather": lambda p, v: p.e.op("Gather", p.of(v.args[0]), p.of(v.args[1]), axis=v.attr),
    "length": _length,
    "place": _place,
    "place_in": _place_in,
    "put": _put,
    "reduce": _reduce,
    "dot": lambda p, v: p.e.op("MatMul", *map(p.of, v.args)),
    "apply": _apply,
    "item": _item,
    "loop": written_loop,
    "branch": written_branch,
}
