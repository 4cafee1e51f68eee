"""``mdf-loop check``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mdf_loop.cli.console import as_json
from mdf_loop.cli.parameters import Debug, File, Input, Json, Set, Trusted, given_inputs
from mdf_loop.cli.problems import at_work


def check(
    file: File,
    strict: Annotated[bool, typer.Option("--strict", help="Take warnings for errors.")] = False,
    set_: Set = None,
    input_: Input = None,
    trusted: Trusted = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Tell all that is wrong with a model, with lines; exit code 1 if something is.

    Keys and names that are not there (with what was probably meant), functions, bodies, declared types, inputs without a
    value, and what nothing reads or reaches; then what a run would refuse, with loops cut short.
    """
    from mdf_loop.integrations.checks.model_file import ERROR
    from mdf_loop.integrations.checks.model_file import check as look_at
    from mdf_loop.options import options

    with at_work(file), options(trusted=trusted):
        found = look_at(file, given_inputs(set_, input_))
    if json_:
        as_json({"file": str(file), "problems": [asdict(problem) for problem in found]})
    else:
        for problem in found:
            print(f"{file}{f':{problem.line}' if problem.line else ''}: {problem.kind}: {problem.message}")
        if not found:
            print(f"{file}: nothing is wrong")
    if any(strict or problem.kind == ERROR for problem in found):
        raise typer.Exit(1)
