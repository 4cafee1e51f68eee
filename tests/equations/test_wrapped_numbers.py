"""Whole numbers that leave 64 bits wrap around; a run says so, and says nothing where numbers are large as they are meant."""

import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import LoopWarning
from mdf_loop.execute.warnings import wrapped_numbers


def said(body, *start, count, engine):
    with mdf_loop.options(engine=engine), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mdf_loop.loop(count, True, *start, body=body)
    return [str(each.message) for each in caught if each.category is LoopWarning]


@mdf_loop.body
def tenfold(i, go, n):
    return True, n * 10


WRAPPED = {
    "a power of two": ("n: n * 2", (1,), 70, 62, "n"),
    "the smallest number": ("n: n * 2", (1,), 63, 62, "n"),
    "a factorial": ("n: n * (i + 1)", (1,), 25, 20, "n"),
    "sums": ("a: b\nb: a + b", (0, 1), 100, 91, "b"),
    "a function": (tenfold, (1,), 30, 18, "n"),
    "an array": (tenfold, (np.array([1, 2]),), 30, 18, "n"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", WRAPPED)
def test_numbers_that_wrap_around_are_said(case, engine):
    body, start, count, first, name = WRAPPED[case]
    for _ in range(7):
        (message,) = said(body, *start, count=count, engine=engine)
        assert message.startswith(f"iteration {first} of Loop: ")
        assert f": {name} became larger than 64 bits hold" in message
        assert f"({name} = 1.0)" in message


MEANT = {
    "within 64 bits": ("n: n * 2", (1,), 60),
    "down to nothing": ("n: n - 1\nwhile: n > 0", (50,), 100),
    "a product that becomes nothing": ("n: n * (3 - i)", (1,), 10),
    "remainders": ("h: (h * 1103515245 + 12345) % 2147483648", (12345,), 100),
    "bits, which no fraction has": ("h: bitwise_xor(h * 31, i)", (7,), 100),
    "large from the start": ("n: n + 1", (2**50,), 30),
    "fractions": ("n: n * 2", (1.0,), 70),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", MEANT)
def test_nothing_is_said_of_numbers_that_are_meant(case, engine):
    body, start, count = MEANT[case]
    assert not said(body, *start, count=count, engine=engine)


@mdf_loop.body
def minus_two(i, go, v, *, s):
    return True, v + (s[i] - np.uint8(2))


NARROW = {
    "int32": ("v: v * 2", {"v": np.int32(2**30)}, 5, 0, "v became larger than int32 holds", "v.astype(float)"),
    "int8 by steps of one": ("v: v + 1", {"v": np.int8(0)}, 300, 127, "v became larger than int8 holds", "v.astype(float)"),
    "int16 by steps of one": (
        "v: v + 1",
        {"v": np.int16(0)},
        33000,
        32767,
        "v became larger than int16 holds",
        "v.astype(float)",
    ),
    "uint32": ("v: v * 7", {"v": np.uint32(5)}, 300, 10, "v became larger than uint32 holds", "v.astype(float)"),
    "uint64": ("v: v * 7", {"v": np.uint64(5)}, 300, 21, "v became larger than uint64 holds", "v.astype(float)"),
    "below 0": ("v: v - 1", {"v": np.uint64(5)}, 300, 5, "v became smaller than uint64 holds", "v.astype(float)"),
    "an array": ("v: v + v", {"v": np.array([1, 50], np.int8)}, 5, 1, "v became larger than int8 holds", "v.astype(float)"),
    "data": ("v: v + (s[i] - 2)", {"v": 0.0, "s": np.array([3, 1, 0], np.uint8)}, 3, 1, "smaller than uint8", "s.astype(float)"),
    "data of a function": (
        minus_two,
        {"v": 0.0, "s": np.array([3, 1, 0], np.uint8)},
        3,
        1,
        "smaller than uint8",
        "s.astype(float)",
    ),
}
FITTING = {
    "within the type": ("v: v + 1", {"v": np.int8(0)}, 127),
    "down to 0": ("v: v - 1", {"v": np.uint8(9)}, 9),
    "data": ("v: v + s[i]", {"v": 0.0, "s": np.array([1, 0, 255], np.uint8)}, 3),
    "labels": ("v: v + s[k[i]]", {"v": 0.0, "s": np.arange(3.0), "k": np.array([2, 0, 1], np.uint8)}, 3),
    "bits": ("v: bitwise_xor(v * 31, 5)", {"v": np.uint32(7)}, 50),
    "a large whole number of 32 bits": ("v: v + s[0]", {"v": 2**45, "s": np.ones(2, np.int32)}, 50),
}


def told(body, count, engine, **given):
    with mdf_loop.options(engine=engine), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mdf_loop.loop(count, True, body=body, **given)
    return [str(each.message) for each in caught if each.category is LoopWarning]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", NARROW)
def test_fewer_bits_wrap_around_earlier(case, engine, monkeypatch):
    monkeypatch.setattr(wrapped_numbers, "SECONDS", 1e6)
    body, given, count, first, what, cure = NARROW[case]
    for _ in range(2):
        (message,) = told(body, count, engine, **given)
        assert message.startswith(f"iteration {first} of Loop: ")
        assert what in message
        assert cure in message
    name = cure.partition(".")[0]
    assert told(body, count, engine, **{**given, name: given[name].astype(float)}) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", FITTING)
def test_fewer_bits_that_are_enough_are_silent(case, engine):
    body, given, count = FITTING[case]
    assert told(body, count, engine, **given) == []


def test_a_body_of_onnx_means_its_types():
    body = "b (int64 i, bool go, int8 v) => (bool go, int8 w) { w = Add (v, v) }"
    assert told(body, 20, "auto", v=np.int8(1)) == []


MODEL = """
m:
  graphs:
    g:
      nodes:
        a:
          input_ports: {k: {default_value: 3}, s: {default_value: [5, 5, 5]}}
          parameters: {run: {function: "onnx::Loop", args: {M: 50, v: 7, w: 0.0, body: b}},
                       b: {value: {carried: {v: v * k, w: "w + (s[i % 3] - 2)"}}}}
          output_ports: {v: {value: run.v}, w: {value: run.w}}
"""


@pytest.mark.parametrize("engine", ["auto", "interpret", "numpy"])
@pytest.mark.parametrize("times", [2, 40])
def test_many_runs_say_it_once(tmp_path, times, engine):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL)
    small = np.array([5, 5, 1], np.uint8)
    simulated = mdf_loop.simulator(path, ["k"], seed=1)
    calls = {
        "trials": (lambda: mdf_loop.run(path, trials=times), True),
        "sweep": (lambda: mdf_loop.sweep(path, {"k": [1] * times + [2, 3]}), True),
        "simulator": (lambda: simulated(np.array([[1]] * times + [[3]])), True),
        "small": (lambda: mdf_loop.run(path, trials=times, k=1, s=small), True),
        "right": (lambda: mdf_loop.sweep(path, {"k": [1] * times}), False),
    }
    with mdf_loop.options(engine=engine):
        for name, (call, wraps) in calls.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", LoopWarning)
                call()
            found = [str(each.message) for each in caught if "whole numbers wrap around" in str(each.message)]
            assert len(found) == wraps, (name, found)
