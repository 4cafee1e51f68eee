"""What people write in YAML and JSON in the notation of mathematics or of other programs: messages have the words of the file."""

import importlib
import json
import re

import numpy as np
import pytest
import yaml
from commands import run_main

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.convert.locating import line_of_error
from mdf_loop.errors import LoopError, MalformedBody

ARGS = {"M": "steps", "x": 1.0, "body": "body"}


def content(body, args=ARGS, function="onnx::Loop", **parameters):
    """A model of two nodes, of which the second has the body in question."""
    ports = {"out": {"value": "run.x"}}
    held = {key: {"value": value} for key, value in {"steps": 100, "xs": [1.0, 2.0, 3.0], **parameters}.items()}
    first = held | {
        "body": {"value": {"carried": {"x": "x + 1"}}},
        "run": {"function": "onnx::Loop", "args": {"M": 3, "x": 0.0, "body": "body"}},
    }
    second = held | {"body": {"value": body}, "run": {"function": function, "args": args}}
    nodes = {"first": {"parameters": first, "output_ports": ports}, "cell": {"parameters": second, "output_ports": ports}}
    return {"m": {"graphs": {"g": {"nodes": nodes}}}}


def written(tmp_path, said, suffix=".yaml"):
    path = tmp_path / f"m{suffix}"
    path.write_text(json.dumps(said, indent=1) if suffix == ".json" else yaml.safe_dump(said, sort_keys=False))
    return path


def errors_of(path):
    return [problem for problem in check(path) if problem.kind == "error"]


FIRST, SECOND = "a derivative is written derivatives: {x: -x}", "derivatives: {x: x_rate, x_rate: -x}"

DERIVATIVES = [
    ("dx/dt = -x", FIRST),
    ({"carried": "dx/dt = -x"}, FIRST),
    ({"dx/dt": "-x"}, FIRST),
    ({"carried": {"dx/dt": "-x"}}, FIRST),
    ({"derivatives": {"dx/dt": "-x"}}, FIRST),
    ({"let": {"dx/dt": "-x"}, "carried": {"x": "x"}}, FIRST),
    ({"carried": {"x'": "-x"}}, FIRST),
    ({"derivatives": {"∂x/∂t": "-x"}}, FIRST),
    ({"derivatives": {"x": "dx/dt = -x"}}, FIRST),
    ({"derivatives": {"d2x/dt2": "-x"}}, SECOND),
    ({"carried": {"x''": "-x"}}, SECOND),
    ({"d²x/dt²": "-x"}, SECOND),
    ({"derivative": {"x": "-x"}}, "did you mean 'derivatives'?"),
    ({"ode": {"x": "-x"}}, "{derivatives: ...}"),
    ({"carried": {"x": "x' + 1"}}, "x' is written in derivatives: {x: ...}"),
    ({"carried": {"x": "x + dx * 2"}}, "a derivative is written derivatives: {x: ...}"),
]


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize(("body", "meant"), DERIVATIVES, ids=[str(body)[:40] for body, _ in DERIVATIVES])
def test_derivatives_of_other_notations_lead_to_ours(tmp_path, body, meant, suffix):
    path = written(tmp_path, content(body), suffix)
    errors = errors_of(path)
    assert meant in errors[0].message
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert meant in str(caught.value)
    assert line_of_error(path, caught.value) == errors[0].line > path.read_text().count("\n") // 2


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("dx/dt = -x", "an equation has a colon: dx/dt: -x"),
        ("x'' = -x", "a second derivative is two first ones: dx/dt: x_rate and dx_rate/dt: -x"),
        ("y: y\nd2x/dt2: -x", "dx/dt: x_rate and dx_rate/dt: -x"),
        ("let y = x\nx: x + y", "an equation has a colon: let y: x"),
        ("while x < 3\nx: x + 1", "an equation has a colon: while: x < 3"),
        ("x: x + 1\ndt = 0.1", "an equation has a colon: dt: 0.1"),
    ],
)
def test_lines_of_other_notations_lead_to_ours(body, meant):
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.loop(3, None, 1.0, body=body)
    assert meant in str(caught.value)


SCAN = {"x": 0.0, "u": "xs", "num_scan_inputs": 1, "body": "body"}

OTHERS = [
    ({"carried": {"x": "x + u"}, "scanned": ["u"]}, ARGS, "onnx::Loop", "scanned", "write function: onnx::Scan"),
    ({"carried": {"x": "x + u"}, "scanned": "u", "while": "x < 3"}, SCAN, "onnx::Scan", "while:", "so it has no condition"),
    ({"carried": {"x": "x + u"}, "scanned": "u", "index": "k"}, SCAN, "onnx::Scan", "index:", "no iteration number"),
    ({"carried": {"x": "x + u * i"}, "scanned": "u"}, SCAN, "onnx::Scan", "x: x + u", "number of a Loop, and a Scan has none"),
    ({"carried": {"x": "x + 1"}, "while": "true"}, ARGS, "onnx::Loop", "while:", "the body reads 'true', which the node does"),
    ({"carried": {"x": "x + 1"}, "while": "x"}, ARGS, "onnx::Loop", "while:", "while must be one boolean"),
    ({"carried": {"x": "x + 1"}, "while": 1.5}, ARGS, "onnx::Loop", "while:", "while must be one boolean"),
    ({"carried": {"x": "x + 1"}}, {"x": 1.0, "body": "body"}, "onnx::Loop", "run:", "(in equations while: ...)"),
    ({"let": [{"y": "x"}], "carried": {"x": "x"}}, ARGS, "onnx::Loop", "let:", "write it without - and without [ ]"),
    ({"carried": {"x": "(y := x) * y"}}, ARGS, "onnx::Loop", "x: (y", "give the value a name of its own, in let: {y: ...}"),
    ({"carried": {"x": "return x"}}, ARGS, "onnx::Loop", "x: return", "an equation is one value: write it without 'return'"),
    ({"carried": {"x": "x = x + 1"}}, ARGS, "onnx::Loop", "x: x =", "a value with a name is a line of its own, in let"),
    ({"carried": {"x": "|x|"}}, ARGS, "onnx::Loop", "x: '|x", "is written abs(...)"),
    ({"carried": {"x": "e ** x"}}, ARGS, "onnx::Loop", "x: e", "e ** x is written exp(x)"),
    ({"carried": {"x": "x", "v-rest": "1"}}, ARGS, "onnx::Loop", "v-rest", "write v_rest"),
]


@pytest.mark.parametrize(("body", "args", "function", "line", "meant"), OTHERS, ids=[meant[:25] for *_, meant in OTHERS])
def test_check_and_run_say_the_same_of_the_same_line(tmp_path, body, args, function, line, meant):
    path = written(tmp_path, content(body, args, function))
    (error,) = errors_of(path)
    assert meant in error.message
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert meant in "; ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    lines = path.read_text().split("\n")
    assert line in lines[error.line - 1]
    assert error.line > len(lines) // 2, "in the second node"
    assert line_of_error(path, caught.value) == error.line


def test_a_scan_never_reads_on_behind_a_condition():
    """It would: ONNX's Scan has none, and the condition of equations would be left out without a word."""
    with pytest.raises(MalformedBody, match="equations/line 3: a Scan reads all elements"):
        mdf_loop.scan(0.0, [1.0, 2.0, 3.0], body="x: x + u\nscan: u\nwhile: x < 2", num_scan_inputs=1)


def test_all_errors_of_one_body_are_found(tmp_path):
    body = {"carried": {"my x": "1", "y": None, "dz/dt": "-z"}, "collected": {"p": ["x"]}, "until": "x > 3", "colected": {}}
    messages = " ".join(error.message for error in errors_of(written(tmp_path, content(body))))
    for meant in (
        "my_x",
        "equations/y",
        "derivatives: {z: -z}",
        "equations/collected p",
        "while: not",
        "did you mean 'collected'",
    ):
        assert meant in messages


def test_a_syntax_error_names_the_file_and_the_line_once(tmp_path, capsys):
    path = written(tmp_path, content({"carried": {"x": "x"}}), ".json")
    text = path.read_text()
    cases = {
        '"steps": {': ('"steps": {,', "a key is in double quotes, and no comma is behind the last one"),
        '"xs": {': ('"steps": {', "the key 'steps' occurs twice in one"),
        '"M": 3': ('"M": 3 // trips', "JSON has no comments"),
    }
    for right, (wrong, meant) in cases.items():
        path.write_text(text.replace(right, wrong, 1))
        line = text[: text.index(right)].count("\n") + 1
        for command in ("check", "run"):
            assert run_main(command, path) == 1
            said = "".join(capsys.readouterr())
            assert meant in said
            assert said.count(path.name) == 1
            assert "line" not in said
            assert f"{path}:{line}: " in said or f"{path}:{line + 1}: " in said


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("x_prev + 1", "x is the value of the iteration before"),
        ("x + sin(t)", "a time is carried: t: t + dt"),
        ("x + noise", "noise is a function: write noise()"),
        ("x + infinity", "it is written inf"),
        ("e ** x", "e ** x is written exp(x)"),
        ("torch.relu(x)", "write relu(x)"),
        ("torch.exp(x)", "write exp(x)"),
        ("jax.numpy.exp(x)", "write exp(x)"),
        ("xs.dot(x)", "write numpy.dot(xs, x)"),
        ("x + [1, 2]", "array([...]) makes an array of a list"),
        ("x + $x", "without $"),
        ("x + 2π", "a product is written 2 * π"),
    ],
)
def test_names_and_signs_of_other_programs(tmp_path, text, meant):
    path = written(tmp_path, content({"carried": {"x": text}}))
    (error,) = errors_of(path)
    assert meant in error.message
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    said = "; ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert said.count(meant) == 1


@pytest.mark.parametrize(
    ("text", "meant"),
    [("x + noise", "noise is a function: write noise()"), ("e ** x", "e ** x is written exp(x)"), ("x_old", "before")],
)
def test_a_call_says_what_a_file_says_of_such_names(text, meant):
    with pytest.raises(LoopError, match=re.escape(meant)):
        mdf_loop.loop(3, True, 0.0, body=f"x: {text}")


def test_an_index_with_fractions_says_how_it_becomes_whole():
    values = {"Q": [1.0, 2.0], "c": [1.0, 0.0]}
    with pytest.raises(LoopError, match=r"an index is a whole number: for k write int\(k\)"):
        mdf_loop.loop(2, True, body="Q: Q * Q[c[i]]", **values)
    assert mdf_loop.loop(2, True, body="Q: Q * Q[int(c[i])]", **values).tolist() == [4.0, 8.0]


@pytest.mark.parametrize(("function", "told"), [("torch.exp", "write numpy.exp(x)"), ("torch.foo", "cannot be used")])
def test_functions_of_other_libraries_in_a_port(tmp_path, function, told):
    node = {"parameters": {"x": {"value": 1.0}}, "output_ports": {"y": {"value": f"{function}(x)"}}}
    (error,) = errors_of(written(tmp_path, {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    assert told in error.message
    assert f"{function.partition('.')[0]}, x" not in error.message


@pytest.mark.parametrize(("key", "meant"), [("initial", "args of the loop"), ("parameters", "of the node"), ("steps", "is M")])
def test_keys_that_are_somewhere_else_in_the_file(tmp_path, key, meant):
    (error,) = errors_of(written(tmp_path, content({"carried": {"x": "x + 1"}, key: {"x": 0}})))
    assert meant in error.message


def test_errors_of_several_nodes_are_all_found(tmp_path):
    """Those that only a run finds as well, of nodes that have no other error."""
    said = content({"carried": {"x": "x + xs @ xs[:2]"}})
    said["m"]["graphs"]["g"]["nodes"]["first"]["parameters"]["body"]["value"] = {"carried": {"x": "sine(x)"}}
    nodes = [error.message.split("/")[1].split(":")[0] for error in errors_of(written(tmp_path, said))]
    assert nodes == ["first", "cell"]


def test_an_argument_is_looked_at_although_a_result_has_another_name(tmp_path):
    said = content({"carried": {"z": "z + 1"}}, {"M": "stepz", "z": "start", "body": "body"})
    messages = [error.message for error in errors_of(written(tmp_path, said))]
    assert any("'x' is no result of the equations" in message for message in messages)
    assert any("argument 'M' reads 'stepz'" in message for message in messages)


def test_a_negative_trip_count_that_is_given_is_a_warning(tmp_path):
    path = written(tmp_path, content({"carried": {"x": "x + 1"}}))
    warned = [found.message for found in check(path, {"cell.steps": -2}) if found.kind == "warning"]
    assert "g/cell/run: the trip count M is -2, so no iteration runs" in warned


def test_inputs_without_a_value_are_said_together(tmp_path):
    said = content({"carried": {"x": "x + a * b"}})
    said["m"]["graphs"]["g"]["nodes"]["cell"]["input_ports"] = {"a": {"shape": []}, "b": {"shape": []}}
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(written(tmp_path, said))
    assert str(caught.value).count("has no value") + str(caught.value).count("have no value") == 1
    assert "'a' of node 'cell', 'b' of node 'cell'" in str(caught.value)
    assert "--set a=... --set b=..." in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["m.yaml"], "'m.yaml' has no command: write mdf-loop run m.yaml"),
        (["run", "m.yaml", "--set", "steps=1,2"], "write 1.2 for one number, [1,2] for a list"),
        (["run", "m.yaml", "--set", "steps=[1,2"], "quotes; write [1,2]"),
        (["run", "m.yaml", "--set", "steps=True"], "write true"),
    ],
)
def test_arguments_of_the_command_that_are_nearly_right(tmp_path, monkeypatch, capsys, arguments, meant):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, content({"carried": {"x": "x + 1"}}))
    assert run_main(*arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("mdf-loop: ")
    assert meant in said


def test_ctrl_c_before_a_command_begins_is_no_traceback(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    module = importlib.import_module("mdf_loop.cli.app")
    monkeypatch.setattr(module, "app", interrupted)
    monkeypatch.setattr(module, "_options_of", lambda _: {"file"})
    assert run_main("run", "m.yaml") == 130
    assert capsys.readouterr().err == "mdf-loop: interrupted\n"


@pytest.mark.parametrize(("value", "odd"), [(float("nan"), "nan"), (float("inf"), "infinity")])
def test_a_parameter_that_is_not_finite_is_a_warning_as_a_run_goes_on(tmp_path, value, odd):
    path = written(tmp_path, content({"carried": {"x": "x + a"}}, bound=value, a="bound * 2"))
    found = {(found.kind, found.message) for found in check(path) if "'bound * 2'" in found.message}
    assert found == {("warning", f"g/{node}/a: 'bound * 2' is {odd}") for node in ("first", "cell")}
    assert not np.isfinite(mdf_loop.run(path)["cell.out"])
