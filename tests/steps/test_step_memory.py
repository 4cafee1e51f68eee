"""Where a loop's arrays are written: a program that follows the plan never reads memory that was overwritten.

Bodies are made at random.  Each is run twice for a few iterations: every value in memory of its own, and as the plan says,
in arrays that hold nan wherever nothing was promised.  Whatever is read must be the same.
"""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_meaning import MEANINGS

from mdf_loop.step.build import Builder, CannotLower
from mdf_loop.step.check import check
from mdf_loop.step.memory import assign
from mdf_loop.step.primitives import INT64, PRIMITIVES
from mdf_loop.step.records import UNKNOWN, LoopRegion, Type
from mdf_loop.step.structure import is_one_of_two

FLOAT = np.dtype(np.float64)
SHAPES = [(4,), (4,), (3, 4), (3, 4)]


def product(b, x, y):
    if x.type.rank != 2 or y.type.rank != 2 or x.type.shape[1] != y.type.shape[1]:
        raise ValueError("no matrices that go together")
    return b.put_in("dot", (x, b.transpose(y, (1, 0))), Type(FLOAT, (x.type.shape[0], y.type.shape[0])))


def put(b, x, y):
    if x.type.shape[1:] != y.type.shape[1:]:
        raise ValueError("rows of another length")
    row = b.put_in("place", (y, b.const(np.int64(2))), Type(FLOAT, y.type.shape[1:]))
    return b.put_in("put", (x, row, b.const(np.int64(0))), x.type)


MADE = {
    "neg": lambda b, x, y, z: b.neg(x),
    "add": lambda b, x, y, z: b.add(x, y),
    "max": lambda b, x, y, z: b.max(x, y),
    "sub": lambda b, x, y, z: b.sub(x, y),
    "where": lambda b, x, y, z: b.select(b.gt(x, y), y, z),
    "one of two": lambda b, x, y, z: b.select(b.gt(b.reduce(x, "max", range(x.type.rank)), 1.0), y, z),
    "backwards": lambda b, x, y, z: b.slice(x, [slice(None)] * (x.type.rank - 1) + [slice(None, None, -1)]),
    "turned": lambda b, x, y, z: b.transpose(x, range(x.type.rank)[::-1]),
    "row": lambda b, x, y, z: b.put_in("place", (x, b.const(np.int64(1))), Type(FLOAT, x.type.shape[1:])),
    "flat": lambda b, x, y, z: b.reshape(x, (x.type.size,)),
    "rows": lambda b, x, y, z: b.broadcast(b.reshape(x, (4,)), (3, 4)) if x.type.size == 4 else b.abs(x),
    "sum": lambda b, x, y, z: b.reduce(x, "max", [0]),
    "halves": lambda b, x, y, z: b.concat([b.slice(x, [slice(0, 2)]), b.slice(y, [slice(2, 4)])], 0),
    "rounded": lambda b, x, y, z: b.cast(b.cast(x, np.dtype(np.float32)), FLOAT),
    "product": lambda b, x, y, z: product(b, x, y),
    "put": lambda b, x, y, z: put(b, x, y),
}
"""Operations on three values that are there; those that do not fit are left out."""


@st.composite
def loops(draw):
    """A loop without a condition, over one to four carried arrays, and which of its collected values are copied."""
    index = st.integers(0, 40)
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))
    made = draw(st.lists(st.tuples(st.sampled_from(sorted(MADE)), index, index, index), min_size=1, max_size=14))
    ends, last, collected = draw(st.tuples(st.lists(index, min_size=4, max_size=4), *[st.lists(index, max_size=2)] * 2))
    return body(shapes, made, ends, last, collected), draw(st.lists(st.booleans(), min_size=2, max_size=2))


def body(shapes, made, ends, last, collected):
    """The loop that some numbers say."""
    b = Builder()
    with b.region(is_loop=True) as close:
        b.param(Type(INT64, ()), 0), b.param(Type(np.dtype(bool), ()), 1)
        states = [b.param(Type(FLOAT, shape), 2 + k) for k, shape in enumerate(shapes)]
        known = list(states)
        for name, *places in made:
            try:
                value = MADE[name](b, *[known[place % len(known)] for place in places])
            except (CannotLower, ValueError, IndexError):
                continue
            if value.type.dtype == FLOAT and value.type.rank in (1, 2) and value.type.shape in [(4,), (3, 4), (4, 3), (12,)]:
                known.append(value)
        same = [[x for x in known if x.type == state.type] for state in states]
        ends = [fitting[-1 - place % len(fitting)] for fitting, place in zip(same, ends, strict=False)]
        kept = [known[-1 - place % len(known)] for place in (*last, *collected)]
        region = close([b.const(np.True_), *ends, *kept])
    loop = LoopRegion(region, len(states), n_last=len(last), collected=(None,) * len(collected))
    initial = [b.param(state.type, k) for k, state in enumerate(states)]
    b.put_in("loop", (b.const(np.int64(4)), b.const(None), *initial), UNKNOWN, loop)
    check(b.closed([]))
    return loop


def parts(loop):
    """The ends, the last values and the collected ones."""
    return loop.ends, loop.last, loop.rows


def meaning(value, args):
    """What a value is, given its arguments; views stay views."""
    if value.op == "select" and is_one_of_two(value):
        return args[1] if args[0] else args[2]
    if value.op in PRIMITIVES:
        return PRIMITIVES[value.op].call(*args)
    found = MEANINGS[value.op](value, *args)
    return found.copy() if value.op == "broadcast" else found


def plainly(loop, states):
    """What every value is, each in memory of its own."""
    found = dict(zip(loop.body.params[2:], states, strict=True))
    for value in loop.body.values:
        found[value] = np.array(meaning(value, [x.attr if x.op == "const" else found[x] for x in value.args]))
        assert found[value].shape == value.type.shape
    return found


class Memory:
    """The arrays that the plan of a loop's memory speaks of."""

    def __init__(self, loop, places, states):
        self.loop, self.places = loop, places
        self.states = [x.copy() if k in places.owned else x for k, x in enumerate(states)]
        self.buffers = [np.empty(type.shape, type.dtype) for type in places.buffers]
        self.others = {k: np.empty_like(self.states[k]) for k in set(places.turns.values())}
        self.rows = dict.fromkeys(places.rows.values())

    def begin(self):
        """A new iteration: what is in buffers, rows and arrays that wait for their turn, is not to be counted on."""
        self.rows = {k: np.empty(parts(self.loop)[2][k].type.shape) for k in self.rows}
        for array in (*self.buffers, *self.others.values(), *self.rows.values()):
            array[...] = np.nan

    def place(self, value):
        """The array that a value is written into, if it is given one."""
        for table, arrays in (
            (self.places.written, self.buffers),
            (self.places.over, self.states),
            (self.places.turns, self.others),
            (self.places.rows, self.rows),
        ):
            if value in table:
                return arrays[table[value]]
        return None

    def end(self, ends):
        """What is carried takes its place, all at once."""
        self.others = {k: self.states[k] for k in self.others}
        self.states = list(ends)


def is_the_same_memory(x, y):
    return (x.shape, x.strides, x.ctypes.data) == (y.shape, y.strides, y.ctypes.data)


def written_over(value, args, target):
    """Write a value while its arguments are read: they may be in the way only element by element."""
    allowed = set(range(len(args))) if value.op in PRIMITIVES else {"put": {0, 1}, "select": {2}}.get(value.op, set())
    for k, x in enumerate(args):
        if np.shares_memory(x, target):
            assert k in allowed, f"{value} is written over what it reads"
            is_part = value.op == "put" and k == 1  # numpy takes care of a part that is put into another one
            assert is_part or is_the_same_memory(x, target), f"{value} is written over another view of what it reads"
    target[...] = meaning(value, args)
    return target


def follow(loop, copied, iterations=3):
    """Run a loop as its plan says, beside a plain run."""
    ends, last, collected = parts(loop)
    kept = [x for x, is_copied in zip(collected, copied, strict=False) if is_copied]
    places = assign(loop, kept)
    rng = np.random.default_rng(5)
    first = [rng.integers(-3, 4, param.type.shape).astype(FLOAT) for param in loop.body.params[2:]]
    plain_states, memory, given = [x.copy() for x in first], Memory(loop, places, first), [x.copy() for x in first]
    promised = []
    for _ in range(iterations):
        plain = plainly(loop, plain_states)
        memory.begin()
        actual = dict(zip(loop.body.params[2:], memory.states, strict=True))
        for value in loop.body.values:
            for x in value.args:
                if x.op != "const":
                    np.testing.assert_array_equal(actual[x], plain[x], f"{value} reads {x}")
            args = [x.attr if x.op == "const" else actual[x] for x in value.args]
            target = memory.place(value)
            actual[value] = meaning(value, args) if target is None else written_over(value, args, target)
        for k, x in enumerate(collected):
            if places.rows.get(x) == k:
                promised.append((memory.rows[k], plain[x]))
            else:
                promised.append((actual[x].copy() if x in kept else actual[x], plain[x]))
        for array, expected in promised:
            np.testing.assert_array_equal(array, expected)
        lasts = [(actual[x], plain[x]) for x in last]
        memory.end([actual[x] for x in ends])
        plain_states = [plain[x] for x in ends]
        for array, expected in (*zip(memory.states, plain_states, strict=True), *lasts, *promised):
            np.testing.assert_array_equal(array, expected)
    for array, expected in zip(first, given, strict=True):
        np.testing.assert_array_equal(array, expected, "what the loop was given is not its own")
    return places


@settings(max_examples=400, deadline=None)
@given(loops())
def test_memory_is_never_read_after_it_was_overwritten(made):
    follow(*made)


def test_random_loops_use_memory_in_every_way():
    rng, found = np.random.default_rng(3), collections.Counter()
    names = sorted(MADE)
    for _ in range(300):
        made = [(names[rng.integers(len(names))], *map(int, rng.integers(0, 40, 3))) for _ in range(10)]
        shapes = [SHAPES[k] for k in rng.integers(0, 4, 2)]
        loop = body(shapes, made, [int(k) for k in rng.integers(0, 3, 4)], [], [int(k) for k in rng.integers(0, 9, 2)])
        places = follow(loop, [True, True])
        ends, _, collected = parts(loop)
        for table in ("written", "over", "turns", "rows"):
            for value in getattr(places, table):
                found[table, value in ends or value in collected] += 1
        found["shared buffers"] += len(places.written) > len(places.buffers)
    for table in ("over", "turns", "rows"):
        assert found[table, True] > 5, table
        assert found[table, False] > 5, f"no temporary in {table}"
    assert found["shared buffers"] > 5


def test_updates_one_after_the_other_are_written_over_what_is_carried():
    loop = body([(3, 4)], [("put", 0, 0, 0), ("put", 1, 1, 0)], [0] * 4, [], [])
    assert [*follow(loop, []).over.values()] == [0, 0]
    loop = body([(3, 4)], [("put", 0, 0, 0), ("put", 1, 0, 0)], [0] * 4, [], [])  # the second one reads what was carried
    assert not follow(loop, []).over


@pytest.mark.parametrize("least", [0, 33])
def test_small_arrays_have_no_place(least):
    loop = body([(4,)], [("neg", 0, 0, 0), ("add", 1, 0, 0)], [0] * 4, [], [0])
    places = assign(loop, loop.body.results[2:], least)
    assert bool(places.over or places.turns or places.rows) == (not least)
