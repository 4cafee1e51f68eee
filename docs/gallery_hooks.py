"""What sphinx-gallery does around each script of the gallery."""

import builtins

INK = "#6a727d"
"""Of axes and words: 4.9 to 1 on white; dark pages make pictures brighter (pages.css), which gives 6.7 to 1."""

LOOK = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.edgecolor"), INK),
}
"""How a figure looks in the documentation, whose pages are light or dark."""


def say_file(gallery_conf, path):
    """Give a script its ``__file__``, which it has when it runs by itself and sphinx-gallery does not define."""
    builtins.__file__ = str(path)


def for_both_pages(gallery_conf, path):
    """Have figures drawn for light and for dark pages: without a background, and in an ink for both."""
    import matplotlib

    matplotlib.rcParams.update(LOOK)
