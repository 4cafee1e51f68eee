"""The table of kernels and the decorator that fills it.

The built-in kernels and a user's own go through the same door::

    from mdf_loop import kernel
    from mdf_loop.batching import elementwise

    @kernel("Twice", domain="my.ops", batch=elementwise)
    def twice(x):
        return x + x
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.errors import MalformedBody, UnsupportedOp, warn_user
from mdf_loop.ir import Body, Loop, Node
from mdf_loop.options import Run
from mdf_loop.schemas import schema_of

Call = Callable[..., Any]
Batch = Callable[[Call, Sequence[Any], Sequence[bool], Mapping[str, Any]], tuple[tuple[Any, ...], tuple[bool, ...]] | None]
"""A vectorisation rule, see :mod:`mdf_loop.batching`."""

INTERNAL_DOMAINS = {"mdf", "mdf.engine", "openvino", "python", "record"}
"""Domains of what is not an ONNX operator: MDF expressions and engine, OpenVINO layers, Python functions, finished records."""

INJECTED = {"rng", "n_outputs"}
"""Keyword-only parameters that the executor fills in: not attributes of the operator."""


@dataclass(frozen=True)
class Definition:
    """What a kernel's function computes, said in another way, for the function ``run``."""

    make: Call
    run: Call


@dataclass(frozen=True)
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
    built_in : bool
        Whether it is one of ours: only those may be known by the name of their operator, see :func:`known_as`.
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

    @property
    def define(self) -> Call | None:
        """The definition, if it is that of this function: a function that took the place of another has none yet."""
        return self.definition.make if self.definition is not None and self.definition.run is self.run else None

    @property
    def make_routine(self) -> Call | None:
        """What makes a routine, if it is one of this function."""
        return self.routine.make if self.routine is not None and self.routine.run is self.run else None


@dataclass(frozen=True)
class LoopInputs:
    """A node that is a loop: its record, and at which of the node's inputs trip count, condition and values stand.

    ``worth`` says for how many iterations it is worth running them one by one; more are better planned.
    """

    loop: Loop
    count: int | None
    condition: int | None
    carried: slice
    scanned: slice
    worth: Callable[[], int]


@dataclass(frozen=True)
class Bound:
    """A kernel made ready for one node: ``call(*inputs)``, or ``call(run, *inputs)`` if ``needs_run``.

    Control flow also says what it is made of: ``loop``, or the two ``branches`` of an If.  ``keywords`` are what ``call`` gives
    the kernel's function beside the inputs: a rule for many iterations needs them.
    """

    call: Call
    needs_run: bool = False
    loop: LoopInputs | None = None
    branches: tuple[Body, Body] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)


OLDER_THAN_ITSELF = {("", "LayerNormalization"): 17}
"""Operators that others run in models of versions without them, by (domain, op): the first version that has them."""

KERNELS: dict[tuple[str, str], list[Kernel]] = {}
"""All kernels by (domain, op), oldest first."""

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

    The signature is the schema: positional parameters are the inputs in ONNX's order (an omitted one
    arrives as None, trailing ones may be missing), keyword-only parameters are the attributes with
    ONNX's names and defaults.  Two keyword-only names are filled in by the executor: ``rng`` (the run's
    numpy Generator) and ``n_outputs`` (how many outputs the node names).

    Parameters
    ----------
    op : str
        ONNX name of the operator.
    since : int
        First opset this function is right for; the newest that is not above the model's is used.
    batch : rule, optional
        Rule of :mod:`mdf_loop.batching` that runs all iterations of a loop at once.
    pure : bool, optional
        Whether equal inputs give equal outputs; by default false if the function takes ``rng``.
    domain : str
        Operator domain; "" is ONNX's own.
    prepare : callable, optional
        Takes the attributes in place of the function, as keyword-only parameters, and is called once for each node;
        what it returns is given to every call as the keyword ``prepared``.

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

    ours = (sys._getframe(1).f_globals.get("__name__") or "").startswith(f"{__package__}.")

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


def definition(op: str, *, since: int = 1, until: int | None = None, domain: str = "") -> Callable[[Call], Call]:
    """Say what an operator computes in terms of primitives, beside its kernel.

    The function gets a builder, then the operator's inputs (None for an omitted one) and attributes as its kernel does,
    and returns what the builder made, see :mod:`mdf_loop.step.build`.  It holds for the kernels there are from version
    ``since`` on and before ``until``; a kernel that takes the place of one of them has none until it gets its own.

    Examples
    --------
    >>> import mdf_loop
    >>> from mdf_loop.registry import definition
    >>> @mdf_loop.kernel("Half", domain="my.ops")
    ... def half(x):
    ...     return x / 2
    >>> @definition("Half", domain="my.ops")
    ... def half_of_one(b, x):
    ...     return b.div(x, 2)
    """

    return _beside("definition", op, since, until, domain)


def routine(op: str, *, since: int = 1, until: int | None = None, domain: str = "") -> Callable[[Call], Call]:
    """Say how an operator works in memory that is used again, for inputs of known types, beside its kernel.

    The function gets the types of the inputs (None for an omitted one), the type of the result and the attributes.  It gives
    a function without arguments, which makes the memory and gives ``write(*inputs, out)``; or None where the kernel does as well.
    """
    return _beside("routine", op, since, until, domain)


def _beside(fact: str, op: str, since: int, until: int | None, domain: str) -> Callable[[Call], Call]:
    """Put a fact into the rows of the kernels there are from one version on and before another."""

    def decorate(make: Call) -> Call:
        versions = KERNELS[domain, op]

        def is_meant(v: Kernel) -> bool:
            return v.since >= since and (until is None or v.since < until)

        versions[:] = [replace(v, **{fact: Definition(make, v.run)}) if is_meant(v) else v for v in versions]  # type: ignore[arg-type]
        return make

    return decorate


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
    _changes += 1
    _known_as.cache_clear()


def changes() -> int:
    """How often the table has changed: whoever keeps kernels that were looked up asks whether they still hold."""
    return _changes


def known_as(node: Node) -> tuple[str, str]:
    """The domain and name under which others than its kernel may know what a node does.

    Whoever computes an operator in another way (an idiom, a definition, a second name for the same value) asks here
    what a node is.  An operator whose kernel is not the built-in one is nobody's: its domain and name are then
    ``("?", "")``.
    """
    return _known_as(node.op, node.opset, node.domain)


def operator(node: Node) -> str:
    """ONNX's operator that a node is, as :func:`known_as` has it; empty for anything else."""
    domain, op = known_as(node)
    return op if domain == "" else ""


@functools.lru_cache(4096)
def _known_as(op: str, opset: int, domain: str) -> tuple[str, str]:
    domain = "" if domain == "ai.onnx" else domain
    try:
        return (domain, op) if lookup(op, opset, domain).built_in else ("?", "")
    except UnsupportedOp:
        return "?", ""


def lookup(op: str, opset: int, domain: str = "") -> Kernel:
    """The newest kernel of ``op`` that is not above ``opset``.

    Raises
    ------
    UnsupportedOp
        There is no kernel of that name, or only for later versions.
    """
    domain = "" if domain == "ai.onnx" else domain
    versions = KERNELS.get((domain, op), [])
    chosen = [v for v in versions if v.since <= opset]
    if chosen:
        return chosen[-1]
    full_name = f"{domain}::{op}" if domain else op
    if versions:
        raise UnsupportedOp(f"{full_name} exists from version {versions[0].since} on, not in version {opset} of its domain")
    close = difflib.get_close_matches(op, [name for where, name in KERNELS if where == domain], n=1, cutoff=0.8)
    meant = f" (did you mean {close[0]}?)" if close else ""
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
    unknown = sorted(set(node.attrs) - (entry.parameters - INJECTED))
    if unknown and not entry.takes_any_attribute:
        raise UnsupportedOp(
            f"{node.op}, version {node.opset} of its domain, has no attribute {', '.join(unknown)}; "
            f"it takes {', '.join(sorted(entry.parameters - INJECTED)) or 'none'}{_since_inputs(node, unknown)}"
        )
    _check_inputs(node, *entry.takes)
    attrs = _keywords(entry, node)
    if "rng" in entry.parameters:
        return Bound(_drawing(entry.run, attrs, node), needs_run=True, keywords=attrs)
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
        raise MalformedBody(f"the attributes of {node.op} do not say what to compute: {error}") from error


def _check_inputs(node: Node, least: int, most: int | None) -> None:
    """A ufunc would take one input too many for the array to write into."""
    given = max((k + 1 for k, name in enumerate(node.inputs) if name), default=0)
    if given < least or (most is not None and given > most):
        count = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        inputs = "input" if count == "1" else "inputs"
        raise MalformedBody(f"{node.op}, version {node.opset} of its domain, takes {count} {inputs}; the node has {given}")


def _drawing(run: Call, attrs: dict[str, Any], node: Node) -> Call:
    """A random kernel that takes its numbers from the run's stream, or from its own seed's."""
    seed = attrs.get("seed")
    identity = object()  # one generator per node and run, also when two nodes look the same

    def call(context: Run, *inputs: Any) -> Any:
        stream = context.stream
        rng = stream.shared() if seed is None else stream.own(identity, seed)
        return run(*inputs, rng=rng, **attrs)

    return call
