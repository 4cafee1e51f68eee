"""Commands that show what a model gives: ``plot``, ``explore`` and ``report``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mdf_loop.cli import parameters
from mdf_loop.cli.console import refuse_other_pictures, save_picture
from mdf_loop.cli.problems import at_work
from mdf_loop.cli.sweeping import axis
from mdf_loop.errors import MalformedBody


def plot(
    file: Annotated[Path, typer.Argument(help="Results: a .npz, .nc or .zarr file of `run -o` or `sweep -o`.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(help="A value; or several, to plot the others against the first: t v.  The default is all."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture: .png, .svg or .pdf.")] = Path("plot.png"),
    debug: parameters.Debug = False,
    json_: parameters.Json = False,
) -> None:
    """Plot results from a file: trajectories, histograms of trials, curves and heat maps of sweeps."""
    from mdf_loop.sweeps.sweep import open as open_results

    with at_work(file):
        refuse_other_pictures(output)
        save_picture(open_results(file), output, names)
    _say_written(file, output, json_)


def explore(
    file: parameters.File,
    names: Annotated[list[str] | None, typer.Argument(help="What to draw, as `plot` takes it; the default is all.")] = None,
    over: Annotated[list[str] | None, typer.Option("--over", metavar="NAME=FROM:TO", help="A slider: drift=0:2.")] = None,
    trials: parameters.Trials = None,
    seed: parameters.Seed = 0,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    record: parameters.Record = None,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    port: Annotated[int, typer.Option("--port", help="Port of the page; 0 chooses a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Show a model with sliders in the browser, until Ctrl-C.

    Without --over there is a slider for each number of the model with a default.
    """
    from mdf_loop.pages.explore import explore as explore_model

    def say(address: str) -> None:
        print(json.dumps({"address": address}) if json_ else f"{file.name}: {address} (Ctrl-C ends it)", flush=True)

    with at_work(file, trusted=trusted):
        given = parameters.given_inputs(set_, input_, file) | dict(map(_range, over or []))
        how: dict[str, Any] = {"trials": trials, "seed": seed, "record": record, "steps": steps, "time_increment": time_increment}
        explore_model(file, *names or (), **how, **given).show(port, browser, say)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    """A name and from where to where it moves: ``drift=0:2``.

    Raises
    ------
    MalformedBody
        It is none.
    """
    name, _, said = text.partition("=")
    try:
        low, high = map(parameters.value_in, said.split(":"))
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f"--over takes NAME=FROM:TO, such as drift=0:2; got {text!r}") from error
    return name, (low, high)


def report(
    file: parameters.File,
    output: Annotated[Path, typer.Option("--output", "-o", help="The report: an .html file.")] = Path("report.html"),
    over: parameters.Over = None,
    trials: parameters.Trials = None,
    seed: parameters.Seed = None,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    record: parameters.Record = None,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Write a report: a model, its drawing, a run and a sweep, as one HTML file."""
    from mdf_loop.pages.report import report as report_of
    from mdf_loop.writers.atomic_files import replacing

    with at_work(file, trusted=trusted):
        if output.suffix.lower() not in (".html", ".htm"):
            raise MalformedBody(f"a report is written to an .html file; got {str(output)!r}")
        arguments = (
            parameters.given_inputs(set_, input_, file)
            | parameters.stepping(steps, time_increment, seed=seed)
            | parameters.recording(None, record, 1, None)
        )
        page = report_of(file, arguments, dict(map(axis, over or [])), trials)
        with replacing(output) as written:
            written.write(page.encode())
    _say_written(file, output, json_)


def _say_written(file: Path, output: Path, as_text: bool) -> None:
    print(json.dumps({"file": str(file), "written": str(output)}) if as_text else f"{file}: written to {str(output)!r}")
