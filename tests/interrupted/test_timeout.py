"""``options(timeout=seconds)``: every way of running ends, and keeps its results.  The clock is the test's own."""

import sys
from types import SimpleNamespace

import numpy as np
import onnx.parser
import pytest
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop import backend, openvino, options
from mdf_loop.checks.model_file import check
from mdf_loop.errors import ArgumentError, IterationLimit, LoopError, LoopTimeout, LoopWarning, NeverEnds
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.options import start_run
from mdf_loop.progress import Watch
from tests.scheduled.test_stepped import DOUBLING, graph, loop_node

COUNT = "b (int64 i, bool c, double s) => (bool c, double t) { t = Add (s, one) }"
ENDLESS = 10**15


@pytest.fixture
def ticks(monkeypatch):
    """A clock that goes on by one second whenever something looks at it; how often that was."""
    seen = SimpleNamespace(count=0)

    def monotonic():
        seen.count += 1
        return float(seen.count)

    monkeypatch.setattr(sys.modules["mdf_loop.options"], "time", SimpleNamespace(monotonic=monotonic))
    return seen


def timed_out(call, timeout=40):
    with options(timeout=timeout), pytest.raises(LoopTimeout) as info:
        call()
    assert isinstance(info.value, TimeoutError | mdf_loop.LoopError)
    assert "options(timeout=" in str(info.value)
    return info.value


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), True, "1", [1]])
def test_it_is_a_number_of_seconds_above_zero(value):
    with pytest.raises(ArgumentError) as info, options(timeout=value):
        pass
    assert str(info.value) == f"timeout must be None or a number of seconds above 0; got {value!r}"


def test_a_run_that_is_done_in_time_is_none_of_its_business():
    with options(timeout=np.float64(1000)):
        assert mdf_loop.loop(500, True, 0.0, body=COUNT, one=1) == 500


@pytest.mark.usefixtures("ticks")
@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_loops_of_every_kind(engine):
    inner = "inner (int64 j, bool d, double a) => (bool d, double b) { b = Add (a, one) }"
    with options(engine=engine):
        error = timed_out(lambda: mdf_loop.loop(ENDLESS, True, 0.0, body=COUNT, one=1))
        assert error.iteration > 0
        assert error.partial == (error.iteration,)
        assert timed_out(lambda: mdf_loop.compile(COUNT)(ENDLESS, True, 0.0, one=1)).iteration > 0
        rows = np.arange(1e6)
        scanned = "b (double s, double x) => (double t, double t2) { u = Tanh (s) t = Add (u, x) t2 = Mul (t, t) }"
        error = timed_out(lambda: mdf_loop.scan(0.0, rows, num_scan_inputs=1, body=scanned), timeout=20)
        assert 0 < error.iteration == len(error.partial[1])
        error = timed_out(lambda: mdf_loop.loop(ENDLESS, True, 0.0, body=lambda i, c, s: (True, s + 1, s)))
        assert (error.partial[0], len(error.partial[1])) == (error.iteration, error.iteration)
        branch = f"t () => (y) {{ y = Loop <body = {inner}> (many, yes, x) }}"
        other = "e () => (y) { y = Identity (x) }"
        given = {"many": ENDLESS, "yes": True, "x": 1.0, "one": 1.0}
        assert timed_out(lambda: mdf_loop.if_(True, then_branch=branch, else_branch=other, **given)).iteration > 0


@pytest.mark.usefixtures("ticks")
@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_a_loop_inside_one_long_iteration(engine):
    """From the fourth iteration on the inner loop would never end."""
    inner = "inner (int64 j, bool d, double a) => (bool d, double b) { b = Add (a, one) }"
    body = f"""o (int64 i, bool c, double s) => (bool c, double t) {{
        late = Greater (i, three) n = Where (late, many, one_time)
        u = Loop <body = {inner}> (n, c, s) t = Sin (u) }}"""
    given = {"three": 3, "many": ENDLESS, "one_time": 1, "one": 1.0}
    with options(engine=engine):
        error = timed_out(lambda: mdf_loop.loop(ENDLESS, True, 0.0, body=body, **given), timeout=500)
        with options(engine="interpret"):
            assert error.partial[0] == mdf_loop.loop(error.iteration, True, 0.0, body=body, **given)
    assert error.iteration <= 4


@pytest.mark.usefixtures("ticks")
def test_loops_that_a_python_body_runs_have_no_more_time_than_the_loop_itself():
    def outer(i, c, s):
        return True, mdf_loop.loop(30, True, s, body=lambda i, c, s: (True, s + 1))

    error = timed_out(lambda: mdf_loop.loop(ENDLESS, True, 0.0, body=outer), timeout=400)
    assert error.partial[0] == 30 * error.iteration


@pytest.mark.usefixtures("ticks")
def test_models_of_onnx_and_openvino():
    text = """<ir_version: 10, opset_import: ["": 18]> g (int64 n, double x) => (double y, double z) {
        c = Constant <value = bool {1}> () one = Constant <value = double {1.0}> () z = Neg (x)
        y = Loop <body = b (int64 i, bool d, double s) => (bool d, double t) { t = Add (s, one) }> (n, c, x) }"""
    model = backend.prepare(onnx.parser.parse_model(text))
    error = timed_out(lambda: model.run([np.int64(ENDLESS), np.float64(0)]))
    assert error.partial == (error.iteration,)
    assert (error.outputs["y"], error.outputs["z"]) == (error.iteration, 0)
    prepared = openvino.prepare("tests/models/ov_loop.xml")
    shapes = [[d if isinstance(d, int) else 4 for d in prepared.body.type_of(name).shape] for name in prepared.inputs]
    error = timed_out(lambda: prepared.run([np.ones(shape, np.float32) for shape in shapes]), timeout=12)
    assert error.iteration > 0
    assert set(error.outputs) <= set(prepared.outputs)


@pytest.mark.usefixtures("ticks")
def test_nodes_without_a_loop():
    text = "<ir_version: 10, opset_import: ['': 18]> g (double x) => (double y, double z) { y = Neg (x) z = Neg (y) }"
    model = backend.prepare(onnx.parser.parse_model(text.replace("'", '"')))
    error = timed_out(lambda: model.run([np.float64(2)]), timeout=2)
    assert (error.iteration, error.partial, error.outputs) == (None, None, {"y": -2})


@pytest.mark.usefixtures("ticks")
@pytest.mark.parametrize("collect", [False, True])
def test_steps_of_a_scheduled_model(collect):
    def run(steps):
        return mdf_loop.run("examples/oscillator.yaml", steps=steps, time_increment=0.01, collect=collect)

    error = timed_out(lambda: run(10**7 if collect else 10**10), timeout=100)
    assert error.iteration > 2
    want = run(error.iteration)
    assert set(want) == set(error.outputs)
    for name, value in want.items():
        np.testing.assert_array_equal(error.outputs[name], value)


@pytest.mark.usefixtures("ticks")
@pytest.mark.parametrize("collect", [False, True])
def test_steps_in_the_engine_of_mdf(collect):
    model = mdf_loop.load("examples/oscillator.yaml").graphs[0]
    error = timed_out(lambda: run_in_mdf(model, 10**9, 0.01, collect))
    assert error.iteration > 2
    for name, value in run_in_mdf(model, error.iteration, 0.01, collect).items():
        np.testing.assert_array_equal(error.outputs[name], value)


@pytest.mark.usefixtures("ticks")
def test_a_loop_in_a_model_of_mdf_keeps_what_the_outputs_of_its_node_are_made_of():
    model = graph(loop_node(None, trip_count=ENDLESS, limit=float("inf"), x=1.0, y=0.0))
    error = timed_out(lambda: mdf_loop.run(model), timeout=15)
    want = mdf_loop.run(graph(loop_node(None, trip_count=error.iteration, limit=float("inf"), x=1.0, y=0.0)))
    assert set(error.outputs) == {"x", "y", "xs", "ks"}
    for name, value in want.items():
        np.testing.assert_array_equal(error.outputs[name], value)


@pytest.mark.usefixtures("ticks")
def test_stepped_loops_end_with_the_evaluation():
    node = loop_node(7, DOUBLING, trip_count=ENDLESS, limit=float("inf"))
    model = graph(node, until=Condition(type="LoopFinished", dependency=node.id))
    error = timed_out(lambda: mdf_loop.run(model), timeout=200)
    want = mdf_loop.run(graph(loop_node(None, DOUBLING, trip_count=error.iteration, limit=float("inf"))))
    assert error.iteration > 7
    for name, value in want.items():
        np.testing.assert_array_equal(error.outputs[name], value)
    evaluable = EvaluableGraph(model, verbose=False)
    assert timed_out(evaluable.evaluate, timeout=200).iteration > 7


def never_ending(condition):
    """A model that waits for a second call of a node that runs once, or never."""
    parameter = Parameter(id="p", value="p + 1", default_initial_value=0)
    node = Node(id="A", parameters=[parameter], output_ports=[OutputPort(id="o", value="p")])
    until = {"environment_state_update": Condition("AfterNCalls", dependency="A", n=2)}
    return Graph(id="g", nodes=[node], conditions=ConditionSet(node_specific={"A": condition}, termination=until))


WAYS = {
    "run": mdf_loop.run,
    "steps as a loop": lambda model: mdf_loop.run(model, steps=2),
    "steps in MDF's engine": lambda model: run_in_mdf(model, 2),
    "MDF's own call": lambda model: EvaluableGraph(model).evaluate(),
}


@pytest.mark.parametrize("condition", [Condition("AtPass", n=10**9), Condition("AtPass", n=0)], ids=["late", "once"])
@pytest.mark.parametrize("way", WAYS)
def test_passes_in_which_no_node_runs_end(way, condition, ticks):
    model = never_ending(condition)
    error = timed_out(lambda: WAYS[way](model))
    assert ticks.count < 1000
    with options(max_iterations=20), pytest.raises(IterationLimit, match=r"go on; options\(max_iterations=20\) stops it") as info:
        WAYS[way](model)
    for ended in (error, info.value):
        assert ended.path[-1].startswith("pass ")
        if way == "run" and condition.kwargs["n"] == 0:
            assert ended.outputs == {"o": 1}


@pytest.mark.parametrize("way", ["run", "MDF's own call"])
def test_many_passes_in_one_evaluation_are_said_once(way, monkeypatch):
    for name in ("engine_patches", "scheduled_loops"):
        monkeypatch.setattr(f"mdf_loop.integrations.{name}.MANY_PASSES", 10)
    monkeypatch.setattr("mdf_loop.progress.INTERVAL", 0.0)
    with options(max_iterations=30), pytest.warns(LoopWarning) as said, pytest.raises(IterationLimit):
        WAYS[way](never_ending(Condition("AtPass", n=10**9)))
    (warning,) = [str(each.message) for each in said if "conditions of termination" in str(each.message)]
    assert "has had 1" in warning


def test_many_passes_name_the_thresholds_that_the_end_waits_for(monkeypatch):
    monkeypatch.setattr("mdf_loop.integrations.scheduled_loops.MANY_PASSES", 10)
    monkeypatch.setattr("mdf_loop.progress.INTERVAL", 0.0)
    model = never_ending(Condition("Always"))
    kwargs = {"dependency": "A", "parameter": "p", "threshold": -5.0, "comparator": "<="}
    model.conditions.termination = {"environment_state_update": Condition("Threshold", **kwargs)}
    with options(max_iterations=5000), pytest.warns(LoopWarning) as said, pytest.raises(IterationLimit):
        mdf_loop.run(model)
    assert any("look whether it reaches A.p <= -5.0; perhaps it needs inputs" in str(each.message) for each in said)


def every(node, n=2):
    return Condition("EveryNCalls", dependency=node, n=n)


WAITING = {
    "each for the other": ({"A": every("B"), "B": every("A")}, Condition("AfterNCalls", dependency="B", n=3)),
    "for a value": (
        {"A": every("B"), "B": every("A")},
        Condition("Threshold", dependency="B", parameter="p", threshold=5.0, comparator=">"),
    ),
    "for all": ({"A": Condition("Always"), "B": Condition("JustRan", dependency="B")}, None),
}


@pytest.mark.parametrize("case", WAITING)
@pytest.mark.parametrize("way", ["run", "steps as a loop"])
def test_nodes_that_wait_for_each_other_are_an_error(tmp_path, way, case):
    """Where the end waits for them; any condition that may hold later lets the model run."""
    conditions, until = WAITING[case]
    nodes = [
        Node(
            id=name,
            input_ports=[InputPort(id="i", shape=())] if name == "B" else [],
            parameters=[Parameter(id="p", value="p + 1", default_initial_value=0.0)],
            output_ports=[OutputPort(id="o", value="p")],
        )
        for name in "AB"
    ]

    def made(conditions, until):
        said = ConditionSet(node_specific=conditions, termination={"environment_state_update": until} if until else None)
        edges = [Edge(id="e", sender="A", sender_port="o", receiver="B", receiver_port="i")]
        return Graph(id="g", nodes=nodes, edges=edges, conditions=said)

    with pytest.raises(NeverEnds, match=r"g: an evaluation of the model never ends: .*'B' waits for '[AB]'"):
        WAYS[way](made(conditions, until))
    model = Model(id="m", graphs=[made(conditions, until)])
    model.to_yaml_file(str(tmp_path / "m.yaml"))
    assert any("never ends" in found.message for found in check(tmp_path / "m.yaml"))
    assert {*WAYS[way](made(conditions, Condition("AfterPass", n=3)))} == {"o"}
    assert np.max(WAYS[way](made({"A": Condition("Always"), "B": every("A", 1)}, until))["o"]) >= 1


NEVER = {
    "never": Condition("Never"),
    "not always": Condition("Not", condition=Condition("Always")),
    "before the first call": Condition("BeforeNCalls", dependency="A", n=0),
    "all, with never": Condition("All", dependencies=[Condition("Always"), Condition("Never")]),
}


@pytest.mark.parametrize("case", NEVER)
@pytest.mark.parametrize("way", ["run", "steps as a loop"])
def test_an_end_that_never_comes_is_an_error(tmp_path, way, case):
    """Also where all nodes run; of the same conditions on a node ``check`` has nothing to say of the end."""
    graph = never_ending(Condition("Always"))
    graph.conditions.termination = {"environment_state_update": NEVER[case]}
    with pytest.raises(NeverEnds, match=r"termination/environment_state_update: .* never ends: this condition never holds"):
        WAYS[way](graph)
    model = Model(id="m", graphs=[graph])
    model.to_yaml_file(str(tmp_path / "m.yaml"))
    (found,) = [found for found in check(tmp_path / "m.yaml") if "never ends" in found.message]
    assert found.kind == "error"
    assert "environment_state_update" in (tmp_path / "m.yaml").read_text().splitlines()[found.line - 1]
    graph.conditions.termination["environment_state_update"] = Condition("Not", condition=NEVER[case])
    assert {*WAYS[way](graph)} == {"o"}


def test_what_passes_is_reported_after_a_block(monkeypatch):
    """However many iterations there were between two looks at the clock before it: a long run said nothing of its passes."""
    monkeypatch.setattr("mdf_loop.progress.INTERVAL", 0.0)
    reports = []
    run = start_run()
    run.watch = Watch(reports.append, lambda: ("passes", 7, None))
    run.watch.countdown = run.watch.skip = 1 << 40
    run.pause()
    assert [report.iteration for report in reports] == [7]


def test_a_model_that_ends_in_so_many_passes_is_let_be():
    model = never_ending(Condition("Always"))
    with options(max_iterations=2, timeout=1000):
        assert mdf_loop.run(model) == {"o": 2}
        assert mdf_loop.run(model) == {"o": 2}


@pytest.mark.filterwarnings("ignore:the model runs in MDF")
@pytest.mark.parametrize("conditions", ["", "{termination: {environment_state_update: {type: AfterPass, kwargs: {n: 2}}}}"])
@pytest.mark.parametrize(
    ("let", "said"), [("leek", "reads 'leek'"), ("z, z: y", "let is circular"), ("'lambda x: x'", "Lambda cannot be used")]
)
def test_a_body_that_cannot_be_read_comes_before_the_end_of_the_time(let, said, conditions, tmp_path):
    body = f"{{let: {{y: {let}}}, carried: {{v: v + y}}, while: v < 3}}"
    run = "{function: 'onnx::Loop', args: {M: 9, v: 0.0, body: body}}"
    nodes = f"{{n: {{parameters: {{body: {{value: {body}}}, run: {run}}}, output_ports: {{v: {{value: run}}}}}}}}"
    more = f", conditions: {conditions}" if conditions else ""
    (tmp_path / "m.yaml").write_text(f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {nodes}{more}}}}}}}")
    with pytest.raises(LoopError, match=said), options(timeout=1e-9):
        mdf_loop.run(tmp_path / "m.yaml")
