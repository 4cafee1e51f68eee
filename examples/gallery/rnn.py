"""
A recurrent network over a sequence
===================================

Echoes of a pulse in a random network, and the same from ONNX's own operator ``RNN``, which PyTorch exports.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnx.parser

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
print(MODEL.read_text())

# %%
rng = np.random.default_rng(4)
n, length = 30, 80
w_in = rng.normal(size=(n, 1))
w_rec = rng.normal(size=(n, n)) * 1.05 / np.sqrt(n)
x = np.zeros((length, 1))
x[5] = 1.0
states = mdf_loop.run(MODEL, x=x, w_in=w_in, w_rec=w_rec, h0=np.zeros(n))["states"]

fig, ax = plt.subplots(figsize=(8, 3))
image = ax.imshow(states.T, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
ax.set(xlabel="time", ylabel="unit", title="a pulse at 5 and its echoes")
fig.colorbar(image)

# %%
# The same network as an ONNX model of one operator.
text = f"""<ir_version: 8, opset_import: ["": 18]>
network (float[{length},1,1] x, float[1,{n},1] w, float[1,{n},{n}] r) => (y) {{
  y = RNN <hidden_size = {n}> (x, w, r)
}}"""
given = [np.float32(value) for value in (x[:, None], w_in[None], w_rec[None])]
(y,) = mdf_loop.backend.run_model(onnx.parser.parse_model(text), given)

# %%
assert y.shape == (length, 1, 1, n)
assert np.allclose(y[:, 0, 0], states, atol=1e-4)
assert np.all(states[:5] == 0)
