"""The command ``mdf-loop`` in this process."""

import pytest

from mdf_loop.cli import main


def run_main(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code
