"""A simulator, row by row and in batches, next to the same work by hand: ``python benchmarks/simulator.py [--seconds 2]``.

Drift diffusion with a drift and a bound for each row.  By hand is a function of numba (if it is installed) over rows, with one
stream of numpy's for all of them; a simulator has one for each trial.  The time is that of the processor, the least of many calls
that are made in turn.  The last rows are models whose rows are not columns of machine code: something is computed of the
parameters before the loop, or of its results behind it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import in_turns, machine  # isort: skip  (sets the number of threads before numpy loads)

import numpy as np
import yaml
from modeci_mdf.mdf import Model

import mdf_loop

DIFFUSION = Path(__file__).parent.parent / "examples" / "drift_diffusion.yaml"
NAMES, OUTPUTS = ["drift", "bound"], ["reaction_time", "evidence"]
LEVELS = [0.1, 0.3, 0.5, 0.7, 0.9]


def by_numba() -> Callable[[np.ndarray, int], np.ndarray] | None:
    """The same by hand; None where there is no numba."""
    try:
        from numba import njit
    except ImportError:
        return None

    @njit
    def simulate(rng: Any, theta: np.ndarray, trials: int, out: np.ndarray) -> None:
        for row in range(len(theta)):
            drift, bound = theta[row, 0] * 0.001, theta[row, 1]
            spread = np.sqrt(0.001) * 1.0
            for trial in range(trials):
                evidence, now = 0.0, 0.3
                for _ in range(5000):
                    evidence += drift + spread * rng.standard_normal()
                    now += 0.001
                    if not abs(evidence) < bound:
                        break
                out[row, trial, 0], out[row, trial, 1] = now, evidence

    rng = np.random.default_rng(1)

    def call(theta: np.ndarray, trials: int) -> np.ndarray:
        out = np.empty((len(theta), trials, 2))
        simulate(rng, theta, trials, out)
        return out

    return call


def changed(place: Callable[[dict[str, Any]], None]) -> Model:
    """The model with something else in it."""
    text = yaml.safe_load(DIFFUSION.read_text())
    place(text["drift_diffusion"]["graphs"]["drift_diffusion"]["nodes"]["decision"])
    return Model.from_dict(text)


def before() -> Model:
    """The bound is computed of a parameter before the loop."""

    def place(node: dict[str, Any]) -> None:
        node["parameters"]["caution"] = {"value": 1.0}
        node["parameters"]["bound"] = {"value": "caution * 1.0"}

    return changed(place)


def behind() -> Model:
    """The reaction time is computed of the results of the loop."""

    def place(node: dict[str, Any]) -> None:
        node["output_ports"]["reaction_time"] = {"value": "trial[1] * 1.0"}

    return changed(place)


def each(simulate: Callable[[np.ndarray], Any], theta: np.ndarray) -> Callable[[], Any]:
    """A call for each row."""

    def call() -> None:
        for k in range(len(theta)):
            simulate(theta[k : k + 1])

    return call


def cases(rows: int) -> dict[str, tuple[int, dict[str, Callable[[], Any]]]]:
    """How many rows there are, and what is timed, ours first."""
    theta, hand = np.random.default_rng(0).uniform(0.5, 2, (rows, 2)), by_numba()
    one, few = theta[: rows // 10], theta[: max(rows // 100, 1)]

    def ours(model: Any = DIFFUSION, names: list[str] = NAMES, **how: Any) -> Any:
        return mdf_loop.simulator(model, names, OUTPUTS, seed=7, **how)

    def by_hand(call: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
        return {} if hand is None else {"numba by hand": lambda: call(hand)}

    single, many, quantiles = ours(), ours(trials=100), ours(trials=100, reduce=LEVELS)
    computed, made, points = (
        ours(before(), ["drift", "caution"]),
        ours(behind()),
        [dict(zip(NAMES, row, strict=True)) for row in one.tolist()],
    )
    return {
        "a trial a row": (rows, {"simulator": lambda: single(theta), **by_hand(lambda h: h(theta, 1))}),
        "100 trials a row": (len(few), {"simulator": lambda: many(few), **by_hand(lambda h: h(few, 100))}),
        "100 trials a row, quantiles": (
            len(few),
            {"simulator": lambda: quantiles(few), **by_hand(lambda h: np.quantile(h(few, 100), LEVELS, axis=1))},
        ),
        "row by row": (len(one), {"simulator": each(single, one), **by_hand(lambda h: each(lambda row: h(row, 1), one)())}),
        "a trial a row, by sweep": (
            len(one),
            {"sweep": lambda: mdf_loop.sweep(DIFFUSION, points, seed=7, outputs=OUTPUTS), **by_hand(lambda h: h(one, 1))},
        ),
        "computed before the loop": (len(one), {"simulator": lambda: computed(one), **by_hand(lambda h: h(one, 1))}),
        "computed behind the loop": (len(one), {"simulator": lambda: made(one), **by_hand(lambda h: h(one, 1))}),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row of the table")
    parser.add_argument("--rows", type=int, default=3000, help="of theta")
    asked = parser.parse_args()
    print(machine(), end="\n\n")
    print(f"{'drift diffusion, microseconds a row':<40}{'ours':>10}{'by hand':>10}{'ratio':>8}")
    for name, (count, calls) in cases(asked.rows).items():
        times = in_turns(calls, asked.seconds, time.process_time)
        ours, *hand = [1e6 * min(found) / count for found in times.values()]
        print(f"  {name:<38}{ours:>10.2f}" + "".join(f"{each:>10.2f}{ours / each:>8.2f}" for each in hand))


if __name__ == "__main__":
    main()
