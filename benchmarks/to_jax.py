"""Models as functions of JAX beside the same models written by hand in JAX: forward, and with the gradient of one parameter.

Below that, 1,000 runs of a model at once: ``jax.vmap`` of both, and ``mdf_loop.sweep`` in engines jit and jax, whose derivatives
are differences of two sweeps.  All run in turns in one process, in float64 on the processor; a figure is the least CPU time of
many calls.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import mdf_loop

jax.config.update("jax_enable_x64", True)

ROUNDS, NEURON = 30, "examples/gallery/fitzhugh_nagumo.yaml"


def fitzhugh_nagumo():
    def by_hand(current):
        def step(state, _):
            v, w = state
            v, w = v + 0.05 * (v - v**3 / 3 - w + current), w + 0.05 * 0.08 * (v + 0.7 - 0.8 * w)
            return (v, w), v

        return lax.scan(step, (-1.0, 1.0), None, 4000)[1]

    f = mdf_loop.to_jax(NEURON, outputs=["voltage"])
    return lambda current: f(current=current)["voltage"], by_hand, 0.5


def leaky():
    text = """leaky (int64 i, bool go, double v) => (bool go_out, double v_out, double seen) {
      go_out = Identity (go) drive = Gather (input, i) gap = Sub (drive, v) change = Mul (rate, gap)
      v_out = Add (v, change) seen = Identity (v_out) }"""
    x = jnp.sin(jnp.arange(10_000) / 50)

    def by_hand(rate):
        def step(v, x):
            v = v + rate * (x - v)
            return v, v

        return lax.scan(step, 0.0, x)[1]

    f = mdf_loop.to_jax(text, outputs=["seen"])
    return lambda rate: f(M=10_000, cond=True, v=0.0, rate=rate, input=x)["seen"], by_hand, 0.05


def network():
    rng, size = np.random.default_rng(0), 64
    x, w_in, w_rec = (jnp.asarray(rng.normal(size=shape)) for shape in ((200, 8), (size, 8), (size, size)))
    w_rec = w_rec / 10

    def by_hand(gain):
        def step(h, row):
            h = jnp.tanh(w_in @ row + gain * w_rec @ h + 0.0)
            return h, h

        return lax.scan(step, jnp.zeros(size), x)[1]

    f = mdf_loop.to_jax("examples/gallery/rnn.yaml", outputs=["states"])
    given = {"x": x, "w_in": w_in, "h0": jnp.zeros(size), "bias": jnp.zeros(size)}
    return lambda gain: f(w_rec=gain * w_rec, **given)["states"], by_hand, 0.9


def newton():
    def by_hand(a):
        def step(x, _):
            value, going = x
            better = 0.5 * (value + a / value)
            new = jnp.where(going, better, value)
            return (new, going & (jnp.abs(better - value) > 1e-12)), None

        return lax.scan(step, (1.0, True), None, 100)[0][0]

    f = mdf_loop.to_jax("examples/newton.yaml", outputs=["root"], max_steps=100)
    return lambda a: f(a=a)["root"], by_hand, 2.0


def learning():
    rng = np.random.default_rng(1)
    choices, rewards = jnp.asarray(rng.integers(0, 2, 1000)), jnp.asarray(rng.integers(0, 2, 1000).astype(float))

    def by_hand(rate):
        def step(state, given):
            a, b, surprise = state
            choice, reward = given
            p = 1 / (1 + jnp.exp((b - a) / 0.3))
            new = a + choice * rate * (reward - a), b + (1 - choice) * rate * (reward - b)
            return (*new, surprise - jnp.log(jnp.where(choice == 1, p, 1 - p))), None

        return lax.scan(step, (0.0, 0.0, 0.0), (choices, rewards))[0][2]

    f = mdf_loop.to_jax("examples/gallery/fitting.yaml")
    return lambda rate: f(rate=rate, choices=choices, rewards=rewards)["surprise"], by_hand, 0.1


MODELS = {
    "FitzHugh-Nagumo, 4,000 steps, collected": fitzhugh_nagumo,
    "leaky integrator, 10,000 steps": leaky,
    "network of 64 units, 200 steps": network,
    "Newton, ends early, up to 100 steps": newton,
    "learning, 1,000 trials": learning,
}


def least(functions, at, rounds=ROUNDS, calls=5):
    """The least CPU times of functions that run in turns."""
    found = [np.inf] * len(functions)
    for function in functions:
        jax.block_until_ready(function(at))
    for _ in range(rounds):
        for k, function in enumerate(functions):
            begin = time.process_time()
            for _ in range(calls):
                jax.block_until_ready(function(at))
            found[k] = min(found[k], (time.process_time() - begin) / calls)
    return found


def swept(engine):
    """The voltages of many runs, by a sweep in an engine."""

    def voltages(currents):
        with mdf_loop.options(engine=engine):
            return mdf_loop.sweep(
                "examples/gallery/fitzhugh_nagumo.yaml", {"current": currents}, outputs=["voltage"]
            ).voltage.values

    return voltages


def differences(voltages):
    """Derivatives of the mean voltage of each run, by two sweeps."""
    return lambda currents: (voltages(currents + 1e-6) - voltages(currents - 1e-6)).mean(axis=1) / 2e-6


def many(runs=1000):
    """Print what many runs of FitzHugh-Nagumo take."""
    f, by_hand, _ = fitzhugh_nagumo()
    currents = np.linspace(0.2, 1.0, runs)
    forward = {"to_jax, vmap": jax.jit(jax.vmap(f)), "by hand, vmap": jax.jit(jax.vmap(by_hand))}
    gradient = {
        name: jax.jit(jax.vmap(jax.grad(lambda x, f=f: f(x).mean()))) for name, f in zip(forward, (f, by_hand), strict=True)
    }
    for engine in ("jit", "jax"):
        forward[f"sweep, {engine}"] = swept(engine)
        gradient[f"sweep, {engine}"] = differences(swept(engine))
    for kind, ways, within in (("forward", forward, 1e-9), ("gradient", gradient, 1e-4)):
        want = ways["by hand, vmap"](currents)
        for way in ways.values():
            np.testing.assert_allclose(way(currents), want, rtol=within, atol=within)
        found = dict(zip(ways, least([*ways.values()], currents, rounds=5, calls=1), strict=True))
        for name, seconds in found.items():
            print(f"{name:42}{kind:10}{seconds * 1e3:8.0f} ms{'':10}{seconds / found['by hand, vmap']:7.2f}")


def main():
    print(f"{'model':42}{'':10}{'to_jax':>10}{'by hand':>10}{'times':>7}")
    for name, make in MODELS.items():
        ours, theirs, at = make()
        np.testing.assert_allclose(ours(at), theirs(at), rtol=1e-9, atol=1e-9)
        for kind in ("forward", "gradient"):
            pair = [jax.jit(f if kind == "forward" else jax.grad(lambda x, f=f: jnp.sum(f(x)))) for f in (ours, theirs)]
            found = least(pair, at)
            print(f"{name:42}{kind:10}{found[0] * 1e6:8.0f} us{found[1] * 1e6:7.0f} us{found[0] / found[1]:7.2f}")
    print("\n1,000 runs of FitzHugh-Nagumo, 4,000 steps, collected; times are to vmap by hand")
    many()


if __name__ == "__main__":
    main()
