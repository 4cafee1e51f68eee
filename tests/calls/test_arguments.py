"""How values from outside become what a body asks for, and the forms of the arguments."""

import warnings

import numpy as np
import pytest
from bodies import COUNTER, RUNNING_SUM, passing
from onnx import parser

import mdf_loop
from mdf_loop import if_, loop, scan
from mdf_loop.errors import ArgumentError, KindError

ADDING = parser.parse_function(
    '<opset_import: ["": 18], domain: "d"> adding (i, c, x) => (c, y) { y = Add (x, k) }'.replace("x, k", "x, x")
)


def fitted(kind, value):
    """What a body that declares a type makes of a value."""
    return loop(0, True, value, body=passing(kind, collected=False))


# Weak numbers


@pytest.mark.parametrize(
    ("kind", "value", "dtype"),
    [
        ("float", 1.5, np.float32),
        ("float", np.float64(1.5), np.float32),
        ("float", np.array([1.5, 2.5]), np.float32),
        ("float", 3, np.float32),
        ("float", np.array([3, 4]), np.float32),
        ("float", [1, 2.5], np.float32),
        ("float", np.array([1.5], ">f8"), np.float32),
        ("int64", np.array([1, 2], ">i4"), np.int64),
        ("double", 3, np.float64),
        ("float16", 1.5, np.float16),
        ("bfloat16", 1.5, "bfloat16"),
        ("int32", 7, np.int32),
        ("uint8", np.array([1, 255]), np.uint8),
        ("int64", np.int8(-3), np.int64),
        ("complex64", 1.5, np.complex64),
        ("complex64", 2, np.complex64),
        ("bool", True, np.bool_),
        ("bool", np.array([True, False]), np.bool_),
        ("string", "text", object),
        ("string", ["one", "two"], object),
        ("string", np.array(["one", "two"]), object),
    ],
)
def test_number_takes_the_type_the_body_declares(kind, value, dtype):
    result = fitted(kind, value)
    assert result.dtype == np.dtype(dtype)
    assert result.shape == np.shape(value)
    assert (result == np.asarray(value)).all()


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("int64", 1.0, "value 'x' must be int64; got float64 (1.0)"),
        ("int64", np.array([1.0, 2.5]), "value 'x' must be int64; got float64 of shape [2]"),
        ("int8", 200, "value 'x' must fit into int8; got int64 (200)"),
        ("uint8", [-1, 3], "value 'x' must fit into uint8; got int64 of shape [2]"),
        ("uint64", np.int64(-1), "value 'x' must fit into uint64; got int64 (-1)"),
        ("float", True, "value 'x' must be float32; got bool (True)"),
        ("int64", True, "value 'x' must be int64; got bool (True)"),
        ("bool", 1, "value 'x' must be bool; got int64 (1)"),
        ("float", 1j, "value 'x' must be float32; got complex128 (1j)"),
        ("float", "1.5", "value 'x' must be float32; got string ('1.5')"),
        ("string", 1.5, "value 'x' must be string; got float64 (1.5)"),
        ("float", 1e300, "value 'x' must fit into float32; got float64 (1e+300)"),
        ("float16", 100_000, "value 'x' must fit into float16; got int64 (100000)"),
        ("float", [[1.0], [2.0, 3.0]], "value 'x' is ragged: its rows do not have the same length"),
        ("float", object(), "value 'x' must be numbers, booleans or strings; got object"),
        ("float", {1, 2}, "value 'x' must be numbers, booleans or strings; got set"),
        ("float", [1, None, 2], "value 'x' must be numbers, booleans or strings; got NoneType"),
        ("float", np.array([1, "a"], object), "value 'x' must be numbers, booleans or strings; got numbers among texts"),
        ("float", np.array(["2020-01-01"], "M8[D]"), "value 'x' must be numbers, booleans or strings; got datetime64[D]"),
        ("seq(float)", 1.5, "value 'x' must be a sequence (a list of tensors); got float"),
    ],
)
def test_number_that_would_lose_something_is_refused(kind, value, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KindError) as info:
            fitted(kind, value)
    assert str(info.value) == message
    assert isinstance(info.value, ValueError)
    assert isinstance(info.value, TypeError)


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


@pytest.mark.parametrize(
    "use",
    [
        lambda: loop(2, True, MASKED, body="x: 2 * x"),
        lambda: loop(2, True, 0.0, body="x: x + w[i]", w=MASKED),
        lambda: loop(2, True, MASKED, body=lambda i, go, x: (go, 2 * x)),
        lambda: loop(2, True, np.ones(2), body=mdf_loop.body(lambda i, go, x: (True, x + MASKED))),
        lambda: scan(0.0, MASKED, body="s: s + u\nscan: u"),
        lambda: mdf_loop.run("examples/accumulate.yaml", x=MASKED),
        lambda: mdf_loop.fit("examples/drift_diffusion.yaml", {"reaction_time": MASKED}, {"drift": (0.1, 2.0)}, trials=2),
    ],
)
def test_masked_elements_are_no_numbers(use):
    """Their mask was lost, and what is under it was used."""
    with pytest.raises(KindError, match="has masked elements"):
        use()


def test_a_masked_array_without_masked_elements_is_an_array():
    assert mdf_loop.run("examples/accumulate.yaml", x=np.ma.array([1.0, 2.0]), y=0.0)["total"] == 3


@pytest.mark.parametrize("values", [[1, 2, 3], [1, 2.5, True], [[1], [2]]])
def test_objects_that_are_numbers_are_an_array_of_numbers(values):
    """As a column of a table has them."""
    given, wanted = (loop(2, True, x, body="x: x + w", w=x) for x in (np.array(values, object), np.array(values)))
    np.testing.assert_array_equal(given, wanted)
    assert given.dtype == wanted.dtype
    assert mdf_loop.run("examples/accumulate.yaml", x=np.array([1, 2.5], object), y=0.0)["total"] == 3.5


def test_infinity_and_nan_are_no_loss():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(fitted("float", np.inf))
        assert np.isnan(fitted("float16", np.nan))


def test_precision_may_be_lost():
    assert fitted("float", 0.1) == np.float32(0.1)
    assert fitted("float", 2**25 + 1) == np.float32(2**25)


def test_sequence_elements_take_the_declared_type():
    sequence = loop(0, True, [np.array([1, 2]), 3.5], body=passing("seq(float)", collected=False))
    assert [(v.dtype, v.tolist()) for v in sequence] == [(np.float32, [1, 2]), (np.float32, 3.5)]


def test_elements_of_an_optional_sequence_take_the_declared_type():
    body = passing("optional(seq(float))", collected=False)
    assert [v.dtype for v in loop(0, True, [np.array([1.5])], body=body)] == [np.float32]
    assert loop(0, True, None, body=body) is None


# Types that nothing declares


def test_captures_take_the_type_of_the_operators_that_read_them():
    result = loop(2, True, 1, body=COUNTER, one=1)
    assert (result, result.dtype) == (3, np.float32)


@pytest.mark.parametrize(
    ("nodes", "dtype"),
    [
        ("y = Add (x, k)", np.float32),
        ("y = Where (c, k, x)", np.float32),
        ("t = Identity (k) u = Neg (t) y = Mul (u, x)", np.float32),
        ("y = Cast <to = 1> (k)", np.float64),
        ("y = Expand (x, k)", np.int64),
        ("t = Shape (k) y = Expand (x, t)", np.float64),
        ("y = Mod <fmod = 1> (x, k)", np.float32),
    ],
)
def test_type_of_a_capture_follows_from_the_schemas_of_its_readers(nodes, dtype):
    from mdf_loop.readers import read
    from mdf_loop.types.fitting import fit_values
    from mdf_loop.types.required import asked_types

    body = read(f"b (int64 i, bool c, float x) => (bool c, float y) {{ {nodes} }}")
    value = 2 if dtype == np.int64 else 2.0
    assert fit_values(asked_types(body), {"k": value})["k"].dtype == dtype


def test_whole_number_for_a_capture_that_must_be_an_index_stays_one_and_a_fraction_is_refused():
    body = "b (int64 i, bool c, float[N] x) => (bool c, float[N] x, float s) { s = Gather (x, k) }"
    assert loop(1, True, [1.0, 2.0], body=body, k=1)[1].tolist() == [2]
    with pytest.raises(KindError, match=r"value 'k' must be int\d\d"):
        loop(1, True, [1.0, 2.0], body=body, k=1.0)


def test_type_of_a_capture_follows_through_nested_bodies():
    inner = "inner (int64 j, bool d, float y) => (bool d, float z) { z = Add (y, k) }"
    body = f"outer (int64 i, bool c, float x) => (bool c, float y) {{ y = Loop <body = {inner}> (n, c, x) }}"
    result = loop(2, True, 0, body=body, n=3, k=0.5)
    assert (result, result.dtype) == (3, np.float32)
    with pytest.raises(KindError, match="value 'n' must be int64; got float64"):
        loop(2, True, 0, body=body, n=3.0, k=0.5)


def test_type_of_a_capture_follows_through_branches():
    branches = "then_branch = t () => (u) { u = Add (x, k) }, else_branch = e () => (v) { v = Identity (k) }"
    body = f"b (int64 i, bool c, float x) => (bool c, float y) {{ y = If (flag) <{branches}> }}"
    for flag, expected in ((True, 1.0), (False, 0.5)):
        result = loop(2, True, 0, body=body, flag=flag, k=0.5)
        assert (result, result.dtype) == (expected, np.float32)


def test_name_that_an_inner_body_shadows_does_not_type_the_outer_one():
    inner = "inner (int64 j, bool d, int64 k) => (bool d, int64 m) { m = Add (k, j) }"
    body = f"outer (int64 i, bool c, float x) => (bool c, float y) {{ m = Loop <body = {inner}> (n, c, n) y = Add (x, k) }}"
    result = loop(1, True, 0, body=body, n=2, k=0.5)
    assert (result, result.dtype) == (0.5, np.float32)


@pytest.mark.parametrize(
    ("x", "k", "dtype"),
    [
        (1.5, 1, np.float64),
        (1, 1.5, np.float64),
        (1, 1, np.int64),
        (np.float32(1.5), 1, np.float32),
        (np.float32(1.5), 2.5, np.float32),
        (np.array([1.5, 2.5]), 1, np.float64),
        ([1.5, 2.5], 1, np.float64),
        ([1, 2], np.float32(0.5), np.float32),
        (np.float32(1.5), np.float64(1.5), np.float64),
        (np.int32(1), 2, np.int32),
        (np.int32(1), 2.5, np.float64),
    ],
)
def test_values_of_one_group_that_nothing_declares_come_to_one_type(x, k, dtype):
    result = loop(1, True, x, body="b (int64 i, bool c, x) => (bool c, y) { y = Add (x, k) }", k=k)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, np.add(x, k))


def test_value_for_an_operator_without_integers_becomes_a_float():
    result = loop(1, True, 4, body="b (int64 i, bool c, x) => (bool c, y) { y = Exp (x) }")
    np.testing.assert_array_equal(result, np.exp(np.float64(4)), strict=True)


def test_untyped_function_proto_keeps_the_types_it_is_given():
    for dtype in (np.float32, np.float64, np.int32):
        assert loop(1, True, np.ones(2, dtype), body=ADDING).dtype == dtype


def test_python_body_keeps_the_types_it_is_given():
    given = (np.float32(1), 2, np.array([True]), "text", None, [np.ones(2)])
    seen = []

    def step(i, cond, *values):
        seen.extend(values)
        return (cond, *values)

    loop(1, True, *given, body=step)
    assert [getattr(v, "dtype", type(v)) for v in seen] == [np.float32, np.int64, np.bool_, object, type(None), list]


# Forms of the arguments of loop


BODY = "b (int64 i, bool c, float x, float h) => (bool c, float y, float h) { y = Add (x, h) }"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((3, True, 1.0, 2.0), {}),
        ((3, True), {"v_initial": (1.0, 2.0)}),
        ((3, True), {"v_initial": [1.0, 2.0]}),
        ((3,), {"cond": True, "v_initial": (1.0, 2.0)}),
        ((), {"M": 3, "cond": True, "v_initial": (1.0, 2.0)}),
        ((1.0, 2.0), {"M": 3, "cond": True}),
        ((3, 1.0, 2.0), {"cond": True}),
        ((True, 1.0, 2.0), {"M": 3}),
    ],
)
def test_arguments_of_loop_by_position_and_by_keyword(args, kwargs):
    y, h = loop(*args, body=BODY, **kwargs)
    assert (y.tolist(), h.tolist()) == (7, 2)


def test_arguments_left_out_at_the_end_are_omitted():
    body = "b (int64 i, bool c) => (bool c_out, int64 i) { c_out = Less (i, n) }"
    assert loop(2, body="b (int64 i, bool c) => (bool c, int64 i) { }").tolist() == [0, 1]
    assert loop(cond=True, body=body, n=2).tolist() == [0, 1, 2]
    assert loop(M=2, body="b (int64 i, bool c) => (bool c, int64 i) { }").tolist() == [0, 1]


@pytest.mark.parametrize("value", [(1.0, 2.0), [1.0, 2.0], np.array([1.0, 2.0])])
def test_v_initial_for_one_carried_value_may_be_the_vector_itself(value):
    x, s = loop(2, True, v_initial=value, body=RUNNING_SUM, step=1)
    assert (x.tolist(), s.tolist()) == ([3, 4], [[2, 3], [3, 4]])


@pytest.mark.parametrize("value", [(1.5,), [1.5], 1.5])
def test_v_initial_of_one_value_may_be_listed_or_not(value):
    assert loop(2, True, v_initial=value, body=COUNTER, one=1) == 3.5


def test_carried_values_given_twice_are_refused():
    with pytest.raises(ArgumentError) as info:
        loop(2, True, 1.0, v_initial=2.0, body=COUNTER, one=1)
    assert str(info.value) == "loop: the carried values were given by position and as v_initial= as well"


def test_one_result_comes_alone_and_several_as_a_tuple():
    assert isinstance(loop(1, True, 1.0, body=COUNTER, one=1), np.ndarray)
    assert isinstance(loop(1, True, 1.0, 2.0, body=BODY), tuple)


def test_loop_without_any_result_gives_an_empty_tuple():
    assert loop(1, True, body="b (int64 i, bool c) => (bool c) { }") == ()


def test_arguments_are_not_changed():
    x, step = np.array([1.0, 2.0], np.float32), np.array([1.0, 1.0], np.float32)
    captured = {"step": step}
    loop(3, True, x, body=RUNNING_SUM, **captured)
    assert (x.tolist(), step.tolist(), list(captured)) == ([1, 2], [1, 1], ["step"])


# Forms of the arguments of scan and if_


def test_scan_takes_carried_values_before_scanned_ones():
    body = "b (float s, float p, float q) => (float t, float o) { m = Mul (p, q) t = Add (s, m) o = Identity (m) }"
    total, products = scan(0, [1, 2], [3, 4], body=body, num_scan_inputs=2)
    assert (total.tolist(), products.tolist()) == (11, [3, 8])


def test_scan_with_a_wrong_number_of_inputs_shows_the_bodys():
    with pytest.raises(ArgumentError) as info:
        scan([1.0], body="b (float s, float p) => (float t) { t = Add (s, p) }", num_scan_inputs=1)
    assert str(info.value) == "Scan: 1 value given, body 'b' takes 2: s, p"


def test_scan_axes_of_a_python_body_are_its_own_business():
    with pytest.raises(ArgumentError) as info:
        scan([1.0], body=lambda x: x, num_scan_inputs=1, scan_output_axes=[1])
    assert str(info.value) == "scan: scan_output_axes need a graph as body; a Python body can turn what is returned itself"


def test_if_takes_its_condition_by_position_or_by_keyword():
    branches = {"then_branch": "t () => (k) <float k = {1}> { }", "else_branch": "e () => (k) <float k = {2}> { }"}
    assert if_(True, **branches) == if_(cond=True, **branches) == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "value 'x' must be float32[n]; got None, which only an optional may be"),
        (
            [10**30, 1],
            f"value 'x' must fit into a type of ONNX, whole numbers into int64 or uint64; got {10**30}",
        ),
        (
            -(10**5000),
            "value 'x' must fit into a type of ONNX, whole numbers into int64 or uint64; got a number of more than 40 digits",
        ),
    ],
    ids=["None", "10**30", "-10**5000"],
)
def test_what_no_tensor_holds_is_named(value, message):
    body = "b (int64 i, bool go, float[n] x) => (bool go, float[n] y) { y = Neg (x) }"
    with pytest.raises(KindError) as error:
        mdf_loop.loop(1, True, value, body=body)
    assert str(error.value) == message


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are float64 on this platform")
def test_a_long_double_fits_into_no_type_of_onnx():
    with pytest.raises(KindError, match="value 'x' must fit into a type of ONNX, such as float64; got"):
        mdf_loop.loop(1, True, np.longdouble(1), body="b (int64 i, bool go, x) => (bool go, y) { y = Neg (x) }")


def test_none_is_an_empty_optional_where_the_body_declares_one():
    body = "b (int64 i, bool go, optional(float) x) => (bool go, optional(float) x, bool has) { has = OptionalHasElement (x) }"
    assert not mdf_loop.loop(1, True, None, body=body)[1].any()


NEWTON = "examples/newton.yaml"
RAGGED = [[1.0], [2.0, 3.0]]
TAKING = {
    "run": lambda: mdf_loop.run(NEWTON, a=RAGGED),
    "trials": lambda: mdf_loop.run(NEWTON, a=RAGGED, trials=2),
    "steps": lambda: mdf_loop.run("examples/oscillator.yaml", steps=2, stiffness=RAGGED),
    "MDF's engine": lambda: trusted(mdf_loop.run, NEWTON, a=RAGGED),
    "simulator": lambda: mdf_loop.simulator(NEWTON, ["a"], ["root"])(RAGGED),
    "a condition": lambda: mdf_loop.simulator(NEWTON, ["a"], ["root"])([[1.0], [2.0]], tolerance=RAGGED),
    "numbers of rows": lambda: mdf_loop.simulator(NEWTON, ["a"], ["root"])([[1.0], [2.0]], seed=RAGGED),
    "a column": lambda: mdf_loop.simulator(NEWTON, ["a"], ["root"]).dict(a=RAGGED),
    "fit": lambda: mdf_loop.fit(NEWTON, {"root": RAGGED}, {"a": (1, 2)}),
    "the trip count": lambda: loop(RAGGED, True, 0.0, body="x: x + 1"),
    "the condition": lambda: loop(3, RAGGED, 0.0, body="x: x + 1"),
    "the default of a body's parameter": lambda: mdf_loop.body(ragged_default),
    "a capture": lambda: loop(3, True, 0.0, body="x: x + y", y=RAGGED),
    "scan": lambda: scan(0.0, RAGGED, num_scan_inputs=1, body="s: s + u\nscan: u"),
    "if_": lambda: if_(True, then_branch="y: -x", else_branch="y: x", x=RAGGED),
}


def ragged_default(i, cond, x, *, weights=RAGGED):
    return cond, x + weights[0]


def trusted(call, *args, **named):
    with mdf_loop.options(trusted=True):
        return call(*args, **named)


@pytest.mark.parametrize("taking", TAKING.values(), ids=TAKING)
def test_ragged_values_are_refused_in_words_wherever_they_are_given(taking):
    with pytest.raises(KindError, match="is ragged: its rows do not have the same length"):
        taking()
