"""Sweeps and trials next to the same work written by hand: ``python benchmarks/sweeps.py [--part 0.1]``.

100,000 trials of a drift-diffusion model (1,000 drifts, 100 trials each), and 500 trials of a leaky competing accumulator of
5 units: engine ``jit``, with one worker and with two, next to the same work by hand.  Engine ``numpy`` runs trials one by one;
its row is a hundredth of them, times a hundred.  By hand is numba
(if it is installed) with a stream for each trial, as we have them, with one stream for all trials, and with numpy's older
global stream, as most people write it; and numpy with all trials at once, plainly, and with those left out that have ended.
The time is that of the processor, the least of several, which are run in turn: what else a machine does counts for little.
Below each table are the seconds on the clock that one worker and two take, which say something where two cores are free, what two
take of the processor's time, and what two threads gain that share about as much hashing, which have nothing to wait for: more is
not to be had on the machine.  Runs without noise are 1,000 neurons of FitzHugh and Nagumo, next to one loop over vectors of them;
all that each collects is kept.  What a point costs is shown by 20,000 drifts with a trial each, next to as many trials at one
drift.  The last row is 10,000 points of a scheduled model of 1,000 steps, next to a loop of
MDF's EvaluableGraph, of which a few steps are run.  ``--part`` runs a part of the trials.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from timing import machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np

import mdf_loop

EXAMPLES = Path(__file__).parent.parent / "examples"
DIFFUSION, OSCILLATOR = EXAMPLES / "drift_diffusion.yaml", EXAMPLES / "oscillator.yaml"
NEURON = EXAMPLES / "gallery" / "fitzhugh_nagumo.yaml"

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


def diffusion_by_plain_numpy(drifts: np.ndarray, trials: int, seed: int = 1) -> np.ndarray:
    """Reaction times by hand: all trials at once, up to the end of the last one."""
    rng = np.random.default_rng(seed)
    drift = np.repeat(drifts, trials) * 0.001
    times, x, running = np.full(len(drift), 0.3), np.zeros(len(drift)), np.ones(len(drift), bool)
    spread = np.sqrt(0.001)
    for _ in range(5000):
        x = np.where(running, x + drift + spread * rng.standard_normal(len(x)), x)
        times = np.where(running, times + 0.001, times)
        running &= np.abs(x) < 1.0
        if not running.any():
            break
    return times


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


def by_numba() -> dict[str, tuple[Callable[..., object], ...]] | None:
    """Both models by hand in numba, for each way to draw: a stream for each trial, one stream, numpy's older global one."""
    try:
        import numba
    except ImportError:
        return None

    @numba.njit  # type: ignore[untyped-decorator]
    def older(rng: None) -> float:
        return np.random.standard_normal()

    @numba.njit  # type: ignore[untyped-decorator]
    def newer(rng: np.random.Generator) -> float:
        return rng.standard_normal()

    def both(draw: Callable[..., float]) -> tuple[Callable[..., object], ...]:
        return numba.njit(diffusing(draw)), numba.njit(accumulating(draw))

    return {"each": both(newer), "one": both(newer), "older": both(older)}


def diffusing(draw: Callable[..., float]) -> Callable[..., None]:
    """What numba compiles of the drift-diffusion model."""

    def diffusion(rng: object, drift: float, times: np.ndarray) -> None:
        for k in range(len(times)):
            x, t = 0.0, 0.3
            for _ in range(5000):
                x += drift * 0.001 + np.sqrt(0.001) * draw(rng)
                t += 0.001
                if not abs(x) < 1.0:
                    break
            times[k] = t

    return diffusion


def accumulating(draw: Callable[..., float]) -> Callable[..., None]:
    """What numba compiles of the accumulators."""

    def accumulators(rng: object, stimulus: np.ndarray, results: np.ndarray) -> None:
        x = np.empty(5)
        for k in range(len(results)):
            x[:] = 0.0
            for _ in range(2000):
                total = 0.0
                for j in range(5):
                    total += x[j]
                strongest = 0.0
                for j in range(5):
                    rate = stimulus[j] - (0.2 * x[j] + 0.4 * (total - x[j]))
                    x[j] = max(x[j] + (0.01 * rate + 0.02 * draw(rng)), 0.0)
                    strongest = max(strongest, x[j])
                if not strongest < 1e9:
                    break
            results[k] = x

    return accumulators


def diffusion_by_numba(run: Callable[..., object], drifts: np.ndarray, trials: int, streams: str) -> np.ndarray:
    """Reaction times by hand in numba."""
    times = np.empty((len(drifts), trials))
    one = np.random.default_rng(1) if streams == "one" else None
    for p, drift in enumerate(drifts):
        if streams != "each":
            run(one, drift, times[p])
            continue
        for k in range(trials):
            run(np.random.default_rng(np.random.SeedSequence(1, spawn_key=(p, k))), drift, times[p, k : k + 1])
    return times


def competing_by_numba(run: Callable[..., object], trials: int, streams: str) -> np.ndarray:
    """The accumulators by hand in numba."""
    stimulus, results = np.array([1.0, 0.8, 0.6, 0.5, 0.4]), np.empty((trials, 5))
    if streams != "each":
        run(np.random.default_rng(1) if streams == "one" else None, stimulus, results)
        return results
    for k in range(trials):
        run(np.random.default_rng(np.random.SeedSequence(1, spawn_key=(0, k))), stimulus, results[k : k + 1])
    return results


def steps_in_mdf(count: int = 20) -> float:
    """Seconds that one step of the oscillator takes in MDF's engine."""
    from modeci_mdf.execution_engine import EvaluableGraph

    with contextlib.redirect_stdout(io.StringIO()):
        graph = EvaluableGraph(mdf_loop.load(OSCILLATOR).graphs[0])
        graph.evaluate()
        begun = time.process_time()
        for _ in range(count):
            graph.evaluate(time_increment=0.01)
    return (time.process_time() - begun) / count


class Seconds(NamedTuple):
    """What something takes on the clock, and of the processor's time, in all threads."""

    clock: float
    processor: float


def seconds(calls: dict[str, Callable[[], object]], repeat: int) -> dict[str, Seconds]:
    """The least of several, which are run in turn."""
    times = dict.fromkeys(calls, Seconds(float("inf"), float("inf")))
    for _ in range(repeat):
        for name, call in calls.items():
            clock, processor = time.perf_counter(), time.process_time()
            call()
            taken = Seconds(time.perf_counter() - clock, time.process_time() - processor)
            times[name] = Seconds(*map(min, times[name], taken))
    return times


def under(engine: str, call: Callable[[], object]) -> Callable[[], object]:
    """A call in an engine."""

    def chosen() -> object:
        with mdf_loop.options(engine=engine):
            return call()

    return chosen


def gained_at_best(lasts: float, repeat: int) -> float:
    """How many times as fast two threads are done with hashing that lasts about so many seconds in one."""
    block = bytes(1 << 14)

    def hashing(count: int) -> None:
        for _ in range(count):
            hashlib.sha256(block)  # without Python's lock

    def in_two() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(hashing, [count // 2] * 2))

    count = 64
    count = max(2, int(count * lasts / seconds({"": lambda: hashing(count)}, 5)[""].clock))
    found = seconds({"one": lambda: hashing(count), "two": in_two}, repeat)
    return found["one"].clock / found["two"].clock


def shown(title: str, times: dict[str, Seconds], repeat: int) -> None:
    """A table of one piece of work: seconds, and how many times as long engine jit takes; and two workers."""
    jit = times["engine jit"]
    print(f"\n{title:62} {'time':>11} {'jit is':>8}")
    for name, (_, each) in times.items():
        if name != TWO:
            print(f"  {name:60} {each:9.3f} s {jit.processor / each:7.2f}x")
    two = times[TWO]
    print(f"  {TWO}: {two.clock:.3f} s on the clock, one {jit.clock:.3f} s: {jit.clock / two.clock:.2f}x as fast", end="; ")
    print(
        f"{two.processor / jit.processor:.2f}x of the processor's time; hashing {gained_at_best(jit.clock, repeat):.2f}x as fast"
    )


def main() -> None:
    """Run all and print tables."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--part", type=float, default=1.0)
    arguments.add_argument("--repeat", type=int, default=5)
    said = arguments.parse_args()
    print(machine(), end="\n\n")
    drifts, trials = np.linspace(0, 2, max(int(1000 * said.part), 1)), max(int(500 * said.part), 2)
    made = by_numba() or {}
    times = seconds(diffusions(drifts, made), said.repeat)
    times["engine numpy"] = Seconds(*(100 * each for each in seconds({"": one_by_one(len(drifts))}, said.repeat)[""]))
    shown(f"drift diffusion, {len(drifts)} drifts x 100 trials", times, said.repeat)
    shown(
        f"leaky competing accumulator, 2000 steps, {trials} trials", seconds(accumulators(trials, made), said.repeat), said.repeat
    )
    shown("FitzHugh and Nagumo's neuron, 4000 steps, 1000 currents", seconds(neurons(), said.repeat), said.repeat)
    count = max(int(20000 * said.part), 1)
    shown(f"drift diffusion, {count} drifts x 1 trial", seconds(points(count), said.repeat), said.repeat)
    scheduled(max(int(100 * said.part**0.5), 2), said.repeat)


TWO = "engine jit, two workers"
NUMBA = {"each": "numba, a stream for each trial", "one": "numba, one stream", "older": "numba, numpy's older global stream"}


def engines(ours: Callable[[int], object]) -> dict[str, Callable[[], object]]:
    """Our ways."""
    return {
        "engine jit": under("jit", lambda: ours(1)),
        TWO: under("jit", lambda: ours(2)),
    }


def one_by_one(trials: int) -> Callable[[], object]:
    """So many trials of the drift-diffusion model, at drifts of all sizes, where each is run by itself."""
    model = mdf_loop.prepare(DIFFUSION)
    return under("numpy", lambda: mdf_loop.sweep(model, {"drift": np.linspace(0, 2, trials)}, seed=1, outputs=["reaction_time"]))


def diffusions(drifts: np.ndarray, made: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """All ways to run the drift-diffusion model; what has to be compiled is."""
    model, operators = mdf_loop.prepare(DIFFUSION), mdf_loop.prepare(mdf_loop.to_onnx(DIFFUSION))

    def ours(workers: int, model: Any = model) -> object:
        return mdf_loop.sweep(model, {"drift": drifts}, trials=100, seed=1, outputs=["reaction_time"], workers=workers)

    as_onnx = {"engine jit, as ONNX": under("jit", lambda: ours(1, operators))}

    under("jit", lambda: mdf_loop.sweep(model, {"drift": [0.0, 1.0]}, seed=1, outputs=["reaction_time"]))()
    by_hand: dict[str, Callable[[], object]] = {}
    for streams, (run, _) in made.items():
        diffusion_by_numba(run, drifts[:1], 1, streams)
        by_hand[NUMBA[streams]] = lambda run=run, streams=streams: diffusion_by_numba(run, drifts, 100, streams)  # type: ignore[misc]
    by_hand["numpy"] = lambda: diffusion_by_plain_numpy(drifts, 100)
    by_hand["numpy, what has ended left out"] = lambda: diffusion_by_numpy(drifts, 100)
    return {**engines(ours), **as_onnx, **by_hand}


def neurons() -> dict[str, Callable[[], object]]:
    """Both ways to run neurons that differ in their current alone."""
    model, currents = mdf_loop.prepare(NEURON), np.linspace(0, 1, 1000)
    start = {"v0": np.full(1000, -1.0), "w0": np.full(1000, 1.0)}

    def ours(workers: int) -> object:
        return mdf_loop.sweep(model, {"current": currents}, workers=workers)

    calls = {**engines(ours), "one loop over vectors, engine jit": under("jit", lambda: model(current=currents, **start))}
    calls["engine jit"]()
    return calls


def points(count: int) -> dict[str, Callable[[], object]]:
    """As many runs at many points, and at one."""
    model = mdf_loop.prepare(DIFFUSION)

    def ours(workers: int, drifts: np.ndarray = np.full(count, 0.8), trials: int = 1) -> object:  # noqa: B008
        return mdf_loop.sweep(model, {"drift": drifts}, trials=trials, seed=1, outputs=["reaction_time"], workers=workers)

    calls = {**engines(ours), "one point, engine jit": under("jit", lambda: ours(1, np.full(1, 0.8), count))}
    calls["engine jit"]()
    return calls


def accumulators(trials: int, made: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """All ways to run the accumulators."""
    units = mdf_loop.prepare(competing())

    def ours(workers: int) -> object:
        return mdf_loop.sweep(units, trials=trials, seed=1, workers=workers)

    under("jit", lambda: mdf_loop.run(units, trials=2, seed=1))()
    by_hand: dict[str, Callable[[], object]] = {}
    for streams, (_, run) in made.items():
        competing_by_numba(run, 1, streams)
        by_hand[NUMBA[streams]] = lambda run=run, streams=streams: competing_by_numba(run, trials, streams)  # type: ignore[misc]
    return {**engines(ours), **by_hand, "numpy": lambda: competing_by_numpy(trials)}


def scheduled(side: int, repeat: int) -> None:
    """The oscillator at many points, next to MDF's engine."""
    over = {"stiffness": np.linspace(0.5, 5, side), "damping": np.linspace(0.1, 1, side)}
    ours = seconds({"": lambda: mdf_loop.sweep(OSCILLATOR, over, steps=1000, time_increment=0.01)}, repeat)[""].processor
    theirs = steps_in_mdf() * 1000 * side**2
    print(
        f"\nscheduled oscillator, {side**2} points x 1000 steps: {ours:.2f} s; MDF's engine {theirs:.0f} s, {theirs / ours:.0f}x"
    )


if __name__ == "__main__":
    main()
