"""Samples for the kernels of this family."""

import ml_dtypes
import numpy as np

_random = np.random.default_rng(5)


def numbers(*shape, dtype=np.float32):
    """Numbers that no rule can get right by chance."""
    return _random.normal(size=shape).astype(dtype)


def bytes_(*shape, dtype=np.uint8):
    return _random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)


PRODUCTS = [
    *[("MatMul", 13, [numbers(*a), numbers(*b)], {}) for a, b in (((4,), (4, 3)), ((2, 4), (4,)), ((2, 3, 4), (4, 5)))],
    *[("MatMul", 13, [numbers(*a), numbers(*b)], {}) for a, b in (((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)))],
    ("MatMul", 13, [numbers(2, 3, dtype=ml_dtypes.bfloat16), numbers(2, 3, 2, dtype=ml_dtypes.bfloat16)], {}),
    ("MatMul", 9, [np.arange(6).reshape(2, 3), np.arange(9).reshape(3, 3)], {}),
    *[
        ("Gemm", 13, [numbers(2, 3), numbers(3, 4), numbers(*c)], {"alpha": 0.5, "beta": 2.0})
        for c in ((4,), (2, 4), (2, 1), (), (1,))
    ],
    ("Gemm", 11, [numbers(3, 2), numbers(4, 3)], {"transA": 1, "transB": 1}),
    ("Gemm", 9, [np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4), np.arange(4)], {"alpha": 0.5}),
    ("Gemm", 6, [numbers(2, 3), numbers(3, 4), numbers(2, 4)], {"beta": 0.5}),
    ("Gemm", 6, [numbers(2, 3), numbers(3, 4), numbers(4)], {"broadcast": 1}),
    ("Einsum", 12, [numbers(2, 3), numbers(3, 4)], {"equation": "ij , jk"}),
    ("Einsum", 12, [numbers(5, 2, 3), numbers(5, 3, 4)], {"equation": "...ij,...jk->...ik"}),
    ("Einsum", 12, [numbers(3), numbers(3, 3), numbers(3)], {"equation": "a,aB,B"}),
    ("Einsum", 28, [numbers(2, 3, dtype=ml_dtypes.bfloat16)], {"equation": "zA->Az"}),
    (
        "MatMulInteger",
        10,
        [bytes_(2, 3, 4), bytes_(4, 5, dtype=np.int8), np.array([5, 250, 3], np.uint8), np.array([-4], np.int8)],
        {},
    ),
    ("MatMulInteger", 10, [bytes_(4), bytes_(4, 5), np.array(5, np.uint8)], {}),
    ("Det", 11, [numbers(2, 3, 3)], {}),
    ("Det", 22, [numbers(3, 3, dtype=np.float16)], {}),
]

AXES = [
    *[
        (op, opset, [numbers(2, 3, 4)], {"axis": axis})
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for opset, axis in ((9, 1), (9, 0), (11, -1), (11, -3), (13, 0), (13, -2))
    ],
    ("Softmax", 13, [numbers(2, 3, dtype=np.float16)], {"axis": 1}),
    ("LogSoftmax", 13, [numbers(2, 3, dtype=ml_dtypes.bfloat16)], {}),
    ("LpNormalization", 1, [numbers(2, 3, 4)], {"axis": 1, "p": 1}),
    ("MeanVarianceNormalization", 9, [numbers(2, 3, 4, 2)], {"axes": (0, -1)}),
    ("LayerNormalization", 17, [numbers(2, 3, 4), numbers(3, 4), numbers(4)], {"axis": 1}),
    ("LayerNormalization", 17, [numbers(2, 3, dtype=np.float16), numbers(3, dtype=np.float16)], {"axis": -1}),
    ("RMSNormalization", 23, [numbers(2, 3, 4), numbers(4)], {"axis": 2}),
]

CHANNELS = [
    *[
        ("BatchNormalization", opset, [numbers(2, 3, 4), *(numbers(3) for _ in range(3)), numbers(3) ** 2], attrs)
        for opset, attrs in ((6, {"is_test": 1}), (6, {}), (7, {}), (9, {}), (14, {"training_mode": 1}))
    ],
    ("BatchNormalization", 7, [numbers(2, 3, 4), *(numbers(3, 4) for _ in range(3)), numbers(3, 4) ** 2], {"spatial": 0}),
    ("GroupNormalization", 18, [numbers(2, 4, 3), numbers(2), numbers(2)], {"num_groups": 2}),
    ("InstanceNormalization", 1, [numbers(2, 3, 4, 2), numbers(3), numbers(3)], {"consumed_inputs": (0, 0, 0)}),
    ("LRN", 1, [numbers(2, 5, 3, 2)], {"size": 4}),
    ("Dropout", 7, [numbers(2, 3)], {"ratio": 0.3}),
    ("Conv", 11, [numbers(2, 4, 7), numbers(6, 2, 3), numbers(6)], {"group": 2, "strides": (2,), "pads": (1, 2)}),
    ("Conv", 1, [numbers(1, 2, 5, 6), numbers(3, 2, 3, 2)], {"auto_pad": "SAME_LOWER", "dilations": (2, 1)}),
    (
        "ConvTranspose",
        11,
        [numbers(2, 4, 5), numbers(4, 3, 3), numbers(6)],
        {"group": 2, "strides": (2,), "output_padding": (1,)},
    ),
    ("GlobalLpPool", 1, [numbers(2, 3, 4, 2)], {"p": 3.0}),
    ("LpPool", 1, [numbers(2, 3, 6)], {"kernel_shape": (3,), "p": 1.0}),
    (
        "AveragePool",
        10,
        [numbers(2, 3, 7)],
        {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0), "ceil_mode": 1, "count_include_pad": 1},
    ),
    ("MaxPool", 8, [numbers(2, 3, 6, 5)], {"kernel_shape": (3, 2), "auto_pad": "SAME_UPPER"}),
]

RECURRENT = [
    (
        "RNN",
        7,
        [numbers(5, 2, 3), numbers(2, 4, 3), numbers(2, 4, 4), None, np.array([3, 5], np.int32)],
        {"direction": "bidirectional", "hidden_size": 4},
    ),
    (
        "GRU",
        3,
        [numbers(5, 2, 3), numbers(1, 12, 3), numbers(1, 12, 4), numbers(1, 24)],
        {"hidden_size": 4, "linear_before_reset": 1, "direction": "reverse"},
    ),
    (
        "LSTM",
        14,
        [numbers(2, 5, 3), numbers(1, 16, 3), numbers(1, 16, 4), None, np.array([4, 2], np.int32), numbers(2, 1, 4)],
        {"hidden_size": 4, "layout": 1},
    ),
]

PICTURES = [
    ("Upsample", 1, [numbers(2, 3, 4, 5)], {"height_scale": 1.5, "width_scale": 2.0, "mode": "bilinear"}),
    ("Upsample", 7, [numbers(2, 3, 4)], {"scales": (1.0, 1.0, 2.5)}),
    ("Resize", 10, [numbers(2, 3, 4), np.array([1, 0.6, 2.5], np.float32)], {"mode": "linear"}),
    (
        "Resize",
        11,
        [numbers(3, 4), np.array([0, 0.2, 0.8, 1.1], np.float32), np.array([2, 1.5], np.float32)],
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0},
    ),
    (
        "Resize",
        18,
        [numbers(3, 4, 2), None, None, np.array([5, 3])],
        {"axes": (-2, 0), "mode": "cubic", "antialias": 1, "keep_aspect_ratio_policy": "not_larger"},
    ),
    ("GridSample", 16, [numbers(2, 3, 4, 5), numbers(2, 3, 2, 2)], {"mode": "bicubic", "padding_mode": "reflection"}),
]

WORDS = np.array([["a", "b", "?"], ["b", "b", "c"]], object)
WHOLE = np.array([[4, 5, 6], [5, 5, 4]])
MACHINE_LEARNING = [
    ("CategoryMapper", [WORDS], {"cats_int64s": (4, 5), "cats_strings": ("a", "b")}),
    ("CategoryMapper", [WHOLE], {"cats_int64s": (4, 5), "cats_strings": ("a", "b")}),
    ("LabelEncoder", [WORDS], {"classes_strings": ("a", "b")}),
    ("LabelEncoder", [WORDS], {"keys_strings": ("a", "b"), "values_floats": (0.5, 1.5)}),
    ("OneHotEncoder", [WORDS], {"cats_strings": ("b", "a")}),
    ("Imputer", [numbers(2, 3)], {"imputed_value_floats": (1.0, 2.0, 3.0), "replaced_value_float": float("nan")}),
    ("Imputer", [WHOLE], {"imputed_value_int64s": (7,), "replaced_value_int64": 5}),
    ("Binarizer", [WHOLE], {"threshold": 4.5}),
    ("Scaler", [WHOLE], {"offset": (1.0, 2.0, 3.0), "scale": (0.5, 2.0, 3.0)}),
    *[("Normalizer", [numbers(2, 3)], {"norm": norm}) for norm in ("MAX", "L1", "L2")],
]
# Of every rank: what works on features must not take the iterations for them.
MACHINE_LEARNING += [
    (op, [x.reshape(-1)[:size].reshape(shape)], attrs)
    for op, (x, *_), attrs in [*MACHINE_LEARNING]
    for shape, size in (((), 1), ((3,), 3), ((1, 2, 3), 6))
]
SUPPORT = {"support_vectors": (0.5, -1.0, 0.25, 1.0, 0.0, -0.5), "kernel_params": (0.5, 0.25, 3.0)}
MACHINE_LEARNING += [
    ("SVMRegressor", [x], {**SUPPORT, "kernel_type": kind, "n_supports": 3, "coefficients": (1.0, -2.0, 0.5), "rho": (0.1,)})
    for x, kind in ((numbers(4, 2), "RBF"), (numbers(2), "POLY"), (numbers(1, 2), "SIGMOID"))
]
CLASSES = {"vectors_per_class": (1, 1, 1), "classlabels_ints": (4, 5, 6), "kernel_type": "RBF", "rho": (0.1, -0.2, 0.3)}
CLASSES |= {**SUPPORT, "coefficients": (1.0, -2.0, 0.5, 0.25, 1.5, -1.0), "prob_a": (-1.0, -2.0, -1.5), "prob_b": (0.1, 0.2, 0.3)}
MACHINE_LEARNING += [("SVMClassifier", [x], CLASSES) for x in (numbers(5, 2), numbers(2), numbers(30, 2))]
STUMP = {
    "nodes_treeids": (0, 0, 0),
    "nodes_nodeids": (0, 1, 2),
    "nodes_featureids": (1, 0, 0),
    "nodes_modes": ("BRANCH_LEQ", "LEAF", "LEAF"),
    "nodes_values": (0.0, 0.0, 0.0),
    "nodes_truenodeids": (1, 0, 0),
    "nodes_falsenodeids": (2, 0, 0),
}
MACHINE_LEARNING += [
    (
        f"TreeEnsemble{kind}",
        [x],
        {
            **STUMP,
            f"{what}_treeids": (0, 0),
            f"{what}_nodeids": (1, 2),
            f"{what}_ids": (0, 1),
            f"{what}_weights": (1.0, 2.0),
            **more,
        },
    )
    for kind, what, more in (
        ("Regressor", "target", {"n_targets": 2}),
        ("Classifier", "class", {"classlabels_strings": ("low", "high")}),
    )
    for x in (numbers(4, 2), numbers(2))
]

SAMPLES: list = [
    *PRODUCTS,
    *AXES,
    *CHANNELS,
    *RECURRENT,
    *PICTURES,
    *[(f"ai.onnx.ml::{op}", 2 if "keys_strings" in attrs else 1, inputs, attrs) for op, inputs, attrs in MACHINE_LEARNING],
]
