"""NonMaxSuppression: boxes from a heap, the best first, each compared with a register full of those kept at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mdf_loop.backends.llvm.arithmetic import written
from mdf_loop.backends.llvm.arrays import Array, Length, get, in_memory
from mdf_loop.backends.llvm.elements import FLOAT32, INT64, literal
from mdf_loop.backends.llvm.lanes import Lanes, Place
from mdf_loop.backends.llvm.operators.table import Call, gives
from mdf_loop.backends.llvm.sweeps import chunks, rows
from mdf_loop.backends.llvm.text import Text

UINT64 = np.dtype(np.uint64)

MOST_ROWS = 1 << 22
"""Boxes that may be kept in all for there to be room beforehand."""

Y, X, Y_END, X_END, AREA = range(5)
"""What is known of a box that was kept."""


@gives("NonMaxSuppression")
def non_max_suppression(call: Call) -> Array:
    """Rows of (batch, class, box): the boxes kept, best first, none of them overlapping a better one too much."""
    e, boxes, scores = call.e, call.input(0), call.input(1)
    if boxes.dtype != FLOAT32 or scores.dtype != FLOAT32 or len(boxes.shape) != 3 or len(scores.shape) != 3:
        raise call.refuse("of other numbers than float32")
    if boxes.shape[2] != 4 or not scores.is_static or not boxes.is_static:
        raise call.refuse("of open lengths")
    count = e.same_length([boxes.shape[1], scores.shape[2]])
    e.same_length([boxes.shape[0], scores.shape[0]])
    limit = _limit(call)
    most = min(int(count), int(limit)) if limit.lstrip("-").isdigit() else int(count)
    rows_ = max(most, 0) * math.prod(n for n in scores.shape[:2] if isinstance(n, int))
    if rows_ > MOST_ROWS:
        raise call.refuse("of so many boxes")
    found = in_memory(INT64, (rows_, 3), e.room(INT64, (max(rows_, 1), 3)))
    return _Suppression(call, boxes, scores, limit, found).write(int(count))


def _limit(call: Call) -> str:
    """How many boxes of a class are kept."""
    if not call.has(2) or call.input(2).shape not in ((), (1,)) or call.input(2).dtype != INT64:
        if call.has(2):
            raise call.refuse("with many limits")
        return "0"
    return call.e.number_of(call.input(2))


def _threshold(call: Call, k: int, default: float) -> str:
    """A number that may be left out."""
    if not call.has(k):
        return literal(FLOAT32, default)
    x = call.input(k)
    if x.shape not in ((), (1,)) or x.dtype != FLOAT32:
        raise call.refuse("with many thresholds")
    return call.e.number_of(x)


@dataclass
class _Heap:
    """Numbers of which the largest is at hand."""

    text: Text
    memory: str
    size: str
    """Where it stands how many there are."""

    def at(self, place: str) -> str:
        return Lanes(self.text).load(UINT64, self.memory, Place(place))

    def put(self, place: str, value: str) -> None:
        Lanes(self.text).store(UINT64, value, self.memory, Place(place))

    def sink(self, start: str, size: str, value: str) -> None:
        """Put a number where it belongs, below a place at which there is room."""
        text, new = self.text, self.text.new
        place, child, going = text.slot("i64"), text.slot("i64"), text.slot("i1")
        text.line(f"store i64 {start}, ptr {place}")
        text.line(f"store i1 true, ptr {going}")

        def goes_on() -> str:
            first = text.add(text.mul(text.read("i64", place), 2), 1)
            text.line(f"store i64 {first}, ptr {child}")
            return new(f"and i1 {text.read('i1', going)}, {new(f'icmp slt i64 {first}, {size}')}")

        with text.repeated(goes_on):
            left = text.read("i64", child)
            right = text.add(left, 1)
            right = new(f"select i1 {new(f'icmp slt i64 {right}, {size}')}, i64 {right}, i64 {left}")
            a, b = self.at(left), self.at(right)
            is_right = new(f"icmp ugt i64 {b}, {a}")
            best = new(f"select i1 {is_right}, i64 {b}, i64 {a}")
            sinks = new(f"icmp ugt i64 {best}, {value}")
            text.line(f"store i1 {sinks}, ptr {going}")
            with text.where(sinks):
                self.put(text.read("i64", place), best)
                text.line(f"store i64 {new(f'select i1 {is_right}, i64 {right}, i64 {left}')}, ptr {place}")
        self.put(text.read("i64", place), value)

    def order(self) -> None:
        """Make a heap of what stands there."""
        text = self.text
        size = text.read("i64", self.size)
        half = text.new(f"lshr i64 {size}, 1")
        with text.counted("0", half) as number:
            place = text.sub(text.sub(half, 1), number)
            self.sink(place, size, self.at(place))

    def taken(self) -> str:
        """The largest, which is gone then."""
        text = self.text
        best = self.at("0")
        size = text.sub(text.read("i64", self.size), 1)
        text.line(f"store i64 {size}, ptr {self.size}")
        self.sink("0", size, self.at(size))
        return best


class _Suppression:
    """One node."""

    def __init__(self, call: Call, boxes: Array, scores: Array, limit: str, found: Array) -> None:
        self.e, self.text, self.boxes, self.scores, self.limit, self.found = call.e, call.e.text, boxes, scores, limit, found
        self.overlap, self.lowest = _threshold(call, 3, 0.0), _threshold(call, 4, -math.inf)
        self.by_centre = bool(call.attrs.get("center_point_box", 0))

    def write(self, count: int) -> Array:
        """The code: class by class."""
        e, text = self.e, self.text
        self.total, self.kept = text.slot("i64"), text.slot("i64")
        self.heap = _Heap(text, e.room(UINT64, (max(count, 1),)), text.slot("i64"))
        self.corners = [e.room(FLOAT32, (max(count, 1),)) for _ in range(5)]
        text.line(f"store i64 0, ptr {self.total}")
        with rows(e, self.scores.shape[:2]) as (batch, number):
            self._candidates(batch, number, count)
            self.heap.order()
            text.line(f"store i64 0, ptr {self.kept}")
            with text.repeated(self._goes_on):
                self._one(batch, number)
        length: Length = text.read("i64", self.total)
        return in_memory(INT64, (length, 3), self.found.memory)

    def _candidates(self, batch: Place, number: Place, count: int) -> None:
        """Scores that are high enough in their order, the place of each in it: the first of equal ones is larger."""
        text, new = self.text, self.text.new
        text.line(f"store i64 0, ptr {self.heap.size}")
        with text.counted(0, count) as place:
            one = Lanes(text)
            score = get(one, self.scores, (batch, number, Place(place)))
            is_high = new(f"fcmp oge float {score}, {self.lowest}")
            bits = new(f"bitcast float {new(f'fadd float {score}, {literal(FLOAT32, 0.0)}')} to i32")  # no minus nought
            turned = new(f"or i32 {new(f'ashr i32 {bits}, 31')}, {-0x80000000}")
            ordered = new(f"xor i32 {bits}, {turned}")
            high = new(f"shl i64 {new(f'zext i32 {ordered} to i64')}, 32")
            key = new(f"or i64 {high}, {new(f'sub i64 {0xFFFFFFFF}, {place}')}")
            size = text.read("i64", self.heap.size)
            self.heap.put(size, key)
            more = new(f"zext i1 {is_high} to i64")
            text.line(f"store i64 {text.add(size, more)}, ptr {self.heap.size}")

    def _goes_on(self) -> str:
        new, read = self.text.new, self.text.read
        has_more = new(f"icmp sgt i64 {read('i64', self.heap.size)}, 0")
        has_room = new(f"icmp slt i64 {read('i64', self.kept)}, {self.limit}")
        return new(f"and i1 {has_more}, {has_room}")

    def _one(self, batch: Place, number: Place) -> None:
        """The best box that is left: kept if none of those kept covers it."""
        text, new, one = self.text, self.text.new, Lanes(self.text)
        place = text.sub(0xFFFFFFFF, new(f"and i64 {self.heap.taken()}, {0xFFFFFFFF}"))
        box = self._corners(one, batch, place)
        kept, covered = text.read("i64", self.kept), text.slot("i1")
        text.line(f"store i1 false, ptr {covered}")
        for lanes, at in chunks(self.e, kept, 4, may_overlap=False):
            found = lanes.any(self._covers(lanes.again(), at, box))
            found = new(f"or i1 {found}, {text.read('i1', covered)}")
            text.line(f"store i1 {found}, ptr {covered}")
        with text.where(new(f"xor i1 {text.read('i1', covered)}, true")):
            for memory, value in zip(self.corners, box, strict=True):
                one.store(FLOAT32, value, memory, Place(kept))
            total = text.read("i64", self.total)
            for k, value in enumerate((batch.base, number.base, place)):
                one.store(INT64, value, self.found.memory, Place(text.add(text.mul(total, 3), k)))
            text.line(f"store i64 {text.add(total, 1)}, ptr {self.total}")
            text.line(f"store i64 {text.add(kept, 1)}, ptr {self.kept}")

    def _corners(self, one: Lanes, batch: Place, place: str) -> list[str]:
        """Lower corner, upper corner and area, whichever two corners or centre and size were given."""

        def do(name: str, *args: str) -> str:
            return written(one, name, FLOAT32, list(args))

        values = [get(one, self.boxes, (batch, Place(place), Place(str(k)))) for k in range(4)]
        if self.by_centre:
            halves = [do("mul", size, literal(FLOAT32, 0.5)) for size in values[2:]]
            values = [do(name, x, half) for name in ("sub", "add") for x, half in zip(values[:2], halves, strict=True)]
        box = [do(name, values[k], values[2 + k]) for name in ("min", "max") for k in range(2)]
        return [*box, do("mul", do("sub", box[Y_END], box[Y]), do("sub", box[X_END], box[X]))]

    def _covers(self, lanes: Lanes, at: Place, box: list[str]) -> str:
        """Whether boxes that were kept cover one: their intersection is more than such a part of their union."""

        def do(name: str, *args: str) -> str:
            return written(lanes, name, FLOAT32, list(args))

        theirs = [lanes.load(FLOAT32, memory, at) for memory in self.corners]
        ours = [lanes.splat(FLOAT32, value) for value in box]
        height = do("sub", do("min", theirs[Y_END], ours[Y_END]), do("max", theirs[Y], ours[Y]))
        width = do("sub", do("min", theirs[X_END], ours[X_END]), do("max", theirs[X], ours[X]))
        shared = do("mul", height, do("max", width, lanes.number(FLOAT32, 0.0)))
        union = do("sub", do("add", theirs[AREA], ours[AREA]), shared)
        return do("gt", do("div", shared, union), lanes.splat(FLOAT32, self.overlap))
