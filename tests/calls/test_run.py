"""``mdf_loop.run`` and ``mdf_loop.load``: models by path or object, inputs and outputs by name."""

import logging
import re

import numpy as np
import onnx.parser
import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError, MalformedBody
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.models.verifying import drawn, needed

ADD_STEP = """b (int64 i, bool go, double y) => (bool go_on, double y_out, double s) {
    go_on = Identity (go)
    y_out = Add (y, step)
    s = Identity (y_out)
}"""


def counting_model():
    """A source node whose value starts a loop that adds ``step`` three times."""
    source = Node(id="source", parameters=[Parameter(id="level", value=1.5)])
    source.input_ports.append(InputPort(id="extra", default_value=0.5))
    source.output_ports.append(OutputPort(id="out", value="level + extra"))
    counter = Node(id="counter", input_ports=[InputPort(id="start")])
    counter.parameters += [
        Parameter(id="body", value={"onnx": ADD_STEP}),
        Parameter(id="step", value=2.5),
        Parameter(id="count", function="onnx::Loop", args={"M": 3, "cond": "", "v_initial": "start", "body": "body"}),
    ]
    counter.output_ports += [OutputPort(id="total", value="count[0]"), OutputPort(id="sums", value="count[1]")]
    edge = Edge(id="e", sender="source", sender_port="out", receiver="counter", receiver_port="start")
    return Model(id="m", graphs=[Graph(id="g", nodes=[source, counter], edges=[edge])])


@pytest.fixture(params=["json", "yaml"])
def model_file(request, tmp_path):
    path = tmp_path / f"counting.{request.param}"
    getattr(counting_model(), f"to_{request.param}_file")(str(path))
    return path


def test_outputs_are_the_ports_no_edge_reads_by_name(model_file):
    outputs = mdf_loop.run(model_file)
    assert sorted(outputs) == ["sums", "total"]
    assert outputs["total"] == 9.5
    np.testing.assert_array_equal(outputs["sums"], [4.5, 7.0, 9.5])


def test_a_model_object_and_its_graph_run_like_the_file(model_file):
    from_file = mdf_loop.run(model_file)
    for source in (counting_model(), counting_model().graphs[0]):
        outputs = mdf_loop.run(source)
        assert outputs["total"] == from_file["total"]


def test_inputs_set_free_ports_and_parameters_without_changing_the_model():
    model = counting_model()
    assert mdf_loop.run(model, extra=10, step=1)["total"] == 14.5
    assert mdf_loop.run(model, **{"counter.step": 0})["total"] == 2.0
    assert mdf_loop.run(model)["total"] == 9.5


def test_an_unknown_input_names_what_is_close():
    with pytest.raises(ArgumentError, match=re.escape("no parameter called 'stepp'; did you mean 'step'")):
        mdf_loop.run(counting_model(), stepp=1)


def test_an_input_with_an_edge_cannot_be_set():
    with pytest.raises(ArgumentError, match="called 'start'"):
        mdf_loop.run(counting_model(), start=1)


def test_a_name_in_several_nodes_must_say_which():
    model = counting_model()
    model.graphs[0].nodes[0].parameters.append(Parameter(id="step", value=0))
    with pytest.raises(ArgumentError, match=re.escape("give one of: source.step, counter.step")):
        mdf_loop.run(model, step=1)


def test_outputs_that_share_an_id_are_named_by_node():
    graph = Graph(id="g")
    for name in ("a", "b"):
        graph.nodes.append(Node(id=name, output_ports=[OutputPort(id="out", value="1 + 1")]))
    assert sorted(mdf_loop.run(graph)) == ["a.out", "b.out"]


def test_running_prints_nothing_and_logs_what_mdf_says(capsys, caplog):
    graph = counting_model().graphs[0]
    graph.conditions = ConditionSet(node_specific={"source": Condition(type="AtPass", kwargs={"n": 0})}, termination={})
    with caplog.at_level(logging.DEBUG, logger="mdf_loop.mdf"):
        run_in_mdf(graph)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Root nodes" in caplog.text


def test_mdf_itself_prints_as_before(capsys):
    from modeci_mdf.execution_engine import EvaluableGraph

    EvaluableGraph(counting_model().graphs[0])
    assert "Root nodes" in capsys.readouterr().out


def test_an_onnx_model_runs_by_path_and_as_an_object(tmp_path):
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Add (x, x) }')
    path = tmp_path / "double.onnx"
    onnx.save(model, path)
    for source in (model, path, str(path)):
        result = mdf_loop.run(source, x=[1, 2.5])["y"]
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, [2, 5])


def test_a_model_with_two_graphs_asks_for_one():
    model = Model(id="two", graphs=[Graph(id="a"), Graph(id="b")])
    with pytest.raises(ArgumentError, match=re.escape("has 2 graphs ('a', 'b'); run one of them")):
        mdf_loop.run(model)


@pytest.mark.parametrize("content", ["a: [1", "- 1", "", "{'graphs': 3"])
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_file_that_is_not_mdf_says_so(tmp_path, content, suffix):
    path = tmp_path / f"broken{suffix}"
    path.write_text(content)
    with pytest.raises(MalformedBody, match="is not an MDF model"):
        mdf_loop.load(path)


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(MalformedBody, match="there is no file"):
        mdf_loop.load(tmp_path / "nowhere.yaml")
    with pytest.raises(MalformedBody, match="there is no file"):
        mdf_loop.run(tmp_path / "nowhere.onnx")


def test_something_else_is_refused():
    with pytest.raises(KindError, match="run takes a path, an MDF model or graph, or an ONNX model; got int"):
        mdf_loop.run(3)


def test_an_onnx_file_of_a_body_is_found_next_to_the_model(tmp_path, monkeypatch):
    onnx.save(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {ADD_STEP.replace("b (", "b (double step, ", 1)}'),
        tmp_path / "unused.onnx",
    )
    body = ADD_STEP.replace("Add (y, step)", "Add (y, y)")
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {body}'), tmp_path / "body.onnx")
    model = counting_model()
    model.graphs[0].nodes[1].get_parameter("body").value = {"onnx_file": "body.onnx"}
    model.to_yaml_file(str(tmp_path / "model.yaml"))
    monkeypatch.chdir(tmp_path.parent)
    assert mdf_loop.run(tmp_path / "model.yaml")["total"] == 16.0


@pytest.mark.parametrize("name", ["tests/models/while_ts.onnx", "examples/openvino_loop.xml"])
@pytest.mark.parametrize("option", [{"steps": 3}, {"time_increment": 0.1}, {"collect": True}])
def test_steps_of_a_model_that_is_not_mdf_are_refused(name, option):
    with pytest.raises(ArgumentError, match=f"^{next(iter(option))} is for MDF models, and the model has no input of that name"):
        mdf_loop.run(name, **option)


def test_an_onnx_input_may_be_called_steps():
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> g (int64 steps) => (int64 y) { y = Neg (steps) }')
    assert mdf_loop.run(model, steps=3)["y"] == -3


@pytest.mark.parametrize("option", [{}, {"steps": 2}])
def test_none_is_no_value_of_an_mdf_model(option):
    with pytest.raises(KindError, match=r"^input 'step' must be numbers, booleans or strings; got None$"):
        mdf_loop.run(counting_model(), step=None, **option)


@pytest.mark.parametrize("read", [mdf_loop.convert, lambda path: mdf_loop.loop(1, True, 0.0, body=path)])
def test_an_mdf_file_where_onnx_is_wanted_points_to_what_takes_it(read):
    with pytest.raises(MalformedBody) as error:
        read("examples/newton.yaml")
    assert str(error.value) == (
        "'examples/newton.yaml' is no ONNX file; if it is an MDF model, mdf_loop.run runs it and mdf_loop.to_onnx converts it"
    )


def test_missing_weights_are_not_called_a_broken_model(tmp_path):
    path = tmp_path / "w.yaml"
    mdf_loop.convert("tests/models/while_ts.onnx", path, inline=0)
    path.with_suffix(".npz").unlink()
    with pytest.raises(MalformedBody) as error:
        mdf_loop.load(path)
    assert str(error.value) == f"{str(path)!r}: there is no file 'w.npz' beside the model, which holds its weights"


NOISE = "b (int64 i, bool go, double y) => (bool go, double z) { n = RandomNormal <shape = [1], dtype = 11> () z = Sum (y, n) }"


def noisy(**node):
    """A model that draws random numbers; ``node`` is what it has besides."""
    run = {"function": "onnx::Loop", "args": {"M": 3, "v_initial": "y", "body": "body"}}
    node = {
        "input_ports": {"y": {"default_value": 0.0}, **node},
        "parameters": {"body": {"value": {"onnx": NOISE}}, "run": run},
        "output_ports": {"out": {"value": "run + seed" if node else "run"}},
    }
    return Model.from_dict({"m": {"graphs": {"g": {"nodes": {"n": node}}}}})


def test_a_seed_may_be_given_to_run(tmp_path):
    path = tmp_path / "noisy.yaml"
    noisy().to_yaml_file(str(path))
    with mdf_loop.options(seed=7):
        expected = mdf_loop.run(path)["out"]
    assert expected != mdf_loop.run(path, seed=8)["out"]
    for model in (path, noisy(), noisy().graphs[0]):
        np.testing.assert_array_equal(mdf_loop.run(model, seed=7)["out"], expected)
        with mdf_loop.options(seed=8):
            np.testing.assert_array_equal(mdf_loop.run(model, seed=7)["out"], expected)


def test_an_input_called_seed_is_named_with_its_node():
    model = noisy(seed={"default_value": 0.0})
    plain = mdf_loop.run(model, seed=7)["out"]
    np.testing.assert_array_equal(mdf_loop.run(model, seed=7, **{"n.seed": 100.0})["out"], plain + 100)


def test_a_seed_may_be_given_to_run_for_onnx_and_openvino():
    text = (
        '<ir_version: 10, opset_import: ["": 18]> g (float x) => (float y) { n = RandomNormal <shape = [1]> () y = Add (x, n) }'
    )
    model = onnx.parser.parse_model(text)
    assert (
        mdf_loop.run(model, x=0.0, seed=7)["y"]
        == mdf_loop.run(model, x=0.0, seed=7)["y"]
        != mdf_loop.run(model, x=0.0, seed=8)["y"]
    )
    own = onnx.parser.parse_model(text.replace("float x", "float seed").replace("x, n", "seed, seed"))
    assert mdf_loop.run(own, seed=7)["y"] == 14
    path = "examples/openvino_loop.xml"
    outputs = mdf_loop.run(path, seed=7, **drawn(needed(mdf_loop.prepare(path)), 0, set()))
    assert outputs


@pytest.mark.parametrize(
    "make",
    [
        counting_model,
        lambda: onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 18]> g (float x) => (float y) { y = Neg (x) }'),
        lambda: mdf_loop.convert(
            onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 18]> g (float x) => (float y) { y = Neg (x) }')
        ),
        lambda: "examples/openvino_loop.xml",
    ],
    ids=["MDF", "ONNX", "converted", "OpenVINO"],
)
@pytest.mark.parametrize(("name", "value"), [("max_iterations", 10), ("engine", "numpy"), ("trusted", True)])
def test_an_option_given_to_run_is_refused_with_its_place(make, name, value):
    with pytest.raises(ArgumentError, match=re.escape(f"mdf_loop.options({name}={value!r})")):
        mdf_loop.run(make(), **{name: value})


def test_an_input_may_be_called_like_an_option():
    text = '<ir_version: 10, opset_import: ["": 18]> g (float engine) => (float y) { y = Neg (engine) }'
    model = onnx.parser.parse_model(text)
    assert mdf_loop.run(model, engine=3.0)["y"] == -3
    assert mdf_loop.run(mdf_loop.convert(model), engine=3.0)["y"] == -3
