"""A Step as the text of a Python function.

A number of float64, int64 or bool is one of Python's inside (``numbers``), everything else is what numpy has (``arrays``);
``control`` writes loops and branches.  A value that is read once, in the region that makes it, stays an expression::

    def program(run, p0, p1):
        q0 = p0.item()
        x1 = q0
        for i2 in range(100):
            x1 = x1 + 0.5 * (1.0 - x1)
        return (float64(x1),)

Letters: ``p`` what is given, ``q`` the same as a number, ``i`` iteration numbers, ``x`` carried values, ``s`` parts of scanned
arrays, ``l`` collected values, ``b`` arrays that are written again and again, ``v`` other values, ``k`` kernels and constants.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.backends.python import numbers, numpy_calls, python_loops, runtime
from mdf_loop.backends.python.numbers import box_of, end_of, is_native
from mdf_loop.backends.python.source import Source
from mdf_loop.step.failing import TooLong, may_fail, may_refuse
from mdf_loop.step.primitives import PRIMITIVES
from mdf_loop.step.records import Apply, Region, Type, Value
from mdf_loop.step.structure import Uses, uses_of, values_in

MOST = 1 << 14
"""Iterations of one loop that a program runs without a pause."""

LEAST = 512
"""Bytes of an array from which on a short program writes it over another one; a smaller new one costs less than making room."""

WRAPPING = {name for name, row in PRIMITIVES.items() if row.wraps}
"""What may be given a whole number that has left the range of its type."""

LEAVING = {name for name, row in PRIMITIVES.items() if row.leaves} | {"cast"}
"""What may give a whole number that has left the range of its type."""

LONGEST = 120
"""Characters of an expression that stays within another one."""


def program(
    region: Region, most: int = MOST, least: int = LEAST, careful: bool = False, is_block: bool = False
) -> tuple[Callable[..., Any], str]:
    """The function of a Step, ``program(run, *values) -> results``, and its text.

    ``is_block`` says that the caller has chosen how many iterations there are, and looks at the clock.
    ``careful`` writes functions that give numpy's infinities and nan where Python's raise errors; they cost more.

    It raises :class:`~mdf_loop.step.failing.FallBack`, or whatever the kernels raise, where it cannot tell what is
    right.
    """
    printer = Printer(region, most, least, careful, is_block)
    parameters = ", ".join(["run", *(f"p{k}" for k in range(len(region.params)))])
    printer.whole(region)
    text = printer.source.text(parameters)
    return printer.source.compiled(text), text


class Printer:
    """Writes a region into a source."""

    def __init__(self, region: Region, most: int, least: int, careful: bool = False, is_block: bool = False) -> None:
        self.is_block = is_block
        self.source, self.most, self.least, self.careful = Source(), most, least, careful
        self.uses: Uses = uses_of(region)
        self.texts: dict[Value, str] = {}
        self.boxes: dict[Value, str] = {}
        self.bounds: dict[Value, int] = {}
        self.inline: set[Value] = set()
        self.targets: dict[Value, str] = {}
        self._ones: dict[Any, np.ndarray] = {}
        self._lone: dict[Any, np.ndarray] = {}
        self.loops: list[python_loops.LoopWriter] = []
        self.generator = "run.stream.shared()"

    def whole(self, region: Region) -> None:
        """The function's lines."""
        for k, param in enumerate(region.params):
            self.texts[param] = self.boxes[param] = f"p{k}"
            if is_native(param.type) and not param.type.weak and self.uses.count(param):
                self.texts[param] = f"q{k}"
                self.source.line(f"q{k} = p{k}.item()")
        self.renew_end()
        self._take_generator(region)
        self.values(region)
        results = "".join(f"{self.boxed(value)}, " for value in region.results)
        self.source.line(f"return ({results})")

    def _take_generator(self, region: Region) -> None:
        """The run's generator, once for all numbers that are drawn, if nothing else that uses the run may ask for it."""
        operators = [v.attr for v in values_in(region) if v.op == "apply" and v.attr.needs_run]
        if not operators or any(operator.drawn is None for operator in operators):
            return
        if not any(v.op == "loop" and v.attr.whole is not None for v in values_in(region)):
            self.generator = "rng"
            self.source.line("rng = run.stream.shared()")

    def renew_end(self, indent: str = "") -> None:
        """The time at which a program stops, so that a loop that takes long is run in a way that can be watched."""
        if self.is_block:
            return
        if any(value.op == "loop" for value in self.uses.homes):
            self.source.line(f"{indent}end = {self.source.use(time.perf_counter)}() + run.longest")

    def look_at_clock(self, number: str, body: Region) -> None:
        """In a loop: now and then, more often where an iteration takes longer."""
        if self.is_block:
            return
        inside = [value for value in body.values if value.op == "apply" or not is_native(value.type)]
        has_loop = any(value.op == "loop" for value in body.values)
        often = "" if has_loop else f"not {number} & {7 if inside else 255} and "
        stop = self.source.use(TooLong)
        self.source.line(f"if {often}{self.source.use(time.perf_counter)}() > end: raise {stop}")

    def values(self, region: Region) -> None:
        """Every value of a region, in order."""
        for value in region.values:
            if self.uses.count(value) or may_fail(value):
                self._value(value)

    def _value(self, value: Value) -> None:
        if value.op == "loop":
            python_loops.write_loop(self, value)
        elif value.op == "branch":
            python_loops.write_branch(self, value)
        elif value.op == "apply":
            self._applied(value)
        elif value.op != "item":  # who gives several results names them
            self._expression(value)

    def _expression(self, value: Value) -> None:
        if value in self.targets:
            self.texts[value] = self.targets[value]
            self.source.line(numpy_calls.written_into(self, value, self.targets[value]))
            return
        text = self._number(value) if value.op in PRIMITIVES and is_native(value.type) else None
        text = text or numpy_calls.written(self, value)
        if self._may_leave_its_type(value):
            name, end = self.named(value, text), end_of(value.type)
            self.source.line(f"if not {-end} <= {name} < {end}: {name} = {self.source.use(runtime.wrapped)}({name}, {end})")
            self.bounds[value] = end
            return
        is_light = is_native(value.type) and value.op in PRIMITIVES and self.uses.is_single(value) and len(text) < LONGEST
        if value.op in ("cast", "as_array") and is_native(value.type) and text.isidentifier():
            self.texts[value] = text  # the same number
        elif is_light and not may_refuse(value):
            self.texts[value] = f"({text})"
            self.inline.add(value)
        else:
            self.named(value, text)

    def named(self, value: Value, text: str) -> str:
        """The value under a name of its own."""
        name = self.texts[value] = self.source.fresh("v")
        self.inline.discard(value)
        self.source.line(f"{name} = {text}")
        return name

    # What values are called

    def text(self, value: Value) -> str:
        """A value as it is inside the program."""
        if value.op == "const" and value not in self.texts:
            self.texts[value] = self._constant(value)
        return self.texts[value]

    def name(self, value: Value) -> str:
        """The same, where it stands more than once."""
        text = self.text(value)
        return self.named(value, text) if value in self.inline else text

    def boxed(self, value: Value) -> str:
        """A value as kernels take it."""
        if value.op == "const":
            return self.source.use(value.attr, "k") if value.attr is not None else "None"
        if value in self.boxes:
            return self.boxes[value]
        box = box_of(value.type)
        return self.text(value) if box is None else f"{self.source.use(box)}({self.text(value)})"

    def lone(self, number: Any, dtype: np.dtype) -> np.ndarray:
        """A number as an array without dimensions, the same one each time."""
        return self._lone.setdefault((repr(number), dtype), np.array(number, dtype))

    def spread(self, number: Any, type: Type) -> np.ndarray:
        """A constant repeated to a shape, the same array each time."""
        return self._lone.setdefault((id(number), type), np.array(np.broadcast_to(number, type.shape), type.dtype))  # type: ignore[arg-type]

    def is_outside(self, value: Value) -> bool:
        """Whether a value is the same in every iteration of the outermost loop that is being written."""
        return bool(self.loops) and value not in self.loops[0].inside

    def in_front(self, line: str) -> None:
        """A line in front of the outermost loop that is being written."""
        self.loops[0].front.append(line)

    def ones(self, count: int, dtype: np.dtype | None) -> np.ndarray:
        """So many ones, the same array each time."""
        return self._ones.setdefault((count, dtype), np.ones(count, dtype))

    def as_type(self, value: Value, native: bool) -> str:
        """A value in the form of what it is assigned to."""
        return self.text(value) if native else self.boxed(value)

    def _constant(self, value: Value) -> str:
        if not is_native(value.type):
            return self.source.use(value.attr, "k") if value.attr is not None else "None"
        number = value.attr.item() if isinstance(value.attr, np.generic | np.ndarray) else value.attr
        if isinstance(number, float) and not math.isfinite(number):
            return self.source.use(number, "k")
        return repr(number) if number >= 0 else f"({number!r})"

    # Numbers

    def _number(self, value: Value) -> str | None:
        """A primitive of Python's numbers; None if it is not one of those."""
        if not all(is_native(x.type) for x in value.args):
            return None
        kinds = {x.type.kind for x in value.args}
        kind, weak = value.args[0].type.kind, value.type.weak
        if len(kinds) > 1 and not weak:
            return None
        looked_at = numbers.unbounded(value)
        found = numbers.written(value.op, kind, weak) if looked_at is None else None
        if found is not None and not (self.careful and not weak and value.op in ("floordiv", "mod")):
            template, is_twice = found
            if value.op == "div" and value.args[1].op == "const" and value.args[1].attr:
                template, is_twice = "{0} / {1}", False
            called = {name: self.source.use(f) for name, f in numbers.HELPERS.items() if f"{{{name}}}" in template}
            return template.format(*[self.name(x) if is_twice else self.text(x) for x in value.args], **called)
        function = numbers.FUNCTIONS.get((value.op, kind))
        if function is not None and not weak:
            ufunc = PRIMITIVES[value.op].ufunc
            function = runtime.total(function, ufunc) if self.careful and ufunc is not None and kind == "f" else function
            return f"{self.source.use(function)}({', '.join(map(self.text, value.args))})"
        call = f"{self.source.use(looked_at or PRIMITIVES[value.op].call)}({', '.join(map(self.boxed, value.args))})"
        return call if weak else f"{call}.item()"

    def _may_leave_its_type(self, value: Value) -> bool:
        """Whether a whole number has to be looked at, because the number itself is read."""
        if value.op not in LEAVING or value.type.kind != "i" or value.type.weak or not is_native(value.type):
            return False
        if value.op == "cast":
            x = value.args[0]
            return x.type.kind == "i" and not x.type.weak and self.bound(x) >= end_of(value.type)
        self.bounds[value] = numbers.bound_of(value.op, [self.bound(x) for x in value.args])
        return self.bounds[value] >= end_of(value.type) and not self.uses.only_in(value, WRAPPING)

    def bound(self, value: Value) -> int:
        """How large a whole number can be; that of its type is as large as the lowest one, which has no opposite.

        Of a value whose type is not known nothing is known.
        """
        if value.op == "const":
            return abs(int(value.attr))
        if value.type.kind == "b":
            return 1
        if value.type.dtype is None:
            return self.bounds.get(value, 1 << 64)
        return self.bounds.get(value, 1 << 40 if value.op == "length" else end_of(value.type))

    # Operators as a whole

    def _applied(self, value: Value) -> None:
        operator: Apply = value.attr
        if value in self.targets and operator.routine is not None:
            routine, self.texts[value] = self.source.fresh("m"), self.targets[value]
            self.in_front(f"{routine} = {self.source.use(operator.routine, 'm')}()")
            self.source.line(f"{routine}({', '.join([*map(self.boxed, value.args), self.targets[value]])})")
            return
        given = [*map(self.boxed, value.args)]
        if operator.drawn is not None:
            call = f"{self.source.use(operator.drawn)}({', '.join([*given, f'rng={self.generator}'])})"
        else:
            call = f"{self.source.use(operator.call)}({', '.join(['run', *given] if operator.needs_run else given)})"
        if operator.results > 1:
            whole = self.named(value, call)
            for k, item in self.uses.items_of(value):
                self._guard(self.named(item, f"{whole}[{k}]"), item, operator)
            return
        name = self.named(value, call)
        if not isinstance(operator.call, np.ufunc):
            self.source.line(f"if type({name}) is tuple: {name} = {name}[0]")
        self._guard(name, value, operator)

    def _guard(self, name: str, value: Value, operator: Apply) -> None:
        """What an operator gave, in the form that its type says; a type that was inferred is looked at."""
        type = value.type
        if type.dtype is not None and not type.weak and operator.definition is None:
            is_other = f"{name}.dtype != {self.source.use(type.dtype, 'd')}"
            if type.is_static:
                is_other += f" or {name}.shape != {type.shape!r}"
            self.source.line(f"if {is_other}: raise {self.source.use(runtime.FallBack)}")
        if is_native(type) and not type.weak:  # else it is a number of Python's already
            self.source.line(f"{name} = {name}.item()")
