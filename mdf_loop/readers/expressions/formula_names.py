"""Functions and operators of equations by the names that formulas have: ``sqrt(x)``, ``sigmoid(x)``, ``noise()``, ``next(x)``.

Each becomes a call or an expression that all readers of expressions know: ``sqrt(x)`` is ``numpy.sqrt(x)``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import UnsupportedOp
from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.mdf.expression_functions import OF_MATH
from mdf_loop.kernels.mdf.expression_operators import NO_POWER
from mdf_loop.ops.registry import KERNELS
from mdf_loop.readers.expressions.derivatives import draws
from mdf_loop.readers.expressions.equation_texts import NUMBERS
from mdf_loop.readers.expressions.expression_text import (
    ANY_FUNCTION,
    NEXT,
    filled,
    instead_of,
    is_power,
    name_in_next,
    next_of,
    tree_of,
)
from mdf_loop.readers.expressions.function_calls import (
    BUILTINS,
    DISTRIBUTIONS,
    DRAWN,
    DRAWS,
    MODULES,
    OPERATORS,
    dotted,
    op_of,
    signed,
)
from mdf_loop.readers.expressions.other_notations import OTHER_FUNCTIONS, meant_by_function, of_collected
from mdf_loop.readers.expressions.python_parts import is_of_library
from mdf_loop.readers.expressions.values import DOMAIN, UNKNOWN

SPECIAL = {name: f"scipy.special.{name}" for name in ("erf", *OF_MATH)} | {"lgamma": "scipy.special.gammaln"}
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

OF_ALL = ", which is that of all elements; along an axis, give axis=-1, keepdims=True to max and sum"
"""What is said of softmax, which other libraries have along an axis."""

ARRAY_FUNCTIONS: dict[str, tuple[str, str | None]] = {
    "sum": ("numpy.sum", None),
    "round": ("numpy.round", None),
    "min": ("numpy.min", "numpy.minimum"),
    "max": ("numpy.max", "numpy.maximum"),
}
"""Functions that Python has too, and that mean numpy's here: of one array, and of several."""


_BITS = {ast.BitAnd: ("&", "and"), ast.BitOr: ("|", "or")}
"""Operators on bits that are written where comparisons are joined."""


def _refuse_others(tree: ast.Call) -> ast.Call:
    """The call, unless another generator than numpy's functions draws random numbers, or another library has the function."""
    if not isinstance(tree.func, ast.Attribute) or op_of(dotted(tree.func) or "") is not None:
        return tree
    name, missing = tree.func.attr, f"there is no function {ast.unparse(tree.func)!r}"
    if name in DRAWN:
        raise UnsupportedOp(f"{missing}; {instead_of(name, [*tree.args, *tree.keywords])}")
    if is_of_library(tree.func):
        written = ast.unparse(_at(ast.Call(ast.Name(name, ast.Load()), tree.args, tree.keywords), tree))
        FormulaNames(set()).visit(tree_of(written))  # which says what else is wrong
        raise UnsupportedOp(f"{missing}; write {written}{OF_ALL * (name == 'softmax')}")
    return tree


class FormulaNames(ast.NodeTransformer):
    """Functions and numbers by their names alone, as formulas have them: ``sqrt(x)`` is ``numpy.sqrt(x)``."""

    def __init__(
        self, known: set[str], carried: Collection[str] = (), is_after: bool = False, collected: Collection[str] = ()
    ) -> None:
        self.known, self.carried, self.is_after, self.collected = known, carried, is_after, collected

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
            more = "; as many numbers are drawn as the arguments have: add zeros(n) to one for n" if tree.args[1:] else ""
            raise UnsupportedOp(f"it is {name}({DISTRIBUTIONS[name][1]}); got {ast.unparse(tree)}{more}")
        if name in DRAWS and not tree.keywords and len(tree.args) <= 1 and signed(tree.args[0] if tree.args else tree) is UNKNOWN:
            alone, alike = DRAWS[name]
            if not tree.args:
                return _at(ast.Call(_dotted(alone, tree), [], []), tree)
            zeros = _at(ast.Call(_dotted("numpy.zeros_like", tree), tree.args, []), tree)
            return _at(ast.Call(_dotted(alike, tree), [zeros], []), tree)
        if name in DRAWS:
            more = f", {name}({DISTRIBUTIONS[name][1]}) one between these" if name in DISTRIBUTIONS else ""
            cure = f"scale what it gives, or draw {name}(zeros(n)), n numbers"
            raise UnsupportedOp(f"{name}() draws one number, {name}(x) as many as x has{more}; it takes nothing else: {cure}")
        module = next((each for each in ("numpy", "math", "numpy.linalg") if op_of(f"{each}.{name}") is not None), "")
        if not module:
            raise UnsupportedOp(f"there is no function {name!r}{self._meant_by(name, [*tree.args, *tree.keywords])}")
        tree.func = _dotted(f"{module}.{name}", tree)
        return tree

    def _meant_by(self, name: str, args: Sequence[ast.expr | ast.keyword]) -> str:
        """What to write in the place of a function that is none, or of a value that is called as one."""
        drawn = f"; {instead_of(name, args)}" if name in DRAWN and name not in OTHER_FUNCTIONS else ""
        drawn += f"; e to a power is exp({', '.join(map(ast.unparse, args))})" if name == "exponential" else ""
        value = f"{name}[...] is an element of it, and {name} * (...) a product"
        if name in self.known:
            return drawn or f"; {value}"
        may_be_value = len(args) == 1 and not hasattr(np, name)
        return drawn or _close(name, args) or f"; {ANY_FUNCTION}" + f"; if {name} is a value, {value}" * may_be_value

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
        """``A.T``, the matrix with its axes in the other order; a result of the loop, ``run.x``, is not there inside of it."""
        self.generic_visit(tree)
        is_result = tree.attr in (*self.known, *self.collected) and tree.attr != "T"
        if is_result and isinstance(tree.value, ast.Name) and tree.value.id not in MODULES:
            meant = f"; write {tree.attr}" if tree.attr in self.known else of_collected(tree.attr)
            raise UnsupportedOp(f"{ast.unparse(tree)!r} is a result, and not there inside of the loop{meant}")
        is_transposed = tree.attr == "T" and dotted(tree) is None
        return _at(ast.Call(_dotted("numpy.transpose", tree), [tree.value], []), tree) if is_transposed else tree

    def visit_BinOp(self, tree: ast.BinOp) -> ast.AST:
        """An operator; ``x ^ 2`` would be the exclusive or of two whole numbers."""
        if is_power(tree):
            is_clear = not any(isinstance(part, ast.BinOp) for part in (tree.left, tree.right))  # n + 2 ^ k is (n + 2) ^ k
            power = f"{ast.unparse(tree.left)} ** {ast.unparse(tree.right)}" if is_clear else "a ** b"
            raise UnsupportedOp(f"{NO_POWER.format('')}: {power}")
        return self.generic_visit(tree)

    def visit_Compare(self, tree: ast.Compare) -> ast.AST:
        """Comparisons; ``a < b & c < d`` compares with the bits of ``b & c``."""
        for part in tree.comparators[:-1]:
            if isinstance(part, ast.BinOp) and (sign := _BITS.get(type(part.op))):
                arrays = f"of arrays write brackets: (x > 0) {sign[0]} (y > 0)"
                raise UnsupportedOp(f"{sign[0]} comes before comparisons; between them write {sign[1]}; {arrays}")
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
        call: ast.unparse(FormulaNames(set()).visit(tree_of(call)))
        for call in sorted(dict.fromkeys(calls))
        if "." not in (name := call.partition("(")[0]) and not ("..." in call and name in known)
    }


def meant_by(name: str) -> list[str]:
    """What other libraries call a function of equations."""
    return [other for other, ours in OTHER_FUNCTIONS.items() if ours == name]


def _close(name: str, args: Sequence[ast.expr | ast.keyword]) -> str:
    functions = [op.partition(".")[2] for domain, op in KERNELS if domain == DOMAIN and op.startswith(("numpy.", "math."))]
    return meant_by_function(name, args, [*functions, *DRAWS, *DISTRIBUTIONS, *FORMULAS, *BUILTINS])


def _at(made: Any, tree: ast.AST) -> Any:
    return ast.copy_location(made, tree)


def _dotted(name: str, tree: ast.AST) -> Any:
    head, *rest = name.split(".")
    made: Any = _at(ast.Name(head, ast.Load()), tree)
    for part in rest:
        made = _at(ast.Attribute(made, part, ast.Load()), tree)
    return made
