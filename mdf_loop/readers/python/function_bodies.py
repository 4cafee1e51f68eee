"""``mdf_loop.body``: Python functions as bodies, and loops inside them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.errors import ArgumentError, KindError, LoopError, MalformedBody, calling_callers, let_through, warn_user
from mdf_loop.ir import Body
from mdf_loop.ir.well_formed import check_body
from mdf_loop.kernels import load_kernels
from mdf_loop.options import public
from mdf_loop.readers.arguments import arranged, is_read
from mdf_loop.readers.expressions.equation_texts import equations_in, is_equations, within
from mdf_loop.readers.expressions.equations import TAU, reads_tau
from mdf_loop.readers.expressions.expression_text import ANY_FUNCTION
from mdf_loop.readers.expressions.values import BodyBuilder, Findings, Number, Value
from mdf_loop.readers.mdf.control_functions import Control, add_control
from mdf_loop.readers.onnx.opsets import DEFAULT_OPSET
from mdf_loop.readers.python import surroundings
from mdf_loop.readers.python.instead import LATER, NUMPYS, in_python, instead
from mdf_loop.readers.python.tracing import CONSTANTS, Trace, Traced, TracedVariable, current
from mdf_loop.readers.python.two_readings import line_of, reached, refuse_changing
from mdf_loop.system.threads import holding
from mdf_loop.types.fitting import as_tensor


class TracedFunction:
    """A Python function that is read as a body; called as a function it is what it was."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self._constants, self._changes = function, surroundings.Snapshot(), 0
        functools.update_wrapper(self, function)

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **named)

    def __get__(self, owner: Any, kind: Any = None) -> TracedFunction:
        """A method has its ``self`` as Python gives it; other functions in a class stay what they are."""
        is_method = owner is not None and next(iter(inspect.signature(self.function).parameters), "") == "self"
        return TracedFunction(self.function.__get__(owner, kind)) if is_method else self

    def to_body(self) -> Body:
        """The function as a body, read now: twice, to see that nothing in it changes from call to call."""
        with _prints_held(self.function):
            made, trace = traced_body(self.function)
            refuse_changing(made, trace, lambda: traced_body(self.function)[0])
        return made

    @property
    def changes(self) -> int:
        """How often numbers and arrays outside were found changed: the body has them as constants, and is read again then."""
        found = surroundings.constants(self.function)
        if surroundings.changed(self._constants, found):
            self._constants, self._changes = found, self._changes + 1
        return self._changes

    def __reduce__(self) -> Any:
        """Without what is outside, but so that a model with it is another one when that has changed."""
        return TracedFunction, (self.function,), {"_changes": self.changes}

    def __repr__(self) -> str:
        return f"<traced function {self.__name__}>"  # type: ignore[attr-defined]


@public
def body(function: Callable[..., Any]) -> TracedFunction:
    """Turn a Python function into a body that is read before the loop, instead of called in each iteration.

    The function is called, twice, with values that record numpy's operators and functions, indices, and loops of mdf_loop.  The
    recorded body is planned, compiled, and written to ONNX and MDF like any other.  Numbers and arrays from outside the
    function become constants.

    Parameters
    ----------
    function : callable
        For a Loop ``(i, cond, *carried, **captured) -> (cond, *carried, *collected)``, for a Scan ``(*carried, *parts) ->
        (*carried, *collected)``.  Each positional parameter is an input, each keyword-only parameter is captured: its default is
        used where a call does not give it.  A default that is no number and no array stays Python's.

    Returns
    -------
    TracedFunction
        Give it as ``body=``.  ``body.noise()``, ``body.uniform()``, ``body.normal(mean, spread)`` and ``body.poisson(rate)`` draw
        random numbers inside, with the arguments that they have in equations.

    Raises
    ------
    KindError
        It is not a function, or has ``*args`` or ``**kwargs``.

    Notes
    -----
    If the function branches on a computed value (``if x > 0:``), or converts it to a Python number, an error names the line
    and says what to write instead.

    Examples
    --------
    >>> import mdf_loop, numpy as np
    >>> @mdf_loop.body
    ... def newton(i, go, x, *, a):
    ...     better = (x + a / x) / 2
    ...     return np.abs(better - x) > 1e-12, better, better
    >>> root, guesses = mdf_loop.loop(None, True, 1.0, body=newton, a=9.0)
    >>> print(root, len(guesses))
    3.0 7
    """
    if not callable(function):
        meant = "; equations are no function: give them as body=" if isinstance(function, str) else ""
        raise KindError(f"body takes a function; got {type(function).__name__}{meant}")
    if inspect.iscoroutinefunction(function):
        raise KindError(f"body takes a function; {_name(function)} is async: write def, a body cannot wait for anything")
    if inspect.isgeneratorfunction(function):
        raise KindError(f"body takes a function; {_name(function)} is a generator: write return in the place of yield")
    _parameters(function)
    return TracedFunction(function)


def noise(like: Any = None) -> Any:
    """Random numbers of the standard normal distribution inside a traced function: one, or as many as ``like`` has."""
    return _drawn("randn", "normal", like)


def uniform(like: Any = None, high: Any = None, size: Any = None) -> Any:
    """Random numbers between 0 and 1 inside a traced function: one, or as many as ``like`` has.

    ``uniform(low, high)`` draws as many as these have, between them.
    """
    return _drawn("rand", "uniform", like) if high is None else _tracing(size).add("numpy.random.uniform", [like, high])


def normal(mean: Any, spread: Any, size: Any = None) -> Any:
    """Normally distributed random numbers inside a traced function, as many as both have."""
    return _tracing(size).add("numpy.random.normal", [mean, spread])


def poisson(rate: Any, size: Any = None) -> Any:
    """Poisson distributed random numbers inside a traced function, as many as the rate has."""
    return _tracing(size).add("numpy.random.poisson", [rate])


body.noise, body.uniform, body.normal, body.poisson = map(public, (noise, uniform, normal, poisson))  # type: ignore[attr-defined,arg-type]


def _tracing(size: Any = None) -> Trace:
    """The function that is read, which draws without a size."""
    here = current.get()
    if here is None:
        raise ArgumentError("body.noise and its kin draw inside functions with @mdf_loop.body, while they are read")
    if size is not None:
        raise here.refused(f"draws with a size; as many numbers are drawn as the arguments have: add np.zeros({size!r}) to one")
    return here


def _drawn(alone: str, alike: str, like: Any = None) -> Any:
    here = _tracing()
    if like is None:
        return here.add(f"numpy.random.{alone}", [])
    if isinstance(like, bool | int | float | tuple):
        raise here.refused(f"draws as many numbers as {like!r} has; give an array, such as np.zeros(3), and scale what it gives")
    return here.add(f"numpy.random.{alike}", [here.add("numpy.zeros_like", [like])])


@contextlib.contextmanager
def _prints_held(function: Callable[..., Any]) -> Iterator[None]:
    """What a function prints while it is read is shown once, with a warning; nothing of one that is refused."""
    if "print" not in surroundings.names_in(surroundings.function_of(function).__code__):
        yield
        return
    with contextlib.redirect_stdout(io.StringIO()) as held:
        yield
    if said := held.getvalue():
        sys.stdout.write("".join(dict.fromkeys(said.splitlines(keepends=True))))
        warn_user(
            f"{_name(function)} prints once, while it is read, and not in each iteration; to see values of each, return them "
            "behind the carried values: they are collected"
        )


def traced_body(function: Callable[..., Any]) -> tuple[Body, Trace]:
    """A function as a body, and what was noted on the way: captured values of a function around it."""
    load_kernels()
    inputs, captured, defaults = _parameters(function)
    findings, code, before = Findings(), surroundings.function_of(function).__code__, surroundings.snapshot(function)

    def called() -> tuple[Trace, Any]:
        trace = Trace(BodyBuilder(findings, inputs, captured, DEFAULT_OPSET), code, current.get())
        given = {name: TracedVariable(Value(name, varies=False), trace) for name in captured}
        try:
            with holding(current, trace), calling_callers():
                returned = function(*(TracedVariable(Value(name), trace) for name in inputs), **given)
        except Exception as error:
            let_through(error)
            if type(error) is NameError and str(error).startswith("name "):
                is_module = error.name in {*sys.stdlib_module_names, *sys.modules}
                meant = f"import {error.name} first" if is_module else _GIVEN.format(_name(function), error.name)
                error.args = (f"{trace.place(line_of(trace, error))}: {error}; {meant}",)
            if trace.refusal is None and Traced.__name__ in str(error) and not isinstance(error, LoopError):
                said = str(error).replace(TracedVariable.__name__, "a value of the loop")
                frame, line = reached(trace, error)
                cure = (frame and instead(frame)) or f"{NUMPYS}; {ANY_FUNCTION}"
                what = f"gives values {LATER}, where numbers are needed ({said}); {cure}"
                raise trace.refused(what, line) from error
            if trace.refusal is None or isinstance(error, LoopError):
                raise
        if trace.refusal is not None:
            raise trace.refusal from None
        return trace, returned

    def read() -> tuple[Body, Trace]:
        trace, returned = called()
        _refuse_changes(function, before, trace, called)
        return _finished(trace, _name(function), returned), trace

    made, trace = findings.settled(read)
    unread = tuple(name for name in captured if name not in made.captures)
    defaults = {name: value for name, value in defaults.items() if name not in unread}
    return check_body(replace(made, defaults=defaults, unread=unread), (_name(function),)), trace


_GIVEN = "a value that the loop is given by name is a parameter: def {0}(i, go, ..., *, {1})"


def _refuse_changes(function: Any, before: surroundings.Snapshot, trace: Trace, again: Callable[[], Any]) -> None:
    """See that reading a function changed nothing outside, but for what it keeps to be faster.

    Raises
    ------
    TracedBranch
        It draws random numbers, or changes a list, a variable or anything else: once, and not in each iteration.
    """
    if (line := surroundings.line_of_generator(function)) is not None:
        raise trace.refused(f"makes a generator, which draws the same random numbers in every iteration; {in_python('')}", line)
    if not surroundings.changed(before, surroundings.snapshot(function)):
        return
    name, line = surroundings.line_of_change(function, again)
    if name and surroundings.is_stream(surroundings.snapshot(function)[name][0][0]):
        said = "draws random numbers while it is read: the same ones in every iteration"
        raise trace.refused(f"{said}; {in_python(trace.text(line))}", line)
    if name:
        raise trace.refused(
            f"changes {name!r}, which is outside: that happened once, when the function was read, not in each iteration. Set it "
            "back; return what each iteration should give, behind the carried values, and it is collected",
            line,
        )


def _finished(trace: Trace, name: str, returned: Any) -> Body:
    """The body, from what the function returned."""
    values = returned if isinstance(returned, tuple | list) else (returned,)
    for value in values:
        if not isinstance(value, Traced | CONSTANTS):
            said = "None" if value is None else f"a {type(value).__name__}"
            wanted = "return the condition, the carried values, then what is collected"
            raise MalformedBody(f"{name}: {trace.returned()} returns {said}; {wanted}")
    builder, results = trace.builder, []
    builder.place = trace.returned()
    for k, given in enumerate(values):
        value = builder.array(trace.value(given), f"result {k}")
        results.append(builder.tensor(value, f"result_{k}", floating=value.number >= Number.FLOAT))
    made = builder.finish(name, results)
    return replace(made, places={**dict.fromkeys(made.outputs, builder.place), **made.places})


def _parameters(function: Callable[..., Any]) -> tuple[list[str], list[str], dict[str, Any]]:
    """The inputs and the captured values of a function, and the defaults of these; what is no tensor is left to Python."""
    inputs: list[str] = []
    captured: list[str] = []
    defaults = dict[str, Any]()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise KindError(
                f"a traced body names its parameters: {_name(function)} has {parameter}; write def f(i, go, x, *, rate)"
            )
        if parameter.kind is not parameter.KEYWORD_ONLY:
            inputs.append(name)
        elif parameter.default is parameter.empty or isinstance(parameter.default, _TENSORS):
            captured.append(name)
        if isinstance(parameter.default, _TENSORS):
            defaults[name] = as_tensor(parameter.default, f"the default of {name!r}")
    return inputs, captured, defaults


_TENSORS = (bool, int, float, complex, np.ndarray, np.generic, list)
"""What a default may be that a call, a node of MDF or a sweep can replace."""


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__).strip("<>")


def is_traced(*values: Any) -> bool:
    """Whether a loop is one inside a traced function: one of its values is traced, or its body may read one that is."""
    if current.get() is None:
        return False
    parts = [part for value in values for part in (value if isinstance(value, tuple | list) else (value,))]
    return any(isinstance(part, Traced | TracedFunction) or (callable(part) and not is_read(part)) for part in parts)


def traced_loop(m: Any, cond: Any, carried: Sequence[Any], source: Any, named: Mapping[str, Any]) -> Any:
    """``mdf_loop.loop`` inside a traced function: a node with a body."""
    source, carried, named = _by_place(source, len(carried), "loop", carried, named)
    return _control("Loop", [m, cond, *carried], {"body": (source, len(carried), "loop")}, {}, named)


def traced_scan(inputs: Sequence[Any], n_scanned: int, attrs: Mapping[str, Any], source: Any, named: Mapping[str, Any]) -> Any:
    """``mdf_loop.scan`` inside a traced function."""
    source, inputs, named = _by_place(source, len(inputs) - n_scanned, "scan", inputs, named)
    bodies = {"body": (source, len(inputs) - n_scanned, "scan")}
    return _control("Scan", list(inputs), bodies, {"num_scan_inputs": n_scanned, **attrs}, named)


def traced_if(cond: Any, branches: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """``mdf_loop.if_`` inside a traced function."""
    return _control("If", [cond], {key: (source, 0, "branch") for key, source in branches.items()}, {}, named)


def _control(
    op: str, inputs: Sequence[Any], sources: Mapping[str, tuple[Any, int, str]], attrs: dict[str, Any], named: Mapping[str, Any]
) -> Any:
    """Add a node with bodies to the function that is being traced."""
    here = current.get()
    assert here is not None  # is_traced said so
    bodies: dict[str, Body] = {}
    given = {name: here.value(value) for name, value in named.items()}
    for key, (source, n_carried, kind) in sources.items():
        found, captured = _inner(source, n_carried, kind)
        given |= captured
        bodies[key] = found.closed(given)
    values = [None if value is None else here.value(value) for value in inputs]
    missing = [name for found in bodies.values() for name in found.captures if name not in given]
    if missing:
        raise here.refused(f"starts a {op} whose body reads {missing[0]!r} from outside: give it by name, {missing[0]}=...")
    made = Control(op, op.lower(), values, bodies, attrs, here.code.co_name)
    return here.wrap(add_control(here.builder, made, given.__getitem__))


def _by_place(
    source: Any, n_carried: int, kind: str, given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    """A body that is read, and its values in its order; what Python calls takes them by place."""
    if callable(source):
        return source, given, named
    from mdf_loop.readers import read

    made = read(within(source, named), n_carried, kind)
    _warn_of_tau(within(source, named))
    return made, *arranged(made.inputs[2:] if kind == "loop" else made.inputs, given, named, made.captures, kind)


def _warn_of_tau(source: Any) -> None:
    if is_equations(source) and reads_tau(equations_in(source)):
        warn_user(f"equations: {TAU}")


def _inner(source: Any, n_carried: int, kind: str) -> tuple[Body, Mapping[str, Value]]:
    """A body inside a traced function, and what it captures of that one; a plain function is traced too."""
    from mdf_loop.readers import read

    if isinstance(source, TracedFunction):
        source = source.function
    if isinstance(source, Traced | int | float | None):
        raise current.get().refused(f"gives a value where a {kind} is a function: lambda: value")  # type: ignore[union-attr]
    if callable(source) and not is_read(source):
        made, trace = traced_body(source)
        return made, trace.captured
    _warn_of_tau(source)
    return read(source, n_carried, kind), {}
