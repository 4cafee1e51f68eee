"""What a run of a model says of the values that it is given, and of a name in its equations that means something else."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.convert.scheduled.conditions import Key
from mdf_loop.functions.psyneulink_losses import losses
from mdf_loop.functions.psyneulink_mechanisms import class_of
from mdf_loop.integrations.input_places import InputPlaces
from mdf_loop.integrations.unread import overlooked, unread_inputs
from mdf_loop.kernels.mdf.expression_operators import NO_POWER
from mdf_loop.options import Run
from mdf_loop.readers.expressions.derivatives import STEP, wrong_with_step
from mdf_loop.readers.expressions.equations import TAU, reads_step, reads_tau
from mdf_loop.readers.expressions.expression_text import is_power, number_in, tree_if_any
from mdf_loop.readers.mdf.by_place import equations_in_nodes
from mdf_loop.readers.mdf.input_ports import default_value_of, is_plain
from mdf_loop.types.fitting import as_array


class InputWarnings:
    """What there is to look at in a graph, found out once.

    Parameters
    ----------
    places : InputPlaces
        What the inputs of the model may set.
    """

    def __init__(self, places: InputPlaces) -> None:
        self._graph, self._unread = places.graph, unread_inputs(places.graph)
        self._takes_two_pi = any(reads_tau(said) for *_, said in equations_in_nodes(places.graph))
        self._steps = dict(_wrong_steps(places.graph))
        named = [(name, each) for name, meant in places.named.items() for each in meant]
        self._declared = {name: each.owner for name, each in named if each.is_port and _says_kind(each.owner)}
        ports = {f"{node.id}.{port.id}": port for node in places.graph.nodes for port in node.input_ports if _says_kind(port)}
        self._defaults = [(port, said) for name, port in ports.items() if (said := wrong_default(name, port))]
        self._odd = [f"{'/'.join(names)}: {said}" for names, said in losses(places.graph)]
        self._odd += [said for _, said in overlooked(places.graph)]
        self._odd += [f"{node.id}.{name}: {said}" for node in places.graph.nodes for name, said in powers_in(node)]
        self._of_edges: dict[str, None] = {}
        self.sent: Mapping[Key, Mapping[str, Any]] = sent_to_declared(places.graph)

    def warn(self, inputs: Mapping[str, Any], run: Run) -> None:
        """Say what is odd about the inputs of a run, each once."""
        if self._takes_two_pi:
            run.warn_once("tau", f"equations: {TAU}")
        for said in self._odd:
            run.warn_once((id(self._graph), said), said)
        is_given = any(name.rpartition(".")[2] == STEP for name in inputs)
        found = {STEP: wrong_with_step(inputs[STEP])} if STEP in inputs else {} if is_given else {**self._steps}
        found |= {name: f"nothing reads {name!r}: its value changes nothing" for name in self._unread & inputs.keys()}
        given = {name: self._declared[name] for name in self._declared.keys() & inputs.keys()}
        found |= {name: _wrong_kind(name, as_array(inputs[name], f"input {name!r}"), port) for name, port in given.items()}
        found |= {said: said for port, said in self._defaults if not any(port is each for each in given.values())}
        for name, said in found.items():
            if said:
                run.warn_once((id(self._graph), name), said)

    def warn_of_sent(self, sent: Mapping[Key, Mapping[str, Any]], values: Sequence[Any], run: Run) -> None:
        """Say what edges bring that is not what their ports declare.

        Parameters
        ----------
        sent : mapping
            What ``sent`` was before the run: one run looks.
        values : sequence
            What was recorded of its keys.
        run : Run
        """
        for ends, value in zip(sent.values(), values, strict=True):
            self._of_edges |= {wrong_when_sent(name, value, *end): None for name, end in ends.items()}
        if sent:
            self.sent = {}
        for said in filter(None, [*self._of_edges]):
            run.warn_once((id(self._graph), said), said)


def sent_to_declared(graph: Any) -> dict[Key, dict[str, tuple[Any, Any]]]:
    """Output ports, as keys of what is recorded, with the input ports to which one edge brings what they have, and that edge.

    Those input ports that declare a kind.
    """
    ports = {(node.id, port.id): port for node in graph.nodes for port in node.input_ports if _says_kind(port)}
    ends = Counter((edge.receiver, edge.receiver_port) for edge in graph.edges)
    found = dict[Key, dict[str, tuple[Any, Any]]]()
    for edge in graph.edges:
        place = edge.receiver, edge.receiver_port
        if place in ports and ends[place] == 1:
            found.setdefault(("output", edge.sender, edge.sender_port), {})[".".join(place)] = ports[place], edge
    return found


def wrong_when_sent(name: str, value: Any, port: Any, edge: Any) -> str:
    """How what an edge brings differs from what its port declares; PsyNeuLink leaves axes of one element out."""
    if not isinstance(value, np.ndarray | np.generic | float):
        return ""
    weight = np.asarray(1 if is_plain(edge) else edge.parameters["weight"])
    with np.errstate(all="ignore"):
        value, shape = value * weight, _shape_of(port)
    is_alike = [n for n in value.shape if n != 1] == [n for n in shape if n != 1]
    said = _wrong_kind(name, value.reshape(shape) if is_alike else value, port, "gets")
    return f"{said}; {by_matrix(edge, weight.shape)}" if said and weight.ndim > 1 else said


def by_matrix(edge: Any, shape: Sequence[int]) -> str:
    """What the weight of an edge does that could be meant for a product of matrices."""
    said = f"edge {edge.id!r} multiplies what it brings element by element by its weight of shape {[*shape]}, as MDF does"
    return f"{said}; for a product of matrices compute w @ x in a node, with the parameter w"


def wrong_default(name: str, port: Any) -> str:
    """How the default of a port differs from what it declares; PsyNeuLink writes one number for axes of one element."""
    try:
        value = np.asarray(default_value_of(port))
    except ValueError:  # rows of several lengths, which reading it refuses
        return ""
    return _wrong_kind(name, value, port, "has the default") if value.dtype.kind in "biuf" else ""


def powers_in(node: Any) -> Iterator[tuple[str, str]]:
    """What to say of ``x ^ 2`` in expressions of a node, which is the exclusive or in Python, by what has them."""
    for thing in (*node.parameters, *node.output_ports):
        for text in (thing.value, *(getattr(thing, "args", None) or {}).values()):
            tree = tree_if_any(text) if isinstance(text, str) and "^" in text else None
            if tree is not None and any(map(is_power, ast.walk(tree))):
                yield thing.id, f"{text!r}: {NO_POWER.format('numpy.')}"


def _wrong_steps(graph: Any) -> Iterator[tuple[str, str]]:
    """What is odd about the lengths of steps that bodies read, or their nodes have, by their places."""
    for node, parameter, said in equations_in_nodes(graph):
        if reads_step(said):
            own = {part.id: part.value for part in node.parameters}.get(STEP)
            step = said.let.get(STEP, own)
            place = f"{node.id}.{parameter.id if STEP in said.let else STEP}"
            if wrong := wrong_with_step(number_in(step) if isinstance(step, str) else step):
                yield place, f"{place}: {wrong}"


def _says_kind(port: Any) -> bool:
    """Whether an input port declares whole numbers, or a shape that is known."""
    return _is_whole(port) or bool(_shape_of(port))


def _wrong_kind(name: str, value: np.ndarray, port: Any, gets: str = "is given") -> str:
    """How a value differs from what its port declares, at which MDF does not look; empty where it does not.

    A number, and an array of one element, may be of any shape where they are given.
    """
    flat = value.ravel()
    fractions = flat[np.mod(flat, 1) != 0] if _is_whole(port) and value.dtype.kind == "f" else flat[:0]
    if fractions.size:
        return f"{name} is declared {port.type}, and {gets} {fractions[0]}, which is used as it is"
    shape, is_default = _shape_of(port), gets == "has the default"
    if not shape or value.shape == shape or (value.size == 1 and (not is_default or np.prod(shape) == 1)):
        return ""
    got = f"{value.tolist()}" if is_default else f"an array of shape {[*value.shape]}"
    is_row = value.ndim > 0 and len(value) > 1 and value.shape[1:] == shape and gets == "is given"
    cure = f"; a run for each row is mdf_loop.sweep(model, over={{{name!r}: ...}})" * is_row
    return f"{name} is declared with shape {[*shape]}, and {gets} {got}, which is used as it is{cure}"


def _is_whole(port: Any) -> bool:
    """Whether a port is declared to have whole numbers; PsyNeuLink declares the type of a default, and takes others."""
    return str(port.type).startswith(("int", "uint")) and class_of(port) != "InputPort"


def _shape_of(port: Any) -> tuple[int, ...]:
    """The shape that a port declares; empty where it declares none, or one with open lengths."""
    return tuple(port.shape) if port.shape and all(type(n) is int for n in port.shape) else ()
