"""Simulations step by step: sums, integrators, neurons, decisions."""

from __future__ import annotations

import numpy as np

from workloads.record import Workload
from workloads.writing import Name, Writing


def accumulate(n: int = 100_000) -> Workload:
    """y += x[i], all sums collected."""
    w = Writing("accumulate", "int64 i, bool go, double y", "double[n] x")
    y = w["y"] + w("Gather", w["x"], w["i"], kind="double")
    x = np.random.default_rng(0).standard_normal(n)
    return Workload("accumulate", w.text(w.go, y, y), n, carried=(np.float64(0),), captured={"x": x}, target=0.01)


def running_maximum(n: int = 100_000) -> Workload:
    """y = max(y, x[i]), collected."""
    w = Writing("running_maximum", "int64 i, bool go, double y", "double[n] x")
    y = w("Max", w["y"], w("Gather", w["x"], w["i"], kind="double"))
    x = np.random.default_rng(0).standard_normal(n)
    return Workload("running_maximum", w.text(w.go, y, y), n, carried=(np.float64(-9),), captured={"x": x})


def map_sine(n: int = 10_000, width: int = 64) -> Workload:
    """sin(i * w) + b: no iteration needs another."""
    w = Writing("map_sine", "int64 i, bool go", f"double[{width}] w, double[{width}] b")
    angle = w("Cast", w["i"], to=11, kind="double") * w["w"]
    rng = np.random.default_rng(0)
    captured = {"w": rng.random(width), "b": rng.random(width)}
    return Workload("map_sine", w.text(w.go, w("Sin", angle) + w["b"]), n, captured=captured, target=0.5)


def leaky_loop(n: int = 10_000, units: int = 100) -> Workload:
    """v = 0.9 v + x[i], collected."""
    w = Writing("leaky_loop", f"int64 i, bool go, double[{units}] v", f"double[n,{units}] x")
    v = w["v"] * 0.9 + w("Gather", w["x"], w["i"], kind="double")
    x = np.random.default_rng(0).standard_normal((n, units))
    return Workload("leaky_loop", w.text(w.go, v, v), n, carried=(np.zeros(units),), captured={"x": x}, target=0.35)


def leaky_scan(n: int = 10_000, units: int = 100) -> Workload:
    """The same as a Scan."""
    w = Writing("leaky_scan", f"double[{units}] v, double[{units}] x")
    v = w["v"] * 0.9 + w["x"]
    x = np.random.default_rng(0).standard_normal((n, units))
    return Workload("leaky_scan", w.text(v, v), carried=(np.zeros(units),), scanned=(x,), target=0.35)


def leaky_euler(n: int = 10_000, units: int = 100) -> Workload:
    """The same integrator as people write it: v + dt * (x[i] - v)."""
    w = Writing("leaky_euler", f"int64 i, bool go, double[{units}] v", f"double[n,{units}] x")
    x = w("Gather", w["x"], w["i"], kind="double")
    v = w["v"] + (x - w["v"]) * 0.1
    given = np.random.default_rng(0).standard_normal((n, units))
    return Workload("leaky_euler", w.text(w.go, v, v), n, carried=(np.zeros(units),), captured={"x": given})


def _drift_diffusion(name: str, trials: int, steps: int, frozen: bool, target: float | None) -> Workload:
    """Evidence of many trials until all have reached a bound; how many steps each took."""
    w = Writing(
        name, f"int64 i, bool go, double[{trials}] x, bool[{trials}] done, int64[{trials}] t", f"double[n,{trials}] noise"
    )
    moved = w["x"] + (w("Gather", w["noise"], w["i"], kind="double") + 0.001)
    x = w("Where", w["done"], w["x"], moved, kind="double") if frozen else moved
    done = w("Or", w["done"], w("Abs", x) > 1.0, kind="bool")
    running = w("Not", done, kind="bool")
    counted = w("Cast", running, to=7, kind="int64")
    go = w("Cast", w("ReduceMax", counted, keepdims=0), to=9, kind="bool")
    noise = 0.03 * np.random.default_rng(0).standard_normal((steps, trials))
    carried = (np.zeros(trials), np.zeros(trials, bool), np.zeros(trials, np.int64))
    text = w.text(go, x, done, w["t"] + counted)
    return Workload(name, text, steps, carried=carried, captured={"noise": noise}, target=target, small=frozen and trials < 100)


def drift_diffusion_1000(trials: int = 1000, steps: int = 2000) -> Workload:
    """1000 trials."""
    return _drift_diffusion("drift_diffusion_1000", trials, steps, False, 0.5)


def drift_diffusion_10(trials: int = 10, steps: int = 2000) -> Workload:
    """10 trials."""
    return _drift_diffusion("drift_diffusion_10", trials, steps, False, 0.2)


def drift_diffusion_frozen(trials: int = 1000, steps: int = 2000) -> Workload:
    """The evidence of a trial stays where it was when the bound was reached: not a plain sum."""
    return _drift_diffusion("drift_diffusion_frozen", trials, steps, True, None)


def fitzhugh_nagumo(n: int = 100_000) -> Workload:
    """FitzHugh-Nagumo neuron, scalars, v collected."""
    w = Writing("fitzhugh_nagumo", "int64 i, bool go, double v, double u", "double current, double dt")
    v, u, current, dt = w.get("v", "u", "current", "dt")
    dv = v - v * v * v * 0.3333333333333333 - u + current
    du = (v + 0.7 - u * 0.8) * 0.08
    v_out, u_out = v + dv * dt, u + du * dt
    carried = np.float64(-1.0), np.float64(0.0)
    captured = {"current": np.float64(0.5), "dt": np.float64(0.01)}
    return Workload(
        "fitzhugh_nagumo", w.text(w.go, v_out, u_out, v_out), n, carried=carried, captured=captured, target=0.12, rtol=1e-6
    )


def hodgkin_huxley(n: int = 10_000) -> Workload:
    """Hodgkin-Huxley neuron, scalars, v collected."""
    w = Writing("hodgkin_huxley", "int64 i, bool go, double v, double m, double h, double n", "double current, double dt")
    v, m, h, gate, current, dt = w.get("v", "m", "h", "n", "current", "dt")

    def exp(x: Name) -> Name:
        return w("Exp", x)

    a_m = (v + 40.0) * 0.1 / (1.0 - exp((v + 40.0) * -0.1))
    b_m = exp((v + 65.0) / -18.0) * 4.0
    a_h = exp((v + 65.0) / -20.0) * 0.07
    b_h = 1.0 / (1.0 + exp((v + 35.0) * -0.1))
    a_n = (v + 55.0) * 0.01 / (1.0 - exp((v + 55.0) * -0.1))
    b_n = exp((v + 65.0) / -80.0) * 0.125
    sodium = m * m * m * h * 120.0 * (v - 50.0)
    potassium = gate * gate * gate * gate * 36.0 * (v + 77.0)
    leak = (v + 54.387) * 0.3
    v_out = v + (current - sodium - potassium - leak) * dt
    gates = [x + (a * (1.0 - x) - b * x) * dt for x, a, b in ((m, a_m, b_m), (h, a_h, b_h), (gate, a_n, b_n))]
    carried = tuple(np.float64(value) for value in (-65.0, 0.05, 0.6, 0.32))
    captured = {"current": np.float64(10.0), "dt": np.float64(0.01)}
    text = w.text(w.go, v_out, *gates, v_out)
    return Workload("hodgkin_huxley", text, n, carried=carried, captured=captured, target=0.12, rtol=1e-6)


def spiking(n: int = 1000, units: int = 200) -> Workload:
    """Integrate and fire: 200 units with a threshold, a reset and a refractory time, spikes collected."""
    w = Writing("spiking", f"int64 i, bool go, double[{units}] v, int64[{units}] rest", f"double[n,{units}] x")
    v, rest = w.get("v", "rest")
    driven = v * 0.95 + w("Gather", w["x"], w["i"], kind="double")
    moved = w("Where", rest > 0, v, driven, kind="double")
    spike = moved > 1.0
    v_out = w("Where", spike, 0.0, moved, kind="double")
    rest_out = w("Where", spike, 5, w("Max", rest - 1, 0), kind="int64")
    x = 0.2 * np.random.default_rng(0).random((n, units))
    carried = np.zeros(units), np.zeros(units, np.int64)
    return Workload("spiking", w.text(w.go, v_out, rest_out, spike), n, carried=carried, captured={"x": x}, small=True)


WORKLOADS = (
    accumulate,
    map_sine,
    leaky_loop,
    leaky_scan,
    drift_diffusion_1000,
    drift_diffusion_10,
    fitzhugh_nagumo,
    hodgkin_huxley,
    running_maximum,
    leaky_euler,
    drift_diffusion_frozen,
    spiking,
)
