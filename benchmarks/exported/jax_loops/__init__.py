"""Loops written in JAX, a module a kind of them.

The modules are read in one order, always: their inputs are drawn from one generator.
"""

from jax_loops import filters, equations, neurons, tables, arithmetic, networks, chance  # isort: skip
from jax_loops.keeping import LOOPS, Exported

KINDS = (filters, equations, neurons, tables, arithmetic, networks, chance)

__all__ = ["KINDS", "LOOPS", "Exported"]
