"""The command ``mdf-loop``: a file for each command or a few that are alike; :mod:`mdf_loop.cli.app` puts them together."""

import sys

from mdf_loop.system.starting import no_collecting

try:
    with no_collecting():
        from mdf_loop.cli.app import app, main
        from mdf_loop.cli.console import describe, write_json
except KeyboardInterrupt:  # it ends as it does when the command runs, without a traceback
    sys.exit(130)

__all__ = ["app", "describe", "main", "write_json"]
