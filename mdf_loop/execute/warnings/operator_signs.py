"""A run says where ``^`` and ``+`` compute something else than most people mean by them: no power, and no count."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator

import numpy as np

from mdf_loop.execute.interpret import InterpretedLoop
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.execute.warnings.set_elements import value_kind
from mdf_loop.ir import Body, Node
from mdf_loop.kernels.mdf.expression_operators import NO_POWER

_POWER_SIGN = re.compile(r"(?!.*(<<|>>|&|\|)).*\^(?!=)", re.DOTALL)
"""Code that may mean a power by ``^``: no ``x ^= 2``, and no code that computes with bits."""

ADDED = "adds truth values, which gives true or false; write 1 * (a > 1) + (b > 1)"

_nodes = weakref.WeakKeyDictionary[InterpretedLoop, list[Node]]()
"""Of what ran a loop, the nodes of its body that are looked at: none for nearly all."""

_found = weakref.WeakKeyDictionary[InterpretedLoop, dict[tuple[str, ...], dict[str, str]]]()
"""What to say, by the kinds of values that the loop was given."""


def warn_of_signs(ended: EndedLoop) -> None:
    """Say that ``^`` joined numbers, or that truth values were added up or multiplied as matrices."""
    if (nodes := _nodes.get(ended.executor)) is None:
        nodes = _nodes[ended.executor] = [*_odd_signs(ended.loop.body)]
    if not nodes:
        return
    given, known = ended.given, _found.setdefault(ended.executor, {})
    kinds = tuple(map(value_kind, (*given.carried, *given.captured, *given.scanned)))
    if kinds not in known:
        known[kinds] = _what_is_odd(ended, nodes)
    for key, said in known[kinds].items():
        ended.run.warn_once((id(ended.loop.body), key), said)


def _odd_signs(body: Body) -> Iterator[Node]:
    """Nodes written as ``^``, and sums of truth values alone; numpy says of its functions whether they give some."""
    truths = set[str]()
    for node in body.nodes:
        function = getattr(np, node.op.removeprefix("numpy."), None)
        asks = node.op == "not" or (isinstance(function, np.ufunc) and {types[-1] for types in function.types} <= {"?", "O"})
        is_power = node.op == "bitwise_xor" and _POWER_SIGN.match(body.places.get(node.outputs[0], ""))
        if is_power or (node.op in ("add", "matmul") and truths.issuperset(node.reads)):
            yield node
        if asks or (node.reads and truths.issuperset(node.reads)):
            truths.update(node.outputs)


def _what_is_odd(ended: EndedLoop, nodes: list[Node]) -> dict[str, str]:
    """The exclusive or of anything but truth values is meant for a power, and their sum for a count."""
    found = dict[str, str]()
    for session, program in ended.first_iterations(1):
        for node in nodes:
            is_truth = value_kind(session.env[program.slot(node.outputs[0])]) == "b"
            key, said = ("power", NO_POWER.format("np.")) if node.op == "bitwise_xor" else ("truths", ADDED)
            if is_truth == (key == "truths"):
                found.setdefault(key, f"{ended.loop.body.at(node.outputs[0])}{said}")
    return found
