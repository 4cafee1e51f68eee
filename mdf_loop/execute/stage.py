"""What the blocks of one run share, and how many iterations each of them takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from mdf_loop.execute.block import Batch
from mdf_loop.execute.blocks import Blocks
from mdf_loop.execute.interpret import Session
from mdf_loop.execute.tiers.paying import WATCHED
from mdf_loop.options import Run
from mdf_loop.plan.schedule import Plan

FIRST = 64
"""Iterations of the first block of a loop that may end soon."""

AHEAD = 0.02
"""Seconds that a block may take, as far as one can tell from the one before, where the time of a run is limited."""

SHORT = 1 << 12
"""Iterations up to which it is not worth it to find out how long they will take."""

FEW_BYTES = 1 << 14
"""Bytes of a first block that may be computed in vain."""

LONG = 0.0005
"""Seconds of a block beside which starting one costs little."""

TELLING, TOLD = 1 << 15, 0.0005
"""Iterations, at most, of a block that tells how long others will take, and the least seconds of one if nothing has run before:
smaller ones come first, and in the first of all programs are written."""


@dataclass
class Stage:
    """What a session's blocks share: the plan, values that are the same in all of them, and how large blocks may be.

    ``pace`` is how many seconds an iteration took last, if that is known (``is_paced``); until then blocks have ``telling``
    iterations at most.  ``planned`` are the blocks to go back to where there is no machine code, ``is_waiting`` says that there
    will be some soon.
    """

    blocks: Blocks
    same: dict[str, Any]
    slices: list[Any]
    length: int = FIRST
    pace: float = AHEAD
    telling: int = TELLING
    failures: int = 0
    is_paced: bool = False
    is_new: bool = False
    is_compiled: bool = False
    is_waiting: bool = False
    may_compile: bool = True
    begun: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.planned = self.blocks

    def begins(self, pace: float, room: int, is_new: bool) -> None:
        """An interpreted iteration took ``pace`` seconds; where all ``is_new`` the first blocks of long loops are small."""
        self.pace, self.is_new = pace, is_new and room > SHORT
        if self.is_new:
            self.telling = min(max(int(AHEAD / pace), 1), FIRST)

    def at_most(self, length: int, run: Run) -> int:
        """So many iterations; fewer where the end of a block is waited for, or its time is not known."""
        if not run.is_free or self.is_compiled or self.is_waiting:
            most = WATCHED if run.watch is not None and run.deadline is None else AHEAD
            return max(min(length, int(most / max(self.pace, 1e-9))), 1)
        is_unknown = not self.is_paced and run.options.how.compiles_what_pays
        return min(length, self.telling) if is_unknown else length

    def run(self, session: Session, length: int, saved: Any) -> tuple[Batch, dict[str, Any], bool]:
        """Compute a block, and once more where what was stepped went beyond the end that was found afterwards."""
        plan = self.blocks.plan
        batch, finals, going = self.blocks.run(session, self.same, self.slices, length)
        is_late = plan.condition == "batched" and (plan.draws or not all(map(callable, finals.values())))
        if batch.length < length and (is_late or batch.overran):
            if saved is not None:
                session.run.stream.restore(saved)
            batch, finals, going = self.blocks.run(session, self.same, self.slices, batch.length)
        return batch, finals, going

    def took(self, length: int, seconds: float) -> None:
        """A block of so many iterations took so long."""
        self.pace = max(seconds / length, 1e-9)
        self.is_paced |= self.telling == TELLING or (not self.is_new and seconds >= TOLD)
        self.telling, self.is_new = min(8 * self.telling, TELLING), False


def first_length(session: Session, condition: str, bytes_each: int, longest: int = FIRST) -> int:
    """Iterations of the first block; few, if the loop may end soon and work would be in vain."""
    most = max(session.run.options.block_bytes // max(bytes_each, 1), 1)
    if condition == "given":
        return most
    few = max(FEW_BYTES // max(bytes_each, 1), 1)
    return min(longest, most, few if condition == "batched" else most)


def next_length(session: Session, plan: Plan, length: int, seconds: float) -> int:
    """Larger blocks; if the loop may end in any iteration, what is computed in vain stays a fraction of the work."""
    if plan.condition != "batched":
        return 4 * length
    return 2 * length if seconds < LONG else max(length, session.moment.iteration // 4)
