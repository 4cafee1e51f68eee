"""What stands around the code of a program: how it is entered, Python's lock, memory, where numbers come from."""

from __future__ import annotations

from mdf_loop.backends.llvm.randomness import next_of_pcg

STREAM = 4
"""The place in a table where it says from where random numbers are drawn."""

_HELPERS = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare ptr @PyMem_RawRealloc(ptr, i64)
declare void @PyMem_RawFree(ptr)

define private i1 @grow(ptr %memory, i64 %size) noinline {
  %room = getelementptr { ptr, i64 }, ptr %memory, i64 0, i32 1
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
}
"""


_HOLDING = """
define private i1 @look_around(ptr %none) noinline {
  %thread = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %thread)
  %signal = call i32 @PyErr_CheckSignals()
  %found = icmp ne i32 %signal, 0
  ret i1 %found
}
"""
"""For programs that hold Python's lock, and let go of it for a moment now and then."""

_FREE = """
define private i1 @look_around(ptr %thread) noinline {
  call void @PyEval_RestoreThread(ptr %thread)
  %signal = call i32 @PyErr_CheckSignals()
  %same = call ptr @PyEval_SaveThread()
  %found = icmp ne i32 %signal, 0
  ret i1 %found
}
"""
"""For programs that run without Python's lock, and take it for a moment now and then."""

_ENTRIES = """
define i64 @run(ptr %table) nounwind {{
  %thread = {release}
  %code = call i64 @once(ptr %table, ptr %thread)
  {take}
  ret i64 %code
}}

define i64 @run_many(ptr %tables, i64 %bytes, i64 %count) nounwind {{
entry:
  %thread = {release}
  br label %one
one:
  %k = phi i64 [0, %entry], [%following, %one]
  %place = mul i64 %k, %bytes
  %table = getelementptr i8, ptr %tables, i64 %place
  %code = call i64 @once(ptr %table, ptr %thread)
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
"""A run, and many one after the other, each with a table of its own."""

RELEASE, TAKE = "call ptr @PyEval_SaveThread()", "call void @PyEval_RestoreThread(ptr %thread)"


def around(is_free: bool) -> list[str]:
    """The functions around a program, which runs without Python's lock if it ``is_free``."""
    release, take = (RELEASE, TAKE) if is_free else ("inttoptr i64 0 to ptr", "")
    return [_HELPERS, _FREE if is_free else _HOLDING, _ENTRIES.format(release=release, take=take)]


def stream() -> list[str]:
    """Where random numbers come from, and whether it is a stream of PCG64: that one a program steps itself."""
    return [
        f"  %stream_at = getelementptr i64, ptr %table, i64 {STREAM}",
        "  %stream = load ptr, ptr %stream_at",
        "  %state = load ptr, ptr %stream",
        "  %next_at = getelementptr i64, ptr %stream, i64 1",
        "  %next = load i64, ptr %next_at",
        f"  %is_pcg = icmp eq i64 %next, {next_of_pcg()}",
        "  %words = load ptr, ptr %state",
        "  %pcg = select i1 %is_pcg, ptr %words, ptr %stream",  # of another stream nothing is used, but it is read
    ]
