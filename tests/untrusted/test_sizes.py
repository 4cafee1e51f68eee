"""Lengths that a model's numbers say: no engine asks for memory that there is not, and machine code never leaves its own."""

import itertools

import numpy as np
import pytest

import mdf_loop
from mdf_loop.kernels.arrays.bounds import most_bytes, shape_for

HEAD = '<ir_version: 9, opset_import: ["" : 18]> f (int64 i, bool go, double x) => (bool go, double y, z)'

HOSTILE = [n + d for n in (1 << 31, 1 << 40, 1 << 61, 1 << 62) for d in (0, 16)] + [(1 << 63) - 1]
HOSTILE = [n for n in HOSTILE if n * 8 > most_bytes()]
NEGATIVE = [-1, -(1 << 31), -(1 << 61), -(1 << 63)]

OPERATORS = {
    "Expand": ("z = Expand (x, sh)", {}),
    "Expand of a row": ("z = Expand (column, sh)", {"column": np.ones((3, 1))}),
    "ConstantOfShape": ("z = ConstantOfShape <value = double[1] {1.5}> (sh)", {}),
    "Tile": ("z = Tile (row, sh)", {"row": np.arange(2.0)}),
    "Tile that wraps around": ("z = Tile (row, sh)", {"row": np.arange(8.0)}),
    "Range": ("n = Squeeze (sh) z = Range (zero, n, one)", {"zero": np.int64(0), "one": np.int64(1)}),
    "Range in steps": (
        "n = Squeeze (sh) z = Range (low, n, two)",
        {"low": np.int64(-(1 << 63)), "two": np.int64(2)},
    ),
    "Pad": ("none = Sub (sh, sh) p = Concat <axis = 0> (none, sh) z = Pad (row, p)", {"row": np.arange(2.0)}),
    "OneHot": (
        "n = Squeeze (sh) z = OneHot (places, n, values)",
        {"places": np.array([0, 1]), "values": np.array([0.0, 1.0])},
    ),
    "CenterCropPad": ("z = CenterCropPad <axes = [0]> (row, sh)", {"row": np.arange(2.0)}),
    "put": (
        "e = Expand (x, sh) c = ScatterElements <axis = 0> (e, at, up) z = Gather (c, at)",
        {"at": np.array([0, 2]), "up": np.array([7.0, 8.0])},
    ),
    "reduced": ("e = Expand (x, sh) z = ReduceSum <keepdims = 0> (e)", {}),
    "joined": ("e = Expand (x, sh) z = Concat <axis = 0> (e, row)", {"row": np.arange(2.0)}),
    "turned": (
        "two = Concat <axis = 0> (sh, sh) e = Expand (x, two) t = Transpose (e) z = ReduceMax <keepdims = 0> (t)",
        {},
    ),
    "multiplied": ("two = Concat <axis = 0> (sh, sh) e = Expand (x, two) z = MatMul (e, e)", {}),
    "reshaped": ("more = Concat <axis = 0> (sh, four) z = Reshape (row, more)", {"row": np.arange(4.0), "four": np.array([4])}),
    "best": ("z, w = TopK (row, sh)", {"row": np.arange(4.0)}),
}


def outcome(engine, body, captured, trip_count=2):
    """The values, or that an error of ours was raised."""
    with mdf_loop.options(engine=engine):
        try:
            return mdf_loop.loop(trip_count, True, 1.0, body=f"{HEAD} {{ {body} y = Add (x, x) }}", **captured)
        except mdf_loop.LoopError as error:
            return error


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
@pytest.mark.parametrize("name", OPERATORS)
def test_lengths_for_which_there_is_no_memory_are_refused(name, engine):
    body, captured = OPERATORS[name]
    for n in HOSTILE if name == "best" else [n for n in HOSTILE if n != (1 << 31) + 16]:
        assert isinstance(outcome(engine, body, {**captured, "sh": np.array([n])}), mdf_loop.LoopError), n


@pytest.mark.parametrize("engine", ["numpy", "jit"])
@pytest.mark.parametrize("name", OPERATORS)
def test_engines_agree_about_negative_and_small_lengths(name, engine):
    body, captured = OPERATORS[name]
    for n in [*NEGATIVE, 0, 1, 3, 4]:
        if name == "Range in steps" and n >= -(1 << 61):
            continue  # so many numbers are refused above
        given = {**captured, "sh": np.array([n])}
        one, other = outcome("interpret", body, given), outcome(engine, body, given)
        assert isinstance(one, mdf_loop.LoopError) == isinstance(other, mdf_loop.LoopError), n
        if not isinstance(one, mdf_loop.LoopError):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("lengths", itertools.product([0, 3, 1 << 33, 1 << 62], repeat=2))
@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
def test_products_of_lengths_do_not_wrap_around(lengths, engine):
    body = "e = Expand (x, sh) z = Shape (e)"
    found = outcome(engine, body, {"sh": np.array(lengths)})
    if np.prod([max(n, 1) for n in lengths], dtype=object) * 8 > most_bytes():
        assert isinstance(found, mdf_loop.LoopError)
    else:
        assert np.asarray(found[1]).tolist() == [list(lengths)] * 2


def test_a_shape_has_to_have_room():
    assert shape_for([2, 3]) == (2, 3)
    with pytest.raises(ValueError, match="not negative"):
        shape_for([2, -3])
    with pytest.raises(OverflowError, match="no memory"):
        shape_for([0, 1 << 62, 1 << 62])


ZEROS = np.array([0.0, -0.0, 0.0, -0.0]), np.array([-0.0, 0.0, 0.0, -0.0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "op", ["Max", "Min", "Sign", "ReduceSum", "ReduceMean", "GlobalAveragePool", "Add", "Mul", "Clip", "Relu"]
)
def test_signs_of_zero_are_the_same_on_every_engine(op, dtype):
    from onnx import helper

    name = np.dtype(dtype) if dtype != "bfloat16" else pytest.importorskip("ml_dtypes").bfloat16
    given = [x.astype(name) for x in ZEROS]
    if op in ("Sign", "Relu"):
        given = given[:1]
    elif op in ("ReduceSum", "ReduceMean"):
        given = [np.full(4, -0.0).astype(name)]
    elif op == "GlobalAveragePool":
        given = [np.full((1, 1, 4), -0.0).astype(name)]
    elif op == "Clip":
        given = [given[0], given[1][:1].reshape(()), given[1][1:2].reshape(())]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(name))
    inputs = [helper.make_tensor_value_info(f"x{k}", code, x.shape) for k, x in enumerate(given)]
    node = helper.make_node(op, [x.name for x in inputs], ["y"])
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", code, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    signs = []
    for engine in ("interpret", "numpy", "jit"):
        with mdf_loop.options(engine=engine):
            signs.append(np.signbit(np.asarray(mdf_loop.backend.prepare(model).run(given)[0], np.float64)).tolist())
    assert signs[0] == signs[1] == signs[2]


def signs_in_a_loop(text, dtype, **given):
    """The signs of what each engine gives."""
    found = []
    for engine in ("interpret", "numpy", "jit"):
        with mdf_loop.options(engine=engine):
            z = mdf_loop.loop(
                2,
                True,
                dtype(0),
                body=f"f (int64 i, bool go, {KINDS[dtype]} x) => (bool go, {KINDS[dtype]} x, z) {{ {text} }}",
                **given,
            )[1]
            found.append(np.signbit(z).tolist())
    return found


KINDS = {np.float64: "double", np.float32: "float"}
SHAPES = [((1,), (1,)), ((1, 1), (1,)), ((1,), (1, 1)), ((1, 1), (1, 1)), ((4, 1), (1, 1)), ((4, 1), (1, 3)), ((1, 1), (1, 3))]
SHAPES += [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 1, 1), (2, 1, 1)), ((1,), (2, 1, 1))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", KINDS)
def test_a_product_of_matrices_is_a_sum_that_begins_with_zero(shapes, dtype):
    for a, b in ((-0.0, 1.0), (0.0, -1.0), (-0.0, -1.0)):
        x, y = np.full(shapes[0], a, dtype), np.full(shapes[1], b, dtype)
        for text, given in (("z = MatMul (a, b)", {"a": x, "b": y}), ("m = Add (a, x) z = MatMul (m, b)", {"a": x, "b": y})):
            one, other, third = signs_in_a_loop(text, dtype, **given)
            assert one == other == third
            assert not np.any(one)


@pytest.mark.parametrize("shapes", [pair for pair in SHAPES if max(map(len, pair)) < 3], ids=str)
@pytest.mark.parametrize("text", ["numpy.dot(a, b)", "numpy.inner(a, b)", "a @ b", "numpy.matmul(a, b)"])
@pytest.mark.parametrize("dtype", KINDS)
def test_a_product_in_an_expression_is_such_a_sum(shapes, text, dtype):
    if "inner" in text:
        shapes = shapes[0], shapes[1][::-1]
    for a, b in ((-0.0, 1.0), (0.0, -1.0), (-0.0, -1.0)):
        given = {"a": np.full(shapes[0], a, dtype), "b": np.full(shapes[1], b, dtype)}
        for n in (1, 2, 300):
            found = []
            for engine in ("interpret", "numpy", "jit"):
                with mdf_loop.options(engine=engine):
                    z = mdf_loop.loop(n, True, 0.0, body={"carried": {"y": "y"}, "collected": {"z": text}}, **given)[1]
                    last = mdf_loop.loop(n, True, np.negative(0 * z[0]), body={"carried": {"y": f"({text}) + 0 * y"}}, **given)
                found += [z, last]
            assert not any(np.signbit(value).any() for value in found)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 33, 100])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "GlobalMaxPool"])
@pytest.mark.parametrize("dtype", KINDS)
def test_an_extreme_of_zeros_of_one_sign_has_it(op, n, dtype):
    for zero in (0.0, -0.0):
        given = np.full((2, 1, n), zero, dtype)
        axes = {} if op == "GlobalMaxPool" else {"axes": np.array([2])}
        for found in signs_in_a_loop(f"z = {op} ({', '.join(['a', *axes])})", dtype, a=given, **axes):
            assert np.all(np.array(found) == np.signbit(zero))
