"""Stores: rows go to arrays of zarr where they are made, and what is opened is what a sweep in memory gives."""

import itertools
import os
import shutil
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swept_models import DIFFUSION, NAMES, OVER, loop_graph

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError, LoopError, LoopInterrupted, LoopWarning, MalformedBody
from mdf_loop.sweeps import chunked_run
from mdf_loop.sweeps.pieces import Pieces
from mdf_loop.sweeps.stores import tries
from mdf_loop.sweeps.stores.block_writer import BlockWriter
from mdf_loop.sweeps.stores.regular import RowLayout, chunk_files, chunk_shape, group_files

xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")


def swept(model=DIFFUSION, over=OVER, **how):
    return mdf_loop.sweep(model, over, **{"trials": 4, "seed": 1, "outputs": NAMES} | how)


def in_memory(*args, **how):
    """The same without a store; which trial is which follows from its place there."""
    return swept(*args, **how).drop_vars("trial", errors="ignore")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made") / "s.zarr"
    swept(store=place, chunk=3, progress=lambda done, size: None)
    return place


@pytest.fixture
def place(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "s.zarr"))


@pytest.fixture
def blocks(monkeypatch):
    """The blocks that are computed."""
    found, original = [], BlockWriter.files
    monkeypatch.setattr(BlockWriter, "files", lambda self, block, *more: found.append(block) or original(self, block, *more))
    return found


@pytest.fixture
def hasty(monkeypatch):
    """Three runs are tried, whatever time they take."""
    monkeypatch.setattr(tries, "TWICE", 1)
    monkeypatch.setattr(tries, "Pieces", lambda source, *_: Pieces(source, 1))


# Which rows lie where


SHAPES = st.lists(st.integers(1, 7), max_size=3).map(tuple)


@given(SHAPES, st.integers(1, 400), st.integers(1, 3))
def test_each_run_is_in_one_block_and_blocks_are_runs_in_a_row(shape, rows, each):
    chunk = chunk_shape(shape, rows)
    layout = RowLayout(shape, chunk, each, {}, 1.0)
    assert np.prod(chunk, dtype=int) <= rows
    spans = [layout.runs(block, block + 1) for block in range(layout.count)]
    bounds = [0, *(stop for _, stop in spans)]
    assert [*itertools.pairwise(bounds)] == spans
    assert bounds[-1] == np.prod(shape, dtype=int) * each
    for block, span in enumerate(spans):
        assert span[1] - span[0] == np.prod(layout.block_shape(block), dtype=int) * each
    assert layout.runs(0, layout.count) == (0, bounds[-1])


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.integers(4, 60), st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), max_size=2))
def test_arrays_hold_what_is_written_block_by_block(shape, rows, more):
    sizes, parts = tuple(size for size, _ in more), tuple(part for _, part in more)
    layout = RowLayout(shape, chunk_shape(shape, rows), 1, {}, 1.0)
    whole = np.arange(1.0, np.prod((*shape, *sizes), dtype=int) + 1).reshape(-1, *sizes)
    names = [f"x{k}" for k in range(len(shape) + len(sizes))]
    template = xarray.Dataset({"rows": (names, np.broadcast_to(0.0, (*shape, *sizes)))}, attrs={"complete": 1})
    chunk = (*layout.chunk, *parts)
    files = dict(group_files(template, {"rows": chunk}, {"rows": np.nan}, {}))
    assert list(files)[-1] == "zarr.json"
    for block in range(layout.count):
        part = whole[slice(*layout.runs(block, block + 1))].reshape((*layout.block_shape(block), *sizes))
        added = dict(chunk_files("rows", part, chunk, np.nan, layout.place(block)))
        assert not added.keys() & files.keys()
        files |= added
    buffer = zarr.core.buffer.default_buffer_prototype().buffer
    opened = xarray.open_zarr(
        zarr.storage.MemoryStore({name: buffer.from_bytes(content) for name, content in files.items()}), chunks=None
    )
    assert (opened.rows.values == whole.reshape((*shape, *sizes))).all()


# What is opened


HOW = {
    "numbers": {},
    "paths": {"outputs": ["reaction_time", "path"]},
    "means": {"reduce": "mean", "trials": 19},
    "quantiles": {"reduce": [0.1, 0.9], "trials": 19},
    "some reduced": {"reduce": {"evidence": "std"}},
    "paths reduced": {"reduce": "mean", "outputs": ["path"], "trials": 9},
    "one run at each point": {"trials": None},
    "points": {"over": [{"drift": 0.5, "bound": 0.3}, {"drift": 1.5, "bound": 0.7}]},
    "one point": {"over": None},
    "one run": {"over": None, "trials": None, "outputs": ["path"]},
    "common noise": {"common_noise": True},
    "failures": {"over": [{"drift": 1.0, "bound": 0.5}, {"drift": 1.0, "bound": [1.0, 2.0]}], "fill": -1.0},
}


@pytest.mark.filterwarnings("ignore:.*runs failed")
@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
@pytest.mark.parametrize(("chunk", "workers"), [(1, 1), (5, 2), (None, 1)])
def test_what_is_opened_is_what_a_sweep_in_memory_gives(how, chunk, workers, tmp_path):
    place = tmp_path / "s.zarr"
    found = swept(store=place, chunk=chunk, workers=workers, **how)
    expected = in_memory(**how)
    assert found.identical(expected)
    assert mdf_loop.open(place).identical(expected)
    assert xarray.open_zarr(place, chunks=None).identical(expected)
    assert not [path for path in place.iterdir() if path.name.startswith((".", "claim"))]


def test_nothing_is_in_memory_until_it_is_asked_for(place, monkeypatch):
    found = mdf_loop.open(place)
    chunk = next((place / "evidence").glob("c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1])
    assert found.sizes == {"drift": 2, "bound": 3, "trial": 4}
    assert found.reaction_time.values.shape == (2, 3, 4)
    with pytest.raises(Exception, match=r"(?i)zstd|decompress"):
        found.evidence.values  # noqa: B018


def test_the_client_holds_no_row_and_no_number_of_a_trial(tmp_path):
    def stop(done, size):
        assert size == 10**9
        raise KeyboardInterrupt

    swept(over=None, trials=10)  # what is kept for all sweeps
    tracemalloc.start()
    try:
        with pytest.raises(LoopInterrupted) as info:
            swept(over=None, trials=10**9, store=tmp_path / "s.zarr", chunk=100, progress=stop, bound=0.01)
        assert tracemalloc.get_traced_memory()[1] < 300e6  # a byte for each trial would be 1e9
    finally:
        tracemalloc.stop()
    assert info.value.results.sizes == {"trial": 10**9}


COUNTS = "b (int64 i, bool c, double x) => (bool c, double x, int64 n) { n = Identity (i) }"
TRUTHS = "b (int64 i, bool c, double x) => (bool c, double x, bool n) { one = Constant <value = int64 {1}> () n = Less (i, one) }"


@pytest.mark.parametrize(("body", "dtype", "fill"), [(COUNTS, "int64", np.nan), (COUNTS, "int64", -1), (TRUTHS, "bool", np.nan)])
def test_whole_numbers_stay_whole_where_all_are_there(body, dtype, fill, tmp_path):
    graph = loop_graph(body, {"x": 0.0}, {"x": "x"}, ("run[1]",))
    found = mdf_loop.sweep(graph, {"m": [3, 3, 3]}, store=tmp_path / "s.zarr", chunk=1, fill=fill, seed=1)
    assert found.o0.dtype == dtype
    assert found.identical(mdf_loop.sweep(graph, {"m": [3, 3, 3]}, fill=fill, seed=1))


@pytest.mark.parametrize("fill", [np.nan, -1])
@pytest.mark.parametrize("over", [[2, 2, 3, 2, 2, 2], [2, 2, 1, 2, 2, 2], [1, 3, 2, 2, 5, 4]])
def test_rows_of_other_lengths_than_those_that_were_tried(over, fill, tmp_path, hasty):
    graph = loop_graph(COUNTS, {"x": 0.0}, {"x": "x"}, ("run[1]",))
    found = mdf_loop.sweep(graph, {"m": over}, store=tmp_path / "s.zarr", chunk=1, fill=fill, seed=1)
    expected = mdf_loop.sweep(graph, {"m": over}, fill=fill, seed=1)
    assert found.identical(expected)
    assert found.o0.dtype == expected.o0.dtype


def test_rows_that_grow_while_it_runs(tmp_path, monkeypatch, hasty):
    monkeypatch.setattr(chunked_run, "PLACES", 1)
    found = swept(outputs=["path"], store=tmp_path / "s.zarr", chunk=2)
    assert found.identical(in_memory(outputs=["path"]))
    assert len({path.name.split(".")[-1] for path in (tmp_path / "s.zarr" / "path").glob("c.*")}) > 1


def test_rows_of_other_ranks_than_those_that_were_tried(tmp_path, hasty):
    graph = loop_graph("b (int64 i, bool c, x) => (bool c, x) { }", {"x": np.ones(2)}, {"x": "x"}, ("run",))
    over = [{"x": np.ones((2, 1) if k == 1 else 2)} for k in range(9)]
    with pytest.raises(LoopError, match="output 'o0' has 2 axes in some runs and 1 in others"):
        mdf_loop.sweep(graph, over, store=tmp_path / "s.zarr", chunk=1)


@pytest.mark.parametrize("chunk", [1, 4, None])
@pytest.mark.parametrize("body", [COUNTS, TRUTHS], ids=["numbers", "truth values"])
def test_whole_numbers_of_runs_that_fail_are_no_numbers(body, chunk, tmp_path, hasty):
    graph = loop_graph(body, {"x": 0.0}, {"x": "x"}, ("run[1]",))
    over = [{"m": 2}, {"m": [2, 2]}, {"m": 2}, {"m": 2}, {"m": 2}, {"m": 2}]
    with pytest.warns(LoopWarning, match="1 of 6 runs failed"):
        found = mdf_loop.sweep(graph, over, store=tmp_path / "s.zarr", chunk=chunk, seed=1)
    with pytest.warns(LoopWarning):
        expected = mdf_loop.sweep(graph, over, seed=1)
    assert found.identical(expected)
    assert found.o0.dtype.kind == expected.o0.dtype.kind == "f"
    assert found.attrs["failed"] == 1


LENGTHS = {"fail": [2, [2, 2], 2, 2, 2, 2], "differ": [2, 2, 2, 2, 3, 1], "are alike": [3, 3, 3, 3, 3, 3]}


@pytest.mark.filterwarnings("ignore:.*runs failed")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13])
def test_numbers_of_each_type_are_those_of_a_sweep_in_memory(code, lengths, tmp_path, hasty):
    body = f"b (int64 i, bool c, double x) => (bool c, double y, n) {{ y = Add (x, x) n = Cast <to = {code}> (y) }}"
    graph, over = loop_graph(body, {"x": 1.0}, {"x": "x"}, ("run[1]", "run[0]")), [{"m": length} for length in lengths]
    found = mdf_loop.sweep(graph, over, store=tmp_path / "s.zarr", chunk=1, seed=1)
    expected = mdf_loop.sweep(graph, over, seed=1)
    assert found.identical(expected)
    assert found.o0.dtype.kind == expected.o0.dtype.kind


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_number_that_stands_for_no_value_as_well_is_reported(dtype, tmp_path, hasty):
    end = int(np.iinfo(dtype).min if dtype == "int8" else np.iinfo(dtype).max)
    body = f"b (int64 i, bool c, {dtype} x) => (bool c, {dtype} x) {{ }}"
    graph = loop_graph(body, {"x": np.array(end, dtype)}, {"x": "x"}, ("run",))
    found = mdf_loop.sweep(graph, {"m": [2, 3]}, store=tmp_path / "s.zarr", seed=1)
    assert found.o0.values.tolist() == [end, end]
    over = [{"m": 2}, {"m": [2, 2]}, {"m": 2}, *[{"m": 2}] * 3]
    with pytest.warns(LoopWarning, match=f"output 'o0' is {end} in some runs, which also fills places without a value"):
        mdf_loop.sweep(graph, over, store=tmp_path / "f.zarr", chunk=1, seed=1)


# Going on


def stopping(at):
    def told(done, size):
        if done >= at:
            raise KeyboardInterrupt

    return told


@pytest.mark.parametrize("again", [{}, {"chunk": 1}, {"workers": 2}])
def test_it_goes_on_where_it_stopped(again, tmp_path, blocks):
    place = tmp_path / "s.zarr"
    with pytest.raises(LoopInterrupted) as info:
        swept(store=place, chunk=2, progress=stopping(8))
    done = info.value.results.attrs["complete"]
    assert 8 <= done < 24
    assert mdf_loop.open(place).attrs["complete"] == done
    expected = in_memory()
    there = mdf_loop.open(place).reaction_time.notnull()
    assert int(there.sum()) == done
    assert (mdf_loop.open(place).reaction_time == expected.reaction_time).where(there, True).all()
    assert swept(store=place, **({"chunk": 2} | again)).identical(expected)
    assert len(blocks) <= 12 + 2  # nothing twice but what was under way


def test_a_seed_that_is_left_open_is_that_of_the_store(place):
    assert swept(store=place, seed=None).attrs["seed"] == "1"


def test_a_store_that_is_complete_is_looked_at_and_not_computed(place, blocks):
    assert swept(store=place).identical(in_memory())
    assert blocks == []


@pytest.mark.parametrize("kind", ["chunk_*.npz", "evidence/c.*", "reaction_time/c.*"])
def test_each_flipped_bit_is_found_and_made_again(kind, place):
    path = sorted(place.glob(kind))[-1]
    right, expected = path.read_bytes(), in_memory()
    for k in range(0, len(right), max(1, len(right) // 8)):
        bits = bytearray(right)
        bits[k] ^= 1 << (k % 8)
        path.write_bytes(bytes(bits))
        with pytest.warns(LoopWarning, match="damaged") as noted:
            assert swept(store=place).identical(expected)
        assert len(noted) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert swept(store=place).identical(expected)


@pytest.mark.parametrize("kind", ["chunk_*.npz", "evidence/c.*"])
def test_what_is_missing_is_made_again(kind, place):
    sorted(place.glob(kind))[0].unlink()
    with pytest.warns(LoopWarning):
        assert swept(store=place).identical(in_memory())


def test_a_chunk_that_is_missing_is_reported_when_it_is_opened(place):
    sorted((place / "evidence").glob("c.*"))[0].unlink()
    with pytest.warns(LoopWarning, match="1 of 12 chunks of 'evidence' are missing"):
        mdf_loop.open(place)
    next(place.glob("complete_*")).write_bytes(b"?")
    with pytest.raises(MalformedBody, match="is damaged"):
        mdf_loop.open(place)


def test_a_point_that_takes_a_worker_long_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(chunked_run, "LONG_POINT", 0.0)
    with pytest.warns(LoopWarning, match="with checkpoint= instead of store=, workers share the trials of a point"):
        swept(reduce="mean", store=tmp_path / "s.zarr")


def test_a_chunk_of_another_store_is_none_of_this_one(place, tmp_path):
    swept(store=tmp_path / "other.zarr", chunk=3, seed=2)
    name = sorted(path.name for path in (place / "evidence").glob("c.*"))[0]
    shutil.copy(tmp_path / "other.zarr" / "evidence" / name, place / "evidence" / name)
    with pytest.warns(LoopWarning, match="damaged"):
        assert swept(store=place).identical(in_memory())


def test_it_goes_on_after_kill_9(tmp_path):
    place = tmp_path / "s.zarr"
    how = f"trials=40, seed=1, outputs={NAMES!r}, chunk=2, store={str(place)!r}"
    told = "progress=lambda done, size: os.kill(os.getpid(), 9) if done > 60 else None"
    code = f"import mdf_loop, os; mdf_loop.sweep({str(DIFFUSION)!r}, {OVER!r}, {how}, {told})"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert 0 < mdf_loop.open(place).attrs["complete"] < 240
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert swept(trials=40, store=place).identical(in_memory(trials=40))


def test_an_address_of_a_storage(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    address = f"memory://{tmp_path.name}/s.zarr"
    with pytest.raises(LoopInterrupted):
        swept(store=address, chunk=2, progress=stopping(8))
    found = swept(store=address)
    assert found.identical(in_memory())
    assert mdf_loop.open(address).identical(in_memory())
    system = fsspec.filesystem("memory")
    chunk = system.glob(f"/{tmp_path.name}/s.zarr/evidence/c.*")[0]
    system.pipe_file(chunk, system.cat_file(chunk)[:-3])
    with pytest.warns(LoopWarning, match="damaged"):
        assert swept(store=address).identical(in_memory())


# What is wrong


def test_what_is_there_and_is_something_else_is_not_replaced(place, tmp_path):
    other = tmp_path / "other.zarr"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(MalformedBody, match="exists and is not the store of a sweep; it is not replaced"):
        swept(store=other)
    with pytest.raises(LoopError, match=r"is the store of another sweep: its seed is 1, here it is 2"):
        swept(store=place, seed=2)
    with pytest.raises(
        LoopError, match="is a store for 6 points with 4 trials each, here there are 6 with 8; you cannot add to a store"
    ):
        swept(store=place, trials=8)
    with pytest.raises(LoopError, match="is the store of another sweep: its grid has"):
        swept(store=place, over={"drift": [0.5, 1.5], "bound": [0.3, 0.5, 0.8]})
    with pytest.raises(LoopError, match=r"is the store of a sweep: continue it with store="):
        swept(checkpoint=place)
    swept(checkpoint=tmp_path / "c.zarr")
    with pytest.raises(LoopError, match=r"is a checkpoint of a sweep: continue it with checkpoint="):
        swept(store=tmp_path / "c.zarr")
    with pytest.raises(ArgumentError, match="store= is a checkpoint as well"):
        swept(store=place, checkpoint=tmp_path / "c.zarr")
    assert mdf_loop.open(place).identical(in_memory())


@pytest.mark.parametrize(
    ("store", "error", "match"),
    [
        ("s.nc", LoopError, "store is the name of a .zarr folder; got 's.nc'"),
        (7, LoopError, "a store"),
        ("nowhere://b/s.zarr", LoopError, "nowhere"),
    ],
)
def test_what_is_no_place(store, error, match):
    with pytest.raises(error, match=match):
        swept(store=store)


def test_a_store_of_zarr_is_given_by_its_address():
    with pytest.raises(KindError, match="store is the path or the address"):
        swept(store=zarr.storage.MemoryStore())


def test_a_place_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LoopError, match="cannot be written"):
        swept(store=tmp_path / "file" / "s.zarr")
    with pytest.raises(LoopError, match="cannot be written"):
        swept(store=tmp_path / "no such folder" / "s.zarr")


def test_without_zarr(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(LoopError, match=r"store= needs zarr: pip install .*\[sweep\]"):
        swept(store=tmp_path / "s.zarr")


def test_what_says_of_which_sweep_it_is_cannot_be_made_again(place):
    (place / "sweep.npz").write_bytes(b"")
    with pytest.raises(MalformedBody, match="name another file"):
        swept(store=place)


def test_where_all_runs_fail_nothing_is_known_of_rows(tmp_path):
    with pytest.raises(
        LoopError, match="a store has to know what rows are, and all runs that were tried gave no 'reaction_time'"
    ):
        swept(over={"bound": [[1.0, 2.0]]}, outputs=["reaction_time"], store=tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()


def test_a_run_that_fails_may_end_it(tmp_path):
    over = [{"bound": 0.5}, {"bound": [1.0, 2.0]}, {"bound": 0.5}, {"bound": 0.5}, {"bound": 0.5}]
    with pytest.raises(LoopError, match="bound"):
        swept(over=over, store=tmp_path / "s.zarr", on_error="raise")
    with pytest.warns(LoopWarning):
        swept(over=over, store=tmp_path / "s.zarr")
    with pytest.raises(LoopError, match="bound"):
        swept(over=over, store=tmp_path / "s.zarr", on_error="raise")


def test_a_filling_that_is_of_another_type(tmp_path):
    graph = loop_graph(COUNTS, {"x": 0.0}, {"x": "x"}, ("run[1]",))
    with pytest.raises(LoopError, match=r"output 'o0' is int64 and fill=0\.5 is not"):
        mdf_loop.sweep(graph, {"m": [3, 3]}, store=tmp_path / "s.zarr", fill=0.5)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_store_of_a_stranger_is_looked_at_before_it_is_opened(place, tmp_path):
    (place / "evidence" / "c.9.9.9").symlink_to(tmp_path)
    with pytest.raises(MalformedBody, match="is a link"):
        mdf_loop.open(place)
