"""The texts of expressions: what stands in one, and what is refused before anything is made of it.

No text is ever handed to ``eval`` or ``exec``: an expression is parsed by Python's ``ast`` and looked at.  What is not on the
list is refused with its place in the text.

On the list: numbers, True, False and None; names; ``+ - * / // % ** @ ~ & | ^ << >>``; comparisons, chained ones
too; ``and or not``, ``a if c else b``; indices and slices; lists, tuples and dicts; ``numpy.pi`` and the like; and calls
of ``numpy.<f>``, ``math.<f>`` and a few of Python's own functions: those with a kernel in domain ``mdf``.
"""

from __future__ import annotations

import ast
import copy
import re
import unicodedata
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from mdf_loop.errors import MalformedBody, UnsupportedOp, shortened
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS
from mdf_loop.readers.expressions.function_calls import BUILTINS, DRAWN, DRAWS, MODULES, dotted, op_of
from mdf_loop.readers.expressions.other_notations import meant_by, meant_by_function, meant_by_list
from mdf_loop.readers.expressions.python_parts import INSTEAD_OF_PARTS, as_function, bare_function, is_of_library, without_list
from mdf_loop.readers.expressions.values import DOMAIN

LONGEST, MOST_PARTS, DEEPEST = 100_000, 20_000, 100
"""Characters, syntax nodes and nesting that an expression may have: people do not write more by hand."""

CONSTANTS = {f"{module}.{name}" for module in ("numpy", "math") for name in ("pi", "e", "inf", "nan")} | {"math.tau"}

OPERATORS: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "power",
    ast.MatMult: "matmul",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.USub: "negative",
    ast.UAdd: "positive",
    ast.Invert: "invert",
    ast.Not: "not",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}

PLAIN = (
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Subscript,
    ast.Slice,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.Name,
)
"""Parts of which everything inside is looked at and nothing else."""


def parse(text: str, path: tuple[str, ...] = (), change: Callable[[ast.expr], ast.expr] | None = None) -> ast.expr:
    """The syntax tree of an expression in which everything is on the list, once it was changed by ``change``.

    Raises
    ------
    MalformedBody
        It does not parse, is too large, or says something that is refused; says where.
    UnsupportedOp
        It calls a function of numpy, math or Python that is not on the list.
    """
    tree = tree_at(text, path)
    if change is not None:
        refuse_depth(tree, text, path)
        tree = change(tree)
    load_kernels()
    _check(tree, text, path)
    return tree


def tree_at(text: str, path: tuple[str, ...]) -> ast.expr:
    """The syntax tree of an expression, whatever is in it.

    Raises
    ------
    MalformedBody
        It does not parse, or is too large; says where.
    """
    refuse_length(text, path)
    refuse_decimal_comma(text, path)
    try:
        return tree_of(text)
    except SyntaxError as error:
        refuse_onnx_text(text, path)
        raise MalformedBody(f"{part_at(text, error.offset or 0)}: {error.msg}{meant_by(text, error.msg)}", path) from error
    except (ValueError, MemoryError, RecursionError) as error:
        raise MalformedBody(f"expression {excerpt(text)} cannot be read: {str(error) or type(error).__name__}", path) from error


def refuse_decimal_comma(text: Any, path: tuple[str, ...] = ()) -> None:
    """See that a text is no number with a comma, which is a tuple in Python; one that is meant has brackets or a space.

    Raises
    ------
    MalformedBody
    """
    if number := with_point(text):
        raise MalformedBody(f"{text.strip()!r} is two numbers; a decimal point is written {number}", path)


def with_point(text: Any) -> str:
    """The number that a text with a decimal comma means; empty where it is none."""
    found = _DECIMAL_COMMA.fullmatch(text) if isinstance(text, str) else None
    return f"{found[1]}.{found[2]}" if found else ""


_DECIMAL_COMMA = re.compile(r"\s*([-+]?\d+),(\d+)\s*")


def refuse_texts_in_list(value: Any, known: Container[str], path: tuple[str, ...] = (), meant: str = "") -> None:
    """See that a list is one of numbers, or of texts that are no names: nothing in a list is computed.

    Raises
    ------
    MalformedBody
        The message ends with ``meant``, or with how an array of expressions is written.
    """
    parts = [*_flat(value)] if isinstance(value, list) else []
    texts = [part for part in parts if isinstance(part, str)]
    if texts and (len(texts) < len(parts) or (len(parts) > 1 and any(text in known for text in texts))):
        text = next((each for each in texts if number_in(each) is None), texts[0])
        raise MalformedBody(f"{excerpt(text)} among its numbers is a text{meant or meant_by_list(value)}", path)


def _flat(value: list[Any]) -> Iterator[Any]:
    for part in value:
        yield from _flat(part) if isinstance(part, list) else (part,)


def tree_of(text: str) -> ast.expr:
    """The syntax tree of an expression.

    Raises
    ------
    SyntaxError, ValueError, MemoryError, RecursionError
        As ``ast.parse``.
    """
    return ast.parse(text.strip(), mode="eval").body


def tree_if_any(text: str) -> ast.expr | None:
    """The syntax tree of a text; None where Python cannot read it."""
    try:
        return tree_of(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def names_in(tree: ast.expr) -> list[str]:
    """All names in an expression, those of modules and functions as well."""
    return [part.id for part in ast.walk(tree) if isinstance(part, ast.Name)]


class _Filled(ast.NodeTransformer):
    """Expressions in the place of names."""

    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self.given = given

    def visit_Name(self, tree: ast.Name) -> ast.AST:
        """A name that may be one of them."""
        return copy.deepcopy(self.given.get(tree.id, tree))


def filled(tree: ast.expr, given: Mapping[str, ast.expr]) -> ast.expr:
    """An expression in which others take the place of names."""
    made: ast.expr = _Filled(given).visit(copy.deepcopy(tree)) if given else tree
    return made


def as_name(text: str) -> str:
    """A name as Python has it in expressions: some letters are others there (NFKC)."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def is_python(text: str) -> bool:
    """Whether Python could evaluate a text; any other one is a text and nothing else."""
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    except (MemoryError, RecursionError):
        return True  # too deeply nested, which is said when it is read
    return True


def refuse_length(text: str, path: tuple[str, ...] = ()) -> None:
    """See that an expression is not longer than people write.

    Raises
    ------
    MalformedBody
    """
    if len(text) > LONGEST:
        raise MalformedBody(f"an expression of {len(text)} characters is too long; {LONGEST} are allowed", path)


def refuse_depth(tree: ast.expr, text: str, path: tuple[str, ...]) -> None:
    """See that a tree is not so deep that going through it by recursion could end the process.

    Raises
    ------
    MalformedBody
    """
    level: list[ast.AST] = [tree]
    for _ in range(4 * DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise MalformedBody(f"expression {excerpt(text)} is too large or too deeply nested", path)


def _check(tree: ast.expr, text: str, path: tuple[str, ...]) -> None:
    """Refuse what is not on the list.  Without recursion, so that depth can do no harm."""
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    parts = 0
    while todo:
        node, depth = todo.pop()
        parts += 1
        if depth > DEEPEST or parts > MOST_PARTS:
            raise MalformedBody(f"expression {excerpt(text)} is too large or too deeply nested", path)
        for child in _checked_children(node, text, path):
            is_chain = isinstance(node, ast.BinOp) and child is node.left  # a + b + c ... is compiled without recursion
            place = 0 if isinstance(child, ast.Attribute) else len(todo)  # last: it may be a result that is read by its name
            todo.insert(place, (child, depth + (not is_chain)))


def _checked_children(node: ast.AST, text: str, path: tuple[str, ...]) -> Iterator[ast.AST]:
    """What is inside a node that is on the list."""
    if isinstance(node, ast.Constant):
        if not isinstance(node.value, bool | int | float | complex | str | None | type(...)):
            raise refused(node, text, path, f"{type(node.value).__name__} values")
    elif isinstance(node, ast.Call):
        name = dotted(node.func)
        if name is None or not (name in BUILTINS or "." in name):
            raise refused(node, text, path, "calls of anything but functions of numpy, math and Python", _called(node))
        if op_of(name) is None:
            raise UnsupportedOp(
                f"{'/'.join(filter(None, path))}: expression {excerpt(text)} calls {name}, which is not among the functions that "
                f"expressions may call; {instead_of(name, [*node.args, *node.keywords])}"
            )
        yield from node.args
        yield from (keyword.value for keyword in node.keywords)
        if any(keyword.arg is None for keyword in node.keywords):
            raise refused(node, text, path, "** in a call")
    elif isinstance(node, ast.Attribute):
        name = dotted(node)
        if name not in CONSTANTS and name != "numpy.newaxis" and not (name and op_of(name)):
            raise refused(
                node,
                text,
                path,
                f"the attribute .{node.attr} (functions are numpy.<f> or math.<f>, results of a loop run[0], run[1])",
                as_function(node),
            )
    elif isinstance(node, ast.Compare) and not all(type(op) in OPERATORS for op in node.ops):
        raise refused(node, text, path, "in, is and their negations")
    elif isinstance(node, ast.Compare) and len(node.ops) > DEEPEST:
        raise refused(node, text, path, f"a chain of {len(node.ops)} comparisons")
    elif isinstance(node, ast.Dict) and None in node.keys:
        raise refused(node, text, path, "** in a dict")
    elif isinstance(node, PLAIN):
        yield from (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    else:
        what, meant = INSTEAD_OF_PARTS.get(type(node), (type(node).__name__, ""))
        raise refused(node, text, path, what, without_list(node) or meant)


def _called(node: ast.Call) -> str:
    """What to write in the place of a call of something that is no function."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in DRAWN:
        drawn = f"numpy.random.{node.func.attr}"
        written = f"write {drawn}({', '.join(map(ast.unparse, [*node.args, *node.keywords]))})"
        return f"; {written if op_of(drawn) else f'{instead_of(drawn, [*node.args, *node.keywords])} in the equations of a loop'}"
    if isinstance(node.func, ast.Attribute) and is_of_library(node.func):
        plain = ast.Call(ast.Name(node.func.attr, ast.Load()), node.args, node.keywords)
        return _called(plain) if bare_function(plain) else ""
    if isinstance(node.func, ast.Attribute):
        return as_function(node.func, node.args, node.keywords)
    if isinstance(node.func, ast.Name) and node.func.id in DRAWS and len(node.args) < 2:
        like = [
            ast.unparse(each)
            if isinstance(each, ast.Constant) and isinstance(each.value, int)
            else f"numpy.shape({ast.unparse(each)})"
            for each in node.args
        ]
        return f"; write {DRAWS[node.func.id][1]}({', '.join(['0, 1', *like])})"
    if name := bare_function(node):
        return f"; write {name}({', '.join(map(ast.unparse, [*node.args, *node.keywords]))})"
    return f"; a product is written {ast.unparse(node.func)} * (...)" if isinstance(node.func, ast.Constant) else ""


def instead_of(name: str, args: Sequence[ast.expr | ast.keyword] = ()) -> str:
    """What to write in the place of a call of a function that no expression has, with its arguments, by name ones too."""
    last = name.rpartition(".")[2]
    names, text = DRAWN.get(last, ((), ""))
    given = [each for each in args if isinstance(each, ast.expr)]
    if args and len(given) == len(args) == len(names):
        text = ast.unparse(filled(tree_of(text), dict(zip(names, given, strict=True))))
    known = [op.rpartition(".")[2] for domain, op in KERNELS if domain == DOMAIN and "." in op]
    return f"write {text}" if text else meant_by_function(last, args, known)[2:] or ANY_FUNCTION


def is_power(tree: ast.AST) -> bool:
    """Whether ``^`` is written between what are no truth values: most mean a power, and Python the exclusive or."""
    return isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitXor) and not (is_truth(tree.left) or is_truth(tree.right))


def is_truth(tree: ast.AST) -> bool:
    """Whether a part of an expression is surely a truth value, by what is written."""
    match tree:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.BoolOp() | ast.UnaryOp(op=ast.Invert()) | ast.BinOp(op=ast.BitXor() | ast.BitAnd() | ast.BitOr()):
            return any(map(is_truth, ast.iter_child_nodes(tree)))
        case ast.Call(func=function):
            return ast.unparse(function).rpartition(".")[2].startswith(("is", "logical_"))
    return False


ANY_FUNCTION = "a plain Python function as a body may call any, and @mdf_loop.kernel makes it an operator (docs/extending)"


def refused(node: Any, text: str, path: tuple[str, ...], what: str, meant: str = "") -> MalformedBody:
    """The error for something that is not on the list, with its place."""
    return MalformedBody(f"{part_at(text, node.col_offset + 1)}: {what} cannot be used in an expression{meant}", path)


def part_at(text: str, column: int) -> str:
    """An expression with a column, for messages; of a long one the part around it."""
    begin = max(0, text.find(" ", column - 40)) if len(text) > 60 and column > 40 else 0
    shown = excerpt("..." * (begin > 0) + text[begin:].lstrip())
    return f"expression {shown}{f', column {column}' if column else ''}"


def excerpt(text: str) -> str:
    """A text, or the beginning of a long one, for messages."""
    return repr(shortened(text, 60))


def variables(tree: ast.expr) -> list[str]:
    """The names an expression reads, modules and functions that it calls left out; ``next(x)`` is one as it is written."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called, new = {id(node.func) for node in calls}, {id(node.args[0]) for node in calls if name_in_next(node)}
    dots = [n.value for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    bases = {id(base) for base in dots if isinstance(base, ast.Name) and base.id in MODULES}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called | bases]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}  # of a comprehension, which is refused by its kind
    return [next_of(node.id) if id(node) in new else node.id for node in names if node.id not in own]


def next_of(name: str) -> str:
    """What the new value of a carried one is called in equations."""
    return f"{NEXT}({name})"


def name_in_next(tree: ast.Call) -> str:
    """The name in ``next(x)``; empty for another call."""
    is_next = isinstance(tree.func, ast.Name) and tree.func.id == NEXT and len(tree.args) == 1 and not tree.keywords
    return tree.args[0].id if is_next and isinstance(tree.args[0], ast.Name) else ""


NEXT = "next"
"""What equations call for the value that an iteration gives to the next one."""


def number_in(text: str) -> int | float | None:
    """The number that a text is, as MDF reads it; None for any other text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def refuse_onnx_text(value: Any, path: tuple[str, ...]) -> None:
    """See that ONNX text does not stand where MDF takes text for an expression.

    Raises
    ------
    MalformedBody
    """
    if isinstance(value, str) and is_onnx_text(value):
        raise MalformedBody(BRACES, path)


def is_onnx_text(text: str) -> bool:
    """Whether a text looks like a graph of ONNX."""
    return _ONNX_TEXT.search(text) is not None


BRACES = 'ONNX text is not an MDF expression; write {onnx: "..."} around it'


_ONNX_TEXT = re.compile(r"\)\s*=>\s*\(")
"""Between the inputs and the outputs of a graph; no expression of Python has it."""
