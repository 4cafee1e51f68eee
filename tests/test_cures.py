"""Mistakes that lead to a wrong place, to a text that nobody wrote or to no cure: what their messages say now."""

import re

import pytest
from test_words_of_equations import content, errors_of, written

import mdf_loop
from mdf_loop.convert.locating import line_of_error
from mdf_loop.errors import LoopError

SLOPE = "-x / steps + (steps - x * steps * {}) / steps + steps * steps * steps * steps"


@pytest.mark.parametrize("method", ["euler", "heun", "rk4"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("heaviside(steps)", "column 35: numpy.heaviside("),
        ("foo(steps)", "there is no function 'foo'"),
        ("[1, 2]", "works on a Python list"),
        ("ones(3) @ ones(4)", "matmul"),
    ],
)
def test_derivatives_are_shown_as_they_are_written_and_once(tmp_path, method, wrong, said):
    body = {"derivatives": {"x": SLOPE.format(wrong)}, "method": method, "dt": 0.1}
    path = written(tmp_path, content(body))
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    message = str(caught.value)
    assert said in message
    assert "equations/x: " in message
    assert "dt * (" not in message
    assert not caught.value.others
    line = line_of_error(path, caught.value)
    assert [error.line for error in errors_of(path)] == [line]
    assert "x: -x / steps" in path.read_text().split("\n")[line - 1]


def test_lines_of_texts_are_those_of_derivatives_too():
    with pytest.raises(LoopError, match=r"equations/line 2: expression '-x \+ \)', column 6: unmatched"):
        mdf_loop.loop(3, True, 1.0, body="let a: 1\ndx/dt: -x + )", dt=0.1)
    with pytest.raises(LoopError, match=r"equations/line 2: the derivative of x has noise in 'noise\(\) \*\* 2'"):
        mdf_loop.loop(3, True, 1.0, body="let a: 1\ndx/dt: noise() ** 2", dt=0.1)


def test_a_long_expression_is_shown_around_the_mistake():
    text = "a_first_long_name * x + a_second_long_name * x + a_third_long_name * x ) / a_fourth_long_name"
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(3, True, 1.0, body=f"x: {text}")
    column, shown = int(re.search(r"column (\d+)", str(caught.value))[1]), re.search("'(.*)', column", str(caught.value))[1]
    assert text[column - 1] == ")"
    assert shown.startswith("...")
    assert shown.strip(".").strip() in text
    assert " ) /" in shown


@pytest.mark.parametrize(
    ("text", "cure"), [("sum(x, y)", "sum([a, b])"), ("mean(x, y, 1)", "mean([a, b])"), ("round(x, y)", "and y is")]
)
def test_an_axis_that_is_a_value_leads_to_a_list(text, cure):
    with pytest.raises(LoopError, match=re.escape(cure)):
        mdf_loop.loop(3, True, 1.0, body=f"x: {text}", y=2.0)


@pytest.mark.parametrize("text", ["!(x < 3)", "*x", "@x", "%x"])
def test_signs_that_mean_something_in_yaml_lead_to_quotes(tmp_path, text):
    path = tmp_path / "m.yaml"
    path.write_text(f"m:\n  graphs:\n    g: {{nodes: {{n: {{parameters: {{a: {{value: {text}}}}}}}}}}}\n")
    with pytest.raises(LoopError, match=r"line 3, column .* is in quotes"):
        mdf_loop.load(path)
