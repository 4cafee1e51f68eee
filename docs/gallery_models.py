"""The model of each page of the gallery, above its script, and that of the first page: the file in colours, and its drawing."""

from __future__ import annotations

from typing import Any

from gallery_downloads import PAGES, SCRIPTS, model_of

import mdf_loop

FIRST_CODE = ".. GENERATED FROM PYTHON SOURCE LINES"
"""What sphinx-gallery writes in front of each piece of a script."""

SHOWN = """.. literalinclude:: {file}
   :language: {language}
   :class: long model

.. image:: images/{name}_model.svg
   :alt: a drawing of the model, with its equations
   :class: on-white drawing
   :target: ../_images/{name}_model.svg

"""


def show(app: Any) -> None:
    """Put the model into each page."""
    for script in sorted(SCRIPTS.glob("*.py")):
        model, page = model_of(script), PAGES / f"{script.stem}.rst"
        mdf_loop.draw(model).save(PAGES / "images" / f"{script.stem}_model.svg")
        shown = SHOWN.format(file=model.name, language=model.suffix[1:], name=script.stem)
        text = page.read_text()
        if shown not in text:
            page.write_text(text.replace(FIRST_CODE, shown + FIRST_CODE, 1))


def show_first(app: Any) -> None:
    """Draw the model of the first page narrow enough to stand beside its file."""
    axes = mdf_loop.draw(SCRIPTS / "drift_diffusion.yaml").plot()
    axes.figure.savefig(PAGES / "images" / "first_page.svg")
    axes.figure.clear()


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", show, priority=900)  # behind sphinx-gallery, which writes the pages
    app.connect("builder-inited", show_first, priority=900)
    return {"parallel_read_safe": True}
