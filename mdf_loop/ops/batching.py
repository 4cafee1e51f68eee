"""Vectorisation rules: how one kernel call does many iterations.

A rule is ``rule(run, args, stacked, attrs) -> (outputs, stacked_out)`` or None.

``run``
    the kernel function, called as ``run(*inputs, **attrs)``
``args``, ``stacked``
    the inputs, and for each whether it is stacked: has the iteration axis at 0.  At least one is, and
    all stacked ones have the same length, at least 1.  A few whole numbers that are the same in every
    iteration are not stacked, unless the rule is ``elementwise``.
``outputs``, ``stacked_out``
    a tuple of outputs, and for each whether it is stacked.  An output that comes out the same in every
    iteration should be returned unstacked, so that what follows can be batched too.
``None``
    no way for this combination; the caller runs the operator's Step with a leading axis, if it has one, else one iteration at
    a time.

A rule of its own is for a kernel that has no Step (scattering, sorting, running sums, windows, recurrent networks), or whose
Step takes longer for all iterations (Gather, products of matrices, questions about shapes) or is not for all that the rule takes
(Einsum, powers, reductions of nothing).  All others name :func:`by_step`.  Operators that loops hardly have, such as attention
and those of ai.onnx.ml, have no rule, and are called once for each iteration.

The law, tested for every kernel that names a rule: the outputs equal the stack of one call per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

FEW_ROWS = 64
"""Rows of a matrix up to which one product for all iterations is several times faster than one for each."""

SHORT = 16
"""Numbers that say what to do (a shape, axes, a count) up to which it is looked at whether they are always the same."""

Result = tuple[tuple[Any, ...], tuple[bool, ...]] | None
Rule = Callable[[Callable[..., Any], Sequence[Any], Sequence[bool], Mapping[str, Any]], Result]


def is_settled(rows: np.ndarray) -> bool:
    """Whether a stacked input that may say what to do is the same in every iteration."""
    if rows.dtype.kind not in "iub" or rows[0].size > SHORT:
        return False
    return np.array_equal(rows[0], rows[-1]) and bool((rows == rows[0]).all())


def by_step(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The Step of the operator gets a leading axis, see :mod:`mdf_loop.execute.calls`."""
    return None


def all_stacked(result: Any) -> Result:
    """What a kernel returned, every output of it stacked."""
    outputs = result if type(result) is tuple else (result,)
    return outputs, (True,) * len(outputs)


def elementwise(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Each element of the output depends on the broadcast elements of the inputs."""
    present = [(a, s) for a, s in zip(args, stacked, strict=True) if a is not None]
    rank = max(np.ndim(a) - s for a, s in present)
    return all_stacked(run(*[_pad(a, rank) if s else a for a, s in zip(args, stacked, strict=True)], **attrs))


def _pad(a: Any, rank: int) -> Any:
    """A stacked value with ones put behind the iteration axis until it broadcasts as ``rank`` does."""
    missing = rank - (a.ndim - 1)
    return a.reshape((a.shape[0],) + (1,) * missing + a.shape[1:]) if missing else a


def of_shape(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The result depends only on shapes and types, and is the same in every iteration."""
    result = run(*[a[0] if s else a for a, s in zip(args, stacked, strict=True)], **attrs)
    outputs = result if type(result) is tuple else (result,)
    return outputs, (False,) * len(outputs)


def along(attr: str, default: int) -> Rule:
    """The operator works along one axis of the first input, which an attribute names; the other inputs must be unstacked.

    A negative axis counts from the end and stays right with an axis in front; others move up by one.
    """

    def rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
        if not stacked[0] or any(stacked[1:]) or args[0].ndim < 2:
            return None
        axis, rank = attrs.get(attr, default), args[0].ndim - 1
        if not -rank <= axis < rank:
            return None  # one call would refuse it; with an axis in front it would mean the iterations
        return all_stacked(run(*args, **{**attrs, attr: axis + 1 if axis >= 0 else axis}))

    return rule


def reducing(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Reductions: axes as an attribute (older opsets) or as the second input; all axes where not said."""
    if not stacked[0] or any(stacked[1:]):
        return None
    data, rank = args[0], args[0].ndim - 1
    as_input = len(args) > 1 and args[1] is not None
    axes = np.atleast_1d(args[1]).tolist() if as_input else list(attrs.get("axes") or ())
    if not axes and attrs.get("noop_with_empty_axes"):
        return all_stacked(run(data, *args[1:], **attrs))
    if rank == 0 or not all(-rank <= a < rank for a in axes):
        return None
    moved = [a + 1 if a >= 0 else a for a in axes] or list(range(1, rank + 1))
    if as_input:
        return all_stacked(run(data, np.array(moved, np.int64), **attrs))
    return all_stacked(run(data, **{**attrs, "axes": tuple(moved)}))


def matmul(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """Matrix products of two inputs by numpy's rules for ranks, either or both stacked."""
    (a, b), (a_stacked, b_stacked) = args, stacked
    a_rank, b_rank = a.ndim - a_stacked, b.ndim - b_stacked
    if not a_rank or not b_rank:
        return None
    if a_stacked and a_rank == 1 and not b_stacked and b_rank == 2:
        return all_stacked(run(a, b, **attrs))  # rows of vectors: one product
    if a_stacked and a_rank == 2 and not b_stacked and b_rank == 2 and a.shape[1] <= FEW_ROWS:
        folded = run(a.reshape(-1, a.shape[2]), b, **attrs)  # so are the rows of all matrices
        return all_stacked(folded.reshape(*a.shape[:2], -1))
    rank = max(a_rank, b_rank, 2)
    left = _matrix(a, a_stacked, a_rank == 1, rank, column=False)
    right = _matrix(b, b_stacked, b_rank == 1, rank, column=True)
    out = run(left, right, **attrs)
    if a_rank == 1:
        out = out[..., 0, :]
    if b_rank == 1:
        out = out[..., 0]
    return all_stacked(out)


def _matrix(value: Any, is_stacked: bool, is_vector: bool, rank: int, *, column: bool) -> Any:
    """A vector as one row or one column, and room for broadcasting behind the iteration axis."""
    if is_vector:
        value = value[..., None] if column else value[..., None, :]
    return _pad(value, rank) if is_stacked else value


def folding(
    axes: Sequence[int | None] = (0,),
    out_axes: Sequence[int] = (0,),
) -> Rule:
    """The rule for an operator that treats every entry of its batch axis alike and alone.

    Parameters
    ----------
    axes : sequence of (int or None)
        Batch axis of each input; None for an input that has none (a weight) and must be unstacked.
        Further inputs have none either.
    out_axes : sequence of int
        Batch axis of each output.
    """

    def rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
        where = [axes[k] if k < len(axes) else None for k in range(len(args))]
        if any(s and (axis is None or a.ndim - 1 <= axis) for a, s, axis in zip(args, stacked, where, strict=True)):
            return None
        count = next(len(a) for a, s in zip(args, stacked, strict=True) if s)
        folded = [fold(a, s, axis, count) for a, s, axis in zip(args, stacked, where, strict=True)]
        result = run(*folded, **attrs)
        outputs = result if type(result) is tuple else (result,)
        return tuple(unfold(o, axis, count) for o, axis in zip(outputs, out_axes, strict=False)), (True,) * len(outputs)

    return rule


def fold(a: Any, is_stacked: bool, axis: int | None, count: int) -> Any:
    """The iteration axis put into the batch axis; an unstacked input repeated along it."""
    if a is None or axis is None:
        return a
    if not is_stacked:
        return np.concatenate([a] * count, axis)
    moved = np.moveaxis(a, 0, axis)
    shape = moved.shape
    return moved.reshape(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def unfold(a: Any, axis: int, count: int) -> Any:
    """The iteration axis taken out of the batch axis."""
    shape = a.shape
    return np.moveaxis(a.reshape(*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]), axis, 0)
