"""Models of one node of ai.onnx.ml, run here and by onnxruntime."""

import pytest
from onnx import helper

from mdf_loop import backend

ML = "ai.onnx.ml"


def model(op, x, version, outputs=1, **attrs):
    node = helper.make_node(op, ["x"], [f"y{k}" for k in range(outputs)], domain=ML, **attrs)
    kind = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
    graph = helper.make_graph([node], "g", [kind], [helper.make_empty_tensor_value_info(name) for name in node.output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(ML, version)], ir_version=8)


def run(op, x, version=3, outputs=1, **attrs):
    return backend.prepare(model(op, x, version, outputs, **attrs)).run([x])


def onnxruntime_runs(op, x, version=3, outputs=1, **attrs):
    ort = pytest.importorskip("onnxruntime")
    made = model(op, x, version, outputs, **attrs).SerializeToString()
    return ort.InferenceSession(made, providers=["CPUExecutionProvider"]).run(None, {"x": x})
