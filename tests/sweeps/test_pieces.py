"""Sweeps by the clock: pieces of about a second, told, kept by whatever ends them, and the same numbers however they are cut."""

import itertools
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from engines import SETTLED
from hypothesis import given, settings
from hypothesis import strategies as st
from swept_models import GATHERING, loop_graph

import mdf_loop
from mdf_loop.errors import ArgumentError, LoopError, LoopInterrupted, LoopStopped, LoopTimeout, LoopWarning
from mdf_loop.progress import Report, Tally
from mdf_loop.sweeps import machine_runs, task, workers
from mdf_loop.sweeps.pieces import FAR_AWAY, FIRST, FOR_EACH, LONG, SOON, Pieces, Uncut
from mdf_loop.sweeps.rows.rows_of_runs import Ran
from mdf_loop.sweeps.task import Task
from mdf_loop.sweeps.workers import in_parts, in_threads

pytest.importorskip("xarray")

DIFFUSION = Path(__file__).parents[2] / "examples" / "drift_diffusion.yaml"


def played(size, seconds_of, workers=1, cut=None, **how):
    """The pieces of a sweep whose runs take so long: span and seconds of each."""
    pieces, played = Pieces(Uncut(size)), []
    while (asked := pieces.take(workers, **how)) is not None:
        start, stop, limit = asked
        if cut is not None:
            stop = min(stop, start + max(int(limit / cut), 1))
        seconds = seconds_of(stop - start)
        played.append(((start, stop), seconds))
        pieces.took(asked, Ran((start, stop), [], seconds, 8 * (stop - start)))
    return played


@settings(deadline=None)
@given(
    size=st.integers(1, 10**6),
    each=st.floats(1e-6, 2.0),
    fixed=st.sampled_from([0, 1e-3, 0.5, 3.0]),
    workers=st.integers(1, 5),
    is_cut=st.booleans(),
)
def test_all_runs_are_done_once(size, each, fixed, workers, is_cut):
    size = min(size, int(2000 / each))
    spans = sorted(span for span, _ in played(size, lambda n: fixed + each * n, workers, each if is_cut else None))
    assert spans[0][0] == 0
    assert spans[-1][1] == size
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize("each", [1e-4, 1e-3, 0.05])
def test_pieces_take_about_a_second_once_the_pace_is_known(each):
    seconds = [seconds for _, seconds in played(int(60 / each), lambda n: each * n, cut=each)]
    assert seconds[0] <= SOON + each
    assert np.median(seconds) == pytest.approx(LONG, rel=0.2)
    assert max(seconds) < 1.5 * LONG


def test_what_takes_its_time_however_little_it_is_comes_in_longer_pieces():
    seconds = [seconds for _, seconds in played(100_000, lambda n: 3.0 + 0.001 * n)]
    assert len(seconds) < 60  # a thousand in pieces of a second, three of which are for nothing
    assert np.median(seconds) < 10


def test_the_first_piece_may_have_been_compiled():
    lengths = [
        stop - start for (start, stop), _ in played(10**6, lambda n, first=[0.5]: 3e-6 * n + (first.pop() if first else 0))
    ]
    assert lengths[0] == FIRST
    assert len(lengths) < 15


def test_workers_get_less_towards_the_end():
    lengths = [stop - start for (start, stop), _ in played(100_000, lambda n: 1e-3 * n, workers=10)]
    assert max(lengths[-10:]) < 100
    assert max(lengths) > 900


@pytest.mark.parametrize("workers", [10, 1000])
@pytest.mark.parametrize("each", [3e-7, 3e-6, 1e-3, 0.02])
def test_pieces_of_a_cluster_last_half_a_second(each, workers):
    """However many workers there are, a scheduler has little to do: of all but the first few, and the last one."""
    size = int(1000 / each) + 1
    seconds = [seconds for _, seconds in played(size, lambda n: each * n, workers, each, shortest=FAR_AWAY)]
    first = next(k for k, taken in enumerate(seconds) if taken >= FAR_AWAY / 2)
    assert first < 5
    assert min(seconds[first:-1]) >= min(FAR_AWAY, each * (1 << 20)) * 0.98
    assert len(seconds) <= max(1000 / FAR_AWAY, size / (1 << 20)) + 10
    assert max(seconds) <= 1.5 * max(LONG, FOR_EACH * workers)


def test_a_length_that_the_caller_gives_counts(monkeypatch):
    ran, original = [], Task.run
    monkeypatch.setattr(Task, "run", lambda self, *span: ran.append(span) or original(self, *span))
    mdf_loop.sweep(DIFFUSION, {"drift": [3.0]}, trials=10, seed=1, chunk=4, outputs=["reaction_time"])
    assert ran == [(0, 4), (4, 8), (8, 10)]


def test_no_run_begins_when_the_time_is_over(monkeypatch):
    now = SimpleNamespace(value=0.0)
    monkeypatch.setattr(workers, "time", SimpleNamespace(perf_counter=lambda: now.value))
    done = []

    def runs(start, stop):
        done.extend(range(start, stop))
        now.value += 0.01 * (stop - start)

    assert in_parts(1000, runs, 0.5) == len(done) < 100
    assert done == list(range(len(done)))
    assert in_parts(7, lambda *_: None, 0.0) == 1


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_each_run_is_done_once(count):
    done = []
    assert in_parts(count, lambda start, stop: done.extend(range(start, stop))) == count
    assert done == list(range(count))


def test_what_goes_wrong_in_one_thread_ends_the_others():
    both, left_off = threading.Barrier(2), []

    def runs(start, stop):
        time.sleep(0.001)

    def run(start, stop, seconds):
        both.wait(30)
        if start == 0:
            raise ZeroDivisionError("here")
        try:
            in_parts(10**12, runs)
        except LoopInterrupted:
            left_off.append(start)
            raise

    with pytest.raises(ZeroDivisionError, match="here"):
        list(in_threads(SimpleNamespace(run=run), Pieces(Uncut(2)), 2))
    assert left_off == [1]


@pytest.mark.parametrize("chunk", [None, 700])
def test_many_trials_have_the_same_bits_in_several_threads(chunk):
    over = {"drift": [0.0, 0.5, 2.0]}
    alone = mdf_loop.sweep(DIFFUSION, over, trials=700, seed=3)
    for count in (2, 3):
        assert mdf_loop.sweep(DIFFUSION, over, trials=700, seed=3, workers=count, chunk=chunk).identical(alone)


@pytest.fixture
def hasty(monkeypatch):
    """A clock by which nearly every piece ends early, after another number of runs each time."""
    left = iter(range(10**9))

    def some(count, runs, seconds=float("inf")):
        if seconds < float("inf"):
            count = min(count, 1 + next(left) * 7 % 5)
        return in_parts(count, runs)

    for module in (machine_runs, task):
        monkeypatch.setattr(module, "in_parts", some)


def swept(**how):
    return mdf_loop.sweep(DIFFUSION, {"drift": [1.5, 3.0]}, trials=23, seed=1, **how)


@pytest.mark.parametrize("reduce", [None, "std", [0.1, 0.5], {"path": "mean", "evidence": "median"}], ids=str)
@pytest.mark.parametrize(("engine", "workers"), [("interpret", 1), *itertools.product(SETTLED, (1, 3))])
def test_pieces_that_end_early_change_no_bit(engine, workers, reduce, request):
    with mdf_loop.options(engine=engine):
        expected = swept(reduce=reduce, chunk=46)
        request.getfixturevalue("hasty")
        assert swept(reduce=reduce, workers=workers).identical(expected)


@pytest.mark.usefixtures("hasty")
def test_a_checkpoint_keeps_pieces_that_ended_early(tmp_path):
    pytest.importorskip("zarr")
    for reduce in (None, "var", [0.5]):
        path = tmp_path / f"{reduce}.zarr"
        with pytest.raises(LoopInterrupted) as info, mdf_loop.options(engine="interpret"):
            mdf_loop.sweep(
                GRAPH, {"x": [1.0, 2.0]}, trials=23, seed=1, reduce=reduce, checkpoint=path, progress=stop_at(20), outputs=["o0"]
            )
        kept = info.value.results.attrs["complete"]
        assert 20 <= kept < 46
        opened = mdf_loop.open(path)
        assert opened.attrs["complete"] == kept
        assert opened.equals(info.value.results)
        with mdf_loop.options(engine="interpret"):
            how = {"trials": 23, "seed": 1, "reduce": reduce, "outputs": ["o0"]}
            found = mdf_loop.sweep(GRAPH, {"x": [1.0, 2.0]}, checkpoint=path, **how)
            assert found.identical(mdf_loop.sweep(GRAPH, {"x": [1.0, 2.0]}, **how))


GRAPH = loop_graph(
    "b (int64 i, bool c, double x) => (bool c, double y) { z = RandomNormalLike (x) e = Tanh (x) y = Add (e, z) }",
    {"x": 0.0},
    {"x": "x"},
    ("run",),
)


def stop_at(count):
    """A function that presses Ctrl-C."""

    def stop(done, size):
        if done >= count:
            raise KeyboardInterrupt

    return stop


# Told


def test_a_sweep_is_reported_as_runs(caplog):
    seen, calls = [], []
    with mdf_loop.options(progress=seen.append):
        swept(chunk=20)
        mdf_loop.run(DIFFUSION, trials=5, seed=1, drift=3.0)
    assert [(report.iteration, report.total, report.unit) for report in seen] == [
        (20, 46, "runs"),
        (40, 46, "runs"),
        (46, 46, "runs"),
        (5, 5, "runs"),
    ]
    swept(chunk=20, progress=lambda *told: calls.append(told))
    assert calls == [(20, 46), (40, 46), (46, 46)]
    with caplog.at_level("INFO", "mdf_loop.progress"):
        swept(chunk=40, progress=True)
        swept(progress=False)
    assert caplog.text.count("drift_diffusion: 0 of 46 runs") == 1
    assert caplog.text.count("drift_diffusion: 46 of 46 runs") == 1
    with pytest.raises(ArgumentError, match="progress must be True"):
        swept(progress=3)


def test_a_function_stops_a_sweep_by_answering_false():
    for how in ({"progress": lambda done, size: done < 40}, {}):
        with mdf_loop.options(progress=lambda report: report.iteration < 40), pytest.raises(LoopStopped) as info:
            swept(chunk=20, **how)
        assert info.value.results.attrs["complete"] == 40


def test_a_bar_is_there_at_once_and_counts_what_a_checkpoint_has(monkeypatch):
    from mdf_loop import progress

    shown, now = [], SimpleNamespace(value=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now.value))
    monkeypatch.setattr(progress, "_display", lambda _: (shown.append, lambda: None))
    tally = Tally(progress.Bar(), "m", 100, before=50)
    now.value = 2.0
    tally(10)
    assert shown == [Report("m", 50, 100, 0.0, "runs", 50), Report("m", 60, 100, 2.0, "runs", 50)]
    assert str(shown[-1]) == "m: 60 of 100 runs, 5 a second, 8 s left"


# Kept


SLOW = {"bound": 1e9, "outputs": ["reaction_time"]}


def pressing():
    """Ctrl-C, soon after a piece is done, however long that takes."""
    pressed = []

    def told(_):
        if not pressed:
            pressed.append(threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]))
            pressed[0].start()

    return told


@pytest.mark.parametrize("how", [{}, {"workers": 2}, {"reduce": "mean"}], ids=str)
@pytest.mark.parametrize("engine", SETTLED)
def test_ctrl_c_keeps_the_pieces_that_are_done(engine, how):
    with mdf_loop.options(engine=engine), mdf_loop.options(progress=pressing()), pytest.raises(LoopInterrupted) as info:
        mdf_loop.sweep(DIFFUSION, {"drift": [0.0]}, trials=10**6, seed=1, **SLOW, **how)
    found = info.value.results
    assert 0 < found.attrs["complete"] < 10**6
    count = found.attrs["complete"] if found.reaction_time.ndim > 1 else 1
    assert int(found.reaction_time.notnull().sum()) == count


def test_trials_keep_what_is_complete_too():
    whole = mdf_loop.run(GRAPH, trials=40, seed=1)
    for record in ((), ("n.y",)):
        told = {"progress": lambda report: stop_at(1)(report.iteration, 0)}
        with pytest.raises(LoopInterrupted) as info, mdf_loop.options(**told):
            mdf_loop.run(GRAPH, trials=FIRST * 2, seed=1, **({"record": "n.y"} if record else {}))
        found = info.value.results
        count = found.about.trials
        assert 0 < count < FIRST * 2
        assert found["o0"].shape == (count,)
        np.testing.assert_array_equal(found["o0"][:40], whole["o0"][:count])


@pytest.mark.parametrize("kind", [ValueError, MemoryError, SystemExit])
def test_whatever_ends_a_sweep_leaves_with_its_results(kind):
    def fail(done, size):
        raise kind("here")

    with pytest.raises(kind) as info:
        swept(chunk=20, progress=fail)
    assert info.value.results.attrs["complete"] == 20


def test_the_time_of_a_sweep_is_over_while_nothing_is_lost(monkeypatch):
    now, done = SimpleNamespace(value=0.0), []
    monkeypatch.setattr(sys.modules["mdf_loop.options"], "time", SimpleNamespace(monotonic=lambda: now.value))

    def told(complete, size):
        done.append(complete)
        now.value = 60.0

    with mdf_loop.options(timeout=50, engine="numpy"), pytest.raises(LoopTimeout) as info:
        mdf_loop.sweep(GRAPH, {"x": [1.0]}, trials=10**8, seed=1, reduce="mean", progress=told)
    assert info.value.results.attrs["complete"] == done[-1] > 0


# Failed runs


def test_a_sweep_says_how_many_runs_failed():
    graph = loop_graph(GATHERING, {"x": 0.0, "w": [1.0, 2.0, 3.0]}, {"x": "x"}, ("run[1]",))
    with pytest.warns(LoopWarning, match=r"^2 of 6 runs failed; the first, point 1 \(m=9\), trial 0: iteration 3 of Loop"):
        s = mdf_loop.sweep(graph, {"m": [2, 9, 3]}, trials=2, reduce="count", chunk=1)
    assert s.attrs["failed"] == 2
    assert [error[:23] for error in s.attrs["errors"]] == ["point 1 (m=9), trial 0:"]
    assert s.o0.values.tolist() == [[2, 2, 0], [0, 0, 0], [2, 2, 2]]
    assert s.o0.dtype == np.int64
    with pytest.warns(LoopWarning, match="2 of 2 runs failed"):
        assert mdf_loop.sweep(graph, {"m": [8, 9]}).attrs["failed"] == 2


@pytest.mark.parametrize("chunk", [1, 2, None])
@pytest.mark.filterwarnings("ignore:1 of 3 runs failed")
def test_whole_numbers_of_runs_that_failed_are_the_filling(chunk):
    graph = loop_graph(GATHERING, {"x": 0.0, "w": [1, 2, 3]}, {"x": "x"}, ("run[1]",))
    s = mdf_loop.sweep(graph, {"m": [3, 9, 3]}, chunk=chunk)
    assert np.isnan(s.o0.values[1].astype(float)).all()
    assert s.attrs["failed"] == 1


@pytest.mark.parametrize(
    "values", [[1.0, "a"], ["a", 1], [1.0, None], ["a", "b"], [1.0, [2.0, "a"]], [np.float64(1), np.array(["a"])]], ids=str
)
def test_texts_among_numbers_are_refused(values):
    with pytest.raises(
        ArgumentError, match=r"over\['drift'\] is (numbers or texts, not both|a number in the model); value \d is"
    ):
        mdf_loop.sweep(DIFFUSION, {"drift": values})
    with pytest.raises(LoopError, match="not a number"):
        mdf_loop.sweep(DIFFUSION, [{"drift": value} for value in values])


@pytest.mark.parametrize(("seconds", "is_little"), [(1e-5, True), (1.0, False)])
def test_little_work_is_done_by_one_thread(seconds, is_little):
    done, threads = np.zeros(100, int), []

    def run(start, stop, *_):
        done[start:stop] += 1
        threads.append(threading.current_thread())
        return Ran((start, stop), [], seconds * (stop - start), 8)

    list(in_threads(SimpleNamespace(run=run), Pieces(Uncut(100)), 4))
    assert (done == 1).all()
    assert len(threads) > 1
    assert [each is threading.current_thread() for each in threads[1:]] == [is_little] * len(threads[1:])
