"""One stream of random numbers, from which numpy's Generator and programs draw in turn, is the one that numpy draws alone."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdf_loop
from mdf_loop import options
from mdf_loop.settings.random_streams import MULTIPLIER, RandomStream, words_of
from mdf_loop.sweeps.seeds import seed_of, streams_of

MOVES = st.lists(st.sampled_from(["normal", "integers", "program", "save", "restore"]), max_size=12)
"""What may happen to a stream: numbers of 32 bits leave half of a number of 64 bits for later."""


def stepped(address):
    """What a program does: a number of the stream."""
    words = (ctypes.c_uint64 * 4).from_address(address)
    state, step = words[1] << 64 | words[0], words[3] << 64 | words[2]
    state = (state * MULTIPLIER + step) & (1 << 128) - 1
    words[0], words[1] = state & (1 << 64) - 1, state >> 64
    mixed, turn = words[0] ^ words[1], words[1] >> 58
    return (mixed >> turn | mixed << (64 - turn)) & (1 << 64) - 1


def moved(stream, alone, move, saved):
    """One thing that happens, to a stream and to a generator of numpy's."""
    if move == "save":
        saved[:] = stream.save(), alone.bit_generator.state
    elif move == "restore" and saved:
        stream.restore(saved[0])
        alone.bit_generator.state = saved[1]
    elif move == "program":
        assert stepped(stream.words()) == int(alone.bit_generator.random_raw())
    elif move == "normal":
        assert stream.shared().normal() == alone.normal()
    elif move == "integers":
        assert stream.shared().integers(9, dtype=np.int32) == alone.integers(9, dtype=np.int32)


@given(seed=st.integers(0, 1 << 70), moves=MOVES)
def test_a_stream_drawn_by_programs_and_kernels_is_numpys(seed, moves):
    stream, alone, saved = RandomStream(seed), np.random.default_rng(seed), []
    for move in (*moves, "normal", "program", "integers"):
        moved(stream, alone, move, saved)


@pytest.mark.parametrize(
    "seed", [0, 7, 1 << 100, np.random.SeedSequence(5, spawn_key=(3,)), np.random.SeedSequence([1, 2])], ids=str
)
def test_streams_begun_without_generators_are_those_of_numpy(seed):
    points, trials = np.repeat([0, 3, 2**31], 40), np.tile(np.arange(40), 3)
    for row, point, trial in zip(streams_of(seed, points, trials), points.tolist(), trials.tolist(), strict=True):
        generator = np.random.default_rng(seed_of(seed, point, trial))
        assert row.tobytes() == words_of(generator.bit_generator.state)


WALK = """walk (int64 i, bool go, double x) => (bool go_out, double x_out) {
  z = RandomNormalLike (x)
  wide = RandomNormalLike <mean = 1.0, scale = 3.0> (x)
  u = RandomUniformLike (x)
  half = Constant <value_float = 0.5> ()
  coin = Bernoulli <dtype = 11> (half)
  much = Sum (z, wide, u, coin)
  x_out = Add (x, much)
  go_out = Identity (go)
}"""
"""Bernoulli has no compiled form: its kernel draws between the draws of a program."""


@pytest.mark.parametrize("engine", ["numpy", "jit"])
def test_kernels_and_programs_draw_from_one_stream_in_one_iteration(engine):
    walk = mdf_loop.compile({"onnx": WALK, "opset": 20})
    with options(engine="interpret", seed=3):
        expected = walk(500, None, np.float64(0))
    with options(engine=engine, seed=3):
        assert walk(500, None, np.float64(0)) == expected
