"""Model files that a person can edit: arrays on one line, texts of several lines as blocks.

PyYAML and json write each number of an array on a line of its own, and a text of several lines as one with ``\\n`` in it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import yaml

INDENT = 2


def model_text(content: Any, suffix: str) -> str:
    """A model as JSON or YAML, as ``suffix`` asks.

    Parameters
    ----------
    content : dict
        What the file says, in dicts, lists and plain values.
    suffix : str
        ``.json``, ``.yaml`` or ``.yml``.
    """
    if suffix == ".json":
        return _json(content, "") + "\n"
    text = yaml.dump(content, Dumper=_dumper(), sort_keys=False, indent=INDENT, allow_unicode=True, width=1 << 30)
    return str(text)


def _is_array(value: Any) -> bool:
    """Whether a list holds numbers, texts and such lists, and no dict: it fits on a line."""
    return isinstance(value, list | tuple) and all(not isinstance(item, dict) and _is_leaf(item) for item in value)


def _is_leaf(value: Any) -> bool:
    return _is_array(value) if isinstance(value, list | tuple) else "\n" not in value if isinstance(value, str) else True


def _json(value: Any, margin: str) -> str:
    inner = margin + " " * INDENT
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(str(key), ensure_ascii=False)}: {_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{margin}}}"
    if isinstance(value, list | tuple) and value and not _is_array(value):
        return "[\n" + ",\n".join(inner + _json(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value, ensure_ascii=False)


@cache
def _dumper() -> Any:
    """PyYAML's writer of plain data, with a style for arrays and texts."""

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:  # what is written twice can be edited apart
            return True

    def sequence(dumper: Any, value: Any) -> Any:
        return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=_is_array(value))

    def text(dumper: Any, value: str) -> Any:
        lines = value.split("\n")
        is_plain = len(lines) > 1 and all(line.isprintable() and line == line.rstrip() for line in lines)
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if is_plain else None)

    Dumper.add_representer(str, text)
    Dumper.add_representer(list, sequence)
    Dumper.add_representer(tuple, sequence)
    return Dumper
