"""How far functions of our own are from the truth, in units in the last place: at most 2.5, and special values are numpy's."""

import math

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from mdf_loop.backends.llvm.compiled_program import program
from mdf_loop.backends.llvm.mathematics.library import FUNCTIONS
from mdf_loop.step.build import Builder, type_of_value

ULPS = 2.5
COUNT = 40_000
SPECIAL = [
    0.0,
    0.5,
    1.0,
    2.0,
    3.0,
    2.5,
    math.inf,
    math.nan,
    4503599627370497.0,
    1023.0,
    1074.0,
    1075.0,
    88.7,
    103.9,
    709.8,
    745.1,
]

RANGES = {
    "exp": [(-708, 709), (-1, 1), (-1e-6, 1e-6)],
    "expm1": [(-50, 709), (-1, 1), (-1e-6, 1e-6)],
    "tanh": [(-25, 25), (-1, 1), (-1e-6, 1e-6)],
    "log": [(0, 1), (0.9, 1.1), (1, 1e6), (0, 1e300)],
    "log1p": [(-1, 1), (-1e-6, 1e-6), (0, 1e6), (0, 1e300)],
    "sin": [(-7, 7), (-1e6, 1e6), (-1e-6, 1e-6)],
    "cos": [(-7, 7), (-1e6, 1e6), (-1e-6, 1e-6)],
    "erf": [(-6, 6), (-1, 1), (-1e-6, 1e-6)],
}
"""Where numbers are drawn from; what is too large for float32 is left out there."""


def compiled(name, *given):
    b = Builder()
    params = [b.param(type_of_value(x), k) for k, x in enumerate(given)]
    return program(b.closed([b.element(name, *params)]))(None, *given)[0]


def true_value(name, *given):
    """The function with more digits: those of long doubles, and for erf those of mpmath."""
    if name == "erf":
        mpmath = pytest.importorskip("mpmath")
        return np.array([np.longdouble(mpmath.nstr(mpmath.erf(mpmath.mpf(float(x))), 25)) for x in given[0]])
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long doubles have no more digits here")
    with np.errstate(all="ignore"):
        return getattr(np, {"pow": "power"}.get(name, name))(*[x.astype(np.longdouble) for x in given])


def ulps(found, true):
    """Units in the last place, of what is neither infinite nor too small to have all its digits."""
    with np.errstate(all="ignore"):
        expected = true.astype(found.dtype)
        counts = np.isfinite(expected) & (np.abs(expected) >= np.finfo(found.dtype).tiny)
        unit = np.spacing(np.abs(expected)).astype(np.longdouble)
        return np.where(counts, np.abs(found.astype(np.longdouble) - true) / unit, 0)


def drawn(name, dtype):
    chance = np.random.default_rng(3)
    count = COUNT if name != "erf" else 3_000
    largest = 88 if dtype == np.float32 and name in ("exp", "expm1") else float(np.finfo(dtype).max) / 2
    parts = [chance.uniform(max(low, -largest), min(high, largest), count) for low, high in RANGES[name]]
    with np.errstate(over="ignore"):
        return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(RANGES))
def test_functions_are_within_their_bound(name, dtype):
    x = drawn(name, dtype)
    far = ulps(compiled(name, x), true_value(name, x))
    assert far.max() <= ULPS, (name, x[far.argmax()], far.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_are_within_their_bound(dtype):
    chance, end = np.random.default_rng(4), 0.99 * math.log(float(np.finfo(dtype).max))
    x = np.exp(chance.uniform(-end, end, COUNT))  # results of every size, of bases of every size
    y = chance.uniform(-end, end, COUNT) / np.log(x)
    near = 1 + chance.uniform(-1e-3, 1e-3, COUNT)
    x = np.concatenate([x, near, chance.uniform(0, 4, COUNT)]).astype(dtype)
    y = np.concatenate([y, chance.uniform(-end, end, COUNT) / np.log(near), chance.uniform(-5, 5, COUNT)]).astype(dtype)
    far = ulps(compiled("pow", x, y), true_value("pow", x, y))
    assert far.max() <= ULPS, (x[far.argmax()], y[far.argmax()], far.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values_are_those_of_numpy(name, dtype):
    about = np.finfo(dtype)
    x = np.array([*SPECIAL, about.tiny, about.smallest_subnormal, about.max, 1 + about.eps, 1 - about.epsneg], dtype)
    x = np.concatenate([x, -x])
    given = [x] if name != "pow" else [v.ravel().copy() for v in np.meshgrid(x, x)]
    found = compiled(name, *given)
    if name == "erf":
        expected = np.array([math.erf(v) for v in x]).astype(dtype)
    else:
        with np.errstate(all="ignore"):
            expected = getattr(np, {"pow": "power"}.get(name, name))(*given)
    same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(all="ignore"):
        near = np.abs(found.astype(np.longdouble) - expected) <= (ULPS + 1) * np.spacing(np.abs(expected))
    wrong = ~(same | (near & np.isfinite(expected)))
    assert not wrong.any(), [(*(float(v[wrong][0]) for v in given), float(found[wrong][0]), float(expected[wrong][0]))]


def test_every_function_of_our_own_is_measured():
    assert {*RANGES, "pow"} == set(FUNCTIONS)
