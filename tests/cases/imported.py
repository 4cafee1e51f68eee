"""Model files as MDF's ONNX importer writes them, and what onnxruntime says of the ONNX models they come from."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import yaml
from bodies import MODELS
from modeci_mdf.interfaces.onnx import onnx_to_mdf
from modeci_mdf.interfaces.onnx.importer import id_to_port
from onnx import parser

HEADER = '<ir_version: 9, opset_import: ["": 20]>\n'

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)

COUNTED = """(float[2,3] x, int64 n) => (float[2,3] y) {
    [true] go = Constant <value = bool {1}> ()
    [loop] y = Loop (n, go, x) <body: graph = """
"""The beginning of a model with one Loop, in front of the body."""


def one_loop(body: str) -> str:
    """A model whose only node is a Loop of ``n`` iterations that carries ``x``."""
    return f"model {COUNTED}{body}> }}"


def onnx_model(source: Any, header: str = HEADER) -> onnx.ModelProto:
    """A model from ONNX text, or of the name of a file among the models of the tests."""
    if isinstance(source, onnx.ModelProto):
        return source
    if "{" not in source:
        return onnx.load(MODELS / f"{source}.onnx")
    model = parser.parse_model(header + source)
    onnx.checker.check_model(model)
    return model


def write_imported(source: Any, path: Any, header: str = HEADER) -> Any:
    """The file that MDF's importer writes of an ONNX model; its suffix says the format."""
    model = onnx_to_mdf(onnx_model(source, header))
    (model.to_json_file if path.suffix == ".json" else model.to_yaml_file)(str(path))
    return path


def write_signed(source: Any, path: Any, header: str = HEADER) -> Any:
    """The same file with what the error of a body without a signature asks for: the names of its inputs and outputs."""
    model = onnx_model(source, header)
    content = read_plain(write_imported(model, path, header))
    versions = {entry.domain: entry.version for entry in model.opset_import}
    _sign(only_graph(content), model.graph, versions[""])
    path.write_text(json.dumps(content) if path.suffix == ".json" else yaml.safe_dump(content, sort_keys=False))
    return path


def _sign(content: dict[str, Any], graph: onnx.GraphProto, opset: int) -> None:
    """Name the inputs and outputs of every body in what a file says of a graph."""
    for node in graph.node:
        for attribute in (a for a in node.attribute if a.HasField("g")):
            ((_, body),) = content["nodes"][node.name]["parameters"][attribute.name]["value"].items()
            said = {"inputs": list(attribute.g.input), "outputs": list(attribute.g.output)}
            names = {key: [id_to_port(value.name) for value in values] for key, values in said.items()}
            body["metadata"] = {**names, "opset": opset, "types": {}}
            _sign(body, attribute.g, opset)


def expected(source: Any, header: str = HEADER, **inputs: Any) -> list[np.ndarray]:
    """What onnxruntime says."""
    session = onnxruntime.InferenceSession(onnx_model(source, header).SerializeToString())
    return session.run(None, {name: np.asarray(value) for name, value in inputs.items()})


def read_plain(path: Any) -> dict[str, Any]:
    """A file as dicts and lists."""
    return json.loads(path.read_text()) if path.suffix == ".json" else yaml.safe_load(path.read_text())


def only_graph(content: dict[str, Any]) -> dict[str, Any]:
    """The graph in what a file says."""
    ((_, model),) = content.items()
    ((_, graph),) = model["graphs"].items()
    return graph


def body_in(content: dict[str, Any], node: str, name: str = "body") -> dict[str, Any]:
    """The body of a node in what a file says."""
    ((_, body),) = only_graph(content)["nodes"][node]["parameters"][name]["value"].items()
    return body
