"""ONNX text: the syntax of ``onnx.parser``, looked at before onnx's parser does; what is wrong with it, and what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mdf_loop.errors import KindError, MalformedBody, in_words, let_through
from mdf_loop.ir import Body
from mdf_loop.readers.expressions.other_notations import as_equation
from mdf_loop.types.schemas import LARGEST_VERSION

_OPERATORS = {
    "+": "Add",
    "-": "Sub",
    "*": "Mul",
    "/": "Div",
    "**": "Pow",
    "%": "Mod",
    "@": "MatMul",
    "<": "Less",
    ">": "Greater",
    "<=": "LessOrEqual",
    ">=": "GreaterOrEqual",
    "==": "Equal",
    "&": "And",
    "|": "Or",
}

_TYPES = {
    "float64": "double",
    "float32": "float",
    "half": "float16",
    "int": "int64",
    "long": "int64",
    "short": "int16",
    "byte": "uint8",
    "boolean": "bool",
    "str": "string",
    "text": "string",
    "complex": "complex64",
}

_INFIX = re.compile(r"=\s*(-?[\w.]+)\s*(\*\*|<=|>=|==|[-+*/%@<>&|])\s*(-?[\w.]+)(?![\w.]|\s*=)")
_LITERAL = re.compile(r"(\w+)\s*(?:<[^<>]*>\s*)?\([^(){}=]*?(?<![\w.])(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*[,)]")
_TYPED = re.compile(r"(?<![\w.])(" + "|".join(_TYPES) + r")(?=\s*(?:\[[^\]]*\]\s*)?\s+\w)")
_COPY = re.compile(r"=\s*([A-Za-z_]\w*)\s*(?:\n|$|\}|[A-Za-z_]\w*\s*=)")


def hint(text: str) -> str:
    """A sentence on how to write it; empty where nothing is known.

    >>> hint("b (int64 i, bool c, float x) => (bool c, float y) { y = x + one }")
    '; write the operator before its operands: y = Add (x, one)'
    """
    if said := as_equation(text):
        return said
    header, _, nodes = text.partition("{")
    if "<" in header.partition("=>")[2] and "}" in nodes:  # constants, which have braces of their own
        nodes = text[text.rfind("{") :]
    if found := _TYPED.search(header.partition("{")[0]):
        return f"; ONNX text calls the type {found.group(1)} {_TYPES[found.group(1)]}"
    if found := _INFIX.search(nodes):
        return _infix(nodes, found)
    if found := _LITERAL.search(nodes):
        return _literal(found.group(2))
    if found := _COPY.search(nodes):
        return f"; copy a value with an operator: {_target(nodes, found)} = Identity ({found.group(1)})"
    return ""


def _target(nodes: str, found: re.Match[str]) -> str:
    """The name in front of the ``=`` at which a match begins."""
    return (re.findall(r"\w+", nodes[: found.start()]) or ["y"])[-1]


def _infix(nodes: str, found: re.Match[str]) -> str:
    left, symbol, right = found.groups()
    said = f"; write the operator before its operands: {_target(nodes, found)} = {_OPERATORS[symbol]} ({left}, {right})"
    number = next((side for side in (right, left) if re.fullmatch(r"-?[\d.]+", side)), None)
    return said if number is None else said.replace(f"{number})", "k)").replace(f"({number},", "(k,") + _constant(number)


def _literal(number: str) -> str:
    return f"; an operand is a name, not the number {number}{_constant(number)}"


def _constant(number: str) -> str:
    return f"; write a number as a constant with a name and a type, before the nodes: <float k = {{{number}}}> {{ ... }}"


_NODE = re.compile(r"\s*[A-Za-z_][\w.]*(?:\s*,\s*[A-Za-z_][\w.]*)*\s*=(?![=>])")
"""How a node begins: the names of its outputs, and what stands behind them."""

LONGEST = 20
"""Lines of one node."""

_WHERE = re.compile(r"\(line: (\d+)")


MOST_ERRORS = 20
"""Further errors of a text that are looked for."""


def further_errors(text: str, first: str) -> Iterator[str]:
    """What is wrong with nodes on other lines than the one that the first error tells of, with lines and hints.

    Nodes with bodies or lists in braces, and names of attributes that have a line of their own, are left out: it is not known
    where they end in a text that does not parse.
    """
    from onnx import parser

    found = _WHERE.search(first)
    reported, left = int(found.group(1)) if found else 0, MOST_ERRORS
    for number, lines, node in _nodes(text):
        if left <= 0 or number <= reported <= number + lines:
            continue
        try:
            parser.parse_node(node)
        except Exception as error:  # ParseError, which is no class of its own
            let_through(error)
            left -= 1
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


DEEPEST = 200
"""Brackets of ONNX text may be nested so deep: protobuf reads half of it, and onnx's parser ends the process at some 4,000."""

_TOKEN = re.compile(r'#[^\n]*+|"(?:\\.|[^"\\])*+"?|[(\[{]|[)\]}]', re.DOTALL)
"""Comments, texts (an open one up to the end, so that no place is looked at twice) and brackets."""

_STEPS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def refuse_opset(opset: Any, what: str) -> None:
    """See that no opset is given for ``what``, which says its own.

    Raises
    ------
    MalformedBody
    """
    if opset is not None:
        raise MalformedBody(f'{what} states its own opset; leave out "opset": {opset!r}')


def read_text(text: Any, opset: int | None = None) -> Body:
    """ONNX text as a body: a graph, or a model that states its own opset.

    Raises
    ------
    MalformedBody
        The text does not parse; the message has onnx's line and column.
    KindError
        The text is no string, or the opset no whole number from 1 on.
    """
    from onnx import parser

    from mdf_loop.readers.onnx.graph import read_graph, read_model

    if not isinstance(text, str):
        raise KindError(f"the text of an ONNX body must be a string; got {type(text).__name__}")
    if opset is not None and (not isinstance(opset, int) or isinstance(opset, bool) or not 1 <= opset <= LARGEST_VERSION):
        raise KindError(f"the opset of a body must be a whole number from 1 on; got {in_words(opset)}")
    refuse_deep(text)
    is_model = text.lstrip().startswith("<")
    if is_model:
        refuse_opset(opset, "the text of a whole ONNX model")
    try:
        proto = parser.parse_model(text) if is_model else parser.parse_graph(text)
    except Exception as error:  # ParseError, or protobuf's own for what is nested too deep
        let_through(error)
        raise _with_others(MalformedBody(f"ONNX text does not parse: {message_of(error)}{hint(text)}"), text) from error
    return read_model(proto) if is_model else read_graph(proto, {"": opset} if opset else None)


def _with_others(first: MalformedBody, text: str) -> MalformedBody:
    first.others = tuple(map(MalformedBody, further_errors(text, str(first))))
    return first


def refuse_deep(text: str) -> None:
    """See that brackets are not nested deeper than onnx's parser can bear.

    Raises
    ------
    MalformedBody
    """
    depth = 0
    for found in _TOKEN.finditer(text):
        depth += _STEPS.get(found.group(), 0)
        if depth > DEEPEST:
            raise MalformedBody(f"ONNX text does not parse: its brackets are nested more than {DEEPEST} deep")
