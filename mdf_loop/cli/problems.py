"""Errors and warnings on stderr: one paragraph, with the file and the line where they can be found."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path

import typer
from rich.text import Text

from mdf_loop.cli.console import console
from mdf_loop.errors import LoopError, hints_of, let_through


@contextlib.contextmanager
def at_work(file: Path | None = None) -> Iterator[None]:
    """Work on a file: errors are reported with it, and Ctrl-C says how far a model came (typer alone ends without a word)."""
    try:
        yield
    except KeyboardInterrupt as error:
        done = getattr(error, "iteration", None)
        far = "" if done is None else f" after {iterations(done)}"
        print(f"mdf-loop: interrupted{far}", file=sys.stderr)
        raise typer.Exit(130) from error
    except LoopError as error:
        if file is not None:
            error.file = file  # type: ignore[attr-defined]
        raise


def iterations(count: int) -> str:
    """So many iterations, in words."""
    return f"{count} iteration{'' if count == 1 else 's'} of the outermost loop"


@contextlib.contextmanager
def telling_warnings(as_json: bool, options: Collection[str]) -> Iterator[None]:
    """Report warnings as errors are, in paragraphs of their own, without the lines of Python that they come from."""

    def tell(message: Warning | str, *_: object) -> None:
        said = as_typed(str(message), options)
        if as_json:
            print(json.dumps({"warning": {"message": said}}), file=sys.stderr)
        else:
            console(stderr=True).print(Text.assemble("mdf-loop: ", ("warning: ", "yellow"), said), soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = tell  # type: ignore[assignment]
        yield


def as_typed(message: str, options: Collection[str]) -> str:
    """A message with options as they are typed: ``--timeout 2`` for ``options(timeout=2)``."""

    def typed(found: re.Match[str]) -> str:
        name, value = f"--{found[1].replace('_', '-')}", found[2].removesuffix("...")
        known = found[1] in options
        return found[0] if not known else name if value in ("", "True") else f"{name} {value}"

    return _OPTION.sub(typed, message)


_OPTION = re.compile(r"options\((\w+)=([^()]*)\)(?:,(?: or)? (?:--\w+ on the command line|on the command line --\w+),?)?")


def report(error: BaseException, as_json: bool, options: Collection[str] = ()) -> None:
    """Tell of an error: a paragraph, or one JSON object; ``options`` are those of the command, by their names in Python."""
    file = getattr(error, "file", None)
    line = _line(file, error) if file is not None else None
    notes = [note for note in getattr(error, "__notes__", ()) if line is None or note != f"in {file}"]
    notes = list(dict.fromkeys([*hints_of(error), *notes]))
    message = as_typed("; ".join([str(error) or "interrupted", *notes]), options)
    if as_json:
        found = {"type": type(error).__name__, "message": message, "file": None if file is None else str(file), "line": line}
        print(json.dumps({"error": found}), file=sys.stderr)
    else:
        print(f"mdf-loop: {f'{file}:{line}: ' if line else ''}{message}", file=sys.stderr)


def _line(file: Path, error: BaseException) -> int | None:
    """The line of a model file that an error is about; None where it is not known."""
    from mdf_loop.convert.locating import line_of_error

    try:
        return line_of_error(file, error)
    except (LoopError, ValueError, OSError) as error:  # the file is what is wrong
        let_through(error)
        return None
