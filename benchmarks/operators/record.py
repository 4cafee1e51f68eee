"""One measured operator: what it is given, and how fast it has to be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

LIMIT = 5.0


@dataclass(frozen=True)
class Case:
    """One node with its inputs.

    Attributes
    ----------
    name : str
        What the row is called.
    op : str
        ONNX's name of the operator.
    inputs : sequence of (numpy.ndarray or None)
        In ONNX's order; None for one that is left out.
    attrs : mapping
    opset, domain, outputs
        Version of the domain, the domain, and how many outputs the node names.
    constants : collection of int
        Places of the inputs that are initializers of the model (weights, axes); the others are fed.
    rtol, atol : float
        How far results may lie from onnxruntime's.
    off_by : int
        How far whole numbers may: onnxruntime scales sums in float32, so that halves may be rounded the other way.
    limit : float
        The ratio to onnxruntime that the row must not exceed.
    """

    name: str
    op: str
    inputs: Sequence[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 21
    domain: str = ""
    outputs: int = 1
    constants: Collection[int] = ()
    rtol: float = 1e-4
    atol: float = 1e-5
    off_by: int = 0
    limit: float = LIMIT

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """What the model is fed."""
        return {f"x{k}": x for k, x in enumerate(self.inputs) if x is not None and k not in self.constants}

    def model(self) -> onnx.ModelProto:
        """A model of this one node."""
        names = ["" if x is None else f"x{k}" for k, x in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, [f"y{k}" for k in range(self.outputs)], domain=self.domain, **self.attrs)
        graph = helper.make_graph(
            [node],
            self.name,
            [helper.make_value_info(name, _type_of(x)) for name, x in self.feeds.items()],
            [helper.make_value_info(name, onnx.TypeProto()) for name in node.output],
            [numpy_helper.from_array(self.inputs[k], f"x{k}") for k in self.constants],
        )
        versions = {"": 21, self.domain: self.opset}
        return helper.make_model(graph, opset_imports=[helper.make_opsetid(*item) for item in versions.items()], ir_version=10)


def _type_of(x: np.ndarray) -> onnx.TypeProto:
    code = onnx.TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)
    return helper.make_tensor_type_proto(code, [None] * x.ndim)


def differences(case: Case, actual: Sequence[Any], expected: Sequence[Any]) -> str:
    """What differs between two lists of results, in a few words; empty if nothing does."""
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        a, e = np.asarray(a), np.asarray(e)
        if a.shape != e.shape or a.dtype != e.dtype:
            return f"output {k} is {a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}"
        if e.dtype.kind in "iu" and case.off_by:
            a, e = (x.astype(np.int64) for x in (a, e))
            e = np.where(np.abs(a - e) <= case.off_by, a, e)
        if e.dtype.kind in "biuO" and not np.array_equal(a, e):
            return f"output {k} has {np.mean(a != e):.2%} other values"
        if e.dtype.kind not in "biuO":
            wide_a, wide_e = a.astype(np.float64), e.astype(np.float64)
            if not np.allclose(wide_a, wide_e, case.rtol, case.atol, equal_nan=True):
                return f"output {k} differs by up to {np.nanmax(np.abs(wide_a - wide_e)):.2g}"
    return ""
