"""What the observations of trials are summed up as: shares of choices, and how other outputs are distributed within each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

EDGES = np.linspace(0.025, 0.975, 6)
"""Where sorted values are cut into parts, whose means are compared."""

FEW = 10
"""An output of so many different values is compared value by value."""

GAP = 0.2
"""Of the range of an output: a gap without values from which on the values on both sides are different choices."""

ROUNDED = 1e-9
"""Of the size of values: differences up to it are those of rounding."""

CELLS, LEAST = 12, 20
"""So many combinations of choices at most; and so many observations of one, from which on its other outputs are compared."""

MOST_CODES, RARE = 6, 0.1
"""So many different choices at most are shown in a message; and the part of their observed share that simulations have at least
of a choice that the model has."""

RESAMPLED = 400
"""How often trials are drawn again to find how much their summary varies."""

Trials = Mapping[str, np.ndarray]
"""For each output an array whose first axis is trials."""


class Summary:
    """Outputs that were observed in the same trials as one row of numbers, each in units of how much it varies.

    A cell is a combination of choices: of values of outputs that have few, or have clear gaps between them.  Its numbers are its
    share of the trials, and for each output the means of parts of the sorted values in it.  These change evenly with the
    parameters, where a quantile of a choice stays the same and then jumps.

    Attributes
    ----------
    count : int
        The number of trials.
    covariance : array
        How the numbers would vary with other data: by drawing the trials again.
    """

    def __init__(self, data: Trials) -> None:
        self.names, self.count = tuple(data), len(next(iter(data.values())))
        cuts = {name: _cuts(values) for name, values in data.items() if values.ndim == 1}
        self.is_mean = {name: _is_choice(values, cuts.get(name, ())) for name, values in data.items()}
        self.cuts = _joint(cuts)
        cells, counts = np.unique(self._cells(data), return_counts=True)
        if (counts < LEAST).all():
            self.cuts, cells, counts = {}, np.zeros(1, int), np.array([LEAST])
        self.is_large = dict(zip(cells.tolist(), (counts >= LEAST).tolist(), strict=True))
        self._middles = {at: self._part(at[1], values) for at, values in self._within(data)}
        rng = np.random.default_rng(0)
        again = [rng.integers(self.count, size=self.count) for _ in range(RESAMPLED)]
        rows = np.array([self._numbers({name: values[which] for name, values in data.items()}) for which in again])
        least = self._least_units(data)
        self._units = np.maximum(rows.std(axis=0) * np.sqrt(self.count), least)
        self.covariance = np.atleast_2d(np.cov(rows / self._units, rowvar=False))
        np.fill_diagonal(self.covariance, np.maximum(np.diag(self.covariance), (least / self._units) ** 2 / self.count))

    def __call__(self, trials: Trials) -> np.ndarray:
        """The numbers of some trials; nan where a value is."""
        if any(np.isnan(trials[name]).any() for name in self.names):
            return np.full(len(self._units), np.nan)
        return self._numbers(trials) / self._units

    def labels(self) -> list[str]:
        """The output that each number is of."""
        shares = ["the shares of choices"] * len(self.is_large)
        return shares + [name for (_, name), part in self._middles.items() for _ in range(part.size)]

    def _cells(self, trials: Trials) -> np.ndarray:
        """The number of the cell of each trial."""
        found = np.zeros(len(trials[self.names[0]]), int)
        for name, cuts in self.cuts.items():
            found = found * (len(cuts) + 1) + np.searchsorted(cuts, trials[name])
        return found

    def _within(self, trials: Trials) -> Iterator[tuple[tuple[int, str], np.ndarray]]:
        """The values of each output in each cell with enough of them."""
        cells = self._cells(trials)
        for cell, is_large in self.is_large.items():
            if is_large:
                yield from (((cell, name), trials[name][cells == cell]) for name in self.names)

    def _part(self, name: str, values: np.ndarray) -> np.ndarray:
        return values.mean(axis=0).ravel() if self.is_mean[name] else means_of_parts(values).ravel()

    def _numbers(self, trials: Trials) -> np.ndarray:
        """The same in units of its own."""
        cells = self._cells(trials)
        found = [np.array([(cells == cell).mean() for cell in self.is_large])]
        for at, values in self._within(trials):
            far = self._part(at[1], values) - self._middles[at] if len(values) else np.zeros_like(self._middles[at])
            found.append(far * len(values) / len(cells))
        return np.concatenate(found)

    def _least_units(self, data: Trials) -> np.ndarray:
        """How much each number varies with one observation at least: what never varied when drawn again still may."""
        cells = self._cells(data)
        shares = np.array([((cells == cell).sum() + 0.5) / (self.count + 1) for cell in self.is_large])
        found = [np.sqrt(shares * (1 - shares))]
        for at, values in self._within(data):
            unit = 0.1 * spread(means_of_parts(data[at[1]])) * len(values) / self.count
            found.append(np.full(self._middles[at].shape, unit))
        return np.concatenate(found)


class Unseen:
    """Observations unlike nearly all simulations: codes of choices, and signs, that no candidate has given often so far.

    Parameters
    ----------
    data : mapping of str to array
        Observations of trials.
    """

    def __init__(self, data: Trials) -> None:
        self._data = {name: values for name, values in data.items() if values.ndim == 1}
        self._ranges = [(name, each) for name, values in self._data.items() for each in _ranges(values)]

    def look_at(self, simulated: Trials) -> None:
        """Leave out what one of the candidates, the first axis, has given."""
        self._ranges = [
            (name, each)
            for name, each in self._ranges
            if each.within(simulated[name]).mean(axis=1).max() < RARE * each.within(self._data[name]).mean()
        ]

    def said(self, simulated: Trials) -> str:
        """What the observations have and the simulations do not, with the cure; empty for nothing."""
        for name, each in self._ranges:
            values = self._data[name]
            said = f"{each.within(values).sum()} of {len(values)} observations of {name} are {each.words}"
            if np.isinf([each.low, each.high]).any():
                cure = f"if the sign means the choice, give np.abs(...) as {name!r}, and the choices as another output"
                return f"{said}, and almost no simulation is: {cure}"
            codes = [*dict.fromkeys(f"{value:.2g}" for value in np.unique(simulated[name]))][:MOST_CODES]
            cure = "give each choice the number that the model has for it, or bounds of parameters with which it is made"
            return f"{said}, and almost no simulation is (these have {', '.join(codes)}): {cure}"
        return ""


class ValueRange(NamedTuple):
    """Values that simulations of some observations reach: those near a code, or of a sign."""

    low: float
    high: float
    words: str

    def within(self, values: np.ndarray) -> np.ndarray:
        """Which values are in it."""
        found: np.ndarray = (values > self.low) & (values < self.high)
        return found


def _ranges(values: np.ndarray) -> list[ValueRange]:
    """What observations have: each frequent code, or each sign."""
    if not has_few(values):
        signs = ValueRange(-np.inf, 0, "below 0"), ValueRange(0, np.inf, "above 0")
        return [each for each in signs if each.within(values).any()]
    codes, counts = np.unique(values, return_counts=True)
    room = GAP * np.ptp(codes) if len(codes) > 1 else 0.5 * (abs(codes[0]) or 1.0)
    return [ValueRange(code - room, code + room, f"{code:.4g}") for code in codes[counts >= LEAST]]


def means_of_parts(values: np.ndarray) -> np.ndarray:
    """The means of parts of sorted values, along the first axis."""
    ordered = np.sort(values, axis=0)
    sums = np.concatenate([np.zeros_like(ordered[:1]), np.cumsum(ordered, axis=0)])
    cuts = EDGES * len(values)
    whole = cuts.astype(int)
    rest = (cuts - whole).reshape(-1, *[1] * (values.ndim - 1))
    means: np.ndarray = np.diff(sums[whole] + rest * (sums[whole + 1] - sums[whole]), axis=0) / (cuts[1] - cuts[0])
    return means


def spread(values: np.ndarray) -> float:
    """The unit in which differences of some values count."""
    found, largest = float(np.std(values)), float(np.abs(values).max())
    return found if found > ROUNDED * largest else largest or 1.0


def has_few(values: np.ndarray) -> bool:
    """Whether values repeat so often that they are choices or small counts."""
    different = len(np.unique(values))
    return different <= min(FEW, max(2, values.size // 3))


def _is_choice(values: np.ndarray, cuts: Sequence[float] | np.ndarray) -> bool:
    """Whether values are all close to those of choices, so that within a choice only their mean counts."""
    ordered = np.sort(values, axis=None)
    groups = np.split(ordered, np.searchsorted(ordered, cuts))
    return has_few(values) or _is_one(values) or (len(groups) > 1 and sum(map(np.ptp, groups)) < GAP * np.ptp(values))


def _is_one(values: np.ndarray) -> bool:
    """Whether all values are those of one choice, the only one that was observed: close together, and far from zero or zero."""
    return bool(np.ptp(values) <= GAP * np.abs(values).min())


def _cuts(values: np.ndarray) -> np.ndarray:
    """Numbers between different choices; none if values are not choices.

    Where one choice was observed they are around it: simulations may have others.
    """
    if _is_one(values):
        middle = float(np.mean(values))
        return middle + np.array([-0.5, 0.5]) * (abs(middle) or 1.0)
    different = np.unique(values)
    middles, gaps = (different[1:] + different[:-1]) / 2, np.diff(different)
    if has_few(values):
        return middles
    return middles[gaps > GAP * np.ptp(values)]


def _joint(cuts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs that cells are combinations of: those with the fewest choices first."""
    found, cells = dict[str, np.ndarray](), 1
    for name in sorted(cuts, key=lambda name: len(cuts[name])):
        cells *= len(cuts[name]) + 1
        if len(cuts[name]) and cells <= CELLS:
            found[name] = cuts[name]
    return found
