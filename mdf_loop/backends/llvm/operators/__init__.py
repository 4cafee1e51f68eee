"""Operators that no definition says in primitives, or whose shapes only the run can tell, by name."""

from mdf_loop.backends.llvm.operators import (
    columns,
    drawing,
    ordering,
    quantized,
    scattering,
    shaping,
    support_vectors,
    tree_ensembles,
    windows,
)
from mdf_loop.backends.llvm.operators.table import OPERATORS

FAMILIES = columns, drawing, ordering, quantized, scattering, shaping, support_vectors, tree_ensembles, windows
"""The modules that fill the table."""

__all__ = ["FAMILIES", "OPERATORS"]
