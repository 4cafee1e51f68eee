"""A child process that runs cases, one after the other, within limits of memory; its parent sees how far it has come.

What it says are lines of JSON: a case that begins, one that failed, and the end.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
import traceback
from typing import Any

from mdf_loop.kernels.arrays import bounds

from .guarded import guarded, side_of
from .table import targets
from .target import Failure, Settings, Target, failure_of, random_of, shrunk

SHRINKING = 30
"""Seconds that may go into making a case smaller."""


def say(**what: Any) -> None:
    """A line for the parent."""
    print(json.dumps(what), file=sys.__stdout__, flush=True)


def work(name: str, seed: int, first: int, count: int, settings: Settings) -> None:
    """Run so many cases of a target."""
    target = targets([name])[name]
    limit = target.megabytes << 20
    bounds.SOME_BYTES = limit >> 2  # a length near 2**31 is refused on every engine, before a machine has to show its memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(Exception):  # imports and inputs that are made once take their time
        target.make(random_of(name, seed, first))
    for number in range(first, first + count):
        _allow(target.seconds)
        say(case=number)
        found = run_case(target, seed, number, settings)
        if found is not None:
            say(case=number, **found)
    say(done=True)


def _allow(seconds: int) -> None:
    """So much processor time from now on: what other processes take does not count."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds + 1, most))


def run_case(target: Target, seed: int, number: int, settings: Settings) -> dict[str, Any] | None:
    """What is wrong with one case, whose memory may be guarded, and a script that shows it when it has been made small."""
    with guarded(side_of(number)):
        return _run_case(target, seed, number, settings)


def _run_case(target: Target, seed: int, number: int, settings: Settings) -> dict[str, Any] | None:
    try:
        case = target.make(random_of(target.name, seed, number))
    except Exception:
        return {"kind": "a case cannot be made", "detail": traceback.format_exc(), "script": ""}
    failure = failure_of(target, case, settings)
    if failure is None or any(text in failure.kind for text in settings.ignored):
        return None
    _allow(target.seconds + SHRINKING)
    say(case=number, shrinking=True, **_told(target, case, failure))
    return _told(target, *shrunk(target, case, failure, settings, until=time.monotonic() + SHRINKING))


def _told(target: Target, case: Any, failure: Failure) -> dict[str, str]:
    return {"kind": failure.kind, "detail": _detail(failure), "script": target.script(case)}


def _detail(failure: Failure) -> str:
    cause = failure.__cause__
    return failure.detail + ("\n" + "".join(traceback.format_exception(cause)) if cause is not None else "")


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    told["settings"] = Settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in told["settings"].items()})
    work(**told)
