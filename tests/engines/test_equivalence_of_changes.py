"""Values that become something else from one iteration to a later one: every engine sees it."""

import contextlib
import io
import itertools

import numpy as np
import pytest
from engines import ENGINES, OTHERS
from equivalence import assert_same_on_every_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Edge, Graph, InputPort, OutputPort, Parameter
from modeci_mdf.mdf import Node as MdfNode
from untyped import ROWS, Untyped

import mdf_loop
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.ir import Body, Carried, Collected, Loop, Node
from mdf_loop.options import start_run
from mdf_loop.readers.onnx.loop_records import loop_record

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


# Shapes, one law at a time

CHANGES = {
    "once": "p_out = Identity (cap)",
    "twice": "p_out = Identity (q) q_out = Identity (cap)",
    "by a row": "p_out = Gather (table, i)",
    "in iteration 9": "late = Less (i, nine) p_out = If <then_branch = t () => (o) { o = Identity (p) }, else_branch = e () => "
    "(o) { o = Identity (cap) }> (late)",
    "now and then": "odd = BitwiseAnd (i, one) even = Cast <to = 9> (odd) p_out = If <then_branch = t () => (o) { o = Identity "
    "(start) }, else_branch = e () => (o) { o = Identity (cap) }> (even)",
    "each time": "p_out = Concat <axis = 0> (p, cap)",
}
USES = {
    "plain": "y = Mul (p, z) w = ReduceSum <keepdims = 0> (y)",
    "in a branch": "yes = Less (zero, i) w = If <then_branch = t () => (o) { y = Mul (p, z) o = ReduceSum <keepdims = 0> (y) }, "
    "else_branch = e () => (o) { y = Add (p, z) o = ReduceSum <keepdims = 0> (y) }> (yes)",
    "in a loop": "w = Loop <body = inner (int64 j, bool g, double u) => (bool g2, double u2) { g2 = Identity (g) y = Mul (p, u) "
    "s = ReduceSum <keepdims = 0> (y) u2 = Mod <fmod = 1> (s, hundred) }> (three, go, z)",
    "in a scan": "w = Scan <num_scan_inputs = 1, body = over (double u, double v) => (double u2) { a = Add (u, v) y = Mul (p, a) "
    "s = ReduceSum <keepdims = 0> (y) u2 = Mod <fmod = 1> (s, hundred) }> (z, numbers)",
    "several": "y = Add (p, z) h = Sub (y, z) m = ReduceMax <keepdims = 0> (h) r = ReduceSum <keepdims = 0> (y) w = Add (m, r)",
    "at its end": "y = Mul (p, z) s = Slice (y, last, end) w = ReduceSum <keepdims = 0> (s)",
}
CHANGING = """changes (int64 i, bool go, double[n] p, double[m] q, double z) =>
    (bool go_out, p_out, {q_out}, double z_out, double seen)
    <int64 nine = {{9}}, int64 zero = {{0}}, int64 one = {{1}}, int64 three = {{3}}, double hundred = {{100}},
    double[3] numbers = {{1, 2, 3}}, int64[1] last = {{-1}}, int64[1] end = {{100}}> {{
    {use} {change} z_out = Mod <fmod = 1> (w, hundred) seen = Identity (z_out) go_out = Identity (go) }}"""


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("change", CHANGES)
def test_shape_of_what_is_carried_changes(change, use):
    q_out = "q_out" if "q_out" in CHANGES[change] else "q"
    body = mdf_loop.compile(CHANGING.format(q_out=q_out, use=USES[use], change=CHANGES[change]))
    given = {"cap": np.full(1, 2.0), "start": np.full(3, 3.0), "table": np.full((60, 1), 5.0)}
    given = {name: value for name, value in given.items() if f"({name}" in CHANGES[change] or f", {name})" in CHANGES[change]}
    for start in (np.full(3, 3.0), np.full(1, 7.0), np.full(3, 2.0), np.full((2, 1), 1.0)):
        if np.ndim(start) == 2 and change == "each time":
            continue
        for other in (np.full(2, 4.0), np.full(3, 1.0)):
            expected = assert_same_on_every_engine(lambda p=start, q=other: body(60, True, p, q, 1.0, **given))
            assert expected.error is None, expected.error


# Linear recurrences


@settings(relaxed, max_examples=100)
@given(st.data())
def test_linear_recurrence_has_the_error_of_the_loop_whatever_its_factor(data):
    """The inputs make all values whole, so that the loop makes no error at all."""
    dtype = np.dtype(data.draw(st.sampled_from(["float32", "float64"])))
    factor = data.draw(st.sampled_from([0.5, 1.0, -1.0, -0.5, 2.0, 3.0, -3.0, 7.5, 1.5, -1.25]))
    width, length = data.draw(st.sampled_from([1, 3, 16, 17, 20, 40, 200])), data.draw(st.sampled_from([5, 33, 200]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    y = start = np.full(width, 4.0, dtype)
    rows = np.empty((length, width), dtype)
    for k in range(length):
        wanted = 4 * rng.integers(-3, 4, width).astype(dtype)
        rows[k], y = wanted - y * dtype.type(factor), wanted
    kind = {"float32": "float", "float64": "double"}[dtype.name]
    factors = np.full(length, factor, dtype) if data.draw(st.booleans()) else None
    coefficient = "a = Gather (factors, i)" if factors is not None else "a = Identity (factor)"
    text = f"""f (int64 i, bool go, {kind}[n] y) => (bool go_out, {kind}[n] y_out, {kind}[n] seen) {{ x = Gather (rows, i)
        {coefficient} p = Mul (y, a) y_out = Add (p, x) seen = Identity (y_out) go_out = Identity (go) }}"""
    given_factor = {"factors": factors} if factors is not None else {"factor": dtype.type(factor)}
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            seen = mdf_loop.loop(length, True, start, body=text, rows=rows, **given_factor)[1]
        before = np.concatenate([start[None], seen[:-1]])
        exact = before.astype(float) * factor + rows
        assert np.abs(seen - exact).max() <= 200 * np.finfo(dtype).eps * 32, engine
        assert np.abs(seen[-1] - wanted).max() <= 2000 * np.finfo(dtype).eps * 32, engine


def test_factor_of_a_recurrence_that_gets_another_rank(rng):
    text = """f (int64 i, bool go, double[n] y, double a) => (bool go_out, y_out, double[1,1] a_out) { x = Gather (rows, i)
        p = Mul (y, a) y_out = Add (p, x) a_out = Identity (cap) go_out = Identity (go) }"""
    rows = rng.standard_normal((50, 20))
    given = {"rows": rows, "cap": np.full((1, 1), 0.5)}
    assert_same_on_every_engine(lambda: mdf_loop.loop(50, True, rows[0], 0.9, body=text, **given), exact=False)


# Warnings


@pytest.mark.parametrize("operator", ["Loop", "If"])
@pytest.mark.parametrize("runs", [0, 3])
def test_warnings_are_those_of_iterations_that_run(runs, operator):
    loop = "w = Loop <body = inner (int64 j, bool g, double u) => (bool g2, double u2) { g2 = Less (j, zero) u2 = Add (u, u) }>"
    loop = f'{loop} (some, "", x)'
    if operator == "If":
        loop = f"w = If <then_branch = t () => (o) {{ {loop.replace('w =', 'o =')} }}, else_branch = e () => (x) {{ }}> (is_late)"
    text = f"""outer (int64 i, bool go, double z) => (bool go_out, double z_out) <int64 zero = {{0}}> {{ is_late = Less (seven, i)
        x = Cast <to = 11> (i) {loop} z_out = Mod <fmod = 1> (w, hundred) go_out = Less (i, last) }}"""
    for last in (3, 20):
        given = {"some": np.int64(runs), "seven": np.int64(7), "hundred": 100.0, "last": np.int64(last)}
        found = assert_same_on_every_engine(lambda given=given: mdf_loop.loop(40, True, 1.5, body=text, **given))
        assert bool(found.warned) == (runs > 0 and (operator == "Loop" or last > 7))


# Collected values without elements


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0), (2, 3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_collected_values_without_elements_are_put_together_all_the_same(shape, axis, reverse):
    node = Node("Add", ("x", "k"), ("y",), opset=18)
    record = Loop(
        Body("b", ("x",), ("y",), (node,), captures=("k",)),
        (Carried("x", "x"),),
        collected=(Collected("y", axis, False, reverse),),
    )
    arguments = Arguments(40, True, [np.ones(shape)], captured=[np.float64(1)])
    found = {}
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            found[engine] = NumpyLoop(record)(arguments, start_run())[1]
    for result in found.values():
        np.testing.assert_array_equal(result, found["interpret"], strict=True)


# Types of MDF bodies, where every number keeps the form that it has


def assert_same_values(case):
    """Every engine gives the values of ``interpret``, of the same types."""
    body = case.body()
    looped = NumpyLoop(loop_record(body, len(case.calls[0])))
    for carried in case.calls:
        arguments = Arguments(ROWS, None, carried=carried, captured=[case.captured] * len(body.captures))
        expected = results_of(looped, arguments, "interpret")
        for engine in OTHERS:
            for k, (a, e) in enumerate(zip(results_of(looped, arguments, engine), expected, strict=True)):
                assert type(a) is type(e), (engine, k, carried, a, e)
                assert getattr(a, "dtype", None) == getattr(e, "dtype", None), (engine, k, carried, a, e)
                np.testing.assert_array_equal(a, e, err_msg=f"{engine} {k} {carried}")


def results_of(looped, arguments, engine):
    with mdf_loop.options(engine=engine):
        try:
            return looped(arguments, start_run())
        except mdf_loop.LoopError as error:
            return (str(error),)


@pytest.mark.parametrize("length", [1, 2, 5, 9])
@pytest.mark.parametrize(
    ("first", "then"), [(3, np.array([3, 4])), (3, np.array([0.5])), (True, np.array([3])), (2, np.array([True]))]
)
def test_state_that_is_a_python_number_at_first_and_numpys_later(length, first, then):
    """It is passed on from port to port, one each pass, and multiplied into a state all the time."""
    ports = [InputPort(id=f"x{k}", default_value=first) for k in range(length)]
    outputs = [OutputPort(id=f"o{k}", value=f"x{k + 1}" if k + 1 < length else "v[0]") for k in range(length)]
    parameters = [Parameter(id="v", value=then), Parameter(id="s", value="s * x0 + 1", default_initial_value=1)]
    node = MdfNode(id="N", input_ports=ports, parameters=parameters, output_ports=[*outputs, OutputPort(id="out", value="s")])
    edges = [Edge(id=f"e{k}", sender="N", sender_port=f"o{k}", receiver="N", receiver_port=f"x{k}") for k in range(length)]
    found = {}
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            found[engine] = mdf_loop.run(Graph(id="g", nodes=[node], edges=edges), steps=70)["out"]
    for value in found.values():
        assert type(value) is type(found["interpret"])
        np.testing.assert_array_equal(value, found["interpret"])


@pytest.mark.parametrize("expression", ["numpy.where(x > 1, x * 0.5, x + 1)", "numpy.array(x)", "x + 1", "float(x)", "max(x, 1)"])
@pytest.mark.parametrize("start", [2, 0.5, np.array(2), np.float64(3), np.array([1.0, 2.0])])
def test_result_of_a_model_is_of_the_type_that_mdf_gives_it(expression, start):
    if expression in ("max(x, 1)", "float(x)") and np.ndim(start):
        pytest.skip("of numbers alone")
    parameters = [Parameter(id="s", value="s + x", default_initial_value=1), Parameter(id="d", value=expression)]
    outputs = [OutputPort(id="o", value="d"), OutputPort(id="p", value="x")]
    node = MdfNode(id="N", input_ports=[InputPort(id="x", default_value=start)], parameters=parameters, output_ports=outputs)
    edge = Edge(id="e", sender="N", sender_port="o", receiver="N", receiver_port="x")
    source = Graph(id="g", nodes=[node], edges=[edge])
    with contextlib.redirect_stdout(io.StringIO()):
        engine = EvaluableGraph(source)
        for _ in range(8):
            engine.evaluate()
    expected = engine.enodes["N"].evaluable_outputs["p"].curr_value
    for name in ENGINES:
        with mdf_loop.options(engine=name):
            actual = mdf_loop.run(source, steps=8)["p"]
        assert type(actual) is type(expected), name
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("cap", [np.arange(3.0), np.arange(6.0).reshape(2, 3)])
@pytest.mark.parametrize(
    "inner",
    [
        "w = Loop <body = inner (int64 j, bool g, double[n] u) => (bool g2, double[n] u2) { g2 = Identity (g) y = Add (cap, cap) "
        "u2 = Add (u, y) }> (two, go, x)",
        "is_late = Less (two, i) w = If <then_branch = t () => (o) { y = Add (cap, x) o = Neg (y) }, else_branch = e () => (o) "
        "{ y = Sub (cap, x) o = Neg (y) }> (is_late)",
    ],
)
def test_value_of_an_inner_body_has_the_name_of_another_one_outside(inner, cap):
    text = f"""outer (int64 i, bool go, double[n] x) => (bool go_out, double[n] x_out)
        <double hundred = {{100}}, int64 two = {{2}}> {{ y = Mul (x, x) {inner}
        a = Add (y, w) x_out = Mod <fmod = 1> (a, hundred) go_out = Identity (go) }}"""
    assert_same_on_every_engine(lambda: mdf_loop.loop(40, True, np.ones((2, 3)), body=text, cap=cap))


@pytest.mark.parametrize("length", [2, 5, 8])
@pytest.mark.parametrize("way", ["Identity ({})", "Mul ({}, sign)"])
def test_shape_is_passed_on_from_value_to_value_for_some_iterations(length, way):
    """Each is fed by the next one, the last by a shorter array; by itself, or so that each iteration needs the one before."""
    names = [f"p{k}" for k in range(length)]
    moves = [f"{name}_out = {way.format(after)}" for name, after in zip(names, [*names[1:], "cap"], strict=True)]
    inputs, outputs = (", ".join(f"double[n] {name}{end}" for name in names) for end in ("", "_out"))
    text = f"""chain (int64 i, bool go, {inputs}, double z) => (bool go_out, {outputs}, double z_out)
        <double hundred = {{100}}, double zero = {{0}}> {{ sign = Sign (z) y = Add (p0, z) w = ReduceSum <keepdims = 0> (y)
        z_out = Mod <fmod = 1> (w, hundred) {" ".join(moves)} go_out = Identity (go) }}"""
    body = mdf_loop.compile(text)
    for start in (np.full(3, 2.0), np.full((2, 2), 1.0), np.full(1, 7.0)):
        assert_same_on_every_engine(lambda start=start: body(200, True, *[start] * length, 1.0, cap=np.full(1, 5.0)))


@pytest.mark.parametrize(
    "text", ["(x0 * x0) * 0.5", "x0 * x0 + 0.5", "numpy.where(x0 > 0, x0 * x0 * 3, 0.5)", "(x0 * x0) / 3", "1.5 - x0 * x0"]
)
def test_product_of_whole_numbers_wraps_before_it_becomes_a_float(text):
    assert_same_values(Untyped([], ["x0 + (x1 > 0)", text], [[np.int64(4037000500), 1.0], [np.int64(2**62), 1.0]], 1))


@pytest.mark.parametrize("first", [2**62, 2**63 - 20, -(2**63) + 3, 2**70])
@pytest.mark.parametrize("text", ["x0 + x1", "x0 * x1", "x0 - x1", "x1 - x0"])
def test_number_of_pythons_that_numpy_has_no_room_for_is_an_error_on_every_engine(first, text):
    assert_same_values(Untyped([], ["x0 + 1", "x1 + (x2 > 1)", text], [[first, np.int64(3), np.int64(5)]], 1))


KINDS = {
    "bool": [True, np.bool_(True), np.array(True)],
    "int64": [3, np.int64(3), np.array(3)],
    "float64": [0.5, np.float64(0.5), np.array(0.5)],
}
"""One number of each element type that Python has as well: as Python's, as numpy's, as an array without dimensions."""


@pytest.mark.parametrize("text", ["x0", "cap", "x0 + 1", "x0 * x0", "x1 if x0 > 0 else x0", "x0 > cap"])
@pytest.mark.parametrize("kinds", KINDS)
def test_no_program_is_for_a_number_of_another_kind(kinds, text):
    """They have one element type and one shape, and the results are of other types."""
    for numbers in itertools.permutations(KINDS[kinds]):
        assert_same_values(Untyped([], [text, "x1"], [[one, numbers[0]] for one in numbers], numbers[-1]))


RANKS_CHANGE = {
    "a choice that is known, of two unknown shapes": """
        b (int64 i, bool c, double[] x) => (bool c_out, double[] y, double[] z) {
            c_out = Identity (c)
            y = MatMul (x, x)
            wide = MatMul (x, t)
            z = Where (c, x, wide)
        }""",
    "a condition that gets a rank": """
        b (int64 i, bool[] c, double[] x) => (bool[] c_out, double[] y, bool[] z) {
            axis = Constant <value = int64[1] {0}> ()
            c_out = Unsqueeze (c, axis)
            y = Add (x, t)
            z = Not (c_out)
        }""",
    "a condition that gets a rank a kernel refuses": """
        b (int64 i, bool[] c, bool[] x) => (bool[] c_out, bool[] y) {
            axis = Constant <value = int64[1] {0}> ()
            place = Constant <value = int64[1] {-1}> ()
            c_out = Unsqueeze (c, axis)
            y = ScatterElements <reduction = "max"> (x, place, c_out)
        }""",
}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("engine", ["numpy", "jit"])
@pytest.mark.parametrize("body", RANKS_CHANGE)
def test_what_has_no_known_rank_is_what_the_interpreter_says(body, engine, count):
    if engine == "jit":
        pytest.importorskip("llvmlite")
    is_bool = "bool[] x" in RANKS_CHANGE[body]
    start = np.array([False]) if is_bool else np.array([1.0])
    captured = {} if is_bool else {"t": np.array([[1.0, 1.0]])}
    found = []
    for name in ("interpret", engine):
        with mdf_loop.options(engine=name):
            try:
                found.append([repr(value) for value in mdf_loop.loop(count, True, start, body=RANKS_CHANGE[body], **captured)])
            except mdf_loop.LoopError as error:
                found.append([type(error).__name__, str(error)])
    assert found[0] == found[1]
