"""Small bodies for tests, and the two oracles they are compared with: onnxruntime and a literal Python loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from node_cases import assert_same
from onnx import helper, parser

from mdf_loop import loop, options
from mdf_loop.types.elements import CODES

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime refuses the newest opsets without it

MODELS = Path(__file__).parents[1] / "models"

COUNTER = "counter (int64 i, bool c, float x) => (bool c_out, float x_out) { c_out = Identity (c) x_out = Add (x, one) }"
"""Adds the captured ``one`` in each iteration."""

RUNNING_SUM = """running_sum (int64 i, bool c, float[N] x) => (bool c_out, float[N] x_out, float[N] s) {
    c_out = Identity (c)
    x_out = Add (x, step)
    s = Identity (x_out)
}"""
"""Adds the captured ``step`` and collects every sum."""

ITERATIONS = "iterations (int64 i, bool c) => (bool c, int64 i) { }"
"""Carries nothing and collects the iteration number itself."""

SWAP = "swap (int64 i, bool c, float x, float y) => (bool c, float y, float x) { }"
"""Two carried values change places, without any node."""

PREDICT_NET = """body_net (int64 i, bool keepgoing_in, int32 b_in) => (bool keepgoing_out, int32 b_out, int32 user_defined_val) {
    my_local = Add (a, b_in)
    b_out = Sub (a, b_in)
    keepgoing_out = Greater (my_local, b_out)
    user_defined_val = Add (b_in, b_in)
}"""
"""The sample body of the operator's specification; ``a`` is captured."""


def counting_to(limit: int) -> str:
    """A body that goes on while its carried int64 is below a limit."""
    return f"""counting (int64 i, bool c, int64 n) => (bool c_out, int64 n_out, int64 seen)
    <int64 one = {{1}}, int64 limit = {{{limit}}}> {{
        n_out = Add (n, one)
        c_out = Less (n_out, limit)
        seen = Identity (n)
    }}"""


def stopping_after(iterations: int) -> str:
    """A body whose condition turns false in the given iteration (counted from 1), and that collects the number."""
    return f"""stopping (int64 i, bool c, float x) => (bool c_out, float x_out, int64 number)
    <int64 last = {{{iterations - 1}}}, float half = {{0.5}}> {{
        c_out = Less (i, last)
        x_out = Add (x, half)
        number = Identity (i)
    }}"""


def passing(kind: str, carried: bool = True, collected: bool = True) -> str:
    """A body that hands a value of any type round and collects it."""
    out = ", ".join(["bool c", *[f"{kind} x"] * carried, *[f"{kind} s"] * collected])
    return f"passing (int64 i, bool c, {kind} x) => ({out}) {{ {'s = Identity (x)' if collected else ''} }}"


def graph(text: str) -> onnx.GraphProto:
    """ONNX text as a GraphProto."""
    return parser.parse_graph(text)


def model(text: str, opset: int = 18) -> onnx.ModelProto:
    """The text of a graph as a model."""
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')


def type_of(value: Any) -> onnx.TypeProto:
    """The ONNX type of a value."""
    if isinstance(value, list):
        return helper.make_sequence_type_proto(type_of(value[0]) if value else helper.make_tensor_type_proto(1, None))
    return helper.make_tensor_type_proto(CODES[np.asarray(value).dtype], None)


def loop_model(
    body: onnx.GraphProto | str,
    m: Any,
    cond: Any,
    carried: Sequence[Any] = (),
    captured: Mapping[str, Any] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model of one Loop node; M and cond become inputs unless they are None, captures always."""
    body = graph(body) if isinstance(body, str) else body
    values = {"M": m, "cond": cond, **{f"v_{k}": value for k, value in enumerate(carried)}}
    present = {name: value for name, value in {**values, **(captured or {})}.items() if value is not None}
    outputs = [f"out_{k}" for k in range(len(body.output) - 1)]
    node = helper.make_node("Loop", [name if name in present else "" for name in values], outputs, body=body)
    main = helper.make_graph(
        [node],
        "main",
        [helper.make_value_info(name, type_of(value)) for name, value in present.items()],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
    )
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def onnxruntime_run(source: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Run a model in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(source.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: value if isinstance(value, list) else np.asarray(value) for name, value in inputs.items()})


def onnxruntime_loop(
    body: onnx.GraphProto | str,
    m: Any,
    cond: Any,
    carried: Sequence[Any] = (),
    captured: Mapping[str, Any] | None = None,
    opset: int = 18,
) -> list[Any]:
    """What onnxruntime's Loop gives."""
    values = {"M": m, "cond": cond, **{f"v_{k}": value for k, value in enumerate(carried)}, **(captured or {})}
    given = {name: value for name, value in values.items() if value is not None}
    return onnxruntime_run(loop_model(body, m, cond, carried, captured, opset), given)


def python_loop(
    step: Callable[..., tuple[Any, ...]], m: int | None, cond: bool | None, carried: Sequence[Any]
) -> tuple[list[Any], list[list[Any]]]:
    """The specification's C code: carried values, and for each iteration the list of what was collected.

    ``step(i, cond, *carried)`` returns (cond, *carried, *collected).
    """
    going, state, rows, i = cond is not False, list(carried), [], 0
    while going and (m is None or i < m):
        new_cond, *values = step(i, going, *state)
        going = True if cond is None else bool(new_cond)
        state = values[: len(state)]
        rows.append(values[len(state) :])
        i += 1
    return state, rows


def raised(kind: type[BaseException], *args: Any, **kwargs: Any) -> Any:
    """The error of a call to ``loop``, which must be exactly of this class."""
    with pytest.raises(BaseException) as info:  # noqa: PT011 (the class is compared below)
        loop(*args, **kwargs)
    assert type(info.value) is kind, f"{type(info.value).__name__}: {info.value}"
    return info.value


def says(kind: type[BaseException], message: str, *args: Any, **kwargs: Any) -> Any:
    """The same, with its whole message."""
    error = raised(kind, *args, **kwargs)
    assert str(error) == message
    return error


def same(actual, expected, rtol=0.0):
    """Same structure, types, shapes and values; tuples as ``loop`` returns them, lists as onnxruntime does."""
    actual = actual if isinstance(actual, tuple) else (actual,)
    assert len(actual) == len(expected)
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert_same(a, e, rtol, 0.0, f"output {k}")


def as_onnxruntime(body, m, cond, *carried, opset=18, **captured):
    """Run here and in onnxruntime, and require the same."""
    arrays = [np.asarray(value) for value in carried]
    captured = {name: np.asarray(value) for name, value in captured.items()}
    with options(obey_body_condition=True):
        result = loop(m, cond, *arrays, body={"onnx": body, "opset": opset}, **captured)
    m, cond = (None if m is None else np.asarray(m, np.int64)), (None if cond is None else np.asarray(cond))
    same(result, onnxruntime_loop(body, m, cond, arrays, captured, opset))
    return result
