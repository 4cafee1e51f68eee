"""The law of definitions: what an operator is defined as, in primitives, is what its kernel computes.

Checked for every element-wise operator, every version and each element type that ONNX allows it: primitive by primitive
with numpy (arrays, broadcast, single numbers), and as printed for the Python engine.  Bit for bit, but for functions such
as exp, which may differ by 3 units in the last place.
"""

import inspect
import itertools
import math

import numpy as np
import onnx
import pytest
from definitions import assert_same, defined, every_pair, kernel_of, numbers_of, specials
from in_groups import each
from step_meaning import evaluate

from mdf_loop.backends.python.printer import program
from mdf_loop.ir import Body, Node
from mdf_loop.kernels.numbers.casting import width
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import INJECTED, KERNELS
from mdf_loop.options import start_run
from mdf_loop.step.build import type_of_value
from mdf_loop.step.failing import FallBack
from mdf_loop.step.lower import lower_graph
from mdf_loop.types.elements import CODES, NAMES, kind_of

WITHOUT = {
    "Optional": "an optional is no number",
    "OptionalGetElement": "an optional is no number",
    "RegexFullMatch": "texts",
    "StringConcat": "texts",
}
"""Element-wise operators that have no definition, and why."""

ATTRS = {
    "BitShift": ({"direction": "LEFT"}, {"direction": "RIGHT"}),
    "Celu": ({}, {"alpha": 0.3}),
    "Clip": ({},),
    "Elu": ({}, {"alpha": 0.3}),
    "Gelu": ({}, {"approximate": "tanh"}),
    "HardSigmoid": ({}, {"alpha": 0.3, "beta": 0.4}),
    "IsInf": tuple({"detect_negative": n, "detect_positive": p} for n in (0, 1) for p in (0, 1)),
    "LeakyRelu": ({}, {"alpha": -0.3}),
    "Mod": ({}, {"fmod": 1}),
    "Selu": ({}, {"alpha": 0.3, "gamma": 1.7}),
    "Shrink": ({}, {"lambd": 1.1, "bias": 0.3}, {"lambd": 0.0, "bias": 1.0}),
    "SwiGLU": ({}, {"alpha": 0.3}),
    "Swish": ({}, {"alpha": -0.3}),
    "ThresholdedRelu": ({}, {"alpha": 0.3}),
}
"""Attributes to check, where the defaults are not all; those of Clip, Cast and BitCast depend on version and type."""

NEAR = {
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Exp", "Log", "Pow", "Sin", "Sinh", "Tan", "Tanh"),
}
"""Functions that may differ in the last places."""

COMPOSED = {"Celu", "Elu", "Gelu", "Mish", "Selu", "Sigmoid", "Softplus", "SwiGLU", "Swish"}
"""Formulas of such functions: as much, of what is added up on the way."""

WIDE = 8.0
"""What numbers of a loop are like: these never end a program."""


def elementwise_operators():
    """The names of operators whose newest kernel is element-wise, and of two that are but for their batch rule."""
    newest = {op: versions[-1] for (domain, op), versions in KERNELS.items() if domain == ""}
    return sorted({op for op, entry in newest.items() if entry.batch is elementwise} | {"CastLike", "SwiGLU"})


def test_a_definition_takes_what_its_kernel_takes():
    """A definition that refuses an attribute or asks for an input would end what its kernel runs."""
    for (domain, _), versions in KERNELS.items():
        for entry in versions:
            if entry.define is None or domain == "mdf":  # whose functions may be Python's own, which have no signature
                continue
            given = inspect.signature(entry.define).parameters.values()
            keywords = {p.name for p in given if p.kind is p.KEYWORD_ONLY}
            needed = sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in given) - 1
            takes_all = any(p.kind is p.VAR_KEYWORD for p in given)
            assert takes_all or entry.parameters - INJECTED <= keywords, (entry.op, entry.since)
            assert needed <= entry.takes[0], (entry.op, entry.since)
            assert not {p.name for p in given if p.kind is p.KEYWORD_ONLY and p.default is p.empty} - _required(entry)


def _required(entry):
    if isinstance(entry.run, np.ufunc):
        return set()
    given = inspect.signature(entry.run).parameters.values()
    return {p.name for p in given if p.kind is p.KEYWORD_ONLY and p.default is p.empty}


def test_an_operator_without_a_definition_says_why():
    assert all(len(reason) > 4 for reason in WITHOUT.values())


# Nodes, types and values


def types_of(op, opset):
    """For each input the name of its type parameter, and the element types that each may be."""
    schema = onnx.defs.get_schema(op, opset)
    allowed = {
        c.type_param_str: [NAMES[t[7:-1]] for t in c.allowed_type_strs if t.startswith("tensor(") and t[7:-1] in NAMES]
        for c in schema.type_constraints
    }
    formal = [x.type_str if x.type_str in allowed else f"={x.type_str}" for x in schema.inputs]
    for name in formal:
        if name.startswith("="):
            allowed[name] = [NAMES[name[8:-1]]]
    if schema.inputs and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
        formal = [formal[0]] * 3
    return formal, {k: [d for d in v if kind_of(d) not in ("string", "complex")] for k, v in allowed.items()}


def attributes(op, version, dtypes):
    """The attributes to check for these element types."""
    if op == "Clip" and version < 11:
        yield from ({}, {"min": -1.5}, {"max": 1.5}, {"min": -1.0, "max": 0.5})
    elif op == "Cast":
        yield from casts(version)
    elif op == "BitCast":
        yield from ({"to": code} for dtype, code in CODES.items() if not dtype.hasobject and width(dtype) == width(dtypes[0]))
    else:
        yield from ATTRS.get(op, ({},))


def casts(version):
    for dtype, code in CODES.items():
        if kind_of(dtype) in ("string", "complex"):
            continue
        if version == 1:
            if dtype.name in NAMES:
                yield {"to": dtype.name.upper()}
            continue
        yield {"to": code}
        if dtype.name.startswith("float8"):
            yield {"to": code, "saturate": 0}


LIKE = {"float32", "int32", "bool"}


def cases():
    """Each operator, version and combination of element types."""
    for op in elementwise_operators():
        entries = KERNELS["", op]
        if op in WITHOUT:
            continue
        for k, entry in enumerate(entries):
            last = entries[k + 1].since - 1 if k + 1 < len(entries) else onnx.defs.onnx_opset_version()
            formal, allowed = types_of(op, last)
            names = list(dict.fromkeys(formal))
            for chosen in itertools.product(*(allowed[name] for name in names)):
                if op == "CastLike" and not LIKE & {dtype.name for dtype in chosen}:  # Cast has every pair
                    continue
                dtypes = [dict(zip(names, chosen, strict=True))[name] for name in formal]
                yield op, last, entry.since, dtypes


# The law


def node_of(op, opset, attrs, count):
    return Node(op, tuple(f"x{k}" for k in range(count)), ("y",), attrs, opset=opset)


def bound(op):
    return 3 if op in NEAR or op in COMPOSED else 0


@each("op,opset,version,dtypes", cases(), size=20)
def test_definition_is_the_kernel(op, opset, version, dtypes):
    columns = [numbers_of(d, 40 if len(dtypes) == 1 else 6 if len(dtypes) == 2 else 0, k) for k, d in enumerate(dtypes)]
    columns = [c[:: len(c) // 12 + 1] for c in columns] if len(columns) > 2 else columns
    for attrs in attributes(op, version, dtypes):
        node = node_of(op, opset, attrs, len(dtypes))
        given = every_pair(*columns)
        assert_holds(node, given, bound(op))
        if len(columns) > 1 and version >= 7 and op != "SwiGLU":
            assert_holds(node, [columns[0][:, None], *columns[1:2], *(c[0] for c in columns[2:])], bound(op))
        for k in range(0, len(given[0]), len(given[0]) // 5 + 1):
            assert_holds(node, [x[k] for x in given], bound(op))


def assert_holds(node, given, ulp):
    region = defined(node, given)
    if region is None:
        assert node.op in ("Cast", "CastLike", "BitCast"), "the definition does not cover this"
        return
    for found, expected in zip(evaluate(region, given), kernel_of(node, given), strict=True):
        assert_same(found, expected, ulp, given[0] if node.op in COMPOSED else None)


@each("op,opset,version,dtypes", cases(), size=20)
def test_printed_numbers_are_those_of_the_kernel(op, opset, version, dtypes):
    columns = [numbers_of(d, 6, k) for k, d in enumerate(dtypes)]
    columns = [c[:: len(c) // 8 + 1] for c in columns] if len(columns) > 2 else columns
    given = every_pair(*columns)
    for attrs in attributes(op, version, dtypes):
        node = node_of(op, opset, attrs, len(dtypes))
        body = Body("one", node.inputs, node.outputs, (node,))
        run_printed(program(lower_graph(body, [type_of_value(x[0]) for x in given]))[0], node, given)


def run_printed(call, node, given):
    refused, results = [], []
    for row in zip(*given, strict=True):
        (expected,) = kernel_of(node, row)
        try:
            with np.errstate(all="ignore"):
                (found,) = call(start_run(), *row)
        except (FallBack, ArithmeticError, ValueError):
            refused.append(row)
            continue
        assert (found.dtype, found.shape) == (expected.dtype, ())
        results.append((found, expected, row[0]))
    if results:
        found, expected, first = (np.array(column, column[0].dtype) for column in zip(*results, strict=True))
        assert_same(found, expected, 2 * bound(node.op), first if node.op in COMPOSED else None)
    tame = [
        row for row in refused if all(0 < abs(float(x)) <= WIDE for x in row) and math.isfinite(float(kernel_of(node, row)[0]))
    ]
    if node.op == "Pow":  # roots of negative numbers are nan, of which numpy makes some whole number or other
        tame = [row for row in tame if row[0] > 0]
    assert not tame


READERS = (("Less", "zero", {}), ("Max", "zero", {}), ("Cast", "", {"to": 11}), ("Abs", "", {}), ("Div", "two", {}))
"""What reads a whole number itself."""


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("op", ["Abs", "Add", "Div", "Mul", "Neg", "Sub"])
@pytest.mark.parametrize(("reader", "other", "attrs"), READERS, ids=[r[0] for r in READERS])
def test_whole_numbers_that_wrap_around_are_read_as_what_they_are(op, dtype, reader, other, attrs):
    names = ("x",) if op in ("Abs", "Neg") else ("x", "y")
    first = Node(op, names, ("between",), opset=20)
    second = Node(reader, ("between", other)[: 1 + bool(other)], ("out",), attrs, opset=20)
    constants = {"zero": np.array(0, dtype), "two": np.array(2, dtype)}
    body = Body("two", names, ("out",), (first, second), constants)
    columns = [specials(np.dtype(dtype))] * len(names)
    call = program(lower_graph(body, [type_of_value(c[0]) for c in columns]))[0]
    for row in zip(*every_pair(*columns), strict=True):
        if op == "Div" and not row[1]:
            continue
        (between,) = kernel_of(first, row)
        (expected,) = kernel_of(second, [between, constants[other][()]] if other else [between])
        assert_same(call(start_run(), *row)[0], expected)
