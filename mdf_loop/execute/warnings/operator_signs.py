"""A run says where operators compute something else than most people mean by them.

``^`` is no power, ``+`` of truth values no count, and ``<`` or ``max`` of complex numbers compare their real parts first.
"""

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
from mdf_loop.ops.registry import facts

_POWER_SIGN = re.compile(r"(?!.*(<<|>>|&|\|)).*\^(?!=)", re.DOTALL)
"""Code that may mean a power by ``^``: no ``x ^= 2``, and no code that computes with bits."""

ADDED = "adds truth values, which gives true or false; write 1 * (a > 1) + (b > 1)"

ORDERED = "compares complex numbers, which have no order: as in numpy, real parts count first; write abs(...) for their size"

_nodes = weakref.WeakKeyDictionary[InterpretedLoop, list[Node]]()
"""Of what ran a loop, the nodes of its body that are looked at: none for nearly all."""

_found = weakref.WeakKeyDictionary[InterpretedLoop, dict[tuple[str, ...], dict[str, str]]]()
"""What to say, by the kinds of values that the loop was given."""


def warn_of_signs(ended: EndedLoop) -> None:
    """Say that ``^`` joined numbers, truth values were added up or multiplied as matrices, or complex numbers were ordered."""
    if (nodes := _nodes.get(ended.executor)) is None:
        nodes = _nodes[ended.executor] = [*_odd_signs(ended.loop.body)]
    if not nodes:
        return
    given, known = ended.given, _found.setdefault(ended.executor, {})
    kinds = tuple(map(value_kind, (*given.carried, *given.captured, *given.scanned)))
    if kinds not in known:
        is_complex = "c" in (*kinds, *map(value_kind, ended.loop.body.constants.values()))
        looked_at = [node for node in nodes if is_complex or not facts(node).orders]
        known[kinds] = _what_is_odd(ended, looked_at) if looked_at else {}
    for key, said in known[kinds].items():
        ended.run.warn_once((id(ended.loop.body), key), said)


def _odd_signs(body: Body) -> Iterator[Node]:
    """Nodes written as ``^``, nodes that order numbers, and sums of truth values alone; numpy says which functions give some."""
    truths = set[str]()
    for node in body.nodes:
        function = getattr(np, node.op.removeprefix("numpy."), None)
        asks = node.op == "not" or (isinstance(function, np.ufunc) and {types[-1] for types in function.types} <= {"?", "O"})
        is_power = node.op == "bitwise_xor" and _POWER_SIGN.match(body.places.get(node.outputs[0], ""))
        if is_power or facts(node).orders or (node.op in ("add", "matmul") and truths.issuperset(node.reads)):
            yield node
        if asks or (node.reads and truths.issuperset(node.reads)):
            truths.update(node.outputs)


def _what_is_odd(ended: EndedLoop, nodes: list[Node]) -> dict[str, str]:
    """The exclusive or of anything but truth values is meant for a power, and their sum for a count."""
    found = dict[str, str]()
    for session, program in ended.first_iterations(1):
        for node in nodes:
            kind, *given = [value_kind(session.env[program.slot(name)]) for name in (node.outputs[0], *node.reads)]
            if facts(node).orders:
                key, said, is_odd = "order", ORDERED, "c" in given
            elif node.op == "bitwise_xor":
                key, said, is_odd = "power", NO_POWER.format("np."), kind != "b"
            else:
                key, said, is_odd = "truths", ADDED, kind == "b"
            if is_odd:
                found.setdefault(key, f"{ended.loop.body.at(node.outputs[0])}{said}")
    return found
