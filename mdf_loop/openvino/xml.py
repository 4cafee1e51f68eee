"""The .xml of an OpenVINO model as records: layers, their ports, the edges between them.

The file is not trusted.  defusedxml refuses entities and external documents, and every number and reference is
checked here, so that what comes after can rely on it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, MalformedBody, UnsupportedOp, shortened
from mdf_loop.ir import Dim, ValueType
from mdf_loop.readers.model_files import opened
from mdf_loop.settings.engines import needed
from mdf_loop.types.elements import DTYPES

ELEMENT_TYPES: dict[str, np.dtype] = {
    "f32": DTYPES[1],
    "u8": DTYPES[2],
    "i8": DTYPES[3],
    "u16": DTYPES[4],
    "i16": DTYPES[5],
    "i32": DTYPES[6],
    "i64": DTYPES[7],
    "string": DTYPES[8],
    "boolean": DTYPES[9],
    "f16": DTYPES[10],
    "f64": DTYPES[11],
    "u32": DTYPES[12],
    "u64": DTYPES[13],
    "bf16": DTYPES[16],
    "f8e4m3": DTYPES[17],
    "f8e5m2": DTYPES[19],
    "u4": DTYPES[21],
    "i4": DTYPES[22],
    "f4e2m1": DTYPES[23],
    "f8e8m0": DTYPES[24],
    "u2": DTYPES[25],
}
"""Element types by the names that attributes of layers use."""

_PRECISIONS = {
    "FP32": "f32",
    "FP16": "f16",
    "FP64": "f64",
    "BF16": "bf16",
    "BOOL": "boolean",
    "FP8_E4M3": "f8e4m3",
    "FP8_E5M2": "f8e5m2",
}
"""Names that ports use, where it is not the attribute's name in capitals."""

VERSIONS = (10, 11)
"""Versions of the format that are read."""

DEEPEST = 40
"""Bodies may be nested so deep."""


@dataclass
class Port:
    """One input or output of a layer; what is declared of it, and the names its tensor has.

    ``is_read`` says of an output whether an edge starts from it.
    """

    id: int
    kind: ValueType
    names: tuple[str, ...] = ()
    is_read: bool = False


@dataclass
class Layer:
    """One layer, with everything the file says of it.

    Attributes
    ----------
    data : mapping of str to str
        The attributes; :meth:`unread` gives those that were not asked for.
    sources : list of (int, int)
        For each input port in order, the layer and the output port (by position) that feed it.
    element : object
        The XML element, for layers that hold bodies.
    """

    id: int
    name: str
    type: str
    version: str
    data: dict[str, str]
    inputs: list[Port]
    outputs: list[Port]
    element: Any
    path: tuple[str, ...]
    sources: list[tuple[int, int]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        """Name, type and opset, for messages."""
        return f"layer {self.name!r} ({self.type}, {self.version})"

    @property
    def opset(self) -> int:
        """The number of the operation set; 0 for one that is not OpenVINO's own."""
        found = re.fullmatch(r"opset(\d{1,3})", self.version)
        return int(found[1]) if found else 0

    def wrong(self, message: str) -> MalformedBody:
        """An error that says where it is."""
        return MalformedBody(f"{self.title}: {message}", self.path)

    def unsupported(self, message: str) -> LoopError:
        """An error for what is no mistake but has no meaning here."""
        where = "/".join(self.path)
        return UnsupportedOp(f"{where}: {self.title}: {message}" if where else f"{self.title}: {message}")

    def text(self, key: str, default: str | None = None, among: tuple[str, ...] = ()) -> str:
        """An attribute as it is written; one of ``among`` where that is given."""
        self.asked.add(key)
        value = self.data.get(key, default)
        if value is None:
            raise self.wrong(f"has no attribute {key!r}")
        if among and value not in among:
            raise self.unsupported(f"{key} is {value!r}; known: {', '.join(among)}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """An attribute that is a whole number."""
        return whole_number(self.text(key, None if default is None else str(default)), self, key)

    def number(self, key: str, default: float | None = None) -> float:
        """An attribute that is a number."""
        text = self.text(key, None if default is None else repr(default))
        try:
            return float(text)
        except ValueError as error:
            raise self.wrong(f"{key} must be a number; got {shortened(text, 40)!r}") from error

    def integers(self, key: str, default: str | None = None) -> list[int]:
        """An attribute that is a list of whole numbers, separated by commas."""
        text = self.text(key, default)
        return [whole_number(part, self, key) for part in text.split(",")] if text.strip() else []

    def numbers(self, key: str, default: str | None = None) -> list[float]:
        """An attribute that is a list of numbers, separated by commas."""
        text = self.text(key, default)
        try:
            return [float(part) for part in text.split(",")] if text.strip() else []
        except ValueError as error:
            raise self.wrong(f"{key} must be numbers separated by commas; got {shortened(text, 40)!r}") from error

    def flag(self, key: str, default: bool | None = None) -> bool:
        """An attribute that is true or false."""
        text = self.text(key, None if default is None else str(default).lower())
        if text.lower() not in ("true", "false", "1", "0"):
            raise self.wrong(f"{key} must be true or false; got {shortened(text, 40)!r}")
        return text.lower() in ("true", "1")

    def element_type(self, key: str, default: str | None = None) -> np.dtype:
        """An attribute that names an element type."""
        text = self.text(key, default)
        if text not in ELEMENT_TYPES:
            raise self.unsupported(f"the element type {shortened(text, 40)!r} is not supported")
        return ELEMENT_TYPES[text]

    def ignore(self, *keys: str) -> None:
        """Attributes that do not change a result."""
        self.asked.update(keys)

    def unread(self) -> list[str]:
        """Attributes that were not asked for."""
        return sorted(set(self.data) - self.asked)


@dataclass
class Net:
    """A graph of layers, in an order in which they can run."""

    name: str
    layers: dict[int, Layer]
    path: tuple[str, ...]

    def of_type(self, type: str) -> list[Layer]:
        """The layers of one type, in the order of the file."""
        return [layer for layer in self.layers.values() if layer.type == type]

    def source(self, layer: Layer, position: int = 0) -> Port:
        """The output port that feeds an input of a layer."""
        where, port = layer.sources[position]
        return self.layers[where].outputs[port]


def parse_file(path: Path) -> Net:
    """Read the .xml file of a model.

    Raises
    ------
    MalformedBody
        There is no such file, or it is not the IR of a model; says what and where.
    UnsupportedOp
        The version of the format is not one of those that are read.
    """
    defused = _defusedxml()
    try:
        with opened(path, "an OpenVINO model") as file:
            root = defused.ElementTree.parse(file, forbid_dtd=True).getroot()
    except MalformedBody:
        raise
    except defused.DefusedXmlException as error:
        raise MalformedBody(f"{str(path)!r} declares entities or a document type, which a model does not need") from error
    except (SyntaxError, ValueError, LookupError) as error:  # ParseError is a SyntaxError; unknown encodings are the others
        raise MalformedBody(f"{str(path)!r} is not XML: {error}") from error
    if root.tag != "net":
        raise MalformedBody(
            f"{str(path)!r} is not an OpenVINO model: the outermost element is <{shortened(root.tag, 40)}>, not <net>"
        )
    version = root.get("version", "")
    if version not in map(str, VERSIONS):
        raise UnsupportedOp(f"{str(path)!r} has IR version {shortened(version, 40)!r}; versions 10 and 11 are read")
    name = root.get("name") or path.stem
    return read_net(root, name, (name,))


def _defusedxml() -> Any:
    needed("defusedxml.ElementTree", "OpenVINO models need defusedxml", "openvino", UnsupportedOp)
    return importlib.import_module("defusedxml")


def read_net(element: Any, name: str, path: tuple[str, ...]) -> Net:
    """The layers and edges of a <net> or a body.

    Raises
    ------
    MalformedBody
        Says what is wrong and where.
    """
    if len(path) > DEEPEST:
        raise MalformedBody(f"bodies are nested more than {DEEPEST} deep", path[:3])
    holder, edges = element.find("layers"), element.find("edges")
    if holder is None or edges is None:
        raise MalformedBody(f"<{element.tag}> needs <layers> and <edges>", path)
    layers: dict[int, Layer] = {}
    for entry in holder.iterfind("layer"):
        layer = _layer(entry, path)
        if layer.id in layers:
            raise MalformedBody(f"two layers have id {layer.id}: {layers[layer.id].name!r} and {layer.name!r}", path)
        layers[layer.id] = layer
    _connect(layers, edges, path)
    return Net(name, _ordered(layers, path), path)


def _layer(element: Any, path: tuple[str, ...]) -> Layer:
    kind, name = element.get("type"), element.get("name")
    if not kind:
        raise MalformedBody(f"layer {name!r} has no type", path)
    data = element.find("data")
    attributes = {} if data is None else dict(data.attrib)
    layer = Layer(-1, name or "", kind, element.get("version", "opset1"), attributes, [], [], element, path)
    layer.id = whole_number(element.get("id", ""), layer, "id")
    layer.name = name or f"{kind}_{layer.id}"
    layer.inputs, layer.outputs = list(_ports(element, "input", layer)), list(_ports(element, "output", layer))
    for ports in (layer.inputs, layer.outputs):
        ids = [port.id for port in ports]
        if twice := [k for k in ids if ids.count(k) > 1]:
            raise layer.wrong(f"two ports have id {twice[0]}")
    return layer


def _ports(element: Any, tag: str, layer: Layer) -> Iterator[Port]:
    holder = element.find(tag)
    for port in () if holder is None else holder.iterfind("port"):
        names = tuple(name.replace("\\,", ",") for name in re.split(r"(?<!\\),", port.get("names", "")) if name)
        dims = tuple(_dimension(dim.text or "", layer) for dim in port.iterfind("dim"))
        # A port without dimensions is a scalar or a tensor of any rank: the file does not tell.
        kind = ValueType(_precision(port.get("precision")), dims or None)
        yield Port(whole_number(port.get("id", ""), layer, "the id of a port"), kind, names)


def _dimension(text: str, layer: Layer) -> Dim:
    text = text.strip()
    if text in ("-1", "?") or ".." in text:
        return None
    size = whole_number(text, layer, "a dimension")
    if size < 0:
        raise layer.wrong(f"a dimension is {size}")
    return size


def declared_shape(text: str, layer: Layer) -> tuple[Dim, ...] | None:
    """A shape as attributes write it: "1,?,2..5"; "..." is any rank."""
    if text.strip() == "...":
        return None
    return tuple(_dimension(part, layer) for part in text.split(",")) if text.strip() else ()


def _precision(name: str | None) -> np.dtype | None:
    return None if name is None else ELEMENT_TYPES.get(_PRECISIONS.get(name, name.lower()))


def whole_number(text: str, layer: Layer, what: str) -> int:
    """A whole number of 64 bits out of the file."""
    try:
        number = int(text) if len(text) <= 40 else None
    except ValueError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise layer.wrong(f"{what} must be a whole number; got {shortened(text, 40)!r}")
    return number


def _connect(layers: dict[int, Layer], edges: Any, path: tuple[str, ...]) -> None:
    """Give every input port its source."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for edge in edges.iterfind("edge"):
        ends = []
        for end, ports in (("from", "outputs"), ("to", "inputs")):
            name, port = edge.get(f"{end}-layer", ""), edge.get(f"{end}-port", "")
            layer = layers.get(int(name)) if re.fullmatch(r"\d{1,18}", name) else None
            if layer is None:
                raise MalformedBody(f"an edge names {end}-layer {shortened(name, 40)!r}, which is not there", path)
            ids = [str(known.id) for known in getattr(layer, ports)]
            if port not in ids:
                which = "output" if end == "from" else "input"
                raise layer.wrong(f"an edge names its {which} port {shortened(port, 40)!r}; it has {', '.join(ids) or 'none'}")
            ends.append((layer.id, ids.index(port)))
        if ends[1] in found:
            raise layers[ends[1][0]].wrong(f"two edges lead to input port {layers[ends[1][0]].inputs[ends[1][1]].id}")
        found[ends[1]] = ends[0]
        layers[ends[0][0]].outputs[ends[0][1]].is_read = True
    for layer in layers.values():
        for k, port in enumerate(layer.inputs):
            if (layer.id, k) not in found:
                raise layer.wrong(f"no edge leads to input port {port.id}")
            layer.sources.append(found[layer.id, k])


def _ordered(layers: dict[int, Layer], path: tuple[str, ...]) -> dict[int, Layer]:
    """The layers in an order in which they can run; that of the file where it is one."""
    sorter = TopologicalSorter({layer.id: [source for source, _ in layer.sources] for layer in layers.values()})
    try:
        order = tuple(sorter.static_order())
    except CycleError as error:
        names = " -> ".join(repr(layers[k].name) for k in reversed(error.args[1]))
        message = f"the layers {names} make a cycle; what is carried in a loop is a back edge"
        raise MalformedBody(message, path) from error
    place = {id: k for k, id in enumerate(layers)}
    runs = all(place[source] < place[layer.id] for layer in layers.values() for source, _ in layer.sources)
    return layers if runs else {id: layers[id] for id in order}
