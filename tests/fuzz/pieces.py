"""Sweeps by workers that come and go: pieces end early, are lost and run again, come in any order, and change no bit."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.models.model import Wish
from mdf_loop.sweeps.grid import grid_of
from mdf_loop.sweeps.pieces import Pieces, Uncut
from mdf_loop.sweeps.rows.reducing import reduce_of
from mdf_loop.sweeps.task import Task

from .target import FAST, Failure, Settings, Target

MODEL = Path(__file__).parent.parent.parent / "examples" / "drift_diffusion.yaml"
REDUCED = (None, "mean", "std", "var", "min", "max", "sum", "count", "median", (0.1, 0.9), {"path": "mean", "evidence": (0.5,)})


@dataclass
class Coming:
    """A sweep, and the seed of what becomes of its pieces."""

    drifts: tuple[float, ...]
    trials: int
    reduce: Any
    workers: int
    engine: str
    chance: int
    length: int | None


def make(choose: random.Random) -> Coming:
    """A few points, and as many workers."""
    drifts = tuple(choose.choice([0.5, 2.0, 5.0, float("nan")]) for _ in range(choose.randint(1, 3)))
    length = choose.choice([None, None, choose.randint(1, 40)])
    how = choose.randint(1, 40), choose.choice(REDUCED), choose.randint(1, 5), choose.choice(["interpret", *FAST])
    return Coming(drifts, *how, choose.randrange(1 << 32), length)


@functools.cache
def _model() -> Any:
    return mdf_loop.prepare(MODEL)


def _task(case: Coming) -> Task:
    model, wish = _model(), Wish(outputs=frozenset({"path", "evidence"}))
    reduce = reduce_of(case.reduce, model.outputs)
    return Task(model, {"max_steps": 300}, grid_of({"drift": list(case.drifts)}), case.trials, 1, wish, reduce=reduce)


def check(case: Coming, settings: Settings) -> None:
    """Run it whole, and as workers that come and go run it."""
    with mdf_loop.options(engine=case.engine), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = _task(case)
        whole, came = task.table(), task.table()
        for (start, stop), chunk in task.run(0, task.size).chunks:
            whole.add(start, chunk, stop - start)
        _come_and_go(task, came, case)
        for name, rows in whole.finish()[0].items():
            found = came.finish()[0].get(name)
            if found is None or found.dtype != rows.dtype or not np.array_equal(found, rows, equal_nan=found.dtype.kind == "f"):
                raise Failure("pieces change the numbers", f"{name}: {rows!r}\n{found!r}")
    if came.complete != task.size:
        raise Failure("runs are counted wrongly", f"{came.complete} of {task.size}")


def _come_and_go(task: Task, table: Any, case: Coming) -> None:
    choose, under_way = random.Random(case.chance), list[Any]()
    pieces = Pieces(Uncut(task.size, task.fitted), case.length)
    while True:
        workers = choose.randint(1, case.workers)
        while len(under_way) < workers and (asked := pieces.take(workers)) is not None:
            under_way.append(asked)
        if not under_way:
            return
        asked = under_way.pop(choose.randrange(len(under_way)))
        if not choose.randrange(4):  # its worker dies, and another one has it
            task.run(*asked[:2])
        stop = asked[1] if case.length else choose.randint(asked[0] + 1, asked[1])
        ran = task.run(asked[0], stop)
        pieces.took(asked, replace(ran, seconds=choose.choice([1e-4, 0.1, 3.0])))
        for (first, behind), chunk in ran.chunks:
            table.add(first, chunk, behind - first)


def smaller(case: Coming) -> Iterator[Coming]:
    """Fewer points, trials and workers."""
    for k in range(len(case.drifts) if len(case.drifts) > 1 else 0):
        yield replace(case, drifts=case.drifts[:k] + case.drifts[k + 1 :])
    for trials in {1, 8, 9, case.trials // 2, case.trials - 1}:
        if 0 < trials < case.trials:
            yield replace(case, trials=trials)
    if case.workers > 1:
        yield replace(case, workers=1)


def script(case: Coming) -> str:
    """A script that shows the case, from the project's root."""
    return f"from tests.fuzz import pieces, target\n\npieces.check(pieces.{case!r}, target.Settings())\n"


TARGET = Target("pieces", "sweeps in pieces, by workers that come and go", make, check, script, smaller, in_tests=8)
