"""Random bodies as whole ONNX models, swept: each run of a sweep gives what it gives alone, in the same engine."""

from __future__ import annotations

import random
import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
from onnx import ModelProto, helper

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.sweeps import vectors
from mdf_loop.types.elements import CODES

from . import bodies
from .loops import LoopCase, script, smaller
from .target import Failure, Settings, Target

TRIALS, SEED = 2, 5


def make(choose: random.Random) -> LoopCase:
    """A loop that ends by itself, over tensors."""
    while True:
        case = bodies.make(choose)
        call = case.calls[0]
        if case.attrs is None and call.count is not None and all(map(_is_tensor, [*call.carried, *call.captured.values()])):
            return case


def _is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in CODES and value.dtype.kind != "O"


def whole_of(case: LoopCase) -> tuple[ModelProto, dict[str, Any]]:
    """A model of nothing but the loop, and the values of its inputs: trip count, carried and captured values."""
    call = case.calls[0]
    carried = {f"start {k}": value for k, value in enumerate(call.carried)}
    given: dict[str, Any] = {"trip count": np.array(call.count), **carried, **call.captured}
    outputs = [f"result {k}" for k in range(len(case.graph.output) - 1)]
    go = "" if call.cond is None else "go"
    nodes = [helper.make_node("Loop", ["trip count", go, *carried], outputs, body=case.graph)]
    if go:
        nodes.insert(0, helper.make_node("Constant", [], ["go"], value=helper.make_tensor("go", 9, [], [call.cond])))
    ports = [helper.make_tensor_value_info(name, CODES[value.dtype], [None] * value.ndim) for name, value in given.items()]
    graph = helper.make_graph(nodes, "whole", ports, [helper.make_empty_tensor_value_info(name) for name in outputs])
    imports = [helper.make_opsetid(domain, version) for domain, version in case.imports]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), given


def points_of(given: dict[str, Any]) -> tuple[str, list[Any]]:
    """The input that is swept - the last one that may change - and its values."""
    name = next((name for name in reversed(given) if given[name].dtype.kind in "fiu"), "trip count")
    return name, [given[name], (given[name] // 2).astype(given[name].dtype)]


def check(case: LoopCase, settings: Settings) -> None:
    """Every run of a sweep, by itself, gives the same bits."""
    written, given = whole_of(case)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = mdf_loop.prepare(written)
        except LoopError:
            return
        name, values = points_of(given)
        for engine in settings.engines:
            with mdf_loop.options(engine=engine, **case.chosen), patch.multiple(vectors, LANES=TRIALS, WORTH=0.0):
                _compare(model, given, name, values, engine)


def _compare(model: Any, given: dict[str, Any], name: str, values: list[Any], engine: str) -> None:
    fixed = {key: value for key, value in given.items() if key != name}
    try:
        swept = mdf_loop.sweep(model, {name: values}, trials=TRIALS, seed=SEED, **fixed)
    except LoopError:
        return  # such as results of another rank in each run
    chosen = mdf_loop.options(engine=swept.attrs["engine"])
    for p, value in enumerate(values):
        for trial in range(TRIALS):
            seed = np.random.SeedSequence(SEED, spawn_key=(p, trial))
            try:
                with chosen:
                    alone = model(**{**fixed, name: value}, seed=seed)
            except LoopError:
                continue
            finally:
                chosen = mdf_loop.options(engine=swept.attrs["engine"])
            for output, expected in alone.items():
                row = swept[output].values[p, trial]  # the runs of a sweep may have fewer axes than others
                shape = np.shape(expected) + (1,) * (row.ndim - np.ndim(expected))
                found, expected = row[tuple(map(slice, shape))], np.reshape(expected, shape)
                if not np.array_equal(found.astype(complex), np.asarray(expected).astype(complex), equal_nan=True):
                    raise Failure(f"a run of a sweep differs, engine {engine}", f"{output}: {found!r}, alone {expected!r}")


TARGET = Target(
    "swept",
    "whole ONNX models of random loops: sweeps are their single runs",
    make,
    check,
    lambda case: script(case, "A loop whose runs in a sweep differ from single ones."),
    smaller,
    in_tests=12,
)
