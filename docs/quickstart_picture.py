"""The picture of the quickstart, drawn by the lines that stand above it, so that it is what a reader gets."""

from __future__ import annotations

import contextlib
import doctest
from pathlib import Path
from typing import Any

from gallery_hooks import LOOK

HERE = Path(__file__).parent


def draw(app: Any) -> None:
    """Run the page up to where the figure is saved, and save it."""
    import matplotlib.pyplot as plt

    names: dict[str, Any] = {}
    with contextlib.chdir(HERE.parent), plt.rc_context(LOOK):
        for example in doctest.DocTestParser().get_examples((HERE / "quickstart.rst").read_text()):
            if "savefig" in example.source:
                names["fig"].savefig(HERE / "pictures" / "quickstart.png")
                plt.close(names["fig"])
                return
            exec(compile(example.source, "quickstart.rst", "single"), names)
    raise LookupError("quickstart.rst saves no figure")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True}
