"""Numbers side by side: the same instruction for one number or for several lanes of a register, some of them masked out.

A place is where the elements of the lanes stand along one axis: ``base + step * lane``, or any places in a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import BFLOAT16, BOOL, FLOAT16, INT64, element, literal
from mdf_loop.backends.llvm.lanes.instructions import Text

FAR = 10
"""Nanoseconds, about, for an element that may stand anywhere, and then not in a cache."""


@dataclass(frozen=True)
class Place:
    """Where the lanes stand along an axis."""

    base: str = "0"
    step: int = 0
    vector: str = ""

    @property
    def is_same(self) -> bool:
        """Whether all lanes stand at one place."""
        return not self.step and not self.vector


ZERO = Place()


@dataclass(eq=False)
class Lanes:
    """So many lanes, and what has been computed in them.

    Attributes
    ----------
    width : int
        1: plain numbers.
    active : int or None
        How many of the first lanes count, if that is known; ``mask`` has a bit for each lane, empty if all count.
    """

    text: Text
    width: int = 1
    active: int | None = None
    mask: str = ""
    memo: dict[Any, str] = field(default_factory=dict)

    def single(self) -> Lanes:
        """One lane, for what is the same in all."""
        return self if self.width == 1 else Lanes(self.text, memo=self.memo)

    def again(self) -> Lanes:
        """The same lanes, for code that runs again and again: what has been computed in it does not stay."""
        return Lanes(self.text, self.width, self.active, self.mask, dict(self.memo))

    # Types and constants

    def of(self, type: str) -> str:
        """A type for all lanes."""
        return type if self.width == 1 else f"<{self.width} x {type}>"

    def register(self, dtype: np.dtype) -> str:
        """The type of registers."""
        return self.of(element(dtype).register)

    def suffix(self, dtype: np.dtype) -> str:
        """How LLVM's functions of this type and width are called."""
        short = element(dtype).suffix
        return short if self.width == 1 else f"v{self.width}{short}"

    def all(self, type: str, text: str) -> str:
        """One literal for all lanes."""
        return text if self.width == 1 else f"splat ({type} {text})"

    def number(self, dtype: np.dtype, value: Any) -> str:
        """A number for all lanes."""
        return self.all(element(dtype).register, literal(dtype, value))

    def splat(self, dtype: np.dtype, value: str) -> str:
        """A value of one lane in all of them."""
        if self.width == 1:
            return value
        type = element(dtype).register
        key = ("splat", type, value, self.width)  # a literal is written alike in several types
        if key not in self.memo:
            self.memo[key] = self._splat(type, value)
        return self.memo[key]

    def _splat(self, type: str, value: str) -> str:
        if not value.startswith("%"):
            return self.all(type, value)
        many = self.of(type)
        first = self.text.new(f"insertelement {many} poison, {type} {value}, i64 0")
        return self.text.new(f"shufflevector {many} {first}, {many} poison, <{self.width} x i32> zeroinitializer")

    def splat_place(self, value: str) -> str:
        """A number of int64 in all lanes."""
        return self.splat(INT64, value)

    # Instructions

    def call(self, name: str, dtype: np.dtype, *args: str) -> str:
        """One of LLVM's functions whose arguments are all of one type."""
        type = self.register(dtype)
        call = self.text.declare(f"llvm.{name}.{self.suffix(dtype)}", type, *[type] * len(args))
        return self.text.new(f"{call}({', '.join(f'{type} {x}' for x in args)})")

    def select(self, dtype: np.dtype, condition: str, x: str, y: str) -> str:
        """x where the condition holds."""
        type = self.register(dtype)
        return self.text.new(f"select {self.of('i1')} {condition}, {type} {x}, {type} {y}")

    def any(self, condition: str) -> str:
        """Whether it holds in any lane that counts."""
        if self.mask:
            condition = self.text.new(f"and {self.of('i1')} {condition}, {self.mask}")
        if self.width == 1:
            return condition
        call = self.text.declare(f"llvm.vector.reduce.or.v{self.width}i1", "i1", self.of("i1"))
        return self.text.new(f"{call}({self.of('i1')} {condition})")

    def lane(self, type: str, value: str, number: int) -> str:
        """The value of one lane."""
        return value if self.width == 1 else self.text.new(f"extractelement {self.of(type)} {value}, i64 {number}")

    def together(self, type: str, values: list[str]) -> str:
        """Lanes from one value each; those at the end that are missing do not matter."""
        if self.width == 1:
            return values[0]
        many = "poison"
        for k, value in enumerate(values):
            many = self.text.new(f"insertelement {self.of(type)} {many}, {type} {value}, i64 {k}")
        return many

    # Places

    def number_of(self, place: Place) -> str:
        """A place as numbers of int64, one for each lane."""
        if self.width == 1 or place.vector:
            return place.vector or place.base
        if not place.step:
            return self.splat(INT64, place.base)
        steps = f"<{', '.join(f'i64 {k * place.step}' for k in range(self.width))}>"
        if place.base == "0":
            return steps
        return self.text.new(f"add <{self.width} x i64> {self.splat(INT64, place.base)}, {steps}")

    def shifted(self, a: Place, b: Place) -> Place:
        """The sum of two places."""
        if a.vector or b.vector:
            return Place(vector=self.text.new(f"add {self.of('i64')} {self.number_of(a)}, {self.number_of(b)}"))
        return Place(self.text.add(a.base, b.base), a.step + b.step)

    def scaled(self, a: Place, factor: str | int) -> Place:
        """A place times a length."""
        if a == ZERO or str(factor) == "1":
            return a
        if a.vector or (a.step and not str(factor).lstrip("-").isdigit()):
            many = self.splat(INT64, str(factor))
            return Place(vector=self.text.new(f"mul {self.of('i64')} {self.number_of(a)}, {many}"))
        return Place(self.text.mul(a.base, factor), a.step * int(factor) if a.step else 0)

    # Memory

    def load(self, dtype: np.dtype, pointer: str, place: Place) -> str:
        """The elements at a place of an array in memory."""
        if self.width == 1 or place.is_same:
            one = self.single()
            return self.splat(dtype, one._loaded(dtype, pointer, place))
        return self._loaded(dtype, pointer, place)

    def _loaded(self, dtype: np.dtype, pointer: str, place: Place) -> str:
        row = element(dtype)
        if self.width > 1 and place.step != 1:
            return self._gathered(dtype, pointer, place)
        address = self.text.element_pointer(row.memory, pointer, place.vector or place.base)
        type = self.of(row.memory)
        if self.mask:
            called = self.text.declare(
                f"llvm.masked.load.v{self.width}{_memory_suffix(dtype)}.p0", type, "ptr", "i32", self.of("i1"), type
            )
            found = self.text.new(f"{called}(ptr {address}, i32 {row.size}, {self.of('i1')} {self.mask}, {type} zeroinitializer)")
        else:
            found = self.text.new(f"load {type}, ptr {address}, align {row.size}")
        return self._from_memory(dtype, found)

    def _from_memory(self, dtype: np.dtype, value: str) -> str:
        if dtype != BOOL:
            return value
        return self.text.new(f"icmp ne {self.of('i8')} {value}, {self.all('i8', '0')}")

    def _gathered(self, dtype: np.dtype, pointer: str, place: Place) -> str:
        """Elements that cannot be joined, one load each."""
        row, text = element(dtype), self.text
        if self.mask and self.active is None:
            where = self.select(INT64, self.mask, self.number_of(place), self.all("i64", "0"))
            place = Place(vector=where)  # what does not count is read where something is
        found = []
        for k in range(self.width if self.active is None else self.active):
            number = self.lane("i64", place.vector, k) if place.vector else text.add(place.base, k * place.step)
            found.append(text.new(f"load {row.memory}, ptr {text.element_pointer(row.memory, pointer, number)}"))
        if place.vector:
            text.takes(FAR * len(found))
        return self._from_memory(dtype, self.together(row.memory, found))

    def store(self, dtype: np.dtype, value: str, pointer: str, place: Place) -> None:
        """Write elements side by side."""
        row, text = element(dtype), self.text
        if self.mask and self.active == 1:  # LLVM 22 writes four bytes where one number of 32 bits becomes one of eight
            Lanes(text).store(dtype, self.lane(row.register, value, 0), pointer, Place(place.base))
            return
        if dtype == BOOL:
            value = text.new(f"zext {self.of('i1')} {value} to {self.of('i8')}")
        type = self.of(row.memory)
        address = text.element_pointer(row.memory, pointer, place.vector or place.base)
        if self.mask:
            called = text.declare(
                f"llvm.masked.store.v{self.width}{_memory_suffix(dtype)}.p0", "void", type, "ptr", "i32", self.of("i1")
            )
            text.line(f"{called}({type} {value}, ptr {address}, i32 {row.size}, {self.of('i1')} {self.mask})")
        else:
            text.line(f"store {type} {value}, ptr {address}, align {row.size}")

    # Half precision

    def widened(self, dtype: np.dtype, value: str) -> str:
        """Half precision as float32."""
        if dtype == FLOAT16:
            return self.text.new(f"fpext {self.of('half')} {value} to {self.of('float')}")
        wide = self.text.new(f"zext {self.of('i16')} {value} to {self.of('i32')}")
        shifted = self.text.new(f"shl {self.of('i32')} {wide}, {self.all('i32', '16')}")
        return self.text.new(f"bitcast {self.of('i32')} {shifted} to {self.of('float')}")

    def narrowed(self, dtype: np.dtype, value: str) -> str:
        """float32 rounded to half precision, halves to even."""
        if dtype == FLOAT16:
            return self.text.new(f"fptrunc {self.of('float')} {value} to {self.of('half')}")
        assert dtype == BFLOAT16
        new, many = self.text.new, self.of("i32")
        bits = new(f"bitcast {self.of('float')} {value} to {many}")
        upper = new(f"lshr {many} {bits}, {self.all('i32', '16')}")
        odd = new(f"and {many} {upper}, {self.all('i32', '1')}")
        up = new(f"add {many} {bits}, {self.all('i32', str(0x7FFF))}")
        even = new(f"add {many} {up}, {odd}")
        rounded = new(f"lshr {many} {even}, {self.all('i32', '16')}")
        sign = new(f"and {many} {upper}, {self.all('i32', str(0x8000))}")
        nan = new(f"or {many} {sign}, {self.all('i32', str(0x7FC0))}")
        unordered = new(f"fcmp uno {self.of('float')} {value}, {value}")
        found = new(f"select {self.of('i1')} {unordered}, {many} {nan}, {many} {rounded}")
        return new(f"trunc {many} {found} to {self.of('i16')}")


class Register:
    """A register that is written again and again: memory that LLVM makes one."""

    def __init__(self, lanes: Lanes, dtype: np.dtype, first: Any = None, slot: str = "") -> None:
        self.text, self.type = lanes.text, lanes.register(dtype)
        self.slot = slot or self.text.slot(self.type)
        if first is not None:
            self.write(lanes.number(dtype, first))

    def read(self) -> str:
        """What it holds."""
        return self.text.new(f"load {self.type}, ptr {self.slot}")

    def write(self, value: str) -> None:
        """Let it hold something else."""
        self.text.line(f"store {self.type} {value}, ptr {self.slot}")


def first_lanes(text: Text, width: int, count: int) -> Lanes:
    """Lanes of which only so many count, the first ones."""
    if count == width:
        return Lanes(text, width)
    return Lanes(text, width, count, f"<{', '.join(f'i1 {str(k < count).lower()}' for k in range(width))}>")


def _memory_suffix(dtype: np.dtype) -> str:
    return "i8" if dtype == BOOL else element(dtype).suffix
