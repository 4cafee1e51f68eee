"""Sweeps and trials next to the same work written by hand: ``python benchmarks/sweeps.py [--part 0.1]``.

Each row is the least time of several, and its ratio to numpy's: 100,000 trials of a drift-diffusion model (1,000 drifts, 100
trials each), and 500 trials of a leaky competing accumulator of 5 units.  The last row is 10,000 points of a scheduled model
of 1,000 steps, next to a loop of MDF's EvaluableGraph, of which a few steps are run.  ``--part`` runs a part of the trials.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mdf_loop

EXAMPLES = Path(__file__).parent.parent / "examples"
DIFFUSION, OSCILLATOR = EXAMPLES / "drift_diffusion.yaml", EXAMPLES / "oscillator.yaml"

COMPETING = """
compete (int64 i, bool go, double[n] x) => (bool go_out, double[n] x_out) {
  total = ReduceSum <keepdims = 0> (x)
  others = Sub (total, x)
  leaked = Mul (leak, x)
  inhibited = Mul (inhibition, others)
  lost = Add (leaked, inhibited)
  rate = Sub (stimulus, lost)
  drift = Mul (dt, rate)
  z = RandomNormalLike (x)
  noisy = Mul (noise, z)
  step = Add (drift, noisy)
  moved = Add (x, step)
  x_out = Relu (moved)
  strongest = ReduceMax <keepdims = 0> (x_out)
  go_out = Less (strongest, threshold)
}
"""

ACCUMULATOR = {"leak": 0.2, "inhibition": 0.4, "dt": 0.01, "noise": 0.02, "threshold": 1e9}


def competing() -> object:
    """A leaky competing accumulator of 5 units, with noise, that runs 2,000 steps."""
    from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

    values = {**ACCUMULATOR, "stimulus": [1.0, 0.8, 0.6, 0.5, 0.4], "start": [0.0] * 5, "body": {"onnx": COMPETING}}
    parameters = [Parameter(id=name, value=value) for name, value in values.items()]
    args = {"M": 2000, "cond": True, "x": "start", "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    return Graph(id="competing", nodes=[Node(id="units", parameters=parameters, output_ports=[OutputPort(id="x", value="run")])])


def diffusion_by_numpy(drifts: np.ndarray, trials: int, seed: int = 1) -> np.ndarray:
    """Reaction times by hand: all trials at once, those that have ended left out."""
    rng = np.random.default_rng(seed)
    drift = np.repeat(drifts, trials) * 0.001
    times, x, left = np.full(len(drift), 0.3 + 5.0), np.zeros(len(drift)), np.arange(len(drift))
    spread = np.sqrt(0.001)
    for k in range(5000):
        x = x + drift + spread * rng.standard_normal(len(x))
        over = np.abs(x) >= 1.0
        if over.any():
            times[left[over]] = 0.3 + 0.001 * (k + 1)
            x, drift, left = x[~over], drift[~over], left[~over]
            if not len(x):
                break
    return times


def competing_by_numpy(trials: int, seed: int = 1) -> np.ndarray:
    """The accumulators by hand."""
    rng, x, a = np.random.default_rng(seed), np.zeros((trials, 5)), ACCUMULATOR
    stimulus = np.array([1.0, 0.8, 0.6, 0.5, 0.4])
    for _ in range(2000):
        others = x.sum(axis=1, keepdims=True) - x
        rate = stimulus - (a["leak"] * x + a["inhibition"] * others)
        x = np.maximum(x + (a["dt"] * rate + a["noise"] * rng.standard_normal(x.shape)), 0)
    return x


def steps_in_mdf(count: int = 20) -> float:
    """Seconds that one step of the oscillator takes in MDF's engine."""
    from modeci_mdf.execution_engine import EvaluableGraph

    with contextlib.redirect_stdout(io.StringIO()):
        graph = EvaluableGraph(mdf_loop.load(OSCILLATOR).graphs[0])
        graph.evaluate()
        begun = time.perf_counter()
        for _ in range(count):
            graph.evaluate(time_increment=0.01)
    return (time.perf_counter() - begun) / count


def seconds(call: Callable[[], object], repeat: int) -> float:
    """The least time of several."""
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return min(times)


def main() -> None:
    """Run all and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--part", type=float, default=1.0)
    arguments.add_argument("--repeat", type=int, default=2)
    said = arguments.parse_args()
    drifts = np.linspace(0, 2, max(int(1000 * said.part), 1))
    model, units, trials = mdf_loop.prepare(DIFFUSION), mdf_loop.prepare(competing()), max(int(500 * said.part), 2)
    rows = [
        (
            f"drift diffusion, {len(drifts)} drifts x 100 trials",
            lambda: mdf_loop.sweep(model, {"drift": drifts}, trials=100, seed=1, outputs=["reaction_time"]),
            lambda: diffusion_by_numpy(drifts, 100),
        ),
        (
            f"leaky competing accumulator, 5 units, 2000 steps, {trials} trials",
            lambda: mdf_loop.run(units, trials=trials, seed=1),
            lambda: competing_by_numpy(trials),
        ),
    ]
    print(f"{'':62} {'mdf_loop':>10} {'numpy':>10} {'ratio':>7}")
    for name, ours, theirs in rows:
        a, b = seconds(ours, said.repeat), seconds(theirs, said.repeat)
        print(f"{name:62} {a:8.2f} s {b:8.2f} s {a / b:7.2f}")
    side = max(int(100 * said.part**0.5), 2)
    over = {"stiffness": np.linspace(0.5, 5, side), "damping": np.linspace(0.1, 1, side)}
    ours = seconds(lambda: mdf_loop.sweep(OSCILLATOR, over, steps=1000, time_increment=0.01), said.repeat)
    theirs = steps_in_mdf() * 1000 * side**2
    name = f"scheduled oscillator, {side**2} points x 1000 steps; MDF's engine"
    print(f"{name:62} {ours:8.2f} s {theirs:8.0f} s {ours / theirs:7.5f}")


if __name__ == "__main__":
    main()
