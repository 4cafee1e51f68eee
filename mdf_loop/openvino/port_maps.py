"""Port maps and back edges: how a Loop, a TensorIterator or an If joins its body to the graph around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mdf_loop.openvino.xml import Layer, Net, whole_number

INDEX, CONDITION = "current_iteration", "execution_condition"
"""What the ``purpose`` of a port may be."""

_KNOWN = {"external_port_id", "internal_layer_id", "axis", "start", "end", "stride", "part_size", "purpose", "external_layer_id"}


@dataclass(frozen=True)
class Slices:
    """How a value is cut up, or put together: along ``axis``, from ``start`` to ``end``, both of them part of it.

    Negative numbers count from the end.  A negative ``stride`` goes backwards.
    """

    axis: int
    start: int = 0
    end: int = -1
    stride: int = 1
    part: int = 1

    @property
    def backwards(self) -> bool:
        """Whether the last part comes first."""
        return self.stride < 0

    @property
    def is_whole(self) -> bool:
        """Whether the axis is covered from one end to the other."""
        return (self.start, self.end) == ((-1, 0) if self.backwards else (0, -1))


@dataclass
class PortMap:
    """A port map, checked against its layer and its body.

    Attributes
    ----------
    invariant : mapping of int to int
        Parameter to input (by position) for what enters as it is.
    sliced : mapping of int to (int, Slices)
        Parameter to input and slices.
    last : list of (int, int)
        Output (by position) and the Result whose last value it is.
    joined : list of (int, int, Slices)
        Output and the Result whose values are put together.
    index : int or None
        The Parameter that gets the iteration number.
    condition : int or None
        The Result that says whether to go on.
    back : mapping of int to int
        Parameter to the Result that feeds it in the next iteration.
    """

    invariant: dict[int, int] = field(default_factory=dict)
    sliced: dict[int, tuple[int, Slices]] = field(default_factory=dict)
    last: list[tuple[int, int]] = field(default_factory=list)
    joined: list[tuple[int, int, Slices]] = field(default_factory=list)
    index: int | None = None
    condition: int | None = None
    back: dict[int, int] = field(default_factory=dict)


def read_ports(layer: Layer, net: Net, tag: str = "port_map") -> PortMap:
    """The port map of a layer and the back edges of its body.

    Raises
    ------
    MalformedBody
        An entry names what is not there, or says what cannot be meant.
    """
    ports = PortMap()
    element = layer.element.find(tag)
    if element is None:
        raise layer.wrong(f"it has no <{tag}>")
    for entry in element:
        if entry.tag == "input":
            _input(layer, net, entry, ports)
        elif entry.tag == "output":
            _output(layer, net, entry, ports)
        else:
            raise layer.wrong(f"<{tag}> holds input and output, not {entry.tag!r}")
    for to, source in _back_edges(layer, net):
        if to in ports.sliced or to == ports.index:
            what = "sliced" if to in ports.sliced else "the iteration number"
            raise layer.wrong(f"a back edge leads to parameter {net.layers[to].name!r}, which is {what}")
        if to not in ports.invariant:
            raise layer.wrong(f"the parameter {net.layers[to].name!r} has a back edge but no input for the first iteration")
        if to in ports.back:
            raise layer.wrong(f"two back edges lead to parameter {net.layers[to].name!r}")
        ports.back[to] = source
    mapped = sorted([place for place, _ in ports.last] + [place for place, *_ in ports.joined])
    if mapped != list(range(len(layer.outputs))):
        raise layer.wrong(f"each output port needs one entry in <{tag}>; outputs {mapped} of {len(layer.outputs)} have one")
    return ports


def _input(layer: Layer, net: Net, entry: Any, ports: PortMap) -> None:
    purpose = _purpose(layer, entry, INDEX)
    parameter = _inner(layer, net, entry, "Parameter")
    if parameter in ports.invariant or parameter in ports.sliced or parameter == ports.index:
        raise layer.wrong(f"two entries lead to parameter {net.layers[parameter].name!r}")
    if purpose:
        if ports.index is not None:
            raise layer.wrong("two parameters are to get the iteration number")
        ports.index = parameter
        return
    place = _outer(layer, entry, [port.id for port in layer.inputs], "input")
    if place is None:
        raise layer.wrong(f"no input leads to parameter {net.layers[parameter].name!r}: its external_port_id is -1")
    slices = _slices(layer, entry)
    if slices is None:
        ports.invariant[parameter] = place
    else:
        ports.sliced[parameter] = place, slices


def _output(layer: Layer, net: Net, entry: Any, ports: PortMap) -> None:
    purpose = _purpose(layer, entry, CONDITION)
    result = _inner(layer, net, entry, "Result")
    if purpose:
        if ports.condition is not None:
            raise layer.wrong("two results are to be the condition")
        ports.condition = result
    place = _outer(layer, entry, [port.id for port in layer.outputs], "output")
    if place is None:
        return
    slices = _slices(layer, entry)
    if slices is None:
        ports.last.append((place, result))
    else:
        ports.joined.append((place, result, slices))


def _purpose(layer: Layer, entry: Any, known: str) -> str:
    if unknown := sorted(set(entry.attrib) - _KNOWN):
        raise layer.unsupported(f"an entry of the port map has {', '.join(unknown)}, which is not known")
    purpose = entry.get("purpose", "")
    if purpose not in ("", known):
        raise layer.wrong(f"the purpose of an {entry.tag} may be {known!r}; got {purpose[:40]!r}")
    return purpose


def _inner(layer: Layer, net: Net, entry: Any, kind: str) -> int:
    found = whole_number(entry.get("internal_layer_id", ""), layer, "internal_layer_id")
    return _of_kind(layer, net, found, kind, f"internal_layer_id of an {entry.tag}")


def _of_kind(layer: Layer, net: Net, id: int, kind: str, what: str) -> int:
    if id not in net.layers:
        raise layer.wrong(f"{what} is {id}; the body has no such layer")
    if net.layers[id].type != kind:
        raise layer.wrong(f"{what} is {id}, which is {net.layers[id].title}; it must be a {kind}")
    return id


def _outer(layer: Layer, entry: Any, ids: list[int], what: str) -> int | None:
    """The position of a port of the layer; None for -1, which is none."""
    found = whole_number(entry.get("external_port_id", ""), layer, "external_port_id")
    if found == -1:
        return None
    if found not in ids:
        raise layer.wrong(f"external_port_id is {found}; its {what} ports are {', '.join(map(str, ids)) or 'none'}")
    return ids.index(found)


def _slices(layer: Layer, entry: Any) -> Slices | None:
    if entry.get("axis") is None:
        return None
    said = {key: whole_number(entry.get(key), layer, key) for key in ("axis", "start", "end", "stride") if entry.get(key)}
    slices = Slices(**said)
    if slices.stride < 0 and entry.get("start") is None and entry.get("end") is None:
        slices = Slices(slices.axis, -1, 0, slices.stride)
    part = whole_number(entry.get("part_size", str(abs(slices.stride))), layer, "part_size")
    if slices.stride == 0 or part != abs(slices.stride):
        raise layer.wrong(
            f"the part_size of an {entry.tag} is {part} and its stride {slices.stride}; the stride must be as long as the part"
        )
    return Slices(slices.axis, slices.start, slices.end, slices.stride, part)


def _back_edges(layer: Layer, net: Net) -> Iterator[tuple[int, int]]:
    """For each back edge the Parameter and the Result."""
    holder = layer.element.find("back_edges")
    for edge in () if holder is None else holder.iterfind("edge"):
        source = whole_number(edge.get("from-layer", ""), layer, "from-layer of a back edge")
        to = whole_number(edge.get("to-layer", ""), layer, "to-layer of a back edge")
        yield (
            _of_kind(layer, net, to, "Parameter", "to-layer of a back edge"),
            _of_kind(layer, net, source, "Result", "from-layer of a back edge"),
        )
