"""Clusters of dask whose workers come late, go, and come again: the same bits, and errors that keep what is complete."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, LoopInterrupted

pytest.importorskip("xarray")
distributed = pytest.importorskip("distributed")

DIFFUSION = Path(__file__).parents[2] / "examples" / "drift_diffusion.yaml"
HOW = {"seed": 1, "outputs": ["reaction_time"]}
OVER = {"drift": np.linspace(1, 3, 4)}


def cluster_of(workers, **how):
    known = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
    return distributed.LocalCluster(n_workers=workers, **known | how)


@pytest.fixture(scope="module")
def processes():
    """A cluster of two processes that all tests of lost workers share: starting one takes longer than what it computes."""
    with cluster_of(2, processes=True) as cluster:
        yield cluster


def kill(cluster):
    for worker in cluster.workers.values():
        os.kill(worker.pid, signal.SIGKILL)


def swept(client, trials, **how):
    return mdf_loop.sweep(DIFFUSION, OVER, trials=trials, client=client, **HOW, **how)


def expected(trials, **how):
    return mdf_loop.sweep(DIFFUSION, OVER, trials=trials, **HOW, **how)


def test_no_worker_yet_is_waiting(caplog, monkeypatch):
    with cluster_of(0) as cluster, distributed.Client(cluster) as client:
        logger, waits = logging.getLogger("mdf_loop.sweeps.clusters"), logging.Handler(logging.WARNING)
        waits.emit = lambda _: cluster.scale(2)
        monkeypatch.setattr(logger, "handlers", [waits])
        with caplog.at_level("INFO", "mdf_loop"):
            found = swept(client, 50)
    assert found.identical(expected(50))
    assert "no worker of the cluster is there; waiting for one" in caplog.text
    assert "2 threads of workers are there" in caplog.text


@pytest.mark.parametrize("reduce", [None, "std"])
def test_workers_that_come_late_work_too(reduce):
    with cluster_of(1) as cluster, distributed.Client(cluster) as client:
        seen = []

        def told(done, size):
            seen.append(sum(bool(w.processing) for w in cluster.scheduler.workers.values()))
            if len(seen) == 3:
                cluster.scale(4)
                client.wait_for_workers(4)

        found = swept(client, 40000, chunk=4000, reduce=reduce, progress=told)  # what a worker has takes longer than a look
    assert max(seen) >= 3
    assert found.identical(expected(40000, chunk=80000, reduce=reduce))


def test_all_workers_may_die_and_come_again(processes):
    with distributed.Client(processes) as client:
        calls = []

        def told(done, size):
            calls.append(done)
            if len(calls) == 3:
                kill(processes)

        found = swept(client, 300, chunk=50, progress=told)
    assert len(calls) == 24
    assert found.identical(expected(300))


def test_a_client_that_is_closed_is_an_error_with_what_is_complete():
    with cluster_of(1) as cluster:
        client = distributed.Client(cluster)
        calls = []

        def told(done, size):
            calls.append(done)
            if len(calls) == 2:
                client.close()

        with pytest.raises(LoopError) as info:
            swept(client, 500, chunk=20, progress=told)
    assert info.value.results.attrs["complete"] == calls[-1] == 40


def test_ctrl_c_keeps_pieces_and_cancels_the_others():
    with cluster_of(2) as cluster, distributed.Client(cluster) as client:

        def told(done, size):
            if done >= 60:
                raise KeyboardInterrupt

        with pytest.raises(LoopInterrupted) as info:
            swept(client, 5000, chunk=20, progress=told)
        assert 60 <= info.value.results.attrs["complete"] < 5000
        again = swept(client, 20)
    assert again.identical(expected(20))


# Stores


def stored(cluster, place, lost=lambda: None, **how):
    """A sweep into a store, amid which something happens: as without a cluster.  The times that progress was reported."""
    calls = []

    def told(done, size):
        calls.append(done)
        if len(calls) == 2:
            lost()
            cluster.scale(3)

    said = {"trials": 100, "seed": 1, **how}
    with distributed.Client(cluster) as client:
        found = mdf_loop.sweep(DIFFUSION, OVER, client=client, chunk=20, store=place, progress=told, **said)
    assert found.identical(mdf_loop.sweep(DIFFUSION, OVER, **said).drop_vars("trial", errors="ignore"))
    return len(calls)


def test_workers_that_write_a_store_may_come_late(tmp_path):
    with cluster_of(2) as cluster:
        assert stored(cluster, tmp_path / "s.zarr", reduce="mean") == 4


def test_workers_that_write_a_store_may_die_and_come_late(processes, tmp_path):
    assert stored(processes, tmp_path / "s.zarr", lambda: kill(processes), outputs=["reaction_time", "path"]) == 20


def test_a_client_that_is_killed_and_started_again_goes_on(processes, tmp_path):
    place = tmp_path / "s.zarr"
    code = f"""if True:
        import os, mdf_loop, distributed
        told = lambda done, size: os.kill(os.getpid(), 9) if done > 200 else None
        client = distributed.Client({processes.scheduler_address!r})
        over = {{"drift": {OVER["drift"].tolist()}}}
        how = dict({HOW}, trials=200, chunk=20, store={str(place)!r})
        mdf_loop.sweep({str(DIFFUSION)!r}, over, client=client, progress=told, **how)
    """
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    done = mdf_loop.open(place).attrs["complete"]
    assert 200 <= done < 800
    with distributed.Client(processes) as client:
        found = swept(client, 200, store=place)
    assert found.identical(expected(200).drop_vars("trial"))
    assert mdf_loop.open(place).identical(found)


def broken(values):
    """A function that no worker can run."""
    raise ZeroDivisionError("here")


def test_what_goes_wrong_in_a_worker_is_an_error_of_ours():
    with cluster_of(1) as cluster, distributed.Client(cluster) as client:
        with pytest.raises(LoopError, match="reduce of output 'reaction_time', of 5 trials at point 0: ZeroDivisionError"):
            swept(client, 5, reduce=broken)
        with pytest.raises(mdf_loop.LoopError, match="bound"):
            mdf_loop.sweep(DIFFUSION, {"bound": [[1.0, 2.0]]}, client=client, on_error="raise")
