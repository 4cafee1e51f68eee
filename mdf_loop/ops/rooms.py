"""Rooms: folders of the package that may be taken out, and what is missing without them.

No file outside a room imports it: what a room has is found through the table here.  A room names its modules of kernels
in ``KERNELS``; OpenVINO's also has ``prepare`` and ``read_openvino``, which :func:`enter` leads to.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import record


@record
class Room:
    """A folder of the package that may be taken out.

    Attributes
    ----------
    package : str
    domain : str
        The domain of its operators.
    operators : frozenset of str
        What it has of ONNX's own domain besides.
    """

    package: str
    domain: str
    operators: frozenset[str] = frozenset()

    @property
    def is_there(self) -> bool:
        """Whether the folder is there, with its files."""
        spec = importlib.util.find_spec(self.package)
        return spec is not None and spec.origin is not None

    def missing(self, what: str) -> UnsupportedOp:
        """The error for what needs this room."""
        return UnsupportedOp(
            f"{what} needs {self.package}, which was taken out of this installation; "
            "the complete package has it: install it again from a checkout"
        )


OPENVINO = Room("mdf_loop.openvino", "openvino")
ML = Room(
    "mdf_loop.ml",
    "ai.onnx.ml",
    frozenset({"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"}),
)
ROOMS = (OPENVINO, ML)
"""All rooms."""


def enter(room: Room, what: str) -> Any:
    """The package of a room.

    Raises
    ------
    UnsupportedOp
        It was taken out; ``what`` says what needs it.
    """
    if not room.is_there:
        raise room.missing(what)
    return importlib.import_module(room.package)


OF_BODIES = ("mdf_loop.calls.control_flow", "mdf_loop.integrations.mdf_engine")
"""Modules with kernels of nodes that hold a body: what runs these is above the kernels, and is found here, as rooms are."""


def kernel_modules() -> Iterator[str]:
    """The modules of kernels outside ``kernels/``: those of nodes that hold a body, and those of the rooms that are there."""
    yield from OF_BODIES
    for room in ROOMS:
        if room.is_there:
            yield from (f"{room.package}.{name}" for name in importlib.import_module(room.package).KERNELS)


def refuse_missing(op: str, domain: str) -> None:
    """Refuse an operator whose room was taken out.

    Raises
    ------
    UnsupportedOp
    """
    for room in ROOMS:
        if (domain == room.domain or (not domain and op in room.operators)) and not room.is_there:
            raise room.missing(f"{domain}::{op}" if domain else op)
