"""Python functions that are read as bodies: they give what calling them gives."""

import math
import pickle
import random

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import KindError, LoopError, UnsupportedOp
from mdf_loop.readers.python.tracing import TracedBranch

W = np.array([[0.9, 0.2], [-0.3, 0.8]])
TABLE = np.arange(12.0).reshape(4, 3)


def operators(i, go, x):
    y = -x + 2 * x - x / 3 + x**2 // 2 + (x % 2)
    return (x < 1e6) & (y > -1e9), abs(y) / 10, y, x >= y, ~(x > y), +x


def functions(i, go, x):
    a = np.tanh(x) + np.where(x > 1, np.exp(-x), np.log1p(np.abs(x)))
    b = np.clip(np.hypot(a, x), 0, 3) + np.maximum(a, 0.5) + np.minimum(x, 1)
    return True, b, np.logical_or(a > b, a < 0), np.sqrt(np.square(b)), round(b, 2)


def arrays(i, go, h):
    h = np.tanh(W @ h) + 0.1
    rows = np.stack([h, 2 * h])
    everything = np.concatenate([h, rows[0], rows[:, 1]])
    return True, h, h.sum(), rows.T, everything, rows.mean(axis=0), h[::-1], np.outer(h, h), h.reshape(2, 1), h[None, :], h.max()


def indexing(i, go, x):
    row = TABLE[2:4] * x
    return True, x + TABLE.sum() * 0 + row[i % 2, 0] * 0 + 1, row[i % 2], row[..., 1], np.take(row, np.array([0, 2]), axis=1)


def counting(i, go, n):
    for _ in range(3):
        n += i
    return n < 50, n, n.astype(float) / 2, n * 1.5


CASES = [(operators, 3.0), (functions, 0.7), (arrays, np.array([1.0, -0.5])), (indexing, 1.0), (counting, 1)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("function", "start"), CASES, ids=[function.__name__ for function, _ in CASES])
def test_reading_gives_what_calling_gives(function, start, engine):
    with mdf_loop.options(engine=engine):
        read = mdf_loop.loop(6, True, start, body=mdf_loop.body(function))
    called = mdf_loop.loop(6, True, start, body=reference(function))
    for a, b in zip(read, called, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def reference(function):
    """The function with arrays in which ``TABLE[i]`` and ``i % 2`` are numpy's."""
    return lambda i, go, x: function(np.asarray(i), go, np.asarray(x))


def nested(i, go, a):
    b = a * 2
    c = mdf_loop.loop(3, True, a, body=lambda j, go, s: (True, s + b + j))
    s, sums = mdf_loop.scan(a * 0, np.stack([a, b, c]), num_scan_inputs=1, body=lambda s, x: (s + x * b, s))
    d = mdf_loop.if_(a > 3, then_branch=lambda: a * 10, else_branch=lambda: b)
    e = mdf_loop.loop(2, True, a, body="x: x + k", k=b)

    def twice(j, go, s):
        return True, mdf_loop.loop(2, True, s, body=lambda k, go, r: (True, r + a + j))

    f = mdf_loop.loop(4, True, 0.0, body=twice)
    return True, a + 1, c, s, d, sums, e, f


@pytest.mark.parametrize("engine", ENGINES)
def test_loops_inside_see_the_values_around_them(engine):
    with mdf_loop.options(engine=engine):
        read = mdf_loop.loop(4, True, 1.0, body=mdf_loop.body(nested))
    called = mdf_loop.loop(4, True, 1.0, body=lambda i, go, a: called_nested(a))
    for a, b in zip(read, called, strict=True):
        np.testing.assert_allclose(a, b)


def called_nested(a):
    """:func:`nested` in plain Python."""
    b, c, s, f = a * 2, a, a * 0, 0.0
    for j in range(3):
        c = c + b + j
    sums = []
    for x in (a, b, c):
        sums.append(s)
        s = s + x * b
        sums[-1] = sums[-1]
    for j in range(4):
        for _ in range(2):
            f = f + a + j
    return True, a + 1, c, s, a * 10 if a > 3 else b, np.array(sums), a + 2 * b, f


def test_captured_values_are_keyword_only_parameters():
    @mdf_loop.body
    def newton(i, go, x, *, a):
        better = (x + a / x) / 2
        return np.abs(better - x) > 1e-12, better, better

    root, guesses = mdf_loop.loop(None, True, 1.0, body=newton, a=9.0)
    assert (root, len(guesses)) == (3, 7)
    with pytest.raises(LoopError, match="reads 'a' from outside"):
        mdf_loop.loop(None, True, 1.0, body=newton)
    assert newton(0, True, 1.0, a=9.0)[1] == 5  # it can still be called
    assert "batched" in mdf_loop.compile(mdf_loop.body(lambda i, go, x, *, w: (True, x + w[i], w[i]))).explain()


@pytest.mark.parametrize("engine", ENGINES)
def test_noise_differs_in_each_iteration_and_repeats_with_the_seed(engine):
    @mdf_loop.body
    def walk(i, go, x):
        x = x + mdf_loop.body.noise() + mdf_loop.body.uniform() + mdf_loop.body.noise(x) + mdf_loop.body.uniform(x)
        return True, x, x

    with mdf_loop.options(engine=engine, seed=1):
        first, again = (mdf_loop.loop(20, True, 0.0, body=walk)[1] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(set(np.diff(first).round(9).tolist())) == 19


@pytest.mark.parametrize("engine", ENGINES)
def test_distributions_are_those_of_equations(engine):
    @mdf_loop.body
    def walk(i, go, x, *, mu):
        draw = mdf_loop.body
        x = x + draw.normal(mu, 0.1) * draw.uniform(mu, 3.0) + draw.poisson(lam) + draw.normal(0.0, spread).sum()
        return True, x, x

    lam, spread = 2.5, np.arange(3.0)
    same = "x: x + normal(mu, 0.1) * uniform(mu, 3.0) + poisson(2.5) + sum(normal(0.0, spread))\ncollect path: x"
    with mdf_loop.options(engine=engine, seed=1):
        found = mdf_loop.loop(20, True, 0.0, body=walk, mu=2.0)[1]
        np.testing.assert_array_equal(found, mdf_loop.loop(20, True, 0.0, body=same, mu=2.0, spread=spread)[1])


RNG = np.random.default_rng(0)


def branches(i, go, x):
    if x > 0:
        x = x + 1
    return True, x


def uses_math(i, go, x):
    return True, math.sqrt(x)


def makes_an_array(i, go, x):
    return True, np.array([x, x])


def compares_in_python(i, go, x):
    return True, max(x, 1)


def repeats(i, go, x):
    for _ in range(i):
        x = x + 1
    return True, x


def iterates(i, go, x):
    return True, sum(part for part in x)


def uses_and(i, go, x):
    return x > 0 and x < 3, x


def draws_once(i, go, x):
    return True, x + np.random.rand()


def draws_once_elsewhere(i, go, x):
    return True, x + RNG.normal()


def writes_out(i, go, x):
    return True, np.add(x, 1, out=TABLE[0])


def static_axis(i, go, x):
    return True, np.sum(x, axis=i)


@pytest.mark.parametrize(
    ("function", "line", "advice"),
    [
        (branches, 1, "x = np.where(x > 0, x + 1, x)"),
        (uses_math, 1, "write np.sqrt(x)"),
        (makes_an_array, 1, "np.stack"),
        (compares_in_python, 1, "write np.maximum(x, 1)"),
        (repeats, 1, "mdf_loop.loop(i, True, x, body=...)"),
        (iterates, 1, "mdf_loop.scan"),
        (uses_and, 1, "np.logical_and"),
        (draws_once, 1, "write mdf_loop.body.uniform(), which draws new ones"),
        (draws_once_elsewhere, 1, "write mdf_loop.body.normal(mean, spread), which"),
        (writes_out, 1, "use what it returns"),
        (static_axis, 1, "known only when the loop runs"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_read_is_reported_with_its_line_and_how_to_write_it(function, line, advice):
    with pytest.raises(TracedBranch) as caught:
        mdf_loop.loop(3, True, np.array([1.0]), body=mdf_loop.body(function))
    said = str(caught.value)
    assert f"{__file__}, line {function.__code__.co_firstlineno + line}" in said
    assert advice in said


@pytest.mark.parametrize(
    ("function", "kind", "told"),
    [
        (lambda i, go, x: (True, np.fft.fft(x)), UnsupportedOp, "there is no kernel"),
        (lambda i, go, x: (True, None), LoopError, "returns None"),
        (lambda i, go, x: (True, x + "a"), LoopError, "numbers and arrays; got str"),
        (lambda i, go, x: (True, np.sum(x, nothing=1)), LoopError, "nothing"),
    ],
)
def test_other_errors_are_ours_too(function, kind, told):
    with pytest.raises((kind, TypeError)) as caught:
        mdf_loop.loop(3, True, 1.0, body=mdf_loop.body(function))
    assert told in str(caught.value)


def test_an_error_of_the_function_itself_is_its_own():
    @mdf_loop.body
    def fails(i, go, x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        mdf_loop.loop(3, True, 1.0, body=fails)


def test_values_do_not_leave_the_function_that_made_them():
    kept = []

    @mdf_loop.body
    def first(i, go, x):
        kept.append(x)
        return True, x

    with pytest.raises(TracedBranch, match="'kept', which is outside"):
        mdf_loop.loop(1, True, 1.0, body=first)
    with pytest.raises(TracedBranch, match="whose call is over"):
        mdf_loop.loop(1, True, 1.0, body=mdf_loop.body(lambda i, go, x: (True, x + kept[0])))


def test_only_functions_with_named_parameters():
    with pytest.raises(KindError, match="names its parameters"):
        mdf_loop.body(lambda *args: args)
    with pytest.raises(KindError, match="takes a function"):
        mdf_loop.body(3)
    with pytest.raises(LoopError, match="while they are read"):
        mdf_loop.body.noise()


def test_what_is_outside_is_a_constant_of_what_was_read():
    scale = np.array([2.0])
    function = mdf_loop.body(lambda i, go, x: (True, x * scale))
    compiled = mdf_loop.compile(function)
    assert mdf_loop.loop(3, True, np.ones(1), body=function) == compiled(3, True, np.ones(1)) == 8
    scale[0] = 100
    assert compiled(3, True, np.ones(1)) == 8
    assert mdf_loop.loop(3, True, np.ones(1), body=function) == 1_000_000


@mdf_loop.body
def doubling(i, go, x):
    """Doubles."""
    return True, x * 2


def test_a_traced_function_is_still_a_function():
    assert doubling.__doc__ == "Doubles."
    assert doubling(0, True, 4) == (True, 8)
    assert repr(doubling) == "<traced function doubling>"
    assert pickle.loads(pickle.dumps(mdf_loop.compile(doubling)))(3, True, 1.0) == 8


STEPS = np.array([1.0, 2.0])


@mdf_loop.body
def scaled(i, go, v, *, k=3.0, w=STEPS, kind="relu"):
    return True, (np.maximum(v * k, 0) if kind == "relu" else v) + w.sum()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("given", [{}, {"k": 2.0}, {"w": np.ones(3)}, {"k": 0.5, "w": np.zeros(1)}], ids=str)
@pytest.mark.parametrize("v", [1.0, np.float32(1), np.array([1.0, -2.0]), 2], ids=repr)
def test_defaults_of_keyword_parameters_are_used_where_a_call_does_not_give_them(engine, given, v):
    """They were said to be missing."""
    all_of_them = {"k": 3.0, "w": STEPS, **given}
    with mdf_loop.options(engine=engine):
        for call in (mdf_loop.loop, mdf_loop.compile(scaled)):
            found, wanted = (
                call(4, True, v, **named, **({"body": scaled} if call is mdf_loop.loop else {})) for named in (given, all_of_them)
            )
            np.testing.assert_array_equal(found, wanted)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype


def test_loops_and_branches_inside_a_function_and_scans_take_defaults():
    @mdf_loop.body
    def outer(i, go, v, *, q=2):
        return True, mdf_loop.loop(q, True, v, body=scaled), mdf_loop.loop(q, True, v, body=scaled, k=1.0)

    assert [x.tolist() for x in mdf_loop.loop(2, True, 1.0, body=outer)] == [201, [7, 27]]
    assert [x.tolist() for x in mdf_loop.loop(2, True, 1.0, body=outer, q=1)] == [21, [4, 9]]
    plus, minus = mdf_loop.body(lambda *, a=2.0: a + 1), mdf_loop.body(lambda *, a=2.0: a - 1)
    assert mdf_loop.if_(True, then_branch=plus, else_branch=minus) == 3
    assert mdf_loop.if_(False, then_branch=plus, else_branch=minus, a=5.0) == 4
    sums = mdf_loop.body(lambda s, x, *, gain=2.0: (s + gain * x, s))
    assert mdf_loop.scan(0.0, np.arange(3.0), body=sums, num_scan_inputs=1)[0] == 6


def test_a_model_uses_its_own_values_in_the_place_of_defaults():
    @mdf_loop.body
    def newton(i, go, x, *, a=4.0, tolerance=1e-12, half=0.5):
        better = half * (x + a / x)
        return np.abs(better - x) > tolerance, better, better

    model = mdf_loop.load("examples/newton.yaml")
    model.graphs[0].nodes[0].get_parameter("body").value = newton
    assert mdf_loop.run(model, a=9.0)["root"] == 3
    written = mdf_loop.to_onnx(model, inputs=["a"])
    assert mdf_loop.backend.run_model(written, {"a": np.array(9.0)})[0] == 3
    assert mdf_loop.run(mdf_loop.convert(written), a=9.0)["root"] == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["traced", "equations", "called"])
def test_a_condition_of_several_elements_says_what_makes_one_of_them(engine, kind):
    traced = mdf_loop.body(lambda i, go, v: (v < 5, v * 2))
    body = {"traced": traced, "equations": "v: v * 2\nwhile: v < 5", "called": lambda i, go, v: (v < 5, v * 2)}[kind]
    with mdf_loop.options(engine=engine), pytest.raises(LoopError, match="must be one boolean") as caught:
        mdf_loop.loop(9, True, np.ones(3), body=body)
    assert any("np.any(...) or np.all(...)" in note for note in caught.value.__notes__)


def test_a_known_formula_is_given_for_a_function_that_has_no_kernel():
    special = pytest.importorskip("scipy.special", reason="expit is scipy's")
    body = mdf_loop.body(lambda i, go, x: (True, special.expit(x)))
    with pytest.raises(UnsupportedOp, match=r"there is no kernel for it; write it out: 1 / \(1 \+ np.exp\(-x\)\)"):
        mdf_loop.loop(3, True, 1.0, body=body)


@pytest.mark.parametrize(
    "changes",
    [
        lambda v: np.add(v, 1, out=v),
        lambda v: np.tanh(v, v),
        lambda v: np.abs(v, out=v),
        lambda v: np.multiply(v, 0.5, out=(v,)),
        lambda v: np.clip(v, 0, 1, out=v),
    ],
)
def test_out_is_refused(changes):
    """It changed nothing."""

    @mdf_loop.body
    def changed(i, go, v):
        changes(v)
        return True, v

    with pytest.raises(LoopError, match="out"):
        mdf_loop.loop(4, True, np.zeros(3), body=changed)


def in_place(i, go, v, n):
    v += 1
    v -= 0.25
    v *= 3
    v /= 2
    v //= 0.5
    v %= 7
    v **= 2
    n += 1
    n |= 8
    n &= 11
    n ^= 1
    n <<= 2
    n >>= 1
    return True, v, n


def test_operators_in_place_make_new_values():
    v, n = np.array([1.0, 2.5]), np.array([3, 4])
    for _ in range(3):
        _, v, n = in_place(0, True, v.copy(), n.copy())
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            found = mdf_loop.loop(3, True, np.array([1.0, 2.5]), np.array([3, 4]), body=mdf_loop.body(in_place))
        np.testing.assert_array_equal(found[0], v)
        np.testing.assert_array_equal(found[1], n)


OWN = random.Random(3)


DRAWING = [
    lambda i, go, v: (True, v + random.gauss(0, 1)),
    lambda i, go, v: (True, v + random.random()),
    lambda i, go, v: (True, v + OWN.random()),
]


@pytest.mark.parametrize("function", DRAWING)
def test_numbers_of_pythons_random_are_refused(function):
    """They were the same in every iteration."""
    with pytest.raises(LoopError, match="draws random numbers while it is read"):
        mdf_loop.loop(4, True, 1.0, body=mdf_loop.body(function))
