"""Running converted models in every way there is."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import numpy as np
import onnx
import onnxruntime
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter
from node_cases import RANDOM, assert_same

import mdf_loop

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # onnxruntime refuses the newest opsets without it


def by_engine(model: Any, inputs: dict[str, Any]) -> list[Any]:
    """The outputs of a converted model in MDF's own engine, in order; inputs by their ONNX names."""
    (graph,) = model.graphs
    names = graph.metadata.get("names", {})
    ids = {names.get(id, id): id for id in graph.metadata["inputs"]}
    with contextlib.redirect_stdout(io.StringIO()):
        evaluable = EvaluableGraph(graph)
        evaluable.evaluate(initializer={ids.get(name, name): value for name, value in inputs.items()})
    ports = {port.id: (node.id, port.id) for node in graph.nodes for port in node.output_ports}
    places = [ports[name] for name in graph.metadata["outputs"]]
    return [evaluable.enodes[node].evaluable_outputs[port].curr_value for node, port in places]


def by_onnxruntime(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs by name in onnxruntime; inputs in the types that the model declares."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    feed = {
        value.name: np.asarray(inputs[value.name]).astype(onnx.helper.tensor_dtype_to_np_dtype(types[value.name]))
        for value in session.get_inputs()
    }
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, feed), strict=True))


def named_inputs(model: Any, values: list[Any]) -> dict[str, Any]:
    """The values of a case by the names of the ONNX model's inputs."""
    return dict(zip([value.name for value in model.graph.input], values, strict=False))


def assert_published(case: Any, results: list[Any], expected: list[Any]) -> None:
    """The results of a case are those that were published with it."""
    assert len(results) == len(expected)
    for k, (actual, wanted) in enumerate(zip(results, expected, strict=True)):
        if case.name in RANDOM:
            assert (actual.shape, actual.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
        else:
            assert_same(actual, wanted, case.rtol, case.atol, f"output {k}")


def assert_close(actual: dict[str, Any], expected: dict[str, Any], rtol: float = 1e-6, atol: float = 1e-12) -> None:
    """The same outputs; numbers may be of another type, for MDF's have none."""
    assert actual.keys() == expected.keys()
    for name, wanted in expected.items():
        wide = [np.asarray(value).astype(float) for value in (actual[name], wanted)]
        assert wide[0].shape == wide[1].shape, name
        np.testing.assert_allclose(*wide, rtol=rtol, atol=atol, err_msg=name)


def assert_onnxruntime_agrees(model: Any, **inputs: Any) -> Any:
    """An MDF model gives the same as ONNX in onnxruntime; returns the ONNX model."""
    written = mdf_loop.to_onnx(model)
    with np.errstate(all="ignore"):
        expected = mdf_loop.run(model, **inputs)
    assert_close(by_onnxruntime(written, inputs), expected)
    return written


def model_of(*nodes: Any, edges: Any = (), metadata: Any = None) -> Any:
    """A model with one graph."""
    return Model(id="model", graphs=[Graph(id="graph", nodes=list(nodes), edges=list(edges), metadata=metadata)])


def looping(body: Any, count: int, start: Any = 1.5) -> Any:
    """A model with a Loop of six iterations that carries one value over a body with so many results."""
    parameters = [
        Parameter(id="start", value=start),
        Parameter(id="body", value={"graph_b": body}),
        Parameter(id="run", function="onnx::Loop", args={"M": 6, "cond": True, "x": "start", "body": "body"}),
    ]
    ports = [OutputPort(id=f"out{k}", value=f"run[{k}]" if count > 1 else "run") for k in range(count)]
    return model_of(Node(id="loop", parameters=parameters, output_ports=ports))
