"""``mdf-loop new``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from mdf_loop.cli.console import as_json
from mdf_loop.cli.parameters import Debug, Json
from mdf_loop.errors import ArgumentError

STARTER = """\
# A model in MDF with a loop. Run it:       mdf-loop run FILE
# with other values:                        mdf-loop run FILE --set rate=0.2 --set start=5
# see whether something is wrong with it:   mdf-loop check FILE
# and look at it:                           mdf-loop draw FILE -o NAME.md
NAME:
  format: ModECI MDF v0.4
  metadata:
    description: Exponential decay, step by step, until little is left
    requires: mdf_loop
  graphs:
    NAME:
      nodes:
        decay:                       # a node; others can be joined to it by edges
          parameters:                # values; others can come from outside, by input_ports
            rate: {value: 0.5}
            start: {value: 8.0}
            dt: {value: 0.1}
            enough: {value: 0.01}
            body:                    # what happens in each iteration; any name it does not compute is a port or parameter
              value:
                carried:             # goes from one iteration to the next: the right sides see the values before it
                  x: x - dt * rate * x
                  t: t + dt
                collected:           # kept of every iteration: these see the new values
                  path: x
                while: x > enough    # goes on as long as this is true
            run:
              function: onnx::Loop
              args: {M: 10000, x: start, t: 0.0, body: body}   # at most M times; x and t start there
          output_ports:              # what was carried, as it ended, and what was collected: by their names
            left: {value: run.x}
            time: {value: run.t}
            path: {value: run.path}
"""


def new(
    name: Annotated[str, typer.Argument(help="The name of the model, and of its file: NAME.yaml.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Write a model to begin with, NAME.yaml: one node with a loop, and comments on what can be changed."""
    from mdf_loop.writers.atomic_files import replacing

    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if not re.fullmatch(r"[A-Za-z_]\w*", path.stem):
        raise ArgumentError(f"the name of a model has letters, digits and _, and does not begin with a digit; got {path.stem!r}")
    if path.exists() and not force:
        raise ArgumentError(f"there is a file {str(path)!r} already; --force replaces it")
    with replacing(path) as file:
        file.write(STARTER.replace("FILE", str(path)).replace("NAME", path.stem).encode())
    if json_:
        as_json({"written": str(path)})
    else:
        print(f"{path} is written; run it: mdf-loop run {path}")
