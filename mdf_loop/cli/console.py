"""Terminals: tables, bars, values in a few characters or as JSON; and values written to files."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich.box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mdf_loop.errors import KindError, MalformedBody, in_words


def console(stderr: bool = False) -> Console:
    """Where a command writes: as wide as the terminal, and no narrower than a table needs in a file or a pipe."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if is_terminal else max(120, shutil.get_terminal_size().columns))


def take_any_text() -> None:
    """Let stdout and stderr take any text: a question mark shows what their encoding does not have (cp1252, ASCII).

    Where one is closed, as both are in a windowed program on Windows, what is written to it is lost.
    """
    for name in ("stdout", "stderr"):
        out = getattr(sys, name)
        if out is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(out, io.TextIOWrapper) and out.errors == "strict":
            out.reconfigure(errors="replace")


def refuse_missing_folders(*paths: Path | None) -> None:
    """See that the folders of files to be written are there, before anything runs.

    Raises
    ------
    MalformedBody
    """
    for path in paths:
        if path is not None and path.suffix != ".zarr" and not path.parent.is_dir():
            raise MalformedBody(f"{str(path)!r} cannot be written: there is no folder {str(path.parent)!r}")


def refuse_other_pictures(path: Path | None) -> None:
    """See that a picture can be written to a file of that name, before anything runs.

    Raises
    ------
    MalformedBody
    """
    from mdf_loop.plots.plot import KINDS

    if path is not None and path.suffix.lower()[1:] not in KINDS:
        raise MalformedBody(f"a picture is written to a {', '.join(f'.{kind}' for kind in KINDS)} file; got {str(path)!r}")


def save_picture(source: Any, path: Path, names: list[str] | None = None) -> None:
    """Write a picture of results.

    Raises
    ------
    LoopError
        There is nothing to draw, matplotlib is not installed, or the file cannot be written.
    """
    from mdf_loop.plots.plot import figure, written
    from mdf_loop.writers.atomic_files import replacing

    content = written(figure(source, names or ()), path.suffix.lower()[1:])
    with replacing(path) as file:
        file.write(content)


def save_plot(source: Any, path: Path | None, is_silent: bool) -> None:
    """Write the picture that ``--plot`` asks for, last of all: what cannot be drawn is not lost.

    Raises
    ------
    LoopError
        As :func:`save_picture`.
    """
    if path is not None:
        save_picture(source, path)
        say_written(None if is_silent else path)


def spelt(text: str, plain: str) -> str:
    """A text, or a plainer one where the encoding of stdout does not have its characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return plain
    return text


def table(*columns: str, title: str | None = None) -> Table:
    """A table in the style of all of them."""
    return Table(*columns, title=title, box=rich.box.SIMPLE, title_justify="left")


def outputs_table(title: str, outputs: Mapping[str, Any], about: Any) -> Table:
    """The outputs of a model with their types, shapes and values; of numbers of trials the mean and the standard deviation."""
    from mdf_loop.models.ended_runs import cut_off
    from mdf_loop.models.html_tables import spread

    made = table("output", "type", "shape", "value", title=title + cut_off(about))
    for name, value in outputs.items():
        kind, shape, text = describe(value)
        said = "" if about.trials is None else spread(name, value)
        made.add_row(escape(name), kind, escape(shape), escape(said or text))
    return made


def say_written(path: Path | None) -> None:
    """Say that a file was written, beside what a command prints."""
    if path is not None:
        print(f"mdf-loop: written to {str(path)!r}", file=sys.stderr)


def bars(rows: Sequence[tuple[str, float]], width: int = 40) -> list[str]:
    """A bar for each number, as long as it is large next to the largest."""
    longest = max((value for _, value in rows), default=1.0) or 1.0
    block = spelt("█", "#")
    return [block * max(1, round(width * value / longest)) if value else "" for _, value in rows]


def write_json(path: Path, outputs: Mapping[str, Any]) -> None:
    """Write outputs by name as JSON.

    Types that numpy does not have are widened: bfloat16 and float8 to float32, int4 to int8.

    Raises
    ------
    KindError
        A whole number is longer than other programs read, and Python writes.
    FileError
        The file cannot be written; what was there is unchanged.
    """
    from mdf_loop.writers.atomic_files import replacing

    for name, value in outputs.items():
        _refuse_long(name, value)
    text = json.dumps({name: plain(value) for name, value in outputs.items()}, indent=2) + "\n"
    with replacing(path) as file:
        file.write(text.encode())


LONGEST = 14_000
"""Bits of whole numbers in files: about the 4,300 digits that Python reads and writes."""


def _refuse_long(name: str, value: Any) -> None:
    """See that Python writes the whole numbers of an output: what it does not write it does not read."""
    import numpy as np

    if isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            _refuse_long(name, item)
        return
    array = np.asarray(value)
    for item in array.flat if array.dtype == object else ():
        if isinstance(item, int) and item.bit_length() > LONGEST:
            raise KindError(f"output {name!r} is not written: it has {in_words(item)}; files hold those of up to {LONGEST}")


def as_json(content: Any) -> None:
    """Print what a command found as JSON, which knows neither infinities nor nan: those are null."""
    print(json.dumps(_finite(content), indent=2))


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def described(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs by name for JSON: type, shape and the whole value of each."""
    found = {}
    for name, value in outputs.items():
        kind, shape, _ = describe(value)
        found[name] = {"type": kind, "shape": json.loads(shape) if shape.startswith("[") else None, "value": plain(value)}
    return found


def plain(value: Any) -> Any:
    """A value as JSON can hold it; complex numbers become [real, imaginary]."""
    import numpy as np

    from mdf_loop.models.written import widened

    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool):
        return value
    array = widened(np.asarray(value))
    if array.dtype == object and array.ndim:
        return [plain(item) for item in array]
    return np.stack([array.real, array.imag], -1).tolist() if array.dtype.kind == "c" else array.tolist()


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
    few = _finite_ones(array)
    try:
        text = few or np.array2string(array, threshold=6, edgeitems=2, precision=6, suppress_small=True, max_line_width=10**6)
    except ValueError:  # Python writes no numbers of more than 4300 digits
        text = f"whole numbers of up to {max(int(item).bit_length() for item in array.flat)} bits"
    return name, str(list(array.shape)), " ".join(text.split())


def _finite_ones(array: Any) -> str:
    """The first numbers of an array of which only nan would be shown; empty for any other."""
    import numpy as np

    if array.dtype.kind != "f" or array.size <= 6:
        return ""
    ends = array[np.ix_(*([*{*range(size)} & {0, 1, size - 2, size - 1}] for size in array.shape))]
    there = array[~np.isnan(array)]
    if not there.size or not np.isnan(ends).all():
        return ""
    few = " ".join(f"{value:.6g}" for value in there[:3])
    return f"{few} ... and {array.size - there.size} of {array.size} are nan"


def _is_of_objects(array: Any) -> bool:
    """Whether an array holds something else than texts."""
    return array.dtype == object and not all(isinstance(item, str | bytes) for item in array.flat)
