"""The ``options()`` context."""

import asyncio
import contextvars
import threading

import numpy as np
import pytest
from bodies import COUNTER, ITERATIONS

from mdf_loop import LoopError, loop, options
from mdf_loop.errors import ArgumentError, IterationLimit
from mdf_loop.options import Options, current_options, random_stream, start_run
from mdf_loop.settings.random_streams import RandomStream

NOISE = "b (int64 i, bool c) => (bool c, float[1] s) { s = RandomNormal <shape = [1]> () }"


def test_defaults_change_nothing():
    found = contextvars.Context().run(current_options)  # without the traceback of all tests
    assert found == Options(engine="auto", max_iterations=None, seed=None, obey_body_condition=False, trusted=False)


def test_blocks_nest_and_inner_ones_win():
    with options(max_iterations=5, seed=1) as outer:
        assert current_options() is outer
        with options(max_iterations=9) as inner:
            assert (inner.max_iterations, inner.seed) == (9, 1)
        assert current_options() is outer
    assert current_options() == Options(traceback=True)  # as for all tests


def test_options_end_with_their_block_even_after_an_error():
    with pytest.raises(KeyError), options(seed=1):
        raise KeyError
    assert current_options() == Options(traceback=True)  # as for all tests


def test_unknown_option_is_refused_by_name():
    with pytest.raises(ArgumentError) as info, options(max_iteration=3):
        pass
    text = str(info.value)
    assert text.startswith("unknown option max_iteration; did you mean 'max_iterations'?; there are ")
    assert "max_iterations" in text.split("there are ")[1].split(", ")


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in ("max_iterations", "seed") for v in (-1, 1.5, "3", True)])
def test_numbers_must_be_whole_and_not_negative(name, value):
    with pytest.raises(ArgumentError) as info, options(**{name: value}):
        pass
    assert str(info.value) == f"{name} must be None or a whole number from 0 on; got {value!r}"


def test_unknown_engine_is_refused():
    with pytest.raises(ArgumentError) as info, options(engine="warp"):
        pass
    assert str(info.value).startswith("engine must be one of auto, interpret")
    assert str(info.value).endswith("; got 'warp'")


@pytest.mark.parametrize("name", ["obey_body_condition", "trusted"])
@pytest.mark.parametrize("value", [1, "no", None])
def test_a_switch_must_be_a_boolean(name, value):
    with pytest.raises(ArgumentError) as info, options(**{name: value}):
        pass
    assert str(info.value) == f"{name} must be True or False; got {value!r}"


def test_threads_do_not_see_each_others_options():
    barrier, seen = threading.Barrier(2), {}

    def work(seed):
        with options(seed=seed):
            barrier.wait()
            seen[seed] = current_options().seed
            barrier.wait()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    with options(seed=3):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert current_options().seed == 3
    assert seen == {1: 1, 2: 2}


def test_asyncio_tasks_do_not_see_each_others_options():
    async def work(seed):
        with options(seed=seed):
            await asyncio.sleep(0)
            first = current_options().seed
            await asyncio.sleep(0)
            return first, current_options().seed

    async def all_of_them():
        return await asyncio.gather(*(work(seed) for seed in (1, 2, 3)))

    assert asyncio.run(all_of_them()) == [(1, 1), (2, 2), (3, 3)]


def test_same_loop_runs_in_many_threads_at_once():
    results = [None] * 8

    def work(k):
        for _ in range(20):
            results[k] = loop(20, True, float(k), body=COUNTER, one=k).item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [k + 20 * k for k in range(len(results))]


def test_each_run_starts_again_from_the_seed():
    with options(seed=4):
        first, second = loop(3, True, body=NOISE), loop(3, True, body=NOISE)
    np.testing.assert_array_equal(first, second)


def test_runs_without_a_seed_differ():
    assert not np.array_equal(loop(3, True, body=NOISE), loop(3, True, body=NOISE))


def test_random_stream_joins_several_loops_into_one_run():
    with options(seed=4):
        alone = loop(6, True, body=NOISE)
        with random_stream():
            joined = [*loop(3, True, body=NOISE), *loop(3, True, body=NOISE)]
        with random_stream(RandomStream(4)) as stream:
            assert start_run().stream is stream
    np.testing.assert_array_equal(joined, alone)


def test_max_iterations_is_no_error_for_a_loop_that_ends_in_time():
    with options(max_iterations=3):
        assert loop(3, True, body=ITERATIONS).tolist() == [0, 1, 2]


def test_max_iterations_keeps_the_partial_results():
    with options(max_iterations=2), pytest.raises(IterationLimit) as info:
        loop(3, True, 1.0, body="b (int64 i, bool c, float x) => (bool c, float y, int64 i) { y = Add (x, x) }")
    error = info.value
    assert str(error) == "iteration 2 of Loop: the loop would go on; options(max_iterations=2) stops it here"
    assert (error.iteration, error.partial[0].tolist(), error.partial[1].tolist()) == (2, 4, [0, 1])
    assert isinstance(error, LoopError)
    assert isinstance(error, RuntimeError)


def test_max_iterations_of_zero_stops_before_the_first_iteration():
    with options(max_iterations=0), pytest.raises(IterationLimit) as info:
        loop(3, True, 1.0, body=COUNTER, one=1)
    assert (info.value.iteration, info.value.partial) == (0, (1,))


def test_engine_interpret_gives_the_same():
    with options(engine="interpret"):
        assert loop(3, True, 0.0, body=COUNTER, one=1) == 3
