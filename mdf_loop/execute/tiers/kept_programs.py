"""Machine code that an earlier process kept on disk, found by what it is for: nothing is lowered, or written for LLVM, for that.

The key of a program covers everything it depends on: the records of its graph or loop, whole; the types of what it is given; and
the surroundings, which are this package as its files are, Python, LLVM, the processor, and the packages that lowering asks.  What
cannot be written down like that, such as a kernel of the user's, has no key.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.linking.lock import alone
from mdf_loop.backends.llvm.linking.object_code import disk
from mdf_loop.execute.specialised import Specialised
from mdf_loop.ir import Body, Loop
from mdf_loop.ops.registry import SAID_BY_OTHERS
from mdf_loop.step.records import Region, Type
from mdf_loop.system.checksums import checksum, checksum_of_object

MOST_BYTES = 1 << 22
"""Bytes of constants up to which a graph or loop has a key: working it out reads all of them."""

PLAIN = bool, int, float, complex, str, bytes, type(None)
"""Types of attributes that are written down as they are, beside arrays and element types."""

log = logging.getLogger(__name__)


class KeptPrograms:
    """The programs on disk of one graph or loop.

    Parameters
    ----------
    record : Body or Loop
    details : object
        What else its Steps depend on, which ``repr`` says.
    """

    def __init__(self, record: Body | Loop, *details: object) -> None:
        self._record, self._details = record, repr((type(record).__name__, details))

    def key(self, types: Sequence[Type], *details: object) -> str:
        """The name of the program for values of these types, where details are so; empty if there is none."""
        if disk() is None or not self._content or _has_others(self._record):
            return ""
        given = [(str(x.dtype), x.dtype.str, x.shape, x.weak, x.is_array) for x in types if x.dtype is not None and x.is_static]
        if len(given) < len(types):
            return ""
        return checksum(_surroundings(), self._details, self._content, repr(given), repr(details))

    @functools.cached_property
    def _content(self) -> str:
        """A hash of the record; empty if it holds what cannot be written down."""
        return checksum_of_object(self._record) if _is_plain(self._record) else ""


@functools.cache
def _surroundings() -> str:
    """What all programs depend on; asked once, as LLVM may be busy in another thread."""
    with alone():
        from mdf_loop.backends.llvm.linking.machine import machine

        return machine().surroundings


def found_on_disk(key: str, step: Callable[[], Region]) -> Specialised | None:
    """The program of a key; ``step`` makes its Step, when that is asked for."""
    folder = disk()
    content = folder.read(key) if folder is not None and key else None
    if content is None:
        return None
    with alone():
        from mdf_loop.backends.llvm.compiled_program import unpacked

    is_quick, seconds, rest = content.split(b" ", 2)
    call = unpacked(rest)
    if call is None:
        return None
    log.info("found a program on disk: %d bytes", call.size)
    return Specialised(
        call, step, size=call.size, seconds=float(seconds), is_alone=True, is_quick=is_quick == b"1", is_found=True, code=call
    )


def keep(key: str, made: Specialised) -> None:
    """Write a program, if it can be kept."""
    folder = disk()
    if folder is None or not key or not made.is_alone:
        return
    with alone():
        from mdf_loop.backends.llvm.compiled_program import packed

    if (content := packed(made.code)) is not None:
        folder.write(key, f"{made.is_quick:d} {made.seconds:.6f} ".encode() + content)


def _has_others(record: Body | Loop) -> bool:
    """Whether an operator in it is one of which others than this package have said something."""
    if not SAID_BY_OTHERS:
        return False
    nodes = (record.body if isinstance(record, Loop) else record).nodes
    operators = (("" if node.domain == "ai.onnx" else node.domain, node.op) for node in nodes)
    return not SAID_BY_OTHERS.isdisjoint(operators) or any(_has_others(inner) for node in nodes for _, inner in node.bodies)


def _is_plain(record: Body | Loop) -> bool:
    """Whether a graph or loop holds nothing but numbers, texts and arrays, and not too many."""
    values = [*_values_in(record.body if isinstance(record, Loop) else record)]
    size = sum(value.nbytes for value in values if isinstance(value, np.ndarray))
    return size <= MOST_BYTES and all(type(value) in PLAIN or isinstance(value, np.dtype) or _is_array(value) for value in values)


def _is_array(value: Any) -> bool:
    return (type(value) is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject


def _values_in(body: Body) -> Iterator[Any]:
    """The constants and attributes of a body, and of the bodies inside it."""
    yield from _leaves([*body.constants.values(), *body.defaults.values(), *(state.initial for state in body.state)])
    for node in body.nodes:
        yield from _leaves([*node.attrs.values()])


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if type(value) in (tuple, list):
            yield from _leaves(value)
        elif type(value) is dict:
            yield from _leaves([*value.keys(), *value.values()])
        elif type(value) in (Body, Loop):
            yield from _values_in(value.body if type(value) is Loop else value)
        else:
            yield value
