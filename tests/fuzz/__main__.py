"""The command: ``python -m tests.fuzz``."""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter

from .guarded import guarded, side_of
from .running import BATCH, Found, run_batch
from .table import targets
from .target import Settings, failure_of, random_of

DESCRIPTION = """\
Make random models, run them every way there is, and compare: with the interpreter, with MDF's own engine, with onnxruntime.
Malformed files and hostile expressions are tried as well. Two cases of three run in guarded memory: machine code that leaves its
memory by a byte behind, or before it, dies. Nothing is written outside temporary folders.

Each case is named by a target, a seed and a number. What fails is made as small as possible and printed with a script
that stands alone and the command that runs exactly this case again."""

EPILOG = """\
examples:
  python -m tests.fuzz --seconds 60                        every target in turn, for a minute
  python -m tests.fuzz --seconds 3600 --jobs 2             for an hour, in two processes, with a seed of the clock
  python -m tests.fuzz --only bodies --seconds 600 --seed 4
  python -m tests.fuzz --only bodies --case 17 --seed 4    one case again; --here runs it without a child process

exit status: 0 if nothing failed, 1 if something did."""


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    table = targets()
    epilog = "targets:\n" + "\n".join(f"  {t.name:12}{t.summary}" for t in table.values()) + "\n\n" + EPILOG
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=DESCRIPTION, epilog=epilog, formatter_class=form)
    parser.add_argument("--seconds", type=float, default=60, help="how long, in all (60)")
    parser.add_argument("--seed", type=int, help="of the cases; one of the clock if not said, which is printed")
    parser.add_argument("--only", action="append", metavar="NAME", help="this target alone; may be said several times")
    parser.add_argument("--case", type=int, metavar="K", help="case K alone, of the one target that --only names")
    parser.add_argument("--engine", action="append", help="compare this engine alone; may be said several times (numpy, auto)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many processes at a time (1)")
    parser.add_argument("--ignore", action="append", default=[], metavar="TEXT", help="pass over failures that say this")
    parser.add_argument("--here", action="store_true", help="run --case in this process, for a debugger")
    parser.add_argument("--no-witness", action="store_true", help="do not ask onnxruntime")
    chosen = parser.parse_args(given)
    if chosen.case is not None and len(chosen.only or []) != 1:
        parser.error("--case needs --only NAME")
    chosen.table = targets(chosen.only)
    chosen.seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
    return chosen


class Report:
    """What was found, printed once for each kind."""

    def __init__(self) -> None:
        self.kinds: Counter[tuple[str, str]] = Counter()
        self.cases: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, found: Found) -> None:
        with self._lock:
            self.kinds[found.target, found.kind] += 1
            print(f"\n=== {found.target}: {found.kind}\n    again: {found.command}", flush=True)
            if self.kinds[found.target, found.kind] <= 3:
                print(found.detail[:3000], found.script, sep="\n", flush=True)

    def count(self, name: str, cases: int) -> None:
        """So many cases more have run."""
        with self._lock:
            self.cases[name] += cases

    def end(self) -> int:
        """The summary; what the process returns."""
        print("\ncases:", ", ".join(f"{name} {count}" for name, count in sorted(self.cases.items())))
        for (name, kind), count in sorted(self.kinds.items()):
            print(f"{count:6} x {name}: {kind}")
        print("nothing failed" if not self.kinds else f"{sum(self.kinds.values())} cases failed")
        return int(bool(self.kinds))


def main(given: list[str] | None = None) -> int:
    """Run the command."""
    chosen = arguments(given)
    settings = Settings(tuple(chosen.engine or Settings.engines), not chosen.no_witness, tuple(chosen.ignore))
    report, until = Report(), time.monotonic() + chosen.seconds
    if chosen.case is not None:
        [target] = chosen.table.values()
        if chosen.here:
            with guarded(side_of(chosen.case)):
                case = target.make(random_of(target.name, chosen.seed, chosen.case))
                failure = failure_of(target, case, settings)
            if failure is not None:
                raise failure
            return 0
        report.count(target.name, run_batch(target, chosen.seed, chosen.case, 1, settings, report, float("inf")))
        return report.end()
    print(f"seed {chosen.seed}, {chosen.seconds:g} seconds, {', '.join(chosen.table)}", flush=True)
    lanes = [threading.Thread(target=_lane, args=(k, chosen, settings, report, until)) for k in range(chosen.jobs)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    return report.end()


def _lane(lane: int, chosen: argparse.Namespace, settings: Settings, report: Report, until: float) -> None:
    """Batches of every target in turn; each lane takes its own."""
    batch = lane
    while time.monotonic() < until:
        for target in chosen.table.values():
            done = run_batch(target, chosen.seed, batch * BATCH, BATCH, settings, report, until)
            report.count(target.name, done)
        batch += chosen.jobs


if __name__ == "__main__":
    sys.exit(main())
