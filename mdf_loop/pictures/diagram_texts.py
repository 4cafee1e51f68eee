"""Pictures as text: in the language of Graphviz, with what its command ``dot`` makes of it, and as Mermaid."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator

from mdf_loop.errors import LoopError
from mdf_loop.pictures.boxes import COLOURS, CONDITION, INPUT, LEGEND, OUTPUT, Box, Cluster, Picture

SECONDS = 60.0
"""How long ``dot`` may take."""

_SHAPES = {INPUT: "ellipse", OUTPUT: "parallelogram", CONDITION: "hexagon"}


def dot_text(picture: Picture) -> str:
    """A digraph in Graphviz's language."""
    return "\n".join(_lines(picture)) + "\n"


def dot_command() -> str | None:
    """The path of the command ``dot``; None where it is not installed."""
    return shutil.which("dot")


def rendered(text: str, kind: str) -> bytes:
    """What ``dot`` makes of its text.

    Parameters
    ----------
    text : str
    kind : {"svg", "png", "pdf"}

    Raises
    ------
    LoopError
        It is not installed, fails, or takes too long.
    """
    command = dot_command()
    if command is None:
        raise LoopError(
            f"a .{kind} is drawn by Graphviz, whose command dot is not installed (on Debian: apt install graphviz; on macOS: "
            "brew install graphviz); .md and .mmd hold Mermaid text, which needs nothing"
        )
    try:
        done = subprocess.run([command, f"-T{kind}"], input=text.encode(), capture_output=True, timeout=SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        raise LoopError(f"dot failed: {error.stderr.decode(errors='replace').strip()[:400]}") from error
    except subprocess.TimeoutExpired as error:
        raise LoopError(f"dot was not done after {SECONDS:g} seconds; .md takes Mermaid text") from error
    return done.stdout


def _lines(picture: Picture) -> Iterator[str]:
    yield "digraph model {"
    yield '  graph [rankdir=TB, fontname="Helvetica", fontsize=12, bgcolor="white", compound=true]'
    yield '  node [fontname="Helvetica", fontsize=11, style="filled,rounded", color="#555555", fontcolor="#111111", shape=box]'
    yield '  edge [fontname="Helvetica", fontsize=9, color="#555555", fontcolor="#555555"]'
    yield from _cluster(picture.top, "  ", is_top=True)
    for arrow in picture.arrows:
        ends, style = (arrow.tail, arrow.head), ""
        if arrow.is_back:  # drawn from its head, so that dot keeps room for its label
            ends, style = ends[::-1], ', dir=back, style=dashed, color="#b03a2e", fontcolor="#b03a2e"'
        label = f" {arrow.label} " if arrow.is_back else arrow.label
        yield f"  {' -> '.join(ends)} [label={_quoted(label)}{style}]"
    yield from _legend(picture)
    yield "}"


def _legend(picture: Picture) -> Iterator[str]:
    """A table below the picture, to which what is lowest leads without a line."""
    kinds = picture.kinds()
    if not kinds:
        return
    cells = [f'<TR><TD PORT="legend_{kind}" BGCOLOR="{COLOURS[kind]}">{LEGEND[kind]}</TD></TR>' for kind in kinds]
    rows = f'<TR><TD BORDER="0">how the plan runs a node</TD></TR>{"".join(cells)}'
    yield f'  legend [shape=plain, style="", fontsize=9, label=<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="3">{rows}</TABLE>>]'
    tails = {arrow.tail for arrow in picture.arrows if not arrow.is_back}
    yield from (f"  {box.key} -> legend [style=invis]" for box in picture.top.all_boxes() if box.key not in tails)


def _cluster(cluster: Cluster, margin: str, is_top: bool = False) -> Iterator[str]:
    yield f"{margin}subgraph cluster_{cluster.key} {{"
    yield f'{margin}  label={_quoted(cluster.title)}; labeljust=l; style=rounded; color="{"#ffffff" if is_top else "#888888"}"'
    yield from _inside(cluster, margin + "  ", _box, _cluster)
    yield f"{margin}}}"


def _inside(
    cluster: Cluster, margin: str, box_text: Callable[[Box], str], text: Callable[[Cluster, str], Iterator[str]]
) -> Iterator[str]:
    """The boxes of a cluster, and the clusters in it that are not empty."""
    yield from (f"{margin}{box_text(box)}" for box in cluster.boxes)
    for inner in cluster.clusters:
        if next(inner.all_boxes(), None) is not None:
            yield from text(inner, margin)


def _box(box: Box) -> str:
    more = f", shape={_SHAPES[box.kind]}" if box.kind in _SHAPES else ""
    tip = f", tooltip={_quoted(box.tip)}" if box.tip else ""
    return f'{box.key} [label={_quoted(chr(10).join(box.lines))}, fillcolor="{COLOURS[box.kind]}"{more}{tip}]'


def _quoted(text: str) -> str:
    """A text in quotes, whatever is in it."""
    for letter, said in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", " "), ("\0", " ")):
        text = text.replace(letter, said)
    return f'"{text}"'


_BRACKETS = {INPUT: ("([", "])"), OUTPUT: ("[/", "/]"), CONDITION: ("{{", "}}")}


def mermaid_text(picture: Picture) -> str:
    """A flowchart: ``flowchart TD`` and what follows."""
    return "\n".join(_flowchart(picture)) + "\n"


def _flowchart(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    yield from _subgraph(picture.top, "  ")
    for arrow in picture.arrows:
        label = f"|{_in_quotes(arrow.label)}|" if arrow.label else ""
        yield f"  {arrow.tail} {'-.->' if arrow.is_back else '-->'}{label} {arrow.head}"
    kinds = {box.kind for box in picture.top.all_boxes()}
    for kind in COLOURS:
        if kind in kinds:
            yield f"  classDef {kind} fill:{COLOURS[kind]},stroke:#555,color:#111"
    if picture.kinds():
        yield "  subgraph legend [legend]"
        yield from (f"    legend_{kind}[{_in_quotes(LEGEND[kind])}]:::{kind}" for kind in picture.kinds())
        yield "  end"


def _subgraph(cluster: Cluster, margin: str) -> Iterator[str]:
    yield f"{margin}subgraph {cluster.key} [{_in_quotes(cluster.title or ' ')}]"
    yield from _inside(cluster, margin + "  ", _mermaid_box, _subgraph)
    yield f"{margin}end"


def _mermaid_box(box: Box) -> str:
    opening, closing = _BRACKETS.get(box.kind, ("[", "]"))
    return f"{box.key}{opening}{_in_quotes('<br/>'.join(map(_escaped, box.lines)), True)}{closing}:::{box.kind}"


def _in_quotes(text: str, is_escaped: bool = False) -> str:
    """A text that Mermaid takes for nothing else."""
    return f'"{text if is_escaped else _escaped(text)}"'


def _escaped(text: str) -> str:
    return "".join(_CODES.get(letter, letter) for letter in text)


_CODES = {
    '"': "#quot;",
    "#": "#35;",
    "<": "#lt;",
    ">": "#gt;",
    "&": "#amp;",
    "`": "#96;",
    "|": "#124;",
    "\\": "#92;",
    "\n": " ",
}
"""How Mermaid writes what it would take for something else."""
