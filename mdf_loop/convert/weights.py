"""Large weights beside a model file.

In the file a weight is ``{npz: <file>, name: <name>}``: the name of an array in a ``.npz`` file in the same folder.  The
file may come from anybody: its name is a name without a folder, nothing in it is unpickled, and no array is made that is
larger than what the file holds.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError

NPZ, NAME = "npz", "name"

SUFFIXES = (".json", ".yaml", ".yml")


def save(model: Any, path: Path, inline: int) -> None:
    """Write an MDF model, and its weights of more elements than ``inline`` to a ``.npz`` file beside it.

    Raises
    ------
    ArgumentError
        The name ends in something else than .json, .yaml or .yml.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ArgumentError(f"an MDF model is a file of type {', '.join(SUFFIXES)}; got {os.fspath(path)!r}")
    beside = path.with_suffix(".npz")
    weights: dict[str, np.ndarray] = {}
    content = _written(model, weights, inline, beside.name)
    if weights:
        with beside.open("wb") as file:
            np.savez(file, **weights)  # type: ignore[arg-type]
    path.write_text(_text(content, path.suffix.lower()), encoding="utf-8")


def _text(content: Any, suffix: str) -> str:
    import json

    import yaml

    if suffix == ".json":
        return json.dumps(content, indent=4, ensure_ascii=False) + "\n"
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(content, Dumper=dumper, sort_keys=False, indent=4, allow_unicode=True, width=120))


def _written(model: Any, weights: dict[str, np.ndarray], inline: int, beside: str) -> Any:
    """The model as dicts and lists, with its large arrays taken out."""
    replaced = []
    for holder, key in _places(model):
        value = _get(holder, key)
        if not isinstance(value, np.ndarray):
            continue
        replaced.append((holder, key, value))
        if value.size > inline and value.dtype != object:
            name = _unused(_name(holder, key), weights)
            weights[name] = _storable(value)
            _set(holder, key, {NPZ: beside, NAME: name})
        else:
            _set(holder, key, value.tolist())  # MDF compares the values of ports with their defaults, arrays cannot
    try:
        return model.to_dict()
    finally:
        for holder, key, value in replaced:
            _set(holder, key, value)


def _storable(value: np.ndarray) -> np.ndarray:
    """An array as numpy's files hold it: they do not know the types of ml_dtypes, whose bytes are kept."""
    return value if value.dtype.isbuiltin == 1 else value.view(f"V{value.dtype.itemsize}")


def _name(holder: Any, key: str) -> str:
    return key if isinstance(holder, dict) else str(holder.id)


def _unused(name: str, weights: Mapping[str, Any]) -> str:
    found, k = name, 1
    while found in weights:
        k += 1
        found = f"{name}_{k}"
    return found


def _get(holder: Any, key: str) -> Any:
    return holder[key] if isinstance(holder, dict) else getattr(holder, key)


def _set(holder: Any, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    else:
        setattr(holder, key, value)


def _places(model: Any) -> Iterator[tuple[Any, str]]:
    """Everything in a model that may be a weight, in the bodies of loops too: what holds it, and its name there."""
    todo = list(model.graphs)
    while todo:
        for node in todo.pop().nodes:
            yield from ((port, "default_value") for port in node.input_ports)
            for thing in (*node.parameters, *node.functions):
                yield thing, "value"
                yield from ((thing.args, key) for key in thing.args or {})
                if isinstance(thing.value, dict):
                    todo += [inner for inner in thing.value.values() if hasattr(inner, "nodes")]


def read_weights(content: Any, folder: Path) -> None:
    """Put the weights into what a model file says, in place.

    Raises
    ------
    ValueError
        There is no such file or array, or it is not in the folder.
    """
    archives: dict[str, zipfile.ZipFile] = {}
    with contextlib.ExitStack() as opened:
        for holder, key in list(_references(content)):
            file, name = holder[key][NPZ], holder[key][NAME]
            if not isinstance(file, str) or not isinstance(name, str):
                raise ValueError(f"weights are {{npz: file, name: name}}; got {file!r}, {name!r}")
            if file not in archives:
                archives[file] = opened.enter_context(_archive(folder, file))
            holder[key] = _array(archives[file], file, name)


def _references(content: Any) -> Iterator[tuple[Any, Any]]:
    todo = [content]
    while todo:
        holder = todo.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, inner in items:
            if isinstance(inner, dict) and set(inner) == {NPZ, NAME}:
                yield holder, key
            elif isinstance(inner, dict | list):
                todo.append(inner)


def _archive(folder: Path, file: str) -> zipfile.ZipFile:
    """A file of weights, opened."""
    path = folder / file
    is_plain = Path(file).name == file and "\\" not in file and ":" not in file and file not in ("", ".", "..")
    if not is_plain or path.resolve().parent != folder.resolve():
        raise ValueError(f"weights must lie in the folder of the model; {file!r} does not")
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise ValueError(f"there is no file {file!r} beside the model, which holds its weights") from error
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"{file!r} is no file of weights: {error}") from error


def _array(archive: zipfile.ZipFile, file: str, name: str) -> np.ndarray:
    """An array of a file."""
    try:
        return _member(archive, f"{name}.npy")
    except KeyError as error:
        raise ValueError(f"{file!r} holds no weights {name!r}") from error
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, RuntimeError) as error:
        raise ValueError(f"weights {name!r} in {file!r} cannot be read: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array of an archive; its header is looked at before room is made for it."""
    entry = archive.getinfo(name)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        if version not in readers:
            raise ValueError(f"the format has version {version}")
        shape, _, dtype = readers[version](file)
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        wanted = dtype.itemsize * int(np.prod(shape, dtype=object))
        if wanted > entry.file_size or entry.file_size > MOST_BYTES_PER_STORED * max(entry.compress_size, 1):
            raise ValueError("it says it is larger than what is there")
    with archive.open(entry) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


MOST_BYTES_PER_STORED = 1100
"""Deflate stores no byte in less than a thousandth of one."""
