"""
A posterior with sbi and ArviZ
==============================

This script infers drift, bound and non-decision time of a diffusion model from 200 decisions. sbi trains a network on 3,000
simulated experiments. The network gives the posterior of the parameters for the observed experiment, and ArviZ plots it.
Install both with ``pip install -e ".[infer]" "arviz<1"``. If sbi is not installed, this page shows stored samples that the same
code drew.
"""

import importlib.util
from pathlib import Path

import arviz
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# An experiment is 200 decisions. Its summary is five quantiles of the reaction times, and the share of decisions at the upper
# bound.
NAMES, LOW, HIGH = ["drift", "bound", "non_decision_time"], [0.2, 0.5, 0.1], [3.0, 2.0, 0.6]
summary = {"reaction_time": [0.1, 0.3, 0.5, 0.7, 0.9], "evidence": lambda evidence: np.mean(evidence > 0)}
simulate = mdf_loop.simulator(MODEL, NAMES, ["reaction_time", "evidence"], trials=200, reduce=summary, seed=7)

truth = np.array([1.2, 1.1, 0.3])
observed = simulate(truth, seed=1_000_002)
print("observed:", observed.round(3))


# %%
# sbi draws parameters from a uniform prior, and calls the simulator once for all of them.
def sampled():
    """Samples of the posterior."""
    import torch
    from sbi.inference import NPE, simulate_for_sbi
    from sbi.utils import BoxUniform

    torch.manual_seed(1)
    prior = BoxUniform(torch.tensor(LOW), torch.tensor(HIGH))
    theta, x = simulate_for_sbi(simulate.torch, prior, 3_000, simulation_batch_size=None, show_progress_bar=False)
    inference = NPE(prior).append_simulations(theta, x)
    inference.train(max_num_epochs=60)
    given = torch.as_tensor(observed, dtype=torch.float32)
    return inference.build_posterior().sample((2000,), x=given, show_progress_bars=False).numpy()


# %%
# Two thousand samples from the posterior. Lines and points show the true parameters.
kept = np.load(MODEL.with_suffix(".npz"))
has_sbi = importlib.util.find_spec("sbi") is not None
samples = sampled() if has_sbi else kept["samples"]
print("drawn now" if has_sbi else f"sbi is not installed: these are stored samples, drawn with {kept['versions']}")

posterior = arviz.from_dict({name: samples[None, :, k] for k, name in enumerate(NAMES)})
print(arviz.summary(posterior, kind="stats"))
true = dict(zip(NAMES, truth, strict=True))
arviz.plot_pair(posterior, kind="kde", marginals=True, reference_values=true, figsize=(7, 7), textsize=10)

error = np.abs(samples.mean(axis=0) - truth)
assert np.allclose(observed, kept["observed"])  # the samples are those of the same observation
assert (error < 3 * samples.std(axis=0)).all()
