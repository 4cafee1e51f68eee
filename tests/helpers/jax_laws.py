"""What the laws of JAX share: a graph computed by JAX beside the interpreter."""

import functools

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mdf_loop import backend, options
from mdf_loop.backends.jax.drawn import Keys
from mdf_loop.backends.jax.static_step import lowered
from mdf_loop.backends.jax.walked import Padded
from mdf_loop.calls.compiled import compile as compile_body
from mdf_loop.calls.on_device import LoopAlone, with_constants
from mdf_loop.errors import LoopError, UnsupportedOp
from mdf_loop.step.build import type_of_value

FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE

SMALL = 64
"""Elements of whole numbers up to which an input may be known while JAX traces: shapes, axes, trip counts."""


def of_jax(jax, body, given, max_steps=SMALL, call=None):
    """The outputs of a graph for values of its inputs, in order; where they decide a shape, the small ones are known."""
    small = {name: np.asarray(x) for name, x in given.items() if np.size(x) <= SMALL}
    whole = {name: x for name, x in small.items() if x.dtype.kind in "iub"}
    behind = {name: x for name, x in small.items() if name != next(iter(given))}
    for known in ({}, whole):
        try:
            return _with_known(jax, body, given, known, max_steps, call)
        except (UnsupportedOp, TypeError, ValueError):
            pass
    return _with_known(jax, body, given, behind, max_steps, call)


def _with_known(jax, body, given, known, max_steps, call):
    rest = {name: x for name, x in given.items() if name not in known}
    return _computed(jax, with_constants(body, known) if known else body, rest, max_steps, call)


def traced(jax, body, given, max_steps=SMALL):
    """The types of the outputs of a graph: it is traced, and nothing is computed."""
    return of_jax(jax, body, given, max_steps, jax.eval_shape)


def _computed(jax, body, given, max_steps, call):
    step = lowered(body, [type_of_value(np.asarray(given[name])) for name in body.inputs])
    arrays = [given[name] for name in body.inputs]

    def function(*arrays):
        return step(arrays, Keys(None), max_steps=max_steps)

    if call is not None:
        return call(function, *arrays)
    found = jax.jit(function)(*arrays)
    return [np.asarray(x.array)[: int(x.length)] if isinstance(x, Padded) else np.asarray(x) for x in found]


def interpreted(prepared, given):
    with options(engine="interpret"):
        return list(prepared.run(given))


def assert_near(found, want, rtol, atol, where=""):
    """The same type and shape, numbers within bounds; whole numbers are equal."""
    want = np.asarray(want)
    assert found.dtype == want.dtype, where
    assert found.shape == want.shape, where
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(found.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=where)


@functools.cache
def numeric_cases():
    """ONNX's node cases of numbers alone, by name."""
    from node_cases import RANDOM, node_cases

    def is_number(x):
        return isinstance(x, np.ndarray | np.generic) and np.asarray(x).dtype.kind in "biufcV"

    cases = {name: case for name, case in node_cases().items() if name not in RANDOM}
    return {name: case for name, case in cases.items() if all(map(is_number, [*case.data_sets[0][0], *case.data_sets[0][1]]))}


OPEN = {"Compress", "NonMaxSuppression", "NonZero", "Range", "Unique"}
"""Operators whose results are as long as values say."""


def has_open_length(name):
    """Whether a node case is one of these, or what ONNX wrote it out as."""
    alone = numeric_cases().get(name.removesuffix("_expanded"), numeric_cases()[name])
    return alone.model.graph.node[0].op_type in OPEN


ROWS = 3


def in_a_loop(name):
    """A node case as the body of a Loop that gathers a row of each input: the graph, values of its inputs, its results.

    Whole numbers that may decide a shape are the same in each iteration.
    """
    case = numeric_cases()[name]
    given, alone = case.data_sets[0][0], prepared_case(case)
    rows, results = _rolled(alone, given)
    graph, taken = case.model.graph, [k for k, x in enumerate(given) if _is_taken(x)]
    names = [value.name for value in graph.input]
    body = onnx.GraphProto(name="body")
    body.input.add(name="i_").type.tensor_type.elem_type = onnx.TensorProto.INT64
    body.input.add(name="go_").type.tensor_type.elem_type = onnx.TensorProto.BOOL
    body.node.extend(helper.make_node("Gather", [f"{names[k]}_rows_", "i_"], [names[k]]) for k in taken)
    body.node.extend(graph.node)
    body.output.extend(helper.make_value_info(x, onnx.TypeProto()) for x in ("go_", *(value.name for value in graph.output)))
    others = [entry for entry in case.model.opset_import if entry.domain]
    opsets = [helper.make_opsetid("", _version(case)), *others]
    model = helper.make_model(body, opset_imports=opsets, ir_version=case.model.ir_version, functions=case.model.functions)
    source = LoopAlone(compile_body(model).record)
    captured = {names[k]: x for k, x in enumerate(given) if k not in taken}
    captured |= {f"{names[k]}_rows_": np.stack([row[k] for row in rows]) for k in taken}
    captured = {name: x for name, x in captured.items() if name in source.inputs}
    known = {name: x for name, x in captured.items() if not name.endswith("_rows_")}
    open_ = {name: type_of_value(np.asarray(x)) for name, x in captured.items() if name not in known}
    opened = source.opened({"M": ROWS, "cond": True, **known}, open_)
    wanted = [np.stack([row[k] for row in results]) for k in range(len(results[0]))]
    return opened.body, {id: captured[opened.inputs[id]] for id in opened.body.inputs}, wanted


def _rolled(alone, given):
    """Inputs for each iteration, rolled where the case takes that, and what it gives of them."""
    for by in (1, 0):
        rows = [[np.roll(x, k * by) if _is_taken(x) else x for x in given] for k in range(ROWS)]
        try:
            results = [interpreted(alone, row) for row in rows]
        except LoopError:
            continue
        if all(len({(np.shape(x), np.asarray(x).dtype) for x in column}) == 1 for column in zip(*results, strict=True)):
            return rows, results
    raise AssertionError("copies of the inputs can always be run")


def _is_taken(x):
    return x.dtype.kind in "fcb" or (x.dtype.kind in "iu" and x.ndim > 1)


def _version(case):
    return next((entry.version for entry in case.model.opset_import if not entry.domain), 20)


def given_of(case, body):
    """Values of a graph's inputs in a case."""
    values = dict(zip((x.name for x in case.model.graph.input), case.data_sets[0][0], strict=False))
    return {name: values.get(name, body.defaults.get(name)) for name in body.inputs}


def prepared_case(case):
    return backend.prepare(case.model)


def in_float64(model):
    """A model of float32 in float64: its inputs, constants and casts."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _widened(made.graph)
    return made


def _widened(graph):
    for tensor in graph.initializer:
        _widen(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        kind.elem_type = DOUBLE if kind.elem_type == FLOAT else kind.elem_type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == FLOAT:
                attribute.i = DOUBLE
            if attribute.HasField("t"):
                _widen(attribute.t)
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                _widened(inner)


def _widen(tensor):
    if tensor.data_type == FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
