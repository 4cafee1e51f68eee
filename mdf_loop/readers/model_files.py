"""Opening the files that a model consists of: regular files alone, and those that a file names in its own folder.

A path may come from a model from an unknown source.  A device or a pipe is never opened: reading it might not end.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from mdf_loop.errors import KindError, MalformedBody, MissingFile, close_to, let_through
from mdf_loop.options import current_options
from mdf_loop.system.threads import holding

OTHER_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
"""What a path may lead to that is no file."""


_noted: contextvars.ContextVar[list[Path] | None] = contextvars.ContextVar("mdf_loop_noted_files", default=None)


@contextlib.contextmanager
def noted_files() -> Iterator[list[Path]]:
    """The files that are opened inside a ``with`` block: code that keeps what was read can see whether they have changed."""
    found: list[Path] = []
    with holding(_noted, found):
        yield found


def as_path(source: Any, what: str) -> Path:
    """A path from outside.

    Raises
    ------
    KindError
        It is neither a text nor path-like; ``what`` says what was asked for, such as "an MDF model".
    """
    if isinstance(source, Path):
        return source
    try:
        text = os.fspath(source)
    except TypeError as error:
        raise KindError(f"{what} is read from the path of its file; got {type(source).__name__}") from error
    if not isinstance(text, str):
        raise KindError(f"{what} is read from a path that is a text; got {type(text).__name__}")
    return Path(text)


@contextlib.contextmanager
def opened(path: Path, what: str) -> Iterator[BinaryIO]:
    """Open a regular file, to read its bytes.

    Parameters
    ----------
    path : Path
    what : str
        What the file should be, such as "an ONNX model"; for messages.

    Raises
    ------
    MalformedBody
        There is no such file, it is a directory, a device or a pipe, or it may not be read.
    """
    if (noted := _noted.get()) is not None:
        noted.append(path)
    with _told(path, what):
        mode = os.stat(path).st_mode
    _refuse_other_kinds(mode, path, what)  # before it is opened, which may do something to a device
    with _told(path, what):
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(number, "rb") as file:
        _refuse_other_kinds(os.fstat(number).st_mode, path, what)
        yield file


def like_file(path: Path, names: Iterable[str]) -> str:
    """``; did you mean 'x.yaml'?`` for a file that is not there: one whose name without its ending is much like it."""
    stems = {name: Path(name).stem for name in sorted(names)}
    others = [name for name, stem in stems.items() if stem == path.stem]  # with another ending
    by_stem = {stem: name for name, stem in stems.items()}
    found = close_to(path.name, others) or others or [by_stem[stem] for stem in close_to(path.stem, by_stem)]
    return f"; did you mean {found[0]!r}?" if found else ""


@contextlib.contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    """What the system says of a path, as an error of ours."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        names = os.listdir(path.parent) if path.parent.is_dir() and os.access(path.parent, os.R_OK) else []
        raise MissingFile(f"there is no file {shortened(path)!r}{like_file(path, names)}") from error
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a zero character in the path
        let_through(error)
        raise unread(path, what, error) from error


def read_bytes(path: Path, what: str) -> bytes:
    """All bytes of a regular file.

    Raises
    ------
    MalformedBody
        As :func:`opened`.
    """
    with opened(path, what) as file, _told(path, what):
        return file.read()


def unread(path: Path, what: str, error: Exception) -> MalformedBody:
    """The error for a file that could not be read."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return MalformedBody(f"{shortened(path)!r}, which should be {what}, cannot be read: {reason}")


def _refuse_other_kinds(mode: int, path: Path, what: str) -> None:
    if not stat.S_ISREG(mode):
        kind = OTHER_KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise MalformedBody(f"{shortened(path)!r} is not {what}: it is {kind} and cannot be read as a file")


def inside(folder: Path, name: str, what: str, flat: bool = False) -> Path:
    """The path of a file that a model names; it lies in the folder of the model, with links followed.

    Parameters
    ----------
    folder : Path
        The folder of the model.
    name : str
        What the model says.
    what : str
        What the file is, such as "weights"; for messages.
    flat : bool
        It must lie there directly: ``name`` is a name without a folder.

    Raises
    ------
    MalformedBody
        It does not, and ``options(trusted=True)`` is not in force.
    """
    path = folder / name
    is_plain = Path(name).name == name and not set(name) & {"\\", ":"} and name not in ("", ".", "..")
    if not current_options().trusted and not (_is_inside(folder, path) and (is_plain or not flat)):
        raise MalformedBody(
            f"{what} must lie in the folder of the model; {shortened(name)!r} does not. If you trust the model: "
            "options(trusted=True), on the command line --trusted"
        )
    return path


def _is_inside(folder: Path, path: Path) -> bool:
    try:
        home = os.path.realpath(folder)
        return os.path.commonpath([home, os.path.realpath(path)]) == home
    except (OSError, ValueError) as error:  # another drive; a zero character
        let_through(error)
        return False


def shortened(text: Any) -> str:
    """A path as it can stand in a message."""
    text = os.fspath(text)
    return text if len(text) <= 200 else f"{text[:100]}...{text[-90:]}"
