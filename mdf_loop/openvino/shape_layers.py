"""Layers that change the shape of a value, or put values together and apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdf_loop.openvino.index_layers import constant_axis
from mdf_loop.openvino.layer_nodes import MANY, Nodes, Values, converts
from mdf_loop.openvino.xml import Layer
from mdf_loop.types.elements import CODES


@converts("Reshape", takes=2)
def reshape(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Another shape of the same elements; with ``special_zero`` a 0 keeps the input's dimension."""
    data, shape = inputs
    return nodes.node("Reshape", data, nodes.vector(shape), allowzero=int(not layer.flag("special_zero", True)))


@converts("Squeeze", takes=(1, 2))
def squeeze(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Axes of one element taken away; with ``allow_axis_skip`` longer ones stay."""
    if layer.flag("allow_axis_skip", False) and len(inputs) > 1:
        return nodes.own("SqueezeWhereOne", inputs[0], nodes.vector(inputs[1]))
    if len(inputs) == 1 or nodes.integers(inputs[1]) == []:
        return nodes.node("Squeeze", inputs[0])
    return nodes.node("Squeeze", inputs[0], nodes.vector(inputs[1]))


@converts("Unsqueeze", takes=2)
def unsqueeze(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """New axes of one element."""
    return nodes.node("Unsqueeze", inputs[0], nodes.vector(inputs[1]))


@converts("Transpose", takes=2)
def transpose(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The axes in another order; an empty order turns them round."""
    order = nodes.integers(inputs[1])
    if order is None:
        return nodes.own("Transpose", *inputs)
    return nodes.node("Transpose", inputs[0], perm=tuple(order)) if order else nodes.node("Transpose", inputs[0])


@converts("ShapeOf")
def shape_of(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The dimensions, as int64 or int32."""
    dtype = layer.element_type("output_type", "i64")
    dims = nodes.node("Shape", *inputs)
    return dims if dtype == np.int64 else nodes.typed(nodes.node("Cast", dims, to=CODES[dtype]), dtype)


@converts("Broadcast", takes=(2, 3))
def broadcast(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Elements repeated to fill a shape, by numpy's rules, in both directions, or with the axes named."""
    mode = layer.text("mode", "numpy").lower()
    if mode not in ("numpy", "bidirectional", "explicit"):
        raise layer.unsupported(f"mode is {mode!r}; known: numpy, bidirectional, explicit")
    data, shape = inputs[0], nodes.vector(inputs[1])
    if mode == "bidirectional" or (mode == "numpy" and len(inputs) == 2):
        return nodes.node("Expand", data, shape)
    if len(inputs) < 3:
        raise layer.wrong("mode 'explicit' needs a third input that names the axes")
    axes, rank = nodes.integers(inputs[2]), layer.outputs[0].kind.shape
    if axes is None or rank is None:
        return nodes.own("BroadcastAlong", data, shape, nodes.vector(inputs[2]))
    added = [k for k in range(len(rank)) if k not in axes]
    wide = nodes.node("Unsqueeze", data, nodes.constant(added, np.int64)) if added else data
    return nodes.node("Expand", wide, shape)


@converts("Concat", takes=(1, MANY))
def concat(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Values side by side along an axis."""
    return nodes.node("Concat", *inputs, axis=layer.integer("axis"))


@converts("Split", takes=2)
def split(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """An axis in equal parts."""
    parts = layer.integer("num_splits")
    if not 1 <= parts <= max(len(layer.outputs), 1):
        raise layer.wrong(f"num_splits is {parts}; it has {len(layer.outputs)} output ports")
    if nodes.integers(inputs[1]) is None:
        return nodes.own("Split", *inputs, outputs=parts)
    return nodes.node("Split", inputs[0], outputs=parts, axis=constant_axis(layer, nodes, inputs[1]), num_outputs=parts)


@converts("VariadicSplit", takes=3)
def variadic_split(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """An axis in parts of given lengths, of which one may be what is left (-1)."""
    data, axis, lengths = inputs
    parts, places = nodes.integers(lengths), nodes.integers(axis)
    count = len(layer.outputs)
    dims = nodes.kind(data).shape
    if (
        parts is not None
        and parts.count(-1) == 1
        and places is not None
        and dims is not None
        and -len(dims) <= places[0] < len(dims)
    ):
        whole = dims[places[0]]
        if isinstance(whole, int):
            parts = [whole - sum(parts) - 1 if part == -1 else part for part in parts]
            lengths = nodes.constant(parts, np.int64)
    if parts is None or places is None or -1 in parts:
        return nodes.own("VariadicSplit", data, axis, lengths, outputs=count)
    if len(parts) != count:
        raise layer.wrong(f"it names {len(parts)} lengths and has {count} output ports")
    return nodes.node("Split", data, nodes.vector(lengths), outputs=count, axis=constant_axis(layer, nodes, axis))


@converts("Tile", takes=2)
def tile(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Repeated along each axis; the shorter of shape and repeats is filled up with ones in front."""
    data, repeats = inputs
    counts, rank = nodes.integers(repeats), nodes.rank(data)
    if counts is None or rank is None or len(counts) > rank:
        return nodes.own("Tile", data, nodes.vector(repeats))
    return nodes.node("Tile", data, nodes.constant([1] * (rank - len(counts)) + counts, np.int64))


@converts("Range", takes=3)
def range_(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """From the first input up to the second, in steps of the third."""
    dtype = layer.element_type("output_type") if "output_type" in layer.data else nodes.dtype(inputs[0])
    if dtype is None:
        raise layer.unsupported("the element type of its inputs must be declared")
    scalars = []
    for name in inputs:
        value = nodes.known.get(name)
        if value is None:
            scalars.append(nodes.cast(nodes.node("Squeeze", name), dtype) if nodes.rank(name) != 0 else nodes.cast(name, dtype))
        else:
            scalars.append(nodes.constant(np.asarray(value).reshape(()), dtype))
    return nodes.node("Range", *scalars)


@converts("Pad", takes=(3, 4))
def pad(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Elements put around, a constant or what is there; negative counts take away."""
    mode = layer.text("pad_mode", among=("constant", "edge", "reflect", "symmetric"))
    counts = nodes.node("Concat", nodes.vector(inputs[1]), nodes.vector(inputs[2]), axis=0)
    known = [nodes.integers(name) for name in inputs[1:3]]
    if known[0] is not None and known[1] is not None:
        counts = nodes.constant([*known[0], *known[1]], np.int64)
    if mode == "symmetric":
        return nodes.own("PadSymmetric", inputs[0], counts)
    if mode == "constant" and len(inputs) == 4:
        return nodes.node("Pad", inputs[0], counts, inputs[3], mode=mode)
    return nodes.node("Pad", inputs[0], counts, mode=mode)


@converts("Reverse", takes=2)
def reverse(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Axes turned round."""
    layer.text("mode", among=("index",))
    axes = nodes.integers(inputs[1])
    if not axes:
        raise layer.unsupported("the axes must be a constant")
    bounds = ([-1] * len(axes), [-(2**62)] * len(axes), axes, [-1] * len(axes))
    return nodes.node("Slice", inputs[0], *(nodes.constant(row, np.int64) for row in bounds))


@converts("Roll", takes=3)
def roll(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Elements moved along axes; what leaves at one end comes in at the other."""
    return nodes.own("Roll", *inputs)


@converts("DepthToSpace")
def depth_to_space(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Channels laid out in blocks."""
    mode = layer.text("mode", among=("blocks_first", "depth_first"))
    size = layer.integer("block_size", 1)
    if nodes.rank(inputs[0]) == 4:
        return nodes.node("DepthToSpace", *inputs, blocksize=size, mode="CRD" if mode == "depth_first" else "DCR")
    return nodes.own("DepthToSpace", *inputs, block_size=size, depth_first=int(mode == "depth_first"))


@converts("SpaceToDepth")
def space_to_depth(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Blocks made into channels."""
    mode = layer.text("mode", among=("blocks_first", "depth_first"))
    size = layer.integer("block_size", 1)
    if nodes.rank(inputs[0]) == 4 and mode == "blocks_first":
        return nodes.node("SpaceToDepth", *inputs, blocksize=size)
    return nodes.own("SpaceToDepth", *inputs, block_size=size, depth_first=int(mode == "depth_first"))


@converts("ShuffleChannels")
def shuffle_channels(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """The groups of an axis interleaved."""
    return nodes.own("ShuffleChannels", *inputs, axis=layer.integer("axis", 1), group=layer.integer("group", 1))


@converts("Eye", takes=(3, 4))
def eye(layer: Layer, nodes: Nodes, inputs: Sequence[str]) -> Values:
    """Ones on a diagonal, for each member of an optional batch."""
    dtype = layer.element_type("output_type")
    return nodes.typed(nodes.own("Eye", *inputs, dtype=CODES[dtype]), dtype)
