"""What a page of the gallery offers to download, made complete: sphinx-gallery leaves out the files that a script reads."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = HERE.parent / "examples" / "gallery"
PAGES = HERE / "gallery"

DATA = (".yaml", ".npz", ".onnx")
"""How the names of files end that stand beside a script and are read by it."""


def beside(script: Path) -> list[Path]:
    """The files that a script reads: those of its name."""
    return [path for kind in DATA if (path := script.with_suffix(kind)).exists()]


def first_cell(script: Path) -> str:
    """What a notebook begins with: it has no ``__file__``, and the model is not beside it."""
    model = script.with_suffix(".yaml")
    others = [path.name for path in beside(script) if path != model]
    told = f"  # {' and '.join(others)}: in the zipped download" if others else ""
    return (
        "# A script knows its file, a notebook does not; the model is written beside the notebook.\n"
        "from pathlib import Path\n\n"
        f"__file__ = {script.name!r}{told}\n"
        f"if not Path({model.name!r}).exists():\n"
        f"    Path({model.name!r}).write_text({model.read_text()!r})"
    )


def complete(app: Any) -> None:
    """Put the model into each notebook, and what a script reads into each archive."""
    for script in sorted(SCRIPTS.glob("*.py")):
        notebook = PAGES / f"{script.stem}.ipynb"
        content = json.loads(notebook.read_text())
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [first_cell(script)]}
        cells = [known for known in content["cells"] if "".join(known["source"])[:60] != cell["source"][0][:60]]
        content["cells"] = [cell, *cells]
        notebook.write_text(json.dumps(content, indent=2))
        with zipfile.ZipFile(PAGES / f"{script.stem}.zip", "w") as archive:
            for path in (script, notebook, *beside(script)):
                archive.write(path, path.name)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", complete, priority=900)  # behind sphinx-gallery, which writes the pages
    return {"parallel_read_safe": True}
