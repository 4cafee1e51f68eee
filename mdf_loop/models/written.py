"""Values as arrays that any file can hold, and back: what kind of value each was is written beside it as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.types.elements import CODES, NAMES, kind_of

PYTHON = {"bool": bool, "int": int, "float": float, "complex": complex}
"""Python's own numbers, by name."""

Said = dict[str, Any]
"""What kind of value something is, in JSON."""


class NotWritable(LoopError, TypeError):
    """A value that a file of results cannot hold."""


def written(value: Any, arrays: list[np.ndarray], name: str) -> Said:
    """What kind a value is; its arrays are put behind those there are.

    Raises
    ------
    NotWritable
        It is no number, text, array, list or mapping of these.
    """
    if value is None:
        return {"kind": "none"}
    if type(value) is str:
        return {"kind": "str", "text": value}
    if isinstance(value, list | tuple):
        return {"kind": type(value).__name__, "items": [written(item, arrays, name) for item in value]}
    if isinstance(value, Mapping):
        keys = [key if isinstance(key, str | int) else int(key) for key in value]
        return {"kind": "dict", "keys": keys, "items": [written(item, arrays, name) for item in value.values()]}
    if isinstance(value, int) and not isinstance(value, bool | np.generic) and abs(value) >= 1 << 63:
        return {"kind": "int", "digits": hex(value)}
    array = np.asarray(value)
    if array.dtype == object and array.ndim and not all(isinstance(row, str) for row in array.flat):
        return {"kind": "rows", "items": [written(row, arrays, name) for row in array]}
    kind = type(value).__name__ if type(value) in PYTHON.values() else "array"
    kind = "scalar" if isinstance(value, np.generic) and type(value) not in PYTHON.values() else kind
    said = {"kind": kind, "dtype": "string" if array.dtype.kind in "OU" else array.dtype.name, "place": len(arrays)}
    arrays.append(_held(array, name))
    return said


def read_again(said: Said, arrays: Mapping[int, np.ndarray]) -> Any:
    """The value that was written.

    Raises
    ------
    MalformedBody
        The file does not hold what it says.
    """
    kind = said.get("kind")
    if kind == "none":
        return None
    if "items" in said:
        items = [read_again(item, arrays) for item in said["items"]]
        return _put_together(str(kind), items, said)
    if "text" in said:
        return str(said["text"])
    if "digits" in said:
        return int(said["digits"], 16)
    try:
        array, dtype = arrays[said["place"]], NAMES.get(said["dtype"], None)
        array = array.astype(object) if said["dtype"] == "string" else _as(array, dtype or _numeric(said["dtype"]))
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedBody(f"the file of results is damaged: {error}") from error
    if kind == "array":
        return array
    return array[()] if kind == "scalar" else PYTHON[str(kind)](array.item())


def _numeric(name: str) -> np.dtype:
    """One of numpy's types of numbers and times; others may have elements of any size."""
    dtype = np.dtype(name)
    if dtype.kind not in "biufcmM":
        raise ValueError(f"there are no values of type {name!r:.50}")
    return dtype


def _put_together(kind: str, items: list[Any], said: Said) -> Any:
    if kind == "dict":
        return dict(zip(said["keys"], items, strict=True))
    if kind == "rows":
        rows = np.empty(len(items), object)
        for k, item in enumerate(items):
            rows[k] = item
        return rows
    return tuple(items) if kind == "tuple" else items


def _held(array: np.ndarray, name: str) -> np.ndarray:
    """An array of a type that numpy has: texts as such, types of ml_dtypes by their bits."""
    if array.dtype == object:
        if not all(isinstance(item, str) for item in array.flat):
            raise NotWritable(f"{name!r} holds {type(array.flat[0]).__name__}, which a file of results cannot hold")
        return array.astype(str)
    if CODES.get(array.dtype, 0) >= FIRST_FOREIGN:
        return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return array


def _as(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if array.dtype == dtype:
        return array
    is_bits = CODES.get(dtype, 0) >= FIRST_FOREIGN and array.dtype == np.dtype(f"u{dtype.itemsize}")
    return array.view(dtype) if is_bits else array.astype(dtype)


FIRST_FOREIGN = 16
"""From this code on element types are not numpy's own."""


def holding(dtype: np.dtype, fill: Any) -> np.dtype:
    """A type that holds the filling as well."""
    if dtype.kind in "biu" and not (np.isfinite(fill) and np.array(fill).astype(dtype) == fill):
        return np.result_type(dtype, np.float64)
    return dtype


def widened(array: np.ndarray) -> np.ndarray:
    """An array of a type that other programs have: bfloat16 and float8 as float32, small integers as int8."""
    if array.dtype == object:
        return array.astype(str) if all(isinstance(item, str) for item in array.flat) else array
    if CODES.get(array.dtype, 0) >= FIRST_FOREIGN:
        return array.astype({"float": "float32", "integer": "int8"}[kind_of(array.dtype)])
    return array
