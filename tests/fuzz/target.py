"""What a target is: where its cases come from, what is required of them, and how they get smaller."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mdf_loop.settings.engines import agreeing_engines


class Failure(AssertionError):
    """Something required does not hold.

    Parameters
    ----------
    kind : str
        In a few words what is wrong, the same for all cases of one defect as far as that can be said.
    detail : str
        What was expected and what came.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        super().__init__(f"{kind}: {detail}" if detail else kind)


FAST = tuple(name for name in agreeing_engines() if name != "interpret")
"""The engines that are compared with the interpreter."""


@dataclass(frozen=True)
class Settings:
    """What the command line says to a check."""

    engines: tuple[str, ...] = FAST
    witness: bool = True
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """One kind of case.

    Attributes
    ----------
    name, summary : str
        What the command line calls it, and what it is.
    make : callable
        A case out of a random stream.
    check : callable
        ``check(case, settings)`` raises :class:`Failure`, or anything else, if something required does not hold.
    script : callable
        A script that stands alone and shows the case.
    smaller : callable
        Cases with a little less in them, the most promising ones first.
    in_tests : int
        How many cases run as a test of the project.
    seconds, megabytes : int
        What one case may take: it is stopped then, and that is a failure.
    """

    name: str
    summary: str
    make: Callable[[random.Random], Any]
    check: Callable[[Any, Settings], None]
    script: Callable[[Any], str]
    smaller: Callable[[Any], Iterator[Any]] = lambda case: iter(())
    in_tests: int = 40
    seconds: int = 60
    megabytes: int = 4096


def random_of(name: str, seed: int, number: int) -> random.Random:
    """The random stream that a case is made from: the same on every machine and version of Python."""
    return random.Random(f"{name}/{seed}/{number}")


def failure_of(target: Target, case: Any, settings: Settings) -> Failure | None:
    """What is wrong with a case; an exception that no one expected is wrong as well."""
    try:
        target.check(case, settings)
    except Failure as failure:
        return failure
    except Exception as error:
        failure = Failure(f"{type(error).__name__} escaped", str(error))
        failure.__cause__ = error
        return failure
    return None


def shrunk(
    target: Target, case: Any, failure: Failure, settings: Settings, tries: int = 600, until: float = math.inf
) -> tuple[Any, Failure]:
    """A smaller case that fails in the same way, and how it does."""
    found = True
    while found:
        found = False
        for candidate in target.smaller(case):
            tries -= 1
            if tries < 0 or time.monotonic() > until:
                return case, failure
            other = failure_of(target, candidate, settings)
            if other is not None and other.kind == failure.kind:
                case, failure, found = candidate, other, True
                break
    return case, failure
