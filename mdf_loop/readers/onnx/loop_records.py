"""ONNX's Loop and Scan as the one loop of the IR: what is particular to either ends here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, LoopError, MalformedBody, UnsupportedOp
from mdf_loop.ir import Body, Carried, Collected, Loop, Node, Scanned
from mdf_loop.readers.expressions.equations import EQUATIONS
from mdf_loop.readers.expressions.values import COMPARISONS
from mdf_loop.types.elements import kind_of

SCAN_ATTRIBUTES = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")
"""Attributes of a Scan that say how its values are cut up and put together, from opset 9 on."""


def as_loop(node: Node, where: str) -> Node:
    """A Loop or Scan of ONNX as the node that holds its record; other nodes as they are.

    Parameters
    ----------
    node : Node
        With inputs, outputs and attributes as ONNX has them.
    where : str
        The graph it stands in, for messages.

    Raises
    ------
    LoopError
        Its inputs, outputs, attributes and body do not go together.
    """
    if node.op not in ("Loop", "Scan") or node.domain:
        return node
    try:
        return _of_loop(node) if node.op == "Loop" else _of_scan(node)
    except LoopError as error:
        error.add_note(f"in node {node.name or node} of {where!r}")
        raise


def _of_loop(node: Node) -> Node:
    """Loop: trip count, condition, carried values."""
    (body,) = bodies_of(node, "body")
    inputs = (*node.inputs, "", "")[: max(len(node.inputs), 2)]
    record = loop_record(body, len(inputs) - 2, title(node))
    _refuse_outputs(node, len(record.results), len(body.outputs) - 1)
    return replace(node, inputs=inputs, attrs={"loop": record})


def _of_scan(node: Node) -> Node:
    """Scan: carried values, then scanned ones.

    That of opset 8 has an optional first input of sequence lengths, and a batch axis in front of everything.
    """
    is_batched = node.opset < 9
    known = ("directions",) if is_batched else SCAN_ATTRIBUTES
    (body,) = bodies_of(node, "body", "num_scan_inputs", *known)
    if "num_scan_inputs" not in node.attrs:
        raise MalformedBody(f"{title(node)} has no attribute num_scan_inputs")
    attrs = {"scan_input_directions": node.attrs.get("directions")} if is_batched else node.attrs
    said = tuple(key for key in known if key in node.attrs)
    record = replace(scan_record(body, node.attrs["num_scan_inputs"], attrs, title(node)), batched=is_batched, said=said)
    first = ((*node.inputs[:1], "", "")[:2], node.inputs[1:]) if is_batched else (("", ""), node.inputs)
    if len(first[1]) != len(body.inputs):
        raise ArgumentError(f"{title(node)} has {len(first[1])} inputs, its body takes {len(body.inputs)}")
    _refuse_outputs(node, len(body.outputs), len(body.outputs))
    return replace(node, op="Loop", inputs=(*first[0], *first[1]), attrs={"loop": record})


def _refuse_outputs(node: Node, most: int, given: int) -> None:
    if len(node.outputs) > most:
        raise MalformedBody(f"{title(node)} names {len(node.outputs)} outputs, its body gives {given}")


def loop_record(body: Body, n_carried: int, name: str = "Loop") -> Loop:
    """The record of an ONNX Loop: inputs (iteration number, condition, carried), outputs (condition, carried, collected).

    Raises
    ------
    ArgumentError
        The body's signature does not fit the number of carried values; the message shows both.
    """
    if len(body.inputs) != 2 + n_carried or len(body.outputs) < 1 + n_carried:
        if body.name == EQUATIONS or (not body.typed and 2 < len(body.inputs) <= len(body.outputs) + 1):
            raise ArgumentError(f"{name}: {_of_carried(body, n_carried)}")
        raise ArgumentError(
            f"{name}: {counted(n_carried, 'carried value')} given, so the body must have {2 + n_carried} inputs "
            "(iteration number, condition, carried values) and at least "
            f"{counted(1 + n_carried, 'output')} (condition, carried values); "
            f"body {body.name!r} has inputs ({', '.join(body.inputs)}) and {_outputs(body)}{_meant(body, n_carried)}"
        )
    return Loop(
        body,
        carried=tuple(map(Carried, body.inputs[2:], body.outputs[1 : 1 + n_carried])),
        collected=tuple(map(Collected, body.outputs[1 + n_carried :])),
        index=body.inputs[0],
        condition=body.inputs[1],
        keep_going=body.outputs[0],
        name=name,
        obeys=body.ends,
    )


def _outputs(body: Body) -> str:
    """The outputs of a body; those of a function or an expression have no names that its author wrote."""
    listed = f"outputs ({', '.join(body.outputs)})"
    return listed if body.typed else counted(len(body.outputs), "output")


def _of_carried(body: Body, n_given: int) -> str:
    """What a body carries and what is given, in words: who writes equations or Python does not count inputs of a graph."""
    carried, is_equations = body.inputs[2:], body.name == EQUATIONS
    words = ("while", "let", "collect", "scan", "index") if is_equations else ()
    close = [(name, found[0]) for name in carried if (found := difflib.get_close_matches(name, words, 1, 0.7))]
    said = "the equations carry" if is_equations else f"body {body.name!r} carries"
    said += f" {', '.join(carried) or 'nothing'}; each needs one initial value, in this order, and "
    said += f"{n_given or 'none'} {'are' if n_given > 1 else 'is'} given"
    if lacking := carried[n_given:] if n_given else ():
        said += f": {', '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} none"
    meant = "".join(f"; did you mean {word!r} by {name!r}?" for name, word in close)
    if not meant and len(carried) == n_given + 1:
        meant = _as_call(carried)
    return said + meant


def _as_call(carried: Sequence[str]) -> str:
    return f"; a call is loop(M, cond, {', '.join(carried)}, body=...): is the condition or an initial value missing?"


def _meant(body: Body, n_carried: int) -> str:
    """What was probably forgotten where a body and the carried values do not go together."""
    more_in, more_out = len(body.inputs) - 2 - n_carried, len(body.outputs) - 1 - n_carried
    if more_in == 0:
        passed = ", ".join((body.inputs[1], *(body.outputs if body.typed else ["..."])))
        said = f"; if the condition is missing among the outputs: ({passed}) passes it through"
        if not body.typed and _begins_with_condition(body):
            said = f"; a carried value is missing among the outputs: return the condition, {', '.join(body.inputs[2:])}"
        if body.typed or more_out >= 0 or len(body.outputs) < 2:
            return said
        first, rest = ", ".join(body.inputs[:more_out]), ", ".join(body.inputs[more_out:])
        return f"{said}; if {rest} should stay the same, it is captured: behind * in Python, def body({first}, *, {rest})"
    declared = body.type_of(body.inputs[1]).dtype if len(body.inputs) > 1 else None
    is_missing = len(body.inputs) < 2 or not body.typed or (declared is not None and kind_of(declared) != "bool")
    if more_in == -1 and more_out <= 0 and is_missing:
        written = "" if body.typed else f"; in Python def f({', '.join((*body.inputs[:1], 'condition', *body.inputs[1:]))}), "
        written += "" if body.typed else "which returns the condition, the carried values, then what is collected"
        return f"; the second input and the first output of a body are the condition, a bool: it seems to be missing{written}"
    if more_in == -2 and not body.typed:
        return f"; the first inputs are the iteration number and the condition: def f({', '.join(('i', 'go', *body.inputs))})"
    if more_in == 1 and n_carried >= 0:
        return _as_call(body.inputs[2:])
    return ""


def _begins_with_condition(body: Body) -> bool:
    """Whether the first output of a body is surely a condition."""
    if not body.outputs:
        return False
    first = body.outputs[0]
    op = next((node.op for node in body.nodes if first in node.outputs), "")
    is_bool = op in (*COMPARISONS, "not") or op.rpartition(".")[2].startswith(("logical", "any", "all", "is"))
    return is_bool or first == body.inputs[1] or np.asarray(body.constants.get(first)).dtype == bool


def scan_record(body: Body, n_scanned: int, attrs: Mapping[str, Any], name: str = "Scan") -> Loop:
    """The record of an ONNX Scan (9 on): inputs (carried, scanned), outputs (carried, collected).

    Raises
    ------
    ArgumentError
        The body has fewer inputs than there are scanned values, or fewer outputs than carried ones, or
        a list of axes or directions has the wrong length.
    """
    if not isinstance(n_scanned, int | np.integer) or isinstance(n_scanned, bool):
        raise KindError(f"{name}: num_scan_inputs must be a whole number; got {n_scanned!r}")
    n_carried = len(body.inputs) - n_scanned
    n_collected = len(body.outputs) - n_carried
    if n_carried < 0 or n_collected < 0 or n_scanned < 1:
        raise ArgumentError(
            f"{name}: with num_scan_inputs={n_scanned}, a body with inputs ({', '.join(body.inputs)}) and outputs "
            f"({', '.join(body.outputs)}) has {n_carried} carried values and {n_collected} collected ones"
        )
    in_axes = _per_value(attrs, "scan_input_axes", n_scanned, name)
    in_reverse = _per_value(attrs, "scan_input_directions", n_scanned, name)
    out_axes = _per_value(attrs, "scan_output_axes", n_collected, name)
    out_reverse = _per_value(attrs, "scan_output_directions", n_collected, name)
    return Loop(
        body,
        carried=tuple(map(Carried, body.inputs[:n_carried], body.outputs[:n_carried])),
        scanned=tuple(
            Scanned(i, a, reverse=bool(r)) for i, a, r in zip(body.inputs[n_carried:], in_axes, in_reverse, strict=True)
        ),
        collected=tuple(
            Collected(o, a, reverse=bool(r)) for o, a, r in zip(body.outputs[n_carried:], out_axes, out_reverse, strict=True)
        ),
        name=name,
    )


def _per_value(attrs: Mapping[str, Any], key: str, count: int, name: str) -> Sequence[int]:
    values = attrs.get(key)
    values = (0,) * count if values is None or values == () else values
    is_list = isinstance(values, tuple | list)
    if not is_list or not all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values):
        raise KindError(f"{name}: {key} must be whole numbers, one for each value; got {values!r}")
    if len(values) != count:
        raise ArgumentError(f"{name}: {key} has {len(values)} entries for {counted(count, 'value')}")
    if key.endswith("directions") and not set(values) <= {0, 1}:
        raise ArgumentError(f"{name}: {key} must be 0 (forward) or 1 (reverse); got {list(values)}")
    return tuple(values)


def bodies_of(node: Node, *keys: str) -> list[Body]:
    """The sub-graphs of a node as ONNX writes it; every attribute it has must be among ``keys``.

    Raises
    ------
    UnsupportedOp, MalformedBody
        There is another attribute, or a graph is missing.
    """
    if unknown := sorted(set(node.attrs) - set(keys)):
        raise UnsupportedOp(f"{title(node)} has no attribute {', '.join(unknown)}")
    found = [node.attrs[key] for key in keys if isinstance(node.attrs.get(key), Body)]
    wanted = [key for key in keys if key in ("body", "then_branch", "else_branch")]
    if len(found) != len(wanted):
        raise MalformedBody(f"{title(node)} needs a graph for {' and '.join(wanted)}")
    return found


def given_to_bodies(op: str, opset: int, count: int) -> int:
    """How many inputs a node with so many gives to its bodies: a Loop at least two, a Scan of opset 8 not its first."""
    return {"If": 0, "Loop": max(count, 2)}.get(op, count - (op == "Scan" and opset < 9))


def counted(count: int, noun: str) -> str:
    """A number of things in words."""
    return f"{count} {noun}{'s' * (count != 1)}"


def title(node: Node) -> str:
    """What messages call a node with bodies."""
    return f"{node.op} {node.name!r}" if node.name else node.op
