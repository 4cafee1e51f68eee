"""All commands as one, and what every command has: ``--version``, ``-h``, and errors as one paragraph."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from mdf_loop.cli import comparing, installation, looking, parameters, run, showing, sweeping, writing
from mdf_loop.cli.console import take_any_text
from mdf_loop.cli.problems import Interrupted, report, telling_warnings
from mdf_loop.errors import ArgumentError, LoopError, close_to

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Loops for MDF models, and a fast engine that runs them: run models, look at them, convert and compare them.",
    epilog="Every command takes -h, --json and --debug. Documentation: docs/ in the repository.",
)


def _in_paragraphs(command: Callable[..., None]) -> str:
    """What a command says of itself, without the line breaks of the source: a terminal has its own width."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(command.__doc__ or "").split("\n\n"))


for _command in (
    *(run.run, sweeping.sweep, writing.new, looking.check, looking.explain, looking.draw, comparing.verify, comparing.bench),
    *(showing.plot, showing.explore, showing.report),
    *(writing.convert, installation.ops, installation.doctor, installation.cache),
):
    app.command(help=_in_paragraphs(_command))(_command)


def _say_version(wanted: bool) -> None:
    if wanted:
        import mdf_loop

        print(f"mdf-loop {mdf_loop.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version.")] = False,
) -> None:
    """Nothing of its own: each command says what it does."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point: errors that we raise on purpose become one paragraph on stderr and exit code 1."""
    take_any_text()
    os.environ.setdefault("JAX_ENABLE_X64", "true")  # models of MDF compute in float64; read when JAX is imported
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json, options = "--json" in arguments, _options_of(arguments)
    try:
        with telling_warnings(as_json, options), _debugging("--debug" in arguments):
            _refuse_loose(arguments)
            app(arguments, prog_name="mdf-loop", standalone_mode=True)
    except (Interrupted, KeyboardInterrupt, LoopError, OSError, MemoryError) as error:
        if "--debug" in arguments:
            raise
        is_interrupted = isinstance(error, Interrupted | KeyboardInterrupt)
        report((is_interrupted and error.__cause__) or error, as_json, options)
        sys.exit(130 if is_interrupted else getattr(error, "exit_code", 1))


class _NotThere(ArgumentError):
    """A command or an option does not exist."""

    exit_code = 2


def _refuse_loose(arguments: list[str]) -> None:
    """See that a command is in front of a model, and ``--set`` in front of inputs.

    Raises
    ------
    ArgumentError
        One is not.
    """
    known = {name.strip("_") for name in _options_of(arguments)}
    if arguments and not known and arguments[0].isidentifier() and arguments[0] in importlib.import_module("mdf_loop").__all__:
        raise _NotThere(f"{arguments[0]} is no command: in Python it is mdf_loop.{arguments[0]}(...)")
    if arguments and os.path.isfile(arguments[0]):
        raise ArgumentError(f"{arguments[0]!r} has no command: write mdf-loop run {arguments[0]}, or check or draw for run")
    for before, text, value in zip(["", *arguments], arguments, [*arguments[1:], ""], strict=False):
        if before in ("--set", "--over") and "=" not in text and value[:1] not in ("", "-"):
            raise ArgumentError(f"{before} takes NAME=VALUE: write {before} {text}={value}")
        name, _, number = text.removeprefix("--").partition("=")
        is_value = (number or value).lstrip("+-.")[:1].isdigit()
        if known and text[:2] == "--" and name.isidentifier() and name not in known and is_value:
            cure = f"; a value of the model is --set {name}={number or value}" if _takes(arguments, name) else ""
            raise _NotThere(f"there is no option --{name}{cure}" if cure else _of_no_option(arguments, name, known))
        is_option = before == "--set" and name in known | _options_of(["run"]) and parameters.is_value(number)
        if is_option and not _takes(arguments, name):
            cure = f"write --{name.replace('_', '-')} {number}" if name in known else f"{arguments[0]} has no option --{name}"
            raise ArgumentError(f"the model has no input {name!r}; {cure}")
        if before[:1] != "-" and text.partition("=")[0].isidentifier() and "=" in text and not os.path.exists(text):
            raise ArgumentError(f"{text!r} has no option: write --set {text}; for the values of a sweep --over {text}")


def _of_no_option(arguments: list[str], name: str, known: set[str]) -> str:
    """What to do about an option that the command does not have."""
    command, options = arguments[0], [each.replace("_", "-") for each in known - {"file"}]
    close = close_to(name.replace("_", "-"), options)
    cure = f"did you mean --{close[0]}?" if close else f"mdf-loop {command} -h lists those that there are"
    return f"{command} has no option --{name}; {cure}"


def _takes(arguments: list[str], name: str) -> bool:
    """Whether the model of a command has an input of a name, or cannot be read, which is an error of its own."""
    from mdf_loop.models.opening import prepare

    file = next(filter(os.path.isfile, arguments[1:]), None)
    try:
        return file is None or prepare(file).takes(name)
    except (LoopError, OSError):
        return True


@contextlib.contextmanager
def _debugging(wanted: bool) -> Iterator[None]:
    """Keep the lines of the library in tracebacks if that is wanted."""
    if wanted:
        from mdf_loop.options import options

        with options(traceback=True):
            yield
    else:
        yield


def _options_of(arguments: list[str]) -> set[str]:
    """The options of the command that is called, by their names in Python."""
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    command = next((each.callback for each in app.registered_commands if getattr(each.callback, "__name__", "") == name), None)
    return set() if command is None else set(inspect.signature(command).parameters)
