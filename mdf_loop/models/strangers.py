"""Files of results from unknown sources: what could do more than hold numbers is refused before it is decoded.

A ``.zarr`` folder is of zarr's format 3, with codecs and types of a list; a ``.nc`` file leads to no other file.  Neither may say
that it is much larger than what is there.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdf_loop.errors import MalformedBody, let_through
from mdf_loop.readers.model_files import OTHER_KINDS, opened, shortened

CODECS = {"bytes", "vlen-utf8", "transpose", "sharding_indexed", "crc32c", "zstd", "gzip", "blosc"}
"""Codecs of zarr that only move bits."""

TYPES = {"bool", "string", "fixed_length_utf32", "null_terminated_bytes", "numpy.datetime64", "numpy.timedelta64"} | {
    f"{kind}{bits}"
    for kind, sizes in {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}.items()
    for bits in sizes
}
"""Types of elements in zarr."""

FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32", 6: "scaleoffset"}
"""Filters of HDF5, which are built in."""

ANY, PER_BYTE = 1 << 30, 1 << 14
"""An array may take so many bytes however small the file is, and so many more for each byte of it."""

MOST_JSON, DEEPEST = 1 << 28, 32
"""Bytes of a file that describes an array, and how deep groups may lie inside each other."""


def refuse_strange(place: Path, part: str = "") -> None:
    """See that a file of results holds numbers alone.

    Parameters
    ----------
    place : Path
    part : str
        The arrays that are going to be read as a whole lie in this group of a ``.zarr`` folder.

    Raises
    ------
    MalformedBody
    """
    if place.suffix == ".zarr":
        _see_folder(place, place / part)
    elif place.suffix == ".nc":
        with opened(place, "a file of results"):
            pass
        _see_hdf5(place)


def zarr_attributes(place: Path) -> dict[str, Any]:
    """The attributes of a group of zarr's format 3; nothing else of it is read.

    Raises
    ------
    MalformedBody
        It is none.
    """
    found = _described(place / "zarr.json")
    if found.get("zarr_format") != 3 or found.get("node_type") != "group" or not isinstance(found.get("attributes", {}), dict):
        raise MalformedBody(f"{shortened(place)!r} is not a group of zarr's format 3")
    return dict(found.get("attributes", {}))


# zarr


def _see_folder(place: Path, read: Path) -> None:
    zarr_attributes(place)
    size, asked = 0, 0
    for path, info in _files_in(place):
        size += info.st_size
        if path.name in (".zgroup", ".zarray", ".zattrs", ".zmetadata"):
            raise _refused(place, f"{path.name} is of zarr's format 2; write it again with zarr_format=3")
        if path.name == "zarr.json":
            wanted = _bytes_of(_described(path), place)
            asked += wanted if path.is_relative_to(read) else 0
    _see_size(place, asked, size)


def _files_in(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files in a folder; anything else, and links, are refused."""
    todo = [place]
    while todo:
        folder = todo.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            infos = [(Path(entry.path), info) for entry in entries if (info := _still_there(entry)) is not None]
        except OSError as error:
            let_through(error)
            raise MalformedBody(f"{shortened(folder)!r} cannot be read: {error.strerror}") from error
        for path, info in infos:
            if stat.S_ISDIR(info.st_mode):
                todo.append(path)
            elif stat.S_ISREG(info.st_mode):
                yield path, info
            else:
                kind = "a link" if stat.S_ISLNK(info.st_mode) else OTHER_KINDS.get(stat.S_IFMT(info.st_mode), "no file")
                raise _refused(place, f"{path.name} in it is {kind}")


def _still_there(entry: os.DirEntry[str]) -> os.stat_result | None:
    """What a file is; none of one that a worker which still writes has moved to its place."""
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _described(path: Path) -> dict[str, Any]:
    """What a file of zarr says of a group or an array."""
    with opened(path, "a part of a .zarr folder") as file:
        text = file.read() if os.fstat(file.fileno()).st_size <= MOST_JSON else b"null"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f"{shortened(path)!r} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise MalformedBody(f"{shortened(path)!r} describes no group and no array")
    return found


def _bytes_of(said: Mapping[str, Any], place: Path) -> int:
    """How many bytes an array takes, by what is said of it; those of a group that lists its arrays as well."""
    if said.get("zarr_format") != 3:
        raise _refused(place, f"a part of it is of zarr's format {said.get('zarr_format')!r}; write it again with zarr_format=3")
    if said.get("node_type") == "group":
        inside = said.get("consolidated_metadata")
        listed = inside.get("metadata", {}) if isinstance(inside, dict) else {}
        if not isinstance(listed, dict) or not all(isinstance(each, dict) for each in listed.values()):
            raise _refused(place, "the description of its arrays cannot be read")
        return sum(_bytes_of(each, place) for each in listed.values())
    kind, configured = _name_of(said.get("data_type"))
    if kind not in TYPES:
        raise _refused(place, f"it has elements of type {kind!r}")
    _see_codecs(said.get("codecs"), place)
    if said.get("storage_transformers"):
        raise _refused(place, "it is stored in an unknown way")
    each: Any = configured.get("length_bytes", 16)
    shape: Any = said.get("shape")
    grid: Any = _name_of(said.get("chunk_grid"))[1].get("chunk_shape")
    if not (_is_shape(shape) and _is_shape(grid) and _is_shape([each])):
        raise _refused(place, "an array of it has no shape")
    whole, chunk = (each * math.prod(dims) for dims in (shape, grid))
    return max(whole, chunk)  # a chunk is decoded as a whole


def _see_codecs(codecs: Any, place: Path) -> None:
    if not isinstance(codecs, list):
        raise _refused(place, "an array of it has no list of codecs")
    for codec in codecs:
        name, configured = _name_of(codec)
        if name not in CODECS:
            raise _refused(place, f"it is packed with {name!r}; allowed are {', '.join(sorted(CODECS))}")
        for key in ("codecs", "index_codecs"):
            if key in configured:
                _see_codecs(configured[key], place)


def _name_of(said: Any) -> tuple[str, dict[str, Any]]:
    """Name and configuration, as zarr's format 3 writes them."""
    if isinstance(said, str):
        return said, {}
    if isinstance(said, dict) and isinstance(said.get("name"), str) and isinstance(said.get("configuration", {}), dict):
        return said["name"], dict(said.get("configuration", {}))
    return repr(said)[:50], {}


def _is_shape(found: Any) -> bool:
    return isinstance(found, list) and all(type(size) is int and size >= 0 for size in found)


# netCDF, which is HDF5


def _see_hdf5(place: Path) -> None:
    """See that nothing in a file of HDF5 leads out of it."""
    import h5py

    try:
        with h5py.File(place, "r") as file:
            asked = _bytes_in(file, place, set(), 0)
    except MalformedBody:
        raise
    except Exception as error:  # HDF5 has errors of every kind
        let_through(error)
        raise MalformedBody(f"{shortened(place)!r} cannot be read: {error}") from error
    _see_size(place, asked, place.stat().st_size)


def _bytes_in(group: Any, place: Path, seen: set[Any], depth: int) -> int:
    """How many bytes the arrays of a group take."""
    import h5py

    if depth > DEEPEST:
        raise _refused(place, "its groups lie too deep inside each other")
    asked = 0
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise _refused(place, f"{name!r} in it is a link")
        found = group[name]
        if found.id in seen:
            continue
        seen.add(found.id)
        if isinstance(found, h5py.Group):
            asked += _bytes_in(found, place, seen, depth + 1)
        elif isinstance(found, h5py.Dataset):
            asked += _bytes_of_dataset(found, place)
    return asked


def _bytes_of_dataset(found: Any, place: Path) -> int:
    made = found.id.get_create_plist()
    if found.is_virtual or made.get_external_count():
        raise _refused(place, f"the values of {found.name!r} lie in other files")
    filters = [made.get_filter(k)[0] for k in range(made.get_nfilters())]
    if unknown := [number for number in filters if number not in FILTERS]:
        raise _refused(place, f"{found.name!r} is packed with filter {unknown[0]}; allowed are {', '.join(FILTERS.values())}")
    return int(found.dtype.itemsize) * math.prod(found.shape or ())


def _see_size(place: Path, asked: int, size: int) -> None:
    if asked > ANY + PER_BYTE * size:
        raise _refused(place, f"it declares arrays of {asked:,} bytes, but has {size:,} bytes")


def _refused(place: Path, why: str) -> MalformedBody:
    return MalformedBody(f"{shortened(place)!r} is not opened: {why}")
