"""A kernel of the user's that takes the place of a built-in one is used by every engine, wherever the operator is known."""

import contextlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from engines import ENGINES
from equivalence import assert_same_on_every_engine, outcome

import mdf_loop
from mdf_loop.batching import elementwise
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS, lookup, register, say

STATEMENTS = {
    **{op: f"y = {op} (x, row)" for op in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Pow", "PRelu")},
    **{op: f"y = {op} (x)" for op in ("Neg", "Abs", "Relu", "Tanh", "Sigmoid", "Exp", "Sin", "Sqrt", "Floor", "Reciprocal")},
    **{op: f"b = {op} (x, row) y = Where (b, x, row)" for op in ("Less", "Equal", "GreaterOrEqual")},
    "Not": "b = Less (x, row) n = Not (b) y = Where (n, x, row)",
    "And": "b = Less (x, row) n = And (b, go) y = Where (n, x, row)",
    "Identity": "y = Identity (x)",
    "Where": "b = Less (x, row) y = Where (b, x, row)",
    "Cast": "b = Less (x, row) y = Cast <to = 11> (b)",
    **{op: f"t = {op} <keepdims = 0> (x) y = Add (t, row)" for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2")},
    "Gather": "g = Gather (row, zero) y = Add (x, g)",
}
VECTORS = {
    "MatMul": "y = MatMul (x, w)",
    "Softmax": "y = Softmax (x)",
    "Slice": "s = Slice (x, first, third) y = Concat <axis = 0> (s, s)",
    "Concat": "s = Slice (x, first, third) y = Concat <axis = 0> (s, s)",
    "Reshape": "r = Reshape (x, two) s = ReduceSum <keepdims = 0> (r, first) y = Concat <axis = 0> (s, s)",
    "Transpose": "y = Transpose (x)",
    "Unsqueeze": "u = Unsqueeze (x, first) y = Squeeze (u, first)",
    "Squeeze": "u = Unsqueeze (x, first) y = Squeeze (u, first)",
    "ScatterND": "at = Unsqueeze (first, first) v = Gather (row, first) y = ScatterND (x, at, v)",
}
TEXT = """own (int64 i, bool go, double[n] x) => (bool go_out, double[n] x_out, double[n] seen)
    <double half = {{0.5}}, int64[1] first = {{0}}, int64[1] third = {{2}}, int64[2] two = {{2, 2}}, int64 zero = {{0}}>
    {{ row = {row} {statement} d = Mul (y, half) x_out = Add (d, half) seen = Identity (x_out) go_out = Identity (go) }}"""


def other(entry):
    """The kernel with its result turned over, as another's."""

    def run(*inputs, **attrs):
        result = entry.run(*inputs, **attrs)
        return np.logical_not(result) if result.dtype == bool else np.negative(result)

    return replace(entry, run=run, batch=elementwise if entry.batch is elementwise else None, built_in=False)


@contextlib.contextmanager
def replaced(op):
    load_kernels()
    entry = lookup(op, 20)
    register(other(entry))
    try:
        yield
    finally:
        register(entry)


def values(result):
    return np.asarray(result[0])


@pytest.mark.parametrize("row", ["Gather (table, i)", "Identity (held)"])
@pytest.mark.parametrize("shape", [(), (4,)])
@pytest.mark.parametrize("op", [*STATEMENTS, *VECTORS])
def test_every_engine_uses_the_kernel_that_took_a_built_in_ones_place(op, shape, row, rng):
    if (op in VECTORS or op == "Gather") and not shape:
        pytest.skip("for arrays alone")
    text = TEXT.format(row=row, statement={**STATEMENTS, **VECTORS}[op])
    captured = {"table": rng.random((200, *shape)), "held": rng.random(shape), "w": np.eye(4)[::-1] * 0.5}
    body = mdf_loop.compile({"onnx": text, "opset": 20})
    captured = {name: value for name, value in captured.items() if f" {name}" in text.replace("(", " ").split("{", 1)[1]}

    def call():
        return body(200, True, np.full(shape, 0.25), **captured)

    ours = assert_same_on_every_engine(call, exact=False)
    assert ours.error is None, ours.error
    with replaced(op):
        theirs = assert_same_on_every_engine(call, exact=False)
        if theirs.error is None and op not in ("Mul", "Gather", "Floor"):  # which are turned over twice, or give 0
            assert not np.array_equal(values(ours.results), values(theirs.results), equal_nan=True)
    again = outcome("numpy", call)
    np.testing.assert_array_equal(values(again.results), values(outcome("numpy", call).results))


def test_kernel_by_the_decorator_before_and_after_a_body_was_planned():
    text = "b (int64 i, bool c, double v) => (bool c, double v2) { a = Tanh (v) v2 = Add (a, k) }"
    body = mdf_loop.compile(text)
    kernels = list(KERNELS["", "Tanh"])

    def found():
        return [float(outcome(engine, lambda: body(200, True, 0.5, k=1.0)).results[0]) for engine in ENGINES]

    before = found()
    try:

        @mdf_loop.kernel("Tanh", since=13, batch=elementwise)
        def tanh(x):
            return x / (1 + np.abs(x))

        np.testing.assert_allclose(found(), (1 + 5**0.5) / 2)
        np.testing.assert_allclose(mdf_loop.loop(200, True, 0.5, body=text, k=1.0), (1 + 5**0.5) / 2)
    finally:
        KERNELS["", "Tanh"][:] = kernels
        register(kernels[0])
    # In engine auto machine code takes over when it is ready: its last digits may be other ones.
    np.testing.assert_allclose(found(), before, rtol=1e-12)


@pytest.mark.parametrize("op", ["Relu", "Identity"])
def test_branches_of_an_if_use_it_too(op):
    def call():
        return mdf_loop.if_(True, then_branch=f"t () => (y) {{ y = {op} (x) }}", else_branch="e () => (y) { y = Neg (x) }", x=2.5)

    assert call() == 2.5
    with replaced(op):
        assert call() == -2.5
    assert call() == 2.5


def test_a_kernel_of_which_it_is_said_that_it_replaces_parts_need_not_write_over_them():
    """Machine code calls it from outside, and carries on in the memory that it would have written over."""
    text = "b (int64 i, bool c, double[3] y) => (bool c, double[3] y_out) { y_out = ScatterND (y, at, new) }"

    def call():
        return mdf_loop.loop(7, True, np.arange(3.0), body=text, at=np.array([[0], [2]]), new=np.array([4.0, 5.0]))

    with replaced("ScatterND"):
        say("ScatterND", replaces_parts=True)
        assert_same_on_every_engine(call)


def test_nothing_is_known_of_a_kernel_that_was_there_before_ours_or_took_the_place_of_one():
    """Facts and definitions are of the functions they were said of, in whatever order kernels are registered."""
    code = """
import mdf_loop, numpy as np
from mdf_loop.ir import Node
@mdf_loop.kernel("Add", since=20)
def add(a, b): return a - b
@mdf_loop.kernel("Tanh", since=20)
def tanh(x): return -x
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import facts, kernel, lookup
from mdf_loop.ops.rows import NO_FACTS
load_kernels()
for op, own in (("Add", add), ("Tanh", tanh)):
    entry = lookup(op, 20)
    assert entry.run is own and entry.define is None and entry.facts == NO_FACTS, op
assert facts(Node("Add", ("a", "b"), ("c",), opset=18)).accumulates == "add"
kernel("Add", since=7)(lambda a, b: a - b)
assert facts(Node("Add", ("a", "b"), ("c",), opset=18)) == NO_FACTS
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize(
    ("shape", "dtype", "own"),
    [
        ("[3]", np.float32, lambda x: np.sqrt(x).astype(np.float64)),
        ("", np.float64, lambda x: np.float32(x)),
        ("", np.float64, lambda x: np.full(2, x)),
        ("[3]", np.float32, lambda x: np.float32(x[0])),
    ],
    ids=["other array", "other number", "array for number", "number for array"],
)
def test_what_it_gives_may_be_of_another_type_than_onnx_says(shape, dtype, own, count):
    """The built-in kernel's type is inferred for it, and looked at when it was called."""
    kind = "float" if dtype == np.float32 else "double"
    text = f"""own (int64 i, bool c, {kind}{shape} x) => (bool c, {kind}{shape} y, double seen, {kind} kept)
        <{kind} half = {{0.5}}> {{ kept = Tanh (x) seen = Cast <to = 11> (kept) y = Mul (x, half) }}"""
    initial = np.ones(3, dtype) if shape else dtype(1)

    def call():
        found = mdf_loop.loop(count, True, initial, body=text)
        return [(np.asarray(x).dtype, np.asarray(x).tolist()) for x in found]

    with replaced("Tanh"):
        register(replace(lookup("Tanh", 20), run=own, batch=None))
        assert_same_on_every_engine(call)
