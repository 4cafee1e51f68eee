"""What sphinx-gallery is told to do around each script of the gallery."""

import builtins


def say_file(gallery_conf, path):
    """Give a script its ``__file__``, which it has when it runs by itself and sphinx-gallery does not define."""
    builtins.__file__ = str(path)
