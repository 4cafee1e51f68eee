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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdf_loop.errors import LoopError, MalformedBody, Together, UnsupportedOp, did_you_mean
from mdf_loop.ir import Body
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS
from mdf_loop.readers.expressions.derivatives import draws, refuse_standing_time
from mdf_loop.readers.expressions.equation_texts import (
    NUMBERS,
    Equations,
    check_names,
    equations_in,
    is_equations,
    refuse_of_other_kinds,
    texts_of,
    unused,
)
from mdf_loop.readers.expressions.expression import Compiler
from mdf_loop.readers.expressions.expression_text import (
    DEEPEST,
    NEXT,
    excerpt,
    filled,
    instead_of,
    is_of_library,
    name_in_next,
    next_of,
    parse,
    tree_of,
    variables,
)
from mdf_loop.readers.expressions.function_calls import BUILTINS, DRAWN, OPERATORS, dotted, op_of, signed
from mdf_loop.readers.expressions.other_notations import meant_by_list
from mdf_loop.readers.expressions.values import DOMAIN, UNKNOWN, BodyBuilder, Findings, NotCompiled, Number, Value
from mdf_loop.readers.onnx.opsets import DEFAULT_OPSET

__all__ = ["EQUATIONS", "is_equations", "read_equations"]

EQUATIONS = "equations"
"""What a body of equations is called."""

DRAWS = {
    "noise": ("numpy.random.randn", "numpy.random.normal"),
    "uniform": ("numpy.random.rand", "numpy.random.uniform"),
    "random": ("numpy.random.rand", "numpy.random.uniform"),
}
"""Random numbers: ``noise()`` is one, ``noise(x)`` as many as x has elements."""

DISTRIBUTIONS = {"normal": (2, "mean, spread"), "uniform": (2, "low, high"), "poisson": (1, "rate")}
"""Functions of numpy.random by their names: how many arguments they take, and which; as many numbers as these have."""

SPECIAL = {"erf": "scipy.special.erf"}
"""Functions of scipy's."""

FORMULAS: dict[str, tuple[dict[str, str | None], str]] = {
    "sigmoid": ({"x": None}, "1 / (1 + numpy.exp(-x))"),
    "expit": ({"x": None}, "1 / (1 + numpy.exp(-x))"),
    "logistic": (
        {"x": None, "gain": "1.0", "bias": "0.0", "offset": "0.0"},
        "1 / (1 + numpy.exp(-1 * gain * (x + bias) + offset))",
    ),
    "relu": ({"x": None}, "numpy.maximum(x, 0)"),
    "softmax": ({"x": None}, "numpy.exp(x - numpy.max(x)) / numpy.sum(numpy.exp(x - numpy.max(x)))"),
}
"""Functions that are formulas: their parameters with defaults, and what they are.  ``logistic`` is MDF's."""

ARRAY_FUNCTIONS: dict[str, tuple[str, str | None]] = {
    "sum": ("numpy.sum", None),
    "round": ("numpy.round", None),
    "min": ("numpy.min", "numpy.minimum"),
    "max": ("numpy.max", "numpy.maximum"),
}
"""Functions that Python has too, and that mean numpy's here: of one array, and of several."""


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
        raise MalformedBody(f"equations: {error}, which is not possible here") from error
    return check_body(body, (EQUATIONS,))


TAU = (
    "tau is 2 pi, where no value of that name is given; give tau=..., write 2 * pi, or require a value with a line captured: tau"
)


def reads_tau(said: Equations) -> bool:
    """Whether ``tau`` is a number, since nothing has that name: most equations mean a time constant."""
    own = {*said.names, *said.let, *said.captured, said.index}
    return "tau" not in own and any("tau" in text and "tau" in variables(tree_of(text)) for *_, text in texts_of(said))


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
        self.condition = unused("condition", {*inner, *captured})
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
        return replace(made, ends=said.going is not None)

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
        self.together.add(MalformedBody(what, self._path(self.places[names[0]])))
        self.together.settle()

    def _value(self, place: str, base: str, scope: Mapping[str, Value]) -> Value:
        """A value; what is wrong with its expression is kept, and another value takes its place."""
        if place not in self.trees:
            return Value(base)
        self.builder.place = "/".join(self._path(place))
        try:
            _refuse_no_value(self.trees[place], self._text(place), self._path(place))
            value = Compiler(self._text(place), scope, self.builder, base, self._path(place)).top(self.trees[place])
            return self.builder.array(value, base)
        except LoopError as error:
            self.together.add(error)
        except NotCompiled as error:
            meant = "; array([...]) makes an array of a list" if "Python list" in str(error) else ""
            self.together.add(MalformedBody(f"{error}, which is not possible here{meant}", self._path(place)))
        return Value(base)

    def _settled(self, place: str, base: str, scope: Mapping[str, Value], is_carried: bool = True) -> Value:
        """A value that leaves the body: an array, whose type does not depend on Python's numbers."""
        value = self._value(place, base, scope)
        return self.builder.tensor(value, base, floating=value.number >= Number.FLOAT) if is_carried else value

    def _text(self, place: str) -> str:
        return next(text for found, _, text in texts_of(self.said) if found == place)

    def _path(self, place: str) -> tuple[str, ...]:
        line = self.said.lines.get(place)
        return (EQUATIONS, f"line {line}" if line else place.removeprefix("carried "))

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
            return parse(text, self._path(place), lambda tree: _Plain(known, self.said.carried, is_after).visit(tree))
        except UnsupportedOp as error:
            path = f"{'/'.join(self._path(place))}: "
            raise UnsupportedOp(path + str(error).removeprefix(path)) from error


_BITS = {ast.BitAnd: ("&", "and"), ast.BitOr: ("|", "or")}
"""Operators on bits that are written where comparisons are joined."""


def _refuse_no_value(tree: ast.expr, text: str, path: tuple[str, ...]) -> None:
    """See that an equation is a value: not None, and no tuple by a comma in a number."""
    if isinstance(tree, ast.Constant) and tree.value is None:
        raise MalformedBody(f"expression {excerpt(text)} is no value", path)
    if isinstance(tree, ast.Tuple) and text.strip()[:1] != "(":
        meant = ": a number has a point, 0.1, and a list brackets, [a, b]"
        if all(isinstance(part, ast.Compare) for part in tree.elts):
            meant = meant_by_list([*map(ast.unparse, tree.elts)], is_condition=True)
        raise MalformedBody(f"expression {excerpt(text)} has a comma{meant}", path)


def _refuse_others(tree: ast.Call) -> ast.Call:
    """The call, unless another generator than numpy's functions draws random numbers, or another library has the function."""
    if not isinstance(tree.func, ast.Attribute) or op_of(dotted(tree.func) or "") is not None:
        return tree
    name, missing = tree.func.attr, f"there is no function {ast.unparse(tree.func)!r}"
    if name in DRAWN:
        raise UnsupportedOp(f"{missing}; {instead_of(name, tree.args)}")
    if is_of_library(tree.func):
        written = ast.unparse(_at(ast.Call(ast.Name(name, ast.Load()), tree.args, tree.keywords), tree))
        _Plain(set()).visit(tree_of(written))  # which says what else is wrong
        raise UnsupportedOp(f"{missing}; write {written}")
    return tree


class _Plain(ast.NodeTransformer):
    """Functions and numbers by their names alone, as formulas have them: ``sqrt(x)`` is ``numpy.sqrt(x)``."""

    def __init__(self, known: set[str], carried: Collection[str] = (), is_after: bool = False) -> None:
        self.known, self.carried, self.is_after = known, carried, is_after

    def visit_Call(self, tree: ast.Call) -> ast.AST:
        """A call; one of a function that is not there stays as it is, to be refused by name."""
        self.generic_visit(tree)
        if not isinstance(tree.func, ast.Name):
            return _refuse_others(tree)
        name = tree.func.id
        if name == NEXT:
            return self._next(tree)
        if name in ARRAY_FUNCTIONS:
            return self._of_arrays(name, tree)
        if name in BUILTINS:
            return tree
        if name in FORMULAS:
            return self._by_formula(name, tree)
        if name in SPECIAL:  # a name with dots, which no text can say
            tree.func = _at(ast.Name(SPECIAL[name], ast.Load()), tree)
            return tree
        if name in DISTRIBUTIONS and len(tree.args) == DISTRIBUTIONS[name][0] and (name not in DRAWS or len(tree.args) > 1):
            tree.func = _dotted(f"numpy.random.{name}", tree)
            return tree
        if name in DISTRIBUTIONS and name not in DRAWS:
            raise UnsupportedOp(f"it is {name}({DISTRIBUTIONS[name][1]}); got {ast.unparse(tree)}")
        if name in DRAWS and not tree.keywords and len(tree.args) <= 1 and signed(tree.args[0] if tree.args else tree) is UNKNOWN:
            alone, alike = DRAWS[name]
            if not tree.args:
                return _at(ast.Call(_dotted(alone, tree), [], []), tree)
            zeros = _at(ast.Call(_dotted("numpy.zeros_like", tree), tree.args, []), tree)
            return _at(ast.Call(_dotted(alike, tree), [zeros], []), tree)
        if name in DRAWS:
            more = f", {name}({DISTRIBUTIONS[name][1]}) one between these" if name in DISTRIBUTIONS else ""
            raise UnsupportedOp(
                f"{name}() draws one number, {name}(x) as many as x has{more}; it takes nothing else: scale what it gives"
            )
        module = next((each for each in ("numpy", "math", "numpy.linalg") if op_of(f"{each}.{name}") is not None), "")
        if module:
            tree.func = _dotted(f"{module}.{name}", tree)
        else:
            drawn = f"; {instead_of(name, tree.args)}" if name in DRAWN and name not in _MEANT else ""
            value = f"; if it is a value, {name}[...] is an element of it, and {name} * (...) a product"
            raise UnsupportedOp(f"there is no function {name!r}{drawn or (name not in self.known and _close(name)) or value}")
        return tree

    def _next(self, tree: ast.Call) -> ast.expr:
        """``next(x)``, the value that the iteration gives to a carried one."""
        name = name_in_next(tree)
        if name not in self.carried:
            known = f"carried are {', '.join(self.carried)}" if self.carried else "nothing is carried"
            raise UnsupportedOp(f"{NEXT}(x) is the new value of x, which is carried; got {ast.unparse(tree)}, and {known}")
        if self.is_after:
            raise UnsupportedOp(
                f"while and collected read new values: {name} is {ast.unparse(tree)} here. What compares both values of an "
                f"iteration is carried: moved: abs(next({name}) - {name})"
            )
        return _at(ast.Name(next_of(name), ast.Load()), tree)

    def visit_Attribute(self, tree: ast.Attribute) -> ast.AST:
        """``A.T``, the matrix with its axes in the other order."""
        self.generic_visit(tree)
        is_transposed = tree.attr == "T" and dotted(tree) is None
        return _at(ast.Call(_dotted("numpy.transpose", tree), [tree.value], []), tree) if is_transposed else tree

    def visit_BinOp(self, tree: ast.BinOp) -> ast.AST:
        """An operator; ``x ^ 2`` would be the exclusive or of two whole numbers."""
        if isinstance(tree.op, ast.BitXor) and signed(tree.right) is not UNKNOWN:
            power = f"{ast.unparse(tree.left)} ** {ast.unparse(tree.right)}"
            raise UnsupportedOp(f"^ is the exclusive or of whole numbers, bitwise_xor(a, b); a power is written **: {power}")
        return self.generic_visit(tree)

    def visit_Compare(self, tree: ast.Compare) -> ast.AST:
        """Comparisons; ``a < b & c < d`` compares with the bits of ``b & c``."""
        for part in tree.comparators[:-1]:
            if isinstance(part, ast.BinOp) and (sign := _BITS.get(type(part.op))):
                raise UnsupportedOp(f"{sign[0]} comes before comparisons; between them write {sign[1]}")
        return self.generic_visit(tree)

    def _by_formula(self, name: str, tree: ast.Call) -> ast.expr:
        """A function as its formula, with its arguments in it."""
        parameters, text = FORMULAS[name]
        given = dict(zip(parameters, tree.args, strict=False)) | {word.arg or "": word.value for word in tree.keywords}
        missing = [key for key, default in parameters.items() if default is None and key not in given]
        if len(tree.args) > len(parameters) or missing or not given.keys() <= parameters.keys():
            raise UnsupportedOp(f"it is {name}({', '.join(parameters)}); got {ast.unparse(tree)}")
        if name == "softmax" and draws(given["x"]):
            raise UnsupportedOp(f"{name} reads its argument twice, which draws random numbers; give it a name with let first")
        defaults = {key: tree_of(default) for key, default in parameters.items() if default is not None}
        return ast.fix_missing_locations(_at(filled(tree_of(text), defaults | given), tree))

    def _of_arrays(self, name: str, tree: ast.Call) -> ast.Call:
        """``sum(x)`` is that of all elements, and ``max(a, b)`` goes by elements, as formulas mean them."""
        alone, several = ARRAY_FUNCTIONS[name]
        if len(tree.args) == 1 or tree.keywords or several is None:
            tree.func = _dotted(alone, tree)
            return tree
        made = tree.args[0]
        for other in tree.args[1:]:
            made = _at(ast.Call(_dotted(several, tree), [made, other], []), tree)
        return made if isinstance(made, ast.Call) else tree

    def visit_Name(self, tree: ast.Name) -> ast.AST:
        """A name that is a number, where the body does not have it."""
        return _dotted(NUMBERS[tree.id], tree) if tree.id in NUMBERS and tree.id not in self.known else tree


_MEANT = {
    **dict.fromkeys(("randn", "rnorm"), "noise"),
    "runif": "uniform",
    "rpois": "poisson",
    "gauss": "normal",
    "rand": "uniform",
    "ln": "log",
    "step": "heaviside",
    "sgn": "sign",
    **dict.fromkeys(("if_else", "ifelse", "if_then_else", "iif", "If", "if_", "cond", "select", "choose"), "where"),
}
"""What functions of Python, numpy and others are called here that another name is closer to."""


def functions_of_equations() -> dict[str, str]:
    """Calls that equations may have, with what the reader makes of each: ``{"noise()": "numpy.random.randn()", ...}``."""
    load_kernels()
    calls = [call for name in DRAWS for call in (f"{name}()", f"{name}(x)")]
    calls += [f"{name}({arguments})" for name, (_, arguments) in DISTRIBUTIONS.items()]
    calls += [f"{name}({', '.join(parameters)})" for name, (parameters, _) in FORMULAS.items()]
    calls += [f"{name}(x)" for name in (*SPECIAL, *ARRAY_FUNCTIONS)]
    calls += [f"{name}(a, b)" for name, (_, several) in ARRAY_FUNCTIONS.items() if several]
    kernels = [op.partition(".")[2] for domain, op in KERNELS if domain == DOMAIN and op.startswith(("numpy.", "math."))]
    calls += [f"{name}(...)" for name in (*BUILTINS, *OPERATORS, *kernels)]
    known = {call.partition("(")[0] for call in calls if "..." not in call}
    return {
        call: ast.unparse(_Plain(set()).visit(tree_of(call)))
        for call in sorted(dict.fromkeys(calls))
        if "." not in (name := call.partition("(")[0]) and not ("..." in call and name in known)
    }


def meant_by(name: str) -> list[str]:
    """What other libraries call a function of equations."""
    return [other for other, ours in _MEANT.items() if ours == name]


def _close(name: str) -> str:
    functions = [op.partition(".")[2] for domain, op in KERNELS if domain == DOMAIN and op.startswith(("numpy.", "math."))]
    known = [*functions, *DRAWS, *DISTRIBUTIONS, *FORMULAS, *BUILTINS]
    return f"; did you mean {_MEANT[name]!r}?" if name in _MEANT else did_you_mean(name, known)


def _at(made: Any, tree: ast.AST) -> Any:
    return ast.copy_location(made, tree)


def _dotted(name: str, tree: ast.AST) -> Any:
    head, *rest = name.split(".")
    made: Any = _at(ast.Name(head, ast.Load()), tree)
    for part in rest:
        made = _at(ast.Attribute(made, part, ast.Load()), tree)
    return made
