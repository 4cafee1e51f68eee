"""One node of a body in operators of ONNX: expressions, operators of ONNX with the types that they have to agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.convert.expressions import (  # noqa: F401  (they fill the table)
    arithmetic,
    arrays,
    handing,
    indexing,
    mathematics,
    reductions,
)
from mdf_loop.convert.expressions.table import LOWERED
from mdf_loop.convert.expressions.tracing import BOOL, DOUBLE, FLOAT, INT64, WITHOUT_DOUBLE, Emitter, Traced
from mdf_loop.errors import UnsupportedOp, let_through
from mdf_loop.ir import Node
from mdf_loop.ops.registry import bind, lookup
from mdf_loop.options import start_run
from mdf_loop.readers.mdf.control import rename_captures
from mdf_loop.types.schemas import schema_of


def expression(emitter: Emitter, node: Node, inputs: list[Traced]) -> Sequence[Traced]:
    """The outputs of one of Python's operators and functions."""
    samples, is_sure = _samples(emitter, node, inputs)
    if node.op == "fit":
        return [Traced(emitter.typed(value, np.asarray(new).dtype), new) for value, new in zip(inputs, samples, strict=True)]
    if is_sure and all(value.is_known for value in inputs) and _is_pure(node):
        return [Traced("", sample, is_known=True) for sample in samples]
    if node.op not in LOWERED:
        raise UnsupportedOp(f"{'/'.join((*emitter.path, node.name))}: {node.op} has no ONNX operator")
    made = LOWERED[node.op](emitter, inputs, samples[0], **node.attrs)
    return [made if isinstance(made, Traced) else Traced(made, samples[0])]


def _is_pure(node: Node) -> bool:
    return lookup(node.op, node.opset, node.domain).pure


def _samples(emitter: Emitter, node: Node, inputs: Sequence[Traced | None]) -> tuple[list[Any], bool]:
    """What a node gives for the samples of its inputs; and whether it did: what cannot be computed, perhaps because it never
    is, has the types that it gives for ones."""
    captured = [emitter[name] for name in node.captures]
    values = [None if value is None else value.value for value in (*inputs, *captured)]
    if node.op == "getitem":
        values[1:] = [int(value) if type(value) is float and value.is_integer() else value for value in values[1:]]
    try:
        return _called(node, values), True
    except Exception as error:
        let_through(error)
        try:
            return _called(_at_first(node), list(map(_one, values))), False
        except Exception as error:
            let_through(error)
            where = "/".join((*emitter.path, node.name))
            raise UnsupportedOp(f"{where}: the types of a model are found by running it once, which failed: {error}") from error


def _called(node: Node, values: list[Any]) -> list[Any]:
    """The outputs of a node; a loop runs for one iteration."""
    bound = bind(node)
    if node.loop is not None and not node.loop.scanned:
        values[:2] = [np.int64(1), np.True_]
    results = bound.call(start_run(), *values) if bound.needs_run else bound.call(*values)
    return list(results) if isinstance(results, tuple) else [results]


def _one(value: Any) -> Any:
    """Ones of the type and shape of a value."""
    if type(value) in (bool, int, float):
        return type(value)(1)
    return np.ones_like(value) if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf" else value


def _at_first(node: Node) -> Node:
    """A node that takes an element takes the first one."""
    return replace(node, attrs={"index": 0}) if node.op == "index" and isinstance(node.attrs["index"], int) else node


def operator(emitter: Emitter, node: Node, inputs: Sequence[Traced | None]) -> Sequence[Traced]:
    """An operator of ONNX: inputs that need one element type get it."""
    _same_version(emitter, node)
    samples, _ = _samples(emitter, node, inputs)
    wanted = _common_types(node, inputs, emitter.opset)
    narrow = node.op in WITHOUT_DOUBLE and any(v is not None and v.is_tensor and v.dtype == DOUBLE for v in inputs)
    names: list[str] = []
    for value, dtype in zip(inputs, wanted, strict=True):
        if value is None:
            names.append("")
        elif not value.is_tensor:
            names.append(value.name)
        else:
            names.append(emitter.typed(value, FLOAT if narrow and (dtype or value.dtype) == DOUBLE else dtype))
    captures = {name: tensor(emitter, emitter[name]) for name in node.captures}
    bodies = {key: rename_captures(inner, captures) for key, inner in node.bodies}
    outputs = tuple(emitter.fresh(name) if name else "" for name in node.outputs)
    if bodies and not node.domain:  # onnxruntime stumbles over outputs without names
        outputs = tuple(name or emitter.fresh("unused") for name in outputs)
    added = replace(node.with_bodies(bodies), inputs=tuple(names), outputs=outputs, opset=emitter.opset)
    emitter.nodes.append(replace(added, captures=tuple(captures.values())))
    return [_widened(emitter, Traced(name, sample), narrow) for name, sample in zip(outputs, samples, strict=False)]


def _widened(emitter: Emitter, value: Traced, narrow: bool) -> Traced:
    if not narrow or not value.is_tensor or value.dtype != DOUBLE:
        return value
    return replace(value, name=emitter.cast(value.name, FLOAT, DOUBLE))


def _same_version(emitter: Emitter, node: Node) -> None:
    """See that an operator means the same in the version of the whole model."""
    inner = [part for _, body in node.bodies for part in body.nodes]
    for part in (node, *inner):
        if part.domain or any(True for _ in part.bodies):
            continue
        if lookup(part.op, part.opset) is not lookup(part.op, emitter.opset):
            raise UnsupportedOp(
                f"{'/'.join((*emitter.path, part.name))}: {part.op} of opset {part.opset} is not that of opset "
                f"{emitter.opset}, which the model has; say opset: {emitter.opset} in the metadata of its graph"
            )


def _common_types(node: Node, inputs: Sequence[Traced | None], opset: int) -> list[np.dtype | None]:
    """The element type of each input: one for all that share a type variable of the operator."""
    schema = schema_of(node.op, opset, node.domain)
    if schema is None:
        return [None] * len(inputs)
    groups: dict[str, list[Any]] = {}
    texts = []
    for k, value in enumerate(inputs):
        formal = schema.inputs[min(k, len(schema.inputs) - 1)]
        texts.append(formal.type_str if formal.is_homogeneous else f"{formal.type_str} {k}")
        if value is not None and value.is_tensor:
            groups.setdefault(texts[-1], []).append(value.value)
    common = {text: np.result_type(*values) for text, values in groups.items() if not any(_is_text(v) for v in values)}
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for text, dtype in common.items():
        kinds = allowed.get(text, [text])
        if dtype == DOUBLE and "tensor(double)" not in kinds and "tensor(float)" in kinds:
            common[text] = FLOAT
        elif kinds == ["tensor(int64)"]:
            common[text] = INT64
        elif kinds == ["tensor(bool)"]:
            common[text] = BOOL
    return [common.get(text) for text in texts]


def _is_text(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "OUS"


def tensor(emitter: Emitter, value: Traced) -> str:
    """The name of a value."""
    if value.name:
        return value.name
    if not value.is_tensor:
        raise UnsupportedOp(f"{'/'.join(emitter.path)}: {value.value!r} is no tensor")
    return emitter.typed(value)


def initially(emitter: Emitter, previous: Traced | None, first: Traced | None) -> Traced:
    """The first value of a hidden one, or the previous."""
    assert previous is not None
    assert first is not None
    if previous.value is None:
        return first
    dtype = np.result_type(previous.value, first.value)
    test, *values = (emitter.typed(emitter["is first"]), emitter.typed(first, dtype), emitter.typed(previous, dtype))
    return Traced(emitter.branch(test, *values), np.asarray(first.value).astype(dtype))
