"""The line of a model file that an error is about: its names are looked for among the keys of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mdf_loop.convert.file_text import line_of, parse, places_in
from mdf_loop.convert.weights import SUFFIXES
from mdf_loop.errors import LoopError, MalformedBody, MissingCapture, let_through
from mdf_loop.readers.expressions.equation_texts import COLLECTED, KEYS
from mdf_loop.readers.model_files import read_bytes

Place = tuple[Any, ...]

_OF_BODY = re.compile(r"\biteration \d|^equations[:,/]")
"""What begins a message about something inside a body."""

_IN_EQUATIONS = re.compile(r"\bequations/[^:]+")
"""The way to an equation, in front of what is wrong with it."""

_SAID = re.compile(r"line (\d+)")
_QUOTED = re.compile(r"'([^'\s]+)'")
_ARGUMENT = re.compile(r"'([^'\s]+)'|(?:trip count|condition|argument) (\w+)")
"""What may be an argument in a message: a name in quotes, or behind what it is."""

_THING = re.compile(r"in (?:MDF parameter or function|output port) '([^']+)'.*")
_IN_TEXT = re.compile(r"\(line: (\d+)")


def line_of_error(path: Path, error: BaseException) -> int | None:
    """Where in a JSON or YAML file the thing stands that an error tells of.

    What the message says itself counts; else the names on the error's path and in its notes are followed from the
    outermost key inwards, and the line of the last one that is found is the answer.  An error in ONNX text has a line
    of its own, which is counted from where the text begins.

    Raises
    ------
    LoopError, ValueError
        The file cannot be read.
    """
    if path.suffix.lower() not in SUFFIXES or _said(path, error) is not None:
        return _said(path, error)
    text, content = _read(path)
    if place := getattr(error, "place", ()):
        return line_of(text, place)
    if (line := _in_text(text, content, str(error))) is not None:
        return line
    place = _in_equations(content, error) or _followed(content, _names(error))
    return line_of(text, _of_argument(content, place, str(error))) if place else None


def note_place(source: str, error: BaseException) -> None:
    """Note the file that an error is about, and the line of it where that can be found, unless the error says the file."""
    if not source or any(source in said for said in (str(error), *getattr(error, "__notes__", ()))):
        return
    try:
        line = line_of_error(Path(source), error)
    except (LoopError, ValueError, OSError) as other:  # the file is what is wrong
        let_through(other)
        line = None
    error.add_note(f"in {source}{'' if line is None else f', line {line}'}")


def without_line(said: str, path: Path, line: int | None) -> str:
    """A message without the file and the line at its beginning, where both are said in front of it."""
    if line is None:
        return said
    said = said.removeprefix(f"{str(path)!r} is not an MDF model: ")
    return re.sub(rf"^line {line}(?:: |, (?=column))", "", said)


def thing_of(error: BaseException) -> str:
    """The parameter, function or port of a node in which an error came up, as its notes say; empty if none does."""
    found = (_THING.fullmatch(note) for note in getattr(error, "__notes__", ()))
    return next((match[1] for match in reversed([*found]) if match), "")


def _in_equations(content: Any, error: BaseException) -> Place:
    """The place of the equation that failed, or of its body; empty where a node fails at something else."""
    node, thing = getattr(error, "mdf_node", ""), thing_of(error)
    place = _in_graphs(content, ["nodes", node, thing]) if node and thing else ()
    in_text = names_in_equations(error)
    is_inside = _OF_BODY.search(str(error)) or in_text or isinstance(error, MissingCapture)
    if not is_inside or place[-1:] != (thing,):
        return ()
    said = _at(content, place)
    source = (said.get("args") or {}).get("body", "body") if isinstance(said, dict) else None
    body = (*place[:-1], source) if isinstance(source, str) else (*place, "args", "body")
    if not isinstance(_at(content, body), dict):
        return ()
    if in_text:
        return (*body, *_followed(_at(content, body), in_text))
    if isinstance(error, MissingCapture):
        return (*body, *place_of_reading(_at(content, body), error.missing[0]))
    return body


PARTS = {**{key: key for key in KEYS}, "collect": COLLECTED}
"""The first word of a step of the path to an equation, as in ``let y``: the key of the mapping that it is in."""


def names_in_equations(error: BaseException) -> tuple[str, ...]:
    """The names on the way to an equation that an error is about; none for other errors."""
    path = [*getattr(error, "path", ())]
    if "equations" not in path:
        path = next(iter(_IN_EQUATIONS.findall(str(error))), "").split("/")
    inner = path[path.index("equations") + 1 :] if "equations" in path else []
    parts = [(part, name) for text in inner for part, _, name in [text.partition(" ")]]
    words = [
        word for part, name in parts for word in ((PARTS[part], name) if name and part in PARTS else (f"{part} {name}".strip(),))
    ]
    return tuple(word for word in words if word)


def place_of_reading(source: Any, name: str) -> Place:
    """The place of the first text in a body that reads a name."""
    reads = re.compile(rf"(?<![\w.]){re.escape(name)}\b")
    return next((place for place, value in places_in(source) if isinstance(value, str) and reads.search(value)), ())


def _at(content: Any, place: Place) -> Any:
    """What stands in a place; None where nothing does."""
    for key in place:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def line_of_names(path: Path, names: Sequence[str], message: str = "") -> int | None:
    """The line of what names lead to, those of a graph, a node and so on; None where none of them is there.

    If a message about it names one of its arguments, or a line of an ONNX text there, that is the line.
    """
    text, content = _read(path)
    place = _in_graphs(content, names)
    if (line := _in_text(text, content, message, place)) is not None:
        return line
    return line_of(text, _of_argument(content, place, message)) if place else None


def _of_argument(content: Any, place: Place, message: str) -> Place:
    """The place of the argument of a function that a message names first; the function's own if it names none."""
    said = _at(content, place)
    arguments = said.get("args") if isinstance(said, dict) else None
    named = [quoted or word for quoted, word in _ARGUMENT.findall(message)]
    named = [name for name in named if name in (arguments if isinstance(arguments, dict) else ())]
    if "no function" in message and isinstance(said, dict) and "function" in said:
        return (*place, "function")
    return (*place, "args", *named[:1]) if named or ("args" in message and arguments) else place


def _read(path: Path) -> tuple[str, Any]:
    """The text of a model file, and what it says."""
    text = read_bytes(path, "a model").decode("utf-8-sig")
    return text, parse(text, path.suffix.lower())


def _in_text(text: str, content: Any, message: str, below: Place = ()) -> int | None:
    """The line of an ONNX text in a model file that a message tells of; None for other messages."""
    inner = _IN_TEXT.search(message)
    block = _broken_text(content, below) if inner is not None else None
    line = line_of(text, block) if block is not None else None
    if inner is None or line is None:
        return None
    is_block = text.split("\n")[line - 1].rstrip().endswith(("|", "|-", "|+", ">"))
    return line + int(inner.group(1)) * is_block


def _said(path: Path, error: BaseException) -> int | None:
    """The line that the message begins to tell of, right behind the name of the file."""
    found = _SAID.search(str(error))
    return int(found.group(1)) if found and path.name in str(error)[: found.start()] else None


def _names(error: BaseException) -> list[str]:
    """What an error names, from the outside to the inside."""
    names = [name for name in getattr(error, "path", ()) if " " not in name]
    texts = [str(error), *getattr(error, "__notes__", ())]
    heads = [head for text in texts if "/" in (head := text.partition(": ")[0]) and " " not in head and head[0] not in "/."]
    if heads:  # a path that was put in front of a message: graph/node/parameter
        inner = names_in_equations(error) or names_in_equations(MalformedBody(str(error).partition(": ")[2]))
        return [*heads[-1].split("/"), *inner]
    return [name for note in reversed(texts[1:]) for name in _QUOTED.findall(note)] + names


def _followed(content: Any, names: Iterable[str]) -> Place:
    """The place of the last name that is found, each looked for below the one before."""
    place: Place = ()
    for name in names:
        found = _nearest(content, name)
        if found is not None:
            place += found
            for key in found:
                content = content[key]
    return place


def _in_graphs(content: Any, names: Iterable[str]) -> Place:
    """The place that names lead to, the first of them that of a graph: the model may have the same id."""
    outer: Place = _nearest(content, "graphs") or ()
    for key in outer:
        content = content[key]
    inner = _followed(content, names)
    return (*outer, *inner) if inner else ()


def _nearest(content: Any, name: str) -> Place | None:
    """The way to the key of a name that is nearest to the top."""
    return next((place for place, _ in places_in(content) if place and str(place[-1]) in (name, f"graph_{name}")), None)


def _broken_text(content: Any, below: Place) -> Place | None:
    """The place of the first ONNX text that does not parse, below another place."""
    from mdf_loop.readers.onnx.onnx_text import read_text

    for key in below:
        content = content[key]
    for place, value in places_in(content, below):
        if place == below or place[-1] != "onnx" or not isinstance(value, str):
            continue
        try:
            read_text(value)
        except MalformedBody as error:
            if _IN_TEXT.search(str(error)):
                return place
        except Exception as error:  # wrong in another way, which is not what is looked for
            let_through(error)
    return None
