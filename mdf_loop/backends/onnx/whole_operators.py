"""A builder of Steps whose operators as a whole are ONNX's, and nodes that are ONNX's already."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.backends.static_lowering import PYTHONS, StaticBuilder, sample
from mdf_loop.ir import Node, entity
from mdf_loop.ops.registry import lookup
from mdf_loop.plan.result_types import result_types
from mdf_loop.step.build import CannotLower
from mdf_loop.step.primitives import BOOL, FLOAT64, INT64, PRIMITIVES
from mdf_loop.step.records import UNKNOWN, Apply, Length, Size, Type, Value
from mdf_loop.types.schemas import schema_of

FLOAT = np.dtype(np.float32)

_FLOAT_ALONE = (
    "Erf Softplus Softsign Elu Celu Selu Gelu Mish HardSigmoid HardSwish Swish LeakyRelu ThresholdedRelu Shrink PRelu Asin Acos",
    "Atan Sinh Cosh Asinh Acosh Atanh Tan Conv ConvTranspose InstanceNormalization LRN LpNormalization GlobalAveragePool",
    "AveragePool GlobalMaxPool GridSample Resize Hardmax MeanVarianceNormalization GroupNormalization",
)
WITHOUT_DOUBLE = frozenset(name for names in _FLOAT_ALONE for name in names.split())
"""Operators that onnxruntime does not run in float64 on the CPU: they run in float32, as they do in MDF's own engine."""


@entity
class Unwritten(Apply):
    """An operator that ONNX cannot say, or of which it is not known yet what it is given; ``why`` is for the error."""


class OnnxBuilder(StaticBuilder):
    """A builder whose operators as a whole are ONNX's, of one version.

    Attributes
    ----------
    numbers : dict of Value to bool, int or float
        What Python's numbers are with the inputs of the model, where that is known.
    """

    def __init__(self, opset: int) -> None:
        super().__init__()
        self.opset, self.takes_open = opset, True
        self.numbers: dict[Value, Any] = {}

    def put_in(self, op: str, args: Sequence[Value], type: Type, attr: Any = None) -> Value:
        """A value; whole numbers of Python's are refused where those of ONNX differ from them.

        Raises
        ------
        CannotLower
            It has more than 64 bits, or an input says whether it is a fraction.
        """
        found, given = super().put_in(op, args, type, attr), [x.attr if x.op == "const" else self.numbers.get(x) for x in args]
        is_whole = op == "pow" and type.kind == args[1].type.kind == "i" and args[1] in self.numbers
        if is_whole and (type.weak or self.numbers[args[1]] < 0):
            raise CannotLower("a whole number to a negative power is a fraction, of another type in ONNX; write 10.0 ** p")
        if (type.weak or op == "cast") and None not in given:
            with contextlib.suppress(KeyError, ZeroDivisionError, ValueError):
                self.numbers[found] = _number_of(op, given, type)
            if type.weak and type.kind == "i" and not -END <= self.numbers.get(found, 0) < END:
                raise CannotLower("a whole number of more than 64 bits, which ONNX has not")
        return found

    def number_for_now(self, x: Value, rank: int) -> Value:
        """A number that later iterations make an array of, with the type of that array.

        What is written for arrays of its rank works for the number as well, or is an error when it runs, as in Python.
        """
        node = Node("Identity", ("x",), ("y",), opset=self.opset)
        return self.apply(Apply(node, _never), [x], [Type(x.type.dtype, tuple(Size() for _ in range(rank)))])[0]

    def reshape(self, x: Value, shape: Sequence[Length], lengths: Sequence[Value] = ()) -> Value:
        """A value in another shape; -1, and an open length where there is but one, is what is left."""
        if x.type.shape == (shape := tuple(shape)):
            return x
        if x.type.rank and not x.type.is_static and [n for n in shape if n != 1] == list(x.type.shape or ()):
            return self.onnx("Unsqueeze", x, np.array([k for k, n in enumerate(shape) if n == 1]))
        if sum(not isinstance(n, int) or n < 0 for n in shape) == 1 and 0 not in shape:
            wanted = np.array([n if isinstance(n, int) else -1 for n in shape], np.int64)
            return self.onnx("Reshape", self.strong(x), wanted)  # type: ignore[no-any-return]
        return super().reshape(x, shape, lengths)

    def onnx(self, op: str, *inputs: Any, results: int = 1, **attrs: Any) -> Any:
        """The result of an operator, or several; its types are those that ONNX infers."""
        names = tuple("" if x is None else f"x{k}" for k, x in enumerate(inputs))
        node = Node(op, names, tuple(f"y{k}" for k in range(results)), attrs, "", self.opset)
        found = self.operator(node, [self.const(x) if isinstance(x, np.ndarray | np.generic) else x for x in inputs])
        return found[0] if results == 1 else found

    def unwritten(self, node: Node, why: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """The results of an operator that is no use: an error where it is written after all."""
        apply = Unwritten(node, _never, results=len(node.outputs), why=why)
        return self.apply(apply, inputs, [UNKNOWN] * len(node.outputs))

    def operator(self, node: Node, inputs: Sequence[Value | None], captured: Sequence[Value] = ()) -> tuple[Value, ...]:
        """The results of a node of ONNX's whose inputs have the types that it asks for."""
        inputs = [x if x is None or x.type.dtype is None else self.strong(x) for x in inputs]
        known = [None if x is None else (x.type.dtype, x.type.lengths) for x in inputs]
        values = [x.attr if x is not None and x.op == "const" else None for x in inputs]
        types = [
            UNKNOWN if dtype is None else Type(dtype, None if shape is None else tuple(Size() if n is None else n for n in shape))
            for dtype, shape in result_types(node, known, values)
        ]
        apply = Apply(node, _never, node.op in RANDOM, None, len(node.outputs))
        return self.apply(apply, [*(self.const(None) if x is None else x for x in inputs), *captured], types)


def _number_of(op: str, given: Sequence[Any], type: Type) -> Any:
    """What a value of Python's numbers is; in the place of one that is too long to be computed the first that ONNX has not."""
    if op == "select":
        return given[1] if given[0] else given[2]
    call = PYTHONS.get(type.kind, float) if op == "cast" else PRIMITIVES[op].bounded or PRIMITIVES[op].call
    try:
        return call(*given)
    except OverflowError:
        return END


END = 1 << 63
"""The first whole number that 64 bits do not hold."""

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"}
"""Operators each of which is another one, also where they read the same."""


def _never(*_: Any) -> Any:
    raise NotImplementedError("an operator that is written, not run")


def kept(b: OnnxBuilder, node: Node, inputs: Sequence[Value | None], captured: Sequence[Value]) -> Sequence[Value]:
    """A node that is ONNX's already; inputs that need one element type get it.

    Raises
    ------
    CannotLower
        Its operator means something else in the version of the whole model.
    """
    if not node.domain and lookup(node.op, node.opset) is not lookup(node.op, b.opset):
        raise CannotLower(
            f"{node.op} of opset {node.opset} is not that of opset {b.opset}, which the model has; say opset: {b.opset} in the "
            "metadata of its graph"
        )
    node = replace(node, opset=node.opset if node.domain else b.opset)
    wanted = _common_types(node, inputs)
    is_narrow = node.op in WITHOUT_DOUBLE and any(x is not None and x.type.dtype == FLOAT64 for x in inputs)
    if is_narrow:
        wanted = [FLOAT if dtype == FLOAT64 else dtype for dtype in wanted]
    given = [x if x is None or dtype is None else b.cast(x, dtype) for x, dtype in zip(inputs, wanted, strict=True)]
    found = b.operator(node, given, captured)
    return [b.cast(x, FLOAT64) if is_narrow and x.type.dtype == FLOAT else x for x in found]


def _common_types(node: Node, inputs: Sequence[Value | None]) -> list[np.dtype | None]:
    """The element type of each input: one for all that share a type variable of the operator."""
    schema = schema_of(node.op, node.opset, node.domain)
    if schema is None:
        return [None] * len(inputs)
    groups: dict[str, list[Any]] = {}
    texts = []
    for k, x in enumerate(inputs):
        formal = schema.inputs[min(k, len(schema.inputs) - 1)]
        texts.append(formal.type_str if formal.is_homogeneous else f"{formal.type_str} {k}")
        if x is not None and x.type.dtype is not None:
            groups.setdefault(texts[-1], []).append(sample(x.type))
    common: dict[str, np.dtype] = {text: np.result_type(*samples) for text, samples in groups.items()}
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for text, dtype in common.items():
        kinds = allowed.get(text, [text])
        if dtype == FLOAT64 and "tensor(double)" not in kinds and "tensor(float)" in kinds:
            common[text] = FLOAT
        elif kinds == ["tensor(int64)"]:
            common[text] = INT64
        elif kinds == ["tensor(bool)"]:
            common[text] = BOOL
    return [
        common.get(text) if x is not None and x.type.dtype is not None else None for text, x in zip(texts, inputs, strict=True)
    ]
