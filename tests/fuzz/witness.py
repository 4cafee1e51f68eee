"""onnxruntime as a second witness of what a loop gives, where it can run the body."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from bodies import onnxruntime_run
from onnx import GraphProto, ModelProto, TypeProto, helper

from .drawing import declared, graphs_of, in_model, read_names
from .loops import Call, LoopCase
from .outcome import Outcome, arrays_in, within
from .target import Failure

LIKE_US = {
    *(
        "Add",
        "Sub",
        "Mul",
        "Abs",
        "Neg",
        "Floor",
        "Ceil",
        "Relu",
        "Identity",
        "Not",
        "And",
        "Or",
        "Xor",
        "Less",
        "Greater",
        "Equal",
    ),
    *("LessOrEqual", "GreaterOrEqual", "Where", "Gather", "Slice", "Concat", "ScatterND", "ScatterElements", "GatherElements"),
    *(
        "GatherND",
        "Reshape",
        "Transpose",
        "Unsqueeze",
        "Squeeze",
        "Flatten",
        "Expand",
        "Tile",
        "Trilu",
        "Constant",
        "Size",
        "Shape",
    ),
    *(
        "Sqrt",
        "Div",
        "Mod",
        "Sin",
        "Cos",
        "Tanh",
        "Sigmoid",
        "Atan",
        "Exp",
        "MatMul",
        "ReduceSum",
        "ReduceMean",
        "Softmax",
        "Cast",
    ),
    *("SequenceAt", "Loop", "If", "Scan", "Sum", "Range", "Split", "Compress", "Sign"),
}
"""Operators that are asked about.  Others are known to be different there, or cannot be compared:

- Max, Min, Clip, ReduceMax, ReduceMin and ArgMax of NaN or of zeros with signs; Round; Pow and ReduceProd that overflow;
- random numbers, whose stream is another; Unique and NonZero, of which several orders are right;
- operators whose kernels there lack most element types.
"""
TYPES = {np.dtype(name) for name in ("float32", "float64", "int64", "int32", "bool")}
REDUCING = {"ReduceSum", "ReduceMean"}
"""Of an axis without elements onnxruntime keeps none, where ``keepdims`` keeps one: it warns of its own result."""

FEW, LONG = 6, 40
"""Iterations of loops that are asked about; small differences may have grown after a few."""


def check_witness(case: LoopCase, expected: list[Outcome]) -> None:
    """Require what onnxruntime gives for the first call, if it can run it and the numbers are plain."""
    call, wanted = case.calls[0], expected[0]
    if (
        wanted.error is not None
        or case.attrs is not None
        or (call.count or 0) > (LONG if case.exact else FEW)
        or not _is_plain(case, call, wanted)
    ):
        return
    with contextlib.suppress(ImportError):
        model, feed = _model(case, call)
        try:
            found = onnxruntime_run(model, feed)
        except Exception:
            return  # types it has no kernels for, and shapes it wants to be the same in every iteration
        _compare(found, wanted, not operators(case.graph).isdisjoint(("Loop", "Scan")))


def _is_plain(case: LoopCase, call: Call, wanted: Outcome) -> bool:
    """Operators and types that both have, nothing that is not finite, and a loop that begins, and ends by what it is given.

    Without an iteration onnxruntime makes up the shapes of what is collected.
    """
    if not call.count or not call.cond or case.chosen.get("max_iterations", 1 << 30) < call.count:
        return False
    if any(isinstance(value, list) for value in (*call.carried, *wanted.results)) or not operators(case.graph) <= LIKE_US:
        return False
    arrays = list(arrays_in([call.carried, call.captured, list(wanted.results)]))
    if any(a.size == 0 for a in arrays) and not operators(case.graph).isdisjoint(REDUCING):
        return False
    return all(a.dtype in TYPES and _is_small(a) for a in arrays) and not _splits_into_more(case.graph)


def _splits_into_more(graph: GraphProto) -> bool:
    """Whether a Split names fewer outputs than ``num_outputs``: onnxruntime splits into as many as are named."""
    for node in graph.node:
        said = [a.i for a in node.attribute if a.name == "num_outputs"]
        if (node.op_type == "Split" and said and said[0] != len(node.output)) or any(map(_splits_into_more, graphs_of(node))):
            return True
    return False


def _is_small(array: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        return array.dtype == bool or bool(np.all(np.abs(array.astype(float)) < 1e6))


def operators(graph: GraphProto) -> set[str]:
    """All operators of a graph and of those inside it."""
    return {node.op_type for node in graph.node}.union(*(operators(g) for node in graph.node for g in graphs_of(node)))


def _model(case: LoopCase, call: Call) -> tuple[ModelProto, dict[str, Any]]:
    """A model around the loop; onnxruntime wants what comes out of a body to be made in it."""
    body = through_identity(case.graph)
    _declare_scalars(body)
    wanted = read_names(case.graph)
    feed: dict[str, Any] = {"M_": np.array(call.count, np.int64), "cond_": np.array(call.cond)}
    feed |= {f"start_{k}_": value for k, value in enumerate(call.carried)}
    outputs = [f"result_{k}_" for k in range(len(body.output) - 1)]
    node = helper.make_node("Loop", list(feed), outputs, body=body)
    feed |= {name: value for name, value in call.captured.items() if name in wanted}
    told = [helper.make_value_info(name, declared(value, None)) for name, value in feed.items()]
    graph = helper.make_graph([node], "main", told, [helper.make_value_info(name, TypeProto()) for name in outputs])
    return in_model(graph, case.imports), feed


def through_identity(graph: GraphProto) -> GraphProto:
    """The same graph, in which every output is what an Identity gives; inner graphs too."""
    made = GraphProto()
    made.CopyFrom(graph)
    del made.output[:]
    for k, value in enumerate(graph.output):
        name = f"{graph.name}_{value.name}_{k}_"
        made.node.append(helper.make_node("Identity", [value.name], [name]))
        made.output.append(helper.make_value_info(name, TypeProto()))
    for node in made.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                attribute.g.CopyFrom(through_identity(attribute.g))
                if node.op_type == "Loop":
                    _declare_scalars(attribute.g)
    return made


def _declare_scalars(body: GraphProto) -> None:
    """The iteration number and the condition of a Loop's body: onnxruntime needs to know that they are scalars."""
    for value, kind in zip(body.input, (7, 9), strict=False):
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, []))


def _compare(found: list[Any], wanted: Outcome, inner: bool) -> None:
    same = within(lambda where, value: 1e-4 * np.abs(value), 1000)
    for k, (theirs, ours) in enumerate(zip(found, wanted.results, strict=True)):
        theirs = np.asarray(theirs)
        if inner and theirs.size == ours.size == 0:
            continue  # a loop inside without an iteration, whose shapes are made up there
        if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
            raise Failure("other than onnxruntime: kind", f"number {k}: {theirs.dtype}{theirs.shape}, {ours.dtype}{ours.shape}")
        try:
            same(ours, theirs, f"number {k}")
        except Failure as failure:
            raise Failure("other than onnxruntime: values", failure.detail) from None
