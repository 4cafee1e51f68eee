"""What stands around the code of a program: how it is entered, Python's lock, memory, where numbers come from."""

from __future__ import annotations

from typing import NamedTuple

from mdf_loop.backends.llvm.linking import call_forms, object_layout
from mdf_loop.settings.random_streams import MULTIPLIER

SCRATCH, OPEN, ARRAYS, OUTSIDE, STREAM, ONCE, PAUSE, ASKED = range(8)
"""Places in a table: memory for values, the object that makes room for a result, the type of arrays, the object that runs
operators outside, the state and the increment of the random numbers, the program itself, the object that is called at a look
(or 0), and the numbers that the other objects read when they are called."""

FIRST_OBJECT = ASKED + 3
"""The place of the first argument in a table, behind what all programs are given."""

GROW, LOOK, NUMBER, ARRAY, ROOM, CALL = "mdf_grow", "mdf_look", "mdf_number", "mdf_array", "mdf_room", "mdf_call"
"""Functions that programs call: memory that grows; work that is counted, and a look now and then at whether it has to stop; where
an argument has its number, or its elements, if they stand row by row; room for a result; an operator that runs outside."""

LEFT, FULL, LOOKS, WHY, TOLD = range(5)
"""What a program counts: work up to the next look, and from one to the next; looks; what it returns if one ends it; the object
that a look calls, or null."""

STOPPED, TOO_LONG = 3, 5
"""That is, because a look raised something, as Ctrl-C does, or because of the number of looks."""

RAISED = 7
"""What is returned if something of Python's raised: the exception is set, and ctypes raises it whatever is returned.

Programs call objects of Python's themselves (``PyObject_CallNoArgs``).  A callback of ctypes would print what is raised in it,
drop it, and return what happens to stand on the stack.
"""

OTHERS = 6
"""What is returned if a program was given other objects than those that a form describes."""

_HELPERS = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare ptr @PyObject_CallNoArgs(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyMem_RawRealloc(ptr, i64)

define i1 @mdf_grow(ptr %memory, i64 %size) nounwind {{
  %room = getelementptr {{ ptr, i64 }}, ptr %memory, i64 0, i32 1
  %now = load i64, ptr %room
  %twice = shl i64 %now, 1
  %more = icmp ugt i64 %twice, %size
  %wanted = select i1 %more, i64 %twice, i64 %size
  %old = load ptr, ptr %memory
  %new = call ptr @PyMem_RawRealloc(ptr %old, i64 %wanted)
  %none = icmp eq ptr %new, null
  br i1 %none, label %failed, label %done
done:
  store ptr %new, ptr %memory
  store i64 %wanted, ptr %room
  ret i1 false
failed:
  ret i1 true
}}

define internal i1 @mdf_told(ptr %object) nounwind {{
  %answer = call ptr @PyObject_CallNoArgs(ptr %object)
  %none = icmp eq ptr %answer, null
  br i1 %none, label %raised, label %done
done:
  call void @Py_DecRef(ptr %answer)
  ret i1 false
raised:
  ret i1 true
}}

define i1 @mdf_look(ptr %thread, ptr %count, i64 %work, i1 %counts) nounwind {{
  %before = load i64, ptr %count
  %left = sub i64 %before, %work
  store i64 %left, ptr %count
  %empty = icmp slt i64 %left, 0
  br i1 %empty, label %ask, label %on
on:
  ret i1 false
ask:
  %full_at = getelementptr i64, ptr %count, i64 {FULL}
  %full = load i64, ptr %full_at
  store i64 %full, ptr %count
  %holds = icmp eq ptr %thread, null
  br i1 %holds, label %let, label %take
let:
  %mine = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %mine)
  br label %signals
take:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %signals
signals:
  %signal = call i32 @PyErr_CheckSignals()
  %is_struck = icmp ne i32 %signal, 0
  %told_at = getelementptr i64, ptr %count, i64 {TOLD}
  %told = load ptr, ptr %told_at
  %is_alone = icmp eq ptr %told, null
  %is_quiet = or i1 %is_struck, %is_alone
  br i1 %is_quiet, label %back, label %tell
tell:
  %has_raised = call i1 @mdf_told(ptr %told)
  br label %back
back:
  %found = phi i1 [%is_struck, %signals], [%has_raised, %tell]
  br i1 %holds, label %end, label %go
go:
  %same = call ptr @PyEval_SaveThread()
  br label %end
end:
  %looks_at = getelementptr i64, ptr %count, i64 {LOOKS}
  %looks = load i64, ptr %looks_at
  %one = zext i1 %counts to i64
  %fewer = sub i64 %looks, %one
  store i64 %fewer, ptr %looks_at
  %over = icmp slt i64 %fewer, 0
  %why = select i1 %found, i64 {STOPPED}, i64 {TOO_LONG}
  %why_at = getelementptr i64, ptr %count, i64 {WHY}
  store i64 %why, ptr %why_at
  %stop = or i1 %found, %over
  ret i1 %stop
}}

define ptr @mdf_number(ptr %table, i64 %place) nounwind {{
  %at = getelementptr i64, ptr %table, i64 %place
  %object = load ptr, ptr %at
  %inside = getelementptr i8, ptr %object, i64 {object_layout.HEAD}
  %kind_at = getelementptr i8, ptr %object, i64 {object_layout.TYPE}
  %kind = load ptr, ptr %kind_at
  %array_at = getelementptr i64, ptr %table, i64 {ARRAYS}
  %array = load ptr, ptr %array_at
  %is_array = icmp eq ptr %kind, %array
  br i1 %is_array, label %there, label %here
there:
  %elements = load ptr, ptr %inside
  ret ptr %elements
here:
  ret ptr %inside
}}

define ptr @mdf_array(ptr %table, i64 %place) nounwind {{
  %at = getelementptr i64, ptr %table, i64 %place
  %object = load ptr, ptr %at
  %flags_at = getelementptr i8, ptr %object, i64 {object_layout.FLAGS}
  %flags = load i32, ptr %flags_at
  %found = and i32 %flags, {object_layout.PLAIN}
  %plain = icmp eq i32 %found, {object_layout.PLAIN}
  %elements_at = getelementptr i8, ptr %object, i64 {object_layout.ELEMENTS}
  %elements = load ptr, ptr %elements_at
  %given = select i1 %plain, ptr %elements, ptr null
  ret ptr %given
}}

define i1 @mdf_call(ptr %table, i64 %number) nounwind {{
  %asked = getelementptr i64, ptr %table, i64 {ASKED}
  store i64 %number, ptr %asked
  %outside_at = getelementptr i64, ptr %table, i64 {OUTSIDE}
  %outside = load ptr, ptr %outside_at
  %has_raised = call i1 @mdf_told(ptr %outside)
  ret i1 %has_raised
}}

define ptr @mdf_room(ptr %table, ptr %thread, i64 %place, i64 %rank, i64 %kind) nounwind {{
  %place_at = getelementptr i64, ptr %table, i64 {ASKED}
  store i64 %place, ptr %place_at
  %rank_at = getelementptr i64, ptr %place_at, i64 1
  store i64 %rank, ptr %rank_at
  %kind_at = getelementptr i64, ptr %place_at, i64 2
  store i64 %kind, ptr %kind_at
  %open_at = getelementptr i64, ptr %table, i64 {OPEN}
  %open = load ptr, ptr %open_at
  %holds = icmp eq ptr %thread, null
  br i1 %holds, label %ask, label %take
take:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %ask
ask:
  %array = call ptr @PyObject_CallNoArgs(ptr %open)
  %none = icmp eq ptr %array, null
  %elements_at = getelementptr i8, ptr %array, i64 {object_layout.ELEMENTS}
  br i1 %none, label %let, label %found
found:
  %elements = load ptr, ptr %elements_at
  call void @Py_DecRef(ptr %array)  ; the table holds it as well
  br label %let
let:
  %room = phi ptr [null, %ask], [%elements, %found]
  br i1 %holds, label %end, label %go
go:
  %same = call ptr @PyEval_SaveThread()
  br label %end
end:
  ret ptr %room
}}
"""
"""A program that holds Python's lock lets go of it for a moment now and then; one without takes it for a moment."""

_ENTRIES = """
define i64 @mdf_run{name}(ptr %table) nounwind {{
  %at = getelementptr i64, ptr %table, i64 {ONCE}
  %once = load ptr, ptr %at
  %thread = {release}
  %code = call i64 %once(ptr %table, ptr %thread)
  {take}
  ret i64 %code
}}

define i64 @mdf_run_if{name}(ptr %table, ptr %form, ptr %given, ptr %found) nounwind {{
entry:
  %others = call i1 @mdf_take(ptr %table, ptr %form, ptr %given, ptr %found)
  br i1 %others, label %no, label %yes
no:
  ret i64 {OTHERS}
yes:
  %code = call i64 @mdf_run{name}(ptr %table)
  ret i64 %code
}}

define i64 @mdf_run_many{name}(ptr %tables, i64 %bytes, i64 %count) nounwind {{
entry:
  %at = getelementptr i64, ptr %tables, i64 {ONCE}
  %once = load ptr, ptr %at
  %thread = {release}
  br label %one
one:
  %k = phi i64 [0, %entry], [%following, %one]
  %place = mul i64 %k, %bytes
  %table = getelementptr i8, ptr %tables, i64 %place
  %code = call i64 %once(ptr %table, ptr %thread)
  %following = add i64 %k, 1
  %failed = icmp ne i64 %code, 0
  %last = icmp eq i64 %following, %count
  %over = or i1 %failed, %last
  br i1 %over, label %end, label %one
end:
  {take}
  ret i64 %code
}}
"""
"""A run, one of objects that are as a form says, and many one after the other, each with a table of its own."""

RELEASE, TAKE = "call ptr @PyEval_SaveThread()", "call void @PyEval_RestoreThread(ptr %thread)"


class Entries(NamedTuple):
    """The functions by which Python enters programs, by name."""

    run: str
    run_if: str
    run_many: str


HOLDING = Entries("mdf_run", "mdf_run_if", "mdf_run_many")
FREE = Entries("mdf_run_free", "mdf_run_if_free", "mdf_run_many_free")
"""For programs that hold Python's lock, and for those that run without."""

DRAWN = "mdf_word", "mdf_fraction"
"""Functions that numpy's own call: the next number of 64 bits, and the next one from 0 to 1."""

BEYOND = {bits: f"mdf_beyond_{bits}" for bits in (16, 32, 64)}
"""Functions that look whether one of some floats, of so many bits each, is beyond a limit: bits without the sign are in the order
of sizes, infinity behind all numbers, and nan behind that."""

NAMES = (GROW, LOOK, NUMBER, ARRAY, ROOM, CALL, *BEYOND.values(), *DRAWN, *HOLDING, *FREE)


def around() -> str:
    """The functions that all programs share."""
    places = {"FIRST_OBJECT": FIRST_OBJECT, "OPEN": OPEN, "ARRAYS": ARRAYS, "ONCE": ONCE, "OUTSIDE": OUTSIDE, "ASKED": ASKED}
    counts = {"FULL": FULL, "LOOKS": LOOKS, "WHY": WHY, "TOLD": TOLD, "STOPPED": STOPPED, "TOO_LONG": TOO_LONG, "OTHERS": OTHERS}
    known = {"object_layout": object_layout, **places, **counts}
    holding = _ENTRIES.format(name="", release="inttoptr i64 0 to ptr", take="", **known)
    free = _ENTRIES.format(name="_free", release=RELEASE, take=TAKE, **known)
    looking = "".join(_BEYOND.format(bits=bits, bytes=bits // 8, lanes=512 // bits, most=(1 << bits - 1) - 1) for bits in BEYOND)
    return (call_forms.TEXT + _HELPERS).format(**known) + _STREAM.format(multiplier=MULTIPLIER) + looking + holding + free


_BEYOND = """
declare i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1>)

define i1 @mdf_beyond_{bits}(ptr %floats, i64 %count, i{bits} %limit) nounwind {{
entry:
  %first_most = insertelement <{lanes} x i{bits}> poison, i{bits} {most}, i64 0
  %most = shufflevector <{lanes} x i{bits}> %first_most, <{lanes} x i{bits}> poison, <{lanes} x i32> zeroinitializer
  %first_limit = insertelement <{lanes} x i{bits}> poison, i{bits} %limit, i64 0
  %limits = shufflevector <{lanes} x i{bits}> %first_limit, <{lanes} x i{bits}> poison, <{lanes} x i32> zeroinitializer
  %whole = and i64 %count, -{lanes}
  %is_short = icmp eq i64 %whole, 0
  br i1 %is_short, label %rest, label %many
many:
  %k = phi i64 [0, %entry], [%following, %many]
  %seen = phi <{lanes} x i1> [zeroinitializer, %entry], [%found, %many]
  %at = getelementptr i{bits}, ptr %floats, i64 %k
  %bits = load <{lanes} x i{bits}>, ptr %at, align {bytes}
  %sizes = and <{lanes} x i{bits}> %bits, %most
  %are = icmp ugt <{lanes} x i{bits}> %sizes, %limits
  %found = or <{lanes} x i1> %seen, %are
  %following = add i64 %k, {lanes}
  %more = icmp ult i64 %following, %whole
  br i1 %more, label %many, label %looked
looked:
  %is = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> %found)
  br i1 %is, label %yes, label %rest
rest:
  %begin = phi i64 [0, %entry], [%whole, %looked]
  br label %next
next:
  %j = phi i64 [%begin, %rest], [%behind, %one]
  %is_left = icmp ult i64 %j, %count
  br i1 %is_left, label %one, label %no
one:
  %one_at = getelementptr i{bits}, ptr %floats, i64 %j
  %one_bits = load i{bits}, ptr %one_at
  %one_size = and i{bits} %one_bits, {most}
  %one_is = icmp ugt i{bits} %one_size, %limit
  %behind = add i64 %j, 1
  br i1 %one_is, label %yes, label %next
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


_STREAM = """
define i64 @mdf_word(ptr %pcg) nounwind {{
  %state = load i128, ptr %pcg, align 8
  %step_at = getelementptr i128, ptr %pcg, i64 1
  %step = load i128, ptr %step_at, align 8
  %turned = mul i128 %state, {multiplier}
  %next = add i128 %turned, %step
  store i128 %next, ptr %pcg, align 8
  %upper = lshr i128 %next, 64
  %high = trunc i128 %upper to i64
  %low = trunc i128 %next to i64
  %mixed = xor i64 %high, %low
  %by = lshr i64 %high, 58
  %word = call i64 @llvm.fshr.i64(i64 %mixed, i64 %mixed, i64 %by)
  ret i64 %word
}}

define double @mdf_fraction(ptr %pcg) nounwind {{
  %word = call i64 @mdf_word(ptr %pcg)
  %short = lshr i64 %word, 11
  %whole = uitofp i64 %short to double
  %fraction = fmul double %whole, 0x3CA0000000000000
  ret double %fraction
}}

declare i64 @llvm.fshr.i64(i64, i64, i64)
"""


def stream() -> list[str]:
    """Where random numbers come from, and a ``bitgen_t`` by which numpy's functions draw them: a state and functions."""
    return [
        f"  %pcg_at = getelementptr i64, ptr %table, i64 {STREAM}",
        "  %pcg = load ptr, ptr %pcg_at",
        "  %step_at = getelementptr i128, ptr %pcg, i64 1",
        "  %step = load i128, ptr %step_at, align 8",
        "  %stream = alloca [5 x ptr]",
        "  store [5 x ptr] zeroinitializer, ptr %stream",
        "  store ptr %pcg, ptr %stream",
        *(
            line
            for place, name in ((1, DRAWN[0]), (3, DRAWN[1]))
            for line in (f"  %{name}_at = getelementptr ptr, ptr %stream, i64 {place}", f"  store ptr @{name}, ptr %{name}_at")
        ),
    ]
