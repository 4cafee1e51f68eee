"""The expressions of MDF, evaluated as MDF's engine evaluates them, and without Python's ``eval``.

An expression is parsed, looked at by the list of :mod:`mdf_loop.readers.expressions.expression_text`, and walked through: each
operation is that of its kernel in domain ``mdf``, which has a bound for what would be too large.  So what MDF hands to ``eval``
here, wherever the text came from - a list, an argument, a result - is data.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.arrays.bounds import refuse_broadcast, refuse_elements, total
from mdf_loop.kernels.mdf.expression_operators import in_a_row
from mdf_loop.ops.registry import KERNELS
from mdf_loop.options import current_stream
from mdf_loop.readers.expressions.expression_text import CONSTANTS, OPERATORS, is_python, parse, refuse_length
from mdf_loop.readers.expressions.function_calls import OPERATORS as NUMPY_OPERATORS
from mdf_loop.readers.expressions.function_calls import SEQUENCES, bind, dotted, dtype_named, op_of
from mdf_loop.readers.expressions.values import DOMAIN

COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")

RANDOM = "numpy.random."


def compute(text: str, scope: Mapping[str, Any]) -> Any:
    """The value of an expression.

    Parameters
    ----------
    text : str
    scope : mapping
        The values of the names it may read.

    Raises
    ------
    SyntaxError
        It is no expression of Python at all.
    MalformedBody, UnsupportedOp
        It is too long, or says something that is not on the list.
    Exception
        Whatever Python and numpy raise where it cannot be computed.
    """
    tree = _parsed(text) if len(text) < SHORT else _parsed.__wrapped__(text)
    if tree is None:
        raise SyntaxError(f"{text!r} is not an expression")
    return Evaluation(scope).value(tree)


SHORT = 1000
"""Characters of an expression that is kept parsed."""


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.expr | None:
    """The tree of an expression that is on the list; None for a text that Python cannot read."""
    load_kernels()
    refuse_length(text)
    return parse(text) if is_python(text) else None


class Evaluation:
    """One expression, with the values of its names."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope

    def value(self, tree: ast.expr) -> Any:
        """The value of a part."""
        return getattr(self, f"_{type(tree).__name__.lower()}")(tree)

    def _constant(self, tree: ast.Constant) -> Any:
        return tree.value

    def _name(self, tree: ast.Name) -> Any:
        if tree.id not in self.scope:
            raise NameError(f"there is no value {tree.id!r} here")
        return self.scope[tree.id]

    def _attribute(self, tree: ast.Attribute) -> Any:
        name = dotted(tree)
        if name in CONSTANTS:
            return getattr(math, tree.attr)
        if name == "numpy.newaxis":
            return None
        raise TypeError(f"{name} has to be called")

    def _list(self, tree: ast.List) -> list[Any]:
        return _listed([self.value(element) for element in tree.elts])

    def _tuple(self, tree: ast.Tuple) -> tuple[Any, ...]:
        return tuple(_listed([self.value(element) for element in tree.elts]))

    def _dict(self, tree: ast.Dict) -> dict[Any, Any]:
        made = {self.value(key): self.value(value) for key, value in zip(tree.keys, tree.values, strict=True) if key is not None}
        _listed([*made.values()])
        return made

    def _unaryop(self, tree: ast.UnaryOp) -> Any:
        return run(OPERATORS[type(tree.op)], self.value(tree.operand))

    def _binop(self, tree: ast.BinOp) -> Any:
        chain: list[ast.BinOp] = []
        left: ast.expr = tree
        while isinstance(left, ast.BinOp):  # a + b + c ... may be long
            chain.append(left)
            left = left.left
        value = self.value(left)
        for part in reversed(chain):
            value = arithmetic(OPERATORS[type(part.op)], value, self.value(part.right))
        return value

    def _compare(self, tree: ast.Compare) -> Any:
        left, holds = self.value(tree.left), True
        for op, part in zip(tree.ops, tree.comparators, strict=True):
            right = self.value(part)
            holds = arithmetic(OPERATORS[type(op)], left, right)
            if part is not tree.comparators[-1] and not holds:
                return holds
            left = right
        return holds

    def _boolop(self, tree: ast.BoolOp) -> Any:
        value = None
        for part in tree.values:
            value = self.value(part)
            if part is not tree.values[-1] and bool(value) != isinstance(tree.op, ast.And):
                return value
        return value

    def _ifexp(self, tree: ast.IfExp) -> Any:
        return self.value(tree.body if self.value(tree.test) else tree.orelse)

    def _slice(self, tree: ast.Slice) -> slice:
        return slice(*(None if part is None else self.value(part) for part in (tree.lower, tree.upper, tree.step)))

    def _subscript(self, tree: ast.Subscript) -> Any:
        value, index = self.value(tree.value), self.value(tree.slice)
        if isinstance(value, np.ndarray):
            _refuse_picked(value, index)
        return value[index]

    def _call(self, tree: ast.Call) -> Any:
        name = dotted(tree.func) or ""
        args: list[Any] = [*tree.args]
        count = None
        if name in SEQUENCES and args:
            args[:1] = self.value(tree.args[0])
            count = len(args) - len(tree.args) + 1
        op = str(op_of(name))
        entry = KERNELS[DOMAIN, op][-1]
        bound = bind(entry.run, name, args, {keyword.arg or "": keyword.value for keyword in tree.keywords}, count)
        inputs, attrs = self._arguments(bound, as_arrays=name.startswith("numpy."))
        if name in _OF_NUMPY:
            return _OF_NUMPY[name](*inputs, **attrs)
        if name.startswith("numpy.") and name.removeprefix("numpy.") in NUMPY_OPERATORS:
            return _operator(name.removeprefix("numpy."), op, inputs)
        if name == "sum" and any(isinstance(value, list | tuple) for value in inputs[1:]):
            raise TypeError("sum joins no lists in an expression")
        return entry.run(*inputs, **attrs, **({"rng": _numbers()} if name.startswith(RANDOM) else {}))

    def _arguments(self, bound: inspect.BoundArguments, as_arrays: bool) -> tuple[list[Any], dict[str, Any]]:
        """The values of a call's arguments: by place, and by name."""
        inputs: list[Any] = []
        attrs: dict[str, Any] = {}
        for key, given in bound.arguments.items():
            kind = bound.signature.parameters[key].kind
            if kind is inspect.Parameter.KEYWORD_ONLY:
                attrs[key] = dtype_named(given) if key == "dtype" else self._argument(given)
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                inputs += map(self._argument, given)
            else:
                inputs += [None] * (list(bound.signature.parameters).index(key) - len(inputs))
                inputs.append(self._argument(given))
        return [in_a_row(v) if as_arrays and isinstance(v, list | tuple) else v for v in inputs], attrs

    def _argument(self, given: Any) -> Any:
        return self.value(given) if isinstance(given, ast.expr) else given


def _numbers() -> Any:
    """Where random numbers come from: the stream of the run; numpy's own outside of any."""
    stream = current_stream()
    return np.random if stream is None else stream.shared()


_OF_NUMPY: dict[str, Callable[..., Any]] = {"numpy.shape": np.shape, "numpy.array": np.array}
"""Functions whose kernels give something else than numpy: a tensor for a tuple, the same array for a copy."""


def run(op: str, *args: Any) -> Any:
    """What an operation of the list gives."""
    return KERNELS[DOMAIN, op][-1].run(*args)


def arithmetic(op: str, left: Any, right: Any) -> Any:
    """What an operator gives of two values, unless that would be too large.

    Raises
    ------
    OverflowError
        It would.
    TypeError
        Texts cannot be computed with.
    """
    if _is_sequence(left) or _is_sequence(right):
        _refuse_sequence(op, left, right)
    elif op != "matmul":
        refuse_broadcast("a result", left, right)
    return run(op, left, right)


def _operator(name: str, op: str, values: list[Any]) -> Any:
    """``numpy.add(a, b)``: the operator on arrays; numpy's own function would not know the bounds."""
    arrays = [value if isinstance(value, np.ndarray | np.generic) else np.asarray(value)[()] for value in values]
    if any(isinstance(value, int) for value in arrays):
        raise OverflowError(f"numpy.{name} of whole numbers of more than 64 bits")
    return arithmetic(op, *arrays) if len(arrays) > 1 else run(op, *arrays)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "USV"
    return isinstance(value, str | bytes | list | tuple | dict)


def _refuse_sequence(op: str, left: Any, right: Any) -> None:
    """See that lists and texts are not repeated or joined to something too large, and texts not formatted."""
    if op in COMPARISONS:
        return
    if op == "add":
        refuse_elements(total(left) + total(right), "a list")
    elif op == "multiply":
        sequence, times = (left, right) if _is_sequence(left) else (right, left)
        count = _count(times)
        if count is not None:
            refuse_elements(total(sequence) * max(count, 1), "a list")
    if any(isinstance(value, bytes | str) and op == "remainder" for value in (left, right)) or any(
        isinstance(value, np.ndarray) and value.dtype.kind in "USV" for value in (left, right)
    ):
        raise TypeError("texts cannot be computed with")


def _count(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


def _listed(values: list[Any]) -> list[Any]:
    """The elements of a list; lists in it, of which it may hold one many times, count as often as they stand there."""
    if any(isinstance(value, list | tuple | dict) for value in values):
        refuse_elements(total(values), "a list")
    return values


def _refuse_picked(value: np.ndarray, index: Any) -> None:
    """See that ``x[i]`` with arrays for indices does not become too large."""
    parts = index if isinstance(index, tuple) else (index,)
    shapes, rest, axis = [], value.size, 0
    for part in parts:
        if part is None or part is Ellipsis:
            axis = value.ndim if part is Ellipsis else axis
        elif isinstance(part, list | np.ndarray):
            shapes.append(np.shape(part))
            rest //= max(value.shape[axis], 1) if axis < value.ndim else 1
            axis += 1
        else:
            axis += 1
    if shapes:
        refuse_elements(rest * math.prod(np.broadcast_shapes(*shapes)), "what is picked from an array")
