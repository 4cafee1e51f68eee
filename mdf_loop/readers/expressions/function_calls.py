"""Function calls in expressions: which function, and which argument is what.

The list of functions is the table of kernels: a call of ``numpy.exp`` is the kernel ``numpy.exp`` of domain
``mdf``.  Its signature says what the arguments are: positional parameters are values, keyword-only ones must be
known when the expression is read.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mdf_loop.ops.registry import INJECTED, KERNELS
from mdf_loop.readers.expressions.values import DOMAIN, UNKNOWN, Number, Value, arithmetic, literal

if TYPE_CHECKING:
    from mdf_loop.readers.expressions.expression import Compiler

BUILTINS = {"abs", "min", "max", "round", "sum", "len", "int", "float", "bool"}
"""Python's own functions that expressions may call."""

MODULES = {"numpy": "numpy", "np": "numpy", "math": "math", "linalg": "numpy.linalg"}

ALIASES = {"true_divide": "divide", "mod": "remainder", "pow": "power", "abs": "absolute", "bitwise_not": "invert"}
UNARY = ("negative", "positive", "absolute", "invert")
BINARY = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "matmul", "left_shift", "right_shift"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
)
OPERATORS = {**{name: name for name in (*UNARY, *BINARY)}, **ALIASES}
"""Functions of numpy that are Python's operators on arrays."""

SEQUENCES = {"numpy.concatenate", "numpy.stack", "numpy.hstack", "numpy.vstack"}
"""Functions whose first argument is a list: its elements are the inputs of their kernels."""

NUMBERS = {
    **dict.fromkeys(("builtins.len", "builtins.int", "numpy.size", "numpy.ndim", "numpy.count_nonzero"), Number.INT),
    **dict.fromkeys(("math.ceil", "math.floor", "math.trunc", "math.gcd", "math.lcm"), Number.INT),
    **dict.fromkeys(("math.isfinite", "math.isinf", "math.isnan", "builtins.bool"), Number.BOOL),
    "builtins.float": Number.FLOAT,
}
"""The Python number that a function gives; others of ``math`` and ``numpy.random`` give floats, those of numpy none."""

_CHOSEN = "where(uniform() < 0.5, a, b), or, with probabilities p, values[argmax(cumsum(p) > uniform())]"

DRAWS = {
    "noise": ("numpy.random.randn", "numpy.random.normal"),
    "uniform": ("numpy.random.rand", "numpy.random.uniform"),
    "random": ("numpy.random.rand", "numpy.random.uniform"),
}
"""Random numbers: ``noise()`` is one, ``noise(x)`` as many as x has elements."""

DISTRIBUTIONS = {"normal": (2, "mean, spread"), "uniform": (2, "low, high"), "poisson": (1, "rate")}
"""Functions of numpy.random by their names: how many arguments they take, and which; as many numbers as these have."""

DRAWN: dict[str, tuple[Sequence[str], str]] = {
    **dict.fromkeys(("randn", "standard_normal"), ((), "noise()")),
    **dict.fromkeys(("normal", "gauss", "normalvariate"), (("mean", "spread"), "normal(mean, spread)")),
    **dict.fromkeys(("rand", "random", "random_sample", "sample", "ranf"), ((), "uniform()")),
    **dict.fromkeys(("randint", "integers", "randrange"), (("low", "high"), "floor(low + (high - low) * uniform())")),
    **dict.fromkeys(("exponential", "expovariate", "standard_exponential"), (("mean",), "-mean * log(uniform())")),
    "bernoulli": (("p",), "where(uniform() < p, 1.0, 0.0)"),
    "binomial": (("n", "p"), "sum(uniform(zeros(n)) < p)"),
    **dict.fromkeys(("shuffle", "permutation"), (("values",), "values[argsort(uniform(values))]")),
    "uniform": (("low", "high"), "uniform(low, high)"),
    "poisson": (("rate",), "poisson(rate)"),
    **dict.fromkeys(("choice", "choices"), ((), _CHOSEN)),
    "lognormal": (("mean", "spread"), "exp(normal(mean, spread))"),
    "multivariate_normal": ((), "mean + L @ noise(mean), where L is the Cholesky factor of the covariance, as a parameter"),
}
"""Functions that draw random numbers, by the names of their arguments and what the same is in equations."""


class Omitted(NamedTuple):
    """An argument that a call leaves out, in front of one that it gives; ``value`` is its default."""

    value: Any


def dotted(tree: ast.expr) -> str | None:
    """``numpy.exp`` for ``np.exp``, ``abs`` for ``abs``; None for anything else."""
    parts: list[str] = []
    while isinstance(tree, ast.Attribute):
        parts.append(tree.attr)
        tree = tree.value
    if not isinstance(tree, ast.Name) or (parts and tree.id not in MODULES):
        return None
    return ".".join([MODULES[tree.id] if parts else tree.id, *reversed(parts)])


def op_of(name: str) -> str | None:
    """The operator in domain ``mdf`` that a function is; None if it is not on the list."""
    if name in BUILTINS:
        return "absolute" if name == "abs" else f"builtins.{name}"
    module, _, function = name.partition(".")
    if module == "numpy" and function in OPERATORS:
        return OPERATORS[function]
    if module == "numpy" and isinstance(ufunc := getattr(np, function, None), np.ufunc):
        name = f"numpy.{ufunc.__name__}"  # it may have several names: asin is arcsin
    return name if function and (DOMAIN, name) in KERNELS else None


def call(compiler: Compiler, tree: ast.Call, out: str) -> Value:
    """The value of a function call."""
    name = dotted(tree.func) or ""
    op = op_of(name)
    assert op is not None  # checked when the expression was parsed
    if name in BUILTINS and not tree.keywords:
        return _builtin(compiler, name, op, tree, out)
    if op in OPERATORS.values():
        return _operator(compiler, op, tree, out)
    inputs, attrs = compiler.arguments(tree, name, KERNELS[DOMAIN, op][-1].run)
    if op == "numpy.shape":
        return _shape(compiler, inputs[0], out)
    return compiler.node(op, inputs, out, _number(op, inputs), **attrs)


def _number(op: str, inputs: Sequence[Value | None]) -> Number:
    if op in NUMBERS:
        return NUMBERS[op]
    return Number.FLOAT if op.startswith(("math.", "numpy.random.")) else Number.NO


def _shape(compiler: Compiler, value: Value | None, out: str) -> Value:
    """``numpy.shape(x)``: a tuple of Python, whose elements are Python's numbers."""
    shape = compiler.node("numpy.shape", [value], out)
    return Value(shape.name, varies=shape.varies, display="shape", of=value)


def _builtin(compiler: Compiler, name: str, op: str, tree: ast.Call, out: str) -> Value:
    """Python's own functions; over a list that is written out they work on its elements."""
    values = [compiler.value(arg) for arg in tree.args]
    known = {"round": (1, 2), "sum": (1, 2), "min": (1, max(len(values), 1)), "max": (1, max(len(values), 1))}
    least, most = known.get(name, (1, 1))
    if not least <= len(values) <= most:
        raise compiler.error(
            tree, f"{name} takes {least if least == most else f'{least} to {most}'} arguments, not {len(values)}"
        )
    first = values[0]
    if name == "len" and first.items is not None:
        return literal(len(first.items))
    if name == "len" and first.display == "shape":
        return compiler.node("numpy.ndim", [first.of], out, Number.INT)
    if name == "sum" and first.items is not None:
        return _sum(compiler, [*(values[1:] or [literal(0)]), *first.items], tree)
    if name in ("min", "max") and len(values) == 1 and first.items:
        values = [*first.items]
    inputs = [compiler.plain(value, tree) for value in values]
    number = max(value.number for value in inputs)
    if name == "round":
        number = Number.INT if len(inputs) == 1 else inputs[0].number
    elif name == "abs":
        number = max(number, Number.INT) if number else number
    elif name == "sum":
        number = Number.NO
    return compiler.node(op, inputs, out, NUMBERS.get(op, number))


def _sum(compiler: Compiler, terms: Sequence[Value], tree: ast.Call) -> Value:
    total, *rest = [compiler.plain(term, tree) for term in terms]
    for term in rest:
        total = compiler.node("add", [total, term], "", arithmetic("add", total, term))
    return total


def _operator(compiler: Compiler, op: str, tree: ast.Call, out: str) -> Value:
    """``numpy.add(a, b)``: an operator on arrays, since numpy's function makes arrays of Python numbers."""
    wanted = 1 if op in UNARY else 2
    if len(tree.args) != wanted or tree.keywords:
        raise compiler.error(tree, f"{dotted(tree.func)} takes {wanted} argument{'s' * (wanted > 1)} here, without names")
    values = [compiler.builder.array(compiler.value(arg), compiler.base) for arg in tree.args]
    values = [compiler.plain(value, tree) for value in values]
    if all(value.number for value in values):
        values[0] = compiler.builder.tensor(values[0], compiler.base, like=values[1:])
    return compiler.node(op, values, out)


def bind(
    run: Callable[..., Any], name: str, args: Sequence[Any], named: Mapping[str, Any], count: int | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs and attributes of a call by the signature of a kernel; ``count`` come as inputs.

    Raises
    ------
    TypeError
        The function is called with other arguments than the list has for it.
    """
    signature = _signature(run)
    count = _most_inputs(signature) if count is None else count
    placed = dict(zip(_places(signature), args[count:], strict=False))
    try:
        if len(placed) < len(args[count:]) or placed.keys() & named:
            raise TypeError("too many positional arguments")
        bound = signature.bind(*args[:count], **placed, **named).arguments
    except TypeError as error:
        several = of_several(name) if "axis" in signature.parameters and "positional" in str(error) else ""
        meant = "; the value at 0 comes second: heaviside(x, 0.5)" if name == "numpy.heaviside" else several
        raise TypeError(f"{name}{signature} is called with other arguments: {error}{meant}") from error
    inputs: list[Any] = []
    attrs: dict[str, Any] = {}
    omitted = [Omitted(None if p.default is p.empty else p.default) for p in signature.parameters.values()]
    for place, (key, parameter) in enumerate(signature.parameters.items()):
        if key in bound and parameter.kind is parameter.KEYWORD_ONLY:
            attrs[key] = bound[key]
        elif key in bound:
            inputs += [omitted[each] for each in range(len(inputs), place)]
            inputs += bound[key] if parameter.kind is parameter.VAR_POSITIONAL else [bound[key]]
    return inputs, attrs


def of_several(name: str) -> str:
    """How a function of one array, which has an axis, is called with several values."""
    return f"; of several values it is {name.rpartition('.')[2]}([a, b])"


def _most_inputs(signature: inspect.Signature) -> int:
    kinds = [p.kind for p in signature.parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return sys.maxsize
    return len([kind for kind in kinds if kind is not inspect.Parameter.KEYWORD_ONLY])


def _places(signature: inspect.Signature) -> list[str]:
    """Attributes that may be given by place, behind the inputs: those without a default, else the first."""
    options = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in options if p.default is p.empty] or [p.name for p in options[:1]]


@functools.lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """What a kernel takes from an expression; finding it out costs many times what an expression does."""
    if isinstance(function, np.ufunc):
        names = ["x", "y", "z"][: function.nin]
        return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names])
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions of math do not tell; they say themselves what they miss
        return inspect.Signature([inspect.Parameter("numbers", inspect.Parameter.VAR_POSITIONAL)])
    return inspect.Signature([p for p in parameters if p.name not in INJECTED])


def dtype_named(tree: ast.expr) -> np.dtype:
    """The element type that ``float``, ``numpy.float32`` or ``"float32"`` names.

    Raises
    ------
    TypeError
        None, or none of numbers.
    """
    name = tree.value if isinstance(tree, ast.Constant) else dotted(tree)
    try:
        dtype = np.dtype(str(name).removeprefix("numpy."))
    except TypeError as error:
        raise TypeError("dtype must name an element type, such as float or numpy.float32") from error
    if dtype.kind not in "biufc":
        raise TypeError(f"dtype must be numbers or booleans; got {dtype}")
    return dtype


def signed(tree: ast.expr) -> Any:
    """A number with its sign, or UNKNOWN."""
    sign = 1
    while isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        sign = -sign if isinstance(tree.op, ast.USub) else sign
        tree = tree.operand
    number: Any = tree.value if isinstance(tree, ast.Constant) else None
    if type(number) not in (int, float, complex):
        return UNKNOWN
    return -number if sign < 0 else number
