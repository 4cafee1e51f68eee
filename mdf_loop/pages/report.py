"""A report of a model and what it gives, as one HTML file that holds all of it and asks for nothing else.

Models may be of strangers: each text of theirs is escaped, drawings are images, and the page forbids scripts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare
from mdf_loop.models.results import Results
from mdf_loop.pages.explore import with_steps
from mdf_loop.pictures.drawing import draw
from mdf_loop.plots.plot import figure, written
from mdf_loop.readers.model_files import read_bytes
from mdf_loop.sweeps.sweep import sweep
from mdf_loop.system.html import escaped, folded, image, preformatted, table
from mdf_loop.version import __version__

READABLE = 640
"""Pixels of the width of a drawing under which a page does not make it smaller: its texts could not be read."""

TEXTS = (".yaml", ".yml", ".json", ".xml")
"""Model files that people can read."""

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word }
img { padding: 0.5rem; box-sizing: border-box; border-radius: 4px }
pre { overflow-x: auto; font-size: 0.8rem; line-height: 1.35 }
@media (max-width: 40rem) { table { font-size: 0.7rem } th, td { padding: 2px 4px !important } }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def report(file: Path, arguments: Mapping[str, Any], over: Mapping[str, Any] | None = None, trials: int | None = None) -> str:
    """A report of a model file: its drawing and text, a run, and a sweep.

    Parameters
    ----------
    file : Path
    arguments : mapping
        What :func:`mdf_loop.run` is called with.
    over : mapping of str to list, optional
        The grid of a sweep.
    trials : int, optional
        How often the model runs, also at each point of the grid.

    Returns
    -------
    str
        A page of HTML.

    Raises
    ------
    LoopError
        As :func:`mdf_loop.run`, :func:`mdf_loop.sweep` and :func:`mdf_loop.draw`.
    """
    model = prepare(file)
    parts = [_of_model(model, file)]
    run = model(**with_steps(arguments), trials=trials)
    parts.append(f"<h2>Run</h2>{_picture(run, 'what the run gives')}{run._repr_html_()}")
    if over:
        said = {name: value for name, value in arguments.items() if name != "record"}
        flat = [name for name in run if name not in run.about.collected]  # whole paths of all runs would be large
        parts.append(_of_sweep(sweep(model, over, trials=trials, outputs=flat or None, **said)))
    foot = f"<p><small>Made by mdf-loop {__version__} from {escaped(file.name)}, seed {escaped(run.seed)}.</small></p>"
    return PAGE.format(title=escaped(model.name), style=STYLE, body="\n".join([*parts, foot]))


def _of_model(model: Model, file: Path) -> str:
    """The drawing of a model, its inputs and outputs, and its text."""
    text = ""
    if file.suffix.lower() in TEXTS:
        said = read_bytes(file, "a model").decode("utf-8-sig", "replace")
        text = folded(file.name, preformatted(said), is_open=False)
    svg = draw(model).svg()
    width = re.search(r'<svg [^>]*width="(\d+)', svg)
    drawing = image("svg+xml", svg.encode(), f"the model {model.name}", min(int(width[1]) if width else 0, READABLE))
    return f"<h2>Model</h2>{drawing}{model._repr_html_()}{text}"


def _of_sweep(found: Any) -> str:
    """A picture of a sweep, and its outputs in numbers."""
    failed, said = found.attrs["failed"], ""
    if failed:
        said = f"<p>{failed} of {found.attrs['complete']} runs failed; the first: {escaped(found.attrs['errors'][0])}</p>"
    ended = f"<p>{escaped(found.attrs['ended'])}</p>" if "ended" in found.attrs else ""
    rows = table(("output", "dimensions", "mean", "from", "to"), list(summed_up(found)))
    return f"<h2>Sweep</h2>{said}{ended}{_picture(found, 'what the sweep gives')}{rows}"


def summed_up(found: Any) -> list[tuple[str, ...]]:
    """The variables of a Dataset: dimensions, mean and range."""
    rows = list[tuple[str, ...]]()
    for name, variable in found.data_vars.items():
        dims = ", ".join(f"{dim} {length}" for dim, length in variable.sizes.items()) or "one value"
        values = variable.values
        is_number = values.dtype.kind in "biuf" and values.size and not np.isnan(values.astype(float)).all()
        shown = [f"{part(values.astype(float)):.6g}" for part in (np.nanmean, np.nanmin, np.nanmax)] if is_number else [""] * 3
        rows.append((str(name), dims, *shown))
    return rows


def _picture(source: Results | Any, said: str) -> str:
    """What a run or a sweep gave; nothing of single numbers alone."""
    try:
        return f"<p>{image('png', written(figure(source), dpi=150), said)}</p>"
    except ArgumentError:
        return ""
