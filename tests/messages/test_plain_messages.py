"""What people read who write a first model: our words first, with what was probably meant, by a run and by ``check``."""

import json
import re
import textwrap

import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.convert.locating import line_of_error
from mdf_loop.errors import ArgumentError, IterationError, LoopError, MalformedBody, MissingOutput

MODEL = """\
m:
  graphs:
    g:
      nodes:
        a:
          input_ports: {drive: {default_value: 0.5}}
          parameters:
            n: {value: 10}
            x0: {value: 1.0}
            rate: {value: 0.5}
            body:
              value:
                carried: {x: x * rate + drive}
                collected: {path: x}
            run: {function: 'onnx::Loop', args: {M: n, cond: true, x: x0, body: body}}
          output_ports:
            last: {value: 'run[0]'}
            path: {value: 'run[1]'}
"""

CONDITION = "      conditions: {{node_specific: {{a: {{type: {}, kwargs: {{dependency: a, {}}}}}}}}}\n"

RATE = "rate: {value: 0.5}"

BOTH = [
    (
        "M: n",
        "M: ten",
        15,
        "g/a/run: argument 'M' reads 'ten', which the node does not have; write a number, or the name of something in the node",
    ),
    (
        "x0: {value: 1.0}",
        "x0: {value: ratte * 2}",
        9,
        "g/a/x0: it reads 'ratte', which the node does not have; did you mean 'rate'?",
    ),
    (
        "body: body}",
        "body: boddy}",
        15,
        "g/a/run: argument 'body' reads 'boddy', which the node does not have; did you mean 'body'?",
    ),
    ("cond: true", "cond: yes please", 15, "g/a/run: argument 'cond': the text 'yes please' is not an expression"),
    ("onnx::Loop", "Loop", 15, "g/a/run: there is no function 'Loop'; did you mean 'onnx::Loop'?"),
    ("onnx::Loop", "onnx:Loop", 15, "g/a/run: there is no function 'onnx:Loop'; did you mean 'onnx::Loop'?"),
    (
        RATE,
        "rate: {function: linaer, args: {variable0: 1}}",
        10,
        "g/a/rate: there is no function 'linaer'; did you mean 'linear'?",
    ),
    (
        RATE,
        "rate: {function: linear, args: {variable0: 1, slope: 2}}",
        10,
        "g/a/rate: linear takes variable0, slope, intercept; missing: intercept",
    ),
    ("'run[1]'", "run.paht", 18, "g/a/path: 'paht' is no result of the equations; did you mean 'path'?; the results are x, path"),
    ("carried:", "caried:", 13, "unknown: caried; did you mean 'carried'?"),
    ("collected:", "collect:", 14, "unknown: collect; did you mean 'collected'?"),
    (
        "{x: x * rate + drive}",
        "[x * rate]",
        13,
        "equations/carried: it is a mapping from names to expressions, such as {x: x + 1}; got ['x * rate']",
    ),
    ("{x: x * rate + drive}", "{x = x * rate}", 13, "a name has letters, digits and _, and a colon behind it: x: x + 1"),
    (
        "x * rate + drive",
        "np.linalg.eig(x)",
        13,
        "equations/x: expression 'np.linalg.eig(x)' calls numpy.linalg.eig, which is not among",
    ),
    ("x: x0, body", "body", 15, "g/a/run: 'x' has no initial value; args give values by name: x"),
    ("M: n", "max: n", 15, "g/a/run: the equations have no 'max'; did you mean 'M'?; args give values by name: x"),
    ("x: x0,", "x: x0, y: 1,", 15, "g/a/run: the equations have no 'y'; args give values by name: x"),
    (
        "body: body}",
        "boddy: body}",
        15,
        "g/a/run: the equations have no 'boddy'; did you mean 'body'?; args give values by name: x",
    ),
    ("x: x0,", "x: '(x0, x0)',", 15, "g/a/run: the equations carry x; args give 2 values"),
    (
        "{x: x * rate + drive}",
        "{x: a}\n                let: {a: b, b: a * rate + drive}",
        14,
        "let a: let is circular: a reads b, b reads a; what an iteration reads of the one before it is carried",
    ),
    ("x * rate", "x rate", 13, "invalid syntax; a product is written x * rate"),
    ("x * rate + drive", "x; while", 13, "write each equation on a line of its own"),
    (RATE, "rate: {value: 0.5 mV}", 10, "write the number alone, 0.5, and mV into metadata: {units: mV}"),
    (RATE, "rate: {value: 'x: x + 1'}", 10, "a body of equations is a mapping: {carried: {x: x + 1}, while: x < 10}"),
    (RATE, "rate: {function: 'onnx::Add', args: {A: 1, C: 2}}", 10, "onnx::Add takes A, B; missing: B; unknown: C"),
    (
        RATE,
        "rate: {function: linear, args: {variable0: 1, slop: 2, intercept: 0}}",
        10,
        "linear takes variable0, slope, intercept; missing: slope; unknown: slop",
    ),
    ("carried: {", "carried: x: {", 13, "write each key on a line of its own, or several in braces: {x: 1, y: 2}"),
    ("'run[1]'", "run[1]", 18, "a text with brackets or a colon is written in quotes inside braces: {value: 'run[0]'}"),
    ("            n: {value: 10}", "             n: {value: 10}", 9, "the keys of one mapping begin in the same column"),
    ("      nodes:", "      edges:", 6, "'input_ports'"),
]


def model(tmp_path, old="", new="", more=""):
    """The model with something in the place of something else, as a file."""
    assert old in MODEL
    path = tmp_path / "model.yaml"
    path.write_text(MODEL.replace(old, new, 1) + more)
    return path


def told(error):
    """All that an error says."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize(("old", "new", "line", "message"), BOTH, ids=[new for _, new, *_ in BOTH])
def test_a_run_and_a_check_say_the_same(tmp_path, old, new, line, message):
    path = model(tmp_path, old, new)
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert message in str(caught.value)
    assert "MDF's engine" not in str(caught.value)
    assert [found.line for found in check(path) if message in found.message] == [line]


def test_the_model_itself_is_right(tmp_path):
    assert check(model(tmp_path)) == []
    assert mdf_loop.run(model(tmp_path))["path"].shape == (10,)


def test_what_mdf_says_is_the_cause_and_other_names_come_along(tmp_path):
    path = model(tmp_path, "x0: {value: 1.0}", "x0: {value: first + second}")
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.run(path)
    assert str(caught.value) == "g/a/x0: it reads 'first', which the node does not have"
    assert [str(other) for other in caught.value.others] == ["g/a/x0: it reads 'second', which the node does not have"]
    assert "following vars are missing" in str(caught.value.__cause__)


def test_an_error_that_keeps_results_stays_and_says_the_name_first(tmp_path):
    with pytest.raises(IterationError, match=r"^g/a/last: it reads 'rnu', .*did you mean 'run'\?; after 10 iterations") as caught:
        mdf_loop.run(model(tmp_path, "'run[0]'", "rnu"))
    assert caught.value.iteration == 10
    assert caught.value.results.iterations == 10


def test_a_name_that_a_body_reads_is_compared_with_those_of_the_node(tmp_path):
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(model(tmp_path, "x * rate", "x * raet"))
    assert "the body reads 'raet', which the node does not have; did you mean 'rate'?" in told(caught.value)


@pytest.mark.parametrize(("old", "new"), [("x * rate", "x * raet"), ("+ drive", "+ darive"), ("path: x", "path: xx * path")])
def test_a_name_that_nothing_has_has_the_line_of_its_equation(tmp_path, old, new):
    path = model(tmp_path, old, new)
    line = next(k for k, text in enumerate(path.read_text().split("\n"), 1) if new in text)
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert line_of_error(path, caught.value) == line
    assert line in [found.line for found in check(path) if found.kind == "error"]


@pytest.mark.parametrize(
    ("name", "args", "meant"),
    [
        ("randn", "", "write noise(), or noise(zeros(n)) for n numbers"),
        ("rand", "3", "write uniform(), or uniform(zeros(n)) for n numbers"),
        ("gauss", "0, 1", "did you mean 'normal'"),
        ("rnorm", "1, 0, rate", "write normal(0, rate)"),
        ("runif", "1", "write uniform(0, 1)"),
    ],
)
def test_names_of_draws_lead_to_what_draws_the_same(name, args, meant):
    with pytest.raises(LoopError, match=re.escape(f"there is no function '{name}'; {meant}")):
        mdf_loop.loop(3, True, 1.0, body=f"x: x * {name}({args})", rate=2.0)


def test_a_body_without_a_mapping_is_told_as_written(tmp_path):
    body = "\n                carried: {x: x * rate + drive}\n                collected: {path: x}"
    with pytest.raises(MalformedBody, match="a body of equations is a mapping"):
        mdf_loop.run(model(tmp_path, f"value:{body}", "value: 'x: x * rate; while: x < 1'"))


@pytest.mark.parametrize(("written", "meant"), [("=>", ">="), ("=<", "<="), ("=", "=="), ("<>", "!="), ("near", "")])
def test_a_comparison_that_is_not_there(tmp_path, written, meant):
    path = model(tmp_path, more=CONDITION.format("Threshold", f"parameter: rate, threshold: 1, comparator: '{written}'"))
    near = f"; did you mean '{meant}'?" if meant else ""
    said = f"comparator of Threshold must be one of <, <=, >, >=, ==, !=; got '{written}'{near}"
    with pytest.raises(LoopError, match=re.escape(said)):
        mdf_loop.run(path)
    assert [(found.line, found.message.partition(": ")[2]) for found in check(path)] == [(19, said)]


@pytest.mark.parametrize(
    ("kind", "keyword", "message"),
    [
        ("EveryNCalls", "n: -1", "n of EveryNCalls must be a whole number from 0 on; got -1"),
        ("EveryNCalls", "n: two", "n of EveryNCalls must be a whole number from 0 on; got 'two'"),
        ("EveryNCalls", "n: '2'", "n of EveryNCalls must be a whole number from 0 on; got '2'; write 2, without quotes"),
        ("EveryNCalls", "n: 1.5", "n of EveryNCalls must be a whole number from 0 on; got 1.5"),
        ("EveryNCall", "n: 1", "graph-scheduler has no condition 'EveryNCall'; did you mean 'EveryNCalls'?"),
        ("EveryNCalls", "m: 1", "EveryNCalls takes dependency, n; unknown: m"),
    ],
)
def test_conditions_that_are_not_there(tmp_path, kind, keyword, message):
    path = model(tmp_path, more=CONDITION.format(kind, keyword))
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    keyword = "/kwargs/n" if message.startswith("n of") else ""
    assert str(caught.value) == f"g/conditions/node_specific/a{keyword}: {message}"
    assert [(found.line, found.message) for found in check(path)] == [(19, str(caught.value))]


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        (
            "0.5}}",
            "half}}",
            "error",  # the body multiplies by it
            "its default is the text 'half', not a number; if it is meant as a text, declare type: string",
        ),
        ("0.5}}", "half, type: float}}", "error", "its default is the text 'half', not a number; declared is float"),
        ("0.5}}", "'0.5'}}", "", ""),
        (
            "{value: 1.0}",
            "{value: [1.0, a]}",
            "error",
            "'a' among its numbers is a text; write an array of expressions as one text, in quotes: '[1.0, a]'",
        ),
        ("{value: 1.0}", "{value: [[1.0], [1.0, 2.0]]}", "error", "its rows differ in length; an array has rows of one length"),
        ("{value: 10}", "{value: 10.5}", "error", "the trip count M is a whole number; got 10.5"),
        ("{value: 10}", "{value: 10.0}", "error", "the trip count M is a whole number; got 10.0; write 10"),
        ("{value: 0.5}", "{value: '0,5'}", "error", "'0,5' is two numbers; a decimal point is written 0.5"),
        ("{value: 10}", "{value: -10}", "warning", "the trip count M is -10, so no iteration runs"),
        (
            RATE,
            "rate: {function: linear, args: {variable0: 1, slope: 2, intercept: 0, gain: 3}}",
            "warning",
            "linear takes variable0, slope, intercept, and not 'gain'",
        ),
        ("last: {value: 'run[0]'}", "last: {}", "warning", "it has no value, so it is not an output; write value: ..."),
    ],
)
def test_values_that_are_no_numbers_are_found_without_a_run(tmp_path, old, new, kind, message):
    found = [(problem.kind, problem.message.partition(": ")[2]) for problem in check(model(tmp_path, old, new))]
    assert found == ([(kind, message)] if kind else [])


LINES = """\
b (int64 i, bool c, double x) => (bool c, double y, double z) {
  y = x * rate
  w = Identity (y
  v = Add (y,
     w)
  u = Sub v, w
  s, t = Split <axis = 0,
    num_outputs = 2> (v)
  z = Neg (u)
}"""


def test_each_line_of_onnx_text_that_does_not_parse_is_reported():
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.loop(3, True, 0.0, body=LINES)
    found = [str(error) for error in (caught.value, *caught.value.others)]
    assert [message.partition("(line: ")[2][0] for message in found] == ["2", "3", "6"]
    assert "y = Mul (x, rate)" in found[0]


def test_each_line_of_onnx_text_has_its_line_in_the_file(tmp_path):
    body = "carried: {x: x * rate + drive}\n                collected: {path: x}"
    path = model(tmp_path, body, f"onnx: |\n{textwrap.indent(LINES, ' ' * 18)}")
    assert [found.line for found in check(path) if "does not parse" in found.message] == [15, 16, 19]


def test_one_error_in_onnx_text_is_one():
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.loop(3, True, 0.0, body=LINES.replace("x * rate", "Neg (x)").replace("(y\n", "(y)\n"))
    assert "(line: 6 " in str(caught.value)
    assert caught.value.others == ()


@pytest.mark.parametrize(
    ("arguments", "body", "message"),
    [
        ((10, True, 0.0), "x = x + 1", "an equation has a colon: x: x + 1"),
        ((10, True, 0.0), "x *= 2\ny = 3", "an equation has a colon: x: x * 2"),
        ((10, True, 0.0), "x: x + 1\nwhiel: x < 3", "did you mean 'while' by 'whiel'?"),
        ((10, 0.0), "x: x + 1", "a call is loop(M, cond, x, body=...): is the condition or an initial value missing?"),
        ((True, 10, 0.0), "x: x + 1", "the condition comes behind it: loop(M, cond, ...)"),
        ((10, True, 2.0), "x: x ^ 2.0", "a power is written **"),
        ((10, True, 0.0), "dx/ds: -x\ndt: 0.1", "a derivative is written dx/dt: -x"),
        ((10, True, 2), "n: n ** -1", "begin with 2.0, not 2"),
        ((10, True, 2.0), "x: x + exp", "exp is a function: write exp(...)"),
        ((10, True, 0.0), lambda x: (True, x), "it cannot be called with 3 values in order"),
    ],
)
def test_calls_that_are_nearly_right(arguments, body, message):
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(*arguments, body=body)
    assert message in str(caught.value)


def test_a_type_error_of_a_python_body_is_its_own():
    with pytest.raises(IterationError, match="unsupported operand"):
        mdf_loop.loop(3, True, 0.0, body=lambda i, go, x: (True, x + None))


def test_an_output_that_is_not_there(tmp_path):
    results = mdf_loop.run(model(tmp_path))
    with pytest.raises(MissingOutput, match=r"^the results have no output called 'lst'; did you mean 'last'\?$") as caught:
        results["lst"]
    assert isinstance(caught.value, KeyError)
    assert results.get("lst") is None
    assert "lst" not in results


def test_inputs_and_outputs_print_as_what_they_are(tmp_path):
    prepared = mdf_loop.prepare(model(tmp_path))
    assert repr(prepared.inputs["rate"]) == "<input rate: float64[] = 0.5 (node a, parameter rate)>"
    assert repr(prepared.outputs["last"]) == "<output last (node a, output port last)>"


def test_plans_in_notebooks_have_their_words():
    compiled = mdf_loop.compile("x: x + rate")
    with mdf_loop.options(engine="numpy"):
        compiled(300, True, 0.0, rate=1.0)
    plain, source = compiled.explain()._repr_html_(), compiled.explain(source=True)._repr_html_()
    assert "<details style" in plain.partition("</table>")[2]
    assert "<details open" in source.partition("</table>")[2]
    assert "def program" in source


def test_carried_values_in_equations_are_counted_in_their_own_words():
    with pytest.raises(
        ArgumentError, match=r"^Loop: the equations carry x, z; each needs one initial value, in this order, and 1 is given"
    ):
        mdf_loop.loop(3, True, 0.0, body="x: x + 1\nz: z + 1")


@pytest.mark.parametrize(
    ("key", "condition", "told"),
    [
        (
            "trial",
            {"type": "AfterNCalls", "kwargs": {"dependency": "n", "n": 2}},
            "got 'trial'; did you mean 'environment_state_",
        ),
        ("sequence", {"type": "AfterNCalls", "kwargs": {"dependency": "n", "n": 2}}, "environment_sequence; got 'sequence'"),
        (
            "environment_state_update",
            {"type": "Threshold", "kwargs": {"dependency": "n", "parameter": "x_ou", "threshold": 4, "comparator": ">="}},
            "'x_ou', which node 'n' does not have; it has x, x_out; did you mean 'x_out'?",
        ),
    ],
)
def test_conditions_of_termination_name_what_there_is(tmp_path, key, condition, told):
    node = {"parameters": {"x": {"default_initial_value": 0, "value": "x + 1"}}, "output_ports": {"x_out": {"value": "x"}}}
    graph = {"nodes": {"n": node}, "conditions": {"termination": {key: condition}}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": graph}}}))
    assert told in "".join(problem.message for problem in check(path))
    with pytest.raises(MalformedBody, match=re.escape(told)):
        mdf_loop.run(path)
