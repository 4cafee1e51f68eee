"""TreeEnsemble: nodes and leaves in tensors of their own, sets among them, numbers for the names of the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.ml.forests import LEAF, MEMBER, TreeNodes
from mdf_loop.ml.machine_learning import ML
from mdf_loop.ml.tree_ensembles import AGGREGATES, Ensemble, TreeRegression, Votes, missing, of_length, whole
from mdf_loop.ops.registry import kernel

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""What TreeEnsemble writes as numbers, in their order."""


def ensemble_5(
    *,
    tree_roots,
    nodes_modes,
    nodes_splits,
    nodes_featureids,
    nodes_truenodeids,
    nodes_trueleafs,
    nodes_falsenodeids,
    nodes_falseleafs,
    leaf_targetids,
    leaf_weights,
    n_targets=None,
    aggregate_function=1,
    post_transform=0,
    membership_values=None,
    nodes_missing_value_tracks_true=None,
    nodes_hitrates=None,
):
    """The function of a TreeEnsemble."""
    n_leaves, targets, weights = len(leaf_targetids), whole(leaf_targetids), leaf_weights.reshape(-1)
    nodes = _nodes_5(
        n_leaves,
        whole(tree_roots),
        nodes_modes.reshape(-1).astype(np.int64),
        nodes_splits.reshape(-1),
        whole(nodes_featureids),
        (nodes_truenodeids, nodes_trueleafs),
        (nodes_falsenodeids, nodes_falseleafs),
        nodes_missing_value_tracks_true,
        membership_values,
    )
    n_targets = int(targets.max(initial=0)) + 1 if n_targets is None else n_targets
    if len(weights) != n_leaves:
        raise ValueError(f"leaf_weights has {len(weights)} elements for {n_leaves} leaves")
    votes = Votes(np.arange(n_leaves), targets, weights, n_leaves, n_targets)
    ensemble = Ensemble(nodes, votes, np.zeros(0), AGGREGATES[aggregate_function])
    return TreeRegression(ensemble, TRANSFORMS[post_transform], keeps_type=True)


def _nodes_5(
    n_leaves: int,
    roots: np.ndarray,
    modes: np.ndarray,
    splits: np.ndarray,
    features: np.ndarray,
    yes: tuple[Sequence[int], Sequence[int]],
    no: tuple[Sequence[int], Sequence[int]],
    tracks: Sequence[int] | None,
    members: np.ndarray | None,
) -> TreeNodes:
    """The nodes of a TreeEnsemble, its leaves behind the others; of the branches where they lead, and whether to leaves."""
    count = len(modes)
    splits = splits.astype(np.float32) if splits.itemsize < 4 else splits
    if count and not 0 <= modes.min() <= modes.max() <= MEMBER:
        raise ValueError(f"nodes_modes must be in [0, {MEMBER}]; got {modes.min()} to {modes.max()}")
    true, false = _places(*yes, count, n_leaves), _places(*no, count, n_leaves)
    of_length(count, nodes_splits=splits, nodes_featureids=features, nodes_truenodeids=true, nodes_falsenodeids=false)
    nothing, places = np.zeros(n_leaves, np.int64), np.arange(count, count + n_leaves)
    return TreeNodes(
        np.concatenate([modes, nothing + LEAF]),
        np.concatenate([features, nothing]),
        np.concatenate([splits, nothing.astype(splits.dtype)]),
        np.concatenate([true, places]),
        np.concatenate([false, places]),
        missing(tracks, count + n_leaves),
        _roots(roots, true, false, count),
        _members(modes, members),
    )


def _places(ids: Sequence[int], are_leaves: Sequence[int], count: int, n_leaves: int) -> np.ndarray:
    """Places of the nodes that follow, leaves behind the others."""
    ids, are_leaves = whole(ids), whole(are_leaves) != 0
    of_length(count, **{"the list of branches": ids, "the list of what is a leaf": are_leaves})
    most = np.where(are_leaves, n_leaves, count)
    if ((ids < 0) | (ids >= most)).any():
        raise ValueError(f"a branch leads to a node that does not exist: there are {count} nodes and {n_leaves} leaves")
    return np.where(are_leaves, count + ids, ids)


def _roots(roots: np.ndarray, yes: np.ndarray, no: np.ndarray, count: int) -> np.ndarray:
    """The first node of each tree; one whose branches lead to the same leaf is that leaf."""
    if len(roots) and not 0 <= roots.min() <= roots.max() < count:
        raise ValueError(f"tree_roots must be in [0, {count}); got {roots.min()} to {roots.max()}")
    return np.where((yes[roots] == no[roots]) & (yes[roots] >= count), yes[roots], roots)


def _members(modes: np.ndarray, values: np.ndarray | None) -> dict[int, np.ndarray]:
    """The set of each node that asks for membership; in the list nan ends each."""
    asking = np.flatnonzero(modes == MEMBER).tolist()
    values = np.zeros(0) if values is None else values.reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) == len(asking) - 1 and len(values):  # behind the last there may be none
        ends = np.append(ends, len(values))
    if len(ends) != len(asking):
        raise ValueError(f"membership_values has {len(ends)} sets, each ended by nan, for {len(asking)} nodes that ask for one")
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.intp) if len(ends) else ends
    return {node: values[start:end] for node, start, end in zip(asking, starts, ends, strict=True)}


@kernel("TreeEnsemble", domain=ML, since=5, prepare=ensemble_5)
def tree_ensemble(x, *, prepared):
    """Scores of the leaves that each row reaches, in the type of the rows."""
    return prepared(x)
