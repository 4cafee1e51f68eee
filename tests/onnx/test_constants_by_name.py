"""Numbers inside a converted model, those in the bodies of its loops too, are set by their names."""

import json
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
import yaml
from commands import run_main

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError

GROW = onnx.parser.parse_model(
    """<ir_version: 10, opset_import: ["": 20]> grow (int64 n, float[2] x) => (float[2] y, float[2] z)
    <float outside = {2}> {
      y = Loop <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t)
        <float "rate.inner" = {0.5}, int64 most = {3}, float[2] "bias" = {1, 2}> {
          p = Mul (s, "rate.inner")
          q = Add (p, "bias")
          few = Less (i, most)
          t = Where (few, q, s)
      }> (n, , x)
      z = Mul (y, outside)
    }"""
)
X = np.float32([8, 4])


def grown(rate=0.5, most=3, bias=(1, 2), outside=2.0, n=5):
    """What the model means, in numpy."""
    x = X
    for i in range(n):
        x = x * np.float32(rate) + np.float32(bias) if i < most else x
    return {"y": x, "z": x * np.float32(outside)}


@pytest.fixture(params=["mdf", "onnx"])
def converted(request, tmp_path):
    path = tmp_path / "grow.yaml"
    mdf_loop.convert(GROW, path, body=request.param)
    return path


def agree(outputs, wanted):
    for name, value in wanted.items():
        np.testing.assert_array_equal(outputs[name], value)
        assert outputs[name].dtype == np.float32


SET = {
    "none": ({}, {}),
    "a float in the body": ({"rate_inner": 0.25}, {"rate": 0.25}),
    "by its name in ONNX": ({"outside": 3}, {"outside": 3}),
    "a whole number": ({"most": 1}, {"most": 1}),
    "an array": ({"bias": [0.5, -1.0]}, {"bias": (0.5, -1.0)}),
    "several": ({"most": 4, "rate_inner": 2.0, "outside": -1.0}, {"most": 4, "rate": 2.0, "outside": -1.0}),
}


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
@pytest.mark.parametrize("name", SET)
def test_constants_are_set_like_inputs(name, engine, converted):
    given, meant = SET[name]
    with mdf_loop.options(engine=engine):
        agree(mdf_loop.run(converted, n=5, x=X, **given), grown(**meant))
        agree(mdf_loop.run(converted, n=5, x=X), grown())


def test_a_model_says_which_there_are(converted):
    model = mdf_loop.prepare(converted)
    assert {"rate_inner", "most", "bias", "outside"} <= set(model.constants)
    assert model.constants["most"].default == 3
    assert set(model.inputs) == {"n", "x"}


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ({"rate_iner": 1.0}, ArgumentError, "no input and no constant called 'rate_iner'; did you mean 'rate_inner'"),
        ({"bias": 1.0}, ArgumentError, r"bias' has shape \[2\]; got 1.0"),
        ({"most": 2.5}, KindError, "most' is of type int64; got 2.5"),
        ({"most": "many"}, KindError, "most' is of type int64; got 'many'"),
    ],
)
def test_what_does_not_fit_is_refused(given, kind, told, converted):
    with pytest.raises(kind, match=told):
        mdf_loop.run(converted, n=5, x=X, **given)


def newton(folder, **constants):
    """Newton's method, with constants in nodes of its body: each of them has those of its name."""
    content = yaml.safe_load(Path("examples/newton_mdf.yaml").read_text())
    node = content["newton_mdf"]["graphs"]["newton_mdf"]["nodes"]["square_root"]
    nodes = node["parameters"]["body"]["value"]["graph_newton"]["nodes"]
    for name, value in constants.items():
        nodes[name]["parameters"] = {"half": {"value": value}}
    nodes["improve"]["output_ports"]["better"]["value"] = "(guess + a / guess) / half"
    path = folder / "newton.json"
    path.write_text(json.dumps(content))
    return path


def test_parameters_of_graphs_that_people_wrote_as_bodies(tmp_path):
    path = newton(tmp_path, improve=2)
    assert mdf_loop.run(path)["root"] == pytest.approx(2**0.5)
    assert mdf_loop.run(path, half=2.5)["root"] == pytest.approx((4 / 3) ** 0.5)  # x = (x + 2 / x) / 2.5


def test_a_name_that_means_several_is_refused_with_their_full_names(tmp_path):
    path = newton(tmp_path, improve=2, compare=3)
    told = "the name 'half' is not unique; give one of: square_root.improve.half, square_root.compare.half"
    with pytest.raises(ArgumentError, match=told):
        mdf_loop.run(path, half=2.5)
    assert mdf_loop.run(path, **{"improve.half": 2.5})["root"] == pytest.approx((4 / 3) ** 0.5)


@pytest.mark.parametrize("command", ["run", "explain", "verify", "bench"])
def test_commands_take_them(command, converted, capsys):
    given = ["--set", "n=5", "--set", "x=[8, 4]", "--set", "rate_inner=0.25", "--json"]
    assert run_main(command, converted, *given, *(["--seconds", "0.01"] if command == "bench" else [])) == 0
    content = json.loads(capsys.readouterr().out)
    if command == "run":
        assert content["outputs"]["y"]["value"] == grown(rate=0.25)["y"].tolist()
    if command == "verify":
        assert content["agrees"]
        assert content["places"]["onnxruntime"]["ran"]


def test_a_body_as_text_is_a_block_in_yaml(tmp_path):
    path = tmp_path / "grow.yaml"
    mdf_loop.convert(GROW, path, body="onnx")
    text = path.read_text()
    assert "onnx: |" in text
    assert "\\n" not in text
    assert not [line for line in text.split("\n") if line != line.rstrip()]


def test_an_output_that_another_node_reads_is_one_of_many_runs_too(converted):
    model = mdf_loop.prepare(converted)
    assert list(model.outputs) == ["y", "z"]
    trials = model(n=5, x=X, trials=2, rate_inner=0.25)
    for name, value in grown(rate=0.25).items():
        np.testing.assert_array_equal(trials[name], [value, value])


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
@pytest.mark.parametrize("how", [{}, {"workers": 2, "chunk": 1}])
def test_a_sweep_is_over_constants_as_over_inputs(how, engine, converted):
    pytest.importorskip("xarray")
    with mdf_loop.options(engine=engine):
        over = {"rate_inner": [0.25, 2.0], "n": [1, 5]}
        s = mdf_loop.sweep(converted, over, trials=2, seed=1, x=X, most=4, **how)
        points = mdf_loop.sweep(converted, [{"bias": [0.5, -1.0]}, {"bias": [1.0, 2.0]}], seed=1, x=X, n=5)
    assert s.attrs["errors"] == points.attrs["errors"] == []
    for rate in over["rate_inner"]:
        for n in over["n"]:
            wanted = grown(rate=rate, n=n, most=4)
            for trial in (0, 1):
                agree({name: s[name].sel(rate_inner=rate, n=n, trial=trial).values for name in wanted}, wanted)
    for k, bias in enumerate([(0.5, -1.0), (1.0, 2.0)]):
        agree({name: points[name].values[k] for name in ("y", "z")}, grown(bias=bias))
    with pytest.raises(ArgumentError, match="did you mean 'rate_inner'"):
        mdf_loop.sweep(converted, {"rate_iner": [0.25]}, x=X, n=5)
    with pytest.raises(ArgumentError, match="there are n, x"):
        mdf_loop.sweep(converted, {"zzz": [0.25]}, x=X, n=5)


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_the_micro_sign_is_the_letter_that_python_reads(suffix, tmp_path, capsys):
    """An id of a file and the same name in an expression, which Python normalises."""
    run = {"function": "onnx::Loop", "args": {"M": 3, "x": 0.0, "body": "body"}}
    body = {"value": {"carried": {"x": "x + \u00b5"}}}
    node = {"input_ports": {"\u00b5": {"default_value": 2.0}}, "parameters": {"body": body, "run": run}}
    node["output_ports"] = {"last": {"value": "run.x"}}
    path = tmp_path / f"m{suffix}"
    content = {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}
    path.write_text(json.dumps(content) if suffix == ".json" else yaml.safe_dump(content, allow_unicode=True))
    assert mdf_loop.run(path)["last"] == 6.0
    assert mdf_loop.run(path, μ=1.0)["last"] == 3.0
    assert run_main("run", path, "--set", "\u00b5=3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["last"]["value"] == 9.0
