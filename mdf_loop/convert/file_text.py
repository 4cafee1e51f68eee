"""JSON and YAML as dicts and lists, and the lines where things stand in them.

A file may come from anyone.  Only plain data are read, nothing is nested deeper than :data:`DEEPEST`, and what aliases
and merged maps of YAML repeat is counted before it is made.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import yaml

from mdf_loop.convert.yaml_readings import LONGEST_NUMBER, NUMBER, TEXT, Told, plain_parts, tell_of
from mdf_loop.readers.expressions.other_notations import as_equation

SOME_VALUES, VALUES_PER_CHARACTER = 50_000, 10
"""A file may hold so many values, with each one counted that an alias (``*name``) of YAML repeats."""

DEEPEST = 100
"""Lists and dicts may be nested so deep: some twelve loops inside each other."""


def places_in(content: Any, below: tuple[Any, ...] = (), kinds: Any = object) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """What a file says and all in it of these kinds, each with the keys that lead to it; what is near the top comes first."""
    todo = deque([(below, content)])
    while todo:
        place, value = todo.popleft()
        yield place, value
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        todo += [((*place, key), inner) for key, inner in items if isinstance(inner, kinds)]


def decoded(raw: bytes) -> str:
    """The text of a file.

    Raises
    ------
    ValueError
        It is not in UTF-8; says in which line.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: it is not UTF-8 text: it has a byte {raw[error.start]:#04x}") from error


def parse(text: str, suffix: str, tell: Told | None = None) -> Any:
    """What a file says, in dicts and lists.

    Parameters
    ----------
    text, suffix : str
    tell : callable, optional
        Gets the line, and what is to be said of it, for each number that other readers of YAML take for a text.

    Raises
    ------
    ValueError
        It is neither JSON nor YAML, as ``suffix`` asks; it has one key twice; it is nested too deep or repeats too much.
    """
    most = SOME_VALUES + VALUES_PER_CHARACTER * len(text)
    content = _parse_json(text) if suffix == ".json" else _parse_yaml(text, most, tell)
    if _measure(content, 0, {}, most)[0] > most:
        raise ValueError(f"its aliases repeat more than {most} values")
    return content if text.isascii() and "\\" not in text else _with_names_as_in_python(content)


_WORD = re.compile(r"[^\W\d][\w\u0300-\u036f]*")

_AS_WRITTEN = frozenset(("onnx", "onnx_file"))
"""Keys of what is no expression and no id of MDF."""

_SIGNATURE = frozenset(("inputs", "outputs"))
"""What metadata say of ids."""


def _as_python_reads(text: str) -> str:
    return _WORD.sub(lambda word: unicodedata.normalize("NFKC", word[0]) if word[0].isidentifier() else word[0], text)


def _with_names_as_in_python(content: Any) -> Any:
    """What a file says, with names as Python's expressions read them: the micro sign is the letter mu there."""
    if isinstance(content, str):
        return _as_python_reads(content)
    if isinstance(content, list):
        return [_with_names_as_in_python(part) for part in content]
    if not isinstance(content, dict):
        return content
    names = {key: _as_python_reads(key) if isinstance(key, str) else key for key in content}
    if len(set(names.values())) < len(names):  # two names that are one in Python
        names = {key: key for key in content}
    found = {names[key]: part if key in _AS_WRITTEN else _with_names_as_in_python(part) for key, part in content.items()}
    if isinstance(said := content.get("metadata"), dict):
        found["metadata"] = said | {key: found["metadata"][key] for key in _SIGNATURE & said.keys()}
    return found


def _parse_json(text: str) -> Any:
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except json.JSONDecodeError as error:
        is_json = text.lstrip()[:1] in ("", "{", "[")
        meant = MEANT.get(error.msg, "") if is_json else "it is no JSON: call a file of YAML .yaml"
        said = f"line {error.lineno}, column {error.colno}: {error.msg}; {meant}"
        raise ValueError(said.removesuffix("; ")) from error
    except ValueError:  # a key that occurs twice, of which YAML knows the line
        _parse_yaml(_OF_JSON.sub("_", text), VALUES_PER_CHARACTER * len(text), None)
        raise
    if "\\ud" in text.lower():  # half of a character is no text that could be written anywhere
        json.dumps(content, ensure_ascii=False).encode()
    return content


def _too_deep() -> str:
    return f"lists and dicts are nested more than {DEEPEST} deep"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found


def _parse_yaml(text: str, most: int, tell: Told | None) -> Any:
    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:  # before anything is made of it: libyaml's composer would end the process
                raise _marked(_too_deep(), event)
        loader = _loader(most)(text)
        try:
            node = loader.get_single_node()
            keys, values = ([], []) if node is None else plain_parts(node)
            for key in keys:
                key.tag = TEXT
            content = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
        if tell is not None:
            tell_of(keys, values, tell)
        return content
    except yaml.MarkedYAMLError as error:
        is_found_later = error.problem in ("could not find expected ':'", "found unexpected end of stream")
        mark = (error.context_mark if is_found_later else None) or error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        line = "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else ""
        is_tab = mark is not None and line[mark.column : mark.column + 1] == "\t"
        meant = "it is a tab: YAML is indented by spaces" if is_tab else MEANT.get(str(error.problem).partition(" for ")[0], "")
        before = "".join(text.split("\n")[mark.line - 1 : mark.line]).strip() if mark else ""
        if mark and "mapping values" in str(error.problem) and (cure := as_equation(before)):
            meant = f"in line {mark.line}, {cure[2:]}"
        said = ", ".join(filter(None, (error.context, error.problem)))
        raise ValueError(f"{where}{said}{'; ' if meant else ''}{meant}") from error
    except yaml.reader.ReaderError as error:  # which knows no line
        number = text.count("\n", 0, error.position) + 1
        raise ValueError(f"line {number}: the character {chr(error.character)!r} is not allowed in YAML") from error


_QUOTES = "a text that begins with a sign such as %, @, & or * is in quotes: '...'"

MEANT = {
    "could not find expected ':'": "a key has a colon and a space behind it: x: x + 1",
    "mapping values are not allowed in this context": "write each key on a line of its own, or several in braces: {x: 1, y: 2}",
    "did not find expected key": "the keys of one mapping begin in the same column",
    "did not find expected ',' or '}'": "a text with brackets or a colon is written in quotes inside braces: {value: 'run[0]'}"
    ", and a brace is closed",
    "could not determine a constructor": "such a tag makes an object, which a file must not: write numbers, texts, lists and "
    "mappings, and a text that begins with ! in quotes; a model of PsyNeuLink runs without a file, too: "
    "mdf_loop.run(pnl.get_mdf_model(composition))",
    **dict.fromkeys(("found character that cannot start any token", "found undefined alias"), _QUOTES),
    "did not find expected comment or line break": "| and > begin a text of several lines: write it in quotes, and |x| as abs(x)",
    "found unexpected end of stream": "a quotation mark is never closed",
    "but found another document": "a file holds one model, and --- begins another one",
    "Expecting property name enclosed in double quotes": "a key is in double quotes, and no comma is behind the last one",
    "Expecting ',' delimiter": "a comma is missing, or a closing bracket; JSON has no comments",
    "Expecting value": 'values are numbers such as 0.5, true, false, null, "text", [1, 2] and {"key": 1}',
}
"""What to do about what YAML and JSON say."""


@cache
def _loader(most: int) -> Any:
    """PyYAML's loader of plain data, with bounds."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self.flat: dict[int, bool] = {}
            self.merged = 0

        def flatten_mapping(self, node: Any) -> None:
            """Put merged maps (``<<``) into a map: counted before they are copied."""
            if id(node) in self.flat:
                if not self.flat[id(node)]:
                    raise _marked("a map is merged into itself", node)
                return
            self.flat[id(node)] = False
            _refuse_twins(node)
            for key, _ in node.value:
                key.style = key.style or "'"  # a key is never a number because it looks like one
            for target in _merged_maps(node):
                self.flatten_mapping(target)
                self.merged += len(target.value)
                if self.merged > most:
                    raise _marked(f"maps are merged into more than {most} pairs", node)
            super().flatten_mapping(node)
            self.flat[id(node)] = True

    for kind in ("int", "float"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", _short_number(getattr(Loader, f"construct_yaml_{kind}")))
    Loader.add_constructor(TEXT, _text_or_number)
    return Loader


def _text_or_number(loader: Any, node: Any) -> str | float:
    """A text; without quotes 1e9 is the number that its author meant."""
    text = loader.construct_yaml_str(node)
    if node.style or len(text) > LONGEST_NUMBER or not NUMBER.fullmatch(text):
        return text
    return float(text)


def _marked(problem: str, node: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _merged_maps(node: Any) -> list[Any]:
    merged = [value for key, value in node.value if key.tag == "tag:yaml.org,2002:merge"]
    maps = [inner for value in merged for inner in (value.value if isinstance(value, yaml.SequenceNode) else [value])]
    return [inner for inner in maps if isinstance(inner, yaml.MappingNode)]


def _refuse_twins(node: Any) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in seen:
                raise _marked(f"the key {key.value!r} occurs twice in one map", key)
            seen.add((key.tag, key.value))


def _short_number(make: Any) -> Any:
    def construct(loader: Any, node: Any) -> Any:
        if len(node.value) > LONGEST_NUMBER:
            raise _marked(f"a number of {len(node.value)} characters", node)
        return make(loader, node)

    return construct


def _measure(content: Any, depth: int, known: dict[int, tuple[int, int]], most: int) -> tuple[int, int]:
    """How many values there are, with repeated ones counted each time, and how deep they are nested."""
    if not isinstance(content, dict | list):
        return 1, 0
    place = id(content)
    if place not in known:
        if depth >= DEEPEST:
            raise ValueError(_too_deep())
        known[place] = most + 1, 0  # found again below itself, it has no end
        size = 1
        height = 0
        for item in content.values() if isinstance(content, dict) else content:
            if isinstance(item, dict | list):
                inner, below = _measure(item, depth + 1, known, most)
                size, height = size + inner, max(height, below)
            else:
                size += 1
        known[place] = size, height + 1
    if depth + known[place][1] > DEEPEST:
        raise ValueError(_too_deep())
    return known[place]


def line_of(text: str, place: Sequence[Any]) -> int | None:
    """The line of YAML or JSON in which something stands; ``place`` are the keys that lead to it, from the outermost on.

    None where it cannot be found.
    """
    try:
        return _line_of(text, place)
    except (ValueError, IndexError, yaml.YAMLError):
        return None


def _line_of(text: str, place: Sequence[Any]) -> int:
    node: Any = yaml.compose(_OF_JSON.sub("_", text), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if node is None:
        raise ValueError("the file is empty")
    line = node.start_mark.line
    for key in place:
        if isinstance(node, yaml.SequenceNode):
            node = node.value[key]
            line = node.start_mark.line
            continue
        pairs = [pair for pair in node.value if pair[0].value == str(key)] if isinstance(node, yaml.MappingNode) else []
        if not pairs:  # merged into here from elsewhere
            break
        line, node = pairs[0][0].start_mark.line, pairs[0][1]
    return int(line) + 1


_OF_JSON = re.compile(rf"\\u[dD][89a-fA-F][0-9a-fA-F]{{2}}|{yaml.reader.Reader.NON_PRINTABLE.pattern}")
"""What texts of JSON may have and YAML does not read: halves of characters, and controls."""


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


SMALL = 110
"""Letters of a map that stands on one line."""


def _is_small(value: dict[str, Any]) -> bool:
    """Whether a map reads well on one line: names and values, or such maps; expressions that stand alone."""
    return _is_shallow(value, 2) and len(json.dumps(value, ensure_ascii=False)) <= SMALL


def _is_shallow(value: dict[str, Any], depth: int) -> bool:
    """Whether a map has so many levels of maps at most."""
    words = [item for item in value.values() if isinstance(item, str)]
    is_plain = len(value) == 1 or not any(" " in word for word in words)
    inner = [item for item in value.values() if isinstance(item, dict)]
    leaves = [item for item in value.values() if not isinstance(item, dict)]
    return (
        is_plain
        and all(map(_is_leaf, leaves))
        and all(not item or (depth > 1 and _is_shallow(item, depth - 1)) for item in inner)
    )


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

    def mapping(dumper: Any, value: Any) -> Any:
        return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=_is_small(value))

    def text(dumper: Any, value: str) -> Any:
        lines = value.split("\n")
        is_plain = len(lines) > 1 and all(line.isprintable() and line == line.rstrip() for line in lines)
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if is_plain else None)

    Dumper.add_representer(str, text)
    Dumper.add_representer(dict, mapping)
    Dumper.add_representer(list, sequence)
    Dumper.add_representer(tuple, sequence)
    return Dumper
