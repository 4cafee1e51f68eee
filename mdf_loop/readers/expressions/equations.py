"""Bodies as equations: one line for each carried value, for each that is collected, and for the condition.

As text::

    let step: drift * dt + sqrt(dt) * noise()
    x: x + step
    t: t + dt
    collect path: x
    while: abs(x) < bound

and the same as a mapping, for model files::

    let: {step: drift * dt + sqrt(dt) * noise()}
    carried: {x: x + step, t: t + dt}
    collected: {path: x}
    while: abs(x) < bound

Names on the right of ``let`` and of carried values are values as the iteration found them, all of them, so equations can
be written in any order; ``next(x)`` is what the iteration makes of x.  ``collect`` and ``while`` see what the iteration made.
Any other name is captured; a few are numbers (:data:`NUMBERS`) or the iteration number unless ``captured: [tau]`` says that
they come from outside, as do all names that a node of MDF or a call has.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdf_loop.errors import LoopError, MalformedBody, Together, UnsupportedOp
from mdf_loop.ir import Body
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.readers.expressions.derivatives import STEP, refuse_standing_time
from mdf_loop.readers.expressions.equation_texts import (
    Equations,
    check_names,
    equations_in,
    is_equations,
    refuse_of_other_kinds,
    texts_of,
)
from mdf_loop.readers.expressions.expression import Compiler
from mdf_loop.readers.expressions.expression_text import (
    DEEPEST,
    NEXT,
    excerpt,
    next_of,
    parse,
    tree_of,
    variables,
)
from mdf_loop.readers.expressions.formula_names import FormulaNames
from mdf_loop.readers.expressions.other_notations import meant_by_list
from mdf_loop.readers.expressions.values import BodyBuilder, Findings, NotCompiled, Number, Value
from mdf_loop.readers.onnx.opsets import DEFAULT_OPSET

__all__ = ["EQUATIONS", "is_equations", "read_equations"]

EQUATIONS = "equations"
"""What a body of equations is called."""


def read_equations(source: Any, kind: str = "loop") -> Body:
    """Equations as a body.

    Parameters
    ----------
    source : mapping or str
    kind : {"loop", "scan", "branch"}
        What the body is for: its inputs and outputs follow from that.  In a branch what is carried are its outputs.

    Returns
    -------
    Body
        Untyped: values keep the types they come with.

    Raises
    ------
    MalformedBody
        Something in it is no equation, or no expression; says which line; ``others`` say what else is wrong.
    UnsupportedOp
        It calls a function there is none of.
    """
    load_kernels()
    said = equations_in(source)
    refuse_of_other_kinds(said, kind)
    check_names(said)
    if kind == "loop":
        refuse_standing_time(said, said.index)
    findings = Findings()
    try:
        body = findings.settled(lambda: _Reader(said, kind, findings).body())
    except NotCompiled as error:
        raise MalformedBody(f"equations: {error}, which is not possible here{error.cure}") from error
    except LoopError:
        _read_as_written(said, kind)
        raise
    return check_body(body, (EQUATIONS,))


def _read_as_written(said: Equations, kind: str) -> None:
    """Read derivatives for what is wrong with them as they are written, not with what a method makes of them.

    Raises
    ------
    MalformedBody, UnsupportedOp
    """
    if said.derivatives:
        lets = {name: text for name, text in said.let.items() if name not in said.stages}
        plain = replace(said, carried=said.carried | said.derivatives, let=lets, derivatives={}, stages={})
        findings = Findings()
        findings.settled(lambda: _Reader(plain, kind, findings).body())


TAU = (
    "tau is 2 pi, where no value of that name is given; give tau=..., write 2 * pi, or require a value with a line captured: tau"
)


def reads_tau(said: Equations) -> bool:
    """Whether ``tau`` is a number, since nothing has that name: most equations mean a time constant."""
    own = {*said.names, *said.let, *said.captured, said.index}
    return "tau" not in own and any("tau" in text and "tau" in variables(tree_of(text)) for *_, text in texts_of(said))


def reads_step(said: Equations) -> bool:
    """Whether an iteration reads the length of a step, as derivatives do."""
    return any(re.search(rf"\b{STEP}\b", text) for *_, text in texts_of(said))


class _Reader:
    """Equations on their way into a body."""

    def __init__(self, said: Equations, kind: str, findings: Findings) -> None:
        self.said, self.kind, self.together = said, kind, Together()
        inner = {*said.names, *said.let, *([said.index] if kind == "loop" else ())}
        self.places = {name: f"let {name}" for name in said.let} | {next_of(name): f"carried {name}" for name in said.carried}
        self.trees = self._trees(inner)
        inner |= self.places.keys()
        free = {name for tree in self.trees.values() for name in variables(tree)} - inner
        captured = sorted(free)
        self.condition = FreshNames((*inner, *captured)).fresh("condition")
        first = {"loop": (said.index, self.condition), "scan": (), "branch": ()}[kind]
        entering = () if kind == "branch" else said.names
        self.builder = BodyBuilder(findings, (*first, *entering), captured, DEFAULT_OPSET)
        self.begin: dict[str, Value] = {name: Value(name) for name in (*first, *entering)}
        self.begin |= {name: Value(name, varies=False) for name in captured}

    def body(self) -> Body:
        """Everything, in order."""
        said, builder = self.said, self.builder
        for name in self._ordered():
            place = self.places[name]
            if name in said.let:
                self.begin[name] = self._value(place, name, self.begin)
            else:
                self.begin[name] = self._settled(place, f"{place.removeprefix('carried ')}_next", self.begin)
        new = {name: self.begin[next_of(name)] for name in said.carried}
        after = {**self.begin, **new}
        collected = [self._settled(f"collect {name}", name, after, False) for name in said.collected]
        going = [self._value("while", "while", after) if said.going else Value(self.condition)] if self.kind == "loop" else []
        self.together.settle()
        made = builder.finish(EQUATIONS, [*going, *new.values(), *collected])
        rows = {name: f"collect {name}" for name in said.collected} | ({} if said.going is None else {"while": "while"})
        rows = {name: "/".join(said.path(place)) for name, place in rows.items()}  # also of values with other names
        unread = tuple(name for name in said.captured if name not in made.captures)
        return replace(made, ends=said.going is not None, places={**rows, **made.places}, unread=unread)

    def _ordered(self) -> list[str]:
        """The names of ``let`` and of new values, each behind those that it reads.

        Raises
        ------
        MalformedBody
            Some of them read each other in a circle.
        """
        ordered: list[str] = []

        def add(name: str, waiting: tuple[str, ...]) -> None:
            for read in variables(self.trees[place]) if (place := self.places[name]) in self.trees else ():
                if read in waiting:
                    self._refuse_circle((*waiting[waiting.index(read) :], read))
                if read in self.places and read not in ordered and len(waiting) < DEEPEST:
                    add(read, (*waiting, read))
            if name not in ordered:
                ordered.append(name)

        for name in self.places:
            add(name, (name,))
        return ordered

    def _refuse_circle(self, names: Sequence[str]) -> None:
        said = ", ".join(f"{name} reads {'itself' if name == read else read}" for name, read in itertools.pairwise(names))
        new = next((name for name in names if name not in self.said.let), "")
        what = f"{'equations are' if new else 'let is'} circular: {said}; what an iteration reads of the one before it is "
        what += f"{new[len(NEXT) + 1 : -1]}, without {NEXT}" if new else "carried, not let"
        self.together.add(MalformedBody(what, self.said.path(self.places[names[0]])))
        self.together.settle()

    def _value(self, place: str, base: str, scope: Mapping[str, Value]) -> Value:
        """A value; what is wrong with its expression is kept, and another value takes its place."""
        if place not in self.trees:
            return Value(base)
        self.builder.place = "/".join(self.said.path(place))
        try:
            _refuse_no_value(self.trees[place], self._text(place), self.said.path(place))
            value = Compiler(self._text(place), scope, self.builder, base, self.said.path(place)).top(self.trees[place])
            return self.builder.array(value, base)
        except LoopError as error:
            self.together.add(error)
        except NotCompiled as error:
            self.together.add(MalformedBody(f"{error}, which is not possible here{error.cure}", self.said.path(place)))
        return Value(base)

    def _settled(self, place: str, base: str, scope: Mapping[str, Value], is_carried: bool = True) -> Value:
        """A value that leaves the body: an array, whose type does not depend on Python's numbers."""
        value = self._value(place, base, scope)
        return self.builder.tensor(value, base, floating=value.number >= Number.FLOAT) if is_carried else value

    def _text(self, place: str) -> str:
        return next(text for found, _, text in texts_of(self.said) if found == place)

    def _trees(self, known: set[str]) -> dict[str, ast.expr]:
        """The expressions by place, but for those that are none: what is wrong with them is kept."""
        trees, known = {}, {*known, *self.said.captured}
        for place, _, text in texts_of(self.said):
            try:
                trees[place] = self._tree(text, known, place)
            except LoopError as error:
                self.together.add(error)
        return trees

    def _tree(self, text: str, known: set[str], place: str) -> ast.expr:
        try:
            is_after = place.startswith(("collect", "while"))
            names = FormulaNames(known, self.said.carried, is_after, self.said.collected)
            return parse(text, self.said.path(place), names.visit)
        except UnsupportedOp as error:
            path = f"{'/'.join(self.said.path(place))}: "
            raise UnsupportedOp(path + str(error).removeprefix(path)) from error


def _refuse_no_value(tree: ast.expr, text: str, path: tuple[str, ...]) -> None:
    """See that an equation is a value: not None, and no tuple by a comma in a number."""
    if isinstance(tree, ast.Constant) and tree.value is None:
        raise MalformedBody(f"expression {excerpt(text)} is no value", path)
    if isinstance(tree, ast.Tuple) and text.strip()[:1] != "(":
        meant = ": a number has a point, 0.1, and a list brackets, [a, b]"
        if all(isinstance(part, ast.Compare) for part in tree.elts):
            meant = meant_by_list([*map(ast.unparse, tree.elts)], is_condition=True)
        raise MalformedBody(f"expression {excerpt(text)} has a comma{meant}", path)
