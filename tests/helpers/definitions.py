"""What the laws of definitions stand on: numbers to try, definitions as Steps, and what is the same number."""

import functools

import ml_dtypes
import numpy as np

from mdf_loop.execute.calls import ManyInputs, StepsOfMany
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.batching import by_step, elementwise, is_settled
from mdf_loop.ops.registry import bind, lookup
from mdf_loop.options import start_run
from mdf_loop.step.build import Builder, CannotLower, type_of_value
from mdf_loop.step.check import check
from mdf_loop.step.trace import meaning_of
from mdf_loop.types.elements import kind_of

load_kernels()


@functools.cache
def specials(dtype):
    """Numbers at which functions are special, of one type."""
    if dtype.kind == "b":
        return np.array([False, True])
    if kind_of(dtype) == "integer":
        info = ml_dtypes.iinfo(dtype)
        numbers = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, -1, -2, -3, -7, 100}
        return np.array([n for n in sorted(numbers) if info.min <= n <= info.max]).astype(dtype)
    with np.errstate(all="ignore"):
        info = ml_dtypes.finfo(dtype)
        ends = [info.max, info.min, info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.eps]
        plain = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 100.0, -100.0, np.inf, -np.inf, np.nan, 6.0, -3.0]
        return np.concatenate([np.array(ends, dtype), np.array(plain).astype(dtype)])


def numbers_of(dtype, count, seed):
    """Numbers at random, and the special ones."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        if kind_of(dtype) == "integer":
            info = ml_dtypes.iinfo(dtype)
            drawn = rng.integers(info.min, int(info.max), count, np.uint64 if dtype == np.uint64 else np.int64, endpoint=True)
        else:
            drawn = rng.normal(size=count) * 10.0 ** rng.integers(-2, 2, count)
        return np.concatenate([specials(dtype), drawn.astype(dtype)])


def every_pair(*columns):
    """Arrays in which every number of the first is next to every one of the others."""
    return [np.ascontiguousarray(x).ravel() for x in np.meshgrid(*columns, indexing="ij")] if len(columns) > 1 else list(columns)


def defined(node, given, known=()):
    """The Step of the definition alone, for values some of which (by place) are known; None if it does not cover the case."""
    b = Builder()
    args = [x if x is None else b.const(x) if k in known else b.param(type_of_value(x), k) for k, x in enumerate(given)]
    make = meaning_of(node, lookup(node.op, node.opset, node.domain), bind(node))
    try:
        found = make(b, *args)
    except (CannotLower, ValueError):
        return None
    return check(b.closed(found if isinstance(found, tuple) else (found,)))


def rule_of(node):
    """How a block runs a node for many iterations: its rule, else its Step; what is always the same is given once."""
    entry, bound = lookup(node.op, node.opset, node.domain), bind(node)
    many = StepsOfMany(exact=False)

    def rule(run, args, stacked, attrs):
        if entry.batch is not elementwise:
            same = [s and is_settled(np.asarray(a)) for a, s in zip(args, stacked, strict=True)]
            args = [a[0] if s else a for a, s in zip(args, same, strict=True)]
            stacked = [flag and not s for flag, s in zip(stacked, same, strict=True)]
        if not any(stacked):
            found = run(*args, **attrs)
            outputs = found if type(found) is tuple else (found,)
            return outputs, (False,) * len(outputs)
        found = None if entry.batch is by_step else entry.batch(run, args, stacked, attrs)
        if found is not None:
            return found
        types = [None if a is None else type_of_value(a[0, ...] if s else a) for a, s in zip(args, stacked, strict=True)]
        found = many(node, bound, entry, ManyInputs(args, types, stacked), start_run())
        return found and (found[0], found[1].flags)

    return rule


def kernel_of(node, given):
    """What the kernel gives, as a tuple."""
    with np.errstate(all="ignore"):
        bound = bind(node)
        found = bound.call(start_run(), *given) if bound.needs_run else bound.call(*given)
    return found if type(found) is tuple else (found,)


def ordered(x):
    """Floats as whole numbers in their order, one apart where they are neighbours."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    top = np.int64(-1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits < 0, top - bits, bits).astype(object)


def assert_same(found, expected, ulp=0, scale=None):
    """The same numbers, nan being nan; within so many units in the last place (of the scale, if there is one)."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    found, expected = np.atleast_1d(found), np.atleast_1d(expected)
    if kind_of(expected.dtype) != "float":
        np.testing.assert_array_equal(found, expected)
        return
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    found, expected = found[~is_nan], expected[~is_nan]
    if not ulp:
        np.testing.assert_array_equal(found.view(f"u{found.dtype.itemsize}"), expected.view(f"u{found.dtype.itemsize}"))
        return
    apart = abs(ordered(found) - ordered(expected))
    far = apart > ulp
    if scale is not None and far.any():
        with np.errstate(all="ignore"):
            scale = np.broadcast_to(scale, is_nan.shape)[~is_nan]
            room = ulp * float(ml_dtypes.finfo(found.dtype).eps) * np.maximum(1.0, abs(scale.astype(float)))
            far &= ~(abs(found.astype(float) - expected.astype(float)) <= room)
    assert not far.any(), (found[far][:5], expected[far][:5])
