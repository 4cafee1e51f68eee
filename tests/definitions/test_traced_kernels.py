"""A user's kernel is its definition: every engine gives what calling it in every iteration gives, and it is called only once."""

import functools
import itertools
import math
import time

import numpy as np
import pytest
from definitions import numbers_of
from engines import ENGINES
from equivalence import outcome
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.ir import Node
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.closed_kernels import is_closed
from mdf_loop.ops.registry import bind, lookup
from mdf_loop.step.build import Builder, CannotLower
from mdf_loop.step.records import Type
from mdf_loop.step.trace import traced
from tests.fuzz.outcome import compare, to_the_bit

load_kernels()
DOMAIN = "traced.kernels"


def gain(x, *, by=0.5):
    return x - x.dtype.type(by) * x


def threshold(x, y):
    return np.where(x > y, x, np.minimum(y, 0))


def clipped(x, y):
    return np.clip(x, -2, 2) + np.maximum(y, 1)


def curved(x, y):
    return np.tanh(x) * np.exp(-np.abs(y)) + np.log1p(x * x)


def powers(x):
    return x**2 + 3 * x - 1 / (1 + x * x)


def total(x):
    return x.sum(axis=-1, keepdims=True) - x.max() + x.min()


def moments(x):
    return (x - x.mean(axis=0)) / (np.std(x, axis=0) + 1)


def several(x, y):
    larger = np.maximum(x, y)
    return larger, x < y, np.argmax(larger)


def by_type(x):
    if x.ndim > 1:
        x = x[::-1].T
    return x.astype(np.float64) / x.dtype.itemsize if x.dtype == np.float32 else x + x.size


def _half(x):
    return x / 2


def helped(x, y=None):
    halves = [_half(part) for part in (x, x if y is None else y)]
    return halves[0] * halves[1]


def branches(x):
    return x if np.all(x > 0) else -x


def outer(x, y):
    return np.outer(x, y).reshape(-1)[: x.size * 2] @ np.ones(2 * x.size, x.dtype)


def indexed(x):
    return x[..., None, :1] + x[None, ::-1, ..., 0] if x.ndim == 2 else x[None] * x[..., None]


def shaped(x):
    flat = np.concatenate([x.ravel(), x.ravel()[::-1]])
    flat = np.stack([flat, flat * 2], axis=1)
    return np.squeeze(flat[:, :1]).reshape(2, -1).transpose()


def reduced(x):
    whole = np.add.reduce(x, None, None, None, True) - np.maximum.reduce(x, axis=None)
    return whole + np.minimum.reduce(x, 0, initial=1) + np.multiply.reduce(x, -1, keepdims=True)


def masked(x, y):
    return np.divide(x, y, out=np.zeros_like(x / 1), where=y != 0)


def logic(x, y):
    return np.logical_and(x != 0, ~np.isnan(y * 1.0)) | np.isinf(x / 2)


def running(x):
    return np.cumsum(x, axis=0) - np.flip(x, axis=0)


def in_place(x):
    x = x * 2
    x += 1
    return x


def grown(x):
    y = x * 2
    z = y
    y += x
    y *= 2
    return z - y.copy(), y


def viewed(x):
    y = x * 2
    z = y.reshape(-1)
    y += x
    return z


def caught(x):
    try:
        return x + float(x)
    except TypeError:
        return x * 0


def guarded(x):
    try:
        return x - np.maximum.reduce(x, axis=1, keepdims=True)
    except ValueError:
        return x * 2


UNARY = [guarded, gain, powers, total, reduced, moments, by_type, branches]
UNARY += [indexed, shaped, running, in_place, caught, helped, grown, viewed]
BINARY = [masked, threshold, clipped, curved, several, outer, logic, helped]
NEAR = {curved, moments, total, reduced, outer}
"""Kernels that call functions such as exp, or add floats up."""

ADDS_UP = {total, reduced, moments, outer}
UNTRACED = {branches, caught, viewed}
"""Kernels that are called in every iteration, whatever the types are."""

CASES = [(k, 1) for k in UNARY] + [(k, 2) for k in BINARY]
IDS = [f"{k.__name__}{n}" for k, n in CASES]

for _kernel, _n in CASES:
    mdf_loop.kernel(f"{_kernel.__name__}{_n}", domain=DOMAIN)(_kernel)

TYPES = {"float": np.float32, "double": np.float64, "int64": np.int64, "bool": np.bool_}
OUTPUTS = {several: 3, grown: 2}


def body_of(kernel, type, shape, n_inputs, attrs=""):
    dims = f"[{','.join(map(str, shape))}]" if shape else ""
    names = [f"y{k}" for k in range(OUTPUTS.get(kernel, 1))]
    op = f"{DOMAIN}.{kernel.__name__}{n_inputs}{attrs}"
    return f"""<ir_version: 8, opset_import: ["" : 18, "{DOMAIN}" : 1]>
    law (int64 i, bool go, {type}{dims} x) => (bool go, {type}{dims} x_out, {", ".join(names)}) {{
        x_out = Gather (table, i)
        {", ".join(names)} = {op} (x{", x_out" * (n_inputs == 2)})
    }}"""


def close(actual, expected, where):
    """Three units in the last place, of what is added up."""
    if expected.dtype.kind != "f":
        return to_the_bit(actual, expected, where)
    scale = np.finfo(expected.dtype).eps * 4
    return np.testing.assert_allclose(actual, expected, rtol=scale, atol=16 * scale, err_msg=where)


def assert_law(kernel, type, shape, n_inputs, count, seed=0, numbers=None, attrs=""):
    """Every engine is the kernel called in every iteration."""
    dtype = np.dtype(TYPES[type])
    size = max(count, 1) * math.prod(shape)
    table = np.resize(np.random.default_rng(seed).permutation(numbers_of(dtype, 40, seed)), (max(count, 1), *shape))
    table = np.resize(numbers, table.shape).astype(dtype) if numbers is not None else table
    assert table.size == size
    body = body_of(kernel, type, shape, n_inputs, attrs)

    def call():
        return mdf_loop.loop(count, True, table[0] if shape else dtype.type(table[0]), body=body, table=table)

    expected, same = outcome("interpret", call), close if kernel in NEAR or kernel.__name__ == "squared" else to_the_bit
    for engine, _ in itertools.product([e for e in ENGINES if e != "interpret"], range(2)):
        compare(outcome(engine, call), expected, f"{kernel.__name__} {engine}", same)


@pytest.mark.parametrize("shape", [(), (2, 9)], ids=str)
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(("kernel", "n_inputs"), CASES, ids=IDS)
def test_every_engine_is_the_kernel_called_in_every_iteration(kernel, n_inputs, type, shape):
    tame = np.array([0.5, -1.25, 3, 0, -2, 7, 1.5, -0.75, 2, 11, -5])
    for count in (0, 1, 2, 70):
        assert_law(kernel, type, shape, n_inputs, count, numbers=tame)
    if kernel not in ADDS_UP:
        assert_law(kernel, type, shape, n_inputs, 70)


# Compositions

EXACT_1 = ("negative", "absolute", "sqrt", "floor", "ceil", "trunc", "rint", "sign", "square", "isnan", "isfinite", "logical_not")
EXACT_2 = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "copysign", "heaviside", "fmod"),
    *("less", "greater_equal", "equal", "not_equal", "logical_and", "logical_xor", "floor_divide", "remainder"),
)


def expressions(depth):
    leaves = st.sampled_from(["x", "y", "x", "y", "2", "0.5", "-1", "True", "np.float32(1.5)", "x.dtype.type(3)", "np.pi"])
    if not depth:
        return leaves
    part, operators = expressions(depth - 1), st.sampled_from(["+", "-", "*", "/", "<", ">=", "==", "//", "%"])
    return st.one_of(
        leaves,
        st.builds(lambda f, a: f"np.{f}({a})", st.sampled_from(EXACT_1), part),
        st.builds(lambda f, a, b: f"np.{f}({a}, {b})", st.sampled_from(EXACT_2), part, part),
        st.builds(lambda f, a, b: f"({a} {f} {b})", operators, part, part),
        st.builds(lambda c, a, b: f"np.where({c}, {a}, {b})", part, part, part),
        st.builds(lambda a, b: f"np.clip({a}, {b}, 3)", part, part),
        st.builds(lambda a, t: f"({a} + x).astype(np.{t})", part, st.sampled_from(["float32", "float64", "bool_"])),
        st.builds(lambda a: f"(x + {a})[..., None][..., 0]", part),
        st.builds(lambda a, n: f"({a} * x) ** {n}", part, st.just(2)),
    )


@settings(deadline=None, max_examples=100)
@given(
    expressions(3).filter(lambda text: "x" in text.replace("np.max", "")),
    st.sampled_from([*TYPES]),
    st.sampled_from([(), (1,), (3,), (2, 5)]),
    st.sampled_from([0, 1, 2, 33]),
    st.integers(0, 9),
    st.booleans(),
)
def test_a_composition_of_functions_is_the_same_on_every_engine(text, type, shape, count, seed, is_tame):
    function = eval(f"lambda x, y: np.add({text}, np.bool_(0))", {"np": np})
    function.__name__ = "squared" if "**" in text else "composed"  # numpy's powers of single numbers are not those of arrays
    mdf_loop.kernel(f"{function.__name__}2", domain=DOMAIN)(function)
    numbers = np.array([0.5, -1.25, 3, 0, -2, 7, 1.5, -0.75, 2, 11, -5]) if is_tame else None
    assert_law(function, type, shape, 2, count, seed, numbers)


# Which kernels are traced


def step_of(kernel, *types, **attrs):
    """The Step of a kernel; CannotLower if it has none."""
    names = tuple(f"x{k}" for k in range(len(types)))
    node = Node(f"{kernel.__name__}{len(types)}", names, ("y",), attrs, domain=DOMAIN, opset=1)
    entry = lookup(node.op, 1, DOMAIN)
    if not is_closed(entry, bind(node).keywords):
        raise CannotLower("it reads what may change")
    b = Builder()
    return b.closed(traced(entry.run, b, [b.param(type, k) for k, type in enumerate(types)], bind(node).keywords))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("kernel", "n_inputs"), CASES, ids=IDS)
def test_a_kernel_has_a_step_unless_it_looks_at_values(kernel, n_inputs, dtype):
    types = [Type(np.dtype(dtype), (2, 3))] * n_inputs
    if kernel in UNTRACED:
        with pytest.raises(CannotLower):
            step_of(kernel, *types)
    else:
        assert all(value.op != "apply" for value in step_of(kernel, *types).values)


# What a function does besides computing is not lost


calls = []
scale = 2.0


def _noted(x):
    calls.append(len(calls))
    return x + len(calls)


def _of_a_default(x, seen=[]):  # noqa: B006
    seen += [1]
    return x + len(seen)


def _of_a_global(x):
    return x * scale


def _of_time(x):
    return x + time.monotonic() * 0


def _printed(x):
    print("seen")
    return x


def _of_numpys_stream(x):
    return x + np.random.normal(size=1)[0]


def _of_its_own_attribute(x):
    _of_its_own_attribute.count = getattr(_of_its_own_attribute, "count", 0) + 1
    return x + _of_its_own_attribute.count


def _of_a_cell():
    count = 0

    def counted(x):
        nonlocal count
        count += 1
        return x + count

    return counted


def _of_a_table():
    table = {"n": 0}

    def counted(x):
        table["n"] += 1
        return x + table["n"]

    return counted


def _of_identity(x, y):
    return x if x is y else x + 1


def _of_memory(x):
    return x + np.empty(1)[0] * 0


def _imported(x):
    import random

    return x + random.random()


def _by_class(x):
    return x + 1 if isinstance(x, np.ndarray | np.generic) else x


class _Counter:
    n = 0

    def __call__(self, x):
        self.n += 1
        return x + self.n


STATEFUL = [
    *(
        _noted,
        _of_a_default,
        _of_a_global,
        _of_time,
        _printed,
        _of_numpys_stream,
        _of_its_own_attribute,
        _of_a_cell(),
        _of_a_table(),
    ),
    *(_of_memory, _imported, _by_class, _Counter(), functools.partial(_noted), functools.lru_cache(gain), _of_identity),
]


@pytest.mark.parametrize("function", STATEFUL, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_a_kernel_that_reads_more_than_its_arguments_is_called_in_every_iteration(function):
    mdf_loop.kernel("Stateful", domain=DOMAIN)(function)
    assert not is_closed(lookup("Stateful", 1, DOMAIN), {})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_counter_counts_every_iteration(engine):
    mdf_loop.kernel("Counted", domain=DOMAIN, pure=False)(_noted)
    text = f'''<ir_version: 8, opset_import: ["" : 18, "{DOMAIN}" : 1]>
        count (int64 i, bool go, double x) => (bool go, double y) {{ y = {DOMAIN}.Counted (x) }}'''
    with mdf_loop.options(engine=engine):
        calls.clear()
        assert mdf_loop.loop(50, True, 0.0, body=text) == 50 * 51 / 2
        assert len(calls) == 50


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_that_is_written_again_is_used_from_the_next_run_on(engine, monkeypatch):
    body = mdf_loop.compile(body_of(helped, "double", (), 1))
    table = np.arange(9.0)
    with mdf_loop.options(engine=engine):
        for _ in range(3):
            assert body(9, True, 2.0, table=table)[1][2] == 0.25
        monkeypatch.setitem(globals(), "_half", lambda x: x * 3)
        assert body(9, True, 2.0, table=table)[1][2] == 9.0


@pytest.mark.parametrize("engine", ENGINES)
def test_attributes_and_prepared_values_are_constants(engine):
    mdf_loop.kernel("Prepared", domain=DOMAIN, prepare=lambda *, values: np.array(values, np.float64))(
        lambda x, *, prepared: x @ prepared
    )
    node = f"{DOMAIN}.Prepared <values = [1.0, 2.0]>"
    text = f'''<ir_version: 8, opset_import: ["" : 18, "{DOMAIN}" : 1]>
        product (int64 i, bool go, double[2] x) => (bool go, double[2] y) {{ s = {node} (x) y = Add (x, s) }}'''
    with mdf_loop.options(engine=engine):
        np.testing.assert_array_equal(mdf_loop.loop(3, True, np.array([1.0, 1.0]), body=text), [64.0, 64.0])
    assert_law(gain, "float", (3,), 1, 20, attrs=" <by = 0.25>")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_kernel_that_counts_in_what_was_prepared_still_does(engine):
    def counted(x, *, prepared):
        prepared += 1.0
        return x + prepared

    mdf_loop.kernel("Counting", domain=DOMAIN, prepare=lambda: np.zeros(1))(counted)
    text = f"""<ir_version: 8, opset_import: ["" : 18, "{DOMAIN}" : 1]>
        count (int64 i, bool go, double[1] x) => (bool go, double[1] y) {{ y = {DOMAIN}.Counting (x) }}"""
    with mdf_loop.options(engine=engine):
        np.testing.assert_array_equal(mdf_loop.loop(40, True, np.zeros(1), body=text), [40 * 41 / 2])
