"""A Step made to run, as Python or as machine code, and what there is to tell of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from mdf_loop.backends.llvm.linking.lock import alone
from mdf_loop.backends.python import printer
from mdf_loop.errors import let_through
from mdf_loop.ir import entity
from mdf_loop.step.obstacles import obstacle
from mdf_loop.step.printed import printed
from mdf_loop.step.records import Region
from mdf_loop.system.starting import no_collecting

log = logging.getLogger("mdf_loop.execute.programs")
"""The documentation names it."""


@entity
class Specialised:
    """A program for one combination of types.

    Attributes
    ----------
    call : callable
        ``call(run, *values) -> results``.
    source : Region, or callable that makes it
        What it computes.
    text : str
        The Python it was printed as; empty if it is machine code.
    size : int
        Bytes of machine code; 0 if it is Python.
    seconds : float
        How long compiling took; 0 if it is Python.
    why : str
        Why it is Python although machine code was asked for.
    is_alone : bool
        Whether it is machine code that calls no kernel of numpy's.
    is_quick : bool
        Whether it is machine code that was made in a hurry.
    is_idle : bool
        Whether it is machine code that does nothing but call such kernels.
    is_found : bool
        Whether it is machine code that was found on disk.
    code : Program or None
        The machine code, which can also be run if it is for what is given.
    """

    call: Callable[..., Any]
    source: Region | Callable[[], Region]
    text: str = ""
    size: int = 0
    seconds: float = 0.0
    why: str = ""
    is_alone: bool = False
    is_quick: bool = False
    is_idle: bool = False
    is_found: bool = False
    code: Any = None

    @property
    def step(self) -> Region:
        """What it computes; of what was found on disk it is made now."""
        return self.source if isinstance(self.source, Region) else self.source()

    @property
    def form(self) -> str:
        """What it is, in words."""
        if self.size:
            hurry = " without slow optimizations" if self.is_quick else ""
            how = "found on disk, made" if self.is_found else f"made in {1000 * self.seconds:.0f} ms"
            return f"machine code ({self.size:,} bytes, {how}{hurry})"
        return f"Python, not machine code: {self.why}" if self.why else "Python"

    def lines(self, source: bool, steps: bool) -> Iterator[str]:
        """The Step, and the Python that was made of it, as far as they are wanted."""
        if steps:
            yield "as a Step:"
            yield from (f"  {line}" for line in printed(self.step).split("\n"))
        if source and self.text:
            yield "as Python:"
            yield from (f"  {line}" for line in self.text.split("\n"))


def in_python(step: Region, least: int, careful: bool, why: str = "", is_block: bool = False) -> Specialised:
    """A Step printed as Python; see :func:`mdf_loop.backends.python.printer.program`."""
    call, text = printer.program(step, least=least, careful=careful, is_block=is_block)
    log.info("printed a program of %d lines", text.count("\n"))
    return Specialised(call, step, text, why=why)


def in_machine_code(step: Region, is_block: bool = False, is_quick: bool = False) -> Specialised | str:
    """A Step compiled, in a hurry if it ``is_quick``, or why it cannot be."""
    with alone(), no_collecting():  # what is imported halfway when the process is copied can never be imported in the copy
        from mdf_loop.backends.llvm.compiled_program import program
        from mdf_loop.backends.llvm.lanes.element_types import CannotCompile, can_hold

    begun = time.perf_counter()
    try:
        call = program(step, is_block, is_quick)
    except CannotCompile as reason:
        why = obstacle(step, can_hold) or str(reason)
        log.debug("not compiled: %s", why)
        return why
    except Exception as error:  # a defect of ours; the work is done all the same
        let_through(error)
        log.debug("not compiled: %r", error, exc_info=True)
        return f"{type(error).__name__} {error}"
    seconds = time.perf_counter() - begun
    log.info("compiled a Step: %d bytes in %.0f ms", call.size, 1000 * seconds)
    work = sum(v.op not in ("const", "item") for v in step.values)
    is_alone, is_idle = not call.outside, 0 < work == len(call.outside)
    return Specialised(
        call, step, size=call.size, seconds=seconds, is_alone=is_alone, is_quick=is_quick, is_idle=is_idle, code=call
    )
