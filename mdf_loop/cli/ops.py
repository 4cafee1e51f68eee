"""``mdf-loop ops``."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

from mdf_loop.cli.console import as_json
from mdf_loop.cli.parameters import Debug, Json
from mdf_loop.cli.tables import console, table
from mdf_loop.errors import ArgumentError


def ops(
    filter_: Annotated[str, typer.Argument(metavar="[FILTER]", help="A part of their names, such as reduce.")] = "",
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """List the operators that a body can use: all, or those with FILTER in their name."""
    rows = _rows()
    found = [row for row in rows if filter_.lower() in row["operator"].lower()]
    if not found:
        close = difflib.get_close_matches(filter_.lower(), [row["operator"].lower() for row in rows], 3)
        names = [row["operator"] for row in rows if row["operator"].lower() in close]
        raise ArgumentError(
            f"no operator has {filter_!r} in its name" + (f"; did you mean {' or '.join(names)}?" if names else "")
        )
    if json_:
        as_json(found)
        return
    made = table("operator", "domain", "versions from", "kernel", "in loops")
    for row in found:
        made.add_row(row["operator"], row["domain"], ", ".join(map(str, row["versions"])), row["kernel"], row["in_loops"])
    console().print(made)


def _rows() -> list[dict[str, Any]]:
    from mdf_loop.kernels import load_kernels
    from mdf_loop.ops.registry import INTERNAL_DOMAINS, KERNELS, way_in_loops

    load_kernels()
    return [
        {
            "operator": op,
            "domain": domain or "ai.onnx",
            "versions": [v.since for v in versions],
            "kernel": "native" if all(v.native for v in versions) else "onnx.reference",
            "in_loops": way_in_loops(versions),
        }
        for (domain, op), versions in sorted(KERNELS.items())
        if domain not in INTERNAL_DOMAINS
    ]
