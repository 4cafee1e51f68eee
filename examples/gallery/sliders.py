"""
Sliders over a model
====================

``model.explore`` shows a slider for each range, and runs the model again while a slider moves: 200 trials of this neuron take
about 20 milliseconds.
"""

from pathlib import Path

import matplotlib.pyplot as plt

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# A notebook shows the sliders where this is the last line of a cell. From a script, ``.show()`` opens them in the browser, and so
# does the command ``mdf-loop explore sliders.yaml --over current=1.2:3 --over sigma=0:4 --trials 200``. All of them need
# ``pip install -e ".[explore]"``.
model = mdf_loop.prepare(MODEL)
model.explore(current=(1.2, 3), sigma=(0.0, 4.0), trials=200)

# %%
# .. image:: sliders.png
#    :alt: two sliders, the voltage of the neuron, and when it fires in 200 trials
#    :class: on-white
#
# Sliders need a notebook or a server, and this page has neither: above is a picture of them. Below is what they draw at four
# places. A strong current decides when the neuron fires. Where the current barely reaches the threshold, it is the noise.
places = [{"current": current, "sigma": sigma} for current in (1.6, 2.4) for sigma in (0.5, 4.0)]
runs = [model(trials=200, seed=0, **place) for place in places]

fig, axes = plt.subplots(2, 4, figsize=(11, 5), layout="constrained", sharex=True)
for column, place, run in zip(axes.T, places, runs, strict=True):
    run.plot("voltage", ax=column[0])
    run.plot("spike_time", ax=column[1], bins=20)
    column[0].set_title("current {current} nA\nsigma {sigma} mV".format(**place))

quiet, noisy, strong, _ = [run["spike_time"] for run in runs]
assert strong.mean() < quiet.mean() / 2
assert noisy.std() > 2 * quiet.std()
