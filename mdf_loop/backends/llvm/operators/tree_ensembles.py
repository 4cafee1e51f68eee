"""Ensembles of trees: the nodes lie in a table, and several trees are walked side by side without a branch.

A step of one tree waits for memory three times over; those of the others are done meanwhile.  Leaves lead to themselves, so that
trees that are done wait for the others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, Index, Length, get, in_memory, offset
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import BOOL, FLOAT32, FLOAT64, INT64, element
from mdf_loop.backends.llvm.elementwise import computed
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.labels import chosen, kept
from mdf_loop.backends.llvm.operators.post_transforms import transformed
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.reductions import reduced
from mdf_loop.backends.llvm.sweeps import sweep
from mdf_loop.kernels.forests import Forest
from mdf_loop.kernels.tree_ensembles import Classes, Ensemble, Regression, TwoClasses

SIDE_BY_SIDE = 8
"""Trees that are walked side by side."""

MOST_TREES, MOST_BYTES, MOST_COLUMNS = 1 << 12, 1 << 30, 1 << 12
"""Trees, bytes of nodes and scores of a row up to which there is a compiled form."""

CACHED, BLOCK = 1 << 17, 64
"""Bytes of nodes that stay in the cache; if there are more, each tree is walked by so many rows before the next one is."""

PAIRWISE = 128
"""Terms of a sum from which on numpy adds it up in halves."""

INT32 = np.dtype(np.int32)


@gives("TreeEnsembleRegressor", "TreeEnsemble")
def regression(call: Call) -> Array | tuple[Array, ...]:
    """The scores of the leaves that each row reaches."""
    made: Regression = call.prepared
    target = call.input(0).dtype if made.keeps_type else FLOAT32
    scores = _Scores(call, made.ensemble).written()
    return call.results(kept(call, transformed(call.e, scores, made.post_transform, target), is_single=True))


@gives("TreeEnsembleClassifier")
def classes(call: Call) -> Array | tuple[Array, ...]:
    """The class of each row, and the scores of all classes."""
    made: Classes | TwoClasses = call.prepared
    if made.labels.dtype != INT64:
        raise call.refuse("with strings for classes")
    whole = _Scores(call, made.ensemble, asks_who_voted=isinstance(made, Classes) and made.asks_who_voted)
    scores = whole.written()
    label, scores = _of_one(call, made, scores) if isinstance(made, TwoClasses) else _best(call, made, scores, whole.voted)
    return call.results(kept(call, label), kept(call, transformed(call.e, scores, made.post_transform, FLOAT32)))


def _best(call: Call, made: Classes, scores: Array, voted: Array | None) -> tuple[Array, Array]:
    """The class with the best score, of those that got a vote."""
    asked = scores
    if voted is not None:
        lowest = -np.inf
        asked = call.e.materialised(
            computed(
                call.e,
                scores.dtype,
                [voted, scores],
                lambda lanes, is_voted, x: lanes.select(scores.dtype, is_voted, x, lanes.number(scores.dtype, lowest)),
            )
        )
    return chosen(call, made.labels, reduced(call.e, asked, "argmax", INT64, (1,))), scores


def _of_one(call: Call, made: TwoClasses, score: Array) -> tuple[Array, Array]:
    """One score for two classes, or for one."""
    dtype, is_two = score.dtype, len(made.labels) == 2
    labels = made.labels if is_two else np.array([0, made.labels[0]])

    def place(lanes: Lanes, x: str) -> str:
        is_above = written(lanes, "gt", dtype, [x, lanes.number(dtype, made.threshold)])
        return lanes.select(INT64, is_above, lanes.number(INT64, 1), lanes.number(INT64, 0))

    label = chosen(call, labels, computed(call.e, INT64, [score], place))
    return label, call.e.materialised(_both(made.first_score, score)) if is_two else score


def _both(first: str, score: Array) -> Array:
    """Two columns of scores for one."""
    dtype = score.dtype

    def at(lanes: Lanes, index: Index) -> str:
        x = get(lanes, score, (index[0], Place()))
        other = {
            "zero": lambda: lanes.number(dtype, 0),
            "rest": lambda: written(lanes, "sub", dtype, [lanes.number(dtype, 1), x]),
            "opposite": lambda: written(lanes, "neg", dtype, [x]),
        }[first]()
        column = lanes.number_of(index[1])
        is_first = lanes.text.new(f"icmp eq {lanes.of('i64')} {column}, {lanes.all('i64', '0')}")
        return lanes.select(dtype, is_first, other, x)

    return Array(dtype, (score.shape[0], 2), at, widest=8)


class _Scores:
    """The scores of an ensemble: leaves of a block of rows, tree by tree, then what these say, row by row.

    Attributes
    ----------
    voted : Array or None
        Where there are classes without a vote.
    """

    def __init__(self, call: Call, ensemble: Ensemble, asks_who_voted: bool = False) -> None:
        x, votes = call.input(0), ensemble.votes
        if len(x.shape) != 2 or not isinstance(x.shape[1], int) or element(x.dtype).kind == "b" or x.shape[0] == 0:
            raise call.refuse("of anything but rows of numbers")
        self.call, self.e, self.text, self.ensemble, self.votes = call, call.e, call.e.text, ensemble, votes
        self.dtype = ensemble.precision(x.dtype)
        self.walk = _Walk(call, ensemble.forest(self.dtype), x)
        self.rows, self.n, self.trees = x.shape[0], votes.n_targets, len(ensemble.nodes.roots)
        if not 0 < self.n <= MOST_COLUMNS:
            raise call.refuse(f"with {self.n} targets")
        self.is_extreme = ensemble.aggregate in ("MIN", "MAX")
        self.shape: tuple[Length, Length] = (self.rows, self.n)
        self.total = in_memory(FLOAT64, self.shape, self.e.room(FLOAT64, self.shape))
        self.voted: Array | None = None
        if (asks_who_voted or self.is_extreme) and not votes.is_full:
            self.voted = in_memory(BOOL, self.shape, self.e.room(BOOL, self.shape))

    def written(self) -> Array:
        """The scores, in memory."""
        text = self.text
        block = BLOCK if self.walk.bytes > CACHED and self.rows != 1 else 1
        leaves = self.e.room(INT32, (block, self.walk.width))
        if self.voted is None and self.votes.is_full and self.n == 1:
            say: Callable[[str, str], None] = self._sum_of_row
        else:
            say = self._votes_of_row
        with text.counted("0", self.rows, block) as first:
            last = self._least(text.add(first, block), self.rows) if block > 1 else text.add(first, 1)
            self.walk.write(leaves, first, last)
            with text.counted(first, last) as row:
                say(text.element_pointer("i32", leaves, text.mul(text.sub(row, first), self.walk.width)), row)
        return self.e.materialised(self._finished())

    def _least(self, a: str, b: Length) -> str:
        self.text.declare("llvm.smin.i64", "i64", "i64", "i64")
        return self.text.new(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    # What leaves say

    def _sum_of_row(self, leaves: str, row: str) -> None:
        """One weight for each leaf: in numpy's order."""
        weights = self.e.table(np.ascontiguousarray(self.votes.weights))

        def at(lanes: Lanes, place: Place) -> str:
            leaf = converted(lanes, lanes.load(INT32, leaves, place), INT32, INT64)
            return lanes.load(FLOAT64, weights, Place(vector=leaf) if lanes.width > 1 else Place(leaf))

        found = self._reduced(at, 0, self.trees)
        Lanes(self.text).store(FLOAT64, found, self.total.memory, Place(row))

    def _reduced(self, at: Callable[[Lanes, Place], str], start: int, count: int) -> str:
        """A sum in halves, as numpy adds up long ones."""
        if count > PAIRWISE and not self.is_extreme:
            half = count // 2 - count // 2 % 8
            parts = [self._reduced(at, start, half), self._reduced(at, start + half, count - half)]
            return written(Lanes(self.text), "add", FLOAT64, parts)

        def flat(lanes: Lanes, place: Place) -> str:
            return at(lanes, lanes.shifted(place, Place(str(start))))

        part = Array(FLOAT64, (count,), lambda lanes, index: flat(lanes, index[0]), flat, widest=8)
        kind = self.ensemble.aggregate.lower() if self.is_extreme else "sum"
        found = reduced(self.e, part, kind, FLOAT64, (0,), keep=False)
        return self.e.number_of(found)

    def _votes_of_row(self, leaves: str, row: str) -> None:
        """Each vote added to the score of its target."""
        text, votes, one = self.text, self.votes, Lanes(self.text)
        base = text.mul(row, self.n)
        start = {"MIN": np.inf, "MAX": -np.inf}.get(self.ensemble.aggregate, -0.0 if votes.is_full else 0.0)
        with text.counted(0, self.n) as k:
            one.store(FLOAT64, one.number(FLOAT64, start), self.total.memory, Place(text.add(base, k)))
            if self.voted is not None:
                one.store(BOOL, "false", self.voted.memory, Place(text.add(base, k)))
        with text.counted(0, self.trees) as tree:
            leaf = _whole(one, one.load(INT32, leaves, Place(tree)))
            first, last = self._votes_of_leaf(leaf)
            with text.counted(first, last) as vote:
                self._vote(base, vote)

    def _votes_of_leaf(self, leaf: str) -> tuple[str, str]:
        """The numbers of the first vote of a leaf, and of the first one behind."""
        text, votes, one = self.text, self.votes, Lanes(self.text)
        if votes.tables is not None:
            first = text.mul(leaf, votes.tables[0].shape[1])
            return first, text.add(first, votes.tables[0].shape[1])
        starts = self.e.table(np.append(votes.starts, len(votes.targets)).astype(np.int32))
        return tuple(_whole(one, one.load(INT32, starts, Place(text.add(leaf, k)))) for k in range(2))  # type: ignore[return-value]

    def _vote(self, base: str, vote: str) -> None:
        text, one, votes = self.text, Lanes(self.text), self.votes
        target = _whole(one, one.load(INT32, self.e.table(votes.targets.astype(np.int32)), Place(vote)))
        weight = one.load(FLOAT64, self.e.table(np.ascontiguousarray(votes.weights)), Place(vote))
        there = Place(text.add(base, target))
        name = self.ensemble.aggregate.lower() if self.is_extreme else "add"
        found = written(one, name, FLOAT64, [one.load(FLOAT64, self.total.memory, there), weight])
        one.store(FLOAT64, found, self.total.memory, there)
        if self.voted is not None:
            one.store(BOOL, "true", self.voted.memory, there)

    def _finished(self) -> Array:
        """Means, base values, and the rounding."""
        ensemble, dtype, args = self.ensemble, self.dtype, [self.total]
        if len(ensemble.base):
            base = np.ascontiguousarray(np.broadcast_to(ensemble.base, (self.n,)), np.float64)
            args.append(in_memory(FLOAT64, (self.n,), self.e.table(base), base))
        if self.is_extreme and self.voted is not None:
            args.append(self.voted)

        def compute(lanes: Lanes, x: str, *more: str) -> str:
            if self.is_extreme and self.voted is not None:
                x = lanes.select(FLOAT64, more[-1], x, lanes.number(FLOAT64, 0))
            if ensemble.aggregate == "AVERAGE":
                x = written(lanes, "div", FLOAT64, [x, lanes.number(FLOAT64, self.trees)])
            if len(ensemble.base):
                x = written(lanes, "add", FLOAT64, [x, more[0]])
            return converted(lanes, x, FLOAT64, dtype)

        return computed(self.e, dtype, args, compute)


def _whole(lanes: Lanes, x: str) -> str:
    return converted(lanes, x, INT32, INT64)


class _Walk:
    """From the root of each tree to a leaf.

    Attributes
    ----------
    width : int
        Trees, with those that fill up the last ones that are walked side by side.
    bytes : int
        Of all nodes.
    """

    def __init__(self, call: Call, forest: Forest, x: Array) -> None:
        features, trees = x.shape[1], len(forest.roots)
        assert isinstance(features, int)
        if features < forest.width or not 0 < trees <= MOST_TREES:
            raise call.refuse("with too few features, or so many trees")
        self.e, self.text, self.forest, self.features = call.e, call.e.text, forest, features
        self.dtype, self.value = forest.dtype, forest.dtype.itemsize
        self.node = (
            3 * 4 + self.value + (4 if self.value == 8 else 0)
        )  # the number, the column, no, yes; as aligned as numbers are
        self.bytes = self.node * (forest.inner + len(forest.behind))
        if self.bytes > MOST_BYTES:
            raise call.refuse("with so many nodes")
        self.together = min(SIDE_BY_SIDE, trees)
        self.width = -(-trees // self.together) * self.together
        self.limit = self.node * forest.inner
        self.nodes = self.e.table(self._nodes())
        roots = np.full(self.width, self.limit, np.int32)
        roots[:trees] = self.node * forest.roots
        self.roots = self.e.table(roots)
        self.stride = features * (2 if forest.is_signed else 1)
        self.x = self._rows(x)

    def _nodes(self) -> np.ndarray:
        """The table; addresses are those of bytes."""
        forest, signs = self.forest, 2 if self.forest.is_signed else 1
        columns = forest.columns[::2]
        record = np.dtype({
            "names": ["value", "column", "no", "yes"],
            "formats": [self.dtype, np.int32, np.int32, np.int32],
            "offsets": [0, self.value, self.value + 4, self.value + 8],
            "itemsize": self.node,
        })  # fmt: skip
        table = np.zeros(forest.inner + len(forest.behind), record)
        table["value"] = forest.thresholds[::2]
        table["column"] = columns // signs + self.features * (columns % signs)  # opposites stand behind the row
        following = forest.following.reshape(-1, 2) // 2 * self.node
        table["no"], table["yes"] = following[:, 0], following[:, 1]
        return table.view(np.int32)

    def _rows(self, x: Array) -> str:
        """Rows in the type that is compared, and their opposites if anybody asks for them."""
        e = self.e
        if x.dtype == self.dtype and not self.forest.is_signed:
            return e.memory_of(x)
        shape = x.shape[0], self.stride
        room = e.room(self.dtype, shape)

        def visit(lanes: Lanes, index: Index) -> None:
            value = converted(lanes, get(lanes, x, index), x.dtype, self.dtype)
            lanes.store(self.dtype, value, room, offset(lanes, shape, index))
            if self.forest.is_signed:
                behind = (index[0], lanes.shifted(index[1], Place(str(self.features))))
                lanes.store(self.dtype, written(lanes, "neg", self.dtype, [value]), room, offset(lanes, shape, behind))

        sweep(e, x.shape, max(x.widest, self.value), visit, last_axis=True)
        return room

    def write(self, leaves: str, first: str, last: str) -> None:
        """The leaves that rows reach, put in rows of their own."""
        text = self.text
        at = [text.slot("i32") for _ in range(self.together)]
        with text.counted(0, self.width, self.together) as tree, text.counted(first, last) as row:
            for k, slot in enumerate(at):
                root = Lanes(text).load(INT32, self.roots, Place(text.add(tree, k)))
                text.line(f"store i32 {root}, ptr {slot}")
            values = text.element_pointer(element(self.dtype).memory, self.x, text.mul(row, self.stride))
            self._to_leaves(values, at)
            here = text.add(text.mul(text.sub(row, first), self.width), tree)
            for k, slot in enumerate(at):
                place = text.new(f"sub i32 {text.new(f'load i32, ptr {slot}')}, {self.limit}")
                leaf = text.new(f"udiv exact i32 {place}, {self.node}")
                Lanes(text).store(INT32, leaf, leaves, Place(text.add(here, k)))

    def _to_leaves(self, values: str, at: list[str]) -> None:
        """Step by step, until the last tree is done."""
        text, head, done = self.text, self.text.label("w"), self.text.label("w")
        text.jump(head)
        text.start(head)
        least = ""
        for slot in at:
            following = self._step(values, text.new(f"load i32, ptr {slot}"))
            text.line(f"store i32 {following}, ptr {slot}")
            least = written(Lanes(text), "min", INT32, [least, following]) if least else following
        text.fork(text.new(f"icmp slt i32 {least}, {self.limit}"), head, done)
        text.start(done)

    def _step(self, values: str, at: str) -> str:
        """The node behind another one: the question that all ask is whether a number is at most another one."""
        text, type = self.text, element(self.dtype).memory
        node = text.element_pointer("i8", self.nodes, text.new(f"zext i32 {at} to i64"))
        bound = text.new(f"load {type}, ptr {node}, align 4")
        column = text.new(f"load i32, ptr {text.element_pointer('i8', node, self.value)}, align 4")
        value = text.element_pointer(type, values, text.new(f"zext i32 {column} to i64"))
        is_yes = text.new(f"fcmp ole {type} {text.new(f'load {type}, ptr {value}')}, {bound}")
        no = text.element_pointer("i8", node, self.value + 4)
        following = text.element_pointer("i32", no, text.new(f"zext i1 {is_yes} to i64"))
        return text.new(f"load i32, ptr {following}, align 4")
