"""Complex numbers have no order: engines agree on numpy's, by real parts first, and a run says where it is used."""

import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.errors import LoopWarning
from mdf_loop.ops.registry import KERNELS, lookup
from mdf_loop.readers.expressions.values import DOMAIN

Z = np.array([1 + 1j, 0.5 - 2j, 3j])
ORDERING = {
    "s: 2 * s if s < 3 else s": 4 + 8j,
    "s: maximum(s, 1)": 1 + 2j,
    "s: min(s, 1)": 1 + 0j,
    "s: clip(s, 0, 1)": 1 + 0j,
    "s: sort(z)[0] + 0 * s": 3j,
    "s: argmax(z) + 0 * s": 0j,
    "s: s + 1\nwhile: s < 3": 3 + 2j,
    "s: where(s > 0, s, 0)": 1 + 2j,
}


def run(body, engine, start=1 + 2j):
    with mdf_loop.options(engine=engine), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = mdf_loop.loop(3, True, s=start, body=body, **({"z": Z} if "z" in body else {}))
    return found, [str(each.message) for each in caught if issubclass(each.category, LoopWarning)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("body", ORDERING)
def test_what_orders_complex_numbers_is_said(body, engine):
    found, (message,) = run(body, engine)
    np.testing.assert_array_equal(found, ORDERING[body])
    assert "compares complex numbers, which have no order: as in numpy, real parts count first" in message


@pytest.mark.parametrize(
    "body", ["s: 2 * s if abs(s) < 3 else s", "s: s * (s == 1)", "s: sqrt(s)", "s: sum(z) + s", "s: where(s, s, 0)"]
)
def test_what_does_not_is_not(body):
    assert run(body, "auto")[1] == []


def test_real_numbers_are_compared_without_a_word():
    assert run("s: 2 * s if s < 3 else s", "auto", 1.0)[1] == []


def refuses_order(name):
    """Whether numpy's function fails on complex numbers of Python, which cannot be compared; None if it takes something else."""
    function, objects, found = getattr(np, name, None), Z.astype(object), None
    for args in ([objects], [objects, objects[::-1]], [objects, objects[::-1], objects]) if callable(function) else ():
        try:
            function(*args)
            found = False
        except TypeError as error:
            if "not supported between instances of 'complex'" in str(error):
                return True
        except Exception:
            continue
    return found


def test_the_fact_holds_of_what_python_refuses():
    mdf_loop.loop(1, True, s=0.0, body="s: s + 1")  # which loads the kernels
    names = [name for domain, name in KERNELS if domain == DOMAIN and name.startswith("numpy.") and name.count(".") == 1]
    known = {name: lookup(name, 1, DOMAIN).facts.orders for name in names}
    refused = {name: refuses_order(name.removeprefix("numpy.")) for name in names}
    odd = {name: refuses for name, refuses in refused.items() if refuses is not None and refuses != known[name]}
    assert odd.keys() == {
        "numpy.sign",
        "numpy.tril",
        "numpy.triu",
    }  # z / abs(z), and functions that take the number of a diagonal
    assert sum(known.values()) > 15
