"""Sphinx directives that print the table of kernels, so that the documentation cannot differ from the code."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from mdf_loop.cli.installation import way_in_loops
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS, Kernel

COLUMNS = {"Operator": 36, "Kernels from version": 18, "Runs by": 26, "In a loop": 20}
"""Headings, and how wide their columns are."""

EXPRESSIONS = "mdf"
"""Domain of the functions that expressions of MDF graphs may call."""


def onnx_domains() -> set[str]:
    """The domains of operators that ONNX itself knows."""
    import onnx

    return {schema.domain for schema in onnx.defs.get_all_schemas()}


def rows() -> list[tuple[str, ...]]:
    """One row for each ONNX operator of the registry."""
    load_kernels()
    known = onnx_domains()
    return [
        (
            f"{domain}.{op}" if domain else op,
            ", ".join(str(k.since) for k in versions),
            _runs_by(versions),
            way_in_loops(versions),
        )
        for (domain, op), versions in sorted(KERNELS.items())
        if domain in known
    ]


def missing() -> list[str]:
    """Operators of the installed onnx, not deprecated, that there is no kernel for."""
    import onnx

    newest = {(schema.domain, schema.name): schema for schema in onnx.defs.get_all_schemas()}
    return sorted(
        f"{domain}::{op}" if domain else op for domain, op in set(newest) - set(KERNELS) if not newest[domain, op].deprecated
    )


def _runs_by(versions: list[Kernel]) -> str:
    return "mdf_loop" if all(kernel.native for kernel in versions) else "onnx.reference"


def functions(module: str) -> list[str]:
    """Functions of a module that there is a kernel for, such as ``exp`` of numpy."""
    load_kernels()
    names = sorted(op for domain, op in KERNELS if domain == EXPRESSIONS and op.startswith(f"{module}."))
    return [name.removeprefix(f"{module}.") for name in names]


class OpTable(Directive):
    """``.. op-table::`` - the operators there are kernels for, and those there are none for."""

    def run(self) -> list[nodes.Node]:
        """Make the table and the sentences before it."""
        import onnx

        found, absent = rows(), missing()
        text = f"There are kernels for {len(found)} operators. "
        text += f"Of the operators of onnx {onnx.__version__}, "
        text += f"these have none: {', '.join(absent)}." if absent else "none is missing."
        return [nodes.paragraph(text=text), _table(found)]


class ExpressionFunctions(Directive):
    """``.. expression-functions::`` - what expressions of an MDF graph that is a body may call."""

    def run(self) -> list[nodes.Node]:
        """Make a list with an item for each module."""
        items = []
        for title, module in (
            ("Python's own", "builtins"),
            ("math., such as math.sqrt", "math"),
            ("numpy., such as numpy.exp", "numpy"),
        ):
            text = nodes.paragraph("", "", nodes.strong(text=f"{title}: "))
            for k, name in enumerate(functions(module)):
                text += [*([nodes.Text(", ")] if k else []), nodes.literal(text=name)]
            items.append(nodes.list_item("", text))
        return [nodes.bullet_list("", *items)]


def _table(body: list[tuple[str, ...]]) -> nodes.table:
    group = nodes.tgroup(cols=len(COLUMNS))
    group += [nodes.colspec(colwidth=width) for width in COLUMNS.values()]
    group += nodes.thead("", _row(tuple(COLUMNS)))
    group += nodes.tbody("", *map(_row, body))
    return nodes.table("", group, classes=["colwidths-given"])


def _row(cells: tuple[str, ...]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("op-table", OpTable)
    app.add_directive("expression-functions", ExpressionFunctions)
    return {"parallel_read_safe": True}
