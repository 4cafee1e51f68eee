"""``mdf-loop new`` and ``mdf-loop convert``: model files are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from mdf_loop.cli.console import as_json
from mdf_loop.cli.parameters import Debug, Json, Steps, TimeIncrement, Trusted
from mdf_loop.cli.problems import at_work
from mdf_loop.errors import ArgumentError, MalformedBody

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


KINDS = {".onnx": "onnx", ".xml": "openvino", ".yaml": "mdf", ".yml": "mdf", ".json": "mdf"}
"""What a file is, by the end of its name."""


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A model: .onnx, .yaml, .json, or .xml of OpenVINO.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="What to write: .yaml or .json for MDF, .onnx for ONNX.")],
    body: Annotated[str, typer.Option("--body", help="Bodies of loops in MDF: mdf for MDF graphs, onnx for ONNX text.")] = "mdf",
    inline: Annotated[int, typer.Option("--inline", help="Larger weights go to a .npz file beside the MDF file.")] = 1024,
    inputs: Annotated[
        list[str] | None, typer.Option("--as-input", help="A parameter that is an input in ONNX, as ports are.")
    ] = None,
    steps: Steps = None,
    time_increment: TimeIncrement = None,
    trusted: Trusted = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Convert an ONNX or OpenVINO model to MDF, an MDF or OpenVINO model to ONNX, or an MDF model from YAML to JSON or back."""
    from mdf_loop.options import options

    with at_work(source), options(trusted=trusted):
        to_mdf = {"body": body, "inline": inline}
        to_onnx = {"inputs": inputs or (), "steps": steps, "time_increment": time_increment}
        _convert(source, target, to_mdf, to_onnx)
    if json_:
        as_json({"read": str(source), "written": str(target)})


def _convert(source: Path, target: Path, to_mdf: dict[str, Any], to_onnx: dict[str, Any]) -> None:
    """Convert by what the names of the files say, each way with its own settings."""
    from mdf_loop.convert import mdf_to_onnx, onnx_to_mdf, rewriting

    if source.exists() and target.exists() and source.samefile(target):
        raise MalformedBody(f"IN and OUT are one file, {str(source)!r}; the file would lose its comments")
    kinds = tuple(KINDS.get(path.suffix.lower(), "") for path in (source, target))
    if kinds in (("onnx", "mdf"), ("openvino", "mdf")):
        onnx_to_mdf.convert(source, target, **to_mdf)
    elif kinds == ("mdf", "onnx"):
        mdf_to_onnx.to_onnx(source, target, **to_onnx)
    elif kinds == ("mdf", "mdf"):
        rewriting.rewrite(source, target)
    elif kinds == ("openvino", "onnx"):
        from mdf_loop.convert.openvino_to_onnx import openvino_to_onnx
        from mdf_loop.writers.atomic_files import replacing

        written = openvino_to_onnx(source).SerializeToString()
        with replacing(target) as place:
            place.write(written)
    else:
        raise MalformedBody(
            f"IN is .onnx, .xml, .yaml or .json and OUT .yaml, .json or .onnx, of another kind than IN; "
            f"got {str(source)!r} and {str(target)!r}"
        )
