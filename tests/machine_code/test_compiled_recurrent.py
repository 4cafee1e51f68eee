"""RNN, GRU and LSTM in machine code: what the kernels give, in every direction, and in loops."""

import numpy as np
import onnx
import pytest

pytest.importorskip("llvmlite")

from mdf_loop import backend, loop, options

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 6, 2, 3, 5


def inputs(op, directions, dtype, with_bias, with_states):
    chance, g = np.random.default_rng(7), GATES[op]
    shapes = {
        "x": (STEPS, BATCH, INPUTS),
        "w": (directions, g * HIDDEN, INPUTS),
        "r": (directions, g * HIDDEN, HIDDEN),
        "b": (directions, 2 * g * HIDDEN) if with_bias else None,
        "": None,
        "h": (directions, BATCH, HIDDEN) if with_states else None,
        "c": (directions, BATCH, HIDDEN) if with_states and op == "LSTM" else None,
    }
    given = {name: 0.5 * chance.standard_normal(shape).astype(dtype) for name, shape in shapes.items() if shape}
    return [name if shapes[name] else "" for name in shapes], given


def model(op, names, given, attrs):
    results = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]
    kind = onnx.helper.np_dtype_to_tensor_dtype(next(iter(given.values())).dtype)
    value = onnx.helper.make_tensor_value_info
    while not names[-1]:
        names = names[:-1]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, results, **attrs)],
        "graph",
        [value(name, kind, x.shape) for name, x in given.items()],
        [value(name, kind, None) for name in results],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def ran(given_model, given, engine):
    with options(engine=engine):
        prepared = backend.prepare(given_model)
        return prepared.run(given), prepared


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "attrs"), [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {})])
def test_every_direction_is_that_of_the_kernel(op, attrs, direction, dtype):
    for with_bias, with_states in ((True, True), (False, False), (True, False), (False, True)):
        names, given = inputs(op, 2 if direction == "bidirectional" else 1, dtype, with_bias, with_states)
        whole = model(op, names, given, {"hidden_size": HIDDEN, "direction": direction, **attrs})
        expected, _ = ran(whole, given, "interpret")
        found, prepared = ran(whole, given, "jit")
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=0, atol=100 * np.finfo(dtype).eps)
        assert prepared.graph._programs.latest.is_alone


RARE = [
    ("LSTM", {"input_forget": 1}),
    ("LSTM", {"clip": 0.3}),
    ("LSTM", {"activations": ["Softsign", "Affine", "Elu"]}),
    ("GRU", {"activations": ["HardSigmoid", "Relu"]}),
    ("RNN", {"layout": 1}),
    ("RNN", {"activations": ["Relu"]}),
]


@pytest.mark.parametrize(("op", "attrs"), RARE)
def test_what_few_write_is_machine_code_as_well(op, attrs):
    names, given = inputs(op, 1, np.float32, True, True)
    if attrs.get("layout"):
        given |= {name: np.ascontiguousarray(given[name].swapaxes(0, 1)) for name in ("x", "h")}
    whole = model(op, names, given, {"hidden_size": HIDDEN, **attrs})
    found, prepared = ran(whole, given, "jit")
    for a, b in zip(found, ran(whole, given, "interpret")[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert prepared.graph._programs.latest.is_alone


def test_a_cell_in_a_loop():
    """One step of a GRU in each iteration, as exporters write a cell."""
    _, given = inputs("GRU", 1, np.float32, True, False)
    body = """b (int64 i, bool go, float[1,2,5] h) => (go_1, h_2, y_2) {
      go_1 = Identity (go) row = Gather <axis = 0> (x, i) step = Unsqueeze (row, nought)
      y, h_2 = GRU <hidden_size = 5> (step, w, r, b, , h)
      y_2 = Squeeze (y) }"""
    known = {**given, "nought": np.array([0])}
    results = []
    for engine in ("interpret", "jit"):
        with options(engine=engine):
            results.append(loop(STEPS, True, np.zeros((1, BATCH, HIDDEN), np.float32), body={"onnx": body, "opset": 17}, **known))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
