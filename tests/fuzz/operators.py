"""Every operator there is, in a loop: inputs that differ from iteration to iteration in contents, shape and type.

What an operator is given grows out of ONNX's own node cases and of the samples in ``tests/cases/samples_*.py``.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from node_cases import single_node_cases
from onnx import NodeProto, TypeProto, defs, helper
from samples import SAMPLES

from . import bodies, contents
from .drawing import declared
from .loops import Call, LoopCase, script, smaller
from .outcome import arrays_in
from .target import Target

FIRST_SEQUENCE = 11
"""The version from which on there are sequences."""
NOT_GATHERED = ("float8", "float4", "int4", "uint4", "int2", "uint2")
"""Element types that no Gather takes: such a value is the same in every iteration."""
EXACT = {
    *("Add", "Sub", "Mul", "Div", "Sqrt", "Neg", "Abs", "Max", "Min", "Clip", "Floor", "Ceil", "Round", "Sign", "Relu", "Where"),
    *("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "Not", "Identity", "Reciprocal", "Cast"),
    *("Concat", "Slice", "Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "Reshape", "Transpose", "Tile"),
    *("Expand", "Pad", "Squeeze", "Unsqueeze", "Flatten", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "Split", "Trilu"),
    *("Compress", "OneHot", "Unique", "NonZero", "Range", "IsNaN", "IsInf", "MaxPool", "DepthToSpace", "SpaceToDepth", "EyeLike"),
}

LONGEST = 200
"""Iterations after which a loop is stopped: a changed trip count may be any number."""


@dataclass(frozen=True)
class Seed:
    """A node and what it may be given."""

    node: NodeProto
    imports: tuple[tuple[str, int], ...]
    inputs: tuple[Any, ...]
    n_outputs: int


@functools.cache
def seeds() -> dict[tuple[str, str], list[Seed]]:
    """Everything that is known to run, by operator."""
    found: dict[tuple[str, str], list[Seed]] = {}
    for seed in [*_of_cases(), *_of_samples()]:
        found.setdefault((seed.node.domain, seed.node.op_type), []).append(seed)
    return dict(sorted(found.items()))


def _of_cases() -> Iterator[Seed]:
    for case in single_node_cases().values():
        node = case.model.graph.node[0]
        inputs = [np.asarray(v) if isinstance(v, np.generic) else v for v in case.data_sets[0][0]]
        named = [name for name in node.input if name]
        simple = all(isinstance(v, np.ndarray | list) for v in inputs) and named == [v.name for v in case.model.graph.input]
        if simple and sum(np.size(v) for v in inputs if isinstance(v, np.ndarray)) < 3000:
            imports = tuple((entry.domain, entry.version) for entry in case.model.opset_import)
            imports += () if any(not domain for domain, _ in imports) else (("", 20),)
            yield Seed(node, imports, tuple(inputs), len(node.output))


def _of_samples() -> Iterator[Seed]:
    for name, version, inputs, attrs in SAMPLES:
        domain, _, op = name.rpartition("::")
        if domain not in ("", "ai.onnx.ml"):
            continue
        names = [f"x{k}" if value is not None else "" for k, value in enumerate(inputs)]
        try:
            outputs = ["y"] * max(defs.get_schema(op, version, domain).min_output, 1)
            made = [f"{name}{k}" for k, name in enumerate(outputs)]
            node = helper.make_node(op, names, made, domain=domain, **attrs)
        except (defs.SchemaError, ValueError, TypeError):
            continue
        imports = (("", version),) if not domain else (("", 20), (domain, version))
        values = tuple(np.asarray(value) for value in inputs if value is not None)
        yield Seed(node, imports, values, len(made))


# Making


def make(choose: random.Random) -> LoopCase:
    """An operator in a loop."""
    table = seeds()
    seed = choose.choice(table[choose.choice(list(table))])
    while sum(v.size for v in arrays_in(list(seed.inputs))) > 200 and choose.random() < 0.8:
        seed = choose.choice(table[choose.choice(list(table))])
    count = choose.choice([1, 2, 3, 3, 5, 12])
    kept = _other_types(choose, seed)
    other_shapes = choose.random() < 0.4
    rows = [kept, *([_mutated(choose, value, other_shapes) for value in kept] for _ in range(count))]
    choose.shuffle(rows)
    return _looped(choose, seed, rows, count)


def _other_types(choose: random.Random, seed: Seed) -> list[Any]:
    """The inputs, all of one element type now and then of another."""
    values = list(seed.inputs)
    kinds = sorted({v.dtype.name for v in values if isinstance(v, np.ndarray) and v.dtype.kind in "fiu"})
    if not kinds or choose.random() < 0.6:
        return values
    old = choose.choice(kinds)
    new = choose.choice([t for t in (*contents.COMMON, *contents.OTHERS) if t.kind in "fiubV"])
    with np.errstate(all="ignore"):
        return [v.astype(new) if isinstance(v, np.ndarray) and v.dtype.name == old else v for v in values]


def _mutated(choose: random.Random, value: Any, other_shapes: bool) -> Any:
    """Rolled, special, plain, or of another shape."""
    if not isinstance(value, np.ndarray) or value.dtype.name.startswith(NOT_GATHERED):
        return value
    way = choose.choice(["same", "rolled", "rolled", "special", "special", "plain", "shape", "shape"])
    if way == "rolled" and value.size:
        return np.roll(value, choose.randint(1, value.size)).reshape(value.shape)
    if way == "special" and value.size:
        new = value.copy()
        for _ in range(choose.randint(1, 3)):
            new.reshape(-1)[choose.randrange(value.size)] = contents.array(choose, value.dtype, (1,), 0.9)[0]
        return new
    if way == "plain" and value.dtype.kind in "fiubV":
        return np.full_like(value, choose.choice([0, 1]))
    return contents.reshaped(choose, value) if way == "shape" and other_shapes else value


def _looped(choose: random.Random, seed: Seed, rows: list[list[Any]], count: int) -> LoopCase:
    """The operator in a body that takes its inputs from tables or from sequences, and collects or lists what comes out."""
    version = dict(seed.imports)[""]
    lists = version >= FIRST_SEQUENCE and choose.random() < 0.6
    names = [name for name in seed.node.input if name]
    nodes, captured, carried = [], {}, []
    for k, (name, column) in enumerate(zip(names, zip(*rows, strict=True), strict=True)):
        if name in names[:k]:
            continue
        if not _moves(column, lists):
            captured[name] = column[0]
            continue
        table = f"{name}_rows_"
        captured[table] = list(column) if lists else np.stack(column)
        place = "i_"
        if not carried and choose.random() < 0.4 and k == 0 and version >= 7:
            nodes += [
                helper.make_node("Constant", [], ["one_"], value=_one()),
                helper.make_node("Add", ["i_", "one_"], ["next_"]),
            ]
            carried.append((name, column[0], f"{name}_next_"))
            name, place = f"{name}_next_", "next_"
        nodes.append(helper.make_node("SequenceAt" if lists else "Gather", [table, place], [name]))
    nodes.append(seed.node)
    return _finished(choose, seed, nodes, captured, carried, lists, count)


def _moves(column: tuple[Any, ...], lists: bool) -> bool:
    if not all(isinstance(v, np.ndarray) and not v.dtype.name.startswith(NOT_GATHERED) for v in column):
        return False
    return lists or len({(v.shape, v.dtype) for v in column}) == 1


def _one() -> Any:
    return helper.make_tensor("one", 7, [], [1])


def _finished(
    choose: random.Random,
    seed: Seed,
    nodes: list[NodeProto],
    captured: dict[str, Any],
    carried: list[tuple[str, Any, str]],
    lists: bool,
    count: int,
) -> LoopCase:
    inputs = [helper.make_tensor_value_info("i_", 7, []), helper.make_tensor_value_info("go_", 9, [])]
    results = [name for name in seed.node.output if name]
    lists = lists and choose.random() < 0.7
    if lists:  # what comes out may have another shape in each iteration
        for name in results:
            nodes.append(helper.make_node("SequenceInsert", [f"{name}_list_", name], [f"{name}_longer_"]))
            carried = [*carried, (f"{name}_list_", [], f"{name}_longer_")]
        results = []
    inputs += [
        helper.make_value_info(name, TypeProto() if isinstance(value, list) else declared(value)) for name, value, _ in carried
    ]
    told = [helper.make_value_info(name, TypeProto()) for name in ["go_", *(out for *_, out in carried), *results]]
    graph = helper.make_graph(nodes, "body", inputs, told)
    first = Call(count, True, [value for _, value, _ in carried], captured)
    calls = [first] if choose.random() < 0.7 else [first, replace(first, count=choose.randint(0, count)), first]
    exact = seed.node.op_type in EXACT and not seed.node.domain
    chosen = {"block_bytes": choose.choice([1, 1000, 1 << 22]), "max_iterations": LONGEST}
    return LoopCase(graph, calls, exact, None, chosen, seed.imports)


TARGET = Target(
    "operators",
    "every operator in a loop, its inputs mutated in contents, shape and type",
    make,
    bodies.check,
    script,
    smaller,
    in_tests=120,
)
