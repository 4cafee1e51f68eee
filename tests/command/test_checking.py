"""``mdf-loop check`` and ``mdf-loop new``."""

import json
import re
from pathlib import Path

import pytest
import yaml
from commands import run_main

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError, MalformedBody

ROOT = Path(__file__).parents[2]
FOLDERS = [("examples", "*.yaml"), ("examples", "*.json"), ("tests/models", "*.onnx")]
GOOD = [path for folder, names in FOLDERS for path in sorted((ROOT / folder).glob(names))]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_nothing_is_wrong_with_the_examples(path):
    assert check(path) == []


OF_ONNX = [path for folder in ("tests/models", "benchmarks/exported") for path in sorted((ROOT / folder).glob("*.onnx"))]


@pytest.mark.parametrize("path", OF_ONNX[::3], ids=lambda path: path.stem)
def test_nothing_is_wrong_with_a_model_that_was_converted(path, tmp_path):
    mdf_loop.convert(path, tmp_path / "m.mdf.yaml")
    assert check(tmp_path / "m.mdf.yaml") == []


@pytest.mark.parametrize("name", ["Loop", "Mul"])
def test_only_the_node_with_an_error_is_reported_in_a_model_that_was_converted(name, tmp_path):
    path = tmp_path / "m.mdf.yaml"
    mdf_loop.convert(ROOT / "benchmarks/exported/jax_newton.onnx", path)
    path.write_text(re.sub(rf"onnx::{name}\b", f"onnx::{name}b", path.read_text(), count=1))
    (problem,) = check(path)
    assert f"{name}b" in problem.message


@pytest.mark.parametrize("is_fed", [True, False])
def test_a_condition_that_an_input_brings_is_not_taken_for_an_omitted_one(is_fed, tmp_path):
    """An input without a value is missing; a loop that nothing ends is something else."""
    inner = {"parameters": {"c": {"value": "1 > 2"}}, "output_ports": {"o": {"value": "c"}}}
    args = {"M": None, "cond": "go", "x": 0.0, "body": "body"}
    parameters = {"body": {"value": {"carried": {"x": "x + 1"}}}, "run": {"function": "onnx::Loop", "args": args}}
    node = {"input_ports": {"go": {}}, "parameters": parameters, "output_ports": {"y": {"value": "run.x"}}}
    edge = {"sender": "A", "sender_port": "o", "receiver": "B", "receiver_port": "go"}
    graph = {"nodes": {"A": inner, "B": node}, "edges": {"e": edge}} if is_fed else {"nodes": {"B": node}}
    (tmp_path / "m.json").write_text(json.dumps({"m": {"graphs": {"g": graph}}}))
    assert not any("never end" in problem.message for problem in check(tmp_path / "m.json"))


@pytest.mark.parametrize("names", [["zz"], [{"y": None}], "y"])
def test_outputs_that_a_converted_graph_does_not_have_are_reported(names, tmp_path):
    path = tmp_path / "m.json"
    node = {"parameters": {"p": {"value": 3}}, "output_ports": {"y": {"value": "p"}}}
    said = {"inputs": [], "outputs": names, "types": {}}
    path.write_text(json.dumps({"m": {"graphs": {"g": {"metadata": said, "nodes": {"A": node}}}}}))
    (problem,) = check(path)
    assert problem.kind == "error"
    assert "output" in problem.message
    with pytest.raises(MalformedBody, match="output"):
        mdf_loop.run(path)


@pytest.mark.parametrize("count", ["1e3", 1000.0, 2.5, float("inf"), float("nan"), True, [1, 2], [[1], [2, 3]]])
def test_trip_counts_that_are_no_whole_numbers_are_reported(count, tmp_path):
    path = tmp_path / "m.json"
    args = {"M": count, "cond": True, "x": 0.0, "body": "body"}
    parameters = {"body": {"value": {"carried": {"x": "x + 1"}}}, "run": {"function": "onnx::Loop", "args": args}}
    node = {"parameters": parameters, "output_ports": {"y": {"value": "run"}}}
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"A": node}}}}}))
    (problem,) = check(path)
    assert "trip count M is a whole number" in problem.message
    assert problem.message.endswith("; write 1000") == (count in ("1e3", 1000.0))
    with pytest.raises(LoopError, match=r"the trip count M (must be one integer|is ragged)") as caught:
        mdf_loop.run(path)
    assert ("; write 1000" in str(caught.value)) == (count in ("1e3", 1000.0))


def started(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_main("new", "decay") == 0
    assert "decay.yaml is written" in capsys.readouterr().out
    return tmp_path / "decay.yaml"


def test_a_new_model_runs_as_it_is(tmp_path, monkeypatch, capsys):
    path = started(tmp_path, monkeypatch, capsys)
    assert check(path) == []
    outputs = mdf_loop.run(path, rate=2.0)
    assert outputs["left"] <= 0.01 < outputs["path"][-2]
    assert run_main("check", path) == 0
    assert capsys.readouterr().out == f"{path}: nothing is wrong\n"
    assert path.read_text().count("mdf-loop run decay.yaml") == 2


def test_new_replaces_nothing_unless_asked_to(tmp_path, monkeypatch, capsys):
    path = started(tmp_path, monkeypatch, capsys)
    path.write_text("mine")
    assert run_main("new", "decay") == 1
    assert "--force replaces it" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert run_main("new", "decay.yaml", "--force") == 0
    assert run_main("new", "1 2") == 1
    assert run_main("new", "other", "--json") == 0


PARAMETERS = "          parameters:"
PORT = "          input_ports: {{spare: {{default_value: 0.5, {}}}}}\n" + PARAMETERS

WRONG = [
    ("value: run.x", "value: runn.x", "left:", "error", "reads 'runn', which the node does not have; did you mean 'run'?"),
    ("rate * x", "rats * x", "x: x - dt", "error", "the body reads 'rats', which the node does not have; did you mean 'rate'?"),
    ("x - dt * rate * x", "x - dt * rate *", "x: x - dt", "error", "invalid syntax"),
    ("t: t + dt", "t: t += dt", "t: t +=", "error", "write only the new value: x + 1"),
    ("x > enough", "x = enough", "while:", "error", "a comparison is written =="),
    ("x > enough", "max(x, 0) = enough", "while:", "error", "a comparison is written =="),
    ("x: x - dt", "x: sqr(x) - dt", "x: sqr", "error", "there is no function 'sqr'; did you mean 'sqrt'?"),
    ("x: start", "x: strat", "strat", "error", "argument 'x' reads 'strat', which the node does not have; did you mean 'start'?"),
    ("onnx::Loop", "onnx::Lop", "onnx::Lop", "error", "there is no function 'onnx::Lop'; did you mean 'onnx::Loop'?"),
    (
        "x: start, t: 0.0",
        "x: start",
        "args",
        "error",
        "'t' has no initial value; args give values by name: x, t",
    ),
    ("body: body", "body: boddy", "boddy", "error", "reads 'boddy', which the node does not have; did you mean 'body'?"),
    ("      nodes:", "      nodez:", "nodez:", "error", "did you mean 'nodes'?"),
    (PARAMETERS, PORT.format("type: int64"), "spare:", "error", "its default is float64, declared is int64"),
    (PARAMETERS, PORT.format("shape: [2]"), "spare:", "warning", "spare is declared with shape [2], and has the default 0.5"),
    ("enough: {value", "spare: {value: 1}\n            enough: {value", "spare:", "warning", "decay/spare: nothing reads it"),
    ("format:", "formt:", "formt:", "error", "did you mean 'format'?"),
    ("    collected:", "    colected:", "colected", "error", "unknown: colected"),
    (
        "while: x > enough",
        "until: x < enough",
        "until",
        "error",
        "unknown: until; a loop goes on while",
    ),
    (
        "x: x - dt * rate * x",
        "dx/dt: -rate * x",
        "dx/dt",
        "error",
        "a derivative is written derivatives: {x: -rate * x}",
    ),
]


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize(
    ("right", "wrong", "place", "kind", "told"), WRONG, ids=[wrong.strip().split("\n")[0] for _, wrong, *_ in WRONG]
)
def test_what_is_wrong_is_reported_with_its_line(tmp_path, monkeypatch, capsys, right, wrong, place, kind, told, suffix):
    text = started(tmp_path, monkeypatch, capsys).read_text()
    assert right in text
    text = text.replace(right, wrong)
    if suffix == ".json":
        text = json.dumps(yaml.safe_load(text), indent=1)
        place = place if place.endswith(":") and " " not in place else place.split(":")[0] + '":'
        place = place.rstrip(":").strip('"')
    path = tmp_path / f"m{suffix}"
    path.write_text(text)
    found = [problem for problem in check(path) if told in problem.message]
    assert [problem.kind for problem in found] == [kind]
    assert place in text.split("\n")[found[0].line - 1]
    assert run_main("check", path, *(["--strict"] if kind == "warning" else [])) == 1


UNREADABLE = ("colected", "until", "Lop", "boddy", "dx/dt")
BROKEN = [(right, wrong, told) for right, wrong, *_, told in WRONG if any(word in wrong for word in UNREADABLE)]


@pytest.mark.parametrize(("right", "wrong", "told"), BROKEN)
def test_a_loop_that_cannot_be_read_is_the_only_error(tmp_path, monkeypatch, capsys, right, wrong, told):
    path = started(tmp_path, monkeypatch, capsys)
    path.write_text(path.read_text().replace(right, wrong))
    (error,) = [problem for problem in check(path) if problem.kind == "error"]
    assert told in error.message
    path.write_text(path.read_text().replace("value: run.x", "value: numpy.abs(run.x)"))
    assert [problem.message for problem in check(path) if problem.kind == "error"] == [error.message]
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert told in str(caught.value)


def test_everything_is_reported_at_once(tmp_path, monkeypatch, capsys):
    path = started(tmp_path, monkeypatch, capsys)
    path.write_text(
        path.read_text().replace("output_ports", "output_portz").replace("parameters", "paramters").replace("format", "fmt")
    )
    assert [problem.line for problem in check(path)] == sorted(problem.line for problem in check(path))
    assert len(check(path)) == 3
    assert run_main("check", path, "--json") == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 3


TWO = """m:
  graphs:
    g:
      nodes:
        a: {input_ports: {x: {}}, output_ports: {y: {value: x}}}
        b: {input_ports: {x: {}}, output_ports: {y: {value: x}}}
        c: {output_ports: {y: {value: '1'}}}
      edges:
        there: {sender: a, sender_port: y, receiver: b, receiver_port: x}
        back: {sender: b, sender_port: y, receiver: a, receiver_port: x}
"""


def test_nodes_that_nothing_reaches(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(TWO)
    found = {(problem.line, problem.kind) for problem in check(path)}
    assert found == {(5, "error"), (6, "error"), (7, "warning")}


NO_MODELS = [("m.yaml", "m: ["), ("m.json", "{"), ("m.onnx", "no"), ("m.yaml", ""), ("m.yaml", "m: 3")]


@pytest.mark.parametrize(("name", "content"), NO_MODELS)
def test_files_that_are_no_models(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    (problem,) = check(tmp_path / name)
    assert problem.kind == "error"
    assert problem.message


def test_there_is_no_file(tmp_path, capsys):
    assert run_main("check", tmp_path / "nowhere.yaml") == 1


TYPES = [
    (
        "(bool c, double t, double u)",
        "(bool c, float t, double u)",
        "output 't' is declared float, but 't' is computed as double",
    ),
    ("u = Neg (t)", "u = Cast <to = 7> (t)", "output 'u' is declared double, but 'u' is computed as int64"),
    ("double s)", "int64 s)", "'s' is int64 and 'one' is double, but Add takes operands of one type"),
]


@pytest.mark.parametrize(("right", "wrong", "told"), TYPES, ids=[wrong for _, wrong, _ in TYPES])
def test_declared_types_are_held_against_those_of_operators(tmp_path, right, wrong, told):
    from tests.command.test_cli import COUNTING

    path, text = tmp_path / "m.yaml", COUNTING.replace("COUNT", "3")
    path.write_text(text)
    assert check(path) == []
    assert right in text
    path.write_text(text.replace(right, wrong))
    (problem, *_) = check(path)
    assert problem.kind == "error"
    assert told in problem.message
    assert "body:" in path.read_text().split("\n")[problem.line - 1]


ONE_RESULT = """one:
  graphs:
    one:
      nodes:
        a:
          parameters:
            start: {{value: 8.0}}
            body: {{value: {body}}}
            run:
              function: {function}
              args: {{{args}}}
          output_ports:
            last: {{value: '{value}'}}
"""

FORMS = {
    "Loop": ("{carried: {x: x / 2}}", "onnx::Loop", "M: 3, cond: true, x: start, body: body"),
    "Scan": ("{collected: {twice: 2 * row}, scanned: [row]}", "onnx::Scan", "num_scan_inputs: 1, x: '[1.0, 2.0]', body: body"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", ["run", "run[0]"])
def test_an_element_of_the_only_result_is_reported(form, value, tmp_path, capsys):
    body, function, args = FORMS[form]
    path = tmp_path / "one.yaml"
    path.write_text(ONE_RESULT.format(body=body, function=function, args=args, value=value))
    told = [(problem.line, problem.message) for problem in check(path) if "nothing reads it" not in problem.message]
    assert told == ([(13, "one/a/last: run has one result, which it is itself; run[0] is an element")] if "[" in value else [])
    if form == "Loop" and "[" in value:
        assert run_main("run", path) == 1
        assert f"{path}:13: " in (said := capsys.readouterr().err)
        assert "a loop with one result is that result: write run" in said


@pytest.mark.parametrize(("value", "is_there"), [("run[0]", True), ("run[1]", True), (" run [2]", False), ("2 * run[1]", True)])
def test_a_result_that_a_loop_does_not_have_is_reported(value, is_there, tmp_path):
    path = tmp_path / "one.yaml"
    body, function, args = FORMS["Loop"]
    body = "{carried: {x: x / 2}, collected: {path: x}}"
    path.write_text(ONE_RESULT.format(body=body, function=function, args=args, value=value))
    told = [(problem.kind, problem.line, problem.message) for problem in check(path)]
    assert told == ([] if is_there else [("error", 13, f"one/a/last: {value} is not there; run has 2 results, from 0 on")])


def test_what_does_not_parse_is_reported_with_its_own_line(tmp_path, capsys):
    text = "onnx: |\n                b (int64 i, bool c, float x) => (bool c, float y) {\n                  y = x * 2 }"
    path = tmp_path / "text.yaml"
    path.write_text(
        ONE_RESULT.format(body="0", function="onnx::Loop", args=FORMS["Loop"][2], value="run").replace(
            "body: {value: 0}",
            f"body:\n              value:\n                {text}".replace("\n                b", "\n                  b"),
        )
    )
    (problem,) = check(path)
    lines = path.read_text().split("\n")
    assert "y = x * 2" in lines[problem.line - 1]
    assert run_main("run", path) == 1
    assert f"{path}:{problem.line}: " in capsys.readouterr().err


SEVERAL = """m:
  graphs:
    g:
      nodes:
        a:
          parameterz:
            body:
              value:
                carried:
                  x: x /
                  y: sqr(y)
                collected:
                  path: '[1, 2] * x'
            run:
              function: onnx::Loop
              args: {M: 3, cond: true, x: 1.0, y: 2.0, body: body}
          output_ports:
            last: {value: 'runn[0]'}
        b:
          input_ports: [3]
          parameters:
            text:
              value:
                onnx: |
                  b (int64 i, bool c, float x) => (bool c, float y) {
                    y = Nop (x)
                    z = Relu <a = 1> (x) }
            wrong: {value: {onnx: "b (int64 i, bool c, float x) => (bool c, float y) { y = x + 1 }"}}
            one: {function: onnx::Loop, args: {M: 3, body: text, x: 1}}
            two: {function: onnx::Loop, args: {M: 3, body: wrong, x: 1}}
            three: {function: onnx::Loop, args: [], value: 3}
            four: {function: onnx::Loop, args: {M: 3, body: nowhere, x: 1}}
        c: 3
      edges:
        e: {sender: a, sender_port: last, receiver: c, receiver_port: x}
        f: {sender: a, sender_port: lost, receiver: c, receiver_port: x}
"""

TOLD = [
    (3, "note", "g: which nodes are reached is checked when the errors in the graph are corrected"),
    (6, "error", "m/graphs/g/nodes/a/parameterz: a node has no 'parameterz' (did you mean 'parameters'?)"),
    (10, "error", "g/a/body: equations/x: expression 'x /': invalid syntax"),
    (11, "error", "g/a/body: equations/y: there is no function 'sqr'; did you mean 'sqrt'?"),
    (13, "error", "g/a/body: equations/collect path: '[1, 2] * x' works on a Python list"),
    (18, "error", "g/a/last: it reads 'runn', which the node does not have; did you mean 'run'?"),
    (19, "note", "g/b: correct the errors in it first; then check looks at its names and types"),
    (20, "error", "m/graphs/g/nodes/b/input_ports: input_ports of a node must be a mapping"),
    (22, "error", "g/b/text: there is no kernel for Nop"),
    (22, "error", "g/b/text: Relu, version 18 of its domain, has no attribute a; it takes none; in node Relu -> z of 'b'"),
    (28, "error", "g/b/wrong: ONNX text does not parse"),
    (31, "error", "m/graphs/g/nodes/b/parameters/three/args: args of a parameter must be a mapping; got a list"),
    (31, "note", "g/b/three: its body is checked when the errors around it are corrected"),
    (32, "error", "g/b/four: a body is a mapping"),
    (33, "error", "m/graphs/g/nodes/c: a node is a mapping"),
    (36, "error", "m/graphs/g: edge 'f' names output port 'lost' of node 'a', which has 'last'"),
]


def test_bodies_are_looked_at_although_the_structure_around_them_is_wrong(tmp_path):
    path = tmp_path / "several.yaml"
    path.write_text(SEVERAL)
    found = check(path)
    assert [(problem.line, problem.kind) for problem in found] == [(line, kind) for line, kind, _ in TOLD]
    for problem, (_, _, told) in zip(found, TOLD, strict=True):
        assert problem.message.startswith(told)


def test_what_is_repaired_as_reported_leaves_nothing_new(tmp_path):
    path = tmp_path / "several.yaml"
    text = SEVERAL[: SEVERAL.index("        b:\n")].replace("parameterz", "parameters").replace("runn[0]", "run.x")
    path.write_text(text.replace("x: x /", "x: x / 2").replace("sqr(", "sqrt(").replace("'[1, 2] * x'", "2 * x"))
    assert check(path) == []


def test_files_outside_of_its_folder_are_never_read_for_a_model_that_cannot_be_read(tmp_path):
    import onnx

    (tmp_path / "inner").mkdir()
    body = "b (int64 i, bool c, float x) => (bool c, float y) { y = Nop (x) }"
    onnx.save(onnx.helper.make_model(onnx.parser.parse_graph(body)), tmp_path / "outside.onnx")
    path, args = tmp_path / "inner" / "m.yaml", FORMS["Loop"][2]
    path.write_text(ONE_RESULT.format(body="{onnx_file: ../outside.onnx}", function="onnx::Loop", args=args, value="run"))
    found = [(problem.line, problem.kind, problem.message) for problem in check(path)]
    assert [(line, kind) for line, kind, _ in found] == [(8, "error"), (8, "note")]
    assert "an onnx_file must lie in the folder of the model" in found[0][2]
    assert found[1][2] == "nothing else can be checked before this is corrected"
    (tmp_path / "outside.onnx").rename(tmp_path / "inner" / "outside.onnx")
    path.write_text(path.read_text().replace("../", ""))
    assert any("there is no kernel for Nop" in problem.message for problem in check(path))


def test_what_a_body_hides_is_read_by_nothing(tmp_path):
    body = {"derivatives": {"v": "-v / tau"}, "let": {"tau": 5.0}, "dt": 0.5}
    run = {"function": "onnx::Loop", "args": {"M": 3, "cond": True, "v": 1.0, "body": "body"}}
    parameters = {"dt": {"value": 0.1}, "tau": {"value": 20.0}, "body": {"value": body}, "run": run}
    node = {"parameters": parameters, "output_ports": {"v": {"value": "run.v"}}}
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump({"m": {"format": "ModECI MDF v0.4", "graphs": {"m": {"nodes": {"n": node}}}}}))
    assert [problem.message for problem in check(path)] == ["m/n/dt: nothing reads it", "m/n/tau: nothing reads it"]
    node["input_ports"] = {"v": {"default_value": 2.0}}
    path.write_text(yaml.safe_dump({"m": {"format": "ModECI MDF v0.4", "graphs": {"m": {"nodes": {"n": node}}}}}))
    assert any("m/n/v: nothing reads it: the body has a value of its own" in problem.message for problem in check(path))
    run["args"]["v"] = "v"
    path.write_text(yaml.safe_dump({"m": {"format": "ModECI MDF v0.4", "graphs": {"m": {"nodes": {"n": node}}}}}))
    assert [problem.message for problem in check(path)] == ["m/n/dt: nothing reads it", "m/n/tau: nothing reads it"]
    del body["let"], body["dt"]
    path.write_text(yaml.safe_dump({"m": {"format": "ModECI MDF v0.4", "graphs": {"m": {"nodes": {"n": node}}}}}))
    assert check(path) == []


def test_the_command_counts_what_it_found(tmp_path, capsys):
    path = tmp_path / "m.json"
    body = {"derivatives": {"x": "-x * dt"}}
    node = {"parameters": {"dt": {"value": 0.1}, "spare": {"value": 1}, "body": {"value": body}}}
    node["parameters"]["run"] = {"function": "onnx::Loop", "args": {"M": 3, "x": 1.0, "body": "body"}}
    node["output_ports"] = {"out": {"value": "run"}}
    path.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}))
    assert run_main("check", path) == 0
    told = capsys.readouterr()
    assert told.out.endswith("no error, 2 warnings\n")
    assert "warning: equations: the derivative of x reads dt" in told.out
    assert told.err == ""
    path.write_text(path.read_text().replace('"M": 3', '"M": 3.5'))
    assert run_main("check", path) == 1
    assert capsys.readouterr().out.endswith("1 error, 2 warnings\n")
