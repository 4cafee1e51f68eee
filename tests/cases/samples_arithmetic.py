"""Samples for the kernels of this family."""

import ml_dtypes
import numpy as np

X = np.array([[[-2.5, -1.0, 0.25, 3.0], [0.5, -0.75, 1.5, 2.0], [1.0, -3.0, 0.125, -0.5]]] * 2, np.float32)
X[1] *= -1.5
ROW = np.array([0.5, 2.0, -1.0, 4.0], np.float32)
ONE = np.array(0.75, np.float32)
WHOLE = np.array([[7, -7, 9], [-128, 5, 0]], np.int8)
DIVISOR = np.array([2, -1, 0], np.int8)
TRUTH = np.array([[True, False, True], [False, False, True]])

UNARY = (
    *("Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log"),
    *("Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sqrt", "Tanh"),
)
OF_TWO = ("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "Less")
FITS = (
    (X + 1, {}),
    (ROW, {"broadcast": 1}),
    (X[0], {"broadcast": 1}),
    (X[0, :, 0], {"broadcast": 1, "axis": 1}),
    (X[:, :, 0], {"broadcast": 1, "axis": 0}),
    (X[0, :, 0], {"broadcast": 1, "axis": -2}),
    (ONE.reshape(1, 1), {"broadcast": 1}),
)
"""Second inputs and the attributes with which they fit X before opset 7."""

SAMPLES: list = [
    *[(op, 1, [X], {"consumed_inputs": (0,)}) for op in UNARY],
    *[(op, 1, [X, X * 2, X - 1], {"consumed_inputs": (0, 0, 0)}) for op in ("Max", "Mean", "Min", "Sum")],
    *[(op, 13, [ROW, X, ONE], {}) for op in ("Max", "Mean", "Min", "Sum")],
    *[(op, 6, [X, b], attrs) for op in OF_TWO for b, attrs in FITS],
    *[(op, 6, [TRUTH, TRUTH[0]], {"broadcast": 1}) for op in ("And", "Or", "Xor")],
    *[(op, 6, [TRUTH, TRUTH[:, 0]], {"broadcast": 1, "axis": 0}) for op in ("And", "Or", "Xor")],
    *[(op, 14, [a, b], {}) for op in OF_TWO for a, b in ((X, ROW), (ROW, X), (ONE, X[0]))],
    *[(op, 14, [a, b], {}) for op in ("Div", "Mod", "Pow") for a, b in ((WHOLE, DIVISOR), (DIVISOR, WHOLE))],
    ("Pow", 15, [WHOLE.astype(np.int64), ROW[:3]], {}),
    ("Pow", 15, [X, DIVISOR.repeat(2)[:4]], {}),
    ("Mod", 28, [X, ROW], {"fmod": 1}),
    ("Clip", 1, [X], {"min": -1.0, "consumed_inputs": (0,)}),
    ("Clip", 6, [X], {"min": -1.0, "max": 1.0}),
    ("Clip", 13, [X, None, ONE], {}),
    ("Clip", 13, [X, ONE - 1, ONE], {}),
    ("Where", 16, [TRUTH, np.array(["a", "b", "c"], object), np.array("d", object)], {}),
    ("Where", 16, [TRUTH[0], X[0, :, :3], ONE], {}),
    ("PRelu", 16, [X, ROW], {}),
    ("Gelu", 20, [X.astype(ml_dtypes.bfloat16)], {"approximate": "tanh"}),
    ("Cast", 1, [X], {"to": "INT64"}),
    ("Cast", 9, [np.array(["1.5", "-INF", "1E3"], object)], {"to": 1}),
    ("Cast", 21, [X * 300], {"to": 18}),
    ("CastLike", 15, [X, np.zeros((2, 2, 2, 2, 2), np.int32)], {}),
    ("CastLike", 25, [ROW, X.astype(np.float64)], {}),
    ("BitCast", 26, [X], {"to": 6}),
    ("QuantizeLinear", 10, [X, ONE, np.array(100, np.uint8)], {}),
    ("QuantizeLinear", 13, [X, ROW[:3], np.array([1, -2, 3], np.int8)], {"axis": -2}),
    ("QuantizeLinear", 23, [ROW, ONE], {}),
    ("QuantizeLinear", 25, [ROW, ONE], {}),
    ("QuantizeLinear", 25, [ROW, ROW, None], {}),
    ("QuantizeLinear", 25, [np.float32(2) * ONE, ONE, np.array(3, np.int8)], {}),
    ("QuantizeLinear", 25, [X, abs(X[:, :2]), None], {"axis": 1, "block_size": 2}),
    ("DequantizeLinear", 25, [WHOLE, ONE.reshape(1), np.array([3], np.int8)], {"axis": 0}),
    ("DequantizeLinear", 25, [WHOLE, ROW[:3], DIVISOR], {"axis": -1}),
]
