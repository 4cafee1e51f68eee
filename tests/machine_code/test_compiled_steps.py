"""Steps in machine code mean what ``evaluate`` says: arrays, reductions, products, places; and what else a program is."""

import gc
import itertools
import logging
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from step_meaning import evaluate

import mdf_loop
from mdf_loop import options
from mdf_loop.backends.llvm.compiled_program import program
from mdf_loop.backends.llvm.lanes.element_types import CannotCompile
from mdf_loop.errors import ArgumentError
from mdf_loop.step.build import Builder, type_of_value
from mdf_loop.step.failing import FallBack
from mdf_loop.step.records import Type

SHAPES = [(1,), (7,), (16,), (130,), (2, 3), (5, 1), (1, 9), (4, 33), (3, 1, 17), (2, 5, 2, 9)]
KINDS = ["sum", "prod", "max", "min"]


def numbers(shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 9, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def assert_as_evaluated(build, *given, exact=True):
    """``build(b, *params)`` gives the results of a Step; it is legal to leave it to the interpreter only where that is asked."""
    b = Builder()
    found = build(b, *[b.param(type_of_value(x), k) for k, x in enumerate(given)])
    region = b.closed(found if isinstance(found, list) else [found])
    expected, actual = evaluate(region, given), program(region)(None, *given)
    for a, e in zip(actual, expected, strict=True):
        assert (np.shape(a), a.dtype) == (np.shape(e), e.dtype)
        if exact:
            np.testing.assert_array_equal(a, e)
        else:
            np.testing.assert_allclose(a, e, rtol=2e-5, atol=1e-6)
    return actual


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.uint16, np.bool_], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elements_views_and_choices(shape, dtype):
    x, y = numbers(shape, dtype), numbers(shape, dtype, 1)
    rank, low = len(shape), [slice(0, max(n - 1, 1)) for n in shape]

    def build(b, x, y):
        found = b.select(b.lt(x, y), x, y) if dtype != np.bool_ else b.and_(x, b.not_(y))
        turned = b.transpose(found, range(rank)[::-1])
        return [found, turned, b.reshape(turned, (int(np.prod(shape)),)), b.slice(found, low), b.concat([x, found, y], rank - 1),
                b.concat([found, y], 0), b.slice(y, [slice(None, None, -1)] * rank),
                b.slice(y, [*[slice(None)] * (rank - 1), slice(None, None, -1)])]  # fmt: skip

    assert_as_evaluated(build, x, y)


@pytest.mark.parametrize(
    "shapes", [((3, 1), (1, 5)), ((4, 1, 7), (5, 1)), ((2, 3), ()), ((17,), (3, 1)), ((1, 1), (2, 2))], ids=str
)
def test_values_that_are_repeated(shapes):
    assert_as_evaluated(lambda b, x, y: b.mul(b.add(x, y), b.sub(y, x)), *[numbers(s, seed=k) for k, s in enumerate(shapes)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("keep", [False, True])
def test_reductions_of_whole_numbers_and_extremes(shape, keep):
    whole, real = numbers(shape, np.int64), numbers(shape, np.float32)
    real.reshape(-1)[:: max(real.size // 2, 1)] = np.nan

    def build(b, x, y):
        axes = [tuple(range(k, len(shape))) for k in range(len(shape))] + [tuple(range(k + 1)) for k in range(len(shape))]
        found = [b.reduce(x, kind, a, keep) for a in axes for kind in KINDS]
        found += [b.reduce(y, kind, a, keep) for a in axes for kind in ("max", "min")]
        found += [b.reduce(z, kind, [k], keep) for z in (x, y) for k in range(len(shape)) for kind in ("argmax", "argmin")]
        return found + [b.reduce(b.lt(x, 0), kind, a, keep) for a in axes for kind in ("any", "all")]

    assert_as_evaluated(build, whole, real)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 8, 16, 17, 32])
def test_the_place_of_an_extreme_is_the_first_of_equals(length, dtype):
    few = [-1, 0, 1] if dtype == np.int32 else [-np.inf, -0.0, 0.0, 1.0, np.inf, np.nan]
    x = np.random.default_rng(length).choice(np.array(few, dtype), (200, length))
    x[:20], x[20:40] = few[-1], few[0]
    assert_as_evaluated(lambda b, x: [b.reduce(x, kind, [1]) for kind in ("argmax", "argmin")], x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 31, 100, 128])
def test_short_sums_are_numpys_bit_for_bit(length, dtype):
    x = numbers((3, length), dtype)
    assert_as_evaluated(lambda b, x: [b.reduce(x, "sum", [1]), b.reduce(x, "sum", [0])], x)


@pytest.mark.parametrize("length", [129, 1000, 5000])
def test_long_sums_are_as_good(length):
    assert_as_evaluated(lambda b, x: [b.reduce(x, "sum", [1]), b.reduce(x, "sum", [0, 1])], numbers((2, length)), exact=False)


PRODUCTS = [
    ((3,), (3,)), ((5, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((1, 16), (16, 16)), ((8, 64), (64, 64)), ((7, 33), (33, 19)),
    ((1, 70), (70, 130)), ((6, 5), (5, 40)), ((13, 100), (100, 70)), ((9, 1), (1, 9)), ((4, 2), (2, 1)), ((1, 40), (40, 300)),
]  # fmt: skip


@pytest.mark.parametrize("constant", [None, 0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_products(shapes, dtype, constant):
    given = [numbers(s, dtype, k) for k, s in enumerate(shapes)]
    result = np.matmul(*given)

    def build(b, *params):
        args = list(params)
        if constant is not None:
            args[constant] = b.const(given[constant])
        turned = [x if x.type.rank < 2 else b.transpose(b.add(b.transpose(x, (1, 0)), 0), (1, 0)) for x in args]
        type = Type(result.dtype, result.shape)
        return [b.put_in("dot", pair, type) for pair in (args, turned, (args[0], turned[1]))]

    assert_as_evaluated(build, *given, exact=dtype == np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (3, 40), (40, 3), (33, 70), (2, 5, 18), (18, 2, 35)], ids=str)
def test_transposed_values_are_written_in_any_order_of_axes(shape, dtype):
    x, axes = numbers(shape, dtype), range(len(shape))
    assert_as_evaluated(lambda b, v: [b.transpose(v, order) for order in itertools.permutations(axes)], x)


def test_places_that_are_computed():
    x, rows, at = numbers((6, 5)), np.array([[5, 0], [-1, 2]]), np.int64(3)

    def build(b, x, rows, at):
        row = b.put_in("place", (x, at), Type(x.type.dtype, (5,)))
        one = b.put_in("place", (x, at, at), Type(x.type.dtype, ()))
        changed = b.put_in("put", (x, b.mul(row, 2), at), x.type)
        again = b.put_in("put", (changed, one, at, at), x.type)
        taken = b.put_in("gather", (b.add(x, 1), rows), Type(x.type.dtype, (2, 2, 5)), 0)
        return [row, one, changed, again, taken, b.put_in("gather", (x, at), Type(x.type.dtype, (6,)), 1), x]

    assert_as_evaluated(build, x, rows, at)


@pytest.mark.parametrize("where", [6, -7])
def test_places_out_of_range_are_left_to_the_interpreter(where):
    b = Builder()
    x, at = b.param(Type(np.dtype(np.float64), (6,))), b.param(Type(np.dtype(np.int64), (2,)))
    run = program(b.closed([b.put_in("gather", (x, at), Type(x.type.dtype, (2,)), 0)]))
    assert run(None, numbers(6), np.array([0, -6]))[0].shape == (2,)
    with pytest.raises(FallBack):
        run(None, numbers(6), np.array([0, where]))


def test_arrays_in_any_order_of_memory_and_numbers_of_any_kind():
    b = Builder()
    x, y = b.param(Type(np.dtype(np.float64), (3, 4))), b.param(Type(np.dtype(np.float64), ()))
    run = program(b.closed([b.add(x, y)]))
    given = numbers((4, 3))
    for number in (np.float64(2.5), np.array(2.5)):
        np.testing.assert_array_equal(run(None, given.T, number)[0], given.T + 2.5)
        np.testing.assert_array_equal(run(None, numbers((6, 8))[::2, ::2], number)[0], numbers((6, 8))[::2, ::2] + 2.5)


def test_results_are_arrays_of_their_own():
    b = Builder()
    x = b.param(Type(np.dtype(np.float64), (3,)))
    run = program(b.closed([x, x, b.const(np.arange(3.0))]))
    given = numbers(3)
    one, other, constant = run(None, given)
    one += 1
    constant += 1
    np.testing.assert_array_equal(other, given)
    np.testing.assert_array_equal(run(None, given)[2], np.arange(3.0))


def test_what_has_no_form_is_refused_with_the_reason():
    b = Builder()
    x = b.param(Type(np.dtype(np.complex64), (3,)))
    with pytest.raises(CannotCompile, match="complex64"):
        program(b.closed([b.add(x, x)]))


def test_memory_of_a_program_is_given_back():
    b = Builder()
    x = b.param(Type(np.dtype(np.float64), (3,)))
    run = program(b.closed([b.exp(x)]))
    code = weakref.ref(run._code)
    run(None, numbers(3))
    del run
    gc.collect()
    assert code() is None


def test_llvm_is_not_imported_before_it_is_asked_for():
    code = "import mdf_loop, sys; assert not [m for m in sys.modules if m.startswith('llvmlite')]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_llvmlite_the_engine_says_how_to_get_it(monkeypatch):
    module = sys.modules["mdf_loop.options"]
    monkeypatch.setattr(module, "available_engines", lambda: ("auto", "interpret", "numpy"))
    with pytest.raises(ArgumentError, match=r'pip install -e ".*\[jit\]"'), options(engine="jit"):
        pass


# Loops


def compiled(caplog, call):
    """What a call gives in engine ``jit``, which must have compiled it."""
    with caplog.at_level(logging.DEBUG, "mdf_loop.execute.programs"), options(engine="jit"):
        found = call()
    assert not [r.message for r in caplog.records if "not compiled" in r.message or "given up" in r.message]
    return found


def interpreted(call):
    with options(engine="interpret"):
        return call()


def assert_compiled(caplog, call, exact=True):
    actual, expected = compiled(caplog, call), interpreted(call)
    actual, expected = (x if isinstance(x, tuple) else (x,) for x in (actual, expected))
    for a, e in zip(actual, expected, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(e), np.asarray(e).dtype)
        np.testing.assert_allclose(a, e, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)


LOOPS = {
    "a Fibonacci of arrays": (
        "b (int64 i, bool go, double[5] x, double[5] y) => (go_1, y_1, z) "
        "{ go_1 = Identity(go) y_1 = Identity(y) z = Add(x, y) }",
        (np.ones(5), np.arange(5.0)),
    ),
    "each reads the other": (
        "b (int64 i, bool go, double[40] x, double[40] y) => (go_1, u, v, s) "
        "{ go_1 = Identity(go) u = Sub(x, y) v = Mul(x, y) s = ReduceMax<keepdims=0>(u) }",
        (np.linspace(0, 1, 40), np.linspace(1, 0, 40)),
    ),
    "a neighbour": (
        "b (int64 i, bool go, double[9] x) => (go_1, y, y2) "
        "<int64[1] o = {1}, int64[1] e = {9}, int64[1] z = {0}, int64[1] l = {8}> "
        "{ go_1 = Identity(go) a = Slice(x, o, e, z) c = Slice(x, z, l, z) d = Slice(x, z, o, z) f = Add(a, c) "
        "y = Concat<axis=0>(d, f) y2 = Identity(x) }",
        (np.arange(9.0),),
    ),
    "a place that moves": (
        "b (int64 i, bool go, double[6] x) => (go_1, y, old) <int64[1] s = {1}, int64[2] t = {1, 1}> "
        "{ go_1 = Identity(go) p = Reshape(i, t) old = Gather(x, i) k = Constant<value_float=2.0>() kd = CastLike(k, old) "
        "n = Mul(old, kd) n1 = Reshape(n, s) y = ScatterND(x, p, n1) }",
        (np.arange(6.0) + 1,),
    ),
    "what grows": (
        "b (int64 i, bool go, double[n] x) => (go_1, y, m) <int64[1] s = {1}> "
        "{ go_1 = Identity(go) m = ReduceMax<keepdims=0>(x) d = Constant<value_float=1.5>() dd = CastLike(d, m) q = Add(m, dd) "
        "q1 = Reshape(q, s) y = Concat<axis=0>(x, q1) }",
        (np.ones(2),),
    ),
    "it ends": (
        "b (int64 i, bool go, int64 x) => (go_1, y, x2) <int64 k = {3}, int64 e = {40}> "
        "{ y = Mul(x, k) go_1 = Less(y, e) x2 = Identity(x) }",
        (np.int64(1),),
    ),
    "a branch": (
        "b (int64 i, bool go, double[3] x) => (go_1, y) <int64 two = {2}, int64 o = {0}> { go_1 = Identity(go) m = Mod(i, two) "
        "c = Equal(m, o) y = If(c) <then_branch = t () => (u) { u = Add(x, x) }, else_branch = f () => (w) { w = Sqrt(x) }> }",
        (np.array([1.0, 4.0, 9.0]),),
    ),
    "whole numbers wrap around": (
        "b (int64 i, bool go, int32[3] x) => (go_1, y, q, r) <int32[1] k = {1103515245}, int32[1] z = {0}, int32[1] s = {-7}> "
        "{ go_1 = Identity(go) y = Mul(x, k) q = Div(x, z) r = Mod(x, s) }",
        (np.array([1, -5, 12345], np.int32),),
    ),
    "an inner loop": (
        "b (int64 i, bool go, double[4] x) => (go_1, y) <int64 n = {3}, bool t = {1}> { go_1 = Identity(go) y = Loop(n, t, x) "
        "<body = c (int64 j, bool g, double[4] u) => (h, w) { h = Identity(g) f = Cast<to = 11>(j) w = Add(u, f) }> }",
        (np.arange(4.0),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_those_of_the_interpreter(name, caplog):
    body, carried = LOOPS[name]
    assert_compiled(caplog, lambda: mdf_loop.loop(6, True, *carried, body=body))


def test_a_loop_without_iterations_gives_what_it_was_given(caplog):
    body, carried = LOOPS["whole numbers wrap around"]
    body = body.replace(", q, r)", ")").replace(" q = Div(x, z) r = Mod(x, s)", "")
    np.testing.assert_array_equal(compiled(caplog, lambda: mdf_loop.loop(0, True, *carried, body=body)), carried[0])


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_from_and_to_any_axis(axis, reverse, caplog):
    body = "b (double[4] h, double[4] x) => (h_1, y) { h_1 = Add(h, x) y = Mul(h_1, x) }"
    x = np.moveaxis(numbers((6, 4)), 0, axis)
    kinds = {"scan_input_axes": [axis], "scan_input_directions": [reverse], "scan_output_axes": [axis]}
    kinds["scan_output_directions"] = [reverse]
    assert_compiled(caplog, lambda: mdf_loop.scan(np.zeros(4), x, body=body, num_scan_inputs=1, **kinds))


def test_rows_and_matrices_that_stay_the_same(caplog):
    """Products of all rows are computed in front of the loop, in either direction, whether rows are scanned or taken."""
    w, x = numbers((5, 130), seed=1), numbers((7, 2, 5))
    body = "b (double[2,130] h, double[2,5] x) => (h_1, y) { p = MatMul(x, w) h_1 = Add(h, p) y = Identity(h_1) }"
    for reverse in (0, 1):
        assert_compiled(
            caplog,
            lambda r=reverse: mdf_loop.scan(np.zeros((2, 130)), x, body=body, num_scan_inputs=1, w=w, scan_input_directions=[r]),
            exact=False,
        )
    taken = (
        "b (int64 i, bool go, double[2,130] h) => (go_1, h_1) "
        "{ go_1 = Identity(go) r = Gather(x, i) p = MatMul(r, w) h_1 = Add(h, p) }"
    )
    assert_compiled(caplog, lambda: mdf_loop.loop(7, True, np.zeros((2, 130)), body=taken, x=x, w=w), exact=False)


def test_matrices_that_are_packed_in_front_of_a_loop(caplog):
    w = numbers((128, 256), np.float32) / 20
    body = "b (int64 i, bool go, float[1,128] h) => (go_1, y) <int64[1] a = {0}, int64[1] e = {128}, int64[1] o = {1}> " \
        "{ go_1 = Identity(go) p = MatMul(h, w) q = Tanh(p) y = Slice(q, a, e, o) }"  # fmt: skip
    assert_compiled(caplog, lambda: mdf_loop.loop(9, True, numbers((1, 128), np.float32), body=body, w=w), exact=False)


def test_a_users_kernel_takes_the_place_of_a_template():
    """Templates are chosen by name: only for kernels of ours."""
    code = """
import numpy as np, mdf_loop
body = "b (int64 i, bool go, double[3] x) => (go_1, y) <int64 a = {0}> { go_1 = Identity(go) y = CumSum(x, a) }"
with mdf_loop.options(engine="jit"):
    before = mdf_loop.loop(1, True, np.ones(3), body=body)
    @mdf_loop.kernel("CumSum", since=11)
    def mine(x, axis, *, exclusive=0, reverse=0):
        return x + 40
    after = mdf_loop.loop(1, True, np.ones(3), body=body)
print(before.tolist(), after.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "[1.0, 2.0, 3.0] [41.0, 41.0, 41.0]", done.stderr


def test_programs_run_in_threads():
    body, carried = LOOPS["each reads the other"]
    call = mdf_loop.compile(body)
    found = {}

    def run(k):
        with options(engine="jit"):
            for _ in range(20):
                found[k] = call(50, True, carried[0] + k, carried[1])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        expected = interpreted(lambda k=k: call(50, True, carried[0] + k, carried[1]))
        for a, e in zip(found[k], expected, strict=True):
            np.testing.assert_array_equal(a, e)


def test_ctrl_c_is_seen_in_a_long_loop():
    code = """
import _thread, threading, time, numpy as np, mdf_loop
body = "b (int64 i, bool go, double x) => (go_1, y) { go_1 = Identity(go) y = Cos(x) }"
with mdf_loop.options(engine="jit"):
    mdf_loop.loop(10, True, 1.0, body=body)
    threading.Timer(0.5, _thread.interrupt_main).start()
    try:
        mdf_loop.loop(1 << 40, True, 1.0, body=body)
    except mdf_loop.errors.LoopInterrupted:
        print("seen")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "seen", done.stderr
