"""Time and units: what results know of them, and what stands at the axes of plots."""

import numpy as np
import pytest
from modeci_mdf import mdf

import mdf_loop

xarray = pytest.importorskip("xarray", reason='xarray is not installed: pip install -e ".[sweep]"')


def decay(units, times="ms"):
    """A voltage that decays, 50 steps of 0.1, with such units."""
    body = {"carried": {"v": "v - dt * v / tau"}, "collected": {"path": "v"}}
    return mdf.Graph(
        id="decay",
        nodes=[
            mdf.Node(
                id="cell",
                input_ports=[mdf.InputPort(id="v0", default_value=1.0, metadata={"units": units})],
                parameters=[
                    mdf.Parameter(id="tau", value=2.0, metadata={"units": times}),
                    mdf.Parameter(id="dt", value=0.1, metadata={"units": times}),
                    mdf.Parameter(id="body", value=body),
                    mdf.Parameter(id="run", function="onnx::Loop", args={"M": 50, "cond": True, "v": "v0", "body": "body"}),
                ],
                output_ports=[
                    mdf.OutputPort(id="path", value="run.path", metadata={"units": units}),
                    mdf.OutputPort(id="last", value="run.v", metadata={"units": units, "more": 1}),
                ],
            )
        ],
    )


TIMES = 0.1 * np.arange(1, 51)


@pytest.fixture(autouse=True)
def _no_windows():
    matplotlib = pytest.importorskip("matplotlib", reason="what is drawn is matplotlib's")
    matplotlib.use("agg", force=True)
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.mark.parametrize("trials", [None, 3])
def test_axes_have_time_and_units(trials):
    ax = mdf_loop.run(decay("mV"), trials=trials).plot("path")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (ms)", "path (mV)")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), TIMES)


def test_lines_of_one_picture_have_units_in_the_legend():
    from matplotlib import figure

    graph = decay("mV")
    graph.nodes[0].get_parameter("body").value["collected"]["half"] = "v / 2"
    graph.nodes[0].output_ports.append(mdf.OutputPort(id="half", value="run.half"))
    results = mdf_loop.run(graph)
    assert [ax.get_ylabel() for ax in results.plot().figure.axes] == ["path (mV)", "half"]  # which differ in their units
    ax = results.plot(ax=figure.Figure().subplots())
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"path (mV)", "half"}


def test_what_is_recorded_has_time_too():
    run = mdf_loop.run(decay("mV"), record=["cell.v"], every=7)
    ax = run.plot("cell.v")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (ms)", "cell.v")
    times = TIMES[::7] - 0.1  # at the start of each iteration, where v is found
    np.testing.assert_allclose(ax.lines[0].get_xdata(), times, atol=1e-15)
    found = run.to_xarray()
    np.testing.assert_allclose(found.time, times, atol=1e-15)
    assert found.time.attrs["units"] == "ms"
    both = mdf_loop.run(decay("mV"), record=["cell.v"]).to_xarray()
    assert both.start_time.attrs["units"] == both.end_time.attrs["units"] == "ms"
    assert mdf_loop.plot(both, "cell.v").get_xlabel() == mdf_loop.plot(both, "path").get_xlabel() == "time (ms)"


def test_histograms_phase_planes_and_maps_have_units():
    trials = mdf_loop.run(decay("mV"), trials=3)
    assert trials.plot("last").get_xlabel() == "last (mV)"
    ax = trials.plot("path", "path")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("path (mV)", "path (mV)")
    sweep = mdf_loop.sweep(decay("mV"), {"tau": [1.0, 2.0, 3.0], "v0": [1.0, 2.0]})
    ax = mdf_loop.plot(sweep, "last")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tau (ms)", "v0 (mV)")
    assert ax.figure.axes[-1].get_ylabel() == "last (mV)"


def test_a_curve_of_a_sweep_over_time():
    sweep = mdf_loop.sweep(decay("mV"), {"tau": [1.0, 2.0, 3.0]}, outputs=["path"])
    ax = mdf_loop.plot(sweep, "path")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (ms)", "path (mV)")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), TIMES)


def test_what_is_called_a_time_has_the_unit_that_it_says_itself():
    graph = decay("mV")
    graph.nodes[0].output_ports.append(mdf.OutputPort(id="end_time", value="50"))
    graph.nodes[0].output_ports.append(mdf.OutputPort(id="path_time", value="run.path"))
    one, swept = mdf_loop.run(graph).to_xarray(), mdf_loop.sweep(graph, {"tau": [1.0, 2.0]})
    for found in (one, swept):
        assert [found[name].attrs.get("units") for name in ("time", "end_time", "path_time")] == ["ms", None, None]


def test_an_input_that_is_called_time_is_no_time_of_iterations():
    graph = decay("mV")
    graph.nodes[0].get_parameter("tau").id = "time"
    graph.nodes[0].get_parameter("body").value["carried"]["v"] = "v - dt * v / time"
    found = mdf_loop.sweep(graph, {"time": [1.0, 2.0]}, outputs=["path"])
    ax = mdf_loop.plot(found, "path")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), found.iteration)
    assert ax.get_xlabel() == "iteration"


def test_without_a_step_there_are_iterations():
    ax = mdf_loop.run("examples/accumulate.yaml").plot()
    assert ax.get_xlabel() == "iteration"


@pytest.mark.parametrize("unit", ["mV", "seconds", "days", "days since 2000-01-01"])
@pytest.mark.parametrize("suffix", [".npz", ".nc", ".zarr"])
def test_units_come_back_from_files_and_values_are_not_changed_by_them(tmp_path, unit, suffix):
    run = mdf_loop.run(decay(unit, unit))
    run.save(tmp_path / f"run{suffix}")
    back = mdf_loop.open(tmp_path / f"run{suffix}")
    np.testing.assert_array_equal(back["path"], run["path"])
    assert back.plot("path").get_ylabel() == f"path ({unit})"
    labelled = back.to_xarray()
    assert labelled.path.attrs["units"] == labelled.time.attrs["units"] == unit


@pytest.mark.parametrize("unit", ["mV", "seconds", "days since 2000-01-01"])
def test_units_of_sweeps_come_back_from_files(tmp_path, unit):
    from mdf_loop.models.saving import writable, write_dataset

    sweep = mdf_loop.sweep(decay(unit, unit), {"tau": [1.0, 2.0]}, checkpoint=tmp_path / "c.zarr")
    write_dataset(writable(sweep), tmp_path / "s.nc")
    for path in ("c.zarr", "s.nc"):
        back = mdf_loop.open(tmp_path / path)
        np.testing.assert_array_equal(back.path, sweep.path)
        assert back.path.attrs["units"] == back.tau.attrs["units"] == back.time.attrs["units"] == unit
        assert "units" not in back.attrs


@pytest.mark.parametrize("said", [None, 3, ["mV"], {"mV": 1}])
def test_units_that_are_no_texts_are_none(said):
    run = mdf_loop.run(decay(said))
    assert run.plot("path").get_ylabel() == "path"
    assert "units" not in run.to_xarray().path.attrs


def test_units_of_inputs_of_one_name_are_by_their_nodes():
    graph = decay("mV")
    other = decay("A").nodes[0]
    other.id = "other"
    graph.nodes.append(other)
    model = mdf_loop.prepare(graph)
    assert model.units["cell.v0"] == "mV"
    assert model.units["other.v0"] == "A"
    assert "v0" not in model.units
    assert {name: model.units[name] for name in model.outputs} == {
        "cell.path": "mV",
        "cell.last": "mV",
        "other.path": "A",
        "other.last": "A",
    }


@pytest.mark.parametrize("trials", [None, 3])
def test_the_parameter_of_a_body_says_units_of_values_inside_it(trials):
    graph = decay("mV")
    (body,) = [parameter for parameter in graph.nodes[0].parameters if parameter.id == "body"]
    body.metadata = {"units": {"v": "uV", "path": 3}}
    results = mdf_loop.run(graph, record="cell.v", trials=trials)
    assert results.plot("cell.v").get_ylabel() == "cell.v (uV)"
    assert results.to_xarray()["cell.v"].attrs["units"] == "uV"
    assert results.plot("path").get_ylabel() == "path (mV)"


def test_units_of_a_body_are_those_of_outputs_that_are_its_values():
    graph = decay(None)
    (node,) = graph.nodes
    next(part for part in node.parameters if part.id == "body").metadata = {"units": {"v": "mV"}}
    node.output_ports.append(mdf.OutputPort(id="twice", value="2 * run.v"))
    results = mdf_loop.run(graph, record="cell.v")
    assert {name: results.about.units.get(name) for name in ("path", "last", "twice")} == {
        "path": "mV",
        "last": "mV",
        "twice": None,
    }
    assert [line.get_label() for line in results.plot().figure.axes[0].lines] == ["cell.v (mV)"]  # path is the same curve
    assert len(results.plot().figure.axes) == 1
