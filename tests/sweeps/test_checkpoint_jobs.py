"""Jobs that work on one checkpoint: runs in chunks of any length, each of them once as far as jobs can know."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swept_models import DIFFUSION, NAMES, OVER

import mdf_loop
from mdf_loop.models.model import Wish
from mdf_loop.options import start_run
from mdf_loop.sweeps.checkpoints.checkpoint import Checkpoint
from mdf_loop.sweeps.grid import grid_of
from mdf_loop.sweeps.rows.labels import labels_of_sweep
from mdf_loop.sweeps.task import Task

pytest.importorskip("xarray")


SPANS = st.lists(st.tuples(st.integers(0, 23), st.integers(1, 9)), max_size=6)


@settings(max_examples=25, deadline=None)
@given(SPANS, st.integers(1, 6), st.integers(1, 24))
def test_exactly_the_runs_are_computed_that_are_not_there(tmp_path_factory, whole_of, spans, trials, length):
    place = tmp_path_factory.mktemp("spans") / "c.zarr"
    task, labels = whole_of(4)
    first, there = Checkpoint(place, task, labels), np.zeros((6, 4), bool)
    for start, count in spans:
        span = start, min(start + count, 24)
        first.write(*task.run(*span).chunks[0])
        there.reshape(-1)[slice(*span)] = True
    task, labels = whole_of(trials)
    second, expected = Checkpoint(place, task, labels), np.zeros((6, trials), bool)
    expected[:, :4] = there[:, :trials]
    done = np.zeros(6 * trials, int)
    for (start, stop), chunk in second.chunks():
        done[start:stop] += 1
        np.testing.assert_array_equal(chunk.columns["evidence"][0], task.run(start, stop).chunks[0][1].columns["evidence"][0])
    assert (done.reshape(6, trials) == expected).all()
    while (span := second.take(length)) is not None:
        assert span[1] - span[0] <= length
        done[slice(*span)] += 1
    assert (done == 1).all()


@pytest.fixture(scope="module")
def whole_of():
    """The task of a sweep with so many trials, and its labels."""
    model = mdf_loop.prepare(DIFFUSION)

    def task_of(trials):
        task = Task(model, {"max_steps": 5}, grid_of(OVER), trials, seed=1, wish=Wish(outputs=frozenset(NAMES)))
        return task, labels_of_sweep(task, start_run(), has_trials=True)

    return task_of


# Several jobs


def test_jobs_share_the_work(whole_of, tmp_path):
    task, labels = whole_of(4)
    jobs = [Checkpoint(tmp_path / "c.zarr", task, labels) for _ in range(3)]
    under_way, taken = [], []
    for turn in range(100):
        job = jobs[turn % 3]
        list(job.chunks())
        if turn >= 3 and under_way:
            other, span = under_way.pop(0)
            other.write(*task.run(*span).chunks[0])
        if (span := job.take(3 + turn % 3)) is not None:
            taken.append(span)
            under_way.append((job, span))
        if not under_way and all(job.is_complete for job in jobs):
            break
    count = np.zeros(24, int)
    for span in taken:
        count[slice(*span)] += 1
    assert count.min() == 1
    assert count.sum() <= 24 + 2 * 5  # at the end jobs do not wait for each other
    for job in jobs:
        job.close()
    assert not [path for path in (tmp_path / "c.zarr").iterdir() if path.name.startswith(("claim", ".tmp"))]


def test_the_claims_of_a_job_that_died_hold_nothing_up(whole_of, tmp_path):
    task, labels = whole_of(4)
    dead, job = (Checkpoint(tmp_path / "c.zarr", task, labels) for _ in range(2))
    assert dead.take(5) == (0, 5)
    assert [job.take(10) for _ in range(4)] == [(5, 15), (15, 24), (0, 5), None]


def test_leftovers_are_removed_when_all_is_done_and_not_before(whole_of, tmp_path):
    task, labels = whole_of(4)
    place = tmp_path / "c.zarr"
    job = Checkpoint(place, task, labels)
    (place / ".tmp-0123-chunk_0_5_of_4.npz").write_bytes(b"half")
    (place / "claim_0_5_of_4_0123456789abcdef").write_bytes(b"")
    while (span := job.take(10)) is not None:
        assert (place / ".tmp-0123-chunk_0_5_of_4.npz").exists()
        job.write(*task.run(*span).chunks[0])
    job.close()
    assert sorted(path.suffix for path in place.iterdir() if not path.name.startswith("complete")) == [".npz"] * 4


def test_a_part_whose_beginnings_another_job_removes_is_written_all_the_same(whole_of, tmp_path, monkeypatch):
    task, labels = whole_of(4)
    job, replace, removed = Checkpoint(tmp_path / "c.zarr", task, labels), os.replace, []

    def tidied(source, target):
        if not removed:
            removed.append(source)
            os.unlink(source)
        replace(source, target)

    monkeypatch.setattr(os, "replace", tidied)
    span = job.take(24)
    job.write(*task.run(*span).chunks[0])
    assert removed
    assert len(list((tmp_path / "c.zarr").glob("chunk_*.npz"))) == 1


def test_jobs_of_their_own_processes_end_well(tmp_path):
    """Two of them, at one sweep after the other."""
    sweeps = {"checkpoint": 4, "store": 24}
    code = f"""if True:
        import mdf_loop
        for kind, trials in {sweeps!r}.items():
            how = {{"seed": 1, "outputs": {NAMES!r}, "chunk": 2, kind: f"{tmp_path}/{{kind}}.zarr"}}
            print(mdf_loop.sweep({str(DIFFUSION)!r}, {OVER!r}, trials=trials, **how).attrs["complete"])
    """
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    jobs = [subprocess.Popen(command, stdout=-1, stderr=-1, text=True) for _ in range(2)]
    assert [job.communicate() for job in jobs] == [("24\n144\n", "")] * 2
    for kind, trials in sweeps.items():
        expected = mdf_loop.sweep(DIFFUSION, OVER, trials=trials, seed=1, outputs=NAMES)
        expected = expected if kind == "checkpoint" else expected.drop_vars("trial")  # which follows from its place there
        assert mdf_loop.open(tmp_path / f"{kind}.zarr").identical(expected)
        assert not [path for path in (tmp_path / f"{kind}.zarr").iterdir() if path.name.startswith((".", "claim"))]


@pytest.mark.parametrize("kind", ["checkpoint", "store"])
def test_how_errors_are_shown_is_not_part_of_a_sweep(kind, tmp_path):
    for shown in (False, True):
        with mdf_loop.options(traceback=shown):
            found = mdf_loop.sweep(DIFFUSION, OVER, trials=2, seed=1, outputs=NAMES, **{kind: tmp_path / "c.zarr"})
    assert found.attrs["complete"] == 12
