"""What PsyNeuLink exports runs, and gives PsyNeuLink's numbers where its export says all that they depend on.

``models/psyneulink`` has models of PsyNeuLink 0.21 as ``get_mdf_serialized(..., simple_edge_format=True)`` writes them; beside
each are PsyNeuLink's own values after five trials, or the mean and standard deviation of many, for what draws random numbers.
"""

import copy
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.functions.standard import mdf_functions
from modeci_mdf.mdf import Function, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import LoopWarning
from mdf_loop.functions.psyneulink import FUNCTIONS
from mdf_loop.integrations.engine_patches import quiet_mdf

ROOT = Path(__file__).parents[1] / "models" / "psyneulink"
NAMES = sorted(path.stem for path in ROOT.glob("*.json") if not path.stem.endswith(".numbers"))
ENGINES = ("interpret", "numpy", "jit")

LOST = {
    "fn_conditional": "in MDF a node that has not run has no value; in PsyNeuLink it has its initial value",
    "gating": "in PsyNeuLink the gate multiplies the input of its port; "
    "the export has two edges into one port, and MDF uses one of them",
}
"""Models whose numbers cannot be PsyNeuLink's, and what their export loses."""

UNKNOWN = {"c_whenfinished": "PsyNeuLink 0.21 cannot run this model: its WhenFinished raises ParameterError"}


def numbers(name):
    return json.loads((ROOT / f"{name}.numbers.json").read_text())


def plain_id(name):
    return re.sub(r"\W", "_", name)


def inputs_of(graph, given):
    """Values for the input ports of nodes: PsyNeuLink has its own names, and a port more for a recurrent projection."""
    found = {}
    for name, values in given.items():
        node = next(node for node in graph.nodes if node.id == plain_id(name))
        ports = [port for port in node.input_ports if "recurrent_projection" not in port.id]
        found |= {f"{node.id}.{port.id}": np.atleast_2d(value) for port, value in zip(ports, values, strict=True)}
    return found


def opened(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopWarning)
        model = mdf_loop.load(ROOT / f"{name}.json")
        return model.graphs[0], mdf_loop.prepare(model)


def run(model, engine, **how):
    with mdf_loop.options(engine=engine), warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopWarning)
        return model(**how)


def is_drawn(port):
    return port.id.endswith("DECISION_VARIABLE")


def as_psyneulink(graph, results, trace):
    """(ours, PsyNeuLink's) for each output of the model and each trial."""
    for trial, values in enumerate(trace):
        for node in graph.nodes:
            theirs = next((of for name, of in values.items() if plain_id(name) == node.id), {})
            for port, value in zip(node.output_ports, theirs.values(), strict=False):
                if port.id in results and not is_drawn(port):
                    yield np.ravel(np.asarray(results[port.id][trial], float)), np.ravel(value)


def is_close(pairs):
    return all(ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-9, atol=1e-12) for ours, theirs in pairs)


EXACT = [name for name in NAMES if "trace" in numbers(name) and name not in LOST and name != "ddm_analytical"]
DRAWN = [name for name in NAMES if "mean" in numbers(name)]


def test_there_are_enough():
    assert len(EXACT) >= 20
    assert len(DRAWN) >= 8
    assert {*EXACT, *DRAWN, *LOST, *UNKNOWN, "ddm_analytical"} == {*NAMES}


def test_the_page_says_the_same():
    page = (Path(__file__).parents[2] / "docs" / "psyneulink.rst").read_text()
    for name, lost in {**LOST, **UNKNOWN}.items():
        assert f"   * - ``{name}``\n     - {lost}\n" in page
    assert f"{len(NAMES)} exports" in page
    words = " ".join(page.split())
    assert f"{len(EXACT)} give PsyNeuLink's numbers to nine digits. {len(DRAWN) + 1} draw" in words


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", EXACT)
def test_numbers_are_psyneulinks(name, engine):
    (graph, model), known = opened(name), numbers(name)
    results = run(model, engine, steps=5, collect=True, **inputs_of(graph, known["inputs"]))
    pairs = [*as_psyneulink(graph, results, known["trace"])]
    assert pairs
    assert is_close(pairs), pairs


@pytest.mark.parametrize("name", [*LOST, *UNKNOWN])
def test_what_an_export_loses_is_lost_on_every_engine(name):
    (graph, model), known = opened(name), numbers(name)
    given = inputs_of(graph, known["inputs"])
    steps = 2 if name == "fn_conditional" else 5
    results = {engine: run(model, engine, steps=steps, collect=True, seed=1, **given) for engine in ENGINES}
    pairs = [*as_psyneulink(graph, results["interpret"], known.get("trace", [])[:steps])]
    assert name in UNKNOWN or not is_close(pairs), "no longer lost"
    if name != "gating":  # MDF takes two edges into one port in any order
        for engine in ENGINES:
            for port, value in results["interpret"].items():
                np.testing.assert_array_equal(np.asarray(results[engine][port], float), np.asarray(value, float))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", DRAWN)
def test_random_numbers_have_psyneulinks_distribution(name, engine):
    """Mean and standard deviation within five standard errors of both."""
    (graph, model), known = opened(name), numbers(name)
    given, count = inputs_of(graph, known["inputs"]), 1000
    port = graph.nodes[0].output_ports[0].id
    if known["runs"] == 1500:  # five steps of an integrator
        drawn = run(model, engine, steps=5, trials=count if engine != "interpret" else 200, seed=1, **given)[port]
    else:
        drawn = run(model, engine, steps=count, collect=True, seed=1, **given)[port]
    drawn = np.asarray(drawn, float).reshape(len(drawn), -1)
    mean, std = np.array(known["mean"]), np.array(known["std"])
    error = std * np.sqrt(1 / len(drawn) + 1 / known["runs"])
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * error).all()
    kurtosis = np.mean((drawn - drawn.mean(axis=0)) ** 4, axis=0) / drawn.std(axis=0) ** 4
    assert (np.abs(drawn.std(axis=0) / std - 1) < 5 * np.sqrt((kurtosis + 1) / 4 * (1 / len(drawn) + 1 / known["runs"]))).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_analytical_ddm_draws_its_decision(engine):
    """PsyNeuLink's response time; its decision is 1 with the probability that the function gives, else -1."""
    (graph, model), known = opened("ddm_analytical"), numbers("ddm_analytical")
    r = run(model, engine, steps=2000, collect=True, seed=1, **inputs_of(graph, known["inputs"]))
    time = known["trace"][0]["DDM-2"]["RESPONSE_TIME"]
    np.testing.assert_allclose(np.asarray(r["DDM_2_RESPONSE_TIME"], float).ravel(), time * 2000, rtol=1e-12)
    decisions = np.asarray(r["DDM_2_DECISION_VARIABLE"], float).ravel()
    upper = 1 - 1 / (1 + np.exp(2 * 0.3 * 1.0 / 0.5**2))
    assert {*decisions} == {-1.0, 1.0}
    assert abs((decisions == 1).mean() - upper) < 5 * np.sqrt(upper * (1 - upper) / 2000)


@pytest.mark.parametrize("name", EXACT)
def test_mdfs_own_engine_gives_the_same(name):
    (graph, model), known = opened(name), numbers(name)
    given = inputs_of(graph, known["inputs"])
    ours = run(model, "numpy", steps=3, **given)
    for node in graph.nodes:
        for port in node.input_ports:
            port.default_value = given.get(f"{node.id}.{port.id}", port.default_value)
    with quiet_mdf():
        engine = EvaluableGraph(copy.deepcopy(graph), verbose=False)
        for _ in range(3):
            engine.evaluate()
    for node in graph.nodes:
        for port in node.output_ports:
            if port.id in ours and not is_drawn(port):
                value = engine.enodes[node.id].evaluable_outputs[port.id].curr_value
                np.testing.assert_allclose(np.ravel(ours[port.id]), np.ravel(np.asarray(value, float)), rtol=1e-12)


def of_function(name, args=None, metadata=None, value=None, shape=(1, 3), **state):
    """A model of one node with one function."""
    node = Node(id="n", input_ports=[InputPort(id="x", shape=shape, default_value=value)])
    node.functions.append(Function(id="f", function=name, args={"variable0": "x", **(args or {})}, metadata=metadata))
    node.parameters += [Parameter(id=key, value="f", default_initial_value=first) for key, first in state.items()]
    node.output_ports.append(OutputPort(id="y", value="f[0]" if "analytical" in name else "f"))
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


PAIRS = ("distance", "predictionerrordeltafunction")
STATE = {name: {"previous_value": np.zeros((1, 3))} for name in FUNCTIONS if "integrator" in name and "dual" not in name}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_needs_its_variable_alone(name):
    """Everything else has a published default; and every engine gives the same, random numbers with it."""
    value = np.array([[0.3, 0.5, 0.2], [0.1, 0.6, 0.3]])[: 2 if name in PAIRS else 1]
    model = of_function(name, value=value, shape=value.shape, **STATE.get(name, {}))
    if name == "buffer":
        model.graphs[0].nodes[0].parameters.append(Parameter(id="previous_value", value="f", default_initial_value=value))
    if mdf_functions[name]["description"].startswith("PsyNeuLink"):
        results = [np.asarray(run(mdf_loop.prepare(model), engine, steps=3, seed=1)["y"], float) for engine in ENGINES]
        for other in results[1:]:
            np.testing.assert_allclose(other, results[0], rtol=1e-12)
    else:  # MDF has one of this name: it is PsyNeuLink's where the metadata say so
        kind = {"linear": "Linear", "exponential": "Exponential", "logistic": "Logistic", "tanh": "Tanh"}[name]
        model.graphs[0].nodes[0].functions[0].metadata = {"type": kind}
        assert np.isfinite(run(mdf_loop.prepare(model), "numpy")["y"]).all()


def test_mdfs_functions_stay_mdfs():
    args = {"gain": 2.0, "bias": 0.1, "offset": 0.3}
    x = np.array([[0.3, -1.2, 2.0]])
    ours = run(mdf_loop.prepare(of_function("logistic", {**args, "scale": 2.0, "x_0": 0.0}, {"type": "Logistic"}, x)), "numpy")
    mdfs = run(mdf_loop.prepare(of_function("logistic", args, None, x)), "numpy")
    np.testing.assert_allclose(ours["y"], 2 / (1 + np.exp(-2 * (x + 0.1))) + 0.3)
    np.testing.assert_allclose(mdfs["y"], 1 / (1 + np.exp(-2 * (x + 0.1) + 0.3)))


@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("softmax", {"gain": "adaptive"}, "gain 'adaptive'"),
        ("softmax", {"output": "most"}, "output 'most'.*'MAX_VAL'"),
        ("energy", {"transfer_fct": {"function": "logistic"}}, "transfer_fct"),
        ("linearcombination", {"operation": "median"}, "operation 'median'.*'product'"),
        ("adaptiveintegrator", {"noise": {"function": "onnx::RandomNormal"}}, "noise 'onnx::RandomNormal'"),
    ],
)
def test_what_has_no_expression_is_refused_by_name(name, said, message):
    model = of_function(name, metadata={"type": name, **said}, value=np.ones((1, 3)))
    for how in ({}, {"steps": 3}):
        with pytest.raises(mdf_loop.LoopError, match=f"(?s)n/f: {name} with {message}"):
            mdf_loop.run(model, **how)


def test_the_table_of_mdf_has_them_while_they_are_registered():
    assert set(FUNCTIONS) <= set(mdf_functions)
    mdf_loop.unregister()
    try:
        assert set(FUNCTIONS) & set(mdf_functions) == {"linear", "exponential", "logistic", "tanh"}
    finally:
        mdf_loop.register()


def test_a_users_own_function_of_a_name_wins(monkeypatch):
    own = {"description": "my own", "arguments": ["variable0"], "expression_string": "variable0 * 3", "function": None}
    monkeypatch.setitem(mdf_functions, "relu", own)
    for engine in ENGINES:
        assert (run(mdf_loop.prepare(of_function("relu", value=np.full((1, 3), 2.0))), engine)["y"] == 6).all()


# Lists of arrays and numbers

LISTS = {
    "array and number": ("[x, 2.0]", "a[0] * a[1]", np.full((1, 1), 1.5), [[3.0]]),
    "number and array": ("[2.0, x]", "a[0] + a[1]", np.full((1, 1), 1.5), [[3.5]]),
    "two shapes": ("[x, x[0]]", "a[1]", np.array([[1.0, 2.0]]), [1.0, 2.0]),
    "integer and float": ("[1, 2.5]", "a[0] / 2", np.ones(1), 0.5),
    "nested": ("[x, [x, 1.0]]", "a[0] + 1", np.full((1, 1), 1.5), [[2.5]]),
    "as a whole": ("[x, x[0]]", "numpy.sum(numpy.array([x, x[0]]), axis=0)", np.array([[1.0, 2.0]]), [[2.0, 4.0]]),
    "negative place": ("[x, 2.0]", "a[-1] * x", np.full((1, 1), 1.5), [[3.0]]),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("by", ["name", "text"])
@pytest.mark.parametrize("case", LISTS)
def test_a_list_of_arrays_and_numbers(case, by, engine):
    """By the name of what is a list, and as it is written."""
    written, value, x, expected = LISTS[case]
    node = Node(id="n", input_ports=[InputPort(id="x", shape=x.shape, default_value=x)])
    node.functions.append(Function(id="both", value=written))
    node.functions.append(Function(id="f", value=value, args={"a": "both" if by == "name" else written}))
    node.output_ports.append(OutputPort(id="y", value="f"))
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    with mdf_loop.options(engine=engine):
        for how in ({}, {"steps": 3}):
            np.testing.assert_array_equal(mdf_loop.run(model, **how)["y"], expected)


# Seeds


def seeded(seed, **others):
    args = {"shape": [2], **({} if seed is None else {"seed": seed}), **others}
    node = Node(id="n", functions=[Function(id="z", function="onnx::RandomNormal", args=args)])
    node.parameters.append(Parameter(id="v", value="v + z", default_initial_value=[0.0, 0.0]))
    node.output_ports.append(OutputPort(id="y", value="v"))
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", ["onnx::RandomNormal", "onnx::RandomUniform"])
def test_a_seed_of_minus_one_is_none(function, engine):
    said, none = seeded(-1), seeded(None)
    for model in (said, none):
        model.graphs[0].nodes[0].functions[0].function = function
    with (
        pytest.warns(LoopWarning, match="seed -1 .* MDF's own engine .* same number") as caught,
        mdf_loop.options(engine=engine),
    ):
        drawn = mdf_loop.run(said, steps=20, collect=True, seed=1)["y"]
    assert len(caught) == 1
    steps = np.diff(np.asarray(drawn, float), axis=0)
    assert len({*np.round(steps.ravel(), 12)}) == steps.size
    with warnings.catch_warnings(), mdf_loop.options(engine=engine):
        warnings.simplefilter("error")
        np.testing.assert_array_equal(drawn, mdf_loop.run(none, steps=20, collect=True, seed=1)["y"])


def test_mdfs_engine_draws_from_the_stream_too():
    with quiet_mdf(), mdf_loop.options(seed=3):
        engine = EvaluableGraph(seeded(-1).graphs[0], verbose=False)
        values = []
        for _ in range(4):
            engine.evaluate()
            values.append(np.array(engine.enodes["n"].evaluable_outputs["y"].curr_value, float))
    assert len({*np.diff(values, axis=0).ravel()}) == 6


@pytest.mark.parametrize("seed", [-1, None])
@pytest.mark.parametrize("name", ["ddi", "ddi_threshold", "normaldist", "ou", "ddm_analytical"])
def test_exports_that_draw_are_machine_code(name, seed, tmp_path):
    text = (ROOT / f"{name}.json").read_text()
    path = tmp_path / "m.json"
    path.write_text(text if seed == -1 else re.sub(r'"seed":-1,?', "", text).replace(",}", "}"))
    with warnings.catch_warnings(), mdf_loop.options(engine="jit"):
        warnings.simplefilter("ignore", LoopWarning)
        model = mdf_loop.prepare(path)
        given = inputs_of(model.graph, numbers(name)["inputs"])
        assert "in machine code" in model.explain(steps=3000, **{full.partition(".")[2]: value for full, value in given.items()})


# Conditions


def counting(conditions):
    """Three nodes in a row that count how often they ran."""
    nodes = {
        name: {
            "input_ports": {f"{name}_in": {"shape": [1]}} if name != "a" else {},
            "parameters": {"count": {"value": "count + 1", "default_initial_value": 0}},
            "output_ports": {f"{name}_count": {"value": "count"}},
        }
        for name in "abc"
    }
    edges = {
        f"{s}{r}": {"sender": s, "receiver": r, "sender_port": f"{s}_count", "receiver_port": f"{r}_in"} for s, r in ("ab", "bc")
    }
    said = {"node_specific": conditions, "termination": {"environment_state_update": condition("AfterPass", n=4)}}
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": nodes, "edges": edges, "conditions": said}}}}


def condition(kind, **kwargs):
    return {"type": kind, "kwargs": kwargs}


LATE = {"b": condition("AtPass", n=2)}
CONDITIONS = {
    "WhenFinished": {"c": condition("WhenFinished", dependency="b"), **LATE},
    "WhenFinishedAny": {"c": condition("WhenFinishedAny", dependencies=["a", "b"]), **LATE},
    "WhenFinishedAll": {"c": condition("WhenFinishedAll", dependencies=["a", "b"]), **LATE},
    "AllHaveRun": {"c": condition("AllHaveRun", dependencies=["a", "b"]), **LATE},
    "AfterNCallsCombined": {"c": condition("AfterNCallsCombined", dependencies=["a", "b"], n=5)},
    "AtEnvironmentStateUpdateStart": {"c": condition("AtEnvironmentStateUpdateStart")},
    "AtEnvironmentSequenceStart": {"c": condition("AtEnvironmentSequenceStart")},
    "AtEnvironmentStateUpdateNStart": {"c": condition("AtEnvironmentStateUpdateNStart", n=1)},
    "JustRan": {"c": condition("JustRan", dependency="b"), "b": condition("EveryNCalls", dependency="a", n=2)},
    "Any": {"c": condition("Any", args=[condition("WhenFinished", dependency="b"), condition("AtPass", n=0)]), **LATE},
    "Not": {"c": condition("Not", condition=condition("WhenFinished", dependency="b")), **LATE},
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_conditions_mean_what_graph_scheduler_means(case, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(counting(CONDITIONS[case])))
    with quiet_mdf():
        engine = EvaluableGraph(mdf_loop.load(path).graphs[0], verbose=False)
        expected = []
        for _ in range(3):
            engine.evaluate()
            expected.append([engine.enodes[name].evaluable_outputs[f"{name}_count"].curr_value for name in "abc"])
    for each in ENGINES:
        with warnings.catch_warnings(), mdf_loop.options(engine=each):
            warnings.simplefilter("error")  # a graph that is no loop says so
            warnings.filterwarnings("ignore", ".* runs before .* has run", LoopWarning)
            model = mdf_loop.prepare(path)
            for steps in (1, 2, 3):
                assert model(steps=steps)["c_count"] == expected[steps - 1][2]


def test_a_threshold_finds_a_port_by_psyneulinks_name():
    """``A-3_OutputPort_0`` for ``A_3_OutputPort_0``, and a value of shape (1, 1) behind one index."""
    (graph, model), known = opened("ddi_threshold"), numbers("ddi_threshold")
    given = inputs_of(graph, known["inputs"])
    alone, steps = run(model, "interpret", **given), run(model, "jit", steps=1, **given)
    assert np.ravel(alone["A_3_OutputPort_0"]) == np.ravel(steps["A_3_OutputPort_0"]) == 2.0


def test_mdf_s_engine_reads_a_threshold_with_an_axis_more_than_the_port_declares():
    """PsyNeuLink declares the shape of a port without the axis of its values; before the node runs, MDF has nothing else."""
    (graph, model), known = opened("threshold_indices"), numbers("threshold_indices")
    results = run(model, "interpret", **inputs_of(graph, known["inputs"]))  # one evaluation with conditions: MDF's engine
    (first,) = known["trace"][0]["B-2"].values()
    assert float(np.squeeze(results["B_2_RESULT"])) == pytest.approx(float(np.squeeze(first)), rel=1e-9)
