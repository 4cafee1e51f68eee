"""How an exported loop is kept: ``NAME.onnx``, and ``NAME.npz`` with its inputs and what the framework itself gave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

HERE = Path(__file__).parent

EACH_AT_MOST = 700_000
"""Bytes of one model: the folder is meant to stay small."""


def save(name: str, model: onnx.ModelProto, inputs: Sequence[Any], outputs: Sequence[Any], folder: Path = HERE) -> None:
    """Write a model without what only debuggers read, and the arrays beside it: ``in0``, ``in1``, ... and ``out0``, ..."""
    without_notes(model)
    onnx.checker.check_model(model)
    text = model.SerializeToString()
    if len(text) > EACH_AT_MOST:
        raise ValueError(f"{name} has {len(text):,} bytes; at most {EACH_AT_MOST:,} are kept of one model")
    (folder / f"{name}.onnx").write_bytes(text)
    arrays = {f"in{k}": np.asarray(x) for k, x in enumerate(inputs)} | {f"out{k}": np.asarray(x) for k, x in enumerate(outputs)}
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    print(f"{name:28}{len(text):10,} bytes, {len(inputs)} inputs, {len(outputs)} outputs")


def without_notes(model: onnx.ModelProto) -> None:
    """Take away documentation and metadata: stack traces of its exporter."""
    del model.metadata_props[:]
    model.doc_string = ""
    for function in model.functions:
        _of_nodes(function.node)
        del function.metadata_props[:]
    _of_graph(model.graph)


def _of_graph(graph: onnx.GraphProto) -> None:
    graph.doc_string = ""
    del graph.metadata_props[:]
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.doc_string = ""
        del value.metadata_props[:]
    _of_nodes(graph.node)


def _of_nodes(nodes: Any) -> None:
    for node in nodes:
        node.doc_string = ""
        del node.metadata_props[:]
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                _of_graph(graph)
