"""Operators that no definition says in primitives, or whose shapes only the run can tell, by name.

Each module of this folder fills the table with its own.
"""

from importlib import import_module
from pkgutil import iter_modules

from mdf_loop.backends.llvm.operators.operator_table import OPERATORS

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["OPERATORS"]
