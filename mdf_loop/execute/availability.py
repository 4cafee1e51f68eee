"""What is known of the machine code of a block before it runs: whether it is there, is being made, or is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from mdf_loop.errors import let_through
from mdf_loop.execute.blocks import Blocks
from mdf_loop.execute.interpret import Session
from mdf_loop.execute.stage import Stage

log = logging.getLogger(__name__)

T = TypeVar("T")


def is_being_compiled(blocks: Blocks, session: Session, stage: Stage, patience: float = 0.0) -> bool:
    """Whether another thread is at it; False as well where only running tells what is to be compiled."""
    return _asked(session, lambda: blocks.is_being_compiled(session, stage.same, stage.slices, patience), False)


def refusal(blocks: Blocks, session: Session, stage: Stage) -> str:
    """Why there is none, and all would be stepped through in Python; empty if there is some, or only running tells."""
    return _asked(session, lambda: blocks.refusal(session, stage.same, stage.slices), "")


def _asked(session: Session, ask: Callable[[], T], unknown: T) -> T:
    try:
        with session.run.computing_ahead():
            return ask()
    except Exception as error:
        let_through(error)
        log.debug("%s: nothing is compiled ahead (%r)", session.progress.name, error)
        return unknown
