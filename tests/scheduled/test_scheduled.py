"""Scheduled MDF models as loops: what MDF's engine gives, exactly."""

import re
import warnings

import numpy as np
import pytest
from engines import ENGINES
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Function, Graph, InputPort, Model, Node, OutputPort, Parameter
from scheduled_generated import generated_graph
from scheduled_models import (
    PUBLISHED,
    abcd,
    assert_as_mdf,
    assert_same,
    by_mdf,
    composite,
    counter,
    edge,
    graph,
    node,
    rows_by_mdf,
    states,
    threshold,
)

import mdf_loop
from mdf_loop.convert.scheduled.loops import execute, lower
from mdf_loop.convert.scheduled.run_order import left_open
from mdf_loop.errors import (
    ArgumentError,
    CollectedError,
    IterationLimit,
    KindError,
    LoopWarning,
    MalformedBody,
    NotLowered,
    UnknownNode,
)
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.readers.mdf.engine_body import refuse_hanging

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*is dependent on:UserWarning",  # graph-scheduler, of a node whose condition counts its own calls
    "ignore:(overflow|invalid value) encountered:RuntimeWarning",  # MDF's engine, where models run away
    "ignore:.*(became infinite|became nan|has no value|have no length):mdf_loop.errors.LoopWarning",  # generated graphs
)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 150])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_examples_are_exactly_as_in_mdf_s_engine(name, steps):
    make, increment = PUBLISHED[name]
    assert_as_mdf(make(), steps, increment)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_run_takes_steps_of_a_model_file(name, suffix, tmp_path):
    make, increment = PUBLISHED[name]
    path = tmp_path / f"model.{suffix}"
    getattr(Model(id="m", graphs=[make()]), f"to_{suffix}_file")(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)  # it ran in MDF's engine
        warnings.filterwarnings("ignore", "input .* has no value", LoopWarning)  # which MDF takes for 0
        warnings.filterwarnings("ignore", ".* became infinite|.* ran no pass", LoopWarning)  # as the model means
        outputs = mdf_loop.run(path, steps=40, time_increment=increment)
    assert_same(outputs, by_mdf(make(), 40, increment))


@pytest.mark.parametrize("block", range(4))
def test_generated_graphs_are_exactly_as_in_mdf_s_engine(block):
    """Those that cannot be lowered, or that MDF's engine cannot begin, are few enough for this to mean something."""
    compared = 0
    for seed in range(40 * block, 40 * block + 40):
        source, steps, increment = generated_graph(seed), (1, 2, 3, 5, 9)[seed % 5], (None, 0.1, 0.5)[seed % 3]
        try:
            refuse_hanging(source)
            lowered = lower(source, steps, increment)
        except (NotLowered, MalformedBody):
            continue
        if [*left_open(source)]:  # MDF gives other results in other processes
            continue
        assert_same(execute(lowered), by_mdf(source, steps, increment))
        compared += 1
    assert compared >= 10


BY_PASSES = ["BeforePass", "AtPass", "AfterPass", "AfterNPasses", "EveryNPasses"]
BY_CALLS = ["BeforeNCalls", "AtNCalls", "AfterCall", "AfterNCalls", "EveryNCalls"]


@pytest.mark.parametrize(
    "condition",
    [
        *[Condition(kind, n=n) for kind in BY_PASSES for n in (1, 2, 3)],
        *[Condition(kind, dependency="A", n=n) for kind in BY_CALLS for n in (1, 2, 3)],
        *[Condition(kind, n=30, time_scale="TimeScale.LIFE") for kind in BY_PASSES],
        *[Condition(kind, dependency="A", n=1, time_scale="TimeScale.PASS") for kind in BY_CALLS[:4]],
        Condition("Always"),
        Condition("Never"),
        Condition("AllHaveRun"),
        Condition("All", dependencies=[Condition("AfterPass", n=0), Condition("BeforePass", n=3)]),
        Condition("Or", dependencies=[Condition("AtPass", n=0), Condition("AfterNCalls", dependency="A", n=3)]),
        Condition("Not", condition=Condition("AtPass", n=1)),
        Condition("JustRan", dependency="A"),
        *[Condition("Threshold", dependency="A", parameter="count", threshold=7, comparator=c) for c in ("<", "<=", ">", ">=")],
        *[Condition("Threshold", dependency="A", parameter="count", threshold=7, comparator=c) for c in ("==", "!=")],
        Condition("Threshold", dependency="A", parameter="count", threshold=7, comparator="==", atol=2),
        Condition("Threshold", dependency="A", parameter="count", threshold=7, comparator="!=", rtol=0.5),
        Condition("Threshold", dependency="A", parameter="list", indices=[1], threshold=5, comparator=">"),
    ],
    ids=lambda condition: f"{condition.type}{condition.kwargs}",
)
def test_every_condition_decides_as_graph_scheduler_does(condition):
    start = [
        Parameter(id="count", value="count + 1", default_initial_value=0),
        Parameter(id="list", value="[0, count, 2]", default_initial_value=[0, 0, 2]),
    ]
    a = node("A", start, a="count", list_out="list")
    b = node("B", [Parameter(id="count", value="count + x", default_initial_value=0)], ["x"], b="count", n_B="count * 2")
    until = Condition("AfterNPasses", n=5)
    source = graph(a, b, edges=["A.a -> B.x"], conditions={"B": condition}, until=until)
    assert_as_mdf(source, 9)
    ends = graph(a, b, edges=["A.a -> B.x"], until=Condition("Any", dependencies=[condition, until]))
    if condition.type not in ("EveryNCalls", "JustRan") and "TimeScale.PASS" not in condition.kwargs.values():
        assert_as_mdf(ends, 9)


def test_a_node_that_may_wait_is_an_if_unless_computing_it_can_do_no_harm():
    def ops(expression):
        waiting = node("B", [Parameter(id="s", value=expression, default_initial_value=1)], ["x"], s="s")
        conditions = {"B": Condition("EveryNCalls", dependency="A", n=2)}
        source = graph(counter("A", a="count"), waiting, edges=["A.a -> B.x"], conditions=conditions)
        return {n.op for n in assert_as_mdf(source, 9).loop.body.nodes}

    assert "If" not in ops("s + x")
    assert "If" in ops("s / x")


def test_vectors_are_carried_like_numbers():
    cells = node(
        "cells",
        [
            Parameter(id="v0", value=np.array([-60.0, -65.0, -50.0])),
            Parameter(id="v", default_initial_value="v0", time_derivative="-1 * (v + 70) / tau + drive"),
            Parameter(id="tau", value=10.0),
        ],
        ["drive"],
        v="v",
    )
    source = node("source", [Parameter(id="amplitude", value=np.array([0.0, 1.5, 3.0]))], level="amplitude")
    assert_as_mdf(graph(source, cells, edges=[edge("source.level -> cells.drive", 2)]), 50, 0.1)


def test_an_evaluation_that_ends_at_once_leaves_everything_as_it_is():
    assert_as_mdf(threshold(limit=5), 3)
    assert_as_mdf(threshold(limit=0), 3)
    lowered = lower(threshold(limit=1000), 5)
    assert execute(lowered)["level_out"] == 1000


def test_outputs_of_every_evaluation_can_be_collected():
    rows = [by_mdf(states(), steps, 0.01) for steps in range(1, 31)]
    collected = mdf_loop.run(states(), steps=30, time_increment=0.01, collect=True)
    for name, values in collected.items():
        np.testing.assert_array_equal(values, [row[name] for row in rows])
    assert collected["count_out"].dtype == np.int64


@pytest.mark.parametrize("make", [composite, lambda: threshold(limit=60), abcd])
def test_collected_values_are_of_evaluations_not_of_passes(make):
    rows = [by_mdf(make(), steps) for steps in range(1, 13)]
    collected = execute(lower(make(), 12, collect=True))
    for name, values in collected.items():
        np.testing.assert_array_equal(values, [row[name] for row in rows])


def test_collected_values_are_the_same_from_mdf_s_engine():
    def source(kind):
        extra = {"conditions": {"A": Condition("TimeInterval", repeat=1)}} if kind == "mdf" else {}
        return graph(counter("A", square="count ** 2"), **extra)

    by_loop = mdf_loop.run(source("loop"), steps=5, collect=True)
    with pytest.warns(LoopWarning, match="the model runs in MDF's engine"):
        by_engine = mdf_loop.run(source("mdf"), steps=5, collect=True)
    assert_same(by_loop, by_engine)
    np.testing.assert_array_equal(by_loop["square"], [1, 4, 9, 16, 25])


def test_inputs_are_set_by_name_and_the_model_stays_as_it_was():
    source = states()
    assert mdf_loop.run(source, steps=10, increment=5, period=0.8, time_increment=0.01)["count_out"] == 50
    assert source.nodes[0].get_parameter("increment").value == 1


def test_a_loop_that_never_ends_stops_at_max_iterations():
    endless = threshold(limit=-1, comparator="==")
    with mdf_loop.options(max_iterations=100), pytest.raises(IterationLimit, match="options\\(max_iterations=100\\)"):
        mdf_loop.run(endless, steps=1)


REFUSED = {
    "g: the condition of node 'A' is TimeInterval, which a loop has no counterpart of": graph(
        counter("A"), conditions={"A": Condition("TimeInterval", repeat=1)}
    ),
    "g: the condition of node 'A' is AfterNCalls of 'Z', which is not a node of the graph": graph(
        counter("A"), conditions={"A": Condition("AfterNCalls", dependency="Z", n=1)}
    ),
    "g: there is a condition of 'Z', which is not a node of the graph": graph(
        counter("A"), conditions={"Z": Condition("Always")}
    ),
    "g: the condition of termination is EveryNCalls, which counts since the node it belongs to was called": graph(
        counter("A"), until=Condition("EveryNCalls", dependency="A", n=1)
    ),
    "g: the condition of termination is a Threshold on input port 'x' of node 'A', which MDF empties between calls": graph(
        counter("A", "x"), until=Condition("Threshold", dependency="A", parameter="x", threshold=1, comparator=">")
    ),
    "g: a condition is a Threshold of A.count, which MDF looks at before it has a value": graph(
        counter("A"), until=Condition("Threshold", dependency="A", parameter="count", threshold=1, comparator=">")
    ),
    "g: the condition of node 'B' depends on whether MDF looks at 'A' before or after it, and nodes that do not wait for each "
    "other have no order": graph(counter("A"), counter("B"), conditions={"B": Condition("BeforeNCalls", dependency="A", n=3)}),
    "g: nodes 'A', 'B' wait for each other in a cycle": graph(
        counter("A", "x"), counter("B", "x"), edges=["A.n_A -> B.x", "B.n_B -> A.x"]
    ),
    "g/C: 2 edges end in port C.x, and MDF takes them in no particular order": graph(
        counter("A"), counter("B"), counter("C", "x", c="x"), edges=["A.n_A -> C.x", "B.n_B -> C.x"]
    ),
    "g/A: parameter A.v has a time_derivative and no default_initial_value to start from": graph(
        node("A", [Parameter(id="v", time_derivative="1")], v="v")
    ),
}


@pytest.mark.parametrize("message", REFUSED, ids=lambda message: message[:60])
def test_what_cannot_be_lowered_is_refused_by_name(message):
    with pytest.raises(NotLowered) as error:
        lower(REFUSED[message], 30, 0.1)
    assert str(error.value) == message


def test_what_is_refused_runs_in_mdf_s_engine_and_a_warning_says_why():
    source = graph(counter("A"), conditions={"A": Condition("TimeInterval", repeat=1)})
    with pytest.warns(LoopWarning) as caught:
        outputs = mdf_loop.run(source, steps=25)
    assert outputs == {"n_A": 25}
    (warning,) = caught
    assert str(warning.message).startswith(
        "the model runs in MDF's engine, not as a loop, which is slower: g: the condition of node 'A' is TimeInterval, "
    )
    assert warning.filename == __file__


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (
            {"A": Condition("AfterNCalls", dependency="ZZ", n=1)},
            "g: the condition of node 'A' is AfterNCalls of 'ZZ', which is not a node of the graph",
        ),
        ({"ZZ": Condition("Always")}, "g: there is a condition of 'ZZ', which is not a node of the graph"),
    ],
    ids=["dependency", "owner"],
)
def test_a_condition_that_names_no_node_is_an_error(conditions, message):
    with pytest.raises(UnknownNode) as error:
        mdf_loop.run(graph(counter("A"), conditions=conditions), steps=3)
    assert str(error.value) == message


def test_a_graph_that_mdf_s_engine_would_never_begin_is_an_error():
    source = graph(counter("A", "x"), counter("B", "x"), edges=["A.n_A -> B.x", "B.n_B -> A.x"])
    with pytest.raises(MalformedBody, match="node 'A' is part of a cycle that has no beginning; MDF's engine would never end"):
        mdf_loop.run(source, steps=2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"steps": 0}, ArgumentError, "steps must be at least 1; got 0"),
        ({"steps": 2.0}, KindError, "steps must be a whole number, how many times the graph is evaluated; got 2.0"),
        ({"steps": True}, KindError, "steps must be a whole number, how many times the graph is evaluated; got True"),
        ({"steps": 2, "time_increment": "1"}, KindError, "time_increment must be a number or None; got '1'"),
        ({"time_increment": 0.1}, ArgumentError, "time_increment without steps; steps is the number of evaluations of the model"),
        ({"collect": True}, ArgumentError, "collect without steps; steps is the number of evaluations of the model"),
    ],
)
def test_steps_that_are_none_are_refused(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        mdf_loop.run(states(), **arguments)


@pytest.mark.parametrize("expression", ["c + x", "x * c", "c - x", "x", "numpy.add(x, c)"])
def test_a_list_is_the_default_of_a_port(expression):
    def make(until=None):
        ports = [InputPort(id="x", default_value=[1.0, -1.0, -1.0])]
        parameters = [
            Parameter(id="c", value=np.array([0.5, 0.5, 1.0])),
            Parameter(id="s", value="s * 0.5", default_initial_value=np.array([1.0, 2.0, 3.0])),
        ]
        return graph(node("N", parameters, ports, o="s", out=expression), edges=["N.o -> N.x"])

    for steps in (1, 2, 3):
        np.testing.assert_array_equal(mdf_loop.run(make(), steps=steps)["out"], by_mdf(make(), steps)["out"])
    rows = mdf_loop.run(make(), steps=3, collect=True)["out"]
    np.testing.assert_array_equal(rows, [row["out"] for row in rows_by_mdf(make, 3)])


@pytest.mark.filterwarnings("ignore::mdf_loop.errors.LoopWarning")
def test_a_first_value_that_operators_cannot_express_is_not_lost():
    def make():
        start = InputPort(id="x", default_value=[1.0, 2.0])
        return graph(
            node("N", [Parameter(id="s", value="s + 1", default_initial_value=0)], [start], o="s", out="x * 2"),
            edges=["N.o -> N.x"],
        )

    for steps in (1, 2):
        assert_same(mdf_loop.run(make(), steps=steps), by_mdf(make(), steps))


def test_termination_of_the_whole_sequence_ends_it_for_good():
    source = graph(counter("A"))
    source.conditions = ConditionSet(
        termination={"environment_sequence": Condition("AfterNPasses", n=4, time_scale="TimeScale.ENVIRONMENT_SEQUENCE")}
    )
    assert_as_mdf(source, 9)
    assert execute(lower(source, 9)) == {"n_A": 4}


def test_the_loop_says_what_it_is():
    lowered = lower(states(), 1000, 0.01)
    assert (lowered.trip_count, lowered.names) == (998, ("count_out", "sine_out"))
    assert lowered.loop.keep_going is None
    assert not lowered.loop.carried
    assert not lowered.loop.body.captures
    assert len(lowered.loop.body.state) == 3
    conditional = lower(abcd(), 1000)
    assert conditional.trip_count is None
    assert conditional.loop.keep_going


def test_the_command_line_takes_steps(tmp_path, capsys):
    from mdf_loop.cli import main

    output = tmp_path / "out.npz"
    how = ["--steps", "50", "--time-increment", "0.1", "--collect", "--set", "damping=0.25", "--output", str(output)]
    with pytest.raises(SystemExit) as end:
        main(["run", "examples/oscillator.yaml", *how])
    assert not end.value.code
    with np.load(output) as written:
        expected = mdf_loop.run("examples/oscillator.yaml", steps=50, time_increment=0.1, collect=True, damping=0.25)
        assert_same({name: written[name] for name in expected}, expected)
    assert "[50]" in capsys.readouterr().out


def test_a_parameter_sees_the_new_values_of_those_before_it_in_the_first_run_too():
    s = Parameter(id="s", value="c - s", default_initial_value=0)
    source = graph(node("A", [Parameter(id="c", value=1), s, Parameter(id="d", value="s*2 + c")], d="d"))
    assert execute(lower(source, 1)) == {"d": 3}
    for steps in (1, 2, 3, 30):
        assert_as_mdf(source, steps)


LISTS = {
    "(c, 3)": [2.0, 3.0],
    "[c, 3]": [2.0, 3.0],
    "f": [2.0, 3.0],
    "(c, 1, 3)[:2]": [2.0, 1.0],
    "f * 2": [2.0, 3.0, 2.0, 3.0],
    "[[c, 1], [1, c]] + [f]": [[2.0, 1.0], [1.0, 2.0], [2.0, 3.0]],
    "(c, numpy.array([1.0, 3.0]))": [[2.0, 2.0], [1.0, 3.0]],
}


@pytest.mark.filterwarnings("ignore:the model runs in MDF's engine")
@pytest.mark.parametrize("how", [{}, {"steps": 1}, {"steps": 3}, {"steps": 2, "collect": True}], ids=str)
@pytest.mark.parametrize("text", LISTS)
def test_lists_and_tuples_leave_as_arrays_whatever_runs_them(text, how):
    made = graph(node("N", [Parameter(id="c", value=2.0)], functions=[Function(id="f", value="(c, 3)")], o=text))
    for engine in ENGINES:
        with mdf_loop.options(engine=engine):
            found = mdf_loop.run(made, **how)["o"]
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, [LISTS[text]] * 2 if "collect" in how else LISTS[text])


@pytest.mark.parametrize("weight", [[1.0, 0.5], [2, 3], [[1, 0], [0, 2.0]]])
def test_list_for_a_weight_of_an_array_is_an_array(weight):
    sender = Node(id="s", parameters=[Parameter(id="v", value="v + w", default_initial_value=np.array([1.0, 2.0]))])
    sender.parameters.append(Parameter(id="w", value=[0.25, 1.0]))
    sender.output_ports.append(OutputPort(id="o", value="v"))
    receiver = Node(id="r", input_ports=[InputPort(id="i")], output_ports=[OutputPort(id="p", value="i")])
    edge = Edge(id="e", sender="s", sender_port="o", receiver="r", receiver_port="i", parameters={"weight": weight})
    made = Graph(id="g", nodes=[sender, receiver], edges=[edge])
    expected = run_in_mdf(made, 4, None, True)["p"]
    np.testing.assert_array_equal(execute(lower(made, 4, collect=True))["p"], expected)


@pytest.mark.parametrize("until", [None, Condition("AfterNPasses", n=3)], ids=["one pass", "three"])
@pytest.mark.parametrize("steps", [1, 3, 30])
@pytest.mark.parametrize("start", [1, [1, 2], [[1, 2]], [True, False], True])
@pytest.mark.parametrize("how", [{"time_derivative": "-0.5 * x"}, {"value": "x + t"}, {"value": "x / 2"}])
def test_whole_initial_values_that_become_fractions_are_collected(how, start, steps, until):
    clock = Parameter(id="t", default_initial_value=0, time_derivative="1")
    source = graph(node("A", [clock, Parameter(id="x", default_initial_value=start, **how)], y="x"), until=until)
    rows = mdf_loop.run(source, steps=steps, time_increment=0.5, collect=True)["y"]
    assert len(rows) == steps
    np.testing.assert_array_equal(rows[-1], mdf_loop.run(source, steps=steps, time_increment=0.5)["y"])


def test_an_output_whose_shape_changes_cannot_be_collected():
    wide = Parameter(id="x", default_initial_value=1, value="x * numpy.array([1.0, 2.0])")
    source = graph(node("A", [Parameter(id="k", value="k + 1"), wide], y="x if k < 2 else k", z="k"))
    with pytest.raises(CollectedError, match="in the first iteration and is"):
        mdf_loop.run(source, steps=30, collect=True)


@pytest.mark.parametrize("call", [mdf_loop.run, lambda model, **how: mdf_loop.sweep(model, {"damping": [0.1, 0.2]}, **how)])
def test_steps_without_a_length_are_said_of_parameters_with_a_derivative(call):
    with pytest.warns(
        mdf_loop.errors.LoopWarning, match=r"^no time passes for spring.position, spring.speed: .* give time_increment="
    ):
        call("examples/oscillator.yaml", steps=3)


@pytest.mark.parametrize("record", [(), ("A.count",)])
def test_iterations_are_passes_whatever_is_recorded(record):
    conditions = {"A": Condition(type="Always"), "B": Condition(type="EveryNCalls", dependency="A", n=3)}
    model = graph(counter("A"), counter("B"), conditions=conditions, until=Condition(type="AfterNCalls", dependency="B", n=2))
    assert mdf_loop.run(model, record=record).iterations == 6
    assert mdf_loop.run(model, steps=4, record=record).iterations == 24
