"""Bodies of MDF graphs in operators of ONNX alone: loops, branches, hidden values, and operators with their types."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.convert.expressions.operators import expression, initially, operator, tensor
from mdf_loop.convert.expressions.tracing import BOOL, INT64, Emitter, Traced
from mdf_loop.errors import UnsupportedOp, malformed
from mdf_loop.ir import Body, Carried, Loop, Node, ValueType
from mdf_loop.kernels import load_kernels
from mdf_loop.readers.expressions.values import DOMAIN

LEAST_OPSET = 18
"""Version of ONNX that the operators written here are of; a model may say a later one."""


def lower(body: Body, inputs: Mapping[str, tuple[Any, ValueType]]) -> Body:
    """A body in operators of ONNX alone.

    Parameters
    ----------
    body : Body
        As it was read; what it captures becomes inputs.
    inputs : mapping of str to (sample, ValueType)
        For each input a value that it might have, and what is declared of it.

    Raises
    ------
    UnsupportedOp
        ONNX cannot say something; names it.
    MalformedBody
        The body is broken.
    """
    load_kernels()
    with malformed("this graph cannot be written in operators of ONNX", (body.name,)):
        return _lower(body, inputs)


def _lower(body: Body, inputs: Mapping[str, tuple[Any, ValueType]]) -> Body:
    emitter = Emitter(max(LEAST_OPSET, _newest(body)), path=(body.name,))
    for name, (sample, kind) in inputs.items():
        emitter.values[emitter.fresh(name)] = Traced(name, sample)
        emitter.types[name] = kind
    for state in body.state:
        emitter.values[state.input] = Traced("", state.initial, is_known=True)
    outputs = trace(body, emitter)
    names = [emitter.call(tensor(emitter, value), name) for name, value in zip(body.outputs, outputs, strict=True)]
    written = emitter.body(body.name, tuple(inputs), names)
    types = {name: _type(value) for name, value in zip(written.outputs, outputs, strict=True)}
    return replace(written, types={**types, **emitter.types})


def _newest(body: Body) -> int:
    """The newest version of ONNX in a body and those in it."""
    versions = [node.opset for node in body.nodes if node.domain == ""]
    return max([*versions, *(_newest(inner) for node in body.nodes for _, inner in node.bodies)], default=0)


def _type(value: Traced) -> ValueType:
    if not value.is_tensor:
        elements = value.value if isinstance(value.value, list) else []
        return ValueType(kind="sequence", element=ValueType(np.asarray(elements[0]).dtype)) if elements else ValueType()
    return ValueType(value.dtype, (None,) * value.rank)


def trace(body: Body, emitter: Emitter) -> list[Traced]:
    """Write the nodes of a body, whose inputs and captures the emitter has; returns its outputs."""
    for name, constant in body.constants.items():
        emitter.values[name] = Traced("", constant, is_known=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for node in body.nodes:
            emitter.where, emitter.where_op = node.name or node.op, node.op
            for name, value in zip(node.outputs, _lowered(emitter, node), strict=False):
                if name:
                    emitter.values[name] = _named(emitter, value, name)
    return [emitter[name] for name in body.outputs]


def _named(emitter: Emitter, value: Traced, name: str) -> Traced:
    return replace(value, name=emitter.call(value.name, name)) if value.name else value


def _lowered(emitter: Emitter, node: Node) -> Sequence[Traced]:
    """The outputs of a node, after it was written."""
    inputs = [emitter[name] if name else None for name in node.inputs]
    if not all(body.typed for _, body in node.bodies) and node.domain == "":
        if node.loop is not None:
            return _lower_loop(emitter, node, node.loop, inputs)
        if node.op == "If":
            return _lower_if(emitter, node, inputs)
    if node.domain == DOMAIN and node.op == "initially":
        return [initially(emitter, *inputs)]
    if node.domain == DOMAIN:
        return expression(emitter, node, [value for value in inputs if value is not None])
    if node.domain.startswith("mdf") or node.domain == "python":
        reason = node.attrs.get("reason", f"{node.domain}::{node.op} has no ONNX operator")
        raise UnsupportedOp(f"{'/'.join((*emitter.path, node.name))}: {reason}")
    return operator(emitter, node, inputs)


def _truth(emitter: Emitter, value: Traced) -> str:
    """A condition: one boolean of rank 0."""
    name = emitter.typed(value, BOOL)
    return emitter.shaped(name, ()) if value.rank else name


def _lower_if(emitter: Emitter, node: Node, inputs: Sequence[Traced | None]) -> Sequence[Traced]:
    """Both branches, with results of one type each."""
    condition = inputs[0]
    assert condition is not None
    where, made = emitter.where, []
    for key in ("then_branch", "else_branch"):
        inner = Emitter(emitter.opset, emitter, (*emitter.path, node.name, key))
        for state in node.attrs[key].state:
            inner.values[state.input] = Traced("", state.initial, is_known=True)
        made.append((key, inner, trace(node.attrs[key], inner)))
    emitter.where = where
    common = [_common(then.value, other.value) for then, other in zip(made[0][2], made[1][2], strict=True)]
    branches = {}
    for key, inner, results in made:
        names = [
            inner.typed(value, dtype) if dtype is not None else tensor(inner, value)
            for value, dtype in zip(results, common, strict=True)
        ]
        branches[key] = inner.body(key, (), names)
    captures = tuple(dict.fromkeys(name for body in branches.values() for name in body.captures))
    outputs = tuple(emitter.fresh(name or "unused") for name in node.outputs)
    emitter.nodes.append(Node("If", (_truth(emitter, condition),), outputs, branches, node.name, emitter.opset, "", captures))
    taken = made[0][2] if np.all(condition.value) else made[1][2]
    return [Traced(name, _as(value.value, dtype)) for name, value, dtype in zip(outputs, taken, common, strict=False)]


def _common(left: Any, right: Any) -> np.dtype | None:
    if isinstance(left, list) or isinstance(right, list):
        return None
    return np.result_type(left, right)


def _as(value: Any, dtype: np.dtype | None) -> Any:
    """A sample with an element type; a Python number stays one."""
    if dtype is None:
        return value
    if type(value) in (bool, int, float, complex):
        kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtype.kind]
        return kind(value)
    return np.asarray(value).astype(dtype)


class _Round:
    """The values of a loop that go round: names of the body's inputs, samples, and what they start from."""

    def __init__(self, body: Body, inputs: Sequence[str], carried: Sequence[Traced]) -> None:
        self.names = [*inputs, *(state.input for state in body.state)]
        first = [0.0 if value.value is None else value.value for value in carried]
        self.n_carried = len(first)
        self.samples = [*first, *(0.0 if state.initial is None else state.initial for state in body.state)]
        self.is_late = [value.value is None for value in carried] + [state.initial is None for state in body.state]
        self.start = [*carried, *(Traced("", sample, is_known=True) for sample in self.samples[len(first) :])]

    def settle(self, outputs: Sequence[Traced], where: str, may_grow: bool) -> bool:
        """Take the types of what an iteration gives; whether they are those that were assumed.

        A value that starts as a number and goes on as an array does so in ONNX, too: what is written for arrays of its
        rank works for the number, or fails there as it does in Python.
        """
        is_settled = True
        for k, output in enumerate(outputs):
            sample = self.samples[k]
            if isinstance(sample, list) or isinstance(output.value, list):
                continue
            if self.is_late[k]:
                is_settled = is_settled and (np.asarray(sample).dtype, np.ndim(sample)) == (output.dtype, output.rank)
                self.samples[k] = output.value
                self.start[k] = Traced("", np.zeros(np.shape(output.value), output.dtype), is_known=True)
                continue
            if np.ndim(sample) != output.rank and not (may_grow and np.ndim(sample) == 0):
                raise UnsupportedOp(
                    f"{where}: {self.names[k]!r} starts with {np.ndim(sample)} axes and goes on with {output.rank}; what is "
                    "written in ONNX is for one number of axes"
                )
            widest = _widest(sample if np.ndim(sample) == output.rank else _as_one(sample, output.value), output.value)
            if (np.shape(widest), type(widest), np.asarray(widest).dtype) != (
                np.shape(sample),
                type(sample),
                np.asarray(sample).dtype,
            ):
                self.samples[k], is_settled = widest, False
        return is_settled

    def initial(self, emitter: Emitter) -> list[str]:
        """The names of the values before the first iteration, in their types."""
        names = []
        for value, sample in zip(self.start, self.samples, strict=True):
            names.append(emitter.typed(value, np.asarray(sample).dtype) if value.is_tensor else tensor(emitter, value))
        return names


def _as_one(number: Any, like: Any) -> np.ndarray:
    """An array of the shape of another, with one number in all places."""
    return np.full(np.shape(like), number)


def _widest(sample: Any, output: Any) -> Any:
    """The sample with a type that holds both.  What ever is an array is one from the beginning."""
    is_number = all(type(value) in (bool, int, float, complex) for value in (sample, output))
    dtype = np.result_type(np.asarray(sample), np.asarray(output)) if is_number else np.result_type(sample, output)
    return _as(sample, dtype) if is_number else np.asarray(sample).astype(dtype)


def _inside(emitter: Emitter, node: Node, loop: Loop, goes_round: _Round, others: Mapping[str, Any]) -> Any:
    """Trace the body of a loop until the types of what goes round stay what they are."""
    path, where = (*emitter.path, node.name), emitter.where
    for _ in range(8):
        inner = Emitter(emitter.opset, emitter, path)
        names = {name: inner.fresh(name) for name in (*others, *goes_round.names)}
        names["is first"] = inner.fresh("is first")
        inner.values = {name: Traced(names[name], sample) for name, sample in others.items()}
        samples = zip(goes_round.names, goes_round.samples, strict=True)
        inner.values |= {name: Traced(names[name], sample) for name, sample in samples}
        inner.values["is first"] = Traced(names["is first"], np.True_)
        trace(loop.body, inner)
        around = [inner[name] for name in (*(c.output for c in loop.carried), *(state.output for state in loop.body.state))]
        if goes_round.settle(around, "/".join(path), not loop.scanned):
            emitter.where = where
            return inner, names, around
    raise UnsupportedOp(f"{'/'.join(path)}: the element types of what goes round change from iteration to iteration")


def _lower_loop(emitter: Emitter, node: Node, loop: Loop, inputs: Sequence[Traced | None]) -> Sequence[Traced]:
    """A Loop or Scan; hidden values of its body are carried as well."""
    count, condition, first, scanned, *_ = loop.split(inputs)
    condition = Traced("", True, is_known=True) if condition is None and loop.obeys and not loop.scanned else condition
    carried, given = ([value for value in values if value is not None] for values in (first, scanned))
    if len(carried) < len(first) or len(given) < len(scanned):
        where = "/".join((*emitter.path, node.name))
        raise UnsupportedOp(f"{where}: {len(carried)} values are carried, body {loop.body.name!r} takes {len(first)}")
    goes_round = _Round(loop.body, [c.input for c in loop.carried], carried)
    parts = {s.input: _part(value.value, s.axis) for s, value in zip(loop.scanned, given, strict=True)}
    limits = {name: sample for name, sample in ((loop.index, np.int64(0)), (loop.condition, np.True_)) if name}
    inner, names, around = _inside(emitter, node, loop, goes_round, {**limits, **parts})
    late, collected = any(goes_round.is_late), [inner[c.output] for c in loop.collected]
    going = [] if loop.keep_going is None else [_truth(inner, inner[loop.keep_going])]
    ends = [*going, *_ends(inner, goes_round, around, late), *(tensor(inner, value) for value in collected)]
    inner.types |= {names[name]: ValueType(sample.dtype, ()) for name, sample in limits.items()}
    _declare(inner, names, dict(zip(goes_round.names, goes_round.samples, strict=True)) | parts)
    round_names = [names[name] for name in goes_round.names] + [names["is first"]] * late
    written = inner.body(loop.body.name, [*(names[n] for n in limits), *round_names, *(names[n] for n in parts)], ends)
    start = [*goes_round.initial(emitter), *([emitter.constant(np.array(True))] if late else [])]
    given_names = (
        *(_limit(emitter, value, dtype) for value, dtype in ((count, INT64), (condition, BOOL))),
        *start,
        *(emitter.typed(value) for value in given),
    )
    record = _record(loop, written, names, round_names)
    return _loop(emitter, node, given_names, record, goes_round, collected)


def _record(loop: Loop, body: Body, names: Mapping[str, str], round_names: Sequence[str]) -> Loop:
    """The loop over a body with inputs of other names, which carries further values."""
    outputs = list(body.outputs)
    going = outputs.pop(0) if loop.keep_going is not None else None
    return replace(
        loop,
        body=body,
        carried=tuple(map(Carried, round_names, outputs)),
        scanned=tuple(replace(part, input=names[part.input]) for part in loop.scanned),
        collected=tuple(replace(c, output=name) for c, name in zip(loop.collected, outputs[len(round_names) :], strict=True)),
        index=loop.index and names[loop.index],
        condition=loop.condition and names[loop.condition],
        keep_going=going,
    )


def _limit(emitter: Emitter, value: Traced | None, dtype: np.dtype) -> str:
    if value is None:
        return ""
    name = emitter.typed(value, dtype)
    return emitter.shaped(name, ()) if value.rank else name


def _ends(inner: Emitter, goes_round: _Round, around: Sequence[Traced], late: bool) -> list[str]:
    """What goes round after an iteration, in its types."""
    names = [
        inner.typed(value, np.asarray(sample).dtype) if value.is_tensor else tensor(inner, value)
        for value, sample in zip(around, goes_round.samples, strict=True)
    ]
    return [*names, inner.constant(np.array(False))] if late else names


def _declare(inner: Emitter, names: Mapping[str, str], samples: Mapping[str, Any]) -> None:
    for name, sample in samples.items():
        if not isinstance(sample, list):
            inner.types[names[name]] = ValueType(np.asarray(sample).dtype)


def _loop(
    emitter: Emitter,
    node: Node,
    given: Sequence[str],
    loop: Loop,
    goes_round: _Round,
    collected: Sequence[Traced],
) -> list[Traced]:
    """Add the node of a loop; returns the values that the model's own node has."""
    n_carried, count = goes_round.n_carried, len(loop.results)
    said = [*node.outputs, *[""] * (n_carried + len(collected) - len(node.outputs))]
    wanted = [*said[:n_carried], *[""] * (count - len(said)), *said[n_carried:]]
    outputs = tuple(emitter.fresh(name or "unused") for name in wanted)  # onnxruntime stumbles over outputs without names
    emitter.nodes.append(Node("Loop", tuple(given), outputs, {"loop": loop}, node.name, emitter.opset, "", loop.body.captures))
    carried = [Traced(name, sample) for name, sample in zip(outputs, goes_round.samples[:n_carried], strict=False)]
    rows = outputs[count - len(collected) :]
    return carried + [Traced(name, np.asarray(value.value)[None]) for name, value in zip(rows, collected, strict=True)]


def _part(value: Any, axis: int) -> Any:
    """A part of a scanned value."""
    array = np.asarray(value)
    return np.take(array, 0, axis) if array.shape[axis] else np.zeros(np.delete(array.shape, axis), array.dtype)
