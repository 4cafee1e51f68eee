"""Kernels over arrays of JAX: what a function of numpy is asked to do, the function of the same name in jax.numpy does.

A kernel is what its operator means, so nothing is said here of any operator.  numpy's protocols (NEP 13 and 18) say what is done
to an array; element types follow numpy's rules.  A kernel that looks at values, or writes into memory of numpy's, has no form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.lib.mixins import NDArrayOperatorsMixin

from mdf_loop.backends.jax.jnp_templates import TEMPLATES, canonical, cast_to
from mdf_loop.step.primitives import PRIMITIVES

TOGETHER = {
    "concatenate",
    "stack",
    "where",
    "matmul",
    "dot",
    "tensordot",
    "einsum",
    "inner",
    "vdot",
    "append",
    "hstack",
    "vstack",
}
"""Functions whose arguments are brought to one element type, by numpy's rules."""

LIKE = {"zeros_like", "ones_like", "empty_like", "full_like"}
"""Functions that give an array like another one."""

FRESH = LIKE | {"copy", "concatenate", "stack", "where", "pad", "array"}
"""Functions that give an array of its own."""

_BY_UFUNC = {row.ufunc: TEMPLATES[name] for name, row in PRIMITIVES.items() if row.ufunc is not None}
_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}
_AT = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}
_ACCUMULATED = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}


OF_VALUES = (
    "it depends on values that JAX does not know while it compiles; make them constants, or give them as whole numbers of Python "
    "or numpy, or compute with a mask of full length"
)
"""Why a kernel has no form that needs more of an array than its shape, and what to do."""


class NotOver(TypeError):
    """A kernel asks for something that an array of JAX cannot do."""


Check = Callable[..., None]
"""``check(holds, message, **numbers)`` says what has to hold."""


def _unchecked(*_: Any, **__: Any) -> None: ...


_CHECK: ContextVar[Check] = ContextVar("check", default=_unchecked)


def over_jax(call: Callable[..., Any], args: Sequence[Any], check: Check = _unchecked) -> Any:
    """The results of a kernel, called with arrays of JAX; those that are known stay numpy's, if they can.

    ``check`` says what numpy would raise an error for.

    Raises
    ------
    NotOver
        It has no form in JAX.
    """
    token = _CHECK.set(check)
    try:
        return _called(call, args)
    except NotOver:
        fractions = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in args]
        if not any(fractions):
            raise
        return _called(call, [jnp.asarray(x) if known else x for x, known in zip(args, fractions, strict=True)])
    finally:
        _CHECK.reset(token)


def _called(call: Callable[..., Any], args: Sequence[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return bare(call(*[_over(x, True) for x in args]))
    except (NotOver, jax.errors.JAXTypeError, jax.errors.ConcretizationTypeError) as error:
        raise NotOver(" ".join(str(error).split("\n", 1)[0].split())) from error


def bare(x: Any) -> Any:
    """Results as arrays of JAX."""
    if isinstance(x, tuple | list):
        return type(x)(map(bare, x))
    return x.array if isinstance(x, Over) else x


def _over(x: Any, is_frozen: bool) -> Any:
    if isinstance(x, tuple | list):
        return type(x)(_over(part, is_frozen) for part in x)
    return Over(x, is_frozen=is_frozen) if isinstance(x, jax.Array) else x


def _written(target: Any, found: Any) -> Any:
    """What ``out=`` names, with what was computed."""
    if not isinstance(target, Over):
        raise NotOver("the kernel writes into memory of numpy's")
    target.write(found)
    return target


def _dtype(x: Any) -> Any:
    """What numpy promotes of an argument: a number of Python's is itself."""
    return x if isinstance(x, bool | int | float) else np.asarray(x).dtype if not isinstance(x, Over) else x.dtype


def _in_one_type(args: Sequence[Any]) -> list[Any]:
    dtype = canonical(np.result_type(*map(_dtype, args)))
    return [jnp.asarray(bare(x)).astype(dtype) for x in args]


@dataclass
class View:
    """How a part of an array is read, and how the array becomes another one where that part is written."""

    base: Over
    get: Callable[[Any], Any]
    put: Callable[[Any, Any], Any]


class Over(NDArrayOperatorsMixin):
    """An array of JAX as a kernel meets it.

    Views of numpy's are views here as well: what is written into one is seen in the array and in all others.  Where numpy may
    give a view or not, nothing may be written (``is_frozen``).
    """

    __array_priority__ = 1000.0

    def __init__(self, array: Any = None, view: View | None = None, is_frozen: bool = False) -> None:
        self._array, self._view, self.is_frozen = array, view, is_frozen

    @property
    def array(self) -> Any:
        """What it is now."""
        return self._array if self._view is None else self._view.get(self._view.base.array)

    def write(self, array: Any) -> None:
        """Become another array of the same shape.

        Raises
        ------
        NotOver
            Nothing may be written.
        """
        if self.is_frozen:
            raise NotOver("the kernel writes into an array that may be seen elsewhere")
        array = jnp.broadcast_to(jnp.asarray(array), self.shape).astype(self.dtype)
        if self._view is None:
            self._array = array
        else:
            self._view.base.write(self._view.put(self._view.base.array, array))

    def _seen(self, get: Callable[[Any], Any], put: Callable[[Any, Any], Any]) -> Over:
        return Over(view=View(self, get, put), is_frozen=self.is_frozen)

    dtype = property(lambda self: np.dtype(self.array.dtype), doc="The element type.")
    shape = property(lambda self: self.array.shape, doc="The lengths.")
    ndim = property(lambda self: self.array.ndim, doc="The number of axes.")
    size = property(lambda self: self.array.size, doc="The number of elements.")
    itemsize = property(lambda self: self.dtype.itemsize, doc="The bytes of an element.")
    nbytes = property(lambda self: self.size * self.itemsize, doc="The bytes of all elements.")
    T = property(lambda self: self.transpose(), doc="The transpose.")
    mT = property(lambda self: self.swapaxes(-1, -2), doc="The transpose of matrices.")
    real = property(lambda self: Over(self.array.real, is_frozen=True), doc="The real part.")
    imag = property(lambda self: Over(self.array.imag, is_frozen=True), doc="The imaginary part.")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NotOver("the kernel writes it into memory of numpy's, or looks at its values")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """NEP 13: what a ufunc, and so an operator, does."""
        if method == "at" and ufunc.__name__ in _AT:
            target, where, *others = inputs
            _check_places(_bare(where), target.shape)
            place = jnp.asarray(bare(target)).at[_bare(where)]
            return _written(target, getattr(place, _AT[ufunc.__name__])(*_bare(others)))
        if method in ("reduce", "accumulate"):
            found = _along(ufunc, method, *inputs, **named)
        elif method != "__call__" or named.keys() - {"dtype", "casting"}:
            raise NotOver(f"the kernel calls np.{ufunc.__name__} with {method}, {', '.join(named)}")
        else:
            found = _elementwise(ufunc, inputs)
            if isinstance(found, tuple):
                return _over(found, is_frozen=False)
            found = found.astype(canonical(named["dtype"])) if named.get("dtype") is not None else found
        return Over(found) if out is None else _written(out[0], found)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        """NEP 18: what any other function of numpy does."""
        name = function.__name__
        if name in _ASKED:
            return _ASKED[name](*args, **named)
        found = _same_in_jax(function)
        if found is None:
            raise NotOver(f"the kernel calls np.{name}, which jax.numpy has not")
        out = named.pop("out", None)
        if name in LIKE:
            named.pop("order", None)  # of memory, of which JAX knows none
        made = found(*_bare(_promoted(args) if name in TOGETHER else args), **_bare(named))
        return _over(made, is_frozen=name not in FRESH) if out is None else _written(out, made)

    def _method(self, name: str, *args: Any, out: Any = None, **named: Any) -> Any:
        if name in ("sum", "prod", "cumsum", "cumprod") and named.get("dtype") is None:
            named["dtype"] = canonical(getattr(np.empty(1, self.dtype), name)().dtype)
        made = getattr(jnp, name)(self.array, *_bare(args), **_bare(named))
        return Over(made, is_frozen=name in ("ravel", "squeeze", "diagonal")) if out is None else _written(out, made)

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise NotOver(OF_VALUES if name in ("item", "nonzero", "tolist") else f"the kernel asks an array for .{name}")
        return functools.partial(self._method, name)

    def reshape(self, *shape: Any, order: str = "C") -> Over:
        """The same elements in another shape."""
        lengths = shape[0] if len(shape) == 1 and not isinstance(shape[0], int | np.integer) else shape
        wanted, own = tuple(map(int, lengths)), self.shape
        return self._seen(lambda x: x.reshape(wanted, order=order), lambda _, new: new.reshape(own, order=order))

    def transpose(self, *axes: Any) -> Over:
        """The axes in another order."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes or range(self.ndim)[::-1]
        back = np.argsort([axis % self.ndim for axis in order])
        return self._seen(lambda x: x.transpose(tuple(order)), lambda _, new: new.transpose(back))

    def moved(self, source: Any, destination: Any) -> Over:
        """Axes in other places."""
        return self._seen(lambda x: jnp.moveaxis(x, source, destination), lambda _, new: jnp.moveaxis(new, destination, source))

    def swapaxes(self, one: int, other: int) -> Over:
        """Two axes in each other's place."""
        return self._seen(lambda x: x.swapaxes(one, other), lambda _, new: new.swapaxes(one, other))

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", copy: bool = True) -> Over:
        """The same in another element type."""
        return Over(cast_to(self.array, canonical(np.dtype(dtype))), is_frozen=not copy)

    def view(self, dtype: Any = None) -> Over:
        """The same bits as another type of the same width."""
        if dtype is None or np.dtype(dtype).itemsize != self.itemsize or self.dtype == bool:
            raise NotOver("the kernel takes elements apart")
        return Over(lax.bitcast_convert_type(self.array, np.dtype(dtype)), is_frozen=True)

    def argsort(self, axis: int = -1, kind: Any = None) -> Over:
        """The places of its elements in rising order, equal ones in their own."""
        return Over(jnp.argsort(self.array, axis, stable=True))

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        """Sort it where it lies."""
        self.write(jnp.sort(self.array, axis))

    def partition(self, kth: Any, axis: int = -1) -> None:
        """Put some elements where they are when it is sorted: it is sorted."""
        self.sort(axis)

    def copy(self, order: str = "C") -> Over:
        """An array of its own."""
        return Over(self.array)

    def __getitem__(self, index: Any) -> Over:
        where = _bare(index)
        _check_places(where, self.shape)
        if any(
            not isinstance(part, int | slice | None | type(...)) for part in (where if isinstance(where, tuple) else (where,))
        ):
            return Over(self.array[where])
        return self._seen(lambda x: x[where], lambda x, new: x.at[where].set(new))

    def __setitem__(self, index: Any, value: Any) -> None:
        _check_places(_bare(index), self.shape)
        self.write(self.array.at[_bare(index)].set(jnp.asarray(bare(value)).astype(self.dtype)))

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __bool__(self) -> bool:
        raise NotOver(OF_VALUES)

    __int__ = __float__ = __index__ = __complex__ = __bool__  # type: ignore[assignment]


def _check_places(where: Any, shape: Sequence[int]) -> None:
    """Say that whole numbers in an index lie inside of an array."""
    parts = where if isinstance(where, tuple) else (where,)
    used, axis = sum(part is not None and part is not ... for part in parts), 0
    for part in parts:
        if part is ...:
            axis += len(shape) - used
        elif isinstance(part, jax.Array) and jnp.issubdtype(part.dtype, jnp.integer):
            n = shape[axis]
            _CHECK.get()((part >= -n) & (part < n), f"an index is out of bounds for axis {axis} of size {n}")
        axis += part is not None and part is not ...


def _bare(x: Any) -> Any:
    if isinstance(x, Mapping):
        return {key: _bare(value) for key, value in x.items()}
    return type(x)(map(_bare, x)) if type(x) in (tuple, list) else bare(x)


def _same_in_jax(function: Any) -> Any:
    """The function of jax.numpy that has the name of one of numpy's; None if there is none."""
    place: Any = jnp
    for part in (*function.__module__.split(".")[1:], function.__name__):
        place = getattr(place, part, None)
    return place


def _promoted(args: Sequence[Any]) -> list[Any]:
    """Arguments of a function that brings arrays to one type: themselves, or in one list."""
    if args and isinstance(args[0], tuple | list):
        return [_in_one_type(args[0]), *args[1:]]
    arrays = [k for k, x in enumerate(args) if isinstance(x, Over | np.ndarray | np.generic | int | float)]
    arrays = arrays[-2:] if len(args) == 3 else arrays
    made = dict(zip(arrays, _in_one_type([args[k] for k in arrays]), strict=True))
    return [made.get(k, x) for k, x in enumerate(args)]


def _elementwise(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """What a ufunc gives, in the types that numpy computes it in."""
    known = [type(x) if isinstance(x, bool | int | float | complex) else _dtype(x) for x in inputs]
    dtypes = ufunc.resolve_dtypes((*known, *(None,) * ufunc.nout))
    given = [jnp.asarray(bare(x)).astype(canonical(dtype)) for x, dtype in zip(inputs, dtypes, strict=False)]
    template = _BY_UFUNC.get(ufunc) or getattr(jnp, ufunc.__name__, None)
    if template is None:
        raise NotOver(f"the kernel calls np.{ufunc.__name__}")
    if ufunc is np.power and np.dtype(dtypes[0]).kind in "iu":
        _refuse_negative(bare(inputs[1]))
    if ufunc.nout > 1:
        return tuple(x.astype(canonical(dtype)) for x, dtype in zip(template(*given), dtypes[ufunc.nin :], strict=True))
    return template(*given).astype(canonical(dtypes[-1]))


def _refuse_negative(exponents: Any) -> None:
    """See that no exponent of whole numbers is negative, as numpy does."""
    message = "Integers to negative integer powers are not allowed"
    if not isinstance(exponents, jax.core.Tracer) and np.any(np.less(exponents, 0)):
        raise NotOver(message)
    _CHECK.get()(jnp.greater_equal(exponents, 0), message)


def _along(
    ufunc: np.ufunc, method: str, x: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, initial: Any = None
) -> Any:
    names = _REDUCED if method == "reduce" else _ACCUMULATED
    if ufunc.__name__ not in names:
        raise NotOver(f"the kernel calls np.{ufunc.__name__}.{method}")
    name, others = names[ufunc.__name__], {} if dtype is None else {"dtype": canonical(dtype)}
    if method == "accumulate":
        if name.startswith("cumm"):
            return getattr(lax, name)(x.array, axis % x.ndim)
        return getattr(jnp, name)(x.array, axis=axis, dtype=others.get("dtype", x.array.dtype))
    others |= {} if initial is None else {"initial": bare(initial)}
    return getattr(jnp, name)(x.array, axis=axis, keepdims=keepdims, **others)


_METHODS = {
    *("sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "cumsum", "cumprod", "argmax", "argmin"),
    *("ravel", "flatten", "squeeze", "diagonal", "repeat", "take", "clip", "round", "conj"),
}
"""Methods of an array that jax.numpy has as functions."""

_ASKED: dict[str, Callable[..., Any]] = {
    "shape": lambda x: x.shape,
    "moveaxis": lambda x, one, other: x.moved(one, other),
    "ndim": lambda x: x.ndim,
    "size": lambda x, axis=None: x.size if axis is None else x.shape[axis],
    "result_type": lambda *xs: np.result_type(*map(_dtype_or_type, xs)),
    "may_share_memory": lambda *_: False,
    "sliding_window_view": lambda x, size, axis: Over(_windows(bare(x), size, axis)),
    "copyto": lambda target, value, casting="", where=True: _written(target, jnp.where(bare(where), bare(value), bare(target))),
}
"""Functions of numpy that are answered without computing, or that write."""


def _windows(x: Any, size: int, axis: int) -> Any:
    """All windows along an axis, in a new last one."""
    count = x.shape[axis] - size + 1
    return jnp.stack([lax.slice_in_dim(x, k, k + count, axis=axis) for k in range(size)], -1)


def _dtype_or_type(x: Any) -> Any:
    return x if isinstance(x, np.dtype | type) else _dtype(x)
