"""A square root by Newton's method: a while loop, in a model that is built in Python.

The model is in newton.yaml and, the same, in newton.json.  In newton_mdf.yaml and
newton_mdf.json the body is an MDF graph instead of ONNX text.
"""

import math
from pathlib import Path

import numpy as np
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop

BODY = """
newton (int64 i, bool go, double guess) => (bool go_out, double better, double guesses)
<double half = {0.5}>
{
  quotient = Div (a, guess)
  sum = Add (guess, quotient)
  better = Mul (half, sum)
  change = Sub (better, guess)
  size = Abs (change)
  go_out = Greater (size, tolerance)
  guesses = Identity (better)
}
"""


def reference(a=2.0):
    """The outputs of the model, computed in plain Python."""
    guess, guesses, go = 1.0, [], True
    while go:
        better = 0.5 * (guess + a / guess)
        go = abs(better - guess) > 1e-12
        guess = better
        guesses.append(guess)
    return {"root": guess, "guesses": np.array(guesses)}


def build():
    """The model: one node, whose parameter ``run`` is the loop."""
    node = Node(id="square_root")
    node.input_ports.append(InputPort(id="a", default_value=2.0))
    node.parameters.append(Parameter(id="start", value=1.0))
    node.parameters.append(Parameter(id="tolerance", value=1e-12))
    node.parameters.append(Parameter(id="body", value={"onnx": BODY}))
    # M is left out: the condition alone ends the loop.
    args = {"cond": True, "v_initial": "start", "body": "body"}
    node.parameters.append(Parameter(id="run", function="onnx::Loop", args=args))
    node.output_ports.append(OutputPort(id="root", value="run[0]"))
    node.output_ports.append(OutputPort(id="guesses", value="run[1]"))
    return Model(id="newton", graphs=[Graph(id="newton", nodes=[node])])


for model in (build(), Path(__file__).with_suffix(".yaml"), Path(__file__).with_name("newton_mdf.yaml")):
    outputs = mdf_loop.run(model)
    print("guesses:", outputs["guesses"])
    assert math.isclose(outputs["root"], math.sqrt(2), rel_tol=1e-15)
    assert np.allclose(outputs["guesses"], reference()["guesses"], rtol=1e-15)

assert math.isclose(mdf_loop.run(build(), a=81.0)["root"], 9)
