"""Ensembles of decision trees as arrays, walked by all rows and trees at once.

Every node asks the same question, ``x <= threshold``, to which nan answers no.  What a model asks otherwise becomes
that: ``x < t`` has the next smaller threshold, ``x > t`` the branches in turn, ``x == t`` and membership in a set two
or more nodes in a row.  Where nan has to answer yes, a node asks ``-x`` the opposite question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BLOCK = 1 << 15
"""Rows times trees that are walked together: what they need should stay in the cache."""

STRIDE, FEW = 4, 500
"""After so many steps those that are at their leaves are left behind, if there are more than a few."""

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""Every question of ai.onnx.ml, in the order of their numbers."""

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(len(MODES))
LEAF = -1


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
        modes, thresholds = nodes.modes, nodes.values.astype(dtype)
        strict, backwards = np.isin(modes, (LT, GTE)), np.isin(modes, (GTE, GT))
        thresholds[strict] = below(thresholds[strict])
        yes, no = np.where(backwards, nodes.no, nodes.yes), np.where(backwards, nodes.yes, nodes.no)
        nan_is_yes = nodes.nan_is_yes | (modes == NEQ)  # nan differs from every number
        opposite = nan_is_yes != backwards  # nan answers no, so it has to be the question that it answers rightly
        is_leaf, several = modes == LEAF, np.isin(modes, (EQ, NEQ, MEMBER))
        yes[is_leaf] = no[is_leaf] = np.flatnonzero(is_leaf)
        thresholds[is_leaf], thresholds[several], opposite[is_leaf | several] = np.nan, np.inf, False
        steps = _FurtherNodes(len(modes))
        for place in np.flatnonzero(several).tolist():  # all but nan goes on
            no[place] = nodes.yes[place] if nan_is_yes[place] else nodes.no[place]
            yes[place] = steps.search(*_places_of_change(nodes, place, np.dtype(dtype)), int(nodes.features[place]))
        self.dtype = np.dtype(dtype)
        thresholds = np.concatenate([thresholds, np.array(steps.thresholds, dtype)])
        features = np.concatenate([np.where(is_leaf, 0, nodes.features), np.array(steps.features, np.intp)])
        yes, no = np.concatenate([yes, np.array(steps.yes, np.intp)]), np.concatenate([no, np.array(steps.no, np.intp)])
        is_leaf, opposite = (np.concatenate([row, np.zeros(len(steps.yes), bool)]) for row in (is_leaf, opposite))
        if ((yes == np.arange(len(yes))) | (no == np.arange(len(no))))[~is_leaf].any():
            raise ValueError("a node of a tree leads to itself")
        self.depth, self.width = depth_of(yes, no, nodes.roots), 1 + int(features.max(initial=-1))
        self._keep(thresholds, features, yes, no, opposite, is_leaf, nodes.roots)

    def _keep(
        self,
        thresholds: np.ndarray,
        features: np.ndarray,
        yes: np.ndarray,
        no: np.ndarray,
        opposite: np.ndarray,
        is_leaf: np.ndarray,
        roots: np.ndarray,
    ) -> None:
        """Keep what is needed to walk, with the leaves behind the other nodes.

        The opposite is asked where that is wanted: x > t is -x <= the number below -t.
        """
        self.is_signed, self.inner = bool(opposite.any()), len(is_leaf) - int(is_leaf.sum())
        thresholds = np.where(opposite, below(-thresholds), thresholds)
        yes, no = np.where(opposite, no, yes), np.where(opposite, yes, no)
        order = np.argsort(is_leaf, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        self.roots = places[roots]
        thresholds = thresholds[order]
        columns = (2 * features + opposite if self.is_signed else features)[order].astype(np.intp)
        yes, no = places[yes[order]], places[no[order]]
        self.asked = tuple(row[: self.inner].copy() for row in (columns, thresholds, yes, no))
        self.behind = np.arange(self.inner, len(order))
        # Everything twice: a node is at an even place, and its place and the answer make that of what follows.
        self.thresholds, self.columns = np.repeat(thresholds, 2), np.repeat(columns, 2)
        self.following = 2 * np.stack([no, yes], axis=1).reshape(-1)

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf that each row reaches in each tree, as its place among the leaves: (rows, trees).

        Raises
        ------
        ValueError
            Rows have fewer features than the trees ask for.
        """
        if x.shape[1] < self.width:
            raise ValueError(f"the trees compare feature {self.width - 1}, but rows have {x.shape[1]} features")
        if not len(x):
            return np.zeros((0, len(self.roots)), np.intp)
        x = np.ascontiguousarray(x, self.dtype)
        if self.is_signed:
            x = np.stack([x, -x], axis=2).reshape(len(x), -1)
        if len(x) * self.inner <= self._worth_asking(len(x)):
            return self._asked_first(x)
        size = max(BLOCK // max(len(self.roots), 1), 1)
        if len(x) <= size:
            return self._walked(x)
        return np.concatenate([self._walked(x[k : k + size]) for k in range(0, len(x), size)])

    def _worth_asking(self, rows: int) -> int:
        """How many answers take less time than looking for those that are needed."""
        return self.depth * (1000 + rows * len(self.roots))

    def _asked_first(self, x: np.ndarray) -> np.ndarray:
        """Ask all nodes, then follow the answers."""
        columns, thresholds, yes, no = self.asked
        following = np.empty((len(x), self.inner + len(self.behind)), np.intp)
        following[:, self.inner :] = self.behind
        following[:, : self.inner] = np.where(x.take(columns, 1) <= thresholds, yes, no)
        at, first = self.roots[None], 0
        if len(x) > 1:
            first = np.arange(0, following.size, following.shape[1])[:, None]
            following += first
            at = at + first
        following = following.reshape(-1)
        for _ in range(self.depth):
            at = following.take(at)
        return at - (first + self.inner)

    def _walked(self, x: np.ndarray) -> np.ndarray:
        """Ask only the nodes that are reached."""
        at = np.broadcast_to(2 * self.roots, (len(x), len(self.roots)))
        first = np.arange(len(x))[:, None] * x.shape[1] if len(x) > 1 else None
        return self._followed(x.reshape(-1), at, first, self.depth) // 2 - self.inner

    def _followed(self, x: np.ndarray, at: np.ndarray, first: np.ndarray | None, steps: int) -> np.ndarray:
        """Where so many steps lead; what has reached its leaf is left behind now and then."""
        for step in range(1, steps + 1):
            column = self.columns.take(at)
            if first is not None:
                column += first
            at = self.following.take(at + (x.take(column) <= self.thresholds.take(at)))
            if step % STRIDE == 0 and at.size > FEW and step < steps:
                going = np.flatnonzero(at < 2 * self.inner)
                if 2 * len(going) < at.size:
                    rest = None if first is None else np.broadcast_to(first, at.shape).reshape(-1)[going]
                    at.reshape(-1)[going] = self._followed(x, at.reshape(-1)[going], rest, steps - step)
                    return at
        return at


class _FurtherNodes:
    """Further nodes behind the given ones, for questions that take more than one comparison."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.thresholds: list[float] = []
        self.features: list[int] = []
        self.yes: list[int] = []
        self.no: list[int] = []

    def search(self, bounds: Sequence[float], following: Sequence[int], feature: int) -> int:
        """The node where the search for x among bounds starts; up to each bound another node follows, and behind the last."""
        if not bounds:
            return following[0]
        middle = len(bounds) // 2
        place = len(self.yes)
        self.thresholds.append(bounds[middle])
        self.features.append(feature)
        self.yes.append(-1)
        self.no.append(-1)
        self.yes[place] = self.search(bounds[:middle], following[: middle + 1], feature)
        self.no[place] = self.search(bounds[middle + 1 :], following[middle + 1 :], feature)
        return self.count + place


def _places_of_change(nodes: TreeNodes, place: int, dtype: np.dtype) -> tuple[list[float], list[int]]:
    """The numbers up to which the answer of a node is the same, in order, and the node that follows each answer."""
    inside, outside = int(nodes.yes[place]), int(nodes.no[place])
    if nodes.modes[place] == NEQ:
        inside, outside = outside, inside
    values = nodes.members[place] if nodes.modes[place] == MEMBER else nodes.values[place : place + 1]
    values = np.unique(values[~np.isnan(values)].astype(dtype))
    bounds = np.stack([below(values), values], axis=1).reshape(-1)
    return bounds.tolist(), [outside, inside] * len(values) + [outside]


def below(values: np.ndarray) -> np.ndarray:
    """The next smaller number of each; nan, which nothing is up to, below the smallest."""
    return np.where(np.isneginf(values), values.dtype.type(np.nan), np.nextafter(values, values.dtype.type(-np.inf)))


def depth_of(yes: np.ndarray, no: np.ndarray, roots: np.ndarray) -> int:
    """The most questions from a root to a leaf, which is a node that leads to itself.

    Raises
    ------
    ValueError
        Branches lead back to where they came from.
    """
    is_leaf = (yes == np.arange(len(yes))) & (no == np.arange(len(no)))
    parents = np.bincount(np.concatenate([yes[~is_leaf], no[~is_leaf], roots]), minlength=1)
    if parents.max() > 1:
        return _depth_of_shared(yes.tolist(), no.tolist(), roots.tolist(), is_leaf.tolist())
    depth, reached = 0, roots  # a circle would need a node with two parents
    while len(reached := reached[~is_leaf[reached]]):
        depth, reached = depth + 1, np.concatenate([yes[reached], no[reached]])
    return depth


def _depth_of_shared(yes: list[int], no: list[int], roots: list[int], is_leaf: list[bool]) -> int:
    """The same where several branches lead to one node: each is looked at once."""
    heights: dict[int, int] = {}
    for root in roots:
        waiting, begun = [root], set[int]()
        while waiting:
            node = waiting[-1]
            after = () if is_leaf[node] else (yes[node], no[node])
            if missing := [k for k in after if k not in heights]:
                if node in begun:
                    raise ValueError("the branches of a tree lead in a circle")
                begun.add(node)
                waiting.extend(missing)
                continue
            heights[node] = max((heights[k] + 1 for k in after), default=0)
            waiting.pop()
    return max((heights[root] for root in roots), default=0)
