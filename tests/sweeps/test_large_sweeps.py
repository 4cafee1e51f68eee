"""Sweeps that are gone on with from a checkpoint, and run by a cluster, with the same bits."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from swept_models import GATHERING, NAMES, loop_graph

import mdf_loop
from mdf_loop.errors import ArgumentError, FileError, IterationError, LoopError, LoopInterrupted
from mdf_loop.sweeps.checkpoints.chunk_files import numbers_of
from mdf_loop.sweeps.checkpoints.digest import digest_of
from mdf_loop.sweeps.checkpoints.storage import LocalPlace
from mdf_loop.sweeps.stores import tries
from mdf_loop.sweeps.stores.block_writer import BlockWriter

pytest.importorskip("xarray")

ROOT = Path(__file__).parents[2]
DIFFUSION = ROOT / "examples" / "drift_diffusion.yaml"
OVER = {"drift": [0.0, 1.0, 2.5], "bound": [0.3, 0.5]}


def test_a_checkpoint_is_gone_on_with(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    from mdf_loop.sweeps.task import Task

    expected = mdf_loop.sweep(DIFFUSION, OVER, trials=4, seed=1)
    path, ran = tmp_path / "c.zarr", []
    original = Task.run
    monkeypatch.setattr(Task, "run", lambda self, *span: ran.append(span) or original(self, *span))

    def stop(done, size):
        if done >= 10:
            raise KeyboardInterrupt

    said = {"trials": 4, "seed": 1, "chunk": 5, "checkpoint": path}
    with pytest.raises(LoopInterrupted):
        mdf_loop.sweep(DIFFUSION, OVER, progress=stop, **said)
    assert ran == [(0, 5), (5, 10)]
    found = mdf_loop.sweep(DIFFUSION, OVER, **said)
    assert ran[2:] == [(10, 15), (15, 20), (20, 24)]
    assert found.identical(expected)
    assert mdf_loop.sweep(DIFFUSION, OVER, **said).identical(expected)
    assert len(ran) == 5


KILLED = """
import sys, mdf_loop
mdf_loop.sweep(sys.argv[1], {"drift": [0.0, 1.0, 2.5], "bound": [0.3, 0.5]}, trials=40, seed=1, chunk=8, checkpoint=sys.argv[2],
               progress=lambda done, size: print(done, flush=True))
"""


def test_a_sweep_that_was_killed_goes_on_where_it_stopped(tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "c.zarr"
    process = subprocess.Popen([sys.executable, "-c", KILLED, DIFFUSION, path], stdout=subprocess.PIPE, text=True)
    for _ in range(3):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()
    there = [place.name for place in path.glob("chunk_*")]
    assert len(there) >= 3
    found = mdf_loop.sweep(DIFFUSION, OVER, trials=40, seed=1, chunk=8, checkpoint=path)
    assert found.identical(mdf_loop.sweep(DIFFUSION, OVER, trials=40, seed=1))


def test_a_sweep_is_known_again_in_another_process(tmp_path):
    """Whatever the order of sets there, which is that of hashes."""
    pytest.importorskip("zarr")
    code = f"""
import mdf_loop
from mdf_loop.sweeps.checkpoints.digest import digest_of, lines_of
from mdf_loop.sweeps.task import Task
from mdf_loop.models.model import Wish
for path in {[str(DIFFUSION), str(ROOT / "examples" / "openvino_loop.xml")]!r}:
    given = dict(a="".join(["x", "y"]), b={{"x", "y", "z"}})
    task = Task(mdf_loop.prepare(path), given, wish=Wish(outputs=frozenset("abcdefgh")))
    print(digest_of(lines_of(task)))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1
    assert len(set(found.pop().split())) == 2


def test_a_digest_tells_contents_apart_and_not_objects():
    joined = "".join(["a", "b"])
    assert digest_of(["ab", joined]) == digest_of([joined, joined]) != digest_of(["ab", "a"])
    assert digest_of({"x", ("y", frozenset("abc"))}) == digest_of({("y", frozenset("bca")), "x"})
    assert digest_of({"x"}) != digest_of(frozenset({"x"})) != digest_of(["x"])


def test_a_call_without_a_seed_goes_on_with_that_of_the_checkpoint(tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "c.zarr"
    first = mdf_loop.sweep(DIFFUSION, OVER, trials=2, checkpoint=path)
    assert mdf_loop.sweep(DIFFUSION, OVER, trials=2, checkpoint=path).identical(first)
    with mdf_loop.options(seed=1), pytest.raises(LoopError, match="here it is 1"):
        mdf_loop.sweep(DIFFUSION, OVER, trials=2, checkpoint=path)


def test_a_checkpoint_refuses_what_it_would_not_know_again(tmp_path):
    pytest.importorskip("zarr")
    with pytest.raises(ArgumentError, match="define them in a module"):
        mdf_loop.sweep(DIFFUSION, OVER, trials=2, reduce=lambda rows: rows[0], checkpoint=tmp_path / "c.zarr")


# A cluster


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made,
        distributed.Client(made) as client,
    ):
        yield client


def test_a_cluster_gives_the_same_bits(cluster):
    expected = mdf_loop.sweep(DIFFUSION, OVER, trials=10, seed=1)
    assert mdf_loop.sweep(DIFFUSION, OVER, trials=10, seed=1, client=cluster).identical(expected)
    assert mdf_loop.sweep(DIFFUSION, OVER, trials=10, seed=1, client=cluster, chunk=4).identical(expected)


def test_errors_on_a_cluster_are_those_of_a_run_here(cluster):
    graph = loop_graph(GATHERING, {"x": 0.0, "w": [1.0, 2.0, 3.0]}, {"x": "x"}, ("run[1]",))
    s = mdf_loop.sweep(graph, {"m": [2, 9, 3]}, client=cluster, chunk=1)
    assert s.attrs["errors"] == mdf_loop.sweep(graph, {"m": [2, 9, 3]}).attrs["errors"]
    with pytest.raises(IterationError):
        mdf_loop.sweep(graph, {"m": [2, 9, 3]}, client=cluster, chunk=1, on_error="raise")


def test_a_worker_that_dies_costs_its_chunk_alone(cluster):
    pids = list(cluster.run(os.getpid).values())
    killed = []

    def kill(done, size):
        if not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    s = mdf_loop.sweep(DIFFUSION, OVER, trials=100, seed=1, client=cluster, chunk=10, progress=kill)
    assert killed
    assert s.identical(mdf_loop.sweep(DIFFUSION, OVER, trials=100, seed=1))


def test_a_checkpoint_of_other_steps_says_so(tmp_path):
    def swept(**how):
        return mdf_loop.sweep("examples/oscillator.yaml", {"damping": [0.1, 0.2]}, checkpoint=tmp_path / "c.zarr", seed=1, **how)

    swept(steps=5, time_increment=0.1)
    with pytest.raises(LoopError, match="its steps is 5, here it is 6"):
        swept(steps=6, time_increment=0.1)
    with pytest.raises(LoopError, match=r"its time_increment is 0\.1, here it is 0\.2"):
        swept(steps=5, time_increment=0.2)
    assert swept(steps=5, time_increment=0.1).attrs["complete"] == 2


@pytest.mark.parametrize("failing", [None, 0, 5, 23])
def test_a_note_comes_after_all_that_it_names(failing, tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    place, noted, original = tmp_path / "s.zarr", [], LocalPlace.write

    def slowly(self, name, content, is_new=False):
        if name.startswith("chunk_"):
            noted.append(range(*numbers_of(name)[:2]))
            found = [{int(path.name.split(".")[1]) for path in (place / label).glob("c.*")} for label in NAMES]
            assert all(set(noted[-1]) <= blocks for blocks in found)
        elif name.startswith("evidence/c."):
            time.sleep(0.003)  # longer than a block runs
            if name == f"evidence/c.{failing}":
                raise FileError("the disk is full")
        return original(self, name, content, is_new)

    monkeypatch.setattr(LocalPlace, "write", slowly)
    monkeypatch.setattr(tries, "BLOCK", 0.0)  # a run is a block
    monkeypatch.setattr(BlockWriter, "run", lambda self, start, stop, seconds, run=BlockWriter.run: run(self, start, stop))
    with nullcontext() if failing is None else pytest.raises(FileError, match="the disk is full"):
        mdf_loop.sweep(DIFFUSION, trials=24, seed=1, outputs=NAMES, store=place)
    assert failing is not None or (max(map(len, noted)) > 1 and sum(map(len, noted)) == 24)
    assert not any(failing in blocks for blocks in noted)
