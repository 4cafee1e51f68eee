"""What a row of the table of kernels says of an operator besides how it runs, and what a node becomes that is ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Loop, Node

Call = Callable[..., Any]


@dataclass(frozen=True)
class Definition:
    """What a kernel's function computes, said in another way, for the function ``run``."""

    make: Call
    run: Call


@dataclass(frozen=True)
class Known:
    """What is known of a node's input before it is there: its element type, and its value where it is a constant."""

    dtype: np.dtype | None = None
    value: Any = None


@dataclass(frozen=True)
class Facts:
    """What is known of an operator besides what it computes: whoever has a shorter way for a class of operators asks here.

    Nothing is said where a field has its default.

    Attributes
    ----------
    light : bool
        It costs about as much as reading its inputs once.
    alias : callable or None
        ``alias(*inputs, **attrs)``, with :class:`Known` inputs (None for an omitted one), says whether the first output is the
        first input itself.
    picks_rows : callable or None
        ``picks_rows(**attrs)`` says whether it gives ``data[indices]`` of two inputs.
    reshapes : bool
        It gives the elements of its first input in another shape.
    accumulates : str
        For two inputs without attributes it is the ufunc of this name, whose ``accumulate`` takes the same steps in order.
    appends : bool
        It puts the second of two inputs behind the sequence that is the first.
    multiplies_matrices : bool
        It is a product of matrices, and right but for its last places.
    replaces_parts : bool
        It is its first input with parts replaced.
    chooses : bool
        It runs one of two bodies without inputs, ``Bound.branches``, as its only input says.
    results : callable or None
        ``results(first, **attrs)``, of the shape of the first input (None where its rank or a length is not known),
        says the element type and the shape of each output, where ONNX's inference does not know them.
    loop : callable or None
        ``loop(node)`` says which loop a node is, as :class:`LoopInputs`; it raises what is wrong with the node.
    """

    light: bool = False
    alias: Callable[..., bool] | None = None
    picks_rows: Callable[..., bool] | None = None
    reshapes: bool = False
    accumulates: str = ""
    appends: bool = False
    multiplies_matrices: bool = False
    replaces_parts: bool = False
    chooses: bool = False
    results: Callable[..., list[tuple[np.dtype | None, tuple[int | None, ...] | None]]] | None = None
    loop: Callable[[Node], LoopInputs] | None = None


NO_FACTS = Facts()
"""What is known of a kernel of which nothing is said."""


def _nothing() -> slice:
    """The places of values that a node has none of."""
    return slice(0, 0)


@dataclass(frozen=True)
class LoopInputs:
    """A node that is a loop, whatever a file called it: its record, and where among the node's inputs its values stand.

    The node's outputs are the carried, last and collected values, in this order.

    Attributes
    ----------
    count, condition : int or None
        Places of the trip count and the condition; None where the node has no such input.
    carried, scanned, invariant : slice
        Places of the values.
    endless : int or None
        The trip count that has no limit, if there is such a number; then no other number may be below 0, and a loop whose
        scanned values end before it does has failed.
    is_obeyed : bool
        Whether the body's condition ends the loop where the node's own is omitted; ONNX says that it does not.
    is_batched : bool
        Whether the loop runs once for each row of all its values, each time for its own number of iterations.
    worth : callable
        For how many iterations it is worth running them one by one; more are better planned.
    """

    loop: Loop
    count: int | None = None
    condition: int | None = None
    carried: slice = field(default_factory=_nothing)
    scanned: slice = field(default_factory=_nothing)
    invariant: slice = field(default_factory=_nothing)
    endless: int | None = None
    is_obeyed: bool = True
    is_batched: bool = False
    worth: Callable[[], int] = lambda: 1 << 62


@dataclass(frozen=True)
class Bound:
    """A kernel made ready for one node: ``call(*inputs)``, or ``call(run, *inputs)`` if ``needs_run``.

    Control flow also says what it is made of: ``loop``, or the two ``branches`` of an If.  ``keywords`` are what ``call`` gives
    the kernel's function beside the inputs: a rule for many iterations needs them.
    """

    call: Call
    needs_run: bool = False
    loop: LoopInputs | None = None
    branches: tuple[Body, Body] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
