"""An If or a Loop inside a stepped part, written out: Python's ``if``, and a ``for`` within the ``for``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from mdf_loop.analysis.invariants import sources
from mdf_loop.analysis.purity import draws
from mdf_loop.execute.emit import CannotEmit, Emitter, Scope
from mdf_loop.execute.kinds import ARRAY, BOOL, INT, OTHER, SCALAR, Changed, Kind, common_kind
from mdf_loop.execute.rounds import renamed
from mdf_loop.execute.sampling import NoSample, loop_inputs, sample_body
from mdf_loop.execute.scalars import Operand
from mdf_loop.execute.source import literal
from mdf_loop.ir import Body, Node
from mdf_loop.options import Deadline, Run


@dataclass
class ControlWriter:
    """Writes control flow for one session's options; ``run`` is for trying bodies out."""

    run: Run

    def __call__(self, emitter: Emitter, node: Node, scope: Scope, samples: Mapping[str, Any]) -> bool:
        """Write a node with bodies; False, and nothing is written, if it has no form here."""
        if draws(node):
            return False
        source = emitter.source
        lines, depth = len(source.lines), source.depth
        try:
            (self._if if node.op == "If" else self._loop)(emitter, node, scope, samples)
        except (CannotEmit, NoSample):
            del source.lines[lines:]
            source.depth = depth
            return False
        return True

    # If

    def _if(self, emitter: Emitter, node: Node, scope: Scope, samples: Mapping[str, Any]) -> None:
        condition = scope[node.inputs[0]]
        if condition.kind.form != BOOL:
            raise CannotEmit
        source, wanted = emitter.source, [k for k, name in enumerate(node.outputs) if name]
        names = [source.fresh("v") for _ in wanted]
        ends = []
        for word, key in ((f"if {condition.text}:", "then_branch"), ("else:", "else_branch")):
            body: Body = node.attrs[key]
            source.line(word)
            source.depth += 1
            inner = self._scope(emitter, body, scope)
            values = sample_body(body, samples, self.run)
            with emitter.inside(body):
                emitter.nodes(body.nodes, inner, {**samples, **values}, body.outputs)
            ends.append([inner[body.outputs[k]] for k in wanted])
            for name, end in zip(names, ends[-1], strict=True):
                source.line(f"{name} = {end.text}")
            if not wanted:
                source.line("pass")
            source.depth -= 1
        for k, name, one, other in zip(wanted, names, *ends, strict=True):
            scope[node.outputs[k]] = _joined(name, one, other)

    def _scope(self, emitter: Emitter, body: Body, outer: Scope) -> Scope:
        """What a body sees before its first node: its captures and its constants."""
        inner = {name: outer[name] for name in body.captures}
        for name, value in body.constants.items():
            inner[name] = constant(emitter, value)
        return inner

    # Loop

    def _loop(self, emitter: Emitter, node: Node, scope: Scope, samples: Mapping[str, Any]) -> None:
        body: Body = node.attrs["body"]
        self._refuse(node, body, scope)
        source, n_carried = emitter.source, len(node.inputs) - 2
        values = sample_body(body, loop_inputs(node, samples), self.run)
        starts = [scope[name] for name in node.inputs[2:]]
        kinds = [
            _stable(start.kind, emitter.calls.kind(values[out])) for start, out in zip(starts, body.outputs[1:], strict=False)
        ]
        inner = self._scope(emitter, body, scope)
        carried = [source.fresh("z") for _ in starts]
        for name, kind, start, inside in zip(carried, kinds, starts, body.inputs[2:], strict=True):
            source.line(f"{name} = {emitter.checked(start).text}")
            inner[inside] = Operand(name, kind)
        rows = self._rows(emitter, node, body, n_carried)
        decides = self._decides(body)
        index, go = source.fresh("i"), source.fresh("go")
        inner[body.inputs[0]] = Operand(index, Kind(INT, np.dtype(np.int64)))
        inner[body.inputs[1]] = Operand(go if decides else "True", Kind(BOOL, np.dtype(np.bool_)))
        if decides:
            source.line(f"{go} = True")
        first, rest = _settled(body)
        with emitter.inside(body):
            emitter.nodes(first, inner, {**samples, **values}, {name for node in first for name in node.outputs})
        source.line(f"for {index} in {self._range(emitter, node, scope)}:")
        source.depth += 1
        start_of_body = len(source.lines)
        rounds = dict(zip(body.inputs[2:], body.outputs[1:], strict=False))
        variables = dict(zip(body.inputs[2:], carried, strict=True))
        others = {*body.outputs[:1], *body.outputs[1 + n_carried :]}
        renames = renamed(rest, rounds, variables, others)
        with emitter.inside(body):
            emitter.nodes(rest, inner, {**samples, **values}, body.outputs, renames)
        for name, out in zip(rows, body.outputs[1 + n_carried :], strict=False):
            if name:
                source.line(f"keep_{name}({emitter.checked(inner[out]).text})")
        ends = [emitter.checked(inner[out]) for out in body.outputs[1 : 1 + n_carried]]
        if any(_stable(kind, end.kind) != kind for kind, end in zip(kinds, ends, strict=True)):
            raise CannotEmit
        ends_by_name = {name: end.text for name, end in zip(carried, ends, strict=True) if name != end.text}
        source.assign({**ends_by_name, **({go: inner[body.outputs[0]].text} if decides else {})})
        if decides:
            source.line(f"if not {go}: break")
        if len(source.lines) == start_of_body:
            source.line("pass")
        source.depth -= 1
        self._results(emitter, node, body, scope, inner, list(zip(carried, kinds, strict=True)), rows)

    def _refuse(self, node: Node, body: Body, scope: Scope) -> None:
        """Leave what is rare to the interpreter."""
        go = node.inputs[1] if len(node.inputs) > 1 else ""
        limit = scope[node.inputs[0]] if node.inputs and node.inputs[0] else None
        if len(node.inputs) < 2 or body.state or self.run.options.max_iterations is not None:
            raise CannotEmit
        if any(body.type_of(name).shape for name in body.inputs[:2]) or not all(node.inputs[2:]):
            raise CannotEmit
        if (limit is not None and limit.kind.form != INT) or (go and scope[go].kind.form != BOOL):
            raise CannotEmit
        if not go and (self._decides(body) or limit is None):
            raise CannotEmit
        if limit is None and not self._decides(body):
            raise CannotEmit

    @staticmethod
    def _decides(body: Body) -> bool:
        """Whether the body's condition is more than the one that came in, or a constant true."""
        out = sources(body).get(body.outputs[0], body.outputs[0])
        return out != body.inputs[1] and not (out in body.constants and bool(np.all(body.constants[out])))

    @staticmethod
    def _range(emitter: Emitter, node: Node, scope: Scope) -> str:
        if node.inputs[0]:
            text = f"range({emitter.checked(scope[node.inputs[0]]).text})"
        else:
            text = f"{emitter.source.given('count', count)}()"
        emitter.prologue["deadline"] = "run.deadline"
        text = f"({text} if deadline is None else {emitter.source.given('in_time', in_time)}({text}, deadline))"
        go = scope[node.inputs[1]] if node.inputs[1] else None
        return text if go is None or go.number is True else f"({text} if {go.text} else ())"

    @staticmethod
    def _rows(emitter: Emitter, node: Node, body: Body, n_carried: int) -> list[str]:
        """A list for each collected output that somebody wants."""
        names = []
        for k in range(n_carried, len(body.outputs) - 1):
            wanted = k < len(node.outputs) and node.outputs[k]
            names.append(emitter.source.fresh("q") if wanted else "")
            if wanted:
                emitter.source.line(f"{names[-1]} = []; keep_{names[-1]} = {names[-1]}.append")
        return names

    @staticmethod
    def _results(
        emitter: Emitter,
        node: Node,
        body: Body,
        scope: Scope,
        inner: Scope,
        carried: Sequence[tuple[str, Kind]],
        rows: Sequence[str],
    ) -> None:
        """The outputs of a Loop: carried values as they are, collected ones put together."""
        for output, (name, kind) in zip(node.outputs, carried, strict=False):
            if output:
                scope[output] = Operand(name, kind)
        for k, name in enumerate(rows, len(carried)):
            if name:
                kind = inner[body.outputs[1 + k]].kind
                if kind.weak or kind.dtype is None or kind.shape is None or kind.form == OTHER:
                    raise CannotEmit
                out = emitter.source.fresh("v")
                put = emitter.source.given("together_", _together(kind))
                emitter.source.line(f"{out} = {put}({name})")
                scope[node.outputs[k]] = Operand(out, Kind(ARRAY, kind.dtype, None))


def in_time(numbers: Iterable[int], deadline: Deadline) -> Iterator[int]:
    """Iterations of an inner loop as long as there is time: a single outer one may be long."""
    for number in numbers:
        deadline.check()
        yield number


def _settled(body: Body) -> tuple[list[Node], list[Node]]:
    """Nodes of an inner loop that need nothing of it, which run before it, and the others."""
    same, first, rest = {*body.captures, *body.constants}, list[Node](), list[Node]()
    for node in body.nodes:
        if same.issuperset(node.reads) and not any(True for _ in node.bodies):
            same.update(node.outputs)
            first.append(node)
        else:
            rest.append(node)
    return first, rest


def _together(kind: Kind) -> Any:
    """A function that stacks rows of one kind."""

    def together(rows: list[Any]) -> np.ndarray:
        if not rows:
            raise Changed  # what the text says of no iteration at all is the interpreter's to find out
        if kind.shape == ():
            return np.array(rows, kind.dtype)
        if any(row.shape != kind.shape or row.dtype != kind.dtype for row in rows):
            raise Changed
        return np.stack(rows)

    return together


def _stable(one: Kind, other: Kind) -> Kind:
    kind = common_kind(one, other)
    if kind.form == OTHER and (one.form, other.form) != (OTHER, OTHER):
        raise CannotEmit
    return kind


def _joined(name: str, one: Operand, other: Operand) -> Operand:
    """What comes out of an If: of one kind, whichever branch ran."""
    return Operand(name, _stable(one.kind, other.kind), unchecked=one.unchecked or other.unchecked)


def constant(emitter: Emitter, value: Any) -> Operand:
    """A constant of a body: a number in the text where it is one, or else a name."""
    kind = emitter.calls.kind(value)
    array = value if emitter.calls.exact else np.asarray(value)
    if not kind.is_number:
        box = emitter.source.given("b", array) if kind.form == SCALAR else ""
        return Operand(emitter.source.given("c", value[()] if box else value), kind, box=box, fixed=True)
    number = value if kind.weak else value.item()
    text = literal(number) or emitter.source.given("c", number)
    box = "" if kind.weak else emitter.source.given("b", array)
    return Operand(text, kind, number, box=box, fixed=True)
