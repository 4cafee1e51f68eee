"""What to say of a body whose signature was lost."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.convert.repair.signature import Place, Reading
from mdf_loop.readers.mdf.signature import ports_of

RE_EXPORT = (
    "or run the .onnx file itself with mdf_loop.run. Values of ONNX initializers are not in the file: export them as "
    "Constant nodes, or as inputs (keep_initializers_as_inputs)"
)


def message(place: Place, found: Sequence[Reading] | None) -> str:
    """Why there is no signature, and the metadata to write, with the graph's own names.

    ``found`` are readings that there are, or None if there are too many to look at.
    """
    ports = ports_of(place.body)
    lost = [name for name in dict.fromkeys(port for _, port in ports.needy) if name not in place.provided]
    ends = [port for _, port in ports.ends]
    if found:
        lost = [name for name in lost if name not in found[0].inputs]
        several = " or ".join(_metadata(reading.inputs, reading.outputs, place) for reading in found)
        why = f"there is more than one reading, such as {several}. Write the right one into the graph"
    else:
        many = "there are too many ways to read it for" if found is None else "no reading fits"
        why = (
            f"{many} what the node gives it ({_counted(place)}): it reads {_listed(lost)} and gives {_listed(ends)}. "
            f"Write it into the graph, such as {_metadata([*(role.name for role in place.inputs)], ends, place)}"
        )
    also = f". Nothing gives a value to {_listed(lost)}, which the body reads" if found and lost else ""
    return (
        f"MDF's importer did not write which ports of this graph are the inputs and outputs of the body, and {why}, "
        f"{RE_EXPORT}{also}"
    )


def _counted(place: Place) -> str:
    results = len(place.outputs) - (place.kind == "loop")
    return f"{place.n_carried} carried, {results} result{'s' * (results != 1)}"


def _metadata(inputs: Sequence[str], outputs: Sequence[str], place: Place) -> str:
    said = "" if place.kind == "branch" else f"inputs: {_yaml(inputs)}, "
    return f"metadata: {{{said}outputs: {_yaml(outputs)}, opset: {place.opset}, types: {{}}}}"


def _yaml(names: Sequence[str]) -> str:
    import yaml

    return yaml.safe_dump(list(names), default_flow_style=True, allow_unicode=True, width=1 << 20).strip()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) if names else "nothing"
