"""A loop with everything it is given, several times in turn: how it runs, gets smaller, and is written as a script."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
from onnx import GraphProto, NodeProto, TypeProto, helper

import mdf_loop

from .drawing import IMPORTS, graphs_of, in_model, read_names
from .target import FAST


@dataclass
class Call:
    """What one call is given."""

    count: int | None
    cond: bool | None
    carried: list[Any]
    captured: dict[str, Any]


@dataclass
class LoopCase:
    """A body and the calls of it.

    Attributes
    ----------
    attrs : dict or None
        Those of a Scan; None for a Loop.  What a Scan scans stands behind what it carries.
    exact : bool
        Whether every engine has to give the same bits.
    chosen : dict
        Options of every call.
    """

    graph: GraphProto
    calls: list[Call]
    exact: bool
    attrs: dict[str, Any] | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    imports: tuple[tuple[str, int], ...] = IMPORTS


def run(case: LoopCase, call: Call, model: Any) -> Any:
    """One call, under the options in force."""
    wanted = read_names(case.graph)
    captured = {name: value for name, value in call.captured.items() if name in wanted}
    if case.attrs is not None:
        return mdf_loop.scan(*call.carried, body=model, **case.attrs, **captured)
    return mdf_loop.loop(call.count, call.cond, *call.carried, body=model, **captured)


def model_of(case: LoopCase) -> Any:
    """The body with the version of its operators."""
    return in_model(case.graph, case.imports)


# Smaller


def smaller(case: LoopCase) -> Iterator[LoopCase]:
    """Fewer calls, fewer iterations, fewer values, fewer nodes, plainer contents."""
    yield from _fewer_calls(case)
    yield from _fewer_outputs(case)
    yield from _fewer_nodes(case)
    ends = {name: value for name, value in case.chosen.items() if name == "max_iterations"}  # a loop may have no other end
    if case.chosen != ends:
        yield replace(case, chosen=ends)
    yield from _plainer(case)


def _fewer_calls(case: LoopCase) -> Iterator[LoopCase]:
    for k in range(len(case.calls)):
        if len(case.calls) > 1:
            yield replace(case, calls=case.calls[:k] + case.calls[k + 1 :])
    for k, call in enumerate(case.calls):
        for count in sorted({0, 1, 2, 3, (call.count or 0) // 2, (call.count or 0) - 1}):
            if call.count is not None and 0 <= count < call.count and case.attrs is None:
                yield replace(case, calls=[*case.calls[:k], replace(call, count=count), *case.calls[k + 1 :]])


def _fewer_outputs(case: LoopCase) -> Iterator[LoopCase]:
    first = 0 if case.attrs is not None else 1
    scanned = 0 if case.attrs is None else case.attrs["num_scan_inputs"]
    n_carried = len(case.calls[0].carried) - scanned
    for place in range(first + n_carried, len(case.graph.output)):
        graph = copy.deepcopy(case.graph)
        del graph.output[place]
        yield _swept(replace(case, graph=graph, attrs=_without(case.attrs, place - first - n_carried)))
    if case.attrs is not None:
        return
    for k in range(n_carried):  # a carried value becomes a captured one
        graph, name = copy.deepcopy(case.graph), case.graph.input[2 + k].name
        del graph.input[2 + k]
        del graph.output[1 + k]
        calls = [
            replace(c, carried=c.carried[:k] + c.carried[k + 1 :], captured={**c.captured, name: c.carried[k]})
            for c in case.calls
        ]
        yield _swept(replace(case, graph=graph, calls=calls))


def _without(attrs: dict[str, Any] | None, place: int) -> dict[str, Any] | None:
    """What is said of the outputs of a Scan, without one of them."""
    if attrs is None:
        return None
    return {n: v[:place] + v[place + 1 :] if n.startswith("scan_output") else v for n, v in attrs.items()}


def _fewer_nodes(case: LoopCase) -> Iterator[LoopCase]:
    """Without one node, or without all its outputs: one of its inputs takes their place."""
    for place in reversed(range(len(case.graph.node))):
        node = case.graph.node[place]
        sources = list(dict.fromkeys(name for name in [*node.input, *_inner_names(node)] if name))[:3]
        for source in sources:
            graph = copy.deepcopy(case.graph)
            del graph.node[place]
            for name in node.output:
                rename(graph, name, source)
            yield _swept(replace(case, graph=graph))
    for place, node in enumerate(case.graph.node):
        for number, inner in enumerate(graphs_of(node)):
            yield from _fewer_inside(case, place, number, inner)


def _inner_names(node: NodeProto) -> list[str]:
    return [name for graph in graphs_of(node) for name in read_names(graph)]


def _fewer_inside(case: LoopCase, place: int, number: int, inner: GraphProto) -> Iterator[LoopCase]:
    part = LoopCase(inner, [Call(0, None, [], {})], case.exact, {"num_scan_inputs": 0})
    n_outputs = len(inner.output)
    for candidate in _fewer_nodes(part):
        graph = copy.deepcopy(case.graph)
        graphs_of(graph.node[place])[number].CopyFrom(candidate.graph)
        if len(candidate.graph.output) == n_outputs:
            yield _swept(replace(case, graph=graph))


def rename(graph: GraphProto, name: str, source: str) -> None:
    """Read another value wherever one was read."""
    for node in graph.node:
        node.input[:] = [source if i == name else i for i in node.input]
        for inner in graphs_of(node):
            rename(inner, name, source)
    for value in graph.output:
        if value.name == name:
            value.CopyFrom(helper.make_value_info(source, TypeProto()))


def _swept(case: LoopCase) -> LoopCase:
    """Without nodes and captured values that nothing reads."""
    graph = copy.deepcopy(case.graph)
    _sweep(graph)
    read = set(read_names(graph))
    calls = [replace(c, captured={name: v for name, v in c.captured.items() if name in read}) for c in case.calls]
    return replace(case, graph=graph, calls=calls)


def _sweep(graph: GraphProto) -> None:
    for node in graph.node:
        for inner in graphs_of(node):
            _sweep(inner)
    read = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if read & set(node.output):
            kept.append(node)
            read |= {*node.input, *_inner_names(node)}
    kept = [copy.deepcopy(node) for node in reversed(kept)]
    del graph.node[:]
    graph.node.extend(kept)


def _plainer(case: LoopCase) -> Iterator[LoopCase]:
    """Values with fewer rows, or with ones or zeros for contents."""
    for k, call in enumerate(case.calls):
        places: list[tuple[str, Any]] = [("carried", n) for n in range(len(call.carried))]
        places += [("captured", name) for name in call.captured]
        for where, key in places:
            for value in _plainer_value(getattr(call, where)[key]):
                changed = copy.copy(getattr(call, where))
                changed[key] = value
                calls = [*case.calls[:k], replace(call, **{where: changed}), *case.calls[k + 1 :]]
                yield replace(case, calls=calls)


def _plainer_value(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for k in range(len(value)):
            yield value[:k] + value[k + 1 :]
        return
    if value.ndim:
        yield value.reshape(-1)[:1].reshape(()) if value.size else value.reshape(-1)
        yield from (np.delete(value, -1, axis) for axis in range(value.ndim) if value.shape[axis] > 1)
    if value.size and value.dtype != object:
        for plain in (np.ones_like(value), np.zeros_like(value)):
            if value.tobytes() not in (np.ones_like(value).tobytes(), np.zeros_like(value).tobytes()):
                yield plain


# As a script


SCRIPT = '''"""{title}"""
import sys
import warnings

import ml_dtypes
import numpy as np
from onnx import ModelProto

import mdf_loop

{text}
body = ModelProto.FromString(bytes.fromhex("{data}"))
array = np.array
warnings.simplefilter("ignore")


def run(engine):
    found = []
    with mdf_loop.options(engine=engine, seed=7{chosen}):
        for count, cond, carried, captured in [
{calls}
        ]:
            try:
                found.append({call})
            except mdf_loop.LoopError as error:
                found.append((type(error).__name__, str(error), getattr(error, "partial", None)))
    return found


expected = run("interpret")
print("interpret:", *map(repr, expected), sep="\\n  ")
different = False
for engine in {engines!r}:
    actual = run(engine)
    print(engine + ":", *map(repr, actual), sep="\\n  ")
    different |= repr(actual) != repr(expected)
sys.exit(different)
'''


def script(case: LoopCase, title: str = "A loop whose engines differ.") -> str:
    """A script that runs every call on every engine, and exits 1 if what is printed differs."""
    from onnx import printer

    text = "\n".join(f"# {line}" for line in printer.to_text(case.graph).splitlines())
    attrs = "" if case.attrs is None else "".join(f", {name}={value!r}" for name, value in case.attrs.items())
    kind = "mdf_loop.scan(*carried" if case.attrs is not None else "mdf_loop.loop(count, cond, *carried"
    chosen = "".join(f", {name}={value!r}" for name, value in case.chosen.items())
    calls = "\n".join(f"            {_call_text(case, call)}," for call in case.calls)
    data = model_of(case).SerializeToString().hex()
    call = f"{kind}, body=body{attrs}, **captured)"
    return SCRIPT.format(title=title, text=text, data=data, chosen=chosen, calls=calls, call=call, engines=FAST)


def _call_text(case: LoopCase, call: Call) -> str:
    wanted = read_names(case.graph)
    carried = ", ".join(map(value_text, call.carried))
    captured = ", ".join(f"{n!r}: {value_text(v)}" for n, v in call.captured.items() if n in wanted)
    return f"({call.count!r}, {call.cond!r}, [{carried}], {{{captured}}})"


def value_text(value: Any) -> str:
    """A value as Python."""
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if value.dtype == object or value.dtype.kind in "biu":
        contents = repr(value.tolist())
    else:
        wide = value.astype(complex if value.dtype.kind == "c" else float)
        contents = repr(wide.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    name = {"object": "object"}.get(value.dtype.name, repr(value.dtype.name))
    if hasattr(ml_dtypes, value.dtype.name):
        name = f"ml_dtypes.{value.dtype.name}"
    shaped = f".reshape({value.shape})" if value.size == 0 else ""
    return f"array({contents}, {name}){shaped}"
