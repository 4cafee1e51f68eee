"""A body made ready: read, its record built, its types known, compiled.  Once for each content."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any

import numpy as np

from mdf_loop.calls.content_cache import Cache, fingerprint
from mdf_loop.calls.control_flow import condition, refuse_call, shared_length, trip_count
from mdf_loop.calls.on_device import LoopAlone, OnDevice
from mdf_loop.errors import ArgumentError, KindError, MalformedBody, MissingCapture, UnsupportedOp, close_to, did_you_mean
from mdf_loop.execute.endless import Endless
from mdf_loop.execute.interpret import Arguments, InterpretedBody
from mdf_loop.execute.numpy_engine import NumpyLoop
from mdf_loop.execute.program import Hidden
from mdf_loop.ir import Body, Loop, Node, record
from mdf_loop.ops.registry import Kernel, register
from mdf_loop.ops.rows import Bound
from mdf_loop.options import Run
from mdf_loop.readers import read
from mdf_loop.readers.arguments import meant
from mdf_loop.readers.expressions.derivatives import STEP, wrong_with_step
from mdf_loop.readers.expressions.equation_texts import equations_in, is_equations
from mdf_loop.readers.expressions.equations import EQUATIONS, TAU, reads_step, reads_tau
from mdf_loop.readers.expressions.expression_text import number_in
from mdf_loop.readers.expressions.other_notations import meant_by_name
from mdf_loop.readers.expressions.values import DOMAIN
from mdf_loop.readers.onnx.loop_records import loop_record, scan_record
from mdf_loop.types.declared import check_declared_types
from mdf_loop.types.fitting import as_untyped, fit_values, other_kind, refuse_nothing
from mdf_loop.types.required import Asked, asked_types


@dataclass(frozen=True)
class PreparedLoop:
    """A loop ready to be run with values from outside."""

    record: Loop
    execute: NumpyLoop
    asked: Mapping[str, Asked]
    fitting: dict[tuple[Any, ...], tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def endless(self) -> Endless:
        """What there is to say about its end before it runs."""
        return Endless(self.record)

    @cached_property
    def on_device(self) -> OnDevice:
        """What JAX runs of it."""
        return OnDevice(f"the loop over {self.record.body.name!r}", partial(LoopAlone, self.record))

    @cached_property
    def names(self) -> list[str]:
        """The body inputs that a call gives values, in order: carried ones, then scanned ones."""
        return [*(c.input for c in self.record.carried), *(s.input for s in self.record.scanned)]

    @cached_property
    def by_default(self) -> Mapping[str, Any]:
        """What is captured where a call does not give it."""
        return {name: value for name, value in self.record.body.defaults.items() if name in self.record.body.captures}

    def arguments(self, inputs: Sequence[Any], named: Mapping[str, Any], count: Any = None, go: Any = None) -> Arguments:
        """What the loop is run with.

        Parameters
        ----------
        inputs : sequence
            Carried values, then scanned ones.
        named : mapping of str to value
            What the body captures.
        count, go : int and bool, or arrays of one, optional
            The trip count and the condition of a loop that scans nothing; a Scan takes as many iterations as there are parts.

        Raises
        ------
        ArgumentError, KindError, MissingCapture
            The values do not fit the body.
        """
        record, names = self.record, self.names
        if len(inputs) != len(names):
            given = f"{len(inputs)} value{'s' * (len(inputs) != 1)} given"
            raise ArgumentError(f"{record.name}: {given}, body {record.body.name!r} takes {len(names)}: {', '.join(names)}")
        values, captured = self._fitted(inputs, {**self.by_default, **named} if self.by_default else named)
        carried, scanned = values[: len(record.carried)], values[len(record.carried) :]
        if not record.body.typed:
            carried = [*map(_as_carried, carried)]
        if record.scanned:
            return Arguments(shared_length(record, scanned), True, carried, scanned, captured=captured)
        limit, goes = trip_count(count), condition(go)
        return Arguments(limit, True if goes is None and record.obeys else goes, carried, captured=captured)

    def _fitted(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Inputs and captures as the body asks for them; arrays and numbers of types that fitted before need no look."""
        given = [*inputs, *[named[name] for name in self.record.body.captures if name in named]] if named else [*inputs]
        kinds = [value.dtype if type(value) is np.ndarray else type(value) for value in given]
        key = (len(inputs), *kinds, *named)
        numbers = self.fitting.get(key)
        if numbers is not None:
            for k in numbers:
                given[k] = np.array(given[k])
            return given[: len(inputs)], given[len(inputs) :]
        inputs = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
        fitted, captured = self._fit(dict(zip(self.names, inputs, strict=True)), named)
        values = [fitted[name] for name in self.names]
        if all(map(_fits_whatever_it_is, given, [*values, *captured])):
            self.fitting[key] = tuple(k for k, value in enumerate(given) if type(value) is not np.ndarray)
        return values, captured

    def _fit(self, inputs: Mapping[str, Any], named: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Body inputs and captures, made into what the body asks for.

        Raises
        ------
        MissingCapture, ArgumentError, KindError
        """
        body = self.record.body
        values = {**inputs, **captured_values(body, named, self.record.name)}
        values = fit_to(body, self.asked, values)
        return values, [values[name] for name in body.captures]


def _as_carried(value: Any) -> Any:
    """A number as numpy's functions give it: an array without dimensions would be something else in the first iteration alone."""
    is_one = type(value) is np.ndarray and value.ndim == 0 and value.dtype.kind in "biuf"
    return value[()] if is_one else value


def _fits_whatever_it_is(value: Any, fitted: Any) -> bool:
    """Whether any value of the type of this one fits as this one does: an array as it is, a number as numpy's own."""
    if type(value) is np.ndarray:
        return value is fitted and not value.dtype.hasobject  # whose elements may be anything, each time
    is_number = type(value) is float or isinstance(value, np.generic)
    return is_number and type(fitted) is np.ndarray and fitted.dtype == np.asarray(value).dtype != object


@record
class PreparedBranch:
    """A branch ready to be run with values from outside."""

    body: Body
    execute: InterpretedBody
    asked: Mapping[str, Asked]

    def fit(self, named: Mapping[str, Any], other: PreparedBranch) -> list[Any]:
        """The captures, made into what this branch asks for, or the ``other`` one where this one leaves it open."""
        stated = {name: asked for name, asked in other.asked.items() if asked.dtype is not None}
        asked = {name: stated.get(name, asked) if asked.dtype is None else asked for name, asked in self.asked.items()}
        given = {**self.body.defaults, **named}
        values = fit_to(self.body, asked, {name: given[name] for name in self.body.captures})
        return [values[name] for name in self.body.captures]


_cache = Cache()
"""Bodies that were read, and the loops and branches made of them."""


def read_once(source: Any, n_carried: int | None, kind: str, count: int | None = None) -> Body:
    """Read a body, or find it read; ``count`` is how many inputs a Scan is given, where that is known."""
    if kind != "scan":
        count = 0 if kind == "branch" else None if n_carried is None else 2 + n_carried
    key = fingerprint(source)
    if key is None:
        return read(source, n_carried, kind).taking(count)
    return _cache.body((key, n_carried, kind, count), lambda: read(_own(source), n_carried, kind).taking(count))


def warn_of_equations(source: Any, body: Body, named: Mapping[str, Any], run: Run) -> None:
    """Warn, once in a run, where equations that were read as ``body`` take ``tau`` for 2 pi, or have no positive ``dt``."""
    if body.name != EQUATIONS:
        return
    if "tau" not in body.captures and _cache.prepared(
        body, "tau", lambda: is_equations(source) and reads_tau(equations_in(source))
    ):
        run.warn_once("tau", f"equations: {TAU}")
    step = named.get(STEP) if STEP in body.captures else _cache.prepared(body, "step", lambda: _written_step(source))
    if said := wrong_with_step(step):
        run.warn_once("step", f"equations: {said}")


def _written_step(source: Any) -> Any:
    """The number that is the length of a step in equations that read it; None for any other."""
    said = equations_in(source) if is_equations(source) else None
    return None if said is None or not reads_step(said) else number_in(said.let.get(STEP, ""))


def warn_of_branches(sources: Mapping[str, Any], branches: Sequence[PreparedBranch], named: Mapping[str, Any], run: Run) -> None:
    """The same of branches, and where both are equations that give values of other names, or in another order."""
    for source, branch in zip(sources.values(), branches, strict=True):
        warn_of_equations(source, branch.body, named, run)
    if any(branch.body.name != EQUATIONS for branch in branches):
        return
    pairs = zip(sources.values(), branches, strict=True)
    found = [_cache.prepared(branch.body, "names", partial(_given_names, source)) for source, branch in pairs]
    if found[0] != found[1]:
        both = " and ".join(f"{key} ({', '.join(names)})" for key, names in zip(sources, found, strict=True))
        run.warn_once("names", f"if_: {both} give other names; results are taken by their order")


def _given_names(source: Any) -> list[str]:
    """The values that a branch of equations gives."""
    said = equations_in(source) if is_equations(source) else None
    return [] if said is None else [*said.carried, *said.collected]


def _own(source: Any) -> Any:
    """An MDF graph of our own: the body that is kept under its content must not change with the one that was given."""
    is_read_into_memory = isinstance(source, str | os.PathLike | Body) or hasattr(source, "SerializeToString")
    return source if is_read_into_memory or callable(source) else copy.deepcopy(source)


def made_once(make: Callable[..., Body], *details: Hashable) -> Body:
    """A body around any Python function of a name and signature, or the one made before."""
    return _cache.body((make, details), lambda: make(*details))


def prepare_loop(body: Body, n_carried: int) -> PreparedLoop:
    """A Loop over a body that was read."""
    return _cache.prepared(body, ("Loop", n_carried), lambda: _prepare(loop_record(body, n_carried)))


def prepare_scan(body: Body, n_scanned: int, attrs: Mapping[str, Any]) -> PreparedLoop:
    """A Scan over a body that was read."""
    way = ("Scan", n_scanned, tuple((k, tuple(v)) for k, v in sorted(attrs.items())))
    return _cache.prepared(body, way, lambda: _prepare(scan_record(body, n_scanned, dict(attrs))))


def prepare_node(record: Loop) -> PreparedLoop:
    """The loop of a node over a body that was read."""
    way = tuple(getattr(record, each.name) for each in fields(record) if each.name != "body")
    return _cache.prepared(record.body, way, lambda: _prepare(record))


class CalledLoop:
    """A loop that something beside its graph calls as ``mdf_loop.loop``: values are fitted to its body then."""

    def __init__(self, prepared: PreparedLoop) -> None:
        self.prepared, self.record, self.execute = prepared, prepared.record, prepared.execute
        self.first = self.record.n_inputs  # where captured values begin

    def arguments(self, run: Run, *values: Any) -> Arguments:
        """What the loop is run with, of what the node is given."""
        named = dict(zip(self.record.body.captures, values[self.first :], strict=True))
        given = self.prepared.arguments(values[2 : self.first], named, values[0], values[1])
        self.prepared.endless.refuse(given, run)
        return given


def _bind_called(node: Node) -> Bound:
    if node.loop is None:
        raise UnsupportedOp(f"{node.name or node.op}: this operator is made by mdf_loop, a model cannot have it")
    call: Any = CalledLoop(prepare_node(node.loop))
    return Bound(call, needs_run=True, loop=call.record)


register(Kernel("Loop", 1, refuse_call, pure=False, domain="mdf", bind=_bind_called))


def _prepare(record: Loop) -> PreparedLoop:
    execute = NumpyLoop(record)  # finds what is wrong with nodes, so it comes first
    pairs = [(c.input, c.output) for c in record.carried]
    check_declared_types(record.body, pairs)
    return PreparedLoop(record, execute, asked_types(record.body, pairs) if record.body.typed else {})


def prepare_branch(body: Body, name: str) -> PreparedBranch:
    """A branch of an If that was read."""
    if body.inputs:
        raise MalformedBody(f"{name} has inputs ({', '.join(body.inputs)}); a branch has none, it only captures")
    return _cache.prepared(body, "branch", lambda: _prepare_branch(body))


def _prepare_branch(body: Body) -> PreparedBranch:
    execute = InterpretedBody(body)  # finds what is wrong with nodes, so it comes first
    check_declared_types(body)
    return PreparedBranch(body, execute, asked_types(body) if body.typed else {})


def fit_to(body: Body, asked: Mapping[str, Asked], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with the types a typed body asks for; as they are for an untyped one."""
    refuse_nothing(body, values)
    if body.typed:
        return fit_values(asked, values)
    if any(type(value) is list and not value for value in values.values()) and _is_of_arrays(body):
        values = {n: np.array(value) if type(value) is list and not value else value for n, value in values.items()}
    untyped = {n: value if isinstance(value, Hidden) else as_untyped(value, f"value {n!r}") for n, value in values.items()}
    for name, value in untyped.items():
        declared = body.type_of(name)
        if (dtype := other_kind(value, declared)) is not None:
            raise KindError(f"value {name!r} must be {declared.dtype}, as body {body.name!r} declares it; got {dtype.name}")
    return untyped


def _is_of_arrays(body: Body) -> bool:
    """Whether a body computes with arrays alone, so that an empty list is one: other operators may take it for a sequence."""
    return all(
        all(_is_of_arrays(inner) for _, inner in node.bodies) if node.bodies else node.domain == DOMAIN for node in body.nodes
    )


def captured_values(body: Body, named: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a body captures, out of the values given by name.

    Raises
    ------
    MissingCapture
        The body reads an outer value that was not given.
    ArgumentError
        A value was given that the body does not read.
    """
    missing = [name for name in body.captures if name not in named and name not in body.defaults]
    if missing:
        one, hint = len(missing) == 1, _not_computed(body, missing) or _misspelt(body, missing, named)
        error = MissingCapture(
            f"{where}: body {body.name!r} reads {_listed(missing)} from outside, which {'was' if one else 'were'} not given; "
            f"give {'it' if one else 'them'} by name, such as loop(..., {missing[0]}=...), or in MDF as a port or parameter of "
            f"the node (given: {_listed(named) if named else 'none'}){hint}"
        )
        error.missing = tuple(missing)
        raise error
    if unknown := [name for name in named if name not in (*body.captures, *body.unread)]:
        raise ArgumentError(
            f"{where}: body {body.name!r} reads no outer value {_listed(unknown)}; it reads "
            f"{_listed(body.captures) if body.captures else 'none'}{meant(unknown[0], body.captures)}"
        )
    return {name: named[name] for name in body.captures if name in named}


def _misspelt(body: Body, missing: Sequence[str], named: Mapping[str, Any]) -> str:
    """A hint where a name is probably misspelt: where it is given, or in the body, which has names of its own."""
    for name in missing:
        close = close_to(name, [given for given in named if given not in body.captures])
        if close and (len(name) > 1 or close[0].lower() == name.lower()):
            return f"; {close[0]!r} is given, and the body does not read it: which of the two is misspelt?"
        inside = [*named_in(body), *body.places]
        if hint := meant_by_name(name, inside) if body.name == EQUATIONS else did_you_mean(name, inside):
            return hint
    return ""


def named_in(body: Body) -> list[str]:
    """The names that a body gives its values, but for those that only we gave."""
    made = [name for node in body.nodes for name in node.outputs]
    return [name for name in (*body.inputs, *made) if name and "~" not in name and not name.endswith("_next")]


def _not_computed(body: Body, missing: Sequence[str]) -> str:
    """A hint where nothing was meant to be captured: outputs that no node of a body computes, and what looks like a constant."""
    if missing[0].lower() in ("true", "false") and body.name != EQUATIONS:
        value = int(missing[0].lower() == "true")
        return (
            f"; {missing[0]} is a name like any other here: <bool {missing[0]} = {{{value}}}> in front of the nodes makes it one"
        )
    found = [name for name in missing if name in body.outputs]
    if not found or not body.typed:
        return ""
    is_passed = found[0] == body.outputs[0] and len(body.inputs) > 1
    passed = f", or name the input {body.inputs[1]!r} there to pass it through" if is_passed else ""
    hint = f"{_listed(found)} {'is an output' if len(found) == 1 else 'are outputs'} of the body that no node of it computes"
    return f"; {hint}: add the node that does{passed}"


def _listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in names)
