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

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""Every question of ai.onnx.ml, in the order of their numbers."""

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(len(MODES))
LEAF = -1


@dataclass(frozen=True)
class Nodes:
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
        Where a missing value goes.
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


class Forest:
    """Trees that compare numbers of one type, ready to be walked.

    Parameters
    ----------
    nodes : Nodes
    dtype : numpy.dtype
        float32 or float64: in which numbers are compared.

    Raises
    ------
    ValueError
        Branches lead back to where they came from.
    """

    def __init__(self, nodes: Nodes, dtype: Any) -> None:
        modes, thresholds = nodes.modes, nodes.values.astype(dtype)
        strict, backwards = np.isin(modes, (LT, GTE)), np.isin(modes, (GTE, GT))
        thresholds[strict] = below(thresholds[strict])
        yes, no = np.where(backwards, nodes.no, nodes.yes), np.where(backwards, nodes.yes, nodes.no)
        opposite = nodes.nan_is_yes != backwards  # nan answers no, so it has to be the question that it answers rightly
        is_leaf, several = modes == LEAF, np.isin(modes, (EQ, NEQ, MEMBER))
        yes[is_leaf] = no[is_leaf] = np.flatnonzero(is_leaf)
        thresholds[is_leaf], thresholds[several], opposite[is_leaf | several] = np.nan, np.inf, False
        steps = _Steps(len(modes))
        for place in np.flatnonzero(several).tolist():  # all but nan goes on
            no[place] = nodes.yes[place] if nodes.nan_is_yes[place] else nodes.no[place]
            yes[place] = steps.search(*_places_of_change(nodes, place, np.dtype(dtype)), int(nodes.features[place]))
        self.dtype, self.roots = np.dtype(dtype), nodes.roots
        self.thresholds = np.concatenate([thresholds, np.array(steps.thresholds, dtype)])
        self.features = np.concatenate([np.where(is_leaf, 0, nodes.features), np.array(steps.features, np.intp)])
        self.yes = np.concatenate([yes, np.array(steps.yes, np.intp)])
        self.no = np.concatenate([no, np.array(steps.no, np.intp)])
        self.opposite = np.concatenate([opposite, np.zeros(len(steps.yes), bool)])
        self.depth, self.width = depth_of(self.yes, self.no, self.roots), 1 + int(self.features.max(initial=-1))
        if any((branch[: len(modes)] == np.arange(len(modes)))[~is_leaf].any() for branch in (self.yes, self.no)):
            raise ValueError("a node of a tree leads to itself")
        self._turn()

    def _turn(self) -> None:
        """Ask the opposite where that is wanted: x > t is -x <= the number below -t."""
        turned = self.opposite
        self.thresholds = np.where(turned, below(-self.thresholds), self.thresholds)
        self.yes, self.no = np.where(turned, self.no, self.yes), np.where(turned, self.yes, self.no)
        self.is_signed = bool(turned.any())
        # side by side, so that 2 * node + answer is the place of what follows
        self.following = np.stack([self.no, self.yes], axis=1).reshape(-1)

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf that each row reaches in each tree: (rows, trees).

        Raises
        ------
        ValueError
            Rows have fewer features than the trees ask for.
        """
        if x.shape[1] < self.width:
            raise ValueError(f"the trees compare feature {self.width - 1}, but rows have {x.shape[1]} features")
        x = np.ascontiguousarray(x, self.dtype)
        if self.is_signed:
            x = np.concatenate([x, -x], axis=1)
        if len(x) * len(self.thresholds) <= self._worth_asking(len(x)):
            return self._asked_first(x)
        size = max(BLOCK // max(len(self.roots), 1), 1)
        if len(x) <= size:
            return self._walked(x)
        return np.concatenate([self._walked(x[k : k + size]) for k in range(0, len(x), size)])

    def _worth_asking(self, rows: int) -> int:
        """How many answers take less time than looking for those that are needed."""
        return self.depth * (1500 + 3 * rows * len(self.roots))

    def _columns(self, width: int) -> np.ndarray:
        return np.where(self.opposite, self.features + width // 2, self.features) if self.is_signed else self.features

    def _asked_first(self, x: np.ndarray) -> np.ndarray:
        """Ask all nodes, then follow the answers."""
        answers = x.take(self._columns(x.shape[1]), 1) <= self.thresholds
        following = np.where(answers, self.yes, self.no)
        if len(x) == 1:
            at = self.roots
            for _ in range(self.depth):
                at = following[0].take(at)
            return at[None]
        first = np.arange(0, following.size, following.shape[1])[:, None]
        following += first
        following, at = following.reshape(-1), self.roots + first
        for _ in range(self.depth):
            at = following.take(at)
        return at - first

    def _walked(self, x: np.ndarray) -> np.ndarray:
        """Ask only the nodes that are reached."""
        width = x.shape[1]
        columns, x = self._columns(width), x.reshape(-1)
        at = np.broadcast_to(self.roots, (len(x) // width if width else 0, len(self.roots)))
        first = np.arange(0, len(x), max(width, 1))[:, None]
        for _ in range(self.depth):
            column = columns.take(at)
            column += first
            answers = x.take(column) <= self.thresholds.take(at)
            at = at + at
            at += answers
            at = self.following.take(at)
        return at


class _Steps:
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


def _places_of_change(nodes: Nodes, place: int, dtype: np.dtype) -> tuple[list[float], list[int]]:
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
