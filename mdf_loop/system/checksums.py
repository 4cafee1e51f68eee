"""Checksums of contents: names of what is kept on disk, and seals of files."""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any


def checksum(*parts: str | bytes | memoryview) -> str:
    """A checksum of some parts, one after the other; parts that are cut elsewhere have another one."""
    found = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        found.update(b"%d " % len(content))
        found.update(content)
    return found.hexdigest()


def checksum_of_object(thing: Any) -> str:
    """A checksum of what an object contains: equal ones have the same, whichever of their parts are one object."""
    file = io.BytesIO()
    writer = pickle.Pickler(file, protocol=4)
    writer.fast = True  # no references to what was written before, which tell objects apart
    writer.dump(thing)
    return checksum(file.getbuffer())
