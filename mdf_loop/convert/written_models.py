"""A body as an ONNX model: in operators of ONNX alone, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import onnx
from onnx import checker, helper, shape_inference

from mdf_loop.convert.naming import with_onnx_names
from mdf_loop.errors import MalformedBody, UnsupportedOp, let_through
from mdf_loop.ir import Body, ValueType
from mdf_loop.ops.registry import first_version
from mdf_loop.readers.onnx.onnx_text import message_of
from mdf_loop.readers.onnx.opsets import every_node, refuse_others
from mdf_loop.writers.onnx_graph import constants_as_nodes, domains_of, write_model

if TYPE_CHECKING:
    from mdf_loop.convert.named_values import Named

FIRST_WITH_INITIALIZERS = 4
"""The first version of the file format in which an initializer need not be an input."""


def written_as_onnx(
    body: Body, inputs: Mapping[str, tuple[Any, ValueType]], names: Sequence[str], defaults: Mapping[str, Named] | None = None
) -> Body:
    """A body of an MDF graph in operators of ONNX alone.

    Parameters
    ----------
    body : Body
        What it captures becomes inputs.
    inputs : mapping of str to (sample, ValueType)
        For each of them a value that it might have, or None, and its type.
    names : sequence of str
        What the outputs are called.
    defaults : mapping of str to Named, optional
        Inputs that may be left out: their values, and what they are called.
    """
    from mdf_loop.backends.onnx.lowering import lower  # 50 ms, which importing mdf_loop does not have to take

    lowered = lower(body, inputs)
    known = {name: each for name, each in (defaults or {}).items() if name in inputs}
    lowered = replace(lowered, defaults={name: each.array for name, each in known.items()})
    called = {name: each.name for name, each in known.items()}
    return with_onnx_names(lowered, names=called | dict(zip(lowered.outputs, names, strict=True)))


def write_checked(body: Body, ir_version: int = 0) -> onnx.ModelProto:
    """A body in operators of ONNX as a model that has passed ONNX's checker.

    ``ir_version`` is the version of the file format; 0 takes the first one that knows the versions of the operators.

    Raises
    ------
    MalformedBody
        It has not; says what the checker says.
    """
    if body.captures:
        raise MalformedBody(f"reads {', '.join(map(repr, body.captures))}, which nothing in the model provides", (body.name,))
    refuse_others(body, (body.name,))
    model = write_model(body)
    for domain in domains_of(body) - {entry.domain for entry in model.opset_import}:
        raise UnsupportedOp(f"the version of domain {domain!r} is missing")
    model.producer_name = "mdf-loop"
    if not ir_version:
        least = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
        ir_version = max(least, FIRST_WITH_INITIALIZERS)
    model.ir_version = ir_version
    if model.ir_version < FIRST_WITH_INITIALIZERS:
        constants_as_nodes(model.graph)
    try:
        _infer_outputs(model, body)
        checker.check_model(_checkable(model), full_check=True)
    except Exception as error:
        let_through(error)
        raise MalformedBody(f"ONNX's checker refuses the model: {message_of(error)}", (body.name,)) from error
    return model


def _infer_outputs(model: onnx.ModelProto, body: Body) -> None:
    """Declare the outputs whose types or shapes are not known, as far as ONNX can infer them."""
    open_outputs = [value for value in model.graph.output if _lacks_shape(value.type) or value.type.WhichOneof("value") is None]
    if not open_outputs:
        return
    # Inference would take the default of an input for its value.
    bare = write_model(replace(body, defaults={})) if body.defaults else model
    inferred = {value.name: value.type for value in shape_inference.infer_shapes(bare).graph.output}
    for value in open_outputs:
        value.type.CopyFrom(inferred[value.name])


def _checkable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for ONNX's checker, which knows no operator in versions before its first, as exporters do write them.

    It also wants shapes of all inputs and outputs: ONNX cannot infer those of each operator, and files may leave them open.
    """
    opset = next((entry.version for entry in model.opset_import if entry.domain == ""), 1)
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    del checked.graph.output[:]
    checked.graph.output.extend(value for value in model.graph.output if not _lacks_shape(value.type))
    for node in every_node(checked.graph.node):
        if node.domain == "" and first_version(node.op_type, opset) != opset:
            node.domain = _UNKNOWN  # as an operator of others, which is not checked
    for value in [value for value in checked.graph.input if _lacks_shape(value.type)]:
        checked.graph.input.remove(value)
        checked.graph.node.insert(0, helper.make_node("Input", [], [value.name], domain=_UNKNOWN))
    checked.opset_import.append(helper.make_opsetid(_UNKNOWN, 1))
    return checked


_UNKNOWN = "older than itself"


def _lacks_shape(kind: onnx.TypeProto) -> bool:
    return kind.WhichOneof("value") == "tensor_type" and not kind.tensor_type.HasField("shape")
