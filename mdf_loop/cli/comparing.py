"""``mdf-loop verify`` and ``mdf-loop bench``: a model in every engine, compared and timed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from mdf_loop.cli import parameters
from mdf_loop.cli.console import as_json, bars, console, describe, spelt, table
from mdf_loop.cli.problems import at_work
from mdf_loop.errors import LoopError


def verify(
    file: parameters.File,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of missing inputs and of random operators.")] = 0,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    rtol: Annotated[float, typer.Option("--rtol", help="Relative tolerance.")] = 1e-5,
    atol: Annotated[float, typer.Option("--atol", help="Absolute tolerance.")] = 1e-6,
    timeout: parameters.Timeout = None,
    obey_body_condition: parameters.ObeyBodyCondition = False,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Run a model in every engine, with JAX and in onnxruntime, and compare.  The exit code is 1 if they disagree."""
    from mdf_loop.models.verifying import verify as compare

    with at_work(file, timeout=timeout, trusted=trusted, obey_body_condition=obey_body_condition):
        how = parameters.stepping(steps, time_increment)
        report = compare(file, parameters.given_inputs(set_, input_, file), seed, rtol, atol, **({"how": how} if how else {}))
    if json_:
        as_json({"file": str(file), **_content(report)})
    else:
        _print_agreement(file.name, report)
    if report.disagreements:
        raise typer.Exit(1)


def _content(report: Any) -> dict[str, Any]:
    """A report for programs."""
    places = {place.name: {"ran": place.outputs is not None, "reason": place.reason} for place in report.others}
    outputs = {
        name: {place: said for (output, place), said in report.findings.items() if output == name} for name in report.reference
    }
    return {"agrees": not report.disagreements, "places": places, "outputs": outputs, "disagreements": report.disagreements}


def _print_agreement(title: str, report: Any) -> None:
    ran = [place.name for place in report.others if place.outputs is not None]
    console().print(_agreement(title, report, ran))
    _say_left_out(place for place in report.others if place.outputs is None and not place.is_failure)
    for text in report.disagreements:
        console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


SHORT = 24
"""Characters of a value that is printed beside what is compared with it."""


def _agreement(title: str, report: Any, ran: Sequence[str]) -> Table:
    """How the outputs at some places are related to those of the reference: a line for each way."""
    from mdf_loop.settings.engines import DEFINITION

    made = table("output", "type", "shape", DEFINITION, "others", title=title)
    for name, value in report.reference.items():
        ways: dict[str, list[str]] = {}
        for place in ran:
            ways.setdefault(report.findings[name, place], []).append(place)
        others = "\n".join(f"{way}: {', '.join(places)}" for way, places in ways.items())
        kind, shape, text = describe(value)
        made.add_row(escape(name), kind, escape(shape), escape(text) if len(text) <= SHORT else "", escape(others))
    return made


def bench(
    file: parameters.File,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="How long to run in each engine.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of missing inputs and of random operators.")] = 0,
    timeout: parameters.Timeout = None,
    obey_body_condition: parameters.ObeyBodyCondition = False,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Time a model in every engine, with JAX and in onnxruntime: the median of many runs, as bars.

    The first run of each, which plans and compiles, has a column of its own and does not count. Each of the
    others has its own random numbers: noise may end a loop early in one run and late in another.
    """
    from mdf_loop.models.benching import bench as measure

    with at_work(file, timeout=timeout, trusted=trusted, obey_body_condition=obey_body_condition):
        found = measure(
            file, parameters.given_inputs(set_, input_, file), seconds, seed, parameters.stepping(steps, time_increment)
        )
    if json_:
        as_json({"file": str(file), "timings": [asdict(timing) for timing in found]})
    else:
        _print_timings(file.name, found)
    if all(timing.seconds is None for timing in found):
        raise LoopError(f"{str(file)!r} ran nowhere: {found[0].reason}")


def _print_timings(title: str, found: list[Any]) -> None:
    ran = [timing for timing in found if timing.seconds is not None]
    made = table("engine", "one run", "", "first run", "runs", title=title)
    for timing, bar in zip(ran, bars([(timing.name, timing.seconds) for timing in ran]), strict=True):
        made.add_row(timing.name, _told(timing.seconds), bar, _told(timing.first), str(timing.runs))
    console().print(made)
    _say_left_out(timing for timing in found if timing.seconds is None)


def _say_left_out(places: Iterable[Any]) -> None:
    """Say in which engines it did not run, and why."""
    for place in places:
        console().print(f"not in {place.name}: {place.reason}", markup=False, highlight=False, soft_wrap=True)


def _told(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} {spelt('µs', 'us')}"
