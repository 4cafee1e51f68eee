"""A trip count that leaves rows of all data unread is warned of, and nothing else is that a loop does not read."""

import warnings

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning


@mdf_loop.body
def function(i, go, s, *, d):
    return go, s + d[i]


LEFT = {  # the equation, the length of its data, and what is read of them
    "an element": ("s: s + d[i]", 10, "first 3 of 10 rows of d are read; give M=10 to read all of them, or d[:3]"),
    "a let": ("let x: d[i]\ns: s + x", 10, "first 3 of 10 rows of d are read"),
    "further on": ("s: s + d[i + 1] - d[i]", 10, "first 4 of 10 rows of d are read; give M=9 to read all of them, or d[:4]"),
    "a row": ("s: s + t[i, 1]", 5, "first 3 of 5 rows of t are read; give M=5 to read all of them, or t[:3]"),
    "a column": ("s: s + sum(u[:, i])", 5, "first 3 of 5 columns of u are read; give M=5 to read all of them, or u[:, :3]"),
    "two": ("s: s + d[i] * t[i, 0]", 10, "of d are read (the same of t)"),
    "an end that does not come": ("s: s + d[i]\nwhile: s < 1000", 10, "first 3 of 10 rows of d are read"),
    "a function": (function, 10, "first 3 of 10 rows of d are read"),
}


def data(body, length):
    values = {"d": np.arange(float(length)), "t": np.ones((length, 2)), "u": np.ones((2, length))}
    return {name: value for name, value in values.items() if f"{name}[" in (body if isinstance(body, str) else "d[")}


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if issubclass(each.category, LoopWarning)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", LEFT)
def test_rows_that_no_iteration_reads_are_said_in_each_run(case, engine):
    body, length, cure = LEFT[case]
    with mdf_loop.options(engine=engine):
        for _ in range(2):
            (message,) = said(lambda: mdf_loop.loop(3, True, s=0.0, body=body, **data(body, length)))
            assert "M is 3, so only the " in message
            assert cure in message
        whole = length - ("i + 1" in str(body))
        assert said(lambda: mdf_loop.loop(whole, True, s=0.0, body=body, **data(body, length))) == []


@pytest.mark.parametrize(
    "body",
    [
        "s: s + d[i % 2]",
        "s: s + d[i] / len(d)",
        "s: s + d[i] - mean(d)",
        "s: s + d[2 * i]",
        "s: s + d[0]",
        "s: s + sum(d[i:i + 2])",
        "s: s + d[i]\nwhile: s < 1",
        "s: s + m[i, i]",
        "s: s + m[i, i + 1]",
        "s: s + d[i] * c[i]\nwhile: s < 1",
    ],
)
def test_what_is_read_otherwise_or_ends_earlier_is_not(body):
    values = {"d": np.arange(10.0), "c": np.ones(3), "m": np.ones((5, 4))}
    given = {name: value for name, value in values.items() if f"{name}[" in body}
    assert said(lambda: mdf_loop.loop(3, True, s=0.0, body=body, **given)) == []


OF_TWO_LENGTHS = {  # the equation, the lengths of c and d, and what is said of them
    "two": ("c[i] * d[i]", 3, 5, "d has 5 rows and c 3 rows, and both are read by [i]: the last 2 of d are not read; give c as"),
    "a cure": ("c[i] * d[i]", 3, 5, "give c as many, or d[:3] if the rest is left out on purpose"),
    "one more": ("c[i] * d[i]", 3, 4, "the last of d is not read; "),
    "ahead": ("c[i] * d[i + 1]", 3, 6, "and are read by [i + 1] and [i]: the last 2 of d are not read; give c as many, or d[:4]"),
    "the other": (
        "c[i + 1] * d[i]",
        4,
        4,
        "d has 4 rows and c 4 rows, and are read by [i] and [i + 1]: the last of d is not read; ",
    ),
    "borders": ("c[i] * (d[i + 1] - d[i])", 3, 4, ""),
    "the same": ("c[i] * d[i]", 3, 3, ""),
    "otherwise": ("c[i] * d[i] / len(d)", 3, 5, ""),
    "a row before": ("c[i] * d[maximum(i - 1, 0)]", 3, 5, ""),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", OF_TWO_LENGTHS)
def test_the_longer_one_of_two_arrays_is_said_if_it_is_not_read_to_its_end(case, engine):
    product, short, long, words = OF_TWO_LENGTHS[case]
    with mdf_loop.options(engine=engine):
        found = said(lambda: mdf_loop.loop(3, True, s=0.0, body=f"s: s + {product}", c=np.ones(short), d=np.ones(long)))
    assert [words in text for text in found] == [True] * bool(words)


def test_iterations_of_a_body_with_types_are_its_own_matter():
    text = "b (int64 i, bool c, double s) => (bool c2, double s2) { c2 = Identity (c)\n x = Gather (d, i)\n s2 = Add (s, x) }"
    assert said(lambda: mdf_loop.loop(3, True, 0.0, body=text, d=np.arange(10.0))) == []


MODEL = """
m:
  graphs:
    g:
      nodes:
        a:
          input_ports: {d: {default_value: [1.0, 2.0, 3.0, 4.0, 5.0]}}
          parameters:
            w: {value: 1.0}
            M: {value: 3}
            b: {value: {carried: {x: "x + w * d[i]"}}}
            run: {function: "onnx::Loop", args: {M: M, x: 0.0, body: b}}
          output_ports: {o: {value: run}}
"""


@pytest.mark.parametrize("times", [2, 40])
def test_runs_trials_sweeps_fits_and_checks_say_it_once_each(tmp_path, times):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL)
    for count in (3, 5):
        calls = {
            "run": lambda: mdf_loop.run(path, M=count),  # noqa: B023
            "trials": lambda: mdf_loop.run(path, M=count, trials=times),  # noqa: B023
            "sweep": lambda: mdf_loop.sweep(path, {"w": np.arange(float(times))}, M=count),  # noqa: B023
            "fit": lambda: mdf_loop.fit(path, {"o": np.full(30, 7.0)}, {"w": (0.0, 2.0)}, M=count, seed=1),  # noqa: B023
        }
        for name, call in calls.items():
            found = [text for text in said(call) if "only the first 3 of 5 rows of d are read" in text]
            assert len(found) == (count == 3), (name, found)
    (found,) = check(path)
    assert "only the first 3 of 5 rows of d are read" in found.message
