"""``options(max_iterations=)`` counts all passes of a scheduled graph: those in front of the loop, and those in it."""

import numpy as np
import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.convert.scheduled.loops import lower
from mdf_loop.errors import IterationLimit
from mdf_loop.models.mdf import MdfModel


def counter(name, value):
    ports = [InputPort(id="x")] if "x" in value else []
    parameter = Parameter(id="n", value=value, default_initial_value=0)
    return Node(id=name, input_ports=ports, parameters=[parameter], output_ports=[OutputPort(id="o", value="n")])


def clocks(passes, is_slow=True):
    """Three nodes; the last one runs in every sixth pass, or all in each."""
    nodes = [counter("clock", "n + 1"), counter("fast", "n + x"), counter("slow", "n + x")]
    edges = [
        Edge(id=a + b, sender=a, receiver=b, sender_port="o", receiver_port="x") for a, b in (("clock", "fast"), ("fast", "slow"))
    ]
    slow = {
        "clock": Condition("Always"),
        "fast": Condition("EveryNCalls", dependencies="clock", n=2),
        "slow": Condition("EveryNCalls", dependencies="fast", n=3),
    }
    specific = slow if is_slow else {node.id: Condition("Always") for node in nodes}
    ends = {"environment_state_update": Condition("AfterNPasses", n=passes)}
    return Graph(id="g", nodes=nodes, edges=edges, conditions=ConditionSet(node_specific=specific, termination=ends))


@pytest.mark.parametrize("is_slow", [True, False])
@pytest.mark.parametrize("most", [1, 3, 6, 8, 18, 19, 20, 21, 23, 24, 25])
def test_an_evaluation_has_so_many_passes_and_no_more(is_slow, most):
    model, whole = MdfModel(clocks(24, is_slow)), MdfModel(clocks(24, is_slow))()
    with mdf_loop.options(max_iterations=most):
        if most >= 24:
            assert dict(model()) == dict(whole)
            return
        with pytest.raises(IterationLimit) as error:
            model()
    assert str(error.value).startswith(f"pass {most} of g: the loop would go on; options(max_iterations={most})")
    assert error.value.iteration == most
    if not is_slow or most >= 6:
        assert error.value.outputs == dict(MdfModel(clocks(most, is_slow))())


@pytest.mark.parametrize("most", [1, 7, 18, 30])
def test_the_passes_of_all_steps_count(most):
    with mdf_loop.options(max_iterations=most), pytest.raises(IterationLimit) as error:
        MdfModel(clocks(10, False))(steps=4, collect=True)
    assert error.value.iteration == most
    (rows,) = error.value.outputs.values()
    expected = MdfModel(clocks(10, False))(steps=4, collect=True)["o"]
    np.testing.assert_array_equal(rows, expected[: most // 10])
    with mdf_loop.options(max_iterations=40):
        np.testing.assert_array_equal(MdfModel(clocks(10, False))(steps=4, collect=True)["o"], expected)


def test_no_loop_is_read_for_a_few_passes():
    with mdf_loop.options(max_iterations=5):
        lowered = lower(clocks(24, False))
    assert lowered.is_cut
    assert lowered.loop is None
    assert len(lowered.rows) == 5
