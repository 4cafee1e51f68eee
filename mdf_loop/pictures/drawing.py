"""``draw``: a model as a picture that shows itself in a notebook and is written to files."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdf_loop.calls.compiled import Compiled
from mdf_loop.convert.loading import load
from mdf_loop.convert.scheduled.loops import lower
from mdf_loop.errors import ArgumentError, KindError, LoopError
from mdf_loop.ir import Body
from mdf_loop.kernels import load_kernels
from mdf_loop.models.model import Model
from mdf_loop.ops.rooms import OPENVINO, enter
from mdf_loop.options import public
from mdf_loop.readers import read
from mdf_loop.readers.mdf.by_place import graph_by_place
from mdf_loop.readers.mdf.graph_objects import check_structure
from mdf_loop.readers.mdf.typed import has_conditions, is_typed
from mdf_loop.system.html import image
from mdf_loop.writers.atomic_files import replacing

if TYPE_CHECKING:  # what draws is imported when something is drawn, so that importing mdf_loop takes no time for it
    from mdf_loop.pictures.boxes import Picture

FORMATS = (".svg", ".png", ".pdf", ".dot", ".md", ".mmd")
"""What a drawing can be written as, by the end of the file's name."""

LEVELS = ("equations", "operators")


class Drawing:
    """A picture of a model.

    A notebook shows it as SVG, made by Graphviz's ``dot`` if it is installed, otherwise by matplotlib.  Without both, the
    notebook shows Mermaid's text.

    Attributes
    ----------
    picture : Picture
        Its boxes, clusters and arrows.
    """

    def __init__(self, picture: Picture) -> None:
        self.picture = picture

    @property
    def mermaid(self) -> str:
        """The picture as Mermaid text."""
        from mdf_loop.pictures.diagram_texts import mermaid_text

        return mermaid_text(self.picture)

    @property
    def dot(self) -> str:
        """The picture in Graphviz's language."""
        from mdf_loop.pictures.diagram_texts import dot_text

        return dot_text(self.picture)

    @public
    def svg(self) -> str:
        """The picture as SVG, never wider than the page that shows it.

        Raises
        ------
        LoopError
            Neither Graphviz's command ``dot`` nor matplotlib is installed, or ``dot`` fails.
        """
        return self._rendered("svg").decode().replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)

    def _rendered(self, kind: str) -> bytes:
        """What Graphviz makes of the picture, or matplotlib where Graphviz is not installed."""
        from mdf_loop.pictures.diagram_texts import dot_command, rendered
        from mdf_loop.pictures.on_axes import written

        return rendered(self.dot, kind) if dot_command() is not None else written(self.picture, kind)

    def plot(self, ax: Any = None) -> Any:
        """The picture on axes of matplotlib, laid out without Graphviz.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; otherwise a new figure, as large as the picture needs.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        LoopError
            matplotlib is not installed.
        """
        from mdf_loop.pictures.on_axes import on_axes

        return on_axes(self.picture, ax)

    @public
    def save(self, path: str | os.PathLike) -> Path:
        """Write the picture to a file.

        Parameters
        ----------
        path : str or path-like
            The ending is .svg, .png or .pdf (made by Graphviz if it is installed, otherwise by matplotlib), .dot, .md
            (Mermaid in Markdown) or .mmd.

        Returns
        -------
        Path

        Raises
        ------
        ArgumentError
            The name ends in something else.
        LoopError
            Neither Graphviz's command ``dot`` nor matplotlib is installed, or ``dot`` fails.
        FileError
            The file cannot be written; what was there is unchanged.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in FORMATS:
            raise ArgumentError(f"a drawing is a file of type {', '.join(FORMATS)}; got {os.fspath(path)!r}")
        if kind in (".svg", ".png", ".pdf"):
            content = self.svg().encode() if kind == ".svg" else self._rendered(kind[1:])
        else:
            text = {".dot": self.dot, ".mmd": self.mermaid, ".md": f"```mermaid\n{self.mermaid}```\n"}[kind]
            content = text.encode()
        with replacing(path) as file:
            file.write(content)
        return path

    def __str__(self) -> str:
        return self.mermaid

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows."""
        bundle = {"text/plain": self.mermaid}
        try:
            svg = self.svg()
            return bundle | {"image/svg+xml": svg, "text/html": image("svg+xml", svg.encode(), "the model as a picture")}
        except LoopError:
            return bundle | {"text/html": f'<pre class="mermaid">{html.escape(self.mermaid)}</pre>'}


@public
def draw(model: Any, *, steps: int | None = None, time_increment: float | None = None, level: str = "equations") -> Drawing:
    """Draw a model: its nodes with their equations and values, the bodies of loops inside them, and carried values.

    Nothing is run, so you need not give values.

    Parameters
    ----------
    model
        A model as in :func:`mdf_loop.run`, a body in any form, or the result of :func:`mdf_loop.prepare` or
        :func:`mdf_loop.compile`.
    steps : int, optional
        Draw the loop that an MDF model becomes with so many evaluations.
    time_increment : float, optional
        The time between two steps.
    level : {"equations", "operators"}
        What a box is.  ``"equations"``: an equation of the model; conditions are shown too.  ``"operators"``: an operator, with
        a colour that shows how the plan runs it.  ONNX bodies are always drawn as operators.

    Returns
    -------
    Drawing
        A notebook shows it; ``.save(path)`` writes .svg, .png, .pdf, .dot, .md or .mmd; ``.mermaid`` and ``.dot`` are text.

    Raises
    ------
    ArgumentError
        The level is unknown.
    LoopError
        The model cannot be read.

    Examples
    --------
    >>> import mdf_loop
    >>> drawing = mdf_loop.draw("examples/accumulate.yaml")
    >>> print(drawing.mermaid.splitlines()[0])
    flowchart TD
    >>> [box.kind for box in drawing.picture.top.all_boxes() if box.lines[0] == "Gather"]
    ['batched']
    """
    if level not in LEVELS:
        raise ArgumentError(f"level is one of {', '.join(LEVELS)}; got {level!r}")
    load_kernels()
    return Drawing(_picture(model, steps, time_increment, level == "operators"))


def _picture(model: Any, steps: int | None, time_increment: float | None, of_operators: bool) -> Picture:
    from mdf_loop.pictures.of_equations import equations_of
    from mdf_loop.pictures.of_models import picture_of_body, picture_of_equations, picture_of_graph, picture_of_loop

    if isinstance(model, Compiled):
        return picture_of_loop(model.record)
    if isinstance(model, Model):
        model = model.drawn
    if isinstance(model, str | os.PathLike) and Path(model).suffix.lower() in (".yaml", ".yml", ".json"):
        model = load(model)
    if isinstance(model, Body) or not (hasattr(model, "graphs") or hasattr(model, "nodes")):
        if steps is not None:
            raise ArgumentError("steps is for MDF models")
        if not of_operators and (said := equations_of(model)) is not None:
            return picture_of_equations(said)
        return picture_of_body(_body(model))
    check_structure(model)
    graph = _only_graph(model)
    if steps is not None or time_increment is not None:
        lowered = lower(graph, 2 if steps is None else steps, time_increment)
        return picture_of_loop(lowered.loop) if lowered.loop is not None else picture_of_graph(graph, of_operators)
    if is_typed(graph) and not has_conditions(graph):
        return picture_of_body(read(graph, kind="branch"))
    return picture_of_graph(graph, of_operators)


def _body(model: Any) -> Body:
    if isinstance(model, str | os.PathLike) and Path(model).suffix.lower() == ".xml":
        body: Body = enter(OPENVINO, "an OpenVINO model").prepare(model).body
        return body
    return read(model)


def _only_graph(model: Any) -> Any:
    graphs = getattr(model, "graphs", [model])
    if len(graphs) != 1:
        raise KindError(f"the model {model.id!r} has {len(graphs)} graphs; draw one of them")
    return graph_by_place(graphs[0], read)
