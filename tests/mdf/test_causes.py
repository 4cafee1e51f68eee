"""What MDF's engine fails at is what the message says, and models that other tools hand over run."""

import json

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import MalformedBody
from mdf_loop.types.schemas import version_in


def of_number(**said):
    """A model of one node that gives 5."""
    node = Node(id="n", parameters=[Parameter(id="a", value="2 + 3")], output_ports=[OutputPort(id="o", value="a")])
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])], **said)


@pytest.mark.parametrize("version", [18, np.int64(18), 18.0, "18", "", None])
def test_a_version_may_be_a_number(version):
    model = of_number(onnx_opset_version=version)
    assert mdf_loop.run(model)["o"] == 5
    assert mdf_loop.prepare(model)()["o"] == 5
    assert mdf_loop.sweep(model, over={"a": [1, 2]})["o"].values.tolist() == [1, 2]


def test_versions_that_are_none():
    assert [version_in(said) for said in (18, np.int32(18), 18.0)] == [18] * 3
    assert [version_in(said) for said in (0, -1, True, 1.5, "18", "x", None, 1 << 40, float("inf"))] == [None] * 9


@pytest.mark.parametrize("opset", [20, np.int64(20), 20.0])
def test_the_version_of_a_body(opset):
    said = {"inputs": ["i", "go", "x"], "outputs": ["go", "y"], "opset": opset}
    body = {"metadata": said, "nodes": {"k": {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x + 1"}}}}}
    assert mdf_loop.loop(3, True, 1.0, body={"graph_b": body}) == 4.0


CONDITIONS = [
    ("AllHaveRun", {"dependencies": []}),
    ("AfterNCalls", {"dependency": "n", "n": 1}),
    ("AfterNCalls", {"dependencies": "n", "n": 1}),
    ("AfterPass", {"n": 1}),
    ("All", {"args": [{"type": "AfterPass", "kwargs": {"n": 1}}]}),
]


def scheduled(folder, condition, value):
    kind, given = condition
    nodes = {"n": {"parameters": {"a": {"value": value}}, "output_ports": {"o": {"value": "a"}}}}
    said = {"termination": {"environment_state_update": {"type": kind, "kwargs": given}}}
    path = folder / "m.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": nodes, "conditions": said}}}}))
    return path


@pytest.mark.parametrize("condition", CONDITIONS, ids=[f"{kind} {[*given]}" for kind, given in CONDITIONS])
def test_what_fails_beside_a_condition_is_not_blamed_on_it(condition, tmp_path):
    assert mdf_loop.run(scheduled(tmp_path, condition, "2 + 3"))["o"] == 5
    for value, told in (("[1.0, 2.0][7]", "index out of range"), ("1/0", "division by zero"), ("what + 1", "it reads 'what'")):
        with pytest.raises(mdf_loop.LoopError, match=told) as caught:
            mdf_loop.run(scheduled(tmp_path, condition, value))
        assert condition[0] not in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (("AllHaveRun", {"nodes": ["n"]}), "AllHaveRun takes dependencies, time_scale; unknown: nodes"),
        (("AfterNCalls", {"dependency": "n"}), "AfterNCalls takes dependency, n, time_scale; missing: n"),
        (("AfterPass", {"m": 1}), "AfterPass takes n, time_scale; unknown: m"),
    ],
)
def test_a_condition_that_is_wrong_is_blamed(condition, told, tmp_path):
    with pytest.raises(MalformedBody, match=told):
        mdf_loop.run(scheduled(tmp_path, condition, "2 + 3"))


def test_names_of_a_node_that_never_runs_are_not_the_cause(tmp_path):
    nodes = {
        "n": {"parameters": {"a": {"value": "1/0"}}, "output_ports": {"o": {"value": "a"}}},
        "late": {"parameters": {"b": {"value": 1}}, "output_ports": {"p": {"value": "what + 1"}}},
    }
    conditions = {"node_specific": {"late": {"type": "AfterNCalls", "kwargs": {"dependency": "n", "n": 100}}}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": nodes, "conditions": conditions}}}}))
    with pytest.raises(mdf_loop.LoopError, match="division by zero"):
        mdf_loop.run(path)
