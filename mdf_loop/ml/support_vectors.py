"""SVMRegressor and SVMClassifier.

All is computed in double precision and rounded once: sums over support vectors cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.ml.machine_learning import ML, known_transform, labels_of, rows_of, transformed
from mdf_loop.ops.registry import kernel, say

BLOCK = 1 << 15
"""Differences that are made at a time: they should stay in the cache."""


class Similarity:
    """The kernel function of support vectors, for rows: (rows, vectors).

    Parameters
    ----------
    kernel_type : str
        LINEAR, POLY, RBF or SIGMOID.
    kernel_params : sequence of float
        gamma, coef0 and degree.
    vectors : numpy.ndarray
        One in each row.
    """

    def __init__(self, kernel_type: str, kernel_params: Sequence[float] | None, vectors: np.ndarray) -> None:
        self.gamma, self.coef0, self.degree = (*map(float, kernel_params or ()), 0.0, 0.0, 0.0)[:3]
        self.kind = kernel_type
        functions = {"LINEAR": self._linear, "POLY": self._poly, "RBF": self._rbf, "SIGMOID": self._sigmoid}
        if kernel_type not in functions:
            raise ValueError(f"kernel_type must be one of {', '.join(functions)}; got {kernel_type!r}")
        self._function = functions[kernel_type]
        self.columns = np.ascontiguousarray(vectors.T)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if x.shape[1] != len(self.columns):
            raise ValueError(f"support vectors have {len(self.columns)} features; got rows of {x.shape[1]}")
        return self._function(x)

    def _linear(self, x: np.ndarray) -> np.ndarray:
        return x @ self.columns

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        products = x @ self.columns
        products *= self.gamma
        products += self.coef0
        return products

    def _poly(self, x: np.ndarray) -> np.ndarray:
        products = self._scaled(x)
        if self.degree == 2:
            return products * products
        return products * products * products if self.degree == 3 else np.power(products, self.degree)

    def _sigmoid(self, x: np.ndarray) -> np.ndarray:
        return np.tanh(self._scaled(x))

    def _rbf(self, x: np.ndarray) -> np.ndarray:
        """Differences rather than products: nothing is lost where both are large."""
        distances = np.empty((len(x), self.columns.shape[1]))
        size = max(BLOCK // max(self.columns.size, 1), 1)
        for k in range(0, len(x), size):
            differences = x[k : k + size].T[:, :, None] - self.columns[:, None]
            np.add.reduce(np.multiply(differences, differences, differences), 0, out=distances[k : k + size])
        distances *= -self.gamma
        return np.exp(distances, distances)


def doubles(x: np.ndarray) -> np.ndarray:
    """Rows of features in double precision."""
    return rows_of(x).astype(np.float64, copy=False)


def vectors_of(values: Sequence[float], count: int, name: str = "support_vectors") -> np.ndarray:
    """A list as so many rows."""
    if count < 1 or len(values) % count:
        raise ValueError(f"{name} has {len(values)} elements, which make no {count} rows")
    return np.array(values, np.float64).reshape(count, -1)


# SvmRegression


def regressor(
    *,
    coefficients=(),
    kernel_params=None,
    kernel_type="LINEAR",
    n_supports=0,
    n_targets=1,
    one_class=0,
    post_transform="NONE",
    rho=(0.0,),
    support_vectors=(),
):
    """The function of an SVMRegressor."""
    known_transform(post_transform)
    if n_supports:
        similarity = Similarity(kernel_type, kernel_params, vectors_of(support_vectors, n_supports))
        weights = vectors_of(coefficients, n_supports, "coefficients")
    else:
        similarity = Similarity("LINEAR", None, vectors_of(coefficients, 1, "coefficients"))
        weights = np.ones((1, 1))
    if weights.shape[1] != 1 or len(rho) < 1:
        raise ValueError(f"there must be one coefficient for each support vector and one rho; got {weights.size} and {len(rho)}")
    return SvmRegression(similarity, weights, float(rho[0]), bool(one_class), post_transform)


@dataclass(frozen=True)
class SvmRegression:
    """A weighted sum of similarities, transformed; or its sign."""

    similarity: Similarity
    weights: np.ndarray
    offset: float
    is_sign: bool
    post_transform: str

    def __call__(self, x: np.ndarray) -> np.ndarray:
        scores = self.similarity(doubles(x)) @ self.weights
        scores += self.offset
        if self.is_sign:
            return np.where(scores > 0, np.float32(1), np.float32(-1))
        return transformed(scores, self.post_transform)


@kernel("SVMRegressor", domain=ML, prepare=regressor)
def svm_regressor(x, *, prepared):
    """A weighted sum over support vectors; its sign if there is but one class."""
    return prepared(x)


def rows_in(shape: tuple[int | None, ...] | None) -> int | None:
    """How many rows of features a shape has, if that is known."""
    return None if not shape else 1 if len(shape) == 1 else shape[0]


say("SVMRegressor", domain=ML, results=lambda shape, **attrs: [(np.dtype(np.float32), (rows_in(shape), 1))])


# Classification


def classifier(
    *,
    classlabels_ints=None,
    classlabels_strings=None,
    coefficients=(),
    kernel_params=None,
    kernel_type="LINEAR",
    post_transform="NONE",
    prob_a=None,
    prob_b=None,
    rho=(),
    support_vectors=(),
    vectors_per_class=(),
):
    """The function of an SVMClassifier."""
    known_transform(post_transform)
    labels = labels_of(classlabels_ints=classlabels_ints, classlabels_strings=classlabels_strings)
    if not any(vectors_per_class):
        return _linear(labels, coefficients, rho, post_transform)
    if len(vectors_per_class) != len(labels) or len(labels) < 2:
        raise ValueError(
            f"vectors_per_class has {len(vectors_per_class)} elements for {len(labels)} classes, of which there must be two"
        )
    count = sum(vectors_per_class)
    similarity = Similarity(kernel_type, kernel_params, vectors_of(support_vectors, count))
    pairs = Pairs(vectors_per_class, coefficients, rho, prob_a or (), prob_b or ())
    return PairedClasses(similarity, pairs, labels, post_transform)


def _linear(labels: np.ndarray, coefficients: Sequence[float], rho: Sequence[float], post_transform: str) -> LinearClasses:
    """Without support vectors: a linear function for each class."""
    similarity = Similarity("LINEAR", None, vectors_of(coefficients, len(labels), "coefficients"))
    if len(rho) < 1:
        raise ValueError("rho must have an element")
    are_probabilities = min(coefficients) >= 0 and len(labels) == 2
    return LinearClasses(similarity, float(rho[0]), are_probabilities, labels, post_transform)


@dataclass(frozen=True)
class LinearClasses:
    """A linear function for each class: the best is chosen, or the second of two where either is a half or more."""

    similarity: Similarity
    offset: float
    are_probabilities: bool
    labels: np.ndarray
    post_transform: str

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = self.similarity(doubles(x)) + self.offset
        best = scores.argmax(1)
        if self.are_probabilities:
            best[scores.max(1, initial=-np.inf) >= 0.5] = 1
        return self.labels.take(best), transformed(scores, self.post_transform)


@dataclass(frozen=True)
class PairedClasses:
    """What the decisions of all pairs of classes say together."""

    similarity: Similarity
    pairs: Pairs
    labels: np.ndarray
    post_transform: str

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs, scores = self.pairs, self.pairs.scores(self.similarity(doubles(x)))
        best = self.labels.take(pairs.best(scores))
        if pairs.has_probabilities:
            return best, transformed(pairs.probabilities(scores), self.post_transform)
        if scores.shape[1] == 1:
            scores = np.concatenate([-scores, scores], 1)
        return best, transformed(scores, self.post_transform)


class Pairs:
    """One decision for each pair of classes, and what all of them together say.

    Parameters
    ----------
    counts : sequence of int
        Support vectors of each class, which lie side by side.
    coefficients : sequence of float
        For each vector one for each of the other classes: (classes - 1, vectors).
    rho, prob_a, prob_b : sequence of float
        An element for each pair; the last two may be empty.
    """

    def __init__(
        self,
        counts: Sequence[int],
        coefficients: Sequence[float],
        rho: Sequence[float],
        prob_a: Sequence[float],
        prob_b: Sequence[float],
    ) -> None:
        self.n = len(counts)
        self.pairs = [(i, j) for i in range(self.n) for j in range(i + 1, self.n)]
        if len(prob_a) != len(prob_b) or (prob_a and len(prob_a) < len(self.pairs)) or len(rho) < len(self.pairs):
            raise ValueError(
                f"{len(self.pairs)} pairs of classes need as many elements of rho, and of prob_a and prob_b if there are any; "
                f"got {len(rho)}, {len(prob_a)} and {len(prob_b)}"
            )
        given = vectors_of(coefficients, self.n - 1, "coefficients")
        if given.shape[1] != sum(counts):
            raise ValueError(f"coefficients must have {self.n - 1} x {sum(counts)} elements; got {given.size}")
        ends = np.cumsum(counts)
        of_class = [slice(end - count, end) for end, count in zip(ends.tolist(), counts, strict=True)]
        self.weights, votes = np.zeros((sum(counts), len(self.pairs))), np.zeros((len(self.pairs), self.n))
        for k, (i, j) in enumerate(self.pairs):
            self.weights[of_class[i], k], self.weights[of_class[j], k] = given[j - 1, of_class[i]], given[i, of_class[j]]
            votes[k, i], votes[k, j] = 1, -1
        self.votes, self.against = votes, (votes < 0).sum(0)
        self.rho = np.array(rho[: len(self.pairs)], np.float64)
        self.has_probabilities = len(prob_a) > 0
        self.a, self.b = (np.array(p[: len(self.pairs)], np.float64) for p in (prob_a, prob_b))

    def scores(self, similarities: np.ndarray) -> np.ndarray:
        """The decision of each pair, positive for its first class: (rows, pairs)."""
        scores = similarities @ self.weights
        scores += self.rho
        return scores

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The place of the class that most pairs decide for, the first of equals."""
        if self.n == 2:
            return (scores[:, 0] <= 0) | np.isnan(scores[:, 0])
        votes = (scores > 0) @ self.votes
        votes += self.against
        return votes.argmax(1)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """The probability of each class that fits those of the pairs best: (rows, classes)."""
        first = np.minimum(np.maximum(1 / (1 + np.exp(scores * self.a + self.b)), 1e-7), 1 - 1e-7)
        return coupled(self.pairs, first.T, self.n)


# Coupling: method 2 of Wu, Lin and Weng (Probability estimates for multi-class classification by pairwise coupling),
# which libsvm and onnxruntime stop after as many rounds as here.


def coupled(pairs: Sequence[tuple[int, int]], first: np.ndarray, n: int) -> np.ndarray:
    """Probabilities of n classes, (rows, classes), from those of the first class of each pair, (pairs, rows)."""
    q, places, found = np.zeros((n, n, first.shape[1])), np.arange(first.shape[1]), np.empty((first.shape[1], n))
    for (i, j), r in zip(pairs, first, strict=True):
        q[i, i] += (1 - r) * (1 - r)
        q[j, j] += r * r
        q[i, j] = q[j, i] = -r * (1 - r)
    p = np.full((n, first.shape[1]), 1 / n)
    for _ in range(max(100, n)):
        qp = np.add.reduce(q * p, 1)
        pqp = np.add.reduce(p * qp, 0)
        going = np.abs(qp - pqp).max(0) >= 0.005 / n
        if not going.all():
            found[places[~going]] = p[:, ~going].T
            q, p, qp, pqp, places = q[:, :, going], p[:, going], qp[:, going], pqp[going], places[going]
            if not len(places):
                break
        _couple(q, p, qp, pqp)
    found[places] = p.T
    return found


def _couple(q: np.ndarray, p: np.ndarray, qp: np.ndarray, pqp: np.ndarray) -> None:
    """One round, in place: each class in turn takes the probability that fits the others."""
    whole: Any = 1.0
    for t, row in enumerate(q):
        value, own = qp[t] / whole, row[t]
        step = (pqp - value) / own
        ratio = 1 + step
        pqp = (pqp + step * (step * own + 2 * value)) / (ratio * ratio)
        more = step * whole
        p[t] += more
        qp += more * row
        whole = whole * ratio
    p /= whole


@kernel("SVMClassifier", domain=ML, prepare=classifier)
def svm_classifier(x, *, prepared):
    """The class of each row, and the probability of each class, or the decisions of the pairs of classes."""
    return prepared(x)


def _results_of_classifier(shape, *, classlabels_ints=None, classlabels_strings=None, vectors_per_class=(), prob_a=None, **attrs):
    """Classes, of which strings have no element type here, and a column of scores for each class or pair of classes."""
    n = len(classlabels_ints or classlabels_strings or ())
    are_pairs = any(vectors_per_class) and not prob_a and n > 2
    label = np.dtype(np.int64) if classlabels_ints else None
    scores = np.dtype(np.float32), (rows_in(shape), n * (n - 1) // 2 if are_pairs else n)
    return [(label, None if label is None else (rows_in(shape),)), scores]


say("SVMClassifier", domain=ML, results=_results_of_classifier)
