"""Parameters of a model that are called like an argument of ``run``."""

import inspect
import json

import onnx.parser
import pytest
from commands import run_main

import mdf_loop
from mdf_loop.errors import LoopWarning

NAMES = [name for name, each in inspect.signature(mdf_loop.run).parameters.items() if each.kind is each.KEYWORD_ONLY]


def model(tmp_path, name):
    path = tmp_path / "m.json"
    body = {"carried": {"x": f"x + {name}"}}
    parameters = {name: {"value": 2.0}, "body": {"value": body}, "start": {"value": 1.0}}
    parameters["loop"] = {"function": "onnx::Loop", "args": {"M": 3, "x": "start", "body": "body"}}
    node = {"parameters": parameters, "output_ports": {"x": {"value": "loop.x"}}}
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    return path


@pytest.mark.parametrize("command", ["run", "sweep"])
@pytest.mark.parametrize("name", [*NAMES, "workers"])
def test_set_means_the_parameter_of_the_model(name, command, tmp_path, capsys):
    path = model(tmp_path, name)
    more = [] if command == "run" else ["--over", "start=1,1"]
    assert run_main(command, path, "--set", f"{name}=5", "--json", *more) == 0
    found = json.loads(capsys.readouterr().out)["outputs"]["x"]
    assert (found["value"] if command == "run" else found["values"][0]) == 16


@pytest.mark.filterwarnings("ignore:steps=2 evaluates")
@pytest.mark.parametrize("name", sorted({*NAMES} - {"seed", "record_to", "time_increment", "collect", "record"}))
def test_in_python_it_is_the_argument_and_a_warning_names_the_parameter(name, tmp_path):
    path = model(tmp_path, name)
    more = {"record": ["n.x"]} if name == "every" else {}
    with pytest.warns(LoopWarning, match=f"give it as 'n.{name}'"):
        mdf_loop.run(path, **{name: 2}, **more)
    assert mdf_loop.run(path, **{f"n.{name}": 5})["x"] == 16


CONVERTED = """<ir_version: 9, opset_import: ["": 20]> g (float x) => (float y, float[k] rows)
    <int64 steps = {9}, bool yes = {1}> {
    y, rows = Loop (steps, yes, x) <body = b (int64 i, bool c, float s) => (bool d, float t, float u) {
        d = Identity (c) t = Add (s, s) u = Identity (t) }> }"""


def test_constants_of_a_converted_model_may_be_called_so_too(tmp_path, capsys):
    path = tmp_path / "m.json"
    mdf_loop.convert(onnx.parser.parse_model(CONVERTED)).to_json_file(str(path))
    assert run_main("run", path, "--set", "x=1", "--set", "steps=3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["rows"]["value"] == [2, 4, 8]
    with pytest.warns(LoopWarning, match=r"give it as 'Loop\.steps'"):
        assert len(mdf_loop.run(path, x=1.0, steps=3)["rows"]) == 9
    assert len(mdf_loop.run(path, x=1.0, **{"Loop.steps": 3})["rows"]) == 3
