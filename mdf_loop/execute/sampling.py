"""One iteration tried out on values that are at hand, to learn types and shapes before code is emitted for them.

Only bodies inside a body are tried; what the outermost body computes is known from the iteration that was
interpreted last.  An inner loop is tried for one iteration, so that trying always ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.ir import Body, Node
from mdf_loop.options import Run
from mdf_loop.registry import bind, operator


class NoSample(Exception):
    """The values at hand cannot be run through a body."""


def sample_body(body: Body, values: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Every value of a body, given those of its inputs and captures.

    Raises
    ------
    NoSample
        A node failed on them.
    """
    found = {**body.constants, **{name: values[name] for name in (*body.inputs, *body.captures)}}
    for node in body.nodes:
        try:
            results = sample_node(node, found, run)
        except (NoSample, KeyboardInterrupt):
            raise
        except Exception as error:
            raise NoSample from error
        found.update((name, value) for name, value in zip(node.outputs, results, strict=False) if name)
    return found


def sample_node(node: Node, values: Mapping[str, Any], run: Run) -> Sequence[Any]:
    """The outputs of one node."""
    given = [values[name] if name else None for name in node.inputs]
    if operator(node) == "Loop":
        return _one_iteration(node, given, values, run)
    if operator(node) == "If":
        body = node.attrs["then_branch" if bool(np.asarray(given[0]).item()) else "else_branch"]
        inner = sample_body(body, values, run)
        return [inner[name] for name in body.outputs]
    try:
        bound = bind(node)
    except LoopError as error:
        raise NoSample from error
    captured = [values[name] for name in node.captures]
    result = bound.call(run, *given, *captured) if bound.needs_run else bound.call(*given, *captured)
    return result if type(result) is tuple else (result,)


def loop_inputs(node: Node, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the body of a Loop node is given in its first iteration."""
    body: Body = node.attrs["body"]
    carried = [values[name] if name else None for name in node.inputs[2:]]
    return {
        **{name: values[name] for name in body.captures},
        **dict(zip(body.inputs, [np.int64(0), np.True_, *carried], strict=True)),
    }


def _one_iteration(node: Node, given: Sequence[Any], values: Mapping[str, Any], run: Run) -> Sequence[Any]:
    body: Body = node.attrs["body"]
    inner = sample_body(body, loop_inputs(node, values), run)
    results = [inner[name] for name in body.outputs[1:]]
    n_carried = len(given) - 2
    return [*results[:n_carried], *(np.asarray(value)[None] for value in results[n_carried:])]
