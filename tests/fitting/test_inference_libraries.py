"""The simulator in libraries of inference themselves: parameters that are known are recovered."""

import os
import runpy

import numpy as np
import pytest

import mdf_loop

DDM, NAMES = "examples/drift_diffusion.yaml", ["drift", "bound"]
TRUTH = {"drift": 1.2, "bound": 1.0}


def summary(trials):
    """Mean and spread of the trials of a row."""
    return [trials.mean(), trials.std()]


@pytest.fixture
def prior():
    torch = pytest.importorskip("torch", reason="sbi needs torch, which is large: pip install -e .[infer]")
    pytest.importorskip("sbi", reason="pip install -e .[infer]")
    from sbi.utils import BoxUniform

    torch.manual_seed(1)
    return BoxUniform(torch.tensor([0.2, 0.5]), torch.tensor([3.0, 2.0]))


@pytest.mark.parametrize("how", [{"simulation_batch_size": None}, {"simulation_batch_size": 7}, {}], ids=["all", "seven", "each"])
def test_sbi_simulates_each_row_with_noise_of_its_own(prior, how):
    from sbi.inference import simulate_for_sbi

    f = mdf_loop.simulator(DDM, NAMES, ["reaction_time", "evidence"], seed=7)
    theta, x = simulate_for_sbi(f.torch, prior, 50, show_progress_bar=False, **how)
    assert x.shape == (50, 2)
    assert x.dtype == theta.dtype
    np.testing.assert_array_equal(x.numpy(), f(theta, seed=range(50)).astype(np.float32))


def test_batches_of_processes_share_no_noise(prior):
    from sbi.inference import simulate_for_sbi

    f = mdf_loop.simulator(DDM, NAMES, ["evidence"], seed=7)
    _, x = simulate_for_sbi(f.torch, prior, 40, num_workers=2, simulation_batch_size=5, seed=1, show_progress_bar=False)
    assert len(np.unique(x.numpy())) == 40


def test_sbi_recovers_a_drift_and_a_bound(prior):
    import torch
    from sbi.inference import NPE, simulate_for_sbi

    f = mdf_loop.simulator(DDM, NAMES, ["reaction_time", "evidence"], trials=200, reduce=summary, seed=7)
    theta, x = simulate_for_sbi(f.torch, prior, 1500, simulation_batch_size=None, show_progress_bar=False)
    posterior = NPE(prior).append_simulations(theta, x)
    posterior.train(max_num_epochs=80)
    found = posterior.build_posterior().sample((1000,), x=f.torch(torch.tensor([*TRUTH.values()])), show_progress_bars=False)
    errors = (found.mean(0) - torch.tensor([*TRUTH.values()])).abs()
    assert (errors < 3 * found.std(0)).all()
    assert (found.std(0) < torch.tensor([0.6, 0.15])).all()


def test_bayesflow_makes_a_simulator_of_it():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    pytest.importorskip("torch", reason="BayesFlow needs a backend of keras: pip install -e .[infer]")
    bayesflow = pytest.importorskip("bayesflow", reason="pip install -e .[infer]")
    rng = np.random.default_rng(1)

    def prior():
        return {"drift": rng.uniform(0.2, 3), "bound": rng.uniform(0.5, 2)}

    f = mdf_loop.simulator(DDM, NAMES, ["reaction_time", "evidence"], trials=30, seed=7)
    found = bayesflow.make_simulator([prior, f.dict]).sample(20)
    assert found["reaction_time"].shape == found["evidence"].shape == (20, 30)
    theta = np.concatenate([found[name] for name in NAMES], axis=1)
    np.testing.assert_array_equal(found["evidence"], f(theta, seed=range(20))[..., 1])

    def priors(batch_shape):
        return {"drift": rng.uniform(0.2, 3, (*batch_shape, 1)), "bound": rng.uniform(0.5, 2, (*batch_shape, 1))}

    batched = [bayesflow.simulators.LambdaSimulator(each, is_batched=True) for each in (priors, f.dict)]
    found = bayesflow.simulators.SequentialSimulator(batched).sample(20)
    theta = np.concatenate([found[name] for name in NAMES], axis=1)
    np.testing.assert_array_equal(found["evidence"], f(theta, seed=f.seeds)[..., 1])


def test_the_page_of_the_gallery_draws_with_sbi(prior, monkeypatch, capsys):
    pytest.importorskip("arviz", reason="the page shows its samples with ArviZ: pip install 'arviz<1'")
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path("examples/gallery/posterior.py", run_name="__main__")  # it ends in assertions about the truth
    assert "drawn now" in capsys.readouterr().out
