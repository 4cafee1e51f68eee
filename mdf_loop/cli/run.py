"""``mdf-loop run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdf_loop.cli import parameters
from mdf_loop.cli.console import (
    as_json,
    console,
    described,
    outputs_table,
    refuse_missing_folders,
    refuse_other_pictures,
    save_plot,
    say_written,
    write_json,
)
from mdf_loop.cli.problems import at_work, iterations
from mdf_loop.errors import MalformedBody, PartialResults

if TYPE_CHECKING:
    from mdf_loop.models.results import Results


WRITES = "Write the outputs with a description of the run (.npz, .nc, .zarr), or the outputs (.json)."
Output = Annotated[Path | None, typer.Option("--output", "-o", help=WRITES)]


def run(
    file: parameters.File,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    output: Output = None,
    seed: parameters.Seed = None,
    max_iterations: Annotated[int | None, typer.Option("--max-iterations", help="Stop a loop after so many iterations.")] = None,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    collect: parameters.Collect = False,
    timeout: parameters.Timeout = None,
    trials: parameters.Trials = None,
    record: parameters.Record = None,
    every: parameters.Every = 1,
    record_to: parameters.RecordTo = None,
    plot: parameters.Plot = None,
    progress: parameters.Progress = None,
    engine: parameters.EngineName = None,
    obey_body_condition: parameters.ObeyBodyCondition = False,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Run a model, and print its outputs and recorded values.

    If it ends early, --output gets what is known of its outputs by then.
    """
    with at_work(file):
        inputs = parameters.given_inputs(set_, input_, file) | parameters.stepping(steps, time_increment, collect=collect or None)
        inputs |= parameters.recording(trials, record, every, record_to)
        how = {"seed": seed, "max_iterations": max_iterations, "timeout": timeout, "trusted": trusted}
        how |= {"obey_body_condition": obey_body_condition, "progress": parameters.listener(progress)}
        how |= parameters.asked_for(engine=engine)
        _refuse_other(file, output, plot)
        results = _run(file, inputs, how, output)
        if output:
            _write(output, results)
        _show(file, results, output, json_)
        save_plot(results, plot, json_)


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


def _refuse_other(file: Path, output: Path | None, plot: Path | None) -> None:
    """A run whose outputs or picture cannot be written does not begin."""
    refuse_other_pictures(plot)
    if output and output.suffix not in (".npz", ".json", ".nc", ".zarr"):
        raise MalformedBody(f"--output takes a .npz, .json, .nc or .zarr file; got {str(output)!r}")
    if output and output.exists() and file.exists() and output.samefile(file):
        raise MalformedBody(f"--output would replace the model {str(file)!r}")
    refuse_missing_folders(output, plot)


def _show(file: Path, results: Results, output: Path | None, as_text: bool) -> None:
    """Print what a run gave."""
    outputs = {**results, **results.recorded}
    if as_text:
        as_json({"file": str(file), "outputs": described(outputs)})
    else:
        console().print(outputs_table(file.name, outputs, results.about))
        say_written(output)


def _write(path: Path, results: Results) -> None:
    if path.suffix == ".json":
        write_json(path, {**results, **results.recorded})
    else:
        results.save(path)


def _write_partial(path: Path, error: PartialResults) -> None:
    """Write what is known of the outputs of a model that ended early, and say so."""
    from mdf_loop.models.results import Results

    known = Results(error.outputs) if error.results is None else error.results
    done = "" if error.iteration is None else f" after {iterations(error.iteration)}"
    done = done if known.about.trials is None else f" of {known.about.trials} trials"
    if not known:
        print(f"mdf-loop: no output was known{done}, so {str(path)!r} is not written", file=sys.stderr)
        return
    _write(path, known)
    print(f"mdf-loop: {', '.join(known)}{done}: written to {str(path)!r}", file=sys.stderr)
