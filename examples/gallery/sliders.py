"""
Sliders over a model
====================

``model.explore`` shows a slider for each range, and runs the model again while a slider moves: 200 trials of this neuron take
about 10 milliseconds.
"""

from pathlib import Path

import matplotlib.pyplot as plt

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# In a notebook the last line of a cell shows the sliders. ``explorer.show()`` opens them in the browser, and so does the command
# ``mdf-loop explore sliders.yaml --over current=1.2:3 --over sigma=0:4 --trials 200``. It needs
# ``pip install "mdf-loop[explore]"``.
model = mdf_loop.prepare(MODEL)
explorer = model.explore(current=(1.2, 3), sigma=(0.0, 4.0), trials=200, record="neuron.v")
explorer

# %%
# This page cannot run a model. So here is what the page of the sliders draws at four places:
# ``explorer.results`` is the run there.  Without noise a current of 1.6 nA reaches the threshold late. Noise makes the neuron
# fire earlier, and at very different times.
places = [{"current": current, "sigma": sigma} for current in (1.6, 2.4) for sigma in (0.5, 4.0)]
runs = [explorer.results(place) for place in places]

fig, axes = plt.subplots(2, 4, figsize=(11, 5), layout="constrained", sharex=True)
for column, place, run in zip(axes.T, places, runs, strict=True):
    run.plot("neuron.v", ax=column[0])
    run.plot("spike_time", ax=column[1], bins=20)
    column[0].set_title("current {current} nA\nsigma {sigma} mV".format(**place))

# %%
# A current above the threshold decides when the neuron fires; near the threshold it is the noise.
quiet, noisy, strong, _ = [run["spike_time"] for run in runs]
assert strong.mean() < quiet.mean() / 1.5
assert noisy.mean() < quiet.mean()
assert noisy.std() > 2 * quiet.std()
