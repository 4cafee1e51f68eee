"""A Sphinx directive that shows CHANGELOG.md as a page: Markdown as the changelog uses it, which is headings, lists and links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"

UNDERLINES = {2: "-", 3: "~"}
"""What stands under a heading of each level; the first is the page's own title."""


def as_rst(markdown: str) -> str:
    """The same text as reStructuredText, in which single backquotes are code as well (``default_role``)."""
    text = re.sub(r"(`[^`]+`)(\w?)", lambda m: f"{m[1]}\\ {m[2]}" if m[2] else m[1], markdown)  # a letter may not follow at once
    text = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", lambda m: f"`{' '.join(m[1].split())} <{m[2]}>`__", text)
    lines = []
    for line in text.split("\n"):
        heading = re.match(r"(#+) (.+)", line)
        if heading is None:
            lines.append(line)
        elif (level := len(heading[1])) > 1:
            title = heading[2].strip("[]")
            lines += [title, UNDERLINES[level] * len(title)]
    return "\n".join(lines)


class Changelog(Directive):
    """``.. changelog::`` - all of it."""

    def run(self) -> list[nodes.Node]:
        """Parse it as part of the page."""
        environment = self.state.document.settings.env
        for file in (str(CHANGELOG), __file__):
            environment.note_dependency(file)
        from sphinx.util.nodes import nested_parse_with_titles

        holder = nodes.section()
        holder.document = self.state.document
        lines = StringList(as_rst(CHANGELOG.read_text()).split("\n"), str(CHANGELOG))
        nested_parse_with_titles(self.state, lines, holder, self.content_offset)
        return holder.children


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("changelog", Changelog)
    return {"parallel_read_safe": True}
