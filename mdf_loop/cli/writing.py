"""``mdf-loop new`` and ``mdf-loop convert``: model files are written."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mdf_loop.cli import parameters
from mdf_loop.cli.console import as_json, say_written
from mdf_loop.cli.problems import at_work
from mdf_loop.errors import ArgumentError, MalformedBody, shortened

STARTER = """\
# A model in MDF with a loop. Run it:       mdf-loop run FILE
# with other values:                        mdf-loop run FILE --set rate=0.2 --set start=5
# check it for errors:                      mdf-loop check FILE
# draw it:                                  mdf-loop draw FILE -o NAME.md
NAME:
  format: ModECI MDF v0.4
  metadata:
    description: Exponential decay in steps, until x is small
    requires: mdf_loop
  graphs:
    NAME:
      nodes:
        decay:                       # a node; edges can join it to other nodes
          parameters:                # values; input_ports can bring others from outside
            rate: {value: 0.5}
            start: {value: 8.0}
            dt: {value: 0.1}
            enough: {value: 0.01}
            body:                    # runs in each iteration; all other names are ports or parameters
              value:
                carried:             # passes to the next iteration; the right sides read the values before
                  x: x - dt * rate * x
                  t: t + dt
                collected:           # recorded in every iteration; the right sides read the new values
                  path: x
                while: x > enough    # the loop continues while this is true
            run:
              function: onnx::Loop
              args: {M: 10000, x: start, t: 0.0, body: body}   # at most M iterations; initial values of x and t
          output_ports:              # the last carried values, and the collected values
            left: {value: run.x}
            time: {value: run.t}
            path: {value: run.path}
"""


def new(
    name: Annotated[str, typer.Argument(help="The name of the model, and of its file: NAME.yaml.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Write a small model, NAME.yaml: one node with a loop, and comments that explain what you can change."""
    from mdf_loop.writers.atomic_files import replacing

    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if not re.fullmatch(r"[A-Za-z_]\w*", path.stem):
        raise ArgumentError(f"the name of a model has letters, digits and _, and does not begin with a digit; got {path.stem!r}")
    if path.exists() and not force:
        raise ArgumentError(f"{str(path)!r} exists already; --force replaces it")
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
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: .yaml or .json for MDF, .onnx for ONNX.")],
    body: Annotated[
        str | None,
        typer.Option(
            "--body", metavar="mdf|onnx", help="Bodies of loops in MDF: mdf for MDF graphs, the default, or onnx for ONNX text."
        ),
    ] = None,
    inline: Annotated[
        int, typer.Option("--inline", help="Weights with more elements go to a .npz file next to the MDF file.")
    ] = 1024,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--as-input", metavar="NAME", help="A parameter that becomes an input in ONNX, as ports do; others are constants."
        ),
    ] = None,
    steps: parameters.Steps = None,
    time_increment: parameters.TimeIncrement = None,
    trusted: parameters.Trusted = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Convert an ONNX or OpenVINO model to MDF, an MDF or OpenVINO model to ONNX, or an MDF model from YAML to JSON or back."""
    with at_work(source, trusted=trusted):
        to_mdf = {"body": body, "inline": inline}
        to_onnx = {"inputs": inputs or (), "steps": steps, "time_increment": time_increment}
        given, constants = _convert(source, target, to_mdf, to_onnx)
    if json_:
        as_json({"read": str(source), "written": str(target), "inputs": given, "constants": constants})
        return
    say_written(target)
    if given:
        print(f"mdf-loop: {_of_inputs(given)}", file=sys.stderr)
    if constants:
        print(
            f"mdf-loop: constants in it: {', '.join(constants)} (--as-input {constants[0]} makes one an input)", file=sys.stderr
        )


def _of_inputs(inputs: Mapping[str, Any]) -> str:
    """The inputs of an ONNX file, and how a tool finds those with a default."""
    defaults = {name: "" if default is None else json.dumps(default) for name, default in inputs.items()}
    shown = {name: default and f" (default {shortened(default, 40)})" for name, default in defaults.items()}
    how = "; onnxruntime lists those with a default in get_overridable_initializers(), --as-input NAME writes one without"
    return f"inputs in it: {', '.join(name + default for name, default in shown.items())}{how if any(shown.values()) else ''}"


def _convert(source: Path, target: Path, to_mdf: dict[str, Any], to_onnx: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Convert by what the names of the files say, each way with its own settings.

    Returns what an ONNX file that is written has as inputs, with their defaults, and what it has as constants.
    """
    from mdf_loop.convert import converting, mdf_to_onnx

    if source.exists() and target.exists() and source.samefile(target):
        raise MalformedBody(f"IN and OUT are one file, {str(source)!r}; the file would lose its comments")
    kinds = tuple(KINDS.get(path.suffix.lower(), "") for path in (source, target))
    if kinds in (("onnx", "mdf"), ("openvino", "mdf")):
        converting.convert(source, target, **to_mdf)
    elif kinds == ("mdf", "onnx"):
        inputs = mdf_to_onnx.inputs_of(mdf_to_onnx.to_onnx(source, target, **to_onnx))
        return inputs, mdf_to_onnx.constants_of(source, to_onnx["inputs"]) if to_onnx["steps"] is None else []
    elif kinds == ("mdf", "mdf"):
        converting.rewrite(source, target)
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
    return {}, []
