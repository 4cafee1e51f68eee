"""The files of a store that zarr and xarray read: what a group says of its arrays, and chunks of them.

zarr makes them in memory, so that each is written as a whole or not at all, wherever it goes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.settings.engines import needed

KEYS = {"name": "default", "separator": "."}
"""Chunks are called ``c.0.3``."""


def zarr() -> Any:
    """The package zarr.

    Raises
    ------
    LoopError
        It is not installed.
    """
    return needed("zarr", "store= needs zarr", "sweep")


def chunk_files(
    label: str, rows: np.ndarray, chunk: tuple[int, ...], fill: Any, place: Sequence[int]
) -> Iterator[tuple[str, bytes]]:
    """The files of the chunks that begin at a place, which lie side by side along the axes of a row."""
    if not rows.size:
        return
    files: dict[str, Any] = {}
    array = zarr().create_array(zarr().storage.MemoryStore(files), **_form(rows.shape, rows.dtype, chunk, fill))
    array[...] = rows
    for key, content in files.items():
        if key != "zarr.json":
            moved = [
                int(at) + first for at, first in zip(key.split(".")[1:], (*place, *[0] * (rows.ndim - len(place))), strict=True)
            ]
            yield "/".join([label, ".".join(["c", *map(str, moved)])]), content.to_bytes()


def group_files(
    template: Any, chunks: Mapping[str, tuple[int, ...]], fills: Mapping[str, Any], masked: Mapping[str, Any]
) -> Iterator[tuple[str, bytes]]:
    """The files that say what a store holds, but for the chunks of its rows; that of the group comes last.

    Parameters
    ----------
    template : xarray.Dataset
        All of it; values of ``chunks`` are not looked at.
    chunks : mapping of str to tuple of int
        The shape of the chunks of each array that is written elsewhere.
    fills : mapping of str to number
        What such an array has where no chunk is.
    masked : mapping of str to number
        The number in such an array that xarray reads as no value.
    """
    files: dict[str, Any] = {}
    store = zarr().storage.MemoryStore(files)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr's, about texts in other programs
        template.drop_vars(list(chunks)).to_zarr(store, zarr_format=3, consolidated=False)
        group = zarr().open_group(store)
        for name, chunk in chunks.items():
            form = _form(template[name].shape, template[name].dtype, chunk, fills[name])
            attributes = template[name].attrs | ({"_FillValue": masked[name]} if name in masked else {})
            group.create_array(name, dimension_names=template[name].dims, attributes=attributes, **form)
        zarr().consolidate_metadata(store)
    for path in sorted(files, key=lambda path: path.count("/"), reverse=True):
        yield path, files[path].to_bytes()


def _form(shape: tuple[int, ...], dtype: Any, chunk: tuple[int, ...], fill: Any) -> dict[str, Any]:
    packed = [zarr().codecs.ZstdCodec(level=1, checksum=True)]
    return {
        "shape": shape,
        "dtype": dtype,
        "chunks": chunk,
        "fill_value": fill,
        "compressors": packed,
        "chunk_key_encoding": KEYS,
    }
