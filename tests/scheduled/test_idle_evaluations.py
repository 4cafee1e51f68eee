"""Evaluations of ``steps=`` that are over before their first pass are said, with what ended them."""

import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import LoopWarning
from mdf_loop.integrations.engine_runs import run_in_mdf

ENGINES = ["interpret", "numpy", "auto", "jit"]


def counting(start=0.0, threshold=1.0, ends=None, node=None):
    """A parameter that rises by 0.4 in each pass, and an output behind it."""
    first = Node(id="a", parameters=[Parameter(id="x", value="x + 0.4", default_initial_value=start)])
    first.output_ports.append(OutputPort(id="out", value="x"))
    behind = Node(id="b", input_ports=[InputPort(id="seen")], output_ports=[OutputPort(id="seen_out", value="2 * seen")])
    edge = Edge(id="e", sender="a", sender_port="out", receiver="b", receiver_port="seen")
    ends = ends or Condition(type="Threshold", dependency="a", parameter="x", threshold=threshold, comparator=">=")
    made = ConditionSet(node_specific=node or {}, termination={"environment_state_update": ends})
    return Graph(id="g", nodes=[first, behind], edges=[edge], conditions=made)


def said(call):
    """What a call gives, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LoopWarning)
        found = call()
    return found, [str(each.message) for each in caught if issubclass(each.category, LoopWarning)]


def run(graph, engine, **how):
    with mdf_loop.options(engine=engine):
        return said(lambda: mdf_loop.run(graph, **how))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("threshold", "value"), [(1.0, "1.2"), (20.0, "20.4")])
@pytest.mark.parametrize("how", [{}, {"collect": True}, {"record": ["b.seen_out"]}], ids=["", "collect", "record"])
def test_a_threshold_that_was_reached_ends_all_later_evaluations(engine, threshold, value, how):
    found, words = run(counting(threshold=threshold), engine, steps=4, **how)
    once, silent = run(counting(threshold=threshold), engine)
    assert (found.iterations, silent) == (once.iterations, [])
    assert np.all(found["seen_out"] == once["seen_out"])
    assert words == [
        "g: evaluations 2 to 4 of steps=4 ran no pass, and the outputs are those of evaluation 1: "
        f"a.x >= {threshold} (a.x is {value}) holds before their first one; "
        "to run further, change that condition, or end an evaluation by a count of passes (AfterNPasses)"
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("steps", "passes"), [(1, 1), (2, 2), (3, 2)])
def test_what_is_true_from_the_second_evaluation_on(engine, steps, passes):
    calls = Condition(type="AfterNCalls", dependency="a", n=2, time_scale="TimeScale.ENVIRONMENT_SEQUENCE")
    either = Condition(type="Any", args=[calls, Condition(type="AfterNPasses", n=1)])
    graph = counting(ends=either)
    found, words = run(graph, engine, steps=steps)
    assert found.iterations == passes
    with np.errstate(all="ignore"):
        assert said(lambda: run_in_mdf(graph, steps))[0] == dict(found)
    assert bool(words) == (passes < steps)
    assert all("evaluation 3 of steps=3 ran no pass" in each for each in words)


@pytest.mark.parametrize("steps", [None, 1, 3])
def test_a_model_that_is_over_before_it_begins(steps):
    found, words = run(counting(start=2.0), "auto", steps=steps)
    assert (dict(found), found.iterations) == ({"seen_out": None}, 0)
    assert len(words) == 1
    assert words[0].startswith(
        f"g: no pass ran{' in steps=3' * (steps == 3)}, and no output has a value: a.x >= 1.0 (a.x is 2) holds"
    )


def test_mdfs_engine_says_it_too():
    found, words = said(lambda: run_in_mdf(counting(), 3))
    assert found == dict(run(counting(), "auto", steps=3)[0])
    assert len(words) == 1
    assert words[0].startswith("g: evaluations 2 to 3 of steps=3 ran no pass")


@pytest.mark.parametrize("steps", [1, 2, 30])
def test_nothing_is_said_where_each_evaluation_has_its_passes(steps):
    for ends in (Condition(type="AfterNPasses", n=2), Condition(type="AllHaveRun")):
        for node in ({}, {"b": Condition(type="EveryNCalls", dependency="a", n=2)}):
            graph = counting(ends=ends, node=node)
            assert run(graph, "auto", steps=steps)[1] == said(lambda graph=graph: run_in_mdf(graph, steps))[1] == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("default", [None, 0.5])
def test_a_node_that_runs_before_its_sender_is_said(engine, default):
    first = Node(id="a", parameters=[Parameter(id="c", value="c + 1", default_initial_value=0)])
    first.input_ports.append(InputPort(id="q", default_value=default))
    first.output_ports.append(OutputPort(id="out", value="c + 10 * q"))
    late = Node(id="b", parameters=[Parameter(id="k", value=3.0)], output_ports=[OutputPort(id="p", value="k")])
    seldom = Condition(type="EveryNCalls", dependency="a", n=2)
    ends = Condition(type="AfterNCalls", dependency="a", n=1)
    made = ConditionSet(
        node_specific={"a": Condition(type="Always"), "b": seldom}, termination={"environment_state_update": ends}
    )
    edge = Edge(id="e", sender="b", sender_port="p", receiver="a", receiver_port="q")
    graph = Graph(id="g", nodes=[first, late], edges=[edge], conditions=made)
    with mdf_loop.options(engine=engine):
        found, told = said(lambda: mdf_loop.run(graph))
        theirs = run_in_mdf(graph)
    assert found["out"] == theirs["out"] == (1 if default is None else 6)
    wanted = "node 'a': it runs before 'b' has run, and its port 'q' is 0 then, as in MDF; write default_value: ..."
    assert [wanted in each for each in told if "runs before" in each] == [True] * (default is None)


@pytest.mark.parametrize("steps", [100, 300, 1000])
def test_evaluations_that_a_program_ran_to_the_end_are_not_idle(steps):
    """The program begins once more from the first pass, where the first ones were interpreted: its counts are the last."""
    calls = {"b": Condition(type="EveryNCalls", dependency="a", n=6)}
    graph = counting(ends=Condition(type="AfterNCalls", dependency="b", n=1), node=calls)
    (found, words), (expected, _) = run(graph, "auto", steps=steps), run(graph, "interpret", steps=steps)
    assert words == []
    assert found["seen_out"] == expected["seen_out"]
