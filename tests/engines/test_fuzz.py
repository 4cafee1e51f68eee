"""A fixed number of fuzzed cases of every kind, the same in every run; ``python -m tests.fuzz`` runs as many as one likes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.running import Found, run_batch
from tests.fuzz.self_test import WAYS, make
from tests.fuzz.table import MODULES, targets
from tests.fuzz.target import Settings, random_of

ROOT = Path(__file__).parents[2]
SEED = 1
FOREVER = float("inf")


def found_by(name: str, count: int, first: int = 0, seed: int = SEED, **settings: object) -> list[Found]:
    """What is wrong with so many cases of a target."""
    found: list[Found] = []
    assert run_batch(targets([name])[name], seed, first, count, Settings(**settings), found.append, FOREVER) == count
    return found


@pytest.mark.parametrize("name", MODULES)
def test_fuzzed_cases_hold(name):
    if name == "jax":
        pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
    found = found_by(name, targets([name])[name].in_tests)
    assert not found, "\n".join(f"{f.command}\n  {f.kind}: {f.detail[:500]}" for f in found)


def test_a_case_is_the_same_each_time_and_on_every_machine():
    assert make(random_of("self_test", 1, 2))[:5] == [40, 2, 98, 70, 45]


def test_what_fails_dies_hangs_and_eats_memory_is_named_and_left_behind():
    count = 16
    expected = {k: WAYS[make(random_of("self_test", SEED, k))[0] % len(WAYS)] for k in range(count)}
    assert set(expected.values()) == set(WAYS)
    kinds = {f.case: f.kind for f in found_by("self_test", count)}
    said = {
        "fails": "a number",
        "dies": "the process died (signal 11)",
        "hangs": "took more than 2 seconds of processor time",
        "eats memory": "MemoryError escaped",
        "raises": "ValueError escaped",
    }
    assert kinds == {k: said[way] for k, way in expected.items() if way in said}


def test_a_failing_case_is_made_small_and_runs_again_alone(capsys):
    number = next(k for k in range(99) if WAYS[make(random_of("self_test", SEED, k))[0] % len(WAYS)] == "fails")
    first = make(random_of("self_test", SEED, number))[0]
    [found] = found_by("self_test", 1, number)
    assert found.script == f"print({[first]})"
    assert found.command == f"python -m tests.fuzz --only self_test --case {number} --seed {SEED}"
    assert main(found.command.split()[3:]) == 1
    said = capsys.readouterr().out
    assert found.command in said
    assert found.script in said
    assert main([*found.command.split()[3:], "--ignore", "a number"]) == 0


def test_the_time_that_is_given_is_kept():

    found: list[Found] = []
    target = targets(["self_test"])["self_test"]
    assert run_batch(target, SEED, 0, 10**6, Settings(), found.append, time.monotonic() + 5) < 10**6


def test_help_names_every_target():
    done = subprocess.run([sys.executable, "-m", "tests.fuzz", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(f"\n  {name} " in done.stdout for name in MODULES)
