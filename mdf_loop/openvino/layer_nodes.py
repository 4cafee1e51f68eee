"""What the layers of an OpenVINO model become: nodes and constants of a body under the making, each name written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Node, ValueType
from mdf_loop.openvino.weight_file import Weights
from mdf_loop.openvino.xml import Layer

OPSET = 21
"""Version of ONNX's own domain that the nodes are made for."""

DOMAIN = "openvino"
"""Domain of the kernels for what ONNX has no operator for."""

Values = str | tuple[str, ...]
"""What a conversion gives: the names of the layer's outputs in order."""

Conversion = Callable[[Layer, "Nodes", Sequence[str]], Values]
"""``conversion(layer, nodes, inputs)``: adds nodes that compute what the layer computes."""

CONVERSIONS: dict[str, tuple[Conversion, int, int]] = {}
"""How each type of layer is converted, and how few and how many inputs it takes."""

MANY = 1 << 30


def converts(*types: str, takes: int | tuple[int, int] = 1) -> Callable[[Conversion], Conversion]:
    """Register a function as the conversion of layers of these types, which take so many inputs (or from few to many)."""
    least, most = takes if isinstance(takes, tuple) else (takes, takes)

    def decorate(conversion: Conversion) -> Conversion:
        for name in types:
            CONVERSIONS[name] = (conversion, least, most)
        return conversion

    return decorate


class Nodes:
    """A body under the making.

    Attributes
    ----------
    kinds : mapping of str to ValueType
        What the file declares of each value.
    known : mapping of str to array
        Values of names that are constants, in this body or in one around it.
    taken : set of str
        Names of this body, and for a branch those of the bodies around it: it must not shadow what it captures.
    read_net : callable
        Reads an inner graph; set by the reader, which is what knows all conversions.
    """

    def __init__(self, weights: Weights, path: tuple[str, ...], outer: Nodes | None = None) -> None:
        self.weights = weights
        self.path = path
        self.nodes: list[Node] = []
        self.constants: dict[str, Any] = {}
        self.kinds: dict[str, ValueType] = {}
        self.known: dict[str, Any] = dict(outer.known) if outer else {}
        self.outer_kinds: dict[str, ValueType] = {**outer.outer_kinds, **outer.kinds} if outer else {}
        self.taken: set[str] = set(outer.taken) if outer else set()
        self.variables: dict[str, Any] = {}
        self.assigned: dict[str, str] = {}
        self._name = ""

    def begin(self, layer: Layer) -> None:
        """What is added from now on belongs to this layer."""
        self._name = layer.name

    def name(self, hint: str | None = None) -> str:
        """A name that is not taken."""
        hint = hint or self._name or "value"
        chosen, k = hint, 1
        while chosen in self.taken:
            chosen, k = f"{hint}.{k}", k + 1
        self.taken.add(chosen)
        return chosen

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A constant; returns its name."""
        name = self.name(f"{self._name}/constant")
        return self.hold(name, np.asarray(value, dtype))

    def hold(self, name: str, array: np.ndarray) -> str:
        """A constant under a name that was taken for it."""
        self.constants[name] = self.known[name] = array
        self.kinds[name] = ValueType(array.dtype, array.shape)
        return name

    def node(
        self,
        op: str,
        *inputs: str,
        outputs: int | None = None,
        wanted: Callable[[int], bool] = lambda k: True,
        domain: str = "",
        captures: Iterable[str] = (),
        **attrs: Any,
    ) -> Any:
        """Add a node; returns the name of its output, or a tuple of names if it is said how many there are."""
        names = tuple(self.name() if wanted(k) else "" for k in range(1 if outputs is None else outputs))
        version = 1 if domain else OPSET
        self.nodes.append(
            Node(op, tuple(inputs), names, attrs, next(filter(None, names), self.name()), version, domain, tuple(captures))
        )
        return names[0] if outputs is None else names

    def own(self, op: str, *inputs: str, outputs: int | None = None, **attrs: Any) -> Any:
        """Add a node of the domain of our own kernels."""
        return self.node(op, *inputs, outputs=outputs, domain=DOMAIN, **attrs)

    def cast(self, name: str, dtype: np.dtype) -> str:
        """The value with another element type; the value itself where it has that type."""
        from mdf_loop.types.elements import CODES

        return name if self.dtype(name) == dtype else self.typed(self.node("Cast", name, to=CODES[dtype]), dtype)

    def typed(self, name: str, dtype: np.dtype | None, shape: Any = None) -> str:
        """Say what the type of a value is."""
        self.kinds[name] = ValueType(dtype, shape)
        return name

    def kind(self, name: str) -> ValueType:
        """What is declared of a value."""
        return self.kinds.get(name) or self.outer_kinds.get(name) or ValueType()

    def dtype(self, name: str) -> np.dtype | None:
        """The element type of a value, where it is known."""
        return self.kind(name).dtype

    def rank(self, name: str) -> int | None:
        """The rank of a value, where it is known."""
        shape = self.kind(name).shape
        return None if shape is None else len(shape)

    def integers(self, name: str) -> list[int] | None:
        """The whole numbers that a constant holds; None where the value is not a constant."""
        value = self.known.get(name)
        return None if value is None or value.dtype.kind not in "iu" else [int(v) for v in np.ravel(value)]

    def vector(self, name: str, dtype: np.dtype | None = None) -> str:
        """A value of one axis, int64 as ONNX's operators ask for: axes, shapes, counts."""
        wanted = np.dtype(np.int64) if dtype is None else dtype
        value = self.known.get(name)
        if value is not None:
            return name if value.ndim == 1 and value.dtype == wanted else self.constant(value.reshape(-1), wanted)
        made = self.cast(name, wanted)
        if self.rank(name) == 1:
            return made
        return self.typed(self.node("Reshape", made, self.constant([-1], np.int64)), wanted, (None,))

    def body(self, inputs: Sequence[str], outputs: Sequence[str]) -> Body:
        """What was made, as a body."""
        written = {name for node in self.nodes for name in node.outputs if name}
        local = {*inputs, *self.constants, *written}
        reads = [name for node in self.nodes for name in node.reads] + list(outputs)
        used = {*reads}
        captures = tuple(dict.fromkeys(name for name in reads if name and name not in local))
        constants = {name: value for name, value in self.constants.items() if name in used}
        types = {name: kind for name, kind in self.kinds.items() if name in local and kind.dtype is not None}
        opsets = {"": OPSET} | {node.domain: node.opset for node in self.nodes if node.domain}
        return Body(self.path[-1], tuple(inputs), tuple(outputs), tuple(self.nodes), constants, captures, types, opsets)
