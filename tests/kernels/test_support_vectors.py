"""Support vector machines against onnxruntime, and what is refused of them."""

import math

import numpy as np
import pytest
from learned_models import model, onnxruntime_runs, run

from mdf_loop import backend
from mdf_loop.errors import MalformedBody
from mdf_loop.ml import support_vectors


def machine(rng, classes, features, kind, probabilities):
    counts = rng.integers(1, 5, classes).tolist()
    vectors, pairs = sum(counts), classes * (classes - 1) // 2
    attrs = {
        "vectors_per_class": counts,
        "support_vectors": rng.normal(size=vectors * features).tolist(),
        "coefficients": rng.normal(size=(classes - 1) * vectors).tolist(),
        "rho": rng.normal(size=pairs).tolist(),
        "kernel_type": kind,
        "kernel_params": [0.3, 0.2, 3.0],
        "classlabels_ints": [int(k) for k in rng.permutation(20)[:classes]],
    }
    if probabilities:
        attrs |= {"prob_a": (-rng.uniform(0.5, 3, pairs)).tolist(), "prob_b": rng.normal(size=pairs).tolist()}
    return attrs


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize("rows", [1, 40])
def test_support_vector_classifiers_equal_onnxruntime(kind, classes, probabilities, rows):
    rng = np.random.default_rng(classes)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    attrs = machine(rng, classes, 4, kind, probabilities)
    actual, expected = (way("SVMClassifier", x, 1, 2, **attrs) for way in (run, onnxruntime_runs))
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_allclose(actual[1], expected[1], 1e-4, 1e-4)


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regressors_equal_onnxruntime(kind, one_class):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 4)).astype(np.float32)
    attrs = {"kernel_type": kind, "kernel_params": [0.3, 0.2, 3.0], "n_supports": 7, "rho": [0.5], "one_class": one_class}
    attrs |= {"coefficients": rng.normal(size=7).tolist(), "support_vectors": rng.normal(size=28).tolist()}
    actual, expected = (way("SVMRegressor", x, 1, **attrs) for way in (run, onnxruntime_runs))
    np.testing.assert_allclose(actual[0], expected[0], 1e-4, 1e-5)


def test_coupling_finds_the_probabilities_that_the_pairs_come_from():
    p = np.array([0.5, 0.125, 0.25, 0.125])
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    first = [p[i] / (p[i] + p[j]) for i, j in pairs]
    many = np.random.default_rng(1).uniform(0.05, 0.95, (len(pairs), 20))
    found = support_vectors.coupled(pairs, np.column_stack([first, many]), 4)
    np.testing.assert_allclose(found[0], p, atol=5e-3)
    np.testing.assert_allclose(found.sum(1), 1)
    for k, column in enumerate(many.T):  # each row stops by itself
        np.testing.assert_allclose(support_vectors.coupled(pairs, column[:, None], 4)[0], found[1 + k], 1e-9)


def test_distances_of_large_numbers_lose_nothing():
    attrs = {"kernel_type": "RBF", "kernel_params": [1.0, 0.0, 0.0], "n_supports": 1, "rho": [0.0], "coefficients": [1.0]}
    (y,) = run("SVMRegressor", np.array([[1e7 + 1]], np.float64), 1, support_vectors=[1e7], **attrs)
    np.testing.assert_allclose(y, [[math.exp(-1)]], 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel_type": "CUBIC"}, "CUBIC"),
        ({"support_vectors": [1.0, 2.0, 3.0]}, "no 2 rows"),
        ({"vectors_per_class": [1, 1, 1]}, "3 elements for 2 classes"),
        ({"prob_a": [1.0]}, "got 1, 1 and 0"),
        ({"rho": [0.0, 1.0], "coefficients": [1.0]}, "coefficients"),
    ],
)
def test_machines_that_do_not_fit_are_refused(change, message):
    attrs = {"vectors_per_class": [1, 1], "support_vectors": [1.0, 2.0], "coefficients": [1.0, -1.0], "rho": [0.0]}
    attrs |= {"classlabels_ints": [0, 1], "kernel_type": "RBF", "kernel_params": [1.0, 0.0, 0.0], **change}
    with pytest.raises(MalformedBody, match=message):
        backend.prepare(model("SVMClassifier", np.zeros((1, 1), np.float32), 1, 2, **attrs))
