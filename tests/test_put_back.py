"""A function that is refused as a body has changed nothing outside, whatever it did while it was read."""

import collections
import contextlib
import random

import numpy as np
import pytest

import mdf_loop


class Slotted:
    __slots__ = ("rate",)


class Model:
    total = 0

    def __init__(self):
        self.rate, self.rows, self.inner = 1.0, {"a": [1]}, None

    def step(self, i, go, v):
        self.rate += 1
        self.inner = Slotted()
        return True, v

    def counts(self, i, go, v):
        type(self).total += 1
        return True, v


A, B, LOG, TABLE, SEEN, QUEUE, ARRAY = Model(), Slotted(), [], {"k": 1}, {1}, collections.deque(range(9)), np.arange(3.0)
RNG, OLD, PYTHONS, COUNT = np.random.default_rng(3), np.random.RandomState(3), random.Random(3), 0
B.rate = 1.0


def an_attribute(v):
    A.rate += 1


def of_slots(v):
    B.rate += 1


def a_new_attribute(v):
    A.more = 1
    return float(v)


def of_elements(v):
    A.rows["a"].append(2)


def a_list(v):
    LOG.append(v)


def a_dict(v):
    TABLE["k"] += 1


def a_set(v):
    SEEN.add(len(SEEN) + 1)


def a_queue(v):
    QUEUE.popleft()


def elements_of_an_array(v):
    ARRAY[1:] += 1


def a_variable(v):
    global COUNT
    COUNT += 1


def a_new_variable(v):
    global MADE
    MADE = 1
    return float(v)


def a_generator(v):
    RNG.normal()


def an_old_one(v):
    OLD.normal()


def one_of_python(v):
    PYTHONS.random()


def the_one_behind_numpy(v):
    np.random.rand()


def before_something_else_is_wrong(v):
    A.rate += 1
    return float(v)


CHANGING = [
    an_attribute,
    of_slots,
    a_new_attribute,
    of_elements,
    a_list,
    a_dict,
    a_set,
    a_queue,
    elements_of_an_array,
    a_variable,
    a_new_variable,
    a_generator,
    an_old_one,
    one_of_python,
    the_one_behind_numpy,
    before_something_else_is_wrong,
]


def state():
    """All that these functions change, as texts."""
    streams = RNG.bit_generator.state, OLD.get_state(), PYTHONS.getstate(), np.random.get_state()
    return repr((vars(A), Model.total, B.rate, LOG, TABLE, SEEN, QUEUE, ARRAY, COUNT, "MADE" in globals(), streams))


@pytest.mark.parametrize("changing", CHANGING, ids=lambda function: function.__name__)
@pytest.mark.parametrize("is_inside", [False, True], ids=["alone", "inside"])
def test_what_was_changed_is_put_back(changing, is_inside):
    def inner(i, go, v):
        changing(v)
        return True, v

    def outer(i, go, v):
        return True, mdf_loop.loop(2, True, v, body=inner)

    before, array = state(), ARRAY
    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.loop(3, True, 0.5, body=mdf_loop.body(outer if is_inside else inner))
    assert (state(), ARRAY) == (before, array)
    with contextlib.suppress(TypeError):
        changing(np.ones(2))
    assert state() != before  # or this test looks at the wrong thing
    LOG.clear()
    vars(A).pop("more", None)
    globals().pop("MADE", None)


def test_a_method_and_a_class():
    model = Model()
    for body in (model.step, model.counts):
        with pytest.raises(mdf_loop.LoopError):
            mdf_loop.loop(3, True, 0.5, body=mdf_loop.body(body))
    assert (model.rate, model.inner, model.total, Model.total) == (1.0, None, 0, 0)


def test_a_variable_of_the_function_around_it():
    count, kept = 0, []

    def counts(i, go, v):
        nonlocal count
        count += 1
        kept.append(v)
        return True, v

    with pytest.raises(mdf_loop.LoopError):
        mdf_loop.loop(3, True, 0.5, body=mdf_loop.body(counts))
    assert (count, kept) == (0, [])


def test_what_is_kept_to_be_faster_stays_where_the_body_is_read():
    table = {}

    def remembers(i, go, v):
        return True, v + table.setdefault("x", 2.0)

    assert mdf_loop.loop(3, True, 0.5, body=mdf_loop.body(remembers)) == 6.5
    assert table == {"x": 2.0}
