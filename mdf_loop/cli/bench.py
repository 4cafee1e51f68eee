"""``mdf-loop bench``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from mdf_loop.cli.console import as_json, bars, console, spelt, table
from mdf_loop.cli.parameters import (
    Debug,
    File,
    Input,
    Json,
    ObeyBodyCondition,
    Set,
    Steps,
    TimeIncrement,
    Trusted,
    given_inputs,
    stepping,
)
from mdf_loop.cli.problems import at_work
from mdf_loop.errors import LoopError


def bench(
    file: File,
    set_: Set = None,
    input_: Input = None,
    steps: Steps = None,
    time_increment: TimeIncrement = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="How long to run in each engine.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the inputs that are not given, and of random operators.")] = 0,
    obey_body_condition: ObeyBodyCondition = False,
    trusted: Trusted = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Time a model in every engine and in onnxruntime: the shortest of many runs, as bars.

    The first run of each, which plans and compiles, stands beside and does not count.
    """
    from mdf_loop.models.benching import bench as measure
    from mdf_loop.options import options

    with at_work(file), options(trusted=trusted, obey_body_condition=obey_body_condition):
        found = measure(file, given_inputs(set_, input_), seconds, seed, stepping(steps, time_increment))
    if json_:
        as_json({"file": str(file), "timings": [asdict(timing) for timing in found]})
    else:
        _print(file.name, found)
    if all(timing.seconds is None for timing in found):
        raise LoopError(f"{str(file)!r} ran nowhere: {found[0].reason}")


def _print(title: str, found: list[Any]) -> None:
    ran = [timing for timing in found if timing.seconds is not None]
    made = table("engine", "one run", "", "first run", "runs", title=title)
    for timing, bar in zip(ran, bars([(timing.name, timing.seconds) for timing in ran]), strict=True):
        made.add_row(timing.name, _told(timing.seconds), bar, _told(timing.first), str(timing.runs))
    console().print(made)
    for timing in found:
        if timing.seconds is None:
            console().print(f"not in {timing.name}: {timing.reason}", markup=False, highlight=False, soft_wrap=True)


def _told(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} {spelt('µs', 'us')}"
