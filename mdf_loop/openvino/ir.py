"""OpenVINO's model files to the IR: the .xml with the graph and the .bin with its constants, format 10 and 11.

Nothing of OpenVINO is needed.  Layers become ONNX operators wherever the meaning is the same; what ONNX has no
operator for has a kernel of its own, in the domain ``openvino``.  Loop, TensorIterator and If become records
that nothing behind the reader can tell from ONNX's.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mdf_loop.errors import KindError, LoopError
from mdf_loop.ir import Body, ValueType
from mdf_loop.ir.well_formed import check_body
from mdf_loop.openvino.layer_nodes import CONVERSIONS, MANY, Nodes
from mdf_loop.openvino.weight_file import Weights
from mdf_loop.openvino.xml import Layer, Net, Port, declared_shape, parse_file

_CONVERSION_MODULES = ("elementwise", "shape", "index", "network", "loop")


@dataclass(frozen=True)
class Variable:
    """A value that a model keeps from run to run (ReadValue and Assign).

    ``input`` is the hidden input of the body that gets it, None in the first run; ``output`` is the position among
    the body's outputs of what is kept, None where nothing assigns it.
    """

    id: str
    input: str
    output: int | None


@dataclass(frozen=True)
class OpenvinoModel:
    """A model as it was read.

    Attributes
    ----------
    body : Body
        Its graph.  Inputs are the parameters, then one for each variable; outputs are the results, then what is
        assigned to variables.
    aliases : mapping of str to str
        Every name of an input (of its layer and its tensor) to the body's name of it.
    outputs : tuple of str
        Names of the results.
    variables : tuple of Variable
    """

    body: Body
    aliases: Mapping[str, str]
    outputs: tuple[str, ...]
    variables: tuple[Variable, ...] = ()


def read_openvino(path: str | os.PathLike, weights: str | os.PathLike | None = None) -> OpenvinoModel:
    """Read an OpenVINO model.

    Parameters
    ----------
    path : str or path-like
        The .xml file.
    weights : str or path-like, optional
        The .bin file; by default the one beside the .xml file that has its name.

    Returns
    -------
    OpenvinoModel

    Raises
    ------
    MalformedBody
        A file is missing or broken; says what and where.
    UnsupportedOp
        A layer, an attribute or the version of the format is not supported; names it, its type and its opset.
    """
    if not isinstance(path, str | os.PathLike):
        raise KindError(f"an OpenVINO model is read from the path of its .xml file; got {type(path).__name__}")
    if not isinstance(weights, str | os.PathLike | None):
        raise KindError(f"the weights of an OpenVINO model are the path of its .bin file; got {type(weights).__name__}")
    path = Path(path)
    _load_conversions()
    net = parse_file(path)
    return _model(net, Weights(path.with_suffix(".bin") if weights is None else Path(weights)))


@cache
def _load_conversions() -> None:
    for name in _CONVERSION_MODULES:
        importlib.import_module(f"mdf_loop.openvino.{name}_layers")


def layer_types() -> list[str]:
    """The types of layers that are read."""
    _load_conversions()
    return sorted({"Const", "Parameter", "Result", *CONVERSIONS} - {"SoftMax"})


def _model(net: Net, weights: Weights) -> OpenvinoModel:
    nodes = Nodes(weights, net.path)
    parameters = net.of_type("Parameter")
    inputs = [nodes.name(layer.name) for layer in parameters]
    values = add_layers(net, nodes, {layer.id: name for layer, name in zip(parameters, inputs, strict=True)})
    aliases = dict(zip(inputs, inputs, strict=True))
    for layer, name in zip(parameters, inputs, strict=True):
        for alias in (layer.name, *layer.outputs[0].names):
            aliases.setdefault(alias, name)
    results = net.of_type("Result")
    sources = [values[layer.sources[0]] for layer in results]
    variables, kept = [], []
    for id, name in nodes.variables.items():
        if id in nodes.assigned:
            kept.append(nodes.assigned[id])
        variables.append(Variable(id, name, len(sources) + len(kept) - 1 if id in nodes.assigned else None))
    body = nodes.body([*inputs, *nodes.variables.values()], [*sources, *kept])
    return OpenvinoModel(check_body(body, net.path), aliases, _output_names(net, results), tuple(variables))


def _output_names(net: Net, results: Sequence[Layer]) -> tuple[str, ...]:
    """Names of the results: of the tensor where it has one, or else of the layer; each once."""
    names: list[str] = []
    for layer in results:
        said = [name for name in layer.text("output_names", "").split(",") if name]
        said += [name for name in (layer.element.get("output_names") or "").split(",") if name]
        candidates = [*said, *net.source(layer).names, layer.name, f"{layer.name}.{layer.id}"]
        names.append(next((name for name in candidates if name not in names), f"output {len(names)}"))
    return tuple(names)


def add_layers(net: Net, nodes: Nodes, given: Mapping[int, str]) -> dict[tuple[int, int], str]:
    """Add every layer of a graph; returns the name of the value at each (layer, output position).

    ``given`` are the names of the parameters' values.
    """
    values: dict[tuple[int, int], str] = {}
    for layer in net.layers.values():
        nodes.begin(layer)
        if layer.type == "Parameter":
            values[layer.id, 0] = _parameter(layer, nodes, given[layer.id])
        elif layer.type == "Const":
            values[layer.id, 0] = _constant(layer, nodes)
        elif layer.type == "Result":
            if len(layer.inputs) != 1 or any(port.is_read for port in layer.outputs):
                raise layer.wrong("a Result has one input, and no edge starts from it")
        else:
            _convert(layer, nodes, values)
    return values


def _parameter(layer: Layer, nodes: Nodes, name: str) -> str:
    if len(layer.outputs) != 1 or layer.inputs:
        raise layer.wrong("a Parameter has one output and no input")
    declared = parameter_kind(layer)
    if name not in nodes.kinds and name not in nodes.outer_kinds:
        nodes.kinds[name] = declared
    layer.ignore("layout")
    return name


def parameter_kind(layer: Layer) -> ValueType:
    """What a Parameter declares: its attributes tell a scalar from any rank, which its port does not."""
    port = layer.outputs[0].kind if layer.outputs else ValueType()
    shape = declared_shape(layer.text("shape"), layer) if "shape" in layer.data else port.shape
    said = layer.text("element_type", "dynamic")
    dtype = port.dtype if said in ("dynamic", "undefined") else layer.element_type("element_type")
    return ValueType(dtype, shape)


def _constant(layer: Layer, nodes: Nodes) -> str:
    if len(layer.outputs) != 1 or layer.inputs:
        raise layer.wrong("a Const has one output and no input")
    return nodes.hold(nodes.name(), nodes.weights.constant(layer))


def _convert(layer: Layer, nodes: Nodes, values: dict[tuple[int, int], str]) -> None:
    """One layer through its conversion; what its ports declare is kept with the names it gave."""
    if layer.type not in CONVERSIONS or not layer.opset:
        raise layer.unsupported("there is no conversion for it")
    conversion, least, most = CONVERSIONS[layer.type]
    inputs = [values[source] for source in layer.sources]
    if not least <= len(inputs) <= most:
        count = f"{least}" if least == most else f"{least} or more" if most >= MANY else f"{least} to {most}"
        raise layer.wrong(f"it takes {count} input{'s' * (count != '1')}; it has {len(inputs)}")
    try:
        made = conversion(layer, nodes, inputs)
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, LoopError):
            raise
        # Conversions look into constants and attributes, which may hold anything.
        raise layer.wrong(f"its constants or attributes do not fit together: {error}") from error
    names = (made,) if isinstance(made, str) else made
    if unread := layer.unread():
        raise layer.unsupported(f"the attribute {', '.join(unread)} is not known")
    if len(names) < len(layer.outputs):
        raise layer.wrong(f"it has {len(layer.outputs)} output ports; an operation of this type has {len(names)}")
    for k, (port, name) in enumerate(zip(layer.outputs, names, strict=False)):
        values[layer.id, k] = name
        _declare(nodes, name, port)


def _declare(nodes: Nodes, name: str, port: Port) -> None:
    found = nodes.kinds.get(name)
    if name in nodes.outer_kinds or name in nodes.constants:
        return
    if found is None or (found.shape is None and port.kind.shape is not None):
        dtype = port.kind.dtype if found is None or found.dtype is None else found.dtype
        nodes.kinds[name] = ValueType(dtype, port.kind.shape)
