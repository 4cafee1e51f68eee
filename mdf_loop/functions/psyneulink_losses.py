"""What exports of PsyNeuLink lose: their metadata say that PsyNeuLink computes something, and the model does not have it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.functions.psyneulink_mechanisms import DEFAULTS, DIAGONALS, bias_of, class_of, clip_of, is_given, recurrence_of

OF_RECURRENCE = frozenset({"hetero", "auto", "competition", "smoothing_factor", "k_value", "ratio", "threshold"})
"""What PsyNeuLink writes of the recurrent projection of a mechanism, and not the projection."""

LOST_PARAMETERS = OF_RECURRENCE | {"clip", "termination_threshold"}
"""Parameters of mechanisms that nothing in an export reads: their losses are reported instead."""

OTHER_NUMBERS = "PsyNeuLink gives other numbers"


def mechanism_of(node: Any) -> str:
    """The class of mechanism that PsyNeuLink wrote a node for; empty if it did not."""
    return said if (said := class_of(node)).endswith("Mechanism") or said == "DDM" else ""


def losses(graph: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """What a graph lost when PsyNeuLink wrote it: the node or edge, and a sentence."""
    if class_of(graph) != "Composition":
        return
    sends = {(edge.sender, edge.sender_port) for edge in graph.edges}
    for node in graph.nodes:
        if mechanism_of(node):
            known = {each.id: each.value for each in node.parameters}
            said = [*_of_recurrence(node, known), *_of_values(node, known), *_of_function(node), *_of_ports(node, sends)]
            yield from (((node.id,), f"{each}; {OTHER_NUMBERS}") for each in said)
            yield from (((node.id,), each) for each in _unsure(node))
    for id, lost in _of_edges(graph.edges):
        yield (id,), f"{lost}; {OTHER_NUMBERS}"


def _of_recurrence(node: Any, known: Mapping[str, Any]) -> Iterator[str]:
    """A recurrent projection of which the export does not have the port or the matrix."""
    lost = sorted(OF_RECURRENCE & known.keys())
    weights = [known.get(name) for name in ("auto", "hetero", "competition", "k_value")]
    if "recurrent_projection" not in (node.metadata or {}):
        return
    if mechanism_of(node) == "KWTAMechanism" and not bias_of(node):
        yield "the bias is not exported that lets no more than k_value units be active"
    if recurrence_of(node) is None and (_is_set(node.metadata.get("matrix")) or any(map(_is_set, weights))):
        names = ", ".join(lost) or "its matrix"
        yield f"{names} are of a recurrent projection, which the export of this {mechanism_of(node)} does not have"


def _unsure(node: Any) -> Iterator[str]:
    """Defaults of a recurrent projection that may be given numbers, where the matrix has others."""
    numbers = DIAGONALS.get(str((node.metadata or {}).get("matrix")), ())
    for (name, default), number in zip(DEFAULTS.items(), numbers, strict=False) if recurrence_of(node) else ():
        if not is_given(node, name) and number != default:
            yield (
                f"{name}: {default} of its recurrent projection does not count, because PsyNeuLink writes it also where {name} "
                f"is not given; if it is, write {name}: {float(default)}, or PsyNeuLink gives other numbers"
            )


def _of_values(node: Any, known: Mapping[str, Any]) -> Iterator[str]:
    """What a mechanism does beside its function."""
    said = node.metadata or {}
    if (clip := known.get("clip", said.get("clip"))) is not None and clip_of(node) is None:
        yield f"the clip {clip} of its results is not exported; write numpy.clip into the value of its output port"
    if (threshold := known.get("termination_threshold")) is not None and said.get("integrator_mode"):
        yield (
            f"its termination_threshold {threshold} is not exported: PsyNeuLink repeats this {mechanism_of(node)}, or calls it "
            "finished, by it; write a Threshold condition for the end of an evaluation"
        )
    integrator = said.get("integrator_function")
    given = {**_part(integrator, "metadata"), **_part(integrator, "args")}
    if said.get("integrator_mode") is False and _is_set(given.get("noise")):
        yield "its noise is not exported"


def _of_function(node: Any) -> Iterator[str]:
    for function in node.functions:
        if class_of(function) == "DriftDiffusionIntegrator" and mechanism_of(node) == "DDM":
            yield (
                "a DDM repeats its DriftDiffusionIntegrator until a threshold is reached, counts the time and begins again in "
                "each trial, and the export has one step of it; write a Threshold condition for the end of an evaluation"
            )


def _of_ports(node: Any, sends: set[tuple[str, str]]) -> Iterator[str]:
    for port in node.output_ports:
        variable = (port.metadata or {}).get("variable")
        if isinstance(variable, list | np.ndarray) and port.shape and np.size(variable) != math.prod(port.shape):
            count = math.prod(port.shape)
            yield (
                f"the function of its output port {port.id} is not exported, which makes {count} of {np.size(variable)} numbers, "
                "such as their mean"
            )
        if class_of(port).endswith("Signal") and (node.id, port.id) not in sends:
            yield f"its {class_of(port)} {port.id} changes another node, and the export has no edge for it"


def _of_edges(edges: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Gates, and projections whose matrices are no nodes: an edge, and what is lost."""
    for edge in edges:
        if class_of(edge) == "GatingProjection":
            gate = f"edge {edge.id!r} is a gate, which multiplies what comes to port {edge.receiver_port}"
            yield edge.id, f"{gate}; write reduce: multiply at that port"
    if apart := [edge.id for edge in edges if class_of(edge) == "MappingProjection" and any(map(_has_matrix, _functions(edge)))]:
        which = (
            f"the matrix of edge {apart[0]!r}" if len(apart) == 1 else f"the matrices of {len(apart)} edges, as of {apart[0]!r},"
        )
        where = f"{which} {'is' if len(apart) == 1 else 'are'} in the metadata, where no program applies it"
        yield apart[0], f"{where}: export the model with simple_edge_format=True, which is PsyNeuLink's default"


def _functions(edge: Any) -> Sequence[Any]:
    found = (edge.metadata or {}).get("functions") or {}
    return [*(found.values() if isinstance(found, dict) else found)]


def _has_matrix(function: Any) -> bool:
    matrix = _part(function, "args").get("B")
    return isinstance(matrix, list | np.ndarray) and not _is_identity(np.asarray(matrix))


def _is_identity(matrix: np.ndarray) -> bool:
    return matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and bool((matrix == np.eye(len(matrix))).all())


def _is_set(value: Any) -> bool:
    """Whether a number, an array or something that PsyNeuLink computes is there and is not 0; names of matrices are not."""
    if isinstance(value, int | float | list | np.ndarray):
        return bool(np.any(np.asarray(value) != 0))
    return value is not None and not isinstance(value, str)


def _part(thing: Any, name: str) -> Mapping[str, Any]:
    """A part of a function in metadata: a dict in a file, an object in a model that PsyNeuLink made and no file holds."""
    return (thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)) or {}
