"""A stepped part made into a function for the kinds of values that a session has, and called for a block.

The function is kept: the next call with the same kinds takes it as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.analysis.invariants import Invariants
from mdf_loop.execute import buffers
from mdf_loop.execute.calls import Calls
from mdf_loop.execute.counting import counters
from mdf_loop.execute.emit import Emitter, Scope
from mdf_loop.execute.emit_control import ControlWriter, constant
from mdf_loop.execute.histories import History
from mdf_loop.execute.interpret import truth
from mdf_loop.execute.kinds import ARRAY, OTHER, SCALAR, Kind, common_kind, into, kind_of_value, out_of
from mdf_loop.execute.rounds import renamed
from mdf_loop.execute.scalars import Operand
from mdf_loop.execute.source import Source
from mdf_loop.ir import Body, Node
from mdf_loop.options import Run
from mdf_loop.plan import Stepped
from mdf_loop.registry import operator

log = logging.getLogger(__name__)

LINE, LARGE, MANY = 64, 1 << 20, 32
"""Bytes of a line of the cache, bytes of a matrix that is read from memory for each product, and products that earn a copy."""

PARAMETERS = "n, run, once, streams, carried, rows"


@dataclass
class Function:
    """What was emitted for one set of kinds."""

    call: Callable[..., Any]
    source: Source
    once: tuple[Callable[[Any], Any], ...]
    carried: tuple[Callable[[Any], Any], ...]
    kinds: tuple[Kind, ...]
    condition: Kind
    recorded: tuple[tuple[str, Kind], ...]
    rows: tuple[tuple[tuple[str, ...], Kind], ...]


@dataclass
class Stretch:
    """What a stepped part gave for a block: iterations done, whether it goes on, histories, and values that went round."""

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
        rounds: Mapping[str, str],
        same: Invariants,
        condition: str,
        wanted: Collection[str],
    ) -> None:
        self.part, self.body, self.calls = part, body, calls
        self.rounds = {name: rounds[name] for name in part.rounds}
        written = {name for node in part.nodes for name in node.outputs if name}
        reads = {name for node in part.nodes for name in node.reads} | set(self.rounds.values())
        self.condition = condition if part.decides else ""
        if self.condition:
            reads.add(self.condition)
        outside = sorted(reads - written - set(self.rounds))
        self.constants = [name for name in outside if name in body.constants]
        self.once = [name for name in outside if name in same and name not in body.constants]
        self.streams = [name for name in outside if name not in same and name not in body.constants]
        self.matrices = {name for node in part.nodes if node.op in ("MatMul", "Gemm") for name in node.inputs}
        handed_on = {name for name, output in self.rounds.items() if output in self.rounds}
        self.recorded = sorted((written | handed_on) & set(wanted))
        self._functions: dict[Any, Function] = {}
        self.latest: Function | None = None

        # The values that go round from pass to pass of a graph are the next pass's already, and regrouped nodes are not
        # the body's: there the iteration that was interpreted last does not say what the nodes give.
        own = set(map(id, body.nodes))
        self.was_interpreted = not body.state and all(id(node) in own for node in part.nodes)

    def run(
        self,
        n: int,
        run: Run,
        same: Mapping[str, Any],
        streams: Mapping[str, History],
        now: Mapping[str, Any],
        samples: Callable[[str], Any],
        room: Callable[[str, Kind, int], np.ndarray],
    ) -> Stretch:
        """Step through up to ``n`` iterations.

        Parameters
        ----------
        same : mapping
            Values that are the same in every iteration.
        streams : mapping
            Values computed for the block before.
        now : mapping
            What goes round, at the start of the block.
        samples : callable
            The value of a name in an iteration that was interpreted.
        room : callable
            Memory for the values that an array has in so many iterations.
        """
        given = [same[name] for name in self.once]
        histories = [streams[name] for name in self.streams]
        function = self._function(run, given, histories, now, samples)
        once = [make(value) for make, value in zip(function.once, given, strict=True)]
        if n >= MANY:
            once = [aligned(value) if name in self.matrices else value for name, value in zip(self.once, once, strict=True)]
        carried = [make(now[name]) for make, name in zip(function.carried, self.rounds, strict=True)]
        blocks = [room(names[0], kind, n) if names else new_rows(kind, n) for names, kind in function.rows]
        done, going, condition, carried, lists = function.call(
            n,
            run,
            (*once, *(given if self.calls.exact else map(dimensionless, given))),
            [h.rows() for h in histories],
            carried,
            [list(block) for block in blocks],
        )
        found = {name: History.of_rows(rows, kind) for (name, kind), rows in zip(function.recorded, lists, strict=True)}
        for (names, _), block in zip(function.rows, blocks, strict=True):
            found |= dict.fromkeys(names, History.of_array(block[:done]))
        finals = [out_of(kind, value) for kind, value in zip(function.kinds, carried, strict=True)]
        ended = dict(zip(self.rounds, finals, strict=True))
        return Stretch(done, going, found, ended, out_of(function.condition, condition) if self.condition else None)

    def forget(self) -> None:
        """Emit anew next time: the values were not what the function was made for."""
        self._functions.clear()

    def _function(
        self, run: Run, given: Sequence[Any], histories: Sequence[History], now: Mapping[str, Any], samples: Callable[[str], Any]
    ) -> Function:
        once = tuple(map(self.calls.kind, given))
        streams = tuple(history.kind for history in histories)
        starts = tuple(self.calls.kind(now[name]) for name in self.rounds)
        key = once, streams, starts, run.options.max_iterations is None
        if key not in self._functions:
            if len(self._functions) > 16:
                self._functions.clear()
            inputs = dict(zip(self.once, given, strict=True)) | {name: now[name] for name in self.rounds}
            kinds = dict(zip((*self.once, *self.streams, *self.rounds), (*once, *streams, *starts), strict=True))
            if not self.was_interpreted or any(self.calls.kind(samples(name)) != kind for name, kind in kinds.items()):
                inputs |= {name: history.first() for name, history in zip(self.streams, histories, strict=True)}
                samples = self._tried(inputs, run).__getitem__
            self._functions[key] = written(self, run, once, streams, starts, samples)
            log.info("compiled %d stepped nodes of %s", len(self.part.nodes), self.body.name)
        self.latest = self._functions[key]
        return self.latest

    def _tried(self, inputs: Mapping[str, Any], run: Run) -> dict[str, Any]:
        """The values of the next iteration, computed node by node, as those of the one interpreted last are of other kinds."""
        values, saved = {**self.body.constants, **inputs}, run.stream.save()
        try:
            for node in self.part.nodes:
                bound = self.calls(node)[0]
                given = [values[name] if name else None for name in (*node.inputs, *node.captures)]
                result = bound.call(run, *given) if bound.needs_run else bound.call(*given)
                results = result if type(result) is tuple else (result,)
                values |= {name: value for name, value in zip(node.outputs, results, strict=False) if name}
        finally:
            run.stream.restore(saved)
        return values


def written(
    stepped: SteppedPart,
    run: Run,
    once: Sequence[Kind],
    streams: Sequence[Kind],
    starts: Sequence[Kind],
    samples: Callable[[str], Any],
) -> Function:
    """A function whose values that go round are at the end of an iteration of the kinds that they had at its beginning.

    What comes out of an iteration of another kind than what went in has a more general one from the start in the next attempt,
    and so may what is fed by it: this ends, as a kind can become more general only twice.
    """
    while True:
        writing = _Writing(stepped, run, once, streams, starts, samples)
        function = writing.function()
        ends = [common_kind(kind, end) for kind, end in zip(writing.round_kinds, writing.ends, strict=True)]
        if ends == writing.round_kinds:
            return function
        starts = ends


class _Writing:
    """One function being written."""

    def __init__(
        self,
        stepped: SteppedPart,
        run: Run,
        once: Sequence[Kind],
        streams: Sequence[Kind],
        starts: Sequence[Kind],
        samples: Callable[[str], Any],
    ) -> None:
        self.stepped, self.run = stepped, run
        part = stepped.part
        names = {name for node in part.nodes for name in (*node.reads, *node.outputs) if name}
        self.samples = {name: samples(name) for name in names | set(stepped.rounds)}
        self.once_kinds, self.stream_kinds = once, streams
        kind_of = stepped.calls.kind
        after = [kind_of(samples(output)) for output in stepped.rounds.values()]
        self.round_kinds = [common_kind(start, end) for start, end in zip(starts, after, strict=True)]
        self.ends: list[Kind] = []
        self.source = Source(depth=2)
        kinds = {name: kind_of(self.samples[name]) for node in part.nodes for name in node.outputs if name}
        kinds |= dict(zip(stepped.rounds, self.round_kinds, strict=True))
        loose = any(kind.is_open for kind in (*self.round_kinds, *streams))
        self.buffers = buffers.Buffers() if loose else buffers.assign(part.nodes, stepped.rounds, stepped.recorded, kinds)
        self.kinds = kinds

    def function(self) -> Function:
        """Write the body, then what stands around it."""
        stepped, source = self.stepped, self.source
        scope = self._scope()
        emitter = Emitter(source, stepped.calls, self.buffers.targets, ControlWriter(self.run))
        emitter.fixed = set(stepped.constants)
        kept = {*stepped.recorded, *stepped.rounds.values(), stepped.condition}
        emitter.growing = stepped.rounds
        emitter.counters = counters(stepped.part.nodes, stepped.rounds, {*stepped.recorded, stepped.condition})
        variables = {name: scope[name].text for name in stepped.rounds}
        renames = renamed(stepped.part.nodes, stepped.rounds, variables, {*stepped.recorded, stepped.condition})
        emitter.nodes(stepped.part.nodes, scope, self.samples, kept, renames)
        used = {operand.text for operand in scope.values()}
        rows = {name: row for name, row in self.buffers.rows.items() if row in used}
        named = {row: tuple(name for name in stepped.recorded if scope[name].text == row) for row in rows.values()}
        lists = [name for name in stepped.recorded if not any(name in names for names in named.values())]
        keepers = [emitter.checked(scope[name]) for name in lists]
        for k, operand in enumerate(keepers):
            source.line(f"keep{k}({operand.text})")
        self._go_round(emitter, scope, used)
        self.prologue = emitter.prologue
        body, source.lines, source.depth = source.lines, [], 1
        self._open(used, rows, len(lists))
        source.lines += body
        rounds, kept_lists = (f"x{k}, " for k in range(len(stepped.rounds))), (f"l{k}, " for k in range(len(lists)))
        condition = self.condition if stepped.condition else "True"
        for text in emitter.epilogue:
            source.line(text)
        source.line(f"return done, going, {condition}, ({''.join(rounds)}), ({''.join(kept_lists)})")
        return Function(
            source.compiled(PARAMETERS),
            source,
            tuple(into(kind, stepped.calls.exact) for kind in self.once_kinds),
            tuple(into(kind, stepped.calls.exact) for kind in self.round_kinds),
            tuple(self.round_kinds),
            scope[stepped.condition].kind if stepped.condition else Kind(OTHER),
            tuple((name, operand.kind) for name, operand in zip(lists, keepers, strict=True)),
            tuple((named[row], self.kinds[name]) for name, row in rows.items()),
        )

    def _scope(self) -> Scope:
        stepped, scope = self.stepped, Scope()
        emitter = Emitter(self.source, stepped.calls, {}, lambda *_: False)
        for name in stepped.constants:
            scope[name] = constant(emitter, stepped.body.constants[name])
        for k, (name, kind) in enumerate(zip(stepped.once, self.once_kinds, strict=True)):
            boxed = f"w{k}" if kind.form == SCALAR or (kind.is_number and not kind.weak) else ""
            scope[name] = Operand(f"u{k}", kind, box=boxed, fixed=True)
        for k, (name, kind) in enumerate(zip(stepped.streams, self.stream_kinds, strict=True)):
            scope[name] = Operand(f"s{k}", kind)
        for k, (name, kind) in enumerate(zip(stepped.rounds, self.round_kinds, strict=True)):
            scope[name] = Operand(f"x{k}", kind)
        self._list_vectors(scope)
        return scope

    def _list_vectors(self, scope: Scope) -> None:
        """Vectors of numbers that some Gather reads: as lists, whose elements cost a tenth of an array's."""
        read = {node.inputs[0] for node in _all_nodes(self.stepped.part.nodes) if operator(node) == "Gather"}
        fixed = (*self.stepped.constants, *self.stepped.once)
        self.vectors = [
            name for name in fixed if name in read and scope[name].kind.form == ARRAY and _is_vector(scope[name].kind)
        ]
        for k, name in enumerate(self.vectors):
            old = scope[name]
            scope[name] = Operand(old.text, old.kind, listed=f"list{k}")

    def _open(self, used: Collection[str], rows: Mapping[str, str], lists: int) -> None:
        """What is done once: names for what is given, buffers, lists, and the line of the loop."""
        stepped, source = self.stepped, self.source
        count = len(stepped.once)
        if count:
            source.line(f"{''.join(f'u{k}, ' for k in range(count))}{''.join(f'w{k}, ' for k in range(count))}= once")
        for k, name in enumerate(self.vectors):
            source.line(f"list{k} = {self._vector(name)}.tolist()")
        if stepped.rounds:
            source.line(f"{''.join(f'x{k}, ' for k in range(len(stepped.rounds)))}= carried")
        for name in sorted({*used} & {*self.buffers.over.values()}):
            source.line(f"{name} = {name}.copy()")
        for k in range(lists):
            source.line(f"l{k} = []; keep{k} = l{k}.append")
        shared = {*self.buffers.over.values(), *self.buffers.turns.values(), *self.buffers.rows.values()}
        local = {buffer: name for name, buffer in self.buffers.local.items() if buffer not in shared}
        for buffer, name in {**local, **{buffer: name for name, buffer in self.buffers.turns.items()}}.items():
            if buffer in used:
                kind = self.kinds[name]
                source.names["empty"] = np.empty
                made = f"empty({kind.shape!r}, {source.given('d_', kind.dtype)})"
                source.line(f"{buffer} = {made}" + (f"; other_{buffer} = {made}" if name in self.buffers.turns else ""))
        for name, made in self.prologue.items():
            source.line(f"{name} = {made}")
        source.line("going = True; done = n")
        iterated = [f"s{k}" for k in range(len(stepped.streams))] + list(rows.values())
        if stepped.condition and iterated:
            source.line(f"for done, {', '.join(iterated)} in zip(range(1, n + 1), *streams, *rows):")
        elif stepped.condition:
            source.line("for done in range(1, n + 1):")
        elif iterated:
            source.line(f"for {', '.join(iterated)}{',' * (len(iterated) == 1)} in zip(*streams, *rows):")
        else:
            source.line("for _ in range(n):")

    def _vector(self, name: str) -> str:
        if name in self.stepped.constants:
            return self.source.given("c", self.stepped.body.constants[name])
        return f"u{self.stepped.once.index(name)}"

    def _condition(self, emitter: Emitter, scope: Scope) -> str:
        """The condition as a name that stays what it is when values go round, and the text of its truth."""
        operand = scope[self.stepped.condition]
        self.condition = operand.text
        if operand.text in (f"x{k}" for k in range(len(self.stepped.rounds))):
            self.condition = self.source.fresh("v")
            self.source.line(f"{self.condition} = {operand.text}")
        if operand.kind.form == "bool":
            return self.condition
        return f"{self.source.given('truth', truth)}({self.condition}, 'the condition')"

    def _go_round(self, emitter: Emitter, scope: Scope, used: Collection[str]) -> None:
        """The end of an iteration: values go round, buffers take turns, the condition is looked at."""
        stepped, source = self.stepped, self.source
        condition = self._condition(emitter, scope) if stepped.condition else ""
        if stepped.rounds:
            self.ends = [scope[output].kind for output in stepped.rounds.values()]
            kinds = zip(stepped.rounds.values(), self.round_kinds, strict=True)
            ends = {f"x{k}": _fitted(emitter, scope[output], kind) for k, (output, kind) in enumerate(kinds)}
            source.assign({name: end for name, end in ends.items() if name != end})
        for buffer in self.buffers.turns.values():
            if buffer in used:
                source.line(f"{buffer}, other_{buffer} = other_{buffer}, {buffer}")
        if condition:
            source.line(f"if not {condition}:")
            source.line("    going = False; break")
        elif not source.lines:
            source.line("pass")


def aligned(value: Any) -> Any:
    """A large matrix that begins where a line of the cache does: a product with a vector then takes a seventh less."""
    is_plain = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.flags.c_contiguous
    if not is_plain or value.nbytes < LARGE or value.ctypes.data % LINE == 0:
        return value
    memory = np.empty(value.nbytes + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    copy = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


def new_rows(kind: Kind, count: int) -> np.ndarray:
    """Memory for a number of arrays of one kind."""
    return np.empty((count, *(kind.shape or ())), kind.dtype)


def dimensionless(value: Any) -> Any:
    """A number of numpy as an array without dimensions, which a ufunc takes in half the time."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _fitted(emitter: Emitter, operand: Operand, kind: Kind) -> str:
    """The text of a value that goes round, in the form in which it was at the beginning of the iteration."""
    return emitter.boxed(operand) if kind.form == OTHER else emitter.checked(operand).text


def _is_vector(kind: Kind) -> bool:
    return kind.shape is not None and len(kind.shape) == 1 and kind_of_value(np.empty((), kind.dtype)).is_number


def _all_nodes(nodes: Sequence[Node]) -> Any:
    for node in nodes:
        yield node
        for _, body in node.bodies:
            yield from _all_nodes(body.nodes)
