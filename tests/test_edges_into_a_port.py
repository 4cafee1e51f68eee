"""What edges say and MDF does not look at, and ports in which several of them end."""

import warnings

import pytest
from modeci_mdf.mdf import Edge, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning, MalformedBody

TEXT = """
m:
  graphs:
    g:
      nodes:
        a: {output_ports: {o: {value: 1.0}}}
        b: {output_ports: {o: {value: 10.0}}}
        c:
          input_ports: {x: {REDUCE}}
          output_ports: {o: {value: x}}
      edges:
        e: {sender: a, receiver: c, sender_port: o, receiver_port: x}
        f:
          {sender: b, receiver: c, sender_port: o, receiver_port: x, parameters: {PARAMETER: 2}}
"""


@pytest.fixture
def model(tmp_path):
    def written(reduce="", parameter="weight"):
        path = tmp_path / "m.yaml"
        path.write_text(TEXT.replace("REDUCE", reduce).replace("PARAMETER", parameter))
        return path

    return written


@pytest.mark.parametrize(("reduce", "total"), [("reduce: add", 21), ("reduce: multiply", 20)])
def test_values_of_several_edges_are_put_together_as_the_port_says(model, reduce, total):
    path = model(reduce)
    assert not check(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        assert mdf_loop.run(path)["o"] == total


def test_a_port_that_takes_one_of_several_edges_is_a_warning(model):
    words = "2 edges end in port c.x, which takes one of them: MDF has no order for them. With reduce: add it takes their sum"
    with pytest.warns(LoopWarning, match=words):
        assert mdf_loop.run(model())["o"] in (1, 20)
    (found,) = check(model())
    assert (found.kind, found.line, found.message) == ("warning", 9, f"g: {words}")


@pytest.mark.parametrize("reduce", ["sum", "Add", "mean"])
def test_a_reduction_that_mdf_does_not_know_is_refused(model, reduce):
    path, words = model(f"reduce: {reduce}"), f"reduce must be one of overwrite, add, multiply; got '{reduce}'"
    with pytest.raises(MalformedBody, match=words):
        mdf_loop.run(path)
    assert [each.kind for each in check(path) if words in each.message] == ["error"]


def test_check_says_of_a_parameter_of_an_edge_that_nothing_reads_it(model):
    (found,) = check(model("reduce: add", "weights"))
    assert (found.kind, found.line) == ("warning", 13)
    assert found.message.startswith("g: nothing reads weights of edge 'f': an edge has a weight")


def test_a_parameter_that_is_called_as_a_port_gives_the_port_no_default():
    sender = Node(id="a", output_ports=[OutputPort(id="o", value="3.0")])
    ports = {"input_ports": [InputPort(id="x")], "output_ports": [OutputPort(id="y", value="x * 2")]}
    receiver = Node(id="b", parameters=[Parameter(id="x", value=5.0)], **ports)
    edge = Edge(id="e", sender="a", sender_port="o", receiver="b", receiver_port="x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that the nodes do not wait for each other
        graph = Graph(id="g", nodes=[sender, receiver], edges=[edge])
        assert (mdf_loop.run(graph)["y"], mdf_loop.run(graph, x=7.0)["y"]) == (10, 14)
