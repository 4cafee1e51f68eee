"""Tables and bars for terminals."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import rich.box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mdf_loop.cli.values import describe


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


def outputs_table(title: str, outputs: Mapping[str, Any]) -> Table:
    """The outputs of a model with their types, shapes and values."""
    made = table("output", "type", "shape", "value", title=title)
    for name, value in outputs.items():
        made.add_row(escape(name), *map(escape, describe(value)))
    return made


def bars(rows: Sequence[tuple[str, float]], width: int = 40) -> list[str]:
    """A bar for each number, as long as it is large next to the largest."""
    longest = max((value for _, value in rows), default=1.0) or 1.0
    block = spelt("█", "#")
    return [block * max(1, round(width * value / longest)) if value else "" for _, value in rows]
