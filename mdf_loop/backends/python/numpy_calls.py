"""Everything that is not a number of Python's: one expression of numpy for each operation, as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.backends.python import numbers, runtime
from mdf_loop.backends.python.numbers import CASTS, PYTHON_CASTS, SIGNS, end_of, is_native
from mdf_loop.backends.python.peepholes import shorter, whole_operands
from mdf_loop.kernels.numbers.wide import EXACT64
from mdf_loop.ops.rows import filling
from mdf_loop.step.primitives import PRIMITIVES, REDUCTIONS
from mdf_loop.step.records import Reduction, Type, Value
from mdf_loop.step.structure import is_always_true, is_one_of_two

if TYPE_CHECKING:
    from mdf_loop.backends.python.printer import Printer

Write = Callable[["Printer", Value], str]
WRITERS: dict[str, Write] = {}
"""By operation."""


def written(printer: Printer, value: Value) -> str:
    """The expression of a value."""
    return shorter(printer, value) or WRITERS.get(value.op, _primitive)(printer, value)


def written_into(printer: Printer, value: Value, target: str) -> str:
    """The statement that writes a value into an array."""
    found = shorter(printer, value, target)
    return INTO.get(value.op, _primitive_into)(printer, value, target) if found is None else found


def _primitive_into(p: Printer, v: Value, target: str) -> str:
    args = whole_operands(p, v, _operands(p, v), target) if v.op != "dot" else _operands(p, v)
    ufunc = PRIMITIVES[v.op].ufunc if v.op != "dot" else np.dot if v.type.rank == 2 and v.type.size > 1 else np.matmul
    out = f"out={target}" if ufunc in (np.maximum, np.minimum) else target  # numpy is about to ask for it
    return f"{p.source.use(ufunc)}({', '.join([*args, out])})"


def _put_into(p: Printer, v: Value, target: str) -> str:
    _, update, *index = v.args
    return f"{target}[{', '.join(map(p.text, index))}] = {p.text(update)}"


def _reduced_into(p: Printer, v: Value, target: str) -> str:
    how: Reduction = v.attr
    return f"{p.source.use(REDUCTIONS[how.kind].reduce, 'r')}({p.boxed(v.args[0])}, {how.axes!r}, None, {target}, {how.keep})"


def _copied_into(p: Printer, v: Value, target: str) -> str:
    return f"{target}[...] = {p.boxed(v.args[0])}"


def _joined_into(p: Printer, v: Value, target: str) -> str:
    return f"{p.source.use(np.concatenate)}(({', '.join(map(p.boxed, v.args))}), {v.attr}, {target})"


def _selected_into(p: Printer, v: Value, target: str) -> str:
    """The other one first, then what is chosen over it."""
    condition, x, y = v.args
    chosen = f"{p.source.use(np.copyto)}({target}, {_number(p, x, {v.type.dtype})}, where={p.boxed(condition)})"
    return chosen if p.text(y) == target else f"{target}[...] = {_number(p, y, {v.type.dtype})}; {chosen}"


INTO: dict[str, Callable[[Printer, Value, str], str]] = {
    "put": _put_into,
    "reduce": _reduced_into,
    "cast": _copied_into,
    "broadcast": _copied_into,
    "concat": _joined_into,
    "select": _selected_into,
}
"""How an operation that is no primitive is written into an array."""


writes = filling(WRITERS)
"""Says how operations are written."""


def _operands(p: Printer, v: Value) -> list[str]:
    """The arguments of a primitive; a number may be Python's to numpy, beside arrays of its type."""
    is_apart = v.op in PRIMITIVES and PRIMITIVES[v.op].ufunc in (None, np.ldexp)  # ldexp makes float16 of Python's whole numbers
    if is_apart or () not in [x.type.shape for x in v.args]:
        return [*map(p.boxed, v.args)]
    others = {x.type.dtype for x in v.args if not is_native(x.type)}
    return [_number(p, x, others) if x.type.is_number else p.boxed(x) for x in v.args]


def _number(p: Printer, x: Value, others: set[np.dtype | None]) -> str:
    """A number beside arrays; a constant as an array without dimensions, which numpy takes 0.3 us faster."""
    like = next(iter(others)) if len(others) == 1 else None
    if x.op == "const" and like is not None and x.type.dtype == like and like.kind in "fiub":
        return p.source.use(p.lone(x.attr, like), "k")
    return p.text(x) if is_native(x.type) and like == x.type.dtype else p.boxed(x)


def _primitive(p: Printer, v: Value) -> str:
    if v.op in ("max", "min") and all(x.type == v.type for x in v.args) and v.type.is_number:
        # of two numbers of numpy's, 0.2 us rather than 1.1
        return numbers.TEMPLATES[v.op, "i" if v.type.kind in "iu" else "f"].format(*map(p.name, v.args))
    args = _operands(p, v)
    if v.op in SIGNS and not any(x.op == "const" for x in v.args):
        text = f"{args[0]} {SIGNS[v.op]} {args[1]}"
    elif v.op == "neg":
        text = f"-{args[0]}"
    else:
        row = PRIMITIVES[v.op]
        text = f"{p.source.use(row.ufunc or row.call)}({', '.join(args)})"
    if not is_native(v.type):
        return text
    return f"bool({text})" if v.type.kind == "b" else f"({text}).item()"


@writes("cast")
def cast(p: Printer, v: Value) -> str:
    """Another element type."""
    (x,) = v.args
    if v.type.weak:
        how = PYTHON_CASTS.get((x.type.kind, v.type.kind)) if is_native(x.type) else None
        return (how or f"{v.type.dtype.name.rstrip('0123456789')}({{0}})").format(p.text(x))  # type: ignore[union-attr]
    if is_native(v.type):
        return _to_number(p, x, v.type)
    if x.type.is_array:
        return f"{p.boxed(x)}.astype({p.source.use(v.type.dtype, 'd')})[()]"
    if (x.type.weak and v.type.is_number) or (
        v.type.dtype in (np.float32, np.float16) and is_native(x.type) and (x.type.kind == "f" or p.bound(x) <= EXACT64)
    ):
        return f"{p.source.use(v.type.dtype.type)}({p.text(x)})"  # type: ignore[union-attr]
    return f"{p.boxed(x)}.astype({p.source.use(v.type.dtype, 'd')})"


def _to_number(p: Printer, x: Value, type: Type) -> str:
    """A number of float64, a whole number or bool, of another one."""
    template = "{0}" if x.type.dtype == type.dtype and is_native(x.type) else CASTS.get((x.type.kind, type.kind))
    if x.type.weak and x.type.kind == type.kind == "i":
        template = "in_range({0}, {end})"
    is_numpys = not is_native(x.type) and x.type.kind == type.kind  # an int8 would go on counting as one
    if template is None or is_numpys or not x.type.is_number:
        template = {"f": "float({0})", "i": "int({0})", "b": "bool({0})"}[type.kind]
        if x.type.kind not in ("b", type.kind):
            return f"{p.boxed(x)}.astype({p.source.use(type.dtype, 'd')}).item()"
    if "in_range" in template:
        p.source.use(runtime.in_range)
    return template.format(p.text(x), end=end_of(type))


@writes("as_array")
def as_array(p: Printer, v: Value) -> str:
    """An array without dimensions; inside a program a number as any other."""
    return p.text(v.args[0]) if is_native(v.type) else f"{p.source.use(np.array)}({p.boxed(v.args[0])})"


@writes("select")
def select(p: Printer, v: Value) -> str:
    """One of two."""
    condition, x, y = v.args
    texts = [p.text(a) if is_native(v.type) else p.boxed(a) for a in (x, y)]
    if is_one_of_two(v):
        return f"{texts[0]} if {p.text(condition)} else {texts[1]}"
    return f"{p.source.use(np.where)}({p.text(condition)}, {texts[0]}, {texts[1]})"


@writes("pack")
def pack(p: Printer, v: Value) -> str:
    """A vector of numbers."""
    return f"{p.source.use(np.array)}(({', '.join(map(p.text, v.args))},), {p.source.use(v.type.dtype, 'd')})"


def shape_text(p: Printer, v: Value) -> str:
    """The shape of a value, of numbers and open lengths."""
    lengths = iter(v.args[1:])
    return f"({''.join(f'{p.text(next(lengths)) if n is None else n}, ' for n in v.attr.lengths)})"


@writes("reshape")
def reshape(p: Printer, v: Value) -> str:
    """Another shape."""
    if v.type.shape == () and is_native(v.type):
        return f"{p.boxed(v.args[0])}.item()"
    return f"{p.boxed(v.args[0])}.reshape({shape_text(p, v)})"


@writes("broadcast")
def broadcast(p: Printer, v: Value) -> str:
    """Repeated."""
    return f"{p.source.use(runtime.expanded)}({p.boxed(v.args[0])}, {shape_text(p, v)})"


@writes("transpose")
def transpose(p: Printer, v: Value) -> str:
    """Axes in another order."""
    return f"{p.text(v.args[0])}.transpose({v.attr!r})"


@writes("slice")
def slice_(p: Printer, v: Value) -> str:
    """Parts of axes."""

    def one(s: slice) -> str:
        parts = ["" if n is None else str(int(n)) for n in (s.start, s.stop, s.step)]
        return ":".join(parts if parts[2] else parts[:2])

    return f"{p.text(v.args[0])}[{', '.join(map(one, v.attr))}]"


@writes("window")
def window(p: Printer, v: Value) -> str:
    """A part of known length from places on that are computed."""
    x, *starts = v.args

    def one(start: Value, length: Any, whole: Any) -> str:
        if start.op != "const":
            return f"{(name := p.name(start))}:{name} + {length}"
        first = int(start.attr)
        return ":" if length is whole or (first, length) == (0, whole) else f"{first}:{first + length}"

    return f"{p.text(x)}[{', '.join(map(one, starts, v.type.shape or (), x.type.shape or ()))}]"


@writes("length")
def length(p: Printer, v: Value) -> str:
    """The length of an axis."""
    return f"{p.text(v.args[0])}.shape[{v.attr}]"


@writes("concat")
def concat(p: Printer, v: Value) -> str:
    """One behind the other."""
    return f"{p.source.use(np.concatenate)}(({', '.join(map(p.boxed, v.args))}), {v.attr})"


@writes("place")
def place(p: Printer, v: Value) -> str:
    """One entry of the leading axes."""
    data, *index = v.args
    where = ", ".join(map(p.text, index))
    return f"{p.text(data)}.item({where})" if is_native(v.type) else f"{p.text(data)}[{where}]"


@writes("place_in")
def place_in(p: Printer, v: Value) -> str:
    """A place counted from the front."""
    index, length_ = (p.name(x) for x in v.args)
    return f"{index} if 0 <= {index} < {length_} else {p.source.use(runtime.place_in)}({index}, {length_})"


@writes("no_nan")
def no_nan(p: Printer, v: Value) -> str:
    """A look at what was made, and at what was given where nan is in that."""
    condition, *values = v.args
    made, given = ("".join(f"{p.text(x)}, " for x in part) for part in (values[: v.attr], values[v.attr :]))
    look = f"{p.source.use(runtime.no_nan)}(({made}), ({given}))"
    return look if is_always_true(condition) else f"{p.text(condition)} and {look}"


@writes("put")
def put(p: Printer, v: Value) -> str:
    """A copy with one entry replaced."""
    data, update, *index = v.args
    return f"{p.source.use(runtime.with_put)}({p.text(data)}, {p.text(update)}, {', '.join(map(p.text, index))})"


@writes("rows")
def rows(p: Printer, v: Value) -> str:
    """The list of an array's rows."""
    return f"list({p.boxed(v.args[0])})" if v.args else "[]"


@writes("insert", "erase")
def with_other_rows(p: Printer, v: Value) -> str:
    """A row more, or one less."""
    call = runtime.inserted if v.op == "insert" else runtime.erased
    return f"{p.source.use(call)}({', '.join(map(p.text, v.args))})"


@writes("gather")
def gather(p: Printer, v: Value) -> str:
    """Entries of an axis."""
    return f"{p.boxed(v.args[0])}.take({p.text(v.args[1])}, {v.attr})"


@writes("dot")
def dot(p: Printer, v: Value) -> str:
    """A product of matrices."""
    text = f"{p.boxed(v.args[0])} @ {p.boxed(v.args[1])}"
    return f"({text}).item()" if is_native(v.type) else text


@writes("reduce")
def reduce(p: Printer, v: Value) -> str:
    """A reduction along axes."""
    (x,), how = v.args, v.attr
    text = _reduced(p, x, how)
    return f"{text}.item()" if is_native(v.type) else text


def _reduced(p: Printer, x: Value, how: Reduction) -> str:
    keep = ", keepdims=True" if how.keep else ""
    if how.kind.startswith("arg"):
        return f"{p.boxed(x)}.{how.kind}({how.axes[0]}{keep})"
    axes: Any = how.axes if len(how.axes) > 1 else how.axes[0]
    # numpy adds up small whole numbers in 64 bits unless a type is given
    is_small = how.kind in ("sum", "prod") and x.type.kind in "iub"
    dtype = f", {p.source.use(x.type.dtype, 'd')}" if is_small else ""
    return f"{p.source.use(REDUCTIONS[how.kind].reduce, 'r')}({p.boxed(x)}, {axes}{dtype}{keep})"
