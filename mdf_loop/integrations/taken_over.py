"""What runs in place of MDF's functions while mdf_loop is registered: ``onnx::Loop``, ``onnx::Scan``, ``onnx::If`` of a node."""

from __future__ import annotations

import contextlib
import difflib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.calls.calling import required, run_if, run_loop, scan
from mdf_loop.calls.prepared import read_once
from mdf_loop.errors import LoopError, MalformedBody, MissingCapture
from mdf_loop.functions import psyneulink
from mdf_loop.integrations.engine_patches import drawn
from mdf_loop.integrations.replacements import FUNCTIONS
from mdf_loop.integrations.scheduler import SteppedLoop, mark_stepped, stepped_of
from mdf_loop.kernels.mdf.expression_operators import in_a_row
from mdf_loop.options import part_of, random_stream, start_run
from mdf_loop.readers import is_text
from mdf_loop.readers.arguments import is_read
from mdf_loop.readers.expressions.equation_texts import names_of
from mdf_loop.readers.expressions.expression_text import refuse_onnx_text
from mdf_loop.readers.mdf.by_place import node_by_place
from mdf_loop.readers.mdf.control_functions import BODIES
from mdf_loop.readers.mdf.input_ports import default_value_of, has_defaults
from mdf_loop.readers.mdf.names import not_in_node
from mdf_loop.readers.mdf.node import names_read, order_parameters
from mdf_loop.readers.onnx.loop_records import SCAN_ATTRIBUTES
from mdf_loop.settings.random_streams import RandomStream


def taking_over_parameters(
    original: Callable[..., Any], self: Any, parameters: dict[str, Any], time_increment: Any = None, array_format: str = "numpy"
) -> Any:
    """``EvaluableParameter.evaluate``: a parameter whose function is ours is evaluated by us."""
    parameter = self.parameter
    if parameter.value is not None or parameter.function not in FUNCTIONS:
        with _noted(parameter.id):
            return original(self, parameters, time_increment=time_increment, array_format=array_format)
    stepped = stepped_of(self)
    self.curr_value = run_function(parameter.function, parameter.args, parameters, parameter.id, array_format, stepped)
    for condition in parameter.conditions:
        test, value = (_evaluated(text, parameters, array_format) for text in (condition.test, condition.value))
        self.curr_value = np.where(test, value, self.curr_value)
    return self.curr_value


@contextlib.contextmanager
def _noted(name: str) -> Iterator[None]:
    """Errors of ours say in which parameter or function they came up."""
    try:
        yield
    except LoopError as error:
        error.add_note(f"in MDF parameter or function {name!r}")
        raise


def noting_parameters(original: Callable[..., Any], self: Any, parameters: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """``EvaluableParameter.get_current_value``, by which MDF evaluates parameters first: errors say in which one they came up.

    A parameter that computes with what a function of the node gives has no value before that.
    """
    parameter = self.parameter
    if self.curr_value is None and parameter.default_initial_value is None:
        reads = names_read(parameter.value)
        if parameter.id not in reads and any(parameters.get(name, name) is None for name in reads):
            return None
    with _noted(parameter.id):
        return original(self, parameters, *args, **kwargs)


def taking_over_functions(
    original: Callable[..., Any], self: Any, parameters: dict[str, Any] | None = None, array_format: str = "numpy"
) -> Any:
    """``EvaluableFunction.evaluate``: likewise for a Function of a node."""
    function = self.function
    if function.function not in FUNCTIONS:
        with _noted(function.id):
            return original(self, parameters, array_format)
    known, stepped = {} if parameters is None else parameters, stepped_of(self)
    self.curr_value = run_function(function.function, function.args, known, function.id, array_format, stepped)
    return self.curr_value


def taking_over_expressions(
    original: Callable[..., Any], expr: str, base_parameters: dict, evaluated_parameters: dict, verbose: bool = False
) -> Any:
    """``evaluate_onnx_expr``: who calls it for our functions gets all the arguments through; random numbers are the run's."""
    called = expr.split("(")[0].split(".")[-1]
    for function, name in FUNCTIONS.items():
        if called == name:
            args = {key: value for key, value in base_parameters.items() if key in evaluated_parameters}
            return run_function(function, args, evaluated_parameters, function, "numpy")
    numbers = drawn(called, base_parameters, evaluated_parameters)
    if numbers is not None:
        return numbers
    arrays = {key: in_a_row(each) if type(each) is list and each else each for key, each in evaluated_parameters.items()}
    return original(expr, base_parameters, arrays, verbose)


def run_function(
    function: str,
    args: Mapping[str, Any] | None,
    known: dict[str, Any],
    name: str,
    array_format: str,
    stepped: SteppedLoop | None = None,
) -> Any:
    """Evaluate one of our functions as a node of an MDF graph says it.

    Parameters
    ----------
    function : str
        ``"onnx::Loop"``, ``"onnx::Scan"`` or ``"onnx::If"``.
    args : mapping
        The function's arguments: values, or MDF expressions over ``known``.
    known : mapping
        Values of the node's ports and parameters; those that a body reads are captured.
    name : str
        Id of the parameter or function, for messages.
    stepped : SteppedLoop, optional
        The loop that the function goes on with; what it publishes is added to ``known``.
    """
    keys, bodies = BODIES[function.removeprefix("onnx::")], dict[str, Any]()
    try:
        values = {key: _evaluated(text, known, array_format) for key, text in (args or {}).items()}
        bodies = {key: values.pop(key, known.get(key)) for key in keys}  # as MDF finds attributes
        _refuse_paths(bodies)
        if function == "onnx::Loop":
            return _run_loop(values, bodies["body"], known, stepped)
        if function == "onnx::Scan":
            return _run_scan(values, bodies["body"], known)
        captured = _captured(tuple(bodies.values()), 0, "branch", {**values, **known})
        return run_if(values.get("cond"), bodies, captured)
    except (LoopError, KeyboardInterrupt) as error:
        error.add_note(f"in MDF parameter or function {name!r} ({function})")
        within = [inner for source in bodies.values() for inner in names_of(source)]
        if isinstance(error, MissingCapture):
            error.args = ("; ".join(not_in_node(name, [*known, *within], bodies) for name in error.missing),)
        for hint in _misspelt(args or {}, keys):
            error.add_note(hint)
        raise


def _misspelt(args: Mapping[str, Any], bodies: Iterable[str]) -> Iterator[str]:
    """Arguments that are probably misspelt names of bodies, which would count as carried values."""
    for name in bodies:
        if name not in args and (close := difflib.get_close_matches(name, args, 1, 0.5)):
            yield f"its argument {close[0]!r} is taken for a carried value; did you mean {name!r}?"


def _refuse_paths(bodies: Mapping[str, Any]) -> None:
    """See that no text in a model is taken for a path: {onnx_file: path} is one, and is looked at when the model is read."""
    for key, body in bodies.items():
        if isinstance(body, str) and body and not is_text(body):
            raise MalformedBody(f"{key} is the text {body[:60]!r}; a body in a file is {{onnx_file: path}}")


def _run_loop(values: dict[str, Any], body: Any, known: dict[str, Any], stepped: SteppedLoop | None) -> Any:
    m, cond = values.pop("M", None), values.pop("cond", None)
    carried = [item for value in values.values() for item in (value if isinstance(value, tuple) else (value,))]
    body, captured = required(body, "loop", "body"), _captured((body,), len(carried), "loop", known)
    if stepped is None:
        return run_loop(m, cond, carried, body, captured)
    value = stepped.execute(m, cond, carried, body, captured)
    stepped.publish(known)
    return value


def _run_scan(values: dict[str, Any], body: Any, known: Mapping[str, Any]) -> Any:
    count = values.pop("num_scan_inputs", known.get("num_scan_inputs"))
    attrs = {key: values.pop(key, known.get(key)) for key in SCAN_ATTRIBUTES}
    inputs = [item for value in values.values() for item in (value if isinstance(value, tuple) else (value,))]
    n_carried = len(inputs) - count if isinstance(count, int) else 0
    captured = _captured((body,), n_carried, "scan", known)
    return scan(*inputs, body=body, num_scan_inputs=count, **attrs, **captured)


def _captured(bodies: tuple[Any, ...], n_carried: int, kind: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the node's values that the bodies read from outside."""
    sources = [body for body in bodies if body is not None and (is_read(body) or not callable(body))]
    names = dict.fromkeys(name for body in sources for name in read_once(body, n_carried, kind).captures)
    return {name: known[name] for name in names if name in known}


def _evaluated(text: Any, known: Mapping[str, Any], array_format: str) -> Any:
    """An argument's value: MDF evaluates text, everything else is what it is.

    An empty text is an omitted input; MDF's own evaluation would stumble over it.
    """
    if not isinstance(text, str):
        return text
    if text == "":
        return None
    if text in known:
        return known[text]
    from modeci_mdf import execution_engine

    return execution_engine.evaluate_expr(text, dict(known), array_format=array_format)


def ordering_captures(original: Callable[..., Any], self: Any, node: Any, verbose: bool | None = False) -> None:
    """``EvaluableNode.__init__``: what a loop captures is evaluated before the loop.

    MDF orders parameters by the names in their arguments; captures are not among those, and a loop in
    front of a parameter it reads would see that parameter's previous value.
    """
    for thing in (*node.parameters, *node.functions):
        refuse_onnx_text(thing.value, (node.id, thing.id))
        for key, value in (thing.args or {}).items():
            refuse_onnx_text(value, (node.id, thing.id, key))
    node = psyneulink.plain(node_by_place(node, read_once))
    original(self, node, verbose)
    for port in node.input_ports if not has_defaults() else ():
        if default_value_of(port) is not None:
            self.evaluable_inputs[port.id].set_input_value(default_value_of(port))
    mark_stepped(self)
    for parameter in order_parameters(node, read_once):
        self.evaluable_parameters.move_to_end(parameter.id)


_streams: weakref.WeakKeyDictionary[Any, RandomStream] = weakref.WeakKeyDictionary()


def with_one_stream(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableGraph.evaluate``: all loops of a graph draw from one random stream.

    The stream lives as long as the graph, so that a model stepped by calling evaluate() again and again gets
    fresh numbers each time, and a new graph under the same seed repeats them.
    """
    with random_stream(_streams.get(self)) as stream, part_of(start_run()):  # one stream, and one time to end
        _streams[self] = stream
        return original(self, *args, **kwargs)
