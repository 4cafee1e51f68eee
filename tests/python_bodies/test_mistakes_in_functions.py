"""Python bodies that do what happens once, when they are read: each is refused in its line, with what to write instead."""

import collections
import copy
import functools
import io
import itertools
import numbers
import re

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError, LoopError, LoopWarning
from mdf_loop.readers.python.instead import PYTHONS
from mdf_loop.readers.python.tracing import TracedBranch

COUNT = 0
LAST = None
HISTORY = []
BY_NAME = {}
FILLED = np.zeros(3)
CACHE = {}


def read(function, *start):
    """A loop over a function, of two iterations."""
    return mdf_loop.loop(2, True, *(start or (0.5,)), body=mdf_loop.body(function))


def appends(i, go, v):
    w = v + 1
    HISTORY.append(w)
    return True, w


def fills_a_dict(i, go, v):
    BY_NAME["v"] = v
    return True, v


def fills_an_array(i, go, v):
    FILLED[0] += 1
    return True, v


def counts(i, go, v):
    global COUNT
    COUNT = COUNT + 1
    return True, v + COUNT


def makes_a_global(i, go, v):
    global LAST
    LAST = v
    return True, v


def helper(v):
    HISTORY.append(1)
    return v


def asks_another(i, go, v):
    return True, helper(v)


class Model:
    """What many write: a step that changes its own state."""

    def __init__(self):
        self.count, self.rng = 0, np.random.default_rng(1)

    def step(self, i, go, v):
        self.count += 1
        return True, v

    def draw(self, i, go, v):
        w = v + 1
        return True, w + self.rng.normal()


@pytest.mark.parametrize(
    ("function", "name", "written"),
    [
        (appends, "HISTORY", "HISTORY.append(w)"),
        (fills_a_dict, "BY_NAME", 'BY_NAME["v"] = v'),
        (fills_an_array, "FILLED", "FILLED[0] += 1"),
        (counts, "COUNT", "COUNT = COUNT + 1"),
        (makes_a_global, "LAST", "LAST = v"),
        (asks_another, "HISTORY", "return True, helper(v)"),
        (Model().step, "self.count", "self.count += 1"),
    ],
)
def test_what_is_outside_stays_as_it_is(function, name, written):
    with pytest.raises(TracedBranch) as caught:
        read(function)
    said = str(caught.value)
    assert f"changes {name!r}, which is outside" in said
    assert "it is collected" in said
    assert written in said.partition(" changes ")[0]


def test_a_variable_of_the_function_around_it_stays_too():
    count, kept = 0, []

    def nonlocal_count(i, go, v):
        nonlocal count
        count += 1
        return True, v

    def appends_to_a_closure(i, go, v):
        kept.append(v)
        return True, v

    for function, name in ((nonlocal_count, "count"), (appends_to_a_closure, "kept")):
        with pytest.raises(TracedBranch, match=f"changes '{name}', which is outside"):
            read(function)


def test_what_a_function_makes_itself_or_keeps_to_be_faster_is_its_own():
    @functools.cache
    def table():
        return np.arange(3.0)

    def own(i, go, v):
        parts = []
        for k in range(3):
            parts.append(v * k)
        CACHE.setdefault("table", table())
        return True, np.stack(parts).sum() + CACHE["table"].sum() * 0

    assert read(own) == 4.5  # 0.5 * 3 * 3


def draws_later(i, go, v):
    w = v * 2
    w = w + np.random.normal(0.0, 1.0)
    return True, w


def chooses(i, go, v):
    w = v
    return True, w + np.random.choice([-1, 1])


def draws_with_values(i, go, v):
    return True, np.random.normal(v, 1.0)


def makes_a_generator(i, go, v):
    w = v + 1
    return True, w + np.random.default_rng(3).normal()


@pytest.mark.parametrize(
    ("function", "line", "instead"),
    [
        (draws_later, 2, "write mdf_loop.body.normal(mean, spread)"),
        (chooses, 2, "write np.where(mdf_loop.body.uniform() < 0.5, a, b)"),
        (
            draws_with_values,
            1,
            "draws random numbers by np.random.normal, which cannot be traced; write mdf_loop.body.normal(mean, spread)",
        ),
        (makes_a_generator, 2, "makes a generator, which draws the same random numbers in every iteration"),
        (Model().draw, 2, "write mdf_loop.body.normal(mean, spread)"),
    ],
)
def test_draws_are_refused_in_their_line_with_what_to_write(function, line, instead):
    with pytest.raises(TracedBranch) as caught:
        read(function)
    assert f"{__file__}, line {function.__code__.co_firstlineno + line}: " in str(caught.value)
    assert instead in str(caught.value)


def test_what_is_written_instead_of_a_draw_works():
    @mdf_loop.body
    def walk(i, go, v):
        w = np.where(mdf_loop.body.uniform() < 0.5, -1.0, 1.0)
        return True, v + w, w

    with mdf_loop.options(seed=2):
        _, steps = mdf_loop.loop(50, True, 0.0, body=walk)
    assert set(steps.tolist()) == {-1.0, 1.0}


class Owner:
    """An object that has the one that draws."""

    def __init__(self):
        self.model = Model()


COUNTER, LINES, QUEUE, OWNER = itertools.count(), io.StringIO("a\nbb\nccc\n"), collections.deque(range(9)), Owner()
GENERATOR, ONCE = (k for k in range(9)), iter([1.0])


def remembers(kept=[]):  # noqa: B006
    kept.append(1.0)
    return len(kept)


@pytest.mark.parametrize(
    ("changing", "said"),
    [
        (lambda: next(COUNTER), "gives something else in each call"),
        (lambda: next(GENERATOR), "gives something else in each call"),
        (lambda: np.full(3, next(COUNTER)), "gives something else in each call"),
        (lambda: len(LINES.readline()), "gives something else in each call"),
        (lambda: next(ONCE), r"gives something else in each call.*\(StopIteration in the second call"),
        (lambda: QUEUE.popleft(), "changes 'QUEUE', which is outside"),
        (remembers, "changes 'a default of remembers', which is outside"),
        (lambda: OWNER.model.rng.integers(0, 2), "draws random numbers while it is read"),
        (lambda: OWNER.model.draw(0, True, 1.0)[1], "draws random numbers while it is read"),
    ],
)
def test_what_another_call_gives_otherwise_is_not_frozen_in_the_body(changing, said):
    def reads(i, go, v):
        w = v * 2
        w = w + changing()
        return True, w

    with pytest.raises(TracedBranch, match=said) as caught:
        read(reads)
    assert f"line {reads.__code__.co_firstlineno + 2}: 'w = w + changing()'" in str(caught.value)


def test_a_function_that_makes_the_same_objects_again_is_read():
    def makes(i, go, v):
        table = np.array([np.nan, 1.0, -0.0])
        inner = mdf_loop.loop(2, True, v, body=lambda j, go, s: (True, s + table[1]))
        return True, inner + np.array(["a", "b"]).size

    assert read(makes) == 0.5 + 2 * (2 + 2)


@pytest.mark.parametrize("kind", [float, np.ndarray, (int, list), numbers.Number, collections.abc.Sequence])
def test_the_type_of_a_value_is_not_known(kind):
    def asks(i, go, v):
        return True, (v + 1 if isinstance(v, kind) else v + 2)

    with pytest.raises(TracedBranch, match="asks for the type of a value, which is known only when the loop runs"):
        read(asks)


def test_a_copy_is_a_value():
    assert read(lambda i, go, v: (True, copy.copy(v) + copy.deepcopy(v))) == 2.0


@pytest.mark.parametrize("like", [0.1, 3, (2, 3)])
@pytest.mark.parametrize("draw", [mdf_loop.body.noise, mdf_loop.body.uniform])
def test_a_number_is_no_spread_and_no_count(draw, like):
    with pytest.raises(TracedBranch, match=r"give an array, such as np\.zeros"):
        read(lambda i, go, v: (True, v + draw(like)))


CONVERSIONS = {
    "__bool__": bool,
    "__float__": float,
    "__int__": int,
    "__complex__": complex,
    "__index__": range,
    "__len__": len,
    "__iter__": list,
    "__contains__": lambda v: 3 in v,
    "__hash__": lambda v: {v: 1},
    "__str__": str,
    "__format__": lambda v: f"{v:.2f}",
    "__delitem__": lambda v: v.__delitem__(0),
}


def test_every_conversion_has_its_case():
    assert set(CONVERSIONS) == set(PYTHONS)


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("catches", [False, True])
def test_pythons_conversions_are_refused_also_where_a_function_catches_the_error(name, catches):
    def converts(i, go, v):
        try:
            CONVERSIONS[name](v)
        except Exception:
            if not catches:
                raise
        return True, v + 1

    with pytest.raises(TracedBranch, match=re.escape(PYTHONS[name][0])):
        read(converts, np.zeros(2))


def test_a_value_has_a_repr_which_debuggers_show():
    def shows(i, go, v):
        assert repr(v) == "<traced 'v'>"
        return True, v

    assert read(shows) == 0.5


@pytest.mark.parametrize(
    ("use", "instead"),
    [
        (lambda v: v.item(), "leave it out"),
        (lambda v: v.flatten(), "use x.ravel()"),
        (lambda v: v.append(1.0), "it is collected"),
        (lambda v: v.maxx(), "did you mean 'max'"),
        (lambda v: np.append(v, 1.0), "it is collected"),
    ],
)
def test_attributes_that_only_arrays_have_say_what_to_write(use, instead):
    with pytest.raises(LoopError) as caught:
        read(lambda i, go, v: (True, use(v)), np.zeros(2))
    assert instead in str(caught.value)


def test_a_body_without_a_condition_says_so_and_invents_no_names():
    with pytest.raises(ArgumentError) as caught:
        read(lambda i, v: (v < 3, v + 1))
    assert "in Python def f(i, condition, v), which returns the condition, the carried values" in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        read(lambda i, go, v: (v + 1) * 2)
    assert "has inputs (i, go, v) and 1 output; " in str(caught.value)
    assert "(go, ...) passes it through" in str(caught.value)
    assert "multiply" not in str(caught.value)


OUTSIDE = [
    np.zeros(()),
    np.zeros((3, 0)),
    np.zeros((3, 4))[:, ::2],
    np.array(["a"]),
    np.matrix([[1, 2]]),
    np.ones((2, 3), order="F"),
]


@pytest.mark.parametrize("outside", [*OUTSIDE, np.ma.masked_array([1, 2], [0, 1]), np.zeros(2, [("a", "f4"), ("b", "i8")])])
def test_any_array_may_be_outside(outside):
    assert read(lambda i, go, v: (True, v + outside.ndim)) == 0.5 + 2 * outside.ndim


def test_an_async_function_is_no_body():
    async def waits(i, go, v):
        return True, v

    with pytest.raises(KindError, match="waits is async: write def"):
        mdf_loop.body(waits)


def prints_a_word(i, go, v):
    print("begin")
    print("of an iteration")
    return True, v + 1


def prints_values(i, go, v):
    w = v + 1
    print("now", w)
    return True, w


def test_what_a_function_prints_while_it_is_read_is_shown_once_with_a_warning(capsys):
    with pytest.warns(LoopWarning, match="prints_a_word prints once, while it is read.*return them behind the carried") as said:
        assert read(prints_a_word) == 2.5
    assert len(said) == 1
    assert capsys.readouterr().out == "begin\nof an iteration\n"


def test_no_half_of_a_line_is_printed(capsys):
    with pytest.raises(TracedBranch, match="print runs once, while the body is read; to see w, return it behind the carried"):
        read(prints_values)
    assert not capsys.readouterr().out


def test_a_name_that_is_not_there_leads_to_a_parameter():
    def reads(i, go, v):
        return True, gain * v  # noqa: F821

    with pytest.raises(NameError, match=r"line \d+: .*: name 'gain' is not defined; .*: def reads\(i, go, \.\.\., \*, gain\)$"):
        mdf_loop.loop(1, True, 2.0, body=mdf_loop.body(reads))


def test_a_library_in_c_that_refuses_a_value_has_its_line_too():
    def sigmoid(x):  # as a function of torch, which looks at the type itself
        raise TypeError(f"argument 'input' must be Tensor, not {type(x).__name__}")

    @mdf_loop.body
    def f(i, go, x):
        return True, sigmoid(x)

    with pytest.raises(TracedBranch, match=r"line \d+: 'return True, sigmoid\(x\)' gives values .* not a value of the loop\)"):
        mdf_loop.loop(2, True, 0.5, body=f)


@pytest.mark.parametrize(
    ("method", "cure"), [("relu", "write it out: np.maximum(x, 0)"), ("detach", "leave it out"), ("numpy", "leave")]
)
def test_methods_of_tensors_have_a_cure(method, cure):
    with pytest.raises(TracedBranch, match=re.escape(cure)):
        mdf_loop.loop(2, True, 0.5, body=mdf_loop.body(lambda i, go, x: (True, getattr(x, method)())))


@pytest.mark.parametrize(("name", "cure"), [("statistics", "import statistics first"), ("gain", "def f(i, go, ..., *, gain)")])
def test_a_name_without_a_meaning_is_a_module_or_a_parameter(name, cure):
    known = {"mdf_loop": mdf_loop}
    exec(f"def f(i, go, x):\n    return True, {name}\n", known)
    with pytest.raises(NameError, match=re.escape(cure)):
        mdf_loop.loop(2, True, 0.5, body=mdf_loop.body(known["f"]))


def test_draws_say_what_they_take():
    with pytest.raises(KindError, match="noise: no argument 'size'; it takes like"):
        mdf_loop.loop(2, True, 0.5, body=mdf_loop.body(lambda i, go, x: (True, mdf_loop.body.noise(size=3))))
