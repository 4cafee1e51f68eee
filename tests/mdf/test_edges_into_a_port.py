"""What edges say and MDF does not look at, and ports in which several of them end."""

import re
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


AFTER_THREE = """      conditions:
        termination: {environment_state_update: {type: AfterNCalls, kwargs: {dependency: c, n: 3}}}
"""
ONE_AFTER_THE_OTHER = """      conditions:
        node_specific: {b: {type: AtPass, kwargs: {n: 1}}}
"""


@pytest.mark.parametrize(("conditions", "count"), [(AFTER_THREE, 1), (ONE_AFTER_THE_OTHER, 0)])
def test_the_same_of_a_graph_with_conditions_on_other_nodes(model, conditions, count):
    path = model()
    path.write_text(path.read_text() + conditions)
    assert sum("2 edges end in port c.x" in each.message for each in check(path)) == count
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mdf_loop.run(path)
    assert sum("2 edges end in port c.x" in str(each.message) for each in caught) == count


THRESHOLD = """      conditions:
        termination: {environment_state_update: THRESHOLD}
"""
LATE = "{type: Threshold, kwargs: {dependency: c, parameter: late, threshold: 2, comparator: '>='}}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2 * x", "it has no value before its node runs; give default_initial_value, or write {type: All, "),
        ("late + x, default_initial_value: [0.0, 0.0]", "it has shape [2]; say which element is meant, as in indices: [0]"),
    ],
)
def test_a_threshold_of_what_is_no_number_has_a_cure(model, value, said):
    path = model("reduce: add")
    port = "output_ports: {o: {value: x}}"
    text = path.read_text().replace(port, f"{port}\n          parameters: {{late: {{value: {value}}}}}")
    path.write_text(text + THRESHOLD.replace("THRESHOLD", LATE))
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.run(path)
    assert f"Threshold of c.late: {said}" in str(caught.value)
    assert [said in each.message for each in check(path) if each.kind == "error"] == [True]
    cured = LATE.replace("parameter: late", "parameter: late, indices: [0]")
    if value == "2 * x":
        cured = f"{{type: All, kwargs: {{dependencies: [{{type: AfterNCalls, kwargs: {{dependency: c, n: 1}}}}, {LATE}]}}}}"
    path.write_text(text + THRESHOLD.replace("THRESHOLD", cured))
    assert mdf_loop.run(path)["o"] == 21


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


SENT = """
m:
  graphs:
    g:
      nodes:
        a: {parameters: {v: {value: SENT}}, output_ports: {o: {value: v}}}
        b:
          input_ports: {x: {DECLARED}}
          output_ports: {o: {value: x}}
      edges:
        e: {sender: a, receiver: b, sender_port: o, receiver_port: x}
"""


@pytest.mark.parametrize(
    ("declared", "sent", "said"),
    [
        ("shape: [3]", "[1.0, 2.0]", "b.x is declared with shape [3], and gets an array of shape [2], which is used as it is"),
        ("shape: [2, 3]", "[1.0, 2.0, 3.0]", "b.x is declared with shape [2, 3], and gets an array of shape [3]"),
        ("type: int", "[1.0, 2.5]", "b.x is declared int, and gets 2.5, which is used as it is"),
        ("type: int", "2.5", "b.x is declared int, and gets 2.5, which is used as it is"),
    ],
)
def test_what_an_edge_brings_is_compared_with_what_its_port_declares(tmp_path, declared, sent, said):
    path = tmp_path / "m.yaml"
    path.write_text(SENT.replace("DECLARED", declared).replace("SENT", sent))
    model = mdf_loop.prepare(path)
    for _ in range(2):
        with pytest.warns(LoopWarning, match=re.escape(said)):
            model()
    (found,) = check(path)
    assert (found.kind, found.line) == ("warning", 8)
    assert f"g/b/x: {said}" in found.message


@pytest.mark.parametrize("how", [{}, {"steps": 3}], ids=str)
@pytest.mark.parametrize(
    ("weight", "shape"), [("[[1, 2], [3, 4]]", [2, 2]), ("[[1], [3]]", [2, 2]), ("[1, 2]", [2]), ("2.5", [2])]
)
def test_what_a_weight_makes_of_it_is_compared_too(tmp_path, weight, shape, how):
    """MDF multiplies element by element, and not by a matrix."""
    text = SENT.replace("SENT", "[1.0, 2.0]").replace("receiver_port: x", f"receiver_port: x, parameters: {{weight: {weight}}}")
    path = tmp_path / "m.yaml"
    for declared in ([2], [2, 2]):
        path.write_text(text.replace("DECLARED", f"shape: {declared}"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mdf_loop.run(path, **how)
        said = [str(each.message) for each in caught]
        found = [each.message for each in check(path) if each.kind == "warning"]
        assert len(said) == len(found) == (declared != shape)
        for message in said:
            assert f"gets an array of shape {shape}, which is used as it is" in message
            assert ("for a product of matrices compute w @ x" in message) == ("[[" in weight)
            assert found == [f"g/b/x: {message}"]


CONDITIONS = """
      conditions:
        node_specific:
          b: {type: EveryNCalls, kwargs: {dependency: a, n: 2}}
"""


@pytest.mark.parametrize("more", ["", CONDITIONS], ids=["no conditions", "conditions"])
@pytest.mark.parametrize("how", [{}, {"steps": 3}, {"steps": 3, "collect": True}, {"record": ["b.o"]}], ids=str)
def test_edges_of_graphs_that_run_in_passes_are_looked_at_too(tmp_path, more, how):
    path = tmp_path / "m.yaml"
    path.write_text(SENT.replace("DECLARED", "shape: [3]").replace("SENT", "[1.0, 2.0]") + more)
    model = mdf_loop.prepare(path)
    for _ in range(2):
        with pytest.warns(LoopWarning, match=re.escape("b.x is declared with shape [3], and gets an array of shape [2]")):
            model(**how)
    path.write_text(SENT.replace("DECLARED", "shape: [2]").replace("SENT", "[1.0, 2.0]") + more)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        mdf_loop.run(path, **how)
    path.write_text(SENT.replace("DECLARED", "shape: [3]").replace("SENT", "[1.0, 2.0]") + more)
    (found,) = check(path)
    assert (found.kind, found.line) == ("warning", 8)


@pytest.mark.parametrize(
    ("declared", "sent"),
    [
        ("shape: [3]", "[1.0, 2.0, 3.0]"),
        ("shape: [1, 3]", "[1.0, 2.0, 3.0]"),
        ("shape: [3]", "[[1.0, 2.0, 3.0]]"),
        ("shape: [3]", "1.0"),
        ("type: float", "[1, 2]"),
        ("type: int", "[1.0, 2.0]"),
        ("shape: [3], default_value: [1.0, 2.0, 3.0]", "[4.0, 5.0, 6.0]"),
    ],
)
def test_what_a_port_may_get_is_not_warned_of(tmp_path, declared, sent):
    path = tmp_path / "m.yaml"
    path.write_text(SENT.replace("DECLARED", declared).replace("SENT", sent))
    assert [each for each in check(path) if "declared" in each.message] == []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "b.x is declared", LoopWarning)
        mdf_loop.run(path)


def test_a_default_that_is_not_what_its_port_declares_is_a_warning_of_runs_that_use_it(tmp_path):
    path = tmp_path / "m.yaml"
    node = "{input_ports: {x: {shape: [3], default_value: [1.0, 2.0]}}, output_ports: {o: {value: x}}}"
    path.write_text(f"m: {{graphs: {{g: {{nodes: {{a: {node}}}}}}}}}")
    with pytest.warns(LoopWarning, match=re.escape("x is declared with shape [3], and has the default [1.0, 2.0]")):
        mdf_loop.run(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        mdf_loop.run(path, x=[1.0, 2.0, 3.0])


WEIGHTS = {"[[1.0, 0.0], [0.0, 1.0]]": 1, "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]": 1, "[1.0, 2.0]": 0, "[[1.0], [2.0]]": 0}
"""Weights of an edge that brings a vector of two, and how many notes there are."""


@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_matrix_as_a_weight_that_could_be_meant_as_one_of_a_product_is_noted(tmp_path, weight):
    path = tmp_path / "m.yaml"
    text = SENT.replace("DECLARED", "").replace("SENT", "[1.0, 2.0]")
    path.write_text(text.replace("receiver_port: x}", f"receiver_port: x, parameters: {{weight: {weight}}}}}"))
    found = [(each.kind, each.line) for each in check(path) if "element by element" in each.message and "w @ x" in each.message]
    assert found == [("note", 8)] * WEIGHTS[weight]
