"""Batches of cases in child processes: one that crashes, hangs or eats memory is stopped, named, and left behind."""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .target import Settings, Target, random_of

ROOT = Path(__file__).parent.parent.parent
BATCH = 200
ASLEEP = 600
"""Seconds after which a child that says nothing is given up; one that works has run out of processor time before."""


@dataclass
class Found:
    """A failing case."""

    target: str
    seed: int
    case: int
    kind: str
    detail: str
    script: str = ""

    @property
    def command(self) -> str:
        """What runs exactly this case again."""
        return f"python -m tests.fuzz --only {self.target} --case {self.case} --seed {self.seed}"


class Child:
    """A batch of cases of one target."""

    def __init__(self, target: Target, seed: int, first: int, count: int, settings: Settings) -> None:
        self.target, self.seed, self.case, self.end = target, seed, first, first + count
        told = {"name": target.name, "seed": seed, "first": first, "count": count}
        told["settings"] = dataclasses.asdict(settings)
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        # the debug allocator ends a process whose machine code wrote behind its memory
        known = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONMALLOC": "debug"}
        environment = {**known, **os.environ, "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.fuzz.worker", json.dumps(told)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment,
        )
        self.buffer, self.done, self.ended = b"", False, False
        self.shrinking: Found | None = None
        self.until = time.monotonic() + ASLEEP

    def read(self) -> Iterator[Found]:
        """What the child has said since."""
        data = os.read(self.process.stdout.fileno(), 1 << 20)  # type: ignore[union-attr]
        if not data:
            yield from self._end()
            return
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            said: dict[str, Any] = json.loads(line)
            self.until = time.monotonic() + ASLEEP
            if "kind" in said:
                found = Found(self.target.name, self.seed, said["case"], said["kind"], said["detail"], said["script"])
                self.shrinking = found if "shrinking" in said else None
                if not self.shrinking:
                    yield found
            elif "done" in said:
                self.done = True
            else:
                self.case = said["case"]

    def _end(self) -> Iterator[Found]:
        self.ended = True
        errors = self.process.stderr.read().decode(errors="replace")  # type: ignore[union-attr]
        status = self.process.wait()
        if not self.done:
            kind = f"the process died (signal {-status})" if status < 0 else f"the process ended with status {status}"
            kind = self._too_long() if status == -signal.SIGXCPU else kind
            yield self._lost(kind, errors[-2000:])

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def overdue(self) -> Found | None:
        """A failure, if nothing has been heard for long."""
        return None if time.monotonic() < self.until else self._lost(f"nothing happened for {ASLEEP} seconds", "")

    def _too_long(self) -> str:
        return f"took more than {self.target.seconds} seconds of processor time"

    def _lost(self, kind: str, detail: str) -> Found:
        if self.shrinking:  # it was not the case, but what was made of it
            return self.shrinking
        script = self.target.script(self.target.make(random_of(self.target.name, self.seed, self.case)))
        return Found(self.target.name, self.seed, self.case, kind, detail, script)


def run_batch(
    target: Target, seed: int, first: int, count: int, settings: Settings, report: Callable[[Found], None], until: float
) -> int:
    """Run cases until there are no more or the time is over; says how many it were."""
    begun = first
    while first < begun + count and time.monotonic() < until:
        child = Child(target, seed, first, begun + count - first, settings)
        try:
            _follow(child, report, until)
        finally:
            child.stop()
        if child.done:
            return count
        first = child.case + 1
    return first - begun


def _follow(child: Child, report: Callable[[Found], None], until: float) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(child.process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
        while not child.ended and time.monotonic() < until:
            if selector.select(1.0):
                for found in child.read():
                    report(found)
            elif late := child.overdue():
                report(late)
                return
