"""
A recurrent network, compared with PyTorch
==========================================

PyTorch trained a network and exported it to ONNX. This script compares PyTorch's results with those of the ONNX file, and of a
short loop with the same weights.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnx
from onnx import numpy_helper

import mdf_loop

MODEL = Path(__file__).with_suffix(".yaml")
mdf_loop.draw(MODEL)  # a notebook shows the drawing

# %%
# This code trained and exported the network, which predicts the next value of a sine. You do not need PyTorch to run the script:
#
# .. code-block:: python
#
#    class Net(torch.nn.Module):
#        def __init__(self):
#            super().__init__()
#            self.rnn, self.read = torch.nn.RNN(1, 16), torch.nn.Linear(16, 1)
#
#        def forward(self, x):
#            states, _ = self.rnn(x)
#            return self.read(states), states
#
#    x = torch.sin(0.2 * torch.arange(60.0))[:, None, None]
#    ...  # 300 steps of Adam
#    torch.onnx.export(net, (x,), "rnn.onnx", input_names=["x"], output_names=["prediction", "states"], dynamo=False)
#    prediction, states = net(x)
#    numpy.savez_compressed("rnn.npz", x=x, prediction=prediction.detach(), states=states.detach())
torch = np.load(MODEL.with_suffix(".npz"))
exported = mdf_loop.run(MODEL.with_suffix(".onnx"), x=torch["x"])

# %%
# The same network as equations, with the weights from the file.
graph = onnx.load(MODEL.with_suffix(".onnx")).graph
weights = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
(rnn,) = (node for node in graph.node if node.op_type == "RNN")
w_in, w_rec, biases = (weights[name][0] for name in rnn.input[1:4])
read = mdf_loop.run(
    MODEL, x=torch["x"][:, 0], w_in=w_in, w_rec=w_rec, bias=biases.reshape(2, -1).sum(axis=0), h0=np.zeros(16, np.float32)
)

fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
top.plot(torch["x"][1:, 0, 0], "--", color="gray", label="the next value")
top.plot(exported["prediction"][:-1, 0, 0], label="predicted")
top.legend()
read.plot("states", ax=bottom, cmap="RdBu", vmin=-1, vmax=1)

# %%
differences = {
    "ONNX": np.abs(exported["states"] - torch["states"]).max(),
    "ONNX, prediction": np.abs(exported["prediction"] - torch["prediction"]).max(),
    "YAML": np.abs(read["states"] - torch["states"][:, 0]).max(),
}
print("largest differences from PyTorch:", {name: f"{value:.1e}" for name, value in differences.items()})
assert max(differences.values()) < 1e-5
