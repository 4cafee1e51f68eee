"""Running sums: the example of the ONNX operator Loop, in MDF's own engine and as a function call.

The model is in accumulate.yaml and, the same, in accumulate.json.
"""

from pathlib import Path

import numpy as np
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.utils import load_mdf

import mdf_loop  # from here on MDF knows onnx::Loop, onnx::Scan and onnx::If


def reference(x=(1, 2, 3, 4, 5), y=-2):
    """The outputs of the model, computed with numpy alone."""
    sums = np.cumsum([y, *x])[1:]
    return {"total": sums[-1], "sums": sums}


model = load_mdf(str(Path(__file__).with_suffix(".yaml")))
graph = EvaluableGraph(model.graphs[0])

# MDF's engine, with the values that the file gives, then with others.
graph.evaluate()
outputs = graph.enodes["accumulator"].evaluable_outputs
assert outputs["total"].curr_value == 13
assert np.array_equal(outputs["sums"].curr_value, [-1, 1, 4, 8, 13])

graph.evaluate(initializer={"x": np.array([10, 20]), "y": 0})
assert np.array_equal(outputs["sums"].curr_value, reference([10, 20], 0)["sums"])

# The same body in a function call: M, cond and the carried value, then what the body captures, by name.
body = model.graphs[0].get_node("accumulator").get_parameter("body").value
total, sums = mdf_loop.loop(5, True, -2.0, body=body, x=np.arange(1.0, 6.0))
print("sums:", sums)
assert total == 13
assert np.array_equal(sums, reference()["sums"])
