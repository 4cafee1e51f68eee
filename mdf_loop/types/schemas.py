"""What ONNX says of its operators."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from mdf_loop.ir import record

LARGEST_VERSION = (1 << 31) - 1
"""Versions are int32 for onnx."""


@functools.lru_cache(maxsize=4096)
def schema_of(op: str, opset: int, domain: str = "") -> Any:
    """The schema of an operator in a version of its domain; None for what ONNX does not know."""
    try:
        return onnx.defs.get_schema(op, min(max(opset, 0), LARGEST_VERSION), domain)
    except onnx.defs.SchemaError:
        return None


@record
class AttributeRule:
    """What a schema says of an attribute: its type (``"INTS"``), and whether it must be there; of one that says an element type
    (:data:`SAYING`) its number by default too, which takes as long to ask for as all else.
    """

    kind: str
    is_required: bool
    default: int


@record
class SchemaSignature:
    """What the schema of an operator says, as records of Python: a schema makes new objects whenever it is asked.

    Attributes
    ----------
    inputs, outputs : tuple of str
        The type variable of each, or its type; empty where several values of one have several types.
    allowed : mapping of str to tuple of str
        The types that a type variable takes.
    attributes : mapping of str to AttributeRule
    required, saying : tuple of str
        Attributes that must be there, and those that say the element type of the first output.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    allowed: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, AttributeRule]
    required: tuple[str, ...]
    saying: tuple[str, ...]


SAYING = "to", "dtype", "output_dtype", "output_datatype"
"""Attributes of ONNX operators that say the element type of what they give."""


@functools.lru_cache(maxsize=4096)
def signature_of(op: str, opset: int, domain: str = "") -> SchemaSignature | None:
    """The same as :func:`schema_of`, for what is asked of every node."""
    schema = schema_of(op, opset, domain)
    if schema is None:
        return None
    inputs, outputs = (
        tuple(formal.type_str if formal.is_homogeneous else "" for formal in formals)
        for formals in (schema.inputs, schema.outputs)
    )
    allowed = {c.type_param_str: tuple(c.allowed_type_strs) for c in schema.type_constraints}
    rules = {
        name: AttributeRule(x.type.name, x.required, x.default_value.i if name in SAYING else 0)
        for name, x in schema.attributes.items()
    }
    required = tuple(name for name, rule in rules.items() if rule.is_required)
    return SchemaSignature(inputs, outputs, allowed, rules, required, tuple(name for name in SAYING if name in rules))


def version_in(said: Any) -> int | None:
    """The version that a model says: a whole number, of Python or numpy; None for anything else."""
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    is_whole = isinstance(said, int | np.integer) and not isinstance(said, bool)
    return int(said) if is_whole and 0 < said <= LARGEST_VERSION else None
