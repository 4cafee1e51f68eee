"""Samples for the kernels of this family."""

import ml_dtypes
import numpy as np

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7.5
SQUARE = np.array([[5, 2, 8, 1], [0, 7, 2, 9], [4, 4, 1, 3], [6, 0, 5, 2]], np.int32)
ROW = np.array([1, -3, 2, 2, 7], np.float64)
ONE = np.array(3, np.int64)
TEXTS = np.array([["b", "a", "b"], ["c", "", "a"]], object)
HALF = X.astype(ml_dtypes.bfloat16)
IMAGE = np.arange(96, dtype=np.int8).reshape(2, 8, 2, 3)


def ints(*values):
    return np.array(values, np.int64)


REDUCTIONS = [f"Reduce{name}" for name in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]]

SAMPLES: list = [
    *[(op, 1, [X], attrs) for op in REDUCTIONS for attrs in ({}, {"axes": (-1, 0)}, {"axes": (1,), "keepdims": 0})],
    *[(op, 20, [X, ints(0)], attrs) for op in REDUCTIONS for attrs in ({}, {"keepdims": 0})],
    *[(op, 20, [X], {"noop_with_empty_axes": 1}) for op in REDUCTIONS],
    *[(op, 20, [HALF, ints(1)], {}) for op in REDUCTIONS],
    *[(op, 1, [x], {"axis": axis, "keepdims": axis % 2}) for op in ("ArgMax", "ArgMin") for x in (SQUARE, X) for axis in (0, -1)],
    ("CumSum", 14, [HALF, np.array(-2, np.int32)], {"reverse": 1, "exclusive": 1}),
    # shaping
    ("Reshape", 1, [X], {"shape": (0, -1), "consumed_inputs": (0,)}),
    ("Reshape", 5, [X, ints(-1)], {}),
    ("Reshape", 14, [X, ints(4, 0, 2)], {}),
    ("Reshape", 14, [np.zeros((0, 3), np.float32), ints(3, 0)], {"allowzero": 1}),
    ("Reshape", 13, [ONE, ints(1)], {}),
    ("Transpose", 1, [TEXTS], {}),
    ("Transpose", 13, [X], {"perm": (2, 0, 1)}),
    ("Squeeze", 1, [X.reshape(1, 2, 1, 12)], {}),
    ("Squeeze", 11, [X.reshape(1, 2, 1, 12)], {"axes": (-2,)}),
    ("Squeeze", 13, [X.reshape(1, 2, 1, 12), ints(0)], {}),
    ("Squeeze", 13, [X.reshape(1, 2, 1, 12)], {}),
    ("Unsqueeze", 1, [ROW], {"axes": (0, 2)}),
    ("Unsqueeze", 11, [ROW], {"axes": (-1,)}),
    ("Unsqueeze", 13, [ONE, ints(0)], {}),
    ("Unsqueeze", 13, [X, ints(-2)], {}),
    ("Flatten", 1, [X], {"axis": 0}),
    ("Flatten", 11, [X], {"axis": 3}),
    ("Expand", 8, [ROW[:3, None], ints(4)], {}),
    ("Expand", 13, [ONE, ints(2, 2)], {}),
    ("Expand", 13, [X[:, :1], ints(3, 1)], {}),
    ("Tile", 1, [X, np.array(2, np.float32), np.array(1, np.float32)], {}),
    ("Tile", 6, [TEXTS, ints(2, 2)], {}),
    ("Shape", 1, [X], {}),
    ("Shape", 15, [X], {"start": -2, "end": 10}),
    ("Size", 1, [ONE], {}),
    # joining and splitting
    ("Concat", 1, [SQUARE, SQUARE[:, :1]], {}),
    ("Concat", 4, [TEXTS, TEXTS], {"axis": -2}),
    ("Concat", 13, [ints(1), ints(2), ints(5, 6)], {"axis": 0}),
    ("Split", 1, [X], {"axis": 2, "split": (1, 3)}),
    ("Split", 1, [X, np.array([2, 1], np.float32)], {"axis": 1}),
    ("Split", 2, [X], {"axis": -1}),
    ("Split", 13, [X, ints(2, 2)], {"axis": 2}),
    ("Split", 18, [ROW], {"num_outputs": 3}),
    # borders
    ("Pad", 1, [X], {"paddings": (0, 1, 2, 0, 0, 1), "value": 0.5}),
    ("Pad", 2, [X], {"pads": (0, 1, -1, 0, 0, 1), "mode": "edge"}),
    ("Pad", 11, [X, ints(1, 1, 1, 1, 1, 1), np.array(2, np.float32)], {}),
    ("Pad", 13, [TEXTS, ints(1, 1, 1, 1)], {}),
    ("Pad", 18, [X, ints(2, 2), None, ints(-1)], {"mode": "reflect"}),
    ("Pad", 25, [X, ints(5, 5), None, ints(2)], {"mode": "wrap"}),
    ("CenterCropPad", 18, [X, ints(3, 3, 3)], {}),
    # making
    ("Range", 11, [ints(2)[0], ints(9)[0], ints(3)[0]], {}),
    ("Range", 27, [np.array(0.5, np.float16), np.array(2, np.float16), np.array(0.25, np.float16)], {}),
    ("EyeLike", 9, [SQUARE[:2]], {"k": -1, "dtype": 11}),
    ("OneHot", 9, [ints(0, 2, -1, 5), ints(3), ints(5, 9)], {"axis": 0}),
    ("OneHot", 11, [ONE, ints(5), np.array(["off", "on"], object)], {}),
    ("OneHot", 11, [ints(0, 2, -1, 5), np.array(3.0, np.float32), ints(5, 9)], {"axis": -2}),
    ("Trilu", 14, [X, ints(1)[0]], {"upper": 0}),
    ("Trilu", 14, [TEXTS], {}),
    ("ConstantOfShape", 9, [ints(2, 2)], {}),
    # indexing
    *[("Gather", 13, [X, indices], {"axis": axis}) for indices in (ints(1, -1, 0, 0), ints(1)[0]) for axis in (0, 1, 2, -1)],
    ("Gather", 1, [TEXTS[0], ints(2, 0, 1)[1:].reshape(2, 1)], {}),
    ("Gather", 11, [TEXTS[0], ONE - 1], {}),
    ("GatherElements", 11, [X, np.array([[[0, 1, -1]], [[2, 2, 0]]])], {"axis": 1}),
    ("GatherND", 11, [X, np.array([[[0, 1], [1, -1]]])], {}),
    ("GatherND", 11, [TEXTS, ints(1, 1)], {}),
    ("GatherND", 12, [X, np.array([[1], [2]])], {"batch_dims": 1}),
    ("GatherND", 12, [X, np.array([[[1]], [[-1]]])], {"batch_dims": 1}),
    ("Slice", 1, [X], {"starts": (1, -3), "ends": (9, -1)}),
    ("Slice", 1, [X], {"starts": (1,), "ends": (2,), "axes": (-1,)}),
    ("Slice", 10, [X, ints(1), ints(3), ints(-1)], {}),
    ("Slice", 11, [SQUARE, ints(0, 1), ints(2, 3)], {}),
    ("Slice", 11, [SQUARE, ints(-4, -3), ints(3, 4), ints(1, 0), ints(2, 2)], {}),
    ("Slice", 13, [SQUARE, ints(3, 3), ints(-9, -9), ints(0, 1), ints(-1, -1)], {}),
    ("Slice", 13, [SQUARE, ints(3, 2), ints(-5, -5), ints(-1, 0), ints(-2, -2)], {}),
    ("Slice", 13, [TEXTS[0], np.array([1], np.int32), np.array([2], np.int32)], {}),
    ("Compress", 9, [X, np.array([True, True])], {"axis": 1}),
    ("Compress", 11, [X, np.array([True, True])], {"axis": -1}),
    ("Compress", 11, [TEXTS, np.array([True])], {}),
    ("ReverseSequence", 10, [X, ints(2, 3)], {"batch_axis": 0, "time_axis": 1}),
    ("ReverseSequence", 10, [X, ints(2, 0, 1)], {}),
    # scattering
    *[("ScatterElements", v, [X, np.array([[[0, 1, -1]], [[2, 2, 0]]]), X[:, :1, 1:]], {"axis": -2}) for v in (11, 16, 18)],
    *[("ScatterElements", 18, [ROW, ints(1, 1, -1), ROW[:3]], {"reduction": how}) for how in ("add", "mul", "max", "min")],
    ("Scatter", 9, [TEXTS, ints(2, 0).reshape(2, 1), TEXTS[:, :1]], {"axis": 1}),
    *[("ScatterND", v, [X, np.array([[1, 2], [0, -1]]), X[0, :2]], {}) for v in (11, 16, 18)],
    *[("ScatterND", 18, [ROW, ints(1, 1, -1)[:, None], ROW[:3]], {"reduction": how}) for how in ("add", "mul", "max", "min")],
    ("TensorScatter", 24, [X, X[:, :2], None], {}),
    ("TensorScatter", 24, [X, X[:, :, :3], ints(1, 3)], {"axis": 2, "mode": "circular"}),
    # order
    ("TopK", 1, [X], {"k": 2, "axis": 1}),
    ("TopK", 10, [SQUARE, ints(3)], {}),
    ("TopK", 11, [SQUARE, ints(2)], {"axis": 0, "largest": 0}),
    ("TopK", 11, [SQUARE, ints(1)], {}),
    # images
    ("DepthToSpace", 1, [IMAGE], {"blocksize": 2}),
    ("DepthToSpace", 11, [IMAGE], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 1, [IMAGE.reshape(2, 4, 2, 6)], {"blocksize": 2}),
    # optionals and texts
    ("Optional", 15, [X], {}),
    ("SequenceAt", 11, [[X, X + 1], np.array(-1)], {}),
    ("OptionalHasElement", 15, [X], {}),
    ("OptionalGetElement", 15, [ONE], {}),
    ("StringConcat", 20, [TEXTS, TEXTS[0, 0:1]], {}),
    ("RegexFullMatch", 20, [TEXTS], {"pattern": "[a-b]"}),
]
