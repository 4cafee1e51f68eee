"""Every engine gives what ``interpret`` gives, where it is easy not to: edges of types, failures, early ends, random numbers."""

import numpy as np
import pytest
from equivalence import assert_same_on_every_engine
from onnx.helper import np_dtype_to_tensor_dtype

from mdf_loop import loop, options, scan
from mdf_loop.errors import CollectedError, IterationError, IterationLimit


def run(text, m, cond, *carried, opset=20, **captured):
    return lambda: loop(m, cond, *carried, body={"onnx": text, "opset": opset}, **captured)


# Scalars at the edges of their types, where Python's numbers and numpy's differ

NAMES = {"float64": "double", "float32": "float", "float16": "float16", "bool_": "bool", "bool": "bool"}
EDGES = {
    "float64": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e308, -1e308, 1e-308, 5e-324, 710.0, np.inf, -np.inf, np.nan, 2.0**53, 1e22],
    "float32": [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3e38, -3e38, 1e-45, 89.0, np.inf, -np.inf, np.nan, 16777217.0],
    "float16": [0.0, 1.0, 0.1, 65504.0, -65504.0, 6e-8, np.inf, np.nan],
    "int64": [0, 1, -1, 7, -7, 2**63 - 1, -(2**63), 2**31, 2**62, 3037000500],
    "int32": [0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 46341],
    "uint64": [0, 1, 7, 2**64 - 1, 2**63, 2**32],
    "uint8": [0, 1, 7, 255, 128],
    "int8": [0, 1, -1, 127, -128],
    "bool": [False, True],
}
FLOATS, WHOLE = ("float64", "float32", "float16"), ("int64", "int32", "uint64", "uint8", "int8")
UNARY = {
    **dict.fromkeys(["Neg", "Abs", "Sign"], (*FLOATS, "int64", "int32", "int8")),
    **dict.fromkeys(["Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Relu", "Identity"], FLOATS),
    **dict.fromkeys(["Exp", "Log", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Softplus", "Erf"], FLOATS[:2]),
    **dict.fromkeys(["Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"], FLOATS[:2]),
    **dict.fromkeys(["Elu", "Selu", "LeakyRelu", "HardSigmoid", "HardSwish", "Softsign", "Gelu", "Mish"], FLOATS[:2]),
    "Not": ["bool"],
    "BitwiseNot": WHOLE,
}
BINARY = {
    **dict.fromkeys(["Add", "Sub", "Mul", "Div", "Max", "Min"], (*FLOATS, *WHOLE)),
    **dict.fromkeys(["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"], ("float64", "float32", "int64", "uint8")),
    **dict.fromkeys(["BitwiseAnd", "BitwiseOr", "BitwiseXor"], WHOLE),
    **dict.fromkeys(["And", "Or", "Xor"], ("bool",)),
    "Mod": WHOLE,
    "Pow": ["float64", "float32", "int64", "int32"],
}
EXACT = {"Neg", "Abs", "Sign", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Relu", "Identity", "Not", "BitwiseNot"}
EXACT |= set(BINARY) - {"Pow"}


def pairs_of_edges(dtype):
    values = np.array(EDGES[dtype], dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op, dtypes in UNARY.items() for dtype in dtypes])
def test_scalar_of_one_value_at_the_edges_of_its_type(op, dtype):
    kind = NAMES.get(dtype, dtype)
    values = np.array(EDGES[dtype], dtype)
    # ``turned`` comes from the iteration before, so that the operator is in a recurrence; ``row`` does not
    text = f"""edges (int64 i, bool go, {kind} before) => (bool go_out, {kind} after, {kind} row, {kind} turned) {{
        go_out = Identity (go)
        x = Gather (table, i)
        row = {op} (x)
        turned = {op} (before)
        nowhere = Constant <value = bool {{0}}> ()
        after = Where (nowhere, turned, x)
    }}"""
    assert_same_on_every_engine(run(text, len(values), True, values[0], table=values), op in EXACT)


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op, dtypes in BINARY.items() for dtype in dtypes])
def test_scalar_of_two_values_at_the_edges_of_their_type(op, dtype):
    kind = NAMES.get(dtype, dtype)
    left, right = pairs_of_edges(dtype)
    text = f"""edges (int64 i, bool go, {kind} a, {kind} b) => (bool go_out, {kind} a_out, {kind} b_out, row, turned) {{
        go_out = Identity (go)
        x = Gather (left, i)
        y = Gather (right, i)
        row = {op} (x, y)
        turned = {op} (a, b)
        flag = Equal (i, i)
        a_out = Where (flag, x, a)
        b_out = Where (flag, y, b)
    }}"""
    captured = {"left": left, "right": right}
    assert_same_on_every_engine(run(text, len(left), True, left[0], right[0], **captured), op in EXACT)


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_recurrence_of_one_operator_keeps_its_type(op, dtype):
    kind = NAMES.get(dtype, dtype)
    text = f"""power (int64 i, bool go, {kind} y) => (bool go_out, {kind} y_out, {kind} s) {{
        go_out = Identity (go) x = Gather (table, i) y_out = {op} (y, x) s = Identity (y_out) }}"""
    for table in (np.array(EDGES[dtype], dtype), np.full(70, 3, dtype)):
        for start in table[:3]:
            assert_same_on_every_engine(run(text, len(table), True, start, table=table))


@pytest.mark.parametrize("wide", ["int64", "int32", "float64"])
@pytest.mark.parametrize("narrow", ["int16", "int8", "uint8", "uint16", "int32", "float16", "float32", "bool"])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_number_that_became_a_wider_one_counts_as_it(op, narrow, wide):
    kind, (there, back) = NAMES.get(narrow, narrow), (int(np_dtype_to_tensor_dtype(np.dtype(x))) for x in (wide, narrow))
    text = f"""widen (int64 i, bool go, {kind} y) => (bool go_out, {kind} y_out, s) {{
        go_out = Identity (go) w = Cast <to = {there}> (y) s = {op} (w, w) y_out = Cast <to = {back}> (s) }}"""
    for start in (100, 1, 0):
        assert_same_on_every_engine(run(text, 3, True, np.dtype(narrow).type(start)))


@pytest.mark.parametrize("op", ["Add", "Mul", "Sub", "Div", "Max", "Min"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3)])
def test_accumulation_is_bit_identical_in_either_order(op, swapped, shape, rng):
    text = f"""acc (int64 i, bool go, double[?] y) => (bool go_out, y_out, before, after) {{
        go_out = Identity (go) x = Gather (table, i) y_out = {op} ({"x, y" if swapped else "y, x"})
        before = Identity (y) after = Identity (y_out) }}""".replace("[?]", "" if not shape else str(list(shape)))
    table = rng.standard_normal((1000, *shape)) * 10.0 ** rng.integers(-8, 8, (1000, *shape))
    table[500:] = np.where(rng.random((500, *shape)) < 0.01, np.nan, table[500:])
    assert_same_on_every_engine(run(text, 1000, True, np.full(shape, 0.1), table=table))


@pytest.mark.parametrize("start", [0, 2.5])
@pytest.mark.parametrize("coefficient", [0.9, -1.5, 1.0, 0.0, np.nan, np.inf])
def test_linear_recurrence_is_bit_identical(start, coefficient, rng):
    text = """filter (int64 i, bool go, double[5] y) => (bool go_out, y_out, s) {
        go_out = Identity (go) x = Gather (table, i) scaled = Mul (y, k) y_out = Add (scaled, x) s = Identity (y_out) }"""
    table = rng.standard_normal((500, 5))
    assert_same_on_every_engine(run(text, 500, True, np.full(5, float(start)), table=table, k=np.float64(coefficient)))
    assert_same_on_every_engine(run(text, 500, True, np.full(5, float(start)), table=table, k=np.linspace(-1, 1, 5)))
    table[250, 3] = np.inf
    assert_same_on_every_engine(run(text, 500, True, np.full(5, float(start)), table=table, k=np.float64(coefficient)))


@pytest.mark.parametrize("bad", [None, np.inf, np.nan, 1e308])
@pytest.mark.parametrize("coefficient", [0.9, -1.01, 1.0, 0.0, 1e-300, 1e30, np.nan])
@pytest.mark.parametrize("n", [2, 16, 17, 18, 33, 500])
def test_linear_recurrence_of_wide_rows(n, coefficient, bad, rng):
    text = """filter (int64 i, bool go, double[4,10] y) => (bool go_out, y_out, s) {
        go_out = Identity (go) x = Gather (table, i) scaled = Mul (y, k) y_out = Add (x, scaled) s = Identity (y_out) }"""
    table = rng.standard_normal((500, 10))
    if bad is not None:
        table[n // 2, 3] = bad
    given = run(text, n, True, rng.standard_normal((4, 10)), table=table, k=np.float64(coefficient))
    expected, found = (in_engine(engine, given) for engine in ("interpret", "numpy"))
    for values, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(values, right, rtol=1e-11, atol=1e-13 if abs(coefficient) < 2 else 0)


def in_engine(engine, call):
    with options(engine=engine):
        return call()


# Failing iterations

GATHER = """failing (int64 i, bool go, double y) => (bool go_out, double y_out, double row, double other) {
    go_out = Identity (go) row = Gather (table, i) doubled = Add (row, row) y_out = %s other = Mul (doubled, doubled) }"""
DRAWING = """failing (int64 i, bool go, double y) => (bool go_out, double y_out, double row, double other) {
    go_out = Identity (go) z = RandomNormalLike (y) row = Gather (table, i) y_out = Add (y, z) other = Add (row, z) }"""
FEEDS = {"sum": "Add (y, doubled)", "stepped": "Tanh (doubled)", "kept": "Identity (y)"}


@pytest.mark.parametrize("k", [0, 1, 2, 7, 100, 299])
@pytest.mark.parametrize("feed", FEEDS)
def test_gather_that_leaves_its_table_fails_in_the_same_iteration(k, feed):
    table = np.arange(k) + 0.5
    expected = assert_same_on_every_engine(run(GATHER % FEEDS[feed], 300, True, 0.0, table=table), feed != "stepped")
    assert type(expected.error) is IterationError
    assert expected.error.iteration == k


@pytest.mark.parametrize("k", [1, 7, 100])
def test_results_before_a_failure_use_the_same_random_numbers(k):
    expected = assert_same_on_every_engine(run(DRAWING, 300, True, 0.0, table=np.arange(k) + 0.5))
    assert expected.error.iteration == k


@pytest.mark.parametrize("k", [1, 7, 100])
def test_recurrence_fails_in_the_same_iteration(k):
    text = """failing (int64 i, bool go, int64 n, double y) => (bool go_out, int64 n_out, double y_out, double row) {
        go_out = Identity (go) one = Constant <value_int = 1> () n_out = Add (n, one)
        row = Gather (table, n) y_out = Add (y, row) }"""
    expected = assert_same_on_every_engine(run(text, 300, True, 0, 0.0, table=np.arange(k) + 0.5))
    assert expected.error.iteration == k


def test_first_of_two_failing_nodes_is_named():
    text = """failing (int64 i, bool go, double y) => (bool go_out, double y_out, double a, double b) {
        go_out = Identity (go) a = Gather (long, i) b = Gather (short, i) y_out = Add (y, b) }"""
    tables = {"long": np.arange(9.0), "short": np.arange(5.0)}
    assert "short" not in str(assert_same_on_every_engine(run(text, 20, True, 0.0, **tables)).error)
    tables = {"long": np.arange(5.0), "short": np.arange(5.0)}
    assert "-> a failed" in str(assert_same_on_every_engine(run(text, 20, True, 0.0, **tables)).error)


def test_failure_in_a_loop_inside_is_reported_with_both_iterations():
    text = """outer (int64 i, bool go, double y) => (bool go_out, double y_out, double seen) {
        go_out = Identity (go)
        count = Constant <value_int = 4> ()
        y_out = Loop (count, go, y) <body = inner (int64 j, bool on, double z) => (bool on_out, double z_out) {
            on_out = Identity (on) place = Add (i, j) part = Gather (table, place) z_out = Add (z, part) }>
        seen = Identity (y_out) }"""
    expected = assert_same_on_every_engine(run(text, 50, True, 0.0, table=np.arange(20.0)))
    assert expected.error.iteration == 17
    assert "iteration 17 of" in str(expected.error)
    assert "iteration 3 of" in str(expected.error)


@pytest.mark.parametrize("k", [0, 3, 200])
def test_reshape_that_cannot_be_done_fails_in_the_same_iteration(k):
    text = """failing (int64 i, bool go, double y) => (bool go_out, double y_out, row) {
        go_out = Identity (go) axis = Constant <value_ints = [0]> () n = Gather (sizes, i) size = Unsqueeze (n, axis)
        row = Reshape (x, size) y_out = Identity (y) }"""
    sizes = np.full(300, 6)
    sizes[k] = 5
    assert assert_same_on_every_engine(run(text, 300, True, 0.0, x=np.ones((2, 3)), sizes=sizes)).error.iteration == k


@pytest.mark.parametrize("carries", [False, True])
def test_collected_value_that_changes_its_shape_is_refused_in_the_same_iteration(carries):
    text = """changing (int64 i, bool go, double y) => (bool go_out, double y_out, row) {
        go_out = Identity (go) axis = Constant <value_ints = [0]> () zero = Constant <value_ints = [0]> ()
        n = Gather (sizes, i) size = Unsqueeze (n, axis) row = Slice (x, zero, size) y_out = %s }"""
    sizes = np.array([2] * 40 + [3] * 40)
    feed = "ReduceSum <keepdims = 0> (row)" if carries else "Identity (y)"
    expected = assert_same_on_every_engine(run(text % feed, 80, True, 0.0, x=np.arange(5.0), sizes=sizes))
    assert type(expected.error) is CollectedError
    assert expected.error.iteration == 40


@pytest.mark.parametrize("limit", [0, 1, 7, 100])
def test_limit_of_iterations_ends_every_engine_at_the_same_place(limit):
    expected = assert_same_on_every_engine(
        run(GATHER % FEEDS["sum"], 300, True, 0.0, table=np.arange(300.0)), max_iterations=limit
    )
    assert type(expected.error) is IterationLimit
    assert expected.error.iteration == limit


# Iterations that never run leave no trace


@pytest.mark.parametrize("k", [1, 2, 7, 64, 65, 200])
@pytest.mark.parametrize("feed", FEEDS)
def test_nothing_after_the_end_is_seen(k, feed):
    text = (GATHER % FEEDS[feed]).replace("go_out = Identity (go)", "next = Add (i, one) go_out = Less (next, end)")
    captured = {"table": np.arange(k) + 0.5, "one": np.int64(1), "end": np.int64(k)}
    expected = assert_same_on_every_engine(run(text, 10**6, True, 0.0, **captured), feed != "stepped")
    assert expected.error is None
    assert len(expected.results[1]) == k


@pytest.mark.parametrize("k", [1, 7, 64, 65])
@pytest.mark.parametrize("kind", ["table", "recurrence"])
def test_no_random_number_is_drawn_for_an_iteration_that_never_runs(k, kind):
    goes = {"table": "row = Gather (table, i)", "recurrence": "row = Add (y, one)"}[kind]
    text = f"""drawing (int64 i, bool go, double y) => (bool go_out, double y_out, double z, double u) {{
        {goes} go_out = Less (row, end) z = RandomNormalLike (y) y_out = Identity (row) u = RandomUniformLike (y) }}"""
    captured = {"end": np.float64(k)} | ({"table": np.arange(1, 1001.0)} if kind == "table" else {"one": np.float64(1)})
    expected = assert_same_on_every_engine(run(text, 1000, True, 0.0, **captured))
    assert len(expected.results[1]) == k


def test_random_numbers_come_node_by_node_within_an_iteration():
    text = """drawing (int64 i, bool go, float[2] y) => (bool go_out, float[2] y_out, a, b, c, d) {
        go_out = Identity (go) a = RandomNormalLike (y) b = RandomUniform <shape = [3]> ()
        d = RandomNormal <shape = [2], seed = 2.0> ()
        half = Constant <value_floats = [0.5, 0.2]> () c = Bernoulli (half) y_out = Add (y, a) }"""
    assert_same_on_every_engine(run(text, 300, True, np.zeros(2, np.float32)))


@pytest.mark.parametrize("order", ["a, b", "b, a"])
def test_random_numbers_of_recurrence_and_rest_come_in_the_order_of_the_nodes(order):
    first, second = order.split(", ")
    lines = {"a": "a = RandomNormalLike (y)", "b": "b = RandomNormalLike (y)"}
    text = f"""drawing (int64 i, bool go, double y) => (bool go_out, double y_out, double s) {{
        go_out = Identity (go) {lines[first]} {lines[second]} t = Add (y, a) y_out = Tanh (t) s = Mul (b, b) }}"""
    assert_same_on_every_engine(run(text, 300, True, 0.0), exact=False)


def test_random_numbers_inside_a_branch_are_drawn_only_there():
    text = """drawing (int64 i, bool go, double y) => (bool go_out, double y_out, double s) {
        go_out = Identity (go) flag = Gather (flags, i)
        s = If (flag) <then_branch = t () => (a) { a = RandomNormalLike (zero) },
                       else_branch = e () => (b) { c = RandomUniformLike (zero) b = Neg (c) }>
        y_out = Add (y, s) }"""
    flags = np.random.default_rng(0).random(300) < 0.5
    assert_same_on_every_engine(run(text, 300, True, 0.0, flags=flags, zero=np.float64(0)))


# Conditions and signatures

COUNTING = """counting (int64 i, bool c, int64 n) => (bool c_out, int64 n_out, int64 seen, bool was) {
    one = Constant <value_int = 1> () limit = Constant <value_int = %d> ()
    n_out = Add (n, one) c_out = Less (n_out, limit) seen = Identity (n) was = Identity (c) }"""


@pytest.mark.parametrize("limit", [-1, 1, 2, 5, 200])
@pytest.mark.parametrize(("m", "cond"), [(None, True), (10, True), (10, None), (300, True), (0, True), (5, False), (-3, True)])
@pytest.mark.parametrize("obey", [False, True])
def test_condition_of_a_recurrence(limit, m, cond, obey):
    assert_same_on_every_engine(run(COUNTING % limit, m, cond, 0), obey_body_condition=obey)


@pytest.mark.parametrize("shape", [[], [1]])
@pytest.mark.parametrize("k", [0, 1, 5, 100])
def test_condition_of_a_table(shape, k):
    text = f"""flags (int64 i, bool{shape or ""} c, double y) => (bool{shape or ""} c_out, double y_out, int64 seen) {{
        c_out = Gather (flags, i) one = Constant <value = double {{1.0}}> () y_out = Add (y, one) seen = Identity (i) }}"""
    flags = np.arange(300).reshape(300, *shape) != k
    expected = assert_same_on_every_engine(run(text, 300, True, 0.0, flags=flags))
    assert expected.results[0] == k + 1


def test_condition_that_is_no_boolean_is_refused_in_the_same_iteration():
    text = """numbers (int64 i, bool c, double y) => (int64 c_out, double y_out) {
        c_out = Gather (flags, i) y_out = Add (y, y) }"""
    expected = assert_same_on_every_engine(run(text, 300, True, 1.0, flags=np.array([1] * 40 + [2] * 260)))
    assert expected.error.iteration == 40


@pytest.mark.parametrize("text", [
    "swap (int64 i, bool c, float x, float y) => (bool c, float y, float x) { }",
    "turn (int64 i, bool c, float x, float y) => (bool c, float y, float z, float x, float x) { z = Add (x, y) }",
    "same (int64 i, bool c, float x, float y) => (bool c, float z, float z, float z) { z = Mul (x, y) }",
    "outer (int64 i, bool c, float x, float y) => (bool c, float k, float x, float k, int64 i) { }",
    "constant (int64 i, bool c, float x, float y) => (bool c, float x, float y, float s) <float s = {3}> { }",
], ids=lambda text: text.split()[0])  # fmt: skip
@pytest.mark.parametrize("m", [0, 1, 2, 7, 300])
def test_values_that_are_carried_without_a_node(text, m):
    captured = {"k": np.float32(5)} if text.startswith("outer") else {}
    assert_same_on_every_engine(run(text, m, True, np.float32(1.5), np.float32(-0.5), **captured))


@pytest.mark.parametrize("m", [0, 1, 2, 7, 300])
def test_values_that_grow(m):
    text = """growing (int64 i, bool go, double[k] v, seq(double[k]) s) => (bool go_out, v_out, s_out, double total, int64 size) {
        go_out = Identity (go) axis = Constant <value_ints = [0]> () number = Cast <to = 11> (i) row = Unsqueeze (number, axis)
        v_out = Concat <axis = 0> (v, row) s_out = SequenceInsert (s, v_out)
        total = ReduceSum <keepdims = 0> (v_out) size = SequenceLength (s_out) }"""
    assert_same_on_every_engine(run(text, m, True, np.array([0.5]), [np.array([1.0])]), exact=False)


SEQUENCES = {
    "alike": [np.arange(3.0) + k for k in range(200)],
    "one of them longer": [np.arange(4.0 if k == 90 else 3.0) for k in range(200)],
    "numbers": [np.array(0.5 * k) for k in range(200)],
}


@pytest.mark.parametrize("start", [0, -100, -200, 50, 150, -201])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_elements_of_a_sequence(sequence, start):
    text = """picking (int64 i, bool go, double y) => (bool go_out, double y_out) {
        go_out = Identity (go) at = Add (i, start) x = SequenceAt (s, at) m = ReduceMax <keepdims = 0> (x) y_out = Add (y, m) }"""
    expected = assert_same_on_every_engine(run(text, 100, True, 0.25, s=SEQUENCES[sequence], start=np.int64(start)))
    assert (expected.error is not None) == (start in (150, -201))


def test_value_that_changes_its_type_or_rank_when_first_carried():
    text = """widening (int64 i, bool go, double[?] y) => (bool go_out, y_out, double s) {
        go_out = Identity (go) y_out = Mul (y, k) s = ReduceMax <keepdims = 0> (y_out) }""".replace("double[?]", "double[]")
    assert_same_on_every_engine(run(text, 50, True, np.float64(2), k=np.full((2, 3), 0.5)))
    assert_same_on_every_engine(run(text, 50, True, np.full((3,), 2.0), k=np.full((2, 1), 0.5)))


def test_branch_that_gives_another_shape_in_some_iterations():
    text = """changing (int64 i, bool go, double[] y) => (bool go_out, y_out, double s) {
        go_out = Identity (go) flag = Gather (flags, i)
        y_out = If (flag) <then_branch = t () => (a) { a = Mul (y, k) },
                          else_branch = e () => (b) { b = ReduceMax <keepdims = 0> (y) }>
        s = ReduceMax <keepdims = 0> (y_out) }"""
    flags = np.random.default_rng(0).random(100) < 0.5
    assert_same_on_every_engine(run(text, 100, True, np.float64(2), flags=flags, k=np.array([0.5, 1.0, 1.5])))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_iteration_number_has_the_rank_that_the_body_declares(shape):
    told = list(shape) or ""
    text = f"""numbered (int64{told} i, bool go, int64 y) => (bool go_out, y_out, row) {{
        go_out = Identity (go) row = Gather (table, i) y_out = Add (y, i) }}"""
    assert_same_on_every_engine(run(text, 20, True, 0, table=np.arange(40).reshape(20, 2)))


def test_negative_numbers_count_from_the_end_of_a_table():
    text = """back (int64 i, bool go, double y) => (bool go_out, y_out, row) {
        go_out = Identity (go) j = Neg (i) row = Gather (table, j) y_out = Add (y, row) }"""
    expected = assert_same_on_every_engine(run(text, 200, True, 0.0, table=np.arange(150.0)))
    assert expected.error.iteration == 151


def test_text_is_carried_and_collected():
    text = """telling (int64 i, bool go, string s) => (bool go_out, string s_out, string row) {
        go_out = Identity (go) row = Gather (pieces, i) s_out = StringConcat (s, row) }"""
    pieces = np.array([f"<{k}>" for k in range(100)], object)
    assert_same_on_every_engine(run(text, 100, True, np.array("", object), pieces=pieces))


@pytest.mark.parametrize("length", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("reverse", [0, 1])
def test_scan_in_either_direction(length, reverse, rng):
    body = (
        "step (double[3] y, double[3] x) => (y_out, s, t) { z = Mul (x, x) y_out = Add (y, z) s = Identity (y_out) t = Neg (x) }"
    )
    x = rng.standard_normal((3, length))
    directions = {"scan_input_directions": [reverse], "scan_output_directions": [reverse, 1 - reverse]}
    assert_same_on_every_engine(
        lambda: scan(np.zeros(3), x, body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1, 0], **directions)
    )


@pytest.mark.parametrize("engine_runs", [2, 3])
def test_second_run_of_a_body_with_other_types_and_shapes(engine_runs):
    text = (
        """any (int64 i, bool go, y) => (bool go_out, y_out, s) { go_out = Identity (go) y_out = Mul (y, y) s = Identity (y) }"""
    )
    starts = [np.float32(1.5), np.full((2,), 0.5), np.full((2, 1), 3), np.float64(1.01), np.float32(1.5)]
    for _ in range(engine_runs):
        for start in starts:
            assert_same_on_every_engine(run(text, 9, True, start))


def test_what_a_loop_was_given_is_not_changed_by_any_engine(rng):
    text = """inplace (int64 i, bool go, double[4] y, double[4] z) => (bool go_out, y_out, z_out, s) {
        go_out = Identity (go) y_out = Add (y, x) t = Mul (z, k) z_out = Add (t, y) s = Identity (y) }"""
    y, z, x, k = given = [rng.standard_normal(4) for _ in range(4)]
    copies = [value.copy() for value in given]
    expected = assert_same_on_every_engine(run(text, 50, True, y, z, x=x, k=k))
    for value, copy in zip(given, copies, strict=True):
        assert np.array_equal(value, copy)
        assert not any(np.shares_memory(value, result) for result in expected.results)
