"""What people write in YAML and JSON in the notation of mathematics or of other programs: messages have the words of the file."""

import json

import pytest
import yaml
from test_cli import run_main

import mdf_loop
from mdf_loop.convert.locating import line_of_error
from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.integrations.checks.model_file import check

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
        ("x: x + 1\ndt = 0.1", "an equation has a colon, and no ="),
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
        '"xs": {': ('"steps": {', "the key 'steps' occurs twice in one object"),
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
