"""Pictures say how many runs ended at M, as printed results do."""

import pytest

import mdf_loop
from mdf_loop.plots.plot import figure

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("xarray")
DECISION = "examples/drift_diffusion.yaml"


@pytest.fixture(autouse=True)
def _no_windows():
    matplotlib.use("agg", force=True)
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_a_picture_says_how_many_runs_ended_at_m():
    short = {"max_steps": 20, "trials": 30, "seed": 1}
    for found in (mdf_loop.run(DECISION, **short), mdf_loop.sweep(DECISION, {"drift": [0.0, 1.0]}, **short)):
        runs = "60 of 60 runs" if hasattr(found, "attrs") else "30 of 30 trials"
        said = f"{runs} ended at M, not earlier by their condition"
        name = "evidence"
        for ax in (mdf_loop.plot(found), mdf_loop.plot(found, name), figure(found).axes[0]):
            assert said in ax.get_title()
        ax.set_title("mine")
        assert mdf_loop.plot(found, name, ax=ax).get_title() == "mine"
    assert "ended at M" not in mdf_loop.plot(mdf_loop.run(DECISION, trials=30, seed=1), name).get_title()
