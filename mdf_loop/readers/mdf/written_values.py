"""What files say of types and values, made into those of a graph that says types.

The metadata of an MDF graph say types as texts: ``float[2,n]``, ``int64``, ``seq(float)``, ``map(int64,float)``.  Element types
are called as in ONNX or numpy.  A dimension is a number, a name, or ``?``; a name that is no word is in quotes, as in JSON.
Without brackets nothing is said of the shape, and ``?`` says nothing of the element type.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from mdf_loop.errors import LONGEST, MalformedBody
from mdf_loop.ir import Body, Dim, ValueType
from mdf_loop.types.elements import CODES, DTYPES, NAMES, kind_of
from mdf_loop.types.fitting import shown
from mdf_loop.types.required import Groups, visit_body

_ONNX_NAMES = {DTYPES[1]: "float", DTYPES[8]: "string", DTYPES[11]: "double"}

_AROUND = {"sequence": "seq", "optional": "optional", "map": "map"}

_DIM = re.compile(r'\s*+("(?:[^"\\]|\\.)*+"|[^",\]]*+)\s*+(,|$)', re.DOTALL)
"""A dimension, and whether another one follows; no place is looked at twice."""

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
    dims, place, comma = list[Dim](), 0, text.strip()
    while comma:
        if (found := _DIM.match(text, place)) is None:
            raise ValueError(f"{text!r} are not dimensions")
        dims.append(_read_dim(found[1].strip()))
        place, comma = found.end(), found[2]
    return tuple(dims)


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


def attribute(key: str, value: Any, kind: Any, declared: ValueType | None, path: tuple[str, ...]) -> Any:
    """An attribute's value in its type."""
    kinds = onnx.defs.OpSchema.AttrType
    elements: dict[Any, Callable[[Any], Any]] = {kinds.INTS: int, kinds.FLOATS: float, kinds.STRINGS: _text}
    try:
        if kind in elements:
            items = [value] if isinstance(value, str | bytes) else value if kind == kinds.STRINGS else np.ravel(value).tolist()
            return tuple(elements[kind](item) for item in items)
        if kind == kinds.TENSOR:
            return np.atleast_1d(written_array(value, None)) if declared is None else declared_array(value, declared)
        if kind == kinds.STRING:
            return _text(value)
        if kind == kinds.TYPE_PROTO:
            return read_type_text(str(_text(value)))
        if kind not in (kinds.INT, kinds.FLOAT):
            raise TypeError("cannot be written in an MDF graph")
        number = np.asarray(value).item()
        if kind == kinds.INT and int(number) != number:
            raise ValueError("no whole number")
        return int(number) if kind == kinds.INT else float(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedBody(f"attribute {key} cannot be {value!r}", path) from error


def written_attribute(value: Any) -> Any:
    """An attribute of an operator that ONNX does not know: a number, or several; a text stands in a list, ``[text]``."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    return tuple(value) if isinstance(value, list) else value


def _text(value: Any) -> str | bytes:
    """A text: itself, or alone in a list, where MDF does not take it for an expression; bytes are ``{hex: ...}``."""
    if isinstance(value, list | tuple) and len(value) == 1:
        (value,) = value
    if isinstance(value, Mapping) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def settled(body: Body, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Constants and defaults of a body as arrays: of the type that their readers ask for, or ONNX's usual one.

    A float is float32 where nothing says more, an integer int64.
    """
    groups = Groups()
    scope = visit_body(groups, body, {})
    name = ""
    try:
        for kind in ("float", "integer"):  # where both kinds meet, the integers are floats
            for name, value in body.values.items():
                if not isinstance(value, np.ndarray) and name not in body.types and written_kind(value) == kind:
                    groups.know(scope[name], _usual(kind, groups.allowed.get(groups.find(scope[name]))))
        arrays = {}
        for name, value in body.values.items():
            declared = body.types.get(name)
            dtype = groups.dtype.get(groups.find(scope[name]))
            arrays[name] = written_array(value, dtype) if declared is None else declared_array(value, declared)
    except (TypeError, ValueError, OverflowError) as error:
        node, dot, id = name.partition(".")
        place = (*path, node, id) if path and dot else path
        raise MalformedBody(f"{name!r} cannot be read: {error!s:.{LONGEST}}", place) from error
    return arrays


def _usual(kind: str, allowed: frozenset[np.dtype] | None) -> np.dtype:
    usual = DTYPES[1] if kind == "float" else DTYPES[7]
    if not allowed or usual in allowed:
        return usual
    return next((dtype for dtype in sorted(allowed, key=str) if kind_of(dtype) == kind), DTYPES[1])


def written_kind(value: Any) -> str:
    """Whether a number or list was written with floats, integers, booleans or texts."""
    return kind_of(_exactly(value).dtype) if np.size(value) else "empty"


def declared_array(value: Any, kind: ValueType) -> np.ndarray:
    """What a file says of a tensor whose type is declared.

    The shape tells apart what lists cannot, such as (0, 3) and (0, 2).  A complex number is a pair, ``[real, imaginary]``.

    Raises
    ------
    TypeError, ValueError
        It is no tensor of that type.
    """
    dtype = kind.dtype
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        return value.reshape(_lengths(kind, value.shape))
    if dtype is not None and not np.size(np.array(value, object)):
        return np.empty(_lengths(kind, (0,)), dtype)
    if dtype is not None and dtype.kind == "c" and np.asarray(value).dtype.kind != "c":
        parts = np.asarray(value, dtype.type(0).real.dtype).reshape(*_lengths(kind, np.shape(value)[:-1]), 2)
        return np.ascontiguousarray(parts).view(dtype)[..., 0]  # a sum would lose signs of zero, and make nan of infinities
    if dtype is not None and dtype.kind == "O" and not isinstance(value, np.ndarray):
        texts = np.empty(len(value) if isinstance(value, list) else 1, object)
        texts[:] = [_text(item) for item in (value if isinstance(value, list) else [value])]
        return texts.reshape(_lengths(kind, texts.shape))
    if isinstance(value, np.ndarray) and value.dtype not in CODES and dtype is not None and value.dtype.kind == "V":
        return value.view(dtype)  # numpy's files do not know the types of ml_dtypes
    array = written_array(value, dtype)
    if dtype is not None and array.dtype != dtype:
        array = written_array(array.tolist(), dtype)
    lengths = _lengths(kind, array.shape)
    if math.prod(lengths) != array.size:
        raise ValueError(f"its shape is {[*array.shape]}, and the metadata types declare {kind}")
    return array.reshape(lengths)


def _lengths(kind: ValueType, found: tuple[int, ...]) -> tuple[int, ...]:
    """The declared shape, if all of it is known."""
    if kind.shape is None or any(not isinstance(dim, int) for dim in kind.shape):
        return found
    return tuple(dim for dim in kind.shape if isinstance(dim, int))


def written_array(value: Any, dtype: np.dtype | None) -> np.ndarray:
    """What a file says of a tensor as an array; ``dtype`` where it is known.

    Raises
    ------
    TypeError, ValueError
        It is no tensor, or has another type.
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    array = _exactly(value)
    kind = kind_of(array.dtype)
    if array.size and dtype is not None and (kind, kind_of(dtype)) not in _FIT:
        raise TypeError(f"{value!r} must be {shown(dtype)}")
    if kind == "string" and all(isinstance(item, str | bytes) for item in array.flat):
        texts = np.empty(array.shape, object)
        texts.reshape(-1)[:] = [_text(item) for item in array.flat]
        return texts
    if kind not in _USUAL:
        raise TypeError(f"{value!r} is not a number, a boolean or a text")
    dtype = _USUAL[kind] if dtype is None else dtype
    if array.size and kind == kind_of(dtype) == "integer":
        limits = ml_dtypes.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise ValueError(f"{value!r} does not fit into {dtype}")
    return array.astype(dtype)


_USUAL = {"float": DTYPES[1], "integer": DTYPES[7], "bool": DTYPES[9]}
"""The type of a number of a kind, where nothing says more."""

_FIT = {(kind, kind) for kind in ("float", "integer", "bool", "string")} | {
    *(("integer", "float"), ("bool", "float")),
    *((kind, "complex") for kind in ("float", "integer", "bool")),
}
"""Which kinds, as they are written, may be read as which others."""


def _exactly(value: Any) -> np.ndarray:
    """A number or a list as an array; numpy makes floats of whole numbers some of which are larger than int64."""
    array = np.asarray(value)
    if array.size and array.dtype in (np.dtype(float), np.dtype(object)):
        exact = np.array(value, object)
        if all(type(item) is int for item in exact.flat):
            try:
                return exact.astype(np.uint64)
            except OverflowError as error:
                raise ValueError(f"{value!r:.60} does not fit into a type of ONNX") from error
    return array
