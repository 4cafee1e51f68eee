"""Loops over MDF bodies: every engine gives what the interpreter gives, and that is what MDF's own engine gives."""

from __future__ import annotations

import contextlib
import copy
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from converting import by_onnxruntime, model_of
from mdf_bodies import by_mdf, graph, node
from modeci_mdf.mdf import Function, Parameter
from modeci_mdf.mdf import ParameterCondition as Switch

import mdf_loop
from mdf_loop.errors import CollectedError, LoopError

from . import grammar
from .guarded import is_guarded
from .outcome import Outcome, compare, outcome, require_own_memory, to_the_bit, within
from .target import FAST, Failure, Settings, Target

KNOWN = {
    "functions": "MDF's engine runs ONNX functions in single precision and gives numbers two dimensions",
    "float64": "MDF makes whole numbers of whole-valued fractions now and then",
}
"""Where MDF's engine is not asked, or may say something else, and why."""
FUNCTIONS = ("Add", "Mul", "Sub", "Max", "Min", "Abs", "Neg")
STARTS: list[Any] = [0, 1, 2, -1, 0.5, 1.5, 2.0, True, [1.0, 2.0], [1, 2], [0.5], [[1.0, -2.0]], np.float32(0.5), np.int64(3)]
STARTS += [2**62, np.array(1.5), np.array([1, 2], np.int32), np.zeros(0), 1e300]


@dataclass
class BodyCase:
    """A body and the calls of a loop over it: counts and carried values."""

    body: Any
    calls: list[tuple[int, list[Any]]]
    exact: bool


def make(choose: random.Random) -> BodyCase:
    """One node or two, with parameters, functions and switches over what is carried."""
    exact = choose.random() < 0.7
    carried = [f"x{k}" for k in range(choose.choice([1, 1, 2]))]
    first = _node(choose, "A", [*carried, *(["i"] if choose.random() < 0.4 else [])], exact)
    ids = [thing.id for thing in (*first.parameters, *first.functions)]
    shown = ids or carried
    for name in [*(f"y{k}" for k in range(len(carried))), *(f"seen{k}" for k in range(choose.choice([0, 1, 1, 2])))]:
        from modeci_mdf.mdf import OutputPort

        value = choose.choice(shown) if choose.random() < 0.7 else grammar.expression(choose, [*carried, *ids], exact)
        first.output_ports.append(OutputPort(id=name, value=value))
    outputs = ["go", *(port.id for port in first.output_ports)]
    body = graph(first, inputs=("i", "go", *carried), outputs=outputs)
    counts = [0, 1, 2, 3, 5, 12, 70] if exact else [0, 1, 2, 3, 5]
    calls = [
        (choose.choice(counts), [copy.deepcopy(choose.choice(STARTS)) for _ in carried])
        for _ in range(choose.choice([1, 1, 2, 3]))
    ]
    return BodyCase(body, calls, exact)


def _node(choose: random.Random, name: str, ports: list[str], exact: bool) -> Any:
    names, parameters, functions = list(ports), [], []
    for k in range(choose.choice([0, 1, 2, 3])):
        parameters.append(_parameter(choose, f"p{k}", names, exact))
        names.append(f"p{k}")
    if choose.random() < 0.3:
        args = {"A": choose.choice(names), "B": choose.choice(names)}
        one = choose.choice(FUNCTIONS)
        functions.append(Function(id="f", function=f"onnx::{one}", args=args if one not in ("Abs", "Neg") else {"X": args["A"]}))
    if choose.random() < 0.2:
        args = {"variable0": choose.choice(names), "slope": choose.choice(names), "intercept": 0.5}
        functions.append(Function(id="g", function="linear", args=args))
    return node(name, ports, {}, parameters, functions)


def _parameter(choose: random.Random, name: str, names: list[str], exact: bool) -> Any:
    way = choose.random()
    if way < 0.15:
        return Parameter(id=name, value=choose.choice([1, 0.5, [1.0, 2.0], 3, True, [1, 2]]))
    if way < 0.5:  # stateful
        start = choose.choice([0, 1, 0.5, 2.0, [1.0, 2.0]])
        return Parameter(id=name, value=grammar.expression(choose, [*names, name, name], exact), default_initial_value=start)
    if way < 0.6:
        switch = Switch(id="k", test=grammar.condition(choose, names), value=grammar.expression(choose, names, exact))
        return Parameter(id=name, value=grammar.expression(choose, names, exact), conditions=[switch])
    return Parameter(id=name, value=grammar.expression(choose, names, exact))


def check(case: BodyCase, settings: Settings) -> None:
    """Engines against the interpreter, and that against MDF's engine where that gets through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [_run(case, call, "interpret") for call in case.calls]
        is_exact = case.exact and "**" not in case.body.to_yaml()  # powers may differ by 3 units, which iterations multiply
        for engine in settings.engines:
            for call, wanted in zip(case.calls, expected, strict=True):
                same = to_the_bit if is_exact else within(lambda where, value: 1e-9 * np.abs(value), 200)
                compare(_run(case, call, engine), wanted, engine, same)
        for call, wanted in zip(case.calls, expected, strict=True):
            if call[0] and case.exact and not any(f.function for n in case.body.nodes for f in n.functions):
                _check_mdf(case, call, wanted)
            if wanted.error is None and not is_guarded():
                _check_onnx(case, call, wanted)


def _run(case: BodyCase, call: tuple[int, list[Any]], engine: str) -> Outcome:
    count, carried = call[0], copy.deepcopy(call[1])
    found = outcome(lambda: mdf_loop.loop(count, True, *carried, body=case.body), engine=engine)
    require_own_memory(found.results, carried, engine)
    return found


def _check_mdf(case: BodyCase, call: tuple[int, list[Any]], found: Outcome) -> None:
    count, carried = call
    try:
        rows = by_mdf(copy.deepcopy(case.body), count, [np.asarray(value) for value in carried])
        expected = [*rows[-1][1 : 1 + len(carried)]]
        expected += [np.array([row[k] for row in rows]) for k in range(1 + len(carried), len(rows[0]))]
    except Exception:
        return  # MDF's engine cannot run it, or its results cannot be collected
    if isinstance(found.error, CollectedError):
        return  # MDF has nothing like collected values
    if isinstance(found.error and found.error.__cause__, OverflowError):
        return  # a whole number too large for the float that it is carried as: MDF never makes one of it
    if found.error is not None:
        raise Failure("an error where MDF's engine has none", repr(found.error))
    for k, (a, e) in enumerate(zip(found.results, expected, strict=True)):
        a, e = np.asarray(a), np.asarray(e)
        if a.dtype.kind == "f" and e.dtype.kind == "i" and not np.isfinite(a).all():
            return  # MDF made a whole number of a float, and divided by 0 they differ: KNOWN
        # numpy's own powers of a number and of an array without axes differ in the last place, and iterations multiply that
        close = 1e-12 if a.dtype.kind == "f" else 0
        if a.shape != e.shape or not np.allclose(a.astype(float), e.astype(float), close, 0, equal_nan=True):
            raise Failure("other than MDF's engine: values", f"number {k}: expected {e!r}, got {a!r}")
        if a.dtype.kind != e.dtype.kind and a.dtype != np.float64:
            raise Failure("other than MDF's engine: kind", f"number {k}: expected {e.dtype}, got {a.dtype}")


def _check_onnx(case: BodyCase, call: tuple[int, list[Any]], expected: Outcome) -> None:
    """The same as an ONNX model, where it can become one; and in onnxruntime, where that has the operators."""
    if any(np.max(np.abs(np.asarray(value, float)), initial=0) >= 2.0**53 for value in call[1]):
        return  # whole numbers of ONNX have 64 bits, Python's have no end
    model = _model_around(case, call)
    try:
        written = mdf_loop.to_onnx(model)
    except LoopError:
        return
    wanted = dict(zip((f"out{k}" for k in range(len(expected.results))), expected.results, strict=True))
    try:
        with mdf_loop.options(engine="interpret"):
            ways = {"ONNX": dict(mdf_loop.run(written))}
    except LoopError as error:
        raise Failure("ONNX: what was written does not run", repr(error)) from error
    with contextlib.suppress(Exception):  # it may not have an operator for a type
        ways["onnxruntime"] = by_onnxruntime(written, {})
    for way, actual in ways.items():
        for name, value in wanted.items():
            a, e = (np.asarray(x).astype(float) for x in (actual[name], value))
            if (np.abs(e) >= 2.0**53).any() or np.isnan(a).any():
                continue  # whole numbers of Python's; a state that becomes a float is one at once, and 0.0 // 0.0 is nan
            if not e.size and not a.size:
                continue  # no iteration: which axes its rows would have is said by nothing
            if a.shape != e.shape or not np.allclose(a, e, rtol=1e-6, atol=1e-9, equal_nan=True):
                raise Failure(f"{way}: values", f"{name}: expected {e.tolist()}, got {a.tolist()}")


def _model_around(case: BodyCase, call: tuple[int, list[Any]]) -> Any:
    """A model whose one node is the loop."""
    count, carried = call
    names = [f"start{k}" for k in range(len(carried))]
    parameters = [Parameter(id=name, value=copy.deepcopy(value)) for name, value in zip(names, carried, strict=True)]
    parameters.append(Parameter(id="body", value={"graph_b": copy.deepcopy(case.body)}))
    args = {"M": count, "cond": True, **{f"v{k}": name for k, name in enumerate(names)}, "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    results = len(case.body.metadata["outputs"]) - 1
    ports = {f"out{k}": f"run[{k}]" if results > 1 else "run" for k in range(results)}
    return model_of(node("loop", [], ports, parameters, []))


def smaller(case: BodyCase) -> Iterator[BodyCase]:
    """Fewer calls, iterations, parameters, functions and outputs; plainer expressions."""
    for k, (count, carried) in enumerate(case.calls):
        if len(case.calls) > 1:
            yield replace(case, calls=case.calls[:k] + case.calls[k + 1 :])
        for fewer in (1, 2, 3, count // 2):
            if fewer < count:
                yield replace(case, calls=[*case.calls[:k], (fewer, carried), *case.calls[k + 1 :]])
    [first] = case.body.nodes
    outputs = case.body.metadata["outputs"]
    for kind in ("functions", "parameters"):
        for k in range(len(getattr(first, kind))):
            body = copy.deepcopy(case.body)
            getattr(body.nodes[0], kind).pop(k)
            yield replace(case, body=body)
    for k, port in enumerate(first.output_ports):
        if port.id.startswith("seen"):
            body = copy.deepcopy(case.body)
            body.nodes[0].output_ports.pop(k)
            body.metadata["outputs"] = [name for name in outputs if name != port.id]
            yield replace(case, body=body)
    yield from _plainer(case)


def _plainer(case: BodyCase) -> Iterator[BodyCase]:
    import ast

    [first] = case.body.nodes
    for kind in ("parameters", "output_ports"):
        for k, thing in enumerate(getattr(first, kind)):
            if not isinstance(thing.value, str):
                continue
            parts = {
                ast.unparse(part) for part in ast.walk(ast.parse(thing.value, mode="eval").body) if isinstance(part, ast.expr)
            }
            for text in sorted(parts, key=len):
                if len(text) < len(thing.value):
                    body = copy.deepcopy(case.body)
                    getattr(body.nodes[0], kind)[k].value = text
                    yield replace(case, body=body)


def script(case: BodyCase) -> str:
    """A script that runs the loop on every engine."""
    return f'''"""A loop over an MDF body whose engines differ, or differ from MDF's."""
import sys
import warnings

import numpy as np
from modeci_mdf.mdf import Graph
from numpy import array, float32, int32, int64

import mdf_loop

TEXT = """
{case.body.to_yaml()}"""
warnings.simplefilter("ignore")


def run(engine):
    found, body = [], Graph.from_yaml(TEXT)
    for count, carried in {case.calls!r}:
        try:
            with mdf_loop.options(engine=engine):
                found.append(mdf_loop.loop(count, True, *carried, body=body))
        except mdf_loop.LoopError as error:
            found.append((type(error).__name__, str(error), getattr(error, "partial", None)))
    return repr(found)


expected = run("interpret")
print("interpret", expected)
different = False
for engine in {FAST!r}:
    print(engine, run(engine))
    different |= run(engine) != expected
sys.exit(different)
'''


TARGET = Target(
    "mdf_loops",
    "loops over MDF bodies: expressions, stateful parameters, functions; engines against each other and MDF's own",
    make,
    check,
    script,
    smaller,
    in_tests=40,
)
