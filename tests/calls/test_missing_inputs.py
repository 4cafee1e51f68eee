"""An input without a value is an error or a warning that names it, in every way to run a model; numbers of YAML are numbers."""

import contextlib
import io
import json
import re
import warnings

import pytest
from commands import run_main
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.utils import load_mdf

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.convert.file_text import parse
from mdf_loop.errors import ArgumentError, LoopWarning

LOOP = {
    "body": {"value": {"carried": {"x": "x / 2"}, "while": "x > 1"}},
    "run": {"function": "onnx::Loop", "args": {"M": 1000, "cond": True, "x": "start", "body": "body"}},
}
CAPTURED = {
    "body": {"value": {"carried": {"x": "x * start"}}},
    "run": {"function": "onnx::Loop", "args": {"M": 3, "cond": True, "x": 1.0, "body": "body"}},
}
BRANCH = {
    "one": {"value": {"onnx": "b () => (y) { y = Neg (start) }"}},
    "run": {"function": "onnx::If", "args": {"cond": True, "then_branch": "one", "else_branch": "one"}},
}
PLAIN = {"run": {"value": "start * 2"}}
NODES = {"argument": LOOP, "captured": CAPTURED, "branch": BRANCH}


def model(folder, parameters, port, suffix=".json"):
    node = {"input_ports": {"start": port}, "parameters": parameters, "output_ports": {"x": {"value": "run"}}}
    path = folder / f"m{suffix}"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    return path


def in_the_engine(path, initializer=None):
    with contextlib.redirect_stdout(io.StringIO()):
        graph = EvaluableGraph(load_mdf(str(path)).graphs[0], verbose=False)
        graph.evaluate(initializer=initializer)
    return graph.enodes["n"].evaluable_outputs["x"].curr_value


WAYS = {
    "run": mdf_loop.run,
    "prepare": lambda path: mdf_loop.prepare(path)(),
    "steps": lambda path: mdf_loop.run(path, steps=2),
    "trials": lambda path: mdf_loop.run(path, trials=2),
    "record": lambda path: mdf_loop.run(path, record=["n.x"]),
    "sweep": lambda path: mdf_loop.sweep(path, trials=2),
    "engine": in_the_engine,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("parameters", NODES.values(), ids=NODES)
@pytest.mark.parametrize("port", [{}, {"type": "float"}, {"reduce": "add"}], ids=str)
def test_an_input_without_a_value_is_an_error(port, parameters, way, tmp_path):
    told = r"input 'start' of node 'n' has no value.*run\(..., start=...\).*--set start=.*--input file.npz.*default_value"
    with pytest.raises(ArgumentError, match=told):
        way(model(tmp_path, parameters, port))


@pytest.mark.parametrize("parameters", NODES.values(), ids=NODES)
def test_it_can_be_given(parameters, tmp_path):
    path = model(tmp_path, parameters, {})
    want = mdf_loop.run(model(tmp_path, parameters, {"default_value": 8.0}))["x"]
    path = model(tmp_path, parameters, {})
    assert "start: ?[], required (node n, input port start)" in str(mdf_loop.prepare(path).inputs)
    assert mdf_loop.run(path, start=8.0)["x"] == want
    assert mdf_loop.run(path, **{"n.start": 8.0})["x"] == want
    assert mdf_loop.sweep(path, over={"start": [8.0]})["x"] == want
    assert in_the_engine(path, {"start": 8.0}) == want


def test_mdf_takes_zeros_of_a_declared_shape(tmp_path):
    """As in models that MDF and PsyNeuLink publish."""
    summed = {"run": {**CAPTURED["run"], "args": {**CAPTURED["run"]["args"], "x": "start"}}, "body": CAPTURED["body"]}
    path = model(tmp_path, summed, {"shape": [2]})
    with pytest.warns(LoopWarning, match=r"input 'start' of node 'n' has no value.* takes zeros of shape \[2\] for it"):
        assert mdf_loop.run(path)["x"].tolist() == [0.0, 0.0]
    (problem,) = check(path)
    assert (problem.kind, "takes zeros of shape [2] for it" in problem.message) == ("warning", True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mdf_loop.run(path, start=[1.0, 2.0])["x"].shape == (2,)


@pytest.mark.parametrize("way", ["run", "prepare", "steps", "trials", "sweep"])
def test_a_graph_of_mdf_alone_has_the_engines_zero_and_a_warning(way, tmp_path):
    path = model(tmp_path, PLAIN, {})
    with pytest.warns(LoopWarning, match="input 'start' of node 'n' has no value.* MDF's engine takes 0"):
        WAYS[way](path)
    assert in_the_engine(path) == 0
    unread = model(tmp_path, {"run": {"value": 5}}, {})
    assert mdf_loop.run(unread)["x"] == 5
    assert check(unread) == []


def test_the_command_and_check_tell_of_it(tmp_path, capsys):
    path = model(tmp_path, LOOP, {})
    assert run_main("run", path) == 1
    assert "--set start=" in capsys.readouterr().err
    problem, note = check(path)
    assert (problem.kind, problem.line, note.kind) == ("error", 1, "note")
    assert "input 'start' of node 'n' has no value" in problem.message
    assert run_main("run", path, "--set", "start=8") == 0
    (problem,) = check(model(tmp_path, PLAIN, {}))
    assert problem.kind == "warning"


def test_inputs_that_are_set_in_the_engine_are_there(tmp_path):
    with contextlib.redirect_stdout(io.StringIO()):
        graph = EvaluableGraph(load_mdf(str(model(tmp_path, LOOP, {}))).graphs[0], verbose=False)
        graph.enodes["n"].evaluable_inputs["start"].set_input_value(8.0)
        graph.evaluate()
    assert graph.enodes["n"].evaluable_outputs["x"].curr_value == 1.0


# Numbers of YAML

NUMBERS = ["1e9", "1.0e9", "-1E-2", "+2e3", ".5e3", "3.e1", "12e03", "1.5e+3"]


YAML = """m:
  graphs:
    g:
      nodes:
        n:
          input_ports: {{start: {{default_value: {text}}}}}
          parameters:
            k: {{value: [{text}]}}
            body: {{value: {{carried: {{x: x + k, y: y}}, collected: {{z: x}}}}}}
            run: {{function: onnx::Loop, args: {{M: 2, cond: true, x: start, y: {text}, body: body}}}}
          output_ports: {{x: {{value: "run[0]"}}, y: {{value: "run[1]"}}}}
"""


@pytest.mark.filterwarnings("ignore:.*is a text in YAML 1.1:mdf_loop.errors.LoopWarning")
@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_without_a_point_or_a_sign_is_a_number(text, tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(YAML.format(text=text))
    told = [] if text == "1.5e+3" else [6, 8, 10]
    says = r"m.yaml:6: .* is a text in YAML 1.1.*write [-+]?\d*\.\d*e[-+]\d+"
    with pytest.warns(LoopWarning, match=says) if told else contextlib.nullcontext():
        found = mdf_loop.run(path)
    assert (found["x"], found["y"]) == (3 * float(text), float(text))
    assert [problem.line for problem in check(path) if "YAML 1.1" in problem.message] == told
    assert mdf_loop.run(path, start=0.0)["x"] == 2 * float(text)


OTHERS = {
    "010": "is 8 in YAML 1.1, to the base of 8: write 10, or 8",
    "-017": "is -15 in YAML 1.1, to the base of 8: write -17, or -15",
    "1:30": "is 90 in YAML 1.1, to the base of 60: write 90, arange(1, 31) for a range, or '1:30' for a text",
    "1:30.5": "is 90.5 in YAML 1.1, to the base of 60: write 90.5",
    "on": "is true in YAML 1.1: write true, or 'on' for a text",
    "No": "is false in YAML 1.1: write false, or 'No' for a text",
}


@pytest.mark.parametrize("text", OTHERS)
def test_a_value_that_is_not_what_it_looks_like_is_named_with_its_line(text, tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(YAML.format(text=text))
    with pytest.warns(LoopWarning, match=f"m.yaml:6: {re.escape(f'{text} {OTHERS[text]}')}"):
        mdf_loop.load(path)
    assert [problem.line for problem in check(path) if OTHERS[text] in problem.message] == [6, 8, 10]


@pytest.mark.parametrize("name", ["on", "off", "No", "YES", "y", "n", "Y"])
def test_a_name_that_yaml_takes_for_a_truth_value_is_a_name(name, tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(YAML.format(text=2).replace("k:", f"{name}:").replace("x + k", f"x + {name}"))
    told = [] if name.lower() in "yn" else [8]
    says = rf"m.yaml:8: the key {name} is (true|false) in YAML 1.1, .*write it in quotes, '{name}'"
    with pytest.warns(LoopWarning, match=says) if told else contextlib.nullcontext():
        assert mdf_loop.run(path)["x"] == 6
    assert [problem.line for problem in check(path) if "YAML 1.1" in problem.message] == told


def test_a_key_is_what_is_written_and_never_the_number_that_yaml_reads():
    told = []
    content = parse("{0123: 1, 1:30: 2, 7: 3}", ".yaml", lambda *said: told.append(said))
    assert content == {"0123": 1, "1:30": 2, 7: 3}
    assert [line for line, _ in told] == [1, 1]


def test_values_that_mean_the_same_everywhere_are_not():
    values = "a: [0, 00, 007, 10, 0.5, 1_000, 0x10, -1, true]\ncond: yes\n"
    texts = "metadata: {on: on, v: 1:30}\nb: {w: 'on', t: '010', e: !!str 010}\n"
    told = []
    parse(values + texts, ".yaml", lambda *said: told.append(said))
    assert told == []


def test_what_is_meant_as_a_text_stays_one():
    text = "1e3: '1e9'\nb: {2e3: \"1e9\", d: 1e, e: e9, f: 1_0e3, g: 1e9 ms}\nc: |-\n  1e9\n"
    told = []
    content = parse(text, ".yaml", lambda line, said: told.append(said))
    assert content == {"1e3": "1e9", "b": {"2e3": "1e9", "d": "1e", "e": "e9", "f": "1_0e3", "g": "1e9 ms"}, "c": "1e9"}
    assert told == []
    assert parse("a: &k 1e2\nb: *k\n", ".yaml") == {"a": 100.0, "b": 100.0}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rate": 3.0}, r"'rate' is no input port, but a value of node 'n'; mdf_loop.run\(model, rate=...\) sets it"),
        ({"strat": 3.0}, r"there is no input port 'strat'; did you mean 'start'\?"),
    ],
)
def test_what_mdf_leaves_out_of_an_initializer_is_said(given, said, tmp_path):
    path = model(tmp_path, {"rate": {"value": 2.0}, "run": {"value": "start * rate"}}, {"default_value": 1.0})
    with pytest.warns(LoopWarning, match=said):
        assert in_the_engine(path, given) == in_the_engine(path) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert in_the_engine(path, {"start": 3.0}) == 6.0
