"""How each structural operation of a Step is written in operators of ONNX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.backends.onnx.graph_printer import FIRST, LAST, STRUCTURE, GraphPrinter
from mdf_loop.backends.onnx.rewritten import Unwritten
from mdf_loop.backends.onnx.subgraphs import written_branch, written_loop
from mdf_loop.backends.static_lowering import dtype_of
from mdf_loop.readers.mdf.control_functions import rename_captures
from mdf_loop.step.primitives import BOOL, INT64
from mdf_loop.step.records import Apply, Reduction, Value


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
