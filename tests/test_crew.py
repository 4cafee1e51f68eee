"""Threads that share the runs of a sweep: each run once, errors and options where they belong, all leave off in the end."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import LoopInterrupted
from mdf_loop.options import current_options
from mdf_loop.sweeps.workers import Crew, current_crew, working

DIFFUSION = Path(__file__).parent.parent / "examples" / "drift_diffusion.yaml"
LONG = 30
"""Seconds after which a test gives up waiting."""


class Helped:
    """A crew of two, of which one thread helps; ``both`` is passed when both work at once."""

    def __init__(self):
        self.crew, self.both = Crew(2), threading.Barrier(2)
        self._met = threading.local()

    def __enter__(self):
        self.pool = ThreadPoolExecutor(1)
        self.helping = self.pool.submit(self.crew.help)
        return self

    def __exit__(self, *_):
        self.crew.end()
        self.helping.result(LONG)
        self.pool.shutdown()

    def meet(self):
        """Wait for the other thread, the first time."""
        if not hasattr(self._met, "once"):
            self._met.once = True
            self.both.wait(LONG)

    @property
    def is_helper(self):
        return threading.current_thread() is not threading.main_thread()


def test_two_threads_work_at_once_and_with_the_same_options():
    engines, threads = set(), set()
    with Helped() as two, mdf_loop.options(engine="numpy"):

        def runs(start, stop):
            two.meet()
            threads.add(threading.get_ident())
            engines.add(current_options().engine)

        two.crew.share(1000, runs)
    assert len(threads) == 2
    assert engines == {"numpy"}


@settings(deadline=None)
@given(count=st.integers(0, 3000), size=st.integers(1, 5))
def test_each_run_is_done_once(count, size):
    done = [0] * count

    def runs(start, stop):
        assert start < stop
        for k in range(start, stop):
            done[k] += 1

    crew = Crew(size)
    with ThreadPoolExecutor(5) as pool:
        helping = [pool.submit(crew.help) for _ in range(size - 1)]
        crew.share(count, runs)
        crew.share(count, runs)
        crew.end()
        for each in helping:
            each.result(LONG)
    assert done == [2] * count


@pytest.mark.parametrize("fails_in_helper", [True, False])
def test_what_goes_wrong_in_any_thread_is_raised_and_ends_it(fails_in_helper):
    taken = []
    with Helped() as two:

        def runs(start, stop):
            two.meet()
            taken.append(stop - start)
            time.sleep(0.001)
            if two.is_helper == fails_in_helper:
                raise ZeroDivisionError("here")

        with pytest.raises(ZeroDivisionError, match="here"):
            two.crew.share(10**12, runs)
    assert sum(taken) < 10**12


def test_a_crew_that_ends_leaves_off():
    with Helped() as two:

        def runs(start, stop):
            if two.is_helper:
                two.crew.end()
            two.meet()

        with pytest.raises(LoopInterrupted):
            two.crew.share(10**12, runs)


def test_work_is_shared_by_those_who_are_said():
    crew = Crew(3)
    with working(crew):
        assert current_crew() is crew
    assert current_crew().size == 1


@pytest.mark.parametrize("chunk", [None, 700])
def test_many_trials_have_the_same_bits_in_two_threads(chunk):
    pytest.importorskip("xarray")
    over = {"drift": [0.0, 0.5, 2.0]}
    alone = mdf_loop.sweep(DIFFUSION, over, trials=700, seed=3)
    for workers in (2, 3):
        assert mdf_loop.sweep(DIFFUSION, over, trials=700, seed=3, workers=workers, chunk=chunk).identical(alone)
