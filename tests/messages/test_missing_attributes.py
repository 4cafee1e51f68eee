"""Attributes that people look for on models and results, and that these do not have: the message has the call that does it."""

import copy
import pickle
import re

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError, MissingOutput

MODEL = mdf_loop.prepare("examples/drift_diffusion.yaml")
RESULTS = MODEL(seed=1, trials=3)


@pytest.mark.parametrize(
    ("name", "cure"),
    {
        "run": "a model is called: results = model(x=...)",
        "evaluate": "a model is called: results = model(x=...)",
        "sweep": "write mdf_loop.sweep(model, ...)",
        "seed": "it is an argument of a call: model(seed=...)",
        "verify": "it is a command: mdf-loop verify FILE",
        "drift": "it is an input: model(drift=...) gives it a value, and model.inputs['drift'].default is its own one",
        "reaction_time": "it is an output: write model(...)['reaction_time']",
    }.items(),
)
def test_of_models(name, cure):
    with pytest.raises(AttributeError, match=f"^a model has no attribute '{name}'; {re.escape(cure)}$"):
        getattr(MODEL, name)


@pytest.mark.parametrize(
    ("name", "cure"),
    {
        "reaction_time": "write results['reaction_time']",
        "mean": "write results['evidence'].mean for one output; results.to_xarray() has labelled arrays of all",
        "to_csv": "write results.to_xarray().to_dataframe().to_csv",
        "isel": "write results.to_xarray().isel",
        "trials": "write results.about.trials",
        "recordd": "did you mean 'recorded'?",
    }.items(),
)
def test_of_results(name, cure):
    with pytest.raises(AttributeError, match=f"^results have no attribute '{name}'; {re.escape(cure)}$"):
        getattr(RESULTS, name)


def test_cures_of_results_can_be_called():
    table = RESULTS.to_xarray().to_dataframe()
    assert len(table.describe()) == 8
    assert "reaction_time" in table.to_csv()
    assert RESULTS.to_xarray().isel(trial=1)["reaction_time"] == RESULTS["reaction_time"][1]
    assert RESULTS.to_xarray().median().reaction_time == np.median(RESULTS["reaction_time"])


def test_an_output_by_its_number():
    with pytest.raises(MissingOutput, match=re.escape("called 0: outputs have names, evidence, reaction_time, path; trials and")):
        RESULTS[0]


def test_copies_are_complete():
    assert copy.copy(MODEL)(seed=1)["reaction_time"] == pickle.loads(pickle.dumps(MODEL))(seed=1)["reaction_time"]
    assert not hasattr(type(MODEL).__new__(type(MODEL)), "inputs_of_it")
    assert copy.deepcopy(RESULTS).about.trials == 3
    assert not hasattr(type(RESULTS).__new__(type(RESULTS)), "inputs_of_it")


@pytest.mark.parametrize("wrong", [1, "x", [1, 2]])
def test_what_is_drawn_on_is_axes(wrong):
    pytest.importorskip("matplotlib").use("Agg")
    message = f"ax must be axes of matplotlib, such as those of plt.subplots(); got {type(wrong).__name__}"
    for plot in (
        lambda: RESULTS.plot("reaction_time", ax=wrong),
        lambda: MODEL.plot(wrong),
        lambda: mdf_loop.draw(MODEL).plot(wrong),
    ):
        with pytest.raises(KindError, match=re.escape(message)) as caught:
            plot()
        assert ("of several axes give one" in str(caught.value)) == isinstance(wrong, list)


def test_kinds_of_plots():
    with pytest.raises(
        ArgumentError, match=re.escape("plot is called itself, and the results decide the kind of plot: results.plot('x')")
    ):
        RESULTS.plot.line(x="time")
