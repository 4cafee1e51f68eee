"""Files are written beside what they replace and moved into its place: whatever happens, the old or the new one is whole.

Permissions, owner and links are left as writing into the old file would have left them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import IO, Any

import numpy as np

from mdf_loop.errors import FileError, LoopError, let_through


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which takes the place of ``path`` when the ``with`` block ends without an error.

    Raises
    ------
    FileError
        It cannot be written; what was there is unchanged.
    """
    with NewFile(path) as new:
        yield new.file
        new.put()


class NewFile:
    """A file that is written beside ``path``; it goes where ``put`` says, and away if that is never said.

    A device or a pipe has nothing beside it, and is written as it is.

    Attributes
    ----------
    file : file of bytes
        What to write to, inside a ``with`` block.
    """

    file: IO[bytes]

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.fspath(path)
        self.target = os.path.realpath(self.path)
        self.beside = os.path.join(os.path.dirname(self.target), f".mdf-loop-{os.urandom(8).hex()}.tmp")
        self._is_beside = True

    def __enter__(self) -> NewFile:
        try:
            self._open()
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end(error)

    def finish(self) -> None:
        """See that everything written is on the disk."""
        if not self.file.closed:
            self.file.flush()
            if self._is_beside:
                os.fsync(self.file.fileno())
            self.file.close()

    def put(self) -> None:
        """Let it take the place of ``path``."""
        self.finish()
        if self._is_beside:
            os.replace(self.beside, self.target)
            sync_folder(self.target)

    @property
    def is_waiting(self) -> bool:
        """Whether it is still beside what it is to replace."""
        return self._is_beside and os.path.lexists(self.beside)

    def _open(self) -> None:
        old = os.stat(self.target) if os.path.lexists(self.target) else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            self._is_beside = False
            self.file = open(self.target, "wb")  # noqa: SIM115
            return
        if old is not None and not os.access(self.target, os.W_OK):
            raise PermissionError("it may not be written to")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self.file = os.fdopen(os.open(self.beside, flags, 0o666 if old is None else 0o600), "wb")
        if old is not None:
            self._resemble(old)

    def _resemble(self, old: os.stat_result) -> None:
        """Copy what belongs to the old file itself; what only its owner could give is left as it is."""
        with contextlib.suppress(OSError):
            shutil.copystat(self.target, self.beside)  # access lists; the times change when it is written
        new = os.stat(self.beside)
        if hasattr(os, "chown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with contextlib.suppress(OSError):
                os.chown(self.beside, old.st_uid, old.st_gid)
        os.chmod(self.beside, stat.S_IMODE(old.st_mode))

    def _end(self, error: BaseException | None) -> None:
        """Nothing is left beside; an error of the system becomes one of ours."""
        with contextlib.suppress(OSError, AttributeError):
            self.file.close()
        if self._is_beside:
            with contextlib.suppress(OSError):
                os.unlink(self.beside)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            folder = os.path.dirname(self.target)
            reason = f"{error.strerror or error}; what was there is unchanged"
            reason = reason if os.path.isdir(folder) else f"there is no folder {folder!r}"
            raise FileError(f"{self.path!r} cannot be written: {reason}") from error


@contextlib.contextmanager
def naming(place: Any, kinds: type[Exception] = OSError, what: str = "written or read") -> Iterator[None]:
    """Errors of some kinds become one of ours, which names the place.

    Raises
    ------
    FileError
    """
    try:
        yield
    except LoopError:
        raise
    except kinds as error:
        let_through(error)
        raise FileError(f"{str(place)!r} cannot be {what}: {error or type(error).__name__}") from error


def second_name(path: str | os.PathLike, other: str | os.PathLike) -> None:
    """Let a file have another name as well, which is free; a copy has it where the file system has no links (FAT, some shares).

    Raises
    ------
    FileExistsError
        The name is taken.
    """
    try:
        os.link(path, other)
        return
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        let_through(error)
        copy = f"{os.fspath(path)}.copy"
    try:
        shutil.copyfile(path, copy)
        if os.path.lexists(other):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(other))
        os.rename(copy, other)  # Windows refuses a name that was taken since; elsewhere jobs race for it
    finally:
        with contextlib.suppress(OSError):
            os.unlink(copy)


def sync_folder(path: str | os.PathLike) -> None:
    """See that the name of a file is on the disk, where the system has a way to say so."""
    with contextlib.suppress(OSError):
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_npz(file: IO[bytes], arrays: Mapping[str, Any], comment: str = "") -> None:
    """Write arrays by name as ``numpy.savez`` does, which keeps some names for itself (``file``) and knows no comments."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = comment.encode()
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def comment_of(path: str | os.PathLike) -> str:
    """The comment of a file of :func:`write_npz`; empty for any other file."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return ""
        with zipfile.ZipFile(path) as archive:
            return archive.comment.decode()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        let_through(error)
        return ""
