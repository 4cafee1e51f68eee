"""Functions under the names that modellers know: those of scipy and MDF, and distributions of random numbers."""

import math

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import UnsupportedOp

X = np.array([-3.0, -0.5, 0.0, 0.25, 4.0])

FUNCTIONS = {
    "erf(x)": np.vectorize(math.erf),
    "erf(x[1])": lambda x: math.erf(x[1]),
    "erf(1)": lambda x: math.erf(1),
    "sigmoid(x)": lambda x: 1 / (1 + np.exp(-x)),
    "expit(2 * x)": lambda x: 1 / (1 + np.exp(-2 * x)),
    "logistic(x)": lambda x: 1 / (1 + np.exp(-x)),
    "logistic(x, 2, 0.5, offset=0.1)": lambda x: 1 / (1 + np.exp(-2 * (x + 0.5) + 0.1)),
    "relu(x - 0.1)": lambda x: np.maximum(x - 0.1, 0),
    "softmax(x)": lambda x: np.exp(x) / np.exp(x).sum(),
    "softmax(x / 2)[0]": lambda x: (np.exp(x / 2) / np.exp(x / 2).sum())[0],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_are_what_their_names_say(text, engine):
    with mdf_loop.options(engine=engine):
        _, found = mdf_loop.loop(3, True, X, body=f"x: x\ncollect y: {text}")
    np.testing.assert_allclose(found[0], FUNCTIONS[text](X), rtol=1e-12)


def test_they_are_those_of_scipy():
    special = pytest.importorskip("scipy.special", reason="pip install -e .[fit]")
    for name in ("expit", "softmax", "erf"):
        found = mdf_loop.loop(1, True, X, body=f"x: {name}(x)")
        np.testing.assert_allclose(found, getattr(special, name)(X), rtol=1e-12)


def test_logistic_is_that_of_mdf():
    from modeci_mdf.functions.standard import mdf_functions

    def given(text):
        return eval(text, {"exp": np.exp, "variable0": X, "gain": 1.5, "bias": 0.2, "offset": -0.3})

    found = mdf_loop.loop(1, True, X, body="x: logistic(x, gain=1.5, bias=0.2, offset=-0.3)")
    np.testing.assert_allclose(found, given(mdf_functions["logistic"]["expression_string"]), rtol=1e-14)


DRAWN = {
    "normal(2, 0.5)": lambda rng: rng.normal(2, 0.5),
    "normal(x, 0.1)": lambda rng: rng.normal(X, 0.1),
    "uniform(1, 3)": lambda rng: rng.uniform(1, 3),
    "uniform(x, x + 1)": lambda rng: rng.uniform(X, X + 1),
    "poisson(4.5)": lambda rng: rng.poisson(4.5),
    "poisson(exp(x))": lambda rng: rng.poisson(np.exp(X)),
    "random()": lambda rng: rng.random(),
    "random(x)": lambda rng: rng.uniform(np.zeros(5)),
    "uniform()": lambda rng: rng.random(),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", DRAWN)
def test_random_numbers_are_those_of_numpy(text, engine):
    with mdf_loop.options(engine=engine, seed=7):
        _, found = mdf_loop.loop(4, True, X, body=f"x: x\ncollect y: {text}")
    rng = np.random.default_rng(7)
    np.testing.assert_array_equal(found, [DRAWN[text](rng) for _ in range(4)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sigmod(x)", "did you mean 'sigmoid'"),
        ("poison(x)", "did you mean 'poisson'"),
        ("normal(1)", r"it is normal\(mean, spread\); got normal\(1\)"),
        ("uniform(1, 2, 3)", r"uniform\(low, high\) one between these"),
        ("relu(x, 1)", r"it is relu\(x\); got relu\(x, 1\)"),
        ("logistic(x, slope=2)", r"it is logistic\(x, gain, bias, offset\)"),
        ("sigmoid()", r"it is sigmoid\(x\)"),
        ("softmax(noise(x))", "reads its argument twice"),
    ],
)
def test_errors_say_what_they_take(text, words):
    with pytest.raises(UnsupportedOp, match=words):
        mdf_loop.loop(1, True, X, body=f"x: {text}")
