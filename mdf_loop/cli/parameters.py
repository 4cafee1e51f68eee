"""Arguments and options that several commands take, each said once."""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from mdf_loop.errors import MalformedBody
from mdf_loop.settings.engines import ENGINES

File = Annotated[Path, typer.Argument(help="A model: .yaml, .json, .onnx or .xml (OpenVINO).")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An input or a parameter; VALUE is JSON.")]
Input = Annotated[Path | None, typer.Option("--input", help="Inputs by name: a .npz or .json file.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the random stream.")]
Steps = Annotated[int | None, typer.Option("--steps", help="Number of evaluations of an MDF model.")]
TimeIncrement = Annotated[float | None, typer.Option("--time-increment", help="Time between two steps.")]
Collect = Annotated[bool, typer.Option("--collect", help="Keep the outputs of all steps.")]
Trials = Annotated[int | None, typer.Option("--trials", help="Number of runs, each with its own random numbers.")]
Record = Annotated[
    list[str] | None, typer.Option("--record", metavar="NAME", help="A value to record in each iteration: node.name.")
]
Every = Annotated[int, typer.Option("--every", help="Record one of so many iterations.")]
RecordTo = Annotated[Path | None, typer.Option("--record-to", help="A .zarr folder for recorded values.")]
Fill = Annotated[float | None, typer.Option("--fill", help="The value for missing results, instead of nan.")]
OnError = Annotated[
    str | None, typer.Option("--on-error", metavar="keep|raise", help="Continue after a run that fails (keep), or stop (raise).")
]
Trusted = Annotated[bool, typer.Option("--trusted", help="Trust the model like a program; see options().")]
ObeyBodyCondition = Annotated[
    bool,
    typer.Option("--obey-body-condition", help="Let the body end a loop without a condition, as onnxruntime does."),
]
EngineName = Annotated[
    str | None, typer.Option("--engine", metavar="|".join(ENGINES), help=f"How loops run; the default is {next(iter(ENGINES))}.")
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Stop after so many seconds.")]
Over = Annotated[list[str] | None, typer.Option("--over", metavar="NAME=VALUES", help="0:2:100 (from, to, count), or 1,1.5,2.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Plot the results: a .png, .svg or .pdf file.")]
Progress = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", " /--quiet", help="Show the progress; a terminal shows it after two seconds."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs; errors on stderr too.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
"""Every command takes ``--json`` and ``--debug``; :func:`mdf_loop.cli.app.main` looks for them too."""


def given_inputs(set_: list[str] | None, input_: Path | None, file: Path | None = None) -> dict[str, Any]:
    """The inputs that ``--input`` and ``--set`` give; the latter win.

    Of the model in a file, those that are called like an argument in Python get the name of their node: ``node.steps``.

    Raises
    ------
    MalformedBody
        One of them cannot be read.
    """
    given = {**(_read_inputs(input_) if input_ else {}), **each_once("--set", map(_assignment, set_ or []))}
    if file is None or not any(_is_argument(name) for name in given):
        return given
    from mdf_loop.models.opening import prepare

    model = prepare(file)
    return {model.full_name(name) if _is_argument(name) else name: value for name, value in given.items()}


def _is_argument(name: str) -> bool:
    """Whether a function that runs a model has an argument of a name."""
    from mdf_loop.models.model import Model
    from mdf_loop.models.opening import run
    from mdf_loop.pages.explore import explore
    from mdf_loop.sweeps.sweep import sweep

    return any(name in inspect.signature(function).parameters for function in (run, sweep, explore, Model.explain))


def each_once(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """What an option that is given several times says, by its names.

    Raises
    ------
    MalformedBody
        A name is given twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise MalformedBody(f"{option} {name} is given twice: {found[name]!r} and {value!r}")
        found[name] = value
    return found


def asked_for(**how: Any) -> dict[str, Any]:
    """Options without those that were not given."""
    return {name: value for name, value in how.items() if value is not None}


def stepping(steps: int | None, time_increment: float | None, **more: Any) -> dict[str, Any]:
    """The arguments of :func:`mdf_loop.run` that say how often: those that were given."""
    return asked_for(steps=steps, time_increment=time_increment, **more)


def recording(trials: int | None, record: list[str] | None, every: int, record_to: Path | None) -> dict[str, Any]:
    """The arguments of :func:`mdf_loop.run` about trials and recordings: those that were given."""
    return asked_for(trials=trials, record=record or None, every=every if every != 1 else None, record_to=record_to)


def listener(asked: bool | None) -> Any:
    """What ``--progress`` asks for: a bar at once, or lines where no terminal is; by default a bar after two seconds."""
    from mdf_loop.progress import Bar

    if sys.stderr.isatty():
        return Bar(after=2.0) if asked is None else asked
    return _Lines() if asked else None


class _Lines:
    """Progress in a file, such as the log of a job in a queue: a line now and then."""

    SECONDS, _next = 5.0, 0.0

    def __call__(self, report: Any) -> None:
        """Write a report if it is time."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + self.SECONDS
            print(report, file=sys.stderr, flush=True)


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise MalformedBody(f"--set takes NAME=VALUE; got {text!r}")
    name = unicodedata.normalize("NFKC", name.strip())  # as Python reads names, and models have them
    try:
        return name, value_in(value)
    except (ValueError, RecursionError) as error:
        from mdf_loop.readers.expressions.expression_text import with_point

        known = "numbers (nan and inf too), true, false, [1, 2], and texts in quotes"
        meant = f"; a text is --set '{name}={json.dumps(value)}' in a shell" if value.isidentifier() else ""
        listed = value.translate(str.maketrans("()", "[]"))
        written = next(filter(is_value, (value.lower(), listed, f"[{listed.strip('[]')}]")), "") if value else ""
        meant = f"; write {written}" if written else meant
        meant = f"; write {number} for one number, {written} for a list" if (number := with_point(value)) else meant
        raise MalformedBody(f"--set {name}: {value!r} is not a value; there are {known}{meant}") from error


def is_value(text: str) -> bool:
    """Whether a text is a value."""
    try:
        value_in(text)
    except (ValueError, RecursionError):
        return False
    return True


_NUMBER = re.compile(r"([-+]?)(\d*)\.?(\d*)([eE][-+]?\d+)?", re.ASCII)


_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+')
"""Texts in quotes, and what is between brackets and commas."""

_WORDS = {"nan": "NaN", "inf": "Infinity", "+inf": "Infinity", "-inf": "-Infinity"}


def value_in(text: str) -> Any:
    """The value that a text is: JSON, with numbers as Python and YAML have them too: ``.5``, ``+1``, ``nan``, ``inf``.

    Raises
    ------
    ValueError, RecursionError
        It is none.
    """
    return json.loads(_PARTS.sub(lambda part: _as_json(part[0]), text.strip()))


def _as_json(text: str) -> str:
    """A number as JSON has it, with a digit on both sides of its point, and no plus; any other text as it is."""
    found = _NUMBER.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        return _WORDS.get(text, text)
    point = f".{found[3] or 0}" if "." in text else ""
    return f"{found[1].strip('+')}{found[2] or 0}{point}{found[4] or ''}"


def _read_inputs(path: Path) -> dict[str, Any]:
    """Inputs by name from a file."""
    from mdf_loop.models.saving import open_results
    from mdf_loop.readers.model_files import read_bytes

    if path.suffix == ".npz":
        return dict(open_results(path))
    if path.suffix != ".json":
        raise MalformedBody(f"--input takes a .npz or .json file; got {str(path)!r}")
    try:
        values = json.loads(read_bytes(path, "a file of inputs").decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f"{str(path)!r} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise MalformedBody(f"{str(path)!r} must hold one JSON object: {{name: value, ...}}")
    return values
