"""The text of a program: what a Step computes, with what reads its arguments before it and writes its results behind it."""

from __future__ import annotations

from dataclasses import replace

from mdf_loop.backends.llvm import operators
from mdf_loop.backends.llvm.emitter import FALL_BACK, NO_MEMORY, NOT_PLAIN, Emitter
from mdf_loop.backends.llvm.fusion import is_number
from mdf_loop.backends.llvm.inlined import inlined
from mdf_loop.backends.llvm.lanes.element_loops import store_all
from mdf_loop.backends.llvm.lanes.element_types import CannotCompile
from mdf_loop.backends.llvm.lanes.instructions import RARE
from mdf_loop.backends.llvm.lanes.lazy_arrays import Array, in_memory, number
from mdf_loop.backends.llvm.lanes.vector_lanes import Lanes, Place
from mdf_loop.backends.llvm.linking import prologue
from mdf_loop.backends.llvm.linking.machine import IN_A_HURRY, OPTIMISATION, machine
from mdf_loop.backends.llvm.linking.object_layout import ELEMENTS, LENGTHS
from mdf_loop.backends.llvm.linking.prologue import FIRST_OBJECT, RAISED, STOPPED
from mdf_loop.backends.llvm.operations import elementwise, looks_for_nan, loops_and_branches, products, putting, reductions, views
from mdf_loop.backends.llvm.program_layout import Layout, Outline, Result
from mdf_loop.step.records import Region, Size, Value

WRITE = elementwise, looks_for_nan, loops_and_branches, operators, products, putting, reductions, views
"""The modules that say how operations are written."""

CODES = FALL_BACK, NO_MEMORY, NOT_PLAIN, RAISED
"""What a program may return instead of 0, besides what a look finds."""


class ProgramText:
    """The text of a program, and its outline."""

    def __init__(self, region: Region, is_block: bool, is_quick: bool) -> None:
        computer = machine()
        lists = [k for k, value in enumerate(region.results) if value.op == "rows" and value.args]
        arrays = [value.args[0] if k in lists else value for k, value in enumerate(region.results)]
        self.region = inlined(replace(region, results=tuple(arrays)))
        self.e = e = Emitter(self.region, computer.register_bytes, computer.has_half, is_quick)
        self.lengths: dict[Size, str] = {}
        self.table = Layout(len(region.params) + len(region.results))
        e.new_numbers = self.table.new_numbers
        self.results = [self._result(value) for value in self.region.results]
        self._params()
        self._targets()
        e.values(self.region)
        self._give()
        self.text = self._whole(is_block)
        self.table.scratch = e.scratch
        self.outline = Outline(
            list(e.text.declarations), IN_A_HURRY if is_quick else OPTIMISATION, self.table, [x.type for x in region.params],
            self.results, lists, e.constants, e.outside, e.draws, is_free=not e.outside and e.is_looping,
        )  # fmt: skip

    def _result(self, value: Value) -> Result:
        type = value.type
        if type.dtype is None or type.shape is None or (type.weak and type.shape):
            raise CannotCompile("a result of unknown type has no compiled form")
        self.e.element(type.dtype)
        is_open = not type.is_static
        return Result(type, self.table.new_numbers(max(len(type.shape), 1) if is_open or type.shape == () else 0))

    def _entry(self, place: int, type: str = "ptr") -> str:
        """What stands in the table."""
        text = self.e.text
        return text.new(f"load {type}, ptr {text.element_pointer('i64', '%table', place)}")

    # Arguments

    def _params(self) -> None:
        """Where arguments stand, looked at all together; then what they are."""
        text, places = self.e.text, dict[Value, str]()
        is_odd = ""
        for k, param in enumerate(self.region.params):
            if not self.e.uses.count(param):
                continue
            type = param.type
            if type.dtype is None or type.shape is None:
                raise CannotCompile("an argument of unknown type has no compiled form")
            self.e.element(type.dtype)
            self.e.arguments[param] = k
            call = text.declare(prologue.ARRAY if type.shape else prologue.NUMBER, "ptr", "ptr", "i64", pure=False)
            places[param] = text.new(f"{call}(ptr %table, i64 {FIRST_OBJECT + k})")
            if type.shape:
                is_none = text.new(f"icmp eq ptr {places[param]}, null")
                is_odd = text.new(f"or i1 {is_odd}, {is_none}") if is_odd else is_none
        if is_odd:
            self.e.leave_if(is_odd, NOT_PLAIN)
        for param, place in places.items():
            self.e.known[param] = self._argument(param, place)

    def _argument(self, param: Value, place: str) -> Array:
        """A number, or an array whose elements stand row by row."""
        type = param.type
        assert type.dtype is not None
        if type.shape == ():
            return number(type.dtype, Lanes(self.e.text).load(type.dtype, place, Place()))
        shape = [n if isinstance(n, int) else self._length(n, param, axis) for axis, n in enumerate(type.shape or ())]
        found = in_memory(type.dtype, shape, place)
        return number(type.dtype, self.e.number_of(found), found.shape) if is_number(type) else found

    def _length(self, size: Size, param: Value, axis: int) -> str:
        """An open length, read out of the array; where several have it, it is looked at whether they do."""
        text = self.e.text
        array = self._entry(FIRST_OBJECT + self.e.arguments[param])
        lengths = text.new(f"load ptr, ptr {text.new(f'getelementptr i8, ptr {array}, i64 {LENGTHS}')}")
        found = text.new(f"load i64, ptr {text.element_pointer('i64', lengths, axis)}")
        if size in self.lengths:
            self.e.leave_if(text.new(f"icmp ne i64 {self.lengths[size]}, {found}"))
        return self.lengths.setdefault(size, found)

    # Results

    def _targets(self) -> None:
        """Results that are arrays of known lengths are written where they stay."""
        self.pointers = []
        for k, (value, result) in enumerate(zip(self.region.results, self.results, strict=True)):
            pointer = ""
            if result.is_static and not result.is_number:
                entry = self._entry(FIRST_OBJECT + len(self.region.params) + k)
                text = self.e.text
                pointer = text.new(f"load ptr, ptr {text.new(f'getelementptr i8, ptr {entry}, i64 {ELEMENTS}')}")
                if not is_number(value.type):
                    self.e.targets.setdefault(value, []).append(pointer)
            elif not result.is_number:
                self.e.asking.setdefault(value, result.place)
            self.pointers.append(pointer)

    def _give(self) -> None:
        """Write the results."""
        for value, result, pointer in zip(self.region.results, self.results, self.pointers, strict=True):
            x = self.e.of(value)
            if x.dtype != result.dtype or len(x.shape) != len(result.shape):
                raise CannotCompile("a result that changes its type has no compiled form")
            if result.is_number:
                at = self.e.text.element_pointer("i64", "%table", result.place)
                Lanes(self.e.text).store(x.dtype, self.e.number_of(x), at, Place())
            elif pointer:
                if pointer not in (x.memory, *self.e.filled):
                    store_all(self.e, [(self.e.fitted(x, result.lengths), [pointer])])
            elif self.e.asked.get(value) != result.place:
                self._give_open(x, result)

    def _give_open(self, x: Array, result: Result) -> None:
        """A result whose lengths the run has found."""
        text = self.e.text
        room = self.e.result_room(result.place, x.dtype, x.shape)
        if x.memory:
            call = text.declare("memmove", "ptr", "ptr", "ptr", "i64", pure=False)
            text.new(f"{call}(ptr {room}, ptr {x.memory}, i64 {self.e.bytes_of(x.dtype, x.shape)})")
        else:
            store_all(self.e, [(x, [room])])

    # Everything

    def _whole(self, is_block: bool) -> str:
        e, text = self.e, self.e.text
        constants = []
        for k in range(len(e.constants)):
            constants.append(f"  %at{k} = getelementptr i64, ptr %table, i64 {self.table.first_constant + k}")
            constants.append(f"  %constant{k} = load ptr, ptr %at{k}")
        text.jump("last")
        text.start("last")
        text.jump("end")
        for code in CODES:
            text.start(f"leave{code}")
            text.line("br label %end")
        text.start(f"leave{STOPPED}")
        why = text.new(f"load i64, ptr {text.element_pointer('i64', '%fuel', prologue.WHY)}")
        text.jump("end")
        codes = ", ".join([*(f"[{c}, %leave{c}]" for c in CODES), f"[{why}, %leave{STOPPED}]"])
        ending = [f"  %code = phi i64 [0, %last], {codes}"]
        if e.growing:
            text.declare("PyMem_RawFree", "void", "ptr", pure=False)
        for k, memory in enumerate(e.growing):
            ending += [f"  %free{k} = load ptr, ptr {memory}", f"  call void @PyMem_RawFree(ptr %free{k})"]
        looks = loops_and_branches.MOST_LOOKS if is_block else loops_and_branches.FEW_LOOKS
        lines = [
            "define i64 @once(ptr %table, ptr %thread) nounwind {", "entry:",
            "  %scratch = load ptr, ptr %table",
            *(prologue.stream() if e.draws else []),
            "  %fuel = alloca [5 x i64]", f"  store i64 {loops_and_branches.FUEL}, ptr %fuel",
            *(f"  %fuel{k} = getelementptr i64, ptr %fuel, i64 {k}" for k in (prologue.FULL, prologue.LOOKS, prologue.TOLD)),
            f"  %pause_at = getelementptr i64, ptr %table, i64 {prologue.PAUSE}",
            "  %pause = load i64, ptr %pause_at",
            f"  store i64 %pause, ptr %fuel{prologue.TOLD}",
            f"  store i64 {loops_and_branches.FUEL}, ptr %fuel{prologue.FULL}",
            f"  store i64 {looks}, ptr %fuel{prologue.LOOKS}",
            *constants, *text.slots, *text.lines,
        ]  # fmt: skip
        return (
            "\n".join([*text.declarations.values(), *text.globals, *lines, "end:", *ending, "  ret i64 %code", "}", RARE]) + "\n"
        )
