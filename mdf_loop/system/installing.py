"""How to install what is missing: a line that works where this package came from."""

from __future__ import annotations

from pathlib import Path

JIT = 'loops as machine code, those of small steps 10 to 100 times as fast: pip install "mdf-loop[jit]"'
"""What llvmlite would bring, and how to get it."""


def install_line(extra: str) -> str:
    """The command that adds an extra: from the checkout this package runs in, or from the package index.

    >>> install_line("openvino").endswith('[openvino]"')
    True
    """
    home = Path(__file__).parent.parent.parent
    return f'pip install -e "{home}[{extra}]"' if (home / "setup.cfg").is_file() else f'pip install "mdf-loop[{extra}]"'
