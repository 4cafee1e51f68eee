"""Labels of results: runs, trials and sweeps call the same dimensions by the same names, and no value hides another."""

import copy
import json
import pickle

import numpy as np
import onnx.parser
import pytest
from commands import run_main
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter
from swept_models import loop_graph

import mdf_loop
from mdf_loop.errors import ArgumentError, MissingOutput
from mdf_loop.models.results import About, Results

xarray = pytest.importorskip("xarray")

DIFFUSION, ACCUMULATORS = "examples/drift_diffusion.yaml", "examples/leaky_accumulator.yaml"


def walk(*outputs):
    """A random walk by steps."""
    step = Parameter(id="x", value="x + numpy.random.normal(0, 1)", default_initial_value=0.0)
    return Node(id="w", parameters=[step], output_ports=[OutputPort(id=name, value="2 * x") for name in outputs])


def two_loops():
    """Two loops that end after different numbers of iterations."""
    first = copy.deepcopy(mdf_loop.prepare(DIFFUSION).graph.nodes[0])
    second = copy.deepcopy(first)
    second.id = "second"
    return mdf_loop.prepare(Graph(id="two", nodes=[first, second]))


@pytest.mark.parametrize(
    ("model", "how", "rows", "swept"),
    [
        (DIFFUSION, {}, {"path": ()}, "drift"),
        (ACCUMULATORS, {}, {"trajectories": ("trajectories_0",)}, "leak"),
        ("examples/oscillator.yaml", {"steps": 4, "collect": True}, {"count": (), "level": ()}, "damping"),
    ],
)
def test_runs_trials_and_sweeps_call_their_dimensions_alike(model, how, rows, swept):
    for name, rest in rows.items():
        one = mdf_loop.run(model, seed=1, **how).to_xarray()
        assert one[name].dims == ("iteration", *rest)
        trials = mdf_loop.run(model, seed=1, trials=2, **how).to_xarray()
        assert trials[name].dims == ("trial", "iteration", *rest)
        sweep = mdf_loop.sweep(model, {swept: [0.1, 0.2]}, trials=2, seed=1, **how)
        assert sweep[name].dims == (swept, "trial", "iteration", *rest)
        for found in (one, trials, sweep):
            np.testing.assert_array_equal(found.iteration, np.arange(found.sizes["iteration"]))
        reduced = mdf_loop.sweep(model, {swept: [0.1, 0.2]}, trials=2, seed=1, reduce="mean", **how)
        assert reduced[name].dims == (swept, "iteration", *rest)


def test_recorded_trials_say_how_long_each_is():
    found = mdf_loop.run(DIFFUSION, seed=1, trials=3, record="decision.x_out", every=10).to_xarray()
    assert found["decision.x_out"].dims == ("trial", "iteration")
    assert found.path.dims == ("trial", "path_iteration")
    np.testing.assert_array_equal(found["decision.x_out_length"], -(-found.path_length // 10))
    np.testing.assert_array_equal(found["decision.x_out"].notnull().sum("iteration"), found["decision.x_out_length"])
    np.testing.assert_array_equal(found.iteration, 10 * np.arange(found.sizes["iteration"]))


@pytest.mark.parametrize("more", [{}, {"every": 7}, {"trials": 3}, {"every": 7, "trials": 3}])
def test_loops_of_different_lengths_stand_side_by_side(more):
    model = two_loops()
    found = model(seed=1, record=["second.x_out", "decision.x_out", "decision.drift"], **more)
    labelled, every = found.to_xarray(), more.get("every", 1)
    for name in ("second.x_out", "decision.x_out"):
        dim = labelled[name].dims[-1]
        assert dim in ("iteration", f"{name}_iteration")
        np.testing.assert_array_equal(labelled[dim], every * np.arange(labelled.sizes[dim]))
        np.testing.assert_array_equal(labelled[name], found.recorded[name])
    assert labelled.sizes["iteration"] == max(found.recorded[name].shape[-1] for name in found.recorded)
    assert model(seed=1).to_xarray()["second.path"].dims == ("second.path_iteration",)


@pytest.mark.parametrize("suffix", ["npz", "nc", "zarr"])
@pytest.mark.parametrize("collect", [False, True])
def test_values_of_one_name_are_distinguished_in_files(suffix, collect, tmp_path):
    """An output may be called like what is recorded, or like a dimension."""
    graph = Graph(id="g", nodes=[walk("o", "iteration"), Node(**{**vars_of(walk("o", "trial")), "id": "v"})])
    found = mdf_loop.run(graph, steps=6, seed=1, collect=collect, record=["w.o", "w.x"])
    assert set(found) == {"w.o", "iteration", "v.o", "trial"}
    found.save(tmp_path / f"r.{suffix}")
    again = mdf_loop.open(tmp_path / f"r.{suffix}")
    assert list(again) == list(found)
    assert tuple(again.about.collected) == tuple(found.about.collected) == (tuple(found) if collect else ())
    for values, expected in ((again, found), (again.recorded, found.recorded)):
        for name, value in expected.items():
            np.testing.assert_array_equal(values[name], value, err_msg=name)


def test_an_input_that_is_called_like_a_dimension_is_labelled_as_an_input():
    names = [Parameter(id="trial", value=1.0), Parameter(id="iteration", value=2.0)]
    node = Node(id="n", parameters=[*names, Parameter(id="y", value="y + trial * iteration", default_initial_value=0.0)])
    node.output_ports = [OutputPort(id="o", value="y")]
    graph = Graph(id="g", nodes=[node])
    how = {"steps": 3, "collect": True, "trials": 2, "seed": 1}
    s = mdf_loop.sweep(graph, {"iteration": [1.0, 2.0], "trial": [1.0, 5.0, 7.0]}, **how)
    assert s.o.dims == ("input iteration", "input trial", "trial", "iteration")
    assert s.o.sel({"input iteration": 2.0, "input trial": 5.0}, drop=True).values.tolist() == [[10, 20, 30]] * 2
    s = mdf_loop.sweep(graph, [{"iteration": 1.0, "trial": 5.0}], **how)
    assert s["input trial"].dims == ("point",)
    assert s.o.dims == ("point", "trial", "iteration")


@pytest.mark.parametrize("given", [{"drift": 1.0, "decision.drift": 2.0}, {"decision.drift": 1.0, "drift": 1.0}])
def test_an_input_is_given_once(given):
    with pytest.raises(ArgumentError, match="the same input; give it once"):
        mdf_loop.run(DIFFUSION, **given)
    with pytest.raises(ArgumentError, match="the same input; give it once"):
        mdf_loop.sweep(DIFFUSION, {name: [value] for name, value in given.items()})
    (name, value), (other, _) = given.items()
    with pytest.raises(ArgumentError, match="the same input; give it once"):
        mdf_loop.sweep(DIFFUSION, {other: [1.0]}, **{name: value})
    with pytest.raises(ArgumentError, match="the same input; give it once"):
        mdf_loop.run("examples/oscillator.yaml", steps=3, **{"damping": 1.0, "spring.damping": 1.0})


@pytest.mark.parametrize("how", [{"time_increment": 0.1}, {"collect": True}])
def test_a_sweep_refuses_what_a_run_refuses(how):
    with pytest.raises(ArgumentError, match="without steps"):
        mdf_loop.sweep("examples/oscillator.yaml", {"damping": [0.1]}, **how)


TYPED = """<ir_version: 8, opset_import: ["": 18]>
net (float[2] x) => (float[2] y) <float[2] w = {1.5, 2.5}> {
    n = Constant <value = int64 {4}> () go = Constant <value = bool {1}> () z = Mul (x, w)
    y = Loop (n, go, z) <body = b (int64 i, bool c, float[2] v) => (bool c, float[2] u) {
        gain = Constant <value = float {0.5}> () u = Mul (v, gain)
    }>
}"""


def test_constants_and_outputs_of_a_converted_model_have_the_types_that_it_computes_with(tmp_path):
    mdf_loop.convert(onnx.parser.parse_model(TYPED)).to_yaml_file(str(tmp_path / "m.yaml"))
    model = mdf_loop.prepare(tmp_path / "m.yaml")
    said = {name: (port.type.dtype, port.type.shape) for name, port in {**model.constants, **model.outputs}.items()}
    single = np.dtype("float32")
    numbers = {"w": (single, (2,)), "gain": (single, ()), "n": (np.dtype("int64"), ()), "go": (np.dtype(bool), ())}
    assert said == numbers | {"y": (single, (2,))}
    assert model(x=[1.0, 1.0])["y"].dtype == single


def test_explain_runs_some_steps_where_none_are_said(capsys):
    model = mdf_loop.prepare("examples/oscillator.yaml")
    for steps in ({}, {"steps": 100, "time_increment": 0.01}):
        assert "counter.count" in model.explain(source=True, **steps)
    assert run_main("explain", "--source", "examples/oscillator.yaml") == 0
    assert "counter.count" in " ".join(capsys.readouterr().out.split())


def vars_of(node):
    return {"parameters": node.parameters, "output_ports": node.output_ports}


@pytest.mark.parametrize("bound", [[1.0, 0.5], [1.0, [1.0, 2.0], [1.0, 3.0]]], ids=["no errors", "errors"])
@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_dataset_is_read_again_that_xarray_wrote_or_we(suffix, bound, tmp_path):
    pytest.importorskip({"nc": "h5netcdf", "zarr": "zarr"}[suffix])
    from mdf_loop.models.saving import writable, write_dataset

    over = [{"drift": 1.0, "bound": each} for each in bound]
    s = mdf_loop.sweep(DIFFUSION, over, trials=2, seed=1, outputs=["reaction_time"])
    write_dataset(writable(s), tmp_path / f"own.{suffix}")
    s.to_netcdf(tmp_path / "theirs.nc", engine="h5netcdf") if suffix == "nc" else s.to_zarr(tmp_path / "theirs.zarr")
    for name in ("own", "theirs"):
        found = mdf_loop.open(tmp_path / f"{name}.{suffix}")
        assert found.equals(s)
        assert found.attrs["errors"] == s.attrs["errors"]
        assert found.attrs["seed"] == "1"
    mdf_loop.run(DIFFUSION, seed=1).to_xarray().to_netcdf(tmp_path / "r.nc", engine="h5netcdf")
    assert mdf_loop.open(tmp_path / "r.nc").attrs["stop"] == "condition"


def test_what_a_dataset_says_of_itself():
    s = mdf_loop.sweep(DIFFUSION, {"drift": [0.0, 1.0, 2.5], "bound": [0.3, 0.5]}, trials=2, seed=1, noise=0.5)
    assert (s.attrs["model"], s.attrs["seed"], s.attrs["complete"]) == ("drift_diffusion", "1", 12)
    assert json.loads(s.attrs["inputs"]) == {"noise": 0.5}


TAKEN = ["trial", "iteration", "point", "time", "n", "x_length", "x_iteration", "x_0", "path_length", "path_time"]
"""Names that labels might use themselves."""


def is_there(found, name, rows):
    """Whether an output is a variable of its own, under its name or as another one of that name."""
    label = f"output {name}" if f"output {name}" in found else name
    return found[label].shape == np.shape(rows) and np.array_equal(found[label], rows)


@pytest.mark.parametrize("name", TAKEN)
def test_no_label_hides_an_output_of_a_run(name):
    outputs = {"x": [np.arange(3.0), np.arange(2.0)], name: np.array([7.0, 8.0]), "path": np.arange(8.0).reshape(2, 4)}
    found = Results(outputs, About("m", trials=2, collected=("path",), steps={"path": 0.1})).to_xarray()
    assert is_there(found, name, outputs[name])
    assert is_there(found, "path", outputs["path"])
    assert found["length of x" if name == "x_length" else "x_length"].values.tolist() == [3, 2]


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("name", TAKEN)
def test_no_label_hides_an_output_of_a_sweep(name, is_stored, tmp_path):
    if is_stored:
        pytest.importorskip("zarr")
    body = "b (int64 i, bool c, double s) => (bool c, double t, double g) { t = Add (s, s) g = Identity (t) }"
    graph = loop_graph(body, {"s": 1.0}, {"s": "s"}, outputs=("run[1]", "run[0]"))
    for port, called in zip(graph.nodes[0].output_ports, ("x", name), strict=True):
        port.id = called
    found = mdf_loop.sweep(graph, {"m": [2, 3]}, store=tmp_path / "s.zarr" if is_stored else None)
    assert is_there(found, name, [4.0, 8.0])
    assert found.x.values[1].tolist() == [2.0, 4.0, 8.0]
    assert found["length of x" if name == "x_length" else "x_length"].values.tolist() == [2, 3]


def test_a_name_that_is_not_there_says_what_there_is():
    swept = mdf_loop.sweep("examples/drift_diffusion.yaml", {"drift": [0.0, 1.0]}, seed=1, outputs=["reaction_time"])
    run = mdf_loop.run("examples/drift_diffusion.yaml", seed=1).to_xarray()
    for found in (swept, run, swept.isel(drift=0), swept.mean("drift"), pickle.loads(pickle.dumps(swept))):
        with pytest.raises(MissingOutput, match=r"no value called 'bound'; there are .*\. A sweep keeps outputs: .* bound_out: "):
            found["bound"]
        with pytest.raises(AttributeError, match=r"'Dataset' object has no attribute 'bound'; there are "):
            found.bound  # noqa: B018
        with pytest.raises(KeyError, match=r"called 'decision.reaction_time'; did you mean 'reaction_time'\?$"):
            found["decision.reaction_time"]
        assert isinstance(found, xarray.Dataset)
        assert not hasattr(found, "bound")
        assert "bound" not in found
    assert repr(swept).startswith("<xarray.Dataset>")
    assert list(swept[["reaction_time"]]) == ["reaction_time"]
