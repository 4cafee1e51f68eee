"""One measured loop: its body as ONNX text, what it is given, and how fast it has to be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, parser

OPSET = 20
LIMIT, LIMIT_OF_SMALL = 1.1, 2.5


@dataclass(frozen=True)
class Workload:
    """One Loop, or one Scan where ``scanned`` is not empty.

    Attributes
    ----------
    target : float or None
        The ratio to onnxruntime it was promised; None for the rows that look for bad cases.
    small : bool
        Many element-wise operators on fewer than 300 elements, or the like: these may take longer.
    rtol, atol : float
        How far results may lie from onnxruntime's.
    """

    name: str
    text: str
    trip_count: int | None = None
    cond: bool | None = True
    carried: tuple[Any, ...] = ()
    scanned: tuple[Any, ...] = ()
    captured: dict[str, Any] = field(default_factory=dict)
    target: float | None = None
    small: bool = False
    rtol: float = 1e-9
    atol: float = 1e-12

    @property
    def limit(self) -> float:
        """The ratio that this row must not exceed."""
        return self.target or (LIMIT_OF_SMALL if self.small else LIMIT)

    @property
    def body(self) -> onnx.GraphProto:
        """The body, parsed."""
        return parser.parse_graph(self.text)

    @property
    def inputs(self) -> dict[str, Any]:
        """What the model is fed."""
        first = {} if self.scanned else {"M": _given(self.trip_count, np.int64), "cond": _given(self.cond, np.bool_)}
        numbered = {f"v_{k}": _array(value) for k, value in enumerate((*self.carried, *self.scanned))}
        captured = {name: _array(value) for name, value in self.captured.items()}
        return {name: value for name, value in {**first, **numbered, **captured}.items() if value is not None}

    @property
    def model(self) -> onnx.ModelProto:
        """A model of this one node; everything it reads is an input of the model."""
        body, inputs = self.body, self.inputs
        values = [f"v_{k}" for k in range(len(self.carried) + len(self.scanned))]
        outputs = [f"out_{k}" for k in range(len(body.output) - (0 if self.scanned else 1))]
        if self.scanned:
            node = helper.make_node("Scan", values, outputs, body=body, num_scan_inputs=len(self.scanned))
        else:
            first = [name if name in inputs else "" for name in ("M", "cond")]
            node = helper.make_node("Loop", [*first, *values], outputs, body=body)
        main = helper.make_graph(
            [node],
            self.name,
            [helper.make_value_info(name, _type_of(value)) for name, value in inputs.items()],
            [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
        )
        return helper.make_model(main, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def _given(value: Any, dtype: type) -> Any:
    return None if value is None else np.array(value, dtype)


def _array(value: Any) -> Any:
    return value if isinstance(value, list) else np.asarray(value)


def _type_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(value[0]))
    if value.dtype == object:
        return helper.make_tensor_type_proto(onnx.TensorProto.STRING, None)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim)


def differences(work: Workload, actual: Any, expected: Any) -> str:
    """What differs between two lists of results, in a few words; empty if nothing does."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs for {len(expected)}"
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if isinstance(e, list):
            if found := differences(work, a, e):
                return f"output {k}: {found}"
            continue
        a, e = np.asarray(a), np.asarray(e)
        if a.shape != e.shape or a.dtype != e.dtype:
            return f"output {k} is {a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}"
        exact = e.dtype.kind not in "fc"
        if not (np.array_equal(a, e) if exact else np.allclose(a, e, work.rtol, work.atol, equal_nan=True)):
            return f"output {k} has other values"
    return ""
