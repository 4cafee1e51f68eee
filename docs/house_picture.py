"""A Sphinx directive that draws the house: parts in the order in which they may import each other, and who does.

The order is that of ``tests/project/test_layers.py``, the imports are those of the code, so that the picture cannot differ
from either.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from docutils import nodes
from docutils.parsers.rst import Directive

ROOT = Path(__file__).parent.parent

WAY = ("readers", "ir", "plan", "step", "backends", "execute", "calls")
"""The parts through which a loop goes."""

WIDTH, ROW, HEIGHT, LETTER = 760, 54, 26, 7.4


def layers() -> list[list[str]]:
    """The parts of the package, from what all may import to what none may."""
    for node in ast.parse((ROOT / "tests/project/test_layers.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS":
            return [sorted(names) for names in ast.literal_eval(node.value)]
    raise LookupError("tests/project/test_layers.py says no LAYERS")


def imports(parts: Iterable[str]) -> dict[str, set[str]]:
    """What each part imports of the others; what stands inside a function counts as well."""
    known = set(parts)
    found: dict[str, set[str]] = {part: set() for part in known}
    for path in (ROOT / "mdf_loop").rglob("*.py"):
        own = _part(".".join(path.relative_to(ROOT).with_suffix("").parts), known)
        if own in known:
            found[own] |= {_part(name, known) for name in _imported(path)} & (known - {own})
    return found


def _part(module: str, known: set[str]) -> str:
    inside = module.split(".")[1:3]
    return ".".join(inside) if ".".join(inside) in known else (inside[0] if inside else "")


@functools.cache
def _imported(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mdf_loop"):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("mdf_loop.")]
    return found


def direct(found: Mapping[str, set[str]], order: list[list[str]]) -> list[tuple[str, str]]:
    """Imports (who, what) that no chain of others makes already, and none that goes up."""
    rank = {part: k for k, names in enumerate(order) for part in names}
    below = {part: {other for other in others if rank[other] < rank[part]} for part, others in found.items()}
    reach: dict[str, set[str]] = {}
    for part in sorted(below, key=rank.__getitem__):
        reach[part] = below[part].union(*(reach[other] for other in below[part]))
    return sorted((part, x) for part in below for x in below[part] if not any(x in reach[y] for y in below[part] - {x}))


def picture() -> str:
    """The house as SVG: what all may import stands at the bottom, what people call at the top."""
    order = layers()
    places = dict(_places(order))
    lines = [_line(places[who], places[what], who in WAY and what in WAY) for who, what in direct(imports(places), order)]
    boxes = [_box(name, *place) for name, place in places.items()]
    height = ROW * len(order)
    style = 'font-family="monospace" font-size="12" role="img" aria-label="The parts of mdf_loop and who imports whom"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" {style}>'
    return "\n".join([start, *lines, *boxes, "</svg>"])


def _places(order: list[list[str]]) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """The middle of each part's box, and how wide it is."""
    for k, names in enumerate(order):
        y = ROW * (len(order) - k - 0.5)
        for n, name in enumerate(names):
            yield name, (WIDTH * (n + 1) / (len(names) + 1) + 60 * (k % 3 - 1), y, 16 + LETTER * len(name))


def _line(start: tuple[float, float, float], end: tuple[float, float, float], is_way: bool) -> str:
    (x, y, _), (to_x, to_y, _) = start, end
    y, to_y = y + HEIGHT / 2, to_y - HEIGHT / 2
    look = 'stroke="#c2410c" stroke-width="2"' if is_way else 'stroke="#94a3b8" stroke-width="1"'
    bend = (y + to_y) / 2
    return f'<path d="M{x:.0f} {y:.0f} C{x:.0f} {bend:.0f} {to_x:.0f} {bend:.0f} {to_x:.0f} {to_y:.0f}" fill="none" {look}/>'


def _box(name: str, x: float, y: float, width: float) -> str:
    colours = ("#fed7aa", "#c2410c") if name in WAY else ("#f1f5f9", "#64748b")
    box = f'x="{x - width / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="4"'
    text = f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" fill="#0f172a">{escape(name)}</text>'
    return f'<g><title>{escape(subject(name))}</title><rect {box} fill="{colours[0]}" stroke="{colours[1]}"/>{text}</g>'


def subject(part: str) -> str:
    """What a part says of itself in its first line; a browser shows it under the mouse."""
    path = ROOT / "mdf_loop" / part.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


class House(Directive):
    """``.. house::`` - the picture; where no HTML is made, the order in words."""

    def run(self) -> list[nodes.Node]:
        """Make the picture."""
        words = "; ".join(", ".join(names) for names in layers())
        return [nodes.raw("", picture(), format="html"), nodes.raw("", words, format="text")]


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("house", House)
    return {"parallel_read_safe": True}
