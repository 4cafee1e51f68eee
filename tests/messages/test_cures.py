"""Mistakes that lead to a wrong place, to a text that no one wrote or to no cure: what their messages say now."""

import contextlib
import re

import numpy as np
import pytest
from commands import run_main

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.convert.locating import line_of_error
from mdf_loop.errors import LoopError
from tests.equations.test_words_of_equations import content, errors_of, written

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
    with pytest.raises(LoopError, match=r"line 3, column .* in quotes"):
        mdf_loop.load(path)


def test_bars_of_an_absolute_value_in_yaml_lead_to_abs(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text("m:\n  graphs:\n    g:\n      metadata: |v|\n")
    with pytest.raises(LoopError, match=r"line 4, column .*in quotes, and \|x\| as abs\(x\)"):
        mdf_loop.load(path)


def test_a_list_of_places_in_a_function_leads_to_their_count():
    @mdf_loop.body
    def counts(i, go, v):
        return True, v + len([k for k in range(2) if k * v[k] > 0.5])

    count = "np.count_nonzero(np.arange(2) * v[:2] > 0.5)"
    with pytest.raises(LoopError, match=re.escape(f"or count by {count}")):
        mdf_loop.loop(3, True, np.ones(3), body=counts)


def test_a_key_for_equations_leads_to_those_that_there_are():
    with pytest.raises(LoopError, match="equations are in carried"):
        mdf_loop.loop(3, True, 1.0, body={"equations": {"x": "x + 1"}})


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("x .* 2", "write it without the point"),
        ("x ./ 2", "write it without the point"),
        ("x ~= 0", "~= is written !="),
        ("20 mV + x", "equations have no units"),
        ("x + randn", "randn is a function: write noise()"),
        ("x + rnorm", "rnorm is a function: write normal("),
        ("x + uniform", "uniform is a function: write uniform()"),
    ],
)
def test_notations_of_matlab_and_brian_have_cures(text, cure):
    with pytest.raises(LoopError, match=re.escape(cure)):
        mdf_loop.loop(3, True, 1.0, body=f"x: {text}")


@pytest.mark.parametrize(
    ("body", "cure"),
    [
        ("tau*dx/dt: -x", "a derivative is written dx/dt: (-x) / tau"),
        ("dx/dt = (1 - x)/tau : 1", "an equation has a colon: dx/dt: (1 - x)/tau"),
        ("x = x + 1;", "an equation has a colon: x: x + 1"),
        ("x: x + 1\nif x > 3: x = 0", "choose the value: x: where(x > 3, 0, x)"),
        ("x", "nor an equation such as x: x + 1"),
        ("dx/dt = " + " + ".join(["-x"] * 40), "+ -x"),
        ({"carried": {"x": "x - 1"}, "while": ["x < 3"]}, "write x < 3 without brackets"),
    ],
)
def test_whole_lines_of_others_have_cures(body, cure):
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(3, True, 1.0, body=body, tau=1.0, dt=0.1)
    assert str(caught.value).endswith(cure)


def test_a_colon_needs_no_space_and_a_path_stays_one():
    assert mdf_loop.loop(3, True, 1.0, body="x:x+1") == 4
    with pytest.raises(FileNotFoundError):
        mdf_loop.loop(3, True, 1.0, body="C:\\body.onnx")


DRIFT = "examples/drift_diffusion.yaml"

CALLS = {
    "data is a text": (lambda: mdf_loop.fit(DRIFT, "abc", OVER), "got str; write data={'name of an output': values}"),
    "data is a list": (lambda: mdf_loop.fit(DRIFT, [0.3], OVER), "got list; write data={'name of an output': values}"),
    "data is a function": (lambda: mdf_loop.fit(DRIFT, len, OVER), "a function is given as loss="),
    "data is a file": (lambda: mdf_loop.fit(DRIFT, "d.csv", OVER), "pandas.read_csv('d.csv')"),
    "loss": (lambda: mdf_loop.fit(DRIFT, DATA, OVER, lambda s: 1.0, trials=5), "loss is called with two mappings"),
    "one": (lambda: mdf_loop.simulator(DRIFT, ["drift"]).one([1.0]), "values are a mapping, such as {'drift': 1.0}; got list"),
    "one misspelt": (lambda: mdf_loop.simulator(DRIFT, ["drift"]).one({"drfit": 1.0}), "missing: drift; given: ['drfit']"),
    "truth": (lambda: mdf_loop.sweep(DRIFT, SWEPT, common_noise="yes"), "common_noise must be True or False; got 'yes'"),
    "jobs": (lambda: mdf_loop.sweep(DRIFT, SWEPT, n_jobs=2), "did you mean the argument 'workers'?"),
    "swept argument": (lambda: mdf_loop.sweep(DRIFT, {"trials": [1, 2]}), "did you mean the argument 'trials'?"),
    "mapping of values": (lambda: mdf_loop.sweep(DRIFT, {"drift": {"a": 1}}), "is a list of values, with at least one"),
    "dt": (lambda: mdf_loop.run("examples/oscillator.yaml", steps=2, dt=1), "did you mean the argument 'time_increment'?"),
    "recorded": (lambda: mdf_loop.run(DRIFT, record="decision.x")["decision.x"], "results.recorded['decision.x']"),
    "input": (lambda: mdf_loop.prepare(DRIFT).inputs["drfit"], "there is no 'drfit'; did you mean 'drift'?"),
    "attribute": (lambda: setattr(mdf_loop.prepare(DRIFT), "drift", 3), "a run takes it, model(drift=...)"),
    "body in a scan": (lambda: mdf_loop.scan(lambda s, x: s, 0, [1]), "scan: the body is given by name: scan("),
}
OVER, SWEPT, DATA = {"drift": (0.1, 2.0)}, {"drift": [1.0]}, {"reaction_time": [0.5] * 20}


@pytest.mark.filterwarnings("ignore:no time passes")
@pytest.mark.parametrize("call", CALLS)
def test_wrong_calls_have_cures(call):
    mistaken, cure = CALLS[call]
    with pytest.raises(LoopError) as caught:
        mistaken()
    assert cure in str(caught.value)


@pytest.mark.parametrize("top", ["nodes: {n: {parameters: {v: {value: 3}}}}", "graphs: {g: {nodes: {n: {}}}}"])
def test_a_file_without_the_id_of_its_model_says_so(tmp_path, top):
    path = tmp_path / "m.yaml"
    path.write_text(top)
    with pytest.raises(LoopError, match="a file begins with the id of the model: my_model:"):
        mdf_loop.load(path)


def test_a_power_of_other_languages_in_mdf_is_named(tmp_path):
    nodes = {"n": {"parameters": {"v": {"value": 3}, "k": {"value": "v ^ 2"}}, "output_ports": {"o": {"value": "k"}}}}
    path = written(tmp_path, {"m": {"graphs": {"g": {"nodes": nodes}}}})
    with pytest.warns(mdf_loop.errors.LoopWarning, match=r"n\.k: 'v \^ 2': \^ is the exclusive or .* is written \*\*"):
        assert mdf_loop.run(path)["o"] == 1
    (found,) = check(path)
    assert (found.kind, found.line) == ("warning", 9)
    assert "a power is written **" in found.message


@pytest.mark.parametrize(
    ("arguments", "code", "cure"),
    [
        (("run", DRIFT, "--drift", "3"), 2, "there is no option --drift; a value of the model is --set drift=3"),
        (("run", DRIFT, "--drift=-.5"), 2, "--set drift=-.5"),
        (("run", DRIFT, "--trial", "5"), 2, "run has no option --trial; did you mean --trials?"),
        (("run", DRIFT, "--seeds=5"), 2, "run has no option --seeds; did you mean --seed?"),
        (("bench", DRIFT, "--trials", "5"), 2, "bench has no option --trials; mdf-loop bench -h lists those that there are"),
        (("run", DRIFT, "--n", "5"), 2, "run has no option --n; mdf-loop run -h lists"),
        (("run", DRIFT, "--set", "seed=1"), 1, "the model has no input 'seed'; write --seed 1"),
        (("sweep", DRIFT, "--over", "drift=0:1:3", "--set", "trials=3"), 1, "the model has no input 'trials'; write --trials 3"),
        (("check", DRIFT, "--set", "seed=1"), 1, "the model has no input 'seed'; check has no option --seed"),
        (("run", DRIFT, "--set", "drift", "3"), 1, "write --set drift=3"),
        (("sweep", DRIFT, "--over", "drift", "0:1:3"), 1, "write --over drift=0:1:3"),
        (("fit", DRIFT), 2, "fit is no command: in Python it is mdf_loop.fit(...)"),
        (("run", DRIFT, "--set", "drift="), 1, "and texts in quotes\n"),
    ],
)
def test_wrong_commands_have_cures(capsys, arguments, code, cure):
    assert run_main(*arguments) == code
    assert cure in capsys.readouterr().err


def test_options_with_numbers_stay_options(capsys):
    assert run_main("run", DRIFT, "--seed", "3", "--timeout", "30", "--no-progress") == 0
    assert not capsys.readouterr().err


def test_names_of_one_letter_are_no_misspelt_words():
    with pytest.raises(LoopError, match="reads 'I' from outside") as caught:
        mdf_loop.loop(3, True, 1.0, body="x: x + I")
    assert "iteration number" not in str(caught.value)
    with pytest.raises(LoopError, match=r"a time is carried: t: t"):
        mdf_loop.run(written_model({"carried": {"x": "x"}, "collected": {"t": "t"}}))


def written_model(body):
    """A model of MDF with a loop of such a body."""
    from modeci_mdf.mdf import Graph

    return Graph.from_dict({"g": content(body)["m"]["graphs"]["g"]})


def test_time_that_runs_backwards_is_a_warning():
    with pytest.warns(mdf_loop.errors.LoopWarning, match="time_increment, the length of a step, is -0.1, so time"):
        mdf_loop.run("examples/oscillator.yaml", steps=3, time_increment=-0.1)


def test_what_is_far_from_all_names_has_no_suggestion():
    with pytest.raises(LoopError, match=r"calls numpy\.append") as caught:
        mdf_loop.loop(3, True, 1.0, body="x: np.append(x, 1)")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("call", [mdf_loop.run, lambda model, **how: mdf_loop.prepare(model)(**how)])
def test_what_is_true_or_false_is_nothing_else(call):
    with pytest.raises(LoopError, match="collect must be True or False; got 'yes'"):
        call("examples/oscillator.yaml", steps=2, time_increment=0.1, collect="yes")


def test_options_on_a_line_of_their_own_are_a_warning():
    with pytest.warns(mdf_loop.errors.LoopWarning, match=r"options\(seed=...\) alone changes nothing; write with"):
        mdf_loop.options(seed=1)


@pytest.mark.filterwarnings("error")
def test_options_that_are_used_are_none():
    @mdf_loop.options(seed=1)
    def drawn():
        return mdf_loop.loop(1, True, 0.0, body="x: x + noise()").item()

    decorator = mdf_loop.options(seed=1)
    assert decorator(drawn)() == decorator(lambda: drawn())()
    with decorator:
        assert drawn() == mdf_loop.loop(1, True, 0.0, body="x: x + noise()").item()
    chosen = mdf_loop.options(max_iterations=1)
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(chosen).max_iterations == 1
    assert drawn() == drawn()


@pytest.mark.parametrize(
    ("body", "cures"),
    [
        ("dv/dt = -v\nv(0) = 1", ["an equation has a colon: dv/dt: -v", "an initial value is given in the call, v=1"]),
        ("init x: 0\nx: x + 1", ["an initial value is given in the call, x=0"]),
        ("x <- x + 1\ny = 3;", ["an equation has a colon: x: x + 1", "an equation has a colon: y: 3"]),
        ("tau*dx/dt = -x\nx'' = 2", ["a derivative is written dx/dt: (-x) / tau", "a second derivative is two first ones"]),
    ],
)
def test_lines_without_an_arrow_of_onnx_are_equations_and_each_has_its_cure(body, cures):
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(3, True, 1.0, body=body)
    errors = [caught.value, *caught.value.others]
    assert len(errors) == len(cures)
    assert all(cure in str(error) and "equations, line " in str(error) for error, cure in zip(errors, cures, strict=True))


def test_text_with_braces_is_onnx_text():
    with pytest.raises(LoopError, match="ONNX text does not parse"):
        mdf_loop.loop(3, True, 1.0, body="b (int64 i, bool go, float x)\n{ y = Neg (x) }")
