"""The table of operators, and how they are given their inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.backends.llvm.emitter import Emitter, type_of, writes
from mdf_loop.backends.llvm.inlined import is_onnxs
from mdf_loop.backends.llvm.lanes.casts import converted
from mdf_loop.backends.llvm.lanes.element_types import INT64, CannotCompile
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, Length, get
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.operations.views import literal_or_name
from mdf_loop.backends.llvm.operators.foreign import run_outside
from mdf_loop.ops.rows import filling
from mdf_loop.step.records import Apply, Value

Give = Callable[["Call"], "Array | Sequence[Array]"]
OPERATORS: dict[str, Give] = {}
"""By name: what gives the results of a node."""


class Call:
    """One node: its inputs, its attributes, and how its results are used."""

    def __init__(self, e: Emitter, v: Value) -> None:
        attr: Apply = v.attr
        self.e, self.v, self.node, self.attrs = e, v, attr.node, attr.node.attrs
        self.name = attr.node.op

    def refuse(self, what: str) -> CannotCompile:
        """The reason why there is no compiled form."""
        return CannotCompile(f"{self.name} {what} has no compiled form")

    def has(self, k: int) -> bool:
        """Whether an input is given."""
        return k < len(self.v.args) and not (self.v.args[k].op == "const" and self.v.args[k].attr is None)

    def input(self, k: int) -> Array:
        """An input."""
        return self.e.of(self.v.args[k])

    @property
    def dtype(self) -> np.dtype:
        """The element type of the result."""
        return type_of(self.v)

    def known(self, k: int, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        """Whole numbers that are an attribute or a constant input."""
        if self.attrs.get(name) is not None:
            return [int(n) for n in np.atleast_1d(self.attrs[name])]
        if not self.has(k):
            return None if default is None else list(default)
        found = self.input(k).const
        if found is None:
            raise self.refuse(f"with {name} that are computed")
        return [int(n) for n in np.atleast_1d(found)]

    def numbers(self, k: int, name: str = "") -> list[Length]:
        """Whole numbers of an attribute or an input, one by one; those that only the run can tell by their names."""
        if name and self.attrs.get(name) is not None:
            return [int(n) for n in np.atleast_1d(self.attrs[name])]
        x = self.input(k)
        if x.const is not None:
            return [int(n) for n in np.atleast_1d(x.const)]
        if len(x.shape) > 1 or not x.is_static:
            raise self.refuse("with lengths in an array of unknown length")
        count = x.size
        one = Lanes(self.e.text)
        index = [(Place(str(n)),) if x.shape else () for n in range(count)]
        return [literal_or_name(converted(one, get(one, x, at), x.dtype, INT64)) for at in index]


gives = filling(OPERATORS)
"""Says what the results of operators are."""


@writes("apply")
def apply(e: Emitter, v: Value) -> Array:
    """An operator without a definition."""
    call = Call(e, v)
    give = OPERATORS.get(call.name) if is_onnxs(call.node, v.args) else None
    if give is None:
        return run_outside(e, v)
    mark = e.text.mark()
    try:
        found = give(call)
        results = [found] if isinstance(found, Array) else list(found)
        _check_shapes(call, results)
    except (CannotCompile, ValueError):  # what is wrong with it, if anything is, the kernel will say
        e.text.back_to(mark)
        return run_outside(e, v)
    for k, item in e.items_of(v):
        e.known[item] = results[k]
    return results[0]


def _check_shapes(call: Call, results: Sequence[Array]) -> None:
    """Refuse what has another shape than ONNX's inference said: memory was laid out for that one."""
    items = dict(call.e.items_of(call.v)) or {0: call.v}
    for k, item in items.items():
        said, found = item.type.shape, results[k].shape
        if said is None:
            continue
        pairs = zip(said, found, strict=False)
        if len(said) != len(found) or any(isinstance(n, int) and isinstance(m, int) and n != m for n, m in pairs):
            raise call.refuse(f"of shape {list(found)} where {list(said)} was inferred")
