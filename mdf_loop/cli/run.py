"""``mdf-loop run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mdf_loop.cli.parameters import (
    Debug,
    Every,
    File,
    Input,
    Json,
    Record,
    RecordTo,
    Seed,
    Set,
    Steps,
    TimeIncrement,
    Trials,
    Trusted,
    given_inputs,
    recording,
    stepping,
)
from mdf_loop.cli.problems import at_work, iterations
from mdf_loop.cli.tables import console, outputs_table
from mdf_loop.cli.values import as_json, described, write_outputs
from mdf_loop.errors import MalformedBody, PartialResults


def run(
    file: File,
    set_: Set = None,
    input_: Input = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs: .npz or .json.")] = None,
    seed: Seed = None,
    max_iterations: Annotated[int | None, typer.Option("--max-iterations", help="Stop a loop that wants more.")] = None,
    steps: Steps = None,
    time_increment: TimeIncrement = None,
    collect: Annotated[bool, typer.Option("--collect", help="Keep the outputs of all steps.")] = False,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Stop after so many seconds.")] = None,
    trials: Trials = None,
    record: Record = None,
    every: Every = 1,
    record_to: RecordTo = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show how far it has come; by itself after two seconds.")
    ] = None,
    trusted: Trusted = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Run a model and print its outputs as a table, and what was recorded.

    If it ends early, --output gets what is known of its outputs by then.
    """
    with at_work(file):
        inputs = given_inputs(set_, input_) | stepping(steps, time_increment, collect=collect or None)
        inputs |= recording(trials, record, every, record_to)
        how = {"seed": seed, "max_iterations": max_iterations, "timeout": timeout, "trusted": trusted}
        how["progress"] = _listener(progress)
        _refuse_same(file, output)
        outputs = _run(file, inputs, how, output)
    outputs = {**outputs, **getattr(outputs, "recorded", {})}
    if output:
        write_outputs(output, outputs)
    if json_:
        as_json({"file": str(file), "outputs": described(outputs)})
    else:
        console().print(outputs_table(file.name, outputs))


def _run(file: Path, inputs: dict[str, Any], how: dict[str, Any], output: Path | None) -> dict[str, Any]:
    from mdf_loop.models.running import run as run_model
    from mdf_loop.options import options

    try:
        with options(**how):
            return run_model(file, **inputs)
    except PartialResults as error:
        if output:
            _write_partial(output, error)
        raise


def _listener(asked: bool | None) -> Any:
    """Who is told how far it has come: a bar at once, one after two seconds on a terminal, or nobody."""
    from mdf_loop.progress import Bar

    if asked is None:
        return Bar(after=2.0) if sys.stderr.isatty() else None
    return asked


def _refuse_same(file: Path, output: Path | None) -> None:
    if output and output.exists() and file.exists() and output.samefile(file):
        raise MalformedBody(f"--output would replace the model {str(file)!r}")


def _write_partial(path: Path, error: PartialResults) -> None:
    """Write what is known of the outputs of a model that ended early, and say so."""
    done = "" if error.iteration is None else f" after {iterations(error.iteration)}"
    if not error.outputs:
        print(f"mdf-loop: no output was known{done}, so {str(path)!r} is not written", file=sys.stderr)
        return
    write_outputs(path, error.outputs)
    print(f"mdf-loop: {', '.join(error.outputs)}{done}: written to {str(path)!r}", file=sys.stderr)
