"""MDF's engine at work on our behalf: no text of a model is handed to Python's ``eval``, and every error is one of ours.

MDF's engine evaluates texts wherever it meets one: expressions, elements of lists, results of other expressions.  All of
them go through one function of ``modelspec``.  While :func:`engine_at_work` holds, in this thread or task, it is
:mod:`mdf_loop.integrations.evaluator` that evaluates them, by the list of
:mod:`mdf_loop.readers.expressions.expression_text`.  What else MDF looks up by a name that a model says -
functions of ACT-R, conditions of graph-scheduler, scales of time - must be among what there is to look up.
"""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import (
    LONGEST,
    IterationError,
    LoopError,
    MalformedBody,
    UnsupportedOp,
    in_node,
    let_through,
    malformed,
    shortened,
    warn_user,
)
from mdf_loop.integrations.evaluator import combined, compute, node_at_work, warn_of_lists
from mdf_loop.integrations.graph_conditions import refuse_conditions
from mdf_loop.integrations.replacements import GUARDS, of_engine
from mdf_loop.kernels.arrays.bounds import elements_of, refuse_elements, total
from mdf_loop.options import current_options
from mdf_loop.readers.expressions.expression_text import names_in, number_in, tree_if_any
from mdf_loop.readers.expressions.function_calls import MODULES
from mdf_loop.readers.mdf.engine_body import refuse_unimplemented, refuse_unlisted
from mdf_loop.readers.mdf.input_ports import default_value_of, ports_of_many, refuse_cycle, refuse_reduction
from mdf_loop.readers.mdf.names import inside_a_body
from mdf_loop.system.threads import holding, lock

NOTHING, TRUSTED, MODEL, BODY = "", "trusted", "model", "body"
"""What the engine runs on our behalf: nothing, a model that may do everything, any other model, the body of a loop."""

_work: contextvars.ContextVar[str] = contextvars.ContextVar("mdf_loop_engine_work", default=NOTHING)

MOST_IN_PORTS = 1 << 28
"""Elements in the input ports of a graph, by their shapes: the weights of the largest models that MDF publishes have half."""

HINT = (
    "; options(trusted=True), or --trusted on the command line, passes such texts to Python's eval; use it only for models "
    "that you trust like a program"
)


@contextlib.contextmanager
def engine_at_work(graph: Any, is_body: bool = False) -> Iterator[None]:
    """Let MDF's engine run a graph on our behalf; every error that comes out is a LoopError.

    Parameters
    ----------
    graph : modeci_mdf.mdf.Graph
    is_body : bool
        It is the body of a loop, which is never trusted; a whole model is, with ``options(trusted=True)``.
    """
    from graph_scheduler.scheduler import SchedulerError

    work = BODY if is_body else TRUSTED if current_options().trusted else MODEL
    with holding(_work, work), _in_place(), malformed("MDF's engine cannot run this graph", (str(graph.id),)):
        try:
            yield
        except SchedulerError:
            refuse_cycle(graph)
            raise


def is_guarded() -> bool:
    """Whether what MDF's engine evaluates now has to be on the list."""
    return _work.get() in (MODEL, BODY)


def is_at_work() -> bool:
    """Whether MDF's engine runs on our behalf now, and not for the user."""
    return _work.get() != NOTHING


def runs_body() -> bool:
    """Whether MDF's engine runs the body of a loop now."""
    return _work.get() == BODY


def _message(error: Exception) -> str:
    return shortened(" ".join(str(error).split()), LONGEST)


_lock, _users, _before = lock(), 0, []  # type: ignore[var-annotated]


@contextlib.contextmanager
def _in_place() -> Iterator[None]:
    """See that MDF's functions are replaced: registered or not, nothing runs without."""
    from modeci_mdf import execution_engine

    if hasattr(execution_engine.evaluate_params_modelspec, "is_ours"):
        yield
        return
    global _users
    with _lock:
        if not _users:
            for owner, name, value in of_engine(execution_engine, GUARDS):
                _before.append((owner, name, getattr(owner, name)))
                setattr(owner, name, value)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            while not _users and _before:
                setattr(*_before.pop())


def whole(original: Callable[..., Any], expr: Any) -> list[str]:
    """What an expression reads, by Python's grammar: MDF cuts it at brackets, and cannot read ``f(x[0])`` then.

    By the list numpy is ``np`` too, which MDF does not know.
    """
    if not isinstance(expr, str):
        return []
    tree = tree_if_any(expr)
    return original(expr) if tree is None else [name for name in names_in(tree) if not (_work.get() and name in MODULES)]


def by_the_list(
    original: Callable[..., Any], expr: Any, parameters: dict[str, Any] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """``modelspec.utils.evaluate``, as MDF's engine calls it: by the list where the engine works on our behalf."""
    if not is_guarded() or "Tensor" in type(expr).__name__:
        known = {"np": np, "linalg": np.linalg} if _work.get() == TRUSTED else {}
        if isinstance(expr, str) and parameters:
            warn_of_lists(expr, parameters)
        return original(expr, {**known, **(parameters or {})} if known else parameters, *args, **kwargs)
    return evaluated(expr, parameters or {})


def evaluated(source: Any, scope: Mapping[str, Any]) -> Any:
    """What ``modelspec`` makes of a value or the text of one, without ``eval``.

    Raises
    ------
    MalformedBody, UnsupportedOp
        It says something that is not on the list.
    IterationError
        It cannot be computed.
    """
    value = scope[source] if type(source) is str and source in scope else source
    if type(value) is str and (number := number_in(value)) is not None:
        return number
    if type(value) is list:
        refuse_elements(total(value), "a list")
        with contextlib.suppress(ValueError):  # of elements of several shapes: it stays a list, as MDF leaves it
            return np.array(value)
        return value
    if type(value) is np.ndarray:
        return np.array(value)
    return _text(value, scope) if isinstance(value, str) and not _is_whole(value) else value


def _is_whole(text: str) -> bool:
    """Whether a text of numpy is a whole number, which modelspec leaves as it is."""
    try:
        int(text)
    except ValueError:
        return False
    return True


def _text(text: str, scope: Mapping[str, Any]) -> Any:
    from modeci_mdf import execution_engine

    try:
        value = compute(text, scope)
        return int(value) if type(value) is float and int(value) == value else value
    except (MalformedBody, UnsupportedOp) as error:
        raise _with_hint(error) from None
    except Exception as error:
        let_through(error)
        if type(text) is not str or text in execution_engine.KNOWN_PARAMETERS:
            return text  # as MDF's engine has it
        said = f"{_message(error) or type(error).__name__}{_of_results(text, scope)}{inside_a_body(error, scope)}"
        raise IterationError(f"expression {shortened(text, LONGEST)!r} cannot be evaluated: {said}") from error


def _of_results(text: str, scope: Mapping[str, Any]) -> str:
    """A hint where an element is taken of a number, or beyond those of a tuple: the results of a loop, one or several."""
    for name, place in re.findall(r"\b(\w+)\[(\d{1,9})\]", text):
        results = scope.get(name, ())
        if isinstance(results, tuple) and len(results) <= int(place) and results:
            return f"; {name} has {len(results)} results, from {name}[0] on"
        if not isinstance(results, tuple) and text.strip() == f"{name}[{place}]" and np.ndim(results) == 0:
            return f"; a loop with one result is that result: write {name}"
    return ""


def _with_hint(error: MalformedBody | UnsupportedOp) -> MalformedBody | UnsupportedOp:
    """The error with what ``trusted`` does, unless it says what to write."""
    return type(error)(f"{error}{HINT}") if _work.get() == MODEL and not _WRITTEN.search(str(error)) else error


_WRITTEN = re.compile(r"; (?:write|did you mean|.* is written) ")


def refuse_unexported(module: Any, name: str) -> None:
    """See that a model looks up nothing in a module of functions but those that the module exports.

    Raises
    ------
    MalformedBody
    """
    if is_guarded() and name not in module.__all__:
        raise MalformedBody(f"there is no function {name!r} in {module.__name__}")


def weighing(original: Callable[..., Any], self: Any, edge: Any, *args: Any, **kwargs: Any) -> None:
    """``EvaluableGraph.evaluate_edge``: what a weight makes of a value has a bound."""
    weight = (edge.parameters or {}).get("weight", 1)
    value = self.enodes[edge.sender].evaluable_outputs[edge.sender_port].curr_value
    is_left = not (is_guarded() or list in (type(weight), type(value)))
    if is_left or (type(weight) in (int, float) and weight == 1):
        return original(self, edge, *args, **kwargs)
    said = f"the weight of edge {edge.id!r}"
    try:
        weighed = combined("multiply", weight, value, said)
    except Exception as error:
        let_through(error)
        raise IterationError(f"{said}: {_message(error)}") from error
    self.enodes[edge.receiver].evaluable_inputs[edge.receiver_port].set_input_value(weighed)


WAS_SET = "was_set_from_outside"
"""The attribute of an input in MDF's engine that was given a value, by an edge or by the user."""


def reducing(original: Callable[..., Any], self: Any, value: Any) -> None:
    """``EvaluableInput.set_input_value``: what is added or multiplied at a port has a bound, and what was set is known."""
    setattr(self, WAS_SET, True)
    reduce, growing = getattr(self.input_port, "reduce", None), (int, str, list, tuple)
    is_left = not (is_guarded() or list in (type(self.curr_value), type(value)))
    if not is_left and reduce in ("add", "multiply") and isinstance(self.curr_value, growing) and isinstance(value, growing):
        combined(reduce, self.curr_value, value, f"reduce: {reduce} of port {self.input_port.id!r}")
    original(self, value)


TEXTS = ("string", "str", "text")
"""Types of ports whose default may be a text."""


def number_or(port: Any) -> Any:
    """The default of an input port; a text that is a number is that number, unless the port declares a text."""
    value = default_value_of(port)
    number = number_in(value) if isinstance(value, str) and (port.type or "").lower() not in TEXTS else None
    return value if number is None else number


def reading_numbers(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableInput.evaluate``: the same for defaults in MDF's engine."""
    value = original(self, *args, **kwargs)
    is_default = is_guarded() and isinstance(value, str) and value is default_value_of(self.input_port)
    return number_or(self.input_port) if is_default else value


def naming_port(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableOutput.evaluate``: errors say at which port they came up."""
    try:
        return original(self, *args, **kwargs)
    except LoopError as error:
        if _work.get() != NOTHING:
            error.add_note(f"in output port {self.output_port.id!r}")
        raise


def naming(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableNode.evaluate``: errors say in which node they came up."""
    try:
        with holding(node_at_work, self.node.id):
            return original(self, *args, **kwargs)
    except LoopError as error:
        if _work.get() != NOTHING:
            in_node(error, self.node.id)
            if isinstance(error, IterationError) and (hint := _of_texts(self.node, str(error))):
                error.args = (f"{error}{hint}", *error.args[1:])
        raise
    except Exception as error:
        let_through(error)
        if _work.get() == NOTHING:
            raise
        what = _message(error) or type(error).__name__
        what += _of_texts(self.node, what)
        failed = IterationError(f"MDF node {self.node.id!r} failed in MDF's engine: {what}")
        failed.mdf_node = self.node.id  # type: ignore[attr-defined]
        raise failed from error


def _of_texts(node: Any, said: str) -> str:
    """A hint where a node fails at what reads an input port whose default is a text."""
    for port in node.input_ports:
        if isinstance(text := number_or(port), str) and re.search(rf"(?<!\w){re.escape(port.id)}(?!\w)", said):
            return f"; input {port.id!r} is the text {text[:40]!r}, not a number"
    return ""


def refuse_graph(graph: Any) -> None:
    """Look at what a graph says, before MDF's engine has it; nothing to look at in a trusted model.

    Raises
    ------
    MalformedBody, UnsupportedOp
    """
    refuse_unimplemented(graph)
    if not is_guarded():
        return
    _refuse_ports(graph)
    for _, said in ports_of_many(graph):
        warn_user(said)
    refuse_conditions(graph)
    try:
        refuse_unlisted(graph)
    except (MalformedBody, UnsupportedOp) as error:
        raise _with_hint(error) from None


def _refuse_ports(graph: Any) -> None:
    """MDF's engine fills every input port with zeros at first, whatever comes later, and takes any text as ``reduce``."""
    elements = 0
    for node in graph.nodes:
        for port in node.input_ports:
            refuse_reduction(port, (graph.id, node.id, port.id))
            if isinstance(port.shape, list | tuple) and all(isinstance(length, int) for length in port.shape):
                elements += elements_of(port.shape)
                if elements > MOST_IN_PORTS:
                    what = f"its shapes ask for more than {MOST_IN_PORTS} elements in all input ports"
                    raise MalformedBody(
                        f"{what}; options(trusted=True) allows them for a model that you trust", (graph.id, node.id, port.id)
                    )
