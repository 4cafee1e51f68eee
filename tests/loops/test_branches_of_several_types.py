"""An If whose branches give values of several types: what is computed behind it is machine code all the same."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, TypeProto, helper

import mdf_loop
from mdf_loop import options
from mdf_loop.settings.engines import can_compile
from mdf_loop.step import branches
from mdf_loop.step.lower import lower_loop
from mdf_loop.step.records import Type
from mdf_loop.step.structure import values_in

ENGINES = ["numpy", "jit"] if can_compile() else ["numpy"]

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPTIONAL = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [3]))

GIVES = {
    "float": [("Identity", "a")],
    "one": [("ReduceMax", "a", {"keepdims": 0})],
    "matrix": [("Unsqueeze", "a nought")],
    "longer": [("Concat", "a a", {"axis": 0})],
    "computed": [("Neg", "a"), ("Add", ". half")],
}
"""What a branch may give of a float[3]: operators one after the other, ``.`` is what the one before gave.

ONNX asks for one element type in both branches, and for nothing else.
"""

OPTIONALS = {
    "value": [("Optional", "a")],
    "changed": [("Neg", "a"), ("Optional", ".")],
    "none": [("Optional", "", {"type": OPTIONAL})],
}

READS = {
    "largest": [("Cast", ".", {"to": FLOAT}), ("ReduceMax", ".", {"keepdims": 0})],
    "size": [("Size", "."), ("Cast", ".", {"to": FLOAT})],
    "as whole numbers": [("Cast", ".", {"to": INT64}), ("ReduceMin", ".", {"keepdims": 0}), ("Cast", ".", {"to": FLOAT})],
    "broadcast": [("Cast", ".", {"to": FLOAT}), ("Mul", ". half"), ("ReduceMax", ".", {"keepdims": 0})],
}
"""What is computed of it, in exact operators: one float."""


class Graph:
    """Nodes of one graph while it is written; names are new in all graphs."""

    def __init__(self, names):
        self.names, self.nodes = names, []

    def new(self):
        return f"v{next(self.names)}"

    def put(self, op, inputs, **attrs):
        out = self.new()
        self.nodes.append(helper.make_node(op, inputs.split(), [out], **attrs))
        return out

    def chain(self, steps, value, a):
        """Operators one after the other: what the last one gives."""
        for op, inputs, *attrs in steps:
            named = " ".join({".": value, "a": a}.get(name, name) for name in inputs.split())
            value = self.put(op, named, **(attrs[0] if attrs else {}))
        return value

    def inside(self):
        return Graph(self.names)

    def side(self, output):
        return helper.make_graph(self.nodes, "side", [], [helper.make_value_info(output, TypeProto())])

    def either(self, condition, sides):
        """An If; each side writes a graph and gives a name."""
        graphs = []
        for side in sides:
            inner = self.inside()
            graphs.append(inner.side(side(inner)))
        return self.put("If", condition, then_branch=graphs[0], else_branch=graphs[1])


def several(draw, g, a, condition):
    """An If over tensors of any two kinds, and what is computed of it: a float."""
    kinds = [draw(st.sampled_from(list(GIVES))) for _ in range(2)]
    found = g.either(condition, [lambda inner, kind=kind: inner.chain(GIVES[kind], a, a) for kind in kinds])
    return g.chain(READS[draw(st.sampled_from(list(READS)))], found, a)


def optional(draw, g, a, condition):
    """An If over optionals, and another one that asks whether there is a value."""
    kinds = [draw(st.sampled_from(list(OPTIONALS))) for _ in range(2)]
    found = g.either(condition, [lambda inner, kind=kind: inner.chain(OPTIONALS[kind], a, a) for kind in kinds])

    def value(inner):
        return inner.put("ReduceMax", inner.put("OptionalGetElement", found), keepdims=0)

    return g.either(g.put("OptionalHasElement", found), [value, lambda inner: inner.put("Identity", "half")])


@st.composite
def bodies(draw):
    """A body that carries a float[3]: one to three Ifs, each condition from the iteration or from the values."""
    g = Graph(itertools.count())
    a = "a"
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            condition = g.put("Equal", f"{g.put('Mod', 'i two')} zero")
        else:
            condition = g.put("Greater", f"{g.put('ReduceMax', a, keepdims=0)} half")
        number = draw(st.sampled_from([several, several, optional]))(draw, g, a, condition)
        a = g.put("Sub", f"{g.put('Mul', f'{a} half')} {number}")
    return model(g, a, *draw(st.sampled_from([[], [number]])))


def model(g, *outputs):
    """The body: what it carries, and what it collects."""
    outputs = g.put("Identity", "go"), *outputs
    inputs = [helper.make_tensor_value_info(*given) for given in (("i", INT64, []), ("go", BOOL, []), ("a", FLOAT, [3]))]
    constants = [
        helper.make_tensor("two", INT64, [], [2]),
        helper.make_tensor("zero", INT64, [], [0]),
        helper.make_tensor("nought", INT64, [1], [0]),
        helper.make_tensor("half", FLOAT, [], [0.5]),
    ]
    graph = helper.make_graph(g.nodes, "b", inputs, [helper.make_value_info(name, TypeProto()) for name in outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


TYPES = [Type(np.dtype(np.int64), ()), Type(np.dtype(np.float32), (3,))]
"""Of the trip count and of what is carried."""

START = np.array([1.5, -2.25, 0.75], np.float32)


def results(body, engine, count):
    with options(engine=engine):
        planned = mdf_loop.compile(body)
        for _ in range(2):
            found = planned(count, True, START)
    return found if isinstance(found, tuple) else (found,), planned


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies(), st.sampled_from([1, 2, 5, 40]))
def test_branches_at_random(body, count):
    expected, _ = results(body, "interpret", count)
    for engine in ENGINES:
        found, _ = results(body, engine, count)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies())
def test_every_type_is_known_behind_branches(body):
    step = lower_loop(mdf_loop.compile(body).record, TYPES, has_count=True, obeyed=True)
    assert step.results[0].type == TYPES[1]


@pytest.mark.skipif(not can_compile(), reason="machine code needs llvmlite")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies())
def test_it_is_machine_code(body):
    _, planned = results(body, "jit", 300)
    assert "machine code (" in planned.explain(), planned.explain()


ELEMENT_TYPES = """<ir_version: 10, opset_import: ["": 20]>
  b (int64 i, bool go, double a) => (on, a_1) <int64 two = {2}, int64 zero = {0}> {
    on = Identity (go) k = Mod (i, two) even = Equal (k, zero)
    x = If (even) <then_branch = t () => (u) { u = Cast <to = 1> (a) }, else_branch = e () => (v) { v = Cast <to = 7> (a) }>
    y = Cast <to = 11> (x) z = Sub (y, half) a_1 = Mul (z, a)
  }"""


def test_branches_of_several_element_types():
    """onnxruntime takes them, although ONNX does not."""
    found = {}
    for engine in ("interpret", *ENGINES):
        with options(engine=engine):
            planned = mdf_loop.compile(ELEMENT_TYPES)
            found[engine] = planned(9, True, 1.75, half=np.array(0.5))
    for engine in ENGINES:
        np.testing.assert_array_equal(found[engine], found["interpret"], strict=True)
    assert "no compiled form" not in planned.explain()


KINDS = "one", "matrix"


def chained(count, is_read_at_once):
    """A body with many Ifs, each of which is read at once, or all behind the last one."""
    g, a, found = Graph(itertools.count()), "a", []
    for _ in range(count):
        condition = g.put("Greater", f"{g.put('ReduceMax', a, keepdims=0)} half")
        found.append(g.either(condition, [lambda inner, a=a, kind=kind: inner.chain(GIVES[kind], a, a) for kind in KINDS]))
        if is_read_at_once:
            a = g.put("Sub", f"{a} {g.chain(READS['largest'], found.pop(), a)}")
    a = g.put("Sub", f"{a} half")
    for value in found:
        a = g.put("Sub", f"{a} {g.chain(READS['largest'], value, a)}")
    return model(g, a)


def size_of(body):
    step = lower_loop(mdf_loop.compile(body).record, TYPES, has_count=True, obeyed=True)
    return sum(1 for _ in values_in(step)), step.results[0].type == TYPES[1]


@pytest.mark.parametrize(
    ("count", "is_read_at_once", "is_known"), [(1, True, True), (12, True, True), (2, False, True), (12, False, False)]
)
def test_only_what_has_several_types_is_computed_in_both_sides(count, is_read_at_once, is_known, monkeypatch):
    """Types that come together again are not carried further; values of very many combinations of types have none."""
    body = chained(count, is_read_at_once)
    size, found = size_of(body)
    assert found == is_known
    monkeypatch.setattr(branches, "MOST_COPIED", 0)
    least, is_known_without = size_of(body)
    assert not is_known_without
    assert size < 2 * least
    for engine in ENGINES:
        np.testing.assert_array_equal(results(body, engine, 9)[0], results(body, "interpret", 9)[0])
