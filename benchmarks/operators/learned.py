"""Learned models: ensembles of trees and support vector machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from operators.record import Case

ML = "ai.onnx.ml"


def cases() -> Iterator[Case]:
    """The rows."""
    rng = np.random.default_rng(5)
    for trees, depth in ((1, 4), (10, 5), (100, 6), (300, 8)):
        for rows in (1, 10, 1000):
            x = rng.standard_normal((rows, 20)).astype(np.float32)
            yield from _trees(rng, trees, depth, x)
    for vectors in (20, 300):
        for rows in (1, 10, 1000):
            yield from _machines(rng, vectors, rng.standard_normal((rows, 10)).astype(np.float32))


def _trees(rng: np.random.Generator, trees: int, depth: int, x: np.ndarray) -> Iterator[Case]:
    name, inner, leaves = f"{trees}x{depth} on {len(x)}", 2**depth - 1, 2**depth
    nodes = _complete(rng, trees, depth, x.shape[1])
    at = {"treeids": np.repeat(np.arange(trees), leaves), "nodeids": np.tile(np.arange(inner, inner + leaves), trees)}
    weights = rng.standard_normal(trees * leaves).astype(np.float32)
    targets = {f"target_{key}": values.tolist() for key, values in at.items()}
    one = {"n_targets": 1, "target_ids": [0] * len(weights), "target_weights": weights.tolist()}
    yield Case(f"TreeEnsembleRegressor {name}", "TreeEnsembleRegressor", [x], {**nodes, **targets, **one}, 3, ML, atol=1e-4)
    double = {key: values for key, values in one.items() if key != "target_weights"}
    tensors = {"target_weights_as_tensor": weights.astype(np.float64), "nodes_values_as_tensor": np.array(nodes["nodes_values"])}
    double |= {key: _tensor(values) for key, values in tensors.items()}
    rest = {key: values for key, values in nodes.items() if key != "nodes_values"}
    wide = x.astype(np.float64)
    yield Case(
        f"TreeEnsembleRegressor double {name}", "TreeEnsembleRegressor", [wide], {**rest, **targets, **double}, 3, ML, atol=1e-4
    )
    missing = {"nodes_missing_value_tracks_true": rng.integers(0, 2, len(nodes["nodes_modes"])).tolist()}
    holes = np.where(rng.random(x.shape) < 0.1, np.float32(np.nan), x)
    attrs = {**nodes, **targets, **one, **missing}
    yield Case(f"TreeEnsembleRegressor with nan {name}", "TreeEnsembleRegressor", [holes], attrs, 3, ML, atol=1e-4)
    for classes in (2, 3):
        each = {f"class_{key}": values.tolist() for key, values in at.items()}
        each["class_ids"] = [0] * len(weights) if classes == 2 else (at["treeids"] % 3).tolist()
        attrs = {**nodes, **each, "class_weights": weights.tolist(), "classlabels_int64s": list(range(classes))}
        attrs["post_transform"] = "LOGISTIC" if classes == 2 else "SOFTMAX"
        op = "TreeEnsembleClassifier"
        yield Case(f"{op} {classes} {name}", op, [x], attrs, 3, ML, 2, atol=1e-4)
    yield Case(f"TreeEnsemble {name}", "TreeEnsemble", [x], _version_5(rng, trees, depth, x.shape[1]), 5, ML, atol=1e-4)


def _complete(rng: np.random.Generator, trees: int, depth: int, features: int) -> dict[str, Any]:
    """Complete trees, level by level."""
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    place, is_leaf = np.arange(count), np.arange(count) >= inner
    return {
        "nodes_treeids": np.repeat(np.arange(trees), count).tolist(),
        "nodes_nodeids": np.tile(place, trees).tolist(),
        "nodes_featureids": rng.integers(0, features, trees * count).tolist(),
        "nodes_modes": ["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf] * trees,
        "nodes_values": rng.standard_normal(trees * count).astype(np.float32).tolist(),
        "nodes_truenodeids": np.tile(np.where(is_leaf, 0, 2 * place + 1), trees).tolist(),
        "nodes_falsenodeids": np.tile(np.where(is_leaf, 0, 2 * place + 2), trees).tolist(),
    }


def _version_5(rng: np.random.Generator, trees: int, depth: int, features: int) -> dict[str, Any]:
    """The same shape of trees, a few nodes of which ask for membership."""
    inner, leaves = 2**depth - 1, 2**depth
    place, tree = np.tile(np.arange(inner), trees), np.repeat(np.arange(trees), inner)
    modes = np.where(rng.random(trees * inner) < 0.02, 6, 0).astype(np.uint8)
    is_leaf = (place >= inner // 2).astype(np.int64)
    first = np.where(is_leaf, tree * leaves + 2 * place + 1 - inner, tree * inner + 2 * place + 1)
    sets = np.tile(np.array([0, 1, 2, np.nan], np.float32), int((modes == 6).sum()))
    return {
        "tree_roots": (np.arange(trees) * inner).tolist(),
        "nodes_featureids": rng.integers(0, features, trees * inner).tolist(),
        "nodes_modes": _tensor(modes),
        "nodes_splits": _tensor(rng.standard_normal(trees * inner).astype(np.float32)),
        "nodes_truenodeids": first.tolist(),
        "nodes_falsenodeids": (first + 1).tolist(),
        "nodes_trueleafs": is_leaf.tolist(),
        "nodes_falseleafs": is_leaf.tolist(),
        "leaf_targetids": [0] * (trees * leaves),
        "leaf_weights": _tensor(rng.standard_normal(trees * leaves).astype(np.float32)),
        "n_targets": 1,
        **({"membership_values": _tensor(sets)} if len(sets) else {}),
    }


def _tensor(values: np.ndarray) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(values)


def _machines(rng: np.random.Generator, vectors: int, x: np.ndarray) -> Iterator[Case]:
    name, features = f"{vectors} on {len(x)}", x.shape[1]
    supports = {"support_vectors": rng.standard_normal(vectors * features).tolist(), "kernel_params": [0.1, 0.5, 3.0]}
    for kind in ("RBF", "POLY", "LINEAR"):
        attrs = {**supports, "kernel_type": kind, "coefficients": rng.standard_normal(vectors).tolist(), "rho": [0.1]}
        attrs["n_supports"] = vectors
        yield Case(f"SVMRegressor {kind} {name}", "SVMRegressor", [x], attrs, 1, ML, atol=1e-3)
    for classes in (2, 3, 10):
        pairs = classes * (classes - 1) // 2
        attrs = {
            **supports,
            "kernel_type": "RBF",
            "coefficients": rng.standard_normal((classes - 1) * vectors).tolist(),
            "rho": rng.standard_normal(pairs).tolist(),
            "vectors_per_class": np.bincount(np.arange(vectors) % classes).tolist(),
            "classlabels_ints": list(range(classes)),
        }
        yield Case(f"SVMClassifier {classes} {name}", "SVMClassifier", [x], attrs, 1, ML, 2, atol=1e-4)
        attrs |= {"prob_a": (-rng.uniform(0.5, 3, pairs)).tolist(), "prob_b": rng.standard_normal(pairs).tolist()}
        yield Case(f"SVMClassifier {classes} probabilities {name}", "SVMClassifier", [x], attrs, 1, ML, 2, atol=1e-3)
