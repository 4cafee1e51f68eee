"""Scheduled MDF models: our own equivalents of MDF's published examples, and running them in MDF's engine."""

import contextlib
import io

import numpy as np
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import (
    Condition,
    ConditionSet,
    Edge,
    Function,
    Graph,
    InputPort,
    Node,
    OutputPort,
    Parameter,
    ParameterCondition,
)

import mdf_loop
from mdf_loop.convert.scheduled.loops import execute, lower


def node(name, parameters=(), ports=(), functions=(), **outputs):
    """A node; ports by id, outputs as id=expression."""
    return Node(
        id=name,
        parameters=list(parameters),
        functions=list(functions),
        input_ports=[InputPort(id=port) if isinstance(port, str) else port for port in ports],
        output_ports=[OutputPort(id=port, value=value) for port, value in outputs.items()],
    )


def counter(name, *ports, **outputs):
    """A node that counts its runs."""
    return node(name, [Parameter(id="count", value="count + 1")], ports, **({f"n_{name}": "count"} | outputs))


def edge(way, weight=None):
    """An edge, from ``"A.y -> B.x"``."""
    (sender, out), (receiver, into) = (end.split(".") for end in way.split(" -> "))
    parameters = None if weight is None else {"weight": weight}
    return Edge(id=way, sender=sender, sender_port=out, receiver=receiver, receiver_port=into, parameters=parameters)


def graph(*nodes, edges=(), conditions=None, until=None):
    """A graph; ``conditions`` by node, ``until`` ends an evaluation."""
    said = None
    if conditions is not None or until is not None:
        termination = None if until is None else {"environment_state_update": until}
        said = ConditionSet(node_specific=conditions or {}, termination=termination)
    return Graph(id="g", nodes=list(nodes), edges=[edge(e) if isinstance(e, str) else e for e in edges], conditions=said)


def by_mdf(source, steps, time_increment=None):
    """The outputs by name after so many evaluations in MDF's engine: the first without a time increment."""
    with contextlib.redirect_stdout(io.StringIO()):
        engine = EvaluableGraph(source)
        engine.evaluate()
        for _ in range(steps - 1):
            engine.evaluate(time_increment=time_increment)
    read = {(e.sender, e.sender_port) for e in source.edges}
    ports = [(owner.id, port.id) for owner in source.nodes for port in owner.output_ports if (owner.id, port.id) not in read]
    ids = [port for _, port in ports]
    return {
        port if ids.count(port) == 1 else f"{owner}.{port}": engine.enodes[owner].evaluable_outputs[port].curr_value
        for owner, port in ports
    }


def states():
    """A counter, and a sine wave out of two time derivatives."""
    count = node(
        "counter", [Parameter(id="increment", value=1), Parameter(id="count", value="count + increment")], count_out="count"
    )
    sine = node(
        "sine",
        [
            Parameter(id="amp", value=3),
            Parameter(id="period", value=0.4),
            Parameter(id="level", default_initial_value=0, time_derivative="6.283185 * rate / period"),
            Parameter(id="rate", default_initial_value=1, time_derivative="-1 * 6.283185 * level / period"),
        ],
        sine_out="amp * level",
    )
    return graph(count, sine)


def fitzhugh_nagumo():
    """A neuron of two variables, driven by a current that another node sends."""
    cell = node(
        "cell",
        [
            Parameter(id="a", value=0.7),
            Parameter(id="b", value=0.8),
            Parameter(id="tau", value=12.5),
            Parameter(id="V", default_initial_value=0, time_derivative="V - (V**3)/3 - W + current"),
            Parameter(id="W", default_initial_value=0, time_derivative="(V + a - b*W) / tau"),
        ],
        ["current"],
        V_out="V",
        W_out="W",
    )
    drive = node("drive", [Parameter(id="strength", value=0.8)], drive_out="strength")
    return graph(drive, cell, edges=["drive.drive_out -> cell.current"])


def newton_cooling():
    """A cup that cools down; the slope is a stateful parameter that reads what it is the slope of."""
    cup = node(
        "cup",
        [
            Parameter(id="coefficient", value=0.1),
            Parameter(id="room", value=20),
            Parameter(id="temperature", default_initial_value=90, time_derivative="slope"),
            Parameter(id="slope", default_initial_value=0, value="-coefficient*(temperature - room)"),
        ],
        temperature_out="temperature",
        slope_out="slope",
    )
    return graph(cup)


def switched_rlc():
    """A circuit whose source is switched on by conditions of a parameter; two currents follow from others."""
    on_off = [ParameterCondition(id="off", test="time<0.5", value="0"), ParameterCondition(id="on", test="time>=0.5", value=0.1)]
    circuit = node(
        "circuit",
        [
            Parameter(id="Vs", conditions=on_off),
            Parameter(id="R", value=100),
            Parameter(id="L", value=1),
            Parameter(id="C", value=0.001),
            Parameter(id="time", default_initial_value=0, time_derivative="1"),
            Parameter(id="V", default_initial_value=0, time_derivative="i_C /C"),
            Parameter(id="i_R", value="V / R"),
            Parameter(id="i_L", default_initial_value=0, time_derivative="(Vs - V)/L"),
            Parameter(id="i_C", value="i_L-i_R"),
        ],
        V_out="V",
        i_L_out="i_L",
        i_C_out="i_C",
        source="Vs",
    )
    return graph(circuit)


def pulsing():
    """A node whose level is up for a while."""
    pulse = [
        ParameterCondition(id="on", test="time > start and time < start + duration", value="amplitude"),
        ParameterCondition(id="off", test="time > start + duration", value="amplitude*0"),
    ]
    return node(
        "source",
        [
            Parameter(id="time", default_initial_value=0, time_derivative="1"),
            Parameter(id="start", value=2),
            Parameter(id="duration", value=6),
            Parameter(id="amplitude", value=10),
            Parameter(id="level", value=0, conditions=pulse),
        ],
        level_out="level",
    )


def spiking_cell(name):
    """A cell that spikes and starts again."""
    spiking = [
        ParameterCondition(id="is_spiking", test="v >= thresh", value="1"),
        ParameterCondition(id="not_spiking", test="v < thresh", value="0"),
    ]
    arrived = [ParameterCondition(id="spike_detected", test="syn_input > 0", value="1")]
    return node(
        name,
        [
            Parameter(id="syn_i", default_initial_value="0", time_derivative="-1 * syn_i", conditions=arrived),
            Parameter(id="v0", value=-60),
            Parameter(id="erev", value=-70),
            Parameter(id="tau", value=10.0),
            Parameter(id="thresh", value=-20.0),
            Parameter(id="spiking", default_initial_value="0", conditions=spiking),
            Parameter(
                id="v",
                default_initial_value="v0",
                time_derivative="-1 * (v-erev)/tau + syn_input + curr_input",
                conditions=[ParameterCondition(id="reset", test="v > thresh", value="erev")],
            ),
        ],
        ["curr_input", "syn_input"],
        **{f"v_{name}": "v", f"spiking_{name}": "spiking", f"syn_{name}": "syn_i"},
    )


def integrate_and_fire():
    """A pulse, a spiking cell, and a second one that the spikes drive."""
    edges = [edge("source.level_out -> pre.curr_input", 1), edge("pre.spiking_pre -> post.syn_input", 200)]
    return graph(pulsing(), spiking_cell("pre"), spiking_cell("post"), edges=edges)


def abcd():
    """An input that is read once, and nodes that run every, every second and every third time."""
    start = node("input0", [Parameter(id="level", value=0.25), Parameter(id="count_0", value="count_0 + 1")], out="level")
    a = node(
        "A", [Parameter(id="slope", value=1.1), Parameter(id="intercept", value=1.2), *_count()], ["x"], [_linear()], a_out="f"
    )
    gain = [Parameter(id="gain", value=2.1), Parameter(id="bias", value=2.2), Parameter(id="offset", value=2.3), *_count()]
    logistic = Function(id="f", function="logistic", args={"variable0": "x", "gain": "gain", "bias": "bias", "offset": "offset"})
    b = node("B", gain, ["x"], [logistic], b_out="f", b_count="count")
    scale = [Parameter(id="scale", value=3.1), Parameter(id="rate", value=3.2), Parameter(id="bias", value=3.3), *_count()]
    args = {"variable0": "x", "scale": "scale", "rate": "rate", "bias": "bias", "offset": 0.5}
    c = node("C", scale, ["x"], [Function(id="f", function="exponential", args=args)], c_out="f", c_count="count")
    conditions = {
        "input0": Condition("BeforeNCalls", dependency="input0", n=1),
        "A": Condition("Always"),
        "B": Condition("EveryNCalls", dependency="A", n=2),
        "C": Condition("EveryNCalls", dependency="A", n=3),
    }
    until = Condition("And", dependencies=[Condition("AfterNCalls", dependency="C", n=2), Condition("JustRan", dependency="A")])
    edges = ["input0.out -> A.x", "A.a_out -> B.x", "A.a_out -> C.x"]
    return graph(start, a, b, c, edges=edges, conditions=conditions, until=until)


def _count():
    return [Parameter(id="count", value="count + 1")]


def _linear():
    return Function(id="f", function="linear", args={"variable0": "x", "slope": "slope", "intercept": "intercept + count"})


def threshold(limit=5, comparator=">="):
    """One node until its parameter passes a threshold."""
    start = Parameter(id="level", value="level + 1", default_initial_value=0)
    until = Condition("Threshold", dependency="A", parameter="level", threshold=limit, comparator=comparator)
    return graph(node("A", [start], [InputPort(id="unused", shape=(1,))], level_out="level"), until=until)


def composite():
    """A chain of three until two of them were called often enough."""
    parts = [Condition("AfterCall", dependencies="B", n=2), Condition("AfterCall", dependencies="C", n=3)]
    chain = [counter("A", "x", a="x"), counter("B", "x", b="x"), counter("C", "x", c="x")]
    return graph(*chain, edges=["A.a -> B.x", "B.b -> C.x"], until=Condition("All", dependencies=parts))


PUBLISHED = {
    "states": (states, 0.01),
    "FitzHugh-Nagumo": (fitzhugh_nagumo, 0.1),
    "Newton cooling": (newton_cooling, 0.5),
    "switched RLC": (switched_rlc, 0.01),
    "integrate and fire": (integrate_and_fire, 0.1),
    "ABCD conditions": (abcd, None),
    "threshold": (threshold, None),
    "composite": (composite, None),
}
"""Equivalents of MDF's published examples of this kind, with their time increments."""


def assert_same(actual, expected):
    """The same values of the same types, to the last bit."""
    assert list(actual) == list(expected)
    for name, wanted in expected.items():
        value = actual[name]
        wanted = np.array(wanted) if isinstance(wanted, list | tuple) else wanted  # as which it leaves
        assert type(value) is type(wanted), (name, value, wanted)
        if wanted is not None:
            np.testing.assert_array_equal(value, wanted, err_msg=name)
            assert np.asarray(value).dtype == np.asarray(wanted).dtype


def assert_as_mdf(source, steps, increment=None):
    """A scheduled model gives what MDF's engine gives, on every engine."""
    lowered, expected = lower(source, steps, increment), by_mdf(source, steps, increment)
    for engine in ("interpret", "numpy"):
        with mdf_loop.options(engine=engine):
            assert_same(execute(lowered), expected)
    return lowered


def rows_by_mdf(make, steps):
    return [by_mdf(make(), k) for k in range(1, steps + 1)]
