"""The seed of each trial: independent streams from one number, the same whoever runs the trial, and when."""

from __future__ import annotations

import numpy as np

from mdf_loop.options import Seed


def seed_of(seed: Seed, point: int, trial: int, common_noise: bool = False) -> np.random.SeedSequence:
    """The seed of one trial at one point of a grid.

    Parameters
    ----------
    seed : int or SeedSequence
        Of the whole sweep.
    point, trial : int
        Which it is; points are numbered in C order.
    common_noise : bool
        Every point gets the same streams.

    Examples
    --------
    >>> seed_of(1, 2, 3)
    SeedSequence(
        entropy=1,
        spawn_key=(2, 3),
    )
    """
    key = (trial,) if common_noise else (point, trial)
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))
    return np.random.SeedSequence(int(seed), spawn_key=key)
