"""The table of kernels and the decorator that fills it.

The built-in kernels and a user's own go through the same door::

    from mdf_loop import kernel
    from mdf_loop.ops.batching import elementwise

    @kernel("Twice", domain="my.ops", batch=elementwise)
    def twice(x):
        return x + x
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody, UnsupportedOp, let_through, warn_user
from mdf_loop.ir import Node, record
from mdf_loop.ops.rooms import refuse_missing
from mdf_loop.ops.rows import NO_FACTS, Bound, Call, Definition, Facts
from mdf_loop.options import Run
from mdf_loop.types.schemas import schema_of

Batch = Callable[[Call, Sequence[Any], Sequence[bool], Mapping[str, Any]], tuple[tuple[Any, ...], tuple[bool, ...]] | None]
"""A vectorisation rule, see :mod:`mdf_loop.ops.batching`."""

INTERNAL_DOMAINS = {"mdf", "mdf.engine", "openvino", "python", "record"}
"""Domains of what is not an ONNX operator: MDF expressions and engine, OpenVINO layers, Python functions, finished records."""

INJECTED = {"rng", "n_outputs"}
"""Keyword-only parameters that the executor fills in: not attributes of the operator."""


@record
class Kernel:
    """How one operator runs, from one opset on.

    Attributes
    ----------
    since : int
        First version of the domain this function is right for.
    run : callable
        ``run(*inputs, **attrs)``: a tuple is several outputs, anything else is one.
    batch : rule or None
        How to run all iterations at once; None means one at a time, never an error.
    pure : bool
        False: not hoisted, not batched, not shared.
    bind : callable or None
        Makes the function that runs one particular node, where binding its attributes is not enough
        (control flow compiles its bodies here).
    native : bool
        False for kernels borrowed from onnx.reference.
    prepare : callable or None
        ``prepare(**attrs)`` is called once for a node; what it gives is the only keyword, ``prepared``, of ``run``.
    takes : (int, int or None)
        The least and the most inputs; None has no limit.
    definition : Definition or None
        The same in terms of primitives, see :func:`definition`.
    routine : Definition or None
        The same, written into memory that is used again, see :func:`routine`.
    said : (Facts, callable) or None
        What is known of it besides, and of which function that was said, see :func:`say`.
    built_in : bool
        Whether it is one of ours.
    """

    op: str
    since: int
    run: Call
    batch: Batch | None = None
    pure: bool = True
    domain: str = ""
    bind: Callable[[Node], Bound] | None = None
    native: bool = True
    parameters: frozenset[str] = field(default=frozenset())
    takes_any_attribute: bool = False
    prepare: Call | None = None
    takes: tuple[int, int | None] = (0, None)
    built_in: bool = False
    definition: Definition | None = None
    routine: Definition | None = None
    said: tuple[Facts, Call] | None = None

    @property
    def facts(self) -> Facts:
        """What is known of this function: nothing, if it took the place of another one."""
        return self.said[0] if self.said is not None and self.said[1] is self.run else NO_FACTS

    @property
    def define(self) -> Call | None:
        """The definition, if it is that of this function: a function that took the place of another has none yet."""
        return self.definition.make if self.definition is not None and self.definition.run is self.run else None

    @property
    def make_routine(self) -> Call | None:
        """What makes a routine, if it is one of this function."""
        return self.routine.make if self.routine is not None and self.routine.run is self.run else None


OLDER_THAN_ITSELF = {("", "LayerNormalization"): 17}
"""Operators that others run in models of versions without them, by (domain, op): the first version that has them."""

KERNELS: dict[tuple[str, str], list[Kernel]] = {}
"""All kernels by (domain, op), oldest first."""

SAID_BY_OTHERS: set[tuple[str, str]] = set()
"""Operators, by (domain, op), whose kernels or what is known of them others than this package have said, at any time."""

_changes = 0


def kernel(
    op: str,
    *,
    since: int = 1,
    batch: Batch | None = None,
    pure: bool | None = None,
    domain: str = "",
    prepare: Call | None = None,
) -> Callable[[Call], Call]:
    """Register a function as the kernel of an ONNX operator.

    The signature is the schema.  Positional parameters are the inputs in ONNX's order; an omitted input is None, and inputs
    at the end may be missing.  Keyword-only parameters are the attributes, with ONNX's names and defaults.  Two keyword-only
    names have a special meaning: ``rng`` (the numpy Generator of the run) and ``n_outputs`` (the number of outputs that the
    node names).

    Parameters
    ----------
    op : str
        ONNX name of the operator.
    since : int
        First opset of this function.  A model uses the newest function that is not above its own opset.
    batch : rule, optional
        Rule of :mod:`mdf_loop.batching` that computes all iterations of a loop in one call.
    pure : bool, optional
        Whether equal inputs give equal outputs.  The default is False if the function has the parameter ``rng``.
    domain : str
        Operator domain; "" is ONNX's own.
    prepare : callable, optional
        A function of the attributes (keyword-only parameters).  It is called once for each node.  The kernel gets its result
        as the keyword ``prepared`` in every call, instead of the attributes.

    Returns
    -------
    callable
        A decorator that returns the function unchanged.

    Examples
    --------
    >>> import mdf_loop
    >>> @mdf_loop.kernel("Twice", domain="my.ops")
    ... def twice(x):
    ...     return x + x
    >>> versions = '<ir_version: 10, opset_import: ["": 18, "my.ops": 1]>'
    >>> text = f"{versions} body (int64 i, bool c, float x) => (bool c, float y) {{ y = my.ops.Twice (x) }}"
    >>> mdf_loop.loop(3, True, 1.0, body=text)
    array(8., dtype=float32)
    """

    ours = _is_ours(sys._getframe(1).f_globals.get("__name__"), domain, op)

    def decorate(run: Call) -> Call:
        # The keywords of a ufunc (out, where, dtype, ...) are numpy's, not attributes.
        parameters = [] if isinstance(run, np.ufunc) else list(inspect.signature(run).parameters.values())
        attributes = list(inspect.signature(prepare).parameters.values()) if prepare else parameters
        names = frozenset(p.name for p in attributes if p.kind is p.KEYWORD_ONLY)
        register(
            Kernel(
                op,
                since,
                run,
                batch,
                pure=("rng" not in names) if pure is None else pure,
                domain=domain,
                parameters=names,
                takes_any_attribute=any(p.kind is p.VAR_KEYWORD for p in attributes),
                prepare=prepare,
                takes=(run.nin, run.nin) if isinstance(run, np.ufunc) else _positional(parameters),
                built_in=ours,
            )
        )
        return run

    return decorate


def definition(op: str, *, since: int = 1, until: int | None = None, domain: str = "", why: str = "") -> Callable[[Call], Call]:
    """Say what an operator computes in terms of primitives, beside its kernel, and why its kernel does not say it.

    The function gets a builder, then the operator's inputs (None for an omitted one) and attributes as its kernel does,
    and returns what the builder made, see :mod:`mdf_loop.step.build`.  It holds for the kernels there are from version
    ``since`` on and before ``until``; a kernel that takes the place of one of them has none until it gets its own.

    Examples
    --------
    >>> import mdf_loop
    >>> from mdf_loop.ops.registry import definition
    >>> @mdf_loop.kernel("Half", domain="my.ops")
    ... def half(x):
    ...     return x / 2
    >>> @definition("Half", domain="my.ops")
    ... def half_of_one(b, x):
    ...     return b.div(x, 2)
    """

    return _beside("definition", op, since, until, domain, why)


def routine(op: str, *, since: int = 1, until: int | None = None, domain: str = "") -> Callable[[Call], Call]:
    """Say how an operator works in memory that is used again, for inputs of known types, beside its kernel.

    The function gets the types of the inputs (None for an omitted one), the type of the result and the attributes.  It gives
    a function without arguments, which makes the memory and gives ``write(*inputs, out)``; or None where the kernel does as well.
    """
    return _beside("routine", op, since, until, domain)


def _beside(fact: str, op: str, since: int, until: int | None, domain: str, why: str = "") -> Callable[[Call], Call]:
    """Put something into the rows of the kernels there are from one version on and before another."""

    def decorate(make: Call) -> Call:
        rows = _rows(op, since, until, domain, _is_ours(make.__module__, domain, op))
        _put(rows, [replace(row, **{fact: Definition(make, row.run, why)}) for row in rows])  # type: ignore[arg-type]
        return make

    return decorate


def say(op: str, *, since: int = 1, until: int | None = None, domain: str = "", **facts: Any) -> None:
    """Say what is known of an operator besides what it computes, see :class:`Facts`.

    It holds for the kernels there are from version ``since`` on and before ``until``, besides what was said before; of a
    kernel that takes the place of one of them nothing is known until it is said again.

    Examples
    --------
    >>> import mdf_loop
    >>> from mdf_loop.ops.registry import say
    >>> @mdf_loop.kernel("Same", domain="my.ops")
    ... def same(x):
    ...     return x
    >>> say("Same", domain="my.ops", alias=lambda x: True)
    """
    rows = _rows(op, since, until, domain, _is_ours(sys._getframe(1).f_globals.get("__name__"), domain, op))
    _put(rows, [replace(row, said=(replace(row.facts, **facts), row.run)) for row in rows])


def facts(node: Node) -> Facts:
    """What is known of a node's operator; nothing of one there is no kernel for."""
    try:
        return lookup(node.op, node.opset, node.domain).facts
    except UnsupportedOp:
        return NO_FACTS


def _is_ours(module: str | None, domain: str, op: str) -> bool:
    """Whether a module that says something of an operator is one of this package; it is kept of which ones others do."""
    if (module or "").partition(".")[0] == __name__.partition(".")[0]:
        return True
    SAID_BY_OTHERS.add((domain, op))
    return False


def _rows(op: str, since: int, until: int | None, domain: str, ours: bool) -> list[Kernel]:
    """The rows from one version on and before another; what we say ourselves is said of our own kernels alone."""
    versions = KERNELS[domain, op]
    return [v for v in versions if v.since >= since and (until is None or v.since < until) and (v.built_in or not ours)]


def _put(rows: Sequence[Kernel], changed: Sequence[Kernel]) -> None:
    """Rows of one operator in the place of others."""
    for row, new in zip(rows, changed, strict=True):
        versions = KERNELS[row.domain, row.op]
        versions[next(k for k, v in enumerate(versions) if v is row)] = new
    lookup.cache_clear()


def _positional(parameters: Sequence[inspect.Parameter]) -> tuple[int, int | None]:
    """The least and the most positional arguments a function takes."""
    named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in named)
    return least, None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(named)


def register(entry: Kernel) -> None:
    """Put a kernel into the table; one of the same version takes the place of the older entry."""
    global _changes
    versions = KERNELS.setdefault((entry.domain, entry.op), [])
    versions[:] = sorted([v for v in versions if v.since != entry.since] + [entry], key=lambda v: v.since)
    lookup.cache_clear()
    _changes += 1
    _is_ours(sys._getframe(1).f_globals.get("__name__"), entry.domain, entry.op)


_outside: dict[Hashable, tuple[Callable[[], Any], Any]] = {}


def watch(key: Hashable, get: Callable[[], Any], value: Any) -> None:
    """Count it as a change of the table when ``get()`` is another object: a kernel that was traced was made of ``value``."""
    _outside[key] = get, value


def changes() -> int:
    """How often the table has changed: code that keeps kernels it looked up asks whether they still hold."""
    global _changes
    if _outside and any(get() is not value for get, value in list(_outside.values())):
        _outside.clear()
        _changes += 1
    return _changes


@lru_cache(maxsize=4096)
def lookup(op: str, opset: int, domain: str = "") -> Kernel:
    """The newest kernel of ``op`` that is not above ``opset``.

    Raises
    ------
    UnsupportedOp
        There is no kernel of that name, or only for later versions; or the room that has it was taken out.
    """
    domain = "" if domain == "ai.onnx" else domain
    versions = KERNELS.get((domain, op), [])
    chosen = [v for v in versions if v.since <= opset]
    if chosen:
        return chosen[-1]
    full_name = f"{domain}::{op}" if domain else op
    if versions:
        raise UnsupportedOp(f"{full_name} exists from version {versions[0].since} on, not in version {opset} of its domain")
    refuse_missing(op, domain)
    close = difflib.get_close_matches(op, [name for where, name in KERNELS if where == domain], n=1, cutoff=0.8)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    how = f'@mdf_loop.kernel("{op}", domain="{domain}") above a function of its inputs' if domain else "mdf_loop.kernel"
    raise UnsupportedOp(
        f"there is no kernel for {full_name}, version {opset} of its domain{meant}; "
        f"{how} adds one, `mdf-loop ops` lists those there are"
    )


def version_of(op: str, opset: int, domain: str = "") -> int:
    """The version in which an operator of a model is read: the model's, as a rule.

    Exporters write a few operators into models that are older than the operator (:data:`OLDER_THAN_ITSELF`), and
    onnxruntime runs these; they are read in their first version, with a warning.
    """
    first = first_version(op, opset, domain)
    if opset < first:
        warn_user(
            f"{op} exists from version {first} of ONNX on, but the model imports version {opset}: it is run as version {first}"
        )
    return first


def first_version(op: str, opset: int, domain: str = "") -> int:
    """The same version without the warning."""
    return max(opset, OLDER_THAN_ITSELF.get(("" if domain == "ai.onnx" else domain, op), opset))


def bind(node: Node) -> Bound:
    """Make the kernel of a node ready to be called, once per node.

    Raises
    ------
    UnsupportedOp
        No kernel, or an attribute that the kernel does not know.
    MalformedBody
        More or fewer inputs than the operator takes.
    """
    entry = lookup(node.op, node.opset, node.domain)
    if entry.bind is not None:
        return entry.bind(node)
    unknown = sorted(set(node.attrs) - (entry.parameters - INJECTED)) if node.attrs else ()
    if unknown and not entry.takes_any_attribute:
        raise UnsupportedOp(
            f"{node.op}, version {node.opset} of its domain, has no attribute {', '.join(unknown)}; "
            f"it takes {', '.join(sorted(entry.parameters - INJECTED)) or 'none'}{_since_inputs(node, unknown)}"
        )
    _check_inputs(node, *entry.takes)
    attrs = _keywords(entry, node)
    if "rng" in entry.parameters:
        drawn = partial(entry.run, **attrs) if attrs.get("seed") is None else None
        return Bound(_drawing(entry.run, attrs), needs_run=True, drawn=drawn, keywords=attrs)
    return Bound(partial(entry.run, **attrs) if attrs else entry.run, keywords=attrs)


def _since_inputs(node: Node, names: Sequence[str]) -> str:
    """Which of these attributes of older versions are inputs in the version of a node, and how that is written."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    inputs = _inputs(schema := schema_of(node.op, node.opset, domain))
    if not (moved := next((name for name in names if name in inputs), "")):
        return ""
    since = schema.since_version
    while moved in _inputs(schema_of(node.op, since - 1, domain)):
        since = schema_of(node.op, since - 1, domain).since_version
    operands = ", ".join(inputs[: inputs.index(moved) + 1])
    return (
        f". Since version {since} {moved} is an input: {node.op} ({operands}), where {moved} may be a constant such as "
        f"<int64[1] {moved} = {{0}}> in front of the nodes"
    )


def _inputs(schema: Any) -> list[str]:
    return [value.name for value in schema.inputs] if schema is not None else []


def _keywords(entry: Kernel, node: Node) -> dict[str, Any]:
    """What a kernel's function is given beside the inputs."""
    attrs = dict(node.attrs)
    if "n_outputs" in entry.parameters:
        attrs["n_outputs"] = len(node.outputs)
    if entry.prepare is None:
        return attrs
    try:
        return {"prepared": entry.prepare(**attrs)}
    except Exception as error:
        let_through(error)
        raise MalformedBody(f"the attributes of {node.op} do not say what to compute: {error}") from error


def _check_inputs(node: Node, least: int, most: int | None) -> None:
    """A ufunc would take one input too many for the array to write into."""
    given = len(node.inputs)
    while given and not node.inputs[given - 1]:
        given -= 1
    if given < least or (most is not None and given > most):
        count = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        inputs = "input" if count == "1" else "inputs"
        raise MalformedBody(f"{node.op}, version {node.opset} of its domain, takes {count} {inputs}; the node has {given}")


def _drawing(run: Call, attrs: dict[str, Any]) -> Call:
    """A random kernel that takes its numbers from the run's stream, or from its own seed's."""
    seed = attrs.get("seed")
    identity = object()  # one generator per node and run, also when two nodes look the same

    def call(context: Run, *inputs: Any) -> Any:
        stream = context.stream
        rng = stream.shared() if seed is None else stream.own(identity, seed)
        return run(*inputs, rng=rng, **attrs)

    return call
