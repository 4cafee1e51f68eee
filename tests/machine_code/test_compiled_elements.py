"""Primitives and conversions in machine code: what numpy gives, for every element type, in rows of any length."""

import platform

import ml_dtypes
import numpy as np
import pytest
from definitions import numbers_of
from in_groups import each

pytest.importorskip("llvmlite")

from step_meaning import evaluate

import mdf_loop
from mdf_loop.backends.llvm.compiled_program import program
from mdf_loop.backends.llvm.lanes.arithmetic import WRITERS
from mdf_loop.backends.llvm.lanes.element_types import ELEMENTS, CannotCompile
from mdf_loop.backends.llvm.mathematics import library
from mdf_loop.step.build import Builder, CannotLower, type_of_value
from mdf_loop.step.primitives import PRIMITIVES

LENGTHS = (1, 3, 8, 21, 70)
EXACT = {"fmod"}
ULPS = 3.5
"""Half a unit of rounding above what functions may differ by."""

FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
DTYPES = [dtype for dtype in ELEMENTS if dtype != np.dtype(ml_dtypes.bfloat16)]


def step(op, rows):
    """A primitive of several sets of operands."""
    b = Builder()
    results = []
    for given in rows:
        params = [b.param(type_of_value(x), 0) for x in given]
        results.append(b.element(op, *params))
    return b.closed(results)


def operands(op, dtype, length):
    ufunc = PRIMITIVES[op].ufunc
    count = ufunc.nin if ufunc is not None else {"erf": 1, "quotient": 2}[op]
    found = []
    for k in range(count):
        pool = numbers_of(dtype, 200, seed=k + length)
        found.append(np.random.default_rng(k).permutation(pool)[:length] if length > 21 else pool[k : k + length].copy())
    if op in ("pow", "ldexp") and dtype.kind in "iu":
        found[1] = (np.abs(found[1].astype(np.int64)) % 40).astype(dtype)
    if op in ("shl", "shr"):
        found[1] = (np.abs(found[1].astype(np.int64)) % 70).astype(dtype)
    return found


def assert_close(actual, expected, ulps):
    assert actual.dtype == expected.dtype
    assert np.shape(actual) == np.shape(expected)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(expected).astype(expected.dtype))
        near = np.abs(actual.astype(np.longdouble) - expected.astype(np.longdouble)) <= ulps * unit
    assert np.all(same | near), (actual[~(same | near)], expected[~(same | near)])


def has_template(op, dtype):
    kind = ELEMENTS[dtype].kind
    return (op, "f" if kind == "h" else kind) in WRITERS and not (op == "erf" and kind == "h")


OPS = [name for name in PRIMITIVES if "." not in name]
PAIRS = [(op, dtype) for op in OPS for dtype in DTYPES if has_template(op, dtype)]


def test_most_primitives_have_a_template_for_floats_and_those_of_bits_for_whole_numbers():
    """So that the tests below leave out what does not exist, and nothing else."""
    without = {op for op in OPS if (op, FLOAT32) not in PAIRS and (op, INT64) not in PAIRS}
    assert without <= {"gcd", "lcm", "nextafter", "ldexp"}, without


def of_all_rows(op, dtype):
    rows = [operands(op, dtype, length) for length in LENGTHS]
    rows.append([x[-1] for x in rows[-1]])
    return rows


def numpy_has(op, dtype):
    try:
        step(op, of_all_rows(op, dtype))
    except (CannotLower, TypeError):
        return False
    return True


@each("op,dtype", [pair for pair in PAIRS if numpy_has(*pair)], size=10)
def test_primitives_are_those_of_numpy(op, dtype):
    rows = of_all_rows(op, dtype)
    region = step(op, rows)
    given = [x for row in rows for x in row]
    expected = evaluate(region, given)
    actual = program(region)(None, *given)
    functions = {*library.FUNCTIONS, *library.FOREIGN} - EXACT
    for a, e in zip(actual, expected, strict=True):
        assert_close(np.asarray(a), np.asarray(e), ULPS if op in functions else 0)


WHOLE = [dtype for dtype in DTYPES if dtype.kind in "iu"]


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("op", ["quotient", "floordiv", "mod", "fmod", "pow"])
def test_divisors_and_exponents_that_are_known_are_those_that_are_given(op, dtype):
    """Powers of two, the ends of the type, what would trap: written as other instructions where they are constants."""
    ends = np.iinfo(dtype)
    by = np.array([*range(9), 100, ends.max, ends.max // 2 + 1, *((-1, -2, -3, -64, ends.min) if ends.min else ())])
    by = by[(by >= 0) & (by < 9)].astype(dtype) if op == "pow" else by.astype(dtype)
    given = np.concatenate([numbers_of(dtype, 64, seed=5), np.array([ends.min, ends.max, 0, 1], dtype)])
    b = Builder()
    x, one = b.param(type_of_value(given)), b.param(type_of_value(given[0]))
    region = b.closed([b.element(op, y, b.const(n)) for n in by for y in (x, one)])
    expected = evaluate(region, [given, given[0]])
    for a, e in zip(program(region)(None, given, given[0]), expected, strict=True):
        np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("op", library.FUNCTIONS)
def test_numbers_and_lanes_agree(op):
    """One implementation for every rank."""
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        given = operands(op, dtype, 70)
        lanes = program(step(op, [given]))(None, *given)[0]
        single = program(step(op, [[x[0] for x in given]]))
        one_by_one = np.array([single(None, *row)[0] for row in zip(*given, strict=True)])
        np.testing.assert_array_equal(lanes, one_by_one)


IS_X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")


def is_in_range(given, target):
    """Which floats a type of whole numbers has, their fractions left out."""
    ends, wide = np.iinfo(target), given.astype(np.float64)
    return (wide > ends.min - 1.0) & (wide < float(ends.max)) if target.itemsize < 8 else np.abs(wide) < 2.0**63


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("target", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_numbers_out_of_range_become_the_lowest_on_every_processor(source, target):
    """As on x86, by way of int32 or int64."""
    given = np.array([np.nan, np.inf, -np.inf, 3e19, -3e19, 2.0**63, -7.0, 300.0], source)
    wide = np.int64 if target == np.int64 else np.int32
    expected = np.array([np.iinfo(wide).min] * 6 + [-7, 300], wide).astype(target)
    b = Builder()
    region = b.closed([b.cast(b.param(type_of_value(given)), np.dtype(target))])
    np.testing.assert_array_equal(program(region)(None, given)[0], expected)


@pytest.mark.parametrize("target", ELEMENTS, ids=str)
@pytest.mark.parametrize("source", ELEMENTS, ids=str)
def test_conversions_are_those_of_numpy(source, target):
    """Those of numpy on x86: elsewhere numbers out of range are left out, because numpy has no rule for them."""
    if source == target:
        return
    given = numbers_of(source, 200, seed=3)
    if not IS_X86 and source.kind in "fV" and target.kind in "iu":
        given = given[is_in_range(given, target)]
    rows = [given[:length] for length in LENGTHS]
    b = Builder()
    region = b.closed([b.cast(b.param(type_of_value(x), k), target) for k, x in enumerate(rows)])
    try:
        actual = program(region)(None, *rows)
    except CannotCompile:
        assert target.kind == "u" or target.itemsize == 2
        return
    for a, x in zip(actual, rows, strict=True):
        with np.errstate(all="ignore"):
            expected = x.astype(target)
        is_real = target.kind in "fV"
        np.testing.assert_array_equal(*[v.astype(np.float64) if is_real else v for v in (a, expected)])


@pytest.mark.parametrize(("power", "product"), [("x ** 2", "x * x"), ("x ** 3", "x * x * x"), ("x ** -1", "1 / x")])
def test_small_powers_are_products_of_numbers_and_of_arrays(power, product):
    x = np.random.default_rng(5).uniform(0.5, 1.5, 1000)
    with mdf_loop.options(engine="jit"):
        for start in (x, x[0], float(x[0])):
            found = [mdf_loop.loop(1, True, start, body=f"x: {text}") for text in (power, product)]
            np.testing.assert_array_equal(*found)
