"""``mdf-loop cache``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mdf_loop.cli.console import as_json
from mdf_loop.cli.parameters import Debug, Json
from mdf_loop.cli.tables import console


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete what is kept.")] = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Say where machine code is kept between processes, and how much of it there is.

    MDF_LOOP_CACHE names another folder, or "off"; MDF_LOOP_CACHE_BYTES says how much may be kept.
    """
    from mdf_loop.backends.llvm.disk import disk

    kept = disk()
    deleted = kept.clear() if kept is not None and clear else 0
    found = state()
    if json_:
        as_json({**found, "deleted": deleted} if clear else found)
        return
    out = console()
    if clear:
        out.print(f"deleted {_entries(deleted)}", highlight=False)
    out.print(in_words(found), markup=False, highlight=False, soft_wrap=True)


def state() -> dict[str, Any]:
    """``path`` (None if there is none), ``entries``, ``bytes``, ``most_bytes``, and ``refusal``: why it is not used."""
    from mdf_loop.backends.llvm.disk import FOLDER, disk

    kept = disk()
    if kept is None:
        return {
            "path": None,
            "entries": 0,
            "bytes": 0,
            "most_bytes": 0,
            "refusal": f"{FOLDER} is off, or there is no home folder",
        }
    sizes = [each.size for each in kept.kept()]
    return {
        "path": str(kept.path),
        "entries": len(sizes),
        "bytes": sum(sizes),
        "most_bytes": kept.most_bytes,
        "refusal": kept.refusal(),
    }


def in_words(found: dict[str, Any]) -> str:
    """A state in one line."""
    if not found["path"]:
        return f"machine code is not kept: {found['refusal']}"
    if found["refusal"]:
        return f"{found['path']} is not used: {found['refusal']}"
    return f"{found['path']}: {_entries(found['entries'])}, {found['bytes']:,} bytes of at most {found['most_bytes']:,}"


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"
