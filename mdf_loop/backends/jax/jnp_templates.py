"""How each primitive is spelt in JAX: most are functions of jax.numpy that are called as numpy's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from jax import Array, dtypes, lax
from ml_dtypes import finfo, iinfo

from mdf_loop.backends.static_lowering import dtype_of
from mdf_loop.step.primitives import BOOL, PRIMITIVES
from mdf_loop.step.records import Type
from mdf_loop.types.elements import kind_of

Template = Callable[..., Any]


def canonical(dtype: Any) -> Any:
    """An element type as JAX has it: of 64 bits only where those are on."""
    return dtypes.canonicalize_dtype(dtype)


def jax_dtype(type: Type) -> Any:
    """The element type that a value of a type has in JAX."""
    return canonical(dtype_of(type))


def cast_to(x: Array, dtype: Any) -> Array:
    """An array in another element type."""
    if dtype == BOOL:
        return x != 0
    if jnp.issubdtype(x.dtype, jnp.floating) and kind_of(dtype) == "integer":
        x = _whole_of(x, dtype)
    if kind_of(dtype) == "integer" and iinfo(dtype).bits < 8:  # others wrap around, where XLA would cut them off
        least, count = iinfo(dtype).min, 1 << iinfo(dtype).bits
        x = (x.astype(jnp.int32) - least) % count + least
    elif dtype.name.endswith("fnuz"):  # it has no -0, of which XLA makes nan
        x = jnp.where(jnp.abs(x) <= float(finfo(dtype).smallest_subnormal) / 2, 0, x)
    return x.astype(dtype)


def no_number(dtype: Any) -> Any:
    """What is given where there is no number: nan, or the lowest whole number; a truth value is False."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.nan
    return False if dtype == BOOL else iinfo(dtype).min


def _whole_of(x: Array, dtype: Any) -> Array:
    """Whole numbers of fractions; the lowest of int64 or int32 where these hold no such number, which XLA would cut off."""
    is_small = iinfo(dtype).bits < 8  # those are made of numbers of float32
    x = x.astype(np.float32 if is_small else jnp.promote_types(x.dtype, np.float32))
    if dtype.name == "uint64":
        low, high = (_whole_of(y, np.dtype(np.int64)).astype(dtype) for y in (x, x - 2.0**63))
        return jnp.where(x >= 2.0**63, high ^ np.uint64(1 << 63), low)
    wide = canonical(np.int64 if dtype.itemsize == 8 or dtype.name == "uint32" else np.int32)
    least = iinfo(wide).min
    return jnp.where((x > least - 1.0) & (x < -float(least)), x.astype(wide), least)


def _is_whole(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.integer)


def _whole_stays(function: Template) -> Template:
    """A function that rounds, which of whole numbers jax.numpy makes floats."""
    return lambda x: x if _is_whole(x) else function(x)


def _quotient(x: Array, y: Array) -> Array:
    """x / y as ONNX says: whole numbers are truncated towards zero."""
    return lax.div(*_divisible(x, y)) * (y != 0) if _is_whole(x) else x / y


def _of_whole(function: Template) -> Template:
    """A division that of whole numbers gives 0 where it is by 0, as numpy does."""
    return lambda x, y: jnp.where(y == 0, jnp.zeros_like(y), function(*_divisible(x, y))) if _is_whole(x) else function(x, y)


def _divisible(x: Array, y: Array) -> tuple[Array, Array]:
    x, y = jnp.broadcast_arrays(x, y)
    return x, jnp.where(y == 0, jnp.ones_like(y), y)


def _pythons_round(x: Array, digits: Any = 0) -> Array:
    return jnp.round(x, int(digits))


TEMPLATES: dict[str, Template] = {
    **{name: getattr(jnp, row.ufunc.__name__) for name, row in PRIMITIVES.items() if row.ufunc is not None},
    "erf": special.erf,
    "quotient": _quotient,
    "floordiv": _of_whole(jnp.floor_divide),
    "mod": _of_whole(jnp.remainder),
    "fmod": _of_whole(jnp.fmod),
    **{name: _whole_stays(getattr(jnp, name)) for name in ("floor", "ceil", "trunc", "rint")},
    "round": _pythons_round,
    "whole": lambda x: x,
    "erfc": special.erfc,
    "gamma": special.gamma,
    "lgamma": special.gammaln,
    "fabs": jnp.abs,
    "remainder": lambda x, y: x - y * jnp.rint(x / y),
    "degrees": jnp.degrees,
    "radians": jnp.radians,
    "isfinite": jnp.isfinite,
    "isinf": jnp.isinf,
    "isnan": jnp.isnan,
}
"""By primitive; those of Python's math have the names that they have without ``math.``: ``template(*arrays)``."""
