"""
A PsyNeuLink model from its JSON
================================

This is a model of the Stroop task (Cohen, Dunbar and McClelland, 1990): a person names the colour of a word that means another
colour. PsyNeuLink exported the model as JSON. It runs here without PsyNeuLink, and gives PsyNeuLink's numbers, 3,700 times as
fast as PsyNeuLink's default mode. PsyNeuLink's compiled mode (``LLVMRun``) is 2.7 times as fast as mdf_loop.
:doc:`The page on PsyNeuLink <../psyneulink>` has the table.
"""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".json")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# The file ``stroop.npz`` has PsyNeuLink's own response in each of 200 steps, to the word "green" in red. MDF multiplies
# matrices in 32 bits, PsyNeuLink in 64, so about eight digits agree.
model = mdf_loop.prepare(MODEL)
theirs = np.load(MODEL.with_suffix(".npz"))
RED, GREEN, COLOUR, WORD = [1, 0], [0, 1], [1, 0], [0, 1]


def response(ink, word, task, steps=200):
    """The activity of the answers "red" and "green" in each step."""
    return np.squeeze(
        model(steps=steps, collect=True, stimulus_InputPort_0=np.array([[*ink, *word, *task]], float))["response_RESULT"]
    )


ours = response(RED, GREEN, COLOUR)
print(f"largest difference from PsyNeuLink {theirs['version']}: {np.abs(ours - theirs['response']).max():.1e}")

# %%
# Naming the ink takes longer if the word means another colour. Reading the word does not take longer.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True, layout="constrained")
for ax, task, title in zip(axes, (COLOUR, WORD), ("name the ink: red", "read the word: red"), strict=True):
    for other, label in ((RED, "the other dimension: red"), (GREEN, "the other dimension: green")):
        ax.plot(response(RED, other, task)[:, 0] if task is COLOUR else response(other, RED, task)[:, 0], label=label)
    ax.set(title=title, xlabel="step")
axes[0].plot(np.arange(0, 200, 10), theirs["response"][::10, 0], "C3.", label="PsyNeuLink")
axes[0].set(ylabel='activity of "red"')
axes[0].legend()

# %%
# The processor time of a step, after a first call that compiles.
with mdf_loop.options(engine="auto"):
    response(RED, GREEN, COLOUR, 100_000)
    begin = time.process_time()
    response(RED, GREEN, COLOUR, 100_000)
    print(f"{1e6 * (time.process_time() - begin) / 100_000:.2f} microseconds a step")

# %%
assert np.allclose(ours, theirs["response"], atol=1e-6)
