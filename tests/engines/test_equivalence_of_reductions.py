"""Every engine gives what ``interpret`` gives where a program reduces what is carried: sums, extremes, exponentials."""

import numpy as np
import pytest
from blocks_that_succeed import ends_in_an_error, no_block_fails, run  # noqa: F401  (a fixture for all tests here)
from engines import OTHERS
from equivalence import assert_same_on_every_engine

from mdf_loop import options

N = 60


TYPES = {"double": np.float64, "float": np.float32, "int64": np.int64, "int32": np.int32}

TOTALS = {
    "ReduceSum": ["double", "float", "int64", "int32"],
    "ReduceMean": ["double", "float"],
    "ReduceMax": ["double", "float", "int64"],
    "ReduceMin": ["double", "float", "int32"],
    "ReduceProd": ["double", "int64"],
}
SHAPES = [(7,), (64, 10), (101, 33), (40, 3), (2, 300), (500, 2), (100, 8), (5, 40, 2), (3, 4, 5), (1, 6), (40, 1), (20, 1500)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("op", "kind"), [(op, kind) for op, kinds in TOTALS.items() for kind in kinds])
def test_reduction_of_what_is_carried(op, kind, shape, rng):
    """Over each axis, over two and over all, with and without an axis of one element in their place."""
    dtype, is_whole = TYPES[kind], op == "ReduceProd" or kind[0] == "i"
    start = (rng.integers(-2, 3, shape) if is_whole else rng.standard_normal(shape)).astype(dtype)
    axes = [(), *((k,) for k in range(len(shape))), *([(-1, 0), (0, 1)] if len(shape) > 1 else [])]
    constants = ", ".join(f"int64[{len(a)}] axes{k} = {{{', '.join(map(str, a))}}}" for k, a in enumerate(axes) if a)
    totals = [
        f"total{k}_{keep} = {op} <keepdims = {keep}> (y{f', axes{k}' if a else ''})"
        for k, a in enumerate(axes)
        for keep in (0, 1)
    ]
    text = f"""sums (int64 i, bool go, {kind}[{",".join(map(str, shape))}] y)
        => (bool go_out, y_out, {", ".join(total.split()[0] for total in totals)}) <{constants}> {{
        go_out = Identity (go) {" ".join(totals)} y_out = Neg (y) }}"""
    call = run(text, 12, start, opset=20 if op == "ReduceSum" else 18)
    with options(engine="interpret"):
        expected = call()
    units = 0 if is_whole else np.finfo(dtype).eps * 8 * np.abs(start).sum()
    for engine in OTHERS:
        with options(engine=engine):
            found = call()
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5 if kind == "float" else 1e-13, atol=units, strict=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean"])
def test_reduction_of_special_values(op, bad, rng):
    text = f"""sums (int64 i, bool go, double[4,40] y) => (bool go_out, y_out, all, rows, columns)
        <int64[1] one = {{1}}, int64[1] zero = {{0}}> {{
        go_out = Identity (go) all = {op} <keepdims = 0> (y) rows = {op} <keepdims = 0> (y, one) columns = {op} (y, zero)
        y_out = Neg (y) }}"""
    start = rng.standard_normal((4, 40)) if bad else rng.choice([0.0, -0.0], (4, 40))
    start[2, 7] = bad
    assert_same_on_every_engine(run(text, N, start), exact=op in ("ReduceMax", "ReduceMin"))


@pytest.mark.parametrize("shape", [(9,), (4, 5), (2, 3, 4)])
def test_sum_of_products_of_what_is_carried(shape, rng):
    size = ",".join(map(str, shape))
    text = f"""norm (int64 i, bool go, double[{size}] y, double[{size}] z) => (bool go_out, y_out, z_out, own, both, kept)
        <double half = {{0.5}}> {{
        go_out = Identity (go) yy = Mul (y, y) own = ReduceSum <keepdims = 0> (yy)
        yz = Mul (y, z) both = ReduceSum <keepdims = 0> (yz)
        zz = Mul (z, z) kept = ReduceSum <keepdims = 0> (zz) y_out = Neg (zz) z_out = Mul (z, half) }}"""
    assert_same_on_every_engine(run(text, N, rng.standard_normal(shape), rng.standard_normal(shape)), exact=False)


def test_rows_are_widened_to_what_they_are_combined_with(rng):
    text = """wide (int64 i, bool go, double[30,40] y, double[40] row) => (bool go_out, y_out, row_out)
        <int64[1] one = {1}, int64[1] zero = {0}, double half = {0.5}> {
        go_out = Identity (go) column = ReduceMax (y, one) a = Div (y, column) b = Sub (row, a) c = Mul (b, b) d = Less (c, row)
        e = Where (d, a, b) y_out = Add (e, row) m = ReduceMin <keepdims = 0> (y_out, zero) row_out = Mul (m, half) }"""
    assert_same_on_every_engine(run(text, N, rng.random((30, 40)) + 1, rng.random(40)))


def test_one_value_collected_twice_and_last_shares_no_memory(rng):
    text = """twice (int64 i, bool go, double[4] y) => (bool go_out, y_out, double[4] one, double[4] two, double[2,2] three)
        <int64[2] shape = {2, 2}> {
        go_out = Identity (go) x = Gather (table, i) a = Mul (y, x) y_out = Sub (a, y) one = Identity (y_out)
        two = Identity (y_out) three = Reshape (y_out, shape) }"""
    call = run(text, N, rng.random(4), table=rng.random((N, 4)))
    assert_same_on_every_engine(call)
    with options(engine="numpy"):
        results = call()
    assert not any(np.shares_memory(a, b) for k, a in enumerate(results) for b in results[:k])


@pytest.mark.parametrize("bad", [None, np.inf, -np.inf, np.nan, "all -inf", 800.0])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((1, 6), -1), ((4, 7), 1), ((4, 7), 0), ((2, 3, 4), 2), ((2, 3, 4), 1)])
@pytest.mark.parametrize("kind", ["double", "float"])
def test_exponentials_of_what_is_carried(kind, shape, axis, bad, rng):
    size = ",".join(map(str, shape))
    text = f"""powers (int64 i, bool go, {kind}[{size}] y) => (bool go_out, y_out, soft, log, total, kept)
        <int64[1] axes = {{{axis}}}> {{
        go_out = Identity (go) soft = Softmax <axis = {axis}> (y) log = LogSoftmax <axis = {axis}> (y)
        total = ReduceLogSumExp <keepdims = 0> (y, axes) kept = ReduceLogSumExp (y, axes) y_out = Neg (y) }}"""
    start = rng.standard_normal(shape).astype(TYPES[kind])
    if bad == "all -inf":
        start[...] = -np.inf
    elif bad is not None:
        start.flat[3] = bad
    call = run(text, 30, start, opset=18)
    with options(engine="interpret"):
        expected = call()
    with options(engine="numpy"):
        found = call()
    for a, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            a, e, rtol=1e-5 if kind == "float" else 1e-13, atol=1e-6 if kind == "float" else 1e-14, strict=True
        )
