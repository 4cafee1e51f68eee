"""Probabilities of classes from those of their pairs: the method of :mod:`mdf_loop.kernels.support_vectors`, row by row."""

from __future__ import annotations

import numpy as np

from mdf_loop.backends.llvm.arrays import Array, Length, in_memory
from mdf_loop.backends.llvm.elements import FLOAT64, INT64
from mdf_loop.backends.llvm.emitter import Emitter
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.post_transforms import Numbers
from mdf_loop.backends.llvm.sweeps import chunks, rows
from mdf_loop.kernels.support_vectors import Pairs, rounds


def coupled(e: Emitter, first: Array, pairs: Pairs) -> Array:
    """Probabilities (rows, classes) from those of the first class of each pair, in memory."""
    shape: tuple[Length, int] = (first.shape[0], pairs.n)
    found = in_memory(FLOAT64, shape, e.room(FLOAT64, shape))
    make = _Two(e) if pairs.n == 2 else _Many(e, pairs)
    with rows(e, shape[:1]) as (row,):
        given, to = e.text.mul(row.base, len(pairs.pairs)), e.text.mul(row.base, pairs.n)
        make.row(*(e.text.element_pointer("double", p, k) for p, k in ((first.memory, given), (found.memory, to))))
    return found


class _Rounds:
    """Rounds that end when nothing changes any more, or there were enough."""

    def __init__(self, e: Emitter, n: int) -> None:
        self.e, self.text, self.n, self.one = e, e.text, n, Lanes(e.text)
        self.f = Numbers(self.one, FLOAT64)
        self.count = self._number("i64")

    def _number(self, type: str = "double") -> str:
        return self.text.slot(type)

    def load(self, slot: str, place: str | int = 0) -> str:
        """A number in memory."""
        return self.one.load(FLOAT64, slot, Place(str(place)))

    def store(self, value: str, slot: str, place: str | int = 0) -> None:
        """Put it there."""
        self.one.store(FLOAT64, value, slot, Place(str(place)))

    def run(self) -> None:
        """All rounds."""
        text = self.text
        head, work, done = (text.label("r") for _ in range(3))
        text.line(f"store i64 0, ptr {self.count}")
        text.jump(head)
        text.start(head)
        goes_on = self.goes_on()
        count = text.new(f"load i64, ptr {self.count}")
        is_early = text.new(f"icmp slt i64 {count}, {rounds(self.n)}")
        text.fork(text.new(f"and i1 {goes_on}, {is_early}"), work, done)
        text.start(work)
        text.line(f"store i64 {text.add(count, 1)}, ptr {self.count}")
        self.round()
        text.jump(head)
        text.start(done)

    def goes_on(self) -> str:
        """Whether it is not good enough yet."""
        raise NotImplementedError

    def round(self) -> None:
        """One round."""
        raise NotImplementedError

    def is_far(self, x: str) -> str:
        """Whether something that should be 0 is not; nan ends the rounds."""
        return self.f.do("ge", self.f.do("abs", x), self.f.k(0.005 / self.n))


class _Two(_Rounds):
    """Two classes: all follows from how far p is from r."""

    def __init__(self, e: Emitter) -> None:
        super().__init__(e, 2)
        self.p, self.r = self._number(), self._number()

    def row(self, first: str, found: str) -> None:
        """One row."""
        f = self.f
        self.store(self.load(first), self.r)
        self.store(f.k(0.5), self.p)
        self.run()
        p = self.load(self.p)
        self.store(p, found)
        self.store(f.do("sub", f.k(1), p), found, 1)

    def _known(self) -> tuple[str, str, str, str, str]:
        f, p, r = self.f, self.load(self.p), self.load(self.r)
        away = f.do("sub", p, r)
        return p, r, f.do("sub", f.k(1), r), away, f.do("mul", away, away)

    def goes_on(self) -> str:
        """Both products with the matrix are compared with that of both."""
        f, (_, r, rest, away, square) = self.f, self._known()
        one = self.is_far(f.do("sub", f.do("mul", rest, away), square))
        return self.text.new(f"or i1 {one}, {self.is_far(f.do('add', f.do('mul', r, away), square))}")

    def round(self) -> None:
        """First one class, then the other."""
        f, (p, r, rest, away, square) = self.f, self._known()
        step = f.do("div", f.do("sub", square, f.do("mul", rest, away)), f.do("mul", rest, rest))
        p = f.do("div", f.do("add", p, step), f.do("add", f.k(1), step))
        away = f.do("sub", p, r)
        more = f.do("div", f.do("add", f.do("mul", away, away), f.do("mul", r, away)), f.do("mul", r, r))
        self.store(f.do("div", p, f.do("add", f.k(1), more)), self.p)


class _Many(_Rounds):
    """Three and more classes: a symmetric matrix q, probabilities p, their product, and p times that."""

    def __init__(self, e: Emitter, pairs: Pairs) -> None:
        n = pairs.n
        super().__init__(e, n)
        self.pairs = len(pairs.pairs)
        self.sides = e.table(np.array(pairs.pairs, np.int64))
        self.q, self.p, self.qp = (e.room(FLOAT64, shape) for shape in ((n, n), (n,), (n,)))
        self.pqp, self.whole, self.worst = self._number(), self._number(), self._number("i1")

    def row(self, first: str, found: str) -> None:
        """One row."""
        self._matrix(first)
        with self.text.counted(0, self.n) as k:
            self.store(self.f.k(1 / self.n), self.p, k)
        self.run()
        for lanes, place in chunks(self.e, self.n, 8, may_overlap=True):
            lanes.store(FLOAT64, lanes.load(FLOAT64, self.p, place), found, place)

    def _matrix(self, first: str) -> None:
        text, f, n = self.text, self.f, self.n
        with text.counted(0, n) as k:
            self.store(f.k(0), self.q, text.mul(k, n + 1))
        with text.counted(0, self.pairs) as pair:
            i, j = (self.one.load(INT64, self.sides, Place(text.add(text.mul(pair, 2), k))) for k in range(2))
            r = self.load(first, pair)
            rest = f.do("sub", f.k(1), r)
            for side, x in ((i, rest), (j, r)):
                there = text.mul(side, n + 1)
                self.store(f.do("add", self.load(self.q, there), f.do("mul", x, x)), self.q, there)
            product = f.do("mul", f.do("neg", r), rest)
            for a, b in ((i, j), (j, i)):
                self.store(product, self.q, text.add(text.mul(a, n), b))

    def goes_on(self) -> str:
        """The product of the matrix with p should be the same for all classes."""
        text, f, e = self.text, self.f, self.e
        for lanes, place in chunks(e, self.n, 8, may_overlap=True):
            type = lanes.register(FLOAT64)
            slot = text.slot(type)
            text.line(f"store {type} {lanes.number(FLOAT64, 0)}, ptr {slot}")
            with text.counted(0, self.n) as j:
                row = lanes.load(FLOAT64, self.q, lanes.shifted(Place(text.mul(j, self.n)), place))
                term = Numbers(lanes, FLOAT64).do("mul", row, lanes.load(FLOAT64, self.p, Place(j)))
                total = Numbers(lanes, FLOAT64).do("add", text.new(f"load {type}, ptr {slot}"), term)
                text.line(f"store {type} {total}, ptr {slot}")
            lanes.store(FLOAT64, text.new(f"load {type}, ptr {slot}"), self.qp, place)
        self.store(f.k(0), self.pqp)
        with text.counted(0, self.n) as k:
            term = f.do("mul", self.load(self.p, k), self.load(self.qp, k))
            self.store(f.do("add", self.load(self.pqp), term), self.pqp)
        text.line(f"store i1 false, ptr {self.worst}")
        with text.counted(0, self.n) as k:
            is_far = self.is_far(f.do("sub", self.load(self.qp, k), self.load(self.pqp)))
            found = text.new(f"or i1 {is_far}, {text.new(f'load i1, ptr {self.worst}')}")
            text.line(f"store i1 {found}, ptr {self.worst}")
        return text.new(f"load i1, ptr {self.worst}")

    def round(self) -> None:
        """Each class in turn takes the probability that fits the others; p is divided by its sum at the end."""
        text, f, n = self.text, self.f, self.n
        self.store(f.k(1), self.whole)
        with text.counted(0, n) as t:
            whole, pqp, own = self.load(self.whole), self.load(self.pqp), self.load(self.q, text.mul(t, n + 1))
            value = f.do("div", self.load(self.qp, t), whole)
            step = f.do("div", f.do("sub", pqp, value), own)
            ratio = f.do("add", f.k(1), step)
            inner = f.do("add", f.do("mul", step, own), f.do("mul", f.k(2), value))
            self.store(f.do("div", f.do("add", pqp, f.do("mul", step, inner)), f.do("mul", ratio, ratio)), self.pqp)
            more = f.do("mul", step, whole)
            self.store(f.do("add", self.load(self.p, t), more), self.p, t)
            self._add_row(text.mul(t, n), more)
            self.store(f.do("mul", whole, ratio), self.whole)
        for lanes, place in chunks(self.e, n, 8, may_overlap=False):
            whole = lanes.splat(FLOAT64, self.load(self.whole))
            lanes.store(FLOAT64, Numbers(lanes, FLOAT64).do("div", lanes.load(FLOAT64, self.p, place), whole), self.p, place)

    def _add_row(self, base: str, more: str) -> None:
        """A row of the matrix times a number, added to the product."""
        for lanes, place in chunks(self.e, self.n, 8, may_overlap=False):
            f, x = Numbers(lanes, FLOAT64), lanes.load(FLOAT64, self.qp, place)
            row = lanes.load(FLOAT64, self.q, lanes.shifted(Place(base), place))
            lanes.store(FLOAT64, f.do("add", x, f.do("mul", row, lanes.splat(FLOAT64, more))), self.qp, place)
