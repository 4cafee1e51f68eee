"""Graphs of PsyNeuLink's exports: feedback, nested compositions, several projections into one port."""

import json
import warnings

import numpy as np
import pytest
from modeci_mdf.execution_engine import EvaluableGraph

import mdf_loop
from mdf_loop.integrations.engine_patches import quiet_mdf
from mdf_loop.readers.mdf.input_ports import with_values
from tests.test_psyneulink import ENGINES, counting, run


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


def of_two_axes():
    """A port for a recurrent projection, whose shape lacks an axis, and one that an edge brings a row to, as PsyNeuLink writes them."""
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
