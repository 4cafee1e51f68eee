"""Results and models on axes of matplotlib, and as HTML; pictures are looked at as what stands on the axes."""

import re
import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError, LoopWarning, close_to
from mdf_loop.models.results import About, Results
from mdf_loop.plots.panels import panels
from mdf_loop.plots.plot import figure

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.pyplot")
xarray = pytest.importorskip("xarray")
NEURON, DECISION = "examples/gallery/fitzhugh_nagumo.yaml", "examples/drift_diffusion.yaml"


@pytest.fixture(autouse=True)
def _no_windows():
    matplotlib.use("agg", force=True)
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def neuron():
    return mdf_loop.run(NEURON, record=["neuron.v"], every=10)


@pytest.fixture(scope="module")
def sweep():
    grid = {"drift": [0.0, 1.0, 2.0], "bound": [0.5, 1.0]}
    return mdf_loop.sweep(DECISION, grid, trials=20, seed=1, outputs=["reaction_time", "evidence"])


def test_a_trajectory(neuron):
    ax = neuron.plot("voltage")
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), neuron["voltage"])
    np.testing.assert_allclose(line.get_xdata(), 0.05 * np.arange(1, 4001))  # the model has dt
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "voltage")


def test_what_is_recorded_stands_where_it_was_recorded(neuron):
    (line,) = neuron.plot("neuron.v").lines
    np.testing.assert_allclose(line.get_xdata(), 0.05 * 10 * np.arange(400))
    (line,) = neuron.plot().lines  # without names, what was recorded
    np.testing.assert_array_equal(line.get_ydata(), neuron.recorded["neuron.v"])


def test_all_lines_without_names():
    ax = mdf_loop.run(NEURON).plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["voltage", "recovery"]


TIME = 0.5 * np.arange(1, 41)


def lines_of(ax):
    return {line.get_label(): line for line in ax.lines}


@pytest.mark.parametrize("kind", ["results", "npz", "dataset"])
def test_the_time_of_a_model_is_the_x_axis_and_scales_have_axes_of_their_own(kind, tmp_path):
    values = {"v": np.sin(TIME), "w": 80 * np.cos(TIME), "m": np.cos(TIME) / 2, "ts": TIME}
    run = Results(values, About("m", collected=[] if kind == "npz" else list(values)))
    axes = mdf_loop.plot(run.to_xarray() if kind == "dataset" else run).figure.axes
    shown = {frozenset(lines_of(ax)) for ax in axes}
    expected = [{"v"}, {"w"}, {"m"}] if kind == "npz" else [{"v", "m"}, {"w"}]
    assert shown == set(map(frozenset, expected[: len(axes)]))
    for ax in axes:
        assert ax.get_xlabel() == "ts"
        for line in ax.lines:
            np.testing.assert_array_equal(line.get_xdata(), TIME)
    (line,) = mdf_loop.plot(run, "v").lines
    np.testing.assert_array_equal(line.get_xdata(), TIME)
    (line,) = mdf_loop.plot(run, "ts").lines
    np.testing.assert_array_equal(line.get_ydata(), TIME)


@pytest.mark.parametrize(
    ("units", "panels_"),
    [({}, [["a", "b"], ["c"]]), ({"a": "mV", "b": "nA"}, [["a"], ["b"], ["c"]]), ({"a": "mV", "c": "mV"}, [["a", "c"], ["b"]])],
)
def test_lines_share_axes_by_their_units_or_their_scale(units, panels_):
    values = {"a": np.sin(TIME), "b": 2 * np.sin(TIME), "c": 200 * np.cos(TIME)}
    run = Results(values, About("m", collected=list(values), units=units))
    assert [[series.name for series in panel.series] for panel in panels(run)] == panels_
    _, given = matplotlib.pyplot.subplots()
    assert len(run.plot(ax=given).lines) == 3  # axes that are given have all of them


@pytest.mark.parametrize("t", [-TIME, np.ones(40), TIME[:20]], ids=["falls", "stays", "another length"])
def test_what_is_no_time_is_drawn_as_a_line(t):
    run = Results({"v": np.sin(TIME), "t": t}, About("m", collected=["v", "t"]))
    assert {name for ax in run.plot().figure.axes for name in lines_of(ax)} == {"v", "t"}
    (line,) = run.plot("v").lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(40))


def test_lines_with_axes_of_their_own_are_over_the_same_iterations():
    late = np.where(np.arange(50) < 20, np.nan, np.arange(50) * 100.0)
    about = About(recorded={"a": np.arange(50.0), "b": late})
    results = Results({"m": np.arange(12.0).reshape(3, 4), "x": np.arange(5.0)}, about)
    first, second = mdf_loop.plot(results).figure.axes
    assert first.get_xlim() == second.get_xlim()
    first, second, *others = figure(results).axes
    assert first.get_xlim() == second.get_xlim()
    assert others
    assert all(ax.get_xlim() != first.get_xlim() for ax in others)


def test_several_names_are_drawn_against_the_first_one():
    run = Results({"t": TIME, "v": np.sin(TIME), "w": np.cos(TIME)}, About("m", collected=["t", "v", "w"]))
    ax = run.plot("t", "v", "w")
    for name, line in lines_of(ax).items():
        np.testing.assert_array_equal(line.get_xdata(), TIME)
        np.testing.assert_array_equal(line.get_ydata(), run[name])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["v", "w"]


@pytest.mark.parametrize("as_dataset", [False, True])
@pytest.mark.parametrize("count", [2, 8])
def test_phase_planes_of_vectors_name_each_element(count, as_dataset):
    waves = np.sin(TIME[:, None] + np.arange(count))
    run = Results({"v": waves, "w": np.cos(waves)}, About("m", collected=["v", "w"]))
    ax = mdf_loop.plot(run.to_xarray() if as_dataset else run, "v", "w")
    for k in range(count):
        np.testing.assert_array_equal(lines_of(ax)[f"w[{k}]"].get_data(), [run["v"][:, k], run["w"][:, k]])
    ax.figure.canvas.draw()
    axes, legend = (part.get_window_extent() for part in (ax, ax.get_legend()))
    assert (legend.x0 > axes.x1) == (count > 6)
    assert legend.x1 < ax.figure.bbox.x1


def test_the_command_plots_what_plot_plots(tmp_path, monkeypatch):
    from commands import run_main

    from mdf_loop.plots import plot as module

    drawn, written = [], module.written
    monkeypatch.setattr(module, "written", lambda made, kind: drawn.append(made) or written(made, kind))
    np.savez(tmp_path / "r.npz", t=TIME, v=np.sin(TIME))
    assert run_main("plot", tmp_path / "r.npz", "t", "v", "-o", tmp_path / "p.png") == 0
    expected = mdf_loop.open(tmp_path / "r.npz").plot("t", "v")
    (ax,) = drawn[0].axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == (expected.get_xlabel(), expected.get_ylabel()) == ("t", "v")
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), expected.lines[0].get_xydata())


@pytest.mark.parametrize("is_dataset", [False, True])
def test_an_output_that_is_called_as_a_length_is_drawn(is_dataset):
    paths = [np.arange(3.0), np.arange(2.0)] if is_dataset else np.ones((2, 3))
    results = Results({"x": paths, "x_length": np.arange(2.0), "y": paths}, About("m", trials=2))
    shown = [series.name for panel in panels(results.to_xarray() if is_dataset else results) for series in panel.series]
    assert sorted(shown) == ["x", "x_length", "y"]


def cell(dt):
    """A cell whose first variable is recorded as an iteration finds it, and the second one collected at its end."""
    derivatives = {"derivatives": {"v": "1 - w * v", "w": "v"}, "dt": dt}
    steps = {"carried": {"v": "v + 0.5 * (1 - w * v)", "w": "w + 0.5 * v"}}
    body = {**(derivatives if dt else steps), "collected": {"w_end": "w"}}
    run = Parameter(id="run", function="onnx::Loop", args={"M": 8, "v": 0.0, "w": 1.0, "body": "body"})
    node = Node(id="n", parameters=[Parameter(id="body", value=body), run], output_ports=[OutputPort(id="w", value="run.w_end")])
    return Graph(id="g", nodes=[node])


@pytest.mark.parametrize("dt", [0.5, None], ids=["times", "iterations"])
@pytest.mark.parametrize("form", [lambda r: r, lambda r: r.to_xarray()], ids=["results", "dataset"])
@pytest.mark.parametrize("names", [("n.v", "w"), ("w", "n.v")])
def test_a_phase_plane_joins_values_of_the_same_moment(dt, form, names):
    found = mdf_loop.run(cell(dt), record=["n.v", "n.w"])
    wanted = {"n.v": found.recorded["n.v"][1:], "w": found.recorded["n.w"][1:]}
    (line,) = mdf_loop.plot(form(found), *names).lines
    for drawn, name in zip(line.get_data(), names, strict=True):
        np.testing.assert_array_equal(drawn, wanted[name])


def test_a_phase_plane_of_values_one_step_apart_is_a_warning():
    found = mdf_loop.run(cell(0.5), record=["n.v", "n.w_end"], every=2)
    with pytest.warns(LoopWarning, match="n.v is at the start of iterations, and n.w_end at their end"):
        found.plot("n.w_end", "n.v")


def test_a_phase_plane_on_axes_that_are_given(neuron):
    _, given = matplotlib.pyplot.subplots()
    ax = mdf_loop.plot(neuron, "voltage", "recovery", ax=given, color="red")
    assert ax is given
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), neuron["voltage"])
    np.testing.assert_array_equal(line.get_ydata(), neuron["recovery"])
    assert line.get_color() == "red"


def test_trials_are_a_histogram_and_paths_a_mean_with_a_band():
    run = mdf_loop.run(DECISION, trials=30, seed=1)
    assert sum(bar.get_height() for bar in run.plot("reaction_time").patches) == 30
    ax = run.plot("path")
    (line,) = ax.lines
    is_shown = np.isfinite(run["path"]).sum(axis=0) >= 15
    np.testing.assert_allclose(line.get_ydata(), np.where(is_shown, np.nanmean(run["path"], axis=0), np.nan))
    assert len(ax.collections) == 1
    assert 0 < is_shown.sum() < len(is_shown)  # some trials end early
    assert ax.get_legend().get_title().get_text() == "mean ± SD of 30 trials,\nwhile half of them run"


def test_a_mean_of_trials_that_all_go_on_is_one_of_all():
    run = Results({"x": np.arange(12.0).reshape(3, 4)}, About("m", trials=3, collected=["x"]))
    ax = run.plot("x")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [4, 5, 6, 7])
    assert ax.get_legend().get_title().get_text() == "mean ± SD of 3 trials"


@pytest.mark.parametrize(
    "values", [[0, 1, 1, 0, 1], [True, False, False], [3, 7, 7, 4], [-2, 5, 5], [4, 4], [0.1, 0.1], [0, 29], [0, 900]]
)
def test_bars_are_centred_on_whole_numbers(values):
    ax = Results({"n": np.array(values)}, About("m", trials=len(values))).plot("n")
    bars = {round(float(bar.get_x() + bar.get_width() / 2), 9): bar.get_height() for bar in ax.patches if bar.get_height()}
    assert sum(bars.values()) == len(values)
    if np.ptp(np.array(values, float)) < 30:
        assert bars == pytest.approx({float(value): values.count(value) for value in values})
        assert all(float(at).is_integer() or at in values for at in ax.get_xticks())
    if len(set(values)) == 1:
        assert [tick.get_text() for tick in ax.get_xticklabels()] == [f"{values[0]:g}"]
    (bar,) = Results({"n": np.array(values)}, About("m", trials=len(values))).plot("n", bins=1).patches
    assert bar.get_height() == len(values)


def test_sweeps_are_curves_heat_maps_and_one_mean_over_another(sweep):
    ax = mdf_loop.plot(sweep.sel(bound=1.0), "reaction_time")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), sweep.sel(bound=1.0).reaction_time.mean("trial"))
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [0, 1, 2])
    mesh = mdf_loop.plot(sweep, "reaction_time").collections[0]
    np.testing.assert_allclose(mesh.get_array().reshape(2, 3), sweep.reaction_time.mean("trial").values.T)
    ax = mdf_loop.plot(sweep.sel(bound=1.0), "reaction_time", "evidence")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), sweep.sel(bound=1.0).evidence.mean("trial"))


def test_two_outputs_over_two_inputs_are_a_line_for_each_value_of_one():
    means = {"x": (("bound", "drift"), np.array([[1.0, 3.0, 2.0], [4.0, 6.0, 5.0]])), "y": (("bound", "drift"), np.ones((2, 3)))}
    ax = mdf_loop.plot(xarray.Dataset(means, {"drift": [0.5, 2.0, 1.0], "bound": [0.6, 1.4]}), "x", "y")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bound=0.6", "bound=1.4"]
    assert [line.get_xdata().tolist() for line in ax.lines] == [[1, 2, 3], [4, 5, 6]]  # in the order of drift
    assert {line.get_marker() for line in ax.lines} == {"o"}


def test_a_histogram_of_truths_has_words_and_whole_numbers_of_trials():
    ax = Results({"n": np.array([True, False, True])}, About("m", trials=3)).plot("n")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["false", "true"]
    assert all(float(at).is_integer() for at in ax.get_yticks())


@pytest.mark.parametrize(("shape", "lines"), [((40, 3), 3), ((3, 40), 0), ((40, 30), 0)])
def test_many_lines_are_a_heat_map(shape, lines):
    run = Results({"x": np.ones(shape)}, About(collected=["x"]))
    ax = run.plot("x")
    assert len(ax.lines) == lines
    assert len(ax.collections) == (0 if lines else 1)


def test_trajectories_come_before_other_arrays_and_a_few_elements_are_points():
    run = mdf_loop.run("examples/gallery/leaky_competing_accumulator.yaml", seed=1)
    assert [[series.name for series in each.series] for each in panels(run)] == [["activity"], ["last"]]
    assert run.plot().get_xlabel() == "time"
    (points,) = (ax := run.plot("last")).lines
    assert (points.get_marker(), points.get_linestyle(), ax.get_xlabel()) == ("o", "None", "element of last")
    assert all(float(at).is_integer() for at in ax.get_xticks())
    many = Results({"x": np.arange(40.0)}, About("m")).plot("x")
    assert many.lines[0].get_linestyle() == "-"


def test_a_single_place_is_a_point_and_a_matrix_is_a_map():
    run = Results({"x": np.ones((3, 1)), "m": np.eye(3)}, About("m", trials=3, collected=["x"]))
    ax = run.plot("x")
    assert ax.lines[0].get_marker() == "o"
    assert ax.containers  # the bar of the standard deviation
    ax = Results({"m": np.eye(3)}, About("m")).plot("m")
    assert (len(ax.lines), len(ax.collections)) == (0, 1)
    ax = Results({"m": np.stack([np.eye(3)] * 4)}, About("m", trials=4)).plot("m")
    assert ax.figure.axes[-1].get_ylabel() == "m: mean of 4 trials"


CODES = np.array([[[0, 2, 2], [1, 1, 3]], [[0, 0, 2], [3, np.nan, np.nan]]])


@pytest.mark.parametrize(
    ("name", "values", "said", "drawn"),
    [
        ("choice", CODES, "most frequent", [2, 1, 0, 3]),
        ("last.winners", CODES, "most frequent", [2, 1, 0, 3]),
        ("count", CODES, "mean", [4 / 3, 5 / 3, 2 / 3, 3]),
        ("transactions", CODES, "mean", [4 / 3, 5 / 3, 2 / 3, 3]),
        ("choice", CODES.clip(0, 1), "mean", [2 / 3, 1, 1 / 3, 1]),
        ("choice", CODES / 2, "mean", [2 / 3, 5 / 6, 1 / 3, 1.5]),
    ],
)
def test_a_map_of_codes_shows_the_most_frequent_one(name, values, said, drawn):
    swept = xarray.Dataset({name: (("a", "b", "trial"), values)}, {"a": [1.0, 2.0], "b": [0.1, 0.2]})
    ax = mdf_loop.plot(swept, name)
    assert ax.figure.axes[-1].get_ylabel() == f"{name}: {said} of 1 to 3 trials"  # nan is none
    np.testing.assert_allclose(np.ravel(ax.collections[0].get_array().reshape(2, 2).T), drawn)
    line = mdf_loop.plot(swept.isel(a=0), name)
    assert bool(line.containers or line.collections) is (said == "mean")  # there is no band around codes
    assert line.get_legend().get_title().get_text() == said.replace("mean", "mean ± SD") + " of 3 trials"


def test_an_array_of_one_element_is_a_number_that_no_picture_shows():
    both = Results({"x": np.ones((1, 1)), "y": np.arange(3.0)}, About("m"))
    assert [[series.name for series in each.series] for each in panels(both)] == [["y"]]
    with pytest.raises(ArgumentError, match="only single numbers"):
        panels(Results({"x": np.ones(1)}, About("m")))
    assert panels(Results({"x": np.ones(1)}, About("m", trials=1)))


def test_categories_are_ticks():
    data = xarray.Dataset({"y": ("who", np.array([1.0, 2.0]))}, {"who": ["anna", "ben"]})
    assert [tick.get_text() for tick in mdf_loop.plot(data, "y").get_xticklabels()] == ["anna", "ben"]


def test_what_cannot_be_plotted_says_why(sweep):
    run = Results({"number": np.float64(1.5), "text": np.array("a", object), "cube": np.ones((2, 3, 4)), "rows": np.ones(3)})
    with pytest.raises(ArgumentError, match=r"'number' is a single number, 1.5"):
        run.plot("number")
    with pytest.raises(KindError, match="'text' holds no numbers"):
        run.plot("text")
    with pytest.raises(ArgumentError, match="'cube' has 3 axes"):
        run.plot("cube")
    with pytest.raises(ArgumentError, match="did you mean 'rows'"):
        run.plot("row")
    with pytest.raises(ArgumentError, match="phase plane needs the same"):
        run.plot("rows", "number")
    with pytest.raises(KindError, match="Results of a run"):
        mdf_loop.plot([1, 2, 3])
    with pytest.raises(ArgumentError, match="only single numbers"):
        Results({"number": 1.5}).plot()


@pytest.mark.parametrize(
    "path", [NEURON, DECISION, "examples/newton_mdf.yaml", "examples/openvino_loop.xml", "tests/models/ddm_dyn.onnx"]
)
def test_models_are_drawn_with_every_box_inside_its_cluster(path):
    from mdf_loop.pictures.layout import laid_out

    model = mdf_loop.prepare(path)
    picture = mdf_loop.draw(model).picture
    texts = {text.get_text() for text in model.plot().texts}
    assert {"\n".join(box.lines) for box in picture.top.all_boxes()} <= {text.replace(r"\$", "$") for text in texts}
    places = laid_out(picture)
    todo = [picture.top]
    while todo:
        cluster = todo.pop()
        around, inner = places[cluster.key], [places[item.key] for item in (*cluster.boxes, *cluster.clusters)]
        for place in inner:
            assert around.x <= place.x
            assert place.x + place.width <= around.x + around.width + 1e-9
            assert around.y <= place.y
            assert place.y + place.height <= around.y + around.height + 1e-9
        for k, one in enumerate(inner):
            for other in inner[:k]:
                apart = one.x + one.width <= other.x or other.x + other.width <= one.x
                assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
        todo += cluster.clusters


def test_a_misspelt_name_of_a_node_proposes_what_is_like_it_in_that_node():
    known = ["neuron.current", "neuron.spikes", "neuron.voltage", "voltage", "other.voltage"]
    assert close_to("neuron.voltag", known, 3) == ["neuron.voltage", "other.voltage"]
    assert close_to("neuron.voltgae", known, 3)[0] == "neuron.voltage"
    assert not {"neuron.current", "neuron.spikes"}.intersection(close_to("neuron.voltgae", known, 3))


def test_without_matplotlib_an_error_says_what_to_install(monkeypatch, neuron):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(mdf_loop.LoopError, match=r"pip install.*\[plot\]"):
        neuron.plot("voltage")


class Untouched:
    """An array in a file: reading it fails."""

    dtype, shape = np.dtype("float64"), (1000, 3)

    def __array__(self, *_, **__):
        raise AssertionError("read")

    __getitem__ = __iter__ = __len__ = __array__


def test_html_tells_what_is_known_and_reads_nothing():
    outputs = {"<b>": np.arange(20.0), "many": [1, 2], "far": Untouched()}
    text = Results(outputs, About("m<1>", 7, "condition", 3, {"x": 1.5}, {"far": Untouched()}))._repr_html_()
    assert "&lt;b&gt;" in text
    assert "m&lt;1&gt;" in text
    assert "<b>" not in text.replace("<b>results", "")
    assert "float64[1000, 3]" in text
    assert "[0, 1, 2, 3, 4, 5, ...]" in text
    assert text.count("<details") == 3
    assert "condition" in text


@pytest.mark.parametrize("path", [NEURON, "examples/newton_mdf.yaml", "examples/openvino_loop.xml", "tests/models/ddm_dyn.onnx"])
def test_html_of_a_model_runs_nothing(path, monkeypatch):
    from mdf_loop.models.model import Model

    model = mdf_loop.prepare(path)
    monkeypatch.setattr(Model, "run_once", None)
    monkeypatch.setattr(type(model), "found_by", None)
    text = model._repr_html_()
    assert all(name in text for name in (*model.inputs, *model.outputs))
    assert text.count("<details") == 2


def test_recorded_values_that_a_plot_leaves_out_are_said():
    about = About("m", 7, "condition", 3, recorded={"w": np.ones((9, 2)), "u": np.ones((9, 3)), "n": np.arange(9.0)})
    results = Results({"n": 3}, about)
    with pytest.warns(LoopWarning, match=re.escape("and not w, u; draw each by its name: plot('w')")):
        results.plot()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results.plot("w")


@pytest.mark.parametrize("dtype", [bool, int, float])
@pytest.mark.parametrize("steps", [1, 9])
def test_the_band_of_shares_stays_between_0_and_1(dtype, steps):
    chosen = np.zeros((20, steps), dtype)
    chosen[:2], chosen[:, -1] = 1, np.arange(20) > 0
    ax = Results({"choice": chosen}, About("m", trials=20, collected=["choice"])).plot("choice")
    ends = np.concatenate([path.vertices for drawn in ax.collections for path in drawn.get_paths()])[:, 1]
    assert 0 <= ends.min() < ends.max() <= 1
    ax = Results({"x": 2.0 * chosen}, About("m", trials=20, collected=["x"])).plot("x")
    assert max(path.vertices[:, 1].max() for drawn in ax.collections for path in drawn.get_paths()) > 2


@pytest.mark.parametrize("labelled", [False, True])
def test_an_axis_of_one_element_is_not_drawn(labelled):
    values = np.arange(6.0).reshape(6, 1, 1)
    r = Results({}, About(recorded={"S": values, "v": 2 * values[:, 0, 0]}))
    source = r.to_xarray() if labelled else r
    (line,) = mdf_loop.plot(source, "S").lines
    assert (line.get_label(), line.get_ydata().tolist()) == ("S", values.ravel().tolist())
    assert len(mdf_loop.plot(source).lines) == 2
