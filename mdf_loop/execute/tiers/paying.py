"""When machine code pays: engine ``auto`` compiles what has taken, or will take, longer than compiling it."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mdf_loop.execute.interpret import Arguments
from mdf_loop.ir import Body, Node
from mdf_loop.ops.registry import facts
from mdf_loop.options import Options, Run
from mdf_loop.settings.engines import can_compile
from mdf_loop.system.starting import no_collecting

FIRST, EACH, NODE, PRODUCT = 0.055, 0.008, 0.0001, 0.003
"""Seconds that compiling in a hurry takes, about: more for the first time in a process, for every body, for each of its nodes,
and for each product of matrices."""

WRITING, OF_NODE = 0.0016, 0.00005
"""Seconds that writing a program takes, about, and for each node: lowering, printing, and Python's own compiler."""

AGAIN = 10
"""How many more calls are expected of a graph that is called once more."""

INTERPRETED = 1e-6
"""Seconds that the interpreter spends on a node at the least."""

WATCHED = 0.05
"""Seconds that a block may take, as far as one can tell from the one before, where the progress is shown, ten
times a second at the most."""

MARGIN, APART = 1.15, 4
"""How much longer than compiling work has to be that is not done yet, also where the graph around a loop is compiled with it."""

PATIENCE, LONGEST = 1.5, 4
"""How much longer than it should take machine code is waited for where what is left of a run is known to be worth it: two threads
of Python are in each other's way, so that doing both takes longer than either.  That is time of the processor; on the wall it may
be so many times that."""


SHORT = 1e-4
"""Seconds below which the time on the wall is the processor's: asking for that one costs half a microsecond."""

T = TypeVar("T")


class _SecondsOfWriting(threading.local):
    """Seconds that this thread has spent on writing programs, which no later call will."""

    seconds = 0.0


_writing = _SecondsOfWriting()


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Programs are written inside a ``with`` block."""
    begun = time.thread_time()
    try:
        with no_collecting():
            yield
    finally:
        _writing.seconds += time.thread_time() - begun


def work_time() -> float:
    """The processor's time of this thread, without what it has spent on writing programs."""
    return time.thread_time() - _writing.seconds


@dataclass
class Account:
    """What one body has cost so far.

    Attributes
    ----------
    nodes : int
        How many nodes there are to compile, those of bodies inside as well.
    body : Body or None
        The body.
    seconds, latest : float
        What its runs took, and the last one of them.
    is_part : bool
        Whether it is run by a graph that becomes one program with it when that pays: what past runs took counts there, and here
        the one under way alone.
    is_waiting : bool
        Whether that program is being made: past runs count for nothing then.
    was_on_disk : bool or None
        Whether machine code was on disk when it was looked for.
    is_over : bool
        Whether they took longer than compiling: it pays from now on, without a look at the clock.
    pace, bytes : float, int
        How many seconds an iteration of a block took last, and how large what it works on was.
    clock : callable
        The processor's time of this thread, so that work does not cost more where others work as well; where the last run was
        over in no time, that on the wall.
    """

    nodes: int
    body: Body | None = None
    seconds: float = 0.0
    latest: float = 0.0
    is_part: bool = False
    is_waiting: bool = False
    was_on_disk: bool | None = None
    is_over: bool = False
    pace: float = math.inf
    bytes: int = 0
    clock: Callable[[], float] = field(default_factory=lambda: time.thread_time)

    def timed(self, options: Options, call: Callable[..., T], *given: Any) -> T:
        """What a call gives; what it takes is kept where it will be asked for, without what it spent on writing programs."""
        if self.is_over or not options.how.compiles_what_pays:
            return call(*given)
        clock, written = self.clock, _writing.seconds
        begun = clock()
        try:
            return call(*given)
        finally:
            seconds = max(clock() - begun - (_writing.seconds - written), 0.0)
            if clock is time.perf_counter:
                seconds = min(seconds, SHORT)  # others had the processor, or it is seen in the next run
            self.latest, self.seconds = seconds, self.seconds + seconds
            self.clock = time.perf_counter if seconds < SHORT else time.thread_time

    def paced(self, seconds: float, given: Arguments) -> None:
        """Keep how long an iteration of a block took."""
        self.pace, self.bytes = seconds, _bytes(given)

    def expected(self, run: Run, given: Arguments) -> float:
        """Seconds that an iteration takes, as one took that worked on as much; infinity if unknown, or if time is short."""
        return self.pace if run.deadline is None and self.bytes == _bytes(given) else math.inf

    def is_unseen(self, run: Run, given: Arguments) -> bool:
        """Whether the progress is not shown, or the loop is over before there is a report.

        Where it takes longer after all, a program ends by its own clock, and the loop is run again in blocks.
        """
        if run.is_free or given.trip_count is None:
            return run.is_free
        return given.trip_count * self.expected(run, given) < WATCHED

    def pays(self, options: Options, ahead: float = 0.0) -> bool:
        """Whether it is to be machine code; ``ahead`` are seconds that the run under way will take otherwise."""
        if options.how.compiles or not options.how.compiles_what_pays:
            return options.how.compiles
        if self.is_over:
            return True
        spent = self._spent
        if spent + ahead < EACH:
            return False
        self.is_over = spent > self.cost and can_compile()
        return self.is_over or (spent + ahead > (APART if self.is_part else MARGIN) * self.cost and can_compile())

    def looks_on_disk(self, options: Options) -> bool:
        """Whether machine code is looked for on disk before it pays to make it: loading it costs little where LLVM is there."""
        return options.how.compiles_what_pays and not self.is_part and "llvmlite" in sys.modules and can_compile()

    def pays_writing(self, options: Options, ahead: float = 0.0) -> bool:
        """Whether programs are to be written: interpreting has taken, or with ``ahead`` will have taken, longer than that."""
        return self.is_worth_writing(options, (0.0 if self.is_waiting else self.seconds) + ahead)

    def is_worth_writing(self, options: Options, seconds: float) -> bool:
        """The same where it is known for how many seconds there was no program, or would be none."""
        return not options.how.interprets_first_calls or seconds > WRITING + OF_NODE * self.nodes

    @functools.cached_property
    def products(self) -> int:
        """How many of the nodes are products of matrices."""
        return 0 if self.body is None else sum(facts(node).multiplies_matrices for node in _all_nodes(self.body))

    @property
    def _spent(self) -> float:
        """Seconds of runs that are over, as far as they count here."""
        return 0.0 if self.is_part else self.seconds

    def patience(self, left: float) -> float:
        """Seconds that machine code is waited for where the rest of the run would take so many otherwise."""
        return PATIENCE * self.cost if left > MARGIN * self.cost else 0.0

    @property
    def cost(self) -> float:
        """Seconds that compiling takes, about."""
        return EACH + NODE * self.nodes + PRODUCT * self.products + (FIRST if "llvmlite" not in sys.modules else 0.0)


def account_of(body: Body) -> Account:
    """The account of a body that has not run yet."""
    return Account(len(_all_nodes(body)), body)


def _all_nodes(body: Body) -> list[Node]:
    """The nodes of a body, with those of the bodies inside it."""
    found = [*body.nodes]
    for node in body.nodes:
        for _, inner in node.bodies if node.attrs else ():
            found += _all_nodes(inner)
    return found


def _bytes(given: Arguments) -> int:
    """How large the values are that a loop is given; numbers of Python count for nothing."""
    return sum(getattr(value, "nbytes", 0) for values in (given.carried, given.captured) for value in values)


def lasting(seconds: float) -> Callable[[], bool]:
    """Says whether so many seconds of the processor are not over: on the wall compiling takes longer where others work."""
    spent, wall = time.process_time() + seconds, time.perf_counter() + LONGEST * seconds
    return lambda: time.process_time() < spent and time.perf_counter() < wall
