"""What everything that this package compiles depends on, besides what it compiles: its own files, and those of others."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from mdf_loop.backends.llvm.linking.object_code import key_of
from mdf_loop.kernels.arrays.bounds import most_bytes

ASKED = "numpy", "ml_dtypes", "onnx", "scipy"
"""Packages whose functions are asked while something is lowered, or called by what is compiled.  An installer writes their files
anew, which is seen without importing them; to read their versions takes 7 ms."""


@functools.cache
def around_this_process() -> str:
    """A hash of this package as its files are, Python, the packages that are asked while something is lowered, and the memory."""
    specs = (importlib.util.find_spec(name) for name in ASKED)
    files = [spec.origin for spec in specs if spec is not None and spec.origin]
    return key_of(sys.version, np.__version__, str(most_bytes()), repr(_stamps([*files, *_sources()])))


def _sources() -> Iterator[str]:
    """The files of this package."""
    todo = [str(Path(__file__).parents[3])]
    while todo:
        with os.scandir(todo.pop()) as files:
            for file in files:
                if file.name.endswith(".py"):
                    yield file.path
                elif file.is_dir() and file.name != "__pycache__":
                    todo.append(file.path)


def _stamps(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    """How long files are and when they changed, in the order of their names."""
    found = ((path, os.stat(path)) for path in paths)
    return sorted((path, said.st_size, said.st_mtime_ns) for path, said in found)
