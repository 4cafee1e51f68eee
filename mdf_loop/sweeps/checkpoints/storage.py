"""Where a checkpoint lies: a folder of this machine, or an address that fsspec knows.

It has parts by name, each of which is there as a whole or not at all; ``folder/part`` lies one folder deeper.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from mdf_loop.errors import FileError, KindError, LoopError, let_through
from mdf_loop.readers.model_files import as_path, read_bytes, shortened
from mdf_loop.writers.atomic_files import naming, second_name

UNFINISHED = ".tmp-"
"""How the name of a part begins while it is written."""

TRIES = 3
"""How often a part is written that another job takes for a leftover."""


def place_of(path: Any, what: str = "checkpoint") -> LocalPlace | RemotePlace:
    """The place that a path or an address names, which was given as the argument ``what``.

    Raises
    ------
    LoopError
        It does not end in ``.zarr``, or is no text; or a package for such addresses is missing.
    """
    if hasattr(path, "supports_listing"):
        raise KindError(
            f"{what} is the path or the address of a .zarr folder; got a {type(path).__name__} of zarr: give its address"
        )
    text = os.fspath(as_path(path, f"a {what}")) if not isinstance(path, str) else path
    if not text.rstrip("/").endswith(".zarr"):
        raise LoopError(f"{what} is the name of a .zarr folder; got {shortened(text)!r}")
    scheme, found, rest = text.partition("://")
    if not found or scheme == "file":
        return LocalPlace(Path(rest if found else text).expanduser())
    return RemotePlace(text.rstrip("/"))


class LocalPlace:
    """A folder.

    Parameters
    ----------
    folder : Path
        It is made when the first part is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return os.fspath(self.folder)

    def names(self, within: str = "") -> list[str]:
        """What is there, or in a folder of it."""
        with naming(self, Exception):
            try:
                return os.listdir(self.folder / within)
            except FileNotFoundError:
                return []

    def has(self, name: str) -> bool:
        """Whether a part is there."""
        with naming(self, Exception):
            return (self.folder / name).exists()

    def read(self, name: str) -> bytes:
        """A part.

        Raises
        ------
        MalformedBody
            It cannot be read, or is no file.
        """
        return read_bytes(self.folder / name, "a part of a checkpoint")

    def write(self, name: str, content: bytes, is_new: bool = False) -> bool:
        """Write a part, in place of what is there; one that is to be new is not written where there is one, which is False."""
        with naming(self, Exception):
            self.folder.mkdir(exist_ok=True)
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            for _ in range(TRIES):
                beside = self.folder / f"{UNFINISHED}{os.urandom(8).hex()}-{name.replace('/', '-')}"
                try:
                    self._put(beside, self.folder / name, content, is_new)
                    return True
                except FileExistsError:
                    return False
                except FileNotFoundError:  # another job, which found nothing left to do, tidied up
                    continue
                finally:
                    beside.unlink(missing_ok=True)
            raise FileError(f"{str(self)!r} cannot be written: {name} is removed again and again")

    @staticmethod
    def _put(beside: Path, target: Path, content: bytes, is_new: bool) -> None:
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            if content:
                os.fsync(file.fileno())
        if is_new:
            second_name(beside, target)
        else:
            os.replace(beside, target)

    def rename(self, name: str, other: str) -> None:
        """Let a part have another name, as far as it is there."""
        with naming(self, Exception), contextlib.suppress(FileNotFoundError):
            self._remove(other)
            os.replace(self.folder / name, self.folder / other)

    def remove(self, name: str) -> None:
        """Remove a part, as far as it is there."""
        with naming(self, Exception):
            self._remove(name)

    def _remove(self, name: str) -> None:
        path = self.folder / name
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


class RemotePlace:
    """A folder of a storage that fsspec knows, such as ``s3://bucket/sweep.zarr``: each part is one object.

    Parameters
    ----------
    address : str
    """

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise LoopError(f"{shortened(address)!r} needs fsspec: pip install fsspec") from error
        try:
            self._system, self._root = url_to_fs(address)
        except ImportError as error:
            raise LoopError(f"{shortened(address)!r} needs a package: {error}") from error
        except Exception as error:
            let_through(error)
            raise LoopError(f"{shortened(address)!r} is not the address of a folder: {error}") from error

    def __str__(self) -> str:
        return self.address

    def names(self, within: str = "") -> list[str]:
        """What is there, or in a folder of it."""
        with naming(self, Exception):
            folder = f"{self._root}/{within}".rstrip("/")
            self._system.invalidate_cache(folder)
            try:
                return [str(found).rstrip("/").rpartition("/")[2] for found in self._system.ls(folder, detail=False)]
            except FileNotFoundError:
                return []

    def has(self, name: str) -> bool:
        """Whether a part is there."""
        with naming(self, Exception):
            return bool(self._system.exists(f"{self._root}/{name}"))

    def read(self, name: str) -> bytes:
        """A part."""
        with naming(self, Exception):
            return bytes(self._system.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, content: bytes, is_new: bool = False) -> bool:
        """Write a part, in place of what is there; one that is to be new is not written where there is one, which is False."""
        with naming(self, Exception):
            if is_new and self._system.exists(f"{self._root}/{name}"):
                return False
            self._system.pipe_file(f"{self._root}/{name}", content)
            return True

    def rename(self, name: str, other: str) -> None:
        """Let a part have another name, as far as it is there."""
        with naming(self, Exception), contextlib.suppress(FileNotFoundError):
            self._system.mv(f"{self._root}/{name}", f"{self._root}/{other}")

    def remove(self, name: str) -> None:
        """Remove a part, as far as it is there."""
        with naming(self, Exception), contextlib.suppress(FileNotFoundError):
            self._system.rm(f"{self._root}/{name}", recursive=True)
