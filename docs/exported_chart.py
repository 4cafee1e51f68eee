"""The chart of the exported loops, drawn from the measured table when the pages are built, so that both say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gallery_hooks import LOOK

HERE = Path(__file__).parent
TABLE, CHART = HERE / "measured_exported.txt", HERE / "pictures" / "exported.svg"
MARKS = {"numpy": ("#9aa5ad", "engine numpy"), "jax": ("#e07a1f", "jax.jit of the original function")}


def shares() -> list[dict[str, float]]:
    """The rows of the table: the time of each column as a share of onnxruntime's."""
    lines = TABLE.read_text().splitlines()
    (head,) = (line for line in lines if line.startswith("onnxruntime: "))
    columns = head.split("share", 1)[1].split()
    rows = []
    for line in lines[lines.index(head) + 1 :]:
        cells = line.split()
        if len(cells) == len(columns) + 2 and cells[1].replace(".", "").isdigit():
            known = zip(columns, cells[2:], strict=True)
            rows.append({column: float(cell) for column, cell in known if cell != "-"})
    return rows


def draw(app: Any) -> None:
    """Draw the chart: a bar for each loop, the shortest first."""
    import matplotlib.pyplot as plt

    rows = sorted(shares(), key=lambda row: row["jit"])
    with plt.rc_context({**LOOK, "svg.hashsalt": "mdf_loop", "svg.fonttype": "none"}):
        fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
        ax.bar(range(len(rows)), [row["jit"] - 1e-3 for row in rows], bottom=1e-3, color="#2a6f97", label="engine jit")
        for column, (colour, label) in MARKS.items():
            places = [k for k, row in enumerate(rows) if column in row]
            ax.plot(places, [rows[k][column] for k in places], "o", markersize=3, color=colour, label=label)
        ax.axhline(1, linewidth=1, color=LOOK["text.color"])
        ax.text(1.01, 1, "onnxruntime", va="center", transform=ax.get_yaxis_transform())
        ax.set(yscale="log", ylim=(1e-3, 10), xlim=(-1, len(rows)), xticks=(), ylabel="time, share of onnxruntime's")
        ax.set_xlabel(f"{len(rows)} exported loops")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="upper left", ncols=3, bbox_to_anchor=(0, 1.12))
        fig.savefig(CHART, metadata={"Date": None})
        plt.close(fig)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True}
