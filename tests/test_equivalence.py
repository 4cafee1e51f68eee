"""Every engine gives what ``interpret`` gives: results, errors, warnings, random numbers."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from generated import cases, write
from generated_float import loops, scans
from hypothesis import HealthCheck, given, note, settings
from onnx import printer

from mdf_loop import loop, options, scan
from mdf_loop.errors import IterationError, LoopError
from mdf_loop.options import ENGINES, random_stream
from mdf_loop.readers import read

OTHERS = [engine for engine in ENGINES if engine != "interpret"]
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@dataclass
class Outcome:
    """What a run came to: results or an error, what it warned of, and the next random number."""

    results: tuple[Any, ...]
    error: LoopError | None
    warned: list[str]
    next_number: float


def outcome(engine, call, **chosen):
    with warnings.catch_warnings(record=True) as caught, options(engine=engine, seed=7, **chosen), random_stream() as stream:
        warnings.simplefilter("always")
        try:
            results, error = call(), None
        except LoopError as raised:
            results, error = getattr(raised, "partial", None) or (), raised
    results = results if isinstance(results, tuple) else (results,)
    return Outcome(results, error, [str(w.message) for w in caught], stream.shared().random())


def assert_same_on_every_engine(call, exact=True, **chosen):
    expected = outcome("interpret", call, **chosen)
    for engine in OTHERS:
        actual = outcome(engine, call, **chosen)
        assert_same_error(actual.error, expected.error, engine)
        assert actual.warned == expected.warned, engine
        assert len(actual.results) == len(expected.results), engine
        for k, (a, e) in enumerate(zip(actual.results, expected.results, strict=True)):
            assert_equal(a, e, exact, f"{engine}, output {k}")
        if expected.error is None:
            assert actual.next_number == expected.next_number, f"{engine} drew more or fewer random numbers"
    return expected


def assert_same_error(actual, expected, engine):
    if (actual is None) != (expected is None):
        raise AssertionError(f"{engine}: expected {expected!r}, got {actual!r}") from actual
    if expected is not None:
        assert type(actual) is type(expected), engine
        assert str(actual) == str(expected), engine
        assert type(actual.__cause__) is type(expected.__cause__), engine
        assert getattr(actual, "iteration", None) == getattr(expected, "iteration", None), engine


def assert_equal(actual, expected, exact, where):
    if isinstance(expected, list):
        assert isinstance(actual, list), where
        assert len(actual) == len(expected), where
        for a, e in zip(actual, expected, strict=True):
            assert_equal(a, e, exact, where)
        return
    if expected is None:
        assert actual is None, where
        return
    assert type(actual) is type(expected), where
    if exact or expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(actual, expected, err_msg=where, strict=True)
        if expected.dtype.kind == "f":
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(actual)[numbers], np.signbit(expected)[numbers], err_msg=where)
    else:
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), where
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9, err_msg=where)


# Generated


@settings(relaxed, max_examples=300)
@given(cases())
def test_generated_exact_body_is_the_same_bit_for_bit(case):
    body = write(case.body)
    note(printer.to_text(body))
    captures = read(body).captures
    captured = {name: value for name, value in case.captured.items() if name in captures}
    for obey in (False, True):
        assert_same_on_every_engine(
            lambda: loop(case.trip_count, case.cond, *case.carried, body=body, **captured), obey_body_condition=obey
        )


@settings(relaxed, max_examples=300)
@given(loops())
def test_generated_loop_of_floats_is_the_same(case):
    note(printer.to_text(case.graph))
    expected = assert_same_on_every_engine(
        lambda: loop(case.trip_count, case.cond, *case.carried, body=case.graph, **case.captured),
        case.exact,
        block_bytes=case.block_bytes,
    )
    assert expected.error is None or isinstance(expected.error, IterationError)


@settings(relaxed, max_examples=150)
@given(scans())
def test_generated_scan_is_the_same(case):
    note(printer.to_text(case.graph))
    body, n_scanned = case.graph, len(case.scanned)
    expected = assert_same_on_every_engine(
        lambda: scan(*case.carried, *case.scanned, body=body, num_scan_inputs=n_scanned, **case.attrs, **case.captured),
        case.exact,
    )
    assert expected.error is None or isinstance(expected.error, IterationError)
