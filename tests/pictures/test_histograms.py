"""Histograms of trials: bars of values on a grid, and what a plot of trials leaves out."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.models.results import About, Results
from tests.pictures.test_plots import DECISION

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_bars_of_values_on_a_grid_have_as_many_places_each(kind):
    """No comb: of values that are as frequent everywhere each bar but the last has as many."""
    values = (0.3 + 0.001 * np.arange(777.0)).astype(kind).repeat(2)
    *bars, _ = Results({"rt": values}, About("m", trials=len(values))).plot("rt").patches
    assert len(bars) > 5
    assert len({bar.get_height() for bar in bars}) == 1
    few = np.array([0.2, 0.5, 0.25, 0.3, 0.25])
    ax = Results({"rt": few}, About("m", trials=5)).plot("rt")
    assert [bar.get_height() for bar in ax.patches] == [1, 2, 1, 0, 0, 0, 1]
    np.testing.assert_allclose(ax.patches[0].get_x(), 0.175)


def test_values_on_no_grid_have_the_bars_of_numpy():
    values = np.random.default_rng(1).normal(size=300)
    ax = Results({"x": values}, About("m", trials=300)).plot("x")
    assert [bar.get_height() for bar in ax.patches] == np.histogram(values, "auto")[0].tolist()


def test_an_output_that_a_plot_of_trials_leaves_out_is_said():
    run = mdf_loop.run(DECISION, trials=30, seed=1)
    assert "draws it" in run.plot().get_title()
    assert run.plot("reaction_time").get_title() == ""
