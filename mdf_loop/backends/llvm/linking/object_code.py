"""Object code on disk: what was compiled once is not compiled again in another process.

An entry is a file whose name is a hash of everything its content depends on.  It is written beside its place and moved there, and
begins with a checksum of name and content: what is damaged, cut short or another user's is as good as not there.  Code that is
loaded is run, so the folder and its entries have to be the user's own, and only the user may write to them.  Whatever is the
matter with a folder, it only means that there is no cache; the log says so (DEBUG).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mdf_loop.errors import let_through

FOLDER, MOST = "MDF_LOOP_CACHE", "MDF_LOOP_CACHE_BYTES"
"""Variables of the environment: another folder, or ``off``; how many bytes the entries may have together."""

MOST_BYTES, MOST_ENTRIES = 256 << 20, 10_000
"""How much is kept."""

UNSEEN = 16
"""A process looks at the whole folder again when it has written this part of what may be kept."""

ABANDONED = 3600.0
"""Seconds after which a file that was never moved to its place was left by a process that crashed."""

MAGIC = b"mdf_loop object code 1\n"

READING = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # no links, and no waiting for who writes to a pipe
    READING |= getattr(os, _flag, 0)

_NAME = re.compile(r"[0-9a-f]{64}\.object|\.[0-9a-f]{16}\.tmp")

log = logging.getLogger(__name__)


class Kept(NamedTuple):
    """One file of the cache: where it is, its bytes, and when it was last used (seconds since 1970)."""

    path: str
    size: int
    used: float


class Disk:
    """A folder of entries.

    Parameters
    ----------
    path : Path
        The folder, which is made when something is written.
    most_bytes, most_entries : int
        How much it may hold; the entries that were used longest ago go first.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> None:
        self.path, self.most_bytes, self.most_entries = path, most_bytes, most_entries
        self._bytes, self._entries = 0, most_entries  # written since the folder was looked at: never yet

    def read(self, key: str) -> bytes | None:
        """What was written for a key; None if there is nothing that can be trusted."""
        place = self._place(key)
        try:
            self._check_folder()
            with open(os.open(place, READING), "rb") as file:
                _check_owner(os.fstat(file.fileno()), stat.S_ISREG)
                found = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            let_through(error)
            log.debug("%s is not read: %s", place, error)
            return None
        content = found[len(MAGIC) + 32 :]
        if found != _sealed(key, content):
            log.debug("%s is damaged, and ignored", place)
            return None
        with contextlib.suppress(OSError):
            now = time.time_ns()
            os.utime(place, ns=(now, now))
        return content

    def write(self, key: str, content: bytes) -> None:
        """Keep something; a folder that cannot be written to is left alone."""
        if len(content) > self.most_bytes:
            return
        beside = os.path.join(self.path, f".{os.urandom(8).hex()}.tmp")
        try:
            os.makedirs(self.path, 0o700, exist_ok=True)
            self._check_folder()
            self._put(beside, self._place(key), _sealed(key, content))
            self._bytes, self._entries = self._bytes + len(content), self._entries + 1
            if self._bytes * UNSEEN > self.most_bytes or self._entries * UNSEEN > self.most_entries:
                self._make_room()
        except OSError as error:
            let_through(error)
            log.debug("nothing is kept in %s: %s", self.path, error)

    def refusal(self) -> str:
        """Why the folder is not used; empty if it is, or will be made."""
        try:
            self._check_folder()
        except FileNotFoundError:
            return ""
        except OSError as error:
            let_through(error)
            return str(error)
        return ""

    def kept(self) -> Iterator[Kept]:
        """The files of the cache, in no order; other files in the folder are none of it."""
        try:
            with os.scandir(self.path) as files:
                for file in files:
                    if _NAME.fullmatch(file.name) and file.is_file(follow_symlinks=False):
                        with contextlib.suppress(FileNotFoundError):  # another process was faster
                            found = file.stat(follow_symlinks=False)
                            yield Kept(file.path, found.st_size, found.st_mtime)
        except OSError as error:
            let_through(error)
            log.debug("%s is not looked at: %s", self.path, error)

    def clear(self) -> int:
        """Delete everything that is kept; gives how many files that were."""
        return sum(_delete(each) for each in self.kept())

    def _place(self, key: str) -> str:
        return os.path.join(self.path, f"{key}.object")

    def _check_folder(self) -> None:
        _check_owner(os.stat(self.path), stat.S_ISDIR)

    def _put(self, beside: str, place: str, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            with open(os.open(beside, flags, 0o600), "wb") as file:
                file.write(content)
            os.replace(beside, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise

    def _make_room(self) -> None:
        """Delete what was used longest ago, as far as there is too much, and what was never finished."""
        found = sorted(self.kept(), key=lambda each: each.used)
        size, count, oldest = sum(each.size for each in found), len(found), time.time() - ABANDONED
        for each in found:
            is_too_much = size > self.most_bytes or count > self.most_entries
            if is_too_much or (each.path.endswith(".tmp") and each.used < oldest):
                size, count = size - each.size, count - 1
                _delete(each)
        self._bytes = self._entries = 0


def disk() -> Disk | None:
    """The cache of this process; None if there is none."""
    return _disk(os.environ.get(FOLDER), os.environ.get(MOST))


@functools.lru_cache(maxsize=8)
def _disk(named: str | None, most: str | None) -> Disk | None:
    path = folder(os.environ)
    if path is None:
        return None
    if most and not most.isdecimal():
        log.debug("%s is no number of bytes: %r", MOST, most)
    return Disk(path, int(most) if most and most.isdecimal() else MOST_BYTES)


def folder(environment: Mapping[str, str]) -> Path | None:
    """Where entries are kept: where the environment says, or where programs of this system keep such things; None if nowhere."""
    named = environment.get(FOLDER, "")
    if named.lower() in ("off", "0", "no", "false"):  # as people switch other things off: a folder of such a name would surprise
        return None
    if named:
        return Path(named).absolute()
    try:
        if sys.platform == "win32":
            caches = Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            caches = Path.home() / "Library" / "Caches"
        else:
            said = environment.get("XDG_CACHE_HOME", "")
            caches = Path(said) if os.path.isabs(said) else Path.home() / ".cache"
    except RuntimeError as error:
        let_through(error)
        log.debug("there is no folder for caches: %s", error)
        return None
    return caches / "mdf-loop" if caches.is_absolute() else None


def _sealed(key: str, content: bytes) -> bytes:
    """The content of a file: with a checksum that holds for this key alone."""
    return MAGIC + hashlib.sha256(key.encode() + content).digest() + content


def _check_owner(found: os.stat_result, is_right: Callable[[int], bool]) -> None:
    """Refuse what is another kind of thing, or another user's, or can be written to by others."""
    if not is_right(found.st_mode):
        raise OSError("it is something else")
    if not hasattr(os, "geteuid"):  # Windows: a user's folders are closed to others
        return
    if found.st_uid != os.geteuid():
        raise PermissionError("it belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("others can write to it")


def _delete(each: Kept) -> bool:
    try:
        os.unlink(each.path)
    except OSError as error:
        let_through(error)
        log.debug("%s is not deleted: %s", each.path, error)
        return False
    return True
