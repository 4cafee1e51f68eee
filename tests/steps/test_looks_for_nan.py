"""``no_nan`` in Python and in machine code: a program ends where its meaning says so, and goes on everywhere else."""

import itertools

import numpy as np
import pytest
from step_meaning import evaluate

from mdf_loop.backends.llvm import compiled_program
from mdf_loop.backends.python import printer
from mdf_loop.step.build import Builder, type_of_value
from mdf_loop.step.check import check
from mdf_loop.step.failing import FallBack
from mdf_loop.step.primitives import BOOL
from mdf_loop.step.records import Type

PRINTERS = {"python": lambda step: printer.program(step)[0], "llvm": compiled_program.program}

SHAPES = (), (1,), (3,), (5, 7), (130,), (0,)
"""One number, a register, parts of one, and more than what is looked at together."""


def step_of(given):
    """Ends where the first value is true, nan is in the second or third, and the last one is finite."""
    b = Builder()
    condition, *floats = (b.param(type_of_value(x), k) for k, x in enumerate(given))
    b.put_in("no_nan", (condition, *floats), Type(BOOL, ()), 2)
    return check(b.closed((b.element("add", floats[2], 1.0),)))


def ends(program, given):
    try:
        program(given)
    except FallBack:
        return True
    return False


def floats(dtype, shape):
    """Arrays: of numbers as large and as small as there are, and with nan, infinity and minus nan at the first and last place."""
    edges = [0.0, -1.0, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal]
    usual = np.resize(np.array(edges, dtype), shape)[()]
    yield usual
    for odd, place in itertools.product((np.nan, -np.nan, np.inf, -np.inf), (0, -1)):
        if usual.size:
            found = np.array(usual)
            found.reshape(-1)[place] = odd
            yield found[()]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", PRINTERS)
def test_a_program_ends_where_nan_was_made_of_finite_numbers(name, shape, dtype):
    values = [*floats(dtype, shape)]
    step = step_of((np.True_, values[0], dtype(1), values[0]))
    program = PRINTERS[name](step)
    seen = set()
    for condition, made, given in itertools.product((np.True_, np.False_), values, values):
        for other in (dtype(1), dtype(np.nan)):
            row = condition, made, other, given
            expected = ends(lambda row: evaluate(step, row), row)
            assert ends(lambda row: program(None, *row), row) == expected, row
            seen.add(expected)
    assert seen == {True, False}
