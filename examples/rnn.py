"""A recurrent network over a sequence: a Scan, with weights that are parameters of the node.

The model is in rnn.yaml and, the same, in rnn.json.
"""

from pathlib import Path

import numpy as np
from modeci_mdf.utils import load_mdf

import mdf_loop

SEQUENCE = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.0], [-1.0, 1.0]])

network = load_mdf(str(Path(__file__).with_suffix(".yaml"))).graphs[0].get_node("network")
weights = {name: np.array(network.get_parameter(name).value) for name in ("W_in", "W_rec", "b", "W_out")}


def reference(sequence=SEQUENCE):
    """The outputs of the model, computed with numpy alone."""
    h, states = np.zeros(3), []
    for x in sequence:
        h = np.tanh(weights["W_in"] @ x + weights["W_rec"] @ h + weights["b"])
        states.append(h)
    return {"last_state": h, "states": np.array(states), "readouts": np.array(states) @ weights["W_out"].T}


def step(h, x, W_in, W_rec, b, W_out):
    """The body again, as a Python function: carried values and parts in, carried and collected values out."""
    h = np.tanh(W_in @ x + W_rec @ h + b)
    return h, h, W_out @ h


outputs = mdf_loop.run(Path(__file__).with_suffix(".yaml"))
print("readouts:", np.round(outputs["readouts"][:, 0], 3))
for name, expected in reference().items():
    assert np.allclose(outputs[name], expected), name

# Another sequence, another length: the model does not mind.
longer = np.vstack([SEQUENCE, SEQUENCE])
assert np.allclose(mdf_loop.run(Path(__file__).with_suffix(".yaml"), sequence=longer)["states"], reference(longer)["states"])

# The same network in a call of mdf_loop.scan.
last_state, states, readouts = mdf_loop.scan(np.zeros(3), SEQUENCE, num_scan_inputs=1, body=step, **weights)
assert np.allclose(readouts, outputs["readouts"])
