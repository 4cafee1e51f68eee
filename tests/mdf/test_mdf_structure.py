"""MDF models that are not what MDF's classes say end in an error of ours that says where, by whatever way they come."""

import contextlib
import copy
import json
import random

import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import KindError, LoopError, MalformedBody, UnsupportedOp

TESTS, TWICE = [{"id": "c", "test": "s > 3", "value": "1"}], {"weight": 2}
CONTENT = {
    "m": {
        "graphs": {
            "g": {
                "metadata": {"inputs": ["i", "go", "x"], "outputs": ["go", "o"]},
                "nodes": {
                    "a": {
                        "input_ports": {"x": {"shape": [], "default_value": 2.0}},
                        "parameters": {
                            "s": {
                                "value": "s + x",
                                "default_initial_value": 0,
                                "conditions": [{"id": "c", "test": "s > 3", "value": "1"}],
                            },
                            "f": {"function": "linear", "args": {"variable0": "x", "slope": 2, "intercept": 1}},
                        },
                        "output_ports": {"o": {"value": "s"}},
                    },
                    "b": {
                        "input_ports": {"u": {"reduce": "overwrite"}},
                        "functions": {"k": {"value": "u * 2"}},
                        "output_ports": {"r": {"value": "k"}},
                    },
                },
                "edges": {
                    "e": {"sender": "a", "sender_port": "o", "receiver": "b", "receiver_port": "u", "parameters": {"weight": 2}}
                },
            }
        }
    }
}
WRONG = (
    None,
    True,
    -1,
    2.5,
    10**30,
    "",
    "text",
    "onnx::Nope",
    "onnx::Loop",
    [],
    {},
    [[]],
    [1, [2]],
    {"a": 5},
    {"graph_x": {"nodes": 5}},
)


def places(content):
    """Every place in dicts and lists: (holder, key)."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in list(items):
        yield content, key
        yield from places(value)


def mutants():
    """The model with one thing put wrong at each place."""
    count = len([*places(CONTENT)])
    for k in range(count):
        for wrong in (*WRONG, ...):
            content = copy.deepcopy(CONTENT)
            holder, key = [*places(content)][k]
            if wrong is ...:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(wrong)
            yield content


def used(model):
    """Every way into the library for a model in memory."""
    for way in (
        lambda: mdf_loop.run(model),
        lambda: mdf_loop.run(model, x=[1.0, 2.0]),
        lambda: mdf_loop.run(model, steps=3, collect=True),
        lambda: mdf_loop.to_onnx(model),
        lambda: mdf_loop.to_onnx(model, steps=2),
        *(lambda graph=graph: mdf_loop.loop(2, True, 1.0, body=graph) for graph in model.graphs),
    ):
        with contextlib.suppress(LoopError):
            way()


@pytest.mark.parametrize("part", range(8))
def test_a_file_with_something_wrong_ends_in_a_loop_error(part, tmp_path, recwarn):
    path = tmp_path / "model.json"
    chosen = [*mutants()][part::8]
    for content in random.Random(part).sample(chosen, 20):
        path.write_text(json.dumps(content))
        with contextlib.suppress(LoopError):
            used(mdf_loop.load(path))


def graph():
    a = Node(id="a", parameters=[Parameter(id="s", value="s + 1")], output_ports=[OutputPort(id="o", value="s")])
    b = Node(id="b", input_ports=[InputPort(id="u")], output_ports=[OutputPort(id="r", value="u")])
    edge = Edge(id="e", sender="a", sender_port="o", receiver="b", receiver_port="u")
    conditions = ConditionSet(node_specific={"b": Condition("EveryNCalls", dependency="a", n=2)})
    return Graph(id="g", nodes=[a, b], edges=[edge], conditions=conditions)


def broken(change):
    made = graph()
    change(made)
    return made


def put(thing, name, value):
    """Set what MDF's classes would look at when it is set, but not when a file is read."""
    object.__setattr__(thing, name, value)


BROKEN = {
    r"nodes must be a list": lambda g: put(g, "nodes", 5),
    r"nodes must be made of Nodes .*got str 'n'": lambda g: g.nodes.append("n"),
    r"edges must be a list": lambda g: put(g, "edges", {"e": 1}),
    r"edges must be made of Edges": lambda g: g.edges.append(None),
    r"g/a: parameters must be a list": lambda g: put(g.nodes[0], "parameters", "s"),
    r"g/a: parameters must be made of Parameters": lambda g: g.nodes[0].parameters.append({"id": "p"}),
    r"g/a/s: args must be a dict": lambda g: put(g.nodes[0].parameters[0], "args", [1]),
    r"g/a/s: function must be a text": lambda g: put(g.nodes[0].parameters[0], "function", 3),
    r"g/a/s: conditions holds a condition without test and value": lambda g: (
        g.nodes[0].parameters[0].conditions.append({"id": "c"})
    ),
    r"g/a/s: conditions must be made of ParameterConditions": lambda g: g.nodes[0].parameters[0].conditions.append("c"),
    r"g: id must be a text": lambda g: put(g.nodes[0], "id", 7),
    r"g/e: sender must be a text": lambda g: put(g.edges[0], "sender", None),
    r"g/e: parameters must be a dict": lambda g: put(g.edges[0], "parameters", 2),
    r"g: conditions must be made of ConditionSets": lambda g: put(g, "conditions", [1]),
    r"node_specific must be made of Conditions": lambda g: g.conditions.node_specific.update(b="EveryNCalls"),
    r"node_specific holds a condition without type": lambda g: g.conditions.node_specific.update(b={"kwargs": {}}),
    r"kwargs must be a dict": lambda g: put(g.conditions.node_specific["b"], "kwargs", [1]),
    r"metadata must be a dict": lambda g: put(g, "metadata", "text"),
}


@pytest.mark.parametrize("message", BROKEN)
def test_objects_of_another_kind_are_refused_by_place(message):
    source = broken(BROKEN[message])
    for way in (mdf_loop.run, mdf_loop.to_onnx, lambda g: mdf_loop.run(Model(id="m", graphs=[g]), steps=2)):
        with pytest.raises(MalformedBody, match=message):
            way(source)


def test_a_graph_that_is_fine_runs():
    assert mdf_loop.run(graph())["r"] == 2


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"m": {"graphs": {"g": {"metadata": ' + '{"a": ' * 950 + "1" + "}" * 950 + "}}}}")
    with contextlib.suppress(LoopError):
        used(mdf_loop.load(path))


def test_a_graph_of_onnx_is_no_model():
    import onnx

    with pytest.raises(KindError, match="run takes a path, an MDF model or graph, or an ONNX model; got GraphProto"):
        mdf_loop.run(onnx.GraphProto())


def test_a_number_that_onnx_has_not_is_reported():
    node = Node(id="n", input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="o", value="x * 10 ** 400")])
    with pytest.raises((UnsupportedOp, MalformedBody), match="n"):
        mdf_loop.to_onnx(Graph(id="g", nodes=[node]))
