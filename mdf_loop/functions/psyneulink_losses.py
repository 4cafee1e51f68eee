"""What exports of PsyNeuLink lose: their metadata say that PsyNeuLink computes something, and the model does not have it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.functions.psyneulink import class_of

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
    for edge in graph.edges:
        yield from (((edge.id,), f"{each}; {OTHER_NUMBERS}") for each in _of_edge(edge))


def _of_recurrence(node: Any, known: Mapping[str, Any]) -> Iterator[str]:
    lost = sorted(OF_RECURRENCE & known.keys())
    weights = [known.get(name) for name in ("auto", "hetero", "competition", "k_value")]
    if "recurrent_projection" in (node.metadata or {}) and (_is_set(node.metadata.get("matrix")) or any(map(_is_set, weights))):
        names = ", ".join(lost) or "its matrix"
        yield f"{names} are of a recurrent projection, which the export of this {mechanism_of(node)} does not have"


def _of_values(node: Any, known: Mapping[str, Any]) -> Iterator[str]:
    """What a mechanism does beside its function."""
    said = node.metadata or {}
    if (clip := known.get("clip", said.get("clip"))) is not None:
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
        offset = (function.args or {}).get("offset")
        if class_of(function) == "LeakyCompetingIntegrator" and "offset" not in str(function.value) and _is_set(offset):
            yield "the offset of its LeakyCompetingIntegrator is not in the expression that PsyNeuLink wrote"


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


def _of_edge(edge: Any) -> Iterator[str]:
    if class_of(edge) == "GatingProjection":
        yield (
            f"edge {edge.id!r} is a gate, which multiplies what comes to port {edge.receiver_port}; "
            "write reduce: multiply at that port"
        )
    functions = (edge.metadata or {}).get("functions") or {}
    for function in functions.values() if isinstance(functions, dict) else functions:
        matrix = _part(function, "args").get("B") if class_of(edge) == "MappingProjection" else None
        if isinstance(matrix, list | np.ndarray) and not _is_identity(np.asarray(matrix)):
            yield (
                f"the matrix of edge {edge.id!r} is in its metadata, where no program applies it: "
                "export the model with simple_edge_format=True, which is PsyNeuLink's default"
            )


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
