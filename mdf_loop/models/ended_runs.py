"""How many runs ended at M, in words."""

from __future__ import annotations

from typing import Any

import numpy as np


def ended_at_m(stops: np.ndarray) -> np.ndarray:
    """Which runs ended by the trip count."""
    return np.asarray(stops == "trip count")


def at_m_in_words(count: int, runs: str) -> str:
    """How many of some runs a condition did not end."""
    return f"{count:,} of {runs} ended at M, not earlier by their condition"


def trials_in_words(trials: int) -> str:
    """How many trials there are."""
    return f"{trials} trial{'s' if trials > 1 else ''}"


def cut_off(about: Any) -> str:
    """How many trials, or whether the only run, ended at M, if a condition could have ended them before: without a decision."""
    if about.trials is None:
        return ", ended at M, not earlier by its condition" if about.may_decide and about.stop == "trip count" else ""
    count = int(ended_at_m(about.stop).sum()) if np.ndim(about.stop) else 0
    if not count or (count == about.trials and not about.may_decide):
        return ""
    return ", " + at_m_in_words(count, trials_in_words(about.trials))
