"""Constants of an OpenVINO model: where each lies in the .bin file, checked before it is read."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from mdf_loop.errors import MalformedBody
from mdf_loop.openvino.xml import ELEMENT_TYPES, Layer, declared_shape
from mdf_loop.readers.model_files import read_bytes
from mdf_loop.types.elements import DTYPES, kind_of

BITS = {DTYPES[21]: 4, DTYPES[22]: 4, DTYPES[23]: 4, DTYPES[25]: 2}
"""Types of which several elements share a byte, the first one in its lowest bits."""


SOME_UNPACKED, MOST_UNPACKED = 1 << 26, 8
"""So many bytes may be unpacked of any file, and then the file so many times, by constants that lie over each other."""


class Weights:
    """The bytes of a .bin file; without a file there is none until a constant asks for them."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._bytes: bytes | None = None
        self._unpacked = 0

    def constant(self, layer: Layer) -> np.ndarray:
        """The value of a Const layer.

        Raises
        ------
        MalformedBody
            Its size is not that of its shape, or it does not lie inside the file.
        UnsupportedOp
            Its element type is not supported.
        """
        port = layer.outputs[0] if layer.outputs else None
        if "element_type" in layer.data or port is None or port.kind.dtype is None:
            dtype = layer.element_type("element_type")
        else:
            dtype = port.kind.dtype
        said = "shape" in layer.data or port is None
        dims = declared_shape(layer.text("shape"), layer) if said or port is None else port.kind.shape or ()
        if dims is None or any(not isinstance(dim, int) for dim in dims):
            raise layer.wrong("a constant must have a known shape")
        shape = tuple(dim for dim in dims if isinstance(dim, int))
        offset, size = layer.integer("offset"), layer.integer("size")
        return self._array(layer, dtype, shape, offset, size)

    def _array(self, layer: Layer, dtype: np.dtype, shape: tuple[int, ...], offset: int, size: int) -> np.ndarray:
        count = prod(shape)
        if dtype == ELEMENT_TYPES["string"]:
            raise layer.unsupported("constants of strings are not supported")
        needed = -(-count * BITS[dtype] // 8) if dtype in BITS else count * dtype.itemsize
        if size != needed and count:  # OpenVINO writes one byte for a constant without elements
            raise layer.wrong(f"{dtype.name}{list(shape)} takes {needed} bytes; its size is {size}")
        data = self._data(layer)
        if not count:
            return np.zeros(shape, dtype)
        if offset < 0 or offset + size > len(data):
            end = f"bytes {offset} to {offset + size}"
            raise layer.wrong(
                f"it lies at {end} of the weights, which have {len(data)}; is {self._name} the right file, and whole?"
            )
        raw = np.frombuffer(data, np.uint8, size, offset)
        self._unpacked += size if dtype in BITS or dtype.kind == "b" else 0  # all others are views
        if self._unpacked > SOME_UNPACKED + MOST_UNPACKED * len(data):
            raise layer.wrong(f"the constants of the model are read more than {MOST_UNPACKED} times from {self._name}")
        if dtype in BITS:
            return _unpacked(raw, count, dtype).reshape(shape)
        if dtype.kind == "b":
            return (raw != 0).reshape(shape)
        return raw.view(dtype).reshape(shape)

    @property
    def _name(self) -> str:
        return repr(str(self.path)) if self.path is not None else "it"

    def _data(self, layer: Layer) -> bytes:
        if self._bytes is None:
            if self.path is None:
                raise layer.wrong("the model has constants, but no weights were given")
            if not self.path.exists():
                raise MalformedBody(f"there is no file {str(self.path)!r}, which holds the constants of the model")
            self._bytes = read_bytes(self.path, "the constants of an OpenVINO model")
        return self._bytes


def _unpacked(raw: np.ndarray, count: int, dtype: np.dtype) -> np.ndarray:
    bits = BITS[dtype]
    places = np.arange(0, 8, bits, dtype=np.uint8)
    values = (raw[:, None] >> places & np.uint8(2**bits - 1)).reshape(-1)[:count]
    if kind_of(dtype) == "float":
        return values.view(dtype)
    return (
        np.where(values >= 8, values.astype(np.int8) - 16, values).astype(dtype) if dtype == DTYPES[22] else values.astype(dtype)
    )
