"""What PsyNeuLink's mechanisms do around their functions, said in MDF's words, where an export has all of it.

An export has no edge for the recurrent projection of a mechanism, but its metadata have the matrix, and its output port the value
before the first execution.  The clip of results is a parameter that nothing reads.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from mdf_loop.functions.function_rows import like

PREVIOUS, MATRIX = "previous_result", "recurrent_matrix"
"""What a recurrent projection brings back, and the argument with its matrix."""

DEFAULTS = {"auto": 1, "hetero": 0}
"""What PsyNeuLink writes of a RecurrentTransferMechanism also where these were not given, and its matrix counts."""

DIAGONALS = {"HollowMatrix": (0, 1), "IdentityMatrix": (1, 0), "FullConnectivityMatrix": (1, 1), "InverseHollowMatrix": (0, -1)}
"""Matrices by name: the numbers on the diagonal, and those beside it."""


def class_of(thing: Any) -> str:
    """The class of PsyNeuLink that something was, as its metadata say."""
    return str((getattr(thing, "metadata", None) or {}).get("type"))


def with_mechanism(node: Any) -> Any:
    """A node that does what its mechanism does; the node itself if that is nothing."""
    return _combining_now(_clipped(_of_two(node)))


def _of_two(node: Any) -> Any:
    """A DDM with the input format ARRAY takes the first of two inputs less the second."""
    two = {port.id for port in node.input_ports if port.id.endswith("_ARRAY")} if class_of(node) == "DDM" else set[str]()
    if not two:
        return node

    def change(value: Any) -> Any:
        return f"numpy.matmul({value}, numpy.array([[1.0], [-1.0]]))" if isinstance(value, str) and value in two else value

    functions = [like(each, args={key: change(value) for key, value in (each.args or {}).items()}) for each in node.functions]
    return like(node, functions=functions)


def clip_of(node: Any) -> Sequence[float] | None:
    """The least and the largest result of a mechanism, where an export says two numbers."""
    said = [each.value for each in node.parameters if each.id == "clip"] or [(node.metadata or {}).get("clip")]
    is_pair = isinstance(said[0], Sequence) and [*map(_is_number, said[0])] == [True, True]
    return said[0] if is_pair and class_of(node).endswith("Mechanism") else None


def _is_number(x: Any) -> TypeGuard[float]:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _clipped(node: Any) -> Any:
    clip = clip_of(node)
    if clip is None:
        return node
    low, high = map(float, clip)
    ports = [like(port, value=f"numpy.clip({port.value}, {low!r}, {high!r})") for port in node.output_ports]
    return like(node, output_ports=ports)


# Recurrent projections


Recurrence: TypeAlias = "tuple[str, str, dict[str, Any]]"


def recurrence_of(node: Any) -> Recurrence | None:
    """What a mechanism's recurrent projection multiplies its previous result by: the port, an expression, and its arguments.

    None if there is no such port, or the matrix is not known: it was drawn, or is computed.
    """
    end = f"_input_port_from_{node.id}_recurrent_projection"
    port = next((port for port in node.input_ports if port.id.endswith(end)), None)
    start = _first_result(node)
    if port is None or not isinstance(start, list):
        return None
    unit, matrix = f"numpy.eye({len(start)})", (node.metadata or {}).get("matrix")
    args = {} if isinstance(matrix, str | None) or all(is_given(node, name) for name in DEFAULTS) else {MATRIX: matrix}
    parts = list[str]()
    for name, number, where in zip(DEFAULTS, DIAGONALS.get(str(matrix), (None, None)), (unit, f"(1 - {unit})"), strict=True):
        factor = name if is_given(node, name) else MATRIX if args else number
        if factor is None:
            return None
        parts.append(f"{factor} * {where}")
    return port.id, " + ".join(parts), args


def is_given(node: Any, name: str) -> bool:
    """Whether a mechanism was given the diagonal, or the rest, of its matrix as a number of its own.

    Kinds of RecurrentTransferMechanism have defaults that count.  Of itself an export has whole numbers where it was given none.
    """
    value = _known(node).get(name)
    is_default = type(value) is int and value == DEFAULTS[name] and class_of(node) == "RecurrentTransferMechanism"
    return value is not None and not is_default


def _known(node: Any) -> Mapping[str, Any]:
    return {each.id: each.value for each in node.parameters}


def _first_result(node: Any) -> Any:
    """The value of the first output port before the first execution."""
    return ((node.output_ports[0].metadata or {}) if node.output_ports else {}).get("variable")


# Several projections into one port


def _combining_now(node: Any) -> Any:
    """A node that adds what several projections bring to a port in the execution in which it comes, as PsyNeuLink does.

    An export writes these values into a parameter.  MDF evaluates parameters behind functions, and adds those of the
    execution before.  It cannot stack them where one has an axis more, such as a recurrent projection's; a sum takes both.
    """
    known = {each.id: _items(each.value) for each in node.parameters if each.id.endswith("_combination_function_input_data")}
    sums = {each.id: read for each in node.functions if known.get(read := _summed(each))}
    if not sums:
        return node
    found = recurrence_of(node)
    functions = [
        _as_sum(each, known[sums[each.id]], found, bias_of(node)) if each.id in sums else each for each in node.functions
    ]
    parameters = [each for each in node.parameters if each.id not in sums.values()]
    return like(node, functions=functions, parameters=[*parameters, *([] if found is None else [_previous(node)])])


def _previous(node: Any) -> Any:
    from modeci_mdf.mdf import Parameter

    value, start = node.output_ports[0].value, _first_result(node)
    return Parameter(id=PREVIOUS, value=f"numpy.reshape({value}, (-1,))", default_initial_value=start)


def _items(text: Any) -> list[str]:
    """The items of a list that is written as text; none of anything else."""
    with contextlib.suppress(SyntaxError, ValueError):
        tree = ast.parse(text if isinstance(text, str) else "0", mode="eval").body
        return [f"({ast.unparse(item)})" for item in tree.elts] if isinstance(tree, ast.List) else []
    return []


def _summed(function: Any) -> Any:
    return (function.args or {}).get("data") if function.function == "onnx::ReduceSum" else None


def _as_sum(function: Any, items: Sequence[str], recurrence: Recurrence | None, bias: str) -> Any:
    port, matrix, args = recurrence or ("", "", {})
    back = [f"numpy.matmul({PREVIOUS}, {matrix})"] if f"({port})" in items else []
    total = " + ".join([*items, *back])
    if bias:
        gaps = "numpy.sort(threshold - numpy.reshape(total, (-1,)))"
        args, total = {**args, "total": total, "gaps": gaps}, f"total + {bias}"
    return like(function, function=None, value=f"numpy.expand_dims({total}, 0)", args=args)


def bias_of(node: Any) -> str:
    """What a KWTAMechanism adds to its input, so that ``k_value`` units are above the threshold; empty where it is not known.

    ``gaps`` are the distances of the units from the threshold, the smallest first.
    """
    said, known, size = node.metadata or {}, _known(node), len(_first_result(node) or ())
    share = known.get("k_value")
    if class_of(node) != "KWTAMechanism" or said.get("average_based") or not _is_number(share):
        return ""
    k = round(share * size) if 0 < share < 1 else int(share)
    bias = f"gaps[{k}] * ratio + gaps[{k - 1}] * (1 - ratio)"
    if not 0 < k < size:
        return ""
    return f"numpy.minimum({bias}, 0.0)" if said.get("inhibition_only") else f"({bias})"
