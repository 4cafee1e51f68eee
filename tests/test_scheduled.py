"""Scheduled MDF models as loops: what MDF's engine gives, exactly."""

import numpy as np
import pytest
from scheduled_models import PUBLISHED, by_mdf

from mdf_loop.convert.scheduled import execute, lower


def assert_same(actual, expected):
    """The same values of the same types, to the last bit."""
    assert list(actual) == list(expected)
    for name, wanted in expected.items():
        value = actual[name]
        assert type(value) is type(wanted), (name, value, wanted)
        if wanted is not None:
            np.testing.assert_array_equal(value, wanted, err_msg=name)
            assert np.asarray(value).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 150])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_examples_are_exactly_as_in_mdf_s_engine(name, steps):
    make, increment = PUBLISHED[name]
    assert_same(execute(lower(make(), steps, increment)), by_mdf(make(), steps, increment))
