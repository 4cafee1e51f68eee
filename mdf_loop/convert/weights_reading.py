"""Reading the large weights that lie beside a model file; :mod:`mdf_loop.convert.weights` writes them.

The file may come from anyone: its name is a name without a folder, nothing in it is unpickled, and no array is made that
is larger than what the file holds.  An array is read once, however many parameters name it.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mdf_loop.convert.weights import NAME, NPZ
from mdf_loop.errors import MalformedBody
from mdf_loop.readers.model_files import inside, opened

WHAT = "a file of weights"

ANY, PER_BYTE = 1 << 28, 20
"""The arrays of an archive may take so many bytes whatever its size, and so many more for each byte of it."""

BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, OSError, RuntimeError, EOFError, MemoryError, SystemError)
"""What reading an archive raises if it is none, or damaged; RuntimeError if it is encrypted or packed in an unknown way,
SystemError where Python's parser stumbles over the header of an array."""


def read_weights(content: Any, folder: Path) -> None:
    """Put the weights into what a model file says, in place.

    Raises
    ------
    ValueError
        There is no such file or array, or it is not in the folder.
    """
    archives: dict[str, Archive] = {}
    arrays: dict[tuple[str, str], np.ndarray] = {}
    with contextlib.ExitStack() as stack:
        for holder, key in list(_references(content)):
            file, name = holder[key][NPZ], holder[key][NAME]
            if not isinstance(file, str) or not isinstance(name, str):
                raise ValueError(f"weights are {{npz: file, name: name}}; got {file!r}, {name!r}")
            if file not in archives:
                place = inside(folder, file, "weights", flat=True)
                if not os.path.lexists(place):
                    raise MalformedBody(f"there is no file {file!r} beside the model, which holds its weights")
                archives[file] = stack.enter_context(open_archive(place))
            if (file, name) not in arrays:
                arrays[file, name] = archives[file].array(name)
            holder[key] = arrays[file, name]


def _references(content: Any) -> Iterator[tuple[Any, Any]]:
    """Where a weight is named: what holds it, and its key there; each once, although aliases of YAML lead there twice."""
    todo, seen = [content], set()
    while todo:
        holder = todo.pop()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, inner in items:
            if isinstance(inner, dict) and set(inner) == {NPZ, NAME}:
                yield holder, key
            elif isinstance(inner, dict | list):
                todo.append(inner)


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a ``.npz`` file.

    Raises
    ------
    MalformedBody
        There is none, or it is no archive, or its entries lie over each other.
    """
    with opened(path, WHAT) as file:
        try:
            archive = Archive(file, path.name)
        except BROKEN as error:
            raise MalformedBody(f"{path.name!r} is not a file of weights: {error}") from error
        yield archive


class Archive:
    """A ``.npz`` file.

    Parameters
    ----------
    file : binary file
    label : str
        Its name, for messages.
    """

    def __init__(self, file: BinaryIO, label: str) -> None:
        size = file.seek(0, os.SEEK_END)
        self.label, self.left = label, ANY + PER_BYTE * size
        self._zip = zipfile.ZipFile(file)
        if sum(entry.compress_size for entry in self._zip.infolist()) > size:
            raise ValueError("its entries lie over each other")

    def names(self) -> list[str]:
        """The names of its arrays."""
        return [name.removesuffix(".npy") for name in self._zip.namelist()]

    def array(self, name: str) -> np.ndarray:
        """An array.

        Raises
        ------
        MalformedBody
            There is none of that name, or it cannot be read, or is larger than what is there.
        """
        try:
            return self._member(self._zip.getinfo(f"{name}.npy"))
        except KeyError as error:
            raise MalformedBody(f"{self.label!r} holds no weights {name!r}") from error
        except BROKEN as error:
            reason = str(error) or type(error).__name__
            raise MalformedBody(f"weights {name!r} in {self.label!r} cannot be read: {reason}") from error

    def _member(self, entry: zipfile.ZipInfo) -> np.ndarray:
        """An array; its header is looked at before room is made for it."""
        with self._zip.open(entry) as file:
            shape, dtype = _header(file)
        wanted = dtype.itemsize * int(np.prod(shape, dtype=object))
        self.left -= entry.file_size
        if wanted > entry.file_size or self.left < 0:
            raise ValueError("it declares more than the file has")
        with self._zip.open(entry) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array, as it begins to be read."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"the format has version {version}")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(dim < 0 for dim in shape) or not dtype.itemsize:
        raise ValueError(f"no array has the shape {list(shape)} and elements of {dtype.itemsize} bytes")
    return shape, dtype
