"""Whole numbers that leave 64 bits wrap around; a run says so, and says nothing where numbers are large as they are meant."""

import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import LoopWarning


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
