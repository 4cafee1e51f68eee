"""``x[...] = new`` in traced functions: what numpy does, on every engine, also where parts of arrays are views."""

import inspect

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.readers.python.tracing import TracedBranch

VECTOR, MATRIX = np.arange(4.0) * 2, np.arange(6.0).reshape(2, 3)


def learns(i, go, q):
    c = i % 3
    q[c] += 0.1 * (1 - q[c])
    return True, q, q[0]


def views(i, go, q):
    v = q[1:]
    v += 10
    q[1] = i
    w = v * 2
    v[0] = 7
    return True, q, w, v


def masks(i, go, q):
    q[q > 3] = 0.5
    q[-1] = i
    return True, q


def slices(i, go, q):
    q[:2] *= 1.5
    q[1:3] = q[0]
    q[::2] -= 1
    q[...] = q + 1
    return True, q


def matrices(i, go, m):
    m[i % 2, 1] = 3
    m[1] = m[0] * 2
    m[:, 0] += 1
    m[0, 1:] = [i, 2 * i]
    return True, m, m[:, 0]


def views_of_columns(i, go, m):
    c = m[:, 1]
    c *= 0.5
    c[0] = -1
    return True, m


def copies(i, go, q):
    old, r = q, q.copy()
    q = r
    r[0] = i + 1
    return True, q, old


def makes(i, go, q):
    z = np.zeros_like(q)
    z[i % 4] = 1
    return True, q + z


CASES = [
    *((f, VECTOR) for f in (learns, views, masks, slices, copies, makes)),
    *((f, MATRIX) for f in (matrices, views_of_columns)),
    (learns, np.arange(4)),
]
IDS = [f"{f.__name__}-{x.dtype}" for f, x in CASES]


def by_hand(function, start):
    rows = []
    for i in range(5):
        _, start, *collected = function(i, True, start.copy())
        rows.append([np.array(x) for x in collected])
    return [start, *map(np.stack, zip(*rows, strict=True))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("function", "start"), CASES, ids=IDS)
def test_elements_are_set_as_numpy_sets_them(function, start, engine):
    with mdf_loop.options(engine=engine):
        found = mdf_loop.loop(5, True, start, body=mdf_loop.body(function))
    for x, wanted in zip(found if isinstance(found, tuple) else (found,), by_hand(function, start), strict=True):
        assert x.dtype == wanted.dtype
        np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize(("function", "start"), CASES, ids=IDS)
@pytest.mark.usefixtures("in_64_bits")
def test_jax_sets_them_too(function, start):
    pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
    if function is slices:
        pytest.skip("a slice with steps is put in by numpy's own kernel")
    found = mdf_loop.to_jax(mdf_loop.compile(mdf_loop.body(function)))
    given = {list(inspect.signature(function).parameters)[2]: start}
    for x, wanted in zip(found(M=5, cond=True, **given).values(), by_hand(function, start), strict=True):
        np.testing.assert_array_equal(x, wanted)


def part(i, go, q):
    q[1:] += 0.5
    return True, q


def view(i, go, q):
    later = q[1:]
    later -= 0.5
    return True, q


def masked(i, go, q):
    q[q > 1] *= 0.5
    return True, q


def row(i, go, q):
    q[0] += q[1] / 2
    return True, q


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("function", "start"), [(part, VECTOR), (view, VECTOR), (masked, VECTOR), (row, MATRIX)])
def test_what_numpy_does_not_put_into_a_part_in_place_is_an_error(function, start, engine):
    whole = (10 * start).astype(int)
    with pytest.raises(TypeError, match="same_kind"):
        function(0, True, whole.copy())
    with mdf_loop.options(engine=engine):
        with pytest.raises(mdf_loop.errors.IterationError, match=r"float64 does not fit into .* int64"):
            mdf_loop.loop(2, True, whole, body=mdf_loop.body(function))
        found = mdf_loop.loop(5, True, start, body=mdf_loop.body(function))
    np.testing.assert_array_equal(found, by_hand(function, start)[0])


def row_of_row(i, go, m):
    m[0][1] = 5
    return True, m


def row_of_learner(i, go, m):
    m[i % 2][0] += 0.5
    return True, m


def column_of_row(i, go, m):
    m[0][1:][0] = 5
    return True, m


def transposed(i, go, m):
    m.T[0, 1] = 5
    return True, m


def flat(i, go, m):
    z = m[:].ravel()
    z[3] = 5
    return True, m


def whole_of_other_shape(i, go, m):
    z = np.reshape(m, (3, 2))
    z += 1
    return True, m


def read_later(i, go, m):
    z = m.reshape(6)
    m[0, 0] = 5
    return True, m, z


NOT_SEEN = [row_of_row, row_of_learner, column_of_row, transposed, flat, whole_of_other_shape, read_later]


@pytest.mark.parametrize("function", NOT_SEEN)
def test_what_numpy_would_set_in_another_array_is_an_error(function):
    before = MATRIX.copy()
    function(np.int64(0), True, before)
    assert (before != MATRIX).any()
    with pytest.raises(TracedBranch, match="elements"):
        mdf_loop.loop(2, True, MATRIX, body=mdf_loop.body(function))


def of_copies(i, go, m):
    some, other, parts = np.copy(m[0]), (m * 2).reshape(6), m[[1, 0]]
    some[0], other[0], parts[0, 0] = 5, 6, 7
    m[...][0] += 1
    m[None][0, 1, 0] = i
    return True, m, some, other, parts


@pytest.mark.parametrize("engine", ENGINES)
def test_elements_of_copies_and_of_all_of_an_array_are_set(engine):
    with mdf_loop.options(engine=engine):
        found = mdf_loop.loop(5, True, MATRIX, body=mdf_loop.body(of_copies))
    for x, wanted in zip(found, by_hand(of_copies, MATRIX), strict=True):
        np.testing.assert_array_equal(x, wanted)


def test_a_copy_of_an_array_from_outside_can_be_changed():
    def changes(i, go, x, *, weights):
        mine = weights.copy()
        mine[0] = x
        return True, x + 1, mine, weights

    _, mine, weights = mdf_loop.loop(2, True, 1.0, body=mdf_loop.body(changes), weights=np.zeros(2))
    assert mine.tolist() == [[1, 0], [2, 0]]
    assert not weights.any()


def test_an_index_that_is_not_there_is_an_error():
    def beyond(i, go, q):
        q[i] = 1
        return True, q

    with pytest.raises(mdf_loop.errors.IterationError, match="iteration 4"):
        mdf_loop.loop(5, True, VECTOR, body=mdf_loop.body(beyond))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_collected_before_stays(engine):
    def kept(i, go, q):
        before = q + 0
        q[0] = i + 1
        return True, q, before, q

    with mdf_loop.options(engine=engine):
        _, before, after = mdf_loop.loop(3, True, VECTOR, body=mdf_loop.body(kept))
    assert before[:, 0].tolist() == [0, 1, 2]
    assert after[:, 0].tolist() == [1, 2, 3]


def test_an_array_from_outside_is_not_changed():
    def changes(i, go, x, *, table):
        table[0] = x
        return True, table[0]

    with pytest.raises(TracedBranch, match="make it a carried value, or change a copy"):
        mdf_loop.loop(3, True, 1.0, body=mdf_loop.body(changes), table=VECTOR)


class Leak:
    rate = 0.5

    @mdf_loop.body
    def step(self, i, go, x):
        """A method."""
        return go, x * self.rate

    @mdf_loop.body
    def plain(i, go, x):
        """No method: it has no self."""
        return go, x + i


def test_a_method_has_its_self():
    leak = Leak()
    assert mdf_loop.loop(3, True, 8.0, body=leak.step) == 1.0
    leak.rate = 0.25
    assert mdf_loop.loop(3, True, 8.0, body=leak.step) == 0.125
    assert mdf_loop.loop(3, True, 8.0, body=leak.plain) == mdf_loop.loop(3, True, 8.0, body=Leak.plain) == 11.0
