"""Plots of what is not all there: an interrupted sweep, and numbers between gaps."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.models.results import About, Results

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("xarray")


@pytest.fixture(autouse=True)
def _no_windows():
    matplotlib.use("agg", force=True)
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_an_interrupted_sweep_is_drawn_as_far_as_it_came():
    grid = {"drift": [0.0, 1.0, 2.0], "bound": [0.5, 1.0]}
    sweep = mdf_loop.sweep("examples/drift_diffusion.yaml", grid, trials=20, seed=1, outputs=["reaction_time"])
    found = sweep.copy(deep=True)
    found.reaction_time[1:] = np.nan
    found.reaction_time[0, :, 7:] = np.nan
    ax = mdf_loop.plot(found.isel(bound=0), "reaction_time")
    assert ax.get_legend().get_title().get_text() == "mean ± SD of 7 trials"
    (line, *_), (bars,) = ax.lines, ax.containers  # no line leads to the only point
    assert (line.get_marker(), line.get_markevery()) == ("o", [0])
    assert len(bars[2][0].get_segments()) == 1
    found.reaction_time[1] = sweep.reaction_time[1]
    ax = mdf_loop.plot(found, "reaction_time")
    assert ax.figure.axes[1].get_ylabel() == "reaction_time: mean of 7 to 20 trials"


@pytest.mark.parametrize(
    ("there", "points"), [("1111", []), ("0000", []), ("1011", [0]), ("1101", [3]), ("0100", [1]), ("1010", [0, 2]), ("1", [0])]
)
def test_a_number_between_gaps_is_a_point(there, points):
    values = np.where(np.array([*there]) == "1", 2.0, np.nan)
    (line,) = Results({"x": values}, About("m", collected=["x"])).plot("x").lines
    assert (line.get_markevery() or []) == points
    assert line.get_linestyle() == "-"


def test_a_legend_says_which_line_is_a_mean():
    values = {"choice": (("a", "trial"), [[0, 2, 2], [1, 1, 3.0]]), "rate": (("a", "trial"), [[0, 2, 1.5], [1, 1, 3]])}
    swept = pytest.importorskip("xarray").Dataset(values, {"a": [1.0, 2.0]})
    title = mdf_loop.plot(swept).get_legend().get_title().get_text()
    assert title.splitlines() == ["choice: most frequent of 3 trials", "rate: mean ± SD of 3 trials"]


@pytest.mark.parametrize(("start", "label"), [(0.0, "time"), (0.3, "t")])
def test_a_time_of_the_model_that_is_not_that_of_dt_has_its_name(start, label):
    t = start + 0.1 * np.arange(1, 21)
    values = {"t": t, "v": np.sin(t)}
    ax = Results(values, About("m", collected=["t", "v"], steps={"t": 0.1, "v": 0.1})).plot("v")
    assert ax.get_xlabel() == label
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), t)
