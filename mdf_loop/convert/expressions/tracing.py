"""ONNX nodes under construction, each value with a sample that says its element type and its rank.

MDF's expressions have no declared types: numpy and Python decide by the values.  So a model is followed once with the
values it starts from, and what is written gives the types that came out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Body, Node, ValueType
from mdf_loop.types.elements import CODES, DTYPES

FLOAT, DOUBLE, INT64, BOOL = DTYPES[1], DTYPES[11], DTYPES[7], DTYPES[9]

_FLOAT_ALONE = (
    "Erf Softplus Softsign Elu Celu Selu Gelu Mish HardSigmoid HardSwish Swish LeakyRelu ThresholdedRelu Shrink PRelu Asin Acos",
    "Atan Sinh Cosh Asinh Acosh Atanh Tan Conv ConvTranspose InstanceNormalization LRN LpNormalization GlobalAveragePool",
    "AveragePool GlobalMaxPool GridSample Resize Hardmax MeanVarianceNormalization GroupNormalization",
)

WITHOUT_DOUBLE = frozenset(name for names in _FLOAT_ALONE for name in names.split())
"""Operators that onnxruntime does not run in float64 on the CPU: they run in float32, as they do in MDF's own engine."""


@dataclass(frozen=True)
class Traced:
    """A value: what it is called, and a sample of it.

    Attributes
    ----------
    name : str
        Its name; "" for a Python number or constant that has none yet.
    value : object
        An array, a numpy scalar, a Python number, or a list for a sequence.
    is_known : bool
        The sample is the value itself, always.
    """

    name: str
    value: Any
    is_known: bool = False

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return np.asarray(self.value).dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return np.ndim(self.value)

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, rather than a sequence or nothing."""
        return isinstance(self.value, np.ndarray | np.generic | bool | int | float | complex)


class Emitter:
    """The nodes of one graph.

    Parameters
    ----------
    opset : int
    outer : Emitter, optional
        The graph around it.
    path : tuple of str
        For messages.
    """

    def __init__(self, opset: int, outer: Emitter | None = None, path: tuple[str, ...] = ()) -> None:
        self.opset, self.outer, self.path = opset, outer, path
        self.nodes: list[Node] = []
        self.constants: dict[str, Any] = {}
        self.values: dict[str, Traced] = {}
        self.types: dict[str, ValueType] = {}
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._known: dict[Any, str] = {}
        self._bound: set[str] = set()
        self.where, self.where_op = "", ""

    def fresh(self, base: str) -> str:
        """A name that nothing has yet, here or around."""
        name = base
        while not name or any(name in emitter._taken for emitter in self._outwards()):
            self._counts[base] = self._counts.get(base, 1) + 1
            name = f"{base}_{self._counts[base]}"
        self._taken.add(name)
        return name

    def _outwards(self) -> Iterator[Emitter]:
        emitter: Emitter | None = self
        while emitter is not None:
            yield emitter
            emitter = emitter.outer

    def __getitem__(self, name: str) -> Traced:
        """A value of this graph or of one around it."""
        for emitter in self._outwards():
            if name in emitter.values:
                return emitter.values[name]
        raise UnsupportedOp(f"{'/'.join(self.path)}: reads {name!r}, which nothing provides")

    def op(self, op: str, *inputs: str | np.ndarray, **attrs: Any) -> str:
        """Add an operator with one output; arrays become constants."""
        names = tuple(self.constant(value) if isinstance(value, np.ndarray) else value for value in inputs)
        output = self.fresh(f"{self.where or 'value'}/{op}")
        self.nodes.append(Node(op, names, (output,), attrs, "", self.opset))
        return output

    def several(self, op: str, inputs: Sequence[str], count: int, **attrs: Any) -> tuple[str, ...]:
        """Add an operator with several outputs."""
        outputs = tuple(self.fresh(f"{self.where or 'value'}/{op}") for _ in range(count))
        self.nodes.append(Node(op, tuple(inputs), outputs, attrs, "", self.opset))
        return outputs

    def branch(self, condition: str, then: str, otherwise: str) -> str:
        """One of two values, which may differ in shape."""
        bodies = {}
        for key, name in (("then_branch", then), ("else_branch", otherwise)):
            bodies[key] = Emitter(self.opset, self).body(key, (), [name])
        output = self.fresh(f"{self.where or 'value'}/If")
        captures = tuple(dict.fromkeys((then, otherwise)))
        self.nodes.append(Node("If", (condition,), (output,), bodies, "", self.opset, "", captures))
        return output

    def constant(self, value: np.ndarray) -> str:
        """The name of a constant."""
        key = (value.dtype.str, value.shape, value.tobytes()) if value.size < 64 and value.dtype != object else id(value)
        if key not in self._known:
            plain = value.size == 1 and value.dtype != object and not value.ndim
            self._known[key] = self.fresh(f"{value.item()}" if plain else f"{self.where or 'value'}/constant")
            self.constants[self._known[key]] = value
        return self._known[key]

    def typed(self, value: Traced, dtype: np.dtype | None = None) -> str:
        """The name of a tensor, with another element type if one is given."""
        dtype = value.dtype if dtype is None else dtype
        if dtype not in CODES or (dtype.kind == "O" and not isinstance(np.asarray(value.value).reshape(-1)[:1].tolist()[0], str)):
            raise UnsupportedOp(f"{'/'.join(self.path)}: {value.value!r} fits into no element type of ONNX")
        if value.is_known:
            return self.constant(self._constant_of(value.value, dtype))
        return self.cast(value.name, value.dtype, dtype)

    def _constant_of(self, value: Any, dtype: np.dtype) -> np.ndarray:
        """A number or array that is known, with an element type that can hold it."""
        try:
            return np.asarray(value).astype(dtype)
        except OverflowError as error:
            raise UnsupportedOp(
                f"{'/'.join(self.path)}: a whole number is too large for {dtype}, and others ONNX has not"
            ) from error

    def cast(self, name: str, have: np.dtype, want: np.dtype) -> str:
        """A value with another element type."""
        if have == want:
            return name
        if want not in CODES:
            raise UnsupportedOp(f"{'/'.join(self.path)}: ONNX has no element type {want}")
        return self.op("Cast", name, to=CODES[want])

    def where_true(self, condition: str, then: str, otherwise: str, dtype: np.dtype) -> str:
        """One of two values, element by element; onnxruntime has no Where for booleans."""
        if dtype != BOOL:
            return self.op("Where", condition, then, otherwise)
        return self.op("Or", self.op("And", condition, then), self.op("And", self.op("Not", condition), otherwise))

    def shaped(self, name: str, shape: Sequence[int]) -> str:
        """A value with another shape."""
        return self.op("Reshape", name, np.array(shape, np.int64))

    def number(self, value: float, dtype: np.dtype) -> np.ndarray:
        """A number of a type."""
        return np.array(value, dtype)

    def call(self, made: str, wanted: str) -> str:
        """Let the output of the last node have a name, if it is the value ``made``, has none yet, and the name is free."""
        if self.nodes and self.nodes[-1].outputs == (made,) and made not in self._bound and not self._has(wanted):
            last = self.nodes[-1]
            self.nodes[-1] = Node(last.op, last.inputs, (wanted,), last.attrs, wanted, last.opset, last.domain, last.captures)
            self._taken.add(wanted)
            made = wanted
        self._bound.add(made)
        return made

    def _has(self, name: str) -> bool:
        return any(name in emitter._taken for emitter in self._outwards())

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
        opsets = {"": self.opset}
        return Body(name, tuple(inputs), tuple(named), tuple(self.nodes), self.constants, captures, self.types, opsets)
