"""Operators that others write into models older than the operator."""

import numpy as np
import onnx
import pytest
from engines import ENGINES
from node_cases import assert_same

from mdf_loop import backend, convert, loop, options, run, to_onnx
from mdf_loop.errors import LoopWarning

OLD_MODEL = """
<ir_version: 7, opset_import: ["": 11]>
old (float[2,4] x, float[4] scale, float[4] bias) => (float[2,4] y) { y = LayerNormalization <axis = -1> (x, scale, bias) }"""


def test_layer_normalization_runs_in_models_older_than_itself():
    feeds = {
        "x": np.arange(8, dtype=np.float32).reshape(2, 4) ** 2,
        "scale": np.ones(4, np.float32),
        "bias": np.ones(4, np.float32),
    }
    with pytest.warns(
        LoopWarning, match="LayerNormalization exists from version 17 of ONNX on, but the model imports version 11"
    ):
        found = backend.prepare(onnx.parser.parse_model(OLD_MODEL)).run(feeds)[0]
    newer = onnx.parser.parse_model(OLD_MODEL.replace('["": 11]', '["": 17]'))
    assert_same(found, backend.prepare(newer).run(feeds)[0], 0, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_layer_normalization_runs_in_bodies_older_than_itself(engine):
    body = """<ir_version: 7, opset_import: ["": 13]>
        b (int64 i, bool c, float[4] x) => (bool c, float[4] y) { y = LayerNormalization (x, s) }"""
    body = body.replace(" b (", f" with_{engine} (")  # a text is read, and warned of, once
    x, s = np.arange(4, dtype=np.float32), np.full(4, 2, np.float32)
    with options(engine=engine), pytest.warns(LoopWarning, match="version 17"):
        old = loop(9, True, x, body=body, s=s)
    with options(engine=engine):
        assert_same(old, loop(9, True, x, body=body.replace("13", "17"), s=s), 0, 0)


def test_layer_normalization_runs_in_a_converted_model_older_than_itself(tmp_path):
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "scale": np.ones(4, np.float32), "bias": np.ones(4, np.float32)}
    with pytest.warns(LoopWarning, match="version 17"):
        convert(onnx.parser.parse_model(OLD_MODEL)).to_yaml_file(str(tmp_path / "old.yaml"))
    found = run(tmp_path / "old.yaml", **feeds)["y"]
    newer = onnx.parser.parse_model(OLD_MODEL.replace('["": 11]', '["": 17]'))
    assert_same(found, backend.prepare(newer).run(feeds)[0], 1e-6, 1e-6)


@pytest.mark.parametrize("opset", [9, 11, 16])
def test_layer_normalization_older_than_itself_goes_back_to_onnx(opset):
    model = onnx.parser.parse_model(OLD_MODEL.replace('["": 11]', f'["": {opset}]'))
    with pytest.warns(LoopWarning, match="version 17"):
        back = to_onnx(convert(model))
    assert [node.op_type for node in back.graph.node] == ["LayerNormalization"]
    assert back.opset_import == model.opset_import
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "scale": np.ones(4, np.float32), "bias": np.ones(4, np.float32)}
    with pytest.warns(LoopWarning, match="version 17"):
        assert_same(backend.prepare(back).run(feeds)[0], backend.prepare(model).run(feeds)[0], 0, 0)
