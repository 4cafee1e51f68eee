"""``mdf-loop draw``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdf_loop.cli.console import as_json
from mdf_loop.cli.parameters import Debug, File, Json, Steps, TimeIncrement, Trusted
from mdf_loop.cli.problems import at_work


def draw(
    file: File,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write .svg, .png or .pdf (by Graphviz), .dot, .md or .mmd (Mermaid).")
    ] = None,
    steps: Steps = None,
    time_increment: TimeIncrement = None,
    trusted: Trusted = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Draw a model, with the bodies of its loops and how the plan runs each node; without --output as Mermaid text.

    Nothing is run, so no values are needed.
    """
    from mdf_loop.options import options
    from mdf_loop.pictures.drawing import draw as draw_model

    with at_work(file), options(trusted=trusted):
        drawing = draw_model(file, steps=steps, time_increment=time_increment)
        written = drawing.save(output) if output else None
    if json_:
        as_json({"file": str(file), "written": None if written is None else str(written), "mermaid": drawing.mermaid})
    elif written is None:
        print(drawing.mermaid, end="")
