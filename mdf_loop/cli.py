"""The command ``mdf-loop``: run models and list operators from a shell."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from mdf_loop.errors import LoopError, MalformedBody, PartialResults
from mdf_loop.files import replacing, write_npz

try:
    import rich.box
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
except ImportError:  # pragma: no cover - the extra is part of the test requirements
    sys.exit('mdf-loop needs typer and rich: pip install "mdf-loop[cli]"')

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="ONNX control flow for MDF.")

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
"""Every command takes it; :func:`main` looks for it."""

Trusted = Annotated[bool, typer.Option("--trusted", help="Let the model do what only trusted models may; see options().")]
"""Every command that reads a model takes it."""


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Say how far a model came when Ctrl-C ended it; typer alone would end without a word."""
    try:
        yield
    except KeyboardInterrupt as error:
        done = getattr(error, "iteration", None)
        far = "" if done is None else f" after {_iterations(done)}"
        print(f"mdf-loop: interrupted{far}", file=sys.stderr)
        raise typer.Exit(130) from error


@app.command()
@_interruptible()
def run(
    file: Annotated[Path, typer.Argument(help="A model: .yaml, .json, .onnx or .xml (OpenVINO).")],
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An input; the value is JSON.")] = None,
    input_: Annotated[Path | None, typer.Option("--input", help="Inputs by name: .npz or .json.")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the outputs: .npz or .json.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the random stream.")] = None,
    max_iterations: Annotated[int | None, typer.Option("--max-iterations", help="Stop a loop that wants more.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Evaluate an MDF model so many times.")] = None,
    time_increment: Annotated[float | None, typer.Option("--time-increment", help="Time from step to step.")] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Keep the outputs of all steps.")] = False,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Stop after so many seconds.")] = None,
    trusted: Trusted = False,
    debug: Debug = False,
) -> None:
    """Run a model and print its outputs as a table.

    If it ends early, --output gets what is known of its outputs by then.
    """
    from mdf_loop.integrations.running import run as run_model
    from mdf_loop.options import options

    inputs = {**(_read_inputs(input_) if input_ else {}), **dict(map(_assignment, set_ or []))}
    how = {"steps": steps, "time_increment": time_increment, "collect": collect or None}
    inputs |= {name: value for name, value in how.items() if value is not None}
    if output and output.exists() and file.exists() and output.samefile(file):
        raise MalformedBody(f"--output would replace the model {str(file)!r}")
    try:
        with options(seed=seed, max_iterations=max_iterations, timeout=timeout, trusted=trusted):
            outputs = run_model(file, **inputs)
    except PartialResults as error:
        if output:
            _write_partial(output, error)
        raise
    if output:
        write_outputs(output, outputs)
    Console().print(_table(file.name, outputs))


@app.command()
@_interruptible()
def explain(
    file: Annotated[Path, typer.Argument(help="A model: .yaml, .json, .onnx or .xml (OpenVINO).")],
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An input; the value is JSON.")] = None,
    input_: Annotated[Path | None, typer.Option("--input", help="Inputs by name: .npz or .json.")] = None,
    source: Annotated[bool, typer.Option("--source", help="Show the Python that is emitted for recurrences.")] = False,
    trusted: Trusted = False,
    debug: Debug = False,
) -> None:
    """Run a model once and print how each of its loops ran: what once, what in blocks, what step by step, and why."""
    from mdf_loop.integrations.explaining import explain_model
    from mdf_loop.options import options

    inputs = {**(_read_inputs(input_) if input_ else {}), **dict(map(_assignment, set_ or []))}
    console = Console()
    with options(trusted=trusted):
        texts = explain_model(file, source=source, **inputs)
    for text in texts or ["no Loop or Scan ran"]:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


@app.command()
@_interruptible()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A model: .onnx, .yaml, .json, or .xml of OpenVINO.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="What to write: .yaml or .json for MDF, .onnx for ONNX.")],
    body: Annotated[str, typer.Option("--body", help="Bodies of loops in MDF: mdf for MDF graphs, onnx for ONNX text.")] = "mdf",
    inline: Annotated[int, typer.Option("--inline", help="Larger weights go to a .npz file beside the MDF file.")] = 1024,
    inputs: Annotated[list[str] | None, typer.Option("--as-input", help="A port or parameter that ONNX gets as input.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="To ONNX: how many times the model is evaluated.")] = None,
    time_increment: Annotated[float | None, typer.Option("--time-increment", help="By how much time goes on each step.")] = None,
    trusted: Trusted = False,
    debug: Debug = False,
) -> None:
    """Convert an ONNX or OpenVINO model to MDF, or an MDF or OpenVINO model to ONNX."""
    from mdf_loop.options import options

    with options(trusted=trusted):
        _convert(
            source,
            target,
            {"body": body, "inline": inline},
            {"inputs": inputs or (), "steps": steps, "time_increment": time_increment},
        )


def _convert(source: Path, target: Path, to_mdf: dict[str, Any], to_onnx: dict[str, Any]) -> None:
    """Convert by what the names of the files say, each way with its own settings."""
    from mdf_loop.convert import mdf_to_onnx, onnx_to_mdf

    kinds = tuple({".onnx": "onnx", ".xml": "openvino"}.get(path.suffix.lower(), "mdf") for path in (source, target))
    if kinds in (("onnx", "mdf"), ("openvino", "mdf")):
        onnx_to_mdf.convert(source, target, **to_mdf)
    elif kinds == ("mdf", "onnx"):
        mdf_to_onnx.to_onnx(source, target, **to_onnx)
    elif kinds == ("openvino", "onnx"):
        from mdf_loop.convert.openvino_to_onnx import openvino_to_onnx

        written = openvino_to_onnx(source).SerializeToString()
        with replacing(target) as place:
            place.write(written)
    else:
        raise MalformedBody(
            f"IN is .onnx or .xml and OUT .yaml or .json, or IN is .yaml, .json or .xml and OUT .onnx; "
            f"got {str(source)!r} and {str(target)!r}"
        )


@app.command()
@_interruptible()
def verify(
    file: Annotated[Path, typer.Argument(help="A model: .yaml, .json, .onnx or .xml (OpenVINO).")],
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An input; the value is JSON.")] = None,
    input_: Annotated[Path | None, typer.Option("--input", help="Inputs by name: .npz or .json.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the inputs that are not given, and of random operators.")] = 0,
    rtol: Annotated[float, typer.Option("--rtol", help="Relative tolerance.")] = 1e-5,
    atol: Annotated[float, typer.Option("--atol", help="Absolute tolerance.")] = 1e-6,
    trusted: Trusted = False,
    debug: Debug = False,
) -> None:
    """Run a model in every engine and in onnxruntime, and compare; exit code 1 if they disagree."""
    from mdf_loop.integrations.verifying import verify as compare
    from mdf_loop.options import options

    inputs = {**(_read_inputs(input_) if input_ else {}), **dict(map(_assignment, set_ or []))}
    with options(trusted=trusted):
        report = compare(file, inputs, seed, rtol, atol)
    ran = [place.name for place in report.others if place.outputs is not None]
    for first in range(0, max(len(ran), 1), ABREAST):
        Console().print(_agreement(file.name, report, ran[first : first + ABREAST]))
    for place in report.others:
        if place.outputs is None and not place.is_failure:
            Console().print(f"not in {place.name}: {place.reason}", markup=False, highlight=False)
    for text in report.disagreements:
        Console(stderr=True).print(text, markup=False, highlight=False)
    if report.disagreements:
        raise typer.Exit(1)


@app.command()
def ops() -> None:
    """List the operators there are kernels for."""
    from mdf_loop.kernels import load_kernels
    from mdf_loop.registry import INTERNAL_DOMAINS, KERNELS

    load_kernels()
    table = Table("operator", "domain", "versions from", "kernel", "in loops", box=rich.box.SIMPLE)
    for (domain, op), versions in sorted(KERNELS.items()):
        if domain in INTERNAL_DOMAINS:
            continue
        native = "native" if all(v.native for v in versions) else "onnx.reference"
        batched = "batched" if versions[-1].batch is not None else "one by one"
        table.add_row(op, domain or "ai.onnx", ", ".join(str(v.since) for v in versions), native, batched)
    Console().print(table)


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise MalformedBody(f"--set takes NAME=VALUE; got {text!r}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f'--set {name}: {value!r} is not JSON ({error}); numbers, true, [1, 2] and "text" are') from error


def _read_inputs(path: Path) -> dict[str, Any]:
    """Inputs by name from a file."""
    from mdf_loop.convert.weights_reading import open_archive
    from mdf_loop.readers.opening import read_bytes

    if path.suffix == ".npz":
        with open_archive(path) as archive:
            return {name: archive.array(name) for name in archive.names()}
    if path.suffix != ".json":
        raise MalformedBody(f"--input takes a .npz or .json file; got {str(path)!r}")
    try:
        values = json.loads(read_bytes(path, "a file of inputs").decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise MalformedBody(f"{str(path)!r} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise MalformedBody(f"{str(path)!r} must hold one JSON object: {{name: value, ...}}")
    return values


def write_outputs(path: Path, outputs: dict[str, Any]) -> None:
    """Write outputs by name: JSON keeps them readable, .npz keeps their types.

    Types that numpy does not have are widened: bfloat16 and float8 to float32, int4 to int8.

    Raises
    ------
    MalformedBody
        The file name ends in neither .npz nor .json.
    FileError
        The file cannot be written; what was there is unchanged.
    """
    if path.suffix == ".json":
        text = json.dumps({name: _plain(value) for name, value in outputs.items()}, indent=2) + "\n"
        with replacing(path) as file:
            file.write(text.encode())
    elif path.suffix == ".npz":
        arrays = {key: array for name, value in outputs.items() for key, array in _arrays(name, value)}
        with replacing(path) as file:
            write_npz(file, arrays)
    else:
        raise MalformedBody(f"--output takes a .npz or .json file; got {str(path)!r}")


def _write_partial(path: Path, error: PartialResults) -> None:
    """Write what is known of the outputs of a model that ended early, and say so."""
    done = "" if error.iteration is None else f" after {_iterations(error.iteration)}"
    if not error.outputs:
        print(f"mdf-loop: no output was known{done}, so {str(path)!r} is not written", file=sys.stderr)
        return
    write_outputs(path, error.outputs)
    print(f"mdf-loop: {', '.join(error.outputs)}{done}: written to {str(path)!r}", file=sys.stderr)


def _iterations(count: int) -> str:
    return f"{count} iteration{'' if count == 1 else 's'} of the outermost loop"


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; complex numbers become [real, imaginary]."""
    import numpy as np

    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | bool):
        return value
    array = _numpy_type(np.asarray(value))
    if array.dtype == object and array.ndim:
        return [_plain(item) for item in array]
    return np.stack([array.real, array.imag], -1).tolist() if array.dtype.kind == "c" else array.tolist()


def _arrays(name: str, value: Any) -> list[tuple[str, Any]]:
    """A value as named arrays: the elements of a sequence are numbered, those of a map have their keys."""
    import numpy as np

    if isinstance(value, list | tuple | Mapping):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        return [pair for key, item in items for pair in _arrays(f"{name}.{key}", item)]
    array = _numpy_type(_without_none(np.asarray(value)))
    return [(name, array.astype(str) if array.dtype == object else array)]


def _without_none(array: Any) -> Any:
    """The rows of steps as one array, nan in those without a value; anything else as it is."""
    import numpy as np

    is_listed = array.dtype == object and array.ndim == 1
    found = [row for row in array if row is not None] if is_listed else []
    if not found or len(found) == len(array) or len({np.shape(row) for row in found}) > 1:
        return array
    return np.stack([np.full(np.shape(found[0]), np.nan) if row is None else row for row in array])


def _numpy_type(array: Any) -> Any:
    from mdf_loop.element_types import CODES, kind_of

    if CODES.get(array.dtype, 0) >= 16:
        return array.astype({"float": "float32", "integer": "int8"}[kind_of(array.dtype)])
    return array


ABREAST = 3
"""Columns that are compared with the reference side by side: a table fits into 80 characters."""


def _agreement(title: str, report: Any, ran: Sequence[str]) -> Table:
    """How the outputs at some places are related to those of the reference."""
    from mdf_loop.integrations.verifying import REFERENCE

    table = Table("output", "type", "shape", REFERENCE, *ran, title=title, box=rich.box.SIMPLE, title_justify="left")
    for name, value in report.reference.items():
        table.add_row(escape(name), *map(escape, describe(value)), *(report.findings[name, place] for place in ran))
    return table


def _table(title: str, outputs: dict[str, Any]) -> Table:
    table = Table("output", "type", "shape", "value", title=title, box=rich.box.SIMPLE, title_justify="left")
    for name, value in outputs.items():
        table.add_row(escape(name), *map(escape, describe(value)))
    return table


def describe(value: Any) -> tuple[str, str, str]:
    """Type, shape and value of an output in a few characters each."""
    import numpy as np

    if isinstance(value, list | tuple):
        return (
            "sequence",
            f"{len(value)} values",
            ", ".join(describe(item)[2] for item in value[:3]) + (" ..." if value[3:] else ""),
        )
    if value is None:
        return "optional", "", "empty"
    array = np.asarray(value)
    name = "string" if array.dtype.kind in "OUS" and not _is_of_objects(array) else array.dtype.name
    if _is_of_objects(array) and array.ndim == 1:
        array = np.array([None if item is None else np.asarray(item).tolist() for item in array] + [None], object)[:-1]
    try:
        text = np.array2string(array, threshold=6, edgeitems=2, precision=6, suppress_small=True, max_line_width=10**6)
    except ValueError:  # Python writes no numbers of more than 4300 digits
        text = f"whole numbers of up to {max(int(item).bit_length() for item in array.flat)} bits"
    return name, str(list(array.shape)), " ".join(text.split())


def _is_of_objects(array: Any) -> bool:
    """Whether an array holds something else than texts."""
    return array.dtype == object and not all(isinstance(item, str | bytes) for item in array.flat)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: errors that we raise on purpose become one paragraph on stderr and exit code 1."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(arguments, standalone_mode=True)
    except (LoopError, KeyboardInterrupt, OSError) as error:
        if "--debug" in arguments:
            raise
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        print(f"mdf-loop: {error or 'interrupted'}{notes}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
