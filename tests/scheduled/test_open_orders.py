"""Nodes whose order MDF leaves open, as an edge between them ends in a port with a default."""

import pytest
from engines import ENGINES
from modeci_mdf.mdf import InputPort, Node, OutputPort, Parameter
from scheduled_models import edge, graph

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopWarning

IN_SOME_ORDER = {
    "a chain": ("A->B B->C", ["A", "B", "C"], {"A": 2, "B": 12, "C": 112}),
    "the receiver is named first": ("A->B", ["B", "A"], {"A": 2, "B": 12}),
    "a cycle": ("A->B B->A", ["A", "B"], {"A": 13, "B": 23}),
    "a cycle that is named the other way": ("A->B B->A", ["B", "A"], {"A": 23, "B": 22}),
    "behind a cycle": ("A->B B->A B->C", ["C", "A", "B"], {"A": 13, "B": 23, "C": 123}),
}
"""Edges into ports with a default, the order in which nodes are named, and x after two steps: A adds 1, B 10, C 100."""


@pytest.mark.parametrize("case", IN_SOME_ORDER)
@pytest.mark.parametrize("engine", ENGINES)
def test_where_mdf_leaves_the_order_open_senders_run_first_with_a_warning(case, engine):
    arrows, names, expected = IN_SOME_ORDER[case]
    added = {"A": 1, "B": 10, "C": 100}
    nodes = [
        Node(
            id=name,
            input_ports=[InputPort(id="i", default_value=1)],
            parameters=[Parameter(id="x", value=f"i + {added[name]}")],
            output_ports=[OutputPort(id="o", value="x")],
        )
        for name in names
    ]
    edges = [edge(f"{arrow[0]}.o -> {arrow[-1]}.i") for arrow in arrows.split()]
    source = graph(*nodes, edges=edges)
    record = [f"{name}.x" for name in names]
    with mdf_loop.options(engine=engine), pytest.warns(LoopWarning, match="no particular order; here"):
        found = mdf_loop.run(source, steps=2, record=record)
    assert {name: found.recorded[f"{name}.x"][-1] for name in names} == expected


@pytest.mark.filterwarnings("error::mdf_loop.errors.LoopWarning")
@pytest.mark.parametrize("steps", [None, 2])
def test_a_warning_that_the_filters_make_an_error_ends_the_run_as_itself(tmp_path, steps):
    path = tmp_path / "m.yaml"
    path.write_text(TEXT)
    with pytest.raises(LoopWarning, match=r"^edge .e. ends in port slow\.i, which has a default_value"):
        mdf_loop.run(path, steps=steps)


def test_check_says_at_the_port_that_its_node_does_not_wait(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(TEXT)
    (found,) = check(path)
    assert (found.kind, found.line) == ("warning", 13)
    assert found.message.startswith(
        "g: edge 'e' ends in port slow.i, which has a default_value: 'slow' does not wait for 'fast' then"
    )


TEXT = """
m:
  graphs:
    g:
      nodes:
        fast:
          parameters:
            x: {value: x + 1, default_initial_value: 0}
          output_ports:
            o: {value: x}
        slow:
          input_ports:
            i: {default_value: 0}
          output_ports:
            y: {value: i * 2}
      edges:
        e: {sender: fast, sender_port: o, receiver: slow, receiver_port: i}
"""
