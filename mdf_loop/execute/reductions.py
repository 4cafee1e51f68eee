"""Sums, products, means and extremes inside an emitted function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdf_loop.execute.arrays import fits_a_buffer
from mdf_loop.execute.kinds import ARRAY, FLOAT, FLOAT64, OTHER, Kind
from mdf_loop.execute.scalars import Operand
from mdf_loop.ir import Node
from mdf_loop.registry import operator

UFUNCS: dict[str, np.ufunc] = {
    "ReduceSum": np.add,
    "ReduceMean": np.add,
    "ReduceProd": np.multiply,
    "ReduceMax": np.maximum,
    "ReduceMin": np.minimum,
}

PLACES = {"ReduceMax": "argmax", "ReduceMin": "argmin"}
"""Methods that find an extreme in a fifth of the time of a reduction, as long as the array is not large."""

LARGE = 1 << 14
"""Elements from which on a reduction finds an extreme as fast."""

SHORT, MANY = 8, 64
"""The length of a last axis up to which slices are added, if there are this many sums for each: numpy takes 10 ns for every
sum along the last axis, however short it is."""

TALL = 64
"""Rows of a matrix from which on its halves are compared first."""

EVEN = 1024
"""Terms of a sum up to which a product with ones loses no more digits than numpy's sum, which adds pairs of sums."""


@dataclass
class Written:
    """Lines that write into ``{out}``, or else an expression, and the names of ours in them.

    ``given`` are objects that other names in braces stand for, and ``prologue`` says what is made for some before the loop.
    """

    lines: list[str] = field(default_factory=list)
    expression: str = ""
    names: dict[str, Any] = field(default_factory=dict)
    prologue: dict[str, str] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)


def write_reduction(node: Node, data: Operand, axes: Any, result: Kind, target: str | None) -> Written | None:
    """How axes are reduced; None where only the kernel knows."""
    kind = data.kind
    if kind.form != ARRAY or not kind.shape or kind.dtype is None or 0 in kind.shape or kind.dtype.kind not in "fi":
        return None
    if kind.dtype.itemsize < 4 or (result.form == OTHER) or result.weak or result.dtype != kind.dtype:
        return None
    if node.op == "ReduceMean" and kind.dtype.kind != "f":
        return None
    along = along_axes(node, kind.shape, axes)
    if not along:
        return None
    if result.form == ARRAY:
        if target is None or not fits_a_buffer(result):
            return None
        return _into_a_buffer(node, data, along, result)
    return _of_all(node, data, result)


def _by_halves(node: Node, data: Operand, shape: tuple[int, ...], result: Kind, keeps: bool) -> Written:
    """Extremes of columns: two halves in one call first, as numpy goes row by row."""
    ufunc, half = UFUNCS[node.op], shape[0] // 2
    name, rest = ufunc.__name__, -(-shape[0] // 2)
    first = f"{name}({data.text}[:{half}], {data.text}[{rest}:], out={{half}}[:{half}])"
    middle = [f"{{half}}[{half}] = {data.text}[{half}]"] if rest > half else []
    text, names = _call(node, replace(data, text="{half}"), "(0,)", "{out}", repr(keeps))
    prologue = {"{half}": f"empty(({rest}, {shape[1]}), {{dtype}})"}
    return Written([first, *middle, text], "", {**names, name: ufunc, "empty": np.empty}, prologue)


def along_axes(node: Node, shape: tuple[int, ...], axes: Any) -> tuple[int, ...]:
    """The axes that are reduced, in order; none if nothing is."""
    along = tuple(sorted(int(axis) % len(shape) for axis in np.ravel(axes))) if axes is not None else ()
    return along or (() if node.attrs.get("noop_with_empty_axes") else tuple(range(len(shape))))


def _of_all(node: Node, data: Operand, result: Kind) -> Written:
    """All elements made one number."""
    size = int(np.prod(data.kind.shape or ()))
    if result.is_number and node.op in PLACES and size < LARGE:
        text = f"{data.text}.item({data.text}.{PLACES[node.op]}())"
        if result.form != FLOAT:
            return Written(expression=text)
        again, names = _call(node, data, "None")  # of 0 and -0 the first one is not always numpy's
        return Written([], f"{text} or float({again})", names)
    if result.form == FLOAT and UFUNCS[node.op] is np.add and size <= EVEN:
        text, names = _of_ones(data, size)
    else:
        text, names = _call(node, data, "None")
    if result.is_number:
        text = f"{result.form}({text})"
    if node.op == "ReduceMean":
        text, names = f"{text} / {(count := _count(size, result))[0]}", {**names, **dict([count])}
    return Written([], text, names)


def _into_a_buffer(node: Node, data: Operand, along: tuple[int, ...], result: Kind) -> Written:
    """Some axes reduced."""
    shape, keeps = data.kind.shape or (), bool(node.attrs.get("keepdims", 1))
    n, rows = shape[-1], int(np.prod(shape[:-1]))
    if along == (len(shape) - 1,) and 2 <= n <= SHORT and rows >= MANY * n and not keeps:
        written = _by_slices(UFUNCS[node.op], data.text, n)
    elif UFUNCS[node.op] is np.add and result.dtype in (np.float32, np.float64) and (matrix := as_matrix(shape, along)):
        sums = matrix[1] if along[0] == 0 else matrix[0]
        flat = "{out}" if result.shape == (sums,) else f"{{out}}.reshape({(sums,)!r})"
        written = sums_of(data.text, shape, along, result.dtype, flat)
    elif node.op in PLACES and along == (0,) and len(shape) == 2 and shape[0] >= TALL and n <= TALL * 8:
        written = _by_halves(node, data, shape, result, keeps)
    else:
        text, names = _call(node, data, repr(along), "{out}", repr(keeps))
        written = Written([text], "", names)
    if node.op == "ReduceMean":
        name, count = _count(int(np.prod([shape[axis] for axis in along])), result)
        written.lines.append(f"divide_({{out}}, {name}, {{out}})")
        written.names |= {name: np.asarray(count), "divide_": np.divide}
    return written


def as_matrix(shape: tuple[int, ...], along: tuple[int, ...]) -> tuple[int, int] | None:
    """The shape of a matrix whose rows or columns are summed, if not too many at once lose digits."""
    count = len(along)
    if along not in (tuple(range(count)), tuple(range(len(shape) - count, len(shape)))):
        return None
    split = count if along[0] == 0 else len(shape) - count
    rows, columns = int(np.prod(shape[:split])), int(np.prod(shape[split:]))
    return (rows, columns) if (rows if along[0] == 0 else columns) <= EVEN else None


def sums_of(text: str, shape: tuple[int, ...], along: tuple[int, ...], dtype: Any, out: str) -> Written:
    """Sums of rows or columns as a product with ones, which takes a third to a tenth of a reduction's time.

    ``out`` is a vector for them.
    """
    matrix = as_matrix(shape, along)
    assert matrix is not None
    given = text if shape == matrix else f"{text}.reshape({matrix!r})"
    terms = matrix[0] if along[0] == 0 else matrix[1]
    name = f"ones_{terms}_{dtype}"
    line = f"{name}.dot({given}, {out})" if along[0] == 0 else f"{given}.dot({name}, {out})"
    return Written([line], "", {name: np.ones(terms, dtype)})


def _of_ones(data: Operand, size: int) -> tuple[str, dict[str, Any]]:
    """The sum of all elements, as a product with ones."""
    text = data.text if data.kind.shape == (size,) else f"{data.text}.ravel()"
    return f"{text}.dot(ones_{size}_float64)", {f"ones_{size}_float64": np.ones(size)}


def _call(node: Node, data: Operand, axes: str, *others: str) -> tuple[str, dict[str, Any]]:
    """The call of a ufunc's reduce."""
    ufunc = UFUNCS[node.op]
    dtype = "None" if node.op in PLACES else f"{data.text}.dtype"  # or small whole numbers would come out larger
    name = f"{ufunc.__name__}_reduce"
    return f"{name}({', '.join([data.text, axes, dtype, *others])})", {name: ufunc.reduce}


def _count(count: int, result: Kind) -> tuple[str, Any]:
    """What a mean is divided by, and a name for it."""
    assert result.dtype is not None
    return f"n{count}_{result.dtype.name}", float(count) if result.form == FLOAT else result.dtype.type(count)


def _by_slices(ufunc: np.ufunc, text: str, n: int) -> Written:
    """The elements of a short last axis worked together one after the other, in the order in which numpy does it."""
    name = ufunc.__name__
    pairs = [(f"{text}[..., 0]", f"{text}[..., 1]")]
    if n > 2:
        pairs = [(f"{text}[..., 1]", f"{text}[..., 2]"), *(("{out}", f"{text}[..., {k}]") for k in range(3, n))]
        pairs.append((f"{text}[..., 0]", "{out}"))
    return Written([f"{name}({one}, {other}, out={{out}})" for one, other in pairs], "", {name: ufunc})


def dot_products(nodes: Sequence[Node], kept: Collection[str]) -> dict[str, str]:
    """Products of which nobody wants more than the sum over all elements -> that sum: one call in place of two."""
    reads = Counter(name for node in nodes for name in node.reads)
    written = {name: node for node in nodes for name in node.outputs if name}
    found = {}
    for node in nodes:
        if operator(node) != "ReduceSum" or not node.inputs or node.attrs.get("axes") or any(node.inputs[1:]):
            continue
        product = written.get(node.inputs[0])
        is_plain = (
            product is not None
            and operator(product) == "Mul"
            and not product.attrs
            and not node.attrs.get("noop_with_empty_axes")
        )
        if is_plain and reads[node.inputs[0]] == 1 and node.inputs[0] not in kept:
            found[node.inputs[0]] = node.outputs[0]
    return found


def write_dot(args: Sequence[Operand], total: Kind) -> str | None:
    """The sum of the products of two arrays of float64; None where they are anything else."""
    a, b = args
    if total != Kind(FLOAT, FLOAT64) or a.kind.form != ARRAY or a.kind != b.kind or not a.kind.shape or a.kind.dtype != FLOAT64:
        return None
    if len(a.kind.shape) == 1:
        return f"float({a.boxed}.dot({b.boxed}))"
    return f"float({a.boxed}.ravel().dot({b.boxed}.ravel()))"
