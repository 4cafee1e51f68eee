"""Every engine gives what ``interpret`` gives: results, errors, warnings, random numbers."""

import numpy as np
from engines import ENGINES
from fuzz.outcome import compare, compare_values, to_the_bit
from fuzz.outcome import outcome as outcome_of
from generated import cases, write
from hypothesis import HealthCheck, given, note, settings
from onnx import printer

from mdf_loop import loop
from mdf_loop.readers import read

OTHERS = [engine for engine in ENGINES if engine != "interpret"]
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def outcome(engine, call, **chosen):
    return outcome_of(call, engine=engine, **chosen)


def assert_same_on_every_engine(call, exact=True, **chosen):
    expected = outcome("interpret", call, **chosen)
    for engine in OTHERS:
        compare(outcome(engine, call, **chosen), expected, engine, to_the_bit if exact else close)
    return expected


def close(actual, expected, where):
    """Floats about the same; anything else to the bit."""
    if expected.dtype.kind not in "fc":
        return to_the_bit(actual, expected, where)
    return np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9, err_msg=where)


def assert_equal(actual, expected, exact, where):
    compare_values(actual, expected, where, "", to_the_bit if exact else close)


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
