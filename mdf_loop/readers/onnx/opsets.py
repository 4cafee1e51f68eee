"""Versions of operators: those a model imports, those that are not said, and those of a function that imports others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import onnx

from mdf_loop.errors import MalformedBody, UnsupportedOp, warn_user
from mdf_loop.ir import Body, Node, record
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import INTERNAL_DOMAINS, KERNELS, first_version, lookup, version_of
from mdf_loop.types.schemas import LARGEST_VERSION, SchemaSignature, schema_of, signature_of
from mdf_loop.writers.onnx_graph import as_onnx

DEFAULT_OPSET = 18
"""Version of ONNX's own domain for bodies that do not say, such as ONNX text or a bare GraphProto."""

CONTROL = ("If", "Loop", "Scan", "SequenceMap")
"""Operators of ONNX's own domain whose versions since 9 differ in types alone."""


def imported(entries: Iterable[Any], path: tuple[str, ...] = ()) -> dict[str, int]:
    """The version of each domain that a model or function imports.

    Raises
    ------
    MalformedBody
        A version is none that a domain can have.
    """
    opsets: dict[str, int] = {}
    for entry in entries:
        domain = own_domain(entry.domain)
        if not isinstance(domain, str):
            raise MalformedBody(f"the name {domain!r} is not UTF-8 text", path)
        if not 0 <= entry.version <= LARGEST_VERSION:
            raise MalformedBody(
                f"domain {domain or 'ai.onnx'!r} is imported in version {entry.version}, which no domain has", path
            )
        if opsets.get(domain, entry.version) != entry.version:
            warn_user(f"domain {domain or 'ai.onnx'!r} is imported in two versions; the last one, {entry.version}, is taken")
        opsets[domain] = entry.version
    return opsets


def own_domain(domain: str) -> str:
    """A domain, ONNX's own as ""."""
    return "" if domain == "ai.onnx" else domain


@record
class Operator:
    """An operator as a model uses it: its domain, the version in which it is read, and what its schema says, if there is one."""

    domain: str
    opset: int
    signature: SchemaSignature | None


class Operators:
    """The operators of a model, each looked up once.

    Attributes
    ----------
    opsets : dict
        The version of each domain; the newest known one of a domain that nodes use and the model does not import, of which the
        user is warned.
    """

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self.opsets = dict(opsets)
        self._known: dict[tuple[str, str], Operator] = {}

    def of(self, op: str, domain: str, attributes: Collection[str], n_inputs: int, path: tuple[str, ...]) -> Operator:
        """The operator of a node that is so called and has such attributes and so many inputs.

        Raises
        ------
        UnsupportedOp
            Models cannot use its domain.
        """
        found = self._known.get((op, domain))
        if found is not None:
            return found
        (own, version), key = unmarked(own_domain(domain)), (op, domain)
        refuse_internal(own, op, path)
        opset = self.version(own, op, version)
        if version is not None:
            opset = version_among(op, own, version, opset, attributes, n_inputs)
        opset = version_of(op, opset, own)
        found = Operator(own, opset, signature_of(op, opset, own))
        if version is None:  # else it depends on the node
            self._known[key] = found
        return found

    def version(self, domain: str, op: str, said: int | None = None) -> int:
        """The version of a domain, one of whose operators is used, in the version ``said`` if a function says one."""
        if domain in self.opsets:
            return self.opsets[domain]
        version = self.opsets[domain] = newest(domain) if said is None else said
        if said is None:
            name = domain or "ai.onnx"
            warn_user(
                f"the model uses {op} of domain {name!r} but does not import that domain; version {version} is taken, the "
                f"newest known. A model says its versions as opset_import, ONNX text in front of the graph: "
                f'<ir_version: 10, opset_import: ["": {self.opsets.get("", DEFAULT_OPSET)}, "{name}": {version}]>'
            )
        return version


def newest(domain: str) -> int:
    """The newest version of a domain in which an operator of it changed; 1 where nothing is known of it."""
    if domain == "":
        return onnx.defs.onnx_opset_version()
    known = [schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain]
    own = [kernel.since for (where, _), kernels in KERNELS.items() if where == domain for kernel in kernels]
    return max([*known, *own], default=1)


def every_node(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of all graphs in them."""
    todo = [*nodes]
    while todo:
        node = todo.pop()
        yield node
        for graph in graphs_of(node):
            todo += graph.node


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def refuse_internal(domain: str, op: str, path: tuple[str, ...]) -> None:
    """See that a model uses no operator that mdf_loop keeps for what its readers make.

    Raises
    ------
    UnsupportedOp
    """
    if domain in INTERNAL_DOMAINS:
        where = "/".join(filter(None, path))
        raise UnsupportedOp(f"{where}: {domain}::{op} is not an operator of a model; the domain is reserved for mdf_loop")


# Functions that import other versions than the model: while they are written out, the domain of a node says its version.

_MARK = re.compile(r"(.*) version (\d{1,9})", re.DOTALL)


def marked(domain: str, version: int) -> str:
    """A domain that says a version."""
    return f"{domain or 'ai.onnx'} version {version}"


def unmarked(domain: str) -> tuple[str, int | None]:
    """The domain, and the version that it says; None if it says none."""
    found = _MARK.fullmatch(domain) if domain and isinstance(domain, str) else None
    return (own_domain(found[1]), int(found[2])) if found else (domain, None)


def version_among(op: str, domain: str, version: int, around: int, attributes: Collection[str], n_inputs: int) -> int:
    """The version of an operator of a function in a model with another version: the model's, if it means the same there.

    Parameters
    ----------
    version, around : int
        The version that is said of it, and that of the model.
    attributes : collection of str
        What the node has, that the model's version must know.
    n_inputs : int
        How many inputs the node has, likewise.
    """
    read = first_version(op, around, domain)  # as which it would be read there
    there, here = schema_of(op, version, domain), schema_of(op, read, domain)
    if version == around or (there is not None and here is not None and there.since_version == here.since_version):
        return around
    if domain == "" and op in CONTROL:
        return around if min(version, around) >= 9 or op == "Loop" or op == "If" else version
    if here is not None and not (set(attributes) <= set(here.attributes) and here.min_input <= n_inputs <= here.max_input):
        return version
    return around if _same_kernel(op, domain, version, read) else version


def _same_kernel(op: str, domain: str, version: int, around: int) -> bool:
    """Whether two versions of an operator differ in nothing that a kernel sees, such as the types they take."""
    load_kernels()
    try:
        return lookup(op, version, domain) is lookup(op, around, domain)
    except UnsupportedOp:
        return False


def others(body: Body, opsets: Mapping[str, int] | None = None) -> Iterator[Node]:
    """Nodes, in inner bodies too, that mean something else under the version that their domain has in the body."""
    opsets = body.opsets if opsets is None else opsets
    for node in map(as_onnx, body.nodes):
        around = opsets.get(node.domain, node.opset)
        if version_among(node.op, node.domain, node.opset, around, node.attrs, len(node.inputs)) != around:
            yield node
        for _, inner in node.bodies:
            yield from others(inner, opsets)


def refuse_others(body: Body, path: tuple[str, ...]) -> None:
    """See that all nodes of a body can stand under one version of each domain, which is all that ONNX has.

    Raises
    ------
    UnsupportedOp
        Names a node that cannot.
    """
    for node in others(body):
        name = "/".join(filter(None, (*path, node.name)))
        around = body.opsets[node.domain]
        raise UnsupportedOp(
            f"{name}: {node.op} of version {node.opset} of {node.domain or 'ai.onnx'!r} is not what it is in version {around}, "
            "which stands around it, and an ONNX graph has one version of each domain"
        )
