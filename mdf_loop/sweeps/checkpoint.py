"""A sweep that can be gone on with: each chunk is a file, written beside and moved into its place when it is whole.

The folder is a zarr group: what is known of the sweep are its attributes, each chunk is a group of arrays in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.counts import is_count
from mdf_loop.errors import FileError, LoopError, MalformedBody
from mdf_loop.files import sync_folder
from mdf_loop.sweeps.table import Chunk
from mdf_loop.sweeps.workers import Span

VERSION = 1
"""Of the form of a checkpoint."""

SAID_SINCE = ("steps", "time_increment")
"""What is said for people alone, and not by every checkpoint of this version: its content tells."""


def begun(path: Any) -> tuple[int | None, int | None]:
    """Seed and length of chunks of the sweep whose checkpoint is there; None for what it does not say, as a number.

    A call that leaves them open goes on with them.

    Raises
    ------
    LoopError
        zarr is not installed, or the folder holds something else.
    """
    said = _said_in(Path(path)) if Path(path).exists() else {}
    seed, chunk = str(said.get("seed")), said.get("chunk")
    return int(seed) if seed.isdecimal() else None, chunk if is_count(chunk, 1) else None


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise LoopError('checkpoint needs zarr: pip install "mdf-loop[sweep]"') from error
    return zarr


def _said_in(path: Path) -> dict[str, Any]:
    """What a checkpoint says of its sweep."""
    zarr = _zarr()
    try:
        return dict(json.loads(zarr.open_group(path, mode="r").attrs["mdf_loop_sweep"]))
    except Exception as error:
        raise MalformedBody(f"{str(path)!r} is there and holds no checkpoint of a sweep; it is not replaced") from error


class Checkpoint:
    """The chunks of one sweep that are complete.

    Parameters
    ----------
    path : str or path-like
        A ``.zarr`` folder; made if it is not there.
    said : mapping
        What tells this sweep from others; that of a folder that is there has to be the same.

    Raises
    ------
    LoopError
        zarr is not installed, or the folder holds something else, or another sweep: says what is different.
    """

    def __init__(self, path: Any, said: dict[str, Any]) -> None:
        self.path, self.said = Path(path), {"version": VERSION, **said}
        if self.path.suffix != ".zarr":
            raise LoopError(f"checkpoint is the name of a .zarr folder; got {str(path)!r}")
        self._zarr = _zarr()
        if self.path.exists():
            self._see_same()
        else:
            self._begin()

    def _begin(self) -> None:
        beside = self._beside()
        try:
            self._zarr.open_group(beside, mode="w", attributes={"mdf_loop_sweep": json.dumps(self.said)})
            os.rename(beside, self.path)
        except OSError as error:
            raise FileError(f"{str(self.path)!r} cannot be written: {error}") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _see_same(self) -> None:
        found = _said_in(self.path)
        for key, value in self.said.items():
            if found.get(key, value if key in SAID_SINCE else None) != json.loads(json.dumps(value)):
                raise LoopError(
                    f"{str(self.path)!r} is the checkpoint of another sweep: its {key} is {found.get(key)}, here it is {value}; "
                    "name another file, or remove this one"
                )

    def _beside(self) -> Path:
        return self.path.with_name(f".mdf-loop-{os.urandom(8).hex()}.zarr")

    def chunks(self) -> Iterator[tuple[Span, Chunk]]:
        """The chunks that are complete."""
        for place in sorted(self.path.glob("chunk_*_*")):
            _, start, stop = place.name.split("_")
            yield (int(start), int(stop)), self._read(place)

    def done(self) -> set[Span]:
        """Which chunks are complete, without reading them."""
        parts = (place.name.split("_") for place in self.path.glob("chunk_*_*"))
        return {(int(start), int(stop)) for _, start, stop in parts}

    def write(self, span: Span, chunk: Chunk) -> None:
        """Keep a chunk.

        Raises
        ------
        FileError
            It cannot be written.
        """
        place, beside = self.path / f"chunk_{span[0]}_{span[1]}", self.path / f".tmp-{os.urandom(8).hex()}"
        try:
            with self._quiet():
                names = list(chunk.columns)
                attributes = {"names": names, "errors": {str(k): error for k, error in chunk.errors.items()}}
                group = self._zarr.open_group(beside, mode="w", attributes=attributes)
                for k, (rows, lengths) in enumerate(chunk.columns.values()):
                    group.create_array(f"rows_{k}", data=rows)
                    if lengths is not None:
                        group.create_array(f"lengths_{k}", data=lengths)
            _sync(beside)
            os.rename(beside, place)
            sync_folder(place)
        except OSError as error:
            raise FileError(f"{str(self.path)!r} cannot be written: {error}") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _read(self, place: Path) -> Chunk:
        try:
            group = self._zarr.open_group(place, mode="r")
            columns = {}
            for k, name in enumerate(group.attrs["names"]):
                lengths = np.asarray(group[f"lengths_{k}"][:]) if f"lengths_{k}" in group else None
                columns[name] = np.asarray(group[f"rows_{k}"][...]), lengths
            return Chunk(columns, {int(k): error for k, error in group.attrs["errors"].items()})
        except Exception as error:
            raise MalformedBody(f"{str(place)!r} is damaged: {error}; remove it, and its runs are run again") from error

    @staticmethod
    @contextlib.contextmanager
    def _quiet() -> Iterator[None]:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr's, about texts in other programs
            yield


def _sync(folder: Path) -> None:
    """See that all files of a folder are on the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
