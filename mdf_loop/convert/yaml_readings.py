"""What a text of YAML without quotes is: readers of YAML 1.1, of YAML 1.2 and of Python do not agree about some."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import yaml

Told = Callable[[int, str], None]

LONGEST_NUMBER = 4_000
"""Characters of a number in YAML, which may count to the base of 60 and takes the square of its length to read."""

TEXT = "tag:yaml.org,2002:str"

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")
"""Numbers of YAML 1.2 and of JSON; YAML 1.1, which PyYAML reads, wants a point and a sign in front of the exponent."""

_OTHERS = {
    "str": NUMBER,
    "int": re.compile(r"[-+]?(0[\d_]+|\d[\d_]*(:\d+)+)"),
    "float": re.compile(r"[-+]?\d[\d_]*(:\d+)+\.[\d_]*"),
    "bool": re.compile("(?i:yes|no|on|off)"),
}
"""Values that YAML 1.1, which is read here, YAML 1.2 and Python do not read alike: by the ends of their tags."""

_MEANT = frozenset(("metadata", "cond"))
"""Keys of what may be of any kind, and of what is a boolean."""


def plain_parts(node: yaml.Node) -> tuple[list[yaml.ScalarNode], list[yaml.ScalarNode]]:
    """The keys that are no texts for all readers, and the values, each without quotes, once, and in the order of the file."""
    todo, found, keys = [node], dict[int, yaml.Node](), list[yaml.ScalarNode]()
    while todo:
        node = todo.pop()
        if id(node) not in found:
            found[id(node)] = node
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            keys += [key for key, _ in pairs if key.tag != TEXT and _is_read_otherwise(key)]
            todo += [value for key, value in pairs if not (isinstance(key, yaml.ScalarNode) and key.value in _MEANT)]
            todo += node.value if isinstance(node, yaml.SequenceNode) else ()
    values = [each for each in found.values() if isinstance(each, yaml.ScalarNode) and not each.style]
    return sorted(keys, key=lambda each: each.start_mark.index), sorted(values, key=lambda each: each.start_mark.index)


_ODD_KEY = "the key {0} is {1} in YAML 1.1, which other programs read; here it is a name: write it in quotes, '{0}'"


def _is_read_otherwise(node: yaml.Node) -> bool:
    """Whether a text without quotes is a number or a truth value for some readers of YAML, and none or another one for others."""
    known = _OTHERS.get(node.tag.rpartition(":")[2])
    is_plain = isinstance(node, yaml.ScalarNode) and not node.style and len(node.value) <= LONGEST_NUMBER
    return is_plain and known is not None and bool(known.fullmatch(node.value))


def _other_elsewhere(node: yaml.ScalarNode) -> str:
    """What to say of a value that is not what it looks like; empty for all others."""
    text, kind = node.value, node.tag.rpartition(":")[2]
    if not _is_read_otherwise(node):
        return ""
    if kind == "str":
        digits, exponent = re.split("[eE]", text)
        point, sign = "" if "." in digits else ".0", "" if exponent[0] in "+-" else "+"
        written = f"{digits}{point}e{sign}{exponent}"
        number = float(text)
        written += f", or {number:.0f} for an integer" if number.is_integer() and abs(number) < 2**53 else ""
        return f"{text} is a text in YAML 1.1, which other programs read; here it is the number: write {written}"
    value = json.dumps(yaml.safe_load(text))
    if kind == "int" and ":" not in text:
        decimal = str(int(text.replace("_", "")))
        return "" if value == decimal else f"{text} is {value} in YAML 1.1, to the base of 8: write {decimal}, or {value}"
    base = ", to the base of 60" if ":" in text else ""
    first, *last = text.split(":") if kind == "int" else [text]
    several = f", arange({first}, {int(last[0]) + 1}) for a range" if len(last) == 1 else ""
    return f"{text} is {value} in YAML 1.1{base}: write {value}{several}, or '{text}' for a text"


def tell_of(keys: Sequence[yaml.ScalarNode], values: Sequence[yaml.ScalarNode], tell: Told) -> None:
    """Say which keys and values other readers of YAML do not read as they are read here."""
    for key in keys:
        tell(key.start_mark.line + 1, _ODD_KEY.format(key.value, json.dumps(yaml.safe_load(key.value))))
    for value in values:
        if said := _other_elsewhere(value):
            tell(value.start_mark.line + 1, said)
