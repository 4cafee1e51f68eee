"""What a page of the gallery offers to download, made complete: sphinx-gallery leaves out the files that a script reads."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = HERE.parent / "examples" / "gallery"
PAGES = HERE / "gallery"

DATA = (".yaml", ".json", ".npz", ".onnx", ".png")
"""How the names of files end that stand beside a script and are read by it."""

MODELS = {".yaml": "yaml", ".json": "json"}
"""How the name of a model ends, and its language."""

LONG = 150
"""Lines of a model from which on a notebook does not show its text."""


def beside(script: Path) -> list[Path]:
    """The files that a script reads: those of its name."""
    return [path for kind in DATA if (path := script.with_suffix(kind)).exists()]


def model_of(script: Path) -> Path:
    """The file of a script's model."""
    return next(path for path in beside(script) if path.suffix in MODELS)


def first_cells(script: Path) -> list[dict[str, Any]]:
    """What a notebook begins with: its files, as it has no ``__file__`` and nothing is beside it; and the model's text."""
    lines = [
        "# The files that this notebook reads are written beside it.",
        "from base64 import b64decode",
        "from pathlib import Path",
        "",
        f"__file__ = {script.name!r}",
        "for name, content in {",
        *(f"    {path.name!r}: {base64.b64encode(path.read_bytes()).decode()!r}," for path in beside(script)),
        "}.items():",
        "    Path(name).write_bytes(b64decode(content))",
    ]
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["\n".join(lines)]}
    model = model_of(script)
    if len(model.read_text().splitlines()) > LONG:
        return [code]
    text = f"The model, `{model.name}`:\n\n```{MODELS[model.suffix]}\n{model.read_text()}```"
    return [code, {"cell_type": "markdown", "metadata": {}, "source": [text]}]


def complete(app: Any) -> None:
    """Put what a script reads into its notebook and its archive."""
    for script in sorted(SCRIPTS.glob("*.py")):
        notebook = PAGES / f"{script.stem}.ipynb"
        content = json.loads(notebook.read_text())
        cells = first_cells(script)
        content["cells"] = [*cells, *(known for known in content["cells"] if known["source"] not in [c["source"] for c in cells])]
        notebook.write_text(json.dumps(content, indent=2))
        with zipfile.ZipFile(PAGES / f"{script.stem}.zip", "w") as archive:
            for path in (script, notebook, *beside(script)):
                archive.write(path, path.name)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", complete, priority=900)  # behind sphinx-gallery, which writes the pages
    return {"parallel_read_safe": True}
