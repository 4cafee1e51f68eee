"""Rows of iterations have a time, where the model says how long an iteration takes."""

import numpy as np
import pytest
import yaml

pytest.importorskip("xarray", reason="labelled results need it: pip install mdf-loop[sweep]")

import mdf_loop

DDM, FITZHUGH = "examples/drift_diffusion.yaml", "examples/gallery/fitzhugh_nagumo.yaml"

MODEL = """
neuron:
  graphs:
    neuron:
      nodes:
        cell:
          input_ports: {current: {default_value: 1.5}}
          parameters:
            body: {value: {derivatives: {v: current - v}, dt: 0.25, collected: {path: v}}}
            run: {function: onnx::Loop, args: {M: 6, cond: true, v: 0.0, body: body}}
          output_ports: {path: {value: run.path}}
"""


def test_collected_and_recorded_values_have_the_time_at_the_end_of_their_iteration():
    found = mdf_loop.run(DDM, seed=1, dt=0.002)
    path = found.to_xarray().path
    np.testing.assert_allclose(path.time, 0.002 * np.arange(1, len(path) + 1))
    assert path.time.dims == ("iteration",)
    assert abs(float(path.time[-1]) + 0.3 - found["reaction_time"]) < 1e-9
    recorded = mdf_loop.run(DDM, seed=1, record=["decision.trial.x"], every=5).to_xarray()
    name = next(name for name in recorded if "trial" in name)
    np.testing.assert_allclose(recorded[name].iteration % 5, 0)
    np.testing.assert_allclose(recorded[name].time, 0.001 * (recorded[name].iteration + 1))


def test_trials_and_sweeps_have_it_unless_the_step_is_swept():
    trials = mdf_loop.run(DDM, seed=1, trials=3).to_xarray()
    np.testing.assert_allclose(trials.time, 0.001 * np.arange(1, trials.sizes["iteration"] + 1))
    swept = mdf_loop.sweep(DDM, {"drift": [0.5, 1.0]}, seed=1, dt=0.004)
    np.testing.assert_allclose(swept.time, 0.004 * np.arange(1, swept.sizes["iteration"] + 1))
    assert "time" not in mdf_loop.sweep(DDM, {"dt": [0.002, 0.004]}, seed=1).coords


def test_a_step_that_equations_say_counts(tmp_path):
    path = tmp_path / "neuron.yaml"
    path.write_text(MODEL)
    found = mdf_loop.run(path)
    np.testing.assert_allclose(found.to_xarray().time, 0.25 * np.arange(1, 7))
    np.testing.assert_allclose(found["path"], 1.5 * (1 - 0.75 ** np.arange(1, 7)), rtol=1e-12)


def test_what_is_saved_keeps_it_and_an_output_of_that_name_stays(tmp_path):
    found = mdf_loop.run(DDM, seed=1)
    found.save(tmp_path / "run.nc")
    again = mdf_loop.open(tmp_path / "run.nc")
    np.testing.assert_allclose(again.to_xarray().time, found.to_xarray().time)
    named = yaml.safe_load(MODEL)
    ports = named["neuron"]["graphs"]["neuron"]["nodes"]["cell"]["output_ports"]
    ports["time"] = {"value": "run.v"}
    (tmp_path / "named.yaml").write_text(yaml.safe_dump(named))
    labelled = mdf_loop.run(tmp_path / "named.yaml").to_xarray()
    assert "time" in labelled.data_vars
    assert "time" not in labelled.path.coords


def test_models_without_a_step_have_none():
    assert "time" not in mdf_loop.run("examples/accumulate.yaml", x=[10, 20, 5], y=0).to_xarray().coords
