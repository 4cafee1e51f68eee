"""One node of an MDF graph, evaluated once as MDF's engine evaluates it.

What MDF does: parameters are evaluated in an order in which they can be, then functions, then all parameters again, then
output ports.  A parameter that reads nothing but numbers, ports and parameters of the same kind is the same both times.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
from modeci_mdf import execution_engine
from modeci_mdf.functions.standard import create_python_expression, mdf_functions

from mdf_loop.errors import LoopError, in_node, keeps_results, let_through
from mdf_loop.integrations.evaluator import _parsed, arithmetic
from mdf_loop.integrations.patches.no_eval import number_or
from mdf_loop.integrations.registration import BODIES, run_function
from mdf_loop.models.node_loops import LOOP, SCAN, NodeLoop
from mdf_loop.models.texts import NotDirect, Scope, Text, argument_of, element_in, value_of
from mdf_loop.options import Run, part_of, random_stream
from mdf_loop.readers.mdf.control_functions import STEPPED
from mdf_loop.readers.mdf.input_ports import default_value_of, reduce_of
from mdf_loop.readers.mdf.node import is_stateful

Outputs = dict[tuple[str, str], Any]
"""Values at output ports, by node and port."""

Action = Callable[[Scope, Run], Any]

Ask = Callable[[NodeLoop, Scope], Any]


class DirectNode:
    """A node made ready.

    Parameters
    ----------
    node : modeci_mdf Node
    evaluable : EvaluableNode
        MDF's own, which has found an order for parameters and functions.
    edges : mapping of str to Edge
        The edge that ends in a port.

    Raises
    ------
    NotDirect
        The node has something that is left to MDF's engine.
    """

    def __init__(self, node: Any, evaluable: Any, edges: Mapping[str, Any]) -> None:
        self.id = node.id
        self.ports = [(port.id, edges.get(port.id), _default(port)) for port in node.input_ports]
        self.loops: dict[str, NodeLoop] = {}
        literals = {p.id: p.value for p in node.parameters if isinstance(p.value, dict)}
        names = {port.id for port in node.input_ports}
        settled = set(names)
        parameters = [each.parameter for each in evaluable.evaluable_parameters.values()]
        self.before: list[tuple[str, Text | None]] = []
        for parameter in parameters:
            _refuse(node, parameter)
            self.before.append((parameter.id, self._first(parameter, names)))
            if _is_settled(parameter, settled, {thing.id for thing in _things(node)}):
                settled.add(parameter.id)
            names.add(parameter.id)
        self.functions: list[tuple[str, Action | NodeLoop]] = []
        for function in (each.function for each in evaluable.evaluable_functions.values()):
            _refuse(node, function)
            self.functions.append((function.id, self._action(function, names, literals)))
            names.add(function.id)
        self.after = [(p.id, self._again(p, names, literals)) for p in parameters if p.id not in settled]
        self.outputs = [(port.id, value_of(port.value, names)) for port in node.output_ports]
        self.elements = {port.id: element_in(port.value) for port in node.output_ports}
        self.has_branches = any(thing.function in BODIES and thing.id not in self.loops for thing in _things(node))
        self.texts = {port.id: port.value for port in node.output_ports}

    def is_collected(self, port: str) -> bool:
        """Whether an output port gives what a loop collected, as far as is known after a run."""
        name, place = self.elements[port] or ("", 0)
        return name in self.loops and place >= self.loops[name].n_carried

    @staticmethod
    def _first(parameter: Any, names: set[str]) -> Text | None:
        return value_of(parameter.value, names) if parameter.value is not None else None

    def _again(self, parameter: Any, names: set[str], literals: Mapping[str, Any]) -> Action | NodeLoop:
        if parameter.value is None and parameter.function:
            action = self._action(parameter, names, literals)
        elif parameter.value is None:
            action = _starting
        else:
            text = value_of(parameter.value, names)

            def action(scope: Scope, run: Run) -> Any:
                return text(scope)

        return _Conditional(action, parameter, names) if parameter.conditions else action

    def _action(self, thing: Any, names: set[str], literals: Mapping[str, Any]) -> Action | NodeLoop:
        if thing.function in (LOOP, SCAN):
            if getattr(thing, "conditions", None):
                raise NotDirect(f"{thing.id} is a loop with conditions")
            loop = self.loops[thing.id] = NodeLoop(f"{self.id}.{thing.id}", thing, names, literals)
            return loop
        if thing.function in BODIES:
            return _in_run(lambda scope: run_function(thing.function, thing.args, scope, thing.id, "numpy"))
        return _function(thing, names)

    def evaluate(
        self, sent: Outputs, given: Mapping[str, Any], run: Run, ask: Ask = NodeLoop.request
    ) -> Generator[Any, Any, Scope]:
        """Evaluate the node; what is yielded are loops to be run, and what is sent their results.

        Parameters
        ----------
        sent : dict
            Values at output ports so far; those of this node are added.
        given : mapping
            Values that ports and parameters of this node are given.
        ask : callable
            Makes of a loop and the values of the node what is yielded.
        """
        scope: Scope = {}
        for id, edge, default in self.ports:
            scope[id] = default if edge is None else _weighed(edge, sent[edge.sender, edge.sender_port])
            if id in given:
                scope[id] = given[id]
        id = ""
        try:
            for id, text in self.before:
                scope[id] = given[id] if id in given else text(scope) if text is not None else None
            for id, action in (*self.functions, *self.after):
                if isinstance(action, NodeLoop):
                    scope[id] = yield from self._requested(id, ask, action, scope, sent)
                elif id not in given:
                    scope[id] = action(scope, run)
                elif isinstance(action, _Conditional):
                    scope[id] = action.changed(scope, given[id])
        except LoopError as error:
            if not hasattr(error, "mdf_node"):
                error.add_note(f"in MDF parameter or function {id!r}")
                in_node(error, self.id)
            raise
        for port, text in self.outputs:
            try:
                sent[self.id, port] = text(scope)
            except LoopError as error:
                error.add_note(f"in output port {port!r}")
                in_node(error, self.id)
                raise
        return scope

    def _requested(self, id: str, ask: Ask, loop: NodeLoop, scope: Scope, sent: Outputs) -> Generator[Any, Any, Any]:
        try:
            return (yield ask(loop, scope))
        except BaseException as error:
            if not keeps_results(error):
                raise
            function = SCAN if loop.is_scan else LOOP
            error.add_note(f"in MDF parameter or function {id!r} ({function})")
            in_node(error, self.id)
            if error.partial is not None:
                scope[id] = error.partial if len(error.partial) != 1 else error.partial[0]
            self._publish_known(scope, sent)
            raise

    def _publish_known(self, scope: Scope, sent: Outputs) -> None:
        """The output ports as far as they can be known after a loop ended early."""
        for port, text in self.outputs:
            try:
                sent[self.id, port] = text(scope)
            except Exception as error:  # nothing had been computed that it could be made of
                let_through(error)
                sent[self.id, port] = None


def _things(node: Any) -> list[Any]:
    """What may have a function."""
    return [*node.parameters, *node.functions]


class _Conditional:
    """A parameter whose value changes where conditions hold."""

    def __init__(self, action: Any, parameter: Any, names: set[str]) -> None:
        if isinstance(action, NodeLoop):
            raise NotDirect(f"{parameter.id} is a loop with conditions")
        self.id, self.action = parameter.id, action
        self.conditions = [(value_of(c.test, names), value_of(c.value, names)) for c in parameter.conditions]

    def __call__(self, scope: Scope, run: Run) -> Any:
        return self.changed(scope, self.action(scope, run))

    def changed(self, scope: Scope, value: Any) -> Any:
        """A value, or what conditions make of it."""
        for test, other in self.conditions:
            value = np.where(test(scope), other(scope), value)
        return value


def _starting(scope: Scope, run: Run) -> Any:
    """A parameter that only conditions give a value."""
    return execution_engine.EvaluableParameter.DEFAULT_INIT_VALUE


def _default(port: Any) -> Any:
    """What MDF's engine takes for a port that no edge ends in."""
    if default_value_of(port) is not None:
        return number_or(port)
    is_float = reduce_of(port) != "overwrite" or (port.type and "float" in port.type)
    try:
        return np.full(port.shape, 0.0 if is_float else 0)
    except (TypeError, ValueError) as error:
        raise NotDirect(f"port {port.id} has the shape {port.shape}") from error


def _weighed(edge: Any, value: Any) -> Any:
    weight = (edge.parameters or {}).get("weight", 1)
    return value if type(weight) in (int, float) and weight == 1 else arithmetic("multiply", weight, value)


def _refuse(node: Any, thing: Any) -> None:
    """Leave to MDF's engine what lives from evaluation to evaluation, and random numbers outside of loops."""
    if STEPPED in (node.metadata or {}) or STEPPED in (thing.metadata or {}):
        raise NotDirect(f"{node.id}.{thing.id} runs in steps")
    if getattr(thing, "default_initial_value", None) is not None or getattr(thing, "time_derivative", None) is not None:
        raise NotDirect(f"{node.id}.{thing.id} lives from evaluation to evaluation")
    if hasattr(thing, "is_stateful") and is_stateful(thing):
        raise NotDirect(f"{node.id}.{thing.id} lives from evaluation to evaluation")
    for text in (thing.value, *(thing.args or {}).values()):
        if isinstance(text, str) and "random" in text:
            raise NotDirect(f"{node.id}.{thing.id} draws random numbers")


def _is_settled(parameter: Any, settled: set[str], own: set[str]) -> bool:
    """Whether a parameter is the same when it is evaluated for the second time."""
    if parameter.value is None or parameter.conditions:
        return False
    tree = _parsed(parameter.value) if isinstance(parameter.value, str) else None
    read = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)} if tree is not None else set()
    return read & own <= settled


def _in_run(call: Callable[[Scope], Any]) -> Action:
    def action(scope: Scope, run: Run) -> Any:
        with random_stream(run.stream), part_of(run):
            return call(scope)

    return action


def _function(thing: Any, names: set[str]) -> Action:
    """A function of MDF's own, or of ONNX by MDF's way."""
    entry = mdf_functions.get(thing.function)
    expression = create_python_expression(entry["expression_string"]) if entry is not None else thing.value or thing.function
    if not isinstance(expression, str) or "actr." in expression or "ddm." in expression:
        raise NotDirect(f"{thing.id} is {thing.function}, which MDF writes in Python")
    known, args = set(names), []
    for key, value in (thing.args or {}).items():
        args.append((key, value_of(value, known) if value != "" else argument_of(value, known)))
        known.add(key)
    if "onnx_ops." in expression:
        return _onnx(thing, expression, args)
    text = value_of(expression, known)

    def action(scope: Scope, run: Run) -> Any:
        return text(_with_arguments(scope, args))

    return action


def _onnx(thing: Any, expression: str, args: list[tuple[str, Text]]) -> Action:
    def action(scope: Scope, run: Run) -> Any:
        values = _with_arguments(scope, args)
        with random_stream(run.stream), part_of(run):
            return execution_engine.evaluate_onnx_expr(expression, {**scope, **(thing.args or {})}, values)

    return action


def _with_arguments(scope: Scope, args: list[tuple[str, Text]]) -> Scope:
    values = dict(scope)
    for key, text in args:
        values[key] = text(values)
    return values
