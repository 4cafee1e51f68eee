"""All commands as one, and what every command has: ``--version``, ``-h``, and errors as one paragraph."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mdf_loop.cli import bench, cache, check, convert, doctor, draw, explain, new, ops, run, sweep, verify
from mdf_loop.cli.problems import report
from mdf_loop.errors import LoopError

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="ONNX control flow for MDF: run models, look at them, convert and compare them.",
    epilog="Every command takes -h, --json and --debug. Documentation: docs/ in the repository.",
)

for _command in (
    *(run.run, sweep.sweep, new.new, check.check, explain.explain, draw.draw, verify.verify, bench.bench),
    *(convert.convert, ops.ops, doctor.doctor, cache.cache),
):
    app.command()(_command)


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
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(arguments, prog_name="mdf-loop", standalone_mode=True)
    except (LoopError, KeyboardInterrupt, OSError) as error:
        if "--debug" in arguments:
            raise
        report(error, "--json" in arguments)
        sys.exit(1)
