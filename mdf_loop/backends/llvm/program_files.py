"""Programs as files: another process runs one without reading, lowering or writing what it computes.

A file is a line of JSON, which is the outline of a program, and behind it the bytes of its constants.  Its object code is a file
of its own, as it is for all that compile the same text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.compiled_program import MachineProgram
from mdf_loop.backends.llvm.lanes.element_types import DTYPES
from mdf_loop.backends.llvm.linking.machine import machine
from mdf_loop.backends.llvm.program_layout import Layout, Outline, Result
from mdf_loop.step.records import Size, Type

MOST_CONSTANTS = 1 << 20
"""Bytes of constants up to which a program is kept: reading them again takes time as well."""


def packed(program: MachineProgram) -> bytes | None:
    """A program as a file; None if it cannot be one: it calls objects of Python's, or has large constants."""
    outline = program.outline
    if outline.outside or not program.text or sum(constant.nbytes for constant in outline.constants) > MOST_CONSTANTS:
        return None
    said = {
        "code": machine().key_of_text(program.text, outline.level),
        "size": program.size,
        "functions": [*outline.functions],
        "level": outline.level,
        "table": [outline.table.objects, outline.table.numbers, outline.table.scratch],
        "params": [*map(_said, outline.params)],
        "results": [[*_said(result.type), result.place] for result in outline.results],
        "lists": [*outline.lists],
        "constants": [[DTYPES.index(x.dtype), x.shape] for x in outline.constants],
        "draws": outline.draws,
        "is_free": outline.is_free,
    }
    return json.dumps(said).encode() + b"\n" + b"".join(x.tobytes() for x in outline.constants)


def unpacked(content: bytes) -> MachineProgram | None:
    """The program of a file; None if its object code is not there any more."""
    line, _, rest = content.partition(b"\n")
    said = json.loads(line)
    outline = Outline(
        said["functions"],
        said["level"],
        Layout(*said["table"]),
        [*map(_type, said["params"])],
        [Result(_type(each), each[-1]) for each in said["results"]],
        said["lists"],
        _arrays(said["constants"], rest),
        (),
        said["draws"],
        said["is_free"],
    )
    linked = machine().linked_again(said["code"], ("once",), outline.functions, outline.level)
    return None if linked is None else MachineProgram(outline, linked, said["size"])


def _said(type: Type) -> list[Any]:
    assert type.dtype is not None
    return [DTYPES.index(type.dtype), [n if isinstance(n, int) else None for n in type.shape or ()], type.weak, type.is_array]


def _type(said: Sequence[Any]) -> Type:
    kind, shape, weak, is_array, *_ = said
    return Type(DTYPES[kind], tuple(Size() if n is None else n for n in shape), weak, is_array)


def _arrays(said: Sequence[Any], content: bytes) -> list[np.ndarray]:
    """Constants, each in memory of its own, as those are of a program that was compiled here."""
    found, begin = [], 0
    for kind, shape in said:
        count = math.prod(shape)
        found.append(np.frombuffer(content, DTYPES[kind], count, begin).reshape(shape).copy())
        begin += count * DTYPES[kind].itemsize
    return found
