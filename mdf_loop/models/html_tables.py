"""Models and results as HTML for notebooks.  What is shown is what is known: nothing is run, and nothing is read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mdf_loop.system.html import escaped, folded, table
from mdf_loop.types.ports import shown

MOST_ROWS, FEW = 50, 6
"""Rows of a table, and elements of an array, that are shown."""


def model_html(model: Any) -> str:
    """A model: its name, and tables of its inputs and outputs."""
    where = f" from {escaped(model.source)}" if model.source else ""
    inputs = [(p.name, str(p.type), "" if p.default is None else shown(p.default), p.place) for p in model.inputs.values()]
    outputs = [(p.name, str(p.type), p.place) for p in model.outputs.values()]
    return (
        f"<div><b>model {escaped(model.name)}</b>{where}"
        f"{_folded('inputs', ('name', 'type', 'default', 'place'), inputs)}"
        f"{_folded('outputs', ('name', 'type', 'place'), outputs)}</div>"
    )


def results_html(results: Any) -> str:
    """Results: their outputs, what was recorded, and how they came about."""
    about = results.about
    run = {"iterations": about.iterations, "stop": about.stop, "seed": about.seed, "trials": about.trials}
    run |= {f"input {name}": value for name, value in about.inputs.items()}
    run |= {f"option {name}": value for name, value in about.options.items()}
    said = [(name, _type(value), _value(value)) for name, value in run.items() if value is not None]
    return (
        f"<div><b>results of {escaped(about.model or 'a model')}</b>"
        f"{_folded('outputs', _COLUMNS, _rows(results))}"
        f"{_folded('recorded', _COLUMNS, _rows(about.recorded)) if about.recorded else ''}"
        f"{_folded('run', _COLUMNS, said, is_open=False)}</div>"
    )


_COLUMNS = ("name", "type", "value")


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(name, _type(value), _value(value)) for name, value in values.items()]


def _folded(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], is_open: bool = True) -> str:
    rows = list(rows)
    more = f"<p>... and {len(rows) - MOST_ROWS} more</p>" if len(rows) > MOST_ROWS else ""
    return folded(f"{title} ({len(rows)})", table(columns, rows[:MOST_ROWS]) + more, is_open)


def _type(value: Any) -> str:
    """Element type and shape, by what the value says of itself."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, list | tuple | dict):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def _value(value: Any) -> str:
    """The value, or how it begins; nothing of one that is not in memory."""
    if isinstance(value, np.ndarray | np.generic):
        some = ", ".join(_short(item) for item in value.flat[:FEW].tolist()) if value.size else ""
        return some if not np.ndim(value) else f"[{some}{', ...' if value.size > FEW else ''}]"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_type, value[:FEW]))}{', ...' if len(value) > FEW else ''}]"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_short(item)}" for name, item in list(value.items())[:FEW])
    return "" if hasattr(value, "shape") else _short(value)


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
