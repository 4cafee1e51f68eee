"""A run says where a carried value silently got another shape: ``F * m`` in the place of ``F @ m``, or a broadcast.

Values may grow: lists to which each iteration appends, and a number to which an array is added, which is the same number for
all elements.  Nearly always a mistake are another number of axes, axes of one element that the first iteration lengthens, an
array with an element for each iteration that is added to a number as a whole, and a number that each iteration makes longer.
A list that a Python function returns in the place of an array computes something else: twice a list is a longer one.
Bodies of ONNX declare what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdf_loop.execute.collect import Gathered, shape_of
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.execute.warnings.shared_draws import is_of_elements
from mdf_loop.ir import Body, Node

Shape = tuple[int, ...]


def warn_of_new_shapes(ended: EndedLoop) -> None:
    """Say that a carried value got another shape than it began with, if that looks like a mistake."""
    loop, begun, results = ended.loop, ended.given.carried, ended.results
    for before, after in zip(begun, results, strict=False):  # nearly always all that is done, in short loops too
        if getattr(before, "shape", None) != getattr(after, "shape", None):
            break
    else:
        return
    if ended.is_inner:
        return
    for carried, before, after in zip(loop.carried, begun, results, strict=False):
        if isinstance(after, list) and shape_of(before) is not None:
            said = _of_list(carried.input, len(after))
            ended.say(f"{ended.name}: {said}", "shape", carried.input)
    _warn_of_shapes(ended, [(shape_of(before), shape_of(after)) for before, after in zip(begun, results, strict=False)])


def _warn_of_shapes(ended: EndedLoop, shapes: Sequence[tuple[Any, Any]]) -> None:
    """The same of numbers and arrays, with their shapes before and after."""
    loop, last = ended.loop, ended.lasted - 1
    hints = [_hint(*shape, ended, loop.carried[k].output) for k, shape in enumerate(shapes)]
    looked_at = [k for k, hint in enumerate(hints) if hint or _may_grow(*shapes[k], loop.body, loop.carried[k].output)]
    first = _behind_first(ended) if looked_at else ()
    for k in looked_at:
        before, after = shapes[k]
        name, place = loop.carried[k].input, f"{ended.name}: {loop.body.at(loop.carried[k].output)}"
        then = None if first is None else first[k]
        if then is not None and grows(before, then, after, ended.lasted):
            shapes_of = f"has shape {[*before]} at first, then {[*then]} and {[*after]}"
            said = f"iterations 0 to {last} of {place}{name} {shapes_of}; {_GROWS}"
        elif not hints[k] or (then != after and len(before) == len(after)):
            continue  # it grows in later iterations too, as a list does, or it is not known whether it does
        else:
            when, became = ("iteration 0", then) if then not in (None, before) else (f"iterations 0 to {last}", after)
            said = f"{when} of {place}{name} has shape {[*before]} at first and becomes {[*became]}; {hints[k]}"
        ended.say(said, "shape", name)


def _behind_first(ended: EndedLoop) -> Sequence[Any] | None:
    """The shapes of carried values behind the first iteration; None if they are not known."""
    begun = ended.given.carried
    if ended.lasted == 1:
        return [shape_of(value) for value in ended.results]
    if begun and isinstance(begun[-1], Gathered):  # of a function, which is not called again
        shapes = begun[-1].first
        return None if shapes is None else shapes[-len(ended.loop.carried) + 1 :]
    found = next(ended.first_iterations(1), None)
    return None if found is None else [shape_of(value) for value in found[0].moment.carried]


_HINT = (
    "most carried values keep their shape. Look for * (element by element) in the place of @ (the product of matrices), for "
    "max(x, 1) (element by element too) in the place of np.max(x, 1), and for an array where a number is meant. If the new shape "
    "is right, begin with an array of that shape"
)


_GROWS = (
    "most carried values keep their shape. What each iteration gives is kept by collecting it, in a function by returning it "
    "behind the carried values; a list that is meant to grow begins as one: np.zeros(0)"
)


def _of_list(name: str, length: int) -> str:
    cure = "return an array, such as np.array([a, b]), or begin with a list of arrays"
    return f"{name} begins as an array and becomes a list of {length}, and 2 * {name} of a list repeats it; {cure}"


def _hint(before: Shape | None, after: Shape | None, ended: EndedLoop, output: str) -> str:
    """What to do about another shape if it looks like a mistake; empty if not."""
    body, given = ended.loop.body, ended.given
    if before == () and after and output in body.places and _is_elementwise(body, output):
        count = ended.lasted if given.trip_count is None else given.trip_count
        series = [name for name, value in zip(body.captures, given.captured, strict=True) if shape_of(value) == after]
        if series and after[0] == count > 1:
            name = series[0]
            return f"{name} has as many elements as there are iterations: for the one of an iteration write {name}[i]"
    return _HINT if _may_be_odd(before, after, body, output, ended.lasted) else ""


def _may_be_odd(before: Shape | None, after: Shape | None, body: Body, output: str, lasted: int) -> bool:
    """Whether an array has more axes or fewer, or axes of one element became longer element by element."""
    if before == after or not before or after is None:
        return False
    is_longer = len(before) == len(after) and all(n in (1, m) for n, m in zip(before, after, strict=True))
    is_broadcast = _is_elementwise(body, output) or (lasted > 1 and _is_called(body, output))  # which may be a list so far
    return len(before) != len(after) or (is_longer and is_broadcast)


def _may_grow(before: Shape | None, after: Shape | None, body: Body, output: str) -> bool:
    """Whether a value has become longer, other than a number to which an array is added."""
    if before is None or not after or before == after or 0 in before:
        return False
    return len(before) <= len(after) and not (before == () and _is_elementwise(body, output))


def grows(before: Shape, then: Shape, after: Shape, lasted: int) -> bool:
    """Whether a value grows from iteration to iteration by more than a list does: a number, or an array that multiplies."""
    if then in (before, after) or len(before) > len(after):
        return False
    if len(before) < len(after):
        return before == ()
    return any(b > a > 0 and c - b > (lasted - 1) * (b - a) for a, b, c in zip(before, then, after, strict=True))


def _is_elementwise(body: Body, output: str) -> bool:
    """Whether a value is computed element by element, so that its operands were broadcast: it is no list with more behind it."""
    node = _computing(body, output)
    return node is not None and is_of_elements(node)


def _is_called(body: Body, output: str) -> bool:
    """Whether a Python function computes a value, of which it is not known how."""
    node = _computing(body, output)
    return node is not None and node.domain == "python"


def _computing(body: Body, output: str) -> Node | None:
    return next((node for node in body.nodes if output in node.outputs), None)
