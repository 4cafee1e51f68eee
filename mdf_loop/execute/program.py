"""A body with its names resolved: values live in numbered slots, nodes are called in order.

Names, versions and attributes are looked up once, when the program is made; running it is a list of
calls.  Slot 0 holds None (an omitted input) and slot 1 the run (options and random stream).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from mdf_loop.errors import IterationError, KindError, LoopError, MalformedBody, PartialResults, Together, let_through
from mdf_loop.ir import Body, Node, record
from mdf_loop.ir.well_formed import title
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import bind, changes
from mdf_loop.ops.rows import Bound, Call
from mdf_loop.options import Deadline, Run
from mdf_loop.plan.invariants import draws
from mdf_loop.types.elements import read_only

OMITTED, RUN = 0, 1


@record
class Step:
    """One node: what to call, the slots it reads and the slots it writes; ``bound`` is where the call comes from.

    ``given`` takes what is read out of the slots, ``write`` is the only slot that is written: 0 if there are several.
    """

    call: Call
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    node: Node
    bound: Bound
    given: Callable[[list[Any]], Sequence[Any]]
    write: int

    @property
    def loops(self) -> Sequence[Any]:
        """The loops that its node runs."""
        return getattr(self.bound.call, "loops", ())


class Program:
    """A body ready to run node by node.

    Attributes
    ----------
    loops : list of InterpretedLoop
        The loops of its nodes, without those inside them.
    draws : bool
        Whether a node, or one inside it, takes numbers from the run's random stream.

    Raises
    ------
    UnsupportedOp
        A node has no kernel; the message names the node and the body.
    """

    def __init__(self, body: Body) -> None:
        load_kernels()
        self.body, self._changes = body, changes()
        self._slots = {"": OMITTED}
        self._start: list[Any] = [None, None]
        for name, value in body.constants.items():
            self._start[self._new(name)] = read_only(value)
        self.captures = tuple(self._new(name) for name in body.captures)
        self.inputs = tuple(self._new(name) for name in body.inputs)
        for state in body.state:
            self._start[self._new(state.input)] = read_only(state.initial)
        self.steps = tuple(map(self._step, body.nodes, self._bound(body.nodes)))
        self.loops = [loop for step in self.steps for loop in step.loops]
        self.numbers = [(self.slot(name), wrong) for name, wrong in body.numbers.items() if name in self]
        self.draws = any(map(_draws, self.steps))
        self.outputs = tuple(self.slot(name) for name in body.outputs)
        self.state_in = tuple(self.slot(state.input) for state in body.state)
        self.state_out = tuple(self.slot(state.output) for state in body.state)

    def is_current(self) -> bool:
        """Whether the kernels are those that would be found now: a user may have registered others since."""
        return self._changes == changes()

    def slot(self, name: str) -> int:
        """Where a value lives; an omitted name lives in the slot of None."""
        return self._slots[name]

    def __contains__(self, name: str) -> bool:
        return name != "" and name in self._slots

    def environment(self, captured: Sequence[Any], run: Run) -> list[Any]:
        """A fresh set of slots with the constants and the captured values in place."""
        env = self._start.copy()
        env[RUN] = run
        for slot, value in zip(self.captures, captured, strict=True):
            env[slot] = value
        return env

    def run(self, env: list[Any]) -> None:
        """Run every node once, in order, and see that ``body.numbers`` are no arrays.

        Raises
        ------
        IterationError
            A kernel failed; names the node and the shapes it was given, and keeps the cause.
        """
        step, deadline = None, env[RUN].deadline
        try:
            for step in self.steps if deadline is None else self._in_time(deadline):
                result = step.call(*step.given(env))
                if type(result) is tuple:
                    if len(result) < len(step.writes):
                        raise _too_few(len(result), step)
                    for slot, value in zip(step.writes, result, strict=False):
                        env[slot] = value
                elif step.write:
                    env[step.write] = result
                else:
                    raise _too_few(1, step)
        except PartialResults:
            raise
        except Exception as error:
            let_through(error)
            if step is None:  # not even one was called: there is no memory at all
                raise
            failed = failure(self.body, step, env, error)
            if isinstance(error, ValueError) and _SHAPES.search(str(error)) and (shapes := self._shapes(step, env)):
                failed.add_note(f"it is computed from {shapes}; what is carried begins with the shape of its initial value")
            raise failed from error
        for slot, wrong in self.numbers:
            if getattr(env[slot], "ndim", 0):
                raise MalformedBody(wrong)

    @staticmethod
    def keep(env: list[Any], step: Step, results: Any) -> None:
        """Write what a step gave: a tuple, or its only result."""
        if type(results) is not tuple:
            env[step.writes[0]] = results
            return
        for slot, value in zip(step.writes, results, strict=False):
            env[slot] = value

    def _shapes(self, step: Step, env: list[Any]) -> str:
        """The arrays that a body was given and that reach a node, with their shapes; empty for a function that is called."""
        if any(isinstance(env[slot], Hidden) for slot in step.reads):
            return ""
        makers = {out: node for node in self.body.nodes for out in node.outputs}
        reached = [*step.node.reads]
        for name in reached:  # which grows
            reached += [each for each in (makers[name].reads if name in makers else ()) if each not in reached]
        given = {name: env[self.slot(name)] for name in (*self.body.inputs, *self.body.captures) if name in reached}
        return ", ".join(f"{name!r}, {describe_value(x)}" for name, x in given.items() if getattr(x, "ndim", 0))

    def _in_time(self, deadline: Deadline) -> Iterator[Step]:
        """The nodes, one after the other as long as there is time."""
        for step in self.steps:
            deadline.check()
            yield step

    def _new(self, name: str) -> int:
        slot = self._slots[name] = len(self._start)
        self._start.append(None)
        return slot

    def _bound(self, nodes: Sequence[Node]) -> list[Bound]:
        """The kernels of the nodes; all are looked at before a missing one is reported."""
        found, together = [], Together()
        for node in nodes:
            try:
                found.append(bind(node))
            except LoopError as error:
                error.add_note(f"in node {title(node)} of {self.body.name!r}")
                together.add(error)
        together.settle()
        return found

    def _step(self, node: Node, bound: Bound) -> Step:
        reads = tuple(map(self._slots.__getitem__, node.inputs + node.captures))
        wanted = node.outputs
        while wanted and not wanted[-1]:
            wanted = wanted[:-1]
        writes = tuple([self._new(name) if name else self.sink() for name in wanted]) or (self.sink(),)
        reads = (RUN, *reads) if bound.needs_run else reads
        return Step(bound.call, reads, writes, node, bound, _taking(reads), writes[0] if len(writes) == 1 else 0)

    def sink(self) -> int:
        """A slot for an output that is not asked for."""
        self._start.append(None)
        return len(self._start) - 1


def _taking(slots: tuple[int, ...]) -> Callable[[list[Any]], Sequence[Any]]:
    """What takes the values of some slots; of one slot or none a part of the list."""
    if len(slots) > 1:
        return itemgetter(*slots)
    return itemgetter(slice(slots[0], slots[0] + 1) if slots else slice(0))


def _draws(step: Step) -> bool:
    if not step.bound.needs_run:  # as each kernel does that draws
        return False
    return any(loop.program.draws for loop in step.loops) if step.loops else draws(step.node)


_SHAPES = re.compile("broadcast|mismatch|dimension|shapes")
"""What numpy says of arrays whose shapes do not go together."""


class Hidden:
    """A value that only the executor knows of; messages leave it out."""


def _too_few(given: int, step: Step) -> ValueError:
    return ValueError(f"the kernel gave {given} output{'s' * (given != 1)}, the node names {len(step.writes)}")


CARRIED = "; a carried value is that of the iteration before"
"""What explains in a body that there is one number where an array was meant."""


def failure(body: Body, step: Step, env: list[Any], error: Exception, one: str = CARRIED) -> IterationError:
    """What a node that failed raises: names it and what it was given; ``one`` explains one number where an index is taken."""
    node = step.node
    name = f"{node.called} {node.name!r}" if node.name else f"{node.called} -> {', '.join(filter(None, node.outputs))}"
    values = [env[slot] for slot in step.reads if slot != RUN]
    given = ", ".join(describe_value(value) for value in values if not isinstance(value, Hidden))
    place = body.at(node.outputs[0] if node.outputs else None)
    return IterationError(f"{place}{name} failed on ({given}): {_told(error)}{_meant(node, values, error, one)}")


def _meant(node: Node, values: Sequence[Any], error: Exception, one: str) -> str:
    """A hint where a text, nothing, or something else stands among numbers, or a number where an array was meant."""
    if isinstance(error, IndexError) and values and not isinstance(values[0], list | tuple) and np.ndim(values[0]) == 0:
        return f"; {node.inputs[0]!r} is one number, without an index{one}"
    if isinstance(error, IndexError) and any(map(_is_fraction, values[1:])):
        written = "int(k) in equations and k.astype(int) in a function"
        return f"; an index is a whole number: for k write {written}, or begin with whole numbers"
    if "numpy boolean" in str(error):
        return "; to compute with 0 and 1 write 1 * x for x"
    if "negative integer power" in str(error):
        return "; a whole number to a negative power is a fraction: begin with 2.0, not 2"
    for name, value in zip(node.inputs, values, strict=False):
        if name and (value is None or isinstance(value, dict)):
            return f"; {name!r} is {'None' if value is None else f'a {type(value).__name__}'}, no number"
        text = value.item() if isinstance(value, np.ndarray | np.generic) and value.ndim == 0 else value
        if isinstance(text, str) and isinstance(error, IndexError):
            table, own = node.inputs[0], text if text.isidentifier() else "x"
            return f"; {table!r} is an array here, without columns: give {own}={table}[{text[:40]!r}].to_numpy() in its place"
        if isinstance(text, str):
            return f"; {repr(name) if '~' not in name else 'one of them'} is the text {text[:40]!r}, no number"
        among = [each for each in text.ravel()[:100] if isinstance(each, str)] if isinstance(text, np.ndarray) else []
        if among:
            among.sort(key=lambda each: not each.strip("+-.0123456789eE"))  # those that are no numbers first
            return f"; {name!r} has the text {among[0][:40]!r} among its numbers"
    return ""


def _is_fraction(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | float) and np.asarray(value).dtype.kind == "f"


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _told(error: Exception) -> str:
    """What an error says; its type as well, unless it is one that kernels raise to say something.

    Without addresses of objects, which do not help and are others in each run.
    """
    text = _ADDRESS.sub("", str(error)).strip()
    if text and isinstance(error, ValueError | TypeError | NotImplementedError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_value(value: Any) -> str:
    """Type and shape of a value in a few characters, for messages: ``float32[2,3]``."""
    if isinstance(value, np.ndarray | np.generic):
        is_text = value.dtype.kind in "US" or (value.dtype == object and all(isinstance(item, str) for item in np.ravel(value)))
        return f"{'string' if is_text else value.dtype.name}[{','.join(map(str, value.shape))}]"
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return type(value).__name__


def no_boolean(what: str, given: np.ndarray, meant: str = "a comparison, such as x > 0, is one") -> KindError:
    """The error for a condition that is no boolean, with notes that say what was probably meant."""
    text = f" ({given.item()[:40]!r})" if given.size == 1 and isinstance(given.item(), str) else ""
    error = KindError(f"{what} must be one boolean, a scalar or of shape [1]; got {describe_value(given)}{text}")
    if given.size > 1:
        error.add_note("any(...) or all(...) makes one of several; in Python write np.any(...) or np.all(...)")
    if given.dtype.kind in "OUS":
        error.add_note(
            "what ends a loop is computed in its body: while: ... in equations, the first value that a function returns"
        )
    elif given.dtype.kind != "b":
        error.add_note(meant)
    return error


def refused_condition(body: Body, name: str | None, error: KindError) -> IterationError:
    """The error for what a body gives in the place of its condition; what a Python function returns has no name."""
    said = str(error)
    if body.places and not body.ends:
        said = f"{said.replace(f' {name!r}', '', 1)}; a body returns the condition first: return True, x"
    return IterationError(f"{body.at('while' if body.ends else name)}{said}").with_notes_of(error)
