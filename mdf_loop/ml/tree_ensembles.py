"""TreeEnsembleRegressor, TreeEnsembleClassifier, and what they share: from the leaves that rows reach to scores or classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.ml.forests import LEAF, MEMBER, MODES, Forest, TreeNodes
from mdf_loop.ml.machine_learning import ML, known_transform, labels_of, rows_of, transformed
from mdf_loop.ops.registry import kernel

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""What is made of the votes for a target, in the order of their numbers."""


class Votes:
    """What each leaf says: weights for targets, put together over the trees.

    Parameters
    ----------
    leaves, targets, weights : numpy.ndarray
        Of each vote: the place of its leaf among the leaves, the target and the weight.
    n_leaves, n_targets : int
    """

    def __init__(self, leaves: np.ndarray, targets: np.ndarray, weights: np.ndarray, n_leaves: int, n_targets: int) -> None:
        if len(targets) and not 0 <= targets.min() <= targets.max() < n_targets:
            raise ValueError(f"targets must be in [0, {n_targets}); got {targets.min()} to {targets.max()}")
        order = np.lexsort((targets, leaves))
        self.n_targets, self.targets, self.weights = n_targets, targets[order], weights[order].astype(np.float64)
        self.counts = np.bincount(leaves, minlength=n_leaves)
        self.starts = np.cumsum(self.counts) - self.counts

    def together(self, leaves: np.ndarray, aggregate: str) -> np.ndarray:
        """Scores (rows, targets) of the leaves (rows, trees); 0 where there is no vote."""
        shape = len(leaves), self.n_targets
        cells, weights = self._cells(leaves)
        if aggregate in ("SUM", "AVERAGE"):
            scores = np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape)
            return scores.astype(np.float64, copy=False)  # without any vote they are whole numbers
        ufunc, start = (np.minimum, np.inf) if aggregate == "MIN" else (np.maximum, -np.inf)
        scores = np.full(shape, start)
        ufunc.at(scores.reshape(-1), cells, weights)
        return np.where(self.voted(leaves), scores, 0)

    def voted(self, leaves: np.ndarray) -> np.ndarray:
        """Which targets got any vote, for each row."""
        return np.bincount(self._cells(leaves)[0], minlength=len(leaves) * self.n_targets).reshape(-1, self.n_targets) > 0

    def _cells(self, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each vote that counts its place among the scores, and its weight."""
        first = np.arange(0, len(leaves) * self.n_targets, self.n_targets)
        reached = leaves.reshape(-1)
        counts = self.counts.take(reached)
        ends = np.cumsum(counts)
        places = np.repeat(self.starts.take(reached) - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
        return np.repeat(np.repeat(first, leaves.shape[1]), counts) + self.targets.take(places), self.weights.take(places)


_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class Ensemble:
    """Trees and their votes, for inputs of any type.

    Sums are made in double precision and rounded once, so that they do not depend on the order of the trees.

    Parameters
    ----------
    nodes : TreeNodes
    votes : Votes
    base : numpy.ndarray
        Added to the scores: none, one, or one for each target.
    aggregate : str
    """

    def __init__(self, nodes: TreeNodes, votes: Votes, base: np.ndarray, aggregate: str = "SUM") -> None:
        if aggregate not in AGGREGATES:
            raise ValueError(f"aggregate_function must be one of {', '.join(AGGREGATES)}; got {aggregate!r}")
        if len(base) not in (0, 1, votes.n_targets):
            raise ValueError(f"there are {len(base)} base values for {votes.n_targets} targets")
        self.nodes, self.votes, self.aggregate, self.base = nodes, votes, aggregate, base
        self.needs_double = nodes.values.dtype == _DOUBLE
        self._forests: dict[np.dtype, Forest] = {}
        self.forest(_DOUBLE if self.needs_double else _SINGLE)

    def forest(self, dtype: np.dtype) -> Forest:
        """The trees, made once for each type in which numbers are compared."""
        found = self._forests.get(dtype)
        if found is None:
            found = self._forests[dtype] = Forest(self.nodes, dtype)
        return found

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf that each row reaches in each tree."""
        return self.forest(self.precision(x.dtype)).leaves(x)

    def precision(self, dtype: np.dtype) -> np.dtype:
        """In which numbers are compared and scores are given: whole numbers and short ones count as float32."""
        return _DOUBLE if self.needs_double or dtype == _DOUBLE else _SINGLE

    def scores(self, leaves: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Scores (rows, targets) of the leaves."""
        scores = self.votes.together(leaves, self.aggregate)
        if self.aggregate == "AVERAGE":
            scores /= len(self.nodes.roots)
        if len(self.base):
            scores += self.base
        return scores.astype(dtype, copy=False)


# What the operators say of trees


def numbers(plain: Sequence[float] | None, as_tensor: np.ndarray | None, name: str) -> np.ndarray:
    """An attribute in single precision, or its other form, a tensor in double precision."""
    if plain is not None and len(plain) and as_tensor is not None and as_tensor.size:
        raise ValueError(f"{name} and {name}_as_tensor cannot be used together")
    if as_tensor is not None and as_tensor.size:
        return as_tensor.reshape(-1)
    return np.array(() if plain is None else plain, np.float32)


def whole(values: Sequence[int] | None) -> np.ndarray:
    """An attribute of whole numbers."""
    return np.array(() if values is None else values, np.int64)


def of_length(count: int, **attributes: np.ndarray) -> None:
    """Refuse attributes that do not have an element for each node."""
    for name, values in attributes.items():
        if len(values) != count:
            raise ValueError(f"{name} has {len(values)} elements for {count} nodes")


class Names:
    """Nodes by the numbers of their tree and of themselves."""

    def __init__(self, trees: np.ndarray, nodes: np.ndarray) -> None:
        self.trees, self.nodes = np.unique(trees), np.unique(nodes)
        keys = self._keys(trees, nodes)
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        if (self.keys[1:] == self.keys[:-1]).any():
            raise ValueError("two nodes of a tree have the same number")

    def _keys(self, trees: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        at_tree, at_node = np.searchsorted(self.trees, trees), np.searchsorted(self.nodes, nodes)
        known = (at_tree < len(self.trees)) & (at_node < len(self.nodes))
        at_tree, at_node = np.where(known, at_tree, 0), np.where(known, at_node, 0)
        if len(trees) and not len(self.trees):
            raise ValueError("there are no nodes")
        known &= (self.trees[at_tree] == trees) & (self.nodes[at_node] == nodes) if len(trees) else True
        return np.where(known, at_tree * len(self.nodes) + at_node, -1)

    def places(self, trees: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """The place of each node that is named."""
        keys = self._keys(trees, nodes)
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if len(keys) and (wrong := np.flatnonzero(self.keys[at] != keys)).size:
            raise ValueError(f"there is no node {nodes[wrong[0]]} in tree {trees[wrong[0]]}")
        return self.order[at] if len(keys) else np.zeros(0, np.intp)


def named_nodes(
    *,
    nodes_treeids=(),
    nodes_nodeids=(),
    nodes_featureids=(),
    nodes_modes=(),
    nodes_values=None,
    nodes_values_as_tensor=None,
    nodes_truenodeids=(),
    nodes_falsenodeids=(),
    nodes_missing_value_tracks_true=None,
    nodes_hitrates=None,
    nodes_hitrates_as_tensor=None,
) -> tuple[TreeNodes, Names]:
    """The nodes of a regressor or classifier, whose leaves are nodes as well; the hit rates change no result."""
    trees, ids, features = whole(nodes_treeids), whole(nodes_nodeids), whole(nodes_featureids)
    yes, no = whole(nodes_truenodeids), whole(nodes_falsenodeids)
    values = numbers(nodes_values, nodes_values_as_tensor, "nodes_values")
    of_length(len(trees), nodes_nodeids=ids, nodes_featureids=features, nodes_values=values, nodes_truenodeids=yes)
    known = {mode: k for k, mode in enumerate(MODES[:MEMBER])} | {"LEAF": LEAF}
    if unknown := sorted(set(nodes_modes) - set(known)):
        raise ValueError(f"nodes_modes must be among {', '.join(known)}; got {unknown[0]!r}")
    modes = np.array([known[mode] for mode in nodes_modes], np.int64)
    of_length(len(trees), nodes_falsenodeids=no, nodes_modes=modes)
    names, inner = Names(trees, ids), modes != LEAF
    if (features[inner] < 0).any():
        raise ValueError("nodes_featureids must not be negative")
    yes[inner], no[inner] = names.places(trees[inner], yes[inner]), names.places(trees[inner], no[inner])
    roots = np.sort(np.unique(trees, return_index=True)[1])  # the first node of each tree
    return TreeNodes(modes, features, values, yes, no, missing(nodes_missing_value_tracks_true, len(trees)), roots), names


def votes_of(
    nodes: TreeNodes,
    names: Names,
    trees: Sequence[int],
    numbers: Sequence[int],
    targets: np.ndarray,
    weights: np.ndarray,
    n_targets: int,
) -> Votes:
    """The votes of leaves that are named."""
    if not len(trees) == len(numbers) == len(targets) == len(weights):
        raise ValueError(
            f"there are {len(weights)} weights for {len(trees)} numbers of trees, {len(numbers)} of nodes "
            f"and {len(targets)} targets"
        )
    places = names.places(whole(trees), whole(numbers))
    return Votes(*nodes.among_leaves(places, targets, weights), nodes.n_leaves, n_targets)


def missing(tracks: Sequence[int] | None, count: int) -> np.ndarray:
    """Whether nan takes the branch of a yes: where nothing is said it does not."""
    said = whole(tracks)[:count] == 1
    return np.concatenate([said, np.zeros(count - len(said), bool)])


# TreeRegression


@dataclass(frozen=True)
class TreeRegression:
    """Scores of an ensemble, transformed; in the type of the rows where ``keeps_type``, else in single precision."""

    ensemble: Ensemble
    post_transform: str
    keeps_type: bool = False

    def __call__(self, x: np.ndarray) -> np.ndarray:
        rows, ensemble = rows_of(x), self.ensemble
        scores = ensemble.scores(ensemble.leaves(rows), ensemble.precision(rows.dtype))
        return transformed(scores, self.post_transform, x.dtype if self.keeps_type else _SINGLE)


def regressor(
    *,
    aggregate_function="SUM",
    base_values=None,
    base_values_as_tensor=None,
    n_targets=1,
    post_transform="NONE",
    target_ids=(),
    target_nodeids=(),
    target_treeids=(),
    target_weights=None,
    target_weights_as_tensor=None,
    **about_nodes,
):
    """The function of a TreeEnsembleRegressor."""
    nodes, names = named_nodes(**about_nodes)
    weights = numbers(target_weights, target_weights_as_tensor, "target_weights")
    votes = votes_of(nodes, names, target_treeids, target_nodeids, whole(target_ids), weights, n_targets)
    base = numbers(base_values, base_values_as_tensor, "base_values")
    known_transform(post_transform)
    return TreeRegression(Ensemble(nodes, votes, base, aggregate_function), post_transform)


@kernel("TreeEnsembleRegressor", domain=ML, prepare=regressor)
def tree_ensemble_regressor(x, *, prepared):
    """Scores of the leaves that each row reaches, in single precision."""
    return prepared(x)


# Classification


def classifier(
    *,
    base_values=None,
    base_values_as_tensor=None,
    class_ids=(),
    class_nodeids=(),
    class_treeids=(),
    class_weights=None,
    class_weights_as_tensor=None,
    classlabels_int64s=None,
    classlabels_strings=None,
    post_transform="NONE",
    **about_nodes,
):
    """The function of a TreeEnsembleClassifier."""
    labels = labels_of(classlabels_int64s=classlabels_int64s, classlabels_strings=classlabels_strings)
    nodes, names = named_nodes(**about_nodes)
    ids, weights = whole(class_ids), numbers(class_weights, class_weights_as_tensor, "class_weights")
    votes = votes_of(nodes, names, class_treeids, class_nodeids, ids, weights, len(labels))
    base = numbers(base_values, base_values_as_tensor, "base_values")
    known_transform(post_transform)
    if len(labels) == 1 or (len(labels) == 2 and len(set(ids.tolist())) == 1):
        only = votes_of(nodes, names, class_treeids, class_nodeids, np.zeros_like(ids), weights, 1)
        chosen = base[ids[0] : ids[0] + 1] if len(base) > 1 else base
        return TwoClasses(Ensemble(nodes, only, chosen), labels, weights, int(ids[0]), post_transform)
    return Classes(Ensemble(nodes, votes, base), labels, post_transform)


@dataclass(frozen=True)
class Classes:
    """One score for each class: the best is chosen."""

    ensemble: Ensemble
    labels: np.ndarray
    post_transform: str

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, ensemble = rows_of(x), self.ensemble
        leaves = ensemble.leaves(x)
        scores = ensemble.scores(leaves, ensemble.precision(x.dtype))
        best = scores.argmax(1)
        if not len(ensemble.base) and not scores.all():  # a class without a vote is none to choose
            best = np.where(ensemble.votes.voted(leaves), scores, -np.inf).argmax(1)
        return self.labels.take(best), transformed(scores, self.post_transform)


class TwoClasses:
    """One score for two classes: the second is chosen above one half, or, if there are negative weights, above zero."""

    def __init__(self, ensemble: Ensemble, labels: np.ndarray, weights: np.ndarray, voted: int, post_transform: str) -> None:
        self.ensemble, self.labels, self.post_transform = ensemble, labels, post_transform
        self.is_probability = len(labels) == 2 and bool((weights >= 0).all())
        self.voted, self.threshold = voted, 0.5 if self.is_probability else 0.0

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = rows_of(x)
        score = self.ensemble.scores(self.ensemble.leaves(x), self.ensemble.precision(x.dtype))
        above = (score > self.threshold).reshape(-1)
        if len(self.labels) == 1:
            return np.where(above, self.labels[0], type(self.labels[0])()), transformed(score, self.post_transform)
        return self.labels.take(above.astype(np.intp)), self._both(score)

    def _both(self, score: np.ndarray) -> np.ndarray:
        """The scores of both classes."""
        if self.voted == 1:  # what is said of the second class says nothing of the first
            first = np.zeros_like(score)
        elif self.post_transform == "PROBIT" or (self.post_transform == "NONE" and self.is_probability):
            first = 1 - score
        else:
            first = -score
        return transformed(np.concatenate([first, score], 1), self.post_transform)


@kernel("TreeEnsembleClassifier", domain=ML, prepare=classifier)
def tree_ensemble_classifier(x, *, prepared):
    """The class of each row, and the scores of all classes in single precision."""
    return prepared(x)
