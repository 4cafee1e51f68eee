"""Everything that decides the numbers of a sweep, line by line: what it is called, and what it is.

Two sweeps whose lines are equal give the same numbers, in each process and wherever the model's file lies; where they are not,
the lines that differ say why.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.models.labelled import seed_text
from mdf_loop.models.mdf import MdfModel
from mdf_loop.models.model import Model
from mdf_loop.readers.model_files import read_bytes
from mdf_loop.sweeps.grid import Grid
from mdf_loop.sweeps.rows.reducing import in_words
from mdf_loop.sweeps.task import Task
from mdf_loop.system.checksums import checksum, checksum_of_object
from mdf_loop.version import __version__

DESCRIPTIVE = {"author", "authors", "comment", "comments", "description", "doc_string", "note", "notes", "title"}
"""Metadata that people read; other metadata may say how a model runs."""

LONGEST, MOST, FEW = 80, 8, 3
"""Characters of a text, and elements of an array, that stand in a line as they are; differences that are named."""

SAID_ELSEWHERE = {"engine", "traceback"}
"""Options that have a line of their own, or change no number."""

Lines = dict[str, str]
"""What each thing is, by what it is called."""


def lines_of(task: Task) -> Lines:
    """What decides the content of each chunk, but for its points and how many trials there are.

    Raises
    ------
    ArgumentError
        There is something in it that is nothing but itself, such as a function without a name.
    """
    increment = task.wish.time_increment
    asked = {
        "mdf_loop": __version__,
        "numpy": np.__version__,
        "model": _content(task.model),
        "inputs": dict(task.inputs),
        "seed": seed_text(task.seed),
        "common_noise": task.common_noise,
        "outputs": ", ".join(task.names),
        "reduce": _reduction(task),
        "fill": float(task.fill),
        "steps": task.wish.steps,
        "time_increment": None if increment is None else float(increment),
        "collect": task.wish.collect,
        "engine": task.engine,
        "options": {name: value for name, value in task.options.items() if name not in SAID_ELSEWHERE},
    }
    if task.reduce is not None:
        asked["trials"] = task.trials
    try:
        return _gathered(_lines(asked, ""))
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"a checkpoint has to know this sweep again, which it cannot: {error}; functions are known by their names, "
            "so define them in a module with def"
        ) from error


def _reduction(task: Task) -> Any:
    """What is made of trials: in a word where that is the same for all outputs."""
    words = {name: in_words(one) for name, one in (task.reduce or {}).items()}
    different = set(map(id, words.values()))
    return words if len(different) > 1 or len(words) < len(task.names) * bool(words) else next(iter(words.values()), None)


def differences(there: Lines, here: Lines) -> str:
    """What differs, in words; empty where nothing does."""
    names = [name for name in dict.fromkeys([*there, *here]) if there.get(name) != here.get(name)]
    within = {name[:k] for name in names for k, letter in enumerate(name) if letter == "."}
    found = [_difference(name, there.get(name), here.get(name)) for name in names if name not in within]
    more = f"; and {len(found) - FEW} more" if len(found) > FEW else ""
    return "; ".join(found[:FEW]) + more


def _difference(name: str, there: str | None, here: str | None) -> str:
    was, now = _shown(there), _shown(here)
    if there is None:
        return f"it has no {name}, which is {now} here"
    if here is None:
        return f"its {name} is {was}, here there is none"
    said = f"its {name} is {was}, here it is {now if was != now else 'another one'}"
    is_reduced = name == "trials"  # the number of trials is part of a digest only where these are reduced
    return f"{said}, and with reduce= trials cannot be added" if is_reduced else said


def digest_of_points(grid: Grid, first: int, behind: int) -> str:
    """A text that tells what the runs at some points are given from what others are."""
    found = hashlib.sha256()
    if grid.shape:
        places = dict(zip(grid.dims, np.unravel_index(np.arange(first, behind), grid.shape), strict=True))
        for name, (dim, values) in sorted(grid.axes, key=lambda axis: axis[0]):
            column = [values[k] for k in places[dim]]
            is_plain = {*map(type, column)} == {float}
            found.update(f"{name} {'float' if is_plain else 'any'} ".encode())
            found.update(np.array(column).tobytes() if is_plain else digest_of(column).encode())
    return found.hexdigest()


def digest_of(thing: Any) -> str:
    """A text that tells an object from those with another content."""
    return checksum(json.dumps(list(_lines(thing, ""))))


def _content(model: Model) -> Any:
    """What a model computes, not what its file is called or where that lies."""
    if isinstance(model, MdfModel):
        return model.graph
    prepared = vars(model)["prepared"]
    return {"body": prepared.body, "inputs": list(model.inputs), "variables": getattr(prepared, "variables", ())}


def _gathered(lines: Iterable[tuple[str, str]]) -> Lines:
    """Lines by name; keys with dots may make one name twice."""
    found: Lines = {}
    for name, line in lines:
        while name in found:
            name += "'"
        found[name] = line
    return found


def _lines(thing: Any, name: str) -> Iterator[tuple[str, str]]:
    """What a thing is; the parts of one that has some are lines of their own, behind one that says which there are."""
    parts = _parts(thing, name.rpartition(".")[2])
    if parts is None:
        yield name, _leaf(thing)
        return
    if name and not isinstance(thing, str):
        said = f"of {len(parts)}" if all(isinstance(part, int) for part in parts) else ", ".join(map(str, parts))
        yield name, _kept(f"{type(thing).__name__} {said}".strip())
    for part, inner in parts.items():
        yield from _lines(inner, f"{name}.{part}" if name else str(part))


def _parts(thing: Any, name: str) -> Mapping[Any, Any] | None:
    """What a thing consists of, by name; None where it is one thing."""
    if isinstance(thing, Mapping):
        if name == "metadata":
            return {key: value for key, value in thing.items() if key not in DESCRIPTIVE}
        if isinstance(thing.get("onnx_file"), str):
            return {**thing, "onnx_file": read_bytes(Path(thing["onnx_file"]), "a body")}
        return thing
    if isinstance(thing, str) and "\n" in thing:
        return dict(enumerate(thing.split("\n")))
    if isinstance(thing, list | tuple):
        by_id = {getattr(item, "id", k): item for k, item in enumerate(thing)}
        return by_id if len(by_id) == len(thing) else dict(enumerate(thing))
    if hasattr(thing, "__attrs_attrs__"):
        found = {each.name: getattr(thing, each.name) for each in thing.__attrs_attrs__}
        return {key: value for key, value in found.items() if value is not None and _says_something(key, value)}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return {each.name: getattr(thing, each.name) for each in dataclasses.fields(thing) if each.compare}
    if isinstance(thing, functools.partial):
        return {"function": thing.func, "args": thing.args, "keywords": thing.keywords}
    return None


def _says_something(name: str, value: Any) -> bool:
    return name != "metadata" or bool(set(value) - DESCRIPTIVE)


def _leaf(thing: Any) -> str:
    """One thing in a line."""
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        said = f"{thing.dtype}{list(thing.shape)}"
        if thing.size <= MOST:
            return f"{said} {thing.tolist()}"
        return f"{said} #{checksum(np.ascontiguousarray(thing).tobytes())}"
    if thing is None or isinstance(thing, str | bool | int | float | complex | np.generic | np.dtype):
        return _kept(repr(thing))
    if isinstance(thing, bytes):
        return f"{len(thing)} bytes #{checksum(thing)}"
    if isinstance(thing, set | frozenset):
        return _kept(f"{type(thing).__name__} {sorted(map(digest_of, thing))}")
    named = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__name__)}"
    return f"{named} #{checksum_of_object(thing)}"


def _kept(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... #{checksum(text)}"


def _shown(line: str | None) -> str:
    """A line for people."""
    return re.sub(r" #[0-9a-f]{64}$", "", str(line)).strip("'")
