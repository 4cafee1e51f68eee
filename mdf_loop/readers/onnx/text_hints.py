"""What somebody probably meant whose ONNX text does not parse: the parser says where it stopped, not how to go on."""

from __future__ import annotations

import re

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
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(\*\*|//|[-+*/%@])?=(?!=)\s*([^\n]+)")
_COPY = re.compile(r"=\s*([A-Za-z_]\w*)\s*(?:\n|$|\}|[A-Za-z_]\w*\s*=)")


def as_equation(text: str) -> str:
    """A sentence on how to write an equation, where a text looks like an assignment of Python; otherwise empty.

    >>> as_equation("x += dt * v")
    '; an equation has a colon: x: x + dt * v'
    """
    found = None if "=>" in text else _ASSIGNED.match(text)
    if found is None:
        return ""
    name, operator, value = found.groups()
    return f"; an equation has a colon: {name}: {f'{name} {operator} ' if operator else ''}{value.strip()[:60]}"


def hint(text: str) -> str:
    """A sentence on how to write it; empty where nothing is known.

    >>> hint("b (int64 i, bool c, float x) => (bool c, float y) { y = x + one }")
    '; operators stand in front of their operands: y = Add (x, one)'
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
        return f"; a value gets a second name by an operator: {_target(nodes, found)} = Identity ({found.group(1)})"
    return ""


def _target(nodes: str, found: re.Match[str]) -> str:
    """The name in front of the ``=`` at which a match begins."""
    return (re.findall(r"\w+", nodes[: found.start()]) or ["y"])[-1]


def _infix(nodes: str, found: re.Match[str]) -> str:
    left, symbol, right = found.groups()
    said = f"; operators stand in front of their operands: {_target(nodes, found)} = {_OPERATORS[symbol]} ({left}, {right})"
    number = next((side for side in (right, left) if re.fullmatch(r"-?[\d.]+", side)), None)
    return said if number is None else said.replace(f"{number})", "k)").replace(f"({number},", "(k,") + _constant(number)


def _literal(number: str) -> str:
    return f"; an operand is a name, not the number {number}{_constant(number)}"


def _constant(number: str) -> str:
    return f"; a number is a constant with a name and a type, in front of the nodes: <float k = {{{number}}}> {{ ... }}"
