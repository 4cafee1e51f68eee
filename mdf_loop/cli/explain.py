"""``mdf-loop explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from mdf_loop.cli.console import as_json
from mdf_loop.cli.parameters import (
    Debug,
    File,
    Input,
    Json,
    ObeyBodyCondition,
    Set,
    Steps,
    TimeIncrement,
    Trusted,
    given_inputs,
    stepping,
)
from mdf_loop.cli.problems import at_work
from mdf_loop.cli.tables import console


def explain(
    file: File,
    set_: Set = None,
    input_: Input = None,
    steps: Steps = None,
    time_increment: TimeIncrement = None,
    source: Annotated[bool, typer.Option("--source", help="Show the Python of programs, too.")] = False,
    show_steps: Annotated[bool, typer.Option("--show-steps", help="Show the Steps that programs are made of, too.")] = False,
    obey_body_condition: ObeyBodyCondition = False,
    trusted: Trusted = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Run a model once and print how each of its loops ran: what once, what in blocks, what step by step, and why.

    Inputs that are not given are drawn by their declared types.
    """
    from mdf_loop.models.explaining import explain_model, plans_of
    from mdf_loop.options import options

    with at_work(file), options(trusted=trusted, obey_body_condition=obey_body_condition):
        inputs = given_inputs(set_, input_) | stepping(steps, time_increment)
        if json_:
            as_json({"file": str(file), "loops": plans_of(file, inputs)})
            return
        texts = explain_model(file, inputs, source, show_steps)
    out = console()
    for text in texts:
        out.print(text, markup=False, highlight=False, soft_wrap=True)
