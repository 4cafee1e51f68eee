"""ONNX files that keep the MDF model they were written from; and YAML of converted models, which is short and means the same."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from commands import run_main
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.convert.file_text import model_text
from mdf_loop.convert.mdf_to_onnx import SOURCE

EXAMPLES = Path("examples")
DECAY = """
decay:
  graphs:
    decay:
      nodes:
        cell:
          metadata: {author: someone}
          parameters:
            rate: {value: 0.5}
            start: {value: 8.0}
            body: {value: {carried: {x: x - 0.1 * rate * x}, collected: {path: x}, while: x > 0.01}}
            run: {function: onnx::Loop, args: {M: 5000, x: start, body: body}}
          output_ports: {left: {value: run.x}, path: {value: run.path}}
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "decay.yaml"
    path.write_text(DECAY)
    return path


def back(path, model, change=lambda written: None):
    """The model that a file gives back, after a change to it."""
    mdf_loop.to_onnx(model, path)
    written = onnx.load(path)
    change(written)
    onnx.save(written, path)
    return mdf_loop.convert(path)


def test_a_model_comes_back_as_it_was_written(model, tmp_path):
    found = back(tmp_path / "m.onnx", model)
    assert found.to_dict() == mdf_loop.load(model).to_dict()
    assert run_main("convert", tmp_path / "m.onnx", tmp_path / "back.yaml") == 0
    assert len((tmp_path / "back.yaml").read_text().splitlines()) <= len(DECAY.strip().splitlines()) + 6
    for rate in (0.5, 0.7):
        np.testing.assert_array_equal(
            mdf_loop.run(tmp_path / "back.yaml", rate=rate)["path"], mdf_loop.run(model, rate=rate)["path"]
        )


def constant(written, value=0.25):
    written.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array(value), written.graph.initializer[0].name))


def prop(name, value):
    def change(written):
        next(each for each in written.metadata_props if each.key == name).value = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        constant,
        lambda written: written.graph.node.add(op_type="Identity", input=["left"], output=["more"]),
        lambda written: prop(SOURCE, written.metadata_props[0].value.replace("0.1 * rate", "0.2 * rate"))(written),
        prop(SOURCE, "{"),
        prop(SOURCE, '{"m": {"graphs": {"g": {"nodes": 3}}}}'),
        prop(
            SOURCE,
            '{"m": {"graphs": {"g": {"nodes": {"n": {"parameters": {"p": {"value": {"npz": "secret.npz", "name": "a"}}}}}}}}}',
        ),
        lambda written: written.ClearField("metadata_props"),
    ],
    ids=["a constant", "a node", "another model", "no JSON", "no model", "files", "nothing kept"],
)
def test_a_file_that_is_no_longer_what_was_written_is_converted_by_its_nodes(change, model, tmp_path):
    found = back(tmp_path / "m.onnx", model, change)
    assert "types" in found.graphs[0].metadata
    expected = mdf_loop.run(tmp_path / "m.onnx")
    for name, value in mdf_loop.run(found).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("body", ["mdf", "onnx"])
def test_a_form_that_is_asked_for_is_given(body, model, tmp_path):
    mdf_loop.to_onnx(model, tmp_path / "m.onnx")
    assert "types" in mdf_loop.convert(tmp_path / "m.onnx", body=body).graphs[0].metadata


@pytest.mark.parametrize("how", [{"inputs": ["rate"]}, {"steps": 3}])
def test_what_became_something_else_is_not_kept(how, model, tmp_path):
    mdf_loop.to_onnx("examples/oscillator.yaml" if "steps" in how else model, tmp_path / "m.onnx", **how)
    assert not onnx.load(tmp_path / "m.onnx").metadata_props


def test_a_scheduled_model_is_not_kept_and_never_run_to_see_whether_it_is(model, tmp_path, monkeypatch):
    mdf_loop.to_onnx("examples/power_iteration.yaml", tmp_path / "scheduled.onnx")
    assert not onnx.load(tmp_path / "scheduled.onnx").metadata_props
    monkeypatch.setattr(
        sys.modules["mdf_loop.convert.mdf_to_onnx"], "_scheduled", lambda *_: pytest.fail("converting a file ran passes")
    )
    text = json.dumps(mdf_loop.load("examples/power_iteration.yaml").to_dict())
    found = back(tmp_path / "m.onnx", model, prop(SOURCE, text))
    assert "types" in found.graphs[0].metadata


def test_models_in_several_files_and_converted_ones_are_not_kept(tmp_path):
    text = "b (int64 i, bool c, double x) => (bool c, double y) { y = Add (x, x) }"
    onnx_body = onnx.helper.make_model(onnx.parser.parse_graph(text), opset_imports=[onnx.helper.make_opsetid("", 18)])
    onnx.save(onnx_body, tmp_path / "body.onnx")
    content = yaml.safe_load(DECAY)
    cell = content["decay"]["graphs"]["decay"]["nodes"]["cell"]
    cell["parameters"]["body"] = {"value": {"onnx_file": "body.onnx"}}
    cell["parameters"]["run"]["args"] = {"M": 3, "cond": True, "x": "start", "body": "body"}
    cell["output_ports"] = {"left": {"value": "run[0]"}}
    (tmp_path / "files.yaml").write_text(yaml.safe_dump(content))
    mdf_loop.convert("tests/models/while_ts.onnx", tmp_path / "converted.yaml")
    for name in ("files.yaml", "converted.yaml"):
        mdf_loop.to_onnx(tmp_path / name, tmp_path / "m.onnx")
        assert SOURCE not in {each.key for each in onnx.load(tmp_path / "m.onnx").metadata_props}


@pytest.mark.parametrize("name", ["accumulate", "drift_diffusion", "leaky_accumulator", "newton", "newton_mdf", "rnn"])
def test_examples_give_the_same_when_they_come_back(name, tmp_path):
    path = EXAMPLES / f"{name}.yaml"
    found = back(tmp_path / "m.onnx", path)
    needed = {"accumulate": {"x": [10.0, 20.0, 5.0], "y": 0.0}}.get(name, {})
    expected = mdf_loop.run(path, seed=3, **needed)
    for output, value in mdf_loop.run(found, seed=3, **needed).items():
        np.testing.assert_array_equal(value, expected[output])


def test_convert_says_what_became_a_constant_and_run_how_it_becomes_an_input(model, tmp_path, capsys):
    target = tmp_path / "m.onnx"
    assert run_main("convert", model, target) == 0
    assert "constants in it: rate, start (--as-input rate makes one an input)" in capsys.readouterr().err
    assert run_main("run", target, "--set", "rate=0.7") == 1
    assert "'rate' is a constant of this ONNX model" in (said := capsys.readouterr().err)
    assert "--as-input rate" in said
    assert run_main("convert", model, target, "--as-input", "rate") == 0
    assert "constants in it: start (" in capsys.readouterr().err
    assert run_main("run", target, "--set", "rate=0.7") == 0
    assert run_main("run", target, "--set", "nothing=0.7") == 1
    assert "constant" not in capsys.readouterr().err


CONTENT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=25,
)


@settings(deadline=None)
@given(CONTENT)
def test_small_maps_on_one_line_mean_what_they_say(content):
    text = model_text({"model": content}, ".yaml")
    assert yaml.safe_load(text) == {"model": content}


@pytest.mark.parametrize("path", ["tests/models/while_ts.onnx", "tests/models/nested_ts.onnx", "tests/models/ddm_dyn.onnx"])
def test_a_converted_model_is_half_as_long_as_with_a_line_for_each_value(path, tmp_path):
    content = mdf_loop.convert(path, tmp_path / "m.yaml").to_dict()
    lines = (tmp_path / "m.yaml").read_text().splitlines()
    assert len(lines) < 0.55 * len(yaml.safe_dump(content, default_flow_style=False).splitlines())
