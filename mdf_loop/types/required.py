"""Which element type each input and capture of a typed body must have.

Numbers that come from MDF have no type of their own.  What a body declares, and what the operators that
read a value ask for (the type variables of their schemas), says what a number has to become.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.ir import Body, Loop, Node, ValueType, record
from mdf_loop.types.elements import DTYPES, NAMES
from mdf_loop.types.schemas import signature_of

Key = tuple[int, str]
"""A name in one body: the number of the body, then the name (inner bodies may shadow)."""


@dataclass
class Groups:
    """Values that must have one element type, with what is known of it."""

    parent: dict[Key, Key] = field(default_factory=dict)
    dtype: dict[Key, np.dtype] = field(default_factory=dict)
    allowed: dict[Key, frozenset[np.dtype]] = field(default_factory=dict)
    sequence: set[Key] = field(default_factory=set)
    bodies: int = 0
    contradictions: list[tuple[Key, np.dtype, np.dtype]] = field(default_factory=list)

    def find(self, key: Key) -> Key:
        """The representative of a value's group."""
        parent = self.parent
        while (up := parent.get(key)) is not None:
            above = parent.get(up)
            if above is None:
                return up
            parent[key] = key = above
        return key

    def unite(self, keys: Iterable[Key]) -> None:
        """These values have one element type."""
        first, *others = dict.fromkeys(map(self.find, keys))
        for other in others:
            self.parent[other] = first
            if other in self.dtype:
                self.know(other, self.dtype[other])
            if other in self.allowed:
                self.allow(first, self.allowed[other])

    def operate(self, node: Node, keys: list[Key]) -> None:
        """These operands and results of a node, two or more, have one element type."""
        self.unite(keys)

    def know(self, key: Key, dtype: np.dtype | None) -> None:
        """This value's element type is known: the first one that is counts, another one is a contradiction."""
        if dtype is None:
            return
        known = self.dtype.setdefault(self.find(key) if key in self.parent else key, dtype)
        if known is not dtype and known != dtype:
            self.contradictions.append((key, known, dtype))

    def allow(self, key: Key, dtypes: frozenset[np.dtype]) -> None:
        """This value's element type is one of these."""
        root = self.find(key)
        self.allowed[root] = (self.allowed[root] & dtypes) if root in self.allowed else dtypes

    def hold(self, key: Key, value: Any) -> None:
        """This value is a constant."""
        if isinstance(value, np.ndarray | np.generic):
            self.know(key, value.dtype)

    def declare(self, body: Body, scope: Mapping[str, Key]) -> None:
        """Add what a body declares of its values; ``scope`` has their keys."""
        for name, kind in body.types.items():
            if name in scope:
                self.know(scope[name], element_dtype(kind))

    def go_round(self, body: Body, scope: Mapping[str, Key], pairs: Iterable[tuple[str, str]]) -> None:
        """These inputs of a body, which was visited, are in the next iteration what these outputs are."""
        for pair in pairs:
            self.unite(scope[name] for name in pair)

    def leave(self, body: Body, scope: Mapping[str, Key]) -> None:
        """All of a body has been visited, and nothing around it is joined to its outputs yet."""


@record
class Asked:
    """What is asked of one input or capture.

    Attributes
    ----------
    dtype : numpy.dtype or None
        The element type it must have, where the body says it.
    group : object
        Values with the same group must come to one type.
    allowed : frozenset of numpy.dtype, or None
        Types that all its readers take.
    sequence : bool
        It is a sequence of tensors.
    """

    dtype: np.dtype | None
    group: Any
    allowed: frozenset[np.dtype] | None
    sequence: bool


def contradictions(body: Body, carried: Iterable[tuple[str, str]] = ()) -> list[tuple[str, np.dtype, np.dtype]]:
    """Values of a typed body for which two element types are known: by what is declared, and by what computes or reads them.

    Parameters
    ----------
    body : Body
    carried : iterable of (input, output)
        Pairs of carried body values, which have one type.

    Returns
    -------
    list of (name, dtype, dtype)
        Each value once, with the type that is declared, or was known first, and the other one.
    """
    groups = Groups()
    groups.go_round(body, visit_body(groups, body, {}), carried)
    return list({name: (name, known, other) for (_, name), known, other in groups.contradictions}.values())


def asked_types(body: Body, carried: Iterable[tuple[str, str]] = ()) -> dict[str, Asked]:
    """What a typed body asks of its inputs and captures.

    Parameters
    ----------
    body : Body
    carried : iterable of (input, output)
        Pairs of carried body values, which have one type.
    """
    groups = Groups()
    groups.go_round(body, visit_body(groups, body, {}), carried)
    sequences = {groups.find(key) for key in groups.sequence}
    asked = {}
    for name in (*body.inputs, *body.captures):
        root, kind = groups.find((0, name)), body.type_of(name)
        declared = element_dtype(kind)  # of two types that branches have, that of the value itself
        dtype = groups.dtype.get(root) if declared is None else declared
        asked[name] = Asked(dtype, root, groups.allowed.get(root), _is_sequence(kind) or root in sequences)
    return asked


def _is_sequence(kind: ValueType) -> bool:
    return kind.kind == "sequence" or (kind.element is not None and _is_sequence(kind.element))


def element_dtype(kind: ValueType) -> np.dtype | None:
    """The element type of the tensors in a value, however deep in sequences and optionals."""
    return kind.dtype if kind.element is None else element_dtype(kind.element)


def visit_body(groups: Groups, body: Body, outer: dict[str, Key]) -> dict[str, Key]:
    """Add a body's nodes to the groups; ``outer`` maps names of the enclosing scopes."""
    number, groups.bodies = groups.bodies, groups.bodies + 1
    scope = dict(outer)
    scope |= {name: outer.get(name, (number, name)) for name in body.captures}
    local = (*body.inputs, *body.constants, *(s.input for s in body.state), *[o for n in body.nodes for o in n.outputs])
    scope |= {name: (number, name) for name in local}
    groups.declare(body, scope)
    for name, value in body.values.items():
        groups.hold(scope[name], value)
    for node in body.nodes:
        _visit_node(groups, node, scope)
    groups.leave(body, scope)
    return scope


def _visit_node(groups: Groups, node: Node, scope: dict[str, Key]) -> None:
    if bodies := node.bodies:
        if node.loop is not None:
            _visit_loop(groups, node, node.loop, scope)
            return
        if node.domain == "" and node.op == "If":
            _visit_if(groups, node, scope)
            return
        for _, inner in bodies:
            visit_body(groups, inner, scope)
    names = node.inputs + node.outputs
    tied, says = _tied(node.op, node.opset, node.domain, len(node.inputs), len(node.outputs))
    for places, dtypes, are_sequences in tied:
        if keys := [scope[names[k]] for k in places if names[k]]:
            if len(keys) > 1:
                groups.operate(node, keys)
            if are_sequences:
                groups.sequence.update(keys)
            if len(dtypes) == 1:
                groups.know(keys[0], *dtypes)
            elif dtypes:
                groups.allow(keys[0], dtypes)
    if says and node.outputs and node.outputs[0]:
        groups.know(scope[node.outputs[0]], said_type(node))


Tied = tuple[Sequence[int], frozenset[np.dtype], bool]
"""Places among inputs and then outputs, the element types that these may have, and whether they are sequences."""


@functools.lru_cache(maxsize=4096)
def _tied(op: str, opset: int, domain: str, inputs: int, outputs: int) -> tuple[Sequence[Tied], bool]:
    """What has one element type by an operator's schema, for so many inputs and outputs; whether an attribute may say one."""
    signature = signature_of(op, opset, domain)
    if signature is None:
        return (), False
    variables: dict[str, list[int]] = {}
    for first, count, formals in ((0, inputs, signature.inputs), (inputs, outputs, signature.outputs)):
        formals = formals[:count] + formals[-1:] * (count - len(formals))
        for place, variable in enumerate(formals, first):
            if variable:
                variables.setdefault(variable, []).append(place)
    tied = tuple((places, *_element_types(signature.allowed.get(name, (name,)))) for name, places in variables.items())
    return tied, bool(signature.saying) or "value" in signature.attributes


def _element_types(types: tuple[str, ...]) -> tuple[frozenset[np.dtype], bool]:
    """Element types in strings such as ``tensor(float)``, and whether all of them are sequences."""
    found = [dtype for dtype in map(_element_type, types) if dtype is not None]
    return frozenset(found), all(text.startswith("seq(") for text in types)


@functools.lru_cache(maxsize=1024)
def _element_type(text: str) -> np.dtype | None:
    return NAMES.get(text[text.rfind("(") + 1 :].split(")")[0])


def said_type(node: Node) -> np.dtype | None:
    """The element type of a node's first output, where an attribute says it: a type, or a tensor that fills the output."""
    signature = signature_of(node.op, node.opset, node.domain)
    if signature is None or node.domain not in ("", "ai.onnx"):
        return None
    for name in signature.saying:
        code = node.attrs.get(name, signature.attributes[name].default)
        if isinstance(code, int | np.integer) and code in DTYPES:
            return DTYPES[int(code)]
    filler = signature.attributes.get("value")
    if filler is None or filler.kind != "TENSOR" or not signature.inputs:
        return None
    return getattr(node.attrs.get("value"), "dtype", None) if "value" in node.attrs else DTYPES[1]


def _visit_loop(groups: Groups, node: Node, loop: Loop, scope: dict[str, Key]) -> None:
    count, condition, carried, scanned, invariant, _ = loop.split(node.inputs)
    inner = visit_body(groups, loop.body, scope)
    if not loop.unlimited:  # OpenVINO has other integers for it too
        for name, dtype in ((count, DTYPES[7]), (condition, DTYPES[9])):
            if name:
                groups.know(scope[name], dtype)
    if loop.index:
        groups.know(inner[loop.index], DTYPES[7])
    groups.go_round(loop.body, inner, ((c.input, c.output) for c in loop.carried))
    within = [*(c.input for c in loop.carried), *(s.input for s in loop.scanned), *loop.invariant]
    pairs = [*zip((*carried, *scanned, *invariant), within, strict=True), *zip(node.outputs, loop.results, strict=False)]
    for outside, name in pairs:
        if outside:
            groups.unite([scope[outside], inner[name]])


def _visit_if(groups: Groups, node: Node, scope: dict[str, Key]) -> None:
    if node.inputs and node.inputs[0]:
        groups.know(scope[node.inputs[0]], DTYPES[9])
    for _, branch in node.bodies:
        inner = visit_body(groups, branch, scope)
        for outside, name in zip(node.outputs, branch.outputs, strict=False):
            if outside:
                groups.unite([scope[outside], inner[name]])
