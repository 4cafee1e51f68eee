"""Loops for MDF models, and a fast engine that runs them.

Importing this package registers ``onnx::Loop``, ``onnx::Scan`` and ``onnx::If`` with MDF.
"""

import logging

from mdf_loop.system.starting import importing, is_a_question
from mdf_loop.version import __version__ as __version__

if not is_a_question():  # then there is nothing to run
    with importing():
        from mdf_loop import backend
        from mdf_loop.calls.calling import if_, loop, scan
        from mdf_loop.calls.compiled import compile
        from mdf_loop.convert.converting import convert
        from mdf_loop.convert.loading import load
        from mdf_loop.convert.mdf_to_onnx import to_onnx
        from mdf_loop.errors import LoopError
        from mdf_loop.inference.fit import fit
        from mdf_loop.inference.simulator import simulator
        from mdf_loop.integrations.registration import register, unregister
        from mdf_loop.models.opening import prepare, run
        from mdf_loop.models.to_jax import to_jax
        from mdf_loop.ops.registry import kernel
        from mdf_loop.options import options
        from mdf_loop.pages.explore import explore
        from mdf_loop.pictures.drawing import draw
        from mdf_loop.plots.plot import plot
        from mdf_loop.readers.python.function_bodies import body
        from mdf_loop.sweeps.sweep import open, sweep

        register()

__all__ = [
    "LoopError",
    "backend",
    "body",
    "compile",
    "convert",
    "draw",
    "explore",
    "fit",
    "if_",
    "kernel",
    "load",
    "loop",
    "open",
    "options",
    "plot",
    "prepare",
    "register",
    "run",
    "scan",
    "simulator",
    "sweep",
    "to_jax",
    "to_onnx",
    "unregister",
]

logging.getLogger("mdf_loop").addHandler(logging.NullHandler())
