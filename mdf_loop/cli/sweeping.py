"""``mdf-loop sweep``: a model over a grid of values, into a file."""

from __future__ import annotations

import inspect
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from mdf_loop.cli import parameters
from mdf_loop.cli.console import (
    as_json,
    console,
    plain,
    refuse_missing_folders,
    refuse_other_pictures,
    save_plot,
    say_written,
    table,
)
from mdf_loop.cli.problems import at_work
from mdf_loop.errors import LoopError, LoopWarning, MalformedBody, PartialResults


def axis(text: str) -> tuple[str, list[Any]]:
    """A name and its values: ``drift=0:2:100`` (100 values from 0 to 2), ``bound=1,1.5``, or ``x=[[1, 2], [3, 4]]``.

    Raises
    ------
    MalformedBody
        It is none of these.
    """
    name, equals, said = text.partition("=")
    if not equals or not name or not said:
        raise MalformedBody(f"--over takes NAME=START:STOP:COUNT or NAME=VALUE,VALUE,...; got {text!r}")
    try:
        if said.startswith("["):
            return name, list(json.loads(said))
        if said.count(":") == 2:
            return name, _spaced(text, *said.split(":"))
        return name, [parameters.value_in(value) for value in said.split(",")]
    except MalformedBody:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedBody(
            f"--over {name}: {said!r} is not a list of values, such as 0:2:100 (from, to, count), 1,1.5 or [1, 2]"
        ) from error


def _spaced(text: str, start: str, stop: str, count: str) -> list[float]:
    """So many values from one to another.

    From, step, to is the likelier meaning, as in other languages, where that is a whole number of steps below 1, and the values
    would be no round number apart, as those of 0:0.5:6 are.

    Raises
    ------
    MalformedBody
        It probably means steps, or all values are the same.
    """
    import numpy as np

    first, last, many = map(float, (start, stop, count.removeprefix("count=")))
    steps, apart = (many - first) / (last or np.inf), (last - first) / max(many - 1, 1)
    is_step = count[0] != "c" and steps > 0 and min(steps % 1, 1 - steps % 1) < 1e-9
    wrong = not many.is_integer() or many < 1 or (many == 1) != (first == last)
    if wrong or (is_step and last < 1 and not (many > 3 and math.isclose(apart, float(f"{apart:.0e}")))):
        cure = f"for steps of {stop} from {start} to {count} write {start}:{count}:{round(steps) + 1}; " if is_step else ""
        cure += f"for one value write {start}" if wrong else f"for {count} values up to {stop} write {start}:{stop}:count={count}"
        raise MalformedBody(f"--over {text} is FROM:TO:COUNT; {cure}")
    return np.linspace(first, last, int(many)).tolist()


def _swept(over: list[str], is_silent: bool) -> dict[str, list[Any]]:
    """The values of each name; a line says the first one, the last one, and how many there are."""
    found = parameters.each_once("--over", map(axis, over))
    shown = {name: [f"{value:g}" if isinstance(value, float) else value for value in values] for name, values in found.items()}
    said = [f"{name} from {values[0]} to {values[-1]}, {len(values)} values" for name, values in shown.items() if values]
    if said and not is_silent:
        print(f"mdf-loop: {'; '.join(said)}", file=sys.stderr)
    return found


def run_sweep(
    file: Path,
    over: dict[str, list[Any]],
    inputs: dict[str, Any],
    output: Path | None,
    plot: Path | None,
    how: dict[str, Any],
    outputs: list[str] | None,
    reduce: str | None,
) -> Any:
    """Run a sweep, and write and plot what it gives.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    LoopError
        As :func:`mdf_loop.sweep`.
    """
    from mdf_loop.models.saving import writable, write_dataset
    from mdf_loop.sweeps.sweep import sweep as over_grid

    _refuse(inputs, output, plot, how["store"])
    said = {name: value for name, value in how.items() if value is not None}
    if outputs:
        said["outputs"] = [name.strip() for names in outputs for name in names.split(",")]
    if reduce is not None:
        said["reduce"] = reduction(reduce)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", FAILED, LoopWarning)  # the command says it itself
            found = over_grid(file, over or None, **said, **inputs)
    except (PartialResults, LoopError) as error:
        if output is not None and error.results is not None:
            write_dataset(writable(error.results), output)
            say_written(output)
        raise
    if output is not None:
        write_dataset(writable(found), output)
    return found


def _refuse(inputs: dict[str, Any], output: Path | None, plot: Path | None, store: str | None) -> None:
    """See that the results of a sweep can be written, and that its inputs have names of their own, before it runs."""
    from mdf_loop.sweeps.sweep import sweep as over_grid

    if output is not None and output.suffix not in (".nc", ".zarr"):
        raise MalformedBody(f"a sweep is written to a .nc or .zarr file; got {str(output)!r}")
    refuse_other_pictures(plot)
    refuse_missing_folders(output, plot)
    if output is not None and store is not None:
        raise MalformedBody("--store is where the results are written; leave out -o")
    if taken := sorted(inputs.keys() & inspect.signature(over_grid).parameters.keys()):
        raise MalformedBody(f"--set {taken[0]} is an argument of a sweep; give the input with --over, or as node.{taken[0]}")


def reduction(text: str) -> str | list[float]:
    """The name of a reduction, or quantiles: ``0.1,0.5,0.9``.

    Raises
    ------
    MalformedBody
        It begins like quantiles, and is none.
    """
    if not text[:1].isdigit() and text[:1] not in "+-.":
        return text
    try:
        return [float(level) for level in text.split(",")]
    except ValueError as error:
        raise MalformedBody(f"--reduce: {text!r} is not a list of quantiles such as 0.1,0.5,0.9 ({error})") from error


FEW = 5
"""Errors that are shown in full."""

FAILED = r"[\d,]+ of .* runs (failed|ended at M)"
"""How warnings of a sweep begin that the table says too."""


def _content(found: Any, store: str | None) -> dict[str, Any]:
    """What a sweep gave; the values of a store, which may be larger than the memory, stay there."""
    outputs = {str(name): {"dims": list(variable.dims)} for name, variable in found.data_vars.items()}
    if store is None:
        outputs = {name: {**said, "values": plain(found[name].values)} for name, said in outputs.items()}
    return {
        "outputs": outputs,
        **{name: found.attrs[name] for name in ("errors", "failed", "complete", "ended") if name in found.attrs},
    }


def summary(title: str, found: Any) -> Table:
    """The variables of a Dataset: dimensions, mean and range."""
    from mdf_loop.pages.report import summed_up

    made = table("output", "dimensions", "mean", "from", "to", title=title)
    for row in summed_up(found):
        made.add_row(*map(escape, row))
    return made


def stored(title: str, found: Any) -> Table:
    """The variables of a store: dimensions and types, as values are read when they are asked for."""
    made = table("output", "dimensions", "type", title=title)
    for name, variable in found.data_vars.items():
        sizes = ", ".join(f"{dim} {size}" for dim, size in variable.sizes.items())
        made.add_row(escape(str(name)), escape(sizes), str(variable.dtype))
    return made


CheckpointPlace = Annotated[
    str | None, typer.Option("--checkpoint", help="A .zarr folder, or an address, from which the same call continues.")
]
StorePlace = Annotated[
    str | None, typer.Option("--store", help="A .zarr folder, or an address, for results larger than the memory.")
]
Reduce = Annotated[str | None, typer.Option("--reduce", help="Reduce the trials of a point: mean, or quantiles 0.1,0.9.")]


def sweep(
    file: parameters.File,
    over: parameters.Over = None,
    trials: parameters.Trials = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the whole sweep.")] = None,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the results: .nc or .zarr.")] = None,
    outputs: Annotated[list[str] | None, typer.Option("--outputs", metavar="NAMES", help="The outputs to keep: a,b.")] = None,
    reduce: Reduce = None,
    checkpoint: CheckpointPlace = None,
    store: StorePlace = None,
    workers: Annotated[int, typer.Option("--workers", help="Number of threads.")] = 1,
    chunk: Annotated[int | None, typer.Option("--chunk", help="Runs in a chunk; the default is about a second.")] = None,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    collect: parameters.Collect = False,
    fill: parameters.Fill = None,
    on_error: parameters.OnError = None,
    common_noise: Annotated[bool, typer.Option("--common-noise", help="The same random numbers at every point.")] = False,
    timeout: parameters.Timeout = None,
    plot: parameters.Plot = None,
    progress: parameters.Progress = None,
    engine: parameters.EngineName = None,
    obey_body_condition: parameters.ObeyBodyCondition = False,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Run a model over a grid of values, with trials at each point, and write the results with labels."""
    how: dict[str, Any] = {"trials": trials, "seed": seed, "workers": workers, "chunk": chunk}
    how |= {"steps": steps, "time_increment": time_increment, "common_noise": common_noise, "collect": collect}
    how |= {"checkpoint": checkpoint, "store": store, "fill": fill, "on_error": on_error}
    opts: dict[str, Any] = {"trusted": trusted, "timeout": timeout, "obey_body_condition": obey_body_condition}
    opts |= {"progress": parameters.listener(progress), **parameters.asked_for(engine=engine)}
    with at_work(file, **opts):
        swept = _swept(over or [], is_silent=json_ or progress is False)
        found = run_sweep(file, swept, parameters.given_inputs(set_, input_, file), output, plot, how, outputs, reduce)
    _say(file, found, json_, store, output)
    with at_work(file):
        save_plot(found, plot, json_)


def _say(file: Path, found: Any, as_text: bool, store: str | None, output: Path | None) -> None:
    """Say what a sweep gave, and which file was written.

    Raises
    ------
    typer.Exit
        All runs failed.
    """
    if as_text:
        as_json({"file": str(file), "sizes": dict(found.sizes), **_content(found, store)})
    else:
        title = ", ".join(filter(None, (store or file.name, found.attrs.get("ended"))))
        console().print(summary(title, found) if store is None else stored(title, found))
    say_written(None if as_text else output)
    if _say_failed(found):
        raise typer.Exit(1)


def _say_failed(found: Any) -> bool:
    """Say how many runs failed, and why the first ones did; whether all did."""
    failed, runs = found.attrs["failed"], found.attrs["complete"]
    if failed:
        print(f"mdf-loop: {failed} of {runs} runs failed", file=sys.stderr)
    for error in found.attrs["errors"][:FEW]:
        print(f"failed: {error}", file=sys.stderr)
    return bool(failed == runs)
