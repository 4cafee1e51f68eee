"""How the package starts: whether there is anything to start for, and without a collection of garbage amid its imports."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

_SCRIPTS = {"mdf-loop", "mdf-loop.exe", "mdf-loop-script.py"}
"""What an installation calls the command's script."""


def is_a_question() -> bool:
    """Whether this process is ``mdf-loop --version``, ``mdf-loop [COMMAND] --help``, or ``mdf-loop`` alone.

    Nothing is run then: MDF, which takes most of a second, need not be imported.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_a_question()
    False
    """
    asked = sys.argv[1:]
    if not _is_command():
        return False
    return not asked or asked == ["--version"] or (len(asked) <= 2 and asked[-1] in ("--help", "-h"))


def _is_command() -> bool:
    """Whether this process is the command ``mdf-loop``."""
    script = sys.argv[0] if sys.argv else ""
    is_module = script == "-m" and "mdf_loop" in sys.orig_argv  # while the package is imported, before its main module
    return is_module or os.path.basename(script) in _SCRIPTS


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import the parts of the package: Ctrl-C ends the command then as it does later, without a traceback."""
    try:
        with no_collecting():
            yield
    except KeyboardInterrupt:
        if _is_command():
            sys.exit(130)
        raise


@contextlib.contextmanager
def no_collecting() -> Iterator[None]:
    """No collection of garbage inside a ``with`` block.

    Imports, and the seeds and points of a sweep, make many objects that stay, so that Python collects: it would look at all that
    is there, which takes a third of the time of our own imports and finds nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
