"""The command ``mdf-loop``: a file for each command or a few that are alike; :mod:`mdf_loop.cli.app` puts them together."""

from mdf_loop.system.starting import importing

with importing():
    from mdf_loop.cli.app import app, main
    from mdf_loop.cli.console import describe, write_json

__all__ = ["app", "describe", "main", "write_json"]
