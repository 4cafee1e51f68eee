"""A model with sliders, whose picture follows them, in a notebook and as a page of the browser.

Both are panel's: one implementation, and its server and its notebook widgets are looked after by others.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdf_loop.errors import ArgumentError, LoopError, let_through
from mdf_loop.models.model import Model
from mdf_loop.models.opening import prepare
from mdf_loop.models.results import Results
from mdf_loop.options import current_options, options, public
from mdf_loop.pages.ranges import Range, ranges_of
from mdf_loop.plots.plot import figure, written
from mdf_loop.progress import is_notebook
from mdf_loop.settings.engines import needed
from mdf_loop.system.html import escaped

PATIENCE = 5.0
"""Seconds after which a run is stopped, where ``options(timeout=...)`` says nothing else."""

PAUSE = 0.02
"""Seconds in which moves of sliders are taken together."""

INK = ":host, :host * { color: var(--jp-ui-font-color1, var(--panel-on-background-color, inherit)) }"
"""Texts in the ink of JupyterLab, light or dark, and elsewhere in that of panel."""

PAGE = """
{% extends base %}
{% block postamble %}
<style>
:root { color-scheme: light dark; --jp-ui-font-color1: CanvasText }
body { margin: 1rem; background: Canvas; color: CanvasText }
</style>
{% endblock %}
{% block contents %}{{ embed(roots.sliders) }}{% endblock %}
"""
"""A page of its own, light or dark as its reader likes it: a notebook has its own colours."""

ADDRESS = "127.0.0.1"
"""Where the page is served: for this computer alone."""


def panel() -> Any:
    """The package panel.

    Raises
    ------
    LoopError
        It is not installed.
    """
    return needed("panel", "explore needs panel", "explore")


class Explorer:
    """A model with sliders: the result of :func:`mdf_loop.explore`.  A notebook shows it.

    Attributes
    ----------
    model : Model
    ranges : mapping of str to Range
        The ranges of the sliders.
    """

    def __init__(self, model: Model, names: Sequence[str], ranges: Mapping[str, Range], arguments: Mapping[str, Any]) -> None:
        self.model, self.ranges = model, ranges
        self._names, self._arguments = tuple(names), dict(arguments)
        self._context = contextvars.copy_context()  # a server calls back outside of the caller's options
        self._begun = self.shown({name: range.start for name, range in ranges.items()})  # errors come now

    def results(self, values: Mapping[str, float]) -> Results:
        """Run the model with these values of the sliders.

        Raises
        ------
        LoopError
            As :func:`mdf_loop.run`.
        """
        return self._context.copy().run(self._run, values)

    def _run(self, values: Mapping[str, float]) -> Results:
        chosen = current_options()
        with options(timeout=PATIENCE if chosen.timeout is None else chosen.timeout):
            return self.model(**self._arguments, **values)

    def shown(self, values: Mapping[str, float]) -> tuple[bytes | None, str]:
        """What a page shows of a run: a picture, unless it gives single numbers alone, and a table of its results.

        Raises
        ------
        LoopError
            The run fails, or gives nothing of a name that was asked for.
        """
        results = self.results(values)
        try:
            picture = written(figure(results, self._names))
        except ArgumentError:
            if self._names:
                raise
            picture = None
        return picture, results._repr_html_()

    def view(self) -> Sliders:
        """The sliders and the picture, as a new object of panel."""
        return Sliders(self, self._begun)

    @public
    def show(self, port: int = 0, is_opened: bool = True, listener: Callable[[str], Any] | None = None) -> None:
        """Show it as a page for browsers on this computer, until Ctrl-C.

        Parameters
        ----------
        port : int
            The port; 0 chooses a free one.
        is_opened : bool
            Open the page in the browser.
        listener : callable, optional
            Called with the address when the page is ready.

        Raises
        ------
        LoopError
            The port is in use.
        """
        try:
            server = panel().io.server.get_server(
                self._page, port=port, address=ADDRESS, title=self.model.name, show=False, start=False
            )
        except OSError as error:
            let_through(error)
            raise LoopError(f"port {port} cannot be used: {error}") from error
        server.start()
        if listener is not None:
            listener(f"http://localhost:{server.port}")
        if is_opened:
            server.show("/")
        with contextlib.suppress(KeyboardInterrupt):
            server.io_loop.start()
        server.stop()

    def _page(self) -> Any:
        """What each reader of the page gets."""
        page = panel().Template(PAGE)
        page.add_panel("sliders", self.view().layout)
        return page

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """What a notebook shows."""
        return self.view().layout._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        moving = ", ".join(f"{name} from {range.low:g} to {range.high:g}" for name, range in self.ranges.items())
        return f"<explorer of {self.model!r}: {moving}>"


class Sliders:
    """Sliders and a picture on one page.

    Attributes
    ----------
    sliders : dict of str to panel widget
    picture, values, layout : panel objects
    """

    def __init__(self, explorer: Explorer, begun: tuple[bytes | None, str]) -> None:
        pn = panel()
        self._explorer, self._is_waiting = explorer, False
        self.sliders = {name: self._slider(pn, name, range) for name, range in explorer.ranges.items()}
        self.picture = pn.pane.PNG(begun[0], sizing_mode="scale_width", max_width=700, alt_text="what a run gives")
        self.values = pn.pane.HTML(begun[1], sizing_mode="stretch_width", stylesheets=[INK])
        for slider in self.sliders.values():
            slider.param.watch(self._moved, "value")
        title = pn.pane.HTML(f"<h2>{escaped(explorer.model.name)}</h2>", stylesheets=[INK])
        side = pn.Column(title, *self.sliders.values(), width=280)
        main = pn.Column(self.picture, self.values, min_width=320, max_width=720, sizing_mode="stretch_width")
        self.layout = pn.FlexBox(side, main)

    def _slider(self, pn: Any, name: str, range: Range) -> Any:
        made = pn.widgets.IntSlider if range.is_whole else pn.widgets.FloatSlider
        unit = self._explorer.model.units.get(name)
        label = f"{name} ({unit})" if unit else name
        more: dict[str, Any] = {} if range.is_whole else {"format": "0.[0000]" if range.step >= 1e-4 else "0.00e+0"}
        more |= {"start": range.low, "end": range.high, "step": range.step, "value": range.start}
        return made(label=label, width=250, stylesheets=[INK], **more)

    def _moved(self, _: Any) -> None:
        """A slider moved: draw soon, once for all moves until then, so that a fast hand does not wait for each."""
        if self._is_waiting:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:  # there is none
            let_through(error)
            self._draw()
            return
        self._is_waiting = True
        loop.call_later(PAUSE, self._draw)

    def _draw(self) -> None:
        """Draw a run with the values that the sliders have now."""
        self._is_waiting = False
        try:
            shown = self._explorer.shown({name: slider.value for name, slider in self.sliders.items()})
        except LoopError as error:
            shown = None, error._repr_html_()
        self.picture.object, self.values.object = shown


def explorer_of(model: Any, names: Sequence[str], over: Mapping[str, Any], how: Mapping[str, Any]) -> Explorer:
    """What :func:`mdf_loop.explore` returns; ``how`` are the arguments of its runs that are no inputs.

    Raises
    ------
    LoopError
    """
    pn, ready = panel(), prepare(model)
    if is_notebook() and not pn.extension._loaded:
        pn.extension()
    ranges, given = ranges_of(ready, over)
    return Explorer(ready, names, ranges, {**given, **how})
