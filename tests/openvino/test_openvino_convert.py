"""OpenVINO models as MDF models: ``convert`` and ``mdf-loop convert``."""

from pathlib import Path

import numpy as np
import pytest
from commands import run_main
from modeci_mdf.execution_engine import EvaluableGraph

import mdf_loop
from mdf_loop.models.verifying import verify

MODELS = {
    "tests/models/ov_loop.xml": {"X": np.arange(8, dtype=np.float32).reshape(4, 2), "S": np.float32([[1, -1]])},
    "examples/openvino_loop.xml": {"trip_count": 4, "go": True, "start": np.float32([[0], [1]])},
}


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, strict=True)


@pytest.mark.parametrize("form", ["mdf", "onnx"])
@pytest.mark.parametrize("name", MODELS)
def test_converted_model_gives_what_the_openvino_model_gives(name, form):
    expected = mdf_loop.run(name, **MODELS[name])
    assert_same(mdf_loop.run(mdf_loop.convert(name, body=form), **MODELS[name]), expected)


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".onnx"])
@pytest.mark.parametrize("name", MODELS)
def test_command_writes_a_file_that_runs(name, suffix, tmp_path):
    target = tmp_path / f"model{suffix}"
    assert run_main("convert", name, target) == 0
    assert_same(mdf_loop.run(target, **MODELS[name]), mdf_loop.run(name, **MODELS[name]))


def test_converted_loop_is_onnx_loop_in_mdfs_engine():
    model = mdf_loop.convert("tests/models/ov_loop.xml")
    functions = {parameter.function for node in model.graphs[0].nodes for parameter in [*node.parameters, *node.functions]}
    assert "onnx::Loop" in functions
    EvaluableGraph(model.graphs[0], verbose=False)


def test_command_refuses_what_it_cannot_write(tmp_path, capsys):
    assert run_main("convert", "examples/newton.yaml", tmp_path / "model.xml") == 1
    assert "IN is .onnx, .xml, .yaml or .json and OUT .yaml, .json or .onnx" in capsys.readouterr().err


@pytest.mark.parametrize("name", MODELS)
def test_load_and_to_onnx_take_the_file_itself(name):
    expected = mdf_loop.run(name, **MODELS[name])
    assert_same(mdf_loop.run(mdf_loop.load(name), **MODELS[name]), expected)
    assert_same(mdf_loop.run(mdf_loop.to_onnx(name), **MODELS[name]), expected)


def test_verify_compares_an_openvino_model_everywhere():
    report = verify(Path("examples/openvino_loop.xml"), {})
    assert report.disagreements == []
    assert {place.name for place in report.others} >= {"MDF", "onnxruntime"}
    assert set(report.findings.values()) == {"same"}
