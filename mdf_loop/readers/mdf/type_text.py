"""Types of values as texts, as the metadata of an MDF graph says them: ``float[2,n]``, ``int64``, ``seq(float)``,
``map(int64,float)``.

Element types are called as in ONNX or numpy.  A dimension is a number, a name, or ``?``; a name that is no word stands in
quotes, as in JSON.  Without brackets nothing is said of the shape, and ``?`` says nothing of the element type.
"""

from __future__ import annotations

import json
import re

import numpy as np

from mdf_loop.ir import Dim, ValueType
from mdf_loop.types.elements import DTYPES, NAMES

_ONNX_NAMES = {DTYPES[1]: "float", DTYPES[8]: "string", DTYPES[11]: "double"}

_AROUND = {"sequence": "seq", "optional": "optional", "map": "map"}

_DIM = re.compile(r'"(?:[^"\\]|\\.)*+"|[^",\]\s][^",\]]*+', re.DOTALL)
"""A dimension, from its first character on; no place is looked at twice."""

_SPACE = re.compile(r"\s*+")

LARGEST = 1 << 63
"""A dimension is below this: ONNX holds it in 64 bits."""

DEEPEST = 20
"""Sequences and optionals may be nested so deep."""


def write_type_text(kind: ValueType) -> str:
    """A declared type as a text.

    >>> write_type_text(ValueType(np.dtype("float32"), (2, "batch", None)))
    'float[2,batch,?]'
    """
    if kind.kind != "tensor":
        key = "" if kind.key is None else f"{_name(kind.key)},"
        return f"{_AROUND[kind.kind]}({key}{write_type_text(kind.element or ValueType())})"
    name = _name(kind.dtype)
    return name if kind.shape is None else f"{name}[{','.join(map(_write_dim, kind.shape))}]"


def _name(dtype: np.dtype | None) -> str:
    return "?" if dtype is None else _ONNX_NAMES.get(dtype, dtype.name)


def _write_dim(dim: Dim) -> str:
    if dim is None or dim == "":
        return "?"
    text = str(dim)
    is_plain = isinstance(dim, int) or (re.fullmatch(r"\w+", text) and not text.isdigit())
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def read_type_text(text: str, depth: int = 0) -> ValueType:
    """The type that a text says.

    Raises
    ------
    ValueError
        It says none.
    """
    text = text.strip()
    for kind, around in _AROUND.items():
        if text.startswith(f"{around}(") and text.endswith(")") and depth < DEEPEST:
            inner, key = text[len(around) + 1 : -1], None
            if kind == "map" and (said := inner.partition(",")[0].strip()) in NAMES and "," in inner:
                inner, key = inner.partition(",")[2], NAMES[said]
            return ValueType(kind=kind, element=read_type_text(inner, depth + 1), key=key)
    name, bracket, dims = text.partition("[")
    if (name != "?" and name not in NAMES) or (bracket and not dims.endswith("]")):
        raise ValueError(f"{text!r} is not a type")
    dtype: np.dtype | None = None if name == "?" else NAMES[name]
    return ValueType(dtype, _read_dims(dims[:-1]) if bracket else None)


def _read_dims(text: str) -> tuple[Dim, ...]:
    dims: list[Dim] = []
    text, place = text.strip(), 0
    while text:
        found = _DIM.match(text, place)
        dims.append(_read_dim(found[0].strip()) if found else None)
        place = _after_space(text, found.end() if found else place)
        if place == len(text):
            break
        if text[place] != ",":
            raise ValueError(f"{text!r} are not dimensions")
        place = _after_space(text, place + 1)
    return tuple(dims)


def _after_space(text: str, place: int) -> int:
    return _SPACE.match(text, place).end()  # type: ignore[union-attr]  # it matches nothing too


def _read_dim(text: str) -> Dim:
    if text in ("", "?"):
        return None
    if text.startswith('"'):
        return str(json.loads(text))
    if not (text.isdigit() and text.isascii()):
        return text
    if len(text) > 20 or int(text) >= LARGEST:
        raise ValueError("a dimension has at most 63 bits")
    return int(text)
