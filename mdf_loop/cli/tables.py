"""Tables and bars for terminals."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import rich.box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mdf_loop.cli.console import describe


def console(stderr: bool = False) -> Console:
    """Where a command writes: as wide as the terminal, and no narrower than a table needs in a file or a pipe."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if is_terminal else max(120, shutil.get_terminal_size().columns))


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
    return ["█" * max(1, round(width * value / longest)) if value else "" for _, value in rows]
