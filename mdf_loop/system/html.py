"""HTML for notebooks: tables, what folds, and errors.  Colours are translucent, so that they serve on light and on dark."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

_CELL = "text-align:left;vertical-align:top;padding:2px 10px"
_LINE = "border-left:3px solid"


def escaped(text: object) -> str:
    """A text that HTML takes for nothing else."""
    return html.escape(str(text))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> str:
    """A table; texts in it are escaped.  ``colours`` are those of the marks in front of the rows."""
    head = "".join(f'<th style="{_CELL}">{escaped(name)}</th>' for name in columns)
    body = []
    for k, row in enumerate(rows):
        mark = f' style="{_LINE} {colours[k]}"' if k < len(colours) else ""
        cells = "".join(f'<td style="{_CELL}"><code>{escaped(text)}</code></td>' for text in row)
        body.append(f"<tr{mark}>{cells}</tr>")
    inner = f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f'<div style="overflow-x:auto"><table style="border-collapse:collapse">{inner}</table></div>'


def image(kind: str, content: bytes, alt: str, least: int = 0) -> str:
    """A picture inside the page; nothing in it can run, whatever it contains.

    It is never wider than the page, unless that is narrower than ``least`` pixels: then it scrolls.
    """
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    style = f"max-width:100%;height:auto;background:white{f';min-width:{least}px' if least else ''}"
    shown = f'<img alt="{escaped(alt)}" style="{style}" src="{source}">'
    return f'<div style="overflow-x:auto">{shown}</div>' if least else shown


def preformatted(text: str) -> str:
    """A text whose lines and spaces stay; lines that are too long for the page are broken."""
    return f'<pre style="white-space:pre-wrap">{escaped(text)}</pre>'


def folded(title: str, inner: str, is_open: bool = True) -> str:
    """Something under a title that folds it away; ``inner`` is HTML already."""
    opened = " open" if is_open else ""
    return f'<details{opened} style="margin:4px 0 4px 8px"><summary>{escaped(title)}</summary>{inner}</details>'


def error_box(kind: str, message: str, notes: Sequence[str] = ()) -> str:
    """An error: what it is, what it says, and where."""
    listed = "".join(f"<li>{escaped(note)}</li>" for note in notes)
    return (
        f'<div style="{_LINE} #c0392b;background:rgba(192,57,43,0.12);padding:6px 12px;overflow-wrap:anywhere">'
        f"<b>{escaped(kind)}</b><br>{escaped(message)}{f'<ul>{listed}</ul>' if notes else ''}</div>"
    )
