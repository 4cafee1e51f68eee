"""A run says where a carried value silently got another shape: ``F * m`` in the place of ``F @ m``, or a broadcast.

Values may grow: lists to which each iteration appends, and a number to which an array is added, which is the same number for
all elements.  Nearly always a mistake are another number of axes, axes of one element that the first iteration lengthens, and an
array with an element for each iteration that is added to a number as a whole.
Bodies of ONNX declare what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import PartialResults
from mdf_loop.execute.interpret import Arguments, InterpretedLoop
from mdf_loop.execute.warnings.run_again import first_iterations, is_inner
from mdf_loop.execute.warnings.shared_draws import is_of_elements
from mdf_loop.ir import Body
from mdf_loop.options import Run

Shape = tuple[int, ...]


def warn_of_new_shapes(
    executor: InterpretedLoop, results: Sequence[Any], given: Arguments, run: Run, drawn: Any, lasted: int
) -> None:
    """Say that a carried value got another shape than it began with, if that looks like a mistake.

    Parameters
    ----------
    executor, results, given, run, drawn, lasted
        As of ``warn_of_new_nan``.
    """
    loop = executor.loop
    if loop.body.typed or not lasted or not run.tells:
        return
    for before, after in zip(given.carried, results, strict=False):  # nearly always all that is done, in short loops too
        if getattr(before, "shape", None) != getattr(after, "shape", None):
            break
    else:
        return
    shapes = [(_shape(before), _shape(after)) for before, after in zip(given.carried, results, strict=False)]
    hints = [_hint(*shape, loop.body, loop.carried[k].output, given, lasted) for k, shape in enumerate(shapes)]
    odd = [k for k, hint in enumerate(hints) if hint]
    if not odd or is_inner(executor, run):
        return
    behind_first = None if lasted == 1 else next(first_iterations(executor, given, run, drawn, 1), None)
    first = results if lasted == 1 else None if behind_first is None else behind_first[0].moment.carried
    for k in odd:
        before, after = shapes[k]
        then = None if first is None else _shape(first[k])
        if then != after and len(before) == len(after):
            continue  # it grows in later iterations too, or it is not known whether it does
        when, became = ("iteration 0", then) if then not in (None, before) else (f"iterations 0 to {lasted - 1}", after)
        name, place = loop.carried[k].input, f"{when} of {loop.name or loop.body.name}: {loop.body.at(loop.carried[k].output)}"
        said = f"{place}{name} has shape {[*before]} at first and becomes {[*became]}; {hints[k]}"
        run.warn_once((id(loop.body), "shape", name), said)


def warn_of_shapes_before(error: PartialResults, executor: InterpretedLoop, given: Arguments, run: Run, drawn: Any) -> None:
    """The same of a loop that an error ended, which another shape may be the cause of."""
    if error.progress is not None and error.progress.owner is executor:
        moment = error.progress.moment
        warn_of_new_shapes(executor, moment.carried, given, run, drawn, moment.iteration)


_HINT = (
    "most carried values keep their shape. Look for * (element by element) in the place of @ (the product of matrices), and for "
    "an array where a number is meant. If the new shape is right, begin with an array of that shape"
)


def _shape(value: Any) -> Any:
    """The shape of a number or an array; None for anything else."""
    return value.shape if isinstance(value, np.ndarray | np.generic) else () if isinstance(value, int | float) else None


def _hint(before: Shape | None, after: Shape | None, body: Body, output: str, given: Arguments, lasted: int) -> str:
    """What to do about another shape if it looks like a mistake; empty if not."""
    if before == () and after and output in body.places and _is_elementwise(body, output):
        count = lasted if given.trip_count is None else given.trip_count
        series = [name for name, value in zip(body.captures, given.captured, strict=True) if _shape(value) == after]
        if series and after[0] == count > 1:
            name = series[0]
            return f"{name} has as many elements as there are iterations: for the one of an iteration write {name}[i]"
    return _HINT if _may_be_odd(before, after, body, output) else ""


def _may_be_odd(before: Shape | None, after: Shape | None, body: Body, output: str) -> bool:
    """Whether an array has more axes or fewer, or axes of one element became longer element by element."""
    if before == after or not before or after is None:
        return False
    is_longer = len(before) == len(after) and all(n in (1, m) for n, m in zip(before, after, strict=True))
    return len(before) != len(after) or (is_longer and _is_elementwise(body, output))


def _is_elementwise(body: Body, output: str) -> bool:
    """Whether a value is computed element by element, so that its operands were broadcast: it is no list with more behind it."""
    node = next((node for node in body.nodes if output in node.outputs), None)
    return node is not None and is_of_elements(node)
