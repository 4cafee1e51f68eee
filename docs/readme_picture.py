"""The picture of the README: a neuron, decisions, and what a step costs.  ``python docs/readme_picture.py`` draws it.

The bars are read from the measured tables of the documentation, so that picture and tables say the same.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

HERE = Path(__file__).parent
STEPS = {"fitzhugh_nagumo": 100_000, "hodgkin_huxley": 10_000}
"""Loops of ``benchmarks/loops.py``, with so many iterations."""
NAMES = {"fitzhugh_nagumo": "FitzHugh-Nagumo", "hodgkin_huxley": "Hodgkin-Huxley"}
BLUE, ORANGE, GREY = "#2a6f97", "#e07a1f", "#9aa5ad"


def nanoseconds(loop: str) -> tuple[float, float]:
    """What an iteration costs in machine code and in onnxruntime, by the measured table."""
    row = re.search(rf"^{loop} +jit +([\d.]+) +([\d.]+)", (HERE / "measured_loops.txt").read_text(), re.MULTILINE)
    if row is None:
        raise LookupError(f"measured_loops.txt has no row {loop!r}")
    ours, theirs = (1e6 * float(number) / STEPS[loop] for number in row.groups())
    return ours, theirs


def neuron(ax: Any) -> None:
    """The voltage of a neuron with and without current."""
    for current, colour in ((0.5, BLUE), (0.0, GREY)):
        run = mdf_loop.run("examples/gallery/fitzhugh_nagumo.yaml", current=current)
        ax.plot(np.arange(1, 4001) * 0.05, run["voltage"], color=colour, label=f"current {current}")
    ax.set(xlabel="time", ylabel="voltage", title="A neuron: two equations in YAML", ylim=(-2.2, 2.7))
    ax.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)


def decisions(ax: Any) -> None:
    """Reaction times of many trials, and the paths of a few."""
    trials = mdf_loop.run("examples/drift_diffusion.yaml", trials=20_000, seed=4)
    times, right = np.asarray(trials["reaction_time"]), np.asarray(trials["evidence"]) > 0
    edges = np.linspace(0.3, 3.3, 60)
    for chosen, sign, colour in ((right, 1, BLUE), (~right, -1, ORANGE)):
        counts, _ = np.histogram(times[chosen], edges)
        ax.fill_between(edges[:-1], sign, sign * (1 + counts / 900), step="post", color=colour, alpha=0.8, linewidth=0)
    for path in list(trials["path"])[:12]:
        path = np.asarray(path)[~np.isnan(path)]
        ax.plot(0.3 + 0.001 * np.arange(1, len(path) + 1), path, color=GREY, linewidth=0.6)
    ax.set(xlabel="reaction time", ylabel="evidence", xlim=(0.25, 3), yticks=(-1, 0, 1))
    ax.set_title("20,000 decisions, each until a bound")


def speed(ax: Any) -> None:
    """What a step costs, as bars."""
    for k, loop in enumerate(NAMES):
        bars = zip((0.2, -0.2), nanoseconds(loop), (BLUE, GREY), ("mdf_loop", "onnxruntime"), strict=True)
        for shift, value, colour, label in bars:
            ax.barh(k + shift, value, 0.36, color=colour, label=label if not k else None)
            ax.text(value * 1.15, k + shift, f"{value:,.0f} ns" if value >= 10 else f"{value:.1f} ns", va="center", fontsize=9)
    ax.set_yticks(range(len(NAMES)), list(NAMES.values()))
    ax.set(xscale="log", xlim=(1, 2e5), xlabel="nanoseconds a step (one core)", title="The same ONNX loop")
    ax.legend(frameon=False, fontsize=8, loc="upper right")


def main() -> None:
    """Draw and save."""
    fig, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    for ax, draw in zip(axes, (neuron, decisions, speed), strict=True):
        draw(ax)
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(HERE / "pictures" / "readme.png", dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
