"""Mutators: of bytes, of texts, and of what stands in YAML, JSON, protobufs, XML and npz files."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
from mutations import mutated

TOKENS = [
    *(
        "0",
        "-1",
        "1e999",
        "nan",
        ".inf",
        "9223372036854775807",
        "99999999999999999999",
        "true",
        "null",
        "[]",
        "{}",
        '""',
        "'",
        '"',
    ),
    *("{", "}", "[", "]", "(", ")", "<", ">", "=>", "=", ",", ":", "\n", "\t", "&a", "*a", "<<: *a", "!!binary", "- ", "?", "|"),
    *(
        "float",
        "int64",
        "bool",
        "seq(float)",
        "Loop",
        "Scan",
        "If",
        "Add",
        "x",
        "i",
        "\x00",
        "\ufeff",
        "é",
        "../../x",
        "/dev/zero",
    ),
    *(
        "onnx::Loop",
        "body",
        "value",
        "graphs",
        "nodes",
        "2 ** 99",
        "x[0]",
        "__import__('os')",
        "float[",
        "float[1,",
        "float[2,n]",
    ),
]
ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        -(2**63) - 1,
        10**30,
        0.5,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "1",
        "a b",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"b": []}},
        [1, "a", None],
        [[1, 2], [3]],
        "x" * 300,
        "\x00",
        "é",
        "x[0]",
        "len(x)",
    ),
    *({"onnx": ""}, {"onnx": "b () => () {}"}, {"onnx_file": "missing.onnx"}, {"onnx_file": "/dev/zero"}, {"npz": "x"}),
]


def of_bytes(choose: random.Random, data: bytes) -> bytes:
    """Bits turned, bytes lost, doubled, moved, or replaced."""
    found = bytearray(data)
    for _ in range(choose.choice([1, 1, 2, 5])):
        start = choose.randrange(len(found) + 1)
        end = min(start + choose.choice([1, 1, 2, 8, 64]), len(found))
        way = choose.randrange(6)
        if way == 0 and found:
            found[start % len(found)] ^= 1 << choose.randrange(8)
        elif way == 1:
            del found[start:end]
        elif way == 2:
            found[start:start] = found[start:end] * choose.choice([1, 2, 50])
        elif way == 3:
            found[start:end] = bytes(choose.randrange(256) for _ in range(end - start))
        elif way == 4:
            found[start:start] = choose.choice(TOKENS).encode()
        else:
            del found[choose.randrange(len(found) + 1) :]
    return bytes(found)


def of_text(choose: random.Random, data: bytes) -> bytes:
    """Words and marks lost, doubled, swapped, or others in their place."""
    import re

    parts = re.findall(r"\w+|\s+|.", data.decode(errors="replace"))
    for _ in range(choose.choice([1, 1, 2, 4])):
        if not parts:
            break
        place, other = choose.randrange(len(parts)), choose.randrange(len(parts))
        way = choose.randrange(5)
        if way == 0:
            del parts[place]
        elif way == 1:
            parts[place], parts[other] = parts[other], parts[place]
        elif way == 2:
            parts[place] = choose.choice(TOKENS)
        elif way == 3:
            parts.insert(place, choose.choice(TOKENS))
        else:
            parts[place] = parts[other]
    return "".join(parts).encode()


# Dicts and lists


def places_in(content: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every container with a key or index of it."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else []
    for key in keys:
        yield content, key
        if depth < 50:
            yield from places_in(content[key], depth + 1)


def of_tree(choose: random.Random, content: Any) -> Any:
    """A value replaced, moved, lost, doubled or wrapped; a key with another name."""
    content = copy.deepcopy(content)
    for _ in range(choose.choice([1, 1, 2, 3])):
        places = list(places_in(content))
        if not places:
            break
        (inside, key), (other, other_key) = choose.choice(places), choose.choice(places)
        way = choose.randrange(7)
        if way <= 1:
            inside[key] = copy.deepcopy(choose.choice(ODD))
        elif way == 2:
            del inside[key]
        elif way == 3:
            inside[key] = copy.deepcopy(other[other_key])
        elif way == 4:
            inside[key] = choose.choice([[inside[key]], {"a": inside[key]}, [inside[key]] * 3, str(inside[key])])
        elif way == 5 and isinstance(inside, dict):
            inside[choose.choice([f"{key}z", str(key)[:-1], choose.choice(TOKENS), str(other_key)])] = inside.pop(key)
        elif isinstance(inside, list):
            inside.insert(key, copy.deepcopy(inside[key]))
    return content


def of_yaml(choose: random.Random, data: bytes) -> bytes:
    """A YAML file whose content is another."""
    import yaml

    return yaml.safe_dump(of_tree(choose, yaml.safe_load(data)), sort_keys=False).encode()


def of_json(choose: random.Random, data: bytes) -> bytes:
    """A JSON file whose content is another."""
    return json.dumps(of_tree(choose, json.loads(data))).encode()


# Protobufs


def of_protobuf(choose: random.Random, data: bytes) -> bytes:
    """A model in which fields are lost, repeated, swapped, or say something else."""
    from onnx import ModelProto

    return mutated(ModelProto.FromString(data), choose, choose.choice([1, 1, 2, 4])).SerializePartialToString()


# XML and npz


def of_xml(choose: random.Random, data: bytes) -> bytes:
    """An XML file with elements lost, doubled, moved, and other attributes."""
    root = ElementTree.fromstring(data)
    for _ in range(choose.choice([1, 1, 2, 4])):
        pairs = [(parent, child) for parent in root.iter() for child in parent]
        if not pairs:
            break
        (parent, child), (_, other) = choose.choice(pairs), choose.choice(pairs)
        way = choose.randrange(6)
        if way == 0:
            parent.remove(child)
        elif way == 1:
            parent.append(copy.deepcopy(other))
        elif way == 2 and child.text:
            child.text = choose.choice(TOKENS).replace("\x00", "")
        elif child.attrib:
            key = choose.choice(list(child.attrib))
            if way == 3:
                del child.attrib[key]
            else:
                others = [value for element in root.iter() for value in element.attrib.values()]
                child.set(key, choose.choice([*others, *TOKENS]).replace("\x00", ""))
    return ElementTree.tostring(root)


def of_npz(choose: random.Random, data: bytes) -> bytes:
    """An archive of arrays with others in it, of other types and shapes, or that hold objects."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(choose.choice([1, 1, 2])):
        name = choose.choice(list(parts) or ["a.npy"])
        way = choose.randrange(5)
        if way == 0:
            parts.pop(name, None)
        elif way == 1:
            parts[name] = of_bytes(choose, parts.get(name, b""))
        elif way == 2:
            parts[choose.choice(["../x.npy", "x", name + "z"])] = parts.get(name, b"")
        else:
            file, odd = io.BytesIO(), choose.choice([np.zeros((0, 3)), np.array([object()], object), np.array("x"), np.zeros(3)])
            np.save(file, odd if way == 3 else np.arange(6).astype(choose.choice(["<i2", ">f8", "?", "<U3", "<c8"])))
            parts[name] = file.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()
