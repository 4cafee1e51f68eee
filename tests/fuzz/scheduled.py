"""Scheduled MDF graphs: ``run(steps=)`` and the loop they become against MDF's own engine, to the last bit and type."""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from modeci_mdf.mdf import Condition, Edge, Function
from scheduled_generated import generated_graph
from scheduled_models import by_mdf

import mdf_loop
from mdf_loop.convert.scheduled.loops import lower
from mdf_loop.errors import LoopError, NotLowered
from mdf_loop.functions.psyneulink import FUNCTIONS
from mdf_loop.integrations.input_places import free_places
from mdf_loop.kernels.mdf.expression_operators import leaving

from . import grammar
from .outcome import compare_values, to_the_bit, within
from .target import FAST, Failure, Settings, Target

KINDS: list[Any] = [1, 2, 0, 0.5, 1.5, -1.0, 3, [1.0, 2.0], [1, 2], True, [0.5], [[1.0, 2.0]], 10**6]

NO_ORDER = re.compile("no particular order|have no order|whichever comes first")
"""What is warned of where a result depends on the order of nodes that do not wait for each other, which MDF leaves open."""


@dataclass
class GraphCase:
    """A graph, how many evaluations of it, and the time between them; and values that runs are given, ``node.id``.

    While they are given, others stand in the graph.
    """

    graph: Any
    steps: int
    increment: float | None
    given: tuple[str, ...] = ()


def make(choose: random.Random) -> GraphCase:
    """A generated graph whose constants, expressions, ports and edges are others here and there; some have stepped loops."""
    graph = generated_graph(choose.getrandbits(48), choose.choice([0, 0, 0.5]))
    for node in graph.nodes:
        _vary(choose, graph, node)
        if choose.random() < 0.25:
            _with_function(choose, node, [thing.id for thing in (*node.input_ports, *node.parameters)])
    if choose.random() < 0.3 and graph.conditions is not None:
        _conditions(choose, graph)
    given = tuple(name for name in _numbers(graph) if choose.random() < 0.3)
    return GraphCase(graph, choose.choice([1, 1, 2, 3, 5, 9, 25]), choose.choice([None, None, 0.1, 0.5, 1]), given)


def _numbers(graph: Any) -> dict[str, tuple[Any, str]]:
    """The places of a graph that hold a number which a run may be given: by name, owner and attribute."""
    places = {f"{node}.{id}": (owner, attribute) for node, id, owner, attribute in free_places(graph)}
    return {name: place for name, place in places.items() if type(getattr(*place)) in (int, float)}


@contextlib.contextmanager
def others_in_place(case: GraphCase) -> Iterator[dict[str, Any]]:
    """What is given; meanwhile other numbers of the same types stand in the graph."""
    found = {name: place for name, place in _numbers(case.graph).items() if name in case.given}
    feed = {name: getattr(*place) for name, place in found.items()}
    try:
        for name, (owner, attribute) in found.items():
            setattr(owner, attribute, feed[name] + type(feed[name])(1.25))
        yield feed
    finally:
        for name, (owner, attribute) in found.items():
            setattr(owner, attribute, feed[name])


PSYNEULINK = ["softmax", "onehot", "driftdiffusionanalytical"]
PSYNEULINK += [name for name, row in FUNCTIONS.items() if "random" not in str(row) and "previous_value" not in str(row)]
"""Functions of PsyNeuLink that draw nothing."""

OPTIONS = {
    "softmax": {"output": ["all", "MAX_VAL", "arg_max_indicator"], "gain": [1.0, 2, 0.5]},
    "linearcombination": {"operation": ["sum", "product"], "scale": [2.0, 0.5], "weights": [2, 0.5]},
    "reduce": {"operation": ["sum", "product"], "offset": [1, 0.5]},
    "onehot": {
        "direction": ["max", "min"],
        "abs_val": [True, False],
        "tie": ["all", "first", "last"],
        "indicator": [True, False],
    },
    "stability": {"metric": ["energy", "difference", "euclidean", "cosine"], "normalize": [True, False]},
    "dualadaptiveintegrator": {"operation": ["product", "sum", "s-l", "l-s"], "initial_short_term_avg": [0.5, 1]},
    "relu": {"leak": [0.1, 0.5], "gain": [2, 1.5], "bias": [0.2]},
}


def _with_function(choose: random.Random, node: Any, names: list[str]) -> None:
    """One of PsyNeuLink's functions more in a node, which an output reads; some of its options as arguments, some as metadata."""
    name = choose.choice(PSYNEULINK)
    said = {key: choose.choice(values) for key, values in OPTIONS.get(name, {}).items() if choose.random() < 0.5}
    args = {key: value for key, value in said.items() if not isinstance(value, str) and choose.random() < 0.7}
    metadata = {key: value for key, value in said.items() if key not in args}
    given = {"variable0": choose.choice(names), **args}
    node.functions.append(Function(id="pnl", function=name, args=given, metadata=metadata or None))
    port = choose.choice(node.output_ports)
    port.value = choose.choice(["pnl", f"{port.value} + pnl", "pnl[0]"])


def _conditions(choose: random.Random, graph: Any) -> None:
    """Another condition of a node, or of the end of an evaluation."""
    names = [node.id for node in graph.nodes]
    some = choose.sample(names, choose.randint(1, len(names)))
    kind = choose.choice([*FINISHED, "AfterNCallsCombined", "AllHaveRun", *STARTS])
    given: dict[str, Any] = {"dependency": some[0]} if kind == "WhenFinished" else {"dependencies": some}
    given = {} if kind in STARTS else given
    if kind in ("AfterNCallsCombined", "AtEnvironmentStateUpdateNStart"):
        given["n"] = choose.randint(0, 4)
    graph.conditions.node_specific[choose.choice(names)] = Condition(kind, **given)


FINISHED = ("WhenFinished", "WhenFinishedAny", "WhenFinishedAll")
STARTS = ("AtEnvironmentStateUpdateStart", "AtEnvironmentStateUpdateNStart", "AtEnvironmentSequenceStart")


def _vary(choose: random.Random, graph: Any, node: Any) -> None:
    ports = [port.id for port in node.input_ports]
    constants = [p for p in node.parameters if isinstance(p.value, int | float)]
    for parameter in constants:
        if choose.random() < 0.3:
            parameter.value = copy.deepcopy(choose.choice(KINDS))
    names = [*ports, *(p.id for p in constants)]
    for parameter in node.parameters:
        if isinstance(parameter.value, str) and choose.random() < 0.4:
            own = [parameter.id] * 2 if parameter.default_initial_value is not None else []
            parameter.value = grammar.expression(choose, [*names, *own] or ["1"])
        if parameter.default_initial_value is not None and choose.random() < 0.3:
            parameter.default_initial_value = copy.deepcopy(choose.choice(KINDS))
        if parameter.value is not None:
            names.append(parameter.id)
    for port in node.input_ports:
        if port.default_value is not None and choose.random() < 0.3:
            port.default_value = copy.deepcopy(choose.choice(KINDS))
    if graph.edges and choose.random() < 0.1:
        edge = choose.choice(graph.edges)
        edge.parameters = {"weight": copy.deepcopy(choose.choice(KINDS))}


def check(case: GraphCase, settings: Settings) -> None:
    """Where MDF's engine gets through, every engine of ours gives what it gives.

    One graph object serves all: in which order nodes run that wait for nothing depends on where in memory they lie.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = {name: leaving(value) for name, value in by_mdf(case.graph, case.steps, case.increment).items()}
        except Exception:
            expected = None  # MDF's engine cannot run it
        if not _has_an_order(case):
            return
        for engine, how in itertools.product(("interpret", *settings.engines), ways(case)):
            _check_engine(case, engine, expected, how)
            with others_in_place(case) as feed:
                _check_engine(case, engine, expected, {**how, **feed})
        if expected is not None:
            _check_onnx(case, expected)


def _has_an_order(case: GraphCase) -> bool:
    """Whether MDF's engine gives the same of a copy of the graph, which a run with loops in nodes makes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            lower(case.graph, case.steps, case.increment)
        except NotLowered as reason:
            return not NO_ORDER.search(str(reason))
        except Exception:
            return True  # said where it is run
    return not any(NO_ORDER.search(str(warned.message)) for warned in caught)


def ways(case: GraphCase) -> list[dict[str, Any]]:
    """What is said of steps: a graph that is evaluated once is so without them as well."""
    if case.increment is not None:
        return [{"steps": case.steps, "time_increment": case.increment}]
    return [{"steps": case.steps}, *([{}] if case.steps == 1 else [])]


def _check_engine(case: GraphCase, engine: str, expected: dict[str, Any] | None, said: dict[str, Any]) -> None:
    try:
        with mdf_loop.options(engine=engine), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            actual = mdf_loop.run(case.graph, **said)
    except LoopError as error:
        if expected is None or any(NO_ORDER.search(str(warned.message)) for warned in caught):
            return
        raise Failure(f"{engine}: an error where MDF's engine has none", f"{error!r}") from error
    except Exception as error:
        both = ", as from MDF's engine" if expected is None else ""
        raise Failure(f"{engine}: {type(error).__name__} escaped{both}", f"{error!r}") from error
    if expected is None:
        return  # what cannot be computed may be skipped
    if any(NO_ORDER.search(str(warned.message)) for warned in caught):
        return  # MDF's engine runs it, and gives another result from time to time
    if list(actual) != list(expected):
        raise Failure(f"{engine}: other outputs", f"expected {list(expected)}, got {list(actual)}")
    # powers may differ by 3 units in the last place: those of machine code, and numpy's of arrays from those of single numbers
    text = case.graph.to_yaml()
    has_powers = engine != "interpret" and ("**" in text or "id: pnl" in text or "pnl:" in text)
    same = within(lambda where, value: 1e-9 * np.abs(value), 200) if has_powers else to_the_bit
    for name, value in expected.items():
        compare_values(actual[name], value, f"{engine}: a value", name, same)


def _check_onnx(case: GraphCase, expected: dict[str, Any]) -> None:
    """The same as an ONNX model, where it can become one."""
    more = {} if case.increment is None else {"time_increment": case.increment}
    try:
        model = mdf_loop.to_onnx(case.graph, steps=case.steps, **more)
    except LoopError:
        return
    try:
        actual = mdf_loop.run(model)
    except LoopError as error:
        raise Failure("ONNX: what was written does not run", repr(error)) from error
    for name, value in expected.items():
        if value is None or name not in actual:
            continue
        a, e = np.asarray(actual[name], complex), np.asarray(value, complex)
        if (np.abs(e) >= 2.0**63).any():
            continue  # whole numbers of ONNX end there, Python's do not
        if a.shape != e.shape or not np.allclose(a, e, rtol=1e-6, atol=1e-9, equal_nan=True):
            raise Failure("ONNX: values", f"{name}: expected {e.tolist()}, got {a.tolist()}")


def smaller(case: GraphCase) -> Iterator[GraphCase]:
    """Fewer steps, nodes, edges, conditions, parameters; simpler values."""
    for steps in (1, 2, 3, case.steps - 1):
        if 0 < steps < case.steps:
            yield replace(case, steps=steps)
    if case.increment is not None:
        yield replace(case, increment=None)
    for name in case.given:
        yield replace(case, given=tuple(other for other in case.given if other != name))
    for change in _changes(case.graph):
        graph = copy.deepcopy(case.graph)
        change(graph)
        yield replace(case, graph=graph)


def _changes(graph: Any) -> Iterator[Any]:
    for place, node in enumerate(graph.nodes):
        yield lambda g, place=place: _without_node(g, place)
        for kind in ("parameters", "functions", "output_ports", "input_ports"):
            for k in range(len(getattr(node, kind) or [])):
                yield lambda g, place=place, kind=kind, k=k: getattr(g.nodes[place], kind).pop(k)
        for k, parameter in enumerate(node.parameters):
            for text in ("1", f"{parameter.id} + 1" if parameter.default_initial_value is not None else "2"):
                if isinstance(parameter.value, str) and len(text) < len(parameter.value):
                    yield lambda g, place=place, k=k, text=text: setattr(g.nodes[place].parameters[k], "value", text)
    for k in range(len(graph.edges)):
        yield lambda g, k=k: g.edges.pop(k)
    if graph.conditions is not None:
        for name in graph.conditions.node_specific or {}:
            yield lambda g, name=name: g.conditions.node_specific.pop(name)


def _without_node(graph: Any, place: int) -> None:
    name = graph.nodes[place].id
    graph.nodes.pop(place)
    graph.edges = [e for e in graph.edges if isinstance(e, Edge) and name not in (e.sender, e.receiver)]
    if graph.conditions is not None and graph.conditions.node_specific:
        graph.conditions.node_specific.pop(name, None)


def script(case: GraphCase) -> str:
    """A script that runs the graph here and in MDF's engine."""
    from .files import ROOT

    return f'''"""A scheduled graph that is not as in MDF's engine."""
import contextlib
import io
import itertools
import sys

from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Graph

import mdf_loop

sys.path.insert(0, {str(ROOT)!r})
from tests.fuzz.scheduled import GraphCase, others_in_place, ways
from scheduled_models import by_mdf

TEXT = """
{case.graph.to_yaml()}"""
steps, increment = {case.steps}, {case.increment}
graph = Graph.from_yaml(TEXT)
case = GraphCase(graph, steps, increment, {case.given})
expected = repr(by_mdf(graph, steps, increment))
print("MDF:", expected)
different = False
for engine, how in itertools.product({("interpret", *FAST)!r}, ways(case)):
    with mdf_loop.options(engine=engine):
        actual = repr(mdf_loop.run(graph, **how))
        with others_in_place(case) as feed:
            given = repr(mdf_loop.run(graph, **how, **feed))
    print(engine, how, actual, given)
    different |= actual != expected or given != expected
sys.exit(different)
'''


TARGET = Target(
    "scheduled",
    "scheduled MDF graphs in steps, against MDF's own engine",
    make,
    check,
    script,
    smaller,
    in_tests=20,
    seconds=60,
)
