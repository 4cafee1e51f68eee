"""Definitions of numpy's functions of whole arrays, as MDF's expressions call them: each gives what its kernel gives."""

import itertools

import numpy as np
import pytest

import mdf_loop
from mdf_loop.kernels.definitions import mdf_reductions, mdf_shapes
from mdf_loop.ops.rows import FUNCTIONS
from tests.definitions.test_definitions_of_mdf import assert_as_kernel

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(5)


def filled(shape, dtype):
    """Small numbers, some of them twice, and nan where there is room for it."""
    x = RNG.integers(-3, 4, shape).astype(dtype)
    if np.dtype(dtype).kind == "f" and x.size > 4:
        x = x * np.asarray(0.25, dtype)
        x.flat[2] = np.nan
    return x


SHAPES = [(3,), (1,), (0,), (2, 3), (2, 1, 3), ()]
TYPES = [np.float64, np.float32, np.int64, np.int32, np.bool_, np.uint8, np.float16]
ARRAYS = [filled(shape, dtype) for shape in SHAPES for dtype in TYPES] + [np.float64(2.5), 3, True]
LARGE = [RNG.uniform(0.5, 1.5, shape).astype(dtype) for shape in [(40,), (5, 30), (30, 5), (300,)] for dtype in TYPES[:2]]
AXES = [None, 0, 1, -1, 7, (0, 1), (-1,)]

REDUCTIONS = [
    "sum",
    "prod",
    "mean",
    "min",
    "max",
    "amin",
    "amax",
    "ptp",
    "all",
    "any",
    "nansum",
    "nanprod",
    "count_nonzero",
    "var",
    "std",
    "linalg.norm",
]
ALONG = ["argmax", "argmin", "cumsum", "cumprod", "diff"]

PRODUCTS = ["matmul", "numpy.dot", "numpy.inner", "numpy.outer"]
JOINING = ["concatenate", "stack", "hstack", "vstack"]


def assert_useful(op, cases):
    """The definition gives what the kernel gives for all cases, and for at least one of them it gives something."""
    assert sum(assert_as_kernel(op, args, attrs) for args, attrs in cases)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    attrs = [{"axis": axis, "keepdims": False} for axis in AXES] + [
        {"axis": axis, "keepdims": True} for axis in (None, -1, (0, 1))
    ]
    if name in ("var", "std"):
        attrs += [{"ddof": 1}, {"ddof": 1, "axis": -1}]
    assert_useful(f"numpy.{name}", [((x,), a) for x in ARRAYS + LARGE for a in attrs])


@pytest.mark.parametrize("name", ALONG)
def test_along_an_axis(name):
    attrs = [{"axis": axis} for axis in AXES if axis is not None or name != "diff"]
    if name.startswith("arg"):
        attrs += [{"axis": axis, "keepdims": True} for axis in AXES]
    if name == "diff":
        attrs += [{}, {"n": 2}, {"n": 0}, {"n": -1}, {"n": 9, "axis": 0}]
    assert_useful(f"numpy.{name}", [((x,), a) for x in ARRAYS + LARGE for a in attrs])


@pytest.mark.parametrize("op", PRODUCTS)
def test_products(op):
    kinds = [np.float64, np.float32, np.int64, np.bool_]
    shapes = [(3,), (2, 3), (3, 2), (3, 3), (1,), (0,), ()]
    some = [filled(shape, kind) for shape in shapes for kind in kinds]
    assert_useful(op, [(pair, {}) for pair in itertools.product(some, repeat=2)])


SHAPING = {
    "ravel": [{}],
    "transpose": [{}, {"axes": (1, 0)}, {"axes": (0, 2, 1)}, {"axes": (-1, 0)}, {"axes": (0, 0)}],
    "swapaxes": [{"axis1": 0, "axis2": -1}, {"axis1": 1, "axis2": 0}, {"axis1": 0, "axis2": 5}],
    "moveaxis": [{"source": 0, "destination": -1}, {"source": (0, 1), "destination": (1, 0)}, {"source": 2, "destination": 0}],
    "expand_dims": [{"axis": 0}, {"axis": -1}, {"axis": (0, 1)}, {"axis": 9}],
    "squeeze": [{}, {"axis": 0}, {"axis": 1}, {"axis": (1,)}],
    "flip": [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1}],
    "atleast_1d": [{}], "shape": [{}], "size": [{}], "ndim": [{}],
    "zeros_like": [{}, {"dtype": float}, {"dtype": np.int32}], "ones_like": [{}, {"dtype": np.float32}],
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPING)
def test_shapes(name):
    assert_useful(f"numpy.{name}", [((x,), a) for x in ARRAYS for a in SHAPING[name]])


WITH_NUMBERS = {
    "reshape": ([np.array([3, 1]), np.array([-1]), 6, np.array([3, -1]), np.array([-1, -1]), np.array([5])], [{}]),
    "roll": ([1, -1, 0, 7, np.array([1]), np.array([1, 2])], [{}, {"axis": 0}, {"axis": -1}, {"axis": 4}]),
    "tile": ([2, 1, 0, np.array([2, 3]), np.array([2, 1, 1, 2])], [{}]),
    "repeat": ([2, 1, 0, np.array([1, 2, 1])], [{}, {"axis": 0}, {"axis": -1}]),
    "take": ([np.array([0, -1]), np.array([[0], [1]]), np.array([9]), 0], [{}, {"axis": 0}, {"axis": 1}]),
    "full_like": ([1, -2, 300, 2.5, True, np.float32(3), np.array([1.0])], [{}, {"dtype": float}]),
}


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_shapes_that_numbers_say(name):
    numbers, attrs = WITH_NUMBERS[name]
    cases = [((x, n), a) for x in ARRAYS for n in numbers for a in attrs]
    for args, a in cases:  # as arguments these are not known, which they have to be for most definitions
        assert_as_kernel(f"numpy.{name}", args, a)


def test_full():
    for shape, value in itertools.product([np.array([2, 2]), 3, np.array([0])], [1, 2.5, np.float32(1), np.array([1.0, 2.0])]):
        assert_as_kernel("numpy.full", (shape, value))


@pytest.mark.parametrize("name", JOINING)
def test_joining(name):
    some = [x for x in ARRAYS if np.size(x) in (0, 1, 3, 6)]
    attrs = [{}] if name.endswith("hstack") or name == "vstack" else [{"axis": 0}, {"axis": -1}, {"axis": 1}, {"axis": 9}]
    assert_useful(f"numpy.{name}", [(pair, a) for pair in itertools.product(some[::2], some[1::3]) for a in attrs])


WARNED_OF = {"numpy.nanmean", "numpy.nanmin", "numpy.nanmax"}
"""Of what numpy warns where all is nan: no machine code; as operators of ONNX they are tried in test_expressions_in_onnx.py."""


def test_every_definition_is_tried():
    """Of the two modules that this file is about."""
    ours = {op for op, made in FUNCTIONS.items() if made.__module__ in (mdf_reductions.__name__, mdf_shapes.__name__)}
    tried = {f"numpy.{name}" for name in (*REDUCTIONS, *ALONG, *SHAPING, *WITH_NUMBERS, *JOINING, "full")}
    assert ours <= tried | {*PRODUCTS} | WARNED_OF


LOOPS = {
    "matmul": ("numpy.tanh(W @ x + 0.1)", {"W": RNG.standard_normal((5, 5)), "x": np.zeros(5)}),
    "whole weights": ("numpy.tanh(W @ x + 0.1)", {"W": np.arange(25).reshape(5, 5) % 3 - 1, "x": np.zeros(5)}),
    "dot": ("x * 0.5 + numpy.dot(x, w)", {"x": np.ones(7), "w": np.linspace(-0.2, 0.2, 7)}),
    "outer": ("x * 0.9 + numpy.outer(w, w)", {"x": np.zeros((4, 4)), "w": np.array([1.0, 2.0, 3.0, -1.0])}),
    "softmax": ("numpy.exp(x - numpy.max(x)) / numpy.sum(numpy.exp(x - numpy.max(x)))", {"x": np.arange(5.0)}),
    "normalised": ("(x - numpy.mean(x)) / (numpy.std(x) + 0.1) + w", {"x": np.arange(6.0), "w": np.linspace(0, 1, 6)}),
    "rows": ("x - numpy.mean(x, axis=1, keepdims=True) * 0.1", {"x": np.arange(12.0).reshape(3, 4)}),
    "neighbours": ("0.5 * x + 0.25 * (numpy.roll(x, 1) + numpy.roll(x, -1))", {"x": np.arange(8.0)}),
    "shift register": ("numpy.concatenate([x[1:], [numpy.sum(x) * 0.3]])", {"x": np.linspace(0.1, 1, 5)}),
    "turned": ("numpy.transpose(x) * 0.5 + numpy.flip(x, axis=0)", {"x": np.arange(9.0).reshape(3, 3)}),
    "running": ("numpy.cumsum(x) * 0.1", {"x": np.arange(4.0)}),
    "winner": ("x * 0.9 + (numpy.argmax(x) == 2)", {"x": np.array([0.1, 0.5, 0.4])}),
    "norm": ("x / (1 + numpy.linalg.norm(x))", {"x": np.array([3.0, 4.0])}),
    "and of single elements": ("numpy.where((x > 0.5) and (x < 2), x * 1.1, x + 0.2)", {"x": np.array([0.1])}),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_compile_and_are_those_of_the_interpreter(name):
    pytest.importorskip("llvmlite")
    from mdf_loop.execute.programs import watched_programs

    expression, values = LOOPS[name]
    captured, found = {key: value for key, value in values.items() if key != "x"}, {}
    for engine in ("interpret", "numpy", "jit"):
        with mdf_loop.options(engine=engine), watched_programs() as programs:
            found[engine] = mdf_loop.loop(60, True, values["x"], body=f"x: {expression}", **captured)
    assert [p.latest.is_alone for p in programs] == [True]
    np.testing.assert_array_equal(found["numpy"], found["interpret"])
    np.testing.assert_allclose(found["jit"], found["interpret"], rtol=1e-12, atol=1e-13)
    assert found["jit"].dtype == found["interpret"].dtype
