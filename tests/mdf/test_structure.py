"""The structure of MDF files: what is wrong, on which line, and what was expected."""

import copy
import json
import re

import attr
import pytest
import yaml
from modeci_mdf import mdf

import mdf_loop
from mdf_loop.errors import LoopWarning, MalformedBody
from mdf_loop.readers.mdf.file_structure import fields_of

GOOD = """m:
  format: ModECI MDF v0.4
  onnx_opset_version: 18
  graphs:
    g:
      metadata: {anything: [1, {nodez: 2}], types_: null}
      parameters: {a: 1}
      nodes:
        first:
          input_ports:
            x: {default_value: 2.0, shape: "(1,)", type: float, reduce: add}
          parameters:
            y: {value: x * 2}
            s: {default_initial_value: 0, value: 1, time_derivative: 1}
            t: {value: 0, conditions: [{id: c, test: x > 1, value: 1}]}
            u: {value: 0, conditions: {c: {test: x > 1, value: 1}}}
          functions:
            f: {function: linear, args: {variable0: x, slope: 1, intercept: 0}}
            h: {function: {linear: {variable0: x, slope: 1, intercept: 0}}}
          output_ports:
            out: {value: y}
            one: {value: 1}
        second:
          input_ports: {z: {shape: [1]}}
          output_ports: {o: {value: z}}
      edges:
        e:
          parameters: {weight: 1}
          sender: first
          sender_port: out
          receiver: second
          receiver_port: z
      conditions:
        node_specific:
          second: {type: EveryNCalls, kwargs: {dependency: first, n: 1}}
        termination:
          environment_state_update: {type: AllHaveRun}
"""

PORT = "input_ports:\n            x:"


def load(text, folder, suffix):
    """A model, from YAML or the same as JSON."""
    path = folder / f"m{suffix}"
    path.write_text(text if suffix == ".yaml" else json.dumps(yaml.safe_load(text), indent=2))
    return mdf_loop.load(path)


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_everything_that_mdf_has_is_taken(suffix, tmp_path):
    (graph,) = load(GOOD, tmp_path, suffix).graphs
    assert [node.id for node in graph.nodes] == ["first", "second"]
    assert graph.metadata["anything"] == [1, {"nodez": 2}]


WRONG = {
    "graphs:": ("graph:", r"m/graph: a model has no 'graph' \(did you mean 'graphs'\?\)"),
    "nodes:": ("nodez:", r"m/graphs/g/nodez: a graph has no 'nodez' \(did you mean 'nodes'\?\); it has conditions, edges"),
    "conditions:\n": ("condition:\n", "a graph has no 'condition' .*did you mean 'conditions'"),
    "input_ports:\n": ("inputs:\n", "a node has no 'inputs' .*did you mean 'input_ports'"),
    "output_ports:\n": ("output:\n", "m/graphs/g/nodes/first/output: a node has no 'output' .*did you mean 'output_ports'"),
    "parameters:\n": ("params:\n", "a node has no 'params' .*did you mean 'parameters'"),
    "functions:": ("function:", "a node has no 'function' .*did you mean 'functions'"),
    "default_value": ("default", "an input port has no 'default' .*did you mean 'default_value'"),
    "reduce:": ("reduction:", "an input port has no 'reduction' .*did you mean 'reduce'"),
    "time_derivative": ("derivative", "a parameter has no 'derivative' .*did you mean 'time_derivative'"),
    "test: x > 1, value: 1}}": ("when: x > 1, value: 1}}", "a parameter condition has no 'when'"),
    "sender_port:": ("port:", "an edge has no 'port'"),
    "sender: first": ("", "m/graphs/g/edges/e: an edge has to say its sender"),
    "receiver_port: z": ("", "an edge has to say its receiver_port"),
    "sender: first\n": ("sender: 3\n", r"sender of an edge must be a text; got a number \(3\)"),
    "receiver: second": ("receiver: [second]", "receiver of an edge must be a text; got a list"),
    "receiver: second\n": ("receiver: secnd\n", r"edge 'e' names node 'secnd', which is not there; did you mean 'second'\?"),
    "sender_port: out": ("sender_port: ot", "edge 'e' names output port 'ot' of node 'first', which has 'out', 'one'"),
    "receiver_port: z\n": ("receiver_port: y\n", "edge 'e' names input port 'y' of node 'second', which has 'z'"),
    "second: {type": ("third: {type", "a condition for node 'third', which is not there"),
    "type: AllHaveRun": ("kwargs: {}", "a condition has to say its type"),
    "{type: EveryNCalls": ("{type: EveryNCalls, n: 2", "a condition has no 'n'"),
    "kwargs: {dependency: first, n: 1}": ("kwargs: [1]", "kwargs of a condition must be a mapping; got a list"),
    "{y: {value: x * 2}": ("", ""),
    "x: {default_value: 2.0": ("7: {default_value: 2.0", r"the id of an input port is a text; 7 is a number \(7\): write it in quotes"),  # noqa: E501
    "x: {default_value: 2.0, shape: \"(1,)\", type: float, reduce: add}": ("x: [1]", "an input port is a mapping with .*; got a list"),  # noqa: E501
    'shape: "(1,)"': ("shape: 5", r"shape of an input port must be a list, a text; got a number \(5\)"),
    "type: float": ("type: [float]", "type of an input port must be a text; got a list"),
    "reduce: add": ("reduce: 1", "reduce of an input port must be a text"),
    "y: {value: x * 2}": ("y: {value: 2020-01-01}", "value of a parameter must be .*; got date"),
    "time_derivative: 1": ("time_derivative: [1]", "time_derivative of a parameter must be a text, a number"),
    "args: {variable0: x, slope: 1, intercept: 0}}\n            h": ("args: [x]}\n            h", "args of a function must be a mapping"),  # noqa: E501
    "conditions: [{id: c, ": ("conditions: [{", "a parameter condition in a list is a mapping with id, test, value; got one without id"),  # noqa: E501
    "conditions: [{id: c, test: x > 1, value: 1}]": ("conditions: [5]", r"in a list is a mapping .*; got one a number \(5\)"),
    "{value: 1}\n        second": ("5\n        second", "an output port is a mapping"),
    "kwargs: {dependency: first,": ("kwargs: {dependency: frst,", r"depends on node 'frst', which is not there; did you mean 'first'"),  # noqa: E501
    "{type: AllHaveRun}": ("{type: All, kwargs: {dependencies: [{typ: Always}]}}", "a condition has no 'typ' .*did you mean 'type'"),  # noqa: E501
    "environment_state_update: {type: AllHaveRun": (
        "environment_state_update: {type: All, kwargs: {dependencies: [{type: AfterPass, kwargs: 3}]}",
        "kwargs/dependencies/0/kwargs: kwargs of a condition must be a mapping",
    ),
    "{type: AllHaveRun}\n": ("{type: All, kwargs: {dependencies: [first, third]}}\n", "depends on node 'third', which is not there"),  # noqa: E501
    "parameters: {weight: 1}": ("parameters: 1", "parameters of an edge must be a mapping"),
    "metadata: {anything: [1, {nodez: 2}], types_: null}": ("metadata: 5", "metadata of a graph must be a mapping"),
    "parameters: {a: 1}": ("edges: null", "occurs twice"),
    "format: ModECI MDF v0.4": ("format: [1]", "format of a model must be a text"),
}  # fmt: skip
del WRONG["{y: {value: x * 2}"]


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize("right", WRONG)
def test_what_is_wrong_is_said_with_its_line(right, suffix, tmp_path):
    wrong, message = WRONG[right]
    assert right in GOOD
    text = GOOD.replace(right, wrong, 1)
    if suffix == ".json" and ("2020" in wrong or wrong.startswith("7") or "occurs twice" in message):
        pytest.skip("JSON cannot say it")
    with pytest.raises(MalformedBody, match=rf"m\{suffix}' is not an MDF model: line \d+[:,] .*{message}") as caught:
        load(text, tmp_path, suffix)
    line = int(re.search(r"line (\d+)", str(caught.value))[1])
    written = (tmp_path / f"m{suffix}").read_text().splitlines()
    if suffix == ".yaml" and "twice" not in message:
        changed = next(k for k, pair in enumerate(zip(GOOD.splitlines(), written, strict=False)) if pair[0] != pair[1])
        assert line - 1 == changed or written[line - 1].strip() == "e:"


@pytest.mark.parametrize("value", [None, [{"id": "n"}], 5, "n"])
@pytest.mark.parametrize("key", ["nodes", "edges"])
def test_nodes_and_edges_are_mappings(key, value, tmp_path):
    content = yaml.safe_load(GOOD)
    content["m"]["graphs"]["g"][key] = value
    with pytest.raises(MalformedBody, match=f"{key} of a graph must be a mapping from ids to {key}; got"):
        load(yaml.safe_dump(content), tmp_path, ".json")


def test_none_may_be_written_as_an_empty_list(tmp_path):
    content = yaml.safe_load(GOOD)
    content["m"]["graphs"]["g"]["edges"] = []
    assert load(yaml.safe_dump(content), tmp_path, ".json").graphs[0].edges == []


def test_bodies_are_looked_at_too(tmp_path):
    graph = yaml.safe_load(GOOD)["m"]["graphs"]["g"]
    graph["nodes"]["first"]["parameter"] = {}
    body = {"value": {"graph_b": copy.deepcopy(graph)}}
    outer = {"m": {"graphs": {"g": {"nodes": {"n": {"parameters": {"body": body}}}}}}}
    with pytest.raises(MalformedBody, match=r"parameters/body/value/graph_b/nodes/first/parameter: a node has no 'parameter'"):
        load(yaml.safe_dump(outer), tmp_path, ".yaml")
    with pytest.raises(
        MalformedBody, match=r"b/nodes/first/parameter: a node has no 'parameter' \(did you mean 'parameters'\?\)"
    ):
        mdf_loop.loop(1, True, 1.0, body={"graph_b": graph})


def test_texts_of_older_versions_are_taken_and_nothing_else_of_that_name(tmp_path):
    content = yaml.safe_load(GOOD)
    content["m"]["graphs"]["g"]["notes"] = "a text"
    content["m"]["graphs"]["g"]["edges"]["e"]["name"] = "a text"
    load(yaml.safe_dump(content), tmp_path, ".json")
    content["m"]["graphs"]["g"]["notes"] = content["m"]["graphs"]["g"].pop("nodes")
    with pytest.raises(MalformedBody, match="a graph has no 'notes'"):
        load(yaml.safe_dump(content), tmp_path, ".json")


def test_a_graph_in_the_place_of_a_node_is_reported(tmp_path):
    content = yaml.safe_load(GOOD)
    graph = content["m"]["graphs"]["g"]
    graph["nodes"]["inner"] = {"nodes": {"n": {}}, "edges": {}}
    with pytest.warns(LoopWarning, match="m/graphs/g/nodes/inner is a graph where a node belongs"):
        load(yaml.safe_dump(content), tmp_path, ".json")


@pytest.mark.parametrize(
    "kind", [mdf.Model, mdf.Graph, mdf.Node, mdf.Edge, mdf.Parameter, mdf.Function, mdf.InputPort, mdf.Condition]
)
def test_the_keys_are_those_of_mdf(kind):
    assert set(fields_of(kind)) == {field.name for field in attr.fields(kind)}


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_what_mdf_writes_is_read(suffix, tmp_path):
    model = load(re.sub(r"conditions: [\[{]+(id: )?c\b.*", "}", GOOD), tmp_path, suffix)  # which MDF cannot write again
    path = tmp_path / f"again{suffix}"
    (model.to_yaml_file if suffix == ".yaml" else model.to_json_file)(str(path))
    again = mdf_loop.load(path)
    assert again.to_dict() == model.to_dict()
