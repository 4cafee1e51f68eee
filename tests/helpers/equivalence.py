"""Every engine that the clock does not choose gives what ``interpret`` gives: results, errors, warnings, random numbers."""

import numpy as np
from engines import SETTLED

from tests.fuzz.outcome import compare, compare_values, to_the_bit
from tests.fuzz.outcome import outcome as outcome_of


def outcome(engine, call, **chosen):
    return outcome_of(call, engine=engine, **chosen)


def assert_same_on_every_engine(call, exact=True, **chosen):
    expected = outcome("interpret", call, **chosen)
    for engine in SETTLED:
        compare(outcome(engine, call, **chosen), expected, engine, to_the_bit if exact else close)
    return expected


def close(actual, expected, where):
    """Floats about the same; anything else to the bit."""
    if expected.dtype.kind not in "fc":
        return to_the_bit(actual, expected, where)
    return np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9, err_msg=where)


def assert_equal(actual, expected, exact, where):
    compare_values(actual, expected, where, "", to_the_bit if exact else close)
