"""Expressions in text, such as ``x + dt * (inp - leak * x)``, to operators.

What an expression may say is the list of :mod:`mdf_loop.readers.expressions.expression_text`.  Nothing is computed here: each
operation becomes a node.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody
from mdf_loop.ir import Node
from mdf_loop.readers.expressions.expression_text import excerpt, number_in, parse, part_at, refuse_texts_in_list
from mdf_loop.readers.expressions.function_calls import call, dtype_named, of_several, signed
from mdf_loop.readers.expressions.values import (
    COMPARISONS,
    DOMAIN,
    UNKNOWN,
    BodyBuilder,
    NotCompiled,
    Number,
    Scope,
    Value,
    literal,
    number_of,
    read,
)
from mdf_loop.readers.expressions.walker import Walker

_ARITHMETIC = {"add", "subtract", "multiply", "negative", "positive"}
_REFUSE_TRUTH_VALUES = {"subtract", "negative", "positive"}
_HARMLESS = {
    *(*_ARITHMETIC, "absolute", "whole"),
    *COMPARISONS,
    *("numpy.logical_and", "numpy.logical_or", "numpy.logical_not"),
}
"""Operators that cannot fail but on shapes that do not go together: what Python would skip is computed all the same.

Arithmetic fails on whole numbers that a small type cannot hold as well, and differences on truth values: see :func:`harmless`.
"""


def read_expression(text: str, scope: Scope, builder: BodyBuilder, base: str, path: tuple[str, ...] = ()) -> Value:
    """The nodes of an expression.

    Parameters
    ----------
    text : str
    scope : mapping
        The values of the names it may read.
    builder : BodyBuilder
        The body the nodes are added to.
    base : str
        What the value is called in the body and in messages.
    path : tuple of str
        Where the expression stands, for errors.

    Raises
    ------
    MalformedBody, UnsupportedOp
        See :func:`parse`; or a name is not known.
    NotCompiled
        It has a meaning in Python that operators cannot express.
    """
    return Compiler(text, scope, builder, base, path).top(parse(text, path))


Part = tuple[list[Node], Value]
"""The nodes of a part of an expression, and its value."""


_ARRAY_OF_LIST = "array([...]) makes an array of a list"


class Compiler(Walker[Value]):
    """One expression on its way into nodes."""

    def __init__(self, text: str, scope: Scope, builder: BodyBuilder, base: str, path: tuple[str, ...]) -> None:
        self.text, self.scope, self.builder, self.base, self.path = text, scope, builder, base, path

    def top(self, tree: ast.expr) -> Value:
        """The whole expression: the value is called as the expression is."""
        return self.value(tree, out=self.builder.fresh(self.base))

    def operand(self, tree: ast.expr) -> Value:
        """A part as the operand of an operator: a number or an array."""
        return self.plain(self.value(tree), tree)

    def plain(self, value: Value, tree: ast.expr) -> Value:
        """A value that an operator can take.

        Raises
        ------
        NotCompiled
            A Python list or tuple: operators repeat and join those.
        MalformedBody
            It is no number or array at all.
        """
        if value.display in ("first", "outputs"):
            return self.builder.array(value, self.base)
        if value.display:
            what = f"{excerpt(self.text)} works on a Python {value.display}, which operators repeat or join"
            raise NotCompiled(what, _ARRAY_OF_LIST)
        if value.literal is not UNKNOWN and (value.literal is None or isinstance(value.literal, str | dict)):
            raise self.error(tree, f"{type(value.literal).__name__} is not a number or array")
        return value

    def node(self, op: str, inputs: Sequence[Value | None], out: str = "", number: Number = Number.NO, **attrs: Any) -> Value:
        """Add an operation of this expression."""
        return self.builder.node(op, inputs, self.base, out=out, number=number, **attrs)

    def error(self, tree: Any, what: str) -> MalformedBody:
        """An error at a place of the text."""
        return MalformedBody(f"{part_at(self.text, tree.col_offset + 1)}: {what}", self.path)

    def _constant(self, tree: ast.Constant, out: str) -> Value:
        if isinstance(tree.value, str):
            raise self.error(tree, "a text is not a value")
        return super()._constant(tree, out)

    def _name(self, tree: ast.Name, out: str) -> Value:
        if tree.id not in self.scope:
            known = ", ".join(repr(name) for name in list(self.scope)[:20]) or "none"
            raise self.error(tree, f"there is no value {tree.id!r} here; there are {known}")
        return read(self.scope, tree.id)

    def known(self, value: Any) -> Value:
        """A value that stands in the text."""
        return literal(value)

    def display(self, parts: list[Value], kind: type) -> Value:
        """A list or tuple that is written out."""
        return Value(varies=any(part.varies for part in parts), items=tuple(parts), display=kind.__name__)

    def _dict(self, tree: ast.Dict, out: str) -> Value:
        raise NotCompiled(f"{excerpt(self.text)} makes a dict")

    def operation(self, op: str, values: Sequence[Value], tree: ast.expr, out: str) -> Value:
        """The node of an operator."""
        if isinstance(tree, ast.BinOp):
            values = self._operands(values[0], values[1], tree)
        return self.node(op, values, out, number_of(op, values))

    def _operands(self, left: Value, right: Value, tree: ast.BinOp) -> tuple[Value, Value]:
        """Both sides of an operator; a list next to what is surely an array is one as well."""
        if isinstance(left.literal, np.ndarray) and right.display == "list":
            right = self.builder.array(right, self.base)
        elif isinstance(right.literal, np.ndarray) and left.display == "list":
            left = self.builder.array(left, self.base)
        return self.plain(left, tree.left), self.plain(right, tree.right)

    def logical(self, op: str, left: Value, right: Callable[[], Value], out: str) -> Value:
        """``left and right``: right is computed only if it is needed, or if that cannot be noticed."""
        known: Part = [], left
        part = self._aside(right)
        parts = (part, known) if op == "and" else (known, part)
        return self._chosen(op, [left, part[1]], *parts, out)

    def either(self, condition: Value, then: Callable[[], Value], otherwise: Callable[[], Value], out: str) -> Value:
        """One of two values; both are computed if that cannot be noticed."""
        parts = self._aside(then), self._aside(otherwise)
        return self._chosen("choose", [condition, *(value for _, value in parts)], *parts, out)

    def _aside(self, make: Callable[[], Value]) -> Part:
        """The nodes of a part that may be skipped, and its value."""
        with self.builder.branch() as nodes:
            return nodes, make()

    def _chosen(self, op: str, inputs: Sequence[Value], then: Part, otherwise: Part, out: str) -> Value:
        """An operator that chooses by its first input, or an If, of which one branch runs, as Python has it."""
        nodes, number = [*then[0], *otherwise[0]], max(then[1].number, otherwise[1].number)
        if harmless(self.builder, nodes):
            self.builder.nodes += nodes
            return self.node(op, inputs, out, number)
        condition = self.node("builtins.bool", inputs[:1], number=Number.BOOL)
        varies = condition.varies or then[1].varies or otherwise[1].varies
        first, second = ((nodes, [value]) for nodes, value in (then, otherwise))
        outputs = [out or self.builder.fresh(self.base)]
        (value,) = self.builder.one_of(condition, first, second, outputs, self.base, varies)
        return replace(value, number=number)

    def _call(self, tree: ast.Call, out: str) -> Value:
        return call(self, tree, out)

    def elements(self, value: Value, name: str, tree: ast.expr) -> Iterable[Value]:
        """The elements of the list that a function takes."""
        if value.items is None:
            raise self.error(tree, f"{name} takes a list that is written out: {name}([a, b])")
        return value.items

    def argument(self, given: Value | ast.expr, tree: ast.expr) -> Value | None:
        """An argument as an input: lists are arrays, None is an omitted one."""
        value = given if isinstance(given, Value) else self.value(given)
        if value.literal is None:
            return None
        if value.display == "shape":
            return Value(value.name, varies=value.varies)
        return self.plain(self.builder.array(value, self.base), tree)

    def attribute(self, given: ast.expr, key: str, name: str) -> Any:
        """An argument that must be known.

        Raises
        ------
        NotCompiled
            It is computed when the body runs.
        """
        if key == "dtype":
            try:
                return dtype_named(given)
            except TypeError as error:
                lengths = f"; several lengths are in brackets: {name.rpartition('.')[2]}((m, {ast.unparse(given)}))"
                is_length = signed(given) is not UNKNOWN or isinstance(given, ast.Name)
                raise self.error(given, f"{error}{lengths if is_length else ''}") from error
        value = self._literal(given)
        if value is UNKNOWN:
            number = f"{key} is a number that is written out, and {ast.unparse(given)} is none"
            raise NotCompiled(f"{key} of {name} is computed", number + of_several(name) * (key == "axis"))
        return value

    def _literal(self, tree: ast.expr) -> Any:
        """What a part is that can be known without computing it."""
        if isinstance(tree, ast.Tuple | ast.List):
            parts = tuple(map(self._literal, tree.elts))
            return UNKNOWN if UNKNOWN in parts else parts
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name) and isinstance(value := self.scope.get(tree.id), Value):
            return value.literal
        return signed(tree)

    def _subscript(self, tree: ast.Subscript, out: str) -> Value:
        value = self.value(tree.value)
        values: list[Value] = []
        template = self._index(tree.slice, values)
        if value.items is not None:
            return self._item(value, template, tree)
        if value.of is not None and value.of.items and type(template) is int:
            if not -len(value.of.items) <= template < len(value.of.items):
                raise self.error(tree, f"there are {len(value.of.items)} elements, there is no element {template}")
            return self.node("listed", [*value.of.items], out, value.of.items[template].number, place=template)
        value = self.plain(value, tree) if value.display != "shape" else value
        if value.display == "shape" and type(template) is int:
            return self.builder.node("dimension", [value.of], self.base, out=out, number=Number.INT, axis=template)
        if value.number and not value.name:
            raise self.error(tree, "a number has no elements")
        if not values:
            return self.node("index", [value], out, index=as_index(template))
        return self.node("getitem", [value, *values], out, index=template)

    def _item(self, value: Value, template: Any, tree: ast.Subscript) -> Value:
        """An element of a list or tuple that is written out, or one output of a function with several."""
        assert value.items is not None
        if type(template) is not int:
            if value.display == "list":  # an array has the same elements there
                raise NotCompiled(f"{excerpt(self.text)} takes a varying element of a Python list", _ARRAY_OF_LIST)
            raise self.error(tree, "choose one of the outputs by its number: f[0], f[1], ...")
        try:
            return value.items[template]
        except IndexError as error:
            raise self.error(tree, f"there are {len(value.items)} elements, there is no element {template}") from error

    def _index(self, tree: ast.expr, values: list[Value]) -> Any:
        """An index: known parts as they are, values by their number; see the kernel ``getitem``."""
        if isinstance(tree, ast.Slice):
            parts = (tree.lower, tree.upper, tree.step)
            return ("slice", *(None if part is None else self._index(part, values) for part in parts))
        if isinstance(tree, ast.Tuple):
            return ("tuple", *(self._index(part, values) for part in tree.elts))
        value = self.value(tree)
        if value.items is None and (value.literal is None or type(value.literal) in (int, bool, type(...))):
            return value.literal
        values.append(self.plain(self.builder.array(value, self.base), tree))
        return ("value", len(values) - 1)


def harmless(builder: BodyBuilder, nodes: Sequence[Node]) -> bool:
    """Whether running nodes that Python would skip makes no difference."""
    numbers = {name for name, value in builder.constants.items() if type(value) in (int, float)}  # surely no truth values
    for node in nodes:
        if node.domain != DOMAIN or node.op not in _HARMLESS:
            return False
        if node.op in _ARITHMETIC:
            has_number = not numbers.isdisjoint(node.inputs)
            if node.op in _REFUSE_TRUTH_VALUES and not has_number:
                return False
            if not all(_fits_all(builder.constants.get(name)) for name in node.inputs):
                return False
            numbers.update(node.outputs if has_number else ())
    return True


def _fits_all(value: Any) -> bool:
    """Whether a value, if it is Python's whole number, is one that every type of numpy can hold."""
    return type(value) is not int or 0 <= value <= 127


def as_index(template: Any) -> Any:
    """An index in which everything is known."""
    if type(template) is not tuple:
        return template
    kind, *parts = template
    filled = [as_index(part) for part in parts]
    return slice(*filled) if kind == "slice" else tuple(filled)


def evaluated(source: Any, scope: Scope, builder: BodyBuilder, base: str, path: tuple[str, ...]) -> Value:
    """What MDF's ``evaluate_expr`` makes of something that is a value or the text of one.

    The name of a value is that value; lists are arrays; the text of a number is that number; any other text
    is an expression, and a Python float without a fraction that comes out of one becomes an int.

    Raises
    ------
    MalformedBody, UnsupportedOp, NotCompiled
        See :func:`read_expression`; or it is neither text nor a value.
    """
    if isinstance(source, str):
        return _evaluated_text(source, scope, builder, base, path)
    if isinstance(source, list):
        refuse_texts_in_list(source, scope, path)
        try:
            return literal(np.array(source)) if not source else builder.array(literal(source), base)
        except MalformedBody as error:
            raise MalformedBody(str(error), path) from error
    if isinstance(source, np.ndarray):
        return literal(source.astype(object) if source.dtype.kind in "US" else source.copy())
    if source is None or isinstance(source, bool | int | float | complex | np.generic | tuple | dict):
        return literal(source)
    if callable(source) or hasattr(source, "nodes") or hasattr(source, "SerializeToString"):
        return literal(source)  # the body of a loop
    raise MalformedBody(f"a value is a number, a list, an array or the text of an expression; got {type(source).__name__}", path)


def _listed(value: Value, builder: BodyBuilder, base: str) -> Value:
    """A list by its name: an array where it can be one, a list where its rows are not alike, as in MDF."""
    try:
        array = builder.array(value, base)
    except MalformedBody:
        return value
    is_row = value.items is not None and all(item.items is None for item in value.items)
    return replace(array, of=value) if is_row and array.name else array


def _evaluated_text(text: str, scope: Scope, builder: BodyBuilder, base: str, path: tuple[str, ...]) -> Value:
    if text in scope:
        value = read(scope, text)
        return _listed(value, builder, base) if value.display == "list" else value
    if (number := number_in(text)) is not None:
        return literal(number)
    value = read_expression(text, scope, builder, base, path)
    if value.number < Number.FLOAT:
        return value
    return builder.node("whole", [value], base, number=value.number)
