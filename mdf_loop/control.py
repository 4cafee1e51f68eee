"""Loop, Scan and If as operators: found by name like any other, so that they nest.

Each bind function reads a node once: it makes the record, compiles the bodies, and returns the function
that runs the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.counts import LARGEST
from mdf_loop.errors import ArgumentError, KindError, MalformedBody, UnsupportedOp, in_words
from mdf_loop.execute.interpret import Arguments, InterpretedBody, truth
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.program import describe_value
from mdf_loop.ir import Body, Carried, Collected, Loop, Node, Scanned
from mdf_loop.ops.registry import Kernel, loop_of, register, say
from mdf_loop.ops.rows import Bound, LoopInputs
from mdf_loop.options import Run
from mdf_loop.types.elements import kind_of

SCAN_ATTRIBUTES = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")
"""Attributes of a Scan that say how its values are cut up and put together, from opset 9 on."""


def loop_record(body: Body, n_carried: int, name: str = "Loop") -> Loop:
    """The record of an ONNX Loop: inputs (iteration number, condition, carried), outputs (condition, carried, collected).

    Raises
    ------
    ArgumentError
        The body's signature does not fit the number of carried values; the message shows both.
    """
    if len(body.inputs) != 2 + n_carried or len(body.outputs) < 1 + n_carried:
        raise ArgumentError(
            f"{name}: {_counted(n_carried, 'carried value')} given, so the body must have {2 + n_carried} inputs "
            "(iteration number, condition, carried values) and at least "
            f"{_counted(1 + n_carried, 'output')} (condition, carried values); "
            f"body {body.name!r} has inputs ({', '.join(body.inputs)}) and outputs ({', '.join(body.outputs)})"
            f"{_meant(body, n_carried)}"
        )
    return Loop(
        body,
        carried=tuple(map(Carried, body.inputs[2:], body.outputs[1 : 1 + n_carried])),
        collected=tuple(map(Collected, body.outputs[1 + n_carried :])),
        index=body.inputs[0],
        condition=body.inputs[1],
        keep_going=body.outputs[0],
        name=name,
    )


def trip_count(m: Any) -> int | None:
    """M as a Python number; None where it was omitted.

    Raises
    ------
    KindError
        It is not one integer.
    ArgumentError
        No int64 holds it.
    """
    if m is None:
        return None
    if type(m) is int:
        return _countable(m)
    array = np.asarray(m)
    if kind_of(array.dtype) != "integer" or array.shape not in ((), (1,)):
        raise KindError(
            f"the trip count M must be one integer, a scalar or of shape [1]; got {describe_value(array)}{_excerpt(array)}"
        )
    return _countable(int(array.item()))


def _countable(count: int) -> int:
    if not -LARGEST - 1 <= count <= LARGEST:
        raise ArgumentError(f"the trip count M must fit into int64, which ends at {LARGEST}; got {in_words(count)}")
    return count


def condition(cond: Any) -> bool | None:
    """The condition before the first iteration; None where it was omitted.

    Raises
    ------
    KindError
        It is not one boolean.
    """
    if cond is None or type(cond) is bool:
        return cond
    array = np.asarray(cond)
    if array.shape not in ((), (1,)):
        raise KindError(f"the condition cond must be one boolean, a scalar or of shape [1]; got {describe_value(array)}")
    return truth(cond, "the condition cond")


def _excerpt(array: np.ndarray) -> str:
    return f" ({in_words(array.item())})" if array.size == 1 else ""


def refuse_endless(count: int | None, go: bool | None, run: Run, name: str) -> None:
    """A loop with neither M nor cond never ends by itself, whatever its body says.

    Raises
    ------
    ArgumentError
        And no option makes it end.
    """
    unlimited = count is None and go is None
    if unlimited and run.options.max_iterations is None and not run.options.obey_body_condition:
        raise ArgumentError(
            f"{name}: both M and cond are omitted, so this loop would never end. Give M or cond, or set "
            "options(max_iterations=...) to stop it there, or options(obey_body_condition=True) to let the body end it"
        )


class LoopNode:
    """A loop as a node, ready to run: what the node is given becomes the arguments of the loop here, and nowhere else.

    ``places`` says where among the inputs everything stands; kinds of loops differ in :meth:`limits` and :meth:`finish`.
    """

    def __init__(self, node: Node, places: LoopInputs, execute: NumpyLoop | None = None) -> None:
        self.execute = execute or NumpyLoop(places.loop)
        self.places = replace(places, worth=self.execute.worth_stepping)
        self.record, self.n_inputs = places.loop, len(node.inputs)
        self.loops = (self.execute,)

    def __call__(self, run: Run, *values: Any) -> tuple[Any, ...]:
        """Run the loop; returns carried, last and collected values."""
        given, captured, places = values[: self.n_inputs], values[self.n_inputs :], self.places
        count = None if places.count is None else given[places.count]
        go = None if places.condition is None else given[places.condition]
        scanned, invariant = given[places.scanned], given[places.invariant]
        limit, goes = self.limits(count, go, scanned, invariant, run)
        arguments = Arguments(limit, goes, given[places.carried], scanned, invariant, captured)
        return self.finish(self.execute(arguments, run), count, goes, scanned)

    def limits(
        self, count: Any, go: Any, scanned: Sequence[Any], invariant: Sequence[Any], run: Run
    ) -> tuple[int | None, bool | None]:
        """The most iterations there may be, and the condition, of a node that was given these; or what is wrong with them."""
        if scanned:
            return scan_length(self.record, scanned), True
        limit, goes = trip_count(count), condition(go)
        refuse_endless(limit, goes, run, self.record.name)
        return limit, goes

    def finish(self, results: tuple[Any, ...], count: Any, goes: bool | None, scanned: Sequence[Any]) -> tuple[Any, ...]:
        """What the node gives, out of what the loop gave."""
        return results


def _bind_loop_node(node: Node) -> Bound:
    places = loop_of(node)
    assert places is not None
    call = LoopNode(node, places)
    return Bound(call, needs_run=True, loop=call.places)


def _loop_of_loop(node: Node) -> LoopInputs:
    """Loop: trip count, condition, carried values."""
    (body,) = _bodies(node, "body")
    n_carried = max(len(node.inputs) - 2, 0)
    record = loop_record(body, n_carried, _title(node))
    if len(node.outputs) > n_carried + len(record.collected):
        raise MalformedBody(f"{_title(node)} names {len(node.outputs)} outputs, its body gives {len(body.outputs) - 1}")
    n_inputs = len(node.inputs)
    count, go = 0 if n_inputs else None, 1 if n_inputs > 1 else None
    return LoopInputs(record, count, go, carried=slice(2, n_inputs), is_obeyed=False)


def scan_record(body: Body, n_scanned: int, attrs: dict[str, Any], name: str = "Scan") -> Loop:
    """The record of an ONNX Scan (9 on): inputs (carried, scanned), outputs (carried, collected).

    Raises
    ------
    ArgumentError
        The body has fewer inputs than there are scanned values, or fewer outputs than carried ones, or
        a list of axes or directions has the wrong length.
    """
    if not isinstance(n_scanned, int | np.integer) or isinstance(n_scanned, bool):
        raise KindError(f"{name}: num_scan_inputs must be a whole number; got {n_scanned!r}")
    n_carried = len(body.inputs) - n_scanned
    n_collected = len(body.outputs) - n_carried
    if n_carried < 0 or n_collected < 0 or n_scanned < 1:
        raise ArgumentError(
            f"{name}: with num_scan_inputs={n_scanned}, a body with inputs ({', '.join(body.inputs)}) and outputs "
            f"({', '.join(body.outputs)}) has {n_carried} carried values and {n_collected} collected ones"
        )
    in_axes = _per_value(attrs, "scan_input_axes", n_scanned, name)
    in_reverse = _per_value(attrs, "scan_input_directions", n_scanned, name)
    out_axes = _per_value(attrs, "scan_output_axes", n_collected, name)
    out_reverse = _per_value(attrs, "scan_output_directions", n_collected, name)
    return Loop(
        body,
        carried=tuple(map(Carried, body.inputs[:n_carried], body.outputs[:n_carried])),
        scanned=tuple(
            Scanned(i, a, reverse=bool(r)) for i, a, r in zip(body.inputs[n_carried:], in_axes, in_reverse, strict=True)
        ),
        collected=tuple(
            Collected(o, a, reverse=bool(r)) for o, a, r in zip(body.outputs[n_carried:], out_axes, out_reverse, strict=True)
        ),
        name=name,
    )


def _per_value(attrs: dict[str, Any], key: str, count: int, name: str) -> Sequence[int]:
    values = attrs.get(key)
    values = (0,) * count if values is None or values == () else values
    is_list = isinstance(values, tuple | list)
    if not is_list or not all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values):
        raise KindError(f"{name}: {key} must be whole numbers, one for each value; got {values!r}")
    if len(values) != count:
        raise ArgumentError(f"{name}: {key} has {len(values)} entries for {_counted(count, 'value')}")
    if key.endswith("directions") and not set(values) <= {0, 1}:
        raise ArgumentError(f"{name}: {key} must be 0 (forward) or 1 (reverse); got {list(values)}")
    return tuple(values)


def scan_length(record: Loop, scanned: Sequence[Any]) -> int:
    """The number of iterations of a Scan: the length all scanned inputs share.

    Raises
    ------
    ArgumentError
        They do not share one, or an input has no such axis.
    """
    lengths = {}
    for part, value in zip(record.scanned, scanned, strict=True):
        shape = np.shape(value)
        if not -len(shape) <= part.axis < len(shape):
            raise ArgumentError(
                f"{record.name}: scanned input {part.input!r} is {describe_value(value)}, it has no axis {in_words(part.axis)}"
            )
        lengths[part.input] = shape[part.axis]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ArgumentError(f"{record.name}: all scanned inputs must have the same length along their axes; {shown}")
    return next(iter(lengths.values()))


def _loop_of_scan(node: Node) -> LoopInputs:
    """Scan: carried values, then scanned ones."""
    record = _scan_of(node)
    n_carried, n_inputs = len(record.carried), len(node.inputs)
    return LoopInputs(record, carried=slice(0, n_carried), scanned=slice(n_carried, n_inputs))


def _loop_of_scan_8(node: Node) -> LoopInputs:
    """Scan of opset 8: an optional first input of sequence lengths, and a batch axis in front of everything."""
    record = _scan_of(node, skip=1, renamed={"scan_input_directions": node.attrs.get("directions")})
    first = 1 + len(record.carried)
    return LoopInputs(record, 0, carried=slice(1, first), scanned=slice(first, len(node.inputs)), is_batched=True)


def _scan_of(node: Node, skip: int = 0, renamed: dict[str, Any] | None = None) -> Loop:
    """The record of a Scan node, whose first ``skip`` inputs are neither carried nor scanned."""
    known = ("directions",) if node.opset < 9 else SCAN_ATTRIBUTES
    (body,) = _bodies(node, "body", "num_scan_inputs", *known)
    if "num_scan_inputs" not in node.attrs:
        raise MalformedBody(f"{_title(node)} has no attribute num_scan_inputs")
    attrs = {**node.attrs, **(renamed or {})}
    record = scan_record(body, node.attrs["num_scan_inputs"], attrs, _title(node))
    if len(node.inputs) - skip != len(body.inputs):
        raise ArgumentError(f"{_title(node)} has {len(node.inputs) - skip} inputs, its body takes {len(body.inputs)}")
    if len(node.outputs) > len(body.outputs):
        raise MalformedBody(f"{_title(node)} names {len(node.outputs)} outputs, its body gives {len(body.outputs)}")
    return record


def _bind_scan_8(node: Node) -> Bound:
    """Scan of opset 8: a loop for each row of the batch, of its own length."""
    places = _loop_of_scan_8(node)
    record, n_carried, n_inputs = places.loop, len(places.loop.carried), len(node.inputs)
    execute = NumpyLoop(record)

    def call(run: Run, lengths: Any, *values: Any) -> tuple[Any, ...]:
        carried, scanned, captured = values[:n_carried], values[n_carried : n_inputs - 1], values[n_inputs - 1 :]
        rows = []
        for b in range(len(scanned[0])):
            sequences = [s[b] for s in scanned]
            longest = scan_length(record, sequences)
            count = longest if lengths is None else int(lengths[b])
            if not 0 <= count <= longest:
                raise ArgumentError(f"{record.name}: sequence_lens[{b}] is {count}, the sequences have {longest} elements")
            sequences = [s[:count] for s in sequences]
            results = execute(Arguments(count, True, [c[b] for c in carried], sequences, captured=captured), run)
            rows.append([*results[:n_carried], *(_fill_up(r, longest) for r in results[n_carried:])])
        return tuple(np.stack(column) for column in zip(*rows, strict=True))

    return Bound(call, needs_run=True, loop=places)


def _fill_up(rows: np.ndarray, length: int) -> np.ndarray:
    """Rows of a sequence that ended early, followed by zeros."""
    padding = np.zeros((length - rows.shape[0], *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, padding]) if len(padding) else rows


def _bind_if(node: Node) -> Bound:
    if len(node.inputs) != 1 or not node.inputs[0]:
        given = ", ".join(name or "nothing" for name in node.inputs) or "none"
        raise MalformedBody(f"{_title(node)} has one input, the condition cond, which decides the branch; got {given}")
    then_body, else_body = _bodies(node, "then_branch", "else_branch")
    branches = []
    for key, body in (("then_branch", then_body), ("else_branch", else_body)):
        if body.inputs:
            raise MalformedBody(f"{_title(node)}: {key} has inputs ({', '.join(body.inputs)}); a branch only captures")
        if len(body.outputs) < len(node.outputs):
            raise MalformedBody(
                f"{_title(node)}: {key} has {_counted(len(body.outputs), 'output')}, the node names {len(node.outputs)}"
            )
        places = [node.captures.index(name) for name in body.captures]
        branches.append((InterpretedBody(body), places))
    (then_run, then_places), (else_run, else_places) = branches

    def call(run: Run, cond: Any, *captured: Any) -> tuple[Any, ...]:
        if truth(cond, f"the condition of {_title(node)}"):
            return then_run((), [captured[k] for k in then_places], run)
        return else_run((), [captured[k] for k in else_places], run)

    return Bound(call, needs_run=True, branches=(then_body, else_body))


def _bind_sequence_map(node: Node) -> Bound:
    """SequenceMap: the body once for each element of the first sequence; outputs are sequences."""
    (body,) = _bodies(node, "body")
    n_inputs = len(node.inputs)
    if not n_inputs or not node.inputs[0] or len(body.inputs) != n_inputs or len(node.outputs) > len(body.outputs):
        raise MalformedBody(
            f"{_title(node)} has {_counted(n_inputs, 'input')} and names {_counted(len(node.outputs), 'output')}; its body "
            f"takes {len(body.inputs)} and gives {len(body.outputs)}, and the first input must be there"
        )
    execute = InterpretedBody(body)

    def call(run: Run, *values: Any) -> tuple[Any, ...]:
        inputs, captured = values[:n_inputs], values[n_inputs:]
        if not isinstance(inputs[0], list):
            raise KindError(f"the first input of {_title(node)} must be a sequence; got {describe_value(inputs[0])}")
        for position, value in enumerate(inputs):
            if isinstance(value, list) and len(value) != len(inputs[0]):
                raise ArgumentError(f"sequence {position} has {len(value)} elements, the first has {len(inputs[0])}")
        columns: list[list[Any]] = [[] for _ in body.outputs]
        for k in range(len(inputs[0])):
            for column, value in zip(
                columns, execute([v[k] if isinstance(v, list) else v for v in inputs], captured, run), strict=True
            ):
                column.append(value)
        return tuple(columns)

    return Bound(call, needs_run=True)


def _bodies(node: Node, *keys: str) -> list[Body]:
    """The sub-graphs of a node; every attribute it has must be among ``keys``."""
    if unknown := sorted(set(node.attrs) - set(keys)):
        raise UnsupportedOp(f"{_title(node)} has no attribute {', '.join(unknown)}")
    found = [node.attrs[key] for key in keys if isinstance(node.attrs.get(key), Body)]
    wanted = [key for key in keys if key in ("body", "then_branch", "else_branch")]
    if len(found) != len(wanted):
        raise MalformedBody(f"{_title(node)} needs a graph for {' and '.join(wanted)}")
    return found


def _meant(body: Body, n_carried: int) -> str:
    """What was probably forgotten where a body and the carried values do not go together."""
    more_in, more_out = len(body.inputs) - 2 - n_carried, len(body.outputs) - 1 - n_carried
    if more_in == 0:
        return (
            f"; if the condition is missing among the outputs: ({', '.join((body.inputs[1], *body.outputs))}) passes it through"
        )
    declared = body.type_of(body.inputs[1]).dtype if len(body.inputs) > 1 else None
    is_missing = len(body.inputs) < 2 or (declared is not None and kind_of(declared) != "bool")
    if more_in == -1 and more_out <= 0 and is_missing:
        return "; the second input and the first output of a body are the condition, a bool: it seems to be missing"
    if more_in == 1 and n_carried >= 0:
        return "; if the condition was forgotten in the call: loop(M, cond, *carried), such as loop(10, True, x)"
    return ""


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _title(node: Node) -> str:
    return f"{node.op} {node.name!r}" if node.name else node.op


def _not_called(*_: Any) -> Any:
    raise AssertionError("control flow runs through its bind function")


for _op, _since, _bind in (
    ("Loop", 1, _bind_loop_node),
    ("Scan", 8, _bind_scan_8),
    ("Scan", 9, _bind_loop_node),
    ("If", 1, _bind_if),
    ("SequenceMap", 17, _bind_sequence_map),
):
    register(Kernel(_op, _since, _not_called, pure=False, bind=_bind, built_in=True))
say("Loop", loop=_loop_of_loop)
say("Scan", until=9, loop=_loop_of_scan_8)
say("Scan", since=9, loop=_loop_of_scan)
say("If", chooses=True)
