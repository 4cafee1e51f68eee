"""``record``: values beside the outputs, the same in every engine, thinned out and in files, for loops, passes and steps."""

import tracemalloc
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from engines import ENGINES
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import ArgumentError, IterationLimit, LoopError
from mdf_loop.integrations.engine_runs import run_recorded_in_mdf

ROOT = Path(__file__).parents[2]
DIFFUSION = ROOT / "examples" / "drift_diffusion.yaml"
OSCILLATOR = ROOT / "examples" / "oscillator.yaml"

NESTED = """b (int64 i, bool c, double x) => (bool c, double y) {
  m = Add (i, one)
  y, q = Loop (m, c, x) <body =
    inner (int64 j, bool d, double a) => (bool d, double b, double k) { b = Add (a, h) k = Identity (b) }>
}"""


def nested_graph():
    parameters = [Parameter(id="body", value={"onnx": NESTED}), Parameter(id="h", value=0.5), Parameter(id="one", value=1)]
    parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": 4, "cond": True, "x": 0.0, "body": "body"}))
    return Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="o", value="run")])])


def threshold_graph():
    """A counter that ends the evaluation, and a node that follows it."""
    counter = Node(
        id="n",
        parameters=[Parameter(id="v", value="v + 0.1", default_initial_value=0.0)],
        output_ports=[OutputPort(id="o", value="v")],
    )
    twice = Node(id="w", input_ports=[InputPort(id="i")], output_ports=[OutputPort(id="o2", value="i * 2")])
    edge = Edge(id="e", sender="n", sender_port="o", receiver="w", receiver_port="i")
    end = Condition(type="Threshold", kwargs={"dependency": "n", "parameter": "v", "threshold": 1.0, "comparator": ">="})
    conditions = ConditionSet(node_specific={"n": Condition(type="Always")}, termination={"environment_state_update": end})
    return Graph(id="g", nodes=[counter, twice], edges=[edge], conditions=conditions)


@pytest.mark.parametrize("engine", ENGINES)
def test_values_inside_a_loop_are_recorded_once_an_iteration(engine):
    with mdf_loop.options(engine=engine):
        r = mdf_loop.run(DIFFUSION, seed=7, record=["decision.x_out", "decision.z", "decision.t", "decision.trial.go_out"])
    plain = mdf_loop.run(DIFFUSION, seed=7)
    assert all(np.array_equal(r[name], plain[name]) for name in plain)
    np.testing.assert_array_equal(r.recorded["decision.x_out"], plain["path"])
    assert [len(value) for value in r.recorded.values()] == [250] * 4
    assert r.recorded["decision.t"][0] == 0.3
    assert r.recorded["decision.trial.go_out"].tolist() == [True] * 249 + [False]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("every", [1, 2, 7, 300])
@pytest.mark.parametrize("to_file", [False, True])
def test_every_keeps_the_first_of_so_many_iterations(engine, every, to_file, tmp_path):
    place = {"record_to": tmp_path / "r.zarr"} if to_file else {}
    if to_file:
        pytest.importorskip("zarr")
    with mdf_loop.options(engine=engine):
        r = mdf_loop.run(DIFFUSION, seed=7, record="decision.x_out", every=every, **place)
    np.testing.assert_array_equal(np.asarray(r.recorded["decision.x_out"][:]), r["path"][::every])
    np.testing.assert_array_equal(r["path"], mdf_loop.run(DIFFUSION, seed=7)["path"])


@pytest.mark.parametrize("engine", ENGINES)
def test_values_of_loops_inside_a_loop_may_differ_in_length(engine):
    with mdf_loop.options(engine=engine):
        r = mdf_loop.run(nested_graph(), record=["n.y.b", "n.y", "n.run.x"])
    assert [row.tolist() for row in r.recorded["n.y.b"]] == [[0.5], [1, 1.5], [2, 2.5, 3], [3.5, 4, 4.5, 5]]
    assert r.recorded["n.y"].tolist() == [0.5, 1.5, 3, 5]
    assert r.recorded["n.run.x"].tolist() == [0, 0.5, 1.5, 3]
    assert r["o"] == 5


def test_ports_and_parameters_of_a_model_that_is_evaluated_once():
    r = mdf_loop.run(DIFFUSION, seed=7, record=["decision.drift", "decision.bound", "decision.evidence"], drift=2.0)
    assert r.recorded["decision.drift"].tolist() == [2.0]
    assert r.recorded["decision.bound"].tolist() == [1.0]
    np.testing.assert_array_equal(r.recorded["decision.evidence"], [r["evidence"]])


@pytest.mark.parametrize("every", [1, 3, 10])
def test_steps_are_recorded_from_the_first_on(every):
    how = {"steps": 100, "time_increment": 0.01}
    r = mdf_loop.run(OSCILLATOR, record=["spring.position", "counter.count"], every=every, **how)
    all_of_it = mdf_loop.run(OSCILLATOR, collect=True, **how)
    np.testing.assert_array_equal(r.recorded["spring.position"], all_of_it["level"][::every])
    np.testing.assert_array_equal(r.recorded["counter.count"], all_of_it["count"][::every])
    assert dict(r) == mdf_loop.run(OSCILLATOR, **how)
    both = mdf_loop.run(OSCILLATOR, record="spring.position", every=every, collect=True, **how)
    np.testing.assert_array_equal(both["level"], all_of_it["level"])


def test_passes_inside_one_evaluation_are_recorded_as_mdfs_engine_has_them():
    graph = threshold_graph()
    r = mdf_loop.run(graph, record=["n.v", "w.i", "w.o2"])
    assert len(r.recorded["n.v"]) == r.iterations == 11
    keys = [("parameter", "n", "v"), ("input", "w", "i"), ("output", "w", "o2")]
    outputs, rows = run_recorded_in_mdf(graph, 1, None, False, keys)
    assert dict(r) == outputs
    for row, value in zip(rows, r.recorded.values(), strict=True):
        np.testing.assert_array_equal(value, row)


def test_what_cannot_become_a_loop_is_recorded_in_mdfs_engine():
    graph = threshold_graph()
    graph.nodes[1].parameters.append(Parameter(id="s", value="[i, i]"))
    graph.conditions.node_specific["w"] = Condition(type="TimeInterval", kwargs={"repeat": 1, "unit": "ms"})
    with pytest.warns(mdf_loop.errors.LoopWarning, match="MDF's engine"):
        r = mdf_loop.run(graph, record=["n.v"])
    np.testing.assert_array_equal(r.recorded["n.v"], mdf_loop.run(threshold_graph(), record="n.v").recorded["n.v"])


def test_values_of_an_onnx_graph_and_of_its_loops():
    head = '<ir_version: 10, opset_import: ["": 18]>'
    inner = "inner (int64 j, bool d, double a) => (bool d, double b) { b = Add (a, a) }"
    text = f"""{head} g (double x) => (double y) {{ m = Constant <value = int64 {{5}}> () t = Constant <value = bool {{1}}> ()
      y = Loop (m, t, x) <body = {inner}> z = Neg (y) }}"""
    r = mdf_loop.run(onnx.parser.parse_model(text), x=1.0, record=["y.b", "z", "y.a"])
    assert r.recorded["y.b"].tolist() == [2, 4, 8, 16, 32]
    assert r.recorded["y.a"].tolist() == [1, 2, 4, 8, 16]
    assert r.recorded["z"].tolist() == [-32]
    assert r["y"] == 32
    assert mdf_loop.run(onnx.parser.parse_model(text), x=1.0, record="y.b", every=2).recorded["y.b"].tolist() == [2, 8, 32]


def test_values_of_a_loop_of_openvino():
    path = ROOT / "tests" / "models" / "ov_loop.xml"
    model = mdf_loop.prepare(path)
    loops = [node for node in model.prepared.body.nodes if node.loop is not None]
    name = f"{loops[0].name}.{loops[0].loop.body.nodes[-1].outputs[0]}"
    inputs = {"X": np.zeros([d if isinstance(d, int) else 2 for d in model.inputs["X"].type.shape], np.float32)}
    inputs["S"] = np.zeros([d if isinstance(d, int) else 2 for d in model.inputs["S"].type.shape], np.float32)
    assert len(model(record=name, **inputs).recorded[name])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("decision.x_outt", "did you mean 'decision.x_out'"),
        ("decison.drift", "did you mean 'decision.drift'"),
        ("x_out", "did you mean 'decision.x_out'"),
        ("trial.x_out", "did you mean 'decision.x_out'"),
        ("nothing.like.it", "there is nothing to be recorded called 'nothing.like.it'"),
    ],
)
def test_unknown_names_are_errors_with_suggestions(name, message):
    with pytest.raises(ArgumentError, match=message):
        mdf_loop.run(DIFFUSION, record=name)
    with pytest.raises(ArgumentError, match="there is nothing to be recorded called"):
        mdf_loop.run(OSCILLATOR, steps=3, record=name)


def test_a_value_inside_another_loop_is_found_by_its_last_name():
    for name in ("n.k", "k", "n.b.k"):
        with pytest.raises(ArgumentError, match=r"did you mean 'n\.y\.k'"):
            mdf_loop.run(nested_graph(), record=name)
    with pytest.raises(ArgumentError, match=r"did you mean 'w\.o2'"):
        mdf_loop.run(threshold_graph(), record="o2")


@pytest.mark.parametrize("steps", [None, 3])
def test_several_values_at_once_are_no_row(steps):
    parameters = [Parameter(id="body", value={"carried": {"x": "x + 1"}, "collected": {"path": "x"}})]
    parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": 4, "cond": True, "x": 0.0, "body": "body"}))
    ports = [OutputPort(id="o", value="run[0]"), OutputPort(id="p", value="run[1]")]
    graph = Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=ports)])
    assert mdf_loop.run(graph, steps=steps, record="n.p").recorded["n.p"].shape == (steps or 1, 4)
    with pytest.raises(ArgumentError, match=r"'n\.run' is several values of different shapes"):
        mdf_loop.run(graph, steps=steps, record="n.run")


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_that_becomes_a_float_is_recorded_as_one(engine, steps):
    parameters = [Parameter(id="body", value={"carried": {"x": "x / 2"}, "while": "x > 1"})]
    parameters.append(Parameter(id="run", function="onnx::Loop", args={"cond": True, "x": 8, "body": "body"}))
    graph = Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="o", value="run")])])
    with mdf_loop.options(engine=engine):
        r = mdf_loop.run(graph, steps=steps, record="n.x")
    assert r["o"] == mdf_loop.run(graph)["o"]
    assert r.recorded["n.x"].dtype == np.float64
    assert r.recorded["n.x"].tolist() == ([8, 4, 2] if steps is None else [[8, 4, 2]] * 3)


def test_a_loop_without_an_iteration_has_nothing_recorded():
    for every in (1, 2):
        r = mdf_loop.run(DIFFUSION, max_steps=0, record="decision.x_out", every=every)
        assert len(r.recorded["decision.x_out"]) == 0
        assert r.iterations == 0


@pytest.mark.parametrize("every", [1, 2])
def test_what_was_recorded_before_a_run_ended_early_is_kept(every):
    with mdf_loop.options(max_iterations=9), pytest.raises(IterationLimit) as info:
        mdf_loop.run(DIFFUSION, seed=7, record="decision.x_out", every=every)
    assert len(info.value.results["path"]) == 9
    np.testing.assert_array_equal(info.value.results.recorded["decision.x_out"], info.value.results["path"][::every])


def test_a_long_recording_in_a_file_takes_no_memory(tmp_path):
    pytest.importorskip("zarr")
    peaks = []
    text = "b (int64 i, bool c, double x) => (bool c, double y) { y = Add (x, h) }"
    node = Node(
        id="n", parameters=[Parameter(id="body", value={"onnx": text}), Parameter(id="h", value=0.5), Parameter(id="m", value=0)]
    )
    node.parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": "m", "cond": True, "x": 0.0, "body": "body"}))
    node.output_ports.append(OutputPort(id="o", value="run"))
    model = mdf_loop.prepare(Graph(id="g", nodes=[node]))
    for count in (1_000_000, 4_000_000):
        tracemalloc.start()
        r = model(m=count, record="n.y", record_to=tmp_path / "r.zarr")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert r.recorded["n.y"].shape == (count,)
        assert r.recorded["n.y"][count - 1] == r["o"]
    assert peaks[1] < 1.5 * peaks[0]


def test_record_to_replaces_nothing_but_zarr(tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "r.zarr").mkdir()
    (tmp_path / "r.zarr" / "mine.txt").write_text("mine")
    with pytest.raises(LoopError, match="is not replaced"):
        mdf_loop.run(DIFFUSION, record="decision.x_out", record_to=tmp_path / "r.zarr")
    assert (tmp_path / "r.zarr" / "mine.txt").read_text() == "mine"
    with pytest.raises(LoopError, match=r"\.zarr folder"):
        mdf_loop.run(DIFFUSION, record="decision.x_out", record_to=tmp_path / "r.npz")


# Labels and files


def test_recorded_values_have_labels():
    pytest.importorskip("xarray")
    d = mdf_loop.run(DIFFUSION, seed=7, record="decision.x_out", every=10).to_xarray()
    assert d["decision.x_out"].dims == ("iteration",)
    assert d.iteration.values.tolist() == list(range(0, 250, 10))
    assert d.attrs["model"] == "drift_diffusion"
    assert d.attrs["seed"] == "7"
    assert d.attrs["mdf_loop"] == mdf_loop.__version__
    ragged = mdf_loop.run(nested_graph(), record="n.y.b").to_xarray()
    assert ragged["n.y.b"].shape == (4, 4)
    assert np.isnan(ragged["n.y.b"].values[0, 1])
    assert ragged["n.y.b_length"].values.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("suffix", ["npz", "nc", "zarr"])
@pytest.mark.parametrize(
    "outputs",
    [
        {"f": 2.5, "i": 3, "b": True, "large": 1 << 80, "t": "text"},
        {"a": np.arange(6.0).reshape(2, 3), "s": np.float32(2), "e": np.empty((0, 2), np.int8), "n": None},
        {"half": np.array([1, 2], np.float16), "texts": np.array(["a", "bcd"], object)},
        {"list": [np.array([1.0]), np.array([1.0, 2.0])], "map": {"x": 1.0, "y": 2}, "tuple": (1, 2.5)},
        {"value_x": 1.5, "value_0": 2.5, "ints": np.array([1 << 80, 1, None], object), "value_1": 3.5},
    ],
    ids=["numbers", "arrays", "types", "lists", "names"],
)
def test_results_can_be_written_and_read_again(suffix, outputs, tmp_path):
    if suffix != "npz":
        pytest.importorskip("xarray")
        pytest.importorskip({"nc": "h5netcdf", "zarr": "zarr"}[suffix])
    from mdf_loop.models.results import About, Results

    recorded = {"n.x": np.arange(4.0)} if suffix == "npz" or "list" not in outputs else {}
    results = Results(outputs, About("m", 4, "condition", 7, {"k": 2.0}, recorded))
    path = tmp_path / f"r.{suffix}"
    for _ in range(2):  # over what is there
        results.save(path)
    found = mdf_loop.open(path)
    assert list(found) == list(outputs)
    for name, value in outputs.items():
        assert type(found[name]) is type(value), name
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype
        np.testing.assert_equal(found[name], value)
    assert (found.iterations, found.stop, found.seed, dict(found.inputs)) == (4, "condition", 7, {"k": 2.0})
    np.testing.assert_equal(dict(found.recorded), recorded)
    assert [path.name for path in tmp_path.iterdir()] == [f"r.{suffix}"]


def test_other_files_are_refused(tmp_path):
    r = mdf_loop.run(DIFFUSION, seed=7)
    with pytest.raises(LoopError, match=r"\.npz, \.nc, \.zarr"):
        r.save(tmp_path / "r.csv")
    np.savez(tmp_path / "other.npz", mdf_loop="{}")
    with pytest.raises(LoopError, match="holds no results"):
        mdf_loop.open(tmp_path / "other.npz")
    with pytest.raises(LoopError, match="no file"):
        mdf_loop.open(tmp_path / "missing.nc")


def shared_names_graph(second=False, **metadata):
    """A neuron whose ports have the names of what its loop carries, collects, captures and counts."""
    body = {"let": {"dv": "(current - v) / 20"}, "carried": {"v": "v + dt * dv", "t": "t + dt"}, "collected": {"path": "v"}}
    args = {"M": 7, "cond": True, "v": 0.0, "t": 0.0, "body": "body"}
    values = {"body": body, "dt": 0.1, "t": 3.0}
    parameters = [Parameter(id=name, value=value) for name, value in values.items()]
    parameters += [Parameter(id=name, function="onnx::Loop", args=args) for name in ("run", "again")[: 1 + second]]
    ports = {"v": "run.v", "path": "run.path", "last": "run.t", "i": "run.v", "condition": "run.v"}
    node = Node(id="n", metadata=metadata or None, parameters=parameters)
    node.input_ports.append(InputPort(id="current", default_value=1.5))
    node.output_ports += [OutputPort(id=name, value=value) for name, value in ports.items()]
    return Graph(id="g", nodes=[node])


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("n.v", (7,)),
        ("n.t", (7,)),  # also a parameter
        ("n.path", (7,)),
        ("n.dv", (7,)),
        ("n.run.v", (7,)),
        ("n.output_ports.v", (1,)),
        ("n.output_ports.path", (1, 7)),
        ("n.parameters.t", (1,)),
        ("n.input_ports.current", (1,)),
        ("n.last", (1,)),
        ("n.dt", (1,)),  # the loop reads it, and does not compute it
        ("n.i", (1,)),  # nor the number of the iteration
        ("n.condition", (1,)),
    ],
)
def test_what_a_loop_computes_wins_over_a_port_of_its_name(name, shape):
    plain, found = mdf_loop.run(shared_names_graph()), mdf_loop.run(shared_names_graph(), record=name).recorded[name]
    assert found.shape == shape
    if name in ("n.v", "n.run.v"):
        np.testing.assert_array_equal(found, [0.0, *plain["path"][:-1]])  # as an iteration finds it
    if name == "n.output_ports.v":
        assert found[0] == plain["v"]


def test_a_name_in_two_loops_and_a_port_names_all_three():
    with pytest.raises(ArgumentError, match=r"give one of: n\.run\.v or n\.again\.v or n\.output_ports\.v"):
        mdf_loop.run(shared_names_graph(second=True), record="n.v")


def test_a_name_of_ours_is_not_suggested():
    with pytest.raises(ArgumentError) as caught:
        mdf_loop.run(shared_names_graph(), record="dv")
    assert "n.dv" in str(caught.value)
    assert "~" not in str(caught.value)
