"""Lists that are carried in loops and through branches: every engine gives the same, and machine code holds them as arrays."""

import time

import numpy as np
import onnx
import pytest
from generated_lists import models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from step_meaning import evaluate

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.backends.python import printer
from mdf_loop.options import start_run
from mdf_loop.step.build import type_of_value
from mdf_loop.step.failing import guessing
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.records import Region, Type, Value
from mdf_loop.step.structure import values_in


def outcome(call):
    """What a call gives, or the kind of error."""
    try:
        return call()
    except Exception as error:
        return type(error)


def run(model, inputs, engine, calls=2):
    """What the last call of a prepared model gives, or the kind of its error."""
    with options(engine=engine):
        prepared = backend.prepare(model)
        found = [outcome(lambda: prepared.run(inputs)) for _ in range(calls)]
    return found[-1], prepared


def is_same(a, b):
    """Whether two values are the same: lists of the same, or arrays of one type, bit for bit."""
    if isinstance(a, list) or isinstance(b, list):
        return type(a) is type(b) and len(a) == len(b) and all(map(is_same, a, b))
    a, b = np.asarray(a), np.asarray(b)
    return (a.dtype, a.shape) == (b.dtype, b.shape) and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def assert_same(found, expected):
    if isinstance(expected, type):
        assert found is expected
    else:
        assert not isinstance(found, type), found
        assert all(map(is_same, found, expected))


def printed(model, inputs):
    """The same by the Step that machine code is made of, printed as Python; None where that leaves it to the interpreter."""
    body = backend.prepare(model).body
    values = [inputs[name] for name in body.inputs]
    with guessing(True):
        step = lower_graph(body, [type_of_value(value) for value in values])
    program, _ = printer.program(step)
    try:
        return program(start_run(), *values)
    except Exception:
        return None


def programs(prepared):
    return prepared.graph._programs


def is_machine_code(prepared):
    """Whether the last run was machine code that calls nothing of numpy's."""
    latest = programs(prepared).latest
    return latest is not None and latest.size > 0 and latest.is_alone


def given_to(text, n):
    shape = (8, 3) if "float[8, 3]" in text else (8,)
    return {"x": np.linspace(-1, 2, np.prod(shape), dtype=np.float32).reshape(shape), "n": np.array(n)}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(models(), st.integers(0, 8))
def test_lists_at_random(text, n):
    model, inputs = onnx.parser.parse_model(text), given_to(text, n)
    expected, _ = run(model, inputs, "interpret", 1)
    for engine in ("numpy", "jit"):
        found, _ = run(model, inputs, engine)
        assert_same(found, expected)
    found = printed(model, inputs)
    if found is not None:
        assert_same(found, expected)


LOOP = """<ir_version: 8, opset_import: ["": 18]>
  m (float[{shape}] x, int64 n) => ({output}) <int64[1] first = {{0}}, int64 nought = {{0}}, int64 one = {{1}}, int64 two = {{2}},
    int64 last = {{-1}}, int64 five = {{5}}, float[3] zeros = {{0, 0, 0}}, bool true = {{1}}, bool false = {{0}}> {{
    start = {start}
    y = Loop (n, true, start) <body = b (int64 i, bool go, seq(float[3]) c) => (bool go_1, c_1) {{
      go_1 = Identity (go) r = Gather (x, i) {inner}
    }}> {behind}
  }}"""

EMPTY = "SequenceEmpty <dtype = 1> ()"
APPEND = "d = SequenceInsert (c, r)"
PARITY = "k = Mod (i, two) even = Equal (k, nought)"


def under(condition, then, other="c"):
    """c_1: one of two lists."""
    return f"""c_1 = If ({condition}) <then_branch = t () => (u) {{ u = {then} }},
      else_branch = e () => (v) {{ v = Identity ({other}) }}>"""


WAYS = {
    "a window": f"{APPEND} k = SequenceLength (d) q = Greater (k, five) {under('q', 'SequenceErase (d, nought)', 'd')}",
    "now and then": f"{PARITY} {under('even', 'SequenceInsert (c, r)')}",
    "the last one is read": """k = SequenceLength (c) q = Greater (k, nought)
      p = If (q) <then_branch = t () => (u) { u = SequenceAt (c, last) }, else_branch = e () => (v) { v = Identity (zeros) }>
      s = Sub (r, p) c_1 = SequenceInsert (c, s)""",
    "what it was is read later": f"""{APPEND} k = SequenceLength (c) q = Greater (k, nought)
      p = If (q) <then_branch = t () => (u) {{ u = SequenceAt (c, last) }}, else_branch = e () => (v) {{ v = Identity (r) }}>
      s = Sub (r, p) c_1 = SequenceInsert (d, s)""",
    "in front": "c_1 = SequenceInsert (c, r, nought)",
    "put together": f"{APPEND} w = ConcatFromSequence <axis = 0, new_axis = 1> (d) s = ReduceMax <keepdims = 0> (w, first)"
    " c_1 = SequenceInsert (d, s)",
    "in a loop inside": f"""{PARITY} c_1 = Loop (two, even, c) <body = inner (int64 j, bool g, seq(float[3]) e) => (bool g_1, e_1)
      {{ g_1 = Identity (g) e_1 = SequenceInsert (e, r) }}>""",
    "its elements one after the other": """k = SequenceLength (c)
      p = Loop (k, , r) <body = inner (int64 j, bool g, float[3] v) => (bool g_1, v_1)
      { g_1 = Identity (g) q = SequenceAt (c, j) v_1 = Sub (v, q) }> c_1 = SequenceInsert (c, p)""",
    "its elements until one is large": """k = SequenceLength (c) q = Greater (k, nought)
      p = Loop (k, q, r) <body = inner (int64 j, bool g, float[3] v) => (bool g_1, v_1) { o = SequenceAt (c, j)
      v_1 = Sub (v, o) w = ReduceMax <keepdims = 0> (v_1) t = Cast <to = 7> (w) g_1 = Less (t, two) }>
      c_1 = SequenceInsert (c, p)""",
    "taken off while there are many": f"""{APPEND} k = SequenceLength (d) q = Greater (k, five)
      c_1 = Loop (five, q, d) <body = inner (int64 j, bool g, seq(float[3]) e) => (bool g_1, e_1)
      {{ e_1 = SequenceErase (e, last) k_1 = SequenceLength (e_1) g_1 = Greater (k_1, two) }}>""",
    "one is replaced": "d = SequenceInsert (c, r) e = SequenceErase (d, nought) c_1 = SequenceInsert (e, r, nought)",
    "taken off and put back changed": f"""{APPEND} p = SequenceAt (d, last) e = SequenceErase (d, last) w = ReduceSum (p)
      s = Sub (p, w) c_1 = SequenceInsert (e, s)""",
    "what a loop inside gave is read twice in a branch": f"""{PARITY} w = Loop (two, true, c) <body = inner (int64 j, bool g,
      seq(float[3]) e) => (bool g_1, e_1) {{ g_1 = Identity (g) e_1 = SequenceInsert (e, r) }}>
      d = If (even) <then_branch = t () => (u) {{ o = SequenceErase (w, nought) p = SequenceAt (w, nought) q = SequenceAt (w, one)
      s = Sub (p, q) u = SequenceInsert (o, s) }}, else_branch = e () => (v) {{ v = Identity (w) }}>
      c_1 = SequenceInsert (d, r)""",
    "one is replaced at a place that is computed": f"""{APPEND} k = SequenceLength (d) m = Div (k, two) w = SequenceAt (d, m)
      s = Sub (w, r) e = SequenceErase (d, m) c_1 = SequenceInsert (e, s, m)""",
    "begun again": f"""{APPEND} k = SequenceLength (d) q = Greater (k, five) {under("q", EMPTY, "d")}""",
}
ENDS = {
    "list": ("seq(float[3]) z", "z = Identity (y)"),
    "stack": ("z", "z = ConcatFromSequence <axis = 0, new_axis = 1> (y)"),
    "joined": ("z", "z = ConcatFromSequence <axis = 0> (y)"),
    "backwards": ("z", "z = ConcatFromSequence <axis = -1, new_axis = 1> (y)"),
    "last": ("z", "z = SequenceAt (y, last)"),
    "length": ("z", "z = SequenceLength (y)"),
}
BEGINS = {
    "empty": EMPTY,
    "two": "SequenceConstruct (zeros, zeros)",
    "rows": "SplitToSequence <keepdims = 0> (x)",
}


def model_of(inner, end="stack", start=EMPTY, shape="12, 3"):
    output, behind = ENDS[end]
    return onnx.parser.parse_model(LOOP.format(inner=inner, output=output, behind=behind, start=start, shape=shape))


X = np.linspace(-1, 2, 36, dtype=np.float32).reshape(12, 3)


@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("way", WAYS)
def test_lists_are_machine_code(way, begin):
    model, inputs = model_of(WAYS[way], start=BEGINS[begin]), {"x": X, "n": np.array(11)}
    expected, _ = run(model, inputs, "interpret", 1)
    found, prepared = run(model, inputs, "jit")
    assert_same(found, expected)
    assert is_machine_code(prepared), programs(prepared).why


def test_two_branches_that_give_an_empty_list():
    inner = f"""{PARITY} d = If (even) <then_branch = t () => (u) {{ u = {EMPTY} }}, else_branch = e () => (v) {{ v = {EMPTY} }}>
      c_1 = SequenceInsert (d, r)"""
    model, inputs = model_of(inner), {"x": X, "n": np.array(9)}
    found, prepared = run(model, inputs, "jit")
    assert_same(found, run(model, inputs, "interpret", 1)[0])
    assert is_machine_code(prepared)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("n", [0, 1, 9])
def test_what_becomes_of_a_list(end, n):
    model, inputs = model_of(WAYS["a window"], end), {"x": X, "n": np.array(n)}
    expected, _ = run(model, inputs, "interpret", 1)
    found, prepared = run(model, inputs, "jit")
    assert_same(found, expected)
    assert is_machine_code(prepared) or isinstance(expected, type)


def test_explain_says_so(tmp_path):
    path = tmp_path / "window.onnx"
    onnx.save(model_of(WAYS["a window"]), path)
    with options(engine="jit"):
        prepared = mdf_loop.prepare(path)
        prepared(x=X, n=np.array(11))
        assert "one program in machine code" in prepared.explain()


OUT_OF_RANGE = {
    "read": "p = SequenceAt (c, two) c_1 = SequenceInsert (c, p)",
    "read in front": "m = Sub (nought, five) p = SequenceAt (c, m) c_1 = SequenceInsert (c, p)",
    "taken out": "c_1 = SequenceErase (c, two)",
    "taken out of none": "c_1 = SequenceErase (c)",
    "put in": "c_1 = SequenceInsert (c, r, five)",
    "put in in front": "m = Sub (nought, five) c_1 = SequenceInsert (c, r, m)",
}


@pytest.mark.parametrize("engine", ["numpy", "jit"])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_places_out_of_range_are_errors(name, engine):
    model = model_of(OUT_OF_RANGE[name], start="SequenceConstruct (zeros, zeros)")
    messages = []
    for how in ("interpret", engine):
        with options(engine=how), pytest.raises(mdf_loop.LoopError, match="out of range") as caught:
            backend.prepare(model).run({"x": X, "n": np.array(9)})
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("place", [-3, -2, 0, 1, 2, 3])
def test_every_place_between(place):
    """Two elements have three places between them."""
    model = model_of(f"m = Constant <value_int = {place}> () c_1 = SequenceInsert (c, r, m)", start=BEGINS["two"])
    inputs = {"x": X, "n": np.array(1)}
    assert_same(run(model, inputs, "jit")[0], run(model, inputs, "interpret", 1)[0])


def test_a_place_from_the_end_that_is_computed():
    """What is taken out and put in there changes places with the last one."""
    inner = f"{APPEND} m = Sub (nought, one) e = SequenceErase (d, m) c_1 = SequenceInsert (e, r, m)"
    model, inputs = model_of(inner, start=BEGINS["two"]), {"x": X, "n": np.array(9)}
    assert_same(run(model, inputs, "jit", 5)[0], run(model, inputs, "interpret", 1)[0])
    same = f"{APPEND} w = Mod (i, two) g = Sub (w, two) e = SequenceErase (d, g) c_1 = SequenceInsert (e, r, g)"
    model = model_of(same, start=BEGINS["two"])
    assert_same(run(model, inputs, "jit", 5)[0], run(model, inputs, "interpret", 1)[0])


LISTS = {
    "shapes": f"{PARITY} m = Mul (i, one) w = Unsqueeze (r, first) {under('even', 'SequenceInsert (c, w)')}".replace(
        "v = Identity (c)", "v = SequenceInsert (c, r)"
    ),
    "types": f"{PARITY} w = Cast <to = 11> (r) {under('even', 'SequenceInsert (c, w)')}".replace(
        "v = Identity (c)", "v = SequenceInsert (c, r)"
    ),
    "lengths": "m = Add (i, one) m1 = Unsqueeze (m, first)"
    " o = Unsqueeze (nought, first) w = Slice (r, o, m1, o) c_1 = SequenceInsert (c, w)",
    "texts": "w = Cast <to = 8> (r) c_1 = SequenceInsert (c, w)",
}


@pytest.mark.parametrize("end", ["list", "length"])
@pytest.mark.parametrize("name", LISTS)
def test_elements_of_several_kinds_stay_a_list(name, end):
    model, inputs = model_of(LISTS[name], end), {"x": X, "n": np.array(4)}
    expected, _ = run(model, inputs, "interpret", 1)
    for engine in ("numpy", "jit"):
        assert_same(run(model, inputs, engine, 4)[0], expected)


CHEAP = [
    "now and then",
    "in a loop inside",
    "taken off and put back changed",
    "one is replaced",
    "one is replaced at a place that is computed",
]


@pytest.mark.parametrize("way", CHEAP)
def test_a_list_grows_where_it_stands(way):
    """Twenty times as many elements take about twenty times as long: none of them is copied in each iteration."""
    seconds = []
    for n in (1_000, 20_000):
        model = model_of(WAYS[way], "length", shape=f"{n}, 3")
        inputs = {"x": np.ones((n, 3), np.float32), "n": np.array(n)}
        with options(engine="jit"):
            prepared = backend.prepare(model)
            prepared.run(inputs)
            assert is_machine_code(prepared)
            seconds.append(min(_seconds(prepared, inputs) for _ in range(5)))
    assert seconds[1] < 100 * seconds[0]


def _seconds(prepared, inputs):
    begun = time.thread_time()
    prepared.run(inputs)
    return time.thread_time() - begun


def test_rows_put_in_and_taken_out_mean_what_numpy_says():
    array, row, place = (
        Value("param", (), type, k)
        for k, type in enumerate([Type(np.dtype("f4"), (2, 3)), Type(np.dtype("f4"), (3,)), Type(np.dtype("i8"), ())])
    )
    more = Value("insert", (array, row, place), Type(np.dtype("f4"), (3, 3)))
    less = Value("erase", (array, place), Type(np.dtype("f4"), (1, 3)))
    region = Region((array, row, place), (more, less), (more, less))
    given = X[:2], X[2], np.int64(1)
    expected = np.stack([X[0], X[2], X[1]]), X[:1]
    assert_same(evaluate(region, given), expected)
    assert_same(printer.program(region)[0](start_run(), *given), expected)


def test_a_list_is_an_array_in_the_step():
    body = backend.prepare(model_of(WAYS["a window"])).body
    types = [Type(np.dtype(np.float32), (12, 3)), Type(np.dtype(np.int64), ())]
    with guessing(True):
        ops = {value.op for value in values_in(lower_graph(body, types))}
    assert {"insert", "erase", "branch"} <= ops
    assert "apply" not in ops
