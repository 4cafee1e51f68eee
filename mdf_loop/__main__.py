"""``python -m mdf_loop`` is the command ``mdf-loop``."""

from mdf_loop.cli import main

main()
