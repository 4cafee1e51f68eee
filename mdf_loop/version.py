"""The version of this package, and whether that or help is all that the command ``mdf-loop`` is asked for."""

import os
import sys

__version__ = "0.1.0"

_SCRIPTS = {"mdf-loop", "mdf-loop.exe", "mdf-loop-script.py"}


def is_all_that_is_asked() -> bool:
    """Whether this process is ``mdf-loop --version``, ``mdf-loop [COMMAND] --help``, or ``mdf-loop`` alone.

    Nothing is run then: MDF, which takes most of a second, need not be imported.

    Examples
    --------
    >>> is_all_that_is_asked()
    False
    """
    script, *asked = sys.argv or [""]
    is_module = script == "-m" and "mdf_loop" in sys.orig_argv  # while the package is imported, before its main module
    if not is_module and os.path.basename(script) not in _SCRIPTS:
        return False
    return not asked or asked == ["--version"] or (len(asked) <= 2 and asked[-1] in ("--help", "-h"))
