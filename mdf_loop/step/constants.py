"""Operators of constants: what their kernels give for them, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import let_through
from mdf_loop.ir import Node
from mdf_loop.ops.registry import Kernel
from mdf_loop.ops.rows import Bound
from mdf_loop.step.build import type_of_value


def of_constants(node: Node, bound: Bound, entry: Kernel, given: Sequence[Any], most: int) -> Sequence[Any] | None:
    """The results of an operator whose inputs are known.

    None if it may do more than compute, if it fails - the run will say what is wrong -, or where inputs or results have more than
    so many elements, or are no numbers.
    """
    if bound.needs_run or node.captures or not (entry.pure and entry.built_in) or not _are_small_numbers(given, most):
        return None
    try:
        with np.errstate(all="ignore"):
            found = bound.call(*given)
    except Exception as error:
        let_through(error)
        return None
    results = found if type(found) is tuple else (found,)
    return results if _are_small_numbers(results, most) else None


def _are_small_numbers(values: Sequence[Any], most: int) -> bool:
    known = [x for x in values if x is not None]  # an input that was left out, or an optional without a value
    return all(type_of_value(x).dtype is not None for x in known) and sum(int(np.size(x)) for x in known) <= most
