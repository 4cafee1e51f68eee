"""What the blocks of one run share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from mdf_loop.execute.blocks import Blocks

FIRST = 64
"""Iterations of the first block of a loop that may end soon."""

AHEAD = 0.02
"""Seconds that a block may take, as far as one can tell from the one before, where the time of a run is limited."""


@dataclass
class Stage:
    """What a session's blocks share: the plan, values that are the same in all of them, and how large blocks may be.

    ``pace`` is how many seconds an iteration took last, if there was one (``is_paced``).  ``planned`` are the blocks to go back
    to where there is no machine code, ``is_waiting`` says that there will be some soon.
    """

    blocks: Blocks
    same: dict[str, Any]
    slices: list[Any]
    length: int = FIRST
    pace: float = AHEAD
    failures: int = 0
    is_paced: bool = False
    is_compiled: bool = False
    is_waiting: bool = False
    may_compile: bool = True
    begun: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.planned = self.blocks
