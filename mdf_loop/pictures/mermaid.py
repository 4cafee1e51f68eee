"""Pictures as Mermaid text, which GitHub, notebooks and many editors draw."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.pictures.boxes import COLOURS, CONDITION, INPUT, LEGEND, OUTPUT, Box, Cluster, Picture

_SHAPES = {INPUT: ("([", "])"), OUTPUT: ("[/", "/]"), CONDITION: ("{{", "}}")}


def mermaid_text(picture: Picture) -> str:
    """A flowchart: ``flowchart TD`` and what follows."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    yield from _cluster(picture.top, "  ")
    for arrow in picture.arrows:
        label = f"|{_quoted(arrow.label)}|" if arrow.label else ""
        yield f"  {arrow.tail} {'-.->' if arrow.is_back else '-->'}{label} {arrow.head}"
    kinds = {box.kind for box in picture.top.all_boxes()}
    for kind in COLOURS:
        if kind in kinds:
            yield f"  classDef {kind} fill:{COLOURS[kind]},stroke:#555,color:#111"
    if picture.kinds():
        yield "  subgraph legend [legend]"
        yield from (f"    legend_{kind}[{_quoted(LEGEND[kind])}]:::{kind}" for kind in picture.kinds())
        yield "  end"


def _cluster(cluster: Cluster, margin: str) -> Iterator[str]:
    yield f"{margin}subgraph {cluster.key} [{_quoted(cluster.title or ' ')}]"
    for box in cluster.boxes:
        yield f"{margin}  {_box(box)}"
    for inner in cluster.clusters:
        if next(inner.all_boxes(), None) is not None:
            yield from _cluster(inner, margin + "  ")
    yield f"{margin}end"


def _box(box: Box) -> str:
    opening, closing = _SHAPES.get(box.kind, ("[", "]"))
    return f"{box.key}{opening}{_quoted('<br/>'.join(map(_escaped, box.lines)), True)}{closing}:::{box.kind}"


def _quoted(text: str, is_escaped: bool = False) -> str:
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
