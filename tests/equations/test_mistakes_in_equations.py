"""Equations and model files with the mistakes of a first day: what is meant is said, and the line is that of the mistake."""

import json
import re
import textwrap
import warnings

import numpy as np
import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.convert.locating import line_of_error
from mdf_loop.errors import LoopError, LoopWarning, MissingCapture
from mdf_loop.readers.expressions.equation_texts import equations_in
from mdf_loop.readers.expressions.expression_text import refuse_decimal_comma

MODEL = textwrap.dedent("""\
    lif:
        graphs:
            g:
                nodes:
                    neuron:
                        input_ports:
                            current: {default_value: 1.5}
                        parameters:
                            dt: {value: 0.1}
                            tau_m: {value: 20.0}
                            v_rest: {value: 0.0}
                            threshold: {value: 1.0}
                            body:
                                value:
                                    carried:
                                        v: v + dt / tau_m * (current - v)
                                        t: t + dt
                                    collected:
                                        path: v
                                    while: v < threshold
                            run:
                                function: onnx::Loop
                                args:
                                    M: 1000
                                    cond: true
                                    v: v_rest
                                    t: 0.0
                                    body: body
                        output_ports:
                            spike_time: {value: run.t}
                            path: {value: run.path}
    """)

STEP, WHILE, T = "v: v + dt / tau_m * (current - v)", "while: v < threshold", "t: t + dt"

OTHER_LANGUAGES = [
    (STEP, "v: if v > 1 then 0 else v + 1", "is written a if condition else b, or where(condition, a, b)"),
    (T, 't: "t > 3 ? 0 : t"', "or where(condition, a, b)"),
    (WHILE, "while: v < threshold && t < 3", "&& is written and"),
    (WHILE, "while: v < threshold || t < 3", "|| is written or"),
    (WHILE, 'while: "!(v > threshold)"', "! is written not"),
    (WHILE, "while: v <> threshold", "<> is written !="),
    (WHILE, "while: v ≤ threshold", "≤ is written <="),
    (WHILE, "while: v < threshold & t < 3", "& comes before comparisons; between them write and"),
    (WHILE, "while: v = threshold", "a comparison is written =="),
    (T, "t: where(v = 0, 1, t)", "a comparison is written =="),
    (STEP, "v: v ^ 2", "a power is written **: v ** 2"),
    (T, "t: t²", "² is written ** 2"),
    (T, "t: t++", "write only the new value: x + 1, not x += 1"),
    (T, "t: t += dt", "write only the new value"),
    (T, "t: t + 10%", "% is written / 100"),
    (T, "t: t + 0,1", "a number has a point, 0.1"),
    (T, "t: t + 2(dt)", "a product is written 2 * (...)"),
    (T, "t: None", "is no value"),
    (T, "t: sum(x for x in t)", "write functions of whole arrays"),
    (T, "t: v.sum()", "write numpy.sum(v)"),
    (T, "t: v.shape[0]", "write numpy.shape(v)"),
    (T, "t: [t + dt]", "write an array of expressions as one text, in quotes: '[t + dt]'"),
    (T, "t:", "it is an expression; got nothing"),
    (T, "t: t + np.random.choice([1, 2])", "write where(uniform() < 0.5, a, b)"),
    (T, "t: t + randint(0, 2)", "write floor(0 + (2 - 0) * uniform())"),
    (T, "t: t + noise(0.5)", "scale what it gives"),
    (T, "t: t + ln(v)", "did you mean 'log'"),
    (T, "t: t + current(i)", "current[...] is an element of it"),
    (T, "t: t + v[i]", "'v' is one number, without an index"),
    (T, "t: t + random.normal(0, dt)", "there is no function 'random.normal'; write normal(0, dt)"),
    (T, "t: t + rng.random()", "write uniform()"),
    (T, "t: t + numpy.random.choice(v, p=t)", "values[argmax(cumsum(p) > uniform())]"),
    (T, "t: if_else(t > 3, 0, t)", "did you mean 'where'"),
    (WHILE, "while: [v < threshold, t < 3]", "both are written v < threshold and t < 3, one of them v < threshold or t < 3"),
    (WHILE, "while: v < threshold, t < 3", "both are written v < threshold and t < 3"),
    (WHILE, "until: v > threshold", "while: not (v > threshold)"),
    (WHILE, "condition: v < threshold", "the condition to go on is while: v < threshold"),
    (WHILE, "while: max(path) < threshold", "path is collected, and an array when the loop has ended: carry what an iteration"),
    (WHILE, "while: run.v < threshold", "'run.v' is a result, and not there inside of the loop; write v"),
    (WHILE, "while: max(run.path) < 3", "'run.path' is a result, and not there inside of the loop; path is collected"),
    (STEP, "v: run.v + dt", "'run.v' is a result, and not there inside of the loop; write v"),
    (T, "while: t < 3", "'while' is a key of the body, not a value in carried"),
    (T, "let: {k: max(t, 3)}", "'let' is a key of the body, not a value in carried"),
]

ARGUMENTS = [
    ("M: 1000", "M: ten", "argument 'M' reads 'ten'"),
    ("M: 1000", "M: 10.5", "the trip count M"),
    ("cond: true", "cond: 1.0", "the condition cond must be one boolean"),
    ("cond: true", "cond: v < threshold", "write run.v for its result, and a condition that reads it as while: of 'body'"),
    ("v: v_rest", "v: v_ret", "did you mean 'v_rest'"),
    ("v: v_rest", "V: v_rest", "did you mean 'v'"),
    ("t: 0.0", "t: hello you", "the text 'hello you' is not an expression"),
    ("body: body", "body: bdy", "did you mean 'body'"),
    ("function: onnx::Loop", "function: onnx.Loop", "did you mean 'onnx::Loop'"),
    ("function: onnx::Loop", "function: onnx::While", "did you mean 'onnx::Loop'"),
]

KEYS = [
    ("dt: {value: 0.1}", "dt: 0.1", "write dt: {value: 0.1}"),
    ("dt: {value: 0.1}", "dt {value: 0.1}", "a colon is missing: write dt: {value: 0.1}"),
    ("dt: {value: 0.1}", "dt: {value: '0,01'}", "a number has a point: write 0.01"),
    ("dt: {value: 0.1}", "dt: {value: 10 %}", "not a number or an expression; write 0.1"),
    ("dt: {value: 0.1}", "dt:{value: 0.1}", "a space is missing behind the colon"),
    ("dt: {value: 0.1}", "dt: {value: 0,1}", "a number has a point: 0.1, not 0,1"),
    ("dt: {value: 0.1}", "dt: {value: max(0.1, tau_m)}", "a text with commas is in quotes inside { }: 'max(0.1, tau_m)'"),
    ("dt: {value: 0.1}", "dt: {value: [[0.1, tau_m], [0, 1]]}", "as one text, in quotes: '[[0.1, tau_m], [0, 1]]'"),
    ("path: {value: run.path}", "path: {value: [run.path, dt]}", "as one text, in quotes: '[run.path, dt]'"),
    ("current: {default_value: 1.5}", "current: 1.5", "write current: {default_value: 1.5}"),
    (T, "t = t + dt", "a key has a colon and a space behind it"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), OTHER_LANGUAGES + ARGUMENTS + KEYS, ids=lambda text: text[:30])
def test_a_mistake_has_its_line_and_says_what_to_write(tmp_path, right, wrong, message):
    path = tmp_path / "m.yaml"
    line = MODEL[: MODEL.index(right)].count("\n") + 1
    path.write_text(MODEL.replace(right, wrong, 1), encoding="utf-8")
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert message in "; ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert line_of_error(path, caught.value) == line
    assert any(found.line == line and message in found.message for found in check(path))


def test_results_are_not_there_inside_of_the_loop(tmp_path):
    with pytest.raises(MissingCapture, match="path is collected, and an array when the loop has ended"):
        mdf_loop.loop(9, True, 0.0, body="x: x + 1\ncollect path: x\nwhile: max(path) < 3")
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace(WHILE, "while: run[0] < threshold"))
    (found,) = check(path)
    assert found.kind == "error"
    assert "the body reads 'run', the loop itself" in found.message
    x, top = mdf_loop.loop(2, True, 0.0, np.zeros((2, 3)), body="x: x + 1\nT: T + A.T", A=np.ones((3, 2)))
    assert (x, top.shape) == (2, (2, 3))


def test_the_model_is_right(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL)
    assert check(path) == []


def test_a_name_that_is_carried_and_collected_is_none_to_take(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace("path: v", "v: v").replace("run.path", "run.v"))
    with pytest.raises(LoopError, match=r"'v' is carried \(result \[0\]\) and collected \(\[2\]\): write the number") as caught:
        mdf_loop.run(path)
    assert "did you mean 'v'" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["x: x + (1 & 3 == 1)", "x: bitwise_xor(x, 3)", "x: (x > 1) ^ (x > 3)", "x: numpy.sum((x, 1))", "x: (x, 1)[0]"]
)
def test_operators_on_bits_and_tuples_are_there(text):
    assert mdf_loop.loop(1, True, 2, body=text) in (0, 1, 2, 3)


def test_a_name_is_no_suggestion_for_itself():
    from mdf_loop.errors import did_you_mean, unknown_name

    assert did_you_mean("path", ["path", "v"]) == ""
    assert did_you_mean("V", ["v"]) == "; did you mean 'v'?"
    assert did_you_mean("m", ["tau_m", "v"]) == "; did you mean 'tau_m'?"
    assert did_you_mean("n.\u00b5", ["n.v", "n.\u03bc"]) == "; did you mean 'n.\u03bc' (without U+00B5, which looks the same)?"
    assert "U+00B5" in str(unknown_name("there is nothing called", "\u00b5", ["n.v", "n.\u03bc"]))


def test_a_constant_that_is_read_in_the_place_of_a_parameter_is_noted(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace("dt / tau_m", "dt / tau"))
    found, warned = check(path)
    assert "tau is 2 pi" in warned.message
    assert "g/neuron/tau_m: nothing reads it; tau is read, which is a number of its own: did you mean 'tau_m'?" in found.message


def test_a_derivative_that_is_multiplied_by_the_step_itself_has_a_warning():
    with pytest.warns(LoopWarning, match="derivative of v reads dt, by which the method multiplies it once more"):
        mdf_loop.loop(3, True, 1.0, body={"derivatives": {"v": "-v * dt"}, "dt": 0.1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mdf_loop.loop(3, True, 1.0, 0.0, body={"derivatives": {"v": "-v * t"}, "carried": {"t": "t + dt"}, "dt": 0.1})
        mdf_loop.loop(3, True, 1.0, body={"derivatives": {"v": "sin(i * dt) - v"}, "dt": 0.1})


TIME_CONSTANT = "dv/dt: (I - v) / tau\ndt: 0.1"


def test_tau_without_a_value_is_two_pi_with_a_warning():
    with pytest.warns(LoopWarning, match=r"tau is 2 pi, where no value of that name is given; give tau=\.\.\., write 2 \* pi"):
        alone = mdf_loop.loop(10, True, 0.0, body=TIME_CONSTANT + "  # not read before", I=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = mdf_loop.loop(10, True, 0.0, body=TIME_CONSTANT, I=1.0, tau=2 * np.pi)
        written = mdf_loop.loop(10, True, 0.0, body=TIME_CONSTANT.replace("tau", "math.tau"), I=1.0)
        let = mdf_loop.loop(10, True, 0.0, body=f"{TIME_CONSTANT}\nlet tau: 2 * pi", I=1.0)
    assert alone == given == written == let


@pytest.mark.parametrize("is_file", [True, False])
def test_each_run_warns_of_tau_once(is_file, tmp_path):
    for name in "ab":
        (tmp_path / name).with_suffix(".yaml").write_text(MODEL.replace("dt / tau_m", "dt / tau"))

    def run(name):
        if is_file:
            return mdf_loop.run(tmp_path / f"{name}.yaml")
        return mdf_loop.loop(10, True, 0.0, body=TIME_CONSTANT, I=1.0)

    for name in "aab":
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run(name)
        assert sum("tau is 2 pi" in str(each.message) for each in told) == 1


def test_check_reports_a_tau_that_the_node_does_not_have(tmp_path, capsys):
    def checked(**values):
        node = {"parameters": {"body": {"value": {"carried": {"x": "x + tau"}}}, **{k: {"value": v} for k, v in values.items()}}}
        node["parameters"]["run"] = {"function": "onnx::Loop", "args": {"M": 3, "x": 0.0, "body": "body"}}
        node["output_ports"] = {"out": {"value": "run"}}
        (tmp_path / "m.json").write_text(
            json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}})
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return [problem.message for problem in check(tmp_path / "m.json")]

    (warned,) = checked()
    assert warned.startswith("g/n/body: tau is 2 pi")
    assert checked(tau=3.0) == []


def test_text_says_what_is_captured_and_the_step_as_a_mapping_does():
    mapping = {"derivatives": {"v": "(I - v) / tau"}, "dt": "0.1", "captured": ["tau", "I"]}
    assert equations_in(f"{TIME_CONSTANT}\ncaptured: tau, I").as_mapping() == equations_in(mapping).as_mapping()
    with pytest.raises(MissingCapture, match="'tau'"):
        mdf_loop.loop(10, True, 0.0, body=f"{TIME_CONSTANT}\ncaptured: tau", I=1.0)
    assert mdf_loop.loop(3, True, 0, body="captured: captured + 1") == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tau_m: {value: 20.0}", "tau_m: {value: '20,5'}"),
        ("t: 0.0", "t: '20,5'"),
        ("default_value: 1.5", "default_value: '20,5'"),
    ],
)
def test_a_decimal_comma_is_an_error_in_its_line(tmp_path, old, new):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace(old, new))
    with pytest.raises(LoopError, match=r"'20,5' is two numbers; a decimal point is written 20\.5") as caught:
        mdf_loop.run(path)
    assert "trusted" not in str(caught.value)
    line = MODEL[: MODEL.index(old)].count("\n") + 1
    assert line_of_error(path, caught.value) == line or old.startswith("t:")
    assert any("20.5" in problem.message for problem in check(path) if problem.kind == "error")


@pytest.mark.parametrize("written", ["1, 2", "(1,2)", "[1,2]"])
def test_two_numbers_with_a_space_or_brackets_are_two_numbers(written):
    refuse_decimal_comma(written)


OUTPUTS = " " * 20 + "output_ports:"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mean(run.path)", r"expression 'mean\(run.path\)', .*; write numpy.mean\(run.path\)$"),
        ("2 * pi", "it reads 'pi', which the node does not have; write numpy.pi"),
        ("random.gauss(0, 1)", r"; write normal\(0, 1\) in the equations of a loop"),
        ("rng.normal(0, 1)", r"; write numpy.random.normal\(0, 1\)"),
        ("np.meann(run.path)", "; did you mean 'mean'"),
    ],
)
def test_functions_and_numbers_of_numpy_in_ports_say_what_is_written_there(tmp_path, written, meant):
    path, port = tmp_path / "m.yaml", f"{OUTPUTS}\n                        mine: {{value: '{written}'}}"
    path.write_text(MODEL.replace(OUTPUTS, port))
    problem = next(each for each in check(path) if each.kind == "error" and re.search(meant, each.message))
    assert written in path.read_text().split("\n")[problem.line - 1]
    with pytest.raises(LoopError, match=meant.removesuffix("$")) as caught:
        mdf_loop.run(path)
    assert line_of_error(path, caught.value) == problem.line
    assert "trusted" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("dx/dt: -x\nmethod: RK4", r"line 2: method is euler, heun, rk4; got 'RK4'; did you mean 'rk4'\?"),
        ("x: x + 1\nuntil: x > 6", r"line 2: a loop goes on while something is true: while: not \(x > 6\)"),
        ("x: x + 1\ncollect: x", "line 2: what is collected has a name: collect path: x"),
        ("x: exp x", r"a call has brackets: exp\(x\)"),
    ],
)
def test_lines_that_are_meant_as_keys_or_calls_say_how_they_are_written(body, meant):
    with pytest.raises(LoopError, match=meant):
        mdf_loop.loop(3, True, 0.0, body=body, dt=0.1)


def test_values_may_have_the_names_of_keys():
    assert mdf_loop.loop(3, True, 9, 1, 2, body="until: until - 1\nmethod: method + 1\ncollect: collect + 1") == (6, 4, 5)


@pytest.mark.parametrize("matrix", ["'[[1.0, dt], [0.0, 1.0]]'", "np.array([[1.0, dt], [0.0, 1.0]])"])
def test_an_array_of_expressions_is_a_text(tmp_path, matrix):
    written = f"dt: {{value: 0.1}}\n{' ' * 24}A: {{value: {matrix if matrix[0] == chr(39) else repr(matrix)}}}"
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace("dt: {value: 0.1}", written).replace("v + dt / tau_m", "v + A[0, 1] / tau_m"))
    assert check(path) == []
    plain = tmp_path / "plain.yaml"
    plain.write_text(MODEL)
    assert mdf_loop.run(path)["spike_time"] == mdf_loop.run(plain)["spike_time"]


@pytest.mark.parametrize(("right", "wrong"), [("value: 0.1", "value: np.exp(-2.3)"), ("v: v_rest", "v: np.sqrt(v_rest)")])
def test_np_is_numpy_wherever_a_model_has_expressions(tmp_path, right, wrong):
    path, other = tmp_path / "m.yaml", tmp_path / "other.yaml"
    path.write_text(MODEL.replace(right, wrong, 1))
    other.write_text(MODEL.replace(right, wrong.replace("np.", "numpy."), 1))
    assert check(path) == []  # which runs it in MDF's engine
    assert mdf_loop.run(path)["spike_time"] == mdf_loop.run(other)["spike_time"]
    with mdf_loop.options(trusted=True):
        assert mdf_loop.run(path)["spike_time"] == mdf_loop.run(other)["spike_time"]


def test_a_loop_that_ends_at_once_has_a_warning(tmp_path):
    path, inverted = tmp_path / "m.yaml", WHILE.replace("<", ">")
    path.write_text(MODEL.replace(WHILE, inverted))
    (found,) = check(path)
    assert found.kind == "warning"
    assert "while is the condition to go on, and false at the beginning, so only one iteration runs" in found.message
    assert found.message.endswith("if it is meant to end the loop, write while: not (v > threshold)")
    path.write_text(MODEL.replace(WHILE, "while: v < 0.005"))  # true at the beginning
    assert [each.message for each in check(path)] == ["g/neuron/threshold: nothing reads it"]
    path.write_text(MODEL.replace("cond: true", "cond: v_rest > threshold"))
    (found,) = check(path)
    assert "no iteration runs: cond, the condition to go on, is false" in found.message


@pytest.mark.parametrize("body", ["x: x + w", "let k: x * 2\nx: k + w"])
def test_shapes_that_do_not_go_together_name_the_values_that_were_given(body):
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(3, True, np.zeros(3), body=body, w=np.ones(4))
    assert caught.value.__notes__ == [
        "it is computed from 'x', float64[3], 'w', float64[4]; what is carried begins with the shape of its initial value"
    ]


def test_arguments_that_a_draw_leaves_out_have_their_defaults():
    with mdf_loop.options(seed=3):
        given = mdf_loop.loop(4, True, 0.0, body="x: x + np.random.normal(0.0, 2.0)")
    with mdf_loop.options(seed=3):
        assert mdf_loop.loop(4, True, 0.0, body="x: x + np.random.normal(scale=2.0)") == given


def test_what_is_written_in_the_place_of_a_choice_draws_with_these_probabilities():
    body = "let k: values[argmax(cumsum(p) > uniform())]\nx: x + k\ncollect drawn: k"
    with mdf_loop.options(seed=1):
        _, drawn = mdf_loop.loop(4000, True, 0.0, body=body, values=[1.0, 2.0, 4.0], p=[0.2, 0.3, 0.5])
    assert np.abs(np.unique(drawn, return_counts=True)[1] / 4000 - [0.2, 0.3, 0.5]).max() < 0.03


@pytest.mark.parametrize(("text", "mean"), [("binomial(5, 0.3)", 1.5), ("binomial(1, 0.3)", 0.3), ("bernoulli(0.3)", 0.3)])
def test_what_is_written_in_the_place_of_a_binomial_draw_counts_all_trials(text, mean):
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(1, True, 0.0, body=f"x: {text}")
    cure = re.search("; write (.*)$", str(caught.value))[1]
    with mdf_loop.options(seed=1):
        _, drawn = mdf_loop.loop(4000, True, 0.0, body=f"x: x\ncollect drawn: {cure}")
    assert abs(np.mean(drawn) - mean) < 0.05


def test_an_exponential_may_be_meant_as_a_function():
    with pytest.raises(LoopError, match=r"; write -x \* log\(uniform\(\)\); e to a power is exp\(x\)$"):
        mdf_loop.loop(1, True, 0.5, body="x: exponential(x)")


def test_a_call_in_braces_says_how_it_is_written():
    with pytest.raises(LoopError, match=r"a text with commas is in quotes inside { }: 'max\(x, 3\)'"):
        mdf_loop.loop(1, True, 0.0, body={"carried": {"x": "max(x", "3)": None}})


def test_a_line_of_text_as_a_key_of_a_mapping_says_how_it_is_written():
    with pytest.raises(LoopError, match=r"got 'let k'; write let: {k: x \+ 1}"):
        mdf_loop.loop(1, True, 0.0, body={"carried": {"x": "k", "let k": "x + 1"}})


def test_initial_values_in_a_list_are_one_text(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL.replace("v: v_rest", "v: [v_rest, dt]"))
    with pytest.raises(LoopError, match=r"write an array of expressions as one text, in quotes: '\[v_rest, dt\]'"):
        mdf_loop.run(path)


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        ("x: where(x > 3 and x < 9, 0.0, x)", "(a > 0) & (b > 0)"),
        ("x: where(x > 3 or x < 1, 0.0, x)", "(a > 0) | (b > 0)"),
        ("x: where(3 < x < 9, 0.0, x)", "(a > 0) & (b > 0)"),
        ("x: x / 2 if x > 3 else x", "numpy.where(x > 0, a, b)"),
        ("x: x / 2 if x > 3 else 0", "numpy.where(x > 0, a, b)"),
        ("x: x * (not x)", "numpy.logical_not(x)"),
    ],
)
@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
def test_conditions_of_arrays_lead_to_those_of_elements(body, instead, engine):
    words = f"an array of 3 elements is neither true nor false; for each element write {instead}"
    with mdf_loop.options(engine=engine), pytest.raises(LoopError, match=re.escape(words)):
        mdf_loop.loop(1, True, np.array([1.0, 5.0, 10.0]), body=body)


@pytest.mark.parametrize(
    ("count", "meant"), [(0.3 / 0.1, "; write 3, or round(...) around what computes it"), (3.0, "; write 3"), (2.5, "")]
)
def test_a_trip_count_that_is_computed_is_rounded(count, meant):
    with pytest.raises(LoopError, match=re.escape(f"got float64[] ({count}){meant}") + "$"):
        mdf_loop.loop(count, True, 1.0, body="x: x")
