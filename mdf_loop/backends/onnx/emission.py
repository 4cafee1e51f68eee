"""The nodes of one ONNX graph while it is written, and the names of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Node, ValueType
from mdf_loop.ir.fresh_names import FreshNames

MOST_SHARED = 64
"""Elements of a constant up to which equal ones are one."""


class Emission(FreshNames):
    """The nodes of one graph.

    Parameters
    ----------
    opset : int
        The version of ONNX that its operators are of.
    outer : Emission, optional
        The graph around it.
    path : tuple of str
        For messages.

    Attributes
    ----------
    where : str
        What the value that is being written is called: names of what it is made of begin with it.
    """

    def __init__(self, opset: int, outer: Emission | None = None, path: tuple[str, ...] = ()) -> None:
        super().__init__(outer=outer)
        self.opset, self.path, self.where = opset, path, ""
        self.nodes: list[Node] = []
        self.constants: dict[str, Any] = {}
        self.types: dict[str, ValueType] = {}
        self._known: dict[Any, str] = {}
        self._bound: set[str] = set()

    def op(self, op: str, *inputs: str | np.ndarray, **attrs: Any) -> str:
        """Add an operator with one output; arrays become constants."""
        names = tuple(self.constant(x) if isinstance(x, np.ndarray) else x for x in inputs)
        output = self.fresh(f"{self.where or 'value'}/{op}")
        self.nodes.append(Node(op, names, (output,), attrs, "", self.opset))
        return output

    def constant(self, value: np.ndarray, name: str = "") -> str:
        """The name of a constant."""
        is_small = value.size < MOST_SHARED and value.dtype != object
        key = (value.dtype.str, value.shape, value.tobytes()) if is_small else id(value)
        if key not in self._known:
            is_number = value.size == 1 and value.dtype != object and not value.ndim
            self._known[key] = self.fresh(name or (f"{value.item()}" if is_number else f"{self.where or 'value'}/constant"))
            self.constants[self._known[key]] = value
        return self._known[key]

    def call(self, made: str, wanted: str) -> str:
        """Let the output of the last node have a name, if it is the value ``made``, has none yet, and the name is free."""
        if self.nodes and self.nodes[-1].outputs == (made,) and made not in self._bound and not self.is_taken(wanted):
            last = self.nodes[-1]
            self.nodes[-1] = Node(
                last.op, last.inputs, (wanted,), last.attrs, last.name or wanted, last.opset, last.domain, last.captures
            )
            self.taken.add(wanted)
            made = wanted
        self._bound.add(made)
        return made

    def body(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Body:
        """The graph; an output that no node of it writes, or that stands twice, is passed through one."""
        written = {output for node in self.nodes for output in node.outputs}
        named: list[str] = []
        for output in outputs:
            if output not in written or output in named:
                output = self.op("Identity", output)
            named.append(output)
        local = {*inputs, *self.constants, *(output for node in self.nodes for output in node.outputs)}
        reads = [read for node in self.nodes for read in node.reads]
        captures = tuple(dict.fromkeys(read for read in reads if read not in local))
        return Body(name, tuple(inputs), tuple(named), tuple(self.nodes), self.constants, captures, self.types, {"": self.opset})
