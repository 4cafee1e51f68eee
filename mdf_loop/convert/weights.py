"""Large weights beside a model file.

In the file a weight is ``{npz: <file>, name: <name>}``: the name of an array in a ``.npz`` file in the same folder.  The
file may come from anybody: its name is a name without a folder, nothing in it is unpickled, and no array is made that is
larger than what the file holds.
"""

from __future__ import annotations

import os
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
        if isinstance(value, np.ndarray) and value.size > inline and value.dtype != object:
            name = _unused(_name(holder, key), weights)
            weights[name] = value
            replaced.append((holder, key, value))
            _set(holder, key, {NPZ: beside, NAME: name})
    try:
        return model.to_dict()
    finally:
        for holder, key, value in replaced:
            _set(holder, key, value)


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
