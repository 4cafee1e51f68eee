"""Large weights beside a model file.

In the file a weight is ``{npz: <file>, name: <name>}``: the name of an array in a ``.npz`` file in the same folder.  The
file may come from anyone: its name is a name without a folder, nothing in it is unpickled, and no array is made that is
larger than what the file holds.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import setitem
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from mdf_loop.convert.file_text import model_text, places_in
from mdf_loop.errors import ArgumentError, FileError, MalformedBody, let_through
from mdf_loop.ir.fresh_names import FreshNames
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.model_files import inside, opened
from mdf_loop.writers.atomic_files import NewFile, comment_of, replacing, second_name, write_npz

NPZ, NAME = "npz", "name"

SUFFIXES = (".json", ".yaml", ".yml")


def save(model: Any, path: Path, inline: int) -> None:
    """Write an MDF model, and its weights of more elements than ``inline`` to a ``.npz`` file beside it.

    The file of weights has the name of the model.  Where there is one already the new weights get a name of their own
    until the model that reads them is in place, and keep it if the one there is not an earlier file of the same model.

    Raises
    ------
    ArgumentError
        The name ends in something else than .json, .yaml or .yml.
    FileError
        A file cannot be written; the model and the weights that were there are unchanged.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ArgumentError(f"an MDF model is a file of type {', '.join(SUFFIXES)}; got {os.fspath(path)!r}")
    places = _large(model, inline)
    weights = {place.name: _storable(place.value) for place in places}
    plain, earlier = path.with_suffix(".npz"), _earlier(path)
    beside = plain if not os.path.lexists(plain) else path.with_suffix(f".{_digest(weights)}.npz")

    def text(name: str) -> bytes:
        return model_text(_written(model, places, name), path.suffix.lower()).encode()

    _write(path, text(beside.name), beside, weights)
    for found in earlier:
        if found != beside or not weights:
            with contextlib.suppress(OSError):
                found.unlink()
    if weights and beside != plain and not os.path.lexists(plain):
        with contextlib.suppress(OSError):  # a name that is less plain serves as well
            _rename(path, text(plain.name), beside, plain)


def _write(path: Path, text: bytes, beside: Path, weights: Mapping[str, np.ndarray]) -> None:
    """Both files or none: the weights first, which are not read before the model is there."""
    if not weights:
        with replacing(path) as file:
            file.write(text)
        return
    if is_there := os.path.lexists(beside):
        _refuse_other(beside, path)
    with NewFile(beside) as arrays, NewFile(path) as new:
        write_npz(arrays.file, weights, _comment(path))
        arrays.finish()
        new.file.write(text)
        new.finish()
        try:
            arrays.put()
            new.put()
        except BaseException:
            if new.is_waiting and not is_there:
                beside.unlink(missing_ok=True)
            raise


def _rename(path: Path, text: bytes, beside: Path, plain: Path) -> None:
    """Give weights a free name: they have both until the model says the new one."""
    with NewFile(path) as new:
        new.file.write(text)
        new.finish()
        second_name(beside, plain)  # which never replaces anything
        try:
            new.put()
        except BaseException:
            if new.is_waiting:
                plain.unlink(missing_ok=True)
            raise
    beside.unlink()


def _earlier(path: Path) -> list[Path]:
    """The weights that the model there is in this file reads, if we wrote them for it."""
    found = [path.with_suffix(".npz"), *path.parent.glob(f"{glob.escape(path.stem)}.*.npz")]
    ours = [file for file in found if comment_of(file) == _comment(path)]
    try:
        said = path.read_bytes() if ours else b""
    except OSError as error:
        let_through(error)
        return []
    return [file for file in ours if file.name.encode() in said]


def _refuse_other(beside: Path, path: Path) -> None:
    """See that what is about to be replaced are weights of the same model."""
    if comment_of(beside) != _comment(path):
        raise FileError(
            f"{os.fspath(beside)!r} exists and is not a file of weights, so those of {os.fspath(path)!r} cannot be written"
        )


def _comment(path: Path) -> str:
    """What a file of weights says of itself."""
    return f"weights of {path.name}, written by mdf_loop"


def _digest(weights: Mapping[str, np.ndarray]) -> str:
    """A few letters that differ for different weights."""
    found = hashlib.sha256()
    for name, value in weights.items():
        found.update(f"{name} {value.dtype} {value.shape} ".encode())
        found.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
    return found.hexdigest()[:12]


class MaybeWeight(NamedTuple):
    """Something in a model that may be a weight: what it is, what puts another value there, and what it is called."""

    value: Any
    put: Callable[[Any], None]
    name: str


def _large(model: Any, inline: int) -> list[MaybeWeight]:
    """The arrays of a model that do not stay in its file, each with its name in the other one."""
    names = FreshNames()
    arrays = [place for place in _places(model) if isinstance(place.value, np.ndarray)]
    large = [place for place in arrays if place.value.size > inline and place.value.dtype != object]
    return [place._replace(name=names.fresh(place.name)) for place in large]


def _written(model: Any, places: Sequence[MaybeWeight], beside: str) -> Any:
    """The model as dicts and lists, with its large arrays taken out."""
    small = [place for place in _places(model) if isinstance(place.value, np.ndarray)]
    try:
        for place in small:
            place.put(place.value.tolist())  # MDF compares the values of ports with their defaults, arrays cannot
        for place in places:
            place.put({NPZ: beside, NAME: place.name})
        return model.to_dict()
    finally:
        for place in small:
            place.put(place.value)


def _storable(value: np.ndarray) -> np.ndarray:
    """An array as numpy's files hold it: they do not know the types of ml_dtypes, whose bytes are kept."""
    return value if value.dtype.isbuiltin == 1 else value.view(f"V{value.dtype.itemsize}")


def _places(model: Any) -> Iterator[MaybeWeight]:
    """Everything in a model that may be a weight, in the bodies of loops too."""
    todo = list(model.graphs)
    while todo:
        for node in todo.pop().nodes:
            for port in node.input_ports:
                if (value := default_value_of(port)) is not None:
                    yield MaybeWeight(value, partial(setattr, port, "default_value"), port.id)
            for thing in (*node.parameters, *node.functions):
                yield MaybeWeight(thing.value, partial(setattr, thing, "value"), thing.id)
                yield from (
                    MaybeWeight(value, partial(setitem, thing.args, key), key) for key, value in (thing.args or {}).items()
                )
                if isinstance(thing.value, dict):
                    todo += [inner for inner in thing.value.values() if hasattr(inner, "nodes")]


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
        for holder, key in _references(content):
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


def _references(content: Any) -> Iterable[tuple[Any, Any]]:
    """Where a weight is named: what holds it, and its key there; each once, although aliases of YAML lead there twice."""
    found: dict[Any, tuple[Any, Any]] = {}
    for _, holder in places_in(content, kinds=(dict, list)):
        items = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        is_weight = (key for key, inner in items if isinstance(inner, dict) and set(inner) == {NPZ, NAME})
        found |= {(id(holder), key): (holder, key) for key in is_weight}
    return found.values()


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
