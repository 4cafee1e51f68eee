"""What objects a program is given: machine code sees itself whether they are again as they were before.

Looking at the type, the element type and the lengths of each array in Python takes longer than many a program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.step.records import Type

ANY = (1 << 64) - 1
"""In the place of a length that does not count."""


class Form:
    """The types of some objects, and of arrays the element types and lengths.

    Parameters
    ----------
    given : sequence
        Arrays, numbers of numpy's and floats of Python's.
    results : int
        How many results a program gives for them.
    types : sequence of Type
        What the program takes: of arrays any length along axes that are open.

    Attributes
    ----------
    address : int
        Where machine code reads it, as long as this object lives.
    """

    def __init__(self, given: Sequence[Any], results: int, types: Sequence[Type]) -> None:
        words = [len(given), results]
        for x, type_ in zip(given, types, strict=True):
            lengths = [n if isinstance(n, int) else ANY for n in type_.shape or ()]
            words += [id(type(x)), *([id(x.dtype), x.ndim, *lengths] if type(x) is np.ndarray else [0])]
        self._kept = [getattr(x, "dtype", None) for x in given]
        self._words = np.array(words, np.uint64)
        self.address = self._words.ctypes.data

    @staticmethod
    def fits(given: Sequence[Any]) -> bool:
        """Whether such objects have a form: nothing but their types says how a program reads them."""
        return all(type(x) is np.ndarray or type(x) is float or isinstance(x, np.generic) for x in given)


TEXT = """
define i1 @mdf_take(ptr %table, ptr %form, ptr %given, ptr %found) nounwind {{
entry:
  %first = getelementptr i64, ptr %table, i64 {FIRST_OBJECT}
  %items = getelementptr i8, ptr %given, i64 {object_layout.ITEMS}
  %rooms = getelementptr i8, ptr %found, i64 {object_layout.ITEMS}
  %count = load i64, ptr %form
  %results_at = getelementptr i64, ptr %form, i64 1
  %results = load i64, ptr %results_at
  %begin = getelementptr i64, ptr %form, i64 2
  %behind = getelementptr i64, ptr %first, i64 %count
  br label %object
object:
  %k = phi i64 [0, %entry], [%next, %good]
  %words = phi ptr [%begin, %entry], [%after, %good]
  %over = icmp eq i64 %k, %count
  br i1 %over, label %results_next, label %look
look:
  %item_at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %item_at
  %to = getelementptr i64, ptr %first, i64 %k
  store ptr %item, ptr %to
  %next = add i64 %k, 1
  %type_at = getelementptr i8, ptr %item, i64 {object_layout.TYPE}
  %type = load ptr, ptr %type_at
  %wanted = load ptr, ptr %words
  %same = icmp eq ptr %type, %wanted
  br i1 %same, label %kind, label %bad
kind:
  %dtype_at = getelementptr ptr, ptr %words, i64 1
  %dtype_wanted = load ptr, ptr %dtype_at
  %rank_at = getelementptr i64, ptr %words, i64 2
  %is_number = icmp eq ptr %dtype_wanted, null
  br i1 %is_number, label %good, label %array
array:
  %dtype_in = getelementptr i8, ptr %item, i64 {object_layout.DTYPE}
  %dtype = load ptr, ptr %dtype_in
  %rank_in = getelementptr i8, ptr %item, i64 {object_layout.RANK}
  %rank32 = load i32, ptr %rank_in
  %rank = sext i32 %rank32 to i64
  %rank_wanted = load i64, ptr %rank_at
  %lengths_in = getelementptr i8, ptr %item, i64 {object_layout.LENGTHS}
  %lengths = load ptr, ptr %lengths_in
  %same_dtype = icmp eq ptr %dtype, %dtype_wanted
  %same_rank = icmp eq i64 %rank, %rank_wanted
  %same_kind = and i1 %same_dtype, %same_rank
  br i1 %same_kind, label %axis, label %bad
axis:
  %a = phi i64 [0, %array], [%a_next, %length]
  %a_next = add i64 %a, 1
  %wanted_at = getelementptr i64, ptr %rank_at, i64 %a_next
  %all = icmp eq i64 %a, %rank
  br i1 %all, label %good, label %length
length:
  %length_at = getelementptr i64, ptr %lengths, i64 %a
  %n = load i64, ptr %length_at
  %n_wanted = load i64, ptr %wanted_at
  %same_length = icmp eq i64 %n, %n_wanted
  %any_length = icmp eq i64 %n_wanted, -1
  %fits = or i1 %same_length, %any_length
  br i1 %fits, label %axis, label %bad
good:
  %after = phi ptr [%rank_at, %kind], [%wanted_at, %axis]
  br label %object
results_next:
  %j = phi i64 [0, %object], [%j_next, %put]
  %done = icmp eq i64 %j, %results
  br i1 %done, label %end, label %put
put:
  %room_at = getelementptr ptr, ptr %rooms, i64 %j
  %room = load ptr, ptr %room_at
  %room_to = getelementptr i64, ptr %behind, i64 %j
  store ptr %room, ptr %room_to
  %j_next = add i64 %j, 1
  br label %results_next
bad:
  ret i1 true
end:
  ret i1 false
}}
"""
"""Puts what is given, and room for results, into a table; true if it is of another form."""
