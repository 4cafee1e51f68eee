"""Laws of the definitions of MDF's operators: what their programs compute is what the kernels compute, type and bits."""

import inspect
import itertools

import numpy as np
import pytest
from mdf_bodies import graph, node
from modeci_mdf.mdf import Parameter

import mdf_loop
from mdf_loop.backends.python.printer import program
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.ir import Body, Node
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import KERNELS
from mdf_loop.options import start_run
from mdf_loop.readers import read as read_mdf_graph
from mdf_loop.readers.onnx.loop_records import loop_record
from mdf_loop.step.build import Builder, CannotLower, type_of_value
from mdf_loop.step.check import check
from mdf_loop.step.lower import lower_graph
from mdf_loop.step.trace import definition_of

load_kernels()

NUMBERS = [True, False, 0, 1, -2, 7, 2**70, 0.0, -0.0, 1.5, -2.25, 0.5, np.inf, -np.inf, np.nan, 1e308]
SCALARS = [
    np.True_,
    np.int64(3),
    np.int64(2**63 - 1),
    np.int32(-5),
    np.uint8(200),
    np.float16(-1.5),
    np.float32(0.75),
    np.float64(2.5),
    np.float64(-0.0),
    np.float64(np.nan),
    np.float64(-np.inf),
]
ARRAYS = [
    np.array(1.5),
    np.array(3),
    np.array(0.5, np.float32),
    np.array([1.5, -2.0, np.nan]),
    np.array([0.25, np.inf, -0.0], np.float32),
    np.array([1, -2, 3]),
    np.array([[True], [False]]),
    np.array([1, 2, 200], np.uint8),
]
VALUES = [*NUMBERS, *SCALARS, *ARRAYS]
FEW = [True, 0, 1.5, -0.0, np.nan, np.int64(3), np.float32(0.75), np.float64(2.5), np.array(1.5), np.array([1.5, -2.0, np.nan])]
INDICES = {"index", "getitem", "setitem", "dimension", "array", "listed", "tensor"}

DEFINED = sorted(op for (domain, op), versions in KERNELS.items() if domain == "mdf" and definition_of(versions[-1]) is not None)


def argument_counts(op):
    """How many arguments an operator is tried with."""
    run = KERNELS["mdf", op][-1].run
    if isinstance(run, np.ufunc):
        return [run.nin]
    if op in ("builtins.min", "builtins.max", "math.gcd", "math.lcm", "math.hypot", "initially"):
        return [2]
    try:
        parameters = inspect.signature(run).parameters.values()
    except ValueError:
        return [1, 2] if op == "math.log" else [1]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [len([p for p in positional if p.default is p.empty]), *([2, 3] if op == "numpy.clip" else [])]


def is_small(op, args):
    return op not in ("power", "left_shift") or all(type(x) is not int or abs(x) < 100 for x in args)


def same(actual, wanted, ulp):
    """Whether two values are the same in type, element type, shape and bits, but for some units in the last place."""
    if type(actual) is not type(wanted) or np.shape(actual) != np.shape(wanted):
        return False
    if not isinstance(wanted, np.ndarray | np.generic | float):
        return actual == wanted
    a, b = np.asarray(actual), np.asarray(wanted)
    if a.dtype != b.dtype or a.dtype.kind != "f":
        return a.dtype == b.dtype and (a.dtype.kind == "O" or np.array_equal(a, b))
    close = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    if ulp:
        close |= np.abs(a - b) <= ulp * np.spacing(np.maximum(np.abs(a), np.abs(b)))
    return bool(close.all())


def tried(call, *args):
    """What a call gives, or the error that it raises."""
    try:
        with np.errstate(all="ignore"):
            return call(*args)
    except Exception as error:
        return error


def body_of(op, count, attrs):
    names = tuple(f"x{k}" for k in range(count))
    return Body("b", names, ("y",), (Node(op, names, ("y",), attrs, opset=1, domain="mdf"),), typed=False)


APPROXIMATE = (
    "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh "
    "hypot float_power logaddexp logaddexp2 sinc degrees radians deg2rad rad2deg"
)
APPROXIMATE = {f"numpy.{name}" for name in APPROXIMATE.split()} | {
    "power",
    "scipy.special.erf",
    "scipy.special.erfc",
    "scipy.special.gamma",
    "scipy.special.gammaln",
}
"""Functions that numpy and Python's math round in ways of their own."""


ADDED_UP = ["sum", "prod", "mean", "nansum", "nanprod", "var", "std", "dot", "inner", "linalg.norm"]
ADDED_UP = {f"numpy.{name}" for name in ADDED_UP} | {"matmul"}
"""Sums of floats, in another order where the definition itself is printed: programs call the kernel."""


PROGRAMS = {}
"""The programs of an operator, by its name, its attributes and the types of its arguments."""


def programs(op, types, attrs):
    """The program of an operator; and that of the definition alone, which the first does not use where numpy has a function."""
    key = op, repr(attrs), types
    if key not in PROGRAMS:
        PROGRAMS[key] = [program(check(lower_graph(body_of(op, len(types), attrs), list(types))))[0]]
        builder = Builder()
        try:
            given = [builder.param(type, k) for k, type in enumerate(types)]
            found = definition_of(KERNELS["mdf", op][-1])(builder, *given, **attrs)
            PROGRAMS[key].append(program(check(builder.closed([found])))[0])
        except (CannotLower, ValueError, ZeroDivisionError):
            pass
    return PROGRAMS[key]


def assert_as_kernel(op, args, attrs=None):
    """The programs give what the kernel gives or fall back; whether the definition gave something is returned."""
    attrs = attrs or {}
    wanted = tried(lambda *xs: KERNELS["mdf", op][-1].run(*xs, **attrs), *args)
    ways = programs(op, tuple(type_of_value(x, exact=True) for x in args), attrs)
    found = [tried(way, start_run(), *args) for way in ways]
    for actual, is_alone in zip(found, (False, True), strict=False):
        if isinstance(wanted, Exception):
            assert isinstance(actual, Exception), (op, args, wanted, actual)
        elif not isinstance(actual, Exception):
            ulp = 3 if op in APPROXIMATE else 40 if is_alone and op in ADDED_UP else 0
            assert same(actual[0], wanted, ulp), (op, args, attrs, wanted, actual[0])
    return len(found) > 1 and not isinstance(found[1], Exception)


OF_ARRAYS = {
    f"mdf_loop.kernels.definitions.{name}" for name in ("mdf_reductions", "mdf_shapes", "mdf_matrices", "mdf_open_lengths")
}
"""What these modules define wants arrays and attributes: see test_definitions_of_mdf_arrays.py and test_matrices.py."""

OF_NUMBERS = [op for op in DEFINED if op not in INDICES and definition_of(KERNELS["mdf", op][-1]).__module__ not in OF_ARRAYS]


@pytest.mark.parametrize("op", OF_NUMBERS)
@pytest.mark.filterwarnings("ignore")
def test_a_definition_is_its_kernel(op):
    useful = 0
    for count in argument_counts(op):
        pool = VALUES if count == 1 else FEW if count > 2 else [*VALUES[::4], *FEW]
        for args in itertools.product(pool, repeat=count):
            if is_small(op, args):
                useful += assert_as_kernel(op, args)
    assert useful


@pytest.mark.filterwarnings("ignore")
def test_places_in_arrays():
    indices = [
        0,
        -1,
        1,
        5,
        slice(1, None),
        slice(None, None, -1),
        (0, 1),
        (slice(None), 1),
        (0, slice(None, None, 2), -1),
        ...,
        None,
    ]
    places = [0, 1, -1, 9, 2**70, True, 1.0, np.int64(1), np.int32(-2), np.uint8(1), np.array(1), np.array([0, 1])]
    for x in (np.arange(6.0).reshape(2, 3), np.arange(4), np.float32([1.5, 2, 3]), np.arange(24).reshape(2, 3, 4), *VALUES):
        for index in indices:
            assert_as_kernel("index", (x,), {"index": index})
        for k in places:
            assert_as_kernel("getitem", (x, k), {"index": ("value", 0)})
            assert_as_kernel("getitem", (x, k, 1), {"index": ("tuple", ("value", 0), ("value", 1))})
            assert_as_kernel("getitem", (x, k), {"index": ("slice", ("value", 0), None, None)})
        for axis in (0, 1, -1, 7):
            assert_as_kernel("dimension", (x,), {"axis": axis})


@pytest.mark.filterwarnings("ignore")
def test_elements_that_are_set():
    arrays = [np.arange(6.0).reshape(2, 3), np.arange(4), np.float32([1.5, 2, 3]), np.arange(24).reshape(2, 3, 4)]
    known = [0, -1, 9, ("slice", 1, None, None), ("slice", 1, 9, None), ("slice", 2, 1, None), ("slice", None, None, 2), ...]
    known += [
        ("tuple", 0, 1),
        ("tuple", ("slice", None, None, None), 1),
        ("tuple", ..., 0),
        ("tuple", 1, ..., ("slice", 0, 2, None)),
    ]
    for x, new in itertools.product(arrays, [7, 2.5, True, np.float32(1.5), np.array([1.0, 2.0, 3.0]), np.arange(4)]):
        for index in known:
            assert_as_kernel("setitem", (x, new), {"index": index})
        for k in (0, -1, 9, np.int32(1), 1.0, np.array([0, 1]), x > 1, np.array(True)):
            assert_as_kernel("setitem", (x, new, k), {"index": ("value", 0)})
            assert_as_kernel("setitem", (x, new, k), {"index": ("tuple", 0, ("value", 0))})


@pytest.mark.filterwarnings("ignore")
def test_numbers_put_into_arrays():
    for x, y in itertools.product(VALUES, repeat=2):
        assert_as_kernel("array", (x, y), {"shape": (2,)})
        assert_as_kernel("array", (x, y, y, x), {"shape": (2, 2)})
        assert_as_kernel("tensor", (x, y))
        for place in (0, 1, -1):
            assert_as_kernel("listed", (x, y), {"place": place})
    for x, vector, floating in itertools.product(VALUES, (False, True), (False, True)):
        assert_as_kernel("tensor", (x,), {"vector": vector, "floating": floating})


@pytest.mark.filterwarnings("ignore")
def test_attributes():
    for x in VALUES:
        for decimals in (0, 1, 2, -1):
            assert_as_kernel("numpy.round", (x,), {"decimals": decimals})
        assert_as_kernel("numpy.nan_to_num", (x,), {"nan": 1.0, "posinf": 5, "neginf": -5.5})
        for dtype in (np.float32, float, int):
            assert_as_kernel("numpy.asarray", (x,), {"dtype": dtype})


WITHOUT: dict[str, str] = {}
"""Element-wise operators without a definition, each with its reason."""


def test_element_wise_operators_have_definitions():
    missing = {
        op
        for (domain, op), versions in KERNELS.items()
        if domain == "mdf" and versions[-1].batch is elementwise and definition_of(versions[-1]) is None
    }
    assert missing == set(WITHOUT)


def test_nothing_is_taken_for_none():
    """To numpy None is float64 as well: a value of unknown type is not one of float64."""
    body = Body("b", ("x", "y"), ("z",), (Node("initially", ("x", "y"), ("z",), opset=1, domain="mdf"),), typed=False)
    for first in (1, 2.5, np.float32(1), None):
        written, _ = program(check(lower_graph(body, [type_of_value(None), type_of_value(first, exact=True)])))
        assert written(start_run(), None, first)[0] is first


# Loops


def stepped(parameters, outputs, iterations, carried, engine):
    """What a loop over a node gives; outputs by name, those of carried values first."""
    parameters = [Parameter(id=name, value=value) for name, value in parameters.items()]
    ports = tuple(outputs)[: len(carried)]
    body = graph(node("A", ports, {f"{name}_out": value for name, value in outputs.items()} | {"go": "True"}, parameters),
                 inputs=("i", "go_on", *ports), outputs=("go", *(f"{name}_out" for name in outputs)))  # fmt: skip
    read = read_mdf_graph(body, len(carried))
    with mdf_loop.options(engine=engine):
        return NumpyLoop(loop_record(read, len(carried)))(Arguments(iterations, None, carried=list(carried)), start_run())


LOOPS = {
    "counter": ({}, {"n": "n + 1", "half": "n / 2"}, (0,)),
    "without end": ({}, {"n": "n * 3 + 1", "low": "n % 1000"}, (1,)),
    "an int that becomes a float": ({}, {"x": "x * 0.5 + 1"}, (4,)),
    "truth": ({}, {"b": "not b", "n": "n + b"}, (True, 0)),
    "FitzHugh-Nagumo": (
        {"dt": 0.05},
        {"v": "v + dt * (v - v ** 3 / 3 - w + 0.5)", "w": "w + dt * 0.08 * (v + 0.7 - 0.8 * w)"},
        (-1.0, 1.0),
    ),
    "Hodgkin-Huxley": (
        {"dt": 0.01},
        {
            "v": "v + dt * (10.0 - 36.0 * n ** 4 * (v + 77.0) - 0.3 * (v + 54.4))",
            "n": "n + dt * (0.01 * (v + 55.0) / (1.0 - math.exp(-(v + 55.0) / 10.0)) * (1.0 - n) "
            "- 0.125 * math.exp(-(v + 65.0) / 80.0) * n)",
        },
        (-65.0, 0.3),
    ),
    "numpy's functions": ({}, {"x": "numpy.exp(-x) + numpy.tanh(x) * 0.5", "y": "numpy.where(x > 0.5, x, 1)"}, (0.25,)),
}


@pytest.mark.parametrize("iterations", [1, 3, 40, 300])
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("kind", ["Python's", "numpy's", "arrays"])
def test_loops_are_those_of_the_interpreter(name, iterations, kind):
    parameters, outputs, carried = LOOPS[name]
    if name == "without end" and (iterations > 40 or kind != "Python's"):
        pytest.skip("numpy's numbers wrap around, and arrays of larger ones are objects")
    make = {"Python's": lambda x: x, "numpy's": lambda x: np.asarray(x)[()], "arrays": np.asarray}[kind]
    carried = tuple(map(make, carried))
    wanted = stepped(parameters, outputs, iterations, carried, "interpret")
    actual = stepped(parameters, outputs, iterations, carried, "numpy")
    assert len(actual) == len(wanted)
    for one, other in zip(actual, wanted, strict=True):
        assert type(one) is type(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)
