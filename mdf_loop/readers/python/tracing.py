"""Python functions read as bodies: called with values that note what is done to them.

numpy asks such values what its functions and operators shall do (its protocols NEP 13 and NEP 18), and they answer with
nodes of the body under construction.  Everything else of Python runs as it is, once: loops over ranges are unrolled,
numbers and arrays that the function finds outside become constants.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mdf_loop.errors import LoopError, MalformedBody, UnsupportedOp, did_you_mean
from mdf_loop.ops.registry import KERNELS
from mdf_loop.readers.expressions.expression import as_index
from mdf_loop.readers.expressions.expression_text import ANY_FUNCTION
from mdf_loop.readers.expressions.formula_names import FORMULAS, OF_ALL
from mdf_loop.readers.expressions.function_calls import DRAWN, NUMBERS, OPERATORS, SEQUENCES, Omitted, bind, op_of
from mdf_loop.readers.expressions.values import DOMAIN, BodyBuilder, Number, Value, literal
from mdf_loop.readers.python import surroundings
from mdf_loop.readers.python.code_lines import Traceable
from mdf_loop.readers.python.instead import ATTRIBUTES, LATER, NUMPYS, PYTHONS, WRITTEN_OUT, in_python, others_drawn
from mdf_loop.readers.python.parts_of_arrays import Altered, PartOfArray
from mdf_loop.types.fitting import as_array


class TracedBranch(LoopError, TypeError):
    """A traced function asks Python for something that is known only when the loop runs."""


@dataclass
class Trace(Traceable):
    """A function on its way into a body.

    Attributes
    ----------
    builder : BodyBuilder
        The body so far.
    code : code object
        The function's, to tell of its lines.
    outer : Trace or None
        That of the function around it.
    captured : dict
        What is captured from there: its values by the names they have here.
    refusal : TracedBranch or None
        What was refused last: the function may have caught it, and gone another way than it would in an iteration.
    lines : dict
        In which line of the function each value is computed.
    """

    builder: BodyBuilder
    code: Any
    outer: Trace | None = None
    captured: dict[str, Value] = field(default_factory=dict)
    refusal: TracedBranch | None = None
    lines: dict[str, int] = field(default_factory=dict)

    def value(self, given: Any) -> Value:
        """Anything as a value of this body: traced values, and numbers and arrays, which become constants.

        Raises
        ------
        TracedBranch
            It is traced by a function that is not around this one: it was kept beyond its call.
        """
        if isinstance(given, Traced):
            return given.value if given.trace is self else self._from_outside(given)
        if isinstance(given, list | tuple) and any(isinstance(part, Traced) for part in _flat(given)):
            parts = tuple(self.value(part) for part in given)
            return Value(varies=any(part.varies for part in parts), items=parts, display="list")
        if isinstance(given, CONSTANTS):
            return _constant(given)
        cure = "a traced function computes with numbers and arrays, such as np.asarray(...) of it"
        raise self.refused(f"computes with a {type(given).__name__}; {cure}")

    def _from_outside(self, given: Traced) -> Value:
        if self.outer is None:
            raise self.refused("uses a value of another traced function, whose call is over; give it as an argument")
        value = self.outer.value(given)
        name = f"^{self.outer.builder.name(value)}"
        self.captured[name] = value
        return self.builder.capture(name)

    def wrap(self, value: Value) -> Any:
        """A value as the function gets it: a tuple where there are several."""
        if value.items is not None:
            return tuple(self.wrap(item) for item in value.items)
        self.lines.setdefault(value.name, self.line())
        return TracedVariable(value, self)

    def add(self, op: str, inputs: Sequence[Any], **attrs: Any) -> Any:
        """The result of an operator of expressions."""
        self.builder.place = self.place(self.line())
        values = [None if given is None else self.builder.array(self.value(given), op) for given in inputs]
        name, number = self._assigned() or _CALLED.get(op, _short(op)), NUMBERS.get(op, Number.NO)
        return self.wrap(self.builder.node(op, values, name, number=number, **attrs))

    def unknown(self, name: str) -> str:
        """What to write for a function that is no operator here."""
        formula = FORMULAS.get(short := name.rpartition(".")[2], ({}, ""))[1].replace("numpy.", "np.")
        formula += OF_ALL * (short == "softmax")
        written = f"write it out: {formula}" if formula else self.instead()
        return f"; {written}" if written else ATTRIBUTES.get(short, f"; {ANY_FUNCTION}")

    def refused_by_python(self, what: str, usual: str = "") -> TracedBranch:
        """The error for what Python, or a library, asks of a value."""
        if library := self.library():
            return self.refused(f"gives {library} values {LATER}, where it needs numbers{self.unknown(self.calling())}")
        return self.refused(f"{what}{usual}")

    def refused(self, what: str, line: int = 0) -> TracedBranch:
        """The error for what cannot be traced, with the line of the function: that which runs unless another one is given."""
        self.refusal = TracedBranch(f"{self.place(line or self.line())} {what}")
        return self.refusal


current: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("mdf_loop_trace", default=None)
"""The function that is being traced here."""


class Traced(NDArrayOperatorsMixin):
    """A value inside a traced function: known only when the loop runs.  ``x += 1`` makes a new x."""

    __array_priority__ = 1000.0

    def __init__(self, value: Any, trace: Trace) -> None:
        self.value, self.trace = value, trace

    @property
    def here(self) -> Trace:
        """Where what is done to the value is noted: in the function that is being traced now."""
        return current.get() or self.trace

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """NEP 13: what a ufunc, and so an operator, does."""
        here = self.here
        if out is not None:
            raise here.refused(f"writes into an array by out=, which np.{ufunc.__name__} cannot do here; use what it returns")
        if method == "reduce" and ufunc.__name__ in _REDUCED:
            return _called(here, f"numpy.{_REDUCED[ufunc.__name__]}", inputs, named if inputs[1:] else {"axis": 0, **named})
        if method != "__call__" or named:
            how = f".{method}" if method != "__call__" else f" with {', '.join(named)}"
            raise here.refused(f"calls np.{ufunc.__name__}{how}, which a body cannot do; {here.instead() or NUMPYS}")
        name = ufunc.__name__.partition(" ")[0]
        return _called(here, f"{'numpy' if hasattr(np, name) else 'scipy.special'}.{name}", inputs, {})

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        """NEP 18: what any other function of numpy does."""
        here = self.here
        module = function.__module__ if function.__module__ in ("numpy", "numpy.linalg") else "numpy"
        return _called(here, f"{module}.{function.__name__}", args, named)

    def __getitem__(self, index: Any) -> Any:
        here = self.here
        values: list[Any] = []
        template = _template(here, index, values)
        if not values:
            return here.add("index", [self], index=as_index(template))
        return here.add("getitem", [self, *values], index=template)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._refused(f"makes an array of values {LATER}; {self.here.instead() or NUMPYS}")

    def __round__(self, digits: int = 0) -> Any:
        return self.here.add("numpy.round", [self], decimals=digits)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        here = self.here
        if name == "T":
            return _called(here, "numpy.transpose", (self,), {})
        if name == "mT":
            return _called(here, "numpy.swapaxes", (self, -2, -1), {})
        if name in ("shape", "ndim", "size"):
            return _called(here, f"numpy.{name}", (self,), {})
        if name in _METHODS:
            return lambda *args, **named: _called(here, f"numpy.{name}", (self, *_as_one(name, args)), named)
        if name == "astype":
            return lambda dtype: _called(here, _conversion(dtype), (self,), {})
        if name == "copy":
            return lambda *_, **__: TracedVariable(here.value(self), here, changes=1)
        usual = f"; use np.{name}(x)" if op_of(f"numpy.{name}") else did_you_mean(name, _METHODS)
        usual = "; write the new value, x = x + 1 for x.add_(1)" if name.endswith("_") else usual
        advice = here.unknown(name) if name in {*FORMULAS, *ATTRIBUTES} else usual
        raise here.refused_by_python(f"asks for .{name}, which a value has only when the loop runs", advice)

    def _refused(self, what: str) -> TracedBranch:
        called = self.here.calling()
        if called.rpartition(".")[2] in DRAWN or others_drawn(called):
            return self.here.refused(f"draws random numbers by {called}, which cannot be traced; {in_python(called)}")
        return self.here.refused_by_python(what)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, _: Any) -> Any:
        return self.copy()

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """What ``isinstance`` looks at where a value is of another type: that of the function's values is not known yet."""
        if not surroundings.asked_by_library():
            cure = self.here.instead() or "leave the question out: the function is read once, for numbers and arrays of all types"
            raise self._refused(f"asks for the type of a value, which is known only when the loop runs; {cure}")
        return type(self)

    def __repr__(self) -> str:
        return f"<traced {self.value.name or self.value.literal!r}>"


def _refusing(what: str, usual: str) -> Any:
    def refuse(self: Traced, *_: Any) -> Any:
        raise self._refused(f"{what} {LATER}; {self.here.instead() or usual}")

    return refuse


for _name, _what in PYTHONS.items():
    setattr(Traced, _name, _refusing(*_what))

_OF_NUMPY = vars(NDArrayOperatorsMixin)

IN_PLACE = {name: f"__{name[3:]}" for name in _OF_NUMPY if name.startswith("__i") and f"__{name[3:]}" in _OF_NUMPY}
"""Operators in place, such as ``__iadd__``, and those that make a new value."""

for _name, _plain in IN_PLACE.items():  # numpy's mixin makes np.add(x, 1, out=x) of x += 1, which is something else
    setattr(Traced, _name, _OF_NUMPY[_plain])


class TracedVariable(Traced, PartOfArray):
    """A value of a user's function.

    ``x += 1`` makes a new x, and ``x[i] = 1`` gives this one another value.  As in numpy, a slice is a view: it has what its
    array has there now, and what is done to it in place is done to the array.
    """

    def __init__(
        self, value: Value, trace: Trace, whole: TracedVariable | None = None, index: Any = None, changes: int = 0
    ) -> None:
        self._value, self.trace, self.whole, self.index = value, trace, whole, index
        self.changes, self.seen = changes, whole.version if whole is not None else 0
        self.part_of: TracedVariable | None = None  # what numpy may have it as a view of, where it is a copy here
        self.lost = 0  # the line in which elements of such a view were set
        self.altered: list[Altered] = []  # what numpy would have changed here by operators in place, which make new values
        self.sets: list[tuple[Any, ...]] = []  # where elements were set

    def __setattr__(self, name: str, new: Any) -> None:
        if name not in ("_value", "trace", "whole", "index", "changes", "seen", "part_of", "lost", "altered", "sets"):
            raise self.here.refused(f"sets .{name}, which a value does not keep; write np.reshape(x, shape) for a new shape")
        super().__setattr__(name, new)

    @property
    def version(self) -> int:
        """How often elements were set, here and in the array that this is a view of."""
        return self.changes + (self.whole.version if self.whole is not None else 0)

    @property
    def is_shaped(self) -> bool:
        """Whether numpy has it as a view of an array in another shape."""
        return isinstance(self.index, str)

    @property
    def value(self) -> Value:  # type: ignore[override]
        """What it is now."""
        if self.lost:
            raise self.here.refused(
                "sets elements of a part or of another shape of an array, which is a copy here: the array, which is read later, "
                "would stay as it was; set its own elements, such as x[i, j] = 1 for x[i][j] = 1, or those of np.copy(x[i])",
                self.lost,
            )
        self._refuse_altered()
        self._refuse_old()
        if self.is_shaped and self.seen != self.part_of.version:  # type: ignore[union-attr]
            raise self.here.refused(
                f"reads {self.index}(x) of an array whose elements were set later: here it has the elements of before; write "
                f"{self.index}(x) again, or np.copy(x) before they are set"
            )
        if self.whole is not None and self.seen != self.whole.version:
            self._value, self.seen = self.whole[self.index].value, self.whole.version
        return self._value

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        parts = index if isinstance(index, tuple) else (index,)
        part.part_of, part.index, part.seen = self, index, len(self.sets)
        if self.trace is not self.here or any(isinstance(each, Traced | np.ndarray | list) for each in parts):
            return part
        is_view = any(isinstance(each, slice | EllipsisType | None) for each in parts)
        return TracedVariable(part.value, self.trace, self, index) if is_view else part

    def __setitem__(self, index: Any, new: Any) -> None:
        here = self.here
        in_place = isinstance(new, TracedVariable) and new.part_of is self  # x[i] += 1 sets what x[i] became
        if in_place:
            self._get_back(new)
        if self.trace is not here or self._is_from_outside:
            raise here.refused(
                "changes an element of an array from outside, which other iterations read; make it a carried value, or change a "
                "copy: np.copy(x)"
            )
        values: list[Any] = []
        template = _template(here, index, values)
        changed = here.add("setitem", [self, new, *values], index=template, in_place=in_place).value
        if self.whole is None:
            self.changes += 1
            self.sets.append(index if isinstance(index, tuple) else (index,))
            self._lose(here.line())
        else:
            self.whole[self.index] = Traced(changed, here)
            self.seen = self.whole.version
        self._value = changed


def _in_place(plain: Any) -> Any:
    def change(self: TracedVariable, other: Any) -> Any:
        new = plain(self, other)
        new.part_of, new.index = (self.part_of, self.index) if self.whole is None else (self, None)
        new.seen = len(new.part_of.sets) if new.part_of is not None else 0
        if self.is_shaped:
            new._lose(self.here.line())
        if self.whole is None:
            self._alter(new)
            return new
        self[...] = new
        return self

    return change


for _name, _plain in IN_PLACE.items():
    setattr(TracedVariable, _name, _in_place(_OF_NUMPY[_plain]))

_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}

_METHODS = {
    *("sum", "prod", "mean", "std", "var", "min", "max", "all", "any", "argmax", "argmin", "cumsum", "cumprod", "round", "clip"),
    *("reshape", "ravel", "transpose", "squeeze", "swapaxes", "repeat", "take", "trace", "dot", "argsort"),
}
"""Methods of arrays that are functions of numpy as well."""


_SHAPED = {
    *("reshape", "ravel", "transpose", "squeeze", "swapaxes", "moveaxis", "expand_dims", "flip", "diagonal", "broadcast_to")
}
"""Functions that give a view of an array in numpy."""


def _as_one(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a method that takes lengths or axes one by one where the function takes a tuple."""
    return (args,) if name in ("reshape", "transpose") and args and not isinstance(args[0], tuple | list | None) else args


_OPERATORS = frozenset(OPERATORS.values())


def _called(trace: Trace, name: str, args: Iterable[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function of numpy."""
    op = op_of(name)
    if op is None:
        short = name.rpartition(".")[2]
        if short in WRITTEN_OUT:
            return WRITTEN_OUT[short](*args, **named)
        raise UnsupportedOp(str(trace.refused_by_python(f"calls {name}: there is no kernel for it", trace.unknown(name))))
    if op in _OPERATORS:
        return trace.add(op, list(args))
    args, count = list(args), None
    if name in SEQUENCES and args:
        listed = list(args[0])
        args[:1], count = listed, len(listed)
    given: dict[Any, Any] = {**dict(enumerate(args)), **{k: v for k, v in named.items() if v is not np._NoValue}}
    try:
        inputs, attrs = _places_of(KERNELS[DOMAIN, op][-1].run, name, len(args), tuple(given)[len(args) :], count)
    except TypeError as error:
        cure = f"; {said}" if (said := trace.instead()) else ""
        raise MalformedBody(f"{trace.refused('cannot be traced')}: {error}{cure}") from error
    static = {key: _static(trace, given[place], key, name) for key, place in attrs.items()}
    found = trace.add(op, [place.value if isinstance(place, Omitted) else given[place] for place in inputs], **static)
    array = given[inputs[0]] if name.rpartition(".")[2] in _SHAPED else None
    if isinstance(array, TracedVariable) and isinstance(found, TracedVariable):
        found.part_of, found.index, found.seen = array, name.replace("numpy", "np"), array.version
    return found


@functools.lru_cache(maxsize=1024)
def _places_of(
    run: Any, name: str, count: int, names: tuple[str, ...], count_of_inputs: int | None
) -> tuple[list[Any], dict[str, Any]]:
    """Which arguments of a call, by number or name, are a kernel's inputs and attributes."""
    return bind(run, name, range(count), {key: key for key in names}, count_of_inputs)


def _static(trace: Trace, given: Any, key: str, name: str) -> Any:
    """An argument that must be known when the function is traced."""
    parts = _flat(given) if isinstance(given, list | tuple) else (given,)
    if any(isinstance(part, Traced) for part in parts):
        raise trace.refused(f"calls {name} with a {key} that is known only when the loop runs")
    if key == "dtype":
        return np.dtype(given)
    return tuple(given) if isinstance(given, list) else given


def _conversion(dtype: Any) -> str:
    name = np.dtype(dtype).name
    return f"numpy.{'bool_' if name == 'bool' else name}"


def _template(trace: Trace, index: Any, values: list[Any]) -> Any:
    """An index: known parts as they are, traced ones by their number; see the kernel ``getitem``."""
    if isinstance(index, slice):
        parts = (index.start, index.stop, index.step)
        return ("slice", *(None if part is None else _template(trace, part, values) for part in parts))
    if isinstance(index, tuple):
        return ("tuple", *(_template(trace, part, values) for part in index))
    if index is None or index is Ellipsis or type(index) in (int, bool):
        return index
    if isinstance(index, int | np.integer):
        return int(index)
    values.append(index if isinstance(index, Traced) else np.asarray(index))
    return ("value", len(values) - 1)


def _constant(given: Any) -> Value:
    """A number or an array that is known."""
    is_pythons = isinstance(given, int | float | complex) and not isinstance(given, np.generic)
    return literal(given if is_pythons else np.array(as_array(given, "a constant")))


CONSTANTS = bool | int | float | complex | np.ndarray | np.generic | list | tuple
"""What is known when a function is traced."""


def _flat(given: Any) -> Iterable[Any]:
    return (part for item in given for part in _flat(item)) if isinstance(given, list | tuple) else (given,)


_CALLED = {"numpy.random.randn": "noise", "numpy.random.rand": "uniform"}
"""What users call an operator."""


def _short(op: str) -> str:
    return op.rpartition(".")[2]
