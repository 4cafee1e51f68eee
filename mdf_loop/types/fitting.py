"""Values from outside, made into what a body asks for; and results, made fit to leave.

Numbers in MDF are weak: they take the type the body wants.  What would lose something - a fraction for an
integer, a number for a text - is an error that names the value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from sys import getrefcount
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, let_through
from mdf_loop.ir import Body, ValueType
from mdf_loop.types.elements import CODES, NAMES, kind_of
from mdf_loop.types.required import Asked

_WIDENS = {
    "bool": {"bool"},
    "integer": {"integer", "float", "complex"},
    "float": {"float", "complex"},
    "complex": {"complex"},
    "string": {"string"},
}
"""Which kinds a kind of value may become without losing what it is."""

_WIDEST_FIRST = [
    NAMES[name]
    for name in ("int64", "int32", "int16", "int8", "double", "float", "bfloat16", "float16", "complex128", "complex64")
]
"""Types to choose from for a value whose own type its readers do not take."""


_PLAIN = frozenset(np.dtype(kind).char for kind in ("?", *(f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)), *"efdFD"))
"""numpy's characters for the numbers that are taken as they are."""


_NUMBER = bool | int | float | complex | np.number | np.bool_
"""What objects may be that are an array of numbers all the same."""


_OF_UNITS = {"units": '.to("s").magnitude', "unit": '.to_value("s")', "dim": " / second"}
"""What holds the unit in quantities of pint, of astropy and of Brian, and how they become numbers of seconds, as an example."""


def refuse_unit(value: Any, what: str) -> None:
    """See that a value, or the first one of a list, has no unit, which would be lost."""
    while isinstance(value, list | tuple) and value:
        value = value[0]
    if "Quantity" not in type(value).__name__:
        return
    for place, cure in _OF_UNITS.items():
        if (unit := str(getattr(value, place, ""))) not in ("", "1", "dimensionless"):
            name = what.split("'")[1] if "'" in what else what.split()[-1]
            said = "which would be lost; give a number in the unit of the model"
            raise KindError(f"{what} has the unit {unit}, {said}: {name}{cure}")


def as_array(value: Any, what: str) -> np.ndarray:
    """A value that a caller gives as an array, whatever is in it; objects that are all numbers, as in a table, become numbers.

    Raises
    ------
    KindError
        It is ragged, or parts of it are masked, or it has a unit.
    """
    refuse_unit(value, what)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise KindError(
            f"{what} has masked elements; give .filled(np.nan), which puts nan there, or .compressed(), which drops them"
        )
    try:
        array = np.asarray(value)
    except RuntimeError as error:  # of a parameter of PyTorch, which has a gradient
        let_through(error)
        if not hasattr(value, "detach"):
            raise
        return np.asarray(value.detach())
    except ValueError:
        raise KindError(f"{what} is ragged: its rows do not have the same length") from None
    if array.dtype == object and array.size and all(isinstance(item, _NUMBER) for item in array.flat):
        array = np.asarray(array.tolist())
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def as_tensor(value: Any, what: str) -> np.ndarray:
    """A value as an array that the executor can take.

    Raises
    ------
    KindError
        It is no tensor: ragged, masked, or an object of some other kind.
    """
    if type(value) is np.ndarray and value.dtype.char in _PLAIN and value.dtype.isnative:
        return value
    array = as_array(value, what)
    if array.dtype.kind in "US":
        return array.astype(object)
    is_other = array.dtype == object and not all(isinstance(item, str | bytes) for item in array.flat)
    if is_other or kind_of(array.dtype) == "other":
        _refuse_large(array, what)
        others = [item for item in array.flat if not isinstance(item, str | bytes)] if is_other else [value]
        item = next((item for item in others if not isinstance(item, _NUMBER)), "numbers among texts")
        got = str(array.dtype) if isinstance(item, np.ndarray) else item if isinstance(item, str) else type(item).__name__
        meant = "; write .toarray() behind a sparse matrix" if hasattr(item, "toarray") else ""
        raise KindError(f"{what} must be numbers, booleans or strings; got {got}{meant}")
    return array


def _refuse_large(array: np.ndarray, what: str) -> None:
    """Say of numbers that no type of ONNX holds that this is what is wrong with them."""
    if array.dtype == object and array.size and all(isinstance(item, int) for item in array.flat):
        largest = max(array.flat, key=abs)
        shown_number = str(largest) if abs(largest) < 10**40 else "a number of more than 40 digits"
        raise KindError(f"{what} must fit into a type of ONNX, whole numbers into int64 or uint64; got {shown_number}")
    if array.dtype.kind in "fc":
        raise KindError(f"{what} must fit into a type of ONNX, such as float64; got {array.dtype}")


def other_kind(value: Any, declared: ValueType) -> np.dtype | None:
    """The element type of a value of an MDF body, where that is not of the kind that its port declares; None where it is.

    Numbers in MDF have no type of their own: a whole number may be a float, and as long as it likes; a fraction is no
    integer, and a number no boolean.
    """
    if declared.dtype is None or declared.kind != "tensor":
        return None
    if isinstance(value, np.ndarray | np.generic):
        dtype = value.dtype
    elif isinstance(value, bool | int | float | complex):
        dtype = np.asarray(value).dtype
    else:  # what bodies gather, lists, an empty optional
        return None
    return dtype if dtype.kind in "biufc" and not np.can_cast(dtype, declared.dtype, "same_kind") else None


def as_untyped(value: Any, what: str) -> Any:
    """A value for a body that asks for no types: tensors as arrays, lists of tensors and None as they are."""
    if value is None or isinstance(value, Mapping):
        return value
    if isinstance(value, list) and (not value or _holds_tensors(value)):
        return [as_tensor(item, what) for item in value]
    return as_tensor(value, what)


def _holds_tensors(value: Any) -> bool:
    """Whether a list is a sequence of tensors rather than one tensor written as a list."""
    return isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value)


def fit_values(asked: Mapping[str, Asked], values: Mapping[str, Any]) -> dict[str, Any]:
    """Each value with the element type that is asked of it.

    Parameters
    ----------
    asked : mapping
        From :func:`~mdf_loop.types.required.asked_types`.
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


def refuse_nothing(body: Body, values: Mapping[str, Any], what: str = "value") -> None:
    """See that None is given only for what may be empty.

    Raises
    ------
    KindError
    """
    for name, value in values.items():
        declared = body.type_of(name)
        if value is None and declared.kind == "tensor" and declared.dtype is not None:
            raise KindError(f"{what} {name!r} must be {declared}; got None, which only an optional may be")


def refuse_shape(name: str, value: Any, declared: ValueType) -> None:
    """See that a tensor has the rank and the lengths that are declared; a number is taken for an array of one element.

    Raises
    ------
    ArgumentError
    """
    shape, dims = np.shape(value), declared.shape
    if dims is None or dims == shape:
        return
    is_alike = len(dims) == len(shape) and all(not isinstance(d, int) or d == n for d, n in zip(dims, shape, strict=True))
    if not is_alike and not (shape == () and all(d == 1 for d in dims)):
        dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype  # an array of JAX is none of numpy's yet
        raise ArgumentError(f"input {name!r} must be {declared}; got {ValueType(dtype, shape)}")


def _fit(name: str, value: Any, wanted: Asked, common: np.dtype | None) -> Any:
    what = f"value {name!r}"
    dtype = wanted.dtype if wanted.dtype is not None else common
    if value is None or isinstance(value, Mapping):
        return value
    if wanted.sequence:
        if not isinstance(value, list | tuple):
            raise KindError(f"{what} must be a sequence (a list of tensors); got {type(value).__name__}")
        return [cast(as_tensor(item, what), dtype, what) for item in value]
    if _holds_tensors(value) and dtype is None:
        return [as_tensor(item, what) for item in value]
    array = cast(as_tensor(value, what), dtype, what)
    if wanted.dtype is None and wanted.allowed and kind_of(array.dtype) not in map(kind_of, wanted.allowed):
        names = sorted(shown(allowed) for allowed in wanted.allowed)
        raise KindError(f"{what} must be {' or '.join(names)}; got {shown(array.dtype)}{_excerpt(array)}")
    return array


def _common_types(asked: Mapping[str, Asked], values: Mapping[str, Any]) -> dict[Any, np.dtype]:
    """For groups of values whose type nothing states: the type they can all become."""
    members: dict[Any, list[tuple[np.dtype, bool]]] = {}
    for name, value in values.items():
        wanted = asked[name]
        if wanted.dtype is not None or wanted.sequence or value is None or isinstance(value, Mapping) or _holds_tensors(value):
            continue
        weak = not isinstance(value, np.ndarray | np.generic)
        members.setdefault(wanted.group, []).append((as_tensor(value, f"value {name!r}").dtype, weak))
    allowed = {wanted.group: wanted.allowed for wanted in asked.values()}
    return {group: dtype for group, given in members.items() if (dtype := _common_type(given, allowed[group])) is not None}


def _common_type(given: list[tuple[np.dtype, bool]], allowed: frozenset[np.dtype] | None) -> np.dtype | None:
    """Arrays decide; Python numbers and lists of them are weak.  Floats win over integers, wide types over narrow ones."""
    for kind in ("complex", "float", "integer", "bool"):
        typed = [dtype for dtype, weak in given if kind_of(dtype) == kind and not weak]
        weakly = [dtype for dtype, weak in given if kind_of(dtype) == kind and weak]
        if typed or weakly:
            return _allowed_type(_widest(typed or weakly), allowed)
    return None


def _widest(dtypes: list[np.dtype]) -> np.dtype:
    """The type that holds all of these; where there is none, the first one, which the others may fit or not."""
    try:
        return np.result_type(*dtypes)
    except TypeError:
        return dtypes[0]


def _allowed_type(found: np.dtype, allowed: frozenset[np.dtype] | None) -> np.dtype:
    """The type itself if all readers take it, or else the widest that they take in its place."""
    if not allowed or found in allowed:
        return found
    kind = kind_of(found)
    places = (dtype for dtype in _WIDEST_FIRST if dtype in allowed and (kind_of(dtype) == kind or kind == "integer"))
    return next(places, found)


def cast(array: np.ndarray, dtype: np.dtype | None, what: str) -> np.ndarray:
    """An array with another element type, if that loses nothing but precision.

    Raises
    ------
    KindError
        Another kind (a float for an integer), or a number that is too large.
    """
    if dtype is None or array.dtype == dtype:
        return array
    have, want = kind_of(array.dtype), kind_of(dtype)
    if want not in _WIDENS.get(have, ()):
        raise KindError(f"{what} must be {shown(dtype)}; got {shown(array.dtype)}{_excerpt(array)}")
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
    if not _kept(array, converted, want):
        raise KindError(f"{what} must fit into {shown(dtype)}; got {shown(array.dtype)}{_excerpt(array)}")
    return converted


def _kept(before: np.ndarray, after: np.ndarray, kind: str) -> bool:
    """Whether a conversion lost nothing but precision: integers are the same, no number became infinite."""
    if kind == "integer":
        return np.array_equal(after.astype(object), before.astype(object))
    return kind not in ("float", "complex") or not (~np.isfinite(after) & np.isfinite(before)).any()


def shown(dtype: np.dtype) -> str:
    """The name of an element type for messages."""
    return "string" if dtype.kind == "O" else dtype.name if dtype in CODES else str(dtype)


def _excerpt(array: np.ndarray) -> str:
    return f" ({array.item()!r})" if array.size == 1 else f" of shape {list(array.shape)}"


def handed_out(results: Any, as_arrays: bool = True) -> Any:
    """Results made fit to leave: the caller may write into them, and nothing else changes.

    An array without other references is handed out as it is.  Every other one is copied, whatever holds it: an
    input, a constant, another result, a function of Python, a cache, an engine that waits.

    Parameters
    ----------
    results : list or dict
        Changed in place.  What the caller itself refers to is copied as well, so give ``[*execute()]`` rather than a name.
    as_arrays : bool
        Whether numbers become arrays; those in a map stay what they are.

    Returns
    -------
    list or dict
        ``results``.
    """
    for key in range(len(results)) if isinstance(results, list) else [*results]:
        kind = type(results[key])
        if kind is np.ndarray:
            if not _is_free(results, key):
                results[key] = results[key].copy()
        elif issubclass(kind, _NUMBERS):
            if as_arrays:
                results[key] = np.asarray(results[key])
        elif issubclass(kind, np.ndarray):
            results[key] = results[key].copy()
        elif issubclass(kind, (list, tuple, Mapping)):
            is_map = issubclass(kind, Mapping)
            if getrefcount(results[key]) > _ALONE or kind not in (list, dict):
                results[key] = dict(results[key]) if is_map else [*results[key]]
            handed_out(results[key], as_arrays and not is_map)
    return results


def handed_out_partly(results: list[Any]) -> list[Any]:
    """The same for results of a run that ended early; where there is no memory for copies, rather the values themselves."""
    values = [*results]
    with contextlib.suppress(MemoryError):
        handed_out(values)
    return values


def _is_free(holder: Any, key: Any) -> bool:
    """Whether nothing but a list or dict refers to an array there or to its memory, and it may be written into."""
    if getrefcount(holder[key]) > _ALONE:
        return False
    flags = holder[key].flags
    if flags.owndata or not flags.writeable:
        return bool(flags.writeable)
    is_view = type(holder[key].base) is np.ndarray and getrefcount(holder[key].base) <= _ALONE
    return is_view and bool(holder[key].base.flags.owndata)


_NUMBERS = (np.generic, bool, int, float, complex)

_fresh = [np.empty(0)]
_ALONE = min(getrefcount(_fresh[0]), 2)
"""What ``getrefcount`` says of an array that only a list refers to: the list's reference and that of the call."""
