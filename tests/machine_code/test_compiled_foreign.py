"""Kernels that machine code calls although lengths are known only when it runs, and what they give: as the interpreter has it."""

import logging
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import mdf_loop
from mdf_loop import options
from mdf_loop.backends.llvm import compiled_program, inlined
from mdf_loop.backends.llvm.operators.foreign import Open
from mdf_loop.errors import LoopError, LoopInterrupted
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup, register
from mdf_loop.readers import read

RNG = np.random.default_rng(7)
FOLLOWING = np.array([[1], [4], [5], [8], [6], [9], [2], [0], [7], [3]])
"""The length that comes after each: all of them in turn, 0 last, which begins again behind it."""

GIVEN = {
    "x": RNG.normal(size=(9, 4)), "following": FOLLOWING, "w": RNG.integers(-3, 3, 40), "four": RNG.normal(size=4),
    "image": RNG.normal(size=(1, 2, 9, 6)), "filters": RNG.normal(size=(3, 2, 2, 3)),
    "f": RNG.normal(size=(1, 1, 9, 3)).astype(np.float32),
    "values": np.array([0.5, 2.0]), "pads": np.array([1, 0, 2, 1]),
}  # fmt: skip

BODIES = {
    "Einsum": 's = Slice(x, zero, n) y = Einsum<equation="ij,kj->ik">(s, s)',
    "Einsum to one number": 's = Slice(x, zero, n) y = Einsum<equation="ij,ij->">(s, s)',
    "Trilu": "s = Slice(x, zero, n) y = Trilu(s)",
    "Pad": "s = Slice(x, zero, n) y = Pad(s, pads)",
    "LayerNormalization": "s = Slice(x, zero, n) y = LayerNormalization(s, four)",
    "ReduceL2": "s = Slice(x, zero, n) y = ReduceL2<keepdims=0>(s, one)",
    "ReduceLogSumExp": "s = Slice(x, zero, n) y = ReduceLogSumExp<keepdims=0>(s, one)",
    "Unique": "s = Slice(w, zero, n) u, y, a, b = Unique(s)",
    "Unique of which all is read": "s = Slice(w, zero, n) u, a, b, c = Unique(s) y = Concat<axis=0>(u, a, b, c)",
    "OneHot": "s = Slice(w, zero, n) depth = Constant<value = int64 {3}>() y = OneHot(s, depth, values)",
    "in the middle": "s = Slice(x, zero, n) t = Transpose(s) u = Einsum<equation=\"ij,kj->ik\">(t, t) y = MatMul(s, u)",
    "what it is given twice": 's = Slice(x, zero, n) y = Einsum<equation="ij,ij->ij">(s, s)',
    "a view": "s = Slice(x, zero, n, nought, two) y = Trilu<upper=0>(s)",
    "numbers beside it": "s = Slice(x, zero, n) k = ReduceSum<keepdims=0>(n) y = Trilu(s, k)",
}  # fmt: skip
IMAGES = {
    "Conv": "s = Slice(image, zero, n, twos) y = Conv<pads=[1,0,1,1]>(s, filters)",
    "MaxPool": "s = Slice(image, zero, n, twos) y = MaxPool<kernel_shape=[2,2]>(s)",
    "AveragePool": "s = Slice(image, zero, n, twos) y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(s)",
    "Resize": 's = Slice(f, zero, n, twos) y = Resize<mode="linear">(s, , scales)',
}
"""Of which there is nothing to be had of few rows."""


def text_of(nodes, before="", after="size = Size(y) shape = Shape(y)"):
    """A body in which a length is carried."""
    return f"""<ir_version: 9, opset_import: ["": 18, "foreign": 1]>
        b (int64 i, bool go, int64[1] n) => (on, n2, size, shape, total)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] twos = {{2}}, int64[1] nought = {{0}},
         int64[1] rest = {{-1}}, double[1] half = {{0.5}},
         float[4] scales = {{1, 1, 2, 1.5}}> {{
        on = Identity (go)  m = Squeeze (n)  n2 = Gather (following, m)  {before}
        {nodes}
        {after}  as_double = Cast <to = 11> (y)  squares = Mul (as_double, as_double)  flat = Reshape (squares, rest)
        some = Concat <axis = 0> (flat, half)  total = ReduceSum <keepdims = 0> (some)
    }}"""


def called(body, count=23, n=1, engine="jit", **more):
    """The results of the loop, in an engine."""
    known = {**GIVEN, **more}
    given = {name: known[name] for name in read(body).captures}
    with options(engine=engine):
        try:
            return mdf_loop.loop(count, True, np.array([n]), body=body, **given)
        except LoopError as error:
            return error.iteration, str(error)


def is_same(body, caplog, **how):
    """Whether machine code gives what the interpreter does, and has come to its end."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "mdf_loop"):
        found = called(body, **how)
    said = [r.message for r in caplog.records]
    assert not said or any("compiled a Step" in x for x in said), said  # else the program is there already
    assert not [x for x in said if "not compiled" in x or "given up" in x]
    for a, b in zip(found, called(body, engine="interpret", **how), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5 if a.dtype == np.float32 else 1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BODIES)
def test_kernels_get_and_give_arrays_of_all_lengths(name, caplog):
    body = text_of(BODIES[name])
    is_same(body, caplog)
    is_same(body, caplog, count=1, n=0)


@pytest.mark.parametrize("name", IMAGES)
def test_images_of_all_lengths(name, caplog):
    is_same(text_of(IMAGES[name]), caplog, count=5, n=2)


INSIDE = {
    "If": """q = Mod (n, two)  p = Cast <to = 9> (q)  r = Squeeze (p)  y = If (r) <
        then_branch = a () => (ya) { s = Slice (x, zero, n)  ya = Trilu (s) },
        else_branch = o () => (yo) { s = Slice (x, zero, n)  yo = Einsum <equation = "ij,kj->ik"> (s, s) }>""",
    "an inner loop": """s = Slice (x, zero, n)  k = Constant <value = int64 {3}> ()  y = Loop (k, , s) <
        body = inner (int64 j, bool c, double[p,q] t) => (c2, t2) { c2 = Identity (c)  u = Trilu (t)
            t2 = Concat <axis = 0> (u, t) }>""",
    "an inner loop that collects": """s = Slice (x, zero, n)  k = Constant <value = int64 {3}> ()  y = Loop (k, ) <
        body = inner (int64 j, bool c) => (c2, u) { c2 = Identity (c)  u = Trilu (s, j) }>""",
}


@pytest.mark.parametrize("name", INSIDE)
def test_inside_of_branches_and_loops(name, caplog):
    is_same(text_of(INSIDE[name]), caplog)


GOING_ROUND = """<ir_version: 9, opset_import: ["": 18]>
    b (int64 i, bool go, double[p,q] t) => (bool on, double[r,s] t2, int64[2] shape) <int64[4] pads = {0, 1, 1, 0}> {
        on = Identity (go)  u = Trilu (t)  t2 = Pad (u, pads)  shape = Shape (t)
    }"""


@pytest.mark.parametrize("shape", [(0, 0), (1, 3), (4, 2)])
def test_what_a_kernel_gave_is_carried_and_is_the_result(shape):
    found = {}
    for engine in ("interpret", "jit"):
        with options(engine=engine):
            planned = mdf_loop.compile(GOING_ROUND)
            found[engine] = planned(7, True, np.ones(shape))
            if engine == "jit":
                assert "machine code" in planned.explain()
    for a, b in zip(found["jit"], found["interpret"], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


BATCHED = """<ir_version: 9, opset_import: ["": 18]>
    b (int64 i, bool go, double t) => (on, t2, y) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
        on = Identity (go)  f = Cast <to = 11> (i)  at = Unsqueeze (i, zero)  s = Slice (x, at, {end})  m = Mul (s, {by})
        y = Einsum <equation = "ij,ij->"> (m, m)  u = Tanh (y)  t2 = Mul (u, t)
    }}"""


@pytest.mark.parametrize("by", ["f", "t"])
def test_what_is_better_done_for_many_iterations_is_left_to_plans(by, caplog):
    """Lengths that need no iteration before are known before a block runs."""
    given = {"x": RNG.normal(size=(90, 4)), "rows": np.array([5])}
    body = BATCHED.format(end="end", by=by).replace("s = Slice", "end = Add (at, rows)  s = Slice")
    with caplog.at_level(logging.DEBUG, "mdf_loop"), options(engine="jit"):
        found = mdf_loop.loop(80, True, 0.5, body=body, **given)
    assert "Einsum of open lengths has no compiled form where they need no iteration before" in caplog.text
    with options(engine="interpret"):
        expected = mdf_loop.loop(80, True, 0.5, body=body, **given)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_results_are_taken_only_if_they_are_of_the_type_that_was_said():
    arrays, table = {}, memoryview(bytearray(80))
    said = Open(3, np.dtype(np.float32), (None, 2))
    for wrong in (
        np.zeros((3, 2)), np.zeros((3, 3), np.float32), np.zeros(3, np.float32), np.zeros((1, 3, 2), np.float32),
        np.float32(1), 1.0, None, [[1.0, 2.0]], np.zeros((3, 2), ">f4"),
    ):  # fmt: skip
        assert not said.keep(wrong, arrays, table)
    assert not arrays
    assert not any(table)
    given = np.arange(10, dtype=np.float32).reshape(5, 2)
    assert said.keep(given[::-2], arrays, table)
    assert arrays[3].flags.c_contiguous
    assert not np.shares_memory(arrays[3], given)
    assert [*memoryview(table[24:48]).cast("q")] == [3, 2, id(arrays[3])]


@contextmanager
def instead(op, kernel):
    """A user's kernel in the place of one of ours."""
    load_kernels()
    entry = lookup(op, 18)
    register(replace(entry, run=kernel, batch=None, built_in=False))
    try:
        yield
    finally:
        register(entry)


WRONG = {
    "another type": lambda x: x.astype(np.float32),
    "more axes": lambda x: x[None],
    "no array": lambda x: 1.0,
    "another length": lambda x: x[:, :2],
    "its input": lambda x: x,
    "a view of it": lambda x: x[::-1],
}


@pytest.mark.parametrize("name", WRONG)
def test_users_kernels_give_what_they_like(name):
    body = text_of("s = Slice(x, zero, n) t = Trilu(s) y = Add(t, t)", after="size = Size(s) shape = Shape(s)")
    with instead("Trilu", WRONG[name]):
        found, expected = called(body), called(body, engine="interpret")
    if name == "no array":  # of which nothing is to be had but a message
        assert found == expected
        return
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)  # plans believe what ONNX says of types


FAILS = "s = Slice(image, zero, n, twos) y = MaxPool<kernel_shape=[2,2]>(s)"


def test_what_a_kernel_says_in_a_late_iteration_is_said():
    found = called(text_of(FAILS), n=2)
    assert found == called(text_of(FAILS), n=2, engine="interpret")
    assert found[0] == 6


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, ValueError])
def test_what_strikes_within_a_kernel_ends_the_loop(kind):
    calls = []

    def trilu(x):
        calls.append(len(x))
        if len(calls) == 15:
            raise kind("struck")
        return np.triu(x)

    body = text_of(BODIES["Trilu"])
    given = {name: GIVEN[name] for name in read(body).captures}
    with instead("Trilu", trilu), options(engine="jit"):
        planned = mdf_loop.compile(body)
        if kind is KeyboardInterrupt:
            with pytest.raises(LoopInterrupted):
                planned(23, True, np.array([1]), **given)
        else:  # only machine code met it: the interpreter runs the same iterations, and meets nothing
            planned(23, True, np.array([1]), **given)
        found = planned(23, True, np.array([1]), **given)
    for a, b in zip(found, called(body, engine="interpret"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


BEST = """<ir_version: 9, opset_import: ["": 18]>
    b (int64 i, bool go) => (on, {gives}) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
        on = Identity (go)  length = Gather (lengths, i)  at = Unsqueeze (length, zero)
        s = Slice (x, zero, at, {axis})  k = Gather (counts, i)  wanted = Unsqueeze (k, zero)
        a, b = TopK <axis = {axis_number}, largest = {largest}> (s, wanted)  {reads}
    }}"""
READ = {
    "both": (
        "p, q",
        "f = Cast<to=11>(a) g = Cast<to=11>(b) v = ReduceSum<keepdims=0>(f) p = Identity(v) q = ReduceMax<keepdims=0>(g)",
    ),
    "values": ("p, q", "f = Cast<to=11>(a) p = ReduceSum<keepdims=0>(f) q = Shape(a)"),
    "places": ("p, q", "g = Cast<to=11>(b) j = Mul(g, g) p = ReduceSum<keepdims=0>(j) q = Shape(b)"),
}


def best(axis, largest, reads):
    gives, nodes = READ[reads]
    name = "zero" if axis == 0 else "one"
    return BEST.format(axis=name, axis_number=axis, largest=largest, gives=gives, reads=nodes)


@pytest.mark.parametrize("dtype", ["float64", "uint8"])
@pytest.mark.parametrize(("axis", "largest", "reads"), [(0, 1, "both"), (0, 0, "values"), (1, 1, "places"), (1, 0, "both")])
def test_the_best_elements_of_which_only_the_run_knows_how_many(axis, largest, reads, dtype):
    x = RNG.integers(0, 90, (3, 200)).astype(dtype)
    if dtype.startswith("f"):
        x[0, 5] = x[2, 150] = np.nan
    lengths = np.array([1, 2, 3, 2]) if axis == 0 else np.array([1, 7, 127, 128, 129, 200, 200, 64])
    x = x if axis else np.ascontiguousarray(x[:, :5])
    counts = np.where(np.arange(len(lengths)) % 3 == 2, (lengths + 1) // 2, lengths)
    found = {}
    for engine in ("interpret", "jit"):
        with options(engine=engine):
            given = {"x": x, "lengths": lengths, "counts": counts}
            found[engine] = mdf_loop.loop(len(lengths), True, body=best(axis, largest, reads), **given)
    for a, b in zip(found["jit"], found["interpret"], strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("k", [0, -1, 8, 1 << 40, -(1 << 63)])
def test_no_more_elements_than_there_are(k):
    said = []
    for engine in ("interpret", "jit"):
        with options(engine=engine):
            lengths, counts = np.full(60, 7), np.full(60, 3)
            counts[57] = k
            try:
                body = best(0, 1, "values")
                said.append(str(mdf_loop.loop(60, True, body=body, x=np.arange(9.0), lengths=lengths, counts=counts)))
            except LoopError as error:
                said.append((error.iteration, str(error)))
    assert said[0] == said[1]


MANY = """
import resource, sys
sys.path[:0] = ["tests/helpers", "tests/cases"]
import numpy as np
import mdf_loop
from mdf_loop.backends.llvm.compiled_program import program
from mdf_loop.options import start_run
from mdf_loop.step.build import type_of_value
from mdf_loop.step.lower import lower_loop
from tests.machine_code.test_compiled_foreign import BODIES, GIVEN, INSIDE, text_of

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

for nodes in (BODIES["Trilu"], INSIDE["If"]):
    record = mdf_loop.compile(text_of(nodes)).record
    given = [np.array([1]), *(GIVEN[name] for name in record.body.captures)]
    types = [type_of_value(x) for x in (np.int64(0), *given)]
    call = program(lower_loop(record, types, has_count=True, obeyed=True), is_block=True)
    assert call.outside
    call(start_run(), np.int64(20_000), *given)
    before = most()
    *_, done = call(start_run(), np.int64(100_000), *given)
    grown = most() - before
    assert done == 100_000
    assert grown < 20_000, grown  # results have 3 megabytes, and while they grow 6: one array more in each iteration has 30
"""
"""One program, which nothing tidies up behind before it is over."""


def test_a_hundred_thousand_iterations_leave_nothing_behind():
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", MANY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


CAREFUL = """
import sys
sys.path[:0] = ["tests/helpers", "tests/cases"]
import numpy as np
from tests.machine_code.test_compiled_foreign import BODIES, IMAGES, INSIDE, called, text_of

for nodes in (*BODIES.values(), *INSIDE.values(), *IMAGES.values()):
    for n in (1, 2, 0):
        assert repr(called(text_of(nodes), n=n)) == repr(called(text_of(nodes), n=n, engine="interpret")), nodes
"""


def test_no_byte_behind_an_array_is_written():
    environment = {**os.environ, "PYTHONMALLOC": "debug", "MALLOC_CHECK_": "3"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CAREFUL], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


LARGE = {
    "MatMul": "y2 = MatMul(a, y)",
    "Gemm of turned matrices": "y2 = Gemm<transA=1, transB=1>(a, y)",
    "MatMul in a branch": """c = Less (i, two) y2 = If (c) <
        then_branch = t () => (z) { z = MatMul (a, y) }, else_branch = e () => (z) { z = MatMul (y, a) }>""",
    "stacks": "s = Reshape(a, stacked) t = MatMul(s, y) y2 = Reshape(t, square)",
    "of all rows before the loop": "r = Gather(a, i) z = MatMul(r, a) y2 = Add(y, z)",
    "two in a row": "z = MatMul(a, y) w = Sin(z) y2 = MatMul(w, a)",
}


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", LARGE)
def test_large_products_are_numpys(name, kind, monkeypatch):
    """To the last bit where the interpreter has the same product, also of infinite numbers and nan; smaller ones need no call."""
    text = f"""(int64 i, bool go, {kind}[70,70] y) => (on, y2)
        <int64 two = {{2}}, int64[3] stacked = {{1, 70, 70}}, int64[2] square = {{70, 70}}>
        {{ on = Identity (go) {LARGE[name]} }}"""
    x = RNG.normal(size=(2, 70, 70)).astype(np.float32 if kind == "float" else np.float64) / 8
    x[1, 3, 2], x[0, 5, 1] = np.inf, np.nan
    left = []

    class Noted(compiled_program.ProgramText):
        def __init__(self, *given):
            super().__init__(*given)
            left.extend(self.outline.outside)

    monkeypatch.setattr(compiled_program, "ProgramText", Noted)

    def run(engine, largest):
        """What an engine gives."""
        monkeypatch.setattr(inlined, "LARGE", largest)
        with options(engine=engine):
            return mdf_loop.loop(4, True, x[0], body=f"of_{largest} {text}", a=x[1])

    run("jit", 70**3 + 1)
    assert not left
    found = run("jit", 70**3)
    assert len(left) == text.count("MatMul") + text.count("Gemm")
    rtol = 1e-5 if "rows" in name else 0
    np.testing.assert_allclose(found, run("interpret", 70**3), rtol=rtol, atol=rtol)
