"""A Sphinx directive that lists the layers of OpenVINO that are read, from the table that reads them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from mdf_loop.openvino.ir import layer_types


class OpenvinoLayers(Directive):
    """``.. openvino-layers::`` - the types of layers there is a conversion for."""

    def run(self) -> list[nodes.Node]:
        """Make one paragraph."""
        names = layer_types()
        text = nodes.paragraph(text=f"{len(names)} types of layers, in every opset that has them where nothing else is said: ")
        for k, name in enumerate(names):
            text += [*([nodes.Text(", ")] if k else []), nodes.literal(text=name)]
        text += nodes.Text(".")
        return [text]


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("openvino-layers", OpenvinoLayers)
    return {"parallel_read_safe": True}
