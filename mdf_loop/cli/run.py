"""``mdf-loop run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdf_loop.cli.console import (
    as_json,
    console,
    described,
    outputs_table,
    refuse_missing_folders,
    say_written,
    write_outputs,
)
from mdf_loop.cli.parameters import (
    Collect,
    Debug,
    EngineName,
    Every,
    File,
    Input,
    Json,
    ObeyBodyCondition,
    Record,
    RecordTo,
    Seed,
    Set,
    Steps,
    TimeIncrement,
    Trials,
    Trusted,
    asked_for,
    given_inputs,
    recording,
    stepping,
)
from mdf_loop.cli.problems import at_work, iterations
from mdf_loop.cli.showing import refuse_other_pictures, save_picture
from mdf_loop.errors import MalformedBody, PartialResults

if TYPE_CHECKING:
    from mdf_loop.models.results import Results


WRITES = "Write the outputs (.npz, .json), or the outputs with a description of the run (.nc, .zarr)."
Output = Annotated[Path | None, typer.Option("--output", "-o", help=WRITES)]


def run(
    file: File,
    set_: Set = None,
    input_: Input = None,
    output: Output = None,
    seed: Seed = None,
    max_iterations: Annotated[int | None, typer.Option("--max-iterations", help="Stop a loop after so many iterations.")] = None,
    steps: Steps = None,
    time_increment: TimeIncrement = None,
    collect: Collect = False,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Stop after so many seconds.")] = None,
    trials: Trials = None,
    record: Record = None,
    every: Every = 1,
    record_to: RecordTo = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot the results: a .png, .svg or .pdf file.")] = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show the progress; a terminal shows it after two seconds.")
    ] = None,
    engine: EngineName = None,
    obey_body_condition: ObeyBodyCondition = False,
    trusted: Trusted = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Run a model, and print its outputs and recorded values.

    If it ends early, --output gets what is known of its outputs by then.
    """
    with at_work(file):
        inputs = given_inputs(set_, input_) | stepping(steps, time_increment, collect=collect or None)
        inputs |= recording(trials, record, every, record_to)
        how = {"seed": seed, "max_iterations": max_iterations, "timeout": timeout, "trusted": trusted}
        how |= {"obey_body_condition": obey_body_condition, "progress": _listener(progress), **asked_for(engine=engine)}
        _refuse_other(file, output, plot)
        results = _run(file, inputs, how, output)
        _keep(results, output, plot)
    outputs = {**results, **results.recorded}
    if json_:
        as_json({"file": str(file), "outputs": described(outputs)})
    else:
        console().print(outputs_table(file.name, outputs, results.about.trials))
        say_written(output)
        say_written(plot)


def _run(file: Path, inputs: dict[str, Any], how: dict[str, Any], output: Path | None) -> Results:
    from mdf_loop.models.opening import run as run_model
    from mdf_loop.options import options

    try:
        with options(**how):
            return run_model(file, **inputs)
    except PartialResults as error:
        if output:
            _write_partial(output, error)
        raise


def _listener(asked: bool | None) -> Any:
    """What reports how far it has come: a bar at once, one after two seconds on a terminal, or nothing."""
    from mdf_loop.progress import Bar

    if asked is None:
        return Bar(after=2.0) if sys.stderr.isatty() else None
    return asked


LABELLED = (".nc", ".zarr")
"""Files of results with labels, which :func:`mdf_loop.open` reads."""


def _refuse_other(file: Path, output: Path | None, plot: Path | None) -> None:
    """A run whose outputs or picture cannot be written does not begin."""
    refuse_other_pictures(plot)
    if output and output.suffix not in (".npz", ".json", *LABELLED):
        raise MalformedBody(f"--output takes a .npz, .json, .nc or .zarr file; got {str(output)!r}")
    if output and output.exists() and file.exists() and output.samefile(file):
        raise MalformedBody(f"--output would replace the model {str(file)!r}")
    refuse_missing_folders(output, plot)


def _keep(results: Results, output: Path | None, plot: Path | None) -> None:
    if output:
        _write(output, {**results, **results.recorded}, results)
    if plot:
        save_picture(results, plot)


def _write(path: Path, outputs: dict[str, Any], results: Results) -> None:
    if path.suffix in LABELLED:
        results.save(path)
    else:
        write_outputs(path, outputs)


def _write_partial(path: Path, error: PartialResults) -> None:
    """Write what is known of the outputs of a model that ended early, and say so."""
    trials = None if error.results is None else error.results.about.trials
    done = "" if error.iteration is None else f" after {iterations(error.iteration)}"
    outputs, done = (error.outputs, done) if trials is None else (error.results, f" of {trials} trials")
    if not outputs:
        print(f"mdf-loop: no output was known{done}, so {str(path)!r} is not written", file=sys.stderr)
        return
    _write(path, outputs, error.results)
    print(f"mdf-loop: {', '.join(outputs)}{done}: written to {str(path)!r}", file=sys.stderr)
