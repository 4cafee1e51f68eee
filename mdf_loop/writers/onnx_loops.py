"""The one loop of the IR as ONNX writes it: a Loop, or a Scan where values are scanned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Collected, Loop, Node, Scanned


def as_onnx(node: Node) -> Node:
    """A loop with inputs, outputs and attributes as ONNX has them; other nodes as they are.

    Raises
    ------
    UnsupportedOp
        Neither of ONNX's loops is such a loop.
    """
    loop = node.loop
    if loop is None:
        return node
    is_other = loop.last or loop.invariant or loop.unlimited or not all(part.stack for part in loop.collected)
    if is_other or (loop.batched and node.opset > 8):
        raise UnsupportedOp(f"{loop.name} is no loop of ONNX")
    return _as_scan(node, loop) if loop.scanned else _as_loop(node, loop)


def _as_loop(node: Node, loop: Loop) -> Node:
    is_by_rows = not any((*_each(loop.collected, "axis"), *_each(loop.collected, "reverse")))
    if not is_by_rows or loop.index is None or loop.condition is None or loop.keep_going is None:
        raise UnsupportedOp(f"{loop.name} is no Loop of ONNX")
    inputs = (loop.index, loop.condition, *(c.input for c in loop.carried))
    return replace(node, attrs={"body": replace(loop.body, inputs=inputs, outputs=(loop.keep_going, *loop.results))})


def _as_scan(node: Node, loop: Loop) -> Node:
    is_by_rows = all((s.part, s.start, s.stride) == (None, 0, 1) for s in loop.scanned)
    if not is_by_rows or loop.index or loop.condition or loop.keep_going:
        raise UnsupportedOp(f"{loop.name} is no Scan of ONNX")
    inputs = (*(c.input for c in loop.carried), *(s.input for s in loop.scanned))
    body = replace(loop.body, inputs=inputs, outputs=loop.results)
    lists = {
        "scan_input_axes": _each(loop.scanned, "axis"),
        "directions" if loop.batched else "scan_input_directions": _each(loop.scanned, "reverse"),
        "scan_output_axes": _each(loop.collected, "axis"),
        "scan_output_directions": _each(loop.collected, "reverse"),
    }
    said = {key: values for key, values in lists.items() if any(values) or key in loop.said}
    given = (node.inputs[:1] if loop.batched else ()) + node.inputs[2:]
    return replace(node, op="Scan", inputs=given, attrs={"body": body, "num_scan_inputs": len(loop.scanned), **said})


def _each(parts: Sequence[Scanned | Collected], what: str) -> tuple[int, ...]:
    return tuple(int(getattr(part, what)) for part in parts)
