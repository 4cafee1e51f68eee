"""Operators of expressions as operators of ONNX, one by one: arrays of declared lengths, of open ones, of unknown rank."""

import numpy as np
import pytest
from converting import by_onnxruntime
from in_groups import each
from samples_expression import SAMPLES

from mdf_loop.backends.onnx.lowering import lower
from mdf_loop.convert.written_models import write_checked
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, ValueType
from mdf_loop.ir import Node as Operator
from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.definitions import mdf_open_lengths
from mdf_loop.ops.registry import bind
from mdf_loop.ops.rows import FUNCTIONS

load_kernels()

UNSAID = {
    "nextafter": "ONNX has no operator",
    "gcd": "ONNX has no operator",
    "lcm": "ONNX has no operator",
    "interp": "ONNX has no operator",
    "scipy.special.gamma": "ONNX has no operator",
    "scipy.special.gammaln": "ONNX has no operator",
}
"""Functions of expressions that cannot be written, with the reason."""

IN_32_BITS = dict.fromkeys(
    ("scipy.special.erf", "scipy.special.erfc"), "onnxruntime computes Erf of float32 alone, so it is written with casts"
)
"""Functions that are written in fewer bits, with the reason."""


OPEN_UNSAID = {
    "listed": "arrays of one list may have several shapes",
    "numpy.cumprod": "ONNX has no operator; along a length that is known it is a Scan",
    "numpy.linalg.inv": "ONNX has no operator; a matrix of known size is eliminated by a Scan",
    "numpy.linalg.solve": "ONNX has no operator; a matrix of known size is eliminated by a Scan",
}
"""Operators of expressions that cannot be written for arrays of which only the rank is declared, with the reason."""


@pytest.mark.parametrize("is_open", [False, True], ids=["declared lengths", "open lengths"])
@each("number", range(len(SAMPLES)))
def test_an_operator_of_expressions_gives_the_same_in_onnxruntime(number, is_open):
    op, _, inputs, attrs = SAMPLES[number]
    assert_gives_the_same_in_onnxruntime(op.removeprefix("mdf::"), inputs, attrs, is_open)


MATRIX, HALF = np.arange(6.0).reshape(2, 3), np.array([0.5, 1.5], np.float16)
TIES = np.arange(64.0) % 4


@pytest.mark.parametrize("is_open", [False, True], ids=["declared lengths", "open lengths"])
@each(
    "op,inputs,attrs",
    [
        ("numpy.inner", (MATRIX, np.arange(9.0).reshape(3, 3)), {}),
        ("numpy.inner", (np.arange(3), np.arange(9).reshape(3, 3)), {}),
        ("numpy.argmax", (MATRIX,), {"axis": 1, "keepdims": True}),
        ("numpy.argmin", (np.array([True, False]),), {}),
        ("numpy.argsort", (TIES,), {}),
        ("numpy.max", (np.array([True, False]),), {}),
        ("numpy.outer", (np.array([True, False]), np.array([True, True])), {}),
        ("numpy.clip", (HALF, 0.0, 1.0), {}),
        ("numpy.mean", (np.zeros(0),), {}),
        ("numpy.nanmean", (np.arange(3),), {}),
        ("numpy.nanmax", (np.full(2, np.nan),), {}),
        ("numpy.var", (MATRIX,), {"axis": 0, "ddof": 1}),
        ("numpy.linalg.norm", (MATRIX,), {"ord": 2, "axis": 1}),
        ("numpy.concatenate", (MATRIX, np.arange(3)), {"axis": None}),
        ("numpy.expand_dims", (MATRIX,), {"axis": (0, 2)}),
        ("numpy.ndim", (MATRIX,), {}),
        ("numpy.dot", (2.0, MATRIX), {}),
        ("numpy.trace", (np.array([[1.0, np.inf], [np.nan, 3.0]]),), {}),
        ("numpy.tile", (MATRIX, np.array([2, 3])), {}),
        ("numpy.repeat", (MATRIX, np.array(3)), {"axis": 1}),
        ("numpy.roll", (MATRIX, np.array(-4)), {}),
        ("numpy.sort", (-MATRIX,), {"axis": None}),
        ("numpy.median", (MATRIX,), {"axis": 0}),
        ("numpy.arange", (np.array(1), np.array(7), 2), {}),
        ("numpy.arange", (np.array(3),), {"dtype": np.dtype(float)}),
        ("numpy.linspace", (np.array(1.0), np.array(2.0)), {"num": 5, "endpoint": False}),
        ("numpy.zeros", (np.array([2, 3]),), {"dtype": np.dtype(int)}),
        ("numpy.ones", (np.array(4),), {}),
        ("numpy.full", (np.array([2, 3]), np.array(0.5)), {}),
        ("builtins.sum", (MATRIX, 1.5), {}),
        ("builtins.round", (np.array(0.125), 2), {}),
        ("numpy.round", (HALF,), {"decimals": 0}),
        ("numpy.round", (np.float32([0.25, 1.75]),), {"decimals": 1}),
        ("matmul", (np.ones((4, 2, 3)), MATRIX.T), {}),
        ("choose", (np.array(True), np.float32([1, 2]), 0.5), {}),
        ("index", (MATRIX,), {"index": (..., None, 1)}),
        ("index", (MATRIX,), {"index": (-1, ..., slice(None, None, -2))}),
        ("getitem", (MATRIX, MATRIX > 2), {"index": ("value", 0)}),
        ("getitem", (MATRIX, np.array(1), np.array(-1)), {"index": ("tuple", ("slice", None, ("value", 0), None), ("value", 1))}),
    ],
)
def test_arrays_of_which_the_rank_is_declared_are_written_by_their_definitions(op, inputs, attrs, is_open):
    assert_gives_the_same_in_onnxruntime(op, inputs, attrs, is_open)


def test_functions_that_are_operators_of_onnx_are_tried_here():
    ours = {op for op, made in FUNCTIONS.items() if made.__module__ == mdf_open_lengths.__name__}
    groups = test_arrays_of_which_the_rank_is_declared_are_written_by_their_definitions.pytestmark
    tried = {case[0] for mark in groups if mark.args[0] == "group" for group in mark.args[1] for case in group}
    assert ours <= tried | {op.removeprefix("mdf::") for op, *_ in SAMPLES}


def test_an_index_behind_axes_of_an_unknown_number_is_refused():
    """It was the first axis instead of the last one."""
    x = np.arange(6.0).reshape(2, 3)
    nodes = (
        Operator("numpy.reshape", ("x", "s"), ("z",), {}, "z", 1, "mdf"),
        Operator("index", ("z",), ("y",), {"index": (..., 0)}, "y", 1, "mdf"),
    )
    body = Body("b", (), ("y",), nodes, {}, ("x", "s"), opsets={"": 18, "mdf": 1}, typed=False)
    kinds = {"x": (x, ValueType(x.dtype, (None, None))), "s": (np.array([2, 3]), ValueType(np.dtype(int), (None,)))}
    with pytest.raises(UnsupportedOp, match="the rank is not known"):
        lower(body, kinds)


@pytest.mark.parametrize("op", ["numpy.random.normal", "numpy.random.uniform"])
def test_random_numbers_of_computed_bounds_are_standard_ones_moved_and_scaled(op):
    node = Operator(op, ("low", "high"), ("y",), {}, "y", 1, "mdf")
    body = Body("b", (), ("y",), (node,), {}, ("low", "high"), opsets={"": 18, "mdf": 1}, typed=False)
    given = {"low": np.full(1000, 1000.0), "high": np.full(1000, 1001.0)}
    kinds = {name: (x, ValueType(x.dtype, x.shape)) for name, x in given.items()}
    given["high"] = given["high"] if op.endswith("uniform") else np.full(1000, 0.25)
    (drawn,) = by_onnxruntime(write_checked(lower(body, kinds)), given).values()
    assert drawn.shape == (1000,)
    assert (np.abs(drawn - 1000.5) <= 0.5).all() if op.endswith("uniform") else (np.abs(drawn - 1000) < 2).all()
    assert drawn.std() > 0.2


def test_random_numbers_of_open_lengths_are_refused():
    node = Operator("numpy.random.normal", ("mean",), ("y",), {}, "y", 1, "mdf")
    body = Body("b", (), ("y",), (node,), {}, ("mean",), opsets={"": 18, "mdf": 1}, typed=False)
    with pytest.raises(UnsupportedOp, match=r"^b/y: numpy.random.normal has no ONNX operator: of a size that is computed$"):
        lower(body, {"mean": (np.zeros(3), ValueType(np.dtype(float), (None,)))})


def test_arrays_of_unknown_rank_are_reduced_whole_and_not_along_an_axis():
    x, shape = np.array([1.0, 2.0, 5.0]), np.array([3, 1])
    declared = {"x": (x, ValueType(x.dtype, (None,))), "s": (shape, ValueType(shape.dtype, (None,)))}

    def lowered(op, **attrs):
        nodes = (
            Operator("numpy.reshape", ("x", "s"), ("z",), {}, "z", 1, "mdf"),
            Operator(op, ("z",), ("y",), attrs, "y", 1, "mdf"),
        )
        return lower(Body("b", (), ("y",), nodes, {}, ("x", "s"), opsets={"": 18, "mdf": 1}, typed=False), declared)

    for op, expected in {"numpy.mean": 8 / 3, "numpy.argmax": 2, "numpy.std": np.std(x), "numpy.ravel": x}.items():
        (actual,) = by_onnxruntime(write_checked(lowered(op)), {"x": x, "s": shape}).values()
        np.testing.assert_allclose(actual, expected)
    with pytest.raises(UnsupportedOp, match=r"^b/y: numpy.sum has no ONNX operator: the rank is not known$"):
        lowered("numpy.sum", axis=0)


def assert_gives_the_same_in_onnxruntime(op, inputs, attrs, is_open):
    if op == "numpy.linalg.det" and (is_open or np.ndim(inputs[0]) > 2):
        pytest.skip("onnxruntime has Det for float32 alone: one matrix of known size is eliminated")
    names = [f"x{k}" for k in range(len(inputs))]
    given = {name: value for name, value in zip(names, inputs, strict=True) if isinstance(value, np.ndarray)}
    constants = {name: value for name, value in zip(names, inputs, strict=True) if name not in given}
    node = Operator(op, tuple(names), ("y",), attrs, "y", 1, "mdf")
    body = Body("b", (), ("y",), (node,), constants, tuple(given), opsets={"": 18, "mdf": 1}, typed=False)
    declared = {
        name: (value, ValueType(value.dtype, (None,) * value.ndim if is_open else value.shape)) for name, value in given.items()
    }
    is_stack = op in ("numpy.linalg.inv", "numpy.linalg.solve") and np.ndim(inputs[0]) > 2
    if (
        op.removeprefix("numpy.") in UNSAID
        or is_stack
        or (op == "scipy.special.erfc" and np.ndim(inputs[0]))  # a number alone has a definition
        or (is_open and op in OPEN_UNSAID and given and max(x.ndim for x in given.values()))
    ):
        with pytest.raises(UnsupportedOp, match=f"^b/y: {op} has no ONNX operator(: .+)?$"):
            lower(body, declared)
        return
    with np.errstate(all="ignore"):
        expected = np.asarray(bind(node).call(*inputs))
    (actual,) = by_onnxruntime(write_checked(lower(body, declared)), given).values()
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    rtol = 1e-6 if op in IN_32_BITS else {"float64": 1e-13, "float32": 1e-6, "float16": 1e-3}.get(expected.dtype.name, 0)
    np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=rtol, atol=1e-15)
