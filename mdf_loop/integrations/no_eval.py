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
import functools
import inspect
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
    did_you_mean,
    in_node,
    in_words,
    let_through,
    malformed,
    shortened,
)
from mdf_loop.integrations.evaluator import arithmetic, compute
from mdf_loop.kernels.arrays.bounds import elements_of, refuse_elements, total
from mdf_loop.options import current_options
from mdf_loop.readers.expressions.expression_text import names_in, number_in, tree_if_any
from mdf_loop.readers.expressions.function_calls import MODULES
from mdf_loop.readers.mdf.engine_body import refuse_unimplemented, refuse_unlisted
from mdf_loop.readers.mdf.input_ports import default_value_of, refuse_cycle
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


def runs_body() -> bool:
    """Whether MDF's engine runs the body of a loop now."""
    return _work.get() == BODY


def around(ours: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What a function of MDF's engine is replaced with: ``ours``, which takes the original first, then its arguments."""

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def replaced(*args: Any, **kwargs: Any) -> Any:
            return ours(original, *args, **kwargs)

        replaced.is_ours = True  # type: ignore[attr-defined]
        return replaced

    return functools.update_wrapper(replacing, ours)


def _message(error: Exception) -> str:
    return shortened(" ".join(str(error).split()), LONGEST)


def replacements(execution_engine: Any) -> list[tuple[Any, str, Any]]:
    """What is replaced in MDF's engine for this: (owner, attribute, new value)."""
    graph, node, port, out = (getattr(execution_engine, f"Evaluable{name}") for name in ("Graph", "Node", "Input", "Output"))
    return [
        (execution_engine, "evaluate_params_modelspec", _by_the_list(execution_engine.evaluate_params_modelspec)),
        (execution_engine, "actr_funcs", Listed(execution_engine.actr_funcs)),
        (
            execution_engine,
            "get_required_variables_from_expression",
            _whole(execution_engine.get_required_variables_from_expression),
        ),
        (graph, "evaluate_edge", _weighing(graph.evaluate_edge)),
        (node, "evaluate", naming(node.evaluate)),
        (out, "evaluate", _naming_port(out.evaluate)),
        (port, "evaluate", _reading_numbers(port.evaluate)),
        (port, "set_input_value", _reducing(port.set_input_value)),
    ]


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
            for owner, name, value in replacements(execution_engine):
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


@around
def _whole(original: Callable[..., Any], expr: Any) -> list[str]:
    """What an expression reads, by Python's grammar: MDF cuts it at brackets, and cannot read ``f(x[0])`` then.

    By the list numpy is ``np`` too, which MDF does not know.
    """
    if not isinstance(expr, str):
        return []
    tree = tree_if_any(expr)
    return original(expr) if tree is None else [name for name in names_in(tree) if not (_work.get() and name in MODULES)]


@around
def _by_the_list(
    original: Callable[..., Any], expr: Any, parameters: dict[str, Any] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """``modelspec.utils.evaluate``, as MDF's engine calls it: by the list where the engine works on our behalf."""
    if not is_guarded() or "Tensor" in type(expr).__name__:
        known = {"np": np, "linalg": np.linalg} if _work.get() == TRUSTED else {}
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
        said = f"{_message(error) or type(error).__name__}{_of_one_result(text, scope)}{inside_a_body(error, scope)}"
        raise IterationError(f"expression {shortened(text, LONGEST)!r} cannot be evaluated: {said}") from error


def _of_one_result(text: str, scope: Mapping[str, Any]) -> str:
    """A hint where an element is taken of a number: who counts on several results, and there is one."""
    found = re.fullmatch(r"\s*(\w+)\[\d+\]\s*", text)
    is_number = found is not None and np.ndim(scope.get(found[1], ())) == 0
    return f"; a loop with one result is that result: write {found[1]}" if found is not None and is_number else ""


def _with_hint(error: MalformedBody | UnsupportedOp) -> MalformedBody | UnsupportedOp:
    """The error with what ``trusted`` does, unless it says what to write."""
    return type(error)(f"{error}{HINT}") if _work.get() == MODEL and not _WRITTEN.search(str(error)) else error


_WRITTEN = re.compile(r"; (?:write|did you mean|.* is written) ")


class Listed:
    """A module of functions for models, of which those that it exports can be looked up by a model."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattribute__(self, name: str) -> Any:
        module = object.__getattribute__(self, "_module")
        if is_guarded() and name not in module.__all__:
            raise MalformedBody(f"there is no function {name!r} in {module.__name__}")
        return getattr(module, name)


@around
def _weighing(original: Callable[..., Any], self: Any, edge: Any, *args: Any, **kwargs: Any) -> None:
    """``EvaluableGraph.evaluate_edge``: what a weight makes of a value has a bound."""
    weight = (edge.parameters or {}).get("weight", 1)
    if not is_guarded() or (type(weight) in (int, float) and weight == 1):
        return original(self, edge, *args, **kwargs)
    value = self.enodes[edge.sender].evaluable_outputs[edge.sender_port].curr_value
    try:
        weighed = arithmetic("multiply", weight, value)
    except Exception as error:
        let_through(error)
        raise IterationError(f"the weight of edge {edge.id!r}: {_message(error)}") from error
    self.enodes[edge.receiver].evaluable_inputs[edge.receiver_port].set_input_value(weighed)


@around
def _reducing(original: Callable[..., Any], self: Any, value: Any) -> None:
    """``EvaluableInput.set_input_value``: what is added or multiplied at a port has a bound."""
    reduce, growing = getattr(self.input_port, "reduce", None), (int, str, list, tuple)
    if is_guarded() and reduce in ("add", "multiply") and isinstance(self.curr_value, growing) and isinstance(value, growing):
        arithmetic(reduce, self.curr_value, value)
    original(self, value)


TEXTS = ("string", "str", "text")
"""Types of ports whose default may be a text."""


def number_or(port: Any) -> Any:
    """The default of an input port; a text that is a number is that number, unless the port declares a text."""
    value = default_value_of(port)
    number = number_in(value) if isinstance(value, str) and (port.type or "").lower() not in TEXTS else None
    return value if number is None else number


@around
def _reading_numbers(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableInput.evaluate``: the same for defaults in MDF's engine."""
    value = original(self, *args, **kwargs)
    is_default = is_guarded() and isinstance(value, str) and value is default_value_of(self.input_port)
    return number_or(self.input_port) if is_default else value


@around
def _naming_port(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableOutput.evaluate``: errors say at which port they came up."""
    try:
        return original(self, *args, **kwargs)
    except LoopError as error:
        if _work.get() != NOTHING:
            error.add_note(f"in output port {self.output_port.id!r}")
        raise


@around
def naming(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """``EvaluableNode.evaluate``: errors say in which node they came up."""
    try:
        return original(self, *args, **kwargs)
    except LoopError as error:
        if _work.get() != NOTHING:
            in_node(error, self.node.id)
        raise
    except Exception as error:
        let_through(error)
        if _work.get() == NOTHING:
            raise
        what = _message(error) or type(error).__name__
        failed = IterationError(f"MDF node {self.node.id!r} failed in MDF's engine: {what}")
        failed.mdf_node = self.node.id  # type: ignore[attr-defined]
        raise failed from error


def refuse_graph(graph: Any) -> None:
    """Look at what a graph says, before MDF's engine has it; nothing to look at in a trusted model.

    Raises
    ------
    MalformedBody, UnsupportedOp
    """
    refuse_unimplemented(graph)
    if not is_guarded():
        return
    _refuse_shapes(graph)
    refuse_conditions(graph)
    try:
        refuse_unlisted(graph)
    except (MalformedBody, UnsupportedOp) as error:
        raise _with_hint(error) from None


def _refuse_shapes(graph: Any) -> None:
    """MDF's engine fills every input port with zeros at first, whatever comes later."""
    elements = 0
    for node in graph.nodes:
        for port in node.input_ports:
            if isinstance(port.shape, list | tuple) and all(isinstance(length, int) for length in port.shape):
                elements += elements_of(port.shape)
                if elements > MOST_IN_PORTS:
                    what = f"its shapes ask for more than {MOST_IN_PORTS} elements in all input ports"
                    raise MalformedBody(
                        f"{what}; options(trusted=True) allows them for a model that you trust", (graph.id, node.id, port.id)
                    )


_TIME = re.compile(r"\s*[-+]?[\d.]+([eE][-+]?\d{1,3})?\s*\w*\s*")


def refuse_conditions(graph: Any) -> None:
    """See that the conditions of a graph are conditions of graph-scheduler; MDF calls whatever has their name.

    Raises
    ------
    MalformedBody
        One is not, or is given what it does not take.
    """
    for place, condition in conditions_of(graph):
        refuse_condition(condition, place)


def refuse_condition(condition: Any, path: tuple[str, ...]) -> None:
    """The same for one condition, and all those inside it."""
    if isinstance(condition, list | tuple):
        for part in condition:
            refuse_condition(part, path)
        return
    if isinstance(condition, Mapping):
        kind, given = condition.get("type"), condition.get("kwargs")
    else:
        kind, given = getattr(condition, "type", None), getattr(condition, "kwargs", None)
    if kind is None:
        return
    known = _conditions()
    found = known.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise MalformedBody(f"graph-scheduler has no condition {kind!r}{did_you_mean(kind, known)}", path)
    if not isinstance(given, Mapping):
        return
    for key, value in given.items():
        if key == "n" and not _is_count(value):
            raise MalformedBody(f"n of {kind} must be a whole number from 0 on; got {in_words(value)}", path)
        if isinstance(value, str):
            _refuse_text(value, kind, key, path)
        else:
            refuse_condition(value, path)
    _refuse_keywords(kind, found, given, path)


def _is_count(value: Any) -> bool:
    """Whether a value is a whole number from 0 on, as int or as float."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_number and bool(value >= 0 and value % 1 == 0)


def conditions_of(graph: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The conditions of a graph, each with the names that lead to it."""
    for kind in ("node_specific", "termination"):
        for name, condition in (getattr(graph.conditions, kind, None) or {}).items():
            yield (str(graph.id), "conditions", kind, str(name)), condition


def _refuse_keywords(kind: str, found: Any, given: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """See that a condition is given what it takes, and nothing else."""
    taken = inspect.signature(found).parameters.values()
    names = [parameter.name for parameter in taken]  # MDF hands a list to *args, too
    known = {*names, *("dependencies" for name in names if name == "dependency")}  # MDF's preferred name of it
    unknown = [name for name in given if name not in known]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        takes, meant = ", ".join(names) or "nothing", did_you_mean(unknown[0], names)
        raise MalformedBody(f"{kind} takes {takes}; unknown: {', '.join(unknown)}{meant}", path)
    said = {*given, *("dependency" for name in given if name == "dependencies")}
    needed = [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    if missing := [name for name in needed if name not in said]:
        raise MalformedBody(f"{kind} takes {', '.join(names)}; missing: {', '.join(missing)}", path)


def _conditions() -> dict[str, Any]:
    """The conditions that graph-scheduler has, by their names."""
    from graph_scheduler import condition

    named = vars(condition).items()
    return {name: found for name, found in named if isinstance(found, type) and issubclass(found, condition.ConditionBase)}


def _refuse_text(text: str, kind: str, key: str, path: tuple[str, ...]) -> None:
    from graph_scheduler.time import TimeScale
    from modeci_mdf.execution_engine import time_scale_str_regex

    scale = re.match(time_scale_str_regex, text)
    if scale is not None and hasattr(TimeScale, scale[2]) and scale[2] not in TimeScale.__members__:
        raise MalformedBody(
            f"{key} of {kind}: there is no time scale {text!r}; there are {', '.join(TimeScale.__members__)}", path
        )
    if kind.startswith("Time") and key != "unit" and not _TIME.fullmatch(text):
        raise MalformedBody(f"{key} of {kind} must be a time such as '10 ms'; got {text[:60]!r}", path)
