"""What a body declares of its element types is what it computes, or it is refused before it runs."""

import itertools

import numpy as np
import onnx.parser
import pytest
from onnx import helper

import mdf_loop
from mdf_loop import backend
from mdf_loop.errors import KindError, MalformedBody
from mdf_loop.ir import ValueType
from mdf_loop.readers.mdf.written_values import declared_array
from mdf_loop.step.records import Type
from mdf_loop.types.elements import CODES, NAMES

LOOP = "b (int64 i, bool c, float x) => (bool go, {y} y, {z} z) {{ go = Identity (c) y = {op} (x) z = Mul (x, x) }}"

WRONG = {
    "collected": ({"y": "float", "z": "int64", "op": "Neg"}, "output 'z' is declared int64, but 'z' is computed as float"),
    "carried": ({"y": "double", "z": "float", "op": "Neg"}, "output 'y' is declared double, but 'y' is computed as float"),
    "cast": ({"y": "float", "z": "float", "op": "Cast <to = 11>"}, "'y' is declared float, but 'y' is computed as double"),
    "next iteration": ({"y": "double", "z": "float", "op": "Cast <to = 11>"}, "input 'x', which output 'y' feeds"),
}


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize(("said", "told"), WRONG.values(), ids=WRONG)
def test_a_loop(said, told, count):
    with pytest.raises(MalformedBody, match=told):
        mdf_loop.loop(count, True, 1.0, body={"onnx": LOOP.format(**said)})
    with pytest.raises(MalformedBody, match=told):
        mdf_loop.compile({"onnx": LOOP.format(**said)})(count, True, 1.0)


def test_the_condition_and_inner_values():
    with pytest.raises(MalformedBody, match="output 'go' is declared bool, but 'go' is computed as int64"):
        mdf_loop.loop(
            3, True, 1.0, body={"onnx": "b (int64 i, bool c, float x) => (bool go, float y) { go = Identity (i) y = Neg (x) }"}
        )
    inner = "b (int64 i, bool c, float x) => (bool go, float y) <int64 m> { go = Identity (c) m = Neg (x) y = Neg (m) }"
    with pytest.raises(MalformedBody, match=r"value 'm' is declared int64, but 'm' is computed as float \(node Neg -> m\)"):
        mdf_loop.loop(3, True, 1.0, body={"onnx": inner})


def test_scans_and_branches():
    with pytest.raises(MalformedBody, match="'z' is declared int64"):
        mdf_loop.scan(
            0.0,
            np.ones(3),
            num_scan_inputs=1,
            body={"onnx": "b (float s, float x) => (float t, int64 z) { t = Add (s, x) z = Neg (x) }"},
        )
    branch = {"onnx": "b () => (int64 z) { z = Constant <value = float {1.5}> () }"}
    with pytest.raises(MalformedBody, match="'z' is declared int64"):
        mdf_loop.if_(True, then_branch=branch, else_branch=branch)


def test_whole_models_and_loops_inside():
    text = """<ir_version: 10, opset_import: ["": 18]> main (int64 n, double x) => (double y) {{
      y = Loop <body = b (int64 i, bool c, double s) => (bool c, {kind} t) {{ t = Tanh (s) }}> (n, , x) }}"""
    assert backend.run_model(onnx.parser.parse_model(text.format(kind="double")), [np.array(2), np.array(1.0)])
    with pytest.raises(MalformedBody, match="body: output 't' is declared float, but 't' is computed as double"):
        backend.prepare(onnx.parser.parse_model(text.format(kind="float")))
    with pytest.raises(MalformedBody, match="main: output 'y' is declared float"):
        backend.prepare(onnx.parser.parse_model(text.format(kind="double").replace("=> (double y)", "=> (float y)")))


RIGHT = [
    "b (int64 i, bool c, float[n] x) => (bool c, float[m] y) { y = Concat <axis = 0> (x, x) }",
    "b (int64 i, bool c, float[1] x) => (bool c, float[] y) { y = Neg (x) }",
    "b (int64 i, bool c, float x) => (bool c, float y, int64 n, bool g) { y = Neg (x) n = Shape (x) g = Greater (x, x) }",
    "b (int64 i, bool c, float x) => (bool c, float y, float16 h) { y = Neg (x) h = Cast <to = 10> (x) }",
]


PLAIN = """<ir_version: 10, opset_import: ["": 21]> main (int64 n, bool go, {kind}[] x) => (y) {{
  y = Loop <body = b (int64 i, bool c, {kind}[] s) => (c, s) {{ }}> (n, go, x) }}"""


@pytest.mark.parametrize("dtype", CODES, ids=str)
def test_an_element_type_without_a_shape_is_declared_as_well(dtype):
    declared = helper.make_tensor_value_info("x", CODES[dtype], None)
    model = helper.make_model(helper.make_graph([], "main", [declared], [declared]))
    assert backend.prepare(model).body.type_of("x") == ValueType(dtype) != ValueType()
    assert Type(dtype) != Type()


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("kind", ["double", "float", "float16", "int32"])
def test_what_is_declared_without_a_shape_is_what_a_number_becomes(kind, count):
    model = onnx.parser.parse_model(PLAIN.format(kind=kind))
    for runnable in (model, mdf_loop.convert(model)):
        assert mdf_loop.run(runnable, n=count, go=True, x=[1, -2])["y"].dtype == NAMES[kind]


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize(("said", "other"), [("double", "float"), ("float", "double"), ("double", "int64")])
def test_a_branch_of_another_type_changes_no_type_that_is_declared(said, other, go):
    text = f"""<ir_version: 10, opset_import: ["": 21]> main (bool go, {said}[] x, {other}[] z) => (y) {{
      y = If <then_branch = one () => (u) {{ u = Identity (x) }}, else_branch = two () => (v) {{ v = Identity (z) }}> (go) }}"""
    model = onnx.parser.parse_model(text)
    for runnable in (model, mdf_loop.convert(model)):
        assert mdf_loop.run(runnable, go=go, x=1, z=1)["y"].dtype == NAMES[said if go else other]


@pytest.mark.parametrize("text", RIGHT)
def test_open_dimensions_and_ranks_are_left_alone(text):
    assert mdf_loop.loop(2, True, np.ones(1, np.float32), body={"onnx": text}) is not None


def test_an_operator_of_a_users_own_may_give_what_is_declared():
    @mdf_loop.kernel("Mine", domain="test.declared")
    def mine(x):
        """x as a whole number."""
        return x.astype(np.int64)

    graph = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "test.declared": 1]> g (float x) => (int64 y) { y = test.declared.Mine (x) }'
    )
    (y,) = backend.run_model(graph, [np.float32(2.5)])
    assert y == 2


# MDF bodies, whose numbers have no types of their own

MDF = """
declared:
  graphs:
    declared:
      nodes:
        a:
          parameters:
            start: {{value: {start}}}
            body:
              value:
                graph_b:
                  metadata: {{inputs: [i, go, x], outputs: [go, y, z]}}
                  nodes:
                    n:
                      input_ports:
                        x: {{type: {x}}}
                        i: {{type: {i}}}
                      output_ports:
                        y: {{value: "{next}", type: {y}}}
                        z: {{value: "x > i", type: {z}}}
            run:
              function: onnx::Loop
              args: {{M: 3, cond: true, x: start, body: body}}
          output_ports:
            last: {{value: "run[0]"}}
            kept: {{value: "run[1]"}}
"""
FITTING = {"start": 4.0, "x": "float", "i": "int64", "next": "x / 2", "y": "float", "z": "bool"}


def of_mdf(folder, **said):
    path = folder / "declared.yaml"
    path.write_text(MDF.format(**{**FITTING, **said}))
    return path


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"y": "int64"}, "output '.*' is declared int64, but is computed as float64"),
        ({"y": "bool"}, "output '.*' is declared bool, but is computed as float64"),
        ({"y": "int32", "next": "x * 2.5"}, "is declared int32, but is computed as float64"),
        ({"x": "int64"}, "value 'x' must be int64, as body 'b' declares it; got float64"),
        ({"x": "bool", "start": 3}, "value 'x' must be bool, as body 'b' declares it; got int"),
    ],
)
def test_what_ports_of_an_mdf_body_declare_is_what_goes_through_them(said, told, engine, tmp_path):
    with mdf_loop.options(engine=engine), pytest.raises((MalformedBody, KindError), match=told):
        mdf_loop.run(of_mdf(tmp_path, **said))


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
@pytest.mark.parametrize(
    "said",
    [{}, {"y": "float32", "x": "float32"}, {"z": "int64"}, {"z": "float"}, {"start": 8, "next": "x // 2"}, {"y": "number"}],
)
def test_numbers_that_fit_are_left_as_they_are(said, engine, tmp_path):
    """As MDF has it: a whole number may stand where a float is declared, and no number is rounded."""
    with mdf_loop.options(engine=engine):
        outputs = mdf_loop.run(of_mdf(tmp_path, **said))
    assert outputs["last"] == (1 if said.get("start") else 0.5)
    assert outputs["kept"].tolist() == [True, True, False] if not said.get("start") else [True, True, False]


INNER = """
inner:
  graphs:
    inner:
      nodes:
        a:
          parameters:
            start: {{value: 4.0}}
            body:
              value:
                graph_outer:
                  metadata: {{inputs: [i, go, x], outputs: [go, y]}}
                  nodes:
                    n:
                      input_ports: {{x: {{}}}}
                      parameters:
                        inner: {{value: {{graph_in: {{metadata: {{inputs: [{inputs}], outputs: [{outputs}]}}, nodes: {nodes}}}}}}}
                        other: {{value: {{graph_other: {{metadata: {{inputs: [], outputs: [t]}}, nodes: {nodes}}}}}}}
                        run: {run}
                      output_ports: {{y: {{value: run}}}}
            run: {{function: "onnx::Loop", args: {{M: {count}, cond: true, x: start, body: body}}}}
          output_ports:
            last: {{value: run}}
"""
KINDS = {
    "Loop": ("j, c, x", "c, t", '{function: "onnx::Loop", args: {M: 2, cond: true, x: x, body: inner}}'),
    "If": ("", "t", '{function: "onnx::If", args: {cond: true, then_branch: inner, else_branch: other}}'),
}


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit"])
@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_bodies_inside_are_held_to_it_by_every_engine(kind, count, engine, tmp_path):
    inputs, outputs, run = KINDS[kind]
    path = tmp_path / "inner.yaml"
    for declared in ("int64", "float"):
        nodes = f'{{k: {{input_ports: {{x: {{}}}}, output_ports: {{t: {{value: "x / 2", type: {declared}}}}}}}}}'
        path.write_text(INNER.format(inputs=inputs, outputs=outputs, run=run, nodes=nodes, count=count))
        with mdf_loop.options(engine=engine):
            if declared == "float":
                assert mdf_loop.run(path)["last"] == 4.0 * 0.5 ** (count * (2 if kind == "Loop" else 1))
            else:
                with pytest.raises(mdf_loop.LoopError, match="is declared int64, but is computed as float64"):
                    mdf_loop.run(path)


# Operands: what onnx's own inference refuses is refused

MIXED = """<ir_version: 10, opset_import: ["": 18]> main ({a} a, {b} b, bool c) => ({y} y)
<{w} w = {{2}}> {{ {nodes} }}"""
NODES = {
    "binary": "y = Add (a, b)",
    "initializer": "t = Mul (a, w) y = Sub (t, b)",
    "variadic": "y = Max (a, w, b)",
    "chosen": "y = Where (c, a, b)",
    "branches": "y = If (c) <then_branch = p () => ({y} s) {{ s = Add (a, b) }}, "
    "else_branch = q () => ({y} s) {{ s = Neg (a) }}>",
    "loop": "n = Constant <value_int = 2> () y = Loop (n, c, a) <body = l (int64 i, bool g, {a} s) => (bool g, {y} t) "
    "{{ t = Add (s, b) }}>",
    "cast": "t = Cast <to = 1> (b) u = Cast <to = 1> (w) s = Mul (t, u) y = Div (s, a)",
    "made": "t = Shape (a) u = ReduceSum <keepdims = 0> (t) y = Add (u, b)",
}


@pytest.mark.parametrize("nodes", NODES.values(), ids=NODES)
def test_what_onnx_infers_to_be_of_two_types_is_refused(nodes):
    found = []
    for a, b, w, y in itertools.product(("float", "double", "int64"), repeat=4):
        kinds = {"a": a, "b": b, "w": w, "y": y}
        model = onnx.parser.parse_model(MIXED.format(nodes=nodes.format(**kinds), **kinds))
        refused = []
        for look in (lambda m: onnx.shape_inference.infer_shapes(m, check_type=True, strict_mode=True), backend.prepare):
            try:
                look(model)
            except (onnx.shape_inference.InferenceError, MalformedBody):
                refused.append(True)
            else:
                refused.append(False)
        assert refused[0] == refused[1], kinds
        found.append(refused[1])
    assert {*found} == {True, False}


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
def test_operands_of_two_types_are_named(engine):
    body = {"onnx": "b (int64 i, bool go, float x) => (bool go, float y) { y = Add (x, i) }"}
    told = "b: node Add -> y: 'x' is float and 'i' is int64, but Add takes operands of one type"
    with mdf_loop.options(engine=engine), pytest.raises(MalformedBody, match=told):
        mdf_loop.loop(2, True, np.float32(1), body=body)
    with mdf_loop.options(engine=engine), pytest.raises(MalformedBody, match=told):
        mdf_loop.scan(np.float32(1), np.ones(2), num_scan_inputs=1, body={"onnx": TWO})


TWO = "b (float x, int64 i) => (float y) { y = Add (x, i) }"


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_parts_of_complex_numbers_keep_signs_of_zero_and_infinities(dtype):
    parts = [[-0.0, 0.0], [0.0, -0.0], [1.0, np.inf], [-np.inf, -0.0]]
    found = declared_array(parts, ValueType(np.dtype(dtype), (4,)))
    assert (found.dtype, found.shape) == (dtype, (4,))
    pairs = np.stack([found.real, found.imag], -1)
    np.testing.assert_array_equal(pairs, parts)
    np.testing.assert_array_equal(np.signbit(pairs), np.signbit(parts))
    assert declared_array([1.5, -0.0], ValueType(np.dtype(dtype), ())).shape == ()
