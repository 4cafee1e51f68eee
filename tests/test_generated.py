"""Random loop bodies: here, in onnxruntime and in a literal Python loop, bit for bit the same."""

import warnings

import numpy as np
from bodies import onnxruntime_loop
from generated import cases, run_loop, write
from hypothesis import HealthCheck, given, settings

from mdf_loop import loop, options
from mdf_loop.errors import LoopWarning

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def run_here(case, body, obey):
    with options(obey_body_condition=obey), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LoopWarning)
        results = loop(
            case.trip_count, case.cond, *case.carried, body={"onnx": body} if isinstance(body, str) else body, **case.captured
        )
    return results if isinstance(results, tuple) else (results,)


def read_by(case):
    """The captures that the body reads: the others must not be given."""
    from mdf_loop.readers import read

    return {name: value for name, value in case.captured.items() if name in read(write(case.body)).captures}


def assert_bits_equal(actual, expected):
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, e, strict=True)


@settings(relaxed, max_examples=300)
@given(cases())
def test_generated_body_gives_what_a_literal_python_loop_gives(case):
    case.captured = read_by(case)
    for obey in (False, True):
        with np.errstate(all="ignore"):
            expected = run_loop(case.body, case.trip_count, case.cond, case.carried, case.captured, obey)
        assert_bits_equal(run_here(case, write(case.body), obey), expected)


@settings(relaxed, max_examples=120)
@given(cases())
def test_generated_body_gives_what_onnxruntime_gives(case):
    case.captured = read_by(case)
    if len(case.body.outputs) == 1:
        return  # a Loop node without outputs is nothing to compare
    body = write(case.body, through_identity=True)
    count = None if case.trip_count is None else np.int64(case.trip_count)
    cond = None if case.cond is None else np.array(case.cond)
    expected = onnxruntime_loop(body, count, cond, case.carried, case.captured)
    assert_bits_equal(run_here(case, body, obey=True), expected)
