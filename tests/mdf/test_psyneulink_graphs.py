"""Graphs of PsyNeuLink's exports: feedback, nested compositions, several projections into one port."""

import json
import re
import warnings

import numpy as np
import pytest
from modeci_mdf.execution_engine import EvaluableGraph

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.integrations.engine_patches import quiet_mdf
from mdf_loop.readers.mdf.input_ports import with_values
from tests.mdf.test_psyneulink import ENGINES, counting, run


def with_projection(sender, receiver):
    """A model in which one more edge goes from one node to another."""
    content = counting({})
    port = {"input_ports": {f"{receiver}_back": {"shape": [1]}}}
    content["m"]["graphs"]["g"]["nodes"][receiver].setdefault("input_ports", {}).update(port["input_ports"])
    edge = {"sender": sender, "receiver": receiver, "sender_port": f"{sender}_count", "receiver_port": f"{receiver}_back"}
    content["m"]["graphs"]["g"]["edges"]["back"] = edge
    return content


@pytest.mark.parametrize("how", [{}, {"steps": 2}], ids=["once", "steps"])
def test_feedback_is_refused_by_the_names_of_its_nodes(how, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(with_projection("c", "b")))
    cycle = r"'(b' -> 'c' -> 'b|c' -> 'b' -> 'c)' form a cycle"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(mdf_loop.LoopError, match=cycle) as caught:
            mdf_loop.run(path, **how)
    assert "carried value" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_nested_composition_is_refused_in_words(tmp_path):
    content, path = counting({}), tmp_path / "m.json"
    content["m"]["graphs"]["g"]["nodes"]["a"] |= {"nodes": {}, "conditions": {}}
    path.write_text(json.dumps(content))
    with pytest.raises(mdf_loop.LoopError, match="PsyNeuLink's nested compositions have no form"):
        mdf_loop.run(path)


def combining(**names):
    """A node that counts, and one that adds two of its values as PsyNeuLink's exports do, or by other names."""
    content = counting({})
    nodes, edges = content["m"]["graphs"]["g"]["nodes"], content["m"]["graphs"]["g"]["edges"]
    data, total = names.get("data", "c_combination_function_input_data"), names.get("total", "c_input_combination_function")
    nodes["c"] = {
        "input_ports": {"x": {"shape": [1]}, "y": {"shape": [1]}},
        "functions": {total: {"function": "onnx::ReduceSum", "args": {"data": data, "axes": 0}}},
        "parameters": {data: {"value": "[x, y]"}},
        "output_ports": {"c_out": {"value": total}},
    }
    edges["bc"] = {"sender": "b", "receiver": "c", "sender_port": "b_count", "receiver_port": "x"}
    edges["ac"] = {"sender": "a", "receiver": "c", "sender_port": "a_count", "receiver_port": "y"}
    content["m"]["graphs"]["g"]["conditions"] = {}
    return content


@pytest.mark.parametrize("engine", ENGINES)
def test_what_two_projections_bring_is_added_when_it_comes(engine, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(combining()))
    found = run(mdf_loop.prepare(path), engine, steps=4, collect=True)["c_out"]
    assert np.ravel(found).tolist() == [2.0, 4.0, 6.0, 8.0]
    path.write_text(json.dumps(combining(data="kept", total="total")))  # MDF itself: functions before parameters
    found = run(mdf_loop.prepare(path), engine, steps=4, collect=True)["c_out"]
    assert np.ravel(found).tolist() == [2.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize(("text", "expected"), [("[x, x, 2 * y]", 8.0), ("[x, y - 1]", 3.0), ("[x, y] * 1", 2.0)])
def test_what_is_added_may_be_expressions(text, expected, tmp_path):
    content, path = combining(), tmp_path / "m.json"
    content["m"]["graphs"]["g"]["nodes"]["c"]["parameters"]["c_combination_function_input_data"]["value"] = text
    path.write_text(json.dumps(content))
    assert np.ravel(mdf_loop.run(path, steps=2)["c_out"]).tolist() == [expected]


def of_two_axes():
    """A port for a recurrent projection, whose shape lacks an axis, and one that an edge brings a row to."""
    content = combining()
    node = content["m"]["graphs"]["g"]["nodes"]["c"]
    node["input_ports"] = {"x": {"shape": [2], "type": "float64"}, "y": {"shape": [2], "type": "float64"}}
    total = "c_input_combination_function"
    node["functions"]["row"] = {"value": "variable0[0]", "args": {"variable0": total}}
    node["output_ports"] = {"c_out": {"value": "row"}}
    sender = {"input_ports": {"x": {"shape": [1, 2], "type": "float64"}}, "output_ports": {"a_out": {"value": "x"}}}
    edges = {"ac": {"sender": "a", "receiver": "c", "sender_port": "a_out", "receiver_port": "y"}}
    content["m"]["graphs"]["g"] |= {"nodes": {"a": sender, "c": node}, "edges": edges}
    return content


@pytest.mark.parametrize("engine", ENGINES)
def test_projections_of_different_axes_into_one_port_are_added(engine, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(of_two_axes()))
    found = run(mdf_loop.prepare(path), engine, steps=2, **{"a.x": [[0.1, 2.0]]})["c_out"]
    np.testing.assert_array_equal(found, [[0.1, 2.0]])  # with the row's axis, as in MDF


def test_projections_of_different_axes_are_added_everywhere(tmp_path):
    path, value = tmp_path / "m.json", np.array([[0.1, 2.0]])
    path.write_text(json.dumps(of_two_axes()))
    graph = with_values(mdf_loop.load(path).graphs[0], {("a", "x"): value})
    written = mdf_loop.backend.run_model(mdf_loop.to_onnx(graph, steps=2), [])
    np.testing.assert_array_equal(written[0], value)
    with quiet_mdf():
        engine = EvaluableGraph(graph, verbose=False)
        engine.evaluate()
    np.testing.assert_array_equal(engine.enodes["c"].evaluable_outputs["c_out"].curr_value, value)


def exported(**parts):
    """What PsyNeuLink writes of a composition of one mechanism; ``parts`` replace parts of its node."""
    port = {"shape": [1], "value": "f", "metadata": {"type": "OutputPort", "variable": [0.0]}}
    node = {
        "metadata": {"type": "TransferMechanism", "integrator_mode": True},
        "input_ports": {"x": {"shape": [1, 1], "type": "float64"}},
        "functions": {"f": {"value": "2 * x"}},
        "parameters": {},
        "output_ports": {"y": port},
    }
    nodes = {"n": {name: {**part, **parts.get(name, {})} for name, part in node.items()}}
    if "edge" in parts:
        nodes["m"] = {"input_ports": {"z": {"shape": [1, 1]}}, "output_ports": {"w": {"value": "z"}}}
    ends = {"sender": "n", "sender_port": "y", "receiver": "m", "receiver_port": "z"}
    edges = {"e": {**ends, "metadata": parts["edge"]}} if "edge" in parts else {}
    graph = {"metadata": {"type": "Composition"}, "nodes": nodes, "edges": edges}
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": graph}}}


def of_kind(kind, **said):
    return {"metadata": {"type": kind, **said}}


def with_matrix(*rows):
    return {"type": "MappingProjection", "functions": {"M": {"function": "onnx::MatMul", "args": {"B": [*rows]}}}}


NOISE = {"args": {"noise": 0.2}}
RECURRENT = {"type": "RecurrentTransferMechanism", "recurrent_projection": None}
LOSSES = [
    ({"parameters": {"clip": {"value": [[0, 1], 2]}}}, "clip [[0, 1], 2] of its results is not exported"),
    ({"parameters": {"termination_threshold": {"value": 0.9}}}, "termination_threshold 0.9 is not exported"),
    ({"metadata": {"integrator_mode": False, "integrator_function": NOISE}}, "n: its noise is not exported"),
    ({"metadata": RECURRENT, "parameters": {"hetero": {"value": -0.3}}}, "hetero are of a recurrent projection"),
    ({"metadata": {**RECURRENT, "matrix": [[0.5]]}}, "its matrix are of a recurrent projection"),
    ({"output_ports": {"y": {"value": "f", "shape": [1], **of_kind("OutputPort", variable=[0, 0, 0])}}}, "makes 1 of 3 numbers"),
    (
        {"output_ports": {"y": {"value": "f", "shape": [1], **of_kind("ControlSignal")}}},
        "its ControlSignal y changes",
    ),
    (
        {"metadata": {"type": "DDM"}, "functions": {"f": {"value": "x", **of_kind("DriftDiffusionIntegrator")}}},
        "until a threshold",
    ),
    ({"edge": with_matrix([2.0])}, "simple_edge_format=True"),
    ({"edge": {"type": "GatingProjection"}}, "write reduce: multiply at that port"),
]
KEPT = [
    {},
    {"metadata": {"integrator_mode": True, "integrator_function": NOISE}},
    {"metadata": {**RECURRENT, "matrix": "HollowMatrix"}, "parameters": {"hetero": {"value": -0.0}, "auto": {"value": 0.0}}},
    {"edge": with_matrix([1.0])},
]


@pytest.mark.parametrize(("parts", "said"), LOSSES, ids=[said for _, said in LOSSES])
def test_what_an_export_lost_is_reported_by_a_run_and_a_check(parts, said, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(exported(**parts)))
    (found,) = [each.message for each in check(path) if each.kind == "warning"]
    assert said in found
    assert found.endswith("PsyNeuLink gives other numbers")
    with pytest.warns(mdf_loop.errors.LoopWarning, match=re.escape(said)):
        mdf_loop.run(path, **{"n.x": [[1.0]]})


@pytest.mark.parametrize("parts", KEPT)
def test_what_an_export_has_is_not_reported(parts, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(exported(**parts)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mdf_loop.run(path, **{"n.x": [[1.0]]})
    assert not any("PsyNeuLink" in each.message for each in check(path))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("function", "mean"), [("exponentialdist", 0.5), ("gammadist", 0.5), ("uniformdist", 0.5), ("walddist", 1.0)]
)
def test_noise_of_an_integrator_is_drawn_for_each_element(function, mean, engine, tmp_path):
    """As PsyNeuLink writes it: without a variable, with the shape of one."""
    args = {
        "shape": [1, 2],
        "seed": -1,
        **({"beta": 0.5} if "exp" in function else {"scale": 0.5} if "gamma" in function else {}),
    }
    functions = {"drawn": {"function": function, "args": args}, "f": {"value": "x + drawn"}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(exported(functions=functions)))
    count = 1000 if engine != "interpret" else 300
    found = run(mdf_loop.prepare(path), engine, steps=count, collect=True, seed=1, **{"n.x": [[1.0, 3.0]]})["y"]
    assert found.shape == (count, 1, 2)
    assert (found[:, 0, 0] + 2 != found[:, 0, 1]).all()
    np.testing.assert_allclose(found.mean(0), [[1 + mean, 3 + mean]], atol=6 / np.sqrt(count))


WRITTEN = {"type": "UserDefinedFunction", "custom_function": "gASV"}
IN_PYTHON = "it is in Python, of which an export has the name alone; write value:"
ADDED = [
    (
        {"f": {"function": "<lambda>", "args": {"variable0": "x"}, "metadata": WRITTEN}},
        f"n/f: there is no function '<lambda>': {IN_PYTHON}",
    ),
    (
        {"f": {"function": "mine", "args": {"variable0": "x"}, "metadata": WRITTEN}},
        f"n/f: there is no function 'mine': {IN_PYTHON}",
    ),
    (
        {"f": {"function": "gridsearch", **of_kind("GridSearch")}},
        "no function 'gridsearch': PsyNeuLink's GridSearch has no expression",
    ),
]


@pytest.mark.parametrize("how", [{}, {"steps": 2}], ids=["once", "steps"])
@pytest.mark.parametrize(("functions", "said"), ADDED)
def test_functions_that_an_export_names_alone_are_refused_by_name(functions, said, how, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(exported(functions=functions)))
    assert [said in each.message for each in check(path) if each.kind == "error"] == [True]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(mdf_loop.LoopError) as caught:
            mdf_loop.run(path, **{"n.x": [[1.0]]}, **how)
    assert said in str(caught.value)
    assert "NoneType" not in str(caught.value)


@pytest.mark.parametrize("kind", ["Condition", "While", "WhileNot"])
def test_a_condition_in_python_is_refused_with_its_cure(kind, tmp_path):
    path, content = tmp_path / "m.json", exported()
    ends = {"environment_state_update": {"type": kind, "kwargs": {"func": "n", "args": ["n"]}}}
    content["m"]["graphs"]["g"]["conditions"] = {"node_specific": {}, "termination": ends}
    path.write_text(json.dumps(content))
    with pytest.raises(mdf_loop.LoopError, match=f"{kind} calls a function in Python.*write a condition that compares"):
        mdf_loop.run(path, **{"n.x": [[1.0]]})
    assert any("calls a function in Python" in each.message for each in check(path))
