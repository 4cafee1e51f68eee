"""Data that are one run of a model with noise: what depends on what was before."""

import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter

pytest.importorskip("scipy", reason="a fit is scipy's: pip install -e .[fit]")

import mdf_loop
from mdf_loop.errors import LoopWarning


def looped(carried, collected, parameters, output, **let):
    """A loop of 200 iterations in a node, and what it collects."""
    body = {"let": let, "carried": carried, "collected": {output: collected}}
    values = [Parameter(id=name, value=value) for name, value in {**parameters, "body": body}.items()]
    run = Parameter(id="run", function="onnx::Loop", args={"M": 200, **dict.fromkeys(carried, 0.0), "body": "body"})
    node = Node(id="n", parameters=[*values, run], output_ports=[OutputPort(id=output, value=f"run.{output}")])
    return Model(id="m", graphs=[Graph(id="g", nodes=[node])])


def test_errors_of_a_path_with_noise_that_is_carried_are_as_large_as_what_is_missed():
    carried = {"v": "v + (drive - v) / 10 + 0.1 * noise(v)"}
    model, missed = mdf_loop.prepare(looped(carried, "v", {"drive": 1.0}, "path")), []
    for seed in range(12):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # noise that the simulations have as well is no misfit
            found = mdf_loop.fit(model, {"path": model(seed=seed)["path"]}, {"drive": (0.2, 3.0)}, trials=100, seed=1)
        missed.append((found["drive"] - 1.0) / found.errors["drive"])
    assert 0.4 < np.sqrt(np.mean(np.square(missed))) < 1.7


def learner():
    let = {
        "b_is_chosen": "uniform() < 1 / (1 + exp((a - b) / temperature))",
        "reward": "uniform() < where(b_is_chosen, 0.7, 0.4)",
    }
    carried = {"a": "a + where(b_is_chosen, 0, rate * (reward - a))", "b": "b + where(b_is_chosen, rate * (reward - b), 0)"}
    return looped(carried, "where(b_is_chosen, 0, 1)", {"rate": 0.3, "temperature": 0.25}, "choices", **let)


def test_choices_of_one_subject_are_a_warning_that_says_how_they_are_fitted():
    choices = mdf_loop.run(learner(), seed=1)["choices"]
    wanted = r"one sequence of 200 choices.*fit\(model, over={'rate': \(0.1, 0.9\)}, loss='surprise', choices=\.\.\.\)"
    with pytest.warns(LoopWarning, match=wanted) as said:
        found = mdf_loop.fit(learner(), {"choices": choices}, {"rate": (0.1, 0.9)}, trials=20, seed=1)
    assert len(said) == 1
    assert np.isnan(found.errors["rate"])
