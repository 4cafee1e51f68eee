"""How Python's and numpy's functions are written in operators of ONNX, one function each."""

from mdf_loop.convert.lowered import arithmetic, arrays, indexing, mathematics, reductions
from mdf_loop.convert.lowered.table import LOWERED

__all__ = ["LOWERED", "arithmetic", "arrays", "indexing", "mathematics", "reductions"]
