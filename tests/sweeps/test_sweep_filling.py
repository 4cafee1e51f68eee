"""Outputs that differ in length from run to run are filled up, and say how long each is."""

import itertools

import numpy as np
import pytest
from engines import ENGINES
from hypothesis import given
from hypothesis import strategies as st
from modeci_mdf.mdf import Condition, Parameter
from scheduled_models import graph, node
from swept_models import loop_graph

import mdf_loop
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Table, column_of

pytest.importorskip("xarray")


def test_a_given_filling_keeps_whole_numbers_whole():
    graph = loop_graph(
        "b (int64 i, bool c, double x) => (bool c, double x, int64 j) { j = Identity (i) }", {"x": 0.0}, {"x": "x"}, ("run[1]",)
    )
    s = mdf_loop.sweep(graph, {"m": [2, 3]}, fill=-1)
    assert s.o0.values.tolist() == [[0, 1, -1], [0, 1, 2]]
    assert s.o0.dtype == np.int64
    assert s.o0_length.values.tolist() == [2, 3]
    assert np.isnan(mdf_loop.sweep(graph, {"m": [2, 3]}).o0.values[0, 2])


@pytest.mark.parametrize("dtype", [np.int64, bool, np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("fill", [np.nan, -1, 0.5])
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=6), data=st.data())
def test_rows_of_several_lengths_are_filled_up_whatever_the_chunks(lengths, data, fill, dtype):
    rows = [(np.arange(length) % 2 + 1).astype(dtype) for length in lengths]
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(rows) - 1)))), len(rows)] if len(rows) > 1 else [0, 1]
    table = Table(len(rows), fill)
    for start, stop in data.draw(st.permutations([*itertools.pairwise(cuts)])):
        table.add(start, Chunk({"x": column_of(rows[start:stop], fill)}), stop - start)
    arrays, known = table.finish()
    assert ("x" in known) == (len({*lengths}) > 1)
    for row, found in zip(rows, arrays["x"], strict=True):
        np.testing.assert_array_equal(found[: len(row)], row)
        np.testing.assert_array_equal(found[len(row) :], np.full(len(found) - len(row), fill).astype(found.dtype))
        assert np.isnan(found[len(row) :]).all() or not np.isnan(fill)


@pytest.mark.filterwarnings("error")
def test_what_is_in_rows_that_are_not_there_yet_makes_no_difference():
    """Memory that is not written yet may hold anything, also numbers that warn where they are copied."""
    table = Table(3)
    table.add(0, Chunk({"x": (np.ones((1, 2), np.float32), None)}), 1)
    table.arrays["x"].view(np.uint32)[1:] = 0x7FA00000
    table.add(1, Chunk({"x": (np.ones((1, 3)), None)}), 1)
    arrays, _ = table.finish()
    np.testing.assert_array_equal(arrays["x"], [[1, 1, np.nan], [1, 1, 1], [np.nan] * 3])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chunk", [1, None])
def test_whole_numbers_and_truth_values_are_filled_up_as_others_are(engine, chunk):
    body = """b (int64 i, bool c, double x) => (bool c, double x, int64 i, bool even) {
      one = Constant <value = int64 {1}> () even = Less (i, one) }"""
    graph = loop_graph(body, {"x": 1.0}, {"x": "x"}, ("run[1]", "run[2]"))
    with mdf_loop.options(engine=engine):
        s = mdf_loop.sweep(graph, {"m": [2, 3, 1]}, chunk=chunk)
    np.testing.assert_array_equal(s.o0, [[0, 1, np.nan], [0, 1, 2], [0, np.nan, np.nan]])
    np.testing.assert_array_equal(s.o1, [[1, 0, np.nan], [1, 0, 0], [1, np.nan, np.nan]])
    assert s.o0_length.values.tolist() == s.o1_length.values.tolist() == [2, 3, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_trials_of_whole_numbers_are_filled_up_with_nan(engine):
    body = """b (int64 i, bool c, double x) => (bool d, double x, int64 i) {
      u = RandomUniformLike (x) half = Constant <value = double {0.5}> () d = Less (u, half) }"""
    graph = loop_graph(body, {"x": 1.0}, {"x": "x"}, ("run[1]",), m=50)
    with mdf_loop.options(engine=engine):
        found = mdf_loop.run(graph, trials=5, seed=3)
    lengths = found.about.lengths["o0"]
    assert len({*lengths}) > 1
    for row, length in zip(found["o0"], lengths, strict=True):
        assert row[:length].tolist() == [*range(length)]
        assert np.isnan(row[length:]).all()


def sometimes(value):
    """A model with an output that it has only if it does not start too high; 7, or whether that is more than 3, or 7.0."""
    start, x = Parameter(id="start", value=0.0), Parameter(id="x", value="x + 1 + start", default_initial_value=0.0)
    count = node("A", [start, x], x="x")
    late = node("B", [Parameter(id="n", value=7)], b=value)
    until = Condition(type="Threshold", dependency="A", parameter="x", threshold=6.0, comparator=">=")
    return graph(count, late, conditions={"B": Condition(type="AtPass", n=3)}, until=until)


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("chunk", [1, 2, None])
@pytest.mark.parametrize(("value", "expected"), [("n", 7.0), ("n > 3", 1.0), ("1.0 * n", 7.0)])
def test_an_output_that_some_runs_do_not_have_is_no_number_there(value, expected, chunk, store, tmp_path):
    if store:
        pytest.importorskip("zarr")
    over, place = {"start": [0.0, 9.0, 9.5, 0.0, 8.0]}, tmp_path / "s.zarr" if store else None
    found = mdf_loop.sweep(sometimes(value), over, chunk=chunk, store=place, outputs=["b"])
    np.testing.assert_array_equal(found.b, [expected, np.nan, np.nan, expected, np.nan])
    assert found.attrs["failed"] == 0
