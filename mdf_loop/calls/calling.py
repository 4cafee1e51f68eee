"""``loop``, ``scan`` and ``if_``: arguments in, the prepared loop found, results out."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from mdf_loop.calls.callables import DOMAIN, Called, branch_body, loop_body, loop_names, name_of, scan_body, scan_names
from mdf_loop.calls.control_flow import condition, shared_length, trip_count
from mdf_loop.calls.on_device import loop_on_device
from mdf_loop.calls.prepared import (
    PreparedBranch,
    PreparedLoop,
    captured_values,
    made_once,
    prepare_branch,
    prepare_loop,
    prepare_scan,
    read_once,
    warn_of_branches,
    warn_of_equations,
)
from mdf_loop.errors import ArgumentError, KindError, did_you_mean, in_words
from mdf_loop.execute.collect import Gathered
from mdf_loop.execute.interpret import Arguments
from mdf_loop.execute.partial_results import keeping
from mdf_loop.ir import Body
from mdf_loop.options import Run, part_of, public, random_stream, start_run
from mdf_loop.readers.arguments import arranged, is_read
from mdf_loop.readers.expressions.equation_texts import equations_in, is_equations, within
from mdf_loop.readers.onnx.loop_records import SCAN_ATTRIBUTES
from mdf_loop.readers.python.function_bodies import is_traced, traced_if, traced_loop, traced_scan
from mdf_loop.system.threads import holding
from mdf_loop.types.fitting import as_tensor, as_untyped, handed_out, handed_out_partly


@public
def loop(*args: Any, body: Any = None, **named: Any) -> Any:
    """Run an ONNX Loop.

    Parameters
    ----------
    M : int, array of shape [] or [1], None or ""
        Trip count; None or "" means omitted.
    cond : bool, array of shape [] or [1], None or ""
        Condition before the first iteration; None or "" means omitted.
    *v_initial : array_like
        Initial values of the carried values.  ``M``, ``cond`` and ``v_initial`` (one value, or a tuple or
        list of them) can be keywords.  So can each carried value, with its name in the body.
    body : graph, ONNX text, path, MDF graph, dict or callable
        What runs in each iteration, see :mod:`mdf_loop.readers`.  A callable is
        ``(i, cond, *carried) -> (cond, *carried, *collected)``.
    **captured : array_like
        Outer values that the body reads, by name.

    Returns
    -------
    array, list, None or a tuple of these
        The N carried values, then the K collected values (stacked on a new axis 0).  A single result is not
        in a tuple.

    Raises
    ------
    ArgumentError
        M, cond, the carried values or the captures do not fit the body.
    MalformedBody, UnsupportedOp
        The body cannot be read, or uses an operator that has no kernel.
    IterationError
        A node failed.  ``.partial`` and ``.iteration`` have the results so far.
    IterationLimit, LoopTimeout
        ``options(max_iterations=...)`` or ``options(timeout=...)`` was reached.
    LoopInterrupted
        Ctrl-C.

    Notes
    -----
    ONNX operator Loop, versions 1 to 25.

    Examples
    --------
    >>> import mdf_loop
    >>> total, squares = mdf_loop.loop(4, True, 10, body=lambda i, go, y: (True, y + i, y * y))
    >>> total, squares
    (array(16), array([100, 100, 121, 169]))
    """
    m, cond, carried, is_listed = _loop_arguments(list(args), named)
    required(body, "loop", "body", named, [m, cond, *carried])
    if is_traced(m, cond, *carried, *named.values(), body):
        return traced_loop(m, cond, carried, body, named)
    return run_loop(m, cond, carried, body, named, is_listed)


def run_loop(m: Any, cond: Any, carried: list[Any], body: Any, named: dict[str, Any], is_listed: bool = False) -> Any:
    """:func:`loop` with its arguments separated: captures may have any name here, ``M`` and ``cond`` too.

    ``is_listed`` says that the carried values came as one tuple or list, which may mean one vector.
    """
    prepared, arguments = prepared_loop(m, cond, carried, body, named, is_listed)
    warn_of_equations(body, prepared.record.body, named, run := start_run())
    prepared.endless.refuse(arguments, run)
    return results_of(prepared, arguments, run)


def prepared_loop(
    m: Any, cond: Any, carried: list[Any], body: Any, named: dict[str, Any], is_listed: bool = False
) -> tuple[PreparedLoop, Arguments]:
    """What :func:`run_loop` runs: the loop and its arguments."""
    if is_callable(body):
        inner = made_once(loop_body, name_of(body), loop_names(body, len(carried), named), tuple(named))
        values = changeable([as_untyped(value, f"carried value {k}") for k, value in enumerate(carried)])
        captured = [*_untyped(named), Called(body)]
        arguments = Arguments(trip_count(m), condition(cond), [*values, Gathered()], captured=captured)
        return prepare_loop(inner, len(carried) + 1), arguments
    inner = read_once(within(body, named) if named else body, len(carried), "loop")
    carried, named = _arranged(inner, m, cond, carried, named, is_listed)
    prepared = prepare_loop(inner, len(carried))
    return prepared, prepared.arguments(carried, named, m, cond)


@public
def scan(*inputs: Any, body: Any = None, num_scan_inputs: int | None = None, **named: Any) -> Any:
    """Run an ONNX Scan (opset 9 and later).

    Parameters
    ----------
    *inputs : array_like
        Initial values of the carried values, then the scanned inputs.
    body : graph, ONNX text, path, MDF graph, dict or callable
        A callable is ``(*carried, *parts) -> (*carried, *collected)``.
    num_scan_inputs : int
        The number of scanned inputs; equations say it themselves, ``scan: u``.
    scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions : sequence of int
        As in ONNX: axes default to 0, directions are 0 (forward) or 1 (reverse).
    **captured : array_like
        Outer values that the body reads, by name.

    Returns
    -------
    array, list, None or a tuple of these
        The carried values, then the collected values.  A single result is not in a tuple.

    Raises
    ------
    ArgumentError, MalformedBody, UnsupportedOp, IterationError
        As :func:`loop`.

    Notes
    -----
    ONNX operator Scan, versions 9 to 25.

    Examples
    --------
    >>> import mdf_loop
    >>> total, sums = mdf_loop.scan(0, [1, 2, 3], body=lambda s, x: (s + x, s + x), num_scan_inputs=1)
    >>> total, sums
    (array(6), array([1, 3, 6]))
    """
    required(body, "scan", "body", named, inputs)
    attrs = {name: listed(name, axes) for name in SCAN_ATTRIBUTES if (axes := named.pop(name, None)) is not None}
    inner = None
    if num_scan_inputs is None and is_equations(body):
        num_scan_inputs = len(equations_in(body).scanned) or None
    if not is_callable(body):
        inner = read_once(within(body, named), _carried_by(inputs, num_scan_inputs), "scan", len(inputs))
        inputs, named = arranged(inner.inputs, inputs, named, inner.captures, "scan")  # type: ignore[assignment]
    n_scanned = _scanned_count(num_scan_inputs, len(inputs))
    n_carried = len(inputs) - n_scanned
    if is_traced(*inputs, *named.values(), body):
        return traced_scan(inputs, n_scanned, attrs, body, named)
    if inner is None:
        _refuse_output_axes(attrs)
        inner = made_once(scan_body, name_of(body), scan_names(body, n_carried, n_scanned, named), n_scanned, tuple(named))
        prepared = prepare_scan(inner, n_scanned, attrs)
        values = changeable([as_untyped(value, f"input {k}") for k, value in enumerate(inputs[:n_carried])])
        scanned = changeable([as_tensor(value, f"input {k}") for k, value in enumerate(inputs[n_carried:], n_carried)])
        carried, captured = [*values, Gathered()], [*_untyped(named), Called(body)]
        arguments = Arguments(shared_length(prepared.record, scanned), True, carried, scanned, captured=captured)
    else:
        prepared = prepare_scan(inner, n_scanned, attrs)
        arguments = prepared.arguments(inputs, named)
    warn_of_equations(body, inner, named, run := start_run())
    return results_of(prepared, arguments, run)


@public
def if_(cond: Any = None, *, then_branch: Any = None, else_branch: Any = None, **named: Any) -> Any:
    """Run an ONNX If.

    Parameters
    ----------
    cond : bool, array of shape [] or [1]
    then_branch, else_branch : graph, ONNX text, path, MDF graph, dict or callable
        What runs when the condition is true or false.  Branches have no inputs; a callable gets the captured
        values by keyword.
    **captured : array_like
        Outer values that the branches read, by name.

    Returns
    -------
    array, list, None or a tuple of these
        The outputs of the branch.  A single output is not in a tuple.

    Raises
    ------
    ArgumentError, MalformedBody, UnsupportedOp, IterationError
        As :func:`loop`.

    Notes
    -----
    ONNX operator If, versions 1 to 25.

    Examples
    --------
    >>> import mdf_loop
    >>> mdf_loop.if_(
    ...     True,
    ...     then_branch="t () => (y) { y = Neg (x) }",
    ...     else_branch="e () => (y) { y = Identity (x) }",
    ...     x=3.5,
    ... )
    array(-3.5)
    """
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    return (
        traced_if(cond, branches, named)
        if is_traced(cond, *named.values(), *branches.values())
        else run_if(cond, branches, named)
    )


def run_if(cond: Any, sources: dict[str, Any], named: dict[str, Any]) -> Any:
    """:func:`if_` with its arguments separated: captures may have any name here, ``cond`` too."""
    if _omitted(cond) is None:
        raise ArgumentError("if_: the condition cond is missing")
    for name, source in sources.items():
        required(source, "if_", name, named)
    functions = {f"the function {name}": Called(source) for name, source in sources.items() if is_callable(source)}
    branches = [_branch(source, name, named) for name, source in sources.items()]
    named = _of_same_name([branch.body for branch in branches], named, cond=cond) | functions
    known = {name for branch in branches for name in branch.body.captures}
    if unknown := sorted(set(named).difference(known, *(branch.body.unread for branch in branches))):
        raise ArgumentError(
            f"if_: no branch reads an outer value {', '.join(map(repr, unknown))}{did_you_mean(unknown[0], sorted(known))}"
        )
    for branch in branches:  # both, so that what is missing is found whichever runs
        captured_values(branch.body, {name: named[name] for name in branch.body.captures if name in named}, "if_")
    _refuse_counts(branches)
    branch, other = branches if condition(cond) else reversed(branches)
    is_function = any(node.domain == DOMAIN for node in branch.body.nodes)
    run, captured = start_run(), branch.fit(named, other)
    warn_of_branches(sources, branches, named, run)
    run.finish = handed_out_partly
    if is_function:
        changeable(captured)

    def call() -> Any:
        with np.errstate(all="ignore"), random_stream(run.stream), part_of(run):
            results = [*branch.execute((), captured, run)]
            return alone_or_all(handed_out(results.pop() if is_function else results))

    return keeping(run, call)


def _refuse_counts(branches: Sequence[PreparedBranch]) -> None:
    """See that both branches have as many outputs; those of Python functions are not known before.

    Raises
    ------
    ArgumentError
    """
    bodies = [branch.body for branch in branches]
    counts = [len(body.outputs) for body in bodies]
    if counts[0] != counts[1] and not any(node.domain == DOMAIN for body in bodies for node in body.nodes):
        raise ArgumentError(
            f"if_: both branches have the same number of outputs; then_branch has {counts[0]}, else_branch {counts[1]}"
        )


def _branch(source: Any, name: str, named: dict[str, Any]) -> PreparedBranch:
    if is_callable(source):
        return prepare_branch(made_once(branch_body, name_of(source), tuple(named), f"the function {name}"), name)
    return prepare_branch(read_once(within(source, named), 0, "branch"), name)


def _loop_arguments(given: list[Any], named: dict[str, Any]) -> tuple[Any, Any, list[Any], bool]:
    """M, cond and the carried values, and whether those came as one tuple or list."""
    m = _positional_or_named("M", given, named)
    cond = _positional_or_named("cond", given, named)
    if "v_initial" not in named:
        return m, cond, given, False
    if given:
        raise ArgumentError("loop: the carried values were given by position and as v_initial= as well")
    carried = named.pop("v_initial")
    is_listed = isinstance(carried, tuple | list)
    return m, cond, list(carried) if is_listed else [carried], is_listed


def given_arguments(args: Sequence[Any], named: dict[str, Any], body: Body) -> tuple[Any, Any, list[Any], dict[str, Any]]:
    """M, cond, the carried values and the captures of a call of a loop whose body is known."""
    m, cond, carried, is_listed = _loop_arguments(list(args), named)
    return m, cond, *_arranged(body, m, cond, carried, named, is_listed)


def _arranged(
    body: Body, m: Any, cond: Any, carried: list[Any], named: dict[str, Any], is_listed: bool
) -> tuple[list[Any], dict[str, Any]]:
    """The carried values in order, and the captures, of what a call gives."""
    carried, named = arranged(body.inputs[2:], carried, named, body.captures, "loop")
    if is_listed and len(body.inputs) == 3 and len(carried) != 1:
        carried = [carried]  # a list was meant as one vector
    return carried, _of_same_name([body], named, M=m, cond=cond)


def _positional_or_named(name: str, given: list[Any], named: dict[str, Any]) -> Any:
    if name in named:
        return _omitted(named.pop(name))
    return _omitted(given.pop(0)) if given else None


def _omitted(value: Any) -> Any:
    """None for an omitted value: None itself, or the empty string of ONNX."""
    return None if isinstance(value, str) and value == "" else value


def required(source: Any, function: str, name: str, named: Iterable[str] = (), given: Sequence[Any] = ()) -> Any:
    """A body, which must be there; ``named`` are the names of all else that was given, ``given`` what has no name.

    Raises
    ------
    ArgumentError
        It is not.
    """
    if _omitted(source) is None:
        if any(callable(value) or is_equations(value) or (isinstance(value, str) and "=>" in value) for value in given):
            values = "M, cond, *carried" if function == "loop" else "*carried, *scanned, num_scan_inputs=..."
            raise ArgumentError(f"{function}: the body is given by name: {function}({values}, body=...)")
        raise ArgumentError(
            f"{function}: {name} is missing; give equations, an ONNX graph or text, the path of an .onnx file, an MDF graph or a "
            f"Python callable as {name}={_close(name, named)}"
        )
    return source


def _close(name: str, named: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, named, 1)
    return f" ({close[0]!r} was given: is that a misspelt {name!r}?)" if close else ""


def is_callable(source: Any) -> bool:
    """Whether a body is a plain Python function; some others can be called too, but are read."""
    return callable(source) and not is_read(source)


def listed(name: str, axes: Any) -> tuple[int, ...]:
    """Axes or directions: one for each value, or one number for a single value.

    Raises
    ------
    KindError
        They are not whole numbers.
    """
    values = axes if isinstance(axes, tuple | list | np.ndarray) else (axes,)
    if not all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values):
        raise KindError(f"{name} must be whole numbers, one for each value; got {in_words(axes)}")
    return tuple(int(value) for value in values)


def _carried_by(inputs: Sequence[Any], n_scanned: Any) -> int | None:
    """How many values a Scan carries, as far as the call says that."""
    return len(inputs) - int(n_scanned) if isinstance(n_scanned, int | np.integer) and len(inputs) >= n_scanned else None


def _scanned_count(count: Any, available: int) -> int:
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 1 <= count <= available:
        raise ArgumentError(
            f"scan: num_scan_inputs must be a whole number from 1 to the {available} inputs given; got {in_words(count)}"
        )
    return int(count)


def _refuse_output_axes(attrs: dict[str, Any]) -> None:
    if named := [name for name in attrs if name.startswith("scan_output")]:
        raise ArgumentError(f"scan: {' and '.join(named)} need a graph as body; a Python body can turn what is returned itself")


def _of_same_name(bodies: list[Body], named: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """The captures, with M and cond among them where a body reads those names and nothing else was given for them."""
    read = {name for body in bodies for name in arguments if name in body.captures}
    return {**{name: arguments[name] for name in read if arguments[name] is not None}, **named} if read else named


def changeable(values: list[Any]) -> list[Any]:
    """Values that a Python body may change in place, while the caller's stay what they are."""
    handed_out(values, as_arrays=False)  # no list of the caller's, nor one of its arrays
    return values


def _untyped(named: dict[str, Any]) -> list[Any]:
    return changeable([as_untyped(value, f"value {name!r}") for name, value in named.items()])


Runner = Callable[[PreparedLoop, Arguments, Run], Any]
"""Runs a prepared loop, and gives its results as :func:`results_of` does."""

_runner: ContextVar[Runner | None] = ContextVar("mdf_loop runner", default=None)


@contextlib.contextmanager
def run_by(runner: Runner | None) -> Iterator[None]:
    """The next loop that begins is run by something else; loops inside it are not."""
    with holding(_runner, runner):
        yield


def results_of(prepared: PreparedLoop, arguments: Arguments, run: Run) -> Any:
    """Run a prepared loop; its results are handed out, and so are partial ones."""
    runner = _runner.get()
    if runner is not None:
        with run_by(None):
            return runner(prepared, arguments, run)
    if run.options.how.device and run.enclosing is None and (found := loop_on_device(prepared, arguments, run)) is not None:
        return alone_or_all(handed_out(found))
    run.finish = handed_out_partly

    def call() -> Any:
        if Gathered not in map(type, arguments.carried):
            return alone_or_all(handed_out(prepared.execute.results(arguments, run)))
        with random_stream(run.stream), part_of(run):  # loops that a Python body starts belong to this run
            return alone_or_all(handed_out(prepared.execute.results(arguments, run)))

    return keeping(run, call)


def alone_or_all(results: list[Any]) -> Any:
    """Results as a function of ours returns them: a tuple, or the value alone where there is one."""
    return tuple(results) if len(results) != 1 else results[0]
