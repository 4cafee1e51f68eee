"""A run says where operators compute something else than most people mean by them.

``^`` is no power, ``+`` of truth values no count, and ``<`` or ``max`` of complex numbers compare their real parts first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from mdf_loop.execute.warnings.ended_loop import EndedLoop, value_kind
from mdf_loop.ir import Body, Node
from mdf_loop.kernels.mdf.expression_operators import NO_POWER
from mdf_loop.ops.registry import facts

_POWER_SIGN = re.compile(r"(?!.*(<<|>>|&|\|)).*\^(?!=)", re.DOTALL)
"""Code that may mean a power by ``^``: no ``x ^= 2``, and no code that computes with bits."""

ADDED = "adds truth values, which gives true or false; write 1 * (a > 1) + (b > 1)"

ORDERED = "compares complex numbers, which have no order: as in numpy, real parts count first; write abs(...) for their size"


def warn_of_signs(ended: EndedLoop) -> None:
    """Say that ``^`` joined numbers, truth values were added up or multiplied as matrices, or complex numbers were ordered."""
    if ended.once(_nodes_of_signs):  # none for nearly all
        for key, said in ended.once(_what_is_odd, ended.kinds).items():
            ended.say(said, key)


def _nodes_of_signs(ended: EndedLoop) -> list[Node]:
    return [*_odd_signs(ended.loop.body)]


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


def _what_is_odd(ended: EndedLoop) -> dict[str, str]:
    """The exclusive or of anything but truth values is meant for a power, and their sum for a count."""
    found = dict[str, str]()
    is_complex = "c" in (*ended.kinds, *map(value_kind, ended.loop.body.constants.values()))
    nodes = [node for node in ended.once(_nodes_of_signs) if is_complex or not facts(node).orders]
    for session, program in ended.first_iterations(1) if nodes else ():
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
