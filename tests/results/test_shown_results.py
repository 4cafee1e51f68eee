"""What a terminal and a notebook show of results and of models, without their arrays in full."""

import numpy as np
import pytest
from commands import run_main

import mdf_loop
from mdf_loop.cli import describe
from mdf_loop.models.html_tables import MOST_ROWS, spread
from mdf_loop.models.results import About, Results

DECISION = "examples/drift_diffusion.yaml"


def test_results_of_trials_show_mean_and_standard_deviation():
    results = mdf_loop.run(DECISION, trials=50, seed=1)
    times = results["reaction_time"]
    said = f"{times.mean():.4g} +- {times.std():.2g}, from {times.min():.4g} to {times.max():.4g}"
    assert repr(results).splitlines()[0] == "results of drift_diffusion, 50 trials"
    assert [line for line in repr(results).splitlines() if "reaction_time" in line and line.endswith(said)]
    assert said in results._repr_html_()
    assert "<b>results of drift_diffusion, 50 trials</b>" in results._repr_html_()
    assert "+-" not in repr(mdf_loop.run(DECISION, seed=1))


def test_of_an_array_that_begins_and_ends_with_nan_the_terminal_shows_numbers():
    value = np.full((20, 30, 2), np.nan)
    assert "nan" in describe(value)[2]
    value[5, 9] = 1.5, 2.5
    assert describe(value)[2] == "1.5 2.5 ... and 1198 of 1200 are nan"


def test_a_recorded_value_has_a_line_of_its_own():
    results = mdf_loop.run(DECISION, seed=1, record="decision.x_out")
    (line,) = [line for line in repr(results).splitlines() if "recorded" in line]
    assert line.split()[:2] == ["recorded", "decision.x_out"]
    assert f"float64[{len(results.recorded['decision.x_out'])}]" in line


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([1.0, 3.0]), "2 +- 1, from 1 to 3"),
        (np.array([1.0, np.nan, 3.0, np.inf]), "2 +- 1, from 1 to 3"),
        (np.array([2, 4], np.uint8), "3 +- 1, from 2 to 4"),
        (np.array([True, False, True, True]), "true in 75.0% of trials"),
        (np.array([np.nan]), ""),
        (np.array([]), ""),
        (np.array(["a", "b"], object), ""),
        (np.ones((2, 3)), ""),
        ([1.0, 2.0], ""),
    ],
)
def test_only_one_number_of_each_trial_has_a_mean(value, said):
    assert spread("y", value) == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("choice", np.array([2, 0, 2, 3, 0]), "0 in 40.0%, 2 in 40.0%, 3 in 20.0% of trials"),
        ("n.winner", np.array([2.0, 0.0, np.nan, 3.0, 0.0]), "0 in 50.0%, 2 in 25.0%, 3 in 25.0% of trials"),
        ("choice", np.array([0, 1, 1, 1]), "1 in 75.0%, 0 in 25.0% of trials"),
        ("choice", np.array([1, 1]), "1 in 100.0% of trials"),
        ("choice", np.array([0.5, 1.5, 3.5]), "1.833 +- 1.2, from 0.5 to 3.5"),
        ("count", np.array([2, 0, 2, 3, 0]), "1.4 +- 1.2, from 0 to 3"),
    ],
)
def test_labels_have_shares_of_trials(name, value, said):
    assert spread(name, value) == said


def test_many_outputs_are_counted_and_not_listed():
    results = Results({f"y{k}": np.float64(k) for k in range(MOST_ROWS + 2)}, About(trials=1))
    lines = repr(results).splitlines()
    assert lines[0] == "results of a model, 1 trial"
    assert lines[-1] == "  ... and 2 more"
    assert len(lines) == MOST_ROWS + 2


def test_a_model_lists_what_can_be_given_without_its_body():
    model = mdf_loop.prepare("examples/gallery/spikes.yaml")
    assert "sigma" in repr(model)
    assert "body" not in repr(model)
    assert "sigma<" in model._repr_html_()
    assert ">body<" not in model._repr_html_()


def test_the_command_shows_them_too_and_says_what_it_wrote(tmp_path, capsys):
    picture, target = tmp_path / "run.json", tmp_path / "model.onnx"
    assert run_main("run", DECISION, "--trials", "20", "--seed", "1", "-o", picture) == 0
    out, err = capsys.readouterr()
    assert "+-" in out
    assert err == f"mdf-loop: written to {str(picture)!r}\n"
    assert run_main("convert", "examples/newton.yaml", target) == 0
    written, inputs, constants = capsys.readouterr().err.splitlines()
    assert written == f"mdf-loop: written to {str(target)!r}"
    assert inputs.startswith("mdf-loop: inputs in it: a (default 2.0); onnxruntime lists those with a default in")
    assert constants == "mdf-loop: constants in it: start, tolerance (--as-input start makes one an input)"


def test_one_run_says_that_it_ended_at_m(capsys):
    found = mdf_loop.run(DECISION, drift=0, bound=50)
    said = "drift_diffusion, ended at M, not earlier by its condition"
    assert found.stop == "trip count"
    assert all(said in text for text in (repr(found), found._repr_html_()))
    assert "ended at M" not in repr(mdf_loop.run(DECISION, drift=3.0, bound=0.1))
    assert "ended at M" not in repr(mdf_loop.run("examples/accumulate.yaml", x=[10, 20], y=0))
    assert run_main("run", DECISION, "--set", "drift=0", "--set", "bound=50") == 0
    assert "ended at M" in capsys.readouterr().out
