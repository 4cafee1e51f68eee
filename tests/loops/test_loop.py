"""What Loop means: every row of the design's table of semantics, and every case in which its peers disagree."""

import warnings

import numpy as np
import pytest
from bodies import (
    COUNTER,
    ITERATIONS,
    RUNNING_SUM,
    SWAP,
    as_onnxruntime,
    counting_to,
    model,
    onnxruntime_run,
    passing,
    python_loop,
    same,
    stopping_after,
)

import mdf_loop
from mdf_loop import LoopError, backend, loop
from mdf_loop.errors import LoopWarning
from mdf_loop.ops.registry import KERNELS
from mdf_loop.types.elements import NAMES

INT64_MAX = np.iinfo(np.int64).max


# Trip count and condition


@pytest.mark.parametrize(
    ("m", "cond"), [(4, True), (0, True), (4, False), (None, True), (None, False), (9, True), (2, True), (-1, True)]
)
def test_loop_ends_where_onnxruntime_ends(m, cond):
    as_onnxruntime(stopping_after(5), m, cond, np.float32(1))


@pytest.mark.parametrize("omitted", [None, ""])
def test_none_and_the_empty_string_omit(omitted):
    assert loop(3, omitted, 0.0, body=COUNTER, one=1) == 3
    assert loop(omitted, True, 0, body=counting_to(5))[0] == 5


def test_omitted_condition_ignores_the_bodys_condition_and_says_so_once():
    with pytest.warns(LoopWarning, match="condition became false") as record:
        x, numbers = loop(5, None, 0.0, body=stopping_after(2))
    assert (x.tolist(), numbers.tolist()) == (2.5, [0, 1, 2, 3, 4])
    assert [str(w.message) for w in record] == [
        "iteration 1 of Loop: the body's condition became false, but the loop goes on: its own condition is omitted, and then "
        "the ONNX standard ignores the body's. To stop there, give True as the condition: loop(30, True, ...), or cond: true in "
        "MDF. For files whose exporter wrote break in this way: options(obey_body_condition=True), on the command line "
        "--obey-body-condition"
    ]
    assert record[0].filename == __file__, "the warning must point at the user's line"
    assert issubclass(LoopWarning, UserWarning)


def test_omitted_condition_warns_once_for_an_inner_loop_that_runs_many_times():
    inner = "inner (int64 j, bool d, int64 v) => (bool e, int64 v) { e = Less (j, j) }"
    body = f'outer (int64 i, bool c, int64 x) => (bool c, int64 y) {{ y = Loop <body = {inner}> (two, "", x) }}'
    with pytest.warns(LoopWarning, match="iteration 0 of Loop: the body's condition") as record:
        loop(3, True, 0, body=body, two=2)
    assert len(record) == 1


def test_omitted_condition_says_nothing_when_the_body_never_wants_to_stop():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loop(3, None, 0.0, body=COUNTER, one=1) == 3


@pytest.mark.parametrize("m", [5, None])
def test_obey_body_condition_is_onnxruntimes_reading_of_an_omitted_condition(m):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, numbers = as_onnxruntime(stopping_after(2), m, None, np.float32(0))
    assert numbers.tolist() == [0, 1]


def test_body_still_sees_its_own_false_condition_when_it_is_ignored():
    body = "b (int64 i, bool c) => (bool stop, bool seen) { stop = Less (i, i) seen = Identity (c) }"
    with pytest.warns(LoopWarning, match="condition became false"):
        assert loop(3, None, body=body).tolist() == [True, False, False]


def test_endless_loop_is_refused_even_if_its_body_wants_to_stop():
    with pytest.raises(LoopError, match="never end"):
        loop(None, None, 0.0, body=stopping_after(1))


@pytest.mark.parametrize("m", [-1, -5, np.iinfo(np.int64).min])
def test_negative_trip_count_runs_no_iteration(m):
    assert loop(m, True, 7.0, body=COUNTER, one=1) == 7


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", NAMES["int4"], NAMES["uint4"]]
)
@pytest.mark.parametrize("shape", [(), (1,)])
def test_trip_count_may_be_any_integer_type_of_shape_empty_or_one(dtype, shape):
    assert loop(np.full(shape, 3, dtype), True, 0.0, body=COUNTER, one=1) == 3


@pytest.mark.parametrize("cond", [True, np.True_, np.array(True), np.array([True]), [True], 1, np.array(1)])
def test_condition_may_be_a_scalar_or_of_shape_one(cond):
    assert loop(2, cond, 0.0, body=COUNTER, one=1) == 2


def test_bodys_condition_may_be_of_shape_one():
    body = """b (int64 i, bool c, int64 n) => (bool[1] c_out, int64 n_out) <int64 one = {1}, int64[1] end = {4}> {
        n_out = Add (n, one) c_out = Less (n_out, end)
    }"""
    assert loop(9, True, 0, body=body) == 4


def test_condition_reaches_the_body_in_the_rank_it_declares():
    body = "b (int64 i, bool[1] c) => (bool[1] c_out, bool[1] seen) { c_out = Identity (c) seen = Identity (c) }"
    for cond in (True, [True], None):
        assert loop(2, cond, body=body).tolist() == [[True], [True]]


def test_trip_count_of_int64_max_allocates_nothing():
    n, seen = loop(INT64_MAX, True, 0, body=counting_to(4))
    assert (n.tolist(), seen.tolist()) == (4, [0, 1, 2, 3])


# Iteration number


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_iteration_number_is_int64_whatever_the_type_of_the_trip_count(dtype):
    numbers = loop(dtype(3), True, body=ITERATIONS)
    np.testing.assert_array_equal(numbers, np.array([0, 1, 2]), strict=True)


@pytest.mark.parametrize(
    ("declared", "shape"), [("int64", ()), ("int64[]", ()), ("int64[1]", (1,)), ("int64[N]", (1,)), ("int64[1,1]", (1, 1))]
)
@pytest.mark.parametrize("m", [2, [2]])
def test_iteration_number_has_the_rank_the_body_declares(declared, shape, m):
    body = f"b ({declared} i, bool c) => (bool c, s) {{ s = Identity (i) }}"
    assert loop(m, True, body=body).shape == (2, *shape)


def test_iteration_number_is_a_new_value_each_time_also_when_returned_directly():
    assert loop(4, True, body=ITERATIONS).tolist() == [0, 1, 2, 3]
    last, numbers = loop(4, True, -1, body="b (int64[1] i, bool c, int64[1] x) => (bool c, int64[1] i, int64[1] i) { }")
    assert (last.tolist(), numbers.tolist()) == ([3], [[0], [1], [2], [3]])


# No iteration


def test_no_iteration_leaves_the_initial_values_with_their_new_type():
    x, s = loop(0, True, [1, 2], body=RUNNING_SUM, step=1)
    np.testing.assert_array_equal(x, np.array([1, 2], np.float32), strict=True)
    np.testing.assert_array_equal(s, np.zeros((0, 2), np.float32), strict=True)


NO_ITERATION = {
    "declared": ("b (int64 i, bool c, float[2,3] x) => (bool c, float[2,3] x, int32[4,5] s) { s = Opaque (x) }", (4, 5), "int32"),
    "inferred": ("b (int64 i, bool c, float[2,3] x) => (bool c, float[2,3] x, s) { s = Transpose (x) }", (3, 2), "float32"),
    "inferred from initial values": ("b (int64 i, bool c, x) => (bool c, x, s) { s = Shape (x) }", (2,), "int64"),
    "named dimensions": (
        "b (int64 i, bool c, float[N,M] x) => (bool c, float[N,M] x, float[M,N] s) { s = Opaque (x) }",
        (3, 2),
        "float32",
    ),
    "one dimension unknown": (
        "b (int64 i, bool c, float[N,M] x) => (bool c, float[N,M] x, float[M,K] s) { s = Opaque (x) }",
        (3, 0),
        "float32",
    ),
    "nothing known": ("b (int64 i, bool c, float[N,M] x) => (bool c, float[N,M] x, s) { s = Opaque (x) }", (), "float32"),
    "iteration number": ("b (int64[1] i, bool c, float[N,M] x) => (bool c, float[N,M] x, i) { }", (1,), "int64"),
    "condition": ("b (int64 i, bool c, float[N,M] x) => (bool c, float[N,M] x, c) { }", (), "bool"),
    "constant": ("b (int64 i, bool c, float[N,M] x) => (bool c, float[N,M] x, k) <int16[2] k = {1, 2}> { }", (2,), "int16"),
    "captured": ("b (int64 i, bool c, float[N,M] x) => (bool c, float[N,M] x, y) { }", (7,), "float64"),
    "scalar": ("b (int64 i, bool c, float[N,M] x) => (bool c, float[N,M] x, float s) { s = Opaque (x) }", (), "float32"),
}


@pytest.fixture
def _opaque():
    """An operator that shape inference does not know, and that no one must run."""

    @mdf_loop.kernel("Opaque")
    def opaque(x):
        raise AssertionError("no iteration must run")

    yield
    del KERNELS["", "Opaque"]


@pytest.mark.usefixtures("_opaque")
@pytest.mark.parametrize("case", NO_ITERATION)
def test_no_iteration_collects_an_empty_array_of_the_right_shape_and_type(case):
    body, shape, dtype = NO_ITERATION[case]
    given = {"y": np.zeros(7)} if case == "captured" else {}
    x, s = loop(0, True, np.zeros((2, 3), np.float32), body=body, **given)
    assert (x.shape, s.shape, s.dtype) == ((2, 3), (0, *shape), np.dtype(dtype))


def test_no_iteration_is_no_error_even_if_every_iteration_would_be_one():
    body = "b (int64 i, bool c, float[2] x) => (bool c, float[2] y, float[3] s) { y = Add (x, k) s = Add (y, k) }"
    assert loop(0, True, np.zeros(2), body=body, k=np.zeros(3))[1].shape == (0, 3)


@pytest.mark.parametrize("kind", ["float[2]", "float[2,3]", "float"])
def test_no_iteration_has_onnxruntimes_shapes_where_they_are_declared(kind):
    as_onnxruntime(passing(kind), 0, True, np.ones({"float[2]": 2, "float[2,3]": (2, 3), "float": ()}[kind], np.float32))


# Collected and carried values


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_collected_values_are_stacked_on_a_new_first_axis(rank):
    x = np.random.default_rng(rank).random((2, 3, 4)[:rank]).astype(np.float32)
    kind = "float" + (f"[{','.join(map(str, x.shape))}]" if rank else "")
    _, s = as_onnxruntime(passing(kind), 3, True, x)
    np.testing.assert_array_equal(s, np.stack([x, x, x]), strict=True)


def test_number_of_carried_and_collected_values_is_free():
    body = """b (int64 i, bool c, float x, int64[2] y, double z)
      => (bool c, float x2, int64[2] y2, double z2, float s, double t, int64 u) {
        x2 = Add (x, x) y2 = Add (y, i) z2 = Mul (z, z)
        s = Neg (x) t = Identity (z) u = Mul (i, i)
    }"""
    results = as_onnxruntime(body, 4, True, np.float32(1), np.array([1, 2]), np.float64(1.5))
    assert len(results) == 6


def test_no_carried_value_is_enough():
    assert loop(3, True, body=ITERATIONS).tolist() == [0, 1, 2]


def test_carried_values_may_change_shape():
    body = "b (int64 i, bool c, float[N] x) => (bool c, float[M] y, int64[1] n) { y = Concat <axis = 0> (x, x) n = Shape (y) }"
    as_onnxruntime(body, 4, True, np.array([1, 2], np.float32))


def test_carried_values_may_change_rank():
    body = "b (int64 i, bool c, x) => (bool c, y) <int64[1] zero = {0}> { y = Unsqueeze (x, zero) }"
    assert loop(3, True, np.float32(1), body=body).shape == (1, 1, 1)


def test_assignment_is_parallel_so_that_values_can_be_swapped():
    same(loop(3, True, 1.0, 2.0, body=SWAP), [np.array(2, np.float32), np.array(1, np.float32)])
    as_onnxruntime(SWAP, 3, True, np.float32(1), np.float32(2))


def test_fibonacci_uses_the_old_values_of_both():
    body = "b (int64 i, bool c, int64 x, int64 y) => (bool c, int64 y, int64 z, int64 x) { z = Add (x, y) }"
    x, y, seen = as_onnxruntime(body, 8, True, np.int64(0), np.int64(1))
    assert (x, y, seen.tolist()) == (21, 34, [0, 1, 1, 2, 3, 5, 8, 13])


def test_changing_a_result_changes_neither_what_was_given_nor_the_body():
    body = "b (int64 i, bool c, float[2] x, float[2] y) => (bool c, float[2] k, float[2] y) <float[2] k = {1, 2}> { }"
    y = np.zeros(2, np.float32)
    for _ in range(2):
        constant, passed = loop(1, True, y, y, body=body)
        assert (constant.tolist(), passed.tolist(), y.tolist()) == ([1, 2], [0, 0], [0, 0])
        constant += 10
        passed += 10


def test_changing_a_result_of_a_model_changes_neither_its_inputs_nor_the_model():
    source = backend.prepare(model("main (float[2] x) => (float[2] x, float[2] k) <float[2] k = {1, 2}> { }"))
    x = np.zeros(2, np.float32)
    for _ in range(2):
        passed, constant = source.run([x])
        assert (passed.tolist(), constant.tolist(), x.tolist()) == ([0, 0], [1, 2], [0, 0])
        passed += 10
        constant += 10


# Scope


def test_body_inputs_shadow_outer_names():
    source = model("""main (float x, float y) => (float z, float w) <int64 three = {3}> {
        z = Loop <body = b (int64 i, bool c, float x) => (bool c, float x_out) { x_out = Add (x, x) }> (three, "", y)
        w = Identity (x)
    }""")
    z, w = backend.run_model(source, [np.float32(100), np.float32(1)])
    assert (z, w) == (8, 100)


def test_locals_of_the_body_shadow_outer_names():
    source = model("""main (float x) => (float z, float t) <int64 two = {2}> {
        t = Neg (x)
        z = Loop <body = b (int64 i, bool c, float y) => (bool c, float y_out) { t = Add (y, y) y_out = Add (t, x) }> (two, "", x)
    }""")
    z, t = backend.run_model(source, [np.float32(1)])
    assert (z, t) == (7, -1)


def test_captures_reach_through_several_levels_and_see_the_carried_values_on_the_way():
    source = model("""main (float a, float b) => (float z) <int64 n = {3}> {
        z = Loop <body = outer (int64 i, bool c, float x) => (bool c, float x_out) {
            x_out = Loop <body = middle (int64 j, bool d, float y) => (bool d, float y_out) {
                big = Greater (y, a)
                y_out = If (big) <
                    then_branch = t () => (float u) { f = CastLike (i, x) u1 = Add (y, f) u = Add (u1, x) },
                    else_branch = e () => (float v) { v = Add (y, b) }
                >
            }> (n, "", x)
        }> (n, "", b)
    }""")
    a, b = 4.0, 1.0

    def middle(i, x):
        y = x
        for _ in range(3):
            y = y + i + x if y > a else y + b
        return y

    expected = b
    for i in range(3):
        expected = middle(i, expected)
    (z,) = backend.run_model(source, [np.float32(a), np.float32(b)])
    assert z == expected
    same((z,), onnxruntime_run(source, {"a": np.float32(a), "b": np.float32(b)}))


def test_outputs_may_be_inputs_captures_constants_and_repeated():
    body = """b (int64 i, bool c, float x) => (bool c, float x, float x, int64 i, float k, float k, float y, bool c)
        <float k = {2.5}> { }"""
    x, *collected = loop(2, True, 1.0, body=body, y=7.0)
    assert [value.tolist() for value in (x, *collected)] == [1, [1, 1], [0, 1], [2.5, 2.5], [2.5, 2.5], [7, 7], [True, True]]


def test_carried_output_may_be_a_capture_or_a_constant():
    body = "b (int64 i, bool c, float x, float y) => (bool c, float k, float z) <float k = {2.5}> { }"
    assert [v.tolist() for v in loop(1, True, 1.0, 2.0, body=body, z=7.0)] == [2.5, 7]


@pytest.mark.parametrize("outputs", ['"", s', 'x, ""', "x", '"", ""'])
def test_outputs_of_the_node_may_be_empty_or_missing(outputs):
    named = [name for name in outputs.split(", ") if name != '""']
    text = f"""main (float v, int64 n) => ({", ".join([*named, "v_out"])}) {{
        {outputs} = Loop <body = {passing("float")}> (n, "", v)
        v_out = Neg (v)
    }}"""
    results = backend.run_model(model(text), [np.float32(3), np.int64(2)])
    expected = {"x": 3.0, "s": [3.0, 3.0]}
    assert [r.tolist() for r in results] == [*(expected[name] for name in named), -3]


def test_a_body_may_capture_values_called_like_the_arguments_of_loop():
    body = "b (int64 i, bool d, float x) => (bool d, float x, int64 M, bool s) { s = Identity (cond) }"
    _, counts, conditions = loop(2, True, 1.0, body=body)
    assert (counts.tolist(), conditions.tolist()) == ([2, 2], [True, True])


# Python bodies


def test_python_function_as_body_is_the_literal_loop():
    def step(i, cond, x, y):
        return x + y < 40, y, x + y, x * i

    for m, cond in ((20, True), (3, True), (None, True), (0, True), (5, False)):
        (x, y), rows = python_loop(step, m, cond, [1, 1])
        results = loop(m, cond, 1, 1, body=step)
        assert [value.tolist() for value in results[:2]] == [x, y]
        assert [value.tolist() for value in results[2:]] == ([[row[0] for row in rows]] if rows else [])


def test_python_body_may_change_its_arrays_in_place():
    def step(i, cond, x):
        x += 1
        return cond, x, x

    given = np.zeros(2)
    x, s = loop(3, True, given, body=step)
    assert (x.tolist(), s.tolist(), given.tolist()) == ([3, 3], [[1, 1], [2, 2], [3, 3]], [0, 0])
