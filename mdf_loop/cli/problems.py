"""Errors and warnings on stderr: one paragraph, with the file and the line where they can be found."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from mdf_loop.cli.console import console
from mdf_loop.errors import LoopError, hints_of, let_through


class Interrupted(Exception):
    """Ctrl-C, as an exception that typer does not end the process for; the cause knows how far the model came."""


@contextlib.contextmanager
def at_work(file: Path | None = None, **chosen: Any) -> Iterator[None]:
    """Work on a file, with these options: errors are reported with it.

    Raises
    ------
    Interrupted
        Ctrl-C.
    """
    from mdf_loop.options import options

    try:
        with options(**chosen):
            yield
    except KeyboardInterrupt as error:
        raise Interrupted from error
    except LoopError as error:
        if file is not None:
            error.file = file  # type: ignore[attr-defined]
        raise


def iterations(count: int) -> str:
    """So many iterations, in words."""
    return f"{count} iteration{'' if count == 1 else 's'} of the outermost loop"


@contextlib.contextmanager
def telling_warnings(as_json: bool, options: Collection[str]) -> Iterator[None]:
    """Report warnings as errors are, in paragraphs of their own, without the lines of Python that they come from; each once."""
    seen = set[str]()

    def tell(message: Warning | str, *_: object) -> None:
        said = as_typed(str(message), options)
        if said in seen:
            return
        seen.add(said)
        if as_json:
            print(json.dumps({"warning": {"message": said}}), file=sys.stderr)
        else:
            console(stderr=True).print(Text.assemble("mdf-loop: ", ("warning: ", "yellow"), said), soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = tell  # type: ignore[assignment]
        yield


def as_typed(message: str, options: Collection[str]) -> str:
    """A message with options as they are typed: ``--timeout 2`` for ``options(timeout=2)``, ``--store`` for ``store=``."""

    def typed(found: re.Match[str]) -> str:
        said, value = found[1] or found[3], (found[2] or "").removesuffix("...")
        name = f"--{said.replace('_', '-')}"
        return found[0] if said not in options else name if value in ("", "True") else f"{name} {value}"

    return _OPTION.sub(typed, message)


_OPTION = re.compile(
    r"options\((\w+)=([^()]*)\)(?:,(?: or)? (?:--[\w-]+ on the command line|on the command line --[\w-]+),?)?"
    r"|(?<![\w.-])(\w+)=(?=[\s,.;)]|$)(?:\.{3})?"
)


def report(error: BaseException, as_json: bool, options: Collection[str] = ()) -> None:
    """Tell of an error: a paragraph, or one JSON object; ``options`` are those of the command, by their names in Python."""
    file = getattr(error, "file", None)
    line = _line(file, error) if file is not None else None
    notes = [note for note in getattr(error, "__notes__", ()) if line is None or not note.startswith(f"in {file}")]
    notes = list(dict.fromkeys([*hints_of(error), *notes]))
    said = _said(error)
    if file is not None:
        from mdf_loop.convert.locating import without_line

        said = without_line(said, file, line)
    message = as_typed("; ".join([said, *notes]), options)
    if as_json:
        found = {"type": type(error).__name__, "message": message, "file": None if file is None else str(file), "line": line}
        print(json.dumps({"error": found}), file=sys.stderr)
    else:
        print(f"mdf-loop: {f'{file}:{line}: ' if line else ''}{message}", file=sys.stderr)


def _said(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        done = getattr(error, "iteration", None)
        return "interrupted" if done is None else f"interrupted after {iterations(done)}"
    return f"there is not enough memory: {error}" if isinstance(error, MemoryError) else str(error)


def _line(file: Path, error: BaseException) -> int | None:
    """The line of a model file that an error is about; None where it is not known."""
    from mdf_loop.convert.locating import line_of_error

    try:
        return line_of_error(file, error)
    except (LoopError, ValueError, OSError) as error:  # the file is what is wrong
        let_through(error)
        return None
