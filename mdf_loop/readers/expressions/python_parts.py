"""What Python and its libraries have and expressions do not: methods, comprehensions, other modules; what is written instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS
from mdf_loop.readers.expressions.function_calls import BUILTINS, bind, op_of
from mdf_loop.readers.expressions.values import DOMAIN

INSTEAD_OF_PARTS: dict[type, tuple[str, str]] = {
    kind: (kind.__name__, "; write functions of whole arrays, such as numpy.sum(x * y)")
    for kind in (ast.GeneratorExp, ast.ListComp, ast.Lambda)
} | {ast.NamedExpr: (":=", "; give the value a name of its own, in let: {y: ...}, and read y")}
"""Parts of Python that no expression has: what they are called, and what to write in their place."""


def without_list(node: ast.AST) -> str:
    """What to write for ``[2 * x for x in v]``, which arrays do by themselves; empty where another name, or a call, is in it.

    >>> without_list(ast.parse("[2 * x for x in run.v]", mode="eval").body)
    '; write 2 * run.v'
    """
    found = re.fullmatch(r"\[([^\[\]]+) for (\w+) in ([\w.]+)\]", ast.unparse(node))
    if found is None or {*re.findall(r"[^\W\d]\w*", found[1])} != {found[2]}:
        return ""
    return "; write " + re.sub(rf"\b{found[2]}\b", found[3], found[1])


def is_of_library(function: ast.Attribute) -> bool:
    """Whether a function belongs to a library that expressions do not have: ``torch.exp``."""
    return ast.unparse(function).partition(".")[0] in ("torch", "jax", "jnp", "tf", "tensorflow", "scipy", "special", "cupy")


def part_of_product(tree: ast.expr) -> str:
    """A part of an expression as text, in brackets where an operator next to it could take it apart."""
    is_one = isinstance(tree, ast.Name | ast.Constant | ast.Call | ast.Subscript | ast.Attribute)
    return ast.unparse(tree) if is_one else f"({ast.unparse(tree)})"


def bare_function(node: ast.AST) -> str:
    """The function of numpy or math that a call has by its name alone; empty for any other."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if not name or name in BUILTINS:
        return ""
    load_kernels()
    return next((full for full in (f"numpy.{name}", f"math.{name}", f"numpy.random.{name}") if op_of(full)), "")


_METHODS = {
    **dict.fromkeys(("copy", "item", "tolist"), "{0}"),
    "T": "numpy.transpose({0})",
    "flatten": "numpy.ravel({0})",
    "astype": "numpy.array({0}, dtype={1})",
}
"""What is written for methods of arrays that are no functions of numpy here, of the array and the first argument."""


def as_function(node: ast.Attribute, args: Sequence[ast.expr] = (), named: Sequence[ast.keyword] = ()) -> str:
    """What to write in the place of a method or an attribute of a value: numpy's function, in which an axis means one."""
    if node.attr in ("reshape", "transpose") and len(args) > 1:
        args = [ast.Tuple([*args], ast.Load())]
    values = [*map(ast.unparse, [node.value, *args, *(word.value for word in named)])]
    if (written := _METHODS.get(node.attr)) is not None and f"{{{len(values) - 1}}}" in written:
        return f"; write {written.format(*values)}"
    if (op := op_of(name := f"numpy.{node.attr}")) is None:
        return ""
    try:
        bind(KERNELS[DOMAIN, op][-1].run, name, [node.value, *args], {word.arg or "": word.value for word in named})
    except TypeError as error:
        return f"; {error}"
    return f"; write {name}({', '.join(map(ast.unparse, [node.value, *args, *named]))})"
