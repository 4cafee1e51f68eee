"""ONNX control flow - Loop, Scan, If - for MDF."""

from mdf_loop import backend
from mdf_loop.api import if_, loop, scan
from mdf_loop.errors import LoopError
from mdf_loop.integrations.mdf import register, unregister
from mdf_loop.options import options
from mdf_loop.registry import kernel

__all__ = ["LoopError", "backend", "if_", "kernel", "loop", "options", "register", "scan", "unregister"]

register()
