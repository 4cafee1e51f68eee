"""What keeps a loop from machine code: ``explain()`` names the value, and the node that gives it."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import mdf_loop
from mdf_loop import options

TEXT = """<ir_version: 10, opset_import: ["": 21]>
  b (int64 i, bool go, float[3] a{inputs}) => (on, a_1{outputs}) <float tenth = {{0.1}}, int64 two = {{2}}, int64 zero = {{0}}> {{
    on = Identity (go) k = Mod (i, two) even = Equal (k, zero) half_a = Mul (a, half) {nodes}
  }}"""

CAST = "there = Cast <to = {code}> ({x}) {y} = Cast <to = 1> (there)"
OBSTACLES = {
    "float8": (CAST.replace("{code}", "17"), "node there = Cast <to=17> ({x}) gives float8_e4m3fn[3]"),
    "int4": (CAST.replace("{code}", "22"), "node there = Cast <to=22> ({x}) gives int4[3]"),
    "quantised": (
        "there = QuantizeLinear <output_dtype = 22> ({x}, tenth) {y} = DequantizeLinear (there, tenth)",
        "node there = QuantizeLinear <output_dtype=22> ({x}, tenth) gives int4[3]",
    ),
    "a list of several shapes": (
        "flat = ReduceMax <keepdims = 0> ({x}) several = SequenceConstruct ({x}, flat) e = SequenceAt (several, k) {y} = Neg (e)",
        "node several = SequenceConstruct ({x}, flat) gives a value of a type that only the run knows",
    ),
    "a list that is given": ("e = SequenceAt (items, k) {y} = Add ({x}, e)", "input 'items' is text, a list or an optional"),
    "text that is given": (
        "m = ReduceMax <keepdims = 0> ({x}) p = Greater (m, tenth) t = Where (p, word, word) "
        "q = Equal (t, word) r = Cast <to = 1> (q) {y} = Add ({x}, r)",
        "input 'word' is text, a list or an optional",
    ),
}
GIVEN = {
    "half": np.array(0.5, np.float32),
    "items": [np.arange(3, dtype=np.float32), np.ones(3, np.float32)],
    "word": np.array("x", object),
}
ORDINARY = ["Neg ({x})", "Mul ({x}, half)", "Abs ({x})", "Sub ({x}, a)"]


def planned(nodes, count=300, engine="jit", inputs="", outputs="", state=()):
    """The loop, and what the second of two runs gave."""
    with options(engine=engine):
        found = mdf_loop.compile(TEXT.format(nodes=nodes, inputs=inputs, outputs=outputs))
        known = {name: GIVEN[name] for name in found.record.body.captures}
        for _ in range(2):
            results = found(count, True, np.array([1, -2, 0.5], np.float32), *state, **known)
    return found, results


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(OBSTACLES)), st.lists(st.sampled_from(ORDINARY), max_size=4), st.integers(0, 4))
def test_the_first_value_that_cannot_be_held_is_named(name, ordinary, place):
    text, said = OBSTACLES[name]
    x, nodes = "half_a", []
    for k, one in enumerate([*ordinary[:place], text, *ordinary[place:]]):
        y = f"v{k}"
        if one is text:
            nodes.append(text.format(x=x, y=y))
            said = said.format(x=x)
        else:
            nodes.append(f"{y} = {one.format(x=x)}")
        x = y
    nodes = f"{' '.join(nodes)} a_1 = Identity ({x})"
    found, results = planned(nodes)
    assert said in found.explain()
    np.testing.assert_array_equal(results, planned(nodes, engine="interpret")[1])


def test_a_carried_value_whose_type_changes_is_named():
    sides = "then_branch = t () => (u) { u = ReduceMax <keepdims = 0> (o) }, else_branch = e () => (v) { v = Identity (a) }"
    nodes = f"a_1 = Neg (half_a) o_1 = If (even) <{sides}>"
    found, _ = planned(nodes, inputs=", o", outputs=", o_1", state=[np.array(1, np.float32)])
    assert "'o' has another type, or another number of axes, in later iterations" in found.explain()


def test_what_is_machine_code_has_no_obstacle():
    found, _ = planned("a_1 = Neg (half_a)")
    assert "machine code (" in found.explain()
    assert "not machine code" not in found.explain()
