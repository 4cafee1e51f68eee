"""What a line of a Python body asks Python for: the error says what to write for exactly this line, and that works."""

import math
import re

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError, CollectedError, IterationError, KindError, LoopError, MissingCapture
from mdf_loop.readers.python.instead import PYTHONS
from mdf_loop.readers.python.tracing import TracedBranch

STIM, WEIGHTS, PAIR = np.array([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0], (1.0, 2.0, 3.0)


def read(function, *start, **named):
    """Three iterations of a function as a body."""
    return mdf_loop.loop(3, True, *(start or (0.5,)), body=mdf_loop.body(function), **named)


def exp(i, go, v):
    return True, math.exp(v)


def as_float(i, go, v):
    w = float(v)
    return True, w


def as_int(i, go, v):
    return True, int(v)


def counts(i, go, v):
    for _ in range(v):
        pass
    return True, v


def counts_whole(i, go, v):
    for _ in range(int(v)):
        pass
    return True, v


def larger(i, go, v):
    return True, max(v, 0.25)


def largest(i, go, v):
    return True, max(v)


def total(i, go, v):
    return True, sum(v)


def of_products(i, go, v):
    return True, sum(a * b for a, b in zip(v, v, strict=True))


def changes_one(i, go, v):
    if v > 0:
        v = v + 1
    return True, v


def adds_to_one(i, go, v):
    if v > 0 and i < 2:
        v += 2
    return True, v


def sets_one(i, go, v):
    if 0 < v < 1:  # noqa: SIM108
        w = v * 2
    else:
        w = v
    return True, w


def does_more(i, go, v):
    if not v > 0:
        return True, v * 2
    return True, v


def chooses(i, go, v):
    return True, v + 1 if v > 0 else v


def repeats(i, go, v):
    while v < 9:
        v = v * 2
    return True, v


def both(i, go, v):
    return v > 0 and v < 5, v


def negates(i, go, v):
    return not v > 5, v


def between(i, go, v):
    return 0 < v < 5, v


def one_of(i, go, v):
    return True, v + (i in (0, 2))


def asserts(i, go, v):
    assert v > 0
    return True, v


def prints(i, go, v):
    print(v)
    return True, v


def formats(i, go, v):
    print(f"v is {v:.2f}")
    return True, v


def length(i, go, v):
    return True, v * len(v)


def unpacks(i, go, v):
    a, b = v
    return True, a + b


def elements(i, go, v):
    w = 0
    for each in v:
        w = w + each
    return True, w


def of_array(i, go, v):
    return True, v + STIM[i]


def of_list(i, go, v, *, k=1.0):
    return True, v * k + WEIGHTS[i]


def of_tuple(i, go, v):
    return True, v + PAIR[i]


def of_own_array(i, go, v):
    table = np.arange(3.0)
    return True, v + table[i]


def sets_an_element(i, go, v):
    table = np.zeros(3)
    table[i] = v
    return True, np.sum(table)


def fills(i, go, v):
    return True, v + np.zeros(i)


def outer(i, go, v):
    return True, np.add.outer(v, v)


def helper(v):
    return math.log(v)


def asks_a_helper(i, go, v):
    return True, helper(v)


TWO = np.ones(2)

HINTS = [
    (exp, "write np.exp(v)", 0.5),
    (as_float, "leave float() out: write v", 0.5),
    (as_int, "write np.trunc(v), or v where it is whole", 0.5),
    (counts, "a loop of v iterations inside a body is mdf_loop.loop(v, True, x, body=...)", 2),
    (counts_whole, "mdf_loop.loop(np.trunc(v).astype(int), True, x, body=...)", 2.5),
    (larger, "write np.maximum(v, 0.25)", 0.5),
    (largest, "write np.max(v)", TWO),
    (total, "write np.sum(v)", TWO),
    (of_products, "np.sum(v), or go through elements by mdf_loop.scan(start, v, body=...)", TWO),
    (changes_one, "write v = np.where(v > 0, v + 1, v)", 0.5),
    (adds_to_one, "write v = np.where(np.logical_and(v > 0, i < 2), v + 2, v)", 0.5),
    (sets_one, "write w = np.where(np.logical_and(0 < v, v < 1), v * 2, v)", 0.5),
    (does_more, "mdf_loop.if_(np.logical_not(v > 0), then_branch=..., else_branch=...)", 0.5),
    (chooses, "write np.where(v > 0, v + 1, v)", 0.5),
    (repeats, "mdf_loop.loop(None, v < 9, x, body=...), whose body returns v < 9 first", 0.5),
    (both, "write np.logical_and(v > 0, v < 5)", 0.5),
    (negates, "write np.logical_not(v > 5)", 0.5),
    (between, "write np.logical_and(0 < v, v < 5)", 0.5),
    (one_of, "write np.logical_or(i == 0, i == 2)", 0.5),
    (asserts, "leave it out; to see v > 0, return it behind the carried values", 0.5),
    (prints, "to see v, return it behind the carried values", 0.5),
    (formats, "to see v, return it behind the carried values", 0.5),
    (length, "write np.shape(v)[0]", TWO),
    (unpacks, "write a, b = v[0], v[1]", TWO),
    (elements, "mdf_loop.scan(start, v, body=...)", TWO),
    (of_array, "make STIM a value of the body: def of_array(i, go, v, *, STIM=STIM)", 0.5),
    (of_list, "make WEIGHTS a value of the body: def of_list(i, go, v, *, k, WEIGHTS=WEIGHTS)", 0.5),
    (of_tuple, "make PAIR a value of the body: def of_tuple(i, go, v, *, PAIR=np.array(PAIR))", 0.5),
    (of_own_array, "make table a value of the body: def of_own_array(i, go, v, *, table=...)", 0.5),
    (sets_an_element, "make table a value of the loop before: table = table + np.sum(np.zeros_like(v)); table[i] = v works", 0.5),
    (fills, "a length is known before the loop: write a number in the place of i", 0.5),
    (outer, "write v[:, None] + v", TWO),
    (asks_a_helper, "write np.log(v)", 0.5),
]


@pytest.mark.parametrize(("function", "hint", "start"), HINTS, ids=[function.__name__ for function, _, _ in HINTS])
def test_the_error_says_what_to_write_for_this_line(function, hint, start):
    with pytest.raises(TracedBranch) as caught:
        read(function, start)
    said = str(caught.value).partition("only when the loop runs; ")[2] or str(caught.value).partition("cannot do; ")[2]
    assert hint in said
    for other in {"np.where", "mdf_loop.scan", "np.stack", "if_"}:  # and nothing that is for other lines
        assert other in hint or other not in said or function is does_more


FOLLOWED = [
    lambda i, go, v: (True, np.exp(v)),
    lambda i, go, v: (True, np.maximum(v, 0.25)),
    lambda i, go, v: (True, np.where(np.logical_and(v > 0, v < 1), v * 2, v)),
    lambda i, go, v: (np.logical_not(v > 5), v),
    lambda i, go, v: (True, v + np.logical_or(i == 0, i == 2)),
    lambda i, go, v, *, STIM=STIM: (True, v + STIM[i]),
    lambda i, go, v, *, WEIGHTS=WEIGHTS: (True, v + WEIGHTS[i]),
    lambda i, go, v: (True, np.sum(np.where(np.arange(3) == i, v, np.zeros(3)))),
    lambda i, go, v: (True, mdf_loop.loop(2, True, v, body=lambda k, go, x: (go, x + k))),
    lambda i, go, v: (True, mdf_loop.loop(np.trunc(v).astype(int), True, v, body=lambda k, go, x: (go, x + k))),
    lambda i, go, v: (True, mdf_loop.loop(None, v < 9, v, body=lambda k, go, x: (x * 2 < 9, x * 2))),
    lambda i, go, v: (True, mdf_loop.scan(0.0, np.stack([v, v]), body=lambda s, x: s + x, num_scan_inputs=1)),
]


@pytest.mark.parametrize("function", FOLLOWED)
def test_what_the_errors_advise_works(function):
    assert np.isfinite(read(function))


def test_a_function_whose_text_is_not_there_gets_the_usual_advice():
    made = {}
    exec("def shows(i, go, v):\n    return True, max(v, 1)", made)
    with pytest.raises(TracedBranch, match=re.escape(PYTHONS["__bool__"][1])):
        read(made["shows"])


@pytest.mark.parametrize(
    ("function", "numpys"),
    [
        (lambda v: v * v.size + v.ndim * v.shape[0], lambda v: v * v.size + v.ndim * v.shape[0]),
        (lambda v: np.isclose(v, [1.0, 1.0 + 1e-7]) * 1.0, lambda v: np.isclose(v, [1.0, 1.0 + 1e-7]) * 1.0),
        (lambda v: np.isclose(v, np.inf) + v, lambda v: np.isclose(v, np.inf) + v),
        (lambda v: divmod(v, 0.3)[0] + np.divmod(v, 0.3)[1], lambda v: v // 0.3 + v % 0.3),
    ],
)
def test_correct_numpy_code_is_read(function, numpys):
    for start in (np.ones(2), np.array([np.inf, 1.0])):
        with np.errstate(invalid="ignore"):
            wanted = numpys(start)
        with mdf_loop.options(engine="interpret"):
            np.testing.assert_array_equal(
                mdf_loop.loop(1, True, start, body=mdf_loop.body(lambda i, go, v: (True, function(v)))), wanted
            )


def test_an_attribute_that_a_value_does_not_keep_is_not_set_in_silence():
    def reshapes(i, go, v):
        v.shape = (2, 1)
        return True, v

    with pytest.raises(TracedBranch, match=re.escape("sets .shape, which a value does not keep; write np.reshape(x, shape)")):
        read(reshapes, TWO)


def out_of_range(i, go, v, *, w):
    half = v * 0.5
    return True, half + w[i]


def of_another_shape(i, go, v, *, w):
    half = v * 0.5
    longer = half + w
    return True, longer


def no_condition(i, go, v, *, w):
    return v + w, v


def several_conditions(i, go, v, *, w):
    return v + np.ones(3) < w[0], v


FAILING = [
    (out_of_range, 2, 0.5, "getitem 'getitem' failed on (float64[2], int64[]): IndexError: index 2 is out of bounds"),
    (of_another_shape, 2, np.ones(3), "add 'longer' failed on (float64[3], float64[2])"),
    (no_condition, 1, 0.5, "the body's condition must be one boolean"),
    (several_conditions, 1, 0.5, "the body's condition must be one boolean, a scalar or of shape [1]; got bool[3]"),
]


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
@pytest.mark.parametrize(("function", "line", "start", "said"), FAILING, ids=[each[0].__name__ for each in FAILING])
def test_errors_of_iterations_have_the_line_of_the_function(engine, function, line, start, said):
    with mdf_loop.options(engine=engine), pytest.raises(IterationError) as caught:
        read(function, start, w=np.ones(2))
    number = function.__code__.co_firstlineno + line
    assert f"of Loop: {__file__}, line {number}: " in str(caught.value)
    assert f": {said}" in str(caught.value)


def test_collected_values_and_inner_loops_have_their_lines_too():
    def collects(i, go, v):
        return True, np.concatenate([v, v]), v

    with pytest.raises(CollectedError, match=rf"line {collects.__code__.co_firstlineno + 1}: .*: collected output 'v' was"):
        read(collects, np.ones(1))

    def starts_another(i, go, v, *, w):
        def inner(k, go, u):
            return True, u + w[k]

        return True, mdf_loop.loop(3, True, v, body=inner)

    with pytest.raises(
        IterationError, match=rf"line {starts_another.__code__.co_firstlineno + 2}: 'return True, u \+ w\[k\]': getitem"
    ):
        read(starts_another, w=np.ones(2))


def test_memory_that_is_not_there_is_told_with_the_line():
    def grows(i, go, v):
        return True, np.repeat(v, 300)

    with pytest.raises(IterationError, match=rf"line {grows.__code__.co_firstlineno + 1}: .*numpy.repeat would have more"):
        mdf_loop.loop(60, True, np.ones(3), body=mdf_loop.body(grows))


def test_equations_have_their_lines_in_the_same_way():
    with pytest.raises(IterationError, match=re.escape("iteration 2 of Loop: equations/line 1: getitem 'k' failed")):
        mdf_loop.loop(4, True, 1.0, body="let k: w[i]\nx: x + k", w=np.ones(2))


def test_positional_parameters_with_defaults_are_captured_where_no_values_are_given():
    @mdf_loop.body
    def decays(i, go, v, rate=0.5, *, floor=0.0):
        return True, np.maximum(v * rate, floor)

    for call in (
        lambda **named: mdf_loop.loop(3, True, 1.0, body=decays, **named),
        lambda **named: mdf_loop.compile(decays)(3, True, 1.0, **named),
    ):
        assert (call(), call(rate=0.1, floor=0.01), call(floor=0.2)) == (0.125, 0.01, 0.2)


@pytest.mark.parametrize(
    ("function", "start", "said"),
    [
        (
            lambda i, go, v, w: (True, v + w),
            (1.0, 2.0),
            "a carried value is missing among the outputs: return the condition, v, w",
        ),
        (
            lambda i, go, v, w: (v < w, v + w),
            (1.0, 2.0),
            "a carried value is missing among the outputs: return the condition, v, w",
        ),
        (lambda i, go, v: v + 1, (1.0,), "if the condition is missing among the outputs: (go, ...) passes it through"),
        (lambda i, go, v: (1.5, v), (1.0,), "a body returns the condition first: return True, x"),
        (lambda v: (True, v), (1.0,), "the first inputs are the iteration number and the condition: def f(i, go, v)"),
        (lambda i, go, v: (k for k in (True, v)), (1.0,), " returns a generator; return the condition"),
        (lambda i, go, v: {"v": v}, (1.0,), "returns a dict; return the condition"),
        (lambda i, go, v: (True, v, np.ones(1) * v, i * v), (1,), None),
        (lambda i, go, v: (True, v + 0.5, v), (1,), "begin with a fraction: 1.0 for 1"),
    ],
)
def test_what_a_body_returns_or_takes_too_little_of_is_named(function, start, said):
    if said is None:
        assert len(read(function, *start)) == 3
        return
    with pytest.raises(LoopError) as caught:
        read(function, *start)
    assert said in str(caught.value)


def test_collected_fractions_that_become_whole_say_what_to_write():
    with pytest.raises(LoopError, match=r"write whole numbers as fractions: 0\.0 for 0"):
        mdf_loop.loop(5, True, 0.5, body="v: v + 1 if v < 3 else 0\ncollect d: v")


def test_a_generator_function_is_no_body():
    def gives(i, go, v):
        yield v

    with pytest.raises(KindError, match="gives is a generator: write return in the place of yield"):
        mdf_loop.body(gives)


def test_a_name_that_was_given_is_not_what_was_meant():
    with pytest.raises(MissingCapture) as caught:
        read(lambda i, go, v, *, w: (True, v * w), W=2.0)
    assert "'W' is given, and the body does not read it: which of the two is misspelt?" in str(caught.value)
    assert "did you mean" not in str(caught.value)


def test_unknown_inputs_of_a_model_list_what_it_takes():
    model = mdf_loop.prepare("examples/gallery/drift_diffusion.yaml")
    with pytest.raises(ArgumentError, match=r"called 'v9'; there are drift, bound, dt(\n|$)"):
        model(v9=3)


def test_functions_of_jax_have_the_names_that_users_wrote(in_64_bits):
    jax = pytest.importorskip("jax")

    @mdf_loop.body
    def race(i, go, v, u, *, drift):
        n = mdf_loop.body.noise()
        higher = v + drift * n + mdf_loop.body.uniform()
        return higher < 3, higher, u + 1, higher, n

    f = mdf_loop.to_jax(race, max_steps=4)
    found = f(M=3, v=np.float32(1), u=np.float32(2), drift=np.float32(0.1), key=jax.random.key(0))
    assert [*f.outputs] == ["v", "u", "higher", "n"]
    assert {*f.outputs} <= {*found}
    assert [*f.draws] == ["n", "uniform"]
    g = mdf_loop.to_jax("let k: noise()\nx: x + drift * noise() + k\ncollect path: x")
    g(M=3, x=np.float32(1), drift=np.float32(1), key=jax.random.key(0))
    assert ([*g.outputs], [*g.draws]) == (["x", "path"], ["k", "x"])
    with pytest.raises(KindError, match="'drift' must be a number or an array; got 'a'"):
        g(M=3, x=1.0, drift="a", key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="the loop takes no 'drfit'; did you mean 'drift'"):
        g(M=3, x=1.0, drfit=1.0, key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="to_jax: decorate exp with @mdf_loop"):
        mdf_loop.to_jax(exp)
