"""Fractions that arrays of whole numbers cut off, and sums of booleans that count nothing, are warned of once."""

import json
import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning

REWARDS = np.array([1.0, 0.0, 1.0, 1.0])


def learn(i, go, q, *, rewards):
    q[i % 2] += 0.1 * (rewards[i % 4] - q[i % 2])
    return True, q


def late(i, go, q, *, rewards):
    q[0] = np.where(i < 20, 2.0, 0.5) + 0 * rewards[0]
    return True, q


def whole(i, go, q, *, rewards):
    q[i % 2] += rewards[i % 4]
    return True, q


def counts(i, go, q, *, rewards):
    q[i % 2] += rewards[i % 4] > 0
    return True, q


def warned(engine, call):
    """What a call warns of."""
    with warnings.catch_warnings(record=True) as found, mdf_loop.options(engine=engine):
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in found if issubclass(each.category, LoopWarning)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [30, 3000])
@pytest.mark.parametrize("function", [learn, late], ids=lambda f: f.__name__)
def test_a_fraction_that_is_cut_off_is_warned_of_with_its_line(function, count, engine):
    (said,) = warned(engine, lambda: mdf_loop.loop(count, True, [0, 0], body=mdf_loop.body(function), rewards=REWARDS))
    assert "test_numbers_that_are_cut.py, line" in said
    assert "a fraction is set into an array of whole numbers, which cuts it off; begin with 0.0" in said


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("function", "start"), [(whole, [0, 0]), (counts, [0, 0]), (learn, [0.0, 0.0])])
def test_whole_numbers_and_fractions_that_fit_are_not(function, start, engine):
    for count in (30, 3000):
        assert warned(engine, lambda: mdf_loop.loop(count, True, start, body=mdf_loop.body(function), rewards=REWARDS)) == []  # noqa: B023


def test_looking_for_it_draws_nothing():
    @mdf_loop.body
    def draws(i, go, q):
        x = mdf_loop.body.noise()
        q[0] = x * 10
        return True, q, x

    _, found = _seeded(draws, [0, 0])
    _, wanted = _seeded(draws, [0.0, 0.0])
    np.testing.assert_array_equal(found, wanted)


def _seeded(body, start):
    with warnings.catch_warnings(), mdf_loop.options(seed=3):
        warnings.simplefilter("ignore")
        return mdf_loop.loop(5, True, start, body=body)


SUM = "hits begins as a boolean, and a sum of booleans is one too, which counts nothing; begin with 0"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [10, 3000])
def test_a_sum_that_begins_as_a_boolean_is_warned_of(count, engine):
    (said,) = warned(engine, lambda: mdf_loop.loop(count, True, False, body="hits: hits + (i > 2)"))
    assert said.startswith(f"equations/line 1: {SUM}")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "start"),
    [
        ("hits: hits + (i > 2)", 0),
        ("hits: hits + i", False),
        ("hits: hits or i > 2", False),
        ("hits: logical_or(hits, i > 2)", False),
        ("hits: hits * (i < 2)", True),
    ],
)
def test_what_counts_or_is_logical_is_not(body, start, engine):
    assert warned(engine, lambda: mdf_loop.loop(10, True, start, body=body)) == []


ADDED = "adds truth values, which gives true or false; write 1 * (a > 1) + (b > 1)"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [10, 3000])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("n: n + ((i > 2) + (i > 4))", ADDED),
        ("n: n + ((i > 2) + (i > 4) + isnan(0.0 * i))", ADDED),
        ("let t: (i > 2) + (not i)\nn: n + t", ADDED),
        ("n: n + 1\ncollect both: (i > 2) + (i > 4)", ADDED),
        ("n: n + 0 * (array([i > 2, i > 1]) @ array([i > 2, i > 1]))", ADDED),
    ],
)
def test_truth_values_that_are_added_are_warned_of(body, said, count, engine):
    found = warned(engine, lambda: mdf_loop.loop(count, True, 0, body=body))
    assert found
    assert all(said in each for each in found)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text", ["n + (i > 2) + (i > 4)", "n + (1 * (i > 2) + (i > 4))", "n + ((i > 2) | (i > 4))", "n + (exp(i > 2) + 1)"]
)
def test_truth_values_beside_numbers_are_not(text, engine):
    assert warned(engine, lambda: mdf_loop.loop(10, True, 0, body=f"n: {text}")) == []


def test_check_warns_of_it(tmp_path):
    node = {"parameters": {"body": {"value": {"carried": {"hits": "hits + (i > 2)"}}}}, "output_ports": {"o": {"value": "run"}}}
    node["parameters"]["run"] = {"function": "onnx::Loop", "args": {"M": 10, "hits": False, "body": "body"}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}))
    (finding,) = check(path)
    assert SUM in str(finding)
