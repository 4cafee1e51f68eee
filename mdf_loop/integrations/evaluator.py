"""The expressions of MDF, evaluated as MDF's engine evaluates them, and without Python's ``eval``.

An expression is parsed, looked at by the list of :mod:`mdf_loop.readers.expressions.expression_text`, and walked through: each
operation is that of its kernel in domain ``mdf``, which has a bound for what would be too large.  So what MDF hands to ``eval``
here, wherever the text came from - a list, an argument, a result - is data.
"""

from __future__ import annotations

import ast
import contextlib
import contextvars
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.arrays.bounds import refuse_broadcast, refuse_elements, total
from mdf_loop.kernels.mdf.expression_operators import in_a_row
from mdf_loop.ops.registry import KERNELS
from mdf_loop.options import current_stream, start_run
from mdf_loop.readers.expressions.expression_text import is_python, parse, refuse_length, tree_if_any
from mdf_loop.readers.expressions.function_calls import OPERATORS as NUMPY_OPERATORS
from mdf_loop.readers.expressions.function_calls import dotted, dtype_named, op_of
from mdf_loop.readers.expressions.values import COMPARISONS, DOMAIN
from mdf_loop.readers.expressions.walker import Walker

RANDOM = "numpy.random."

node_at_work: contextvars.ContextVar[str] = contextvars.ContextVar("mdf_loop_node_at_work", default="")
"""The node that MDF's engine evaluates; empty between nodes."""


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
    tree = parsed(text) if len(text) < SHORT else parsed.__wrapped__(text)
    if tree is None:
        raise SyntaxError(f"{text!r} is not an expression")
    return Evaluation(scope).value(tree)


SHORT = 1000
"""Characters of an expression that is kept parsed."""


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> ast.expr | None:
    """The tree of an expression that is on the list; None for a text that Python cannot read."""
    load_kernels()
    refuse_length(text)
    return parse(text) if is_python(text) else None


class Evaluation(Walker[Any]):
    """One expression, with the values of its names."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope

    def known(self, value: Any) -> Any:
        """A value that stands in the text."""
        return value

    def display(self, parts: list[Any], kind: type) -> Any:
        """A list or tuple."""
        return kind(_listed(parts))

    def operation(self, op: str, values: Sequence[Any], tree: ast.expr, out: str) -> Any:
        """What an operator gives."""
        if list not in map(type, values):
            return arithmetic(op, *values) if len(values) > 1 else run(op, *values)
        operands = [part for part in ast.iter_child_nodes(tree) if isinstance(part, ast.expr)]
        lists = [part for part, value in zip(operands, values, strict=False) if type(value) is list]
        names = [part.id for part in lists if isinstance(part, ast.Name)]
        return on_lists(op, values, repr(ast.unparse(tree)), names, _is_meant(op, lists))

    def logical(self, op: str, left: Any, right: Callable[[], Any], out: str) -> Any:
        """``left and right``, ``left or right``."""
        return right() if bool(left) == (op == "and") else left

    def either(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any], out: str) -> Any:
        """One of two values."""
        return then() if condition else otherwise()

    def elements(self, value: Any, name: str, tree: ast.expr) -> Iterable[Any]:
        """The elements of the list that a function takes."""
        return value

    def argument(self, given: Any, tree: ast.expr) -> Any:
        """An argument of a call."""
        return self.value(given) if isinstance(given, ast.expr) else given

    def attribute(self, given: Any, key: str, name: str) -> Any:
        """An argument that says how something is done."""
        return dtype_named(given) if key == "dtype" else self.value(given)

    def error(self, tree: Any, what: str) -> TypeError:
        """What Python would raise."""
        return TypeError(what)

    def _name(self, tree: ast.Name, out: str) -> Any:
        if tree.id not in self.scope:
            raise NameError(f"there is no value {tree.id!r} here")
        return self.scope[tree.id]

    def _dict(self, tree: ast.Dict, out: str) -> dict[Any, Any]:
        made = {self.value(key): self.value(value) for key, value in zip(tree.keys, tree.values, strict=True) if key is not None}
        _listed([*made.values()])
        return made

    def _slice(self, tree: ast.Slice, out: str) -> slice:
        return slice(*(None if part is None else self.value(part) for part in (tree.lower, tree.upper, tree.step)))

    def _subscript(self, tree: ast.Subscript, out: str) -> Any:
        value, index = self.value(tree.value), self.value(tree.slice)
        if isinstance(value, np.ndarray):
            _refuse_picked(value, index)
        return value[index]

    def _call(self, tree: ast.Call, out: str) -> Any:
        name = dotted(tree.func) or ""
        op = str(op_of(name))
        entry = KERNELS[DOMAIN, op][-1]
        inputs, attrs = self.arguments(tree, name, entry.run)
        if name.startswith("numpy."):
            inputs = [in_a_row(value) if isinstance(value, list | tuple) else value for value in inputs]
        if name in _OF_NUMPY:
            return _OF_NUMPY[name](*inputs, **attrs)
        if name.startswith("numpy.") and name.removeprefix("numpy.") in NUMPY_OPERATORS:
            return _operator(name.removeprefix("numpy."), op, inputs)
        if name == "sum" and any(isinstance(value, list | tuple) for value in inputs[1:]):
            raise TypeError("sum joins no lists in an expression")
        return entry.run(*inputs, **attrs, **({"rng": _numbers()} if name.startswith(RANDOM) else {}))


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


def _is_meant(op: str, lists: Sequence[ast.expr]) -> bool:
    """Whether an expression surely means lists: it joins two that it writes out, or repeats one element, ``[0] * n``."""
    written = [part for part in lists if isinstance(part, ast.List)]
    return len(written) == len(lists) and (op == "add" or all(len(part.elts) < 2 for part in written))


def combined(op: str, left: Any, right: Any, text: str) -> Any:
    """What an operator gives of two values of a graph; ``text`` is what combines them."""
    return on_lists(op, (left, right), text) if list in (type(left), type(right)) else arithmetic(op, left, right)


def on_lists(op: str, values: Sequence[Any], text: str, names: Sequence[str] = (), is_meant: bool = False) -> Any:
    """What an operator gives of Python's lists, with a warning where it is not what it gives of the arrays that they may mean.

    Parameters
    ----------
    op : str
    values : sequence
    text : str
        What is computed, for the warning.
    names : sequence of str
        Those of the lists.
    is_meant : bool
        Whether lists are surely meant.
    """
    arrays = " and ".join(f"numpy.array({name})" for name in dict.fromkeys(names)) or "numpy.array(...) around the list"
    cure = f"to compute with each element write {arrays}, or write the list as the value of a parameter"
    try:
        result = arithmetic(op, *values) if len(values) > 1 else run(op, *values)
    except TypeError as error:
        raise TypeError(f"{error}; {cure}") from error
    said = _REPEATED.get(op, "compares whole lists" if op in COMPARISONS and isinstance(result, bool) else "")
    if said and not is_meant and isinstance(result, bool | list) and all(map(_is_of_numbers, values)):
        place = f"node {node!r}: " if (node := node_at_work.get()) else ""
        _warn(f"{place}{text} {said} {OF_PYTHON}; {cure}")
    return result


def _warn(message: str) -> None:
    """Warn, once in the outermost run."""
    run = start_run()
    while run.enclosing is not None:
        run = run.enclosing
    run.warn_once(message, message)


_REPEATED = {"multiply": "repeats a list", "add": "joins lists"}

OF_PYTHON = "of Python, as MDF's engine does"
"""What the warning says in any case."""


def _is_of_numbers(value: Any) -> bool:
    try:
        return in_a_row([value]).dtype.kind in "biufc"
    except ValueError:  # rows of several lengths
        return False


def warn_of_lists(text: str, scope: Mapping[str, Any]) -> None:
    """Warn of lists that an expression repeats or joins, if Python evaluates it; only its names and numbers are looked at."""
    if list not in map(type, scope.values()) or (tree := tree_if_any(text)) is None:
        return
    sums = [part for part in ast.walk(tree) if isinstance(part, ast.BinOp) and type(part.op) in (ast.Add, ast.Mult)]
    for part in sums:
        operands = [part.left, part.right]
        names = [each.id for each in operands if isinstance(each, ast.Name) and type(scope.get(each.id)) is list]
        if names and all(isinstance(each, ast.Constant) or getattr(each, "id", None) in scope for each in operands):
            with contextlib.suppress(TypeError, OverflowError, ValueError):  # which Python's evaluation raises
                Evaluation(scope).value(part)


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
