"""Run and check warn of lists that an expression of MDF repeats or joins, and of other values that are not what they seem."""

import contextlib
import io
import json
import re
import warnings

import numpy as np
import pytest
from commands import run_main
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.utils import load_mdf

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import IterationError, LoopWarning

LIST = {"default_value": [1.0, 0.0, 1.0]}


def saved(folder, value, ports=None, parameters=None, name="m.json"):
    """A model of one node with the list p and the number k."""
    ports = {"p": LIST, "k": {"default_value": 2}} if ports is None else ports
    node = {"input_ports": ports, "parameters": parameters or {}, "output_ports": {"o": {"value": value}}}
    path = folder / name
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    return path


def in_the_engine(path, node="n", **given):
    with contextlib.redirect_stdout(io.StringIO()):
        graph = EvaluableGraph(load_mdf(str(path)).graphs[0], verbose=False)
        for name, value in given.items():
            graph.enodes[node].evaluable_inputs[name].set_input_value(value)
        graph.evaluate()
    return graph.enodes[node].evaluable_outputs["o"].curr_value


def trusted(path):
    with mdf_loop.options(trusted=True):
        return mdf_loop.run(path)["o"]


def by(engine):
    def run(path):
        with mdf_loop.options(engine=engine):
            return mdf_loop.run(path)["o"]

    return run


WAYS = {
    "run": by("auto"),
    "interpret": by("interpret"),
    "steps": lambda path: mdf_loop.run(path, steps=3)["o"],
    "trusted": trusted,
    "engine": in_the_engine,
    "sweep": lambda path: mdf_loop.sweep(path, {"k": [2]}).o.values[0],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("text", "does", "length"), [("k * p", "repeats a list", 6), ("p + p", "joins lists", 6)])
def test_a_list_that_is_repeated_or_joined_is_a_warning_with_its_cure(text, does, length, way, tmp_path):
    path = saved(tmp_path, text)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(WAYS[way](path)) == length
    (said,) = [str(each.message) for each in told if does in str(each.message)]
    assert said.startswith(f"node 'n': {text!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        cured = text.replace("p", "numpy.array(p)")
        assert "numpy.array(p)" in said
        assert len(mdf_loop.run(saved(tmp_path, cured))["o"]) == 3
        parameter = saved(tmp_path, text, {"k": {"default_value": 2}}, {"p": {"value": [1.0, 0.0, 1.0]}})
        assert len(mdf_loop.run(parameter)["o"]) == 3


@pytest.mark.parametrize("text", ["3 * p", "p + p", "p == 1"])
def test_check_says_it_with_the_node(text, tmp_path):
    (problem,) = check(saved(tmp_path, text, {"p": LIST}))
    assert problem.kind == "warning"
    assert problem.line == 1
    assert problem.message.startswith(f"g/n: {text!r}")
    assert "of Python" in problem.message


@pytest.mark.parametrize("text", ["p - 1", "p * 1.5", "-p", "p > 0.5", "p ** 2"])
def test_what_a_list_cannot_do_is_an_error_with_its_cure(text, tmp_path):
    path = saved(tmp_path, text, {"p": LIST})
    with pytest.raises(IterationError, match=re.escape("numpy.array(p)")):
        mdf_loop.run(path)
    (problem,) = check(path)
    assert problem.kind == "error"
    assert "numpy.array(p)" in problem.message


SILENT = {
    "one element": "[0] * k",
    "written lists": "[1.0, k] + [2.0]",
    "an array": "numpy.ones(3) * p",
    "of texts": "texts * k",
    "functions": "numpy.sum(p) * len(p)",
}


@pytest.mark.parametrize("case", SILENT)
def test_what_surely_means_lists_or_arrays_is_not_warned_of(case, tmp_path):
    ports = {"p": LIST, "k": {"default_value": 2}, "texts": {"default_value": ["a", "b"]}}
    path = saved(tmp_path, f"len({SILENT[case]})" if case == "of texts" else SILENT[case], ports)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*of Python", LoopWarning)
        mdf_loop.run(path)
        in_the_engine(path)


@pytest.mark.parametrize("way", ["run", "trusted", "engine"])
def test_the_weight_of_an_edge_that_repeats_a_list_is_a_warning(way, tmp_path):
    edge = {"sender": "a", "sender_port": "v", "receiver": "n", "receiver_port": "u", "parameters": {"weight": 2}}
    ports = {"u": {}, "p": LIST}
    receiver = {
        "input_ports": ports,
        "output_ports": {"o": {"value": "u"}, "z": {"value": "2 * p"}},
    }  # for which MDF's engine runs
    nodes = {"a": {"output_ports": {"v": {"value": "[1.0, 2.0]"}}}, "n": receiver}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"m": {"graphs": {"g": {"nodes": nodes, "edges": {"e": edge}}}}}))
    with pytest.warns(LoopWarning, match="the weight of edge 'e' repeats a list of Python"):
        assert np.array_equal(WAYS[way](path), [1.0, 2.0, 1.0, 2.0])
    assert [each.message for each in check(path) if "weight of edge 'e' repeats" in each.message]


def test_zeros_for_an_input_are_a_warning_in_mdfs_own_engine_too(tmp_path):
    path = saved(tmp_path, "3 * p", {"p": {"shape": [1]}})
    with pytest.warns(LoopWarning, match=r"input 'p' of node 'n' has no value.* takes zeros of shape \[1\]"):
        assert in_the_engine(path) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        assert in_the_engine(path, p=np.zeros(1)) == 0
        assert in_the_engine(path, p=np.ones(1)) == 3


def test_a_value_that_reads_itself_without_a_beginning_is_noted(tmp_path):
    parameter = {"value": "x + 1"}
    (problem,) = check(saved(tmp_path, "x", {}, {"x": parameter}))
    assert problem.kind == "note"
    assert "begins at 0" in problem.message
    assert "default_initial_value" in problem.message
    assert check(saved(tmp_path, "x", {}, {"x": parameter | {"default_initial_value": 0}})) == []
    exported = json.loads(saved(tmp_path, "x", {}, {"x": parameter}).read_text())
    exported["m"]["graphs"]["g"]["nodes"]["n"]["metadata"] = {"type": "TransferMechanism"}
    (tmp_path / "m.json").write_text(json.dumps(exported))
    assert check(tmp_path / "m.json") == []


@pytest.mark.parametrize("text", ["2 * level", "level - 1"])
def test_a_text_as_a_default_is_the_cause_of_what_fails(text, tmp_path):
    path = saved(tmp_path, text, {"level": {"default_value": "high"}})
    with pytest.raises(IterationError, match="input 'level' is the text 'high', not a number"):
        mdf_loop.run(path)
    (problem,) = check(path)
    assert problem.kind == "error"
    assert "its default is the text 'high'" in problem.message


@pytest.mark.parametrize(
    ("default", "shape", "is_wrong"), [(1.5, [3], True), ([1.5], [3], True), (1.5, [1], False), ([1.5], [1, 1], False)]
)
def test_run_and_check_say_the_same_of_a_default_with_another_shape(default, shape, is_wrong, tmp_path):
    path = saved(tmp_path, "p", {"p": {"default_value": default, "shape": shape}})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LoopWarning)
        mdf_loop.run(path)
    said = [f"p is declared with shape {shape}, and has the default {default}, which is used as it is"] * is_wrong
    assert [str(each.message) for each in told] == [f"n.{each}" for each in said]
    assert [(each.kind, each.message) for each in check(path)] == [("warning", f"g/n: {each}") for each in said]


@pytest.mark.parametrize("port", [LIST, {"shape": [3], "default_value": [1.0, 0.0, 1.0]}])
def test_numbers_that_are_swept_in_the_place_of_a_vector_are_a_warning(port, tmp_path, capsys):
    path = saved(tmp_path, "numpy.sum(p)", {"p": port})
    with pytest.warns(
        LoopWarning, match=r"p is an array of shape \[3\].* one number at each of 3 points.*\{'p': \[\[1, 1, 2\]\]\}"
    ):
        assert mdf_loop.sweep(path, {"p": [1, 1, 2]}).sizes["p"] == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        assert mdf_loop.sweep(path, {"p": [[1, 1, 2]]}).o.values.tolist() == [4]
        mdf_loop.sweep(path, [{"p": 1}, {"p": 2}])
    assert run_main("sweep", path, "--over", "p=[1,1,2]") == 0
    assert "--over 'p=[[1, 1, 2]]'" in capsys.readouterr().err
    assert run_main("sweep", path, "--over", "p=[[1, 1, 2]]") == 0
    assert "warning" not in capsys.readouterr().err
