"""Operators of constants: what their kernels give for them, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Node
from mdf_loop.ops.registry import Kernel
from mdf_loop.ops.rows import Bound
from mdf_loop.step.build import type_of_value


def of_constants(node: Node, bound: Bound, entry: Kernel, given: Sequence[Any], most: int) -> Sequence[Any] | None:
    """The results of an operator whose inputs are known.

    None if it may do more than compute, if it fails - the run will say what is wrong -, or where inputs or results have more than
    so many elements, or are no numbers.
    """
    if bound.needs_run or node.captures or not (entry.pure and entry.built_in) or _elements(given) > most:
        return None
    try:
        with np.errstate(all="ignore"):
            found = bound.call(*given)
    except Exception:
        return None
    results = found if type(found) is tuple else (found,)
    is_kept = _elements(results) <= most and all(type_of_value(x).dtype is not None for x in results)
    return results if is_kept else None


def _elements(values: Iterable[Any]) -> int:
    return sum(int(np.size(x)) for x in values)
