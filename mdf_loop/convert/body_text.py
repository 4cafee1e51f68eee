"""Bodies of a converted model as ONNX text, with the ids that the MDF model gives to values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdf_loop.convert.naming import Naming, readable, renamed
from mdf_loop.errors import LoopError, UnsupportedOp, let_through
from mdf_loop.ir import Body, Node
from mdf_loop.readers import read_text
from mdf_loop.readers.onnx.opsets import refuse_others
from mdf_loop.writers.onnx_graph import write_graph


def body_text(body: Body, naming: Naming, path: tuple[str, ...]) -> dict[str, Any]:
    """A body as a dict with its ONNX text, and the version of ONNX where the text does not say it.

    Raises
    ------
    UnsupportedOp
        ONNX text cannot say it, or not exactly.
    """
    from onnx import helper, printer

    refuse_others(body, path)
    named = _renamed(body, naming)
    proto = write_graph(named)
    opset = {"opset": body.opsets[""]} if "" in body.opsets else {}
    try:
        if set(body.opsets) - {""}:
            imports = [helper.make_opsetid(domain, version) for domain, version in body.opsets.items()]
            text, opset = printer.to_text(helper.make_model(proto, opset_imports=imports)), {}
        else:
            text = printer.to_text(proto)
        for shorter in (_tidy(text), text):  # a text in an attribute may have blanks that count
            again = write_graph(read_text(shorter, opset.get("opset")))
            if again.SerializeToString(deterministic=True) == proto.SerializeToString(deterministic=True):
                return {"onnx": shorter, **opset}
    except (LoopError, ValueError, RuntimeError) as error:
        let_through(error)
        raise UnsupportedOp(f"{'/'.join(path)}: ONNX text cannot hold this body ({error}); convert with body='mdf'") from error
    raise UnsupportedOp(f"{'/'.join(path)}: ONNX text does not hold this body exactly; convert with body='mdf'")


def _tidy(text: str) -> str:
    """ONNX text without blanks at the ends of lines, with which YAML could not write it as a block."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _renamed(body: Body, naming: Naming) -> Body:
    """A body with the ids of its values for names."""
    written = [name for node in body.nodes for name in node.outputs if name]
    for name in dict.fromkeys((*body.inputs, *body.constants, *written)):
        naming.value(name)

    def change(node: Node) -> Node:
        bodies = {key: _renamed(inner, Naming(naming)) for key, inner in node.bodies}
        return replace(node.with_bodies(bodies), name=naming.fresh(node.name) if node.name else "")

    return replace(renamed(body, naming.__getitem__, naming.ids, change), name=readable(body.name))
