"""Operators in place change arrays in numpy, under all their names: what a copy here would lose is an error, numbers are not."""

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import LoopError

S, MATRIX, VECTOR = np.array([0, 1, 0, 1]), np.arange(6.0).reshape(2, 3), np.arange(2.0)


def chosen(i, go, q, *, s):
    part = q[s[i]]
    part += 1
    return True, q


def first(i, go, q, *, s):
    part = q[0]
    part += s[i]
    return True, q


def each(i, go, q, *, s):
    for part in (q[0], q[1]):
        part += s[i]
    return True, q


def part_is_read(i, go, q, *, s):
    part = q[s[i]]
    part -= 1
    return True, q, part


def later_in_line(i, go, q, *, s):
    part = q[s[i]]
    part += 1
    return True, np.where(s[i] > 0, q, q * 2)


def other_name(i, go, q, *, s):
    before = q
    q += 1
    return True, q, before - s[i]


def in_a_loop(i, go, q, *, s):
    def inner(k, go, r):
        part = r[s[k]]
        part += 1
        return True, r

    return True, mdf_loop.loop(2, True, q, body=inner)


def in_a_branch(i, go, q, *, s):
    def then():
        part = q[s[0]]
        part += 1
        return q * 2

    return True, mdf_loop.if_(s[0] >= 0, then_branch=then, else_branch=lambda: q)


BOTH = [chosen, first, each, part_is_read, later_in_line, other_name]
"""Functions that are wrong with an array of arrays, and right with an array of numbers (or with a number)."""


def row(i, go, q, *, s):
    part = q[s[i], :]
    part += 1
    return True, q


def column(i, go, q, *, s):
    part = q[:, s[i]]
    part += 1
    return True, q


def run(function, start, engine, count=4):
    with mdf_loop.options(engine=engine):
        return mdf_loop.loop(count, True, start, body=mdf_loop.body(function), s=np.resize(S, count))


def by_hand(function, start):
    collected, start = [], start.copy() if isinstance(start, np.ndarray) else start
    for i in range(4):
        _, start, *more = function(i, True, start, s=S)
        collected.append([np.array(x) for x in more])
    return [start, *map(np.stack, zip(*collected, strict=True))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", [*BOTH, in_a_loop, in_a_branch, row, column], ids=lambda f: f.__name__)
@pytest.mark.parametrize("count", [4, 3000])
def test_an_array_whose_change_would_be_lost_is_an_error_with_its_line(function, engine, count):
    with pytest.raises(LoopError, match=r"test_changed_in_place.*changes an array in place that has another name or is a part"):
        run(function, MATRIX, engine, count)


@pytest.mark.parametrize("function", [*BOTH[:3], row, column], ids=lambda f: f.__name__)
def test_numpy_changes_it(function):
    before = MATRIX.copy()
    function(1, True, before, s=S)
    assert (before != MATRIX).any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", BOTH, ids=lambda f: f.__name__)
def test_numbers_are_what_python_makes_of_them(function, engine):
    start = 1.0 if function is other_name else VECTOR
    found = run(function, start, engine)
    for x, wanted in zip(found if isinstance(found, tuple) else (found,), by_hand(function, start), strict=True):
        np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", [in_a_loop, in_a_branch], ids=lambda f: f.__name__)
def test_numbers_in_inner_bodies_are_too(function, engine):
    found = run(function, VECTOR, engine, 3)
    np.testing.assert_array_equal(found, VECTOR if function is in_a_loop else VECTOR * 8)


def test_numbers_and_then_arrays_in_one_body():
    body = mdf_loop.body(chosen)
    mdf_loop.loop(0, True, MATRIX, body=body, s=S)  # which changes nothing
    for _ in range(3):
        np.testing.assert_array_equal(mdf_loop.loop(4, True, VECTOR, body=body, s=S), VECTOR)
        with pytest.raises(LoopError, match="changes an array in place"):
            mdf_loop.loop(4, True, MATRIX, body=body, s=S)


def of_a_copy(i, go, q, *, s):
    some, part = q[[1, 0]], np.copy(q[s[i]])
    some += 1
    part += 1
    other = q * 1
    other += 1
    q += 1
    q[s[i]] += 1
    return True, q, some, part, other


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_and_elements_that_are_set_are_what_numpy_makes_of_them(engine):
    for x, wanted in zip(run(of_a_copy, MATRIX, engine), by_hand(of_a_copy, MATRIX), strict=True):
        np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_array_that_is_not_read_later_may_change(engine):
    def row_alone(i, go, q, *, s):
        part = q[s[i]]
        part += 1
        return True, np.stack([part, part])

    np.testing.assert_array_equal(run(row_alone, MATRIX, engine), np.stack([MATRIX[0] + 4] * 2))


@pytest.mark.parametrize("engine", ENGINES)
def test_values_from_outside_change_as_numbers_alone(engine):
    def scaled(i, go, x, *, w):
        w *= 2
        return True, x + w

    with mdf_loop.options(engine=engine):
        assert mdf_loop.loop(3, True, 0.0, body=mdf_loop.body(scaled), w=1.5) == 9
        with pytest.raises(LoopError, match="changes an array in place"):
            mdf_loop.loop(3, True, VECTOR, body=mdf_loop.body(scaled), w=VECTOR)


def set_later(i, go, q, *, s):
    before = q[0]
    q[0] = q[0] * 2 + s[i]
    return True, q, before


def exchanged(i, go, q, *, s):
    first, second = q[0], q[1]
    q[0] = second + 0 * s[i]
    q[1] = first
    return True, q


def added_later(i, go, q, *, s):
    before = q[-1]
    q += s[i] + 1
    return True, q, before


def set_in_part(i, go, q, *, s):
    before = q[0]
    q[:] = q * 2 + s[i]
    return True, q, before + 1


SET_LATER = [set_later, exchanged, added_later, set_in_part]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", SET_LATER, ids=lambda f: f.__name__)
@pytest.mark.parametrize("count", [4, 3000])
def test_a_row_whose_array_is_set_later_is_an_error_where_it_is_read(function, engine, count):
    with pytest.raises(LoopError, match=r"test_changed_in_place.*reads a part of an array whose elements were set later"):
        run(function, MATRIX, engine, count)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", SET_LATER, ids=lambda f: f.__name__)
def test_an_element_whose_array_is_set_later_stays_as_it_was(function, engine):
    found = run(function, VECTOR, engine)
    for x, wanted in zip(found if isinstance(found, tuple) else (found,), by_hand(function, VECTOR), strict=True):
        np.testing.assert_array_equal(x, wanted)


def of_other_rows(i, go, q, *, s):
    first, some, last = np.copy(q[0]), q[[0, 1]], q[1]
    q[0] = last + s[i]
    again = q[0]
    q[1, 2] = 7.0
    kept = again
    return True, q, first, some, kept


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_and_other_rows_are_what_numpy_makes_of_them(engine):
    for x, wanted in zip(run(of_other_rows, MATRIX, engine), by_hand(of_other_rows, MATRIX), strict=True):
        np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("given", [np.array([1.0, 2.0]), [1.0, 2.0]], ids=["array", "list"])
def test_results_keep_the_inputs_as_they_were(given):
    """A program that fills one array for each run has the inputs of each run in its results."""
    found = mdf_loop.run("examples/accumulate.yaml", x=given, y=0.0)
    given[0] = 7.0
    assert list(found.inputs["x"]) == [1.0, 2.0]
    found.inputs["x"][1] = 9.0
    assert list(given) == [7.0, 2.0]
