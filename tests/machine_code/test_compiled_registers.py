"""Arrays of a few elements, which machine code keeps in a register: loops over them are those of the interpreter."""

import re

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import mdf_loop
from mdf_loop.backends.llvm.compiled_program import program
from mdf_loop.backends.llvm.linking.machine import Machine
from mdf_loop.options import options, random_stream, start_run
from mdf_loop.readers import read
from mdf_loop.readers.onnx.loop_records import loop_record
from mdf_loop.settings.random_streams import RandomStream
from mdf_loop.step.build import type_of_value
from mdf_loop.step.lower import lower_loop

HEADER = "b (int64 i, bool c, KIND x, KIND y) => (bool g, KIND u, KIND v, KIND k)"

BODIES = {
    "elements, a sum and an extreme": "s = ReduceSum <keepdims = 0> (x) m = ReduceMax <keepdims = 1> (y) d = Sub (s, x) "
    "e = Mul (d, a) k = Add (e, m) u = Min (k, y) v = Add (x, a) n = ReduceMin <keepdims = 0> (v) g = Less (n, l)",
    "they change places": "u = Identity (y) v = Add (x, a) k = Identity (x) g = Identity (c)",
    "one that stays": "u = Add (x, y) v = Identity (y) k = Max (x, y) g = Identity (c)",
    "back to front": "f = Slice (x, last, front, zero, back) u = Add (f, a) v = Add (y, x) k = Identity (f) g = Identity (c)",
    "a place that is computed": "f = Gather <axis = AXIS> (x, i) u = Sub (y, f) v = Sub (x, a) k = Identity (u) g = Identity (c)",
    "a part from a place that is computed": "w = Unsqueeze (i, back) f = Slice (x, w, far, zero) "
    "s = ReduceSum <keepdims = 0> (f) u = Add (s, y) v = Sub (x, a) k = Identity (u) g = Identity (c)",
    "rows and columns": "p = Reshape (x, column) q = Reshape (x, row) t = Sub (p, q) r = ReduceMax <keepdims = 0> (t, back) "
    "o = Shape (x) u = Reshape (r, o) v = Add (y, u) k = Identity (v) g = Identity (c)",
    "an inner loop": "n = Constant <value_int = 3> () u, w = Loop (n, c, x, y) <body = j (int64 h, bool d, KIND p, KIND q) "
    "=> (bool e, KIND r, KIND t) { e = Identity (d) r = Add (q, a) t = Max (p, y) }> v = Add (w, x) k = Identity (u) "
    "g = Identity (c)",
    "what an inner loop gives, multiplied": "n = Constant <value_int = 3> () w = Loop (n, c, x) <body = j (int64 h, bool d, "
    "KIND p) => (bool e, KIND r) { e = Identity (d) r = Min (p, y) }> z = Reshape (w, row) o = Reshape (w, column) "
    "t = MatMul (z, o) s = Reshape (t, none) u = Min (s, x) v = Add (y, w) k = Identity (w) g = Identity (c)",
    "a branch": "m = ReduceMax <keepdims = 0> (x) q = Less (m, l) u = If (q) <then_branch = t () => (KIND p) { p = Add (x, a) }, "
    "else_branch = e () => (KIND p) { p = Sub (y, x) }> v = Max (y, a) k = Identity (u) g = Identity (c)",
}

CONSTANTS = (
    "<int64[1] last = {-1}, int64[1] front = {-100}, int64[1] zero = {AXIS}, int64[1] back = {-1}, int64[1] far = {100}, "
    "int64[2] column = {-1, 1}, int64[2] row = {1, -1}, int64[0] none = {}>"
)

TYPES = {"double": np.float64, "float": np.float32, "int64": np.int64}


def loop_of(name, shape, kind):
    """A body and what it is given."""
    axis = max((k for k, n in enumerate(shape) if n > 1), default=0)
    declared = f"{kind}[{', '.join(map(str, shape))}]"
    text = f"{HEADER} {CONSTANTS} {{ {BODIES[name]} }}".replace("KIND", declared).replace("AXIS", str(axis))
    rng = np.random.default_rng(3)
    x, y, a = (rng.integers(-9, 9, shape).astype(TYPES[kind]) for _ in range(3))
    outer = {"a": a, "l": np.asarray(5, TYPES[kind])}
    return text, x, y, {key: value for key, value in outer.items() if re.search(rf"\b{key}\b", text)}


def run_compiled(text, x, y, outer, count):
    """What a program of the whole loop gives, and its text."""
    record = loop_record(read({"onnx": text}, 2, "loop"), 2)
    given = [np.int64(count), x, y, *(outer[name] for name in record.body.captures)]
    made = program(lower_loop(record, [type_of_value(value) for value in given], True, True))
    return made(start_run(), *given)[:3], made.text


@pytest.mark.parametrize(("kind", "register"), [("double", 64), ("double", 32), ("float", 64), ("int64", 64)])
@pytest.mark.parametrize("shape", [(2,), (3,), (5,), (9,), (1, 4), (7, 1)], ids=str)
@pytest.mark.parametrize("name", BODIES)
def test_loops_over_a_few_elements(name, shape, kind, register, monkeypatch):
    monkeypatch.setattr(Machine, "register_bytes", register)
    text, x, y, outer = loop_of(name, shape, kind)
    count = max(shape) if "computed" in name else 6
    with options(engine="interpret"):
        expected = mdf_loop.loop(count, True, x, y, body={"onnx": text}, **outer)
    actual, _ = run_compiled(text, x, y, outer, count)
    for a, e in zip(actual, expected, strict=True):
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize(
    ("name", "shape", "register", "held"),
    [
        ("elements, a sum and an extreme", (5,), 64, 2),
        ("elements, a sum and an extreme", (9,), 64, 0),
        ("elements, a sum and an extreme", (5,), 32, 0),
        ("elements, a sum and an extreme", (4,), 32, 2),
        ("they change places", (3, 1), 32, 2),
        ("back to front", (5,), 64, 1),
    ],
)
def test_which_arrays_are_carried_in_a_register(name, shape, register, held, monkeypatch):
    monkeypatch.setattr(Machine, "register_bytes", register)
    text = run_compiled(*loop_of(name, shape, "double"), 4)[1]
    inside = text[text.index("\nloop") :]
    assert len(re.findall(r"= phi <\d x double>", inside[: inside.index("br ")])) == held


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("shape", [(2,), (4,), (5,), (7,), (8,), (9,), (1, 6), (3, 1)], ids=str)
@pytest.mark.parametrize("node", ["RandomNormalLike", "RandomUniformLike", "RandomNormalLike <mean = 0.5, scale = 2.0>"])
def test_a_few_random_numbers_at_a_time(node, shape, kind):
    declared = f"{kind}[{', '.join(map(str, shape))}]"
    head = f"b (int64 i, bool c, {declared} x) => (bool c, {declared} y, {declared} z)"
    text = f"{head} {{ z = {node} (x) h = Sub (z, x) y = Relu (h) }}"
    found = []
    for engine in ("interpret", "jit"):
        stream = RandomStream(9)
        with options(engine=engine), random_stream(stream):
            results = mdf_loop.loop(500, True, np.zeros(shape, TYPES[kind]), body={"onnx": text})
        found.append((*results, stream.shared().bit_generator.state))
    np.testing.assert_equal(found[1], found[0])
