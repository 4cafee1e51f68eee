"""A traced function is read again when anything outside that it reads has changed, however it reaches it."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import mdf_loop

WHOLE = SimpleNamespace(numbers=np.array([2.0]))


@dataclass
class Settings:
    """What a model is made with, in the ways that programs keep such things."""

    rate: float = 2.0
    inner: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(rate=2.0))
    table: dict = field(default_factory=lambda: {"a": {"rate": 2.0}})
    arrays: list = field(default_factory=lambda: [np.array(2.0)])
    pair: tuple = field(default_factory=lambda: ([2.0], np.array([2.0])))
    of_class: ClassVar[float] = 2.0

    def gain(self, x):
        return x * self.rate

    def class_gain(self, x):
        return x * self.of_class

    @property
    def doubled(self):
        return 2 * self.rate

    def __call__(self, x):
        return x * self.inner.rate


class Slots:
    __slots__ = ("rate",)


def helper(x):
    return x * 2


def other_helper(x):
    return x * 5


def slots():
    made = Slots()
    made.rate = 2.0
    return made


def table():
    return pytest.importorskip("pandas").DataFrame({"rate": [2.0], "name": ["a"]})


def with_code_of_another(_):
    helper.__code__ = other_helper.__code__


REACHED = {
    "a method": (Settings, lambda s, x: s.gain(x), lambda s: setattr(s, "rate", 5.0)),
    "a property": (Settings, lambda s, x: x * s.doubled, lambda s: setattr(s, "rate", 5.0)),
    "a call": (Settings, lambda s, x: s(x), lambda s: setattr(s.inner, "rate", 5.0)),
    "an attribute of an attribute": (Settings, lambda s, x: x * s.inner.rate, lambda s: setattr(s.inner, "rate", 5.0)),
    "a dict in a dict": (Settings, lambda s, x: x * s.table["a"]["rate"], lambda s: s.table["a"].update(rate=5.0)),
    "an array in a list": (Settings, lambda s, x: x * s.arrays[0], lambda s: s.arrays[0].fill(5.0)),
    "a list in a tuple": (Settings, lambda s, x: x * s.pair[0][0], lambda s: s.pair[0].insert(0, 5.0)),
    "an array in a tuple": (Settings, lambda s, x: x * s.pair[1][0], lambda s: s.pair[1].fill(5.0)),
    "a table": (table, lambda s, x: x * s["rate"].values[0], lambda s: s.__setitem__("rate", [5.0])),
    "a slot": (slots, lambda s, x: x * s.rate, lambda s: setattr(s, "rate", 5.0)),
    "a class, through a method": (Settings, lambda s, x: s.class_gain(x), lambda s: setattr(Settings, "of_class", 5.0)),
    "a function in a list": (lambda: [helper], lambda s, x: s[0](x), lambda s: s.insert(0, other_helper)),
    "the code of a function": (lambda: None, lambda s, x: helper(x), with_code_of_another),
}


@pytest.mark.parametrize("way", REACHED)
def test_a_function_is_read_again_however_it_reaches_what_changed(way, monkeypatch):
    monkeypatch.setattr(Settings, "of_class", 2.0)
    monkeypatch.setattr(helper, "__code__", helper.__code__)
    make, step, change = REACHED[way]
    thing = make()

    @mdf_loop.body
    def grow(i, go, x):
        return True, step(thing, x)

    before = mdf_loop.loop(2, True, 1.0, body=grow)
    change(thing)
    after = mdf_loop.loop(2, True, 1.0, body=grow)
    assert (float(before), float(after)) == ((16.0, 100.0) if way == "a property" else (4.0, 25.0))


def test_a_function_that_is_defined_again_counts():
    """As in a notebook, whose cell with the body does not run again."""
    outside = {"mdf_loop": mdf_loop, "np": np}
    exec("def gain(x):\n    return x * 2\n\n@mdf_loop.body\ndef grow(i, go, x):\n    return True, gain(x)\n", outside)
    assert mdf_loop.loop(2, True, 1.0, body=outside["grow"]) == 4
    exec("def gain(x):\n    return x * 5\n", outside)
    assert mdf_loop.loop(2, True, 1.0, body=outside["grow"]) == 25


def test_what_did_not_change_is_not_read_again():
    kept = Settings()

    @mdf_loop.body
    def grow(i, go, x):
        return True, kept.gain(x) + WHOLE.numbers[0] + np.linalg.norm(kept.pair[1])

    before = grow.changes
    assert mdf_loop.loop(2, True, 1.0, body=grow) == mdf_loop.loop(2, True, 1.0, body=grow) == 16
    assert grow.changes == before


class LikeJax:
    """An array of a class in C, which refuses to be asked for the slots that Python makes."""

    __slots__ = ("__weakref__", "numbers")

    def __array__(self, dtype=None, copy=None):
        return np.array(self.numbers, dtype)


def refuses(_):
    raise TypeError("descriptor '__weakref__' for 'ArrayImpl' objects doesn't apply")


LikeJax.__weakref__ = property(refuses)


def test_an_array_of_another_library_that_refuses_to_be_looked_into_is_read():
    matrix = LikeJax()
    matrix.numbers = [[0.0, 2.0], [3.0, 0.0]]

    @mdf_loop.body
    def turn(i, go, x):
        return True, np.asarray(matrix) @ x

    assert np.array_equal(mdf_loop.loop(1, True, np.array([1.0, 10.0]), body=turn), [20.0, 3.0])
    matrix.numbers = [[1.0, 0.0], [0.0, 1.0]]
    assert np.array_equal(mdf_loop.loop(1, True, np.array([1.0, 10.0]), body=turn), [1.0, 10.0])
