"""A code in the data that is negative counts from the end, where it is an index: a run says so."""

import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import LoopWarning


@mdf_loop.body
def learning(i, go, v, *, q, c):
    k = c[i]
    return go, v + q[k]


@mdf_loop.body
def counting(i, go, v, *, c):
    v[c[i]] += 1
    return go, v


CODES, FROM_ONE = np.array([1, -1, 0]), np.array([2, 0, 1])
TABLE = np.array([[1, 5], [-1, 5], [0, -5]])
SAID = {  # the body, its codes, how it reads them, and how the value begins
    "an equation": ("v: v + q[c[i]]", CODES, "c[i]", 0.0),
    "a let": ("let k: c[i]\nv: v + q[k]", CODES, "c[i]", 0.0),
    "from 1": ("v: v + q[c[i] - 1]", FROM_ONE, "c[i]", 0.0),
    "a column": ("v: v + q[c[i, 0]] + c[i, 1]", TABLE, "c[i, 0]", 0.0),
    "another name": ("index: n\nv: v + q[c[n]]", CODES, "c[n]", 0.0),
    "a function": (learning, CODES, "c[i]", 0.0),
    "an element that is set": (counting, CODES, "c[i]", np.zeros(2)),
}
MEANT = {
    "compared": "v: where(c[i] < 0, v, v + q[c[i]])",
    "compared before": "let k: c[i]\nlet more: where(k >= 0, q[k], 0)\nv: v + more",
    "cut": "v: v + q[maximum(c[i], 0)]",
    "chosen": "v: v + q[where(c[i] < 0, 0, c[i])]",
    "a value too": "v: v + q[c[i]] * c[i]",
    "looked at": "v: v + q[c[i]] * sum(c >= 0)",
    "a constant": "v: v + q[-1] + c[i]",
}


def said(body, c, v, n=3):
    more = {} if body is counting else {"q": np.array([1.0, 2.0])}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mdf_loop.loop(n, True, v=v, body=body, c=c, **more)
    return [str(each.message) for each in caught if issubclass(each.category, LoopWarning)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", SAID)
def test_a_negative_code_is_said_in_each_run_that_has_it(case, engine):
    body, codes, shown, v = SAID[case]
    with mdf_loop.options(engine=engine):
        for _ in range(2):
            (message,) = said(body, codes, v)
            assert f"in iteration 1 an index that is made of {shown} is -1, which counts from the end, as in Python; " in message
            assert f"give codes from 0 on, or write where({shown} < 0, ..., ...)" in message
            assert said(body, np.maximum(codes, 1 * (codes is FROM_ONE)), v) == []


@pytest.mark.parametrize("case", MEANT)
def test_codes_that_a_body_sees_to_are_not(case):
    assert said(MEANT[case], CODES, 0.0) == []


def test_rows_behind_the_end_of_the_loop_are_not():
    padded = np.array([1, 0, 1, -1, -1])
    assert [text for text in said("v: v + q[c[i]]", padded, 0.0) if "counts from the end" in text] == []
