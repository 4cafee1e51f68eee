"""Ensembles of decision trees as arrays, walked by all rows and trees at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

BLOCK = 1 << 15
"""Rows times trees that are walked together: what they need should stay in the cache."""

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""Every question of ai.onnx.ml, in the order of their numbers."""

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(len(MODES))
LEAF = -1

QUESTIONS = {LEQ: np.less_equal, LT: np.less, GTE: np.greater_equal, GT: np.greater, EQ: np.equal, NEQ: np.not_equal}
"""What a node asks of a feature and its value; to all but the last nan answers no."""


@dataclass(frozen=True)
class TreeNodes:
    """What a model says of the nodes of all its trees; each array has an element for each node.

    Attributes
    ----------
    modes : numpy.ndarray
        Place in :data:`MODES`, or LEAF.
    features, values : numpy.ndarray
        What is compared with what.
    yes, no : numpy.ndarray
        The places of the nodes that follow; of leaves any.
    nan_is_yes : numpy.ndarray of bool
        Where a missing value takes the branch of a yes although the comparison fails.
    roots : numpy.ndarray
        Place of the first node of each tree.
    members : mapping
        The set of each node that asks for membership.
    """

    modes: np.ndarray
    features: np.ndarray
    values: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    nan_is_yes: np.ndarray
    roots: np.ndarray
    members: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def n_leaves(self) -> int:
        """How many nodes are leaves."""
        return int((self.modes == LEAF).sum())

    def among_leaves(self, places: np.ndarray, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Places of leaves among the leaves alone, and the rows of the columns that belong to them.

        What is said of other nodes is left out: no row stays there.
        """
        is_leaf = self.modes == LEAF
        kept = is_leaf[places]
        return (np.cumsum(is_leaf) - 1)[places[kept]], *(column[kept] for column in columns)


class Forest:
    """Trees that compare numbers of one type, ready to be walked.

    Parameters
    ----------
    nodes : TreeNodes
    dtype : numpy.dtype
        float32 or float64: in which numbers are compared.

    Raises
    ------
    ValueError
        Branches lead back to where they came from.
    """

    def __init__(self, nodes: TreeNodes, dtype: Any) -> None:
        self.nodes, self.dtype, is_leaf = nodes, np.dtype(dtype), nodes.modes == LEAF
        self.values = nodes.values.astype(dtype)
        self.members = {node: values.astype(dtype) for node, values in nodes.members.items()}
        self.features = np.where(is_leaf, 0, nodes.features)
        itself = np.arange(len(is_leaf))
        self.yes, self.no = np.where(is_leaf, itself, nodes.yes), np.where(is_leaf, itself, nodes.no)
        self.leaf_numbers = np.cumsum(is_leaf) - 1
        self.depth, self.width = depth_of(self.yes, self.no, is_leaf), 1 + int(self.features.max(initial=-1))

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf that each row reaches in each tree, as its place among the leaves: (rows, trees).

        Raises
        ------
        ValueError
            Rows have fewer features than the trees ask for.
        """
        if x.shape[1] < self.width:
            raise ValueError(f"the trees compare feature {self.width - 1}, but rows have {x.shape[1]} features")
        x, roots = x.astype(self.dtype, copy=False), self.nodes.roots
        found = np.empty((len(x), len(roots)), np.intp)
        size = max(BLOCK // max(len(roots), 1), 1)
        for k in range(0, len(x), size):
            found[k : k + size] = self._walked(x[k : k + size])
        return found

    def _walked(self, x: np.ndarray) -> np.ndarray:
        """The leaves of some rows; who is at a leaf stays there, whatever the answer is."""
        rows, at = np.arange(len(x))[:, None], np.broadcast_to(self.nodes.roots, (len(x), len(self.nodes.roots)))
        for _ in range(self.depth):
            at = np.where(self._answers(x[rows, self.features[at]], at), self.yes[at], self.no[at])
        return self.leaf_numbers[at]

    def _answers(self, x: np.ndarray, at: np.ndarray) -> np.ndarray:
        """What the features answer to the questions of the nodes."""
        values, modes = self.values[at], self.nodes.modes[at]
        found = np.isnan(x) & self.nodes.nan_is_yes[at]
        for mode, question in QUESTIONS.items():
            if (asked := modes == mode).any():
                found |= asked & question(x, values)
        for node, members in self.members.items():
            found |= (at == node) & np.isin(x, members)
        return found


def depth_of(yes: np.ndarray, no: np.ndarray, is_leaf: np.ndarray) -> int:
    """The most questions up to a leaf: nodes whose parents have all been asked are asked together.

    Raises
    ------
    ValueError
        Branches lead back to where they came from.
    """
    inner = np.flatnonzero(~is_leaf)
    parents = np.bincount(np.concatenate([yes[inner], no[inner]]), minlength=len(is_leaf))
    depth, asked, now = 0, 0, inner[parents[inner] == 0]
    while len(now):
        depth, asked = depth + 1, asked + len(now)
        after = np.concatenate([yes[now], no[now]])
        np.subtract.at(parents, after, 1)
        now = np.unique(after[(parents[after] == 0) & ~is_leaf[after]])
    if asked < len(inner):
        raise ValueError("the branches of a tree lead in a circle")
    return depth
