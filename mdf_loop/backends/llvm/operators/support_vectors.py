"""Support vector machines: similarities to all vectors in lanes, products of matrices, and what pairs of classes say together."""

from __future__ import annotations

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, Index, Length, get, in_memory
from mdf_loop.backends.llvm.conversions import converted
from mdf_loop.backends.llvm.elements import FLOAT32, FLOAT64, INT64, element
from mdf_loop.backends.llvm.elementwise import computed
from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.coupling import coupled
from mdf_loop.backends.llvm.operators.labels import chosen, kept
from mdf_loop.backends.llvm.operators.post_transforms import Numbers, transformed
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.products import Given, Product
from mdf_loop.backends.llvm.reductions import reduced
from mdf_loop.backends.llvm.sweeps import rows
from mdf_loop.kernels.support_vectors import LinearClasses, PairedClasses, Pairs, Regression, Similarity

UNROLLED = 16
"""Features up to which distances are written without a loop."""

MOST_CLASSES = 64
"""Classes up to which there is a compiled form: pairs are many."""


@gives("SVMRegressor")
def regression(call: Call) -> Array | tuple[Array, ...]:
    """A weighted sum of similarities, or its sign."""
    made: Regression = call.prepared
    e = call.e
    sums = _product(e, _similarities(call, made.similarity), made.weights)
    scores = e.materialised(_plus(e, sums, np.array([made.offset])))
    found = computed(e, FLOAT32, [scores], _sign) if made.is_sign else transformed(e, scores, made.post_transform, FLOAT32)
    return call.results(kept(call, found, is_single=True))


def _sign(lanes: Lanes, x: str) -> str:
    is_above = written(lanes, "gt", FLOAT64, [x, lanes.number(FLOAT64, 0)])
    return lanes.select(FLOAT32, is_above, lanes.number(FLOAT32, 1), lanes.number(FLOAT32, -1))


@gives("SVMClassifier")
def classes(call: Call) -> Array | tuple[Array, ...]:
    """The class of each row, and probabilities or decisions."""
    made: PairedClasses | LinearClasses = call.prepared
    if made.labels.dtype != INT64 or len(made.labels) > MOST_CLASSES:
        raise call.refuse("with strings for classes, or so many")
    found = _by_pairs(call, made) if isinstance(made, PairedClasses) else _by_functions(call, made)
    best, scores = found
    label = chosen(call, made.labels, best)
    return call.results(kept(call, label), kept(call, transformed(call.e, scores, made.post_transform, FLOAT32)))


def _by_functions(call: Call, made: LinearClasses) -> tuple[Array, Array]:
    """A linear function for each class."""
    e = call.e
    scores = e.materialised(_plus(e, _similarities(call, made.similarity), np.array([made.offset])))
    best = reduced(e, scores, "argmax", INT64, (1,))
    if made.are_probabilities:
        most = reduced(e, scores, "max", FLOAT64, (1,))

        def second(lanes: Lanes, place: str, x: str) -> str:
            is_half = written(lanes, "ge", FLOAT64, [x, lanes.number(FLOAT64, 0.5)])
            return lanes.select(INT64, is_half, lanes.number(INT64, 1), place)

        best = e.materialised(computed(e, INT64, [best, most], second))
    return best, scores


def _by_pairs(call: Call, made: PairedClasses) -> tuple[Array, Array]:
    """One decision for each pair of classes."""
    e, pairs = call.e, made.pairs
    sums = _product(e, _similarities(call, made.similarity), pairs.weights)
    scores = e.materialised(_plus(e, sums, pairs.rho))
    best = _first_of_two(e, scores) if pairs.n == 2 else _most_votes(e, scores, pairs)
    if pairs.has_probabilities:
        return best, coupled(e, _of_pairs(e, scores, pairs), pairs)
    return best, e.materialised(_with_opposite(scores)) if pairs.n == 2 else scores


def _with_opposite(scores: Array) -> Array:
    """Two columns for one decision."""

    def at(lanes: Lanes, index: Index) -> str:
        x = get(lanes, scores, (index[0], Place()))
        is_first = lanes.text.new(f"icmp eq {lanes.of('i64')} {lanes.number_of(index[1])}, {lanes.all('i64', '0')}")
        return lanes.select(FLOAT64, is_first, written(lanes, "neg", FLOAT64, [x]), x)

    return Array(FLOAT64, (scores.shape[0], 2), at, widest=8)


def _first_of_two(e: Emitter, scores: Array) -> Array:
    """0 where the only pair decides for its first class."""

    def place(lanes: Lanes, x: str) -> str:
        is_first = written(lanes, "gt", FLOAT64, [x, lanes.number(FLOAT64, 0)])
        return lanes.select(INT64, is_first, lanes.number(INT64, 0), lanes.number(INT64, 1))

    return e.materialised(computed(e, INT64, [scores], place))


def _most_votes(e: Emitter, scores: Array, pairs: Pairs) -> Array:
    """The class that most pairs decide for, the first of equals."""
    text, one, n = e.text, Lanes(e.text), pairs.n
    shape: tuple[Length, int] = (scores.shape[0], n)
    votes = e.room(INT64, shape)
    sides = e.table(np.array(pairs.pairs, np.int64))
    with rows(e, scores.shape[:1]) as (row,):
        base = text.mul(row.base, n)
        with text.counted(0, n) as k:
            one.store(INT64, "0", votes, Place(text.add(base, k)))
        with text.counted(0, len(pairs.pairs)) as pair:
            x = one.again()
            score = get(x, scores, (row, Place(pair)))
            side = text.new(f"zext i1 {text.new(f'fcmp ule double {score}, {one.number(FLOAT64, 0)}')} to i64")
            winner = one.load(INT64, sides, Place(text.add(text.mul(pair, 2), side)))
            there = Place(text.add(base, winner))
            one.store(INT64, text.add(one.load(INT64, votes, there), 1), votes, there)
    return reduced(e, in_memory(INT64, shape, votes), "argmax", INT64, (1,))


def _of_pairs(e: Emitter, scores: Array, pairs: Pairs) -> Array:
    """The probability of the first class of each pair, neither 0 nor 1."""
    given = [in_memory(FLOAT64, table.shape, e.table(table), table) for table in (pairs.a, pairs.b)]

    def compute(lanes: Lanes, x: str, a: str, b: str) -> str:
        f = Numbers(lanes, FLOAT64)
        whole = f.do("add", f.k(1), f.do("exp", f.do("add", f.do("mul", x, a), b)))
        return f.do("min", f.do("max", f.do("div", f.k(1), whole), f.k(1e-7)), f.k(1 - 1e-7))

    return e.materialised(computed(e, FLOAT64, [scores, *given], compute))


def _plus(e: Emitter, x: Array, values: np.ndarray) -> Array:
    """x plus a number, or one for each column."""
    table = in_memory(FLOAT64, values.shape, e.table(np.ascontiguousarray(values)), values)
    return computed(e, FLOAT64, [x, table], lambda lanes, a, b: written(lanes, "add", FLOAT64, [a, b]))


def _product(e: Emitter, x: Array, weights: np.ndarray) -> Array:
    """x, in memory, times a matrix."""
    weights = np.ascontiguousarray(weights, np.float64)
    terms, columns = weights.shape
    shape: tuple[Length, int] = (x.shape[0], columns)
    found, table = in_memory(FLOAT64, shape, e.room(FLOAT64, shape)), e.table(weights)
    Product(e, FLOAT64, shape[0], terms, columns).write(
        Given(x.memory), Given(table, const=weights), x.memory, table, found.memory
    )
    return found


# Similarities


def _similarities(call: Call, similarity: Similarity) -> Array:
    """What the kernel function says of each row and each vector: in memory, in double precision."""
    e, x, columns = call.e, call.input(0), similarity.columns
    is_fit = len(x.shape) == 2 and x.shape[1] == len(columns) and x.shape[0] != 0 and columns.size
    if not is_fit or element(x.dtype).kind == "b":
        raise call.refuse("of anything but rows of as many numbers as support vectors have")
    double = (
        x
        if x.dtype == FLOAT64 and x.memory
        else e.materialised(computed(e, FLOAT64, [x], lambda lanes, value: converted(lanes, value, x.dtype, FLOAT64)))
    )
    if similarity.kind == "RBF":
        return e.materialised(_of_distances(e, double, similarity))
    products = _product(e, double, columns)
    return products if similarity.kind == "LINEAR" else e.materialised(_of_products(e, products, similarity))


def _of_products(e: Emitter, products: Array, similarity: Similarity) -> Array:
    """POLY and SIGMOID."""

    def compute(lanes: Lanes, x: str) -> str:
        f = Numbers(lanes, FLOAT64)
        x = f.do("add", f.do("mul", x, f.k(similarity.gamma)), f.k(similarity.coef0))
        if similarity.kind == "SIGMOID":
            return f.do("tanh", x)
        if similarity.degree not in (2, 3):
            return f.do("pow", x, f.k(similarity.degree))
        square = f.do("mul", x, x)
        return square if similarity.degree == 2 else f.do("mul", square, x)

    return computed(e, FLOAT64, [products], compute)


def _of_distances(e: Emitter, x: Array, similarity: Similarity) -> Array:
    """RBF: differences, as the kernel has them, squared and added up feature by feature."""
    columns, text = similarity.columns, e.text
    table = in_memory(FLOAT64, columns.shape, e.table(columns), columns)

    def term(lanes: Lanes, index: Index, feature: Place) -> str:
        there = get(lanes, table, (feature, index[1]))
        difference = written(lanes, "sub", FLOAT64, [get(lanes, x, (index[0], feature)), there])
        return written(lanes, "mul", FLOAT64, [difference, difference])

    def at(lanes: Lanes, index: Index) -> str:
        if len(columns) <= UNROLLED:
            total = term(lanes, index, Place("0"))
            for k in range(1, len(columns)):
                total = written(lanes, "add", FLOAT64, [total, term(lanes, index, Place(str(k)))])
        else:
            type = lanes.register(FLOAT64)
            slot = text.slot(type)
            text.line(f"store {type} {lanes.number(FLOAT64, 0)}, ptr {slot}")
            with text.counted(0, len(columns)) as feature:
                squared = term(lanes.again(), index, Place(feature))
                total = written(lanes, "add", FLOAT64, [text.new(f"load {type}, ptr {slot}"), squared])
                text.line(f"store {type} {total}, ptr {slot}")
            total = text.new(f"load {type}, ptr {slot}")
        scaled = written(lanes, "mul", FLOAT64, [total, lanes.number(FLOAT64, -similarity.gamma)])
        return written(lanes, "exp", FLOAT64, [scaled])

    return Array(FLOAT64, (x.shape[0], columns.shape[1]), at, widest=8)
