"""Loops for MDF models, and a fast engine that runs them.

Importing this package registers ``onnx::Loop``, ``onnx::Scan`` and ``onnx::If`` with MDF.  The rest of it is imported when it
is used: a public name when it is read first, so that the code that a program needs decides how long its import takes.
"""

import importlib.util
import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mdf_loop.integrations.registration import register as register
from mdf_loop.integrations.registration import unregister as unregister
from mdf_loop.system.starting import importing
from mdf_loop.version import __version__ as __version__

if TYPE_CHECKING:
    from mdf_loop import backend as backend
    from mdf_loop.calls.calling import if_ as if_
    from mdf_loop.calls.calling import loop as loop
    from mdf_loop.calls.calling import scan as scan
    from mdf_loop.calls.compiled import compile as compile
    from mdf_loop.convert.converting import convert as convert
    from mdf_loop.convert.loading import load as load
    from mdf_loop.convert.mdf_to_onnx import to_onnx as to_onnx
    from mdf_loop.errors import LoopError as LoopError
    from mdf_loop.inference.fit import fit as fit
    from mdf_loop.inference.simulator import simulator as simulator
    from mdf_loop.models.opening import prepare as prepare
    from mdf_loop.models.opening import run as run
    from mdf_loop.models.to_jax import to_jax as to_jax
    from mdf_loop.ops.registry import kernel as kernel
    from mdf_loop.options import options as options
    from mdf_loop.pages.explore import explore as explore
    from mdf_loop.pictures.drawing import draw as draw
    from mdf_loop.plots.plot import plot as plot
    from mdf_loop.readers.python.function_bodies import body as body
    from mdf_loop.sweeps.sweep import open as open
    from mdf_loop.sweeps.sweep import sweep as sweep
else:

    def __getattr__(name: str) -> Any:
        """A public name, or a module of this package, which nothing has imported yet."""
        module = f"{__name__}.{_HOMES.get(name, name)}"
        with importing():
            if name.startswith("_") or not name.isidentifier() or importlib.util.find_spec(module) is None:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            home = importlib.import_module(module)
        found = globals()[name] = getattr(home, name) if name in _HOMES else home
        return found


_HOMES = {
    "LoopError": "errors",
    "body": "readers.python.function_bodies",
    "compile": "calls.compiled",
    "convert": "convert.converting",
    "draw": "pictures.drawing",
    "explore": "pages.explore",
    "fit": "inference.fit",
    "if_": "calls.calling",
    "kernel": "ops.registry",
    "load": "convert.loading",
    "loop": "calls.calling",
    "open": "sweeps.sweep",
    "options": "options",
    "plot": "plots.plot",
    "prepare": "models.opening",
    "run": "models.opening",
    "scan": "calls.calling",
    "simulator": "inference.simulator",
    "sweep": "sweeps.sweep",
    "to_jax": "models.to_jax",
    "to_onnx": "convert.mdf_to_onnx",
}
"""The module of each public name that is imported when it is read first."""

__all__ = sorted([*_HOMES, "backend", "register", "unregister"])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The package: where a public name is also that of a module, importing the module does not hide the name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

register()

logging.getLogger("mdf_loop").addHandler(logging.NullHandler())
