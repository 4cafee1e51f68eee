"""Moments that are merged: what numpy makes of all trials, with the same bits for every way to cut the trials, in any order."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.sweeps.rows.merging import Merged, Merging
from mdf_loop.sweeps.rows.reducing import MOMENTS, reduce_of
from mdf_loop.sweeps.rows.rows_of_runs import Chunk

NUMPY = {
    "mean": np.nanmean,
    "std": np.nanstd,
    "var": np.nanvar,
    "min": np.nanmin,
    "max": np.nanmax,
    "sum": lambda x, axis: np.where((~np.isnan(x)).any(axis), np.nansum(x, axis=axis), np.nan),
    "count": lambda x, axis: (~np.isnan(x)).sum(axis),
    "median": np.nanmedian,
}


def pieces_of(cuts, size):
    """Spans between some cuts."""
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < size}), size]
    return list(itertools.pairwise(bounds))


def merged(reduce, rows, trials, spans, failed=(), lengths=None):
    """What is made of rows that come in such pieces."""
    merging = Merging(reduce_of(reduce, ["x"]), trials)
    table = Merged(merging, len(rows) // trials)
    for start, stop in spans:
        errors = {k - start: "it failed" for k in failed if start <= k < stop}
        whole = Chunk({"x": (rows[start:stop], None if lengths is None else lengths[start:stop])}, errors)
        for first, behind in merging.split((start, stop)):
            chunk = whole.part(first - start, behind - start)
            if merging.is_whole(first, behind):
                there = np.array([k not in failed for k in range(first, behind)])
                chunk = merging.reduced(first, chunk, there)
                assert {len(column) for column, _ in chunk.columns.values()} <= {merging.rows_in(first, behind)}
            table.add(first, chunk, behind - first)
    return table


def result(*args, **how):
    return merged(*args, **how).finish()[0]["x"]


@st.composite
def cases(draw):
    trials, points = draw(st.integers(1, 70)), draw(st.integers(1, 4))
    shape = draw(st.sampled_from([(), (3,), (2, 2)]))
    seed, dtype = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([np.float64, np.float32, np.int64, np.bool_]))
    rng = np.random.default_rng(seed)
    offset = draw(st.sampled_from([0, 1e6])) if dtype is np.float64 else 0
    rows = (rng.standard_normal((trials * points, *shape)) * 100 + offset).astype(dtype)
    failed = tuple(np.flatnonzero(rng.random(len(rows)) < draw(st.sampled_from([0, 0.2])))) if dtype is np.float64 else ()
    if dtype is np.float64:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    cuts = [draw(st.lists(st.integers(0, len(rows)), max_size=12)) for _ in range(2)]
    orders = [draw(st.permutations(pieces_of(each, len(rows)))) for each in cuts]
    return rows, trials, failed, orders


@pytest.mark.parametrize("name", NUMPY)
@settings(deadline=None, max_examples=20)
@given(case=cases())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_moments_are_numpys_and_the_same_bits_however_trials_are_cut(name, case):
    rows, trials, failed, orders = case
    assume(all({*range(k, k + trials)} - {*failed} for k in range(0, len(rows), trials)))
    once = result(name, rows, trials, [(0, len(rows))], failed)
    for order in orders:
        again = result(name, rows, trials, order, failed)
        np.testing.assert_array_equal(again, once, strict=True)
        assert again.tobytes() == once.tobytes()
    known = rows.copy()
    if failed:
        known[list(failed)] = np.nan
    known = known.reshape(-1, trials, *rows.shape[1:])
    expected = NUMPY[name](known.astype(np.float64) if name in ("mean", "std", "var") else known, axis=1)
    rtol = 1e-5 if rows.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(once, expected, rtol=rtol, atol=1e-4 if rows.dtype == np.float32 else 1e-9)


def test_variance_far_from_zero_keeps_its_digits():
    rows = 1e9 + np.random.default_rng(1).standard_normal(100_000)
    found = result("var", rows, len(rows), pieces_of(range(0, len(rows), 777), len(rows)))
    np.testing.assert_allclose(found, rows.var(), rtol=1e-7)
    assert result("var", np.full(1000, 0.1), 1000, [(0, 1000)]) < 1e-30


def test_few_trials_have_the_bits_of_numpy():
    rows = np.random.default_rng(1).standard_normal(6)
    for name in ("mean", "std", "var", "sum"):
        assert result(name, rows, 6, [(0, 2), (2, 6)])[0] == NUMPY[name](rows, axis=0)


def test_rows_that_differ_in_length_count_as_far_as_they_go():
    rows, lengths = np.array([[1.0, np.nan], [2.0, 10.0], [6.0, np.nan]]), np.array([1, 2, 1])
    np.testing.assert_array_equal(result("mean", rows, 3, [(0, 1), (1, 3)], lengths=lengths), [[3, 10]])
    np.testing.assert_array_equal(result("count", rows, 3, [(0, 3)], lengths=lengths), [[3, 1]])
    merging = Merging({"x": MOMENTS["max"]}, 16)
    table = Merged(merging, 1)
    for first, width in ((0, 2), (8, 3)):  # which the table does not know before
        chunk = Chunk({"x": (np.full((8, width), first, np.int64), np.full(8, width))})
        table.add(first, merging.reduced(first, chunk, np.ones(8, bool)), 8)
    np.testing.assert_array_equal(table.finish()[0]["x"], [[8, 8, 8]])


def test_what_is_there_of_a_point_is_what_it_is_made_of():
    rows = np.arange(40.0)
    table = merged("mean", rows, 40, [(0, 13), (24, 32)])
    there = [*range(13), *range(24, 32)]
    assert table.complete == len(there)
    np.testing.assert_allclose(table.finish()[0]["x"], rows[there].mean())
    assert merged([0.5], rows, 40, [(3, 8)]).finish()[0]["x"].tolist() == [[5.0]]


def test_texts_have_no_mean_and_errors_of_functions_are_reported():
    with pytest.raises(ArgumentError, match="reduce='mean' is for numbers; output 'x' is of type <U1"):
        result("mean", np.array(["a", "b"]), 2, [(0, 2)])
    with pytest.raises(LoopError, match="reduce of output 'x', of 2 trials at point 1: ZeroDivisionError"):
        result(lambda x: 1 // int(x[0] - 2), np.arange(4.0), 2, [(0, 4)])


CODE = """
import resource, sys, mdf_loop
how = dict(seed=1, outputs=["path"], reduce="mean", chunk=500)
mdf_loop.sweep("examples/drift_diffusion.yaml", {"drift": [3.0]}, trials=int(sys.argv[1]), **how)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_trials():
    pytest.importorskip("xarray")
    root = Path(__file__).parents[2]

    def room(trials):
        command = [sys.executable, "-W", "ignore", "-c", CODE, str(trials)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout)

    assert room(20_000) < room(2_000) + 100  # 20,000 paths are more than 200 MiB
