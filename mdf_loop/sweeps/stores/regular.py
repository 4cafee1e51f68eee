"""How the rows of a sweep lie in arrays of regular chunks: each chunk is a block of rows, one after the other in C order.

So a block is runs in a row, and the worker that runs them writes its chunks without asking others.  zarr makes the files in
memory, so that each is written as a whole or not at all, wherever it goes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError
from mdf_loop.models.written import holding
from mdf_loop.settings.engines import needed
from mdf_loop.sweeps.rows.rows_of_runs import Span

KINDS = "biufc"
"""Kinds of numbers that an array of a store may hold."""


@dataclass(frozen=True)
class RowForm:
    """What the rows of an output are.

    Attributes
    ----------
    dtype : str
    shape : tuple of int
        Of the part of a row that lies in one chunk.
    has_lengths : bool
        Whether rows have a first axis, along which they may differ in length.
    """

    dtype: str
    shape: tuple[int, ...]
    has_lengths: bool

    @property
    def is_truth(self) -> bool:
        """Whether they are truth values."""
        return np.dtype(self.dtype).kind == "b"

    def stored(self, fill: float) -> np.dtype:
        """The type of the array: truth values are numbers in it where ``fill`` is none of them."""
        return np.dtype(np.int8) if self.is_truth and self.stands_in(fill) else np.dtype(self.dtype)

    def filling(self, fill: float) -> Any:
        """What stands where no value is: a whole number at the end of its range where ``fill`` is none."""
        if not self.stands_in(fill):
            return fill
        dtype = self.stored(fill)
        return int(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)

    def stands_in(self, fill: float) -> bool:
        """Whether a whole number stands where there is none."""
        dtype = np.dtype(self.dtype)
        return dtype.kind in "biu" and holding(dtype, fill) != dtype

    def fitted(self, rows: np.ndarray, name: str, fill: float) -> np.ndarray:
        """Rows in the type of the array.

        Raises
        ------
        LoopError
            They do not fit.
        """
        dtype = np.dtype(self.dtype)
        if rows.ndim - 1 != len(self.shape):
            raise LoopError(
                f"output {name!r} has {rows.ndim - 1} axes in some runs and {len(self.shape)} in others; leave it out"
            )
        if np.can_cast(rows.dtype, dtype, "safe"):
            return rows.astype(self.stored(fill), copy=False)
        is_missing = np.isnan(rows) if np.isnan(fill) else rows == fill
        is_whole = bool((np.floor(rows) == rows)[~is_missing].all())
        if dtype.kind not in "biu" or rows.dtype != holding(dtype, fill) or not is_missing.any() or not is_whole:
            raise LoopError(
                f"output {name!r} is {rows.dtype} in some runs and {dtype} in those that were tried first, as is its array in "
                "the store; leave it out with outputs=[...], or sweep without store="
            )
        found = np.zeros(rows.shape, self.stored(fill))
        found[~is_missing] = rows[~is_missing]
        found[is_missing] = self.filling(fill)
        return found


@dataclass(frozen=True)
class RowLayout:
    """Blocks of rows, and what they hold.

    Attributes
    ----------
    shape, chunk : tuple of int
        Of all rows, axis by axis as the results have them, and of those in one block.
    each : int
        How many runs a row is made of.
    forms : mapping of str to RowForm
        By output.
    seconds : float
        About how long a block takes.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    each: int
    forms: Mapping[str, RowForm]
    seconds: float

    @cached_property
    def _grid(self) -> tuple[int, ...]:
        return tuple(-(-size // part) for size, part in zip(self.shape, self.chunk, strict=True))

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return math.prod(self._grid)

    def place(self, block: int) -> tuple[int, ...]:
        """Where the chunks of a block are among those of an array."""
        return tuple(map(int, np.unravel_index(block, self._grid))) if self._grid else ()

    def block_shape(self, block: int) -> tuple[int, ...]:
        """How many rows a block has along each axis: at the end of an axis fewer than others."""
        lead = zip(self.place(block), self.shape, self.chunk, strict=True)
        return tuple(min(part, size - at * part) for at, size, part in lead)

    def runs(self, start: int, stop: int) -> Span:
        """The first run of some blocks, and the one behind their last."""
        return self._first(start), self._first(stop - 1) + math.prod(self.block_shape(stop - 1)) * self.each

    def _first(self, block: int) -> int:
        row = 0
        for at, size, part in zip(self.place(block), self.shape, self.chunk, strict=True):
            row = row * size + at * part
        return row * self.each

    def said(self) -> dict[str, Any]:
        """All of it, in JSON."""
        return asdict(self)


def layout_of(said: Mapping[str, Any]) -> RowLayout:
    """A layout that was said in JSON.

    Raises
    ------
    KeyError, TypeError, ValueError
        It is none.
    """
    forms = {str(name): _form_of(form) for name, form in said["forms"].items()}
    shape, chunk = _counts(said["shape"]), _counts(said["chunk"])
    if len(shape) != len(chunk):
        raise ValueError(chunk)
    return RowLayout(shape, chunk, int(said["each"]), forms, float(said["seconds"]))


def _form_of(said: Mapping[str, Any]) -> RowForm:
    if np.dtype(str(said["dtype"])).kind not in KINDS:
        raise ValueError(said["dtype"])
    return RowForm(str(said["dtype"]), _counts(said["shape"]), bool(said["has_lengths"]))


def _counts(said: Any) -> tuple[int, ...]:
    found = tuple(map(int, said))
    if min(found, default=1) < 1:
        raise ValueError(said)
    return found


def chunk_shape(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """Chunks of at most so many rows in a row, all about as large."""
    found, inside = [1] * len(shape), 1
    for axis in reversed(range(len(shape))):
        most = max(rows // inside, 1)
        found[axis] = -(-shape[axis] // -(-shape[axis] // most))
        inside *= found[axis]
        if found[axis] < shape[axis]:
            break
    return tuple(found)


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
