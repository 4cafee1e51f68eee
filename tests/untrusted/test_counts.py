"""Counts that no int64 holds: refused at every door, in words, and at once."""

import numpy as np
import pytest
from scheduled_models import counter, graph

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError

TOO_MANY = [10**5000, 2**63, np.uint64(2**63)]
BODY = {"carried": {"x": "x + 1"}}
DOORS = {
    "run(steps=)": lambda n: mdf_loop.run(graph(counter("A", a="count")), steps=n),
    "run(collect=)": lambda n: mdf_loop.run(graph(counter("A", a="count")), steps=n, collect=True),
    "run(trials=)": lambda n: mdf_loop.run(graph(counter("A", a="count")), steps=2, trials=n),
    "run(every=)": lambda n: mdf_loop.run("examples/oscillator.yaml", steps=2, record="spring.position", every=n),
    "to_onnx(steps=)": lambda n: mdf_loop.to_onnx(graph(counter("A", a="count")), steps=n),
    "explain(steps=)": lambda n: mdf_loop.prepare(graph(counter("A", a="count"))).explain(steps=n),
    "loop(M)": lambda n: mdf_loop.loop(n, True, 0, body=BODY),
    "compile()(M)": lambda n: mdf_loop.compile(BODY)(n, True, 0),
    "scan(num_scan_inputs=)": lambda n: mdf_loop.scan(0, [1, 2], num_scan_inputs=n, body=lambda s, x: (s + x, s)),
    "options(max_iterations=)": lambda n: mdf_loop.options(max_iterations=n).__enter__(),
    "options(block_bytes=)": lambda n: mdf_loop.options(block_bytes=n).__enter__(),
    "options(timeout=)": lambda n: mdf_loop.options(timeout=n).__enter__(),
}


@pytest.mark.parametrize("count", TOO_MANY, ids=["10**5000", "2**63", "uint64"])
@pytest.mark.parametrize("door", DOORS)
def test_a_count_that_no_int64_holds_is_refused(door, count):
    with pytest.raises(ArgumentError):
        DOORS[door](count)


@pytest.mark.parametrize("axis", [10**5000, -(10**5000)], ids=["large", "small"])
def test_an_axis_that_is_no_axis_is_refused(axis):
    with pytest.raises(ArgumentError, match="it has no axis"):
        mdf_loop.scan(0, [1, 2], num_scan_inputs=1, scan_input_axes=[axis], body=lambda s, x: (s + x, s))


@pytest.mark.parametrize("value", [10**5000, -(10**5000)], ids=["large", "small"])
def test_numbers_that_no_float_holds_are_refused(value):
    with pytest.raises(ArgumentError, match="time_increment must be"):
        mdf_loop.run("examples/oscillator.yaml", steps=2, time_increment=value)
    with pytest.raises(ArgumentError, match="seed must be"):
        mdf_loop.run("examples/oscillator.yaml", steps=2, seed=value)


def test_more_runs_than_memory_holds_are_refused():
    with pytest.raises(ArgumentError, match="do not fit into memory"):
        mdf_loop.run(graph(counter("A", a="count")), steps=2, trials=2**62)


def test_seeds_may_have_many_bits():
    mdf_loop.run("examples/oscillator.yaml", steps=2, seed=2**128 - 1)
    with pytest.raises(KindError, match="must be a whole number"):
        mdf_loop.run(graph(counter("A", a="count")), steps=1.5)
