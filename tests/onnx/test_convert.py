"""ONNX models become MDF models that MDF's engine runs with the same outputs."""

import itertools
import json

import numpy as np
import onnx
import pytest
import yaml
from bodies import MODELS
from converting import assert_published, by_engine, by_onnxruntime, named_inputs
from imported import HEADER, onnx_model
from in_groups import each
from modeci_mdf.mdf import Condition, ConditionSet, Model, Node, OutputPort, Parameter
from node_cases import assert_same, node_cases, without_likes
from onnx import helper, parser

import mdf_loop
from mdf_loop import backend
from mdf_loop.errors import ArgumentError, KindError, MalformedBody

X = np.linspace(-1, 1, 6).reshape(2, 3)

INPUTS = {
    "cond_dyn": {"x": X},
    "for_ts": {"x": X, "n": 4},
    "nested_ts": {"x": X, "n": 4},
    "scan_dyn": {"xs": np.linspace(-1, 1, 15).reshape(5, 3), "init": np.ones(3)},
    "while_loop_dyn": {"x": X},
    "while_ts": {"x": X},
}
"""Inputs of the models that PyTorch exported."""


def dotted(model):
    """A model in which names have dots for underscores that stand in pairs; ONNX text cannot say them."""
    return onnx.load_from_string(model.SerializeToString().replace(b"__", b".."))


NOT_AGAIN = {
    "test_mvn": "onnx's own checker, asked to infer shapes, refuses the published model: its function has an empty Constant"
}
"""Node cases that do not come back as a checked ONNX model, each with its reason."""


IN_ENGINE = set(without_likes(1, alone=False))
"""Cases that run in MDF's engine, which takes most of the time."""


@each("name", without_likes(alone=False))
def test_a_node_case_gives_its_results_after_a_file_and_comes_back(name, tmp_path):
    case = node_cases()[name]
    mdf_loop.convert(case.model, tmp_path / "case.json", inline=10)
    model = mdf_loop.load(tmp_path / "case.json")
    ways = [lambda inputs: by_engine(model, named_inputs(case.model, inputs))] * (name in IN_ENGINE)
    if name not in NOT_AGAIN:
        written = mdf_loop.to_onnx(model)
        for kind in ("input", "output"):
            before, after = ([value.name for value in getattr(one.graph, kind)] for one in (case.model, written))
            assert after == before
        ways.append(lambda inputs: list(backend.run_model(written, inputs)))
    for (inputs, expected), run in itertools.product(case.data_sets, ways):
        assert_published(case, run(inputs), expected)


def test_what_does_not_come_back_is_refused_by_the_checker_before_as_well():
    for name in NOT_AGAIN:
        with pytest.raises(onnx.shape_inference.InferenceError):
            onnx.checker.check_model(node_cases()[name].model, full_check=True)


CONTROL = [name for name, case in node_cases().items() if {n.op_type for n in case.model.graph.node} & {"Loop", "If", "Scan"}]


@pytest.mark.parametrize("body", ["mdf", "onnx"])
@pytest.mark.parametrize("name", CONTROL)
def test_a_case_with_bodies_runs_by_its_onnx_names_after_yaml(name, body, tmp_path):
    case = node_cases()[name]
    mdf_loop.convert(case.model, tmp_path / "case.yaml", body=body)
    for inputs, expected in case.data_sets:
        outputs = mdf_loop.run(tmp_path / "case.yaml", **named_inputs(case.model, inputs))
        assert list(outputs) == [value.name for value in case.model.graph.output]
        assert_published(case, list(outputs.values()), expected)


@pytest.mark.parametrize("body", ["mdf", "onnx"])
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_what_pytorch_exported_runs_in_mdfs_engine(name, body, tmp_path):
    original = onnx.load(MODELS / f"{name}.onnx")
    inputs = INPUTS[name]
    expected = by_onnxruntime(original, inputs)
    for suffix in (".json", ".yaml"):
        model = mdf_loop.convert(MODELS / f"{name}.onnx", tmp_path / f"model{suffix}", body=body)
        for made in (model, mdf_loop.load(tmp_path / f"model{suffix}"), mdf_loop.load(MODELS / f"{name}.onnx")):
            outputs = mdf_loop.run(made, **inputs)
            assert list(outputs) == list(expected)
            for actual in (outputs.values(), by_engine(made, inputs)):
                for value, wanted in zip(actual, expected.values(), strict=True):
                    assert_same(value, wanted, 1e-5, 1e-6)


def test_mdfs_own_readers_take_the_files_too(tmp_path):
    mdf_loop.convert(MODELS / "while_ts.onnx", tmp_path / "model.json")
    model = Model.from_file(str(tmp_path / "model.json"))
    outputs = by_engine(model, {"x": X})
    expected = mdf_loop.run(MODELS / "while_ts.onnx", x=X)
    for actual, wanted in zip(outputs, expected.values(), strict=True):
        assert_same(actual, wanted, 0, 0)


NESTED = """nested (float[N] x, int64 n) => (float[N] y, float[K,N] rows, float[N] x2) {
    [go] go = Constant <value = bool {1}> ()
    [scale] w__1 = Constant <value = float {0.5}> ()
    [outer] y, rows = Loop (n, go, x) <body: graph = outer_body (int64 i, bool c, float[N] x__1)
                                                    => (bool c__2, float[N] x__2, float[N] s) {
        [is_even] two = Constant <value = int64 {2}> ()
        m = Mod (i, two)
        zero = Constant <value = int64 {0}> ()
        even = Equal (m, zero)
        [choice] x__2 = If (even) <
            then_branch: graph = then () => (float[N] t) { a = Mul (x__1, w__1)  t = Add (a, x) },
            else_branch: graph = otherwise () => (float[N] e) {
                [inner] e = Loop (i, , x__1) <body: graph = inner_body (int64 j, bool d, float[N] z) => (bool d, float[N] z__2) {
                    z__2 = Sub (z, w__1)
                }>
            }
        >
        s = Identity (x__2)
        c__2 = Identity (c)
    }>
    x2 = Identity (x)
}"""


@pytest.mark.parametrize("body", ["mdf", "onnx"])
def test_nested_loops_and_branches_capture_through_all_levels(body, tmp_path):
    original = dotted(onnx_model(NESTED))
    inputs = {"x": np.float32([1, -2, 4]), "n": np.int64(5)}
    expected = backend.run_model(original, list(inputs.values()))
    mdf_loop.convert(original, tmp_path / "nested.yaml", body=body)
    model = mdf_loop.load(tmp_path / "nested.yaml")
    for results in (mdf_loop.run(model, **inputs).values(), by_engine(model, inputs)):
        for actual, wanted in zip(results, expected, strict=True):
            assert_same(actual, wanted, 0, 0)
    is_text = "onnx: " in (tmp_path / "nested.yaml").read_text()
    assert is_text == (body == "onnx")


def test_ids_are_plain_names_and_the_original_ones_are_kept():
    graph = mdf_loop.convert(dotted(onnx_model(NESTED))).graphs[0]
    ids = [thing.id for node in graph.nodes for thing in (node, *node.input_ports, *node.output_ports, *node.parameters)]
    assert all(id.isidentifier() for id in ids)
    assert graph.metadata["names"] == {"w_1": "w..1"}
    assert [node.id for node in graph.nodes] == ["outer", "Identity"]
    (body,) = next(p.value for p in graph.nodes[0].parameters if p.id == "body").values()
    assert body.metadata["inputs"] == ["i", "c", "x_1"]
    assert body.metadata["names"]["x_1"] == "x..1"


def test_types_and_symbolic_dimensions_are_kept():
    source = "g (float[N,M] x, int64[3] n, seq(float) s, optional(seq(int8)) o) => (float[N,M] y) { y = Identity (x) }"
    model = parser.parse_model(HEADER + source)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = '2 * N, or "M"]'
    types = mdf_loop.convert(model).graphs[0].metadata["types"]
    assert types["x"] == 'float[N,"2 * N, or \\"M\\"]"]'
    assert (types["n"], types["s"], types["o"]) == ("int64[3]", "seq(float[])", "optional(seq(int8[]))")
    again = mdf_loop.to_onnx(mdf_loop.convert(model))
    assert [value.type for value in again.graph.input] == [value.type for value in model.graph.input]


CONSTANTS = {
    "float16": np.array([1.5, np.inf, -0.0], np.float16),
    "complex64": np.array([[1 + 2j], [3 - 1j]], np.complex64),
    "bool": np.array(True),
    "uint64": np.array([2**64 - 1], np.uint64),
    "int8 scalar": np.array(-3, np.int8),
    "empty": np.zeros((0, 3), np.int32),
    "empty rows": np.zeros((3, 0), np.float64),
    "text": np.array("__import__('os')", object),
    "texts": np.array([["a", "b\n'"], ["", "é"]], object),
    "nan": np.array([np.nan, -np.inf], np.float32),
    "many": np.arange(3000, dtype=np.int16),
}


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("name", [*CONSTANTS, "bfloat16", "int4"])
def test_constants_keep_value_type_and_shape(name, suffix, tmp_path):
    import ml_dtypes

    more = {"bfloat16": np.array([[1.5, -2.0]] * 800, ml_dtypes.bfloat16), "int4": np.array([-8, 7], ml_dtypes.int4)}
    value = (CONSTANTS | more)[name]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"]), helper.make_node("Identity", ["w"], ["z"])],
        "g",
        [],
        [helper.make_value_info(out, onnx.TypeProto()) for out in ("y", "z", "w")],
        [onnx.numpy_helper.from_array(value, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    mdf_loop.convert(model, tmp_path / f"m{suffix}")
    outputs = mdf_loop.run(tmp_path / f"m{suffix}")
    assert list(outputs) == ["y", "z", "w"]
    for actual in (*outputs.values(), *by_engine(mdf_loop.load(tmp_path / f"m{suffix}"), {})):
        assert (actual.dtype, actual.shape) == (value.dtype, value.shape)
        np.testing.assert_array_equal(actual, value)


def test_inputs_with_initializers_are_defaults():
    source = "g (float[2] x, float[2] w = {3, 4}) => (float[2] y, float[2] z) { y = Mul (x, w)  z = Add (w, w) }"
    model = mdf_loop.convert(parser.parse_model(HEADER + source))
    given = {"x": np.float32([1, 2])}
    assert [value.tolist() for value in mdf_loop.run(model, **given).values()] == [[3, 8], [6, 8]]
    assert [value.tolist() for value in by_engine(model, given)] == [[3, 8], [6, 8]]
    given["w"] = np.float32([1, 1])
    assert [value.tolist() for value in mdf_loop.run(model, **given).values()] == [[1, 2], [2, 2]]
    assert [value.tolist() for value in by_engine(model, given)] == [[1, 2], [2, 2]]


def test_an_output_may_be_an_input_and_a_value_that_is_read():
    source = "g (float[2] x) => (float[2] x, float[2] a, float[2] y) { a = Add (x, x)  y = Add (a, x) }"
    model = mdf_loop.convert(parser.parse_model(HEADER + source))
    outputs = mdf_loop.run(model, x=[1.0, 2.0])
    assert {name: value.tolist() for name, value in outputs.items()} == {"x": [1, 2], "a": [2, 4], "y": [3, 6]}
    assert [value.tolist() for value in by_engine(model, {"x": [1.0, 2.0]})] == [[1, 2], [2, 4], [3, 6]]


def test_an_engine_is_evaluated_again_with_other_values_and_needs_them():
    from modeci_mdf.execution_engine import EvaluableGraph

    model = mdf_loop.convert(onnx_model("g (float[2] x) => (float[2] y) { y = Add (x, x) }"))
    evaluable = EvaluableGraph(model.graphs[0])
    for x in ([1, 2], [3.5, 4]):
        evaluable.evaluate(initializer={"x": x})
        assert evaluable.enodes["Add"].get_output("y").tolist() == [2 * v for v in x]
        assert evaluable.output_enodes[0].get_output().dtype == np.float32
    with pytest.raises(MalformedBody, match="nothing gives a value to 'x', read by Add"):
        evaluable.evaluate()


def test_a_converted_graph_may_be_changed_with_mdfs_means():
    model = mdf_loop.convert(onnx_model("g (float[2] x) => (float[2] y) { y = Add (x, x) }"))
    (graph,) = model.graphs
    graph.nodes.append(
        Node(id="source", parameters=[Parameter(id="a", value="2 * 3")], output_ports=[OutputPort(id="out", value="[a, a + 1]")])
    )
    graph.edges.append(mdf_edge("source", "out", "Add", "x"))
    assert by_engine(model, {})[0].tolist() == [12, 14]
    graph.nodes[-1].parameters[0].value = "open('/etc/passwd')"
    with pytest.raises(MalformedBody, match="source/a: expression"):
        by_engine(model, {})


def test_conditions_of_graph_scheduler_decide_when_converted_nodes_run():
    source = "g (float[2] x) => (float[2] y__1, float[2] r) { y__1 = Add (x, x)  r = RandomNormalLike (x) }"
    model = mdf_loop.convert(dotted(onnx_model(source)))
    condition = Condition(type="AfterNCalls", kwargs={"dependencies": "RandomNormalLike", "n": 3})
    model.graphs[0].conditions = ConditionSet(termination={"environment_state_update": condition})
    with mdf_loop.options(seed=5):
        outputs = mdf_loop.run(model, x=[1.0, 2.0])
        once = mdf_loop.run(mdf_loop.convert(dotted(onnx_model(source))), x=[1.0, 2.0])
    assert outputs["y..1"].tolist() == [2, 4]
    assert outputs.keys() == once.keys()
    assert (outputs["r"] != once["r"]).all()  # the third draw
    with pytest.raises(ArgumentError, match=r"no input port without an edge and no parameter called 'z'"):
        mdf_loop.run(model, x=[1.0, 2.0], z=3)


def mdf_edge(sender, sender_port, receiver, receiver_port):
    from modeci_mdf.mdf import Edge

    return Edge(id="e", sender=sender, sender_port=sender_port, receiver=receiver, receiver_port=receiver_port)


def test_an_operator_of_a_domain_of_users_is_kept():
    @mdf_loop.kernel("Scaled", domain="somebody.else")
    def scaled(x, *, by, label="", parts=()):
        return x * np.float32(by) + len(label) + sum(parts)

    imports = '<ir_version: 9, opset_import: ["": 20, "somebody.else": 1]>'
    text = 'g (float x) => (float y) { y = somebody.else.Scaled <by = 2.5, label = "exit()", parts = [1, 2]> (x) }'
    model = mdf_loop.convert(parser.parse_model(imports + text))
    assert model.graphs[0].metadata["opsets"] == {"somebody.else": 1}
    for result in (mdf_loop.run(model, x=2.0)["y"], by_engine(model, {"x": 2.0})[0]):
        assert result == 5 + 6 + 3


def test_the_file_reads_well(tmp_path):
    source = """double (float[2] x) => (float[2] y) {
        [go] go = Constant <value = bool {1}> ()
        [three] n = Constant <value = int64 {3}> ()
        [run] y = Loop (n, go, x) <body: graph = step (int64 i, bool c, float[2] x__1) => (bool c, float[2] x__2) {
            x__2 = Add (x__1, x)
        }>
    }"""
    mdf_loop.convert(dotted(onnx_model(source)), tmp_path / "double.yaml")
    content = yaml.safe_load((tmp_path / "double.yaml").read_text())
    assert content["double_model"]["onnx_opset_version"] == "20"
    (graph,) = content["double_model"]["graphs"].values()
    body = graph["nodes"]["run"]["parameters"].pop("body")["value"]["graph_body"]
    assert graph == {
        "metadata": {
            "inputs": ["x"],
            "outputs": ["y"],
            "opset": 20,
            "types": {"run.n": "int64[]", "run.go": "bool[]", "x": "float[2]", "y": "float[2]"},
        },
        "nodes": {
            "run": {
                "input_ports": {"x": {"metadata": {"required": True}, "shape": [2], "type": "float"}},
                "parameters": {
                    "n": {"value": 3},
                    "go": {"value": True},
                    "run": {"function": "onnx::Loop", "args": {"M": "n", "cond": "go", "v_1": "x", "body": "body"}},
                },
                "output_ports": {"y": {"value": "run[0]", "shape": [2], "type": "float"}},
            }
        },
    }
    assert body["metadata"]["inputs"] == ["i", "c", "x_1"]
    assert body["metadata"]["outputs"] == ["c", "x_2"]
    assert list(body["nodes"]["Add"]["input_ports"]) == ["x_1", "x"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mdf_loop.convert(3), KindError, "convert takes an ONNX model or the path of one; got int"),
        (lambda: mdf_loop.convert("nowhere.onnx"), MalformedBody, "there is no file 'nowhere.onnx'"),
        (lambda: mdf_loop.convert(MODELS / "for_ts.onnx", body="c"), ArgumentError, "body must be one of mdf, onnx; got 'c'"),
        (
            lambda: mdf_loop.convert(MODELS / "for_ts.onnx", "x.txt"),
            ArgumentError,
            "an MDF model is a file of type .json, .yaml, .yml; got 'x.txt'",
        ),
    ],
)
def test_what_cannot_be_converted_is_said(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


def test_json_holds_nothing_but_what_json_has(tmp_path):
    mdf_loop.convert(dotted(onnx_model(NESTED)), tmp_path / "m.json")
    json.loads((tmp_path / "m.json").read_text(), parse_constant=pytest.fail)


DEFAULT = """<ir_version: 8, opset_import: ["": 18]> g (float[2] x, float[2] w, int8[1, 2] b) => (float[2] y, int8[1, 2] c)
    <float[2] w = {1, 2}, int8[1, 2] b = {3, 4}> { y = Add (x, w) c = Neg (b) }"""


@pytest.mark.parametrize("way", ["to_yaml_file", "to_json_file"])
def test_mdf_itself_writes_what_has_arrays_as_defaults(tmp_path, way):
    converted = mdf_loop.convert(parser.parse_model(DEFAULT))
    path = tmp_path / f"m.{way.split('_')[1]}"
    getattr(converted, way)(str(path))
    for source in (converted, path):
        found = mdf_loop.run(source, x=[1.0, 1.0])
        assert (found["y"].tolist(), found["c"].tolist()) == ([2, 3], [[-3, -4]])
        assert found["c"].dtype == np.int8
