"""One node of an MDF graph, in the order in which MDF's engine evaluates it.

MDF evaluates a node in this order, and so do the operators made here:

1. input ports get their values;
2. each parameter is given its previous value: what it was after the last iteration, before the first one its
   ``default_initial_value``, 0.0 if it is stateful without one, else its value computed from the inputs;
3. functions are evaluated: *they see the previous values of the parameters*;
4. parameters are evaluated in order, each seeing the new values of those before it and the previous values of
   itself and those behind; then their conditions;
5. output ports are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.functions.psyneulink import plain
from mdf_loop.ir import Body
from mdf_loop.readers.arguments import is_read
from mdf_loop.readers.expressions.expression import evaluated
from mdf_loop.readers.expressions.expression_text import number_in, parse, variables
from mdf_loop.readers.expressions.values import UNKNOWN, BodyBuilder, NotCompiled, Scope, Unavailable, Value, literal
from mdf_loop.readers.mdf.by_place import signature_of
from mdf_loop.readers.mdf.control_functions import BODIES
from mdf_loop.readers.mdf.input_ports import GivenInput, default_value_of
from mdf_loop.readers.mdf.node_functions import apply_function, apply_value, typed_input
from mdf_loop.readers.mdf.stepped_loops import Steps

CONTROL = ("onnx::Loop", "onnx::Scan", "onnx::If", "onnx::SequenceMap")

ReadBody = Callable[[Any, int | None, str], Body]

START = 0.0
"""What MDF starts a stateful parameter with that has no ``default_initial_value``."""


class NodeReader:
    """Makes operators of one node.

    Parameters
    ----------
    node : modeci_mdf.mdf.Node
    ports : mapping of str to Value
        The values of its input ports.
    builder : BodyBuilder
    read_body : callable
        Reads the body of a loop inside this node.
    path : tuple of str
        Where the node stands, for errors.
    """

    calls_loops = False
    """Whether loops are called by what evaluates the body, with values that are not yet fitted to theirs."""

    def __init__(
        self, node: Any, ports: Mapping[str, Value], builder: BodyBuilder, read_body: ReadBody, path: tuple[str, ...]
    ) -> None:
        node = plain(node)
        self.node, self.builder, self.read_body, self.path = node, builder, read_body, path
        self.scope: dict[str, Value | Unavailable] = dict(ports)
        self.ports = ports
        self.parameters = order_parameters(node, read_body)
        self.finished: dict[str, Value] = {}

    def read(self) -> dict[str, Value | Unavailable]:
        """The values of the output ports."""
        for parameter in self.parameters:
            self.scope[parameter.id] = self._previous(parameter)
        for function in order_functions(self.node, self.path):
            self.scope[function.id] = self._function(function)
        for parameter in self.parameters:
            self.scope[parameter.id] = self.finished.get(parameter.id) or self._evaluated(parameter)
        return {port.id: self._output(port) for port in self.node.output_ports}

    def value(self, source: Any, thing: Any, scope: Scope | None = None) -> Value:
        """What MDF evaluates a value or the text of one to; one that each run is given comes from outside."""
        if isinstance(source, GivenInput):
            return self.given(source)
        base, path = self.base(thing), (*self.path, thing.id)
        return evaluated(source, self.scope if scope is None else scope, self.builder, base, path)

    def given(self, given: GivenInput) -> Value:
        """What each run is given."""
        return self.builder.capture(given.name, given.number)

    @property
    def onnx_opset(self) -> int:
        """The version of ONNX in which operators are read."""
        return self.builder.opset

    def onnx_input(self, schema: Any, place: int, inputs: Sequence[Value | None], base: str) -> Value:
        """An input of an operator: a Python number takes the type of the inputs it has to agree with."""
        return typed_input(self.builder, base, schema, place, inputs)

    def control_result(self, value: Value, base: str) -> Value:
        """What becomes of each output of a loop or branch."""
        return value

    def onnx_result(self, value: Value, base: str) -> Value:
        """What becomes of an operator's only output."""
        return value

    def stepped(self, steps: Steps, thing: Any, inputs: Sequence[Value | None], body: Body) -> Value:
        """The value of a stepped loop, as far as it has come; the first two inputs are its trip count and condition."""
        raise NotCompiled(f"loop {thing.id} runs in steps, under MDF's scheduler")

    def base(self, thing: Any) -> str:
        """What values of a parameter, function or port are called in the body."""
        return f"{self.node.id}.{thing.id}"

    def _output(self, port: Any) -> Value | Unavailable:
        if port.value is None:
            return literal(None)
        try:
            return self.value(port.value, port)
        except NotCompiled as reason:
            return Unavailable(str(reason))

    def _function(self, function: Any) -> Value:
        where = (self, function, (*self.path, function.id))
        if function.function:
            return apply_function(*where, function.function, function.args or {}, function.value)
        if function.value is None:
            raise MalformedBody("a function has neither function nor value", where[2])
        return apply_value(*where, function.value, function.args or {})

    def _previous(self, parameter: Any) -> Value | Unavailable:
        """What functions, and parameters up to this one, see of a parameter."""
        if parameter.time_derivative is not None:
            return self._integrated(parameter)
        if _only_starts(parameter):
            return self._initial(parameter)
        if is_stateful(parameter):
            return self._state(parameter)
        if parameter.value is not None:
            return self._invariant(parameter)
        if parameter.function is None and not parameter.conditions:
            self.finished[parameter.id] = literal(None)
            return self.finished[parameter.id]
        return self._stale(parameter)

    def _stale(self, parameter: Any) -> Unavailable:
        return Unavailable(
            f"something in node {self.node.id} that MDF evaluates before parameter {parameter.id} reads it: that is its value "
            "of the iteration before, and something else in the first one"
        )

    def _invariant(self, parameter: Any) -> Value | Unavailable:
        """A parameter that is the same in every iteration is evaluated once and for all."""
        reads = [self.scope.get(name) for name in names_read(parameter.value)]
        if all(reads) and any(isinstance(read, Unavailable) or read.varies for read in reads if read):
            return self._stale(parameter)
        with self.builder.branch() as nodes:
            try:
                value = self.value(parameter.value, parameter)
            except NotCompiled:
                return self._stale(parameter)
            except MalformedBody as error:
                self._explain(error, parameter)
                raise
        if value.varies or parameter.conditions:
            return self._stale(parameter)
        self.builder.nodes += nodes
        self.finished[parameter.id] = value
        return value

    def _explain(self, error: MalformedBody, parameter: Any) -> None:
        """Add to an unknown name that MDF evaluates what it names later."""
        names = set(names_read(parameter.value)) - set(self.scope)
        late = [x.id for x in (*self.node.parameters, *self.node.functions) if x.id in names]
        if late:
            error.add_note(
                f"MDF first evaluates a parameter before all functions and the parameters behind it: {parameter.id!r} cannot "
                f"read {', '.join(map(repr, late))}, unless it is stateful"
            )

    def _initial(self, parameter: Any) -> Value:
        """The value of ``default_initial_value``."""
        value = self.value(parameter.default_initial_value, parameter)
        if value.literal is None or isinstance(value.literal, dict | str):
            raise MalformedBody("default_initial_value is not a number or array", (*self.path, parameter.id))
        return self.builder.array(value, self.base(parameter))

    def _state(self, parameter: Any) -> Value:
        """A hidden value: the parameter after the last iteration."""
        key, base = (self.node.id, "parameter", parameter.id), self.base(parameter)
        if parameter.default_initial_value is None:
            return self.builder.hidden(key, base, START)
        first = self._initial(parameter)
        if first.literal is not UNKNOWN:
            return self.builder.hidden(key, base, first.literal)
        if first.varies and first.name not in {port.name for port in self.ports.values()}:
            raise NotCompiled(f"the initial value of parameter {base} is computed from what varies")
        previous = self.builder.hidden(key, base, None)
        return self.builder.node("initially", [previous, first], base, number=max(previous.number, first.number))

    def _evaluated(self, parameter: Any) -> Value | Unavailable:
        """A parameter's new value."""
        base, where = self.base(parameter), (self, parameter, (*self.path, parameter.id))
        if parameter.value is not None:
            value = self.value(parameter.value, parameter)
        elif parameter.function:
            value = apply_function(*where, parameter.function, parameter.args or {}, None)
        elif parameter.time_derivative is not None:
            value = self._integrated(parameter)
        elif parameter.conditions:
            value = self._so_far(parameter)
        else:
            return Unavailable(f"parameter {base} has only a default_initial_value; MDF's engine makes None of it")
        for condition in parameter.conditions:
            value = self._where(parameter, condition, value)
        self._goes_on(parameter, value)
        return value

    def _integrated(self, parameter: Any) -> Value:
        """A parameter with a ``time_derivative``."""
        raise NotCompiled(f"parameter {self.base(parameter)} has a time_derivative, which MDF's engine integrates")

    def _so_far(self, parameter: Any) -> Value:
        """The value that conditions change: the last one, 0.0 before there was one."""
        return self.builder.hidden((self.node.id, "so far", parameter.id), f"{self.base(parameter)} so far", START)

    def _goes_on(self, parameter: Any, value: Value) -> None:
        """Hidden values go on with the new one."""
        if parameter.value is None and not parameter.function:
            self.builder.goes_on((self.node.id, "so far", parameter.id), value)
        if is_stateful(parameter):
            self.builder.goes_on((self.node.id, "parameter", parameter.id), value)

    def _where(self, parameter: Any, condition: Any, value: Value) -> Value:
        """A parameter condition: another value where its test is true."""
        test, then = (condition[k] if isinstance(condition, dict) else getattr(condition, k) for k in ("test", "value"))
        inputs = [self.value(test, parameter), self.value(then, parameter), value]
        base = self.base(parameter)
        if any(v.items is None and (v.literal is None or isinstance(v.literal, dict | str)) for v in inputs):
            raise MalformedBody("a condition needs a test and a value", (*self.path, parameter.id))
        return self.builder.node("numpy.where", [self.builder.array(v, base) for v in inputs], base)


def _only_starts(parameter: Any) -> bool:
    """Whether a parameter has an initial value and nothing that evaluates it."""
    return (
        parameter.default_initial_value is not None
        and parameter.value is None
        and not parameter.function
        and not parameter.conditions
    )


def is_stateful(parameter: Any) -> bool:
    """MDF's own rule: it has an initial value, or its value is an expression of itself."""
    if parameter.default_initial_value is not None:
        return not _only_starts(parameter)
    return parameter.id in names_read(parameter.value)


def names_read(source: Any) -> list[str]:
    """The names that a value reads."""
    if not isinstance(source, str):
        return []
    try:
        return variables(parse(source))
    except LoopError:  # said when the value is read
        return [source]


def order_functions(node: Any, path: tuple[str, ...]) -> list[Any]:
    """Functions in MDF's order: each behind those it reads.

    Raises
    ------
    MalformedBody
        They read each other in a cycle.
    """
    waiting, ordered = list(node.functions), []
    ids = {function.id for function in node.functions}
    known = {thing.id for thing in (*node.input_ports, *node.parameters)}
    postponed = 0
    while waiting:
        function = waiting.pop(0)
        missing = (_function_reads(function) & ids) - known
        if not missing:
            ordered.append(function)
            known.add(function.id)
            postponed = 0
        elif postponed > len(waiting):
            names = ", ".join(sorted(f.id for f in (function, *waiting)))
            raise MalformedBody(f"functions {names} read each other in a cycle", path)
        else:
            waiting.append(function)
            postponed += 1
    return ordered


def _function_reads(function: Any) -> set[str]:
    args = function.args or {}
    return {name for source in (*args.values(), function.value) for name in names_read(source) if name not in args}


def order_parameters(node: Any, read_body: ReadBody) -> list[Any]:
    """Parameters in the order they stand in; a loop stands behind what its body captures."""
    ordered = list(node.parameters)
    for parameter in node.parameters:
        if parameter.value is not None or parameter.function not in CONTROL:
            continue
        captures = {name for body in bodies_of(parameter, node, read_body) for name in (*body.captures, *body.defaults)}
        place = ordered.index(parameter)
        following = ordered[place + 1 :]
        last = max((k for k, other in enumerate(following) if other.id in captures), default=None)
        if last is not None and not any(parameter.id in _parameter_reads(other) for other in following[: last + 1]):
            ordered[place : place + last + 2] = [*following[: last + 1], parameter]
    return ordered


def bodies_of(thing: Any, node: Any, read_body: ReadBody) -> Iterator[Body]:
    """The bodies of a parameter or function that is a loop or branch, as far as they can be read before anything runs."""
    held = {parameter.id: parameter.value for parameter in node.parameters}
    args = {key: held.get(value, value) if isinstance(value, str) else value for key, value in (thing.args or {}).items()}
    for key in BODIES[thing.function.removeprefix("onnx::")]:
        source = args.get(key, held.get(key))
        if source is None or isinstance(source, str) or (callable(source) and not is_read(source)):
            continue
        try:
            yield read_body(source, *signature_of(thing.function, args))
        except (LoopError, NotCompiled):  # said with all its circumstances when it is read to be run
            continue


def _parameter_reads(parameter: Any) -> set[str]:
    return {name for source in (parameter.value, *(parameter.args or {}).values()) for name in names_read(source)}


def default_of(port: Any, path: tuple[str, ...]) -> Value:
    """The default value of an input port."""
    value = default_value_of(port)
    if isinstance(value, str):
        if (number := number_in(value)) is None:
            raise MalformedBody(f"default_value {value!r} is not a number", (*path, port.id))
        return literal(number)
    if isinstance(value, bool | int | float | complex | list | np.ndarray | np.generic):
        return literal(value)
    raise MalformedBody(f"default_value must be a number or an array; got {type(value).__name__}", (*path, port.id))
