"""Operators that no definition says in primitives, or whose shapes only the run can tell, by name."""

from mdf_loop.backends.llvm.operators import (
    byte_windows,
    columns,
    drawing,
    looking_up,
    ordering,
    quantized,
    regions,
    scattering,
    shaping,
    support_vectors,
    suppression,
    tree_ensembles,
    windows,
)
from mdf_loop.backends.llvm.operators.table import OPERATORS

FAMILIES = (
    byte_windows,
    columns,
    drawing,
    looking_up,
    ordering,
    quantized,
    regions,
    scattering,
    shaping,
    support_vectors,
    suppression,
    tree_ensembles,
    windows,
)
"""The modules that fill the table."""

__all__ = ["FAMILIES", "OPERATORS"]
