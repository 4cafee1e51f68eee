"""What is equal has one digest, in each process: sets have no order, and it does not matter whether two texts are one object."""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any


class _Writer(pickle.Pickler):
    """Writes equal objects in the same way."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=4)
        self.fast = True  # no references to what was written before, which tell objects apart

    def persistent_id(self, thing: Any) -> Any:
        """A set by what is in it; its order is that of hashes, which differ from process to process."""
        if isinstance(thing, set | frozenset):
            return type(thing).__name__, tuple(sorted(digest_of(each) for each in thing))
        return None


def digest_of(thing: Any) -> str:
    """A text that tells an object that can be pickled from those with another content.

    Raises
    ------
    pickle.PicklingError, AttributeError, TypeError
        It cannot be pickled.
    ValueError
        It holds itself.
    """
    file = io.BytesIO()
    _Writer(file).dump(thing)
    return hashlib.sha256(file.getvalue()).hexdigest()
