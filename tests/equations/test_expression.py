"""Expressions mean what Python and numpy mean by them; what is not on the list is refused, with its place."""

import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_groups import each
from samples_expression import SAMPLES

from mdf_loop.errors import LoopError, MalformedBody, UnsupportedOp
from mdf_loop.execute.interpret import InterpretedBody
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup
from mdf_loop.options import options, start_run
from mdf_loop.readers.expressions.expression import evaluated, read_expression
from mdf_loop.readers.expressions.expression_text import parse, variables
from mdf_loop.readers.expressions.values import BodyBuilder, Findings, NotCompiled, Number, Value

load_kernels()

VALUES = {
    "x": np.array([1.5, -2.0, 3.0]),
    "m": np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 4.0]]),
    "k": np.int64(2),
    "s": np.array(0.75),
    "n": np.array([3, 1, 2]),
    "f": np.array([1.5, 2.5, 0.1], np.float32),
}


def body_of(text, names=tuple(VALUES)):
    """The body of an expression over the values of these names."""
    builder = BodyBuilder(Findings(), names, (), 18)
    value = evaluated(text, {name: Value(name) for name in names}, builder, "A.y", ("g", "A", "y"))
    return check_body(builder.finish("g", [builder.array(value, "A.y")]))


def run(text, **values):
    """What an expression comes to."""
    values = values or VALUES
    with np.errstate(all="ignore"):
        return InterpretedBody(body_of(text, tuple(values)))([*values.values()], (), start_run())[0]


def python(text, values=VALUES):
    """What Python's eval and MDF make of it: whole floats are ints."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore", category=SyntaxWarning):
        value = eval(text, {"numpy": np, "np": np, "math": math, **values})
    return int(value) if type(value) is float and value.is_integer() else value


def assert_identical(actual, expected):
    """Same kind of value, element type and shape, and every bit the same."""
    if isinstance(expected, list | tuple):
        expected = np.array(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert isinstance(actual, np.ndarray | np.generic)
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    else:
        assert type(actual) is type(expected)
    np.testing.assert_array_equal(actual, expected)


ARITHMETIC = """
    x + s * (k - x); 7 / 2; 8 / 2; 7 // 2; -7 // 2; 7.0 // 2; -7 % 3; 2 ** 3; 2 ** -1; 2 ** 0.5; (-8) ** (1 / 3); x ** 2;
    k ** 2; x / k; n / 2; n // 2; n % 2; -x; +k; ~k; ~n; k << 2; n >> 1; k & 3; n | 1; k ^ 1; x @ x; m @ x; f * 2.0; f * 2;
    f * s; f + k; True + True; -2 ** 2; - - 3; 1e400; 0.1 + 0.2; 3; 2.5; 1j ** 2; 2 * 1.5; abs(-2.0); k + 1; 10 ** 20 + 1;
    x + x + x + x; (k * 2.0) + 1; numpy.pi * k; math.pi; math.tau - math.e; numpy.inf; - numpy.inf; nan
"""

LOGIC = """
    x > 0; k < 3; 1 < 2; 1 < k < 3; 3 > k > 5; 0 < k <= 2 != 3; k == 2; k != 2; not k; not 0; k and 3; 0 and 1 / 0;
    k or 1 / 0; 0 or 2.5; k > 1 and x[k] > 0; k > 5 and x[k + 5] > 0; k < 5 or x[9]; 1 if k > 1 else 2; 1.5 if k > 5 else x;
    1 / 0 if k > 5 else 7; x if k else 1 / 0; -1 if not k else (2 if s > 1 else 3); 0 < 1 < k / 2 < 2 < x[0]; 5 < 4 < 1 / 0
"""

INDEXING = """
    x[0]; x[-1]; x[k]; x[1:]; x[:k]; x[::-1]; x[k - 2::2]; m[0]; m[1, 2]; m[:, 1]; m[k - 1, :]; m[..., 0]; x[None];
    x[numpy.newaxis, :]; m[:, None, 0]; x[[0, 2]]; x[n - 1]; x[x > 0]; m[0][1]; [1, 2, 3]; [k, 1.5]; [[k, 1], [2, s]]; [x, x];
    [1, 2.5][1]; [k, x][0]; (1, k)[1]; numpy.shape(m)[1]; numpy.shape(x)[0] * 0.5; len(x); len([1, 2]); len(numpy.shape(m))
"""

FUNCTIONS = """
    numpy.exp(x); np.exp(x); numpy.exp(1); numpy.maximum(x, 0); numpy.sum(x); numpy.sum(m, axis=0); numpy.sum(m, 1);
    numpy.mean(m, axis=(0, 1)); numpy.sum(m, axis=-1, keepdims=True); numpy.std(x, ddof=1); numpy.max([k, 1, 5]);
    numpy.argmax(x); numpy.where(x > 0, x, 0); numpy.clip(x, 0, None); numpy.clip(x, -1, s); numpy.concatenate([x, x]);
    numpy.stack([x, x], axis=1); numpy.concatenate((m, m), 1); numpy.dot(m, x); numpy.outer(x, n); numpy.zeros(3);
    numpy.zeros((2, k)); numpy.ones([2]); numpy.zeros(2, dtype=int); numpy.array([k, 1, 2.5]); numpy.array([[1, 2], [3, 4]]);
    numpy.array(2); numpy.arange(k); numpy.eye(k); numpy.linspace(0, 1, 5); numpy.reshape(m, (3, 2)); numpy.reshape(m, -1);
    numpy.transpose(m); numpy.swapaxes(m, 0, 1); numpy.cumsum(x); numpy.cumsum(m, axis=1); numpy.roll(x, 1);
    numpy.round(x / 3, 1); numpy.float32(x); numpy.float32(1.1); numpy.add(2, 3); numpy.divide(1, 2); numpy.power(2, 3);
    numpy.abs(-3); numpy.less(1, 2); numpy.mod(x, 2); numpy.negative(3); math.sqrt(4); math.sqrt(k); math.exp(1);
    math.floor(2.7); math.ceil(s); math.atan2(1, k); math.hypot(3, 4); math.isnan(s); math.pow(2, 3); math.fmod(7, 4);
    abs(-2); abs(x); min(k, 3); min(3, k); max(1, 2.5); max(x); min([3, k, 1]); round(2.5); round(k / 3, 2); round(2.345, 1);
    sum(x); sum([1, k, s]); sum([x, x]); int(2.7); int(-2.7); float(k); float(3); bool(k); numpy.size(m); numpy.ndim(m);
    numpy.count_nonzero(x); numpy.linalg.norm(x); numpy.interp(s, x * 0 + n, x); numpy.isnan(x); numpy.full((2, 2), s);
    numpy.full_like(x, 2); numpy.zeros_like(n); numpy.ravel(m); numpy.squeeze(m[None]); numpy.flip(x);
    numpy.expand_dims(x, 0); numpy.expand_dims(x, axis=1); numpy.repeat(x, 2); numpy.tile(x, 2); numpy.take(x, n - 1);
    numpy.diag(x); numpy.logical_and(x > 0, n > 1); numpy.any(x > 2); numpy.all(x > 2); numpy.sort(x); numpy.hstack([x, n]);
    numpy.trace(m); numpy.linalg.inv(numpy.eye(2) + k); numpy.linalg.det(numpy.eye(2) + k);
    numpy.linalg.solve(numpy.eye(2) + k, numpy.ones(2))
"""


def listed(*lists):
    return [text.strip() for texts in lists for text in texts.split(";")]


@each("text", listed(ARITHMETIC, LOGIC, INDEXING, FUNCTIONS))
def test_an_expression_comes_to_what_python_says(text):
    assert_identical(run(text), python(text, VALUES | {"nan": np.nan}) if text == "nan" else python(text))


def operands():
    """Names and numbers."""
    numbers = st.one_of(st.integers(-3, 5), st.sampled_from([0.5, 1.5, 2.0, -0.25, 0.1]))
    return st.one_of(st.sampled_from(["x", "k", "s", "n", "f"]), numbers.map(lambda v: f"({v})"))


def expressions():
    """Texts of expressions of every kind; some of them fail, though not for shapes that do not go together."""

    def larger(inner):
        def joined(symbols):
            return st.tuples(inner, st.sampled_from(symbols), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")

        return st.one_of(
            joined(["+", "-", "*", "/", "//", "%"]),
            joined(["<", "<=", ">", ">=", "==", "!="]),
            joined(["and", "or"]),
            st.tuples(inner, st.integers(0, 3)).map(lambda t: f"({t[0]} ** {t[1]})"),
            st.tuples(st.sampled_from(["-", "not ", "abs", "numpy.tanh", "numpy.sum", "float", "numpy.sign"]), inner).map(
                lambda t: f"({t[0]}({t[1]}))"
            ),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} < {t[1]} < {t[2]})"),
            st.tuples(st.sampled_from(["min", "max", "numpy.maximum", "numpy.add"]), inner, inner).map(
                lambda t: f"{t[0]}({t[1]}, {t[2]})"
            ),
            st.tuples(inner, st.sampled_from(["0", "-1", "k", "::-1"])).map(lambda t: f"{t[0]}[{t[1]}]"),
        )

    return st.recursive(operands(), larger, max_leaves=8)


@settings(max_examples=400, deadline=None)
@given(expressions())
def test_any_expression_comes_to_what_python_says_or_fails_as_well(text):
    try:
        expected = python(text)
    except Exception:
        expected = None
    try:
        actual = run(text)
    except MalformedBody as error:
        if "a number has no elements" in str(error):
            return  # seen at once, even where Python would skip it
        raise
    except LoopError:
        actual = None
    if expected is None or actual is None:
        assert actual is expected is None, text
    else:
        assert_identical(actual, expected)


def test_an_expression_becomes_one_node_for_each_operation():
    body = body_of("x + dt * (inp - leak * x)", ("x", "dt", "inp", "leak"))
    assert str(body) == (
        "g (x, dt, inp, leak) => (A.y) {\n"
        "  A.y~2 = multiply (leak, x)\n"
        "  A.y~3 = subtract (inp, A.y~2)\n"
        "  A.y~4 = multiply (dt, A.y~3)\n"
        "  A.y = add (x, A.y~4)\n"
        "}"
    )
    assert all((node.domain, node.name) == ("mdf", "A.y") for node in body.nodes)


def test_numbers_of_python_stay_weak():
    assert run("f * 0.1 + 2").dtype == np.float32
    assert run("f * numpy.float64(0.1)").dtype == np.float64
    assert run("n * 2").dtype == np.int64


def test_a_float_of_python_without_a_fraction_becomes_an_int_as_in_mdf():
    assert [type(run(text)) for text in ("0.5 + 0.5", "0.5 + 0.25", "2 ** -1 * 2")] == [int, float, int]
    assert type(run("s + 0.25")) is np.float64
    assert run("1.0") == 1
    assert type(run("1.0")) is float  # the text of a number is that number


def test_what_python_would_skip_is_not_computed():
    (branch,) = [node for node in body_of("k > 5 and x[k + 5] > 0").nodes if node.op == "If"]
    assert [key for key, _ in branch.bodies] == ["then_branch", "else_branch"]
    assert [node.op for node in body_of("k > 1 and s < 2").nodes] == ["greater", "less", "and"]
    assert [node.op for node in body_of("1 if k > 1 else 2").nodes] == ["greater", "choose"]


def test_names_of_values_may_be_anything():
    values = {
        "a b": np.array(2.0),
        "x.11": np.array(3.0),
        "__import__('os')": np.array(4.0),
        "q\"'": np.array(5.0),
        "größe": np.array(6.0),
    }
    for name, value in values.items():
        assert run(name, **values) == value
    assert run("größe * 2", **values) == 12


def test_random_numbers_come_from_the_stream_of_the_run():
    with options(seed=3):
        first, second = run("numpy.random.normal(0, 1, 3)"), run("numpy.random.normal(0, 1, 3)")
    np.testing.assert_array_equal(first, second)
    assert first.shape == (3,)
    for text in ("numpy.random.rand()", "numpy.random.randn(2)", "numpy.random.uniform(1, 2)"):
        assert np.all(np.isfinite(run(text)))


REFUSED = {
    "x.sum()": "column 1: calls of anything but functions of numpy, math and Python",
    "k + ().__class__": "column 5: the attribute .__class__",
    "x.T": "column 1: the attribute .T",
    "numpy.linalg": "the attribute .linalg",
    "lambda: 1": "column 1: Lambda",
    "[i for i in x]": "ListComp",
    "{**x}": "\\*\\* in a dict",
    "f'{x}'": "JoinedStr",
    "x is None": "in, is and their negations",
    "k in x": "in, is and their negations",
    "open('f')": "calls of anything but functions",
    "__import__('os').system('true')": "calls of anything but functions",
    "(lambda: x)()": "calls of anything but functions",
    "numpy.sum(*x)": "column 11: Starred",
    "numpy.sum(x, **x)": r"\*\* in a call",
    "'text'": "column 1: a text is not a value",
    "b'text'": "bytes values",
    "x +* 2": "column 4: invalid syntax",
    "x[0": "was never closed",
    "": "invalid syntax",
    "unknown + 1": "column 1: there is no value 'unknown' here; there are 'x', 'm'",
    "None + 1": "NoneType is not a number or array",
    "numpy.exp(x, x)": r"numpy.exp\(x, /\) is called with other arguments: too many positional",
    "numpy.sum(x, out=x)": "unexpected keyword argument 'out'",
    "numpy.sum(x, 0, 1)": "too many positional arguments",
    "numpy.swapaxes(x, 0)": "missing a required argument: 'axis2'",
    "numpy.stack(x)": "takes a list that is written out",
    "numpy.zeros(2, dtype=object)": "dtype must be numbers or booleans",
    "numpy.zeros(2, dtype=x)": "dtype must name an element type",
    "numpy.exp": "must be called",
    "numpy.add(1)": "takes 2 arguments here",
    "min()": "min takes 1 arguments, not 0",
    "[1, [2, 3]]": "a list is ragged: its rows do not have the same length",
    "[1, 2][5]": "there is no element 5",
    "[x, 2][k]": None,
    "1[0]": "a number has no elements",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_on_the_list_is_refused_with_its_place(text):
    if REFUSED[text] is None:
        with pytest.raises(NotCompiled):
            run(text)
        return
    with pytest.raises(MalformedBody, match=REFUSED[text]) as caught:
        run(text)
    assert "A.y" in str(caught.value) or caught.value.path == ("g", "A", "y")


@pytest.mark.parametrize("text", ["numpy.load('f')", "numpy.sum.reduce(x)", "math.factorial(3)", "numpy.linalg.pinv(m)"])
def test_functions_without_a_kernel_are_unsupported(text):
    with pytest.raises((UnsupportedOp, MalformedBody), match=r"not among the functions|calls of anything"):
        run(text)


@pytest.mark.parametrize("text", ["[1, 2] * 2", "(1, 2) + (3,)", "numpy.shape(x) * 2", "numpy.sum(m, axis=k)", "{1: 2}[k]"])
def test_what_only_python_can_do_is_not_compiled(text):
    with pytest.raises(NotCompiled):
        run(text)


HOSTILE = {
    "parentheses": "(" * 5000 + "x" + ")" * 5000,
    "signs": "-" * 50000 + "1",
    "long sum": "+".join(["1"] * 30000),
    "too long": "x" * 1_000_000,
    "lists": "[" * 90 + "]" * 90,
    "power": "10 ** 10 ** 10",
    "power of powers": "**".join(["9"] * 50),
    "shift": "1 << 10 ** 10",
    "subscripts": "x" + "[0]" * 2000,
    "comparisons": "<".join(["1"] * 3000),
    "conditions": " if x else ".join(["1"] * 1000),
    "attributes": "x" + ".a" * 20000,
    "digits": "9" * 5000 + " + 1",
    "null": "x + \x00",
    "surrogate": "x + \ud800",
    "calls": "abs(" * 300 + "x" + ")" * 300,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused_before_work_grows(name):
    """Each of them is so long, deep or large that evaluating it would take minutes, or end the process."""
    with pytest.raises(LoopError):
        run(HOSTILE[name])


def test_a_long_sum_is_no_problem():
    assert run("+".join(["k"] * 500)) == 1000


def test_variables_are_the_names_that_are_read():
    assert sorted(set(variables(parse("numpy.sum(a) + max(b, c[i]) * math.pi")))) == ["a", "b", "c", "i"]


def test_whether_a_value_may_be_a_number_of_python_is_known():
    builder = BodyBuilder(Findings(), ("x",), (), 18)
    expected = {
        "x + 1": 0,
        "1 + 2": 2,
        "1 / 2": 3,
        "x > 1": 0,
        "1 < 2": 1,
        "numpy.exp(1)": 0,
        "math.exp(x)": 3,
        "len(x)": 2,
        "not x": 1,
    }
    for text, number in expected.items():
        assert read_expression(text, {"x": Value("x")}, builder, "y").number == Number(number), text


def test_bodies_of_expressions_can_be_pickled():
    body = body_of("x[k:] + m[0, 1:] * numpy.sum(x, axis=0)")
    assert str(pickle.loads(pickle.dumps(body))) == str(body)


@each("number", range(len(SAMPLES)), size=1000)
def test_kernels_with_a_rule_give_numpy_values_for_numpy_values(number):
    op, version, inputs, attrs = SAMPLES[number]
    entry = lookup(op.removeprefix("mdf::"), version, "mdf")
    if entry.batch is None or not all(isinstance(v, np.ndarray | None) for v in inputs):
        return
    with np.errstate(all="ignore"):
        assert isinstance(entry.run(*inputs, **attrs), np.ndarray | np.generic)
