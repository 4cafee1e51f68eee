"""What messages tell people to write gives the number that they meant: in MATLAB, R, PyTorch or Python."""

import math
import re
import types
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError, LoopWarning
from tests.equations.test_words_of_equations import written

X = np.array([-3.0, 0.5, 2.0])
W = np.eye(3) * 2
torch = types.ModuleType("torch")
torch.tanh = zlib.crc32  # a function in C that takes no values of a loop


def in_equation(text, **given):
    """What an equation gives, with X."""
    return mdf_loop.loop(1, True, 0, X, body=f"made: {text}\nx: x", **given)[0]


def cure_of(text, **given):
    """What the error for an equation says to write."""
    with pytest.raises(LoopError) as caught:
        in_equation(text, **given)
    said = str(caught.value)
    if other := re.search(r"did you mean '(\w+)'\?$", said):
        return re.sub(r"^\w+", other[1], text)
    return re.search(r"; write (.*)$", said)[1]


def phi(x):
    return [(1 + math.erf(each / math.sqrt(2))) / 2 for each in x]


MEANT = {
    "sd(x)": np.std(X, ddof=1),
    "rem(x, 2)": [-1.0, 0.5, 0.0],
    "fix(x)": [-3.0, 0.0, 2.0],
    "numel(x)": 3,
    "length(x)": 3,
    "c(1, 2)": [1, 2],
    "clamp(x, 0, 1)": [0, 0.5, 1],
    "inv_logit(x)": 1 / (1 + np.exp(-X)),
    "logit(x / 9 + 0.5)": np.log((X / 9 + 0.5) / (0.5 - X / 9)),
    "inverse(diag(x))": np.diag(1 / X),
    "logsumexp(x)": np.log(np.sum(np.exp(X))),
    "categorical(array([0.0, 0.0, 1.0, 0.0]))": 2,
    "normal_rng(2.5, 0.0)": 2.5,
    "normal_lpdf(x, 1, 2)": np.log(np.exp(-((X - 1) ** 2) / 8) / (2 * np.sqrt(2 * np.pi))),
    "normal_lpdf(x | 1, 2)": np.log(np.exp(-((X - 1) ** 2) / 8) / (2 * np.sqrt(2 * np.pi))),
    "Phi(x - 1)": phi(X - 1),
    "pmax(x, 0)": [0.0, 0.5, 2.0],
    "rep(x, 2)": [*X, *X],
    "repmat(x, 2)": [*X, *X],
    "dnorm(x)": np.exp(-(X**2) / 2) / np.sqrt(2 * np.pi),
    "normpdf(x - 1, 1 + 1, 1 + 1)": np.exp(-((X - 3) ** 2) / 8) / (2 * np.sqrt(2 * np.pi)),
    "pnorm(x)": phi(X),
    "normcdf(x, 1, 2)": phi((X - 1) / 2),
    "factorial(x + 3)": [math.gamma(each + 4) for each in X],
    "beta(x + 4, 2)": [math.gamma(each + 4) * math.gamma(2) / math.gamma(each + 6) for each in X],
    "nchoosek(7, x + 4)": [math.gamma(8) / math.gamma(each + 5) / math.gamma(4 - each) for each in X],
    "ndtr(x - 1)": phi(X - 1),
    "log_ndtr(x - 1)": np.log(phi(X - 1)),
    "xlogy(x + 3, x + 4)": [0.0, 3.5 * math.log(4.5), 5 * math.log(6)],
    "softplus(x)": np.log1p(np.exp(X)),
    "log_softmax(x)": X - np.log(np.sum(np.exp(X))),
    "sech(x)": 1 / np.cosh(X),
    "cot(x)": 1 / np.tan(X),
    "quantile(x, 0.3)": np.quantile(X, 0.3),
    "prctile(x, 30)": np.percentile(X, 30),
    "cor(x, x ** 2)": np.corrcoef(X, X**2)[0, 1],
    "cov(x, x ** 2)": np.cov(X, X**2)[0, 1],
    "cross(x, x ** 2)": np.cross(X, X**2),
    "isclose(x, 0.500001)": [False, True, False],
}


@pytest.mark.parametrize("text", MEANT)
@pytest.mark.filterwarnings("ignore::mdf_loop.errors.LoopWarning")
def test_functions_of_matlab_and_r_lead_to_the_same_number(text):
    assert np.allclose(in_equation(cure_of(text)), MEANT[text])


@pytest.mark.parametrize(
    "text",
    [
        "cov(x)",
        "cor(x)",
        "beta(x)",
        "quantile(x)",
        "xlogy(x)",
        "logsumexp(x, axis=0)",
        "log_softmax(x, 0)",
        "cov(x, x, 0)",
        "sd()",
    ],
)
def test_a_formula_that_would_leave_an_argument_out_or_lacks_one_is_not_shown(text):
    with pytest.raises(LoopError) as caught:
        in_equation(text)
    assert "; write" not in str(caught.value)


@pytest.mark.parametrize("name", ["kron", "qnorm", "mode", "crossprod", "rbinom", "corrcoef"])
def test_no_function_is_better_than_another_one(name):
    with pytest.raises(LoopError) as caught:
        in_equation(f"{name}(x, 2)")
    assert "did you mean" not in str(caught.value)
    assert "; write" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "cure"),
    [
        ("x: x .^ 2", "a power is **"),
        ("x: A\\x", "write solve(A, b)"),
        ("x: zeros(2, 1)", "several lengths are in brackets: zeros((m, 1))"),
        ("x: x'", "A.T if it is a transpose"),
        ("x: x ~= 0", "~= is written !="),
        ("x: s[end]", "the last element is x[-1]"),
        ("x: 1:3", "1:3 is written arange(first, last + 1)"),
        ("x: [1 2; 3 4]", "write the rows of a matrix in brackets: [[1, 2], [3, 4]]"),
        ("x: x + Inf", "it is written inf"),
        ("x: NaN", "it is written nan"),
        ("x: x + 1 % a comment", "write a comment behind #"),
        ("dxdt: -x", "a derivative is written derivatives: {x: ...}"),
        ("xdot: -x", "a derivative is written derivatives: {x: ...}"),
        ("x: x + t", "a time is carried: t: t + dt"),
        ("x: normal(0, 1, 3)", "add zeros(n) to one"),
    ],
)
def test_notations_of_matlab_and_r_have_cures(body, cure):
    with pytest.raises(LoopError, match=re.escape(cure)):
        mdf_loop.loop(3, True, 1.0, body=body, dt=0.1)


@pytest.mark.parametrize("text", ["x ^ k", "i + 2 ^ k", "x ^ 2 + k", "x ^ (2 + k)"])
def test_a_power_of_other_languages_is_refused_in_equations(text):
    for body in (f"x: {text}", f"let y: {text}\nx: y", f"dx/dt: {text}", f"x: x\ncollect y: {text}"):
        with pytest.raises(LoopError, match=r"\^ is the exclusive or of whole numbers, bitwise_xor.* a power is written \*\*"):
            mdf_loop.loop(2, True, 2, body=body, k=3, dt=1)


def test_the_exclusive_or_stays_by_its_name_and_of_truth_values():
    assert mdf_loop.loop(1, True, 6, body="x: bitwise_xor(x, k)", k=3) == 5
    assert mdf_loop.loop(1, True, 6, body="x: (x > 1) ^ (not k > 2)", k=3) == 1
    assert mdf_loop.loop(1, True, 6, body="x: isnan(x) ^ (k > 2)", k=3) == 1


@pytest.mark.parametrize(
    ("function", "start"),
    [
        (lambda i, go, x: (go, x ^ 2), 2),
        (lambda i, go, x: (go, i + 2 ^ x), 2),
        (lambda i, go, x: (go, mdf_loop.loop(2, True, x, body=lambda k, g, y: (g, y ^ 3))), 2),
    ],
)
def test_a_power_of_other_languages_is_warned_of_in_functions(function, start):
    with pytest.warns(LoopWarning, match=r"np\.bitwise_xor\(a, b\); a power is written \*\*") as found:
        mdf_loop.loop(2, True, start, body=mdf_loop.body(function))
    assert len(found) == 1


@pytest.mark.filterwarnings("error")
def test_truth_values_and_names_are_not_warned_of_in_functions():
    assert mdf_loop.loop(1, True, 6, body=mdf_loop.body(lambda i, go, x: (go, np.bitwise_xor(x, 3)))) == 5
    assert mdf_loop.loop(1, True, 6, body=mdf_loop.body(lambda i, go, x: (go, x ^ (x << 1)))) == 10
    both = mdf_loop.loop(1, True, True, False, body=mdf_loop.body(lambda i, go, x, y: (go, x ^ y, y ^ True)))
    assert [*map(bool, both)] == [True, True]


def in_node(parameters, output="a", body=None):
    parameters = {name: value if isinstance(value, dict) else {"value": value} for name, value in parameters.items()}
    return {"m": {"graphs": {"g": {"nodes": {"n": {"parameters": parameters, "output_ports": {"o": {"value": output}}}}}}}}


@pytest.mark.parametrize(
    ("parameters", "output", "name"),
    [
        ({"v": 3, "k": 2, "a": "v ^ k"}, "a", "a"),
        ({"v": 3, "k": 2}, "v + 2 ^ k", "o"),
        ({"v": 3, "k": 2, "a": {"function": "linear", "args": {"variable0": "v ^ k", "slope": 1, "intercept": 0}}}, "a", "a"),
    ],
)
def test_a_power_of_other_languages_is_warned_of_in_mdf(tmp_path, parameters, output, name):
    path = written(tmp_path, in_node(parameters, output))
    with pytest.warns(LoopWarning, match=rf"n\.{name}: .*\^ is the exclusive .*numpy\.bitwise_xor.* a power is written \*\*"):
        mdf_loop.run(path)
    assert any("a power is written **" in found.message for found in check(path))


def test_the_exclusive_or_of_mdf_is_not_warned_of(tmp_path):
    parameters = {"v": 3, "k": 2, "a": "numpy.bitwise_xor(v, k)", "b": "(v > 1) ^ (k > 2)"}
    path = written(tmp_path, in_node(parameters, "a + b"))
    assert not check(path)


def looped(body, metadata=None, **parameters):
    run = {"function": "onnx::Loop", "args": {"M": 3, "body": "body", "x": "x"}}
    about = {"value": body, "metadata": metadata} if metadata else {"value": body}
    return in_node({"x": 1.0, **parameters, "run": run, "body": about}, "run.x")


@pytest.mark.parametrize(
    ("body", "cure"),
    [
        ({"carried": {"x": "x + 1 % comment"}}, "% is the remainder, and a comment begins with #"),
        ({"carried": {"dxdt": "-x"}}, "a derivative is written derivatives: {x: ...}"),
    ],
)
def test_comments_and_derivatives_of_matlab_in_a_file(tmp_path, body, cure):
    path = written(tmp_path, looped(body))
    with pytest.raises(LoopError, match=re.escape(cure)):
        mdf_loop.run(path)
    assert any(cure in found.message for found in check(path))


@pytest.mark.parametrize("step", [0, -0.1])
@pytest.mark.parametrize("within", [False, True])
def test_a_step_that_is_not_positive_is_named_before_the_run(tmp_path, step, within):
    body = {"carried": {"x": "x - x * dt"}} | ({"let": {"dt": str(step)}} if within else {})
    path = written(tmp_path, looped(body, **({} if within else {"dt": step})))
    said = f"dt, the length of a step, is {step}, so {'time runs backwards' if step else 'nothing changes'}"
    with pytest.warns(LoopWarning, match=re.escape(said)):
        mdf_loop.run(path)
    assert any(said in found.message for found in check(path))


def test_units_of_a_name_that_is_not_there(tmp_path):
    path = written(tmp_path, looped({"carried": {"x": "x + rate"}}, {"units": {"x": "mV", "rate": "Hz"}}, rate=1.0))
    assert not check(path)
    path = written(tmp_path, looped({"carried": {"x": "x + 1"}}, {"units": {"xx": "Hz"}}))
    (found,) = check(path)
    assert "its units are those of 'xx', which the body does not have; did you mean 'x'?" in found.message


def test_a_parameter_of_a_fit_that_is_not_there_is_named_before_its_bounds():
    with pytest.raises(LoopError, match="the model has no input called 'thresh'"):
        mdf_loop.fit("examples/drift_diffusion.yaml", {"correct": [1.0, 0.0]}, over={"thresh": (2, 0.5)})


def test_constants_of_a_network_say_how_they_are_set():
    model = mdf_loop.prepare(Path(__file__).parents[1] / "models" / "for_ts.onnx")
    with pytest.raises(AttributeError, match=r"constants of a model of ONNX or OpenVINO are fixed: mdf_loop\.convert"):
        _ = model.constants


PYTHONS = {
    "or": (lambda i, go, x: (go, x or 1.0), lambda x: x or 1.0),
    "several or": (lambda i, go, x: (go, x - 2.5 or 0.0 * x or 7.0), lambda x: x - 2.5 or 0.0 * x or 7.0),
    "and": (lambda i, go, x: (go, (x and 3.0) + 1), lambda x: x and 3.0),
    "several and": (lambda i, go, x: (go, x and x - 2.5 and 3.0), lambda x: x and x - 2.5 and 3.0),
    "an array with a type": (lambda i, go, x: (go, np.array(x, dtype=int)), int),
    "a list with a type": (lambda i, go, x: (go, np.array([x, x], dtype=int)), lambda x: [int(x), int(x)]),
}


@pytest.mark.parametrize("name", PYTHONS)
def test_what_a_function_is_told_to_write_is_what_python_gives(name):
    function, meant = PYTHONS[name]
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(2, True, 0.5, body=mdf_loop.body(function))
    cure = re.search(r"; write (.*)$", str(caught.value))[1]
    for x in (0.0, 2.5, 3.25):
        assert np.array_equal(eval(cure, {"np": np, "x": np.asarray(x)}), meant(x))


def test_conditions_are_joined_as_truth_values():
    with pytest.raises(LoopError, match=r"write np\.logical_and\(go, x < 3\)"):
        mdf_loop.loop(2, True, 0.5, body=mdf_loop.body(lambda i, go, x: (go and x < 3, x + 1)))


@pytest.mark.parametrize(
    ("function", "cure"),
    [
        (lambda i, go, x: (go, torch.tanh(x)), "write np.tanh(x)"),
        (lambda i, go, x: (go, np.einsum("ij,j->i", W, x)), "a @ b is 'ij,j->i'"),
        (lambda i, go, x: (go, x.clone()), "use np.copy(x)"),
        (lambda i, go, x: (go, x.detach()), "leave it out"),
        (lambda i, go, x: (go, x.at[i].add(1.0)), "x[i] += value for .add(value)"),
        (lambda i, go, x: (go, x.unsqueeze(0)), "use np.expand_dims(x, axis)"),
        (lambda i, go, x: (go, x.view(3, 1)), "use x.reshape(shape)"),
        (lambda i, go, x: (go, x.pow(2)), "use x ** y"),
        (lambda i, go, x: (go, x.add_(1)), "write the new value"),
        (lambda i, go, x: (go, np.where(x > 1)[0]), "choose by np.where(x > 1, a, b)"),
        (lambda i, go, x: (go, np.fill_diagonal(x, 0)), "write x = np.where(np.eye(n) == 1, 0, x)"),
        (lambda i, go, x: (go, np.quantile(x, 0.5)), "np.sort(x)[k]"),
        (lambda i, go, x: (go, np.convolve(x, x)), "add shifted products"),
        (lambda i, go, x: (go, x + mdf_loop.body.normal(0, 1, size=3)), "add np.zeros(3) to one"),
        (lambda i, go, x: (go, x + mdf_loop.body.uniform(0, 1, 3)), "add np.zeros(3) to one"),
    ],
)
def test_functions_of_pytorch_and_numpy_have_cures(function, cure):
    with pytest.raises(LoopError, match=re.escape(cure)):
        mdf_loop.loop(2, True, X, body=mdf_loop.body(function))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.dot(W, x),
        lambda x: np.outer(W[0], x)[0],
        lambda x: np.concatenate([W[0][:1], x[1:]]),
        lambda x: np.where(W[0] > 0, x, W[0]),
        lambda x: np.linalg.solve(W, x),
        lambda x: np.tensordot(W, x, 1),
        lambda x: np.dot(W, x) + isinstance(W, float),
    ],
)
def test_functions_of_numpy_take_arrays_from_outside_in_front(function):
    found = mdf_loop.loop(2, True, X, body=mdf_loop.body(lambda i, go, x: (go, function(x))))
    assert np.array_equal(found, function(function(X)))


def asks(x):
    return np.dot(W, x) if isinstance(x, np.ndarray) else x


def matches(x):
    match x:
        case float():
            return x
    return x + 1


@pytest.mark.parametrize("function", [asks, matches, lambda x: x + (x.__class__ is float)])
def test_the_type_of_a_value_is_asked_for_by_the_function_alone(function):
    with pytest.raises(LoopError, match="asks for the type of a value"):
        mdf_loop.loop(2, True, X, body=mdf_loop.body(lambda i, go, x: (go, function(x))))


def test_extras_are_installed_from_a_checkout():
    root = Path(mdf_loop.__file__).parent.parent
    files = [
        path for place in ("mdf_loop", "docs", "examples") for end in ("py", "rst") for path in (root / place).rglob(f"*.{end}")
    ]
    assert not [path for path in files if re.search(r"install\s+\W*mdf-loop", path.read_text(encoding="utf-8"))]


def test_signs_are_looked_at_again_for_values_of_other_kinds():
    planned = mdf_loop.compile(mdf_loop.body(lambda i, go, x: (go, x ^ (x > 1))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planned(1, True, True)
    for _ in range(2):  # what was found once is said in each call
        with pytest.warns(LoopWarning, match="a power is written"):
            planned(1, True, 2)


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
@pytest.mark.parametrize("name", ["erfc", "gamma", "gammaln"])
def test_functions_of_math_are_scipys_beyond_their_range_too(name, engine):
    """Python's math raises an error for large numbers and at poles; one such run would fail a whole sweep."""
    special = pytest.importorskip("scipy.special")
    for x in (np.array([0.5, 200.0, -1.0, np.inf, np.nan]), 200.0, -1.0):
        with mdf_loop.options(engine=engine), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = mdf_loop.loop(1, True, x=x, body=f"x: x\ncollect y: {name}(x)")[1][0]
        np.testing.assert_allclose(found, getattr(special, name)(x), rtol=1e-13)


@pytest.mark.parametrize(
    "text", ["erfc(x)", "gamma(x + 4)", "lgamma(x + 4)", "gammaln(x + 4)", "asin(x / 9)", "atan2(x, 2)", "acosh(x + 9)"]
)
@pytest.mark.parametrize("engine", ["auto", "interpret", "numpy", "jit"])
def test_functions_of_math_go_by_elements(text, engine):
    name, _, inside = text.partition("(")
    each = getattr(math, name.replace("gammaln", "lgamma"))
    with mdf_loop.options(engine=engine):
        found = in_equation(text)
        of_one = mdf_loop.loop(1, True, 0.0, 0.5, body=f"made: {text}\nx: x")[0]
    assert np.allclose(found, [each(*eval(f"({inside[:-1]},)", {"x": x})) for x in X], rtol=1e-12)
    assert np.isclose(of_one, found[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "cure"), [("f(x, 1)", ""), ("f(x)", "; if f is a value, f[...] is an element of it, and f * (...) a product")]
)
def test_an_unknown_function_is_one_first(text, cure):
    with pytest.raises(LoopError, match=re.escape(f"operator (docs/extending){cure}") + "$"):
        in_equation(text)
    with pytest.raises(LoopError, match=re.escape("no function 'x'; x[...] is an element of it, and x * (...) a product") + "$"):
        in_equation("x(1)")
