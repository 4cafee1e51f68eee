"""The loops that are measured are right: short runs of each on every engine, next to onnxruntime."""

import inspect
import runpy
import sys
from pathlib import Path

import pytest
from bodies import onnxruntime_run
from engines import ENGINES

from mdf_loop import backend, loop, options, scan

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from operators import differences as operator_differences
from operators import every
from workloads import EVERY, differences

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

SHORT = {"n": 12, "steps": 60, "outer": 5, "inner": 4, "a": 1e30, "width": 30}
"""What makes workloads short; a size of 30 is enough where there is one."""

FIXED = {"scatter": {"n": 12}, "sieve": {"size": 50}, "early_exit": {"n": 50, "width": 300}, "search": {"n": 50}}
FIXED |= {"early_exit_batched": {"n": 50, "width": 300}}


def short(make):
    known = inspect.signature(make).parameters
    return make(**FIXED.get(make.__name__) or {name: value for name, value in SHORT.items() if name in known})


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.name)
def test_every_script_finds_what_it_measures(path):
    """What it imports is there; its ``main`` is not run."""
    runpy.run_path(str(path), run_name=path.stem)


def test_every_table_of_the_documentation_has_its_script():
    tables = runpy.run_path(str(BENCHMARKS / "tables.py"))["TABLES"]
    assert {f"measured_{name}.txt" for name in tables} == {
        path.name for path in (BENCHMARKS.parent / "docs").glob("measured_*.txt")
    }
    scripts = {command.split()[0] for commands in tables.values() for command in commands}
    assert all((BENCHMARKS / script).is_file() for script in scripts)


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_measured_loop_gives_what_onnxruntime_gives(make):
    work = short(make)
    expected = onnxruntime_run(work.model, work.inputs)
    body = {"onnx": work.text, "opset": 20}
    for engine in ENGINES:
        with options(engine=engine):
            if work.scanned:
                given = scan(*work.carried, *work.scanned, body=body, num_scan_inputs=len(work.scanned), **work.captured)
            else:
                given = loop(work.trip_count, work.cond, *work.carried, body=body, **work.captured)
        assert differences(work, given if isinstance(given, tuple) else (given,), expected) == ""


def test_every_measured_loop_has_a_name_of_its_own():
    names = [short(make).name for make in EVERY]
    assert len(set(names)) == len(names)
    assert all(name.startswith(make.__name__.split("_")[0]) for name, make in zip(names, EVERY, strict=True))


def small():
    """The first row of each operator in the table that is measured soon."""
    rows = {}
    for case in every():
        if sum(x.size for x in case.inputs if x is not None) < 30_000 and case.op not in ("Unique",):
            rows.setdefault(case.op, case)
    return rows.values()


@pytest.mark.parametrize("case", small(), ids=lambda case: case.name)
def test_measured_operator_gives_what_onnxruntime_gives(case):
    model = case.model()
    try:
        expected = onnxruntime_run(model, case.feeds)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        pytest.skip("onnxruntime does not have it")
    assert operator_differences(case, backend.prepare(model).run(case.feeds), expected) == ""


def test_every_measured_operator_has_a_name_of_its_own():
    names = [case.name for case in every()]
    assert len(set(names)) == len(names)
