"""``mdf-loop convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mdf_loop.cli.console import as_json, say_written
from mdf_loop.cli.parameters import Debug, Json, Steps, TimeIncrement, Trusted
from mdf_loop.cli.problems import at_work
from mdf_loop.errors import MalformedBody

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
    else:
        say_written(target)


def _convert(source: Path, target: Path, to_mdf: dict[str, Any], to_onnx: dict[str, Any]) -> None:
    """Convert by what the names of the files say, each way with its own settings."""
    from mdf_loop.convert import mdf_to_onnx, onnx_to_mdf, rewriting

    if source.exists() and target.exists() and source.samefile(target):
        raise MalformedBody(f"IN and OUT are one file, {str(source)!r}; it would be written again, without its comments")
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
            f"IN is .onnx, .xml, .yaml or .json and OUT .yaml, .json or .onnx, another kind than IN's; "
            f"got {str(source)!r} and {str(target)!r}"
        )
