"""What is made of the trials of a point: moments, quantiles, or what a function makes of them.

Mean, variance and their like are parts that are merged (Chan, Golub and LeVeque's formulas): those of some trials and those of
others give those of both.  A part has a row for each group of trials, and counts element by element what is there: trials may
fail, be NaN, or be shorter than others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.errors import ArgumentError, unknown_name

State = dict[str, np.ndarray]
"""Parts by name, each with a row for each group."""


@dataclass(frozen=True)
class Moments:
    """A number made of parts that can be merged.

    Attributes
    ----------
    name : str
    parts : tuple of str
        ``count`` and ``total``; ``count``, ``mean`` and ``spread`` (the sum of squared distances from the mean); ``extreme``.
    """

    name: str
    parts: tuple[str, ...]

    def begun(self, trials: Sequence[np.ndarray], there: Sequence[np.ndarray], output: str = "") -> State:
        """The parts of groups, of the first trial of each, the second, and so on, and whether each is there.

        Raises
        ------
        ArgumentError
            The values are no numbers.
        """
        if trials[0].dtype.kind not in "biuf":
            raise ArgumentError(f"reduce={self.name!r} is for numbers; output {output!r} is of type {trials[0].dtype}")
        if "extreme" in self.parts:
            return {"extreme": _folded(self._further, trials, there, _missing(trials[0], there[0]))}
        dtype = self._type(trials[0].dtype)
        count: np.ndarray = np.asarray(np.sum(there, axis=0, dtype=np.int64))
        nothing = -np.zeros(count.shape, dtype)  # the sum of nothing but -0.0 is -0.0
        total = _folded(lambda sum, x: sum + x, trials, there, nothing)
        if "total" in self.parts:
            return {"count": count, "total": total}
        mean = np.where(count > 0, total / np.maximum(count, 1), 0).astype(dtype)
        spread = _folded(lambda sum, x: sum + (x - mean) ** 2, trials, there, np.zeros_like(mean))
        return {"count": count, "mean": mean, "spread": spread}

    def merged(self, a: State, b: State) -> State:
        """The parts of both, group by group."""
        if "extreme" in self.parts:
            return {"extreme": self._further(a["extreme"], b["extreme"])}
        count = a["count"] + b["count"]
        if "total" in self.parts:
            return {"count": count, "total": a["total"] + b["total"]}
        distance, dtype = b["mean"] - a["mean"], a["mean"].dtype
        part = (b["count"] / np.maximum(count, 1)).astype(dtype)
        mean, spread = a["mean"] + distance * part, a["spread"] + b["spread"] + distance**2 * (part * a["count"]).astype(dtype)
        only_a, only_b = b["count"] == 0, a["count"] == 0
        choose = [only_a, only_b]
        mean = np.select(choose, [a["mean"], b["mean"]], mean)
        return {"count": count, "mean": mean, "spread": np.select(choose, [a["spread"], b["spread"]], spread)}

    def made(self, state: State) -> np.ndarray:
        """The number itself; NaN where nothing is there."""
        if self.name == "count":
            return state["count"]
        if "extreme" in self.parts:
            return state["extreme"]
        count = state["count"]
        if self.name == "sum":
            return state["total"] if count.all() else np.where(count > 0, state["total"], np.nan)
        over = state["total"] if self.name == "mean" else state["spread"]
        found = (over / count).astype(over.dtype)
        return np.sqrt(found) if self.name == "std" else found

    def _type(self, dtype: np.dtype) -> np.dtype:
        """The type in which numbers are added up."""
        if self.name in ("sum", "count") and dtype.kind in "biu":
            return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
        return np.result_type(dtype, np.float32) if dtype.kind == "f" else np.dtype(np.float64)

    @property
    def _further(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        return np.fmin if self.name == "min" else np.fmax


MOMENTS = {
    **{name: Moments(name, ("count", "mean", "spread")) for name in ("std", "var")},
    **{name: Moments(name, ("extreme",)) for name in ("min", "max")},
    **{name: Moments(name, ("count", "total")) for name in ("mean", "sum", "count")},
}
"""Those that there are."""

NOTHING = {"count": 0, "total": -0.0, "mean": 0.0, "spread": 0.0, "extreme": np.nan}
"""What a part is where no trial is there."""


def _missing(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Values, with NaN where there is none; whole numbers stay whole where all are there."""
    return values if there.all() else np.where(there, values, values.dtype.type(np.nan) if values.dtype.kind == "f" else np.nan)


def _folded(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    trials: Sequence[np.ndarray],
    there: Sequence[np.ndarray],
    start: np.ndarray,
) -> np.ndarray:
    """One trial after the other, as numpy adds up a few: arrays of any layout give the same bits."""
    for values, is_there in zip(trials, there, strict=True):
        start = np.where(is_there, step(start, values), start).astype(start.dtype, copy=False)
    return start


Function = Callable[[np.ndarray], Any]
"""Makes something of an array whose first axis are the trials of a point."""

One: TypeAlias = "Moments | Function"
Reduce: TypeAlias = "Mapping[str, One]"
"""By output; of others nothing is kept."""

MEDIAN = partial(np.nanmedian, axis=0)
KNOWN: dict[str, One] = {"mean": MOMENTS["mean"], "median": MEDIAN, **MOMENTS}
"""Reductions by name; values that are not there do not count."""

QUANTILE = "quantile"
"""The dimension of quantiles."""


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of some levels, along a first axis."""

    levels: tuple[float, ...]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return np.nanquantile(values, self.levels, axis=0)

    def of_points(self, values: np.ndarray) -> np.ndarray:
        """The same of many points at once, none of whose values is nan: the second axis are trials."""
        return np.moveaxis(np.quantile(values, self.levels, axis=1), 0, 1)


def reduce_of(said: Any, outputs: Iterable[str]) -> Reduce | None:
    """The reduction that ``reduce`` says.

    Parameters
    ----------
    said : str, sequence of float, callable, mapping of output to one of these, or None
        A name of :data:`KNOWN`; quantiles; or a function of an array, whose first axis are trials.
    outputs : iterable of str
        Those that there are.

    Raises
    ------
    ArgumentError
        It is something else, or for an output that is not there.
    """
    if said is None:
        return None
    known = list(outputs)
    if not isinstance(said, Mapping):
        return dict.fromkeys(known, one_of(said))
    for name in said:
        if name not in known:
            raise unknown_name("reduce is for outputs that are kept; there is none called", str(name), known)
    return {name: one_of(value) for name, value in said.items()}


def in_words(one: One) -> Any:
    """A reduction as it was asked for: functions of :data:`KNOWN` by their names."""
    return next((name for name, function in KNOWN.items() if function is one), one)


def made_of(one: One) -> str | list[float] | None:
    """What can stand in a file of what is made of an output: a name, levels of quantiles, or None for a caller's function."""
    if isinstance(one, Quantiles):
        return list(one.levels)
    said = in_words(one)
    return said if isinstance(said, str) else None


def keeps_rows(one: One) -> bool:
    """Whether what is made of an output has its axes but for that of the trials: what a function makes is not known."""
    return one is MEDIAN or isinstance(one, Moments | Quantiles)


def one_of(said: Any) -> One:
    """What ``reduce`` says of one output; see :func:`reduce_of`."""
    if callable(said):
        return said
    if isinstance(said, str) and said in KNOWN:
        return KNOWN[said]
    if isinstance(said, Sequence | np.ndarray) and not isinstance(said, str):
        levels = np.asarray(said)
        if levels.ndim == 1 and levels.size and levels.dtype.kind in "iuf" and ((levels >= 0) & (levels <= 1)).all():
            return Quantiles(tuple(levels.tolist()))
    raise ArgumentError(f"reduce is {', '.join(KNOWN)}, quantiles from 0 to 1, or a function of an array; got {said!r}")
