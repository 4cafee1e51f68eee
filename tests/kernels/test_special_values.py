"""The law of element-wise kernels: an element gives the same wherever it stands.

Alone, in a short or a long row, and stacked with the values of other iterations: the same bits, or within 3 units in the last
place where that is a matter of how a function is computed.  And small floats give what larger ones give, rounded.
"""

import itertools

import ml_dtypes
import numpy as np
import onnx
import pytest
from engines import ENGINES
from in_groups import each
from modeci_mdf import mdf

import mdf_loop
from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.mdf.expression_operators import OPERATORS
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import KERNELS, lookup
from mdf_loop.types.elements import NAMES, kind_of

load_kernels()

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # samples of every type

FLOATS = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
WHOLE = [np.dtype(t) for t in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)]
TYPES = [*FLOATS, *WHOLE, np.dtype(bool)]

ATTRIBUTES = {"BitShift": {"direction": "LEFT"}, "Cast": {"to": 1}}
"""Attributes of operators that need some."""

LEFT_OUT = {"Dropout", "BitCast", ("Cast", 1)}
"""No functions of one element, or of other attributes in that version."""

EITHER_ZERO = {"Max", "Min"}
"""Operators of which no one says which of 0.0 and -0.0 they give."""

TOLERANCE = 3


def special(dtype):
    """Values that are treated apart somewhere, and some that are not."""
    if dtype.kind == "b":
        return np.array([True, False])
    if kind_of(dtype) == "integer":
        limits = ml_dtypes.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, 100, limits.max, limits.min, limits.max // 2, limits.max - 1]).astype(dtype)
    limits = ml_dtypes.finfo(dtype)
    tiny = [limits.smallest_subnormal, limits.smallest_normal, limits.eps, limits.max]
    plain = [np.inf, np.nan, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, *map(float, tiny)]
    return np.array([*plain, *(-x for x in plain)], np.float64).astype(dtype)


def distance(one, other):
    """How many units in the last place two arrays of floats differ; infinite where they are of different kinds."""
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if kind_of(one.dtype) != "float":
        return 0 if np.array_equal(one, other) else np.inf
    a, b = one.astype(np.float64), other.astype(np.float64)
    nan, known = np.isnan(a), np.isfinite(a)
    if not (np.array_equal(nan, np.isnan(b)) and np.array_equal(known, np.isfinite(b))):
        return np.inf
    if not np.array_equal(a[~nan & ~known], b[~nan & ~known]) or not np.array_equal(np.signbit(a[~nan]), np.signbit(b[~nan])):
        return np.inf
    limits = ml_dtypes.finfo(one.dtype)
    unit = np.maximum(np.abs(b[known]) * float(limits.eps), float(limits.smallest_subnormal))
    return float(np.max(np.abs(a[known] - b[known]) / unit, initial=0))


def onnx_operators():
    """(operator, version, number of inputs) of the kernels of ONNX's own that work element by element."""
    for (domain, op), versions in KERNELS.items():
        for entry in versions:
            if domain == "" and entry.batch is elementwise and entry.native and not LEFT_OUT & {op, (op, entry.since)}:
                schema = onnx.defs.get_schema(op, entry.since, "")
                yield op, entry.since, max(schema.min_input, 2 if schema.max_input > 3 else 1)


def accepts(op, version, count, dtype):
    """Whether all inputs may be of one type."""
    schema = onnx.defs.get_schema(op, version, "")
    kinds = [schema.inputs[min(k, len(schema.inputs) - 1)].types for k in range(count)]
    return all(dtype in {NAMES[t[7:-1]] for t in kind if t.startswith("tensor(") and t[7:-1] in NAMES} for kind in kinds)


CASES = [(*found, dtype) for found in onnx_operators() for dtype in TYPES if accepts(*found, dtype)]


def pairs(dtype, count):
    """Every combination of special values: one array for each input."""
    return [np.array(column).astype(dtype) for column in zip(*itertools.product(special(dtype), repeat=count), strict=True)]


def arrangements(entry, columns, attrs):
    """What each combination gives: alone, in a row, in rows of one, among many, and in a batch of single numbers and of rows."""
    count, many = len(columns[0]), 40
    yield "alone", np.array([entry.run(*[np.asarray(c[k]) for c in columns], **attrs) for k in range(count)])
    yield "rows of one", np.concatenate([entry.run(*[c[k : k + 1] for c in columns], **attrs) for k in range(count)])
    long = entry.run(*[np.tile(c, many) for c in columns], **attrs)
    yield "among many", long[-count:]
    yield "in two axes", entry.run(*[np.tile(c, (3, 1)) for c in columns], **attrs)[2]
    for name, stacked in (("stacked", columns), ("stacked rows", [c[:, None] for c in columns])):
        found = entry.batch(entry.run, stacked, [True] * len(columns), attrs)
        yield name, found[0][0].reshape(count)
    if len(columns) == 2:
        long = np.tile(columns[0], 2)
        last = [np.asarray(entry.run(long, columns[1][k], **attrs))[k] for k in range(count)]
        yield "with one number for all", np.array(last)


@each("op,version,count,dtype", CASES, size=20)
def test_an_element_gives_the_same_wherever_it_stands(op, version, count, dtype):
    entry, attrs = lookup(op, version), ATTRIBUTES.get(op, {})
    columns = pairs(dtype, count)
    with np.errstate(all="ignore"):
        wanted = entry.run(*columns, **attrs)
        for name, found in arrangements(entry, columns, attrs):
            assert distance(found.astype(wanted.dtype), wanted) <= TOLERANCE, name


HALVES = [case for case in CASES if case[3].itemsize == 2 and kind_of(case[3]) == "float"]


@each("op,version,count,dtype", HALVES)
def test_small_floats_give_what_larger_ones_give(op, version, count, dtype):
    entry, attrs = lookup(op, version), ATTRIBUTES.get(op, {})
    columns = pairs(dtype, count)
    with np.errstate(all="ignore"):
        found = entry.run(*columns, **attrs)
        wanted = np.asarray(entry.run(*[c.astype(np.float64) for c in columns], **attrs)).astype(found.dtype)
        if op in EITHER_ZERO:
            found, wanted = (np.where(x == 0, x.dtype.type(0), x) for x in (found, wanted))
        assert distance(found, wanted) <= 1


# Expressions of MDF: numpy's numbers alone, and stacked

OF_TWO = [
    op for op in OPERATORS if lookup(op, 1, "mdf").takes[0] != 1 and op not in ("negative", "positive", "absolute", "invert")
]
WEAK = [True, 2, 3, -1, 0.5, 2.0, -0.5]


def attempt(run, *args):
    try:
        return run(*args)
    except (TypeError, ValueError, ArithmeticError):
        return None


@pytest.mark.parametrize("op", [*OF_TWO, "power", "left_shift"])
@pytest.mark.parametrize("dtype", [t for t in TYPES if t.kind in "biuf"], ids=str)
def test_numbers_of_an_expression_are_what_they_are_when_stacked(op, dtype):
    entry, values = lookup(op, 1, "mdf"), special(dtype)
    others = [*WEAK, *(t.type(1) for t in TYPES if t.kind in "biuf"), dtype.type(0.5)]
    with np.errstate(all="ignore"):
        for other, order in itertools.product(others, (1, -1)):
            single = [attempt(entry.run, *(value, other)[::order]) for value in values]
            for k in range(len(values)):
                batch = attempt(
                    entry.batch, entry.run, (values[k : k + 1].repeat(20), other)[::order], (True, False)[::order], {}
                )
                if batch is not None:  # None: one by one
                    assert distance(batch[0][0][-1:], np.array([single[k]])) <= TOLERANCE, (values[k], other, order)


POWERS = """
<double[3] half = {0.5, 0.5, 0.5}, double[1] one_half = {0.5}>
{
    x = Gather (table, i)
    a = Pow (x, half)
    b = Pow (x, one_half)
    one = Gather (singles, i)
    c = Pow (one, single_half)
    d = Add (c, before)
    after = Where (go, before, d)
}"""


@pytest.mark.parametrize("engine", ENGINES)
def test_powers_of_one_half_in_a_loop(engine):
    table, singles = np.array([[-np.inf, -0.0, 4.0]] * 30), np.array([4.0, -np.inf, -0.0] * 10)
    head = "roots (int64 i, bool go, double before) => (bool go, double after, double[3] a, double[1,3] b, double c) "
    with mdf_loop.options(engine=engine):
        results = mdf_loop.loop(30, True, 0.0, body=head + POWERS, table=table, singles=singles, single_half=np.array(0.5))
    for found in results[1:3]:
        assert distance(found.reshape(30, 3), np.array([[np.inf, 0.0, 2.0]] * 30)) == 0
    assert distance(results[3], np.array([2.0, np.inf, 0.0] * 10)) == 0


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("((s > 0) * (s < 9)) ** 2 * 100 * 2", np.int64(200)),
        ("(0 - numpy.exp(s * 2000)) ** 0.5", np.inf),
        ("(s * -0.0) ** 0.5", 0.0),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_powers_of_an_expression_are_those_of_mdf(text, wanted, engine):
    node = mdf.Node(
        id="N",
        parameters=[mdf.Parameter(id="s", value="numpy.minimum(s + 0.5, 3.0)", default_initial_value=0.5)],
        output_ports=[mdf.OutputPort(id="a", value=text)],
    )
    with mdf_loop.options(engine=engine):
        found = mdf_loop.run(mdf.Graph(id="g", nodes=[node]), steps=20)["a"]
    assert distance(found, np.asarray(wanted)) == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_the_absolute_value_of_a_complex_number_is_a_float(engine, dtype):
    """It stayed complex in machine code, and in JAX."""
    z = dtype(3 + 4j)
    with mdf_loop.options(engine=engine):
        _, one, many = mdf_loop.loop(6, True, 1.0, body="x: x\ncollect p: abs(z)\ncollect q: abs(stack([z, z]))", z=z)
    for found in (one, many):
        assert found.dtype == np.abs(z).dtype
        assert (found == 5).all()
