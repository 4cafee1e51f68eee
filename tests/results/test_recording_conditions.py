"""``record`` of values that need not be computed: in branches of an If, in loops inside them, and the other way round."""

import numpy as np
import onnx.parser
import pytest
from engines import ENGINES
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import ArgumentError

NAN = np.nan
ODD = "half{0} = Mod ({0}, two) odd{0} = Cast <to = 9> (half{0})"

# A branch in a branch, a loop with a branch, and a branch with a loop in it.
BODY = f"""b (int64 i, bool c, double x) => (bool c, double y) {{
  {ODD.format("i")}
  y = If (oddi) <then_branch = t () => (double p) {{ p0 = Add (x, one) p = Add (p0, one) }},
    else_branch = e () => (double q) {{
      q = If (c) <then_branch = t2 () => (double r) {{ r = Sub (x, one) same = Neg (r) }},
        else_branch = e2 () => (double s) {{ s = Neg (x) same = Neg (s) }}> }}>
  m = Add (i, one_more)
  z = Loop (m, c, y) <body = inner (int64 j, bool d, double a) => (bool d, double b) {{
    {ODD.format("j")}
    b = If (oddj) <then_branch = t3 () => (double u) {{ u = Add (a, one) }},
      else_branch = e3 () => (double v) {{ v = Neg (a) }}> }}>
  w = If (oddi) <then_branch = t4 () => (double g) {{
      g, k = Loop (m, c, y) <body = within (int64 l, bool d, double f) => (bool d, double h, double h2) {{
        h = Add (f, one) h2 = Identity (h) }}> }},
    else_branch = e4 () => (double o) {{ o = Identity (x) }}>
}}"""

EXPECTED = {
    "n.p0": [NAN, 0, NAN, 1],
    "n.r": [-1, NAN, 0, NAN],
    "n.s": [NAN] * 4,
    "n.y.then_branch.p": [NAN, 1, NAN, 2],
    "n.y.else_branch.q.else_branch.same": [NAN] * 4,
    "n.z.u": [[NAN], [NAN, 0], [NAN, 1, NAN], [NAN, -1, NAN, 2]],
    "n.w.g.h": [[], [2, 3], [], [3, 4, 5, 6]],
}


def graph(body, **values):
    parameters = [Parameter(id=name, value=value) for name, value in values.items()]
    parameters.append(Parameter(id="body", value={"onnx": body} if isinstance(body, str) else body))
    args = {"M": values.get("M", 4), "cond": True, "x": 0.0, "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    return Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="o", value="run")])])


NUMBERS = {"two": 2, "one": 1.0, "one_more": 1}


def assert_rows(found, expected):
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(row, wanted)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("every", [1, 3])
def test_what_need_not_be_computed_has_a_row_in_each_iteration(engine, every):
    model = graph(BODY, **NUMBERS)
    with mdf_loop.options(engine=engine):
        r = mdf_loop.run(model, record=[*EXPECTED, "n.y"], every=every)
    for name, rows in EXPECTED.items():
        assert_rows(r.recorded[name], rows[::every])
    assert_rows(r.recorded["n.y"], [-1.0, 1.0, 0.0, 2.0][::every])
    assert r["o"] == mdf_loop.run(model)["o"] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_values_that_change_their_shape_and_arrays(engine):
    body = f"""b (int64 i, bool c, double[n] x) => (bool c, double[m] y) {{
      {ODD.format("i")} y = Identity (x)
      w = If (oddi) <then_branch = t () => (double[k] p) {{ p = Concat <axis = 0> (x, x) }},
        else_branch = e () => (double[k] q) {{ q = Add (x, x) z = If (c) <then_branch = t2 () => (double[l] r) {{
          i1 = Reshape (i, one) r = Expand (zero, i1) }}, else_branch = e2 () => (double[l] s) {{ s = Identity (x) }}> }}> }}"""
    with mdf_loop.options(engine=engine):
        model = graph(body, two=2, one=[1], zero=[0.0], start=[1.0, 2.0])
        model.nodes[0].get_parameter("run").args["x"] = "start"
        r = mdf_loop.run(model, record=["n.p", "n.q", "n.r"])
    assert_rows(r.recorded["n.p"], [[NAN] * 4, [1, 2, 1, 2]] * 2)
    assert_rows(r.recorded["n.q"], [[2, 4], [NAN] * 2] * 2)
    assert_rows(r.recorded["n.r"], [[], NAN, [0, 0], NAN])


@pytest.mark.parametrize("engine", ENGINES)
def test_conditions_inside_a_scan_and_without_an_iteration(engine):
    body = """b (int64 i, bool c, double x) => (bool c, double y) {
      y, k = Scan <num_scan_inputs = 1, body = s (double a, double e) => (double b, double b2) {
        is = Greater (e, one)
        b = If (is) <then_branch = t () => (double p) { p = Add (a, e) }, else_branch = f () => (double q) { q = Neg (a) }>
        b2 = Identity (b) }> (x, parts) }"""
    with mdf_loop.options(engine=engine):
        r = mdf_loop.run(graph(body, one=1.0, parts=[1.0, 2.0, 3.0]), record=["n.y.p", "n.y.q"])
        none = mdf_loop.run(graph(body, one=1.0, parts=[1.0], M=0), record=["n.y.p"])
    rows = [[NAN, 2.0, 5.0], [NAN, -3.0, 0.0], [NAN, 2.0, 5.0], [NAN, -3.0, 0.0]]
    assert_rows(r.recorded["n.y.p"], rows)
    assert r["o"] == 0.0
    assert len(none.recorded["n.y.p"]) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_conditions_in_a_model_of_onnx(engine):
    head = '<ir_version: 10, opset_import: ["": 18]>'
    inner = """inner (int64 j, bool d, double a) => (bool d, double b) { is = Greater (a, three)
      b = If (is) <then_branch = t () => (double p) { p = Neg (a) }, else_branch = e () => (double q) { q = Add (a, a) }> }"""
    text = f"""{head} g (double x) => (double y) {{ m = Constant <value = int64 {{4}}> () c = Constant <value = bool {{1}}> ()
      three = Constant <value = double {{3.0}}> ()
      y = Loop (m, c, x) <body = {inner}>
      z = If (c) <then_branch = t2 () => (double v) {{ v = Neg (y) }},
        else_branch = e2 () => (double w) {{ w = Identity (y) }}> }}"""
    with mdf_loop.options(engine=engine):
        r = mdf_loop.run(onnx.parser.parse_model(text), x=1.0, record=["y.p", "y.q", "y.b", "v", "w"])
    assert_rows(r.recorded["y.p"], [NAN, NAN, -4, NAN])
    assert_rows(r.recorded["y.q"], [2, 4, NAN, -8])
    assert_rows(r.recorded["y.b"], [2, 4, -4, -8])
    assert_rows(r.recorded["v"], [8])
    assert_rows(r.recorded["w"], [NAN])


def test_many_notes_take_no_more_than_their_own_room():
    body = f"""b (int64 i, bool c, double x) => (bool c, double y) {{ {ODD.format("i")}
      y = If (oddi) <then_branch = t () => (double p) {{ p = Add (x, one) }},
        else_branch = e () => (double q) {{ q = Neg (x) }}> }}"""
    r = mdf_loop.run(graph(body, two=2, one=1.0, M=20_000), record="n.p")
    assert np.isnan(r.recorded["n.p"]).sum() == 10_000


def test_a_name_that_several_branches_have_is_distinguished():
    with pytest.raises(ArgumentError, match=r"several branches; give one of: n.y.else_branch.q.then_branch.same or "):
        mdf_loop.run(graph(BODY, **NUMBERS), record="n.same")
    with pytest.raises(ArgumentError, match=r"did you mean 'n.y.then_branch.p' or"):
        mdf_loop.run(graph(BODY, **NUMBERS), record="n.y.then_branch.p1")
