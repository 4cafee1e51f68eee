"""One way through the tree of an expression, for all that is made of expressions: nodes of a body, or a value at once."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from mdf_loop.readers.expressions.expression_text import CONSTANTS, OPERATORS, PLAIN
from mdf_loop.readers.expressions.function_calls import SEQUENCES, Omitted, bind, dotted, signed
from mdf_loop.readers.expressions.values import UNKNOWN

T = TypeVar("T")

_METHODS: dict[type, str] = {kind: f"_{kind.__name__.lower()}" for kind in (*PLAIN, ast.Constant, ast.Attribute, ast.Call)}
"""What goes through parts of each kind."""


class Walker(ABC, Generic[T]):
    """Goes through an expression that was checked; ``T`` is what is made of each part.

    ``out`` is a name kept for the value of a part, where parts have names.
    """

    def value(self, tree: ast.expr, out: str = "") -> T:
        """What is made of a part."""
        made: T = getattr(self, _METHODS[type(tree)])(tree, out)
        return made

    def operand(self, tree: ast.expr) -> T:
        """The same of a part that an operator takes."""
        return self.value(tree)

    @abstractmethod
    def known(self, value: Any) -> T:
        """A value that stands in the text."""

    @abstractmethod
    def display(self, parts: list[T], kind: type) -> T:
        """A list or tuple that is written out."""

    @abstractmethod
    def operation(self, op: str, values: Sequence[T], tree: ast.expr, out: str) -> T:
        """An operator on one value or two."""

    @abstractmethod
    def logical(self, op: str, left: T, right: Callable[[], T], out: str) -> T:
        """``left and right``, ``left or right``: the right one only where it is needed."""

    @abstractmethod
    def either(self, condition: T, then: Callable[[], T], otherwise: Callable[[], T], out: str) -> T:
        """One of two values, of which only that is computed."""

    @abstractmethod
    def elements(self, value: T, name: str, tree: ast.expr) -> Iterable[T]:
        """The elements of the list that a function takes."""

    @abstractmethod
    def argument(self, given: T | ast.expr, tree: ast.expr) -> T | None:
        """An argument of a call; None where it is omitted."""

    @abstractmethod
    def attribute(self, given: ast.expr, key: str, name: str) -> Any:
        """An argument of a call that says how it is done."""

    @abstractmethod
    def error(self, tree: Any, what: str) -> Exception:
        """An error at a place of the text."""

    def _constant(self, tree: ast.Constant, out: str) -> T:
        return self.known(tree.value)

    def _attribute(self, tree: ast.Attribute, out: str) -> T:
        name = dotted(tree) or ""
        if name not in CONSTANTS and name != "numpy.newaxis":
            raise self.error(tree, f"{name} must be called, or is not a number")
        return self.known(getattr(math, tree.attr) if name in CONSTANTS else None)

    def _list(self, tree: ast.List, out: str) -> T:
        return self.display([self.value(part) for part in tree.elts], list)

    def _tuple(self, tree: ast.Tuple, out: str) -> T:
        return self.display([self.value(part) for part in tree.elts], tuple)

    def _unaryop(self, tree: ast.UnaryOp, out: str) -> T:
        if (number := signed(tree)) is not UNKNOWN:
            return self.known(number)
        return self.operation(OPERATORS[type(tree.op)], [self.operand(tree.operand)], tree, out)

    def _binop(self, tree: ast.BinOp, out: str) -> T:
        chain: list[ast.BinOp] = []
        left: ast.expr = tree
        while isinstance(left, ast.BinOp):  # a + b + c ... may be long
            chain.append(left)
            left = left.left
        value = self.value(left)
        for part in reversed(chain):
            op, right = OPERATORS[type(part.op)], self.value(part.right)
            value = self.operation(op, [value, right], part, out if part is tree else "")
        return value

    def _compare(self, tree: ast.Compare, out: str) -> T:
        return self._comparison(self.operand(tree.left), tree, 0, out)

    def _comparison(self, left: T, tree: ast.Compare, place: int, out: str) -> T:
        """``a < b < c`` is ``a < b and b < c``, with b computed once."""
        right, following = self.operand(tree.comparators[place]), place + 1
        is_last = following == len(tree.ops)
        holds = self.operation(OPERATORS[type(tree.ops[place])], [left, right], tree, out if is_last else "")
        return holds if is_last else self.logical("and", holds, lambda: self._comparison(right, tree, following, ""), out)

    def _boolop(self, tree: ast.BoolOp, out: str) -> T:
        op = "and" if isinstance(tree.op, ast.And) else "or"
        value = self.operand(tree.values[0])
        for k, part in enumerate(tree.values[1:], 2):
            value = self.logical(op, value, partial(self.operand, part), out if k == len(tree.values) else "")
        return value

    def _ifexp(self, tree: ast.IfExp, out: str) -> T:
        return self.either(self.operand(tree.test), lambda: self.operand(tree.body), lambda: self.operand(tree.orelse), out)

    def arguments(self, tree: ast.Call, name: str, run: Callable[..., Any]) -> tuple[list[T | None], dict[str, Any]]:
        """The inputs and attributes of a call, by the signature of the kernel ``run``."""
        args: list[Any] = list(tree.args)
        count = None
        if name in SEQUENCES and args:
            args[:1] = self.elements(self.value(args[0]), name, tree)
            count = len(args) - len(tree.args) + 1
        try:
            inputs, attrs = bind(run, name, args, {keyword.arg or "": keyword.value for keyword in tree.keywords}, count)
        except TypeError as error:
            raise self.error(tree, str(error)) from error
        values = [self._omitted(given) if isinstance(given, Omitted) else self.argument(given, tree) for given in inputs]
        return values, {key: self.attribute(given, key, name) for key, given in attrs.items()}

    def _omitted(self, given: Omitted) -> T | None:
        return None if given.value is None else self.known(given.value)
