"""ONNX control flow - Loop, Scan, If - for MDF."""

from mdf_loop.errors import LoopError
from mdf_loop.options import options
from mdf_loop.registry import kernel

__all__ = ["LoopError", "kernel", "options"]
