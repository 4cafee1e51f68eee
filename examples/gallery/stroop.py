"""
A PsyNeuLink model from its JSON
================================

The Stroop task by Cohen, Dunbar and McClelland (1990): a colour is to be named while a word is read. PsyNeuLink exported its
model as JSON. It runs here without PsyNeuLink and gives its numbers; :doc:`the page on PsyNeuLink <../psyneulink>` says how much
faster.
"""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).with_suffix(".json")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# PsyNeuLink's own numbers were kept when it exported the model: its response in each of 200 steps to the word "green" in red.
model = mdf_loop.prepare(MODEL)
theirs = np.load(MODEL.with_suffix(".npz"))
red, green, to_colour, to_word = [[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0]]


def response(colour, word, attention, steps=200):
    """The activity of both answers in each step."""
    given = {"colour_InputPort_0": colour, "word_InputPort_0": word, "attention_InputPort_0": attention}
    return np.squeeze(model(steps=steps, collect=True, **given)["response_RESULT"])


ours = response(red, green, to_colour)
print(f"largest difference from PsyNeuLink {theirs['version']}: {np.abs(ours - theirs['response']).max():.1e}")

# %%
# Naming a colour suffers from a word that says another one; reading a word does not suffer from its colour.
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True, layout="constrained")
for ax, attention, title in ((left, to_colour, "name the colour"), (right, to_word, "read the word")):
    for colour, word, label in ((red, red, "the same"), (red, green, "another")):
        ax.plot(response(colour, word, attention)[:, 0 if attention is to_colour or word is red else 1], label=label)
    ax.set(title=title, xlabel="step")
left.plot(np.arange(0, 200, 10), theirs["response"][::10, 0], "k.", label="another, in PsyNeuLink")
left.set(ylabel="activity of the right answer")
left.legend()

# %%
# What a step takes, after a call that compiles.
with mdf_loop.options(engine="jit"):
    response(red, green, to_colour, 100_000)
    begin = time.perf_counter()
    response(red, green, to_colour, 100_000)
    print(f"{1e6 * (time.perf_counter() - begin) / 100_000:.2f} microseconds a step")

# %%
assert np.allclose(ours, theirs["response"], rtol=1e-10)
