"""Models and results as HTML for notebooks, results as text as well.  Nothing is run for that, and nothing is read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import shortened
from mdf_loop.models.ended_runs import cut_off, trials_in_words
from mdf_loop.plots.series import are_codes
from mdf_loop.system.html import escaped, folded, table
from mdf_loop.types.ports import UNKNOWN, shown

MOST_ROWS, FEW = 50, 6
"""Rows of a table, and elements of an array, that are shown."""


def model_html(model: Any) -> str:
    """A model: its name, and tables of its inputs and outputs."""
    where = f" from {escaped(model.source)}" if model.source else ""
    given = [port for port in model.inputs.values() if not isinstance(port.default, Mapping)]  # a body is none to give
    inputs = [(p.name, str(p.type), "" if p.default is None else shown(p.default), p.place) for p in given]
    outputs = [(p.name, "as computed" if str(p.type) == UNKNOWN else str(p.type), p.place) for p in model.outputs.values()]
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
    recorded = _rows(about.recorded, about.trials)
    return (
        f"<div><b>{escaped(_title(about))}</b>"
        f"{_folded('outputs', _COLUMNS, _rows(results, about.trials))}"
        f"{_folded('recorded', _COLUMNS, recorded) if recorded else ''}"
        f"{_folded('run', _COLUMNS, said, is_open=False)}</div>"
    )


_COLUMNS = ("name", "type", "value")


def results_text(results: Any) -> str:
    """Results in a few lines: a line for each output and for what was recorded."""
    about = results.about
    parts = (("", results), ("recorded ", about.recorded))
    rows = [(f"{word}{name}", *rest) for word, part in parts for name, *rest in _rows(part, about.trials)]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(2)]
    lines = [f"  {name:{widths[0]}}  {kind:{widths[1]}}  {value}".rstrip() for name, kind, value in rows[:MOST_ROWS]]
    more = [f"  ... and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    return "\n".join([_title(about), *lines, *more])


def _title(about: Any) -> str:
    trials = "" if about.trials is None else f", {trials_in_words(about.trials)}"
    return f"results of {about.model or 'a model'}{cut_off(about) or trials}"


def spread(name: str, value: Any) -> str:
    """The mean of a number over trials, and how far it is spread, or how often labels are there.

    Empty for anything but one number or truth of each trial.
    """
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "biuf":
        return ""
    there = value[np.isfinite(value)].astype(np.float64)
    if not there.size:
        return ""
    if value.dtype.kind == "b":
        return f"true in {there.mean():.1%} of trials"
    if are_codes(name, there, least=1):
        codes, counts = np.unique(there, return_counts=True)
        first = np.argsort(-counts, kind="stable")[:FEW]
        return ", ".join(f"{codes[k]:g} in {counts[k] / len(there):.1%}" for k in first) + " of trials"
    return f"{there.mean():.4g} +- {there.std():.2g}, from {there.min():.4g} to {there.max():.4g}"


def _rows(values: Mapping[str, Any], trials: int | None) -> list[tuple[str, str, str]]:
    said = {} if trials is None else {name: spread(name, value) for name, value in values.items()}
    return [(name, _type(value), said.get(name) or _value(value)) for name, value in values.items()]


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
    return f"{value:.6g}" if isinstance(value, float) else shortened(str(value), 60)
