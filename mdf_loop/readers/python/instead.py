"""What to write where a line of a traced function asks Python for something: the line's own expression, in numpy's words."""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import linecache
import random
import re
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from mdf_loop.readers.expressions.expression_text import is_truth, tree_of
from mdf_loop.readers.expressions.formula_names import OF_ALL, FormulaNames
from mdf_loop.readers.expressions.function_calls import DISTRIBUTIONS, DRAWN, DRAWS, op_of
from mdf_loop.readers.expressions.other_notations import WRITTEN, meant_by_function
from mdf_loop.readers.expressions.python_parts import part_of_product

_COLLECTED = "to see {0}, return it behind the carried values: it is collected, one of each iteration"
_AS_ARRAY = "compute with whole arrays, such as np.sum({0}), or go through elements by mdf_loop.scan(start, {0}, body=...)"
_CHOOSE = "choose by np.where({0}, a, b), or count by np.count_nonzero({0})"
_PLACES = f"how many places there are is known only when the loop runs: {_CHOOSE}"
_LENGTH = "a length is known before the loop: write a number in the place of {0}"

CALLS = {
    "float": "leave float() out: write {0}",
    "int": "write np.trunc({0}), or {0} where it is whole already, as the iteration number is; "
    "an index is np.trunc({0}).astype(int)",
    "bool": "write {0} != 0",
    "complex": "write {0} + 0j",
    "print": f"print runs once, while the body is read; {_COLLECTED}",
    "str": f"leave it out; {_COLLECTED}",
    "range": "a loop of {0} iterations inside a body is mdf_loop.loop({0}, True, x, body=...) with a body (k, go, x), k from 0",
    "max": "write np.maximum({all})",
    "min": "write np.minimum({all})",
    "sum": "write np.sum({0})",
    "any": "write np.any({0})",
    "all": "write np.all({0})",
    "sorted": "write np.sort({0})",
    "len": "write np.shape({0})[0]",
    "math.pow": "write {0} ** {1}",
    "math.fabs": "write np.abs({0})",
    "math.isclose": "write np.abs({0} - {1}) <= 1e-9 * np.abs({1})",
    "np.logaddexp.reduce": "write np.max({0}) + np.log(np.sum(np.exp({0} - np.max({0}))))",
    "np.add.accumulate": "write np.cumsum({0})",
    **{
        f"np.{name}.outer": f"write {{0}}[:, None] {op} {{1}}"
        for name, op in {"add": "+", "subtract": "-", "multiply": "*"}.items()
    },
    "np.searchsorted": "write np.sum({0} < {1}), where {1} is one number",
    "np.isin": "write np.any({1} == {0}), with {1} as an array",
    "np.select": "write np.where(condition, a, np.where(other_condition, b, default))",
    "np.einsum": "write products and sums: a @ b is 'ij,j->i', np.outer(a, b) is 'i,j->ij', and np.sum(a * b) is 'i,i->'",
    "np.fill_diagonal": "write {0} = np.where(np.eye(n) == 1, {1}, {0}), where n is the number of rows",
    "np.convolve": "add shifted products, such as 0.5 * {0} + 0.5 * np.roll({0}, 1)",
    **dict.fromkeys(
        ("np.quantile", "np.percentile"), "sort and take an element: np.sort({0})[k] with a number k, or np.median({0})"
    ),
    **dict.fromkeys(("np.nonzero", "np.flatnonzero", "np.argwhere"), _PLACES),
    **dict.fromkeys(("list", "tuple", "np.float64"), "leave it out: write {0}"),
    **dict.fromkeys(("np.arange", "np.zeros", "np.ones", "np.full", "np.eye", "np.linspace"), _LENGTH),
    **dict.fromkeys(("enumerate", "zip", "map", "filter", "reversed"), _AS_ARRAY),
}
"""By function that is called: what to write; ``{0}`` and ``{1}`` are its arguments, ``{all}`` are all of them."""

OF_ONE = {
    "np.where": _PLACES,
    "max": "write np.max({0})",
    "min": "write np.min({0})",
    "norm.pdf": "write np.exp(-({0}) ** 2 / 2) / np.sqrt(2 * np.pi)",
    "norm.cdf": "write (1 + scipy.special.erf(({0}) / np.sqrt(2))) / 2",
}
"""The same where it is called with one argument."""


LATER = "that are known only when the loop runs"
NUMPYS = "use numpy's functions, such as np.sqrt(x), np.stack([x, y]) and np.where(condition, x, y)"

PYTHONS = {
    **dict.fromkeys(("__float__", "__int__", "__index__", "__complex__"), ("makes a Python number of values", NUMPYS)),
    "__delitem__": ("deletes an element of values", "use np.concatenate([x[:i], x[i + 1:]]) with a number i that is known"),
    **dict.fromkeys(("__str__", "__format__"), ("makes a text of values", _COLLECTED.format("it"))),
    "__bool__": (
        "branches on values",
        "use np.where(condition, a, b), or mdf_loop.if_(condition, then_branch=..., else_branch=...) for one of two functions",
    ),
    "__iter__": (
        "iterates over values",
        "use numpy's functions or mdf_loop.scan; each carried value is a parameter: def f(i, go, a, b)",
    ),
    "__len__": ("needs the length of values", "use np.size(x) or np.shape(x)"),
    "__contains__": ("looks for something in values", "use np.any(x == something)"),
    "__hash__": ("looks something up by values", "use np.where, or an array that it is the index of"),
}
"""What Python asks of values for its own conversions, and what to write where the line itself does not show it."""

ATTRIBUTES = {
    "at": "; write x[i] = value as a line for x.at[i].set(value)",
    "item": "; leave it out: a value of one element is a number here",
    "flatten": "; use x.ravel()",
    "append": "; to keep a value of each iteration, return it behind the carried values: it is collected into an array",
    "unsqueeze": "; use np.expand_dims(x, axis)",
    "view": "; use x.reshape(shape)",
    "pow": "; use x ** y",
    **dict.fromkeys(("float", "double"), "; use x.astype(float)"),
    "clone": "; use np.copy(x)",
    "dtype": "; its type is that of the first value",
    **dict.fromkeys(("numpy", "detach", "cpu", "cuda", "to", "tolist"), "; leave it out: a value is an array here"),
}
"""What to do about attributes of arrays and lists that traced values do not have."""


def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    return np.logical_or(a == b, np.logical_and(np.abs(a - b) <= atol + rtol * np.abs(b), np.isfinite(b)))


WRITTEN_OUT: Mapping[str, Callable[..., Any]] = {
    "isclose": _isclose,
    "divmod": lambda a, b: (np.floor_divide(a, b), np.remainder(a, b)),
    "copy": lambda a, **_: a.copy(),
}
"""Functions of numpy that others make up."""


@functools.lru_cache(maxsize=256)
def stores(code: CodeType) -> Mapping[int, str]:
    """By the place of an instruction: the variable that its result is assigned to."""
    pairs = itertools.pairwise(dis.get_instructions(code))
    named = {one.offset: following.argval for one, following in pairs if following.opname.startswith("STORE_FAST")}
    return {offset: name[0] if isinstance(name, tuple) else name for offset, name in named.items()}


def instruction(frame: FrameType) -> int:
    """The place of the instruction that runs; where that calls a function in Python, ``f_lasti`` is what is kept behind it."""
    place, code = frame.f_lasti, frame.f_code.co_code
    while place > 0 and dis.opname[code[place]] == "CACHE":
        place -= 2
    while dis.opname[code[place]] in ("PRECALL", "CACHE"):  # Python 3.11 calls abs(x) there once it was called some times
        place += 2
    return place


def called_in(frame: FrameType) -> str:
    """The call that runs in a frame, up to its bracket; empty where the file does not show it."""
    line, _, start, end = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    text = linecache.getline(frame.f_code.co_filename, line or 0).encode()[start:end].decode(errors="replace")
    return text.partition("(")[0].strip() if "(" in text else ""


def asks_for_type(frame: FrameType) -> bool:
    """Whether it is a frame itself that asks a value for its class, not a function in C that it calls, such as ``np.dot``."""
    if not dis.opname[frame.f_code.co_code[instruction(frame)]].startswith(("CALL", "PRECALL")):
        return True
    return "isinstance" in frame.f_code.co_names and called_in(frame) in ("isinstance", "")


_OF_GENERATOR = re.compile(r"\b(?:random\w*|\w*rng\w*|gen|generator)\.(\w+)", re.IGNORECASE)
"""A function of what draws random numbers, by the names that modules and generators have."""

_OURS = ", ".join(f"{name}({of})" for name, of in {"noise": "", **{name: of for name, (_, of) in DISTRIBUTIONS.items()}}.items())


def others_drawn(text: str) -> list[str]:
    """The functions in a text that draw random numbers of a distribution that no body has."""
    names = [name for name in _OF_GENERATOR.findall(text) if name not in DRAWN]
    return [name for name in names if hasattr(np.random.Generator, name) or hasattr(random.Random, name)]


def in_python(text: str) -> str:
    """What to write in a traced function in the place of a text that draws random numbers.

    >>> in_python("x + np.random.rand()")
    'write mdf_loop.body.uniform(), which draws new ones in each'
    """
    others = others_drawn(text)
    called = re.findall(r"(\w+)(?=\(|$)", text)
    drawn = next((DRAWN[name][1] for name in called[::-1] if name in DRAWN), "" if called else "noise()")
    if others or not drawn:
        without = f"; it has no {others[-1]}" if others else ""
        without += f", but equations have numpy.random.{others[-1]}" if others and op_of(f"numpy.random.{others[-1]}") else ""
        return f"a body draws new ones in each by mdf_loop.body.{_OURS}{without}"
    ours = DRAWS.keys() | DISTRIBUTIONS
    meant = re.sub(r"\b(\w+)\(", lambda found: f"{'mdf_loop.body' if found[1] in ours else 'np'}.{found[0]}", drawn)
    return f"write {meant}, which draws new ones in each"


def instead(frame: FrameType) -> str:
    """What to write in the place of what a function does just now; empty where that is not known."""
    start, end, first, last = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError):
        return ""
    around = [each for each in ast.walk(tree) if _holds(each, (start or 0, first or 0), (end or 0, last or 0))][::-1]
    if dis.opname[frame.f_code.co_code[instruction(frame)]].startswith(("CALL", "PRECALL")):
        call, outside = (*around, None, None)[:2]
        if isinstance(call, ast.Call) and isinstance(outside, ast.Call) and ast.unparse(outside.func) == "range":
            call = outside
        return _of_call(call, frame) if isinstance(call, ast.Call) else ""
    for part, outside in itertools.pairwise([*around, None]):
        is_part = isinstance(part, _CONDITIONS) and isinstance(outside, (*_CONDITIONS, ast.If, ast.IfExp, ast.While))
        if part is not None and not is_part and (said := _said(part, frame)):
            return said
        if isinstance(part, ast.stmt):
            break
    return ""


_CONDITIONS = ast.BoolOp, ast.UnaryOp, ast.Compare


def _holds(tree: ast.AST, begin: tuple[int, int], end: tuple[int, int]) -> bool:
    """Whether a part of a file has the text between two places in it."""
    if not isinstance(tree, ast.expr | ast.stmt):
        return False
    return (tree.lineno, tree.col_offset) <= begin and end <= (tree.end_lineno or 0, tree.end_col_offset or 0)


def _is_array_of_others(value: Any) -> bool:
    """Whether something is an array of another library, such as JAX's, whose operators want numbers."""
    return hasattr(type(value), "__array__") and not type(value).__module__.startswith(("numpy", "mdf_loop."))


def _said(tree: ast.AST, frame: FrameType) -> str:
    match tree:
        case ast.Subscript():
            return _of_index(tree, frame)
        case ast.BinOp(left=ast.Name(id=name)) if _is_array_of_others(frame.f_locals.get(name, frame.f_globals.get(name))):
            return f"write np.asarray({name}) for {name}"
        case ast.BoolOp(values=values) if not any(map(is_truth, values)):
            return f"write {_chosen(tree)}"
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[_, _, *_]) | ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return f"write {_plain(tree)}"
        case ast.IfExp(test=test, body=then, orelse=other):
            return f"write np.where({_plain(test)}, {ast.unparse(then)}, {ast.unparse(other)})"
        case ast.If():
            return _of_if(tree)
        case ast.While(test=test):
            loop = f"mdf_loop.loop(None, {_plain(test)}, x, body=...)"
            return f"a loop inside a body is {loop}, whose body returns {_plain(test)} first, with the new values"
        case ast.ListComp(generators=[part]) | ast.GeneratorExp(generators=[part]) if part.ifs and (places := _of_all(part)):
            return _CHOOSE.format(places)
        case ast.For(iter=each) | ast.comprehension(iter=each):
            return _AS_ARRAY.format(ast.unparse(each))
        case ast.GeneratorExp(generators=[part, *_]) | ast.ListComp(generators=[part, *_]):
            return _said(part, frame)
        case ast.Assert(test=test):
            return f"leave it out; {_COLLECTED.format(ast.unparse(test))}"
        case ast.JoinedStr(values=values):
            shown = [ast.unparse(each.value) for each in values if isinstance(each, ast.FormattedValue)]
            return _COLLECTED.format(", ".join(shown)) if shown else ""
        case ast.Assign(targets=[ast.Tuple(elts=elts)], value=value):
            parts = [f"{ast.unparse(value)}[{k}]" for k in range(len(elts))]
            return f"write {', '.join(map(ast.unparse, elts))} = {', '.join(parts)}"
        case ast.Assign(targets=[ast.Subscript(value=of)], value=new) | ast.AugAssign(target=ast.Subscript(value=of), value=new):
            array, zero = ast.unparse(of), f"np.sum(np.zeros_like({_of_loop(new, tree, frame)}))"
            return f"make {array} a value of the loop before: {array} = {array} + {zero}; {ast.unparse(tree)} works then"
    return ""


def _of_loop(new: ast.expr, line: ast.stmt, frame: FrameType) -> str:
    """A value of the loop in a line that sets elements: what they are set to, or a name of the index where that is a constant."""
    kept = {name for name, value in frame.f_locals.items() if type(value).__module__.startswith("mdf_loop.")}

    def read(tree: ast.AST) -> list[str]:
        return [each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id in kept]

    return ast.unparse(new) if read(new) else next(iter(read(line)), ast.unparse(new))


def _of_all(part: ast.comprehension) -> str:
    """A condition on ``v[k]`` for ``k`` in a range as that on all."""
    if not isinstance(part.iter, ast.Call) or ast.unparse(part.iter.func) != "range" or len(part.iter.args) != 1:
        return ""
    name, number = ast.unparse(part.target), ast.unparse(part.iter.args[0])
    test = re.sub(rf"\[{name}\]", f"[:{number}]", _plain(part.ifs[0]))
    return re.sub(rf"\b{name}\b", f"np.arange({number})", test)


def _of_call(tree: ast.Call, frame: FrameType) -> str:
    name = ast.unparse(tree.func).replace("numpy.", "np.")
    args = [each for each in tree.args if not isinstance(each, ast.Constant)] if name == "print" else tree.args
    written = [_whole(each) if name == "range" else ast.unparse(each) for each in args]
    if name == "range" and len(args) == 2:
        written = [f"{written[1]} - {part_of_product(args[0])}"]
    is_of_one = len(written) == 1 and not tree.keywords
    known = (OF_ONE.get(".".join(name.split(".")[-2:])) if is_of_one else None) or CALLS.get(name)
    if name == "np.take" and written:
        return _of_index(ast.Subscript(tree.args[0], tree.args[-1], ast.Load()), frame)
    if name in ("np.array", "np.asarray") and written:
        return _of_array(tree, written[0])
    if known is not None and written:
        return known.format(*written, *written, all=", ".join(written[:2]))
    module, _, function = name.rpartition(".")
    formula = meant_by_function(function, [*tree.args, *tree.keywords], ()).partition("; write ")[2] if module else ""
    if formula and function in WRITTEN and function not in DRAWN and not others_drawn(name):
        text = FormulaNames(set()).visit(tree_of(formula))
        return f"write {ast.unparse(text).replace('numpy.', 'np.')}{OF_ALL * (function == 'log_softmax')}"
    is_function = not module or isinstance(frame.f_globals.get(module.partition(".")[0]), ModuleType)
    is_numpys = is_function and op_of(f"numpy.{function}") is not None
    return f"write np.{function}({', '.join(written)})" if is_numpys and function != "abs" and module != "np" else ""


def _of_array(tree: ast.Call, written: str) -> str:
    """An array of values, with the type that is asked for."""
    of = f"np.stack({written})" if isinstance(tree.args[0], ast.List | ast.Tuple) else part_of_product(tree.args[0])
    kind = next((ast.unparse(word.value) for word in tree.keywords if word.arg == "dtype"), "")
    return f"write {of}.astype({kind})" if kind else f"write {of}, which is an array"


def _whole(tree: ast.expr) -> str:
    """A count as text, as an integer where it is what a function rounds."""
    match tree:
        case ast.Call(func=ast.Name(id="int" | "round" | "float" as name), args=[of, *_]):
            return f"np.{'round' if name == 'round' else 'trunc'}({ast.unparse(of)}).astype(int)"
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return f"np.shape({ast.unparse(of)})[0]"
        case ast.Call():
            return f"{ast.unparse(tree)}.astype(int)"
    return ast.unparse(tree)


def _of_index(tree: ast.Subscript, frame: FrameType) -> str:
    """What to write for an index that is a value of the loop: arrays that have such indices are values of the body."""
    if isinstance(tree.value, ast.Attribute) and tree.value.attr == "at":  # of JAX, whose arrays cannot be set
        place = f"{ast.unparse(tree.value.value)}[{ast.unparse(tree.slice)}]"
        return f"write {place} = value as a line for .set(value), and {place} += value for .add(value)"
    of, code = ast.unparse(tree.value), frame.f_code
    kept = (frame.f_locals if of in frame.f_locals else frame.f_globals).get(of)
    if isinstance(tree.ctx, ast.Store) or isinstance(tree.value, ast.Dict) or isinstance(kept, dict):
        return ""
    is_name, n = isinstance(tree.value, ast.Name), code.co_argcount
    default = (
        "..."
        if of in code.co_varnames
        else of
        if isinstance(kept, list | np.ndarray) or isinstance(tree.value, ast.Call)
        else f"np.array({of})"
    )
    named = f"{of if is_name else 'table'}={default}"
    names = [*code.co_varnames[:n], "*", *code.co_varnames[n : n + code.co_kwonlyargcount], named]
    return f"make {of} a value of the body: def {code.co_name}({', '.join(names)})"


def _of_if(tree: ast.If) -> str:
    """One of two values for a variable that both ways set, or one of them; one of two functions for all else."""
    match tree.body, tree.orelse:
        case [ast.Assign(targets=[ast.Name(id=name)], value=then)], [ast.Assign(targets=[ast.Name(id=same)], value=other)]:
            if name == same:
                return f"write {name} = np.where({_plain(tree.test)}, {ast.unparse(then)}, {ast.unparse(other)})"
        case [ast.Assign(targets=[ast.Name(id=name)], value=then)], []:
            return f"write {name} = np.where({_plain(tree.test)}, {ast.unparse(then)}, {name})"
        case [ast.AugAssign(target=ast.Name(id=name), op=op, value=value)], []:
            then = ast.BinOp(ast.Name(name), op, value)
            return f"write {name} = np.where({_plain(tree.test)}, {ast.unparse(then)}, {name})"
    test = _plain(tree.test)
    one = f"mdf_loop.if_({test}, then_branch=..., else_branch=...)"
    return f"compute both and choose with np.where({test}, a, b), or run one with {one}"


def _chosen(tree: ast.BoolOp) -> str:
    """The number that ``x or 1.0`` is: the last one where the others are 0, or are not."""
    made = ast.unparse(tree.values[-1])
    for each in tree.values[-2::-1]:
        both = (made, ast.unparse(each)) if isinstance(tree.op, ast.And) else (ast.unparse(each), made)
        made = f"np.where({part_of_product(each)} != 0, {', '.join(both)})"
    return made


def _plain(tree: ast.AST) -> str:
    """A condition as text, with numpy's functions for what Python decides."""
    match tree:
        case ast.BoolOp(op=op, values=values):
            name, texts = f"np.logical_{'and' if isinstance(op, ast.And) else 'or'}", [*map(_plain, values)]
            return functools.reduce(lambda one, other: f"{name}({one}, {other})", texts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"np.logical_not({_plain(operand)})"
        case ast.Compare(left=left, ops=[_, _, *_] as ops, comparators=others):
            pairs = zip([left, *others], ops, others, strict=False)
            return _plain(ast.BoolOp(ast.And(), [ast.Compare(one, [op], [other]) for one, op, other in pairs]))
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple(elts=elts) | ast.List(elts=elts)]):
            found = _plain(ast.BoolOp(ast.Or(), [ast.Compare(left, [ast.Eq()], [each]) for each in elts]))
            return found if isinstance(op, ast.In) else f"np.logical_not({found})"
        case ast.Compare(left=left, ops=[ast.In()], comparators=[within]):
            return f"np.any({ast.unparse(within)} == {ast.unparse(left)})"
    return ast.unparse(tree)
