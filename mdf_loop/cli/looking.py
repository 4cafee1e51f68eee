"""Commands that look at a model without running it: ``check``, ``explain`` and ``draw``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mdf_loop.cli import parameters
from mdf_loop.cli.console import as_json, console, say_written
from mdf_loop.cli.problems import at_work


def check(
    file: parameters.File,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Report all errors in a model, with lines.  The exit code is 1 if there are any.

    Keys and names that are not there (with what was probably meant), functions, bodies, declared types, inputs without a
    value, and what nothing reads or reaches; then what a run would refuse, with loops cut short after 1,000 iterations.
    """
    from mdf_loop.checks.model_file import ERROR
    from mdf_loop.checks.model_file import check as look_at

    with at_work(file, trusted=trusted):
        found = look_at(file, parameters.given_inputs(set_, input_))
    if json_:
        as_json({"file": str(file), "problems": [asdict(problem) for problem in found]})
    else:
        for problem in found:
            print(f"{file}{f':{problem.line}' if problem.line else ''}: {problem.kind}: {problem.message}")
        print(_counted([problem.kind for problem in found]) if found else f"{file}: nothing is wrong")
    if any(strict or problem.kind == ERROR for problem in found):
        raise typer.Exit(1)


def _counted(kinds: list[str]) -> str:
    """How many errors, warnings and notes were found, in words."""
    counts = {kind: kinds.count(kind) for kind in ("error", "warning", "note")}
    return ", ".join(f"{n or 'no'} {kind}{'s' * (n > 1)}" for kind, n in counts.items() if n or kind == "error")


def explain(
    file: parameters.File,
    set_: parameters.Set = None,
    input_: parameters.Input = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of missing inputs and of random operators.")] = 0,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    operators: Annotated[bool, typer.Option("--operators", help="Show each operator of the plan, not your equations.")] = False,
    source: Annotated[bool, typer.Option("--source", help="Also show the Python source of programs.")] = False,
    show_steps: Annotated[bool, typer.Option("--show-steps", help="Also show the Steps that programs are made from.")] = False,
    timeout: parameters.Timeout = None,
    obey_body_condition: parameters.ObeyBodyCondition = False,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Run a model once, and print how each of its loops ran: what ran once, many iterations at once, or one by one, and why.

    Inputs that are not given are drawn by their declared types.  A model that goes on from step to step runs 100 steps, or
    --steps.
    """
    from mdf_loop.models.explaining import explain_model, plans_of

    with at_work(file, seed=seed, timeout=timeout, trusted=trusted, obey_body_condition=obey_body_condition):
        inputs = parameters.given_inputs(set_, input_, file) | parameters.stepping(steps, time_increment)
        if json_:
            as_json({"file": str(file), "loops": plans_of(file, inputs)})
            return
        texts = explain_model(file, inputs, source, show_steps, operators)
    out = console()
    for text in texts:
        out.print(text, markup=False, highlight=False, soft_wrap=True)


def draw(
    file: parameters.File,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write .svg, .png or .pdf, .dot (Graphviz), .md or .mmd (Mermaid).")
    ] = None,
    level: Annotated[str, typer.Option("--level", help="What a box is: equations or operators.")] = "equations",
    steps: Annotated[
        int | None, typer.Option("--steps", help="Draw the loop that an MDF model becomes when it is evaluated so many times.")
    ] = None,
    time_increment: parameters.TimeIncrement = None,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Draw a model, with its equations, values and conditions; without --output as Mermaid text.

    Nothing is run, so no values are needed.
    """
    from mdf_loop.pictures.drawing import draw as draw_model

    with at_work(file, trusted=trusted):
        drawing = draw_model(file, steps=steps, time_increment=time_increment, level=level)
        written = drawing.save(output) if output else None
    if json_:
        as_json({"file": str(file), "written": None if written is None else str(written), "mermaid": drawing.mermaid})
    elif written is None:
        print(drawing.mermaid, end="")
    else:
        say_written(output)
