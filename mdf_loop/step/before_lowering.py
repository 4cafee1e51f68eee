"""What is known of an operator before it is lowered: which element types ONNX allows it, and what it gives for constants."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from mdf_loop.errors import let_through
from mdf_loop.ir import Node
from mdf_loop.ops.registry import Kernel
from mdf_loop.ops.rows import Bound
from mdf_loop.step.build import type_of_value
from mdf_loop.step.records import Type
from mdf_loop.types.elements import CODES
from mdf_loop.types.schemas import LARGEST_VERSION, signature_of


def allows(node: Node, types: Sequence[Type | None]) -> bool:
    """Whether a node of ONNX's newest version may be given values of such types; weak and omitted ones are let pass."""
    if node.domain:
        return True
    return _allows(node.op, tuple([None if t is None or t.weak else t.dtype for t in types]))


@functools.lru_cache(maxsize=4096)
def _allows(op: str, dtypes: tuple[np.dtype | None, ...]) -> bool:
    signature = signature_of(op, LARGEST_VERSION)
    if signature is None or not signature.inputs:
        return True
    formal = [signature.inputs[min(k, len(signature.inputs) - 1)] for k in range(len(dtypes))]
    return all(
        not one or dtype is None or dtype not in CODES or _name(dtype) in signature.allowed.get(one, (one,))
        for dtype, one in zip(dtypes, formal, strict=True)
    )


@functools.lru_cache(maxsize=64)
def _name(dtype: np.dtype) -> str:
    return f"tensor({onnx.TensorProto.DataType.Name(CODES[dtype]).lower()})"


def of_constants(node: Node, bound: Bound, entry: Kernel, given: Sequence[Any], most: int) -> Sequence[Any] | None:
    """The results of an operator whose inputs are known.

    None if it may do more than compute, if it fails - the run will say what is wrong -, or where inputs or results have more than
    so many elements, or are no numbers.
    """
    if bound.needs_run or node.captures or not (entry.pure and entry.built_in) or not _are_small_numbers(given, most):
        return None
    try:
        with np.errstate(all="ignore"):
            found = bound.call(*given)
    except Exception as error:
        let_through(error)
        return None
    results = found if type(found) is tuple else (found,)
    return results if _are_small_numbers(results, most) else None


def _are_small_numbers(values: Sequence[Any], most: int) -> bool:
    known = [x for x in values if x is not None]  # an input that was left out, or an optional without a value
    return all(type_of_value(x).dtype is not None for x in known) and sum(int(np.size(x)) for x in known) <= most
