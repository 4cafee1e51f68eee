"""What else is wrong with ONNX text behind the first error, where onnx's parser stops: each node that stands on lines of its own
is parsed by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdf_loop.errors import let_through
from mdf_loop.readers.onnx.text_hints import hint

_NODE = re.compile(r"\s*[A-Za-z_][\w.]*(?:\s*,\s*[A-Za-z_][\w.]*)*\s*=(?![=>])")
"""How a node begins: the names of its outputs, and what stands behind them."""

LONGEST = 20
"""Lines of one node."""

_WHERE = re.compile(r"\(line: (\d+)")


def further_errors(text: str, first: str, most: int = 20) -> Iterator[str]:
    """What is wrong with nodes on other lines than the one that the first error tells of, with lines and hints.

    Nodes with bodies or lists in braces, and names of attributes that have a line of their own, are left out: nobody can say
    where they end in a text that does not parse.
    """
    from onnx import parser

    found = _WHERE.search(first)
    told = int(found.group(1)) if found else 0
    for number, lines, node in _nodes(text):
        if most <= 0 or number <= told <= number + lines:
            continue
        try:
            parser.parse_node(node)
        except Exception as error:  # ParseError, which is no class of its own
            let_through(error)
            most -= 1
            said = _WHERE.sub(f"(line: {number}", message_of(error), count=1)
            yield f"ONNX text does not parse: {said}{hint(f'{{ {node} }}')}"


def _nodes(text: str) -> Iterator[tuple[int, int, str]]:
    """Nodes that stand on lines of their own: the first line, how many follow, and the text."""
    lines = [line.partition("#")[0] for line in text.split("\n")]
    angles = number = 0
    while number < len(lines):
        node, more = lines[number], 0
        number += 1
        if angles or not _NODE.match(node) or _has_braces(node):
            angles += _open(node, "<>")
            continue
        while (_open(node, "()") > 0 or _open(node, "<>") > 0) and more < LONGEST and number + more < len(lines):
            following = lines[number + more]
            if _has_braces(following) or (_NODE.match(following) and _open(node, "<>") <= 0):
                break
            node, more = f"{node} {following}", more + 1
        yield number, more, node
        number += more


def _open(text: str, pair: str) -> int:
    """How many brackets of a kind are open behind a text; those of an arrow are none."""
    text = text.replace("=>", "")
    return text.count(pair[0]) - text.count(pair[1])


def _has_braces(text: str) -> bool:
    return "{" in text or "}" in text


def message_of(error: Exception) -> str:
    """What an error says; onnx's messages arrive as bytes, over several lines, and repeat a line however long it is."""
    raw = error.args[0] if error.args else ""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(error)
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-200:]}"
