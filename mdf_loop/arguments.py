"""Values from outside, made into what a body asks for.

Numbers in MDF are weak: they take the type the body wants.  What would lose something - a fraction for an
integer, a number for a text - is an error that names the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.analysis.element_types import Asked
from mdf_loop.element_types import CODES, NAMES, kind_of
from mdf_loop.errors import KindError

_WIDENS = {
    "bool": {"bool"},
    "integer": {"integer", "float", "complex"},
    "float": {"float", "complex"},
    "complex": {"complex"},
    "string": {"string"},
}
"""Which kinds a kind of value may become without losing what it is."""


def as_tensor(value: Any, what: str) -> np.ndarray:
    """A value as an array that the executor can take.

    Raises
    ------
    KindError
        It is no tensor: ragged, or an object of some other kind.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise KindError(f"{what} is ragged: its rows do not have the same length") from error
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype == object and not all(isinstance(item, str | bytes) for item in array.flat):
        raise KindError(f"{what} must be numbers, booleans or strings; got {type(value).__name__}")
    return array


def as_untyped(value: Any, what: str) -> Any:
    """A value for a body that asks for no types: tensors as arrays, lists of tensors and None as they are."""
    if value is None or isinstance(value, Mapping):
        return value
    if isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value):
        return [as_tensor(item, what) for item in value]
    return as_tensor(value, what)


def fit_values(asked: Mapping[str, Asked], values: Mapping[str, Any]) -> dict[str, Any]:
    """Each value with the element type that is asked of it.

    Parameters
    ----------
    asked : mapping
        From :func:`~mdf_loop.analysis.element_types.asked_types`.
    values : mapping of name to value
        Names are those of body inputs and captures.

    Returns
    -------
    dict
        The same names.

    Raises
    ------
    KindError
        A value cannot become what is asked; the message names it, and both types.
    """
    common = _common_types(asked, values)
    return {name: _fit(name, value, asked[name], common.get(asked[name].group)) for name, value in values.items()}


def _fit(name: str, value: Any, wanted: Asked, common: np.dtype | None) -> Any:
    what = f"value {name!r}"
    dtype = wanted.dtype if wanted.dtype is not None else common
    if value is None or isinstance(value, Mapping):
        return value
    if wanted.sequence:
        if not isinstance(value, list | tuple):
            raise KindError(f"{what} must be a sequence (a list of tensors); got {type(value).__name__}")
        return [cast(as_tensor(item, what), dtype, what) for item in value]
    if isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value) and dtype is None:
        return [as_tensor(item, what) for item in value]
    return cast(as_tensor(value, what), dtype, what)


def _common_types(asked: Mapping[str, Asked], values: Mapping[str, Any]) -> dict[Any, np.dtype]:
    """For groups of values whose type nothing states: the type they can all become."""
    members: dict[Any, list[Any]] = {}
    for name, value in values.items():
        if asked[name].dtype is None and asked[name].group is not None and value is not None:
            members.setdefault(asked[name].group, []).append(value)
    allowed = {wanted.group: wanted.allowed for wanted in asked.values()}
    return {group: dtype for group, given in members.items() if (dtype := _common_type(given, allowed[group])) is not None}


def _common_type(values: list[Any], allowed: frozenset[np.dtype] | None) -> np.dtype | None:
    """Arrays decide; Python numbers follow them.  Floats win over integers, wide ones over narrow ones."""
    arrays = [value.dtype for value in values if isinstance(value, np.ndarray | np.generic) and kind_of(value.dtype) != "string"]
    numbers = [np.asarray(value).dtype for value in values if isinstance(value, bool | int | float | complex)]
    for kind in ("complex", "float", "integer", "bool"):
        typed = [dtype for dtype in arrays if kind_of(dtype) == kind]
        weak = [dtype for dtype in numbers if kind_of(dtype) == kind]
        if typed or weak:
            found = np.result_type(*(typed or weak))
            return _allowed_type(found, allowed)
    return None


def _allowed_type(found: np.dtype, allowed: frozenset[np.dtype] | None) -> np.dtype:
    """The type itself if all readers take it, or the float they take in its place."""
    if not allowed or found in allowed or kind_of(found) != "integer":
        return found
    return NAMES["double"] if NAMES["double"] in allowed else found


def cast(array: np.ndarray, dtype: np.dtype | None, what: str) -> np.ndarray:
    """An array with another element type, if that loses nothing but precision.

    Raises
    ------
    KindError
        Another kind (a float for an integer), or an integer that does not fit.
    """
    if dtype is None or array.dtype == dtype:
        return array
    have, want = kind_of(array.dtype), kind_of(dtype)
    if want not in _WIDENS.get(have, ()):
        raise KindError(f"{what} must be {shown(dtype)}; got {shown(array.dtype)}{_excerpt(array)}")
    converted = array.astype(dtype)
    if have == want == "integer" and not np.array_equal(converted.astype(object), array.astype(object)):
        raise KindError(f"{what} must fit into {shown(dtype)}; got {shown(array.dtype)}{_excerpt(array)}")
    return converted


def shown(dtype: np.dtype) -> str:
    """The name of an element type for messages."""
    return "string" if dtype.kind == "O" else dtype.name if dtype in CODES else str(dtype)


def _excerpt(array: np.ndarray) -> str:
    return f" ({array.item()!r})" if array.size == 1 else f" of shape {list(array.shape)}"
