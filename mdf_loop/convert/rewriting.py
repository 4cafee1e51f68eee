"""An MDF model from YAML to JSON, or back: the same content in the other notation."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mdf_loop.convert.file_text import model_text
from mdf_loop.convert.kept_model import files_in
from mdf_loop.convert.loading import read_content
from mdf_loop.errors import MalformedBody
from mdf_loop.writers.atomic_files import replacing


def rewrite(source: Path, target: Path) -> None:
    """Write an MDF model file in the notation that the name of the target asks for.

    Nothing of it is changed or repaired; comments of YAML are left out, which JSON does not have.

    Parameters
    ----------
    source, target : Path
        Files of type .json, .yaml or .yml.

    Raises
    ------
    MalformedBody
        The source is no MDF model; it says what the other notation cannot; or it names files beside it, and the target
        is in another folder.
    FileError
        The target cannot be written; what was there is unchanged.
    """
    content = read_content(source)
    beside = sorted(set(files_in(content)))
    if beside and source.resolve().parent != target.resolve().parent:
        raise MalformedBody(
            f"{os.fspath(source)!r} names files beside it ({', '.join(beside)}), so {os.fspath(target)!r} must lie in the same "
            "folder"
        )
    _refuse_foreign(content, source)
    written = model_text(content, target.suffix.lower()).encode()
    with replacing(target) as file:
        file.write(written)


def _refuse_foreign(content: Any, source: Path) -> None:
    for value in _values(content):
        if isinstance(value, float) and not math.isfinite(value):
            continue  # both notations, as Python reads them, have words for these
        if not isinstance(value, dict | list | str | int | float | bool | None):
            raise MalformedBody(
                f"{os.fspath(source)!r} contains {value!r} ({type(value).__name__}), which JSON cannot hold; put it in quotes"
            )


def _values(content: Any) -> Iterator[Any]:
    todo = [content]
    while todo:
        value = todo.pop()
        yield value
        todo += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
