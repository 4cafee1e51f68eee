"""Engine ``jax``: models, loops and sweeps run by JAX."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError

jax = pytest.importorskip("jax", reason='jax is not installed: pip install "mdf-loop[jax]"')

FHN, DDM = "examples/gallery/fitzhugh_nagumo.yaml", "examples/drift_diffusion.yaml"


@pytest.fixture(autouse=True)
def _in_64_bits():
    jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("path", [FHN, "examples/rnn.yaml", "examples/gallery/rnn.onnx", "examples/leaky_accumulator.yaml"])
def test_a_run_gives_what_other_engines_give(path, caplog):
    model = mdf_loop.prepare(path)
    given = {n: np.ones((2, *p.type.shape[1:]), p.type.dtype) for n, p in model.inputs.items() if p.required}
    with mdf_loop.options(engine="jax"), caplog.at_level("INFO", "mdf_loop.models.jax.by_jax"):
        found = model(**given)
    assert not caplog.records
    with mdf_loop.options(engine="interpret"):
        want = model(**given)
    assert list(found) == list(want)
    for name in want:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-5, atol=1e-6)


def test_what_has_no_form_runs_in_another_engine(caplog):
    with mdf_loop.options(engine="jax"), caplog.at_level("INFO", "mdf_loop.models.jax.by_jax"):
        found = mdf_loop.run("examples/newton.yaml")
    assert "not by JAX" in caplog.text
    assert abs(found["root"] - np.sqrt(2)) < 1e-12


def test_a_sweep_is_one_call():
    currents = np.linspace(0, 1, 5)
    with mdf_loop.options(engine="jax"):
        found = mdf_loop.sweep(FHN, {"current": currents})
    want = mdf_loop.sweep(FHN, {"current": currents})
    for name in want.data_vars:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-8, atol=1e-9)


def test_trials_have_numbers_of_their_own_and_the_same_again():
    with mdf_loop.options(engine="jax"):
        first, again = (
            mdf_loop.sweep(DDM, {"drift": [0.5, 2.0]}, trials=200, seed=3, outputs=["reaction_time", "path"]) for _ in range(2)
        )
        cut = mdf_loop.sweep(DDM, {"drift": [0.5, 2.0]}, trials=200, seed=3, outputs=["reaction_time"], chunk=70)
    times = first.reaction_time.values
    np.testing.assert_array_equal(times, again.reaction_time.values)
    np.testing.assert_array_equal(times, cut.reaction_time.values)
    assert len(np.unique(times)) > 150
    assert times[0].mean() > times[1].mean()
    lengths = np.isfinite(first.path.values).sum(-1)
    np.testing.assert_allclose(times, 0.3 + 0.001 * lengths, rtol=1e-9)


def test_double_precision_has_to_be_on():
    jax.config.update("jax_enable_x64", False)
    try:
        with mdf_loop.options(engine="jax"), pytest.raises(ArgumentError, match="jax_enable_x64"):
            mdf_loop.run(FHN)
    finally:
        jax.config.update("jax_enable_x64", True)
