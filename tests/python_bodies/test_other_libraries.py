"""Functions of other libraries that need numbers, in bodies: each is refused by name, with the formula to write."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError

GIVES, ANY = (
    "gives {} values that are known only when the loop runs, where it needs numbers; ",
    "a plain Python function as a body",
)
SOFTMAX = "np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x)))"
OF_ALL = "which is that of all elements; along an axis, give axis=-1, keepdims=True to max and sum"


@pytest.mark.parametrize(
    ("line", "library", "cure"),
    [
        ("norm.pdf(x)", "scipy", "write np.exp(-(x) ** 2 / 2) / np.sqrt(2 * np.pi)"),
        ("scipy.stats.norm.cdf(x)", "scipy", "write (1 + scipy.special.erf((x) / np.sqrt(2))) / 2"),
        ("norm.pdf(x, 1.0)", "scipy", ANY),
        ("scipy.special.softmax(x)", "scipy", "write it out: np.exp(x - np.max(x))"),
        ("scipy.special.softmax(x, axis=0)", "scipy", f"write it out: {SOFTMAX}, {OF_ALL}"),
        ("scipy.special.log_softmax(x)", "scipy", f"write x - np.max(x) - np.log(np.sum(np.exp(x - np.max(x)))), {OF_ALL}"),
        ("scipy.special.logsumexp(x, axis=0)", "scipy", ANY),
        ("scipy.special.logsumexp(x, 0)", "scipy", ANY),
        ("scipy.special.logsumexp(x)", "scipy", "write np.max(x) + np.log(np.sum(np.exp(x - np.max(x))))"),
        ("odeint(lambda x, t: -x, x, [0, 1])[-1]", "scipy", ANY),
        ("pd.Series([1.0, 2.0]) * x", "pandas", ANY),
        ("pd.Series(x).mean()", "pandas", ANY),
        ("fractions.Fraction(1, 3) * x", "fractions", ANY),
    ],
)
def test_libraries_that_need_numbers_are_named_with_what_to_write(tmp_path, line, library, cure):
    pytest.importorskip("scipy")
    pytest.importorskip("pandas")
    libraries = "scipy.stats, scipy.special, fractions, mdf_loop, numpy as np, pandas as pd"
    path = tmp_path / "model.py"
    imports = f"import {libraries}\nfrom scipy.stats import norm\nfrom scipy.integrate import odeint\n"
    path.write_text(f"{imports}@mdf_loop.body\ndef f(i, go, x):\n    return True, {line}\n")
    known = {"__name__": "model"}
    exec(compile(path.read_text(), str(path), "exec"), known)
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(2, True, [0.5, 1.0], body=known["f"])
    assert f"{path}, line 6: " in str(caught.value)
    assert GIVES.format(library) + cure in str(caught.value)


def test_an_array_of_another_library_in_front_is_made_numpys():
    rates = pytest.importorskip("pandas").Series([2.0, 3.0])
    with pytest.raises(LoopError, match=r"; write np\.asarray\(rates\) for rates$"):
        mdf_loop.loop(1, True, np.ones(2), body=mdf_loop.body(lambda i, go, x: (True, rates * x)))
    found = mdf_loop.loop(1, True, np.ones(2), body=mdf_loop.body(lambda i, go, x: (True, np.asarray(rates) * x)))
    assert np.array_equal(found, [2.0, 3.0])


@pytest.mark.parametrize(
    ("line", "distribution"),
    [
        ("x + np.random.gamma(2.0)", "gamma, but equations have numpy.random.gamma"),
        ("x + rng.laplace()", "laplace"),
        ("x + np.random.uniform() * np.random.standard_t(3)", "standard_t"),
        ("x + random.betavariate(1, 2)", "betavariate"),
        ("np.random.beta(x, x)", "beta"),
        ("rng.chisquare(x)", "chisquare"),
    ],
)
def test_a_draw_that_no_body_has_is_not_called_another_one(tmp_path, line, distribution):
    path = tmp_path / "model.py"
    start = "import random, mdf_loop, numpy as np\nrng = np.random.default_rng(1)\n"
    path.write_text(f"{start}@mdf_loop.body\ndef f(i, go, x):\n    return True, {line}\n")
    known = {"__name__": "model"}
    exec(compile(path.read_text(), str(path), "exec"), known)
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(2, True, 0.5, body=known["f"])
    draws = "noise(), normal(mean, spread), uniform(low, high), poisson(rate)"
    assert str(caught.value).endswith(f"; a body draws new ones in each by mdf_loop.body.{draws}; it has no {distribution}")


def test_functions_with_the_name_of_a_distribution_are_no_draws():
    special = pytest.importorskip("scipy.special")
    body = mdf_loop.body(lambda i, go, x: (True, special.beta(x, 2.0)))
    with pytest.raises(LoopError, match=r"; write np\.exp\(scipy\.special\.gammaln"):
        mdf_loop.loop(2, True, 0.5, body=body)
