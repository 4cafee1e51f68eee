"""What a row of the table of kernels says of an operator besides how it runs, and what a node becomes that is ready to run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeVar

import numpy as np

from mdf_loop.ir import Body, Loop, record

Call = Callable[..., Any]


T = TypeVar("T")


def filling(table: dict[str, T]) -> Callable[..., Callable[[T], T]]:
    """A decorator that enters a function in a table, under the names that the decorator is given."""

    def entering(*names: str) -> Callable[[T], T]:
        def enter(function: T) -> T:
            table.update(dict.fromkeys(names, function))
            return function

        return enter

    return entering


@record
class Definition:
    """What a kernel's function computes, said in another way, for the function ``run``; and ``why``, one of :data:`REASONS`."""

    make: Call
    run: Call
    why: str = ""


REASONS = {
    "python": "numbers of Python's own, which a traced kernel does not take",
    "values": "what it does depends on values, and is known nevertheless, or looked at when it runs",
    "open lengths": "lengths that only the run can tell",
    "lists": "lists, which are no arrays",
    "speed": "the kernel is written for the interpreter, and its Step would be slower than this one",
}
"""Why a definition is written beside a kernel, where tracing the kernel does not give it."""


FUNCTIONS: dict[str, Call] = {}
"""What functions of numpy are in primitives, by the operator of expressions that each is: kernels are traced in terms of them."""


def numpys(name: str) -> Callable[[Call], Call]:
    """Say what a function of numpy computes in terms of primitives; it gets a builder and the function's arguments."""

    def decorate(make: Call) -> Call:
        FUNCTIONS[name] = of_given(make)
        return make

    return decorate


FOR_PROGRAMS: dict[str, Call] = {}
"""By operator: what it is in primitives where all of them are machine code, ``define(builder, node, *inputs)``."""

for_programs = filling(FOR_PROGRAMS)
"""Registers what some operators are in machine code."""


def of_given(make: Call) -> Call:
    """A definition that refuses inputs which were omitted, where it says nothing else for them."""
    named = make.__code__.co_argcount - 1
    least = named - len(make.__defaults__ or ()) if named else None

    @functools.wraps(make)
    def made(b: Any, *inputs: Any, **attrs: Any) -> Any:
        for x in inputs[:least]:
            if x is None:
                raise ValueError("None is no number")
        return make(b, *inputs, **attrs)

    return made


@record
class Known:
    """What is known of a node's input before it is there: its element type, and its value where it is a constant."""

    dtype: np.dtype | None = None
    value: Any = None


@record
class Facts:
    """What is known of an operator besides what it computes: code that has a shorter way for a class of operators asks here.

    Nothing is said where a field has its default.

    Attributes
    ----------
    traced : bool
        Its function computes what types and constants decide, with numpy alone: called with values that carry types, it gives
        its Step.  Element-wise kernels do so without being said to.
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
    factorises : bool
        It factorises a matrix, for which libraries have one call that is better than the steps of its definition.
    replaces_parts : bool
        It is its first input with parts replaced.
    chooses : bool
        It runs one of two bodies without inputs, ``Bound.branches``, as its only input says.
    selects : bool
        It gives elements of its other two inputs, as its first one says.
    compares : bool
        It compares numbers, and is false for nan.
    orders : bool
        Its result depends on which operand, or element, is larger.
    of_bits : bool
        It computes with the digits of whole numbers, of which none is an amount.
    divides : bool
        Its second input is a divisor.
    is_open_ended : bool
        The largest whole number is no number to it, but an end that is open.
    draws : callable or None
        ``draws(*inputs)``, with inputs that are known, says which of ONNX's random operators draws the same numbers: its name and
        attributes, the type being float64; None if there is none.
    results : callable or None
        ``results(first, **attrs)``, of the shape of the first input (None where its rank or a length is not known),
        says the element type and the shape of each output, where ONNX's inference does not know them.
    """

    traced: bool = False
    light: bool = False
    alias: Callable[..., bool] | None = None
    picks_rows: Callable[..., bool] | None = None
    reshapes: bool = False
    accumulates: str = ""
    appends: bool = False
    multiplies_matrices: bool = False
    factorises: bool = False
    replaces_parts: bool = False
    chooses: bool = False
    selects: bool = False
    compares: bool = False
    orders: bool = False
    of_bits: bool = False
    divides: bool = False
    is_open_ended: bool = False
    draws: Callable[..., tuple[str, dict[str, Any]] | None] | None = None
    results: Callable[..., list[tuple[np.dtype | None, tuple[int | None, ...] | None]]] | None = None


NO_FACTS = Facts()
"""What is known of a kernel of which nothing is said."""


FEW_STEPS = 48
"""Iterations that are run one by one where others would be batched."""


@record
class Bound:
    """A kernel made ready for one node: ``call(*inputs)``, or ``call(run, *inputs)`` if ``needs_run``.

    Control flow also says what it is made of: ``loop``, and ``worth(n)``, up to how many iterations of a run of ``n`` it is worth
    running them one by one, which are :data:`FEW_STEPS` at least; or the two ``branches`` of an If.  A kernel that draws from the
    run's own generator is ``drawn(*inputs, rng=generator)`` as well.  ``keywords`` are what ``call`` gives the kernel's function
    beside the inputs: a rule for many iterations needs them.
    """

    call: Call
    needs_run: bool = False
    loop: Loop | None = None
    worth: Callable[[int], int] = lambda n: 1 << 62
    branches: tuple[Body, Body] | None = None
    drawn: Call | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
