"""Where elements stand: what stays the same in a loop is computed in front of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import ctypes

import mdf_loop
from mdf_loop.backends.llvm.lanes.instructions import Text
from mdf_loop.backends.llvm.linking.machine import machine


def sums(text, depth, bounds, factors):
    """Nested loops that add up places, made of the numbers of all loops around: the text of a function of a pointer."""
    numbers = []

    def inside(k):
        if k < depth:
            with text.counted(0, bounds[k]) as at:
                numbers.append(at)
                inside(k + 1)
                numbers.pop()
        place = "7"
        for at, factor in zip(numbers, factors, strict=False):
            place = text.add(place, text.mul(text.sub(at, 1), text.mul("%n", factor)))
        total = text.new("load i64, ptr %sum")
        text.line(f"store i64 {text.new(f'add i64 {total}, {place}')}, ptr %sum")

    inside(0)
    lines = ["define void @sums(ptr %sum, i64 %n) {", "entry:", *text.lines, "  ret void", "}"]
    return "\n".join(lines) + "\n"


def expected(depth, bounds, factors, n):
    """The same in Python."""

    def inside(k, numbers):
        deeper = sum(inside(k + 1, [*numbers, at]) for at in range(bounds[k])) if k < depth else 0
        return deeper + 7 + sum((at - 1) * n * f for at, f in zip(numbers, factors, strict=False))

    return inside(0, [])


@given(
    st.integers(0, 3), st.lists(st.integers(0, 4), min_size=3, max_size=3), st.lists(st.integers(-3, 9), min_size=3, max_size=3)
)
def test_places_are_the_same_wherever_they_are_computed(depth, bounds, factors):
    code, _ = machine().linked(sums(Text(), depth, bounds, factors), ("sums",), ())
    total = np.zeros(1, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code["sums"])(total.ctypes.data, 5)
    assert total[0] == expected(depth, bounds, factors, 5)


def test_what_stays_the_same_stands_in_front_of_the_loops_in_which_it_does():
    text = Text()
    with text.counted(0, 5) as outer, text.counted(0, "%m") as inner:
        start = text.mul("%n", "%m")
        row = text.mul(outer, start)
        place = text.add(row, inner)
        assert text.mul("%n", "%m") == start
    lines = "\n".join(text.lines).splitlines()
    made = {
        name: next(k for k, line in enumerate(lines) if line.startswith(f"  {name} = "))
        for name in (start, row, outer, inner, place)
    }
    assert made[start] < made[outer] < made[row] < made[inner] < made[place]


LONGER = {
    "and then changed": "p = Concat <axis = 0> (s, three) s_1 = Mul (p, half)",
    "twice": "x = Sqrt (s) y = Sub (x, half) p = Concat <axis = 0> (x, y) q = Concat <axis = 0> (p, three) s_1 = Abs (q)",
}


@pytest.mark.parametrize("name", LONGER)
def test_what_becomes_longer_is_not_written_over_what_is_shorter(name):
    planned = mdf_loop.compile(f"""
      longer (int64 i, bool c, float[n] s) => (bool c_1, float[m] s_1)
        <float[3] three = {{1, 2, 3}}, float half = {{0.5}}> {{ c_1 = Identity (c) {LONGER[name]} }}""")
    given = 8, True, np.linspace(0, 1, 4, dtype=np.float32)
    with mdf_loop.options(engine="interpret"):
        expected = planned(*given)
    with mdf_loop.options(engine="jit"):
        found = planned(*given)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert "one program in machine code" in planned.explain()
