"""A stepped part of a plan as programs: one for each combination of types, called for a block of iterations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdf_loop.execute.calls import Calls
from mdf_loop.execute.iteration_columns import History, NotStackable, type_of_row
from mdf_loop.execute.specialised import Specialised, in_machine_code, in_python
from mdf_loop.execute.tiers.background import Order
from mdf_loop.execute.tiers.paying import writing
from mdf_loop.ir import Body, Carried, Collected, Loop, Scanned
from mdf_loop.options import Run
from mdf_loop.plan.invariants import Invariants, draws
from mdf_loop.plan.schedule import Stepped
from mdf_loop.step.build import type_of_value
from mdf_loop.step.failing import FallBack
from mdf_loop.step.lower import lower_block
from mdf_loop.step.records import Region, Type
from mdf_loop.system.threads import Recent

MOST_SIGNATURES = 16
"""Combinations of types for which programs are kept."""


Types = tuple[tuple[Type, ...], tuple[Type, ...], tuple[Type, ...]]
"""Of what is carried, of the rows of streams, and of what is the same in all iterations."""


Given = tuple[Sequence[Any], Sequence[History], Sequence[Any]]
"""What a part is given: what is carried, at the start of a block; its streams, computed before; and what stays the same."""


@dataclass
class PartOfTypes:
    """What there is for values of some types.

    The ``step``, of which Python and machine code are made, and the types of the rows that are ``recorded``; the program in
    ``python``, which takes care of nan if it ``is_careful``; that in ``machine`` code, or why there is none, and its ``order``.
    """

    step: Region
    recorded: Sequence[Type]
    python: Specialised | None = None
    is_careful: bool = False
    machine: Specialised | str | None = None
    order: Order | None = None


@dataclass
class Stretch:
    """What a stepped part gave for a block: iterations done, whether it goes on, columns, and carried values."""

    done: int
    going: bool
    histories: dict[str, History]
    finals: dict[str, Any]
    condition: Any = None


class SteppedPart:
    """A stepped part of a plan, with what it reads and what is wanted of it."""

    def __init__(
        self,
        part: Stepped,
        body: Body,
        calls: Calls,
        carried: Mapping[str, str],
        same: Invariants,
        condition: str,
        wanted: Collection[str],
    ) -> None:
        self.part, self.calls, self.exact = part, calls, calls.exact
        self.carried = {name: carried[name] for name in part.carried}
        self.draws = any(map(draws, part.nodes))
        self.condition = condition if part.decides else ""
        written = {name for node in part.nodes for name in node.outputs if name}
        reads = {name for node in part.nodes for name in node.reads} | set(self.carried.values()) | ({self.condition} - {""})
        outside = sorted(reads - written - set(self.carried))
        constants = {name: body.constants[name] for name in outside if name in body.constants}
        self.once = [name for name in outside if name in same and name not in constants]
        self.streams = [name for name in outside if name not in same and name not in constants]
        passed_on = {name for name, output in self.carried.items() if output in self.carried}
        self.recorded = sorted((written | passed_on) & set(wanted))
        self.record = self._as_loop(body, constants)
        self._entries = Recent[PartOfTypes](MOST_SIGNATURES)
        self.latest: Specialised | None = None
        self.why = ""

    def _as_loop(self, body: Body, constants: Mapping[str, Any]) -> Loop:
        """The part as a loop of its own: what it reads is given, what is wanted of it is collected."""
        outputs = tuple(dict.fromkeys([*self.carried.values(), *self.recorded, *([self.condition] if self.condition else [])]))
        inputs, once = (*self.carried, *self.streams), tuple(self.once)
        inner = replace(body, inputs=inputs, outputs=outputs, nodes=self.part.nodes, constants=constants, captures=once, state=())
        return Loop(
            inner,
            tuple(Carried(name, output) for name, output in self.carried.items()),
            tuple(map(Scanned, self.streams)),
            tuple(map(Collected, self.recorded)),
            keep_going=self.condition or None,
        )

    def run(self, n: int, run: Run, given: Given, is_compiled: bool = False) -> Stretch:
        """Step through up to ``n`` iterations."""
        entry = self._entry(given)
        found = self._by_machine_code(entry, n, run, given) if is_compiled else None
        return self._stretch(self._by_python(entry, n, run, given) if found is None else found, entry.recorded)

    def is_being_compiled(self, given: Given, patience: float) -> bool:
        """Whether machine code for such values is not there yet, even after some seconds of ``patience``.

        The first who asks orders it.
        """
        entry = self._entry(given)
        if entry.machine is None:
            entry.order = entry.order or Order(entry.step, is_block=True)
            entry.order.wait(patience)
            entry.machine = entry.order.found
        return entry.machine is None

    def refusal(self, given: Given) -> str:
        """Why there is no machine code for such values, which is made if it was not asked for before; empty if there is some."""
        made = self._machine_code(self._entry(given))
        return made if isinstance(made, str) else ""

    @staticmethod
    def _machine_code(entry: PartOfTypes) -> Specialised | str:
        if entry.machine is None:
            with writing():
                entry.machine = in_machine_code(entry.step, is_block=True)
        return entry.machine

    def _entry(self, given: Given) -> PartOfTypes:
        carried, streams, once = given
        types = (
            tuple(type_of_value(value, self.exact) for value in carried),
            tuple(history.type for history in streams),
            tuple(type_of_value(value, self.exact) for value in once),
        )
        return self._entries.of(types, lambda: self._lowered(types))

    def _lowered(self, types: Types) -> PartOfTypes:
        with writing():
            step = lower_block(self.record, *types, self.calls.bound)
        return PartOfTypes(step, [x.type for x in step.results[len(self.carried) : len(self.carried) + len(self.recorded)]])

    def _by_machine_code(self, entry: PartOfTypes, n: int, run: Run, given: Given) -> Sequence[Any] | None:
        """What machine code gives for a block; None if there is none, or it leaves the block to others."""
        made = self._machine_code(entry)
        if isinstance(made, str):
            self.why = made
            return None
        drawn, (carried, streams, once) = run.stream.save() if self.draws else None, given
        try:
            found: Sequence[Any] = made.call(run, np.int64(n), *carried, *[history.stacked() for history in streams], *once)
        except (FallBack, NotStackable):
            if drawn is not None:
                run.stream.restore(drawn)
            return None
        self.latest, self.why = made, ""
        return found

    def _by_python(self, entry: PartOfTypes, n: int, run: Run, given: Given) -> Sequence[Any]:
        if entry.python is None:
            with writing():
                entry.python = in_python(entry.step, 0, entry.is_careful, self.why, is_block=True)
        self.latest, (carried, streams, once) = entry.python, given
        try:
            found: Sequence[Any] = entry.python.call(run, np.int64(n), *carried, *[history.rows() for history in streams], *once)
        except (ValueError, ArithmeticError):
            if not entry.is_careful:  # Python may have refused what is nan or infinite to numpy
                entry.is_careful, entry.python = True, None
            raise
        return found

    def _stretch(self, results: Sequence[Any], types: Sequence[Type]) -> Stretch:
        *found, done, condition = results
        finals = dict(zip(self.carried, found, strict=False))
        columns = zip(self.recorded, found[len(finals) :], types, strict=True)
        recorded = {name: self._history(rows, type) for name, rows, type in columns}
        stays = bool(np.all(condition)) if self.condition else True
        return Stretch(int(done), stays, recorded, finals, condition if self.condition else None)

    def _history(self, rows: Any, type: Type) -> History:
        """What was collected; the type says of numbers whether they are weak, or arrays without dimensions."""
        if isinstance(rows, np.ndarray) and type.weak:
            return History.of_rows(rows.tolist(), type)
        if isinstance(rows, np.ndarray):
            found = type_of_row(rows)
            return History.of_array(rows, type=replace(found, is_array=True) if type.is_array else found)
        if type.weak and type.kind in "fib":
            return History.of_rows(rows, type)
        return History.of_values(rows, self.exact)
