"""The law of definitions for operators on whole arrays: reductions, products, places, shapes.

Over ONNX's node cases and ``samples.py``, and over the element types of those below.  What a definition does
not cover it refuses; those that have to be covered stand in a table.
"""

import ml_dtypes
import numpy as np
import pytest
from definitions import assert_same, defined, kernel_of, specials
from in_groups import each
from samples import single_nodes
from step_meaning import evaluate

from mdf_loop.backends.python.printer import program
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Node
from mdf_loop.ops.registry import lookup
from mdf_loop.options import start_run
from mdf_loop.step.build import type_of_value
from mdf_loop.step.failing import FallBack
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.trace import definition_of, is_traced
from mdf_loop.types.elements import kind_of

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # samples of every type

HALVES, SINGLES = [np.float16, ml_dtypes.bfloat16], [np.float32, np.float64]
WHOLE = [np.int32, np.int64, np.uint32, np.uint64]

REDUCTIONS = [
    *("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
]


def is_defined(node):
    try:
        entry = lookup(node.op, node.opset, node.domain)
    except UnsupportedOp:
        return False
    return definition_of(entry) is not None or is_traced(entry)


def is_typed(values):
    return all(x is None or (isinstance(x, np.ndarray | np.generic) and x.dtype != object) for x in values)


CASES = {name: (node, values) for name, node, values in single_nodes() if is_defined(node) and is_typed(values)}


def steering(values):
    """Places of inputs that say what to do, as a rule: whole numbers behind the first input."""
    return [k for k, x in enumerate(values) if k and x is not None and (kind_of(x.dtype) == "integer" or x.dtype == bool)]


def holds(node, values, known, within=None):
    """Whether the definition covers the case; if so it is the kernel."""
    given = [x if x is None else np.asarray(x)[()] for x in values]
    region = defined(node, given, known)
    if region is None or any(value.op == "loop" for value in region.values):
        return False  # loops are run by programs alone: test_definitions_of_mdf_arrays.py has numpy's cumsum and cumprod
    found = evaluate(region, [x for k, x in enumerate(given) if x is not None and k not in known])
    for one, other in list(zip(found, kernel_of(node, given), strict=False))[: len(node.outputs)]:
        is_half = kind_of(other.dtype) == "float" and other.dtype.itemsize < 4
        scale = None if kind_of(other.dtype) != "float" or not other.size else np.atleast_1d(abs(other.astype(float)).max())
        assert_same(one, other, (2 if is_half else 16) if within is None else within, scale)
    return True


@each("name", CASES)
def test_definition_is_the_kernel(name):
    node, values = CASES[name]
    for known in ((), steering(values)):
        holds(node, values, known)


COVERED = {
    *REDUCTIONS,
    *("BatchNormalization", "Concat", "Flatten", "Gather", "Gemm", "LayerNormalization", "LogSoftmax", "MatMul"),
    *("RMSNormalization", "Reshape", "Slice", "Softmax", "Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze"),
    *("Einsum", "Hardmax", "LpNormalization", "MeanVarianceNormalization", "Resize"),
}
"""Operators of which at least one case is covered."""


@pytest.mark.parametrize("op", sorted(COVERED))
def test_definition_covers_a_case(op):
    cases = [case for case in CASES.values() if case[0].op == op]
    assert any(holds(*case, steering(case[1])) for case in cases)


@pytest.mark.parametrize("dtype", [*HALVES, *SINGLES, *WHOLE], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("op", [*REDUCTIONS, "ReduceMean"])
def test_reductions(op, dtype):
    x = np.resize(
        specials(np.dtype(dtype))[:-4:2] if kind_of(np.dtype(dtype)) == "integer" else np.linspace(-3, 3, 13).astype(dtype), 24
    )
    x = abs(x) if op == "ReduceLogSum" else x
    for shape in ((24,), (4, 6), (2, 3, 4)):
        for opset, axes, keep in ((20, None, 1), (20, [0], 0), (12, [-1], 1), (20, [0, -1], 0)):
            if axes is not None and len(shape) == 1 and len(axes) > 1:
                continue
            attrs = {"keepdims": keep} | ({"axes": axes} if opset < 13 and axes else {})
            inputs = [x.reshape(shape)] + ([np.array(axes)] if opset > 13 and axes else [])
            node = Node(op, tuple("xa"[: len(inputs)]), ("y",), attrs, opset=opset)
            assert holds(node, inputs, [1])
            body = Body("one", ("x",), ("y",), (node,), {"a": inputs[1]} if len(inputs) > 1 else {})
            try:  # numbers of Python's may refuse what is nan to numpy, or too large for the type
                (found,) = program(lower_graph(body, [type_of_value(inputs[0])]), careful=True)[0](start_run(), inputs[0])
            except (FallBack, ValueError):
                continue
            expected = kernel_of(node, inputs)[0]
            assert_same(found, expected, 16, np.atleast_1d(abs(np.asarray(expected).astype(float)).max()))


X = np.linspace(-3, 3, 24).reshape(4, 6)
S = np.linspace(-2, 2, 48).reshape(2, 3, 2, 4)
NODES = [
    ("Softmax", 20, [X], {}, (), SINGLES),
    ("Softmax", 20, [X], {"axis": 0}, (), SINGLES),
    ("Softmax", 11, [X.reshape(2, 3, 4)], {"axis": 1}, (), SINGLES),
    ("LogSoftmax", 20, [X], {}, (), SINGLES + HALVES),
    ("LogSoftmax", 11, [X.reshape(2, 3, 4)], {"axis": -1}, (), SINGLES + HALVES),
    ("LayerNormalization", 20, [X, X[0], X[1]], {}, (), SINGLES + HALVES),
    ("LayerNormalization", 20, [X, X[0]], {"epsilon": 0.1, "stash_type": 11}, (), SINGLES),
    ("LayerNormalization", 20, [X.reshape(2, 3, 4), X[:3, :4], X[:3, :4]], {"axis": 1}, (), SINGLES + HALVES),
    ("RMSNormalization", 23, [X, X[0]], {}, (), SINGLES + HALVES),
    ("BatchNormalization", 15, [X, X[0], X[1], X[2], X[3] + 4], {}, (), SINGLES + HALVES),
    *(("MatMul", 13, list(given), {}, (), SINGLES + WHOLE) for given in ((X, X.T), (X[0], X.T), (X, X[0]), (X[0], X[1]))),
    ("MatMul", 13, [X * 1e9, X.T * 1e9], {}, (), [np.int64]),  # they wrap around
    ("Gemm", 13, [X, X.T], {}, (), SINGLES + WHOLE),
    ("Gemm", 13, [X, X, X[:, 0]], {"transB": 1, "alpha": 0.5, "beta": 2.0}, (), SINGLES + HALVES),
    ("Gemm", 13, [X, X, X[0]], {"transA": 1}, (), SINGLES + HALVES),
    ("Gemm", 6, [X, X.T, X[:, :4]], {"beta": 0.3}, (), SINGLES),
    ("Tile", 13, [X, np.array([2, 3])], {}, (1,), SINGLES + HALVES + WHOLE),
    ("Pad", 18, [X, np.array([1, -1, 2, 0])], {}, (1,), SINGLES + HALVES + WHOLE),
    ("Pad", 18, [X, np.array([-1, 2]), X[0, 0], np.array([-1])], {}, (1, 3), SINGLES + WHOLE),
    ("Pad", 13, [X, np.array([0, 1, 2, 3]), X[0, 0]], {}, (1,), SINGLES),
    ("Pad", 10, [X], {"pads": [0, 1, -2, 3], "value": 0.5}, (), SINGLES),
    ("Trilu", 14, [X], {}, (), SINGLES + WHOLE),
    ("Trilu", 14, [X, np.array(1)], {"upper": 0}, (1,), SINGLES + WHOLE),
    ("GatherND", 13, [X, np.array([[1], [-2]])], {}, (), SINGLES),
    ("GatherND", 13, [X, np.array([1, -2])], {}, (), SINGLES),
    ("GatherND", 11, [X, np.array([[1, 2]])], {}, (), SINGLES),
    ("GatherElements", 13, [X[0], np.array([1, -2, 3])], {}, (), SINGLES),
    ("Dropout", 13, [X], {}, (), SINGLES),
    ("Dropout", 7, [X], {}, (), SINGLES),
    ("LpNormalization", 13, [X], {}, (), SINGLES + HALVES),
    ("LpNormalization", 13, [X * (X > 0)], {"axis": 0, "p": 1}, (), SINGLES + HALVES),
    ("MeanVarianceNormalization", 13, [X.reshape(2, 3, 2, 2)], {}, (), SINGLES + HALVES),
    ("MeanVarianceNormalization", 13, [X], {"axes": [-1]}, (), SINGLES + HALVES),
    ("Hardmax", 13, [X], {"axis": 0}, (), SINGLES),
    ("Hardmax", 13, [np.round(X)], {}, (), SINGLES),
    ("Hardmax", 11, [X.reshape(2, 3, 4)], {"axis": 1}, (), SINGLES),
    ("Resize", 18, [S, None, np.array([1.0, 1, 2, 1.5], np.float32)], {}, (2,), SINGLES + WHOLE),
    ("Resize", 18, [S, None, np.array([1.0, 1, 2, 0.7], np.float32)], {"mode": "linear", "antialias": 1}, (2,), SINGLES),
    ("Resize", 18, [S, None, None, np.array([7, 3])], {"mode": "cubic", "axes": [2, -1]}, (3,), SINGLES),
    ("Resize", 13, [S, None, None, np.array([2, 1, 4, 9])], {"coordinate_transformation_mode": "align_corners"}, (3,), SINGLES),
    ("Resize", 10, [S, np.array([1.0, 1, 2, 0.5], np.float32)], {"mode": "linear"}, (1,), SINGLES),
    ("Upsample", 9, [S, np.array([1.0, 1, 2, 3], np.float32)], {}, (1,), SINGLES),
]
NODES += [
    ("Einsum", 13, operands, {"equation": equation}, (), SINGLES + HALVES + WHOLE)
    for equation, operands in {
        "ij->ji": [X],
        "ij->": [X],
        "ij": [X],
        "ji": [X],
        "i,i->": [X[0], X[1]],
        "ij,j->i": [X, X[0]],
        "i,j->ji": [X[0], X[:, 0]],
        "ij,kj": [X, X],
        "bij,bjk->bik": [S[0], S[1].transpose(0, 2, 1)],
        "bij,bkj->kbi": [S[0], S[0]],
        "bi,bi->b": [X, X],
        "bi,bij->bj": [X[:3, :2], S[0]],
        "...ij,jk->...ik": [S, X[:4]],
        "...i,...i": [S, S[0]],
        "ij,ij->ij": [X, X],
        "i,ij,j->": [X[:, 0], X, X[0]],
        "abc,cd,bd->ad": [S[0], X, X[:2]],
        "abc,de->e": [S[0], X],
    }.items()
]


@pytest.mark.parametrize(("op", "opset", "inputs", "attrs", "known", "dtypes"), NODES)
def test_definitions_cover_what_models_use(op, opset, inputs, attrs, known, dtypes):
    for dtype in dtypes:
        given = [x.astype(dtype) if x is not None and x.dtype == np.float64 else x for x in inputs]
        outputs = {"LayerNormalization": 3, "Dropout": 2}.get(op, 1)
        names = tuple("" if x is None else f"x{k}" for k, x in enumerate(given))
        node = Node(op, names, tuple(f"y{k}" for k in range(outputs)), attrs, opset=opset)
        assert holds(node, given, known)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("dtype", [*SINGLES, *WHOLE], ids=lambda d: np.dtype(d).name)
def test_one_among_zeros(axis, opset, dtype):
    indices = np.array([0, 3, -1, -4, 7, -9]) if opset == 11 else np.array([0, 3, -1, 7])
    node = Node("OneHot", ("i", "d", "v"), ("y",), {"axis": axis}, opset=opset)
    assert holds(node, [indices, np.array(4), np.array([2, 5]).astype(dtype)], (1,))
    assert holds(node, [indices, np.array([4]), np.array([2, 5]).astype(dtype)], (1, 2))
