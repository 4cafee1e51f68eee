"""Graphs of PsyNeuLink's exports: feedback, nested compositions, several projections into one port."""

import json
import warnings

import numpy as np
import pytest

import mdf_loop
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
