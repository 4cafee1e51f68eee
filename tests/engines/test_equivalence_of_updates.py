"""Every engine gives what ``interpret`` gives where a program writes over memory that it has: scatters, growing arrays,
values that are carried; and where it takes views for copies and products for sums."""

import numpy as np
import pytest
from blocks_that_succeed import ends_in_an_error, no_block_fails, run  # noqa: F401  (a fixture for all tests here)
from equivalence import assert_same_on_every_engine

from mdf_loop import options

N = 60


TYPES = {"double": np.float64, "float": np.float32}


# Scatters into what is carried

SCATTERS = {
    "one row of a vector": "at = Unsqueeze (i, last) y_out = ScatterND (y, at2, new)",
    "read before": "old = Gather (y, where) sum = Add (old, new) y_out = ScatterND (y, at2, sum)",
    "a view read before and after": "old = Gather (y, where) y_out = ScatterND (y, at2, new) extra = Add (old, new)",
    "the one before read after": "y_out = ScatterND (y, at2, new) extra = Sub (y, new)",
    "the one before collected": "y_out = ScatterND (y, at2, new) extra = Identity (y)",
    "the new one collected": "y_out = ScatterND (y, at2, new) extra = Identity (y_out)",
    "a slice of the new one collected": "y_out = ScatterND (y, at2, new) extra = Slice (y_out, three, seven)",
    "a slice of the one before put in": "part = Slice (y, three, seven) y_out = ScatterND (y, four, part)",
    "twice": "y_1 = ScatterND (y, at2, new) y_out = ScatterND (y_1, four, y_part)",
    "elements": "y_out = ScatterElements (y, where, new)",
    "elements from the end": "y_out = ScatterElements <axis = -1> (y, minus, new)",
    "added up": 'y_out = ScatterND <reduction = "add"> (y, at2, new)',
    "in a branch": "c = Less (i, half) y_out = If (c) <then_branch = t () => (a) { a = ScatterND (y, at2, new) }, "
    "else_branch = e () => (b) { b = Identity (y) }>",
}


@pytest.mark.parametrize("how", SCATTERS)
@pytest.mark.parametrize("kind", ["double", "int64", "float"])
def test_scatter_into_what_is_carried(how, kind, rng):
    extra = "extra" if "extra =" in SCATTERS[how] else "new"
    text = f"""table (int64 i, bool go, {kind}[12] y) => (bool go_out, y_out, {extra}_out)
        <int64[1] last = {{0}}, int64[1] three = {{3}}, int64[1] seven = {{7}}, int64[4,1] four = {{5, 0, 11, -2}},
         int64 half = {{30}}, int64 size = {{12}}, int64[1] minus = {{-3}}> {{
        go_out = Identity (go) j = Mod (i, size) where = Unsqueeze (j, last) at2 = Unsqueeze (where, last)
        new = Gather (values, where) y_part = Slice (values, three, seven) {SCATTERS[how]} {extra}_out = Identity ({extra}) }}"""
    dtype = {"double": np.float64, "float": np.float32}.get(kind, np.int64)
    start, values = rng.integers(-9, 9, 12).astype(dtype), rng.integers(-9, 9, 12).astype(dtype)
    before = start.copy()
    assert_same_on_every_engine(run(text, N, start, values=values))
    np.testing.assert_array_equal(start, before)


def test_scatter_of_rows_and_of_single_elements(rng):
    text = """table (int64 i, bool go, double[5,4] y, double[5,4] z) => (bool go_out, y_out, z_out)
        <int64[1] one = {0}, int64[1] last = {-1}, int64[2] shape = {1, 2}, int64 rows = {5}, int64 columns = {4}> {
        go_out = Identity (go) r = Mod (i, rows) c = Mod (i, columns) r1 = Unsqueeze (r, one) c1 = Unsqueeze (c, one)
        row = Gather (z, r) y_out = ScatterND (y, r1, row)
        rc = Concat <axis = 0> (r1, c1) at = Reshape (rc, shape) element = GatherND (y_out, at) twice = Add (element, element)
        half = Mul (twice, k) z_out = ScatterND (z, at, half) }"""
    assert_same_on_every_engine(run(text, N, rng.random((5, 4)), rng.random((5, 4)), k=np.float64(0.25)))


@pytest.mark.parametrize("view", ["Gather (x, one)", "Slice (x, from, to)", "Reshape (x, shape)", "Transpose (x)"])
def test_update_of_a_view_that_an_inner_loop_multiplies(view, rng):
    shape = (3,) if "Gather" in view else (1, 3) if "Slice" in view else (3, 3)
    text = f"""outer (int64 i, bool go, double[3,3] x) => (bool go_out, x_out, seen)
        <int64 one = {{1}}, int64[1] from = {{2}}, int64[1] to = {{3}}, int64[2] shape = {{3, -1}}, int64 five = {{5}},
         int64[1] axis = {{0}}, double tiny = {{0.001}}> {{
        go_out = Identity (go) r = {view}
        total = Loop (five, go, start) <body = inner (int64 j, bool on, double[3] a) => (bool on_out, a_out) {{
            on_out = Identity (on) b = MatMul (r, a) c = ReduceSum <keepdims = 0> (b) d = Mul (a, c) a_out = Tanh (d) }}>
        sum = ReduceSum <keepdims = 0> (total) new = Mul (update, sum) s = ScatterND (r, at, new)
        t = ReduceSum <keepdims = 0> (s) seen = Add (x, t) x_out = Mul (seen, tiny) }}"""
    given = {"start": rng.random(3), "at": np.zeros((1, 1), np.int64), "update": rng.random((1, *shape[1:]))}
    assert_same_on_every_engine(run(text, N, rng.random((3, 3)), **given), exact=False)


@ends_in_an_error
@pytest.mark.parametrize("at", [12, -13])
@pytest.mark.parametrize("op", ["y_out = ScatterND (y, at2, new)", "x = Gather (y, where) y_out = Add (y, x)"])
def test_place_out_of_range_fails_in_the_same_iteration(op, at, rng):
    text = f"""table (int64 i, bool go, double[12] y) => (bool go_out, y_out) <int64[1] last = {{0}}> {{
        go_out = Identity (go) where = Gather (places, i) w = Unsqueeze (where, last) at2 = Unsqueeze (w, last)
        new = Gather (values, last) {op.replace("where)", "w)")} }}"""
    places = rng.integers(-12, 12, N)
    places[40] = at
    expected = assert_same_on_every_engine(run(text, N, rng.random(12), values=rng.random(12), places=places))
    assert expected.error.iteration == 40


# Arrays that grow


GROWING = {
    "one row": "y_out = Concat <axis = 0> (y, row)",
    "two rows": "two = Concat <axis = 0> (row, row) y_out = Concat <axis = 0> (y, two)",
    "in front": "y_out = Concat <axis = 0> (row, y)",
    "begun anew": "c = Less (size, limit) y_out = If (c) <then_branch = t () => (a) { a = Concat <axis = 0> (y, row) }, "
    "else_branch = e () => (b) { b = Identity (row) }>",
    "and a slice of the end": "tail = Slice (y, minus, huge) row2 = Mul (tail, half) y_out = Concat <axis = 0> (y, row2)",
    "and the one before": "y_out = Concat <axis = 0> (y, row) total = ReduceSum <keepdims = 0> (y)",
}


@pytest.mark.parametrize("how", GROWING)
@pytest.mark.parametrize("shape", ["", ",3"])
def test_growing_array(how, shape, rng):
    more = "total" if "total =" in GROWING[how] else "size"
    text = f"""cache (int64 i, bool go, double[n{shape}] y, double[n{shape}] z) => (bool go_out, y_out, z_out, {more}_out)
        <int64[1] zero = {{0}}, int64[1] minus = {{-1}}, int64[1] huge = {{9223372036854775807}}, int64 limit = {{20}}> {{
        go_out = Identity (go) w = Unsqueeze (i, zero) row = Gather (rows, w)
        dims = Shape (y) size = Gather (dims, first) {GROWING[how]} z_out = Concat <axis = 0> (z, row)
        {more}_out = Identity ({more}) }}"""
    rows = rng.random((N, *(int(s) for s in shape.split(",") if s)))
    captured = {"rows": rows, "first": np.int64(0)} | ({"half": np.float64(0.5)} if "half" in text else {})
    given = rows[:2].copy()
    expected = assert_same_on_every_engine(run(text, N, given, given, **captured), exact="total" not in text)
    assert len(expected.results[1]) == 2 + N
    np.testing.assert_array_equal(given, rows[:2])


@ends_in_an_error
def test_row_of_another_shape_does_not_grow_an_array(rng):
    text = """cache (int64 i, bool go, double[n,3] y) => (bool go_out, y_out) <int64[1] zero = {0}> {
        go_out = Identity (go) c = Less (i, k) y_out = If (c) <then_branch = t () => (a) { a = Concat <axis = 0> (y, row) },
        else_branch = e () => (b) { b = Concat <axis = 0> (y, column) }> }"""
    given = {"row": rng.random((1, 3)), "column": rng.random((1, 1)), "k": np.int64(30)}
    expected = assert_same_on_every_engine(run(text, N, rng.random((2, 3)), **given))
    assert expected.error.iteration == 30


# Values that are carried, written over

ROUNDS = {
    "read once": "a = Add (y, x) y_out = Mul (a, half)",
    "read twice": "a = Add (y, x) b = Mul (y, half) y_out = Sub (b, a)",
    "read at last": "a = Mul (x, half) b = Tanh (a) y_out = Sub (b, y)",
    "viewed": "v = Reshape (y, shape) a = Add (v, v) b = Reshape (a, flat) y_out = Mul (b, quarter)",
    "viewed to the end": "v = Transpose (y2) w = Reshape (v, flat) a = Add (y, x) b = Mul (a, quarter) y_out = Sub (b, w)",
    "chosen": "c = Less (y, x) y_out = Where (c, x, y)",
    "chosen the other way": "c = Less (x, y) y_out = Where (c, y, x)",
    "exchanged": "y_out = Mul (z, half)",
    "clipped": "a = Add (y, x) y_out = Min (a, half)",
    "shifted": "a = Slice (y, one, huge) b = Slice (y, zero, one) c = Concat <axis = 0> (a, b) y_out = Mul (c, half)",
    "turned over": "y_out = Slice (y, minus, least, zero, minus)",
    "of a product": "a = MatMul (matrix, y) y_out = Mul (a, half)",
    "a sum of itself": "s = ReduceSum <keepdims = 1> (y) a = Add (y, s) y_out = Mul (a, tiny)",
}


@pytest.mark.parametrize("how", ROUNDS)
@pytest.mark.parametrize("collected", ["y", "y_out", "x"])
def test_value_that_is_carried(how, collected, rng):
    text = f"""round (int64 i, bool go, double[6] y, double[6] z) => (bool go_out, y_out, z_out, kept)
        <int64[2] shape = {{2, 3}}, int64[1] flat = {{6}}, int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] minus = {{-1}},
         int64[1] huge = {{9223372036854775807}}, int64[1] least = {{-9223372036854775807}},
         double half = {{0.5}}, double quarter = {{0.25}}, double tiny = {{0.1}}> {{
        go_out = Identity (go) x = Gather (table, i) y2 = Reshape (y, shape) {ROUNDS[how]}
        z_out = Add (y, x) kept = Identity ({collected}) }}"""
    start, table = rng.standard_normal(6), rng.standard_normal((N, 6))
    captured = {"table": table} | ({"matrix": rng.random((6, 6)) / 6} if "matrix" in text else {})
    before = start.copy()
    assert_same_on_every_engine(run(text, N, start, start, **captured), exact=False)
    np.testing.assert_array_equal(start, before)
    alone = (
        text.replace(", double[6] z)", ")")
        .replace("z_out, ", "")
        .replace("z_out = Add (y, x)", "")
        .replace("(z, half)", "(x, half)")
    )
    assert_same_on_every_engine(run(alone, N, start, **captured), exact=False)


PARTS = {
    "turned": "a = Slice (y, one, huge) b = Slice (y, zero, one) y_out = Concat <axis = 0> (a, b)",
    "turned the other way": "a = Slice (y, zero, minus) b = Slice (y, minus, huge) y_out = Concat <axis = 0> (b, a)",
    "chosen": "a = Slice (y, minus, least, zero, minus) c = Less (a, x) y_out = Where (c, a, x)",
    "less a row for all": "v = Transpose (y) y_out = Sub (v, row)",
    "a product and itself": "v = Transpose (y) w = Tanh (v) y_out = Gemm (w, x, v)",
    "logarithms": "v = Transpose (y) y_out = LogSoftmax (v)",
    "turned, then halved": "a = Slice (y, one, huge) b = Slice (y, zero, one) c = Concat <axis = 0> (a, b) y_out = Mul (c, half)",
}


@pytest.mark.parametrize("n", [4, 30])
@pytest.mark.parametrize("how", PARTS)
def test_value_made_of_parts_of_the_one_before(how, n, rng):
    text = f"""parts (int64 i, bool go, double[{n},{n}] y) => (bool go_out, y_out) <int64[1] zero = {{0}},
        int64[1] one = {{1}}, int64[1] minus = {{-1}}, int64[1] huge = {{99}}, int64[1] least = {{-99}}, double half = {{0.5}}> {{
        go_out = Identity (go) x = Gather (table, i) row = Slice (x, zero, one) {PARTS[how]} }}"""
    table = rng.standard_normal((N, n, n)) / n
    assert_same_on_every_engine(run(text, N, rng.random((n, n)), table=table), exact=False)


@pytest.mark.parametrize("same", ["Max (y)", "Min (y)", "Cast <to = 11> (y)"])
def test_operator_that_gives_back_what_it_got(same, rng):
    text = f"""same (int64 i, bool go, double[2,3] y, double[2,3] z) => (bool go_out, y_out, z_out) {{
        go_out = Identity (go) a = {same} b = Tanh (a) y_out = Sub (b, y) c = Add (a, z) z_out = Tanh (c) }}"""
    assert_same_on_every_engine(run(text, N, rng.random((2, 3)), rng.random((2, 3))), exact=False)


def test_number_as_an_array_of_one_element(rng):
    text = """single (int64 i, bool go, int64 k, double x, bool b, double[9] y)
        => (bool go_out, k_out, x_out, b_out, y_out, ks, xs, bs)
        <int64[1] zero = {0}, int64[2] both = {0, 1}, int64[1] one = {1}, int64[3] cube = {1, 1, 1}, int64 nine = {9},
         double half = {0.5}> {
        go_out = Identity (go) k1 = Unsqueeze (k, zero) k_next = Add (k, i) k_mod = Mod (k_next, nine) k_out = Mul (k_mod, sign)
        at = Unsqueeze (k, both) old = Gather (y, k1) ks = Reshape (k_out, cube) x1 = Unsqueeze (x, zero)
        new = Add (old, x1) y_out = ScatterND (y, at, new) taken = Gather (y_out, k) x_out = Mul (taken, half)
        xs = Unsqueeze (x_out, both) b_out = Not (b) bs = Reshape (b_out, one) }"""
    for sign in (1, -1):
        assert_same_on_every_engine(run(text, N, np.int64(3 * sign), 0.5, np.True_, rng.random(9), sign=np.int64(sign)))


# Wide rows

WIDE = {
    "one": "a = Mul (x, k) y_out = Add (y, a)",
    "several": "a = Mul (x, k) b = Sub (a, w) c = Abs (b) y1 = Add (y, c) y2 = Mul (y1, half) y_out = Min (y2, a)",
    "of another shape": "a = Mul (x, column) y_out = Add (y, a)",
    "of rows of another rank": "r = Gather (narrow, i) a = Mul (r, w) b = Mul (a, k) y_out = Add (y, b)",
    "with a table of the body": "a = Add (x, fixed) y_out = Add (y, a)",
    "of a scanned value": "a = Mul (z, k) b = Add (a, x) y1 = Add (y, b) y_out = Mul (y1, half)",
    "fed on": "a = Mul (x, k) b = Add (y, a) y_out = Identity (a)",
    "collected too": "a = Mul (x, k) y_out = Add (y, a) extra = Identity (a)",
    "reshaped": "a = Mul (x, k) b = Reshape (a, flat) c = Reshape (b, shape) y_out = Add (y, c)",
    "into the condition": "a = Abs (x) b = ReduceMax <keepdims = 0> (a) y_out = Add (y, a) go_on = Less (b, limit)",
    "sines": "a = Sin (x) b = Div (a, k) y1 = Add (y, b) y_out = Mul (y1, half)",
}


@pytest.mark.parametrize("n", [2, 6, 17, 18, 75])
@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("how", WIDE)
def test_wide_rows(how, kind, n, rng):
    extra = "extra" if "extra =" in WIDE[how] else "x"
    go = "go_on" if "go_on =" in WIDE[how] else "go"
    text = f"""wide (int64 i, bool go, {kind}[5,400] y) => (bool go_out, y_out, kept)
        <int64[1] flat = {{2000}}, int64[2] shape = {{5, 400}}, {kind}[5,1] fixed = {{1.0, 2.0, -1.0, 0.5, 4.0}}> {{
        x = Gather (table, i) z = Gather (other, i) {WIDE[how]} go_out = Identity ({go})
        kept = ReduceSum <keepdims = 0> ({extra}) }}"""
    dtype = TYPES[kind]
    table, other = (rng.standard_normal((75, 5, 400)).astype(dtype) for _ in range(2))
    table[60, 2, 7] = 50
    given = {
        "table": table,
        "other": other,
        "k": dtype(0.5),
        "w": rng.standard_normal((5, 400)).astype(dtype),
        "half": dtype(0.5),
    }
    given |= {"column": rng.standard_normal((5, 1)).astype(dtype), "limit": dtype(40)}
    given["narrow"] = rng.standard_normal((75, 400)).astype(dtype)
    captured = {name: value for name, value in given.items() if f"{name})" in text or f"{name}," in text}
    call = run(text, n, rng.standard_normal((5, 400)).astype(dtype), **captured)
    for chosen in ({}, {"obey_body_condition": True}):
        with options(engine="interpret", **chosen):
            expected = call()
        with options(engine="numpy", **chosen):
            found = call()
        for a, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                a, e, rtol=2e-5 if kind == "float" else 1e-12, atol=1e-4 if kind == "float" else 1e-10, strict=True
            )


@pytest.mark.parametrize("same", ["Identity", "Max", "Min", "Sum", "Clip", "Dropout"])
@pytest.mark.parametrize("kept", ["b", "old"])
def test_wide_row_that_is_given_back(kept, same, rng):
    text = f"""wide (int64 i, bool go, double[5,400] y, double[5,400] z) => (bool go_out, y_out, z_out, kept) {{
        go_out = Identity (go) x = Gather (table, i) a = Mul (x, k) b = {same} (a) y_out = {same} (a)
        old = Sub (a, y) c = Add (z, old) z_out = Mul (c, k) kept = Neg ({kept}) again = Identity (b) }}"""
    text = text if kept == "old" else text.replace("kept) {", "b) {")
    start = rng.random((5, 400))
    assert_same_on_every_engine(run(text, N, start, start, table=rng.random((N, 5, 400)), k=np.float64(0.5)), exact=False)


# Convolutions

CONVOLUTIONS = {
    "one channel": ((1, 1, 9, 8), (1, 1, 3, 3), "pads = [1, 1, 1, 1]"),
    "as many filters as channels": ((1, 3, 6, 7), (3, 3, 3, 3), "pads = [1, 1, 1, 1]"),
    "even filters": ((1, 2, 6, 7), (2, 2, 2, 4), 'auto_pad = "SAME_UPPER"'),
    "even filters before": ((1, 2, 6, 7), (2, 2, 2, 4), 'auto_pad = "SAME_LOWER"'),
    "far apart": ((1, 2, 9, 9), (2, 2, 3, 3), "pads = [2, 2, 2, 2], dilations = [2, 2]"),
    "one axis": ((1, 4, 30), (4, 4, 5), "pads = [2, 2]"),
    "three axes": ((1, 2, 4, 5, 6), (2, 2, 3, 1, 3), "pads = [1, 0, 1, 1, 0, 1]"),
    "padded on one side": ((1, 1, 8, 8), (1, 1, 3, 3), "pads = [2, 0, 0, 2]"),
    "single points": ((1, 5, 4, 4), (5, 5, 1, 1), "strides = [1, 1]"),
    "groups": ((1, 4, 6, 6), (4, 2, 3, 3), "pads = [1, 1, 1, 1], group = 2"),
    "two samples": ((2, 2, 6, 6), (2, 2, 3, 3), "pads = [1, 1, 1, 1]"),
    "many filters": ((1, 40, 5, 5), (40, 40, 3, 3), "pads = [1, 1, 1, 1]"),
}


@pytest.mark.parametrize("bad", [None, np.inf, np.nan])
@pytest.mark.parametrize("bias", ["", ", b"])
@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("how", CONVOLUTIONS)
def test_convolution_of_what_is_carried(how, kind, bias, bad, rng):
    shape, weights, layout = CONVOLUTIONS[how]
    text = f"""image (int64 i, bool go, {kind}[{",".join(map(str, shape))}] x) => (bool go_out, x_out, trace) {{
        go_out = Identity (go) c = Conv <{layout}> (x, w{bias}) x_out = Tanh (c) d = Conv <{layout}> (x_out, w)
        trace = Identity (d) }}"""
    dtype = TYPES[kind]
    start, w = rng.standard_normal(shape).astype(dtype), rng.standard_normal(weights).astype(dtype) / 4
    if bad is not None:
        start.flat[11] = bad
    captured = {"w": w} | ({"b": rng.standard_normal(weights[0]).astype(dtype)} if bias else {})
    call = run(text, 3 if bad is not None else 8, start, **captured)
    found = {}
    for engine in ("interpret", "numpy"):
        with options(engine=engine):
            found[engine] = call()
    for a, e in zip(found["numpy"], found["interpret"], strict=True):
        np.testing.assert_allclose(
            a, e, rtol=1e-3 if kind == "float" else 1e-10, atol=1e-4 if kind == "float" else 1e-11, strict=True
        )


def test_results_that_come_from_one_array_share_no_memory():
    text = """shared (int64 i, bool go, int64[3,3] c, int64[1,3] p, int64[3,3] q) => (bool go, c, p_out, q_out)
        <int64[2] size = {3, 3}, int64[1] two = {2}, int64[1] huge = {9223372036854775807}> {
        q_out = Expand (c, size) p_out = Slice (q, two, huge) }"""
    given = [np.arange(9).reshape(3, 3), np.zeros((1, 3), np.int64), np.ones((3, 3), np.int64)]
    call = run(text, 20, *given)
    assert_same_on_every_engine(call)
    for engine in ("interpret", "numpy"):
        with options(engine=engine):
            results = call()
        assert not any(np.shares_memory(a, b) for k, a in enumerate(results) for b in (*results[:k], *given))


def test_wide_row_that_is_collected_under_another_name(rng):
    text = """wide (int64 i, bool go, double[5,400] y) => (bool go_out, y_out, kept) {
        go_out = Identity (go) x = Gather (table, i) a = Mul (x, k) y_out = Add (y, a) kept = Identity (a) }"""
    call = run(text, 75, rng.standard_normal((5, 400)), table=rng.standard_normal((75, 5, 400)), k=np.float64(0.5))
    assert_same_on_every_engine(call)


# Counters

COUNTERS = {
    "alone": "n = Cast <to = 7> (flag) t_out = Add (t, n)",
    "the other way round": "n = Cast <to = 7> (flag) t_out = Add (n, t)",
    "asked for any": "n = Cast <to = 7> (flag) t_out = Add (t, n) any = ReduceMax <keepdims = 0> (n) go_on = Cast <to = 9> (any)",
    "asked for any, kept": "n = Cast <to = 7> (flag) t_out = Add (t, n) any = ReduceMax (n) extra = Identity (any)",
    "any collected": "n = Cast <to = 7> (flag) t_out = Add (t, n) extra = ReduceMax <keepdims = 0> (n)",
    "collected": "n = Cast <to = 7> (flag) t_out = Add (t, n) extra = Identity (t_out)",
    "numbers collected": "n = Cast <to = 7> (flag) t_out = Add (t, n) extra = Identity (n)",
    "read": "n = Cast <to = 7> (flag) t_out = Add (t, n) extra = ReduceSum <keepdims = 0> (t)",
    "read afterwards": "n = Cast <to = 7> (flag) t_out = Add (t, n) extra = ReduceSum <keepdims = 0> (t_out)",
    "numbers read": "n = Cast <to = 7> (flag) t_out = Add (t, n) extra = ReduceSum <keepdims = 0> (n)",
    "of flags that go round": "n = Cast <to = 7> (done_out) t_out = Add (t, n)",
    "of flags of the iteration before": "n = Cast <to = 7> (done) t_out = Add (t, n)",
    "of flags that are collected": "n = Cast <to = 7> (flag) t_out = Add (t, n) extra = Identity (flag)",
    "taken away": "n = Cast <to = 7> (flag) t_out = Sub (t, n)",
}


@pytest.mark.parametrize("n", [3, 254, 256, 257, 700])
@pytest.mark.parametrize("how", COUNTERS)
def test_counter_of_flags(how, n, rng):
    extra = "extra" if "extra =" in COUNTERS[how] else "x"
    go = "go_on" if "go_on =" in COUNTERS[how] else "go"
    text = f"""counting (int64 i, bool go, bool[2000] done, int64[2000] t) => (bool go_out, done_out, t_out, kept) {{
        x = Gather (table, i) flag = Greater (x, limit) done_out = Or (done, flag) {COUNTERS[how]} go_out = Identity ({go})
        kept = Identity ({extra}) }}"""
    table = rng.random((700, 2000))
    table[300:] /= 2
    start = np.full(2000, 2**63 - 100)
    for limit in (0.4, 0.6):
        given = {"table": table, "limit": np.float64(limit)}
        call = run(text, n, np.zeros(2000, bool), start, **given)
        assert_same_on_every_engine(call)
        assert_same_on_every_engine(call, obey_body_condition=True)
    assert start[0] == 2**63 - 100


@pytest.mark.parametrize("transposed", [False, True])
def test_large_matrix_of_a_recurrence_wherever_it_begins(transposed, rng):
    memory = rng.standard_normal(400 * 400 + 1)[1:].reshape(400, 400) / 400
    matrix = memory.T if transposed else memory
    text = """power (int64 i, bool go, double[400] y) => (bool go_out, y_out) { go_out = Identity (go) z = MatMul (A, y)
        y_out = Tanh (z) }"""
    assert_same_on_every_engine(run(text, N, rng.standard_normal(400), A=matrix), exact=False)
